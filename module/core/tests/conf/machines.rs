//! Units that say on which machine they run: another machine does not take a host over while its unit may run.

use super::rig::{MINUTE, Rig};
use allot_core::conf::conference::State;
use allot_core::conf::outcome::Reply;
use allot_core::conf::request::{Request, UnitRequest};
use allot_core::conf::unit::{CONFLICT_NOTED, CONFLICT_SHOWN};
use allot_core::conf::{Event, UnitEvent};

const A: &str = "a:1:1";
const LEASE: i64 = 5000;

/// A join with a lease of 5 s: its error, or nothing.
fn join(rig: &mut Rig, cmu: &str, machine: Option<&str>) -> String {
    let (cmu, machine) = (cmu.as_bytes(), machine.map(str::as_bytes));
    let join = UnitRequest::Join { cmu, capacity: 10, zone: None, tags: &[], lease: LEASE, machine };
    let reply = rig.ask(&Request::Unit(join));
    rig.check();
    match reply {
        Ok(Reply::Refused(refusal)) | Err(refusal) => refusal.to_string(),
        Ok(_) => String::new(),
    }
}

/// A unit of host `a` on machine m1, with an open conference.
fn rig() -> Rig {
    let mut rig = Rig::new(&[]);
    assert_eq!(join(&mut rig, A, Some("m1")), "");
    rig.open("1");
    rig.told.clear();
    rig
}

/// The machine that the record of the unit shows as refused.
fn conflict(rig: &Rig) -> String {
    let unit = rig.realm.unit_called(A.as_bytes()).unwrap();
    let machine = unit.conflict.as_ref().map(|conflict| conflict.machine.to_vec());
    String::from_utf8(machine.unwrap_or_default()).unwrap()
}

#[test]
fn live_unit_keeps_its_host_from_another_machine() {
    let mut rig = rig();
    let refused = join(&mut rig, "a:1:2", Some("m2"));
    for part in ["EXISTS host 'a'", "unit 'a:1:1' on machine 'm1'", "which is up", "media-unit.host"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!((rig.owner("1").as_str(), rig.state("1")), (A, State::Open), "its meetings go on");
    assert_eq!(conflict(&rig), "m2");
    assert_eq!(rig.told, ["evt conflict  a:1:1 0 up m2"]);
    // An equal identity is no way around it: containers have equal process ids.
    assert!(join(&mut rig, A, Some("m2")).starts_with("EXISTS"));
    assert_eq!(rig.beat(A), "Unit([97, 58, 49, 58, 49])");
}

#[test]
fn unit_that_restarts_on_its_machine_takes_its_host_over_at_once() {
    let mut rig = rig();
    assert!(join(&mut rig, "a:1:2", Some("m2")).starts_with("EXISTS"));
    assert_eq!(join(&mut rig, "a:1:3", Some("m1")), "");
    assert_eq!((rig.beat(A).as_str(), rig.state("1")), ("STALE", State::Pending));
    // The refused one has not joined, so it was not replaced either.
    assert!(join(&mut rig, "a:1:2", Some("m2")).starts_with("EXISTS"));
}

#[test]
fn unit_that_does_not_say_its_machine_is_replaced_as_any() {
    for (first, second) in [(None, Some("m2")), (Some("m1"), None), (None, None)] {
        let mut rig = Rig::new(&[]);
        assert_eq!(join(&mut rig, A, first), "");
        assert_eq!(join(&mut rig, "a:1:2", second), "", "{first:?} {second:?}");
        assert_eq!(rig.beat(A), "STALE");
    }
}

#[test]
fn another_machine_gets_the_host_when_its_unit_has_ended() {
    // Without conferences, with the lease.
    let mut rig = Rig::new(&[]);
    assert_eq!(join(&mut rig, A, Some("m1")), "");
    rig.pass(LEASE - 1);
    assert!(join(&mut rig, "a:1:2", Some("m2")).starts_with("EXISTS"));
    rig.pass(1);
    assert_eq!(join(&mut rig, "a:1:2", Some("m2")), "");
    // With conferences, when it is declared down: it may be cut off, and run them.
    let mut rig = self::rig();
    rig.pass(MINUTE);
    let refused = join(&mut rig, "a:1:2", Some("m2"));
    assert!(refused.contains("which is unreachable"), "{refused}");
    assert_eq!((rig.state("1"), conflict(&rig).as_str()), (State::Open, ""));
    rig.down(A);
    assert_eq!(join(&mut rig, "a:1:2", Some("m2")), "");
    assert_eq!(
        join(&mut rig, A, Some("m1")),
        "STALE unit 'a:1:1' was replaced by 'a:1:2'; it must stop its conferences"
    );
}

#[test]
fn conflict_is_noted_now_and_then_and_shown_until_it_is_over() {
    let mut rig = rig();
    let noted = |rig: &mut Rig| {
        let events = std::mem::take(&mut rig.applied);
        let is_conflict =
            |event: &Event| matches!(event, Event::Unit { event: UnitEvent::Conflict { .. }, .. });
        events.iter().filter(|(_, event, _)| is_conflict(event)).count()
    };
    for second in 0..20 {
        assert!(join(&mut rig, &format!("a:1:{}", second + 2), Some("m2")).starts_with("EXISTS"));
        rig.beat(A);
        rig.pass(1000);
    }
    assert_eq!((noted(&mut rig), 20_000 / CONFLICT_NOTED), (2, 2));
    assert!(join(&mut rig, "a:1:99", Some("m3")).starts_with("EXISTS"));
    assert_eq!((noted(&mut rig), conflict(&rig).as_str()), (1, "m3"), "a third machine is news");
    for _ in 1..CONFLICT_SHOWN / 1000 {
        rig.pass(1000);
        rig.beat(A);
    }
    assert_eq!(conflict(&rig), "m3");
    rig.told.clear();
    rig.pass(1000);
    assert_eq!(
        (conflict(&rig).as_str(), &rig.told[..]),
        ("", &["evt conflict-over  a:1:1 0 up".to_owned()][..])
    );
    rig.check();
}

#[test]
fn conflict_is_forgotten_with_the_lease() {
    let mut rig = rig();
    assert!(join(&mut rig, "a:1:2", Some("m2")).starts_with("EXISTS"));
    rig.pass(LEASE);
    assert_eq!(conflict(&rig), "");
    rig.check();
}
