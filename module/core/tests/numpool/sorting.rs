//! Choices that need the free numbers sorted: the timer sorts many numbers in slices, and calls that wait get theirs then.

use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Changes, OfSwitch, Policy, Request};
use allot_core::numpool::{Number, Pool, Reply, decide, decide_due};
use allot_core::shared::machine::Machine;
use allot_core::shared::refusal::Code;
use std::sync::LazyLock;

/// More numbers than one slice sorts.
const NUMBERS: usize = 35_000;

fn number(place: usize) -> Number {
    // Neighbours in the queue are far apart in the order of their digits.
    n(&format!("{:06}", place * 7919 % 1_000_000))
}

/// A pool of many numbers, some of which were called more often than others.
fn large() -> Bench {
    let mut bench = Bench::of(&[]);
    let numbers: Vec<Number> = (0..NUMBERS).map(number).collect();
    for part in numbers.chunks(10_000) {
        bench.ok(&Request::Add(part));
        bench.ok(&Request::Reg { missing: false, numbers: part, ttl: None, switch: None });
    }
    for place in 0..NUMBERS * 3 / 4 {
        call_one(&mut bench, number(place * 4 / 3));
        hang_up(&mut bench, number(place * 4 / 3));
    }
    bench
}

fn call_one(bench: &mut Bench, number: Number) {
    bench.ok(&Request::Call(Call { number: Some(number), peer: Some(b"bob"), ..any(&number.to_string()) }));
}

fn hang_up(bench: &mut Bench, number: Number) {
    bench.ok(&Request::HangUp { number, lease: None, cooldown: None, cause: None });
}

/// All calls whose choice needs sorted numbers.
fn choices() -> impl Iterator<Item = Call<'static>> {
    static PREFIXES: LazyLock<[Number; 2]> = LazyLock::new(|| [n("#"), n("12")]);
    let with_prefix = Policy::ALL.iter().map(|&pick| (pick, &PREFIXES[..]));
    with_prefix.chain([(Policy::LeastUsed, &[][..])]).map(|(pick, prefixes)| Call {
        pick: Some(pick),
        prefixes,
        peer: Some(b"bob"),
        ..any("waits")
    })
}

impl Bench {
    /// What the timer does at once.
    pub(super) fn tick(&mut self, limit: usize) {
        for event in decide_due(&self.pool, self.now, limit) {
            self.pool.apply(self.now, &event);
        }
        for event in self.pool.continue_work(self.now, limit) {
            self.pool.apply(self.now, &event);
        }
        assert_eq!(self.pool.check(), Ok(()));
    }

    /// What a call gets as the server asks for it: a number, `none`, or the code of a refusal.
    pub(super) fn answer(&mut self, call: Call<'_>) -> String {
        let request = Request::Call(call);
        Machine::prepare(&mut self.pool, &request);
        match self.pool.decide_or_try_again(self.now, &request).map(|decision| decision.reply) {
            Ok(Reply::Lease(record)) => record.number.to_string(),
            Ok(Reply::None) => "none".to_owned(),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => refusal.code.word().to_owned(),
        }
    }

    /// Has a call wait for work that goes on in slices.
    pub(super) fn wait_for_work(&mut self, id: u64, priority: i32, call: Call<'_>) {
        assert_eq!(self.answer(call), Code::TryAgain.word());
        self.wait(id, priority, call);
        self.pool.await_work();
    }

    /// What a call would get if the numbers were sorted.
    fn expected(&self, call: Call<'_>) -> String {
        let mut sorted = Self { pool: self.pool.clone(), now: self.now };
        sorted.pool.sort_at_once(call.pick, !call.prefixes.is_empty());
        sorted.answer(call)
    }
}

