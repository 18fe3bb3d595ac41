//! The specification's list, number by number.

use super::rig::{MINUTE, Rig, wish};
use allot_core::conf::Reply;
use allot_core::conf::conference::{AssignmentEnd, State};
use allot_core::conf::request::{ClientRequest, Create, Request, UnitRequest};
use allot_core::conf::state::{Policy, Settings};

const A: &str = "a:1:1";
const B: &str = "b:1:1";
const C: &str = "c:1:1";

#[test]
fn number_01_a_lost_unit_s_conferences_are_recovered_on_another_with_room() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    assert_eq!(rig.owner("1"), A);
    rig.down(A);
    assert_eq!(rig.state("1"), State::Pending);
    assert_eq!(rig.recover(), 1);
    let second = rig.epoch("1");
    assert!(second > first);
    assert_eq!(rig.commands(B)[0], format!("CREATE 1 {B} {second}  1 0  1 0"));
    rig.ack("1", B, second);
    assert_eq!((rig.owner("1").as_str(), rig.state("1")), (B, State::Open));
    rig.check();
}

#[test]
fn number_02_an_ended_conference_or_a_new_unit_makes_room() {
    let mut rig = Rig::new(&[A]);
    rig.join(B, 1);
    for e164 in ["1", "2"] {
        rig.ask(&Request::Client(ClientRequest::Create(Create {
            size: if e164 == "1" { 9 } else { 1 },
            ..wish(e164)
        })))
        .unwrap();
        let (owner, epoch) = (rig.owner(e164), rig.epoch(e164));
        rig.ack(e164, &owner, epoch);
    }
    rig.down(A);
    assert_eq!((rig.owner("2").as_str(), rig.recover()), (B, 0));
    rig.join("c:1:1", 9);
    assert_eq!(rig.recover(), 1);
    assert_eq!(rig.owner("1"), "c:1:1");
    let mut rig = Rig::new(&[A]);
    rig.join(B, 1);
    rig.join(C, 1);
    let epochs: Vec<u64> = ["1", "2", "3"].map(|e164| rig.open(e164)).to_vec();
    let on_c = ["1", "2", "3"].into_iter().find(|e164| rig.owner(e164) == C).unwrap();
    rig.down(A);
    rig.down(C);
    // A is gone with its room; B is full, until its conference ends.
    let on_b = ["1", "2", "3"].into_iter().find(|e164| rig.owner(e164) == B).unwrap();
    assert_eq!(rig.recover(), 0);
    let epoch = epochs[on_b.parse::<usize>().unwrap() - 1];
    rig.ended(on_b, B, epoch);
    assert_eq!(rig.recover(), 1);
    let _ = on_c;
    rig.check();
}

#[test]
fn number_03_the_order_is_priority_then_the_longest_waiting() {
    let mut rig = Rig::new(&[A]);
    for (e164, priority) in [("low", 0), ("high", 5), ("later", 5)] {
        rig.ask(&Request::Client(ClientRequest::Create(Create { priority, ..wish(e164) }))).unwrap();
        let epoch = rig.epoch(e164);
        rig.ack(e164, A, epoch);
    }
    rig.join(B, 10);
    let moved = rig.move_to("later", B);
    rig.ack("later", B, moved);
    rig.down(A);
    rig.pass(1000);
    rig.down(B);
    let mut order = Vec::new();
    for unit in ["c:1:1", "d:1:1", "e:1:1"] {
        rig.join(unit, 1);
        rig.recover();
        let e164 = ["low", "high", "later"].into_iter().find(|e164| rig.owner(e164) == unit).unwrap();
        order.push(e164);
    }
    assert_eq!(order, ["high", "later", "low"]);
}

