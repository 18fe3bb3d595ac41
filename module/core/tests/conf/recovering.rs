//! docs/conferences.md on recovery: who is placed when and where, who is tried again, and what plans say of it.

use super::rig::{MINUTE, Rig, wish};
use allot_core::conf::conference::State;
use allot_core::conf::request::{
    ClientRequest, Create, DrainOf, Request, SchedulerRequest, UnitRequest, WishesRequest,
};
use allot_core::conf::state::Settings;

const A: &str = "a:1:1";
const B: &str = "b:1:1";

#[test]
fn conference_without_room_blocks_no_other() {
    let mut rig = Rig::new(&[A]);
    for (e164, size, zone, priority) in
        [("big", 6, None, 9), ("far", 1, Some(&b"moon"[..]), 9), ("small", 1, None, 0), ("tiny", 1, None, 0)]
    {
        // Created where there is room for it, and lost there.
        let cmu = format!("{e164}:1:1");
        rig.ask(&Request::Unit(UnitRequest::Join {
            cmu: cmu.as_bytes(),
            capacity: 60,
            zone,
            tags: &[],
            lease: 3_600_000_000,
            machine: None,
        }))
        .unwrap();
        rig.ask(&Request::Client(ClientRequest::Create(Create {
            size,
            wishes: WishesRequest { zone: Some(zone), ..WishesRequest::default() },
            priority,
            ..wish(e164)
        })))
        .unwrap();
        let (owner, epoch) = (rig.owner(e164), rig.epoch(e164));
        rig.ack(e164, &owner, epoch);
        rig.down(&owner);
        if owner != cmu {
            rig.down(&cmu);
        }
    }
    rig.join("z:1:1", 2);
    let waits = |rig: &Rig| -> Vec<(String, &str)> {
        let plan = rig.realm.plan_pending(rig.now);
        plan.iter()
            .map(|&(id, why)| {
                (String::from_utf8_lossy(&rig.realm.conference(id).unwrap().e164).into_owned(), why)
            })
            .collect()
    };
    if rig.realm.pending() == 4 {
        let plan = waits(&rig);
        assert_eq!(
            plan.iter().map(|(_, why)| *why).collect::<Vec<_>>(),
            ["no room", "no room", "due", "due"]
        );
    }
    rig.recover();
    assert_eq!((rig.owner("small").as_str(), rig.owner("tiny").as_str()), ("z:1:1", "z:1:1"));
    assert_eq!((rig.word("big"), rig.word("far")), ("pending", "pending"));
}

#[test]
fn a_burst_is_spread_over_the_units_by_their_share() {
    let mut rig = Rig::new(&[A, B]);
    rig.join("big:1:1", 20);
    for number in 0..20 {
        rig.create(&number.to_string());
    }
    let used = |rig: &Rig| -> Vec<u64> { rig.realm.units().map(|unit| unit.used).collect() };
    assert_eq!(used(&rig), [5, 5, 10]);
    let plan = rig.realm.plan_down(rig.realm.find_unit(b"big:1:1").unwrap(), rig.now);
    assert_eq!(plan.iter().filter(|(_, to)| to.is_ok()).count(), 10);
    rig.join(B, 6);
    let plan = rig.realm.plan_down(rig.realm.find_unit(b"big:1:1").unwrap(), rig.now);
    assert_eq!(plan.iter().filter(|(_, to)| *to == Err("no room")).count(), 4);
    rig.down("big:1:1");
    assert_eq!(rig.recover(), 6);
    assert_eq!(used(&rig), [10, 6, 0]);
    rig.check();
}

#[test]
fn failed_unit_is_tried_again_later_and_other_units_at_once() {
    let failed = |others: &[(&str, i64)]| {
        let mut rig = Rig::new(&["c:1:1"]);
        rig.open("1");
        rig.join(A, 10);
        rig.down("c:1:1");
        others.iter().for_each(|&(cmu, capacity)| rig.join(cmu, capacity));
        rig.recover();
        assert_eq!(rig.owner("1"), A);
        let epoch = rig.epoch("1");
        rig.nack("1", A, epoch);
        assert_eq!(rig.recover(), 0);
        rig
    };
    // No other could ever take it.
    let mut rig = failed(&[(B, 0)]);
    assert_eq!(rig.realm.next_try(rig.one("1")), Some(rig.now + 5 * MINUTE));
    rig.pass(5 * MINUTE - 1);
    assert_eq!(rig.recover(), 0);
    rig.pass(1);
    assert_eq!(rig.recover(), 1);
    assert!(rig.owner("1") == A && rig.one("1").tried.is_empty());
    rig.check();
    // Another joins meanwhile.
    let mut rig = failed(&[]);
    rig.join(B, 1);
    assert_eq!(rig.realm.next_try(rig.one("1")), Some(rig.now));
    assert_eq!(rig.recover(), 1);
    assert_eq!(rig.owner("1"), B);
    rig.check();
    // Another is full all the time.
    let mut rig = failed(&[]);
    rig.join(B, 1);
    rig.ask(&Request::Scheduler {
        term: None,
        request: SchedulerRequest::Drain { of: DrainOf::Unit(A.as_bytes()), on: true, moves: false },
    })
    .unwrap();
    rig.open("2");
    rig.ask(&Request::Scheduler {
        term: None,
        request: SchedulerRequest::Drain { of: DrainOf::Unit(A.as_bytes()), on: false, moves: false },
    })
    .unwrap();
    assert_eq!((rig.owner("2").as_str(), rig.recover()), (B, 0));
    assert_eq!(rig.realm.plan_pending(rig.now).len(), 1);
    assert_eq!(rig.realm.plan_pending(rig.now)[0].1, "no room");
    rig.pass(5 * MINUTE);
    assert_eq!(rig.recover(), 1);
    assert_eq!(rig.owner("1"), A);
    rig.check();
}

