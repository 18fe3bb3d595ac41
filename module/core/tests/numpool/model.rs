//! Ten million random events: the real pool, a naive one, a replica that gets the events as bytes, and a snapshot
//! must agree.

mod requests;

use super::naive::{Naive, Waiting, Wish};
use super::spec::any;
use allot_core::numpool::outcome::{Alive, Listed};
use allot_core::numpool::request::{Call, Cap, Changes, Days, OfSwitch, Policy, Request, Rule};
use allot_core::numpool::waiting::{Grant, is_worth_waiting};
use allot_core::numpool::{Event, Number, Pool, Reply, Settings, decide, decide_due};
use allot_core::shared::codec::Writer;
use allot_core::shared::machine::{Machine, MachineEvent};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

struct Random(TestRng);

impl Random {
    fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

const SWITCHES: [&[u8]; 3] = [b"sw1", b"sw2", b"a switch whose name is too long to lie in its place"];
const PEERS: [&[u8]; 3] = [b"100", b"200", b"300"];
const SPANS: [i64; 4] = [0, 5, 20, 100];
const CAUSES: [&str; 3] = ["busy", "spam", "603"];
const RATES: [Option<(i64, usize)>; 5] = [None, None, Some((30, 2)), Some((100, 12)), Some((17, 1))];
/// Windows, 0 for the calendar day, and counts.
const CAPS: [&[(i64, usize)]; 8] = [
    &[],
    &[],
    &[(50, 1)],
    &[(30, 2), (300, 5)],
    &[(1000, 6)],
    &[(10, 1), (40, 2), (90, 3), (400, 4)],
    &[(0, 2)],
    &[(0, 3), (20, 1)],
];
const DAYS: [Days; 3] =
    [Days { start: 0, length: 90 }, Days { start: 1033, length: 200 }, Days { start: 900_000, length: 61 }];

struct Bench {
    random: Random,
    pool: Pool,
    replica: Pool,
    naive: Naive,
    now: i64,
    numbers: Vec<Number>,
    next_token: u64,
    /// Tokens that were used, live and not.
    tokens: Vec<Vec<u8>>,
    next_waiter: u64,
    /// Waiters whose connections have ended.
    dead: Vec<u64>,
    /// These waiters. The pool keeps them until it would serve them.
    gone: Vec<Waiting>,
    /// Now and then, the pool before the deadlines of the step were applied.
    overdue: Option<Pool>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 2 + random.below(12);
        let numbers = (0..count).map(|n| {
            let prefix = random.pick(&["1", "13", "138", "+49", "*", "0000000000000000000000"]);
            Number::parse(format!("{prefix}{n}").as_bytes()).unwrap()
        });
        let numbers = numbers.collect();
        let settings = Settings {
            lease: random.pick(&SPANS),
            cooldown: random.pick(&SPANS),
            regttl: random.pick(&SPANS),
            pick: random.pick(&Policy::ALL),
            events: random.pick(&[0, 0, 0, 100]),
            caps: Vec::new(),
            rate: None,
            peers: random.pick(&[0, 1, 2, 10]),
            peerttl: random.pick(&SPANS),
            days: random.pick(&DAYS),
        };
        let pool = Pool::new(settings.clone(), 0);
        let naive = Naive { settings, now: 1000, ..Naive::default() };
        let replica = pool.clone();
        Self {
            random,
            replica,
            pool,
            naive,
            now: 1000,
            numbers,
            next_token: 0,
            tokens: vec![],
            next_waiter: 0,
            dead: vec![],
            gone: vec![],
            overdue: None,
        }
    }