#[test]
fn number_04_conferences_of_lost_units_are_recovered_after_a_crash() {
    let mut rig = Rig::new(&[A, B]);
    rig.ask(&Request::Unit(UnitRequest::Join {
        cmu: A.as_bytes(),
        capacity: 10,
        zone: None,
        tags: &[],
        lease: 5000,
        machine: None,
    }))
    .unwrap();
    let epoch = rig.create("1");
    assert_eq!(rig.owner("1"), A);
    rig.ack("1", A, epoch);
    rig.pass(5000);
    rig.restart(&[B]);
    assert_eq!(rig.state("1"), State::Pending);
    assert_eq!(rig.recover(), 1);
    assert_eq!(rig.owner("1"), B);
    // Those of units that are there wait for a report.
    let epoch = rig.epoch("1");
    rig.ack("1", B, epoch);
    rig.restart(&[B]);
    assert_eq!(rig.state("1"), State::Waiting);
    assert!(rig.verbs(B).ends_with("REPORT"));
    rig.report(B, epoch, &[("1", epoch)]);
    assert_eq!(rig.state("1"), State::Open);
    rig.check();
}

#[test]
fn number_05_past_its_end_time_a_conference_is_not_recovered() {
    let mut rig = Rig::new(&[A, B]);
    let end = Some(rig.now + 5 * MINUTE);
    rig.ask(&Request::Client(ClientRequest::Create(Create { end, ..wish("1") }))).unwrap();
    let epoch = rig.epoch("1");
    rig.ack("1", A, epoch);
    rig.down(A);
    rig.now += 5 * MINUTE;
    assert_eq!(rig.recover(), 0);
    assert_eq!((rig.word("1"), rig.one("1").cause.word()), ("ended", "end-time"));
    rig.check();
}

#[test]
fn number_06_a_recovered_conference_keeps_its_end_time() {
    let mut rig = Rig::new(&[A, B]);
    let end = rig.now + 60 * MINUTE;
    rig.ask(&Request::Client(ClientRequest::Create(Create { end: Some(end), ..wish("1") }))).unwrap();
    let epoch = rig.epoch("1");
    rig.ack("1", A, epoch);
    rig.pass(10 * MINUTE);
    rig.down(A);
    rig.recover();
    let epoch = rig.epoch("1");
    rig.ack("1", B, epoch);
    assert_eq!(rig.one("1").end, Some(end));
    assert!(rig.commands(B)[0].contains(&format!(" {end} ")));
    rig.now = end;
    rig.due();
    assert_eq!(rig.word("1"), "ending");
}

#[test]
fn number_07_if_the_original_unit_comes_back_the_later_copy_is_ended() {
    let mut rig = Rig::with(Settings { policy: Policy::Earliest, ..Settings::default() }, &[A, B]);
    let first = rig.open("1");
    rig.down(A);
    rig.recover();
    let second = rig.epoch("1");
    rig.ack("1", B, second);
    rig.set("1", B, second, 1, &["members", "3"]);
    rig.join(A, 10);
    rig.told.clear();
    let Reply::Reported(reported) = rig.report(A, first, &[("1", first)]) else { panic!() };
    let third = rig.epoch("1");
    assert_eq!(reported.adopted, [(b"1"[..].into(), first, third)]);
    assert!(third > second);
    assert_eq!((rig.owner("1").as_str(), rig.state("1")), (A, State::Open));
    assert_eq!(rig.commands(A), [format!("EPOCH 1 {A} {third} {first}")]);
    assert_eq!(rig.commands(B), [format!("RELEASE 1 {B} {second} 0")]);
    assert_eq!(rig.one("1").history[1].ended.unwrap().how, AssignmentEnd::Released);
    assert!(rig.one("1").details.is_empty(), "details are sent again");
    // The unit that lost the conference writes no more, nor does an older assignment of the owner.
    assert_eq!(rig.set("1", B, second, 9, &["members", "9"]), "NOTOWNER");
    assert_eq!(rig.set("1", A, first, 9, &["members", "9"]), "STALE");
    assert_eq!(rig.set("1", A, third, 1, &["members", "2"]), "Integer(1)");
    rig.check();
}

#[test]
fn number_07_under_the_policy_keep_the_owner_stays() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    rig.down(A);
    rig.recover();
    let second = rig.epoch("1");
    rig.ack("1", B, second);
    rig.join(A, 10);
    rig.told.clear();
    let Reply::Reported(reported) = rig.report(A, first, &[("1", first)]) else { panic!() };
    assert_eq!(reported.released.iter().map(|e164| &e164[..]).collect::<Vec<_>>(), [b"1"]);
    assert_eq!(rig.owner("1"), B);
    assert_eq!(rig.verbs(A), "RELEASE");
    // While nobody owns it, it may come back.
    rig.down(B);
    rig.join(B, 10);
    rig.report(B, second, &[("1", second)]);
    assert_eq!((rig.owner("1").as_str(), rig.state("1")), (B, State::Open));
}

