//! Calls that are postponed until the timer has done the work that the choice of a number needs.

use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Changes, Policy, Request};
use allot_core::numpool::{Event, Number, Pool, Reply, decide, decide_due, decide_overdue};

/// More numbers than an order gets in one slice.
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
        bench.ok(&Request::Reg { numbers: part, ttl: None, switch: None });
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

/// All calls whose choice needs an order.
fn choices() -> impl Iterator<Item = Call<'static>> {
    let with_prefix = Policy::ALL.iter().map(|&pick| (pick, Some(n("12"))));
    with_prefix.chain([(Policy::LeastUsed, None)]).map(|(pick, prefix)| Call {
        pick: Some(pick),
        prefix,
        peer: Some(b"bob"),
        ..any("postponed")
    })
}

impl Bench {
    fn postpone(&mut self, id: u64, call: &Call<'_>) {
        assert!(self.pool.is_postponed(self.now, call));
        self.pool.postpone(id, call);
    }

    /// What the timer does at once.
    pub(super) fn tick(&mut self, limit: usize) {
        for event in decide_due(&self.pool, self.now, limit) {
            self.pool.apply(self.now, &event);
        }
        self.pool.continue_preparation(self.now);
        assert_eq!(self.pool.check(), Ok(()));
    }

    /// What a call would get if the pool had the order for it.
    fn expected(&self, call: Call<'_>) -> String {
        let mut prepared = self.pool.clone();
        prepared.prepare(call.pick, call.prefix);
        number_for(&prepared, self.now, call)
    }
}

