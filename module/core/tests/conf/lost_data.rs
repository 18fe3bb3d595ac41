//! A realm that lost data, because all keys were deleted or an older file was restored: units report what they run, and
//! what has ended. Copies are adopted, and nothing starts again.

use super::rig::{MINUTE, Rig};
use allot_core::conf::conference::State;
use allot_core::conf::request::{ClientRequest, CopyParams, Report, Request, UnitRequest};
use allot_core::conf::{Realm, Reply};

const A: &str = "a:1:1";
const B: &str = "b:1:1";
const C: &str = "c:1:1";

/// The realm comes back with the data of that time.
fn restore(rig: &mut Rig, saved: &Rig) {
    (rig.realm, rig.replica) = (saved.realm.clone(), saved.replica.clone());
    rig.told.clear();
}

fn copy(rig: &Rig) -> Rig {
    let (realm, replica) = (rig.realm.clone(), rig.replica.clone());
    Rig { realm, replica, now: rig.now, told: vec![], applied: vec![] }
}

fn report_params(rig: &mut Rig, params: &[CopyParams<'_>], list: &[(&str, u64)]) -> String {
    let list = list.iter().map(|&(e164, epoch)| (e164.as_bytes(), epoch)).collect();
    let report = Report {
        cmu: A.as_bytes(),
        highest: 9_000_000,
        ended: vec![],
        starting: vec![],
        params: params.to_vec(),
        list,
    };
    rig.code(&Request::Unit(UnitRequest::Report(report)))
}

fn drop_realm(rig: &mut Rig) {
    rig.ask(&Request::Client(ClientRequest::Drop)).unwrap();
}

/// Opens conference 1, and lets time pass: its unit, and the other one.
fn open_and_later(rig: &mut Rig) -> (&'static str, &'static str) {
    rig.open("1");
    rig.now += 10_000;
    if rig.owner("1") == A { (A, B) } else { (B, A) }
}

#[test]
fn copies_that_an_empty_realm_does_not_know_are_adopted() {
    let mut rig = Rig::new(&[A, B]);
    rig.now += 10_000;
    let params =
        CopyParams { e164: b"1", end: Some(rig.now + MINUTE), size: 3, priority: -2, request: Some(b"r") };
    report_params(&mut rig, &[params], &[("1", 8_000_000), ("2", 9_000_000)]);
    let one = rig.one("1");
    assert_eq!((one.state, one.end, one.size, one.priority), (State::Open, params.end, 3, -2));
    assert_eq!((one.request.as_deref(), one.origin_epoch), (Some(&b"r"[..]), 8_000_000));
    let (first, second) = (rig.epoch("1"), rig.epoch("2"));
    assert!(first > 9_000_000 && second > first);
    let told = [format!("EPOCH 1 {A} {first} 8000000"), format!("EPOCH 2 {A} {second} 9000000")];
    assert_eq!(rig.commands(A), told);
    rig.check();
    // The next unit reports later, and its epochs are lower.
    let Reply::Reported(reported) = rig.report(B, 7_000_000, &[("3", 7_000_000), ("1", 6_000_000)]) else {
        panic!()
    };
    assert_eq!((reported.adopted.len(), reported.released.len()), (1, 1), "1 is open elsewhere");
    assert_eq!((rig.state("3"), rig.owner("3").as_str(), rig.owner("1").as_str()), (State::Open, B, A));
    // The report is repeated before EPOCH is handled.
    report_params(&mut rig, &[params], &[("1", 8_000_000), ("2", 9_000_000)]);
    assert_eq!((rig.epoch("1"), rig.epoch("2"), rig.verbs(A)), (first, second, "EPOCH EPOCH".into()));
    assert_eq!((rig.ended("1", A, 8_000_000), rig.state("1")), ("Ok".into(), State::Ended));
    rig.check();
}

#[test]
fn wrong_params_of_a_lost_conference_are_refused() {
    let mut rig = Rig::new(&[A]);
    rig.now += 10_000;
    let fine = CopyParams { e164: b"1", end: None, size: 1, priority: 0, request: None };
    for wrong in [
        CopyParams { size: 0, ..fine },
        CopyParams { priority: 1 << 40, ..fine },
        CopyParams { end: Some(-1), ..fine },
        CopyParams { request: Some(b""), ..fine },
        CopyParams { e164: b"2", ..fine },
    ] {
        assert_eq!(report_params(&mut rig, &[wrong], &[("1", 8_000_000)]), "ERR");
    }
    assert_eq!(report_params(&mut rig, &[fine, fine], &[("1", 8_000_000)]), "ERR");
    rig.check();
}

#[test]
fn nothing_is_adopted_by_a_report_whose_highest_epoch_is_implausible() {
    let mut rig = Rig::new(&[A]);
    rig.open("1");
    rig.told.clear();
    let later = 3_600_000_000;
    rig.report(A, 1 << 52, &[("1", later), ("2", later + 1)]);
    assert_eq!((rig.word("2"), rig.verbs(A)), ("none", "RELEASE RELEASE".into()));
    rig.check();
}

#[test]
fn conference_that_is_created_before_the_report_hides_no_lost_one() {
    let mut rig = Rig::new(&[]);
    rig.now = 10_000;
    rig.join(A, 10);
    let new = rig.create("9");
    rig.told.clear();
    let Reply::Reported(reported) = rig.report(A, 8_000_000, &[("1", 7_000_000), ("2", 8_000_000)]) else {
        panic!()
    };
    assert_eq!((reported.adopted.len(), reported.kept, rig.verbs(A)), (2, 1, "EPOCH EPOCH".into()));
    assert_eq!(rig.ack("9", A, new), "Ok");
    rig.check();
}

#[test]
fn later_copy_of_a_lost_conference_wins_over_an_older_one() {
    for order in [[(A, 7_000_000), (B, 8_000_000)], [(B, 8_000_000), (A, 7_000_000)]] {
        let mut rig = Rig::new(&[A, B]);
        rig.now = 10_000;
        for (unit, epoch) in order {
            rig.report(unit, epoch, &[("1", epoch)]);
            rig.now += 10;
        }
        assert_eq!((rig.word("1"), rig.owner("1").as_str()), ("open", B));
        rig.check();
    }
}

#[test]
fn lost_conference_that_people_ended_stays_ended_whoever_reports_first() {
    for older_copy_first in [true, false] {
        let mut rig = Rig::new(&[A, B]);
        rig.now = 10_000;
        if older_copy_first {
            rig.report(A, 7_000_000, &[("1", 7_000_000)]);
            rig.now += 10;
        }
        rig.report_with(B, 8_000_000, &[("1", 8_000_000)], &[]);
        assert_eq!(rig.word("1"), "ended");
        rig.told.clear();
        rig.report(A, 7_000_000, &[("1", 7_000_000)]);
        assert_eq!((rig.word("1"), rig.verbs(A)), ("ended", "RELEASE".into()));
        rig.check();
    }
}

#[test]
fn lost_conference_replaces_the_tombstone_of_an_earlier_one() {
    let mut rig = Rig::new(&[A]);
    let first = rig.open("1");
    rig.release("1");
    rig.ended("1", A, first);
    rig.now += 10;
    let saved = copy(&rig);
    rig.now += 10;
    let second = rig.open("1");
    restore(&mut rig, &saved);
    rig.report(A, second, &[("1", second)]);
    assert_eq!((rig.word("1"), rig.one("1").origin_epoch), ("open", second));
    // A copy from before the end is of the conference that ended.
    restore(&mut rig, &saved);
    rig.report(A, second, &[("1", first + 1)]);
    assert_eq!((rig.word("1"), rig.one("1").origin_epoch), ("ended", first));
    rig.check();
}

#[test]
fn copy_whose_unit_was_told_to_end_it_is_not_adopted() {
    let mut rig = Rig::new(&[A, B]);
    let (owner, other) = open_and_later(&mut rig);
    let lost = 8_000_000;
    assert_eq!(rig.ack("1", other, lost), "Released");
    rig.report(other, lost, &[("1", lost)]);
    assert_eq!(rig.owner("1"), owner);
    rig.check();
}

#[test]
fn decision_on_a_report_is_admitted_although_a_bit_of_the_snapshot_is_wrong() {
    let mut rig = Rig::new(&[A, B]);
    let (owner, other) = open_and_later(&mut rig);
    rig.down(owner);
    rig.recover();
    // The other unit could not create it, and claims a copy nevertheless.
    let epoch = rig.epoch("1");
    rig.nack("1", other, epoch);
    let bytes = rig.realm.encode();
    let mut works = 0;
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let Ok(realm) = Realm::decode(&damaged) else { continue };
        works += 1;
        let now = realm.now(rig.now);
        rig = Rig { replica: realm.clone(), realm, now, told: vec![], applied: vec![] };
        // The rig admits each event before it applies it.
        let report =
            Report { cmu: other.as_bytes(), highest: epoch, list: vec![(b"1", epoch)], ..Report::default() };
        rig.code(&Request::Unit(UnitRequest::Report(report)));
    }
    assert!(works > 100, "{works}");
}

