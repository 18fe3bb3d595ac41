//! One deadline of a switch for all of its calls (docs/numbers.md, NUMPOOL.BEAT).

use super::spec::{Bench, any, n};
use allot_core::numpool::decide::MISSED_FOR;
use allot_core::numpool::event::{Cause, Event};
use allot_core::numpool::outcome::Alive;
use allot_core::numpool::request::{Call, Changes, OfSwitch, Request};
use allot_core::numpool::{Number, Pool, Reply, decide, decide_due};
use allot_core::shared::machine::Machine;
use allot_core::shared::refusal::Code;

fn beat(bench: &mut Bench, ttl: i64) -> Reply {
    bench.ok(&Request::Beat { switch: b"sw", ttl })
}

fn alive(until: i64, calls: u32) -> Reply {
    Reply::Alive(Alive { until, calls })
}

fn state(bench: &Bench, number: &str) -> &'static str {
    bench.pool.number_record(n(number), bench.now).unwrap().state.word()
}

#[test]
fn heartbeats_keep_all_calls_and_the_last_one_ends_them() {
    let mut bench = Bench::of(&["1", "2", "3"]);
    bench.ok(&Request::Configure(Changes { lease: Some(50), cooldown: Some(20), ..Changes::default() }));
    assert_eq!(beat(&mut bench, 100), alive(1100, 0));
    bench.ok(&Request::Call(any("a")));
    bench.ok(&Request::Call(Call { switch: Some(b"sw"), ..any("b") }));
    bench.ok(&Request::Call(Call { ttl: Some(1000), ..any("c") }));
    bench.at(1090);
    assert_eq!(beat(&mut bench, 100), alive(1190, 3));
    bench.at(1189);
    assert_eq!((state(&bench, "1"), state(&bench, "2")), ("busy+up", "busy+up"));
    // Before the deadlines are carried out, the calls have ended as well.
    bench.now = 1190;
    assert_eq!((state(&bench, "1"), bench.pool.has_lease(b"b", 1190)), ("idle+up", false));
    bench.at(1205);
    assert_eq!((state(&bench, "2"), state(&bench, "3")), ("idle+up", "busy+up"));
    let record = bench.pool.number_record(n("1"), 1205).unwrap();
    assert_eq!((record.idle_since, record.cool_until), (Some(1190), Some(1210)), "from the deadline on");
    assert_eq!(beat(&mut bench, 100), alive(1305, 1));
}

#[test]
fn call_of_another_switch_or_with_a_deadline_does_not_end() {
    let mut bench = Bench::of(&["1", "2", "3"]);
    bench.ok(&Request::Call(Call { switch: Some(b"other"), ..any("a") }));
    bench.ok(&Request::Call(any("b")));
    beat(&mut bench, 100);
    bench.ok(&Request::Renew { number: n("2"), lease: b"b", ttl: 500 });
    bench.at(1400);
    assert_eq!((state(&bench, "1"), state(&bench, "2")), ("busy+up", "busy+up"));
    bench.at(1500);
    assert_eq!(state(&bench, "2"), "idle+up");
}

