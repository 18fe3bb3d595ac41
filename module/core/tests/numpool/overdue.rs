//! Overdue deadlines: a request applies those that its decision depends on, and no others.

use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Policy, Request};
use allot_core::numpool::{Event, Number, Reply, decide, decide_overdue};
use allot_core::shared::refusal::Code;

/// How many overdue deadlines are applied for a request, and its answer.
fn applied_for(bench: &Bench, request: &Request<'_>) -> (usize, Result<Reply, Code>) {
    let (mut pool, mut applied) = (bench.pool.clone(), 0);
    loop {
        let events = decide_overdue(&pool, bench.now, request);
        if events.is_empty() {
            let answer = decide(&pool, bench.now, request).map(|decision| decision.reply);
            return (applied, answer.map_err(|refusal| refusal.code));
        }
        for event in &events {
            applied += match event {
                Event::Lapsed(numbers) | Event::Cooled(numbers) | Event::Ended { numbers, .. } => {
                    numbers.len()
                }
                other => panic!("{other:?} is no deadline"),
            };
            pool.apply(bench.now, event);
        }
    }
}

#[test]
fn a_request_applies_only_the_deadlines_it_depends_on() {
    let mut bench = Bench::of(&["1", "2"]);
    let numbers: Vec<Number> = (0..5000).map(|number| n(&format!("138{number:05}"))).collect();
    bench.ok(&Request::Add(&numbers));
    bench.ok(&Request::Reg { numbers: &numbers, ttl: Some(500), switch: Some(b"other") });
    let (first, last) = (numbers[0], numbers[4999]);
    bench.ok(&Request::Call(Call { number: Some(first), ttl: Some(400), ..any("short") }));
    bench.now = 9000;
    let applied = |bench: &Bench, request: &Request<'_>| applied_for(bench, request).0;
    let hangup = |number| Request::HangUp { number, lease: None, cooldown: None, cause: None };
    assert_eq!(applied_for(&bench, &hangup(first)), (2, Err(Code::BadState)), "its lease and registration");
    assert_eq!(applied(&bench, &hangup(last)), 1);
    assert_eq!(applied(&bench, &hangup(n("1"))), 0);
    assert_eq!(applied_for(&bench, &Request::Unreg(&[first, last, last])), (3, Ok(Reply::Integer(0))));
    assert_eq!(applied(&bench, &Request::Call(any("short"))), 1, "its lease has ended");
    let reconcile = Request::Reconcile { switch: b"other", before: None, leases: &[] };
    assert_eq!(applied(&bench, &reconcile), 1);
    assert_eq!(applied_for(&bench, &Request::UnregSwitch(b"other")), (5001, Ok(Reply::Integer(0))));
    // The numbers that wait longest are still registered.
    assert_eq!(applied(&bench, &Request::Call(any("new"))), 0);
    bench.ok(&Request::Call(any("new")));
    bench.ok(&Request::Call(any("newer")));
    // Each of the others must go before it is certain that none is free.
    assert_eq!(applied_for(&bench, &Request::Call(any("newest"))), (5001, Ok(Reply::None)));
}

#[test]
fn a_call_ends_registrations_that_have_lapsed_only_if_it_would_get_their_numbers() {
    let mut bench = Bench::of(&[]);
    let numbers: Vec<Number> = (0..3000).map(|number| n(&format!("138{number:05}"))).collect();
    bench.ok(&Request::Add(&numbers));
    bench.ok(&Request::Reg { numbers: &numbers, ttl: Some(500), switch: None });
    bench.ok(&Request::Add(&[n("99")]));
    bench.ok(&Request::Reg { numbers: &[n("99")], ttl: None, switch: None });
    bench.now = 9000;
    for (pick, prefix) in Policy::ALL.iter().flat_map(|&pick| [(pick, None), (pick, Some(n("9")))]) {
        bench.pool.prepare(Some(pick), prefix);
        let call = Call { pick: Some(pick), prefix, peer: Some(b"bob"), random: u64::MAX / 3, ..any("new") };
        let (applied, answer) = applied_for(&bench, &Request::Call(call));
        let Ok(Reply::Lease(record)) = answer else { panic!("{pick:?}: {answer:?}") };
        let expected = if prefix.is_some() { 0 } else { 3000 };
        assert_eq!((applied, record.number), (expected, n("99")), "{pick:?} {prefix:?}");
        let lapsed = Call { prefix: Some(n("138")), ..call };
        bench.pool.prepare(Some(pick), lapsed.prefix);
        assert_eq!(applied_for(&bench, &Request::Call(lapsed)), (3000, Ok(Reply::None)), "{pick:?}");
    }
    bench.ok(&Request::Unreg(&[n("99")]));
    assert_eq!(applied_for(&bench, &Request::Call(any("new"))), (0, Ok(Reply::None)));
}

#[test]
fn a_call_ends_no_leases_if_the_registrations_of_all_numbers_have_lapsed() {
    let mut bench = Bench::of(&[]);
    let numbers: Vec<Number> = (0..3000).map(|number| n(&format!("138{number:05}"))).collect();
    bench.ok(&Request::Add(&numbers));
    bench.ok(&Request::Reg { numbers: &numbers, ttl: Some(500), switch: None });
    for number in &numbers {
        bench.ok(&Request::Call(Call { ttl: Some(400), ..any(&number.to_string()) }));
    }
    bench.now = 9000;
    assert_eq!(applied_for(&bench, &Request::Call(any("new"))), (0, Ok(Reply::None)));
    bench.ok(&Request::Add(&[n("99")]));
    bench.ok(&Request::Reg { numbers: &[n("99")], ttl: None, switch: None });
    bench.ok(&Request::Call(any("99")));
    let (applied, answer) = applied_for(&bench, &Request::Call(any("new")));
    assert_eq!((applied, answer), (6000, Ok(Reply::None)), "one of them might be free");
}
