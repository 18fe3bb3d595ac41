//! Calls that wait: who is served, in which order, and with what.

use super::naive::Naive;
use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Cap, Changes, Policy, Request};
use allot_core::numpool::waiting::Grant;
use allot_core::numpool::{Number, Reply};
use allot_core::shared::refusal::Code;

impl Bench {
    /// Has a call wait; none may be free for it.
    pub(super) fn wait(&mut self, id: u64, priority: i32, call: Call<'_>) -> Option<u64> {
        self.pool.wait(id, &call, priority)
    }

    /// Serves the calls that are alive: who gets which number, none, or which error.
    pub(super) fn serve_alive(&mut self, is_alive: impl Fn(u64) -> bool) -> Vec<(u64, String)> {
        let mut served = Vec::new();
        while let Some(Grant { waiter, outcome }) = self.pool.next_grant(self.now, 0, &is_alive) {
            let answer = match outcome {
                Err(refusal) => refusal.code.word().to_owned(),
                Ok(decision) => {
                    decision.events.iter().for_each(|event| self.pool.apply(self.now, event));
                    match decision.reply {
                        Reply::Lease(record) => record.number.to_string(),
                        Reply::None => "none".into(),
                        other => panic!("{other:?}"),
                    }
                }
            };
            served.push((waiter, answer));
        }
        assert_eq!(self.pool.check(), Ok(()));
        served
    }

    pub(super) fn serve(&mut self) -> Vec<(u64, String)> {
        self.serve_alive(|_| true)
    }

    fn free(&mut self, number: &str) -> Vec<(u64, String)> {
        self.ok(&Request::HangUp { number: n(number), lease: None, cooldown: None, cause: None });
        self.serve()
    }

    fn all_busy(numbers: &[&str]) -> Self {
        let mut bench = Self::of(numbers);
        for number in numbers {
            bench.ok(&Request::Call(Call { number: Some(n(number)), ..any(number) }));
        }
        bench
    }
}

impl Naive {
    /// The end of a call whose caller never heard of it.
    pub(crate) fn take_back(&mut self, number: Number, token: &[u8], now: i64) -> i64 {
        let Some(entry) = self.entry(number) else { return 0 };
        let Some(lease) = entry.lease.as_ref().filter(|lease| lease.token == token) else { return 0 };
        let since = lease.since;
        if entry.starts.last() == Some(&since) {
            entry.starts.pop();
        }
        entry.uses -= 1;
        let peer = lease.peer.clone();
        if peer.is_some() {
            entry.peer = None;
        }
        self.peers.retain(|(other, last, _)| Some(other) != peer.as_ref() || *last != number);
        if let Some(place) = self.starts.iter().position(|&start| start == since) {
            self.starts.remove(place);
        }
        self.end(number, now, None);
        1
    }
}

fn got(waiter: u64, number: &str) -> Vec<(u64, String)> {
    vec![(waiter, number.to_owned())]
}

#[test]
fn higher_priority_is_served_first_and_then_the_earlier_call() {
    let mut bench = Bench::all_busy(&["1"]);
    for (id, priority) in [(1, 0), (2, 5), (3, 0), (4, 5), (5, -3)] {
        bench.wait(id, priority, any(&format!("w{id}")));
    }
    assert_eq!(bench.pool.waiting_in_order(), [2, 4, 1, 3, 5]);
    for id in [2, 4, 1, 3, 5] {
        assert_eq!(bench.free("1"), got(id, "1"));
    }
    assert_eq!(bench.pool.waiting_calls(), 0);
    assert_eq!(bench.free("1"), []);
}

#[test]
fn waiter_is_not_held_up_by_one_whose_number_is_not_free() {
    let mut bench = Bench::all_busy(&["1", "2", "31"]);
    bench.wait(1, 9, Call { number: Some(n("2")), ..any("w1") });
    bench.wait(2, 8, Call { prefixes: &[n("3")], ..any("w2") });
    bench.wait(3, 0, any("w3"));
    assert_eq!(bench.free("1"), got(3, "1"));
    bench.wait(4, 0, any("w4"));
    assert_eq!(bench.free("31"), got(2, "31"), "the higher priority, though it takes few numbers");
    assert_eq!(bench.free("2"), got(1, "2"));
    assert_eq!(bench.free("31"), got(4, "31"));
}

