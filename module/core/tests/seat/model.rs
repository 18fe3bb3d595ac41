//! Random shows and random requests: the real state machine, a naive one, a replica that gets the events as
//! bytes, and a snapshot must agree after every step.

use super::naive::{Naive, Outcome, State, Waiter, Wish};
use allot_core::seat::list::Filter;
use allot_core::seat::plan::{Limits, Plan, PlanArea, PlanRow, PlanSeat, PlanSeats, Rule};
use allot_core::seat::request::{Adjacent, Hold, Orphans, Pick, Replace, Request, Wait};
use allot_core::seat::state::SeatState;
use allot_core::seat::{Event, Reply, Show, decide, decide_due, decide_overdue};
use allot_core::shared::codec::Writer;
use allot_core::shared::machine::MachineEvent;
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Numbers from a seed, which a failing case prints.
struct Random(TestRng);

impl Random {
    fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

const TIERS: [&str; 3] = ["gold", "silver", "bronze"];
const FLAGS: [&str; 2] = ["wheelchair", "view"];

fn random_plan(random: &mut Random) -> Plan {
    let mixed = random.chance(40);
    let flagged = random.chance(50);
    let long = random.chance(15);
    let named = random.chance(30);
    let areas = (0..=random.below(4)).map(|area| {
        let rows = (0..=random.below(5)).map(|row| {
            let len = if long { 60 + random.below(90) } else { 1 + random.below(14) };
            let tier = random.pick(&TIERS);
            let mut seats: Vec<Option<PlanSeat>> = (0..len)
                .map(|seat| {
                    let tier = if mixed && random.chance(30) { random.pick(&TIERS) } else { tier };
                    let id = (named && random.chance(60)).then(|| format!("own{area}.{row}.{seat}"));
                    let flags =
                        FLAGS.iter().filter(|_| flagged && random.chance(10)).map(ToString::to_string);
                    let seat = PlanSeat {
                        label: seat.to_string(),
                        id,
                        tier: Some(tier.to_string()),
                        flags: flags.collect(),
                    };
                    (!random.chance(10)).then_some(seat)
                })
                .collect();
            seats[0].get_or_insert(PlanSeat {
                label: "0".into(),
                id: None,
                tier: Some(tier.into()),
                flags: vec![],
            });
            PlanRow {
                label: row.to_string(),
                rank: random.below(3) as i32,
                tier: None,
                seats: PlanSeats::List(seats),
            }
        });
        let rows = rows.collect();
        let rule = random.pick(&[Rule::Ltr, Rule::Rtl, Rule::Center]);
        PlanArea { id: format!("a{area}"), name: None, priority: random.below(2) as i32, rule, rows }
    });
    let areas = areas.collect();
    let limits = Limits {
        seats_per_user: random.pick(&[0, 0, 8]),
        holds_per_user: random.pick(&[0, 1, 2]),
        max_hold_ms: random.pick(&[0, 500]),
        waits_per_user: random.pick(&[0, 1, 3]),
    };
    Plan { areas, limits, events: random.pick(&[0, 0, 5]) }
}

/// The show under test, and all that must agree with it.
struct Bench {
    show: Show,
    replica: Show,
    naive: Naive,
    now: i64,
    /// The show before the deadlines of the last step were applied.
    overdue: Show,
}

impl Bench {
    fn apply(&mut self, event: &Event) {
        self.show.apply(self.now, event);
        let mut bytes = Writer::default();
        event.encode(&mut bytes);
        for event in Event::decode_all(&bytes.bytes).unwrap() {
            self.replica.admits(&event).unwrap();
            self.replica.apply(self.now, &event);
        }
    }

    fn advance(&mut self, by: i64) {
        self.now += by;
        self.overdue = self.show.clone();
        for event in decide_due(&self.show, self.now, usize::MAX) {
            self.apply(&event);
        }
        self.naive.expire(self.now);
        self.serve();
    }

