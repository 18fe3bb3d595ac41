//! A rush of carts: many buyers click seat by seat at once while others wait. Nobody loses a seat of a cart, a cart keeps the
//! deadline of its first click, the limits hold, and freed seats go to those who wait, in the order of their arrival.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::thread;

use allot_core::seat::Event;
use allot_tests::seat_workload::{LONG_TTL_MS, steps_of};
use allot_tests::shows::{
    Books, books, create, listed, no_internal_errors, sample_venue_with, seats_of, with_events,
};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Random, RawClient, RedisServer, Reply, eventually, soak};

const CONNECTIONS: usize = 8;
const BUYERS: usize = 100;
const WAITERS: usize = 40;

/// Rows of the hall, and seats of each. Enough for all that is bought, and too few for all carts.
const HALL: [usize; 2] = [10, 30];

/// The limit of seats for a user.
const MOST: usize = 6;

/// Seats that a user waits for, and the most that a buyer pays for.
const PAIR: usize = 2;

/// Words of a command.
type Words = Vec<String>;

fn words(line: &str) -> Words {
    line.split(' ').map(str::to_owned).collect()
}

/// One who clicks seats into a cart, and what the replies said of it.
struct Buyer {
    user: String,
    carts: usize,
    token: String,
    seats: Vec<String>,
    until: i64,
    /// Whether the cart lives longer than the test.
    lasts: bool,
    /// Token and seats that are paid for.
    bought: Option<(String, Vec<String>)>,
}

/// What a buyer does next.
enum Act {
    /// A seat joins the cart, which lives so long if this is its first.
    Click(String, i64),
    /// A second hold beside a cart that lasts.
    Second,
    /// So many seats of the cart are given back.
    Release(usize),
    Pay,
}

impl Buyer {
    fn new(number: usize) -> Self {
        let (token, user) = (format!("c{number}-0"), format!("u{number}"));
        Self { user, carts: 0, token, seats: vec![], until: 0, lasts: false, bought: None }
    }

    fn has(&self) -> usize {
        self.seats.len() + self.bought.as_ref().map_or(0, |(_, seats)| seats.len())
    }

    fn next(&self, random: &mut Random) -> (Act, Words) {
        let Self { user, token, .. } = self;
        let seat = format!("a-{}-{}", random.within(1, HALL[0]), random.within(1, HALL[1]));
        if !self.seats.is_empty() && random.once_in(8) {
            if self.bought.is_none() && self.seats.len() <= PAIR && random.once_in(3) {
                return (Act::Pay, words(&format!("SEAT.CONFIRM show {token}")));
            }
            let part = random.within(1, self.seats.len());
            let given = self.seats[..part].join(" ");
            return (Act::Release(part), words(&format!("SEAT.RELEASE show {token} SEATS {part} {given}")));
        }
        if self.lasts && random.once_in(12) {
            let line = format!("SEAT.PICK show {user} TTL 1000 TOKEN x{token} SEATS 1 {seat}");
            return (Act::Second, words(&line));
        }
        let ttl = if random.once_in(3) { random.within(5, 300) as i64 } else { LONG_TTL_MS };
        let line = format!("SEAT.PICK show {user} TTL {ttl} TOKEN {token} ADD SEATS 1 {seat}");
        (Act::Click(seat, ttl), words(&line))
    }