    /// Serves the waiters: each is the one that the naive model serves next.
    fn serve(&mut self) {
        loop {
            let (random, dead) = (self.random.next(), &self.dead);
            let grant = self.pool.next_grant(self.now, random, |id| !dead.contains(&id));
            let gone = self.naive.waiting.extract_if(.., |waiter| dead.contains(&waiter.id));
            self.gone.extend(gone);
            if let Some(id) = self.naive.waiter_of_live_lease() {
                self.repeat_lease(id, grant.expect("a waiter gets the lease of its token"));
                continue;
            }
            let expected = self.naive.next_waiter();
            let Some(Grant { waiter, outcome }) = grant else {
                assert_eq!(expected, None, "a waiter is not served");
                return;
            };
            let (first, numbers) = expected.expect("a waiter is served for whom nothing is free");
            assert_eq!(waiter, first, "a waiter is passed over");
            let at = self.naive.waiting.iter().position(|other| other.id == waiter).unwrap();
            let waiting = self.naive.waiting.remove(at);
            match (outcome, numbers) {
                (Ok(decision), Ok(numbers)) => {
                    decision.events.iter().for_each(|event| self.apply(event));
                    let (number, until) = lease(decision.reply);
                    assert!(numbers.contains(&number), "{number} is none of {numbers:?}: {waiting:?}");
                    self.naive.grant(number, &waiting.wish(), self.now);
                    assert_eq!(until, self.naive.get(number).unwrap().lease.as_ref().unwrap().until);
                    self.tokens.push(waiting.token);
                }
                (Err(refusal), numbers) => assert_eq!(Err(refusal.code), numbers),
                (outcome, numbers) => panic!("{outcome:?} is not {numbers:?}"),
            }
        }
    }

    /// A waiter gets the record of a lease that another call with its token began.
    fn repeat_lease(&mut self, id: u64, Grant { waiter, outcome }: Grant) {
        assert_eq!(waiter, id);
        let at = self.naive.waiting.iter().position(|other| other.id == waiter).unwrap();
        let waiting = self.naive.waiting.remove(at);
        let live = self.naive.by_token(&waiting.token).unwrap();
        let until = live.lease.as_ref().unwrap().until;
        let expected = if waiting.number.is_some_and(|wanted| wanted != live.number) {
            Err(Code::Exists)
        } else {
            Ok((live.number, until))
        };
        let got = outcome.map(|decision| {
            assert!(decision.events.is_empty(), "a lease begins twice");
            lease(decision.reply)
        });
        assert_eq!(got.map_err(|refusal| refusal.code), expected);
    }

    /// A waiter leaves, or its connection ends without a word.
    fn stop_waiting(&mut self) {
        let ids: Vec<u64> = self.naive.waiting.iter().map(|waiter| waiter.id).collect();
        if ids.is_empty() {
            return;
        }
        let id = self.random.pick(&ids);
        if self.random.chance(50) {
            self.pool.stop_waiting(id);
            self.naive.waiting.retain(|waiter| waiter.id != id);
        } else {
            self.dead.push(id);
        }
    }

    fn apply(&mut self, event: &Event) {
        self.pool.apply(self.now, event);
        let mut bytes = Writer::default();
        event.encode(&mut bytes);
        for event in Event::decode_all(&bytes.bytes).unwrap() {
            self.replica.admits(&event).unwrap_or_else(|damaged| panic!("{damaged}: {event:?}"));
            self.replica.apply(self.now, &event);
        }
    }

    fn advance(&mut self) {
        self.now += self.random.pick(&[0, 0, 0, 1, 3, 17, 60]);
        let limit = self.random.pick(&[usize::MAX, usize::MAX, 1000]);
        let has_waiters = !self.naive.waiting.is_empty();
        self.overdue = (self.random.chance(10) && !has_waiters).then(|| self.pool.clone());
        if self.random.chance(2) {
            // The server was away.
            Machine::take_over(&self.pool).iter().for_each(|event| self.apply(event));
            self.naive.take_over(self.now);
            self.overdue = None;
        }
        self.naive.is_sorted = is_sorted_by_use(&self.pool);
        loop {
            let events = decide_due(&self.pool, self.now, limit);
            if events.is_empty() {
                break;
            }
            events.iter().for_each(|event| self.apply(event));
        }
        self.naive.advance(self.now);
        self.serve();
        if self.pool.outbox().len() > 500 {
            let count = self.pool.outbox().len() as u32;
            self.apply(&Event::Flushed { count, last_id: (self.now as u64, 0) });
        }
    }

