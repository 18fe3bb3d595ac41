//! A conference ends when people end it, and not because a unit gave up a copy that it was told to end, or lost it.

use super::rig::Rig;
use allot_core::conf::Reply;
use allot_core::conf::conference::State;
use allot_core::conf::request::{ClientRequest, Report, Request, UnitRequest};

const A: &str = "a:1:1";
const B: &str = "b:1:1";

/// A conference that A lost and B has open. Returns the epochs on A and on B.
fn lost_by_a_and_open_on_b(opened_on_a: bool) -> (Rig, u64, u64) {
    let mut rig = Rig::new(&[A, B]);
    let first = if opened_on_a { rig.open("1") } else { rig.create("1") };
    assert_eq!(rig.owner("1"), A);
    rig.down(A);
    rig.recover();
    let second = rig.epoch("1");
    assert_eq!(rig.ack("1", B, second), "Ok");
    rig.join(A, 10);
    rig.told.clear();
    (rig, first, second)
}

#[test]
fn unit_that_wakes_and_opens_an_old_create_ends_no_conference() {
    let (mut rig, first, second) = lost_by_a_and_open_on_b(false);
    rig.report(A, 0, &[]);
    // Now it reads the CREATE from before it slept.
    assert_eq!(rig.ack("1", A, first), "Released");
    rig.report(A, first, &[("1", first)]);
    assert_eq!((rig.owner("1").as_str(), rig.verbs(B)), (B, String::new()), "the copy is not adopted");
    // It handles what its stream has by now, as units of the first protocol do: they have one word for every end.
    for told in rig.commands(A) {
        let words: Vec<&str> = told.split(' ').collect();
        assert_eq!(words[..2], ["RELEASE", "1"]);
        rig.ended("1", A, words[3].parse().unwrap());
    }
    assert_eq!((rig.state("1"), rig.epoch("1")), (State::Open, second));
    rig.check();
}

#[test]
fn copy_that_was_never_open_by_an_accepted_word_is_not_adopted() {
    let (mut rig, first, _) = lost_by_a_and_open_on_b(false);
    rig.report(A, first, &[("1", first)]);
    assert_eq!((rig.owner("1").as_str(), rig.verbs(A)), (B, "RELEASE".into()));
    // While nobody owns the conference it is not adopted either.
    rig.down(B);
    rig.told.clear();
    rig.report(A, first, &[("1", first)]);
    assert_eq!((rig.state("1"), rig.verbs(A)), (State::Pending, "RELEASE".into()));
    assert_eq!(rig.ended("1", A, first), "NOTOWNER");
    rig.check();
}

#[test]
fn copy_whose_unit_was_told_release_is_not_adopted() {
    let (mut rig, first, _) = lost_by_a_and_open_on_b(true);
    // It repeats its word from before it was lost.
    assert_eq!(rig.ack("1", A, first), "Released");
    rig.report(A, first, &[("1", first)]);
    assert_eq!((rig.owner("1").as_str(), rig.verbs(A)), (B, "RELEASE RELEASE".into()));
    rig.check();
}

#[test]
fn end_after_release_is_no_end_by_people() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    rig.down(A);
    rig.join(A, 10);
    assert_eq!(rig.ack("1", A, first), "Released");
    assert_eq!((rig.ended("1", A, first), rig.state("1")), ("NOTOWNER".into(), State::Pending));
    assert_eq!(rig.recover(), 1);
    rig.check();
    // Without RELEASE it is.
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    rig.down(A);
    rig.join(A, 10);
    assert_eq!((rig.ended("1", A, first), rig.state("1")), ("Ok".into(), State::Ended));
}

/// A master that failed before any replica knew of a move: here the conference is still on A, whose copy has ended.
fn moved_in_a_lost_master() -> (Rig, u64) {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    assert_eq!(rig.owner("1"), A);
    rig.told.clear();
    (rig, first)
}