#[test]
fn refused_conference_blocks_no_other() {
    let mut rig = Rig::with(Settings { failures: 100, ..Settings::default() }, &["c:1:1"]);
    for number in 0..10 {
        rig.open(&number.to_string());
    }
    rig.join(A, 100);
    rig.join(B, 0);
    rig.down("c:1:1");
    let refused: Vec<String> = (0..9).map(|number: i32| number.to_string()).collect();
    let one = Request::Scheduler { term: None, request: SchedulerRequest::Recover { count: 9 } };
    rig.ask(&one).unwrap();
    for e164 in &refused {
        let epoch = rig.epoch(e164);
        rig.nack(e164, A, epoch);
    }
    // Nine that A will not have wait for B, which is full; the tenth goes to A.
    let one = Request::Scheduler { term: None, request: SchedulerRequest::Recover { count: 1 } };
    rig.ask(&one).unwrap();
    assert_eq!(rig.owner("9"), A);
    rig.check();
}

#[test]
fn a_long_history_keeps_the_last_loss_and_forgets_failed_tries_first() {
    let mut rig = Rig::new(&[A]);
    let first = rig.open("1");
    rig.down(A);
    rig.join(B, 10);
    for _ in 0..100 {
        rig.pass(5 * MINUTE / 100);
        rig.pass(5 * MINUTE);
        if rig.word("1") == "ended" {
            break;
        }
        if rig.recover() == 1 {
            let epoch = rig.epoch("1");
            rig.nack("1", B, epoch);
        }
    }
    let one = rig.one("1");
    assert_eq!(one.last_lost().map(|entry| entry.epoch), Some(first));
    rig.check();
}

#[test]
fn conference_ended_in_recovery_ends_at_its_last_service() {
    let mut rig = Rig::new(&[A]);
    rig.open("1");
    rig.join(B, 10);
    rig.down(A);
    let lost = rig.now;
    rig.pass(1000);
    rig.recover();
    rig.pass(1000);
    rig.release("1");
    rig.pass(16_000);
    let one = rig.one("1");
    assert_eq!((one.state, one.ended), (State::Ended, Some(lost)));
    let how: Vec<_> = one.history.iter().map(|entry| entry.ended.unwrap().how.word()).collect();
    assert_eq!(how, ["lost", "failed"]);
    // But once it was open again, at its end.
    let mut rig = Rig::new(&[A]);
    rig.open("1");
    rig.join(B, 10);
    rig.down(A);
    rig.recover();
    let epoch = rig.epoch("1");
    rig.ack("1", B, epoch);
    rig.pass(1000);
    rig.ended("1", B, epoch);
    assert_eq!(rig.one("1").ended, Some(rig.now));
}

#[test]
fn the_plan_for_a_death_is_what_recovery_then_does() {
    let mut rig = Rig::new(&[A]);
    for e164 in ["x", "y", "z"] {
        rig.open(e164);
    }
    // Its latest assignment is not what its turn goes by.
    rig.join(B, 1);
    let moving = rig.move_to("x", B);
    rig.ack("x", B, moving);
    let back = rig.move_to("x", A);
    rig.ack("x", A, back);
    // One waits already.
    rig.join("c:1:1", 9);
    rig.ask(&Request::Scheduler {
        term: None,
        request: SchedulerRequest::Drain { of: DrainOf::Unit(A.as_bytes()), on: true, moves: false },
    })
    .unwrap();
    rig.ask(&Request::Scheduler {
        term: None,
        request: SchedulerRequest::Drain { of: DrainOf::Unit(B.as_bytes()), on: true, moves: false },
    })
    .unwrap();
    rig.open("w");
    rig.down("c:1:1");
    rig.join(B, 2);
    rig.ask(&Request::Scheduler {
        term: None,
        request: SchedulerRequest::Drain { of: DrainOf::Unit(B.as_bytes()), on: false, moves: false },
    })
    .unwrap();
    rig.pass(10);
    let unit = rig.realm.find_unit(A.as_bytes()).unwrap();
    let planned: Vec<(String, bool)> = rig
        .realm
        .plan_down(unit, rig.now)
        .iter()
        .map(|(id, goes)| {
            (String::from_utf8_lossy(&rig.realm.conference(*id).unwrap().e164).into_owned(), goes.is_ok())
        })
        .collect();
    rig.down(A);
    assert_eq!(rig.recover(), 2);
    let done: Vec<(String, bool)> =
        ["x", "y", "z"].map(|e164| (e164.to_owned(), rig.owner(e164) == B)).into_iter().collect();
    assert_eq!((planned, rig.owner("w").as_str()), (done, B));
}