#[test]
fn move_is_cancelled_by_a_later_copy_on_the_unit_of_the_record() {
    let mut rig = Rig::new(&[A, B]);
    let (owner, other) = open_and_later(&mut rig);
    rig.move_to("1", other);
    rig.told.clear();
    rig.report(owner, 8_000_000, &[("1", 8_000_000)]);
    assert_eq!((rig.verbs(owner), rig.verbs(other)), ("EPOCH".into(), "RELEASE".into()));
    assert!(rig.one("1").moving.is_none());
    rig.check();
}

#[test]
fn end_by_people_counts_after_a_later_move_was_cancelled() {
    let mut rig = Rig::new(&[A, B, C]);
    rig.open("1");
    let mut others = [A, B, C].into_iter().filter(|unit| *unit != rig.owner("1"));
    let (lost, target) = (others.next().unwrap(), others.next().unwrap());
    rig.now += 10_000;
    let epoch = 8_000_000;
    let moving = rig.move_to("1", target);
    rig.nack("1", target, moving);
    assert_eq!((rig.ended("1", lost, epoch), rig.word("1")), ("Ok".into(), "ended"));
    rig.check();
}

#[test]
fn host_remembers_the_last_epochs_one_by_one() {
    let mut rig = Rig::new(&[A]);
    for n in 0..300 {
        rig.now += 10;
        let e164 = n.to_string();
        let epoch = rig.open(&e164);
        rig.release(&e164);
        rig.ended(&e164, A, epoch);
    }
    rig.now += 10;
    let last = rig.realm.last_epoch();
    rig.told.clear();
    // Between the first epochs none can be told apart from those that were sent; between the last, each can.
    rig.report(A, last, &[("a", 1_000_001), ("b", last - 1)]);
    assert_eq!((rig.word("a"), rig.word("b")), ("none", "open"));
    rig.check();
}