#[test]
fn conference_that_its_unit_gave_up_at_release_is_recovered() {
    let (mut rig, first) = moved_in_a_lost_master();
    assert_eq!((rig.given_up("1", A, first), rig.state("1")), ("Ok".into(), State::Pending));
    assert_eq!((rig.one("1").cause.word(), rig.recover()), ("released", 1));
    // The unit repeats its word.
    assert_eq!(rig.given_up("1", A, first), if rig.owner("1") == A { "STALE" } else { "NOTOWNER" });
    assert_eq!(rig.state("1"), State::Creating);
    rig.check();
}

#[test]
fn conference_that_a_report_lacks_is_recovered_unless_people_ended_it() {
    let (mut rig, first) = moved_in_a_lost_master();
    let second = rig.open("2");
    let moving = rig.move_to("1", B);
    let Reply::Reported(reported) = rig.report(A, moving, &[]) else { panic!() };
    assert_eq!((reported.lost, reported.ended), (vec![b"1"[..].into()], vec![]));
    // The unit that it moves to goes on.
    assert_eq!((rig.state("1"), rig.owner("1").as_str(), rig.epoch("1")), (State::Creating, B, moving));
    rig.ack("1", B, moving);
    let Reply::Reported(reported) = rig.report_with(B, moving, &[("1", moving)], &[("2", second)]) else {
        panic!()
    };
    assert_eq!((reported.lost, reported.ended), (vec![], vec![b"1"[..].into()]));
    assert_eq!((rig.state("1"), rig.state("2"), first < moving), (State::Ended, State::Open, true));
    rig.check();
}

#[test]
fn creation_that_a_report_lacks_is_made_elsewhere() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.create("1");
    rig.report(A, first, &[]);
    assert_eq!((rig.state("1"), rig.recover()), (State::Pending, 1));
    rig.check();
}

#[test]
fn end_by_people_counts_at_an_older_epoch_of_the_same_copy() {
    let mut rig = Rig::new(&[A]);
    let first = rig.open("1");
    rig.down(A);
    rig.join(A, 10);
    rig.report(A, first, &[("1", first)]);
    assert!(rig.epoch("1") > first, "the copy is adopted");
    // People ended the copy before its unit heard of the adoption.
    assert_eq!((rig.ended("1", A, first), rig.state("1")), ("Ok".into(), State::Ended));
    rig.check();
}

#[test]
fn end_by_people_counts_on_a_lost_assignment_that_was_never_acknowledged() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.create("1");
    // A has it open, but its CONF.ACK does not arrive.
    rig.down(A);
    assert_eq!(rig.recover(), 1);
    let second = rig.epoch("1");
    rig.told.clear();
    assert_eq!(
        (rig.ended("1", A, first), rig.state("1"), rig.verbs(B)),
        ("Ok".into(), State::Ended, "RELEASE".into())
    );
    rig.check();
    // Not once another unit has it open.
    let mut rig = Rig::new(&[A, B]);
    let first = rig.create("1");
    rig.down(A);
    rig.recover();
    assert_eq!(rig.ack("1", B, second), "Ok");
    assert_eq!((rig.ended("1", A, first), rig.state("1")), ("NOTOWNER".into(), State::Open));
    rig.down(B);
    assert_eq!((rig.ended("1", A, first), rig.state("1")), ("NOTOWNER".into(), State::Pending));
    assert_eq!((rig.ended("1", B, second), rig.state("1")), ("Ok".into(), State::Ended));
}

#[test]
fn end_by_people_on_the_target_of_a_move_ends_the_conference() {
    // A failover lost the CONF.ACK of the target: the move is not done here.
    let moving = || {
        let mut rig = Rig::new(&[A, B]);
        rig.open("1");
        let epoch = rig.move_to("1", B);
        rig.told.clear();
        (rig, epoch)
    };
    let (mut rig, epoch) = moving();
    assert_eq!(
        (rig.ended("1", B, epoch), rig.state("1"), rig.verbs(A)),
        ("Ok".into(), State::Ended, "RELEASE".into())
    );
    assert_eq!(
        (rig.ended("1", B, epoch), rig.verbs(B)),
        ("Ok".into(), String::new()),
        "the notice is repeated"
    );
    rig.check();
    let (mut rig, epoch) = moving();
    let Reply::Reported(reported) = rig.report_with(B, epoch, &[("1", epoch)], &[]) else { panic!() };
    assert_eq!((reported.ended.len(), reported.lost.len(), rig.state("1")), (1, 0, State::Ended));
    rig.check();
}

