//! A random run of all that changes a show, with a record of what the replies said had happened: the same
//! words that [`told`] makes of the events that were replicated.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};

use allot_core::seat::{Event, Show};

use crate::random::Random;
use crate::raw::{RawClient, Reply, read_reply};
use crate::redis_server::RedisServer;
use crate::shows::seats_of;
use crate::stream::{self, Command};

/// Names of blocks.
const BLOCKS: [&str; 2] = ["press", "sponsors"];

/// A life that no test outlives.
pub const LONG_TTL_MS: i64 = 3_600_000;

/// The random run on one key. What it did so far is in `done`, one line for each event but expiries, which
/// come when they come.
#[derive(Debug)]
pub struct SeatWorkload {
    key: String,
    client: RawClient,
    random: Random,
    seats: Vec<String>,
    /// Live holds, as far as is known: token, user, seats, deadline.
    holds: BTreeMap<String, (String, Vec<String>, i64)>,
    sold: Vec<String>,
    blocked: Vec<String>,
    /// Seats that were taken from a block, and may be of it still.
    of_blocks: HashSet<String>,
    /// The last end of a block.
    last_end: i64,
    number: usize,
    /// What the replies said.
    pub done: Vec<String>,
}

impl SeatWorkload {
    /// A run on a show that exists, over a connection of its own.
    pub fn new(mut client: RawClient, key: &str, seed: u64) -> Self {
        let plan = client.call(&["SEAT.PLAN", key]).text();
        let show = Show::open(&plan, 0).expect("a plan that the server gave");
        let venue = show.venue();
        let seats = venue.rows().flat_map(|row| venue.seats_of(row)).map(|seat| venue.id(seat)).collect();
        let (holds, sold, blocked, done) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            key: key.into(),
            client,
            random: Random::new(seed),
            seats,
            holds,
            sold,
            blocked,
            of_blocks: HashSet::new(),
            last_end: 0,
            number: 0,
            done,
        }
    }

    /// Goes on over another connection: the server was restarted.
    pub fn reconnect(&mut self, client: RawClient) {
        self.client = client;
    }

    /// So many random commands.
    pub fn run(&mut self, steps: usize) -> &mut Self {
        (0..steps).for_each(|_| self.step());
        self
    }

    /// One random command.
    pub fn step(&mut self) {
        self.number += 1;
        match self.random.below(25) {
            0..=6 => self.hold(),
            7 => self.pick(),
            8 => self.add(),
            9 => self.extend(),
            10..=11 => self.confirm(),
            12..=14 => self.release(),
            15..=17 => self.refund(),
            18 => self.block(),
            19..=20 => self.wait(),
            21 => self.move_sales(),
            22 => self.transfer(),
            23 => self.block_hold(),
            _ => self.alter(),
        }
    }

    fn call(&mut self, command: &str, arguments: &[&str]) -> Reply {
        let words = [&[command, &self.key], arguments].concat();
        let reply = self.client.call(&words);
        if let Reply::Error(text) = &reply {
            let code = text.split(' ').next().unwrap_or_default();
            let expected = ["NOTFOUND", "BADSTATE", "LIMIT", "NOADJACENT", "NOTOWNER", "EXISTS"];
            assert!(expected.contains(&code), "{words:?} was answered {text}");
        }
        reply
    }

    /// Short lives are common, and short enough for much to expire while the run lasts.
    fn life(&mut self) -> String {
        if self.random.once_in(2) { LONG_TTL_MS.to_string() } else { self.random.within(1, 12).to_string() }
    }

    fn granted(&mut self, record: &Reply, replaced: Option<&str>) {
        if !matches!(record, Reply::Array(_) | Reply::Map(_)) {
            return;
        }
        let (token, user) = (record.field("token").text(), record.field("user").text());
        let (seats, until) = (seats_of(record), record.field("until").int());
        if let Some(replaced) = replaced {
            self.holds.remove(replaced);
        }
        self.of_blocks.retain(|seat| !seats.contains(seat));
        self.done.push(format!("held {token} by {user} until {until}: {}", sorted(seats.clone())));
        self.holds.insert(token, (user, seats, until));
    }

    fn hold(&mut self) {
        let user = format!("user{}", self.random.below(12));
        let (count, ttl, token) =
            (self.random.within(1, 6).to_string(), self.life(), format!("t{}", self.number));
        let tier = *self.random.of(&["gold", "silver", "bronze"]);
        let adjacent = *self.random.of(&["PREFER", "REQUIRE", "AREA", "IGNORE"]);
        let orphans = *self.random.of(&["AVOID", "ALLOW"]);
        let mut words = vec![user.as_str(), &count, "TTL", &ttl, "ADJACENT", adjacent, "ORPHANS", orphans];
        if !self.random.once_in(3) {
            words.extend(["TIER", tier]);
        }
        words.extend(self.flags());
        if self.random.once_in(4) {
            words.extend(["FROM", *self.random.of(&BLOCKS)]);
        }
        if !self.random.once_in(4) {
            words.extend(["TOKEN", &token]);
        }
        let old = self.holds.iter().find(|(_, hold)| hold.0 == user).map(|(token, _)| token.clone());
        let replaced = old.filter(|_| self.random.once_in(3));
        if let Some(old) = &replaced {
            words.extend(["REPLACE", old]);
        }
        let record = self.call("SEAT.HOLD", &words);
        self.granted(&record, replaced.as_deref());
        if words.contains(&"FROM")
            && let Reply::Array(_) | Reply::Map(_) = record
        {
            self.of_blocks.extend(seats_of(&record));
        }
        if replaced.is_none()
            && words.contains(&"TOKEN")
            && !record.is_null()
            && ttl == LONG_TTL_MS.to_string()
        {
            // The same request again is answered the same and changes nothing.
            if let Reply::Array(_) = record {
                let again = self.call("SEAT.HOLD", &words);
                // Seats beside the hold may have become free since.
                for field in ["token", "user", "seats", "until"] {
                    assert_eq!(again.field(field), record.field(field), "{words:?}");
                }
            }
        }
    }

    /// What a request says of flags; only two seats have one.
    fn flags(&mut self) -> Vec<&'static str> {
        let options: [&[&str]; 3] =
            [&["FLAGS", "1", "wheelchair"], &["NEED", "1", "wheelchair"], &["WISH", "wheelchair"]];
        let chosen = options.into_iter().filter(|_| self.random.once_in(6));
        chosen.flatten().copied().collect()
    }

    fn pick(&mut self) {
        let user = format!("user{}", self.random.below(12));
        let (ttl, first) = (self.life(), self.random.below(self.seats.len() - 3));
        let names: Vec<String> = self.seats[first..first + self.random.within(1, 3)].to_vec();
        let count = names.len().to_string();
        let mut words = vec![user.as_str(), "TTL", &ttl, "SEATS", &count];
        words.extend(names.iter().map(String::as_str));
        let record = self.call("SEAT.PICK", &words);
        self.granted(&record, None);
    }

    /// Adds seats to a hold, of the user's choice or the best.
    fn add(&mut self) {
        let Some((token, before)) = self.some_hold() else { return };
        let user = self.holds[&token].0.clone();
        let (once, ttl) = (format!("once{}", self.number), self.life());
        let seat = self.random.of(&self.seats).clone();
        let picked = self.random.once_in(2);
        let words = if picked {
            vec![user.as_str(), "TTL", &ttl, "TOKEN", &token, "ADD", "SEATS", "1", &seat]
        } else {
            vec![user.as_str(), "2", "TTL", &ttl, "TOKEN", &token, "ADD", "ONCE", &once]
        };
        let command = if picked { "SEAT.PICK" } else { "SEAT.HOLD" };
        let record = self.call(command, &words);
        if !matches!(record, Reply::Array(_) | Reply::Map(_)) {
            return;
        }
        let (seats, until) = (seats_of(&record), record.field("until").int());
        if until != self.holds[&token].2 {
            // The hold had expired, so the request has made one.
            self.granted(&record, None);
            return;
        }
        let added: Vec<String> = seats.iter().filter(|seat| !before.contains(seat)).cloned().collect();
        self.of_blocks.retain(|seat| !added.contains(seat));
        if !added.is_empty() {
            self.done.push(format!("added to {token}: {}", sorted(added)));
        }
        self.holds.entry(token).and_modify(|hold| hold.1 = seats);
    }

    /// A live hold, as far as is known.
    fn some_hold(&mut self) -> Option<(String, Vec<String>)> {
        let tokens: Vec<&String> = self.holds.keys().collect();
        let token = (!tokens.is_empty()).then(|| (*self.random.of(&tokens)).clone())?;
        let seats = self.holds[&token].1.clone();
        Some((token, seats))
    }

    fn extend(&mut self) {
        let Some((token, _)) = self.some_hold() else { return };
        let ttl = self.life();
        match self.call("SEAT.EXTEND", &[&token, "TTL", &ttl]) {
            Reply::Int(until) => {
                self.done.push(format!("extended {token} until {until}"));
                self.holds.entry(token).and_modify(|hold| hold.2 = until);
            }
            gone => self.must_be_gone(&token, &gone),
        }
    }

    /// Only what has expired is not to be found.
    fn must_be_gone(&mut self, token: &str, reply: &Reply) {
        assert!(reply.error().starts_with("NOTFOUND "), "{reply:?}");
        let (_, _, until) = self.holds.remove(token).expect("a hold on record");
        assert!(until < hold_horizon(), "hold {token} is gone before its time");
    }

    fn confirm(&mut self) {
        let Some((token, seats)) = self.some_hold() else { return };
        let order = format!("order{}", self.number);
        let words = [token.as_str(), "ORDER", &order];
        let words = if self.random.once_in(4) { &words[..1] } else { &words[..] };
        match self.call("SEAT.CONFIRM", words) {
            Reply::Int(sold) => {
                assert_eq!(sold as usize, seats.len());
                assert_eq!(self.call("SEAT.CONFIRM", words), Reply::Int(sold), "the same again");
                self.done.push(format!("confirmed {token} for {}", words.get(2).unwrap_or(&"nothing")));
                self.sold.extend(seats);
                self.holds.remove(&token);
            }
            gone => self.must_be_gone(&token, &gone),
        }
    }

    fn release(&mut self) {
        let Some((token, mut seats)) = self.some_hold() else { return };
        let part = self.random.within(1, seats.len());
        let all = self.random.once_in(2);
        let count = part.to_string();
        let mut words = vec![token.as_str()];
        if !all {
            words.extend(["SEATS", &count]);
            words.extend(seats[..part].iter().map(String::as_str));
        }
        let into = self.into(&seats);
        words.extend(into);
        match self.call("SEAT.RELEASE", &words) {
            Reply::Int(freed) => {
                let left = seats.split_off(if all { seats.len() } else { part });
                assert_eq!(freed as usize, seats.len());
                let seats = sorted(seats);
                self.done.push(format!("released {token}: {seats}"));
                if !into.is_empty() {
                    self.done.push(format!("blocked {seats}"));
                }
                if left.is_empty() {
                    self.holds.remove(&token);
                } else {
                    self.holds.entry(token).and_modify(|hold| hold.1 = left);
                }
            }
            gone => self.must_be_gone(&token, &gone),
        }
    }

    fn refund(&mut self) {
        if self.sold.is_empty() {
            return;
        }
        let mut seats = Vec::new();
        for _ in 0..self.random.within(1, 5).min(self.sold.len()) {
            let place = self.random.below(self.sold.len());
            seats.push(self.sold.swap_remove(place));
        }
        let (count, into) = (seats.len().to_string(), self.into(&seats));
        let mut words: Vec<&str> = into.to_vec();
        words.push(&count);
        words.extend(seats.iter().map(String::as_str));
        assert_eq!(self.call("SEAT.REFUND", &words), Reply::Int(seats.len() as i64));
        let seats = sorted(seats);
        self.done.push(format!("refunded {seats}"));
        if !into.is_empty() {
            self.done.push(format!("blocked {seats}"));
        }
    }

    /// Seats that are given up go into a block sometimes, if they are of none.
    fn into(&mut self, seats: &[String]) -> &'static [&'static str] {
        static INTO: [[&str; 2]; 2] = [["INTO", BLOCKS[0]], ["INTO", BLOCKS[1]]];
        let fits = seats.iter().all(|seat| !self.of_blocks.contains(seat));
        if fits && self.random.once_in(5) { &INTO[self.random.below(2)] } else { &[] }
    }

    /// A hold becomes blocked seats, if they are of no block.
    fn block_hold(&mut self) {
        let Some((token, seats)) = self.some_hold() else { return };
        if seats.iter().any(|seat| self.of_blocks.contains(seat)) {
            return;
        }
        let named = self.random.once_in(2);
        let name = *self.random.of(&BLOCKS);
        let words = if named { vec!["NAME", name, "HOLD", &token] } else { vec!["HOLD", &token] };
        match self.call("SEAT.BLOCK", &words) {
            Reply::Int(blocked) => {
                assert_eq!(blocked as usize, seats.len());
                let ids = sorted(seats.clone());
                self.done.push(format!("released {token}: {ids}"));
                self.done.push(format!("blocked {ids}"));
                self.holds.remove(&token);
                if !named {
                    self.blocked.extend(seats);
                }
            }
            gone => self.must_be_gone(&token, &gone),
        }
    }

    /// Sales swap their seats, or move to others, which may not be free.
    fn move_sales(&mut self) {
        if self.sold.len() < 2 {
            return;
        }
        let first = self.random.below(self.sold.len() - 1);
        let from = self.sold[first..first + 2].to_vec();
        let mut to = vec![from[1].clone(), from[0].clone()];
        if !self.random.once_in(3) {
            let other = self.random.below(self.seats.len() - 1);
            to = self.seats[other..other + 2].to_vec();
        }
        let words = ["ANYTIER", "2", &from[0], &to[0], &from[1], &to[1]];
        if let Reply::Int(moved) = self.call("SEAT.MOVE", &words) {
            assert_eq!(moved, 2);
            self.of_blocks.retain(|seat| !to.contains(seat));
            drop(self.sold.splice(first..first + 2, to.clone()));
            self.done.push(format!("moved {} to {}", sorted(from), sorted(to)));
        }
    }

    /// Another user has sold seats, under an order of their own.
    fn transfer(&mut self) {
        if self.sold.is_empty() {
            return;
        }
        let seat = self.random.of(&self.sold).clone();
        let (user, order) = (format!("friend{}", self.random.below(9)), format!("order{}", self.number));
        let words = [&user, "TO", "ORDER", &order, "SEATS", "1", &seat];
        assert_eq!(self.call("SEAT.TRANSFER", &words), Reply::Int(1));
        self.done.push(format!("transferred {seat} to {user}"));
    }

    fn block(&mut self) {
        if let Some(seat) = self.blocked.pop() {
            assert_eq!(self.call("SEAT.UNBLOCK", &["1", &seat]), Reply::Int(1));
            self.done.push(format!("unblocked {seat}"));
        }
        let seat = self.random.of(&self.seats).clone();
        if let Reply::Int(1) = self.call("SEAT.BLOCK", &["1", &seat]) {
            self.done.push(format!("blocked {seat}"));
            self.blocked.push(seat);
        }
        self.block_with_name_or_end();
    }

    /// Blocks and unblocks seats in blocks. Such seats are not unblocked one by one, because holds may take them.
    fn block_with_name_or_end(&mut self) {
        let (name, seat) = (*self.random.of(&BLOCKS), self.random.of(&self.seats).clone());
        let end = time_now() + self.random.within(5, 60) as i64;
        if self.random.once_in(4) {
            self.call("SEAT.UNBLOCK", &["NAME", name]);
            return;
        }
        self.last_end = self.last_end.max(end);
        let end = end.to_string();
        // On a slow machine an end may have passed when the server reads it.
        let reply = match self.random.below(3) {
            0 => self.client.call(&["SEAT.BLOCK", &self.key, "UNTIL", &end, "1", &seat]),
            1 => self.client.call(&["SEAT.BLOCK", &self.key, "NAME", name, "UNTIL", &end, "1", &seat]),
            _ => self.call("SEAT.BLOCK", &["NAME", name, "1", &seat]),
        };
        if reply == Reply::Int(1) {
            self.done.push(format!("blocked {seat}"));
        }
    }

    /// Ends all blocks with a name or an end, so that none ends by itself later.
    pub fn end_blocks(&mut self) {
        while time_now() <= self.last_end {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        // Every request ends the blocks whose time is over.
        for name in BLOCKS {
            self.call("SEAT.UNBLOCK", &["NAME", name]);
        }
    }

    /// A user waits for seats: mostly for a moment, sometimes for all seats of a tier, which are in several rows. Offers are not recorded,
    /// because they come when seats become free, as by expiries.
    fn wait(&mut self) {
        let user = format!("waiter{}", self.random.below(20));
        let token = format!("w{}", self.number);
        let &(tier, all) = self.random.of(&[("gold", "26"), ("silver", "9"), ("bronze", "40")]);
        let (count, ttl) = if self.random.once_in(4) {
            (all.to_owned(), LONG_TTL_MS)
        } else {
            (self.random.within(1, 6).to_string(), self.random.within(1, 60) as i64)
        };
        let (ttl, offer) = (ttl.to_string(), self.random.within(1, 12).to_string());
        let priority = *self.random.of(&["0", "0", "7", "-7"]);
        let mut words = vec![
            user.as_str(),
            &count,
            "TTL",
            &ttl,
            "OFFER",
            &offer,
            "TIER",
            tier,
            "ADJACENT",
            "REQUIRE",
            "PRIORITY",
            priority,
            "TOKEN",
            &token,
        ];
        words.extend(self.flags());
        self.call("SEAT.WAIT", &words);
    }

    fn alter(&mut self) {
        // Always another name, so that there always is something to change.
        let (number, priority) = (self.number, self.random.within(1, 3));
        let rule = *self.random.of(&["ltr", "rtl", "center"]);
        let events = [10, 100, 1000][self.random.below(3)];
        // A new order of the rows gives other numbers to their seats.
        let rows = match self.random.below(3) {
            0 => String::new(),
            rank => format!(r#","rows":[{{"label":"1","rank":{}}}]"#, 2 * rank - 1),
        };
        let part = format!(
            r#"{{"areas":[{{"id":"back","name":"n{number}","priority":{priority},"rule":"{rule}"{rows}}}],
                "events":{events},"limits":{{"max_hold_ms":{}}}}}"#,
            10 * LONG_TTL_MS + number as i64
        );
        assert_eq!(self.call("SEAT.ALTER", &[&part]), Reply::Simple("OK".into()));
        self.done.push("altered".to_owned());
    }

    /// The live holds that cannot have expired: token, seats.
    pub fn lasting(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        self.holds.iter().filter(|(_, hold)| hold.2 > hold_horizon()).map(|(token, hold)| (token, &hold.1))
    }
}

