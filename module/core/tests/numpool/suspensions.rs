//! Numbers out of service (docs/numbers.md, NUMPOOL.SUSPEND and NUMPOOL.RESUME).

use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Cap, Changes, Request, Rule};
use allot_core::numpool::{Pool, Reply, decide};
use allot_core::shared::machine::Machine;

fn suspend(bench: &mut Bench, number: &str, cause: Option<&[u8]>, ttl: Option<i64>) -> Reply {
    bench.ok(&Request::Suspend { numbers: &[n(number)], cause, ttl, missing: false })
}

fn resume(bench: &mut Bench, number: &str) -> Reply {
    bench.ok(&Request::Resume { numbers: &[n(number)], missing: false })
}

fn waiting(bench: &Bench) -> Vec<String> {
    bench.pool.waiting().map(|number| number.to_string()).collect()
}

fn refusal(bench: &Bench, number: &str) -> String {
    let call = Call { number: Some(n(number)), ..any("x") };
    decide(&bench.pool, bench.now, &Request::Call(call)).unwrap_err().to_string()
}

#[test]
fn suspended_number_is_in_no_queue_whatever_it_registers() {
    let mut bench = Bench::of(&["1", "2"]);
    assert_eq!(suspend(&mut bench, "1", None, None), Reply::Integer(1));
    assert_eq!(suspend(&mut bench, "1", None, None), Reply::Integer(0));
    let register = Request::Reg { numbers: &[n("1")], ttl: None, switch: None, missing: false };
    bench.ok(&register);
    bench.ok(&Request::Unreg { numbers: &[n("1")], missing: false });
    bench.ok(&register);
    assert_eq!(waiting(&bench), ["2"]);
    assert_eq!(refusal(&bench, "1"), "BADSTATE number 1 is idle+up but suspended until NUMPOOL.RESUME");
    assert_eq!(resume(&mut bench, "1"), Reply::Integer(1));
    assert_eq!(resume(&mut bench, "1"), Reply::Integer(0));
    assert_eq!(waiting(&bench), ["2", "1"]);
    assert_eq!(bench.pool.check(), Ok(()));
}

#[test]
fn time_of_a_suspension_that_is_out_of_range_is_named() {
    let bench = Bench::of(&["1"]);
    for ttl in [0, -1, i64::MAX] {
        let request = Request::Suspend { numbers: &[n("1")], cause: None, ttl: Some(ttl), missing: false };
        let refusal = decide(&bench.pool, bench.now, &request).unwrap_err().to_string();
        assert_eq!(refusal, format!("ERR FOR must be 1 to 316224000000 ms, not {ttl}"));
    }
}

#[test]
fn call_on_a_suspended_number_goes_on() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Call(any("a")));
    suspend(&mut bench, "1", Some(b"complaint"), Some(100));
    assert!(bench.pool.has_lease(b"a", bench.now));
    assert_eq!((bench.pool.totals().suspended, bench.pool.totals().quarantined), (1, 1));
    bench.ok(&Request::HangUp { number: n("1"), lease: None, cooldown: None, cause: None });
    assert!(waiting(&bench).is_empty());
    assert_eq!(refusal(&bench, "1"), "BADSTATE number 1 is idle+up but in quarantine until 1100");
    bench.at(1099);
    assert!(waiting(&bench).is_empty());
    bench.at(1100);
    assert_eq!((waiting(&bench), bench.pool.totals().suspended), (vec!["1".to_owned()], 0));
}

#[test]
fn resume_ends_a_quarantine_and_keeps_caps_uses_and_the_peer() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Configure(Changes {
        caps: Some(vec![Cap { window: 1000, count: 2 }]),
        ..Changes::default()
    }));
    bench.ok(&Request::Cause { word: b"spam", rule: Rule { cooldown: 86_400_000, after: 1, within: 0 } });
    for token in ["a", "b"] {
        bench.ok(&Request::Call(Call { peer: Some(b"bob"), ..any(token) }));
        let cause: Option<&[u8]> = Some(b"spam");
        bench.ok(&Request::HangUp { number: n("1"), lease: None, cooldown: Some(50), cause });
        assert_eq!(resume(&mut bench, "1"), Reply::Integer(1));
        assert!(waiting(&bench).is_empty(), "the cool-down is not over");
        let now = bench.now + 50;
        bench.at(now);
    }
    assert!(refusal(&bench, "1").starts_with("LIMIT "));
    let record = bench.pool.number_record(n("1"), bench.now).unwrap();
    assert_eq!((record.uses, record.peer.as_deref()), (2, Some(&b"bob"[..])));
    assert_eq!(record.suspension, None);
}

#[test]
fn quarantine_after_a_call_does_not_shorten_a_suspension() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Cause { word: b"busy", rule: Rule { cooldown: 100, after: 1, within: 0 } });
    for ttl in [Some(500), None] {
        bench.ok(&Request::Call(any("a")));
        suspend(&mut bench, "1", Some(b"complaint"), ttl);
        bench.ok(&Request::HangUp { number: n("1"), lease: None, cooldown: None, cause: Some(b"busy") });
        let suspension = bench.pool.number_record(n("1"), bench.now).unwrap().suspension.unwrap();
        let expected = (&b"complaint"[..], ttl.map(|ttl| 1000 + ttl));
        assert_eq!((&suspension.cause.unwrap().0[..], suspension.until), expected);
        resume(&mut bench, "1");
    }
}

#[test]
fn limited_numbers_are_counted_the_same_in_any_order() {
    let limited = |order: [&Request<'_>; 3]| {
        let mut bench = Bench::of(&["1"]);
        let caps = Some(vec![Cap { window: 60_000, count: 1 }]);
        bench.ok(&Request::Configure(Changes { caps, ..Changes::default() }));
        let totals = order.map(|request| {
            bench.ok(request);
            bench.pool.totals().limited
        });
        assert_eq!(bench.pool.check(), Ok(()));
        (totals[2], Pool::decode(&bench.pool.encode()).unwrap().totals().limited)
    };
    let call = Request::Call(any("a"));
    let unregister = Request::Unreg { numbers: &[n("1")], missing: false };
    let hang_up = Request::HangUp { number: n("1"), lease: None, cooldown: None, cause: None };
    assert_eq!(limited([&call, &unregister, &hang_up]), limited([&call, &hang_up, &unregister]));
    let suspend = Request::Suspend { numbers: &[n("1")], cause: None, ttl: None, missing: false };
    assert_eq!(limited([&call, &suspend, &hang_up]), limited([&call, &hang_up, &suspend]));
}

#[test]
fn suspension_that_is_over_and_not_carried_out_does_not_count() {
    let mut bench = Bench::of(&["1"]);
    suspend(&mut bench, "1", None, Some(100));
    bench.now = 1100;
    assert_eq!(bench.pool.number_record(n("1"), 1100).unwrap().suspension, None);
    assert_eq!(bench.pool.count_overdue(1100, 9), 1);
    assert_eq!(resume(&mut bench, "1"), Reply::Integer(0));
    assert_eq!(suspend(&mut bench, "1", None, Some(100)), Reply::Integer(1));
    bench.at(1199);
    assert!(waiting(&bench).is_empty());
}
