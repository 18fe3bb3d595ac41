//! The ramp of new units: what share of the new conferences they get, and that they refuse none.

use super::rig::Rig;
use allot_core::conf::decide_due;
use allot_core::conf::request::{Changes, ClientRequest, Request, UnitRequest};
use allot_core::conf::state::Settings;

const A: &str = "a:1:1";
const B: &str = "b:1:1";
const RAMP: i64 = 10_000;

fn join(rig: &mut Rig, cmu: &str, capacity: i64) {
    let join = UnitRequest::Join {
        cmu: cmu.as_bytes(),
        capacity,
        zone: None,
        tags: &[],
        lease: 1_000 * RAMP,
        machine: None,
    };
    rig.ask(&Request::Unit(join)).unwrap();
}

fn used(rig: &Rig, cmu: &str) -> u64 {
    rig.realm.unit_called(cmu.as_bytes()).unwrap().used
}

fn create(rig: &mut Rig, numbers: std::ops::Range<u32>) {
    for number in numbers {
        rig.open(&number.to_string());
    }
}

/// A unit of 100 that had its ramp, with 50 conferences, and one of 100 that joined just now.
fn grown(ramp: i64) -> Rig {
    let mut rig = Rig::with(Settings { ramp, ..Settings::default() }, &[]);
    join(&mut rig, A, 100);
    rig.pass(ramp);
    create(&mut rig, 0..50);
    join(&mut rig, B, 100);
    rig
}

#[test]
fn share_of_a_new_unit_rises_in_tenths() {
    let mut rig = grown(RAMP);
    create(&mut rig, 50..60);
    // A tenth of B counts: 5 of 10 are as much as 50 of 100.
    assert_eq!((used(&rig, A), used(&rig, B)), (54, 6));
    rig.pass(RAMP / 10 - 1);
    create(&mut rig, 60..61);
    assert_eq!((used(&rig, A), used(&rig, B)), (55, 6));
    rig.pass(1);
    create(&mut rig, 61..66);
    assert_eq!((used(&rig, A), used(&rig, B)), (55, 11));
    rig.pass(RAMP);
    assert_eq!(rig.realm.unit_called(B.as_bytes()).unwrap().held_back, 0);
    create(&mut rig, 66..110);
    assert_eq!((used(&rig, A), used(&rig, B)), (55, 55));
    rig.check();
}

#[test]
fn without_a_ramp_a_new_unit_gets_all_that_follow() {
    let mut rig = grown(0);
    create(&mut rig, 50..90);
    assert_eq!((used(&rig, A), used(&rig, B)), (50, 40));
}

#[test]
fn new_unit_takes_what_no_other_has_room_for() {
    let mut rig = grown(RAMP);
    create(&mut rig, 50..200);
    assert_eq!((used(&rig, A), used(&rig, B)), (100, 100));
    assert_eq!(rig.code_of_create("200"), "LIMIT");
    rig.check();
}

#[test]
fn heartbeats_and_a_repeated_join_do_not_begin_the_ramp_again() {
    let mut rig = grown(RAMP);
    rig.pass(RAMP / 2);
    rig.beat(B);
    join(&mut rig, B, 100);
    let held_back = |rig: &Rig| rig.realm.unit_called(B.as_bytes()).unwrap().held_back;
    assert_eq!(held_back(&rig), 4);
    // A lost unit that comes back is a new one.
    rig.down(B);
    join(&mut rig, B, 100);
    assert_eq!(held_back(&rig), 9);
    rig.check();
}

#[test]
fn ramp_that_is_switched_off_ends_at_once() {
    let mut rig = grown(RAMP);
    let off = Changes { ramp: Some(0), ..Changes::default() };
    rig.ask(&Request::Client(ClientRequest::Configure(off))).unwrap();
    rig.pass(0);
    assert_eq!(rig.realm.unit_called(B.as_bytes()).unwrap().held_back, 0);
    create(&mut rig, 50..60);
    assert_eq!(used(&rig, B), 10);
    rig.check();
}

#[test]
fn all_tenths_whose_time_has_passed_count_in_one_step() {
    // A ramp of less than ten milliseconds has passed when the unit joins; another after a pause of the server.
    for (ramp, pause, left) in [(5, 0, 0), (1000, 450, 5), (1000, 5000, 0)] {
        let mut rig = Rig::with(Settings { ramp, ..Settings::default() }, &[]);
        join(&mut rig, "a:1:1", 10);
        rig.now += pause;
        for event in decide_due(&rig.realm, rig.now, 10) {
            rig.apply(&event);
        }
        assert!(decide_due(&rig.realm, rig.now, 10).is_empty());
        assert_eq!(rig.realm.unit_called(b"a:1:1").unwrap().held_back, left, "{ramp} {pause}");
        rig.check();
    }
}