#[test]
fn waiter_with_several_prefixes_gets_the_first_number_of_any_of_them() {
    let mut bench = Bench::all_busy(&["1", "2", "3", "4"]);
    let (both, three, same) = ([n("1"), n("2")], [n("3"), n("1")], [n("2"), n("2")]);
    bench.wait(1, 0, Call { prefixes: &both, ..any("w1") });
    bench.wait(2, 5, Call { prefixes: &three, ..any("w2") });
    bench.wait(3, 9, Call { prefixes: &same, ..any("w3") });
    bench.wait(4, 0, Call { prefixes: &both, ..any("w4") });
    assert_eq!(bench.free("4"), []);
    assert_eq!(bench.free("1"), got(2, "1"), "the higher priority");
    assert_eq!(bench.free("2"), got(3, "2"));
    assert_eq!(bench.free("2"), got(1, "2"));
    assert_eq!(bench.free("3"), [], "who waited for it has a number");
    bench.pool.stop_waiting(4);
    assert_eq!((bench.free("1"), bench.pool.waiting_calls()), (vec![], 0));
}

#[test]
fn waiter_that_was_alone_keeps_its_place_when_nothing_is_free_for_it() {
    let mut bench = Bench::all_busy(&["1", "2"]);
    (1..=3).for_each(|id| _ = bench.wait(id, 0, any(&format!("early{id}"))));
    assert_eq!(bench.free("1"), got(1, "1"));
    assert_eq!(bench.free("1"), got(2, "1"));
    // The registration of the freed number has lapsed: nobody can have it.
    bench.ok(&Request::Reg { missing: false, numbers: &[n("1")], ttl: Some(5), switch: None });
    bench.now += 10;
    assert_eq!(bench.free("1"), []);
    bench.wait(4, 0, any("late"));
    assert_eq!(bench.free("2"), []);
    bench.tick(1);
    assert_eq!(bench.serve(), got(3, "2"), "when the timer has ended that registration");
}

#[test]
fn waiter_that_comes_while_others_are_being_served_has_its_turn() {
    let mut bench = Bench::of(&[]);
    bench.wait(1, 0, any("a"));
    bench.ok(&Request::Add(&[n("1"), n("2"), n("3")]));
    bench.ok(&Request::Reg { missing: false, numbers: &[n("1"), n("2"), n("3")], ttl: None, switch: None });
    assert!(bench.pool.has_pending_grants());
    bench.pool.sort_at_once(None, true);
    bench.wait(2, 0, Call { prefixes: &[n("3")], ..any("b") });
    assert_eq!(bench.serve(), [(1, "1".to_owned()), (2, "3".to_owned())]);
}

#[test]
fn waiter_is_not_answered_by_a_lease_or_a_registration_that_has_ended_unnoticed() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.ok(&Request::Call(Call { ttl: Some(500), ..any("again") }));
    bench.now += 1000;
    bench.wait(7, 0, any("again"));
    bench.ok(&Request::Add(&[n("3")]));
    bench.ok(&Request::Reg { missing: false, numbers: &[n("3")], ttl: None, switch: None });
    assert_eq!(bench.serve(), []);
    bench.tick(500);
    assert_eq!(bench.serve(), got(7, "2"));

    let mut bench = Bench::of(&["5"]);
    bench.ok(&Request::Reg { missing: false, numbers: &[n("5")], ttl: Some(2000), switch: None });
    bench.ok(&Request::Call(Call { ttl: Some(500), ..any("first") }));
    bench.wait(8, 0, Call { number: Some(n("5")), ..any("named") });
    bench.now += 5000;
    bench.tick(1);
    assert_eq!(bench.serve(), [], "its lease has ended, and its registration, which nobody has noticed");
    bench.tick(500);
    assert_eq!(bench.serve(), []);
    bench.ok(&Request::Reg { missing: false, numbers: &[n("5")], ttl: None, switch: None });
    assert_eq!(bench.serve(), got(8, "5"));
}

