//! Hosts that are drained, units that are about to end, and what is said of units that are silent.

use super::rig::Rig;
use allot_core::conf::request::{DrainOf, Request, SchedulerRequest, UnitRequest};
use allot_core::conf::unit::{MAX_DRAINED, UnitState};
use allot_core::conf::{Realm, Reply};

const A: &str = "a:1:1";
const B: &str = "b:1:1";

fn drain(rig: &mut Rig, of: DrainOf<'_>, on: bool, moves: bool) -> String {
    rig.code(&Request::Scheduler { term: None, request: SchedulerRequest::Drain { of, on, moves } })
}

fn host(rig: &mut Rig, host: &str, on: bool) -> String {
    drain(rig, DrainOf::Host(host.as_bytes()), on, false)
}

fn leave(rig: &mut Rig, cmu: &str) -> String {
    rig.code(&Request::Unit(UnitRequest::Leave { cmu: cmu.as_bytes() }))
}

/// The state of a unit, for people.
fn word(rig: &Rig, cmu: &str) -> &'static str {
    rig.realm.unit_called(cmu.as_bytes()).unwrap().word()
}

#[test]
fn drain_holds_for_each_unit_of_the_host() {
    let mut rig = Rig::new(&[A, B]);
    rig.open("1");
    assert_eq!(rig.owner("1"), A);
    drain(&mut rig, DrainOf::Unit(A.as_bytes()), true, false);
    assert_eq!(word(&rig, A), "draining");
    // The unit restarts.
    rig.join("a:2:2", 10);
    assert_eq!(word(&rig, "a:2:2"), "draining");
    assert_eq!((rig.recover(), rig.owner("1").as_str()), (1, B), "its conferences do not come back to it");
    for number in 2..8 {
        let e164 = number.to_string();
        rig.create(&e164);
        assert_eq!(rig.owner(&e164), B);
    }
    rig.check();
    drain(&mut rig, DrainOf::Unit(b"a:2:2"), false, false);
    assert_eq!(word(&rig, "a:2:2"), "up");
    rig.create("9");
    assert_eq!(rig.owner("9"), "a:2:2");
    rig.check();
}

#[test]
fn host_is_drained_before_its_unit_joins() {
    let mut rig = Rig::new(&[A]);
    assert_eq!(host(&mut rig, "b", true), "Host([98])");
    assert!(rig.told.iter().any(|told| told.starts_with("evt draining  b")), "{:?}", rig.told);
    rig.join(B, 100);
    assert_eq!(word(&rig, B), "draining");
    rig.create("1");
    assert_eq!(rig.owner("1"), A);
    let again = Realm::decode(&rig.realm.encode()).unwrap();
    assert_eq!(again.drained().collect::<Vec<_>>(), [b"b"]);
    assert_eq!(again.unit_called(B.as_bytes()).unwrap().word(), "draining");
    host(&mut rig, "b", false);
    assert_eq!((word(&rig, B), rig.realm.drained().len()), ("up", 0));
    rig.check();
}

#[test]
fn drain_survives_that_the_unit_is_forgotten() {
    let mut rig = Rig::new(&[A, B]);
    host(&mut rig, "a", true);
    rig.down(A);
    rig.pass(600_000);
    assert!(rig.realm.unit_called(A.as_bytes()).is_none());
    rig.join("a:9:9", 10);
    assert_eq!(word(&rig, "a:9:9"), "draining");
    rig.check();
}

#[test]
fn unit_that_leaves_moves_its_conferences_and_the_next_one_takes_new_ones() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    assert_eq!(leave(&mut rig, A), "Moves(1, 0)");
    assert_eq!(word(&rig, A), "draining");
    let second = rig.one("1").moving.as_ref().unwrap().epoch;
    assert!(second > first);
    rig.ack("1", B, second);
    assert_eq!(leave(&mut rig, A), "Moves(0, 0)");
    rig.join("a:2:2", 10);
    assert_eq!((word(&rig, "a:2:2"), rig.realm.drained().len()), ("up", 0));
    assert_eq!(leave(&mut rig, A), "STALE");
    assert_eq!(leave(&mut rig, "c:1:1"), "NOTFOUND");
    rig.check();
}

