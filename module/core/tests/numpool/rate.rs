//! The rate of a pool against a list of all calls, and what becomes of calls that wait for it.

use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Cap, Changes, DAY, Request};
use allot_core::numpool::{Pool, Reply, decide};
use allot_core::shared::machine::Machine;
use allot_core::shared::refusal::Code;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

fn rate(count: u32, window: i64) -> Changes {
    Changes { rate: Some(Cap { window, count }), ..Changes::default() }
}

/// A pool with so many free numbers and a rate.
fn bench(numbers: usize, count: u32, window: i64) -> Bench {
    let texts: Vec<String> = (0..numbers).map(|number| format!("1{number:03}")).collect();
    let mut bench = Bench::of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    bench.ok(&Request::Configure(rate(count, window)));
    bench
}

fn call(bench: &mut Bench, token: &str) -> Result<Reply, Code> {
    let decision =
        decide(&bench.pool, bench.now, &Request::Call(any(token))).map_err(|refusal| refusal.code)?;
    decision.events.iter().for_each(|event| bench.pool.apply(bench.now, event));
    Ok(decision.reply)
}

fn got(waiter: u64, number: &str) -> (u64, String) {
    (waiter, number.to_owned())
}

#[test]
fn rate_is_exact_to_the_millisecond() {
    let (count, window) = (7, 50);
    let mut bench = bench(3, count, window);
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[3; 32]);
    let (mut starts, mut refused) = (Vec::<i64>::new(), 0);
    for round in 0..20_000 {
        bench.now += [0, 0, 1, 2, 3, 17][random.next_u32() as usize % 6];
        let now = bench.now;
        let begun = starts.iter().rev().take_while(|&&start| now < start + window).count();
        match call(&mut bench, &round.to_string()) {
            Ok(Reply::Lease(record)) => {
                assert!(begun < count as usize, "call {begun} of a window began at {now}");
                starts.push(now);
                let (number, lease, cooldown, cause) = (record.number, None, None, None);
                bench.ok(&Request::HangUp { number, lease, cooldown, cause });
            }
            Err(Code::Limit) => {
                assert!(begun >= count as usize, "a call could begin at {now}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(starts.len() > 2000 && refused > 2000, "{} began, {refused} refused", starts.len());
    assert_eq!(bench.pool.check(), Ok(()));
}

#[test]
fn calls_that_wait_begin_in_their_order_when_the_rate_allows_it() {
    let mut bench = bench(4, 1, 100);
    call(&mut bench, "first").unwrap();
    assert_eq!(call(&mut bench, "second"), Err(Code::Limit));
    bench.wait(1, 0, any("w1"));
    bench.wait(2, 5, any("w2"));
    assert_eq!(bench.serve(), []);
    assert!(!bench.pool.has_pending_grants(), "the timer need not look before");
    assert_eq!(bench.pool.next_due(), Some(1100));
    for (at, served) in [(1099, None), (1100, Some(2)), (1150, None), (1200, Some(1))] {
        bench.now = at;
        bench.pool.finish_work(at);
        let waiters: Vec<u64> = bench.serve().into_iter().map(|(waiter, _)| waiter).collect();
        assert_eq!(waiters, Vec::from_iter(served), "at {at}");
    }
    assert_eq!(bench.pool.next_due(), None);
}

#[test]
fn calls_that_wait_begin_at_once_when_the_rate_is_removed() {
    let mut bench = bench(3, 1, 100);
    call(&mut bench, "first").unwrap();
    bench.wait(1, 0, any("w1"));
    assert_eq!(bench.serve(), []);
    bench.ok(&Request::Configure(rate(0, 0)));
    assert_eq!(bench.serve(), [got(1, "1001")]);
    assert_eq!(bench.pool.settings().rate, None);
}

#[test]
fn call_that_waits_for_a_number_hears_that_it_is_deleted_in_spite_of_the_rate() {
    let mut bench = bench(3, 1, 100);
    call(&mut bench, "first").unwrap();
    bench.wait(1, 0, Call { number: Some(n("1001")), ..any("w1") });
    bench.wait(2, 0, Call { number: Some(n("1002")), ..any("w2") });
    bench.wait(3, 7, Call { number: Some(n("1001")), ..any("w3") });
    assert_eq!(bench.serve(), []);
    bench.ok(&Request::Del { numbers: &[n("1001")], drain: false });
    assert_eq!(bench.serve(), [got(3, "NOTFOUND"), got(1, "NOTFOUND")]);
    bench.now = 1100;
    assert_eq!(bench.serve(), [got(2, "1002")]);
}

#[test]
fn repeated_call_gets_its_record_in_spite_of_the_rate() {
    let mut bench = bench(3, 1, 100);
    let first = call(&mut bench, "first");
    assert_eq!(call(&mut bench, "first"), first);
}

#[test]
fn call_that_is_taken_back_does_not_count() {
    let mut bench = bench(3, 2, 100);
    call(&mut bench, "first").unwrap();
    bench.now += 10;
    call(&mut bench, "second").unwrap();
    bench.wait(1, 0, any("w1"));
    assert_eq!(bench.serve(), []);
    bench.ok(&Request::TakeBack { number: n("1000"), lease: b"first" });
    assert_eq!(bench.serve(), [got(1, "1002")]);
    assert_eq!(bench.pool.rate_until(bench.now), Some(1110));
}

#[test]
fn rate_survives_a_snapshot_and_a_clock_that_is_set_back() {
    let mut bench = bench(3, 1, 100);
    call(&mut bench, "first").unwrap();
    let mut pool = Pool::decode(&bench.pool.encode()).unwrap();
    assert_eq!(pool.rate_until(1000), Some(1100));
    Machine::set_back(&mut pool, 500);
    assert_eq!(pool.rate_until(500), Some(600));
    assert_eq!((pool.rate_until(600), pool.check()), (None, Ok(())));
}

#[test]
fn rates_out_of_range_are_refused() {
    let bench = Bench::of(&["1"]);
    for (count, window) in [(1, DAY), (1, -5), (10_001, 10), (1, i64::MAX)] {
        let refusal = decide(&bench.pool, bench.now, &Request::Configure(rate(count, window))).unwrap_err();
        assert_eq!(refusal.code, Code::Err, "{count} in {window}");
    }
}