    fn learn(&mut self, act: &Act, reply: &Reply) {
        match (act, reply) {
            (Act::Click(seat, ttl), Reply::Array(_) | Reply::Map(_)) => self.clicked(seat, *ttl, reply),
            (Act::Click(seat, _), refused) => {
                let code = refused.error().split(' ').next().unwrap_or_default();
                let is_full = self.has() >= MOST;
                match code {
                    "LIMIT" => assert!(is_full, "{} has {} seats: {refused:?}", self.user, self.has()),
                    "BADSTATE" | "TRYAGAIN" => {
                        assert!(!self.lasts || !self.seats.contains(seat), "{} lost {seat}", self.user);
                        assert!(!self.lasts || !is_full, "{} may not have {seat}: {refused:?}", self.user);
                    }
                    _ => panic!("{refused:?}"),
                }
            }
            (Act::Second, refused) => assert!(refused.error().starts_with("LIMIT "), "{refused:?}"),
            (Act::Release(_) | Act::Pay, Reply::Error(text)) => {
                assert!(text.starts_with("NOTFOUND ") && !self.lasts, "{}: {text}", self.token);
                self.begin();
            }
            (Act::Release(part), freed) => {
                assert_eq!(freed.int(), *part as i64);
                self.seats.drain(..part);
                if self.seats.is_empty() {
                    self.begin();
                }
            }
            (Act::Pay, sold) => {
                assert_eq!(sold.int(), self.seats.len() as i64);
                self.bought = Some((self.token.clone(), std::mem::take(&mut self.seats)));
                self.begin();
            }
        }
    }

    /// A seat joined the cart; or the cart had expired, and the seat is the first of a new one.
    fn clicked(&mut self, seat: &str, ttl: i64, record: &Reply) {
        let (mut seats, until) = (seats_of(record), record.field("until").int());
        if self.seats.is_empty() || until != self.until {
            let had_ended = self.seats.is_empty() || until - ttl >= self.until;
            assert!(had_ended, "the deadline of {} moved", self.token);
            (self.seats, self.until, self.lasts) = (vec![], until, ttl == LONG_TTL_MS);
        }
        if !self.seats.iter().any(|other| other == seat) {
            self.seats.push(seat.to_owned());
        }
        self.seats.sort_unstable();
        seats.sort_unstable();
        assert_eq!(seats, self.seats, "cart {}", self.token);
        assert!(self.has() <= MOST, "{} has {} seats", self.user, self.has());
    }

    /// The cart is over; the next has another token.
    fn begin(&mut self) {
        self.carts += 1;
        let user = self.user.trim_start_matches('u');
        (self.token, self.seats, self.lasts) = (format!("c{user}-{}", self.carts), vec![], false);
    }
}

/// One who waits for a pair again and again.
struct Waiter {
    number: usize,
    waits: usize,
    /// The place in the list, or 0 once there is an offer; `None` before the wait.
    position: Option<i64>,
    bought: Option<(String, Vec<String>)>,
}

impl Waiter {
    fn token(&self) -> String {
        format!("w{}-{}", self.number, self.waits)
    }

    fn next(&self, random: &mut Random) -> Words {
        let token = self.token();
        let line = match self.position {
            None => {
                let offer = if random.once_in(4) { 20 } else { LONG_TTL_MS };
                let ttl = LONG_TTL_MS;
                format!("SEAT.WAIT show w{} {PAIR} TTL {ttl} OFFER {offer} TOKEN {token}", self.number)
            }
            Some(0) if self.bought.is_none() && random.once_in(6) => format!("SEAT.CONFIRM show {token}"),
            Some(0) if random.once_in(2) => format!("SEAT.RELEASE show {token}"),
            Some(_) => format!("SEAT.WAITING show {token}"),
        };
        words(&line)
    }

    fn learn(&mut self, asked: &[String], reply: &Reply) {
        let is_over = match (asked[0].as_str(), reply) {
            ("SEAT.WAIT" | "SEAT.WAITING", Reply::Array(_) | Reply::Map(_)) => {
                let position = reply.field("position").int();
                let before = self.position.unwrap_or(i64::MAX);
                assert!(position <= before, "{} was {before} and is {position}", self.token());
                self.position = Some(position);
                false
            }
            ("SEAT.WAITING", Reply::Null | Reply::NullArray | Reply::NullBulk) => true,
            ("SEAT.CONFIRM", Reply::Int(sold)) => {
                assert_eq!(*sold, PAIR as i64);
                self.bought = Some((self.token(), vec![]));
                true
            }
            ("SEAT.RELEASE" | "SEAT.CONFIRM", Reply::Error(text)) => text.starts_with("NOTFOUND "),
            ("SEAT.RELEASE", Reply::Int(freed)) => *freed == PAIR as i64,
            _ => panic!("{asked:?}: {reply:?}"),
        };
        if is_over {
            (self.waits, self.position) = (self.waits + 1, None);
        } else {
            assert!(self.position.is_some(), "{asked:?}: {reply:?}");
        }
    }
}