    /// Serves the waiting list.
    fn serve(&mut self) {
        while let Some(event) = self.show.follow_up(self.now) {
            self.apply(&event);
        }
        self.naive.serve(self.now);
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Code> {
        let before = self.show.encode();
        // With waiters it depends on the order of expiry who gets which seat.
        if self.overdue.waiters().is_empty() {
            self.ask_with_overdue_holds(request);
        }
        match decide(&self.show, self.now, request) {
            Ok(decision) => {
                for event in &decision.events {
                    self.apply(event);
                }
                self.serve();
                Ok(decision.reply)
            }
            Err(refusal) => {
                assert_eq!(self.show.encode(), before, "a refusal changed something");
                Err(refusal.code)
            }
        }
    }

    /// A request gets the same answer where only the overdue holds that it depends on have expired. A hold may have
    /// other seats, as many.
    fn ask_with_overdue_holds(&self, request: &Request<'_>) {
        let mut show = self.overdue.clone();
        loop {
            let expired = decide_overdue(&show, self.now, request);
            if expired.is_empty() {
                break;
            }
            for event in expired {
                show.admits(&event).unwrap();
                show.apply(self.now, &event);
            }
        }
        assert_eq!(show.check(), Ok(()));
        let answer = |show: &Show| match decide(show, self.now, request) {
            Ok(decision) => Ok(match decision.reply {
                Reply::Hold(record) => Reply::Integer(record.seats.len() as i64),
                reply => reply,
            }),
            Err(refusal) => Err(refusal.code),
        };
        let (early, late) = (answer(&show), answer(&self.show));
        // A seat beside the group that is free a moment later does not count as stranded.
        let forbids = match request {
            Request::Hold(hold) | Request::Wait(Wait { hold, .. }) => hold.orphans == Orphans::Forbid,
            _ => false,
        };
        assert!(early == late || forbids && early.is_ok(), "{request:?}: {early:?}, {late:?}");
    }

    /// Everything that can be seen is the same everywhere, and no state contradicts itself.
    fn check(&self) {
        let venue = self.show.venue();
        for place in self.naive.places() {
            let seat = self.naive.seat(place);
            let number = venue.find(seat.id.as_bytes()).unwrap();
            let record = self.show.seat_record(number, self.now);
            let (standing, token, order) = match &seat.state {
                State::Free => (SeatState::Free, None, None),
                State::Blocked => (SeatState::Blocked, None, None),
                State::Held(token) => (SeatState::Held, Some(token), None),
                State::Sold(token, order) => (SeatState::Sold, Some(token), order.as_ref()),
            };
            assert_eq!(record.state, standing, "{}", seat.id);
            assert_eq!(record.token.as_deref(), token.map(|token| &token[..]));
            assert_eq!(record.order.as_deref(), order.map(|order| &order[..]));
        }
        let waiting: Vec<&[u8]> = self.naive.waiters.iter().map(|waiter| &waiter.token[..]).collect();
        let (waiters, _) = self.show.list_waiters(Filter::default(), 0, u32::MAX, self.now);
        let listed = waiters.iter().map(|&id| self.show.waiters().get(id));
        let mut listed: Vec<_> = listed.map(|waiter| (waiter.place.1, &waiter.token[..])).collect();
        listed.sort_unstable();
        assert_eq!(listed.into_iter().map(|(_, token)| token).collect::<Vec<_>>(), waiting);
        let bytes = self.show.encode();
        assert_eq!(self.replica.encode(), bytes, "the replica differs");
        let restored = Show::decode(&bytes).unwrap();
        assert_eq!(restored.encode(), bytes, "the snapshot differs");
        for show in [&self.show, &self.replica, &restored] {
            assert_eq!(show.check(), Ok(()));
        }
    }
}

fn run(seed: u64, steps: usize) {
    let mut random = Random::new(seed);
    let plan = random_plan(&mut random);
    let show = Show::new(&plan, 0).unwrap();
    let mut bench =
        Bench { replica: show.clone(), overdue: show.clone(), show, naive: Naive::new(&plan), now: 1000 };
    let ids = bench.naive.ids();
    let waits = random.chance(60);
    for step in 0..steps {
        let by = random.pick(&[0, 1, 40]);
        bench.advance(by);
        let tokens: Vec<Vec<u8>> = bench.naive.claims.keys().cloned().collect();
        let any_token = |random: &mut Random| {
            if tokens.is_empty() || random.chance(5) { b"nobody".to_vec() } else { random.pick(&tokens) }
        };
        match random.below(if waits { 18 } else { 13 }) {
            0..=6 => hold(&mut bench, &mut random, &format!("t{step}"), &tokens),
            7 => pick(&mut bench, &mut random, &format!("t{step}"), &ids),
            8 => confirm(&mut bench, &any_token(&mut random), random.pick(&[None, Some(&b"order1"[..])])),
            9 => {
                let token = any_token(&mut random);
                release(&mut bench, &mut random, &token);
            }
            10 => refund(&mut bench, &mut random, &ids),
            11 => block(&mut bench, &mut random, &ids),
            13..=16 => wait(&mut bench, &mut random, &format!("w{step}")),
            17 => unwait(&mut bench, &mut random),
            _ => extend(&mut bench, &any_token(&mut random)),
        }
        bench.check();
    }
}

fn random_wish(bench: &Bench, random: &mut Random) -> Wish {
    let areas: Vec<String> = bench.naive.areas.iter().map(|area| area.id.clone()).collect();
    Wish {
        count: random.pick(&[1, 1, 2, 2, 3, 4, 6]),
        tier: random.chance(60).then(|| random.pick(&TIERS).to_owned()),
        areas: if random.chance(20) { (0..2).map(|_| random.pick(&areas)).collect() } else { vec![] },
        adjacent: random.pick(&[
            Adjacent::Prefer,
            Adjacent::Prefer,
            Adjacent::Require,
            Adjacent::Area,
            Adjacent::Ignore,
        ]),
        orphans: random.pick(&[Orphans::Avoid, Orphans::Avoid, Orphans::Allow, Orphans::Forbid]),
        flags: FLAGS.iter().filter(|_| random.chance(25)).map(ToString::to_string).collect(),
    }
}

/// A user waits; most shows are nearly sold out, so that waits are long.
fn wait(bench: &mut Bench, random: &mut Random, token: &str) {
    let user = random.pick(&["ann", "bob", "eve", "fay", "gus"]);
    let mut wish = random_wish(bench, random);
    if wish.adjacent == Adjacent::Ignore {
        wish.adjacent = Adjacent::Require;
    }
    let (ttl, offer) = (random.pick(&[80, 600]), random.pick(&[30, 200, 501]));
    let priority = random.pick(&[0, 0, 0, 5, -5]);
    let (areas, flags) = (wish.areas.clone(), wish.flags.clone());
    let request = Request::Wait(Wait {
        hold: Hold {
            user: user.as_bytes(),
            count: wish.count as i64,
            ttl,
            tier: wish.tier.as_deref().map(str::as_bytes),
            areas: areas.iter().map(String::as_bytes).collect(),
            adjacent: wish.adjacent,
            orphans: wish.orphans,
            flags: flags.iter().map(String::as_bytes).collect(),
            replace: None,
            token: TokenChoice { token: token.as_bytes(), chosen: true },
        },
        offer,
        priority,
    });
    let (now, naive) = (bench.now, &mut bench.naive);
    let unknown = wish.tier.as_ref();
    let unknown = unknown.is_some_and(|tier| naive.places().all(|place| naive.seat(place).tier != *tier));
    let token = token.as_bytes().to_vec();
    let waits = naive.waiters.iter().filter(|waiter| waiter.user == user.as_bytes()).count();
    let most = if naive.waits_per_user == 0 { 100 } else { naive.waits_per_user };
    let expected = if naive.max_hold > 0 && offer > naive.max_hold
        || naive.seats_per_user > 0 && wish.count > naive.seats_per_user
    {
        Err(Code::Limit)
    } else if unknown {
        Err(Code::NotFound)
    } else if naive.allows(user.as_bytes(), wish.count)
        && matches!(naive.grant(&wish, user.as_bytes(), &token, now, now + offer, None), Outcome::Seats(_))
    {
        Ok(true)
    } else if waits >= most {
        Err(Code::Limit)
    } else {
        let user = user.as_bytes().to_vec();
        naive.waiters.push(Waiter { token, user, wish: wish.clone(), until: now + ttl, offer, priority });
        Ok(false)
    };
    let got = bench.ask(&request).map(|reply| match reply {
        Reply::Wait(record) => record.offered,
        reply => panic!("{reply:?}"),
    });
    assert_eq!(got, expected, "{request:?}");
    if got.is_ok() {
        assert!(matches!(bench.ask(&request), Ok(Reply::Wait(_))), "a retry gets its record");
    }
}

fn unwait(bench: &mut Bench, random: &mut Random) {
    let waiting: Vec<Vec<u8>> = bench.naive.waiters.iter().map(|waiter| waiter.token.clone()).collect();
    if waiting.is_empty() {
        return;
    }
    let token = random.pick(&waiting);
    bench.naive.waiters.retain(|waiter| waiter.token != token);
    assert_eq!(bench.ask(&Request::Unwait(&token)), Ok(Reply::Ok));
}

fn hold(bench: &mut Bench, random: &mut Random, token: &str, tokens: &[Vec<u8>]) {
    let user = random.pick(&["ann", "bob", "cid"]);
    let wish = random_wish(bench, random);
    let replace = (!tokens.is_empty() && random.chance(35)).then(|| (random.pick(tokens), random.chance(50)));
    let ttl = random.pick(&[50, 400, 501]);
    let request = Hold {
        user: user.as_bytes(),
        count: wish.count as i64,
        ttl,
        tier: wish.tier.as_deref().map(str::as_bytes),
        areas: wish.areas.iter().map(String::as_bytes).collect(),
        adjacent: wish.adjacent,
        orphans: wish.orphans,
        flags: wish.flags.iter().map(String::as_bytes).collect(),
        replace: replace.as_ref().map(|(token, other)| Replace { token, other: *other }),
        token: TokenChoice { token: token.as_bytes(), chosen: true },
    };
    if random.chance(70) {
        bench.show.prepare(request.tier, &request.areas, &request.flags);
    }
    let request = Request::Hold(request);
    let expected = expect_hold(bench, &wish, user.as_bytes(), token.as_bytes(), ttl, replace.as_ref());
    let got = bench.ask(&request);
    let seats = |seats: &[u32]| seats.iter().map(|&seat| bench.show.venue().id(seat)).collect::<Vec<_>>();
    let got = got.map(|reply| match reply {
        Reply::Hold(record) => Outcome::Seats(seats(&record.seats)),
        _ => Outcome::TooFew,
    });
    assert_eq!(got, expected, "{wish:?} {replace:?}");
    if let Ok(Outcome::Seats(_)) = got {
        let again = bench.ask(&request).unwrap();
        assert!(
            matches!(again, Reply::Hold(record) if record.until == bench.now + ttl),
            "a retry gets its hold"
        );
    }
}

fn expect_hold(
    bench: &mut Bench,
    wish: &Wish,
    user: &[u8],
    token: &[u8],
    ttl: i64,
    replace: Option<&(Vec<u8>, bool)>,
) -> Result<Outcome, Code> {
    let (now, naive) = (bench.now, &mut bench.naive);
    if wish.adjacent == Adjacent::Ignore && wish.orphans == Orphans::Forbid {
        return Err(Code::Err);
    }
    if naive.max_hold > 0 && ttl > naive.max_hold {
        return Err(Code::Limit);
    }
    let mut given_up = (0, 0);
    if let Some((old, _)) = replace {
        let claim = &naive.claims[old];
        if claim.user != user {
            return Err(Code::NotOwner);
        }
        if claim.sold {
            return Err(Code::BadState);
        }
        given_up = (1, naive.seats_of(old).len());
    }
    if naive.holds_per_user > 0 && naive.user_holds(user) - given_up.0 >= naive.holds_per_user {
        return Err(Code::Limit);
    }
    if naive.seats_per_user > 0 && naive.user_seats(user) - given_up.1 + wish.count > naive.seats_per_user {
        return Err(Code::Limit);
    }
    if wish.tier.as_ref().is_some_and(|tier| naive.places().all(|place| naive.seat(place).tier != *tier)) {
        return Err(Code::NotFound);
    }
    let replace = replace.map(|(old, other)| (&old[..], *other));
    match naive.grant(wish, user, token, now, now + ttl, replace) {
        Outcome::NotAdjacent => Err(Code::NoAdjacent),
        outcome => Ok(outcome),
    }
}

fn some_ids(random: &mut Random, ids: &[String]) -> Vec<String> {
    let mut some: Vec<String> = (0..=random.below(3)).map(|_| random.pick(ids)).collect();
    some.sort();
    some.dedup();
    some
}

fn bytes(ids: &[String]) -> Vec<&[u8]> {
    ids.iter().map(String::as_bytes).collect()
}

fn pick(bench: &mut Bench, random: &mut Random, token: &str, ids: &[String]) {
    let ids = some_ids(random, ids);
    let (now, naive) = (bench.now, &mut bench.naive);
    let full = naive.holds_per_user > 0 && naive.user_holds(b"dee") >= naive.holds_per_user
        || naive.seats_per_user > 0 && naive.user_seats(b"dee") + ids.len() > naive.seats_per_user;
    let free = ids.iter().all(|id| naive.by_id(id).state == State::Free);
    let expected = if full {
        Err(Code::Limit)
    } else if free {
        naive.take(&ids, b"dee", token.as_bytes(), now, now + 100);
        Ok(())
    } else {
        Err(Code::BadState)
    };
    let token = TokenChoice { token: token.as_bytes(), chosen: false };
    let got = bench.ask(&Request::Pick(Pick { user: b"dee", ttl: 100, token, seats: bytes(&ids) }));
    assert_eq!(got.map(|_| ()), expected);
}

fn confirm(bench: &mut Bench, token: &[u8], order: Option<&[u8]>) {
    let naive = &mut bench.naive;
    let seats = naive.seats_of(token);
    let expected = match naive.claims.get_mut(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold && claim.order.as_deref() == order => Ok(claim.bought),
        Some(claim) if claim.sold => Err(Code::Exists),
        Some(claim) => {
            (claim.sold, claim.bought, claim.order) = (true, seats.len(), order.map(<[u8]>::to_vec));
            for id in &seats {
                naive.by_id(id).state = State::Sold(token.to_vec(), order.map(<[u8]>::to_vec));
            }
            Ok(seats.len())
        }
    };
    let got = bench.ask(&Request::Confirm { token, user: None, order });
    assert_eq!(got, expected.map(|seats| Reply::Integer(seats as i64)));
}

fn release(bench: &mut Bench, random: &mut Random, token: &[u8]) {
    let naive = &mut bench.naive;
    let mut seats = naive.seats_of(token);
    let some = random.chance(50) && !seats.is_empty();
    if some {
        seats.truncate(1 + random.below(seats.len()));
    }
    let expected = match naive.claims.get(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold => Err(Code::BadState),
        Some(_) => {
            for id in &seats {
                naive.by_id(id).state = State::Free;
            }
            naive.forget_empty();
            Ok(Reply::Integer(seats.len() as i64))
        }
    };
    let seats = some.then(|| bytes(&seats));
    assert_eq!(bench.ask(&Request::Release { token, seats }), expected);
}

fn refund(bench: &mut Bench, random: &mut Random, ids: &[String]) {
    let naive = &mut bench.naive;
    let sold: Vec<String> =
        ids.iter().filter(|id| matches!(naive.by_id(id).state, State::Sold(..))).cloned().collect();
    let from = if sold.is_empty() || random.chance(20) { ids } else { &sold };
    let ids = some_ids(random, from);
    let expected = if ids.iter().all(|id| matches!(naive.by_id(id).state, State::Sold(..))) {
        for id in &ids {
            naive.by_id(id).state = State::Free;
        }
        naive.forget_empty();
        Ok(Reply::Integer(ids.len() as i64))
    } else {
        Err(Code::BadState)
    };
    assert_eq!(bench.ask(&Request::Refund { order: None, seats: bytes(&ids) }), expected);
}

fn block(bench: &mut Bench, random: &mut Random, ids: &[String]) {
    let ids = some_ids(random, ids);
    let block = random.chance(50);
    let (from, to) = if block { (State::Free, State::Blocked) } else { (State::Blocked, State::Free) };
    let naive = &mut bench.naive;
    let expected = if ids.iter().all(|id| naive.by_id(id).state == from) {
        for id in &ids {
            naive.by_id(id).state = to.clone();
        }
        Ok(Reply::Integer(ids.len() as i64))
    } else {
        Err(Code::BadState)
    };
    let request = if block { Request::Block(bytes(&ids)) } else { Request::Unblock(bytes(&ids)) };
    assert_eq!(bench.ask(&request), expected);
}

fn extend(bench: &mut Bench, token: &[u8]) {
    let (now, naive) = (bench.now, &mut bench.naive);
    let longest = naive.max_hold;
    let expected = match naive.claims.get_mut(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold => Err(Code::BadState),
        Some(claim) if longest > 0 && now + 200 > claim.created + longest => Err(Code::Limit),
        Some(claim) => {
            claim.until = now + 200;
            Ok(Reply::Integer(claim.until))
        }
    };
    assert_eq!(bench.ask(&Request::Extend { token, ttl: 200 }), expected);
}

/// How many random shows: few by default, many in a soak.
fn cases() -> u32 {
    std::env::var("ALLOT_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn show_equals_the_naive_model(seed in any::<u64>()) {
        run(seed, 60);
    }
}