#[test]
fn copy_given_up_at_an_older_epoch_of_the_same_copy_is_recovered() {
    let mut rig = Rig::new(&[A]);
    let first = rig.open("1");
    rig.down(A);
    rig.join(A, 10);
    rig.report(A, first, &[("1", first)]);
    let second = rig.epoch("1");
    assert!(second > first, "the copy is adopted");
    // The unit ended the copy before it heard of the adoption.
    assert_eq!((rig.given_up("1", A, first), rig.state("1")), ("Ok".into(), State::Pending));
    assert_eq!((rig.given_up("1", A, second), rig.recover()), ("NOTOWNER".into(), 1));
    rig.check();
}

#[test]
fn report_that_names_a_conference_as_ended_and_as_there_ends_it_and_its_copy() {
    let mut rig = Rig::new(&[A]);
    let first = rig.open("1");
    rig.told.clear();
    let Reply::Reported(reported) = rig.report_with(A, first, &[("1", first)], &[("1", first)]) else {
        panic!()
    };
    assert_eq!((reported.ended.len(), reported.released.len(), reported.kept), (1, 1, 0));
    assert_eq!((rig.state("1"), rig.verbs(A)), (State::Ended, "RELEASE".into()));
    // What a report names that is not on record, or over, says nothing.
    rig.report_with(A, first, &[("1", first), ("9", 5)], &[]);
    rig.check();
}

#[test]
fn report_that_names_a_conference_as_ended_and_as_starting_ends_it_and_its_copy() {
    // A lost master had the unit create the conference again; that it also said that the first copy ended is lost as well.
    for later in [5, 0] {
        let mut rig = Rig::new(&[A]);
        let first = rig.create("1");
        rig.ask(&Request::Client(ClientRequest::Resize { e164: b"1", size: 2 })).unwrap();
        rig.told.clear();
        let (cmu, e164) = (A.as_bytes(), &b"1"[..]);
        let (ended, starting) = (vec![(e164, first)], vec![(e164, first + later)]);
        let report = Report { cmu, highest: first + later, ended, starting, ..Report::default() };
        let Ok(Reply::Reported(reported)) = rig.ask(&Request::Unit(UnitRequest::Report(report))) else {
            panic!()
        };
        assert_eq!((reported.ended.len(), reported.released.len()), (1, 1));
        assert_eq!((reported.kept, reported.lost.len()), (0, 0));
        assert_eq!((rig.state("1"), rig.verbs(A)), (State::Ended, "RELEASE".into()));
        rig.check();
    }
}

#[test]
fn copy_of_a_lost_master_on_the_owner_goes_on() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    // The lost master gave it to A once more, at an epoch that is not on record here.
    let lost = first + 5;
    let Reply::Reported(reported) = rig.report(A, lost, &[("1", lost)]) else { panic!() };
    assert_eq!((reported.released.len(), reported.lost.len(), reported.adopted.len()), (0, 0, 1));
    assert_eq!((rig.state("1"), rig.recover()), (State::Open, 0));
    rig.check();
}

/// A former master moved the conference to B at this epoch, and no replica heard of it.
fn given_to_b_by_a_lost_master() -> (Rig, u64) {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    assert_eq!(rig.owner("1"), A);
    rig.pass(1000);
    rig.told.clear();
    (rig, first + 2_000_000)
}

#[test]
fn end_by_people_counts_at_an_epoch_that_a_failover_has_lost() {
    let (mut rig, lost) = given_to_b_by_a_lost_master();
    assert_eq!(
        (rig.ended("1", B, lost), rig.state("1"), rig.verbs(A)),
        ("Ok".into(), State::Ended, "RELEASE".into())
    );
    rig.check();
    // In a report, and while nobody has it.
    let (mut rig, lost) = given_to_b_by_a_lost_master();
    rig.down(A);
    let Reply::Reported(reported) = rig.report_with(B, lost, &[("1", lost)], &[]) else { panic!() };
    assert_eq!((reported.ended.len(), rig.state("1")), (1, State::Ended));
    rig.check();
}