/// The buyers and waiters of a connection, who all send at once in each round. Returns what they bought.
fn click(mut client: RawClient, connection: usize) -> Vec<(String, Vec<String>)> {
    let mut random = Random::new(connection as u64);
    let of_connection = |all: usize| (connection..all).step_by(CONNECTIONS);
    let mut buyers: Vec<Buyer> = of_connection(BUYERS).map(Buyer::new).collect();
    let waiter = |number| Waiter { number, waits: 0, position: None, bought: None };
    let mut waiters: Vec<Waiter> = of_connection(WAITERS).map(waiter).collect();
    for _ in 0..soak(2000, 10_000) {
        let (acts, mut asked): (Vec<Act>, Vec<Words>) =
            buyers.iter().map(|buyer| buyer.next(&mut random)).unzip();
        asked.extend(waiters.iter().map(|waiter| waiter.next(&mut random)));
        let replies = client.pipeline(&asked);
        let (of_buyers, of_waiters) = replies.split_at(buyers.len());
        for ((buyer, act), reply) in buyers.iter_mut().zip(&acts).zip(of_buyers) {
            buyer.learn(act, reply);
        }
        for ((waiter, asked), reply) in waiters.iter_mut().zip(&asked[acts.len()..]).zip(of_waiters) {
            waiter.learn(asked, reply);
        }
    }
    let of_waiters = waiters.into_iter().filter_map(|waiter| waiter.bought);
    buyers.into_iter().filter_map(|buyer| buyer.bought).chain(of_waiters).collect()
}

/// A hold or a sale.
struct Cart {
    user: Vec<u8>,
    until: i64,
    is_sold: bool,
    seats: HashSet<u32>,
}

/// What the replicated events say: who has which seat, who waits, and what is kept for them.
#[derive(Default)]
struct Ledger {
    carts: BTreeMap<Vec<u8>, Cart>,
    taken: HashMap<u32, Vec<u8>>,
    queue: VecDeque<Vec<u8>>,
    queued: HashSet<u32>,
    /// How many seats joined carts, how many carts expired, and how many users who waited were served.
    counts: [usize; 3],
}

impl Ledger {
    fn follow(&mut self, now: i64, event: &Event) {
        match event {
            Event::Held(held) => {
                let is_live = |cart: &&Cart| cart.user == held.user[..] && !cart.is_sold;
                assert_eq!(self.carts.values().find(is_live).map(|cart| cart.until), None, "{held:?}");
                assert!(held.seats.iter().all(|seat| !self.queued.contains(seat)), "{held:?}");
                self.take(&held.token, &held.user, held.until, &held.seats);
            }
            Event::Added { token, seats, .. } => {
                let cart = &self.carts[&token[..]];
                assert!(!cart.is_sold && cart.until > now, "{event:?}");
                assert!(seats.iter().all(|seat| !self.queued.contains(seat)), "{event:?}");
                let (user, until) = (cart.user.clone(), cart.until);
                self.take(token, &user, until, seats);
                self.counts[0] += 1;
            }
            Event::Offered { held, .. } => {
                if let Some(first) = self.queue.pop_front() {
                    assert_eq!(first, held.token[..], "another was first");
                    self.counts[2] += 1;
                }
                self.take(&held.token, &held.user, held.until, &held.seats);
            }
            Event::Waited(waited) => self.queue.push_back(waited.token.to_vec()),
            Event::Released { token, seats } => self.free(token, seats),
            Event::Expired { token } => {
                let cart = &self.carts[&token[..]];
                assert!(cart.until <= now, "{event:?} at {now}, before {}", cart.until);
                let seats: Vec<u32> = cart.seats.iter().copied().collect();
                self.free(token, &seats);
                self.counts[1] += 1;
            }
            Event::Confirmed { token, .. } => {
                let cart = self.carts.get_mut(&token[..]).unwrap();
                assert!(cart.until > now, "{event:?} at {now}");
                cart.is_sold = true;
            }
            Event::Passed => self.queued.clear(),
            Event::Created { .. } | Event::Flushed { .. } => {}
            other => panic!("{other:?}"),
        }
        if self.queue.is_empty() {
            self.queued.clear();
        }
        let free = HALL[0] * HALL[1] - self.taken.len() - self.queued.len();
        assert!(self.queue.is_empty() || free < PAIR, "{free} seats are free to all after {event:?}");
    }