#[test]
fn numbers_that_come_up_together_go_to_the_waiters_in_order() {
    let mut bench = Bench::of(&[]);
    let numbers: Vec<Number> = (10..20).map(|number| n(&number.to_string())).collect();
    bench.ok(&Request::Add(&numbers));
    for id in 1..=4 {
        bench.wait(id, 0, any(&format!("w{id}")));
    }
    bench.wait(5, 1, Call { number: Some(n("10")), ..any("w5") });
    bench.ok(&Request::Reg { missing: false, numbers: &numbers, ttl: None, switch: None });
    let expected = [(5, "10"), (1, "11"), (2, "12"), (3, "13"), (4, "14")];
    let expected: Vec<(u64, String)> = expected.map(|(id, number)| (id, number.to_owned())).into();
    assert_eq!(bench.serve(), expected);
    assert_eq!(bench.pool.waiting().count(), 5);
}

#[test]
fn dead_waiter_is_passed_over_in_the_same_step() {
    let mut bench = Bench::all_busy(&["1"]);
    (1..=3).for_each(|id| _ = bench.wait(id, 0, any(&format!("w{id}"))));
    bench.ok(&Request::HangUp { number: n("1"), lease: None, cooldown: None, cause: None });
    assert_eq!(bench.serve_alive(|id| id == 3), got(3, "1"));
    assert_eq!(bench.pool.waiting_calls(), 0);
}

#[test]
fn number_goes_to_the_next_waiter_after_its_cool_down() {
    let mut bench = Bench::all_busy(&["1"]);
    bench.ok(&Request::Configure(Changes { cooldown: Some(100), ..Changes::default() }));
    bench.wait(1, 0, any("w1"));
    assert_eq!(bench.free("1"), []);
    bench.now += 100;
    for event in allot_core::numpool::decide_due(&bench.pool, bench.now, 10) {
        bench.pool.apply(bench.now, &event);
    }
    assert_eq!(bench.serve(), got(1, "1"));
}

#[test]
fn waiter_for_a_deleted_number_is_told() {
    let mut bench = Bench::all_busy(&["1"]);
    bench.wait(1, 0, Call { number: Some(n("1")), ..any("w1") });
    bench.ok(&Request::Del { numbers: &[n("1")], drain: true });
    assert_eq!(bench.serve(), []);
    assert_eq!(bench.free("1"), got(1, Code::NotFound.word()));
}

#[test]
fn repeated_call_takes_the_place_of_the_earlier_one() {
    let mut bench = Bench::all_busy(&["1"]);
    bench.wait(1, 0, any("same"));
    bench.wait(2, 0, any("other"));
    assert_eq!(bench.wait(3, 0, any("same")), Some(1));
    assert_eq!(bench.pool.waiting_in_order(), [3, 2]);
    assert_eq!(bench.wait(4, -1, any("same")), Some(3), "with another priority it comes last");
    assert_eq!(bench.pool.waiting_in_order(), [2, 4]);
}

#[test]
fn waiter_gets_the_lease_of_its_token_that_another_call_began() {
    let mut bench = Bench::all_busy(&["1", "2"]);
    bench.wait(1, 0, Call { number: Some(n("2")), ..any("same") });
    bench.free("1");
    bench.ok(&Request::Call(any("same")));
    assert_eq!(bench.serve(), got(1, "EXISTS"), "the lease is live on another number");
    bench.free("1");
    bench.wait(2, 0, Call { prefixes: &[n("9")], ..any("twice") });
    bench.ok(&Request::Call(any("twice")));
    assert_eq!(bench.serve(), got(2, "1"));
}

#[test]
fn waiters_choose_by_their_own_policy() {
    let mut bench = Bench::all_busy(&["1", "2", "3"]);
    for number in ["1", "2", "3"] {
        bench.free(number);
    }
    let peer = Some(&b"bob"[..]);
    bench.ok(&Request::Call(Call { number: Some(n("3")), peer, ..any("b") }));
    for number in ["1", "2"] {
        bench.ok(&Request::Call(Call { number: Some(n(number)), ..any(number) }));
    }
    bench.wait(1, 0, Call { pick: Some(Policy::Sticky), peer, ..any("w1") });
    for number in ["1", "2", "3"] {
        bench.ok(&Request::HangUp { number: n(number), lease: None, cooldown: None, cause: None });
    }
    assert_eq!(bench.serve(), got(1, "3"));
}