#[test]
fn slices_sort_as_one_step_does_while_numbers_come_and_go() {
    let large = large();
    for call in choices() {
        let mut bench = Bench { pool: large.pool.clone(), now: large.now };
        bench.wait_for_work(7, 0, call);
        let mut rounds = 0;
        loop {
            // A number that joins has the waiter looked at, who goes on waiting until all numbers are sorted.
            let expected = bench.expected(call);
            let served = bench.serve();
            if !served.is_empty() {
                assert_eq!(served, [(7, expected)], "{call:?}");
                break;
            }
            assert_eq!(bench.pool.next_due(), Some(bench.now), "the timer goes on at once");
            assert_eq!(bench.answer(Call { lease: any("other").lease, ..call }), Code::TryAgain.word());
            // Numbers leave that are sorted, that are not yet sorted, and the next one; and some join again.
            let free: Vec<Number> = bench.pool.waiting().collect();
            for place in [0, 100, 10_000, 10_001, 20_000, 30_000].map(|place| place + rounds) {
                let Some(&number) = free.get(place) else { continue };
                call_one(&mut bench, number);
                if place % 2 == 0 {
                    hang_up(&mut bench, number);
                }
            }
            bench.ok(&Request::Del { numbers: &[free[11_000 + rounds]], drain: false });
            assert_eq!(bench.pool.check(), Ok(()));
            bench.tick(0);
            rounds += 1;
        }
        assert!(rounds > 2, "{rounds} slices");
        let next = Call { lease: any("next").lease, ..call };
        assert_eq!(bench.answer(next), bench.expected(next));
        assert_ne!(bench.pool.next_due(), Some(bench.now), "the work is done");
    }
}

#[test]
fn calls_that_need_nothing_sorted_are_answered_meanwhile() {
    let mut bench = large();
    let used = Call { pick: Some(Policy::LeastUsed), ..any("a") };
    assert_eq!(bench.answer(used), Code::TryAgain.word());
    let oldest = bench.pool.waiting().next().unwrap().to_string();
    assert_eq!(bench.answer(any("d")), oldest);
    assert_eq!(bench.answer(Call { number: Some(number(3)), ..any("d") }), number(3).to_string());
    bench.ok(&Request::Call(any("a")));
    assert_eq!(bench.answer(used), oldest, "its lease is the answer");
    // A copy has no connections, and a key that gets another name has nobody who waits.
    bench.wait_for_work(5, 0, Call { lease: any("w").lease, ..used });
    assert_eq!(bench.pool.clone().waiting_calls(), 0);
    bench.pool.forget_waiters();
    while bench.pool.next_due() == Some(bench.now) {
        bench.tick(0);
    }
    assert_eq!(bench.serve(), []);
}

#[test]
fn calls_that_wait_for_work_keep_their_order() {
    let mut bench = Bench::of(&[]);
    let numbers: Vec<Number> = (0..5000).map(number).collect();
    bench.ok(&Request::Add(&numbers));
    bench.ok(&Request::Reg { missing: false, numbers: &numbers, ttl: Some(500), switch: None });
    bench.ok(&Request::Add(&[n("77")]));
    bench.ok(&Request::Reg { missing: false, numbers: &[n("77")], ttl: None, switch: None });
    bench.now = 9000;
    bench.wait_for_work(1, 0, any("a"));
    bench.wait_for_work(2, 1, any("b"));
    let mut rounds = 0;
    while !bench.pool.has_pending_grants() {
        assert_eq!(bench.serve(), []);
        bench.tick(500);
        rounds += 1;
    }
    assert_eq!(rounds, 10);
    // Deadlines have passed since: they come first.
    bench.ok(&Request::Reg { missing: false, numbers: &[numbers[0]], ttl: Some(500), switch: None });
    bench.ok(&Request::Unreg { numbers: &[n("77")], missing: false });
    bench.ok(&Request::Reg { missing: false, numbers: &[n("77")], ttl: None, switch: None });
    bench.now += 1000;
    assert_eq!(bench.serve(), []);
    bench.tick(500);
    assert_eq!(bench.serve(), [(2, "77".into())]);
}

#[test]
fn waiter_gets_a_number_behind_one_whose_registration_has_lapsed_before_calls_that_came_later() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Reg { missing: false, numbers: &[n("1")], ttl: Some(500), switch: None });
    call_one(&mut bench, n("1"));
    bench.wait(7, 0, any("w"));
    bench.now = 9000;
    // Nobody has noticed yet that the registration has lapsed.
    hang_up(&mut bench, n("1"));
    bench.ok(&Request::Add(&[n("2")]));
    bench.ok(&Request::Reg { missing: false, numbers: &[n("2")], ttl: None, switch: None });
    assert_eq!(bench.serve(), []);
    // A later call has to try again until the waiter has had its turn.
    assert_eq!(bench.answer(any("late")), Code::TryAgain.word());
    bench.tick(500);
    assert_eq!(bench.serve(), [(7, "2".into())]);
    assert_eq!(bench.answer(any("late")), "none");
}