    /// A request gets the same answer when only some of the deadlines that have passed are carried out, or is to be sent
    /// again when all are. A call that names no number may get another one.
    fn ask_with_overdue_deadlines(&mut self, mut pool: Pool, request: &Request<'_>) {
        let limit = self.random.below(4);
        let carry_out = |pool: &mut Pool, limit: usize| {
            for event in decide_due(pool, self.now, limit) {
                pool.admits(&event).unwrap();
                pool.apply(self.now, &event);
            }
        };
        carry_out(&mut pool, limit);
        let answer = |pool: &mut Pool| {
            Machine::prepare(pool, request);
            match pool.decide_or_try_again(self.now, request) {
                Ok(decision) => Ok(match (request, decision.reply) {
                    (Request::Call(Call { number: None, .. }), Reply::Lease(_)) => Reply::Ok,
                    // Calls that are over are counted until they are ended.
                    (_, Reply::Alive(alive)) => Reply::Alive(Alive { calls: 0, ..alive }),
                    (_, reply) => reply,
                }),
                Err(refusal) => Err(refusal.code),
            }
        };
        let mut first = answer(&mut pool);
        if first == Err(Code::TryAgain) {
            assert!(pool.count_overdue(self.now, 1) > 0, "nothing is overdue: {request:?}");
            while pool.count_overdue(self.now, 1) > 0 {
                carry_out(&mut pool, 1 + limit);
            }
            first = answer(&mut pool);
        }
        assert_eq!(pool.check(), Ok(()));
        assert_eq!(first, answer(&mut self.pool.clone()), "{request:?}");
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Code> {
        if let Some(overdue) = self.overdue.take() {
            self.ask_with_overdue_deadlines(overdue, request);
        }
        match decide(&self.pool, self.now, request) {
            Ok(decision) => {
                for event in &decision.events {
                    self.apply(event);
                }
                Ok(decision.reply)
            }
            Err(refusal) => Err(refusal.code),
        }
    }

    fn count(&mut self, request: &Request<'_>, expected: Result<i64, Code>) {
        let got = self.ask(request);
        assert_eq!(got, expected.map(Reply::Integer), "{request:?}");
    }

    /// A request with a list of numbers, of which these are not in the pool.
    fn list(&mut self, request: &Request<'_>, names_missing: bool, done: i64, absent: &[Number]) {
        let got = self.ask(request);
        let none = request_numbers(request).iter().all(|number| absent.contains(number));
        let expected = match names_missing {
            true => Ok(Reply::Listed(Listed { done, missing: absent.into() })),
            false if none => Err(Code::NotFound),
            false => Ok(Reply::Integer(done)),
        };
        assert_eq!(got, expected, "{request:?}");
    }

    fn step(&mut self) {
        self.advance();
        self.naive.is_sorted = is_sorted_by_use(&self.pool);
        let now = self.now;
        match self.random.below(100) {
            0..=9 => {
                let numbers = self.some_numbers();
                let expected = self.naive.add(&numbers, now);
                self.count(&Request::Add(&numbers), Ok(expected));
            }
            14 => {
                let numbers = self.some_numbers();
                let cause = self.random.chance(40).then(|| self.random.pick(&CAUSES));
                let ttl = self.random.pick(&[None, Some(15), Some(80)]);
                let (missing, absent) = (self.random.chance(50), self.naive.part(&numbers).1);
                let expected = self.naive.suspend(&numbers, cause, ttl.map(|ttl| now + ttl));
                let (numbers, cause) = (&numbers[..], cause.map(str::as_bytes));
                self.list(&Request::Suspend { numbers, cause, ttl, missing }, missing, expected, &absent);
            }
            15 => {
                let numbers = self.some_numbers();
                let (missing, absent) = (self.random.chance(50), self.naive.part(&numbers).1);
                let expected = self.naive.resume(&numbers);
                self.list(&Request::Resume { numbers: &numbers, missing }, missing, expected, &absent);
            }
            10..=13 => {
                let (numbers, drain) = (self.some_numbers(), self.random.chance(50));
                let expected = self.naive.del(&numbers, drain);
                self.count(&Request::Del { numbers: &numbers, drain }, Ok(expected));
            }
            16..=33 => {
                let numbers = self.some_numbers();
                let ttl = self.random.pick(&[None, None, Some(30), Some(200)]);
                let switch = if self.random.chance(70) { Some(self.random.pick(&SWITCHES)) } else { None };
                let (missing, absent) = (self.random.chance(50), self.naive.part(&numbers).1);
                let expected = self.naive.reg(&numbers, ttl, switch, now);
                self.list(
                    &Request::Reg { numbers: &numbers, ttl, switch, missing },
                    missing,
                    expected,
                    &absent,
                );
            }
            34 | 36..=39 => {
                let numbers = self.some_numbers();
                let (missing, absent) = (self.random.chance(50), self.naive.part(&numbers).1);
                let expected = self.naive.unreg(&numbers);
                self.list(&Request::Unreg { numbers: &numbers, missing }, missing, expected, &absent);
            }
            35 => {
                let (switch, ttl) = (self.random.pick(&SWITCHES), self.random.pick(&[10, 40, 150]));
                let calls = self.naive.beat(switch, ttl);
                let got = self.ask(&Request::Beat { switch, ttl });
                assert_eq!(got, Ok(Reply::Alive(Alive { until: now + ttl, calls })));
            }
            40 => {
                let switch = self.random.pick(&SWITCHES);
                let expected = self.naive.unreg_switch(switch);
                self.count(&Request::OfSwitch(OfSwitch::Unreg(switch)), Ok(expected));
            }
            41..=70 => self.call(),
            71..=90 => self.hang_up(),
            91 => self.own_caps(),
            92..=95 => {
                let (number, token) = (self.random.pick(&self.numbers), self.some_token());
                let expected = self.naive.renew(number, &token, 40, now);
                self.count(&Request::Renew { number, lease: &token, ttl: 40 }, expected);
            }
            96 => self.reconcile(),
            97 => self.stop_waiting(),
            98 => self.rule(),
            _ => self.configure(),
        }
        self.serve();
    }

    /// Everything that can be seen is the same everywhere, now and as of a later time.
    fn check(&self) {
        assert!(self.pool.waiting().eq(self.naive.queue.iter().copied()), "the queues differ");
        let later = self.now + 35;
        let mut then = self.naive.clone();
        then.advance(later);
        for (naive, now) in [(&self.naive, self.now), (&then, later)] {
            for &number in &self.numbers {
                self.check_number(naive, number, now);
            }
        }
        let totals = self.pool.totals();
        let count = |test: &dyn Fn(&super::naive::Entry) -> bool| {
            self.naive.entries.iter().filter(|entry| test(entry)).count() as u32
        };
        assert_eq!(totals.total, count(&|_| true));
        assert_eq!(totals.idle_up, count(&|entry| entry.up && entry.lease.is_none()));
        assert_eq!(totals.idle_down, count(&|entry| !entry.up && entry.lease.is_none()));
        assert_eq!(totals.busy_up, count(&|entry| entry.up && entry.lease.is_some()));
        assert_eq!(totals.busy_down, count(&|entry| !entry.up && entry.lease.is_some()));
        assert_eq!(totals.cooling, count(&|entry| entry.cool_until.is_some()));
        assert_eq!(totals.suspended, count(&|entry| entry.suspended.is_some()));
        assert_eq!(
            totals.quarantined,
            count(&|entry| entry.suspended.is_some_and(|(cause, _)| cause.is_some()))
        );
        assert_eq!(totals.limited, count(&|entry| entry.limit_until.is_some()));
        assert_eq!(self.pool.rate_until(self.now), self.naive.rate_until(self.now));
        assert_eq!(self.pool.known_peers(), self.naive.peers.len());
        let mut waiting: Vec<_> = self.naive.waiting.iter().collect();
        waiting.sort_by_key(|waiter| (-waiter.rank.0, waiter.rank.1));
        let alive = self.pool.waiting_in_order().into_iter().filter(|id| !self.dead.contains(id));
        assert!(alive.eq(waiting.iter().map(|waiter| waiter.id)), "the waiters differ");
        assert_eq!(totals.leases, count(&|entry| entry.lease.is_some()));
        assert_eq!(totals.draining, count(&|entry| entry.draining));
        let (end, leases) = self.pool.lease_scan(0, 1000, None, self.now);
        assert_eq!((end, leases.len() as u32), (0, totals.leases));
        for lease in leases {
            let entry = self.naive.get(lease.number).unwrap();
            let naive = entry.lease.as_ref().unwrap();
            assert_eq!(lease.token[..], naive.token[..]);
            assert_eq!(lease.call_switch.as_deref(), naive.switch.as_deref());
            assert_eq!(lease.peer.as_deref(), naive.peer.as_deref());
            assert_eq!(lease.holder.as_deref(), naive.holder.as_deref());
            assert_eq!((lease.since, lease.until), (naive.since, naive.until));
        }
        let (_, switches) = self.pool.switch_scan(0, 1000, self.now);
        let alive = switches.into_iter().filter_map(|record| Some((record.switch.to_vec(), record.until?)));
        let mut alive: Vec<_> = alive.collect();
        let mut expected: Vec<_> =
            self.naive.alive.iter().map(|(switch, until, _)| (switch.clone(), *until)).collect();
        alive.sort();
        expected.sort();
        assert_eq!(alive, expected, "other switches are alive");
        let bytes = self.pool.encode();
        assert_eq!(self.replica.encode(), bytes, "the replica differs");
        let restored = Pool::decode(&bytes).unwrap();
        assert_eq!(restored.encode(), bytes, "the snapshot differs");
        for pool in [&self.pool, &self.replica, &restored] {
            assert_eq!(pool.check(), Ok(()));
        }
    }

    fn check_number(&self, naive: &Naive, number: Number, now: i64) {
        let (record, entry) = (self.pool.number_record(number, now), naive.get(number));
        let (Some(record), Some(entry)) = (&record, entry) else {
            assert!(record.is_none() && entry.is_none(), "{number}: {record:?} is not {entry:?}");
            return;
        };
        let lease = entry.lease.as_ref();
        assert_eq!(record.state, naive.state(number), "{number}");
        assert_eq!(record.lease.as_deref(), lease.map(|lease| &lease.token[..]));
        assert_eq!(record.until, lease.and_then(|lease| lease.until));
        assert_eq!(record.reg_switch.as_deref(), entry.reg_switch.as_deref());
        assert_eq!(record.call_switch.as_deref(), lease.and_then(|lease| lease.switch.as_deref()));
        assert_eq!(record.peer.as_deref(), entry.peer.as_deref());
        // A number goes on from other numbers' count when it is resumed, and not before.
        assert!(record.uses == entry.uses || now > self.now && record.uses < entry.uses, "{number}");
        assert_eq!(record.idle_since, lease.is_none().then_some(entry.since));
        assert_eq!(record.cool_until, entry.cool_until);
        let suspension = record
            .suspension
            .as_ref()
            .map(|suspension| (suspension.cause.as_ref().map(|word| word.0.to_vec()), suspension.until));
        let expected =
            entry.suspended.map(|(cause, until)| (cause.map(|cause| cause.as_bytes().to_vec()), until));
        assert_eq!(suspension, expected, "{number}");
        assert_eq!(record.limit_until, naive.limited_until(number, now), "{number}");
        let caps: Vec<_> = record.caps.iter().map(|cap| (cap.window, cap.count as usize)).collect();
        assert_eq!(caps, entry.caps, "{number}");
        assert_eq!(record.cause.as_deref(), entry.cause.map(str::as_bytes));
    }
}

/// Whether the least used of the free numbers is known without a search.
fn is_sorted_by_use(pool: &Pool) -> bool {
    pool.are_sorted_for(&Call { pick: Some(Policy::LeastUsed), ..any("any") })
}

fn request_numbers<'a>(request: &Request<'a>) -> &'a [Number] {
    match request {
        Request::Reg { numbers, .. }
        | Request::Unreg { numbers, .. }
        | Request::Suspend { numbers, .. }
        | Request::Resume { numbers, .. } => numbers,
        other => panic!("{other:?} has no list of numbers"),
    }
}

fn lease(reply: Reply) -> (Number, Option<i64>) {
    match reply {
        Reply::Lease(record) => (record.number, record.until),
        other => panic!("{other:?} is no lease"),
    }
}

/// How many pools, each of 10,000 events: 10 million events by default, more in a soak.
fn pools() -> u64 {
    let cases = std::env::var("ALLOT_MODEL_CASES").ok().and_then(|cases| cases.parse().ok());
    cases.map_or(1000, |cases: u64| cases * 2 / 3)
}

fn run(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut bench = Bench::new(seed);
            for step in 0..10_000 {
                bench.step();
                if step % 50 == 0 {
                    bench.check();
                }
            }
        });
        assert!(outcome.is_ok(), "the pool of seed {seed} differs");
    }
}

#[test]
fn pool_equals_the_naive_model_in_the_first_half() {
    run(0..pools() / 2);
}

#[test]
fn pool_equals_the_naive_model_in_the_second_half() {
    run(pools() / 2..pools());
}
