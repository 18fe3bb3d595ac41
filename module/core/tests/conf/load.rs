//! Placement by load: the spread over units of uneven load, and how long a reported load counts.

use super::rig::{Rig, wish};
use allot_core::conf::request::{Changes, ClientRequest, Request, SchedulerRequest, UnitRequest};
use allot_core::conf::state::{Placement, Settings};

const LEASE: i64 = 5000;

/// A realm that places by load, with these units of capacity 100 that just reported these loads.
fn loaded(units: &[(&str, i64)]) -> Rig {
    let settings = Settings { placement: Placement::Load, ..Settings::default() };
    let mut rig = Rig::with(settings, &[]);
    for &(cmu, load) in units {
        let join = UnitRequest::Join {
            cmu: cmu.as_bytes(),
            capacity: 100,
            zone: None,
            tags: &[],
            lease: LEASE,
            machine: None,
        };
        rig.ask(&Request::Unit(join)).unwrap();
        rig.beat_with(cmu, load);
    }
    rig
}

fn spread(rig: &Rig, units: &[(&str, i64)]) -> Vec<u64> {
    units.iter().map(|(cmu, _)| rig.realm.unit_called(cmu.as_bytes()).unwrap().used).collect()
}

#[test]
fn conferences_fill_units_up_to_the_load_of_the_next() {
    let units = [("a:1:1", 0), ("b:1:1", 30), ("c:1:1", 60), ("d:1:1", 100)];
    let mut rig = loaded(&units);
    let mut number = 0;
    // a up to 30 percent, then b, then both up to 60, then c.
    for expected in [[20, 0, 0, 0], [30, 10, 0, 0], [30, 30, 0, 0], [50, 50, 0, 0], [60, 60, 30, 0]] {
        while number < expected.iter().sum::<u64>() {
            rig.create(&number.to_string());
            number += 1;
        }
        assert_eq!(spread(&rig, &units), expected);
    }
    rig.check();
}

#[test]
fn unit_with_full_load_gets_nothing_new() {
    let mut rig = loaded(&[("a:1:1", 100)]);
    assert_eq!(rig.code_of_create("1"), "LIMIT");
    assert!(rig.beat_with("a:1:1", 99).starts_with("Unit"));
    rig.open("1");
    // A number above 100 counts as 100. The conference stays, and others neither move nor recover to the unit.
    rig.beat_with("a:1:1", 250);
    let shown = rig.realm.unit_called(b"a:1:1").unwrap().load.unwrap();
    assert_eq!((shown.value.0, shown.percent()), (250, 100), "it is shown as it was reported");
    rig.join("b:1:1", 10);
    rig.open("2");
    let to_a = SchedulerRequest::Move { e164: b"2", to: Some(b"a:1:1") };
    assert_eq!(rig.code(&Request::Scheduler { term: None, request: to_a }), "LIMIT");
    rig.down("b:1:1");
    assert_eq!((rig.recover(), rig.owner("1")), (0, "a:1:1".to_owned()));
    rig.check();
}

#[test]
fn load_counts_for_one_lease() {
    let mut rig = loaded(&[("a:1:1", 100)]);
    for _ in 0..2 {
        rig.pass(LEASE / 2 - 1);
        rig.beat("a:1:1");
        assert_eq!(rig.code_of_create("1"), "LIMIT");
    }
    rig.pass(2);
    assert_eq!(rig.realm.unit_called(b"a:1:1").unwrap().load, None);
    rig.open("1");
    rig.check();
}

#[test]
fn load_of_an_unreachable_or_lost_unit_is_forgotten() {
    let mut rig = loaded(&[("a:1:1", 100), ("b:1:1", 100)]);
    rig.down("b:1:1");
    rig.pass(LEASE);
    for cmu in ["a:1:1", "b:1:1"] {
        assert_eq!(rig.realm.unit_called(cmu.as_bytes()).unwrap().load, None);
    }
    rig.beat("a:1:1");
    rig.open("1");
    rig.check();
}

#[test]
fn load_counts_only_while_placement_is_by_load() {
    let mut rig = loaded(&[("a:1:1", 90), ("b:1:1", 10)]);
    let place = |rig: &mut Rig, placement| {
        let changes = Changes { placement: Some(placement), ..Changes::default() };
        rig.ask(&Request::Client(ClientRequest::Configure(changes))).unwrap();
        rig.check();
    };
    rig.ask(&Request::Client(ClientRequest::Create(wish("1")))).unwrap();
    place(&mut rig, Placement::Share);
    rig.create("2");
    place(&mut rig, Placement::Load);
    rig.create("3");
    assert_eq!(["1", "2", "3"].map(|e164| rig.owner(e164)), ["b:1:1", "a:1:1", "b:1:1"]);
}