/// A time that lasting holds do not expire before.
fn hold_horizon() -> i64 {
    time_now() + LONG_TTL_MS / 2
}

/// Ids of seats in an order that does not depend on the plan, which changes during a run.
fn sorted(mut ids: Vec<String>) -> String {
    ids.sort_unstable();
    ids.join(" ")
}

/// Milliseconds since 1970.
fn time_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    now.as_millis() as i64
}

/// A `SEAT.APPLY` as it was replicated: its time, and its events.
#[track_caller]
pub fn events_of(command: &Command) -> (i64, Vec<Event>) {
    stream::events_of("SEAT.APPLY", command)
}

/// The steps of a server as its append-only file has them: time and events of each.
#[track_caller]
pub fn steps_of(server: &RedisServer) -> Vec<(i64, Vec<Event>)> {
    let file = File::open(server.append_only_file()).expect("an append-only file");
    let (mut file, mut steps) = (BufReader::new(file), Vec::new());
    while !file.fill_buf().expect("a file that can be read").is_empty() {
        let words = read_reply(&mut file).expect("a whole command");
        let word = |word: &Reply| match word {
            Reply::Bulk(bytes) => bytes.clone(),
            other => panic!("{other:?}"),
        };
        let command: Command = words.array().iter().map(word).collect();
        if command[0] == b"SEAT.APPLY" {
            steps.push(events_of(&command));
        }
    }
    steps
}