#[test]
fn number_07_a_copy_of_an_earlier_conference_of_the_number_is_not_adopted() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    rig.down(A);
    rig.release("1");
    let second = rig.create("1");
    rig.ack("1", B, second);
    rig.join(A, 10);
    rig.report(A, first, &[("1", first)]);
    assert_eq!((rig.owner("1").as_str(), rig.epoch("1")), (B, second));
    assert!(rig.verbs(A).ends_with("RELEASE"));
}

#[test]
fn number_07_an_abandoned_or_younger_copy_is_not_adopted() {
    // B did not answer in time and was told to end its copy; that it made one all the same changes nothing.
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    rig.down(A);
    rig.recover();
    let late = rig.epoch("1");
    rig.pass(10_000);
    rig.told.clear();
    rig.report(B, late, &[("1", late)]);
    assert_eq!((rig.word("1"), rig.verbs(B)), ("pending", "RELEASE".into()));
    // A's is the oldest; a younger one that was lost meanwhile does not take its place.
    rig.pass(5 * MINUTE);
    rig.recover();
    let second = rig.epoch("1");
    rig.ack("1", B, second);
    rig.down(B);
    rig.join(A, 10);
    rig.report(A, first, &[("1", first)]);
    assert_eq!((rig.owner("1").as_str(), rig.one("1").copy_epoch), (A, first));
    rig.join(B, 10);
    rig.told.clear();
    rig.report(B, second, &[("1", second)]);
    assert_eq!((rig.owner("1").as_str(), rig.verbs(B)), (A, "RELEASE".into()));
}

#[test]
fn report_that_lacks_a_lost_conference_does_not_end_it() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    rig.down(A);
    rig.recover();
    let second = rig.epoch("1");
    // B never had it open; that it lacks it says nothing.
    rig.down(B);
    rig.join(B, 10);
    rig.report(B, second, &[]);
    assert_eq!(rig.word("1"), "pending");
    rig.join(A, 10);
    rig.report(A, first, &[]);
    assert_eq!(rig.word("1"), "pending", "that A lacks it says nothing either");
    rig.report_with(A, first, &[("1", first)], &[]);
    assert_eq!(rig.word("1"), "ended");
    rig.check();
}

#[test]
fn number_08_an_unrecoverable_conference_ends_with_the_link() {
    let mut rig = Rig::new(&[A, B]);
    rig.ask(&Request::Client(ClientRequest::Create(Create { recoverable: false, ..wish("1") }))).unwrap();
    let epoch = rig.epoch("1");
    rig.ack("1", A, epoch);
    rig.down(A);
    assert_eq!((rig.word("1"), rig.recover()), ("ended", 0));
    assert_eq!(rig.one("1").history[0].ended.unwrap().how, AssignmentEnd::Lost);
}

#[test]
fn number_09_recovery_is_retried_every_five_minutes_for_thirty() {
    let mut rig = Rig::new(&[A, B]);
    rig.open("1");
    rig.down(A);
    let lost = rig.now;
    let mut tries = Vec::new();
    while rig.word("1") == "pending" {
        if rig.recover() == 1 {
            tries.push(rig.now - lost);
            let epoch = rig.epoch("1");
            rig.nack("1", B, epoch);
        }
        rig.pass(1000);
    }
    assert_eq!(tries, [0, 5, 10, 15, 20, 25].map(|minutes| minutes * MINUTE));
    assert_eq!((rig.now - lost, rig.one("1").cause.word()), (30 * MINUTE, "window"));
    // Or until its end time, if that is earlier.
    let mut rig = Rig::new(&[A, B]);
    let end = Some(rig.now + 7 * MINUTE);
    rig.ask(&Request::Client(ClientRequest::Create(Create { end, ..wish("1") }))).unwrap();
    let epoch = rig.epoch("1");
    rig.ack("1", A, epoch);
    rig.down(A);
    rig.pass(7 * MINUTE);
    assert_eq!(rig.word("1"), "ended");
}