#[test]
fn lost_end_by_people_counts_after_the_realm_has_given_out_later_epochs() {
    // The report of another unit names an epoch that the lost master gave out later.
    let (mut rig, lost) = given_to_b_by_a_lost_master();
    rig.join("c:1:1", 10);
    rig.report("c:1:1", lost + 1, &[]);
    assert!(rig.realm.last_epoch() > lost);
    assert_eq!(
        (rig.ended("1", B, lost), rig.state("1"), rig.verbs(A)),
        ("Ok".into(), State::Ended, "RELEASE".into())
    );
    rig.check();
    // The conference is being recovered at a later epoch, and is not open yet.
    let (mut rig, lost) = given_to_b_by_a_lost_master();
    rig.pass(2000);
    rig.down(A);
    rig.recover();
    assert!(rig.epoch("1") > lost && rig.state("1") == State::Creating);
    assert_eq!((rig.ended("1", B, lost), rig.state("1")), ("Ok".into(), State::Ended));
    rig.check();
}

#[test]
fn lost_end_by_people_counts_while_the_conference_is_creating() {
    let mut rig = Rig::new(&[A, B]);
    let lost = rig.create("1") + 20_000;
    rig.told.clear();
    assert_eq!(
        (rig.ended("1", B, lost), rig.state("1"), rig.verbs(A)),
        ("Ok".into(), State::Ended, "RELEASE".into())
    );
    rig.check();
}

#[test]
fn end_by_people_at_an_unknown_epoch_ends_no_other_conference() {
    // The unit has not joined here.
    let (mut rig, lost) = given_to_b_by_a_lost_master();
    assert_eq!((rig.ended("1", "c:1:1", lost), rig.state("1")), ("NOTFOUND".into(), State::Open));
    // The realm gave this epoch out itself, for a move that it cancelled.
    let moving = rig.move_to("1", B);
    rig.report(B, moving, &[]);
    rig.told.clear();
    for epoch in [moving, moving - 1] {
        assert_eq!((rig.ended("1", B, epoch), rig.state("1")), ("NOTOWNER".into(), State::Open));
    }
    // It is further ahead of the clock than any master's.
    assert_eq!((rig.ended("1", B, lost + (1 << 50)), rig.state("1")), ("NOTOWNER".into(), State::Open));
    rig.check();
    // The epoch is of an earlier conference of the number.
    let mut rig = Rig::new(&[A, B]);
    let origin = rig.create("1");
    assert_eq!((rig.ended("1", B, origin - 1), rig.state("1")), ("NOTOWNER".into(), State::Creating));
    // The unit was told to end the copy.
    rig.ack("1", A, origin);
    assert_eq!(rig.ack("1", B, origin + 1), "Released");
    assert_eq!((rig.ended("1", B, origin + 1), rig.state("1")), ("NOTOWNER".into(), State::Open));
    rig.check();
    // It was recovered after the epoch was given out, and is open again.
    let (mut rig, lost) = given_to_b_by_a_lost_master();
    rig.pass(2000);
    rig.down(A);
    rig.recover();
    let recovered = rig.epoch("1");
    rig.ack("1", B, recovered);
    assert_eq!((rig.ended("1", B, lost), rig.state("1")), ("STALE".into(), State::Open));
    rig.check();
}

#[test]
fn end_at_an_epoch_from_before_an_adoption_counts_while_the_copy_is_the_last() {
    for released in [false, true] {
        let mut rig = Rig::new(&[A, B]);
        let first = rig.open("1");
        rig.down(A);
        rig.join(A, 10);
        rig.report(A, first, &[("1", first)]);
        let adopted = rig.epoch("1");
        assert!(adopted > first && rig.word("1") == "open");
        // It is lost again before it has read EPOCH.
        rig.down(A);
        rig.join(A, 10);
        if released {
            assert_eq!(rig.ack("1", A, adopted), "Released");
        }
        let reply = if released { "NOTOWNER" } else { "Ok" };
        assert_eq!(rig.ended("1", A, first), reply);
        assert_eq!(rig.word("1"), if released { "pending" } else { "ended" });
        rig.check();
    }
}