/// What a call gets at once, with the order as it is.
fn number_for(pool: &Pool, now: i64, call: Call<'_>) -> String {
    match decide(pool, now, &Request::Call(call)).unwrap().reply {
        Reply::Lease(record) => record.number.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_caller_that_cannot_wait_gets_the_number_used_least_while_the_order_is_made() {
    let call = Call { pick: Some(Policy::LeastUsed), ..any("a") };
    // Places in the queue of the numbers that were used once; the others were used twice.
    for once in
        [vec![34_999], vec![34_000, 20_000, 34_999], vec![5000, 20_000], vec![9999], vec![10_000, 30_000]]
    {
        let mut bench = Bench::of(&[]);
        let numbers: Vec<Number> = (0..NUMBERS).map(number).collect();
        for part in numbers.chunks(10_000) {
            bench.ok(&Request::Add(part));
            bench.ok(&Request::Reg { numbers: part, ttl: None, switch: None });
        }
        let twice = (0..NUMBERS).filter(|place| !once.contains(place));
        for place in twice.chain(0..NUMBERS) {
            call_one(&mut bench, numbers[place]);
            hang_up(&mut bench, numbers[place]);
            bench.now += 1;
        }
        bench.ok(&Request::Configure(Changes { pick: Some(Policy::LeastUsed), ..Changes::default() }));
        for slice in 0..6 {
            assert_eq!(number_for(&bench.pool, bench.now, call), bench.expected(call), "{slice} slices");
            bench.pool.prepare_a_part();
            assert_eq!(bench.pool.check(), Ok(()));
        }
    }
}

#[test]
fn slices_make_the_order_that_one_step_makes_while_numbers_come_and_go() {
    let large = large();
    for call in choices() {
        let mut bench = Bench { pool: large.pool.clone(), now: large.now };
        bench.postpone(7, &call);
        let mut rounds = 0;
        while !bench.pool.has_grants() {
            assert_eq!(bench.pool.next_due(), Some(bench.now), "the timer goes on at once");
            // Numbers leave that are in the order, that are not yet in it, and the next one; and some join again.
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
        let expected = bench.expected(call);
        assert_eq!(bench.serve(), [(7, expected)], "{call:?}");
        assert!(!bench.pool.is_postponed(bench.now, &Call { lease: any("next").lease, ..call }));
        assert_ne!(bench.pool.next_due(), Some(bench.now), "the work is done");
    }
}

#[test]
fn postponed_calls_are_answered_in_the_order_in_which_they_came() {
    let mut bench = large();
    let used = Call { pick: Some(Policy::LeastUsed), ..any("a") };
    let nothing = Call { prefix: Some(n("9999999")), ..any("b") };
    bench.postpone(1, &used);
    bench.postpone(2, &nothing);
    bench.postpone(3, &Call { lease: any("c").lease, ..used });
    // The same call again, after its connection was lost.
    bench.postpone(4, &used);
    // A call that waits, and needs the same work.
    assert!(bench.pool.is_postponed(bench.now, &Call { lease: any("w").lease, ..used }));
    bench.wait(5, 0, Call { lease: any("w").lease, ..used });
    // These need nothing.
    assert!(!bench.pool.is_postponed(bench.now, &any("d")));
    assert!(!bench.pool.is_postponed(bench.now, &Call { number: Some(number(3)), ..used }));
    assert!(!bench.pool.clone().has_grants(), "a copy has no connections");
    while !bench.pool.has_grants() {
        assert_eq!(bench.serve(), []);
        bench.tick(0);
    }
    assert!(!bench.pool.clone().has_grants(), "a copy has no connections");
    let free = |place: usize| number(place * 4 + 3).to_string();
    // Calls that come now are behind.
    assert!(bench.pool.is_postponed(bench.now, &any("d")));
    bench.pool.postpone(6, &any("d"));
    let late = Call { prefix: Some(n("12")), ..any("v") };
    assert!(bench.pool.is_postponed(bench.now, &late));
    bench.wait(7, 0, late);
    let oldest = bench.pool.waiting().find(|number| *number != n(&free(0)) && *number != n(&free(1)));
    let served = bench.serve_alive(|id| id != 3);
    let expected =
        [(5, free(0)), (1, free(1)), (2, "none".into()), (4, free(1)), (6, oldest.unwrap().to_string())];
    assert_eq!(served, expected);
    assert!(!bench.pool.is_postponed(bench.now, &any("e")));
    assert!(!bench.pool.has_grants());
    let expected = bench.expected(late);
    bench.tick(0);
    assert_eq!(bench.serve(), [(7, expected)], "a call that waits, and came behind them");
    assert_ne!(bench.pool.next_due(), Some(bench.now));

    // A key that gets another name has none of them.
    let mut bench = large();
    bench.postpone(1, &used);
    bench.pool.forget_waiters();
    while bench.pool.next_due() == Some(bench.now) {
        bench.tick(0);
    }
    assert_eq!(bench.serve(), []);
}

#[test]
fn postponed_call_is_answered_when_all_that_is_overdue_was_applied() {
    let mut bench = Bench::of(&[]);
    let numbers: Vec<Number> = (0..5000).map(number).collect();
    bench.ok(&Request::Add(&numbers));
    bench.ok(&Request::Reg { numbers: &numbers, ttl: Some(500), switch: None });
    bench.ok(&Request::Add(&[n("77")]));
    bench.ok(&Request::Reg { numbers: &[n("77")], ttl: None, switch: None });
    bench.now = 9000;
    assert!(!bench.pool.is_postponed(bench.now, &any("a")), "it may be answered at once");
    bench.pool.postpone(1, &any("a"));
    bench.pool.postpone(2, &any("b"));
    let mut rounds = 0;
    while !bench.pool.has_grants() {
        assert_eq!(bench.serve(), []);
        bench.tick(500);
        rounds += 1;
    }
    assert_eq!(rounds, 10);
    // Deadlines have passed since: they come first.
    bench.ok(&Request::Reg { numbers: &[numbers[0]], ttl: Some(500), switch: None });
    bench.now += 1000;
    assert_eq!(bench.serve(), []);
    bench.tick(500);
    assert_eq!(bench.serve(), [(1, "77".into()), (2, "none".into())]);
}

#[test]
fn waiter_gets_a_number_behind_one_whose_registration_has_lapsed_before_calls_that_came_later() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Reg { numbers: &[n("1")], ttl: Some(500), switch: None });
    call_one(&mut bench, n("1"));
    bench.wait(7, 0, any("w"));
    bench.now = 9000;
    // Nobody has noticed yet that the registration has lapsed.
    hang_up(&mut bench, n("1"));
    bench.ok(&Request::Add(&[n("2")]));
    bench.ok(&Request::Reg { numbers: &[n("2")], ttl: None, switch: None });
    assert_eq!(bench.serve(), []);
    // So this does not end before the waiter has its turn, whether the call names a number or not.
    for call in [any("late"), Call { number: Some(n("2")), ..any("named") }] {
        let mut bench = Bench { pool: bench.pool.clone(), now: bench.now };
        bench.pool.await_deadlines();
        let due = decide_overdue(&bench.pool, bench.now, &Request::Call(call));
        assert!(matches!(due.as_slice(), [Event::Lapsed(numbers)] if numbers[..] == [n("1")]), "{due:?}");
    }
    bench.tick(500);
    assert_eq!(bench.serve(), [(7, "2".into())]);
    let due = decide_overdue(&bench.pool, bench.now, &Request::Call(any("late")));
    assert!(due.is_empty(), "{due:?}");
}

#[test]
fn repeated_call_is_postponed_if_its_lease_has_ended() {
    let mut bench = large();
    let call = Call { prefix: Some(n("12")), ttl: Some(500), ..any("a") };
    bench.ok(&Request::Call(Call { prefix: None, ..call }));
    assert!(!bench.pool.is_postponed(bench.now, &call), "its lease is the answer");
    bench.now += 1000;
    assert!(bench.pool.is_postponed(bench.now, &call), "nobody has noticed yet that the lease has ended");
}

#[test]
fn pool_that_picks_by_use_has_its_order_before_a_call_needs_it() {
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
    let is_postponed = |pool: &Pool| pool.clone().is_postponed(bench.now, &any("a"));
    assert!(!is_postponed(&bench.pool));
    assert!(!is_postponed(&Pool::decode(&bench.pool.encode()).unwrap()), "loading makes the order");
    // A batch of changes drops the order, and the timer makes it again.
    let some: Vec<Number> = bench.pool.waiting().take(10_000).collect();
    bench.ok(&Request::Unreg(&some));
    bench.ok(&Request::Reg { numbers: &some, ttl: None, switch: None });
    assert_eq!(bench.pool.next_due(), Some(bench.now));
    (0..slices).for_each(|_| bench.tick(0));
    assert_ne!(bench.pool.next_due(), Some(bench.now));
}