#[test]
fn number_10_the_manager_may_end_a_pending_conference() {
    let mut rig = Rig::new(&[A, B]);
    rig.open("1");
    rig.down(A);
    rig.release("1");
    assert_eq!((rig.word("1"), rig.recover(), rig.realm.licences_used()), ("ended", 0, 0));
}

#[test]
fn number_11_after_a_failed_recovery_the_next_unit_is_tried() {
    let mut rig = Rig::new(&[A, B, C]);
    rig.open("1");
    rig.down(A);
    rig.recover();
    assert_eq!(rig.owner("1"), B);
    let epoch = rig.epoch("1");
    rig.nack("1", B, epoch);
    // At once, since there is another; and it is not the one that failed.
    assert_eq!(rig.recover(), 1);
    assert_eq!(rig.owner("1"), C);
    assert_eq!(rig.one("1").tried.len(), 1);
    rig.pass(10_000);
    // Both failed: all may be tried again, in five minutes.
    assert_eq!((rig.word("1"), rig.recover()), ("pending", 0));
    assert!(rig.realm.tried(rig.one("1")).is_empty());
    assert_eq!(rig.realm.next_try(rig.one("1")), Some(rig.now + 5 * MINUTE));
    assert_eq!(rig.one("1").pending_since, Some(1000));
    rig.pass(5 * MINUTE);
    assert_eq!((rig.recover(), rig.one("1").attempts), (1, 3));
}

#[test]
fn number_12_a_waiting_conference_keeps_its_licences() {
    let mut rig = Rig::with(Settings { licences: 3, ..Settings::default() }, &[A, B]);
    rig.ask(&Request::Client(ClientRequest::Create(Create { licences: 2, ..wish("1") }))).unwrap();
    let epoch = rig.epoch("1");
    rig.ack("1", A, epoch);
    rig.down(A);
    assert_eq!(rig.realm.licences_used(), 2);
    assert_eq!(
        rig.code(&Request::Client(ClientRequest::Create(Create { licences: 2, ..wish("2") }))),
        "LIMIT"
    );
    rig.create("3");
    assert_eq!((rig.realm.licences_used(), rig.recover()), (3, 1));
    rig.release("1");
    let epoch = rig.epoch("1");
    rig.ended("1", B, epoch);
    assert_eq!(rig.realm.licences_used(), 1);
    // A move counts them once.
    let epoch = rig.epoch("3");
    rig.join(C, 10);
    rig.ack("3", B, epoch);
    rig.move_to("3", C);
    assert_eq!(rig.realm.licences_used(), 1);
}

#[test]
fn number_13_there_is_one_call_record_with_segments() {
    let mut rig = Rig::new(&[A, B, C]);
    let first = rig.open("1");
    rig.pass(1000);
    rig.down(A);
    rig.pass(1000);
    rig.recover();
    let second = rig.epoch("1");
    rig.ack("1", B, second);
    rig.pass(1000);
    let third = rig.move_to("1", C);
    rig.ack("1", C, third);
    rig.pass(1000);
    rig.ended("1", C, third);
    let history: Vec<_> = rig
        .one("1")
        .history
        .iter()
        .map(|entry| {
            let allot_core::conf::conference::Ending { at: to, how } = entry.ended.unwrap();
            (entry.epoch, String::from_utf8_lossy(&entry.cmu).into_owned(), entry.from, to, how.word())
        })
        .collect();
    let expected = [
        (first, A.to_owned(), 1000, 2000, "lost"),
        (second, B.to_owned(), 3000, 4000, "moved"),
        (third, C.to_owned(), 4000, 5000, "ended"),
    ];
    assert_eq!(history, expected);
    assert_eq!(
        (rig.one("1").created, rig.one("1").opened, rig.one("1").ended),
        (1000, Some(1000), Some(5000))
    );
}

#[test]
fn number_14_a_lost_conference_ends_at_its_last_service() {
    let mut rig = Rig::new(&[A]);
    rig.open("1");
    rig.pass(MINUTE);
    rig.down(A);
    let lost = rig.now;
    rig.pass(30 * MINUTE);
    assert_eq!((rig.word("1"), rig.one("1").ended), ("ended", Some(lost)));
    assert_eq!(rig.one("1").since, lost + 30 * MINUTE);
}