#[test]
fn restored_realm_stops_nothing_and_starts_nothing() {
    let mut rig = Rig::new(&[A]);
    let first = rig.open("1");
    let saved = copy(&rig);
    let second = rig.open("2");
    rig.told.clear();
    rig.release("1");
    assert_eq!(rig.commands(A), [format!("RELEASE 1 {A} {first} 1")], "it is over");
    assert_eq!(rig.ended("1", A, first), "Ok");
    restore(&mut rig, &saved);
    rig.join(A, 10);
    let Reply::Reported(reported) = rig.report_with(A, second, &[("1", first)], &[("2", second)]) else {
        panic!()
    };
    assert_eq!((reported.adopted.len(), reported.released.len(), reported.ended.len()), (1, 0, 1));
    assert_eq!((rig.state("1"), rig.state("2"), rig.recover()), (State::Ended, State::Open, 0));
    rig.check();
}

#[test]
fn copy_on_the_unit_that_a_restored_realm_does_not_know_as_the_last_is_adopted() {
    let mut rig = Rig::new(&[A, B, C]);
    rig.open("1");
    let saved = copy(&rig);
    rig.pass(1000);
    rig.told.clear();
    let moving = rig.move_to("1", B);
    rig.ack("1", B, moving);
    assert_eq!(rig.commands(A).last().unwrap().rsplit(' ').next(), Some("0"), "it is not over");
    for a_first in [true, false] {
        restore(&mut rig, &saved);
        rig.pass(10);
        if a_first {
            rig.report(A, rig.realm.last_epoch(), &[]);
            assert_eq!(rig.recover(), 1);
        }
        rig.told.clear();
        let Reply::Reported(reported) = rig.report(B, moving, &[("1", moving)]) else { panic!() };
        assert_eq!((reported.adopted.len(), rig.state("1"), rig.owner("1").as_str()), (1, State::Open, B));
        // A, or the unit of the recovery, ends its copy.
        assert_eq!(rig.verbs(B), "EPOCH");
        assert_eq!([rig.verbs(A), rig.verbs(C)].concat(), "RELEASE");
        rig.check();
    }
}

#[test]
fn conference_that_ended_and_was_forgotten_is_not_adopted() {
    let mut rig = Rig::new(&[A, B]);
    let epoch = rig.open("1");
    let owner = rig.owner("1");
    rig.down(&owner);
    rig.release("1");
    rig.pass(15 * MINUTE);
    assert!(rig.realm.conference_called(b"1").is_none() && rig.realm.unit_called(owner.as_bytes()).is_none());
    rig.join(&owner, 10);
    rig.told.clear();
    rig.report(&owner, epoch, &[("1", epoch)]);
    assert!(rig.realm.conference_called(b"1").is_none());
    assert_eq!(rig.commands(&owner), [format!("RELEASE 1 {owner} {epoch} 0")]);
    rig.check();
}

#[test]
fn dropped_realm_ends_all_copies() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    let second = rig.create("2");
    rig.open("3");
    let owner = rig.owner("3");
    rig.down(&owner);
    rig.told.clear();
    drop_realm(&mut rig);
    let last = rig.realm.last_epoch();
    assert!(["ending", "ended"].contains(&rig.word("1")) && rig.word("3") == "ended");
    rig.pass(MINUTE);
    rig.pass(15 * MINUTE);
    assert!(["1", "2", "3"].iter().all(|e164| rig.word(e164) == "none"), "{first} {second}");
    // A unit comes back that a lost realm had given a conference.
    rig.join(C, 10);
    rig.told.clear();
    rig.report(C, last, &[("4", last)]);
    assert_eq!((rig.word("4"), rig.verbs(C)), ("none", "RELEASE".into()));
    // The realm goes on.
    rig.join(A, 10);
    rig.join(B, 10);
    assert!(rig.open("5") > last);
    rig.check();
}