#[test]
fn host_without_a_unit_has_nothing_to_move() {
    let mut rig = Rig::new(&[]);
    assert_eq!(drain(&mut rig, DrainOf::Host(b"x"), true, true), "Moves(0, 0)");
    assert_eq!(drain(&mut rig, DrainOf::Host(b""), true, false), "ERR");
}

#[test]
fn so_many_hosts_are_drained_and_no_more() {
    let mut rig = Rig::new(&[]);
    for number in 0..MAX_DRAINED {
        let event =
            allot_core::conf::Event::Drained { host: number.to_string().into_bytes()[..].into(), on: true };
        rig.realm.apply(rig.now, &event);
        rig.replica.apply(rig.now, &event);
    }
    assert_eq!(host(&mut rig, "one more", true), "LIMIT");
    host(&mut rig, "7", false);
    assert_eq!(host(&mut rig, "one more", true), "Host([111, 110, 101, 32, 109, 111, 114, 101])");
    rig.check();
}

#[test]
fn conferences_of_silent_units_are_lost_and_not_open() {
    let mut rig = Rig::new(&[]);
    for cmu in [A, B] {
        let lease = if cmu == A { 5000 } else { 3_600_000 };
        let join = UnitRequest::Join {
            cmu: cmu.as_bytes(),
            capacity: 10,
            zone: None,
            tags: &[],
            lease,
            machine: None,
        };
        rig.ask(&Request::Unit(join)).unwrap();
    }
    for e164 in ["1", "2", "3", "4"] {
        rig.open(e164);
    }
    rig.create("5");
    assert_eq!(rig.owner("5"), A);
    let open_and_lost = |rig: &Rig| (rig.realm.totals().states[2], rig.realm.totals().lost);
    assert_eq!(open_and_lost(&rig), (4, 0));
    rig.pass(5000);
    assert_eq!(rig.realm.unit_called(A.as_bytes()).unwrap().state, UnitState::Unreachable);
    assert_eq!(open_and_lost(&rig), (2, 2));
    rig.check();
    rig.beat(A);
    assert_eq!(open_and_lost(&rig), (4, 0));
    rig.pass(5000);
    rig.down(A);
    assert_eq!((open_and_lost(&rig), rig.realm.totals().states[3]), ((2, 0), 3));
    rig.check();
}

#[test]
fn outage_begins_with_the_last_sign_of_life() {
    let mut rig = Rig::new(&[A, B]);
    rig.open("1");
    rig.pass(7000);
    rig.beat(A);
    let heard = rig.now;
    rig.pass(5000);
    // That a scheduler claims the realm renews the lease, and is no sign of life.
    let claim = allot_core::conf::request::Claim { term: 1, leader: b"s", force: false };
    rig.ask(&Request::Claim(claim)).unwrap();
    rig.pass(5000);
    rig.down(A);
    let (out, pending) = (rig.one("1").out_since, rig.one("1").pending_since);
    assert_eq!((out, pending), (Some(heard), Some(heard + 10_000)));
    rig.recover();
    let epoch = rig.epoch("1");
    rig.nack("1", B, epoch);
    assert_eq!(rig.one("1").out_since, Some(heard), "a failed try changes nothing");
    rig.pass(300_000);
    rig.recover();
    let epoch = rig.epoch("1");
    rig.ack("1", B, epoch);
    assert_eq!(rig.one("1").out_since, None);
    // A unit that answers, and has lost its copy, was there until now.
    rig.pass(1000);
    let Reply::Reported(_) = rig.report(B, epoch, &[]) else { panic!() };
    assert_eq!(rig.one("1").out_since, Some(rig.now));
    rig.check();
}