#[test]
fn lease_of_a_holder_is_no_call_of_a_switch() {
    let mut bench = Bench::of(&["1", "2", "3"]);
    bench.ok(&Request::Call(Call { holder: Some(b"realm"), ..any("a") }));
    bench.ok(&Request::Call(Call { holder: Some(b"realm"), switch: Some(b"sw"), ..any("b") }));
    bench.ok(&Request::Unreg { numbers: &[n("3")], missing: false });
    bench.ok(&Request::Reg { numbers: &[n("3")], ttl: None, switch: None, missing: false });
    bench.ok(&Request::Call(any("c")));
    assert_eq!(beat(&mut bench, 100), alive(1100, 0));
    bench.at(1100);
    let reconcile = |bench: &mut Bench, switch| {
        let request = OfSwitch::Reconcile { switch, before: None, leases: &[b"a"] };
        match bench.ok(&Request::OfSwitch(request)) {
            Reply::Reconciled(outcome) => (outcome.kept, outcome.freed, outcome.unknown.len()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reconcile(&mut bench, Some(b"sw")), (0, 0, 1));
    assert_eq!(reconcile(&mut bench, Some(b"realm")), (0, 0, 1));
    assert_eq!(reconcile(&mut bench, None), (0, 1, 1), "the lease without a switch");
    let (_, leases) = bench.pool.lease_scan(0, 10, None, bench.now);
    let holders: Vec<_> = leases.iter().map(|lease| (&lease.token[..], lease.holder.as_deref())).collect();
    assert_eq!(holders, [(&b"a"[..], Some(&b"realm"[..])), (b"b", Some(b"realm"))]);
}

/// The holder has conferences on these numbers. Returns how many leases are left.
fn look(bench: &mut Bench, holder: &[u8], numbers: &[&str]) -> usize {
    let has = |number: Number| numbers.iter().any(|text| n(text) == number);
    for place in 0..bench.pool.lease_places() {
        for event in bench.pool.look_at_held(holder, place..place + 1, bench.now, has) {
            bench.pool.admits(&event).unwrap();
            bench.pool.apply(bench.now, &event);
        }
    }
    assert_eq!(bench.pool.check(), Ok(()));
    bench.pool.live_leases()
}

#[test]
fn number_ends_whose_holder_lacks_its_conference_for_long() {
    let mut bench = Bench::of(&["1", "2", "3", "4"]);
    for (token, holder) in [("a", "realm"), ("b", "realm"), ("c", "other")] {
        bench.ok(&Request::Call(Call { holder: Some(holder.as_bytes()), ..any(token) }));
    }
    bench.ok(&Request::Call(any("call")));
    assert_eq!(bench.pool.holders(), [&b"realm"[..], b"other"]);
    assert_eq!(look(&mut bench, b"realm", &["1", "2"]), 4);
    // The realm is deleted, and made again. It adopts one of its conferences.
    assert_eq!(look(&mut bench, b"realm", &[]), 4);
    bench.now += MISSED_FOR - 1;
    assert_eq!(look(&mut bench, b"realm", &[]), 4);
    assert_eq!(look(&mut bench, b"realm", &["2"]), 4);
    bench.now += 1;
    assert_eq!(look(&mut bench, b"nobody", &[]), 4);
    assert_eq!(look(&mut bench, b"realm", &[]), 3, "the other is missed since now");
    assert_eq!((state(&bench, "1"), state(&bench, "2")), ("idle+up", "busy+up"));
    bench.now += MISSED_FOR - 1;
    assert_eq!(look(&mut bench, b"realm", &[]), 3);
    // This server was a replica meanwhile: its looks were too long ago.
    bench.pool.forget_waiters();
    bench.now += 1;
    assert_eq!(look(&mut bench, b"realm", &[]), 3);
    // A lease in the same place is another one.
    bench.ok(&Request::HangUp { number: n("2"), lease: None, cooldown: None, cause: None });
    bench.ok(&Request::Call(Call { holder: Some(b"realm"), number: Some(n("2")), ..any("d") }));
    bench.now += MISSED_FOR;
    assert_eq!(look(&mut bench, b"realm", &[]), 3);
    bench.now += MISSED_FOR;
    assert_eq!(look(&mut bench, b"realm", &[]), 2);
    assert_eq!(bench.pool.holders(), [b"other"]);
}

#[test]
fn calls_of_a_dead_switch_end_in_slices_and_later_ones_go_on() {
    let texts: Vec<String> = (100..130).map(|number| number.to_string()).collect();
    let numbers: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut bench = Bench::of(&numbers);
    beat(&mut bench, 100);
    for token in &texts[..20] {
        bench.ok(&Request::Call(any(token)));
    }
    bench.now = 1100;
    let due = |pool: &Pool, now, limit| decide_due(pool, now, limit);
    due(&bench.pool, 1100, 7).iter().for_each(|event| bench.pool.apply(1100, event));
    assert_eq!(bench.pool.live_leases(), 13);
    // A call that begins before the others are ended, and a heartbeat that comes too late.
    bench.ok(&Request::Call(any("late")));
    let refusal = decide(&bench.pool, 1100, &Request::Beat { switch: b"sw", ttl: 100 }).unwrap_err();
    assert_eq!(refusal.code, Code::TryAgain);
    let mut slices = 0;
    while bench.pool.count_overdue(1100, 1) > 0 {
        let events = due(&bench.pool, 1100, 7);
        assert!(!events.is_empty());
        for event in events {
            bench.pool.admits(&event).unwrap();
            bench.pool.apply(1100, &event);
        }
        slices += 1;
    }
    assert_eq!((slices, bench.pool.live_leases()), (2, 1));
    assert!(bench.pool.has_lease(b"late", 1_000_000));
    assert_eq!(bench.pool.check(), Ok(()));
}

#[test]
fn heartbeats_begin_again_when_a_server_takes_over() {
    let mut bench = Bench::of(&["1", "2", "3"]);
    assert!(Machine::take_over(&bench.pool).is_empty(), "no switch has a deadline");
    bench.ok(&Request::Call(any("a")));
    bench.ok(&Request::Call(Call { switch: Some(b"other"), ..any("b") }));
    bench.ok(&Request::Call(Call { ttl: Some(500), ..any("c") }));
    beat(&mut bench, 100);
    bench.ok(&Request::Beat { switch: b"other", ttl: 100_000 });
    // A server loads the pool long after the deadline.
    let mut bench = Bench { pool: Pool::decode(&bench.pool.encode()).unwrap(), now: 60_000 };
    for event in Machine::take_over(&bench.pool) {
        bench.pool.admits(&event).unwrap();
        bench.pool.apply(bench.now, &event);
    }
    let until = |bench: &Bench| {
        let (_, switches) = bench.pool.switch_scan(0, 10, bench.now);
        switches.into_iter().map(|record| record.until).collect::<Vec<_>>()
    };
    assert_eq!(until(&bench), [Some(60_100), Some(160_000)]);
    bench.at(60_000);
    assert_eq!(
        (state(&bench, "1"), state(&bench, "3")),
        ("busy+up", "idle+up"),
        "the third had its own deadline"
    );
    // A deadline that is later stays.
    bench.ok(&Request::Beat { switch: b"other", ttl: 200_000 });
    Machine::set_back(&mut bench.pool, 50_000);
    bench.now = 50_000;
    bench.pool.apply(50_000, &Event::BegunAgain);
    assert_eq!(until(&bench), [Some(60_100), Some(260_000)]);
    bench.at(60_100);
    assert_eq!((state(&bench, "1"), state(&bench, "2")), ("idle+up", "busy+up"));
    assert_eq!(bench.pool.check(), Ok(()));
}

#[test]
fn switch_that_is_gone_falls_silent_although_servers_take_over_again_and_again() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Call(any("a")));
    beat(&mut bench, 100_000);
    let begun = bench.now;
    while bench.pool.live_leases() > 0 {
        let now = bench.now + 40_000;
        bench.at(now);
        for event in Machine::take_over(&bench.pool) {
            bench.pool.apply(bench.now, &event);
        }
        assert!(bench.now < begun + 400_000, "it goes on for ever");
    }
    assert_eq!(bench.pool.check(), Ok(()));
}