#[test]
fn pool_that_picks_by_use_is_sorted_before_a_call_needs_it() {
    let Bench { pool, now } = large();
    let mut bench = Bench { pool, now };
    assert_ne!(bench.pool.next_due(), Some(bench.now), "the pool picks the longest waiting number");
    bench.ok(&Request::Configure(Changes { pick: Some(Policy::LeastUsed), ..Changes::default() }));
    let mut slices = 0;
    while bench.pool.next_due() == Some(bench.now) {
        bench.tick(0);
        slices += 1;
        assert!(slices < 10, "the work ends");
    }
    assert!(slices > 2, "{slices} slices");
    let refused = |pool: &Pool| {
        let mut bench = Bench { pool: pool.clone(), now: bench.now };
        bench.answer(any("a")) == Code::TryAgain.word()
    };
    assert!(!refused(&bench.pool));
    assert!(!refused(&Pool::decode(&bench.pool.encode()).unwrap()), "loading sorts the numbers");
    // A batch of changes drops the order, and the timer sorts again.
    let some: Vec<Number> = bench.pool.waiting().take(10_000).collect();
    bench.ok(&Request::Unreg { numbers: &some, missing: false });
    bench.ok(&Request::Reg { missing: false, numbers: &some, ttl: None, switch: None });
    assert_eq!(bench.pool.next_due(), Some(bench.now));
    (0..slices).for_each(|_| bench.tick(0));
    assert_ne!(bench.pool.next_due(), Some(bench.now));
}

#[test]
fn number_that_joins_is_not_called_until_it_has_caught_up() {
    let mut bench = Bench::of(&["1001", "1002"]);
    bench.ok(&Request::Configure(Changes { pick: Some(Policy::LeastUsed), ..Changes::default() }));
    let round = |bench: &mut Bench| {
        bench.pool.sort_at_once(None, false);
        let Reply::Lease(record) = bench.ok(&Request::Call(any("a"))) else { panic!("a number is free") };
        let number = record.number;
        bench.ok(&Request::HangUp { number, lease: None, cooldown: None, cause: None });
        number.to_string()
    };
    for _ in 0..10 {
        round(&mut bench);
    }
    bench.ok(&Request::Add(&[n("1003")]));
    bench.ok(&Request::Reg { numbers: &[n("1003")], ttl: None, switch: None, missing: false });
    let mut called: Vec<String> = (0..6).map(|_| round(&mut bench)).collect();
    called.sort();
    assert_eq!(called, ["1001", "1001", "1002", "1002", "1003", "1003"]);
    // A number that was down meanwhile goes on from there as well, and its own count is never made less.
    bench.ok(&Request::Unreg { numbers: &[n("1001")], missing: false });
    for _ in 0..10 {
        round(&mut bench);
    }
    bench.ok(&Request::Reg { numbers: &[n("1001")], ttl: None, switch: None, missing: false });
    assert_eq!(bench.pool.number_record(n("1001"), bench.now).unwrap().uses, 12);
}

/// A pool that picks by use, and how often its numbers get one of some calls that follow each other.
struct Fair(Bench);

impl Fair {
    /// Of three numbers, with ten calls each.
    fn new() -> Self {
        let mut bench = Bench::of(&["1001", "1002", "1003"]);
        bench.ok(&Request::Configure(Changes { pick: Some(Policy::LeastUsed), ..Changes::default() }));
        let mut fair = Self(bench);
        assert_eq!(fair.calls(30), [10, 10, 10, 0]);
        fair
    }

    fn begin(&mut self, token: &str) -> Number {
        self.0.pool.sort_at_once(None, false);
        let Reply::Lease(record) = self.0.ok(&Request::Call(any(token))) else { panic!("a number is free") };
        record.number
    }

    fn calls(&mut self, count: usize) -> [usize; 4] {
        let mut calls = [0; 4];
        for _ in 0..count {
            let number = self.begin("a");
            hang_up(&mut self.0, number);
            calls[number.to_string().parse::<usize>().unwrap() - 1001] += 1;
        }
        assert_eq!(self.0.pool.check(), Ok(()));
        calls
    }