/// An event in the words of [`SeatWorkload::done`]; nothing for what a reply does not tell of.
pub fn told(show: &Show, event: &Event) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ids = |seats: &[u32]| sorted(seats.iter().map(|&seat| show.venue().id(seat)).collect());
    Some(match event {
        Event::Held(held) => {
            let (token, user) = (text(&held.token), text(&held.user));
            format!("held {token} by {user} until {}: {}", held.until, ids(&held.seats))
        }
        Event::Added { token, seats, .. } => format!("added to {}: {}", text(token), ids(seats)),
        Event::Extended { token, until } => format!("extended {} until {until}", text(token)),
        Event::Confirmed { token, order } => {
            let order = order.as_ref().map_or_else(|| "nothing".to_owned(), |order| text(order));
            format!("confirmed {} for {order}", text(token))
        }
        Event::Released { token, seats } => format!("released {}: {}", text(token), ids(seats)),
        Event::Refunded { seats } => format!("refunded {}", ids(seats)),
        Event::Moved { from, to } => format!("moved {} to {}", ids(from), ids(to)),
        Event::Transferred { user, seats, .. } => format!("transferred {} to {}", ids(seats), text(user)),
        Event::Blocked { seats, .. } => format!("blocked {}", ids(seats)),
        Event::Unblocked { seats } => format!("unblocked {}", ids(seats)),
        Event::Altered { .. } | Event::Arranged { .. } => "altered".to_owned(),
        // Offers come when seats become free, as by expiries.
        // Blocks end at their times, too.
        Event::Waited(_)
        | Event::BlockEnded { .. }
        | Event::Offered { .. }
        | Event::Unwaited { .. }
        | Event::Created { .. }
        | Event::Expired { .. }
        | Event::Passed
        | Event::Flushed { .. } => return None,
    })
}