#[test]
fn switch_with_a_deadline_outlives_its_numbers_and_a_snapshot() {
    let mut bench = Bench::of(&["1"]);
    beat(&mut bench, 100);
    bench.ok(&Request::Del { numbers: &[n("1")], drain: false });
    let mut pool = Pool::decode(&bench.pool.encode()).unwrap();
    assert_eq!((pool.check(), pool.encode() == bench.pool.encode()), (Ok(()), true));
    assert_eq!(pool.switch_scan(0, 10, 1000).1[0].until, Some(1100));
    decide_due(&pool, 1100, 10).iter().for_each(|event| pool.apply(1100, event));
    assert_eq!((pool.check(), pool.switch_scan(0, 10, 1100).1.len()), (Ok(()), 0));
}

#[test]
fn events_of_heartbeats_that_do_not_fit_are_refused() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.ok(&Request::Call(any("a")));
    let numbers: &[Number] = &[n("1")];
    let silent = |cause| Event::Ended {
        numbers: numbers.into(),
        cool_until: None,
        cause,
        word: None,
        quarantine: None,
    };
    let switch = b"sw".as_slice().into();
    assert!(bench.pool.admits(&silent(Cause::Silent)).is_err(), "no switch is alive");
    assert!(bench.pool.admits(&Event::Silent { switch }).is_err(), "the switch has no deadline");
    assert!(bench.pool.admits(&Event::BegunAgain).is_err(), "no switch has one");
    beat(&mut bench, 100);
    assert!(bench.pool.admits(&silent(Cause::Silent)).is_ok());
    assert!(bench.pool.admits(&silent(Cause::Expired)).is_err());
}
