//! A conference ends when people end it, and not because a unit gave up a copy that it was told to end, or lost it.

use super::rig::Rig;
use allot_core::conf::conference::State;

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