    fn take(&mut self, token: &[u8], user: &[u8], until: i64, seats: &[u32]) {
        for &seat in seats {
            let other = self.taken.insert(seat, token.to_vec());
            assert_eq!(other, None, "seat {seat} is taken from its holder");
            self.queued.remove(&seat);
        }
        let cart = || Cart { user: user.to_vec(), until, is_sold: false, seats: HashSet::new() };
        self.carts.entry(token.to_vec()).or_insert_with(cart).seats.extend(seats);
        let of_user = self.carts.values().filter(|cart| cart.user == user);
        let count: usize = of_user.map(|cart| cart.seats.len()).sum();
        assert!(count <= MOST, "{} has {count} seats", user.escape_ascii());
    }

    fn free(&mut self, token: &[u8], seats: &[u32]) {
        let cart = self.carts.get_mut(token).unwrap();
        for seat in seats {
            assert!(cart.seats.remove(seat) && self.taken.remove(seat).is_some(), "seat {seat} of another");
            if !self.queue.is_empty() {
                self.queued.insert(*seat);
            }
        }
        if cart.seats.is_empty() {
            self.carts.remove(token);
        }
    }
}

#[test]
fn rush_of_carts_takes_no_seat_from_anybody_and_serves_those_who_wait() {
    let server = RedisServer::builder().arg("appendonly", "yes");
    let server = server.arg("auto-aof-rewrite-percentage", "0").start();
    let limits = format!(r#""limits":{{"seats_per_user":{MOST},"holds_per_user":1}}"#);
    create(&server, "show", &with_events(&sample_venue_with(HALL[0], HALL[1], &limits), 1000));
    let bought: Vec<(String, Vec<String>)> = thread::scope(|scope| {
        let clicking: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let client = server.raw();
                scope.spawn(move || click(client, number))
            })
            .collect();
        clicking.into_iter().flat_map(|buyers| buyers.join().unwrap()).collect()
    });
    let mut client = server.raw();
    eventually("everybody to be served", TIMEOUT, || {
        for token in listed(&mut client, "show", "HOLDS") {
            let reply = client.call(&["SEAT.RELEASE", "show", &token]);
            assert!(matches!(reply, Reply::Int(_)) || reply.error().starts_with("NOTFOUND "), "{reply:?}");
        }
        listed(&mut client, "show", "WAITING").is_empty() && books(&mut client, b"show").held == 0
    });
    for (token, seats) in &bought {
        for seat in seats {
            let record = client.call(&["SEAT.GET", "show", seat]);
            let now = (record.field("state"), record.field("token"));
            assert_eq!(now, (Reply::bulk("sold"), Reply::bulk(token)), "{seat}");
        }
    }
    let mut ledger = Ledger::default();
    for (now, events) in steps_of(&server) {
        events.iter().for_each(|event| ledger.follow(now, event));
    }
    assert!(ledger.queue.is_empty(), "users wait by the events, and not by the list");
    let sold: HashSet<&[u8]> = ledger.carts.keys().map(|token| &token[..]).collect();
    let told: HashSet<&[u8]> = bought.iter().map(|(token, _)| token.as_bytes()).collect();
    assert_eq!(sold, told);
    let sold = ledger.taken.len() as i64;
    let free = (HALL[0] * HALL[1]) as i64 - sold;
    assert_eq!(books(&mut client, b"show"), Books { free, held: 0, sold, blocked: 0 });
    let [added, expired, served] = ledger.counts;
    assert!(added > 300 && expired > 50 && served > 50 && sold > 20, "{:?}, {sold} sold", ledger.counts);
    no_internal_errors(&server);
}