#[test]
fn call_that_is_taken_back_does_not_count_for_the_caps() {
    let mut bench = Bench::of(&["1"]);
    let caps = Some(vec![Cap { window: 1000, count: 2 }]);
    bench.ok(&Request::Configure(Changes { caps: caps.clone(), cooldown: Some(100), ..Changes::default() }));
    let limited = |bench: &Bench| bench.pool.number_record(n("1"), bench.now).unwrap().limit_until;
    let take_back = |bench: &mut Bench, lease: &[u8]| {
        assert_eq!(bench.ok(&Request::TakeBack { number: n("1"), lease }), Reply::Integer(1));
    };
    bench.ok(&Request::Call(any("lost")));
    assert_eq!(bench.ok(&Request::TakeBack { number: n("1"), lease: b"other" }), Reply::Integer(0));
    take_back(&mut bench, b"lost");
    assert_eq!(bench.ok(&Request::TakeBack { number: n("1"), lease: b"lost" }), Reply::Integer(0));
    assert_eq!(bench.pool.waiting().collect::<Vec<_>>(), [n("1")], "it does not cool down");
    for token in ["first", "second"] {
        assert_eq!(limited(&bench), None, "before the {token} call");
        bench.ok(&Request::Call(any(token)));
        bench.ok(&Request::HangUp { number: n("1"), lease: None, cooldown: Some(0), cause: None });
    }
    let until = bench.now + 1000;
    assert_eq!(limited(&bench), Some(until));
    // A call that began before the pool had caps takes no other start with it.
    bench.ok(&Request::Configure(Changes { caps: Some(Vec::new()), ..Changes::default() }));
    bench.ok(&Request::Call(any("early")));
    bench.ok(&Request::Configure(Changes { caps, ..Changes::default() }));
    take_back(&mut bench, b"early");
    assert_eq!((limited(&bench), bench.pool.check()), (None, Ok(())));
}

#[test]
fn call_that_is_taken_back_is_no_use_of_its_number() {
    let mut bench = Bench::of(&["1", "2"]);
    let number = |text, peer| Call { number: Some(n(text)), peer, ..any("lost") };
    let take_back =
        |bench: &mut Bench, text| bench.ok(&Request::TakeBack { number: n(text), lease: b"lost" });
    bench.ok(&Request::Call(number("1", Some(b"ann"))));
    take_back(&mut bench, "1");
    let seen = |bench: &Bench, text| {
        let record = bench.pool.number_record(n(text), bench.now).unwrap();
        (record.uses, record.peer.map(|peer| peer.to_vec()))
    };
    assert_eq!(seen(&bench, "1"), (0, None));
    // A number that has called a peer keeps it if the lost call named none.
    bench.ok(&Request::Call(Call { number: Some(n("2")), peer: Some(b"bob"), ..any("heard") }));
    bench.ok(&Request::HangUp { number: n("2"), lease: None, cooldown: None, cause: None });
    bench.ok(&Request::Call(number("2", None)));
    take_back(&mut bench, "2");
    assert_eq!(seen(&bench, "2"), (1, Some(b"bob".to_vec())));
    let least_used = Call { pick: Some(Policy::LeastUsed), ..any("next") };
    bench.pool.sort_at_once(least_used.pick, false);
    let Reply::Lease(record) = bench.ok(&Request::Call(least_used)) else { panic!("none is free") };
    assert_eq!((record.number, bench.pool.check()), (n("1"), Ok(())));
}

#[test]
fn a_copy_of_a_pool_has_no_waiters() {
    let mut bench = Bench::all_busy(&["1"]);
    bench.wait(1, 0, any("w1"));
    assert_eq!(bench.pool.clone().waiting_calls(), 0);
    bench.pool.stop_waiting(1);
    bench.pool.stop_waiting(1);
    assert_eq!(bench.free("1"), []);
}