    fn register(&mut self, numbers: &[&str]) {
        let numbers: Vec<Number> = numbers.iter().map(|number| n(number)).collect();
        self.0.ok(&Request::Reg { numbers: &numbers, ttl: None, switch: Some(b"sw"), missing: false });
    }

    fn has_fair_calls(&mut self, count: usize) {
        let calls = self.calls(4 * count);
        assert!(calls.iter().all(|calls| calls.abs_diff(count) <= 1), "{calls:?}");
    }
}

#[test]
fn number_that_joins_while_none_is_free_has_its_share_of_calls() {
    let mut fair = Fair::new();
    let busy = ["x", "y", "z"].map(|token| fair.begin(token));
    fair.0.ok(&Request::Add(&[n("1004")]));
    fair.register(&["1004"]);
    busy.into_iter().for_each(|number| hang_up(&mut fair.0, number));
    fair.has_fair_calls(5);
}

#[test]
fn number_that_joins_with_all_others_has_its_share_of_calls() {
    // In a pool that picks by use itself, and in one whose calls do.
    for pick in [Policy::LeastUsed, Policy::Longest] {
        let mut fair = Fair::new();
        fair.0.ok(&Request::Configure(Changes { pick: Some(pick), ..Changes::default() }));
        fair.0.ok(&Request::OfSwitch(OfSwitch::Unreg(b"sw")));
        fair.0.ok(&Request::Add(&[n("1004")]));
        // A server that has loaded the pool knows as much.
        fair.0.pool = Pool::decode(&fair.0.pool.encode()).unwrap();
        fair.register(&["1001", "1002", "1003", "1004"]);
        fair.0.ok(&Request::Configure(Changes { pick: Some(Policy::LeastUsed), ..Changes::default() }));
        fair.has_fair_calls(5);
    }
}

#[test]
fn number_that_is_resumed_has_its_share_of_calls() {
    for ttl in [None, Some(100)] {
        let mut fair = Fair::new();
        fair.0.ok(&Request::Add(&[n("1004")]));
        fair.register(&["1004"]);
        fair.has_fair_calls(2);
        let numbers = &[n("1004")];
        fair.0.ok(&Request::Suspend { numbers, cause: None, ttl, missing: false });
        assert_eq!(fair.calls(30)[3], 0);
        match ttl {
            None => _ = fair.0.ok(&Request::Resume { numbers, missing: false }),
            Some(_) => _ = fair.0.at(1100),
        }
        fair.has_fair_calls(5);
    }
}

#[test]
fn call_that_came_first_is_not_passed_over_while_numbers_are_sorted() {
    let mut bench = large();
    bench.ok(&Request::Add(&[n("*99")]));
    bench.ok(&Request::Reg { numbers: &[n("*99")], ttl: None, switch: None, missing: false });
    let (now, mut pool, prefixes) = (bench.now, bench.pool, [n("*9")]);
    let call = |token| Call { prefixes: &prefixes, ..any(token) };
    let wait = |pool: &mut Pool, id, token| {
        Machine::prepare(pool, &Request::Call(call(token)));
        let refusal = decide(pool, now, &Request::Call(call(token))).unwrap_err();
        assert_eq!(refusal.code, Code::TryAgain);
        pool.wait(id, &call(token), 0);
    };
    // Two calls that do not wait, one of which finds a number, and one that waits.
    wait(&mut pool, 1, "first");
    pool.wait_for_work(1);
    wait(&mut pool, 2, "second");
    pool.await_work();
    wait(&mut pool, 3, "third");
    pool.wait_for_work(3);
    while !pool.are_sorted_for(&call("any")) {
        assert!(pool.next_grant(now, 0, |_| true).is_none(), "nobody is answered before");
        Machine::continue_work(&mut pool, now, 100);
    }
    let mut answers = Vec::new();
    while let Some(grant) = pool.next_grant(now, 0, |_| true) {
        let decision = grant.outcome.unwrap();
        decision.events.iter().for_each(|event| pool.apply(now, event));
        answers.push((grant.waiter, decision.reply != Reply::None));
    }
    assert_eq!(answers, [(1, true), (3, false)]);
    assert_eq!((pool.waiting_calls(), pool.has_pending_grants()), (1, false));
}
