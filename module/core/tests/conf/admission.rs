//! Events that no decision on a realm could have made are refused, and change nothing.

use super::rig::{MINUTE, Rig, created};
use allot_core::conf::conference::Cause;
use allot_core::conf::event::Created;
use allot_core::conf::unit::{Name, UnitState};
use allot_core::conf::{ConferenceEvent, Event, UnitEvent};
use allot_core::shared::Bytes;
use allot_core::shared::codec::Writer;

const A: &str = "a:1:1";
const B: &str = "b:1:1";

fn name(cmu: &str) -> Name {
    Name::from(cmu.as_bytes())
}

fn e164(number: &str) -> Bytes {
    Bytes::from_slice(number.as_bytes())
}

fn unit(cmu: &str, event: UnitEvent) -> Event {
    Event::Unit { cmu: name(cmu), event }
}

fn conference(number: &str, event: ConferenceEvent) -> Event {
    Event::Conference { e164: e164(number), event }
}

#[track_caller]
fn refuses(rig: &Rig, event: &Event) {
    assert!(rig.realm.admits(event).is_err(), "{event:?} is admitted");
}

fn set(number: &str, seq: u64, fields: &[&str]) -> Event {
    let mut out = Writer::default();
    fields.iter().for_each(|field| out.string(field.as_bytes()));
    conference(number, ConferenceEvent::Set { seq, fields: out.bytes })
}

#[test]
fn unit_that_is_down_sends_nothing_before_it_joins_again() {
    let mut rig = Rig::new(&[A]);
    rig.down(A);
    refuses(&rig, &unit(A, UnitEvent::Beat { load: None }));
    refuses(&rig, &unit(A, UnitEvent::Reported { highest: 1 }));
    refuses(&rig, &unit(A, UnitEvent::Conflict { machine: name("m") }));
    refuses(&rig, &Event::Asked { cmu: Some(name(A)), details: false });
}

#[test]
fn lease_lapses_in_one_direction() {
    let mut rig = Rig::new(&[A]);
    rig.apply(&unit(A, UnitEvent::Lapsed { to: UnitState::Unreachable }));
    refuses(&rig, &unit(A, UnitEvent::Lapsed { to: UnitState::Suspect }));
    refuses(&rig, &unit(A, UnitEvent::Lapsed { to: UnitState::Unreachable }));
    refuses(&rig, &unit(A, UnitEvent::Lapsed { to: UnitState::Down }));
}

#[test]
fn host_is_drained_once() {
    let mut rig = Rig::new(&[A]);
    let drained = |on| Event::Drained { host: b"a"[..].into(), on };
    refuses(&rig, &drained(false));
    rig.apply(&drained(true));
    refuses(&rig, &drained(true));
    rig.apply(&unit(A, UnitEvent::Leaving));
    refuses(&rig, &unit(A, UnitEvent::Leaving));
}

#[test]
fn lost_copy_is_found_once_and_at_an_epoch_that_the_realm_did_not_give_out() {
    let mut rig = Rig::new(&[A, B]);
    let epoch = rig.open("1");
    rig.report(B, epoch + 9, &[]);
    let found = |number: &str, epoch| Event::Found(Box::new(created(number, B, epoch)));
    for wrong in [found("1", epoch + 1), found("2", epoch), found("2", epoch + 10)] {
        refuses(&rig, &wrong);
    }
    rig.apply(&found("2", epoch + 1));
    refuses(&rig, &found("2", epoch + 2));
    rig.check();
    let copy = |old, epoch| conference("1", ConferenceEvent::CopyFound { cmu: name(B), old, epoch });
    for wrong in [copy(epoch, epoch + 10), copy(epoch + 2, epoch + 9)] {
        refuses(&rig, &wrong);
    }
    rig.apply(&copy(epoch + 2, epoch + 10));
    // The adopted copy is later.
    refuses(&rig, &copy(epoch + 1, epoch + 11));
    refuses(&rig, &Event::Dropped { epoch: epoch + 10 });
    rig.check();
}

#[test]
fn failed_creation_is_tried_on_another_unit_with_a_new_epoch() {
    let mut rig = Rig::new(&[A, B]);
    let epoch = rig.create("1");
    let retried = |cmu: &str, epoch| {
        let (cause, release) = (Cause::Refused, false);
        conference("1", ConferenceEvent::Retried { cause, release, cmu: name(cmu), epoch })
    };
    refuses(&rig, &retried(A, epoch + 1));
    refuses(&rig, &retried(B, epoch));
    rig.apply(&retried(B, epoch + 1));
    refuses(&rig, &retried(A, epoch + 2));
    rig.ack("1", B, epoch + 1);
    refuses(&rig, &retried(A, epoch + 2));
    refuses(&rig, &unit(A, UnitEvent::BackoffEnded));
    refuses(&rig, &unit(A, UnitEvent::Ramped));
    refuses(&rig, &unit(A, UnitEvent::ConflictOver));
}

#[test]
fn restart_names_each_unit_once() {
    let rig = Rig::new(&[A, B]);
    refuses(&rig, &Event::Restarted { gone: vec![name(A), name(A)] });
    refuses(&rig, &Event::Restarted { gone: vec![name(B), name(A)] });
}

#[test]
fn stream_is_flushed_once_and_of_no_more_than_waits() {
    let mut rig = Rig::new(&[A]);
    rig.apply(&Event::Asked { cmu: Some(name(A)), details: false });
    rig.apply(&Event::Asked { cmu: Some(name(A)), details: true });
    let stream = b"cmd:a:1:1".to_vec();
    for sent in [vec![(stream.clone(), 0)], vec![(stream.clone(), 3)], vec![(stream.clone(), 1), (stream, 2)]]
    {
        refuses(&rig, &Event::Flushed { sent, last_id: (1, 0) });
    }
}

#[test]
fn end_time_beyond_all_times_is_refused() {
    let mut rig = Rig::new(&[A]);
    let epoch = rig.open("1");
    let (end, number) = (1 << 52, epoch + 1);
    refuses(&rig, &conference("1", ConferenceEvent::Extended { end, number: epoch }));
    assert!(rig.realm.admits(&conference("1", ConferenceEvent::Extended { end, number })).is_ok());
    refuses(&rig, &conference("1", ConferenceEvent::Extended { end: end + 1, number }));
    let created = |end, epoch| {
        Event::Created(Box::new(Created { end: Some(end), licences: 0, ..created("2", A, epoch) }))
    };
    assert!(rig.realm.admits(&created(end, epoch + 1)).is_ok());
    refuses(&rig, &created(end + 1, epoch + 1));
    refuses(&rig, &created(end, epoch));
    refuses(&rig, &created(end, (1 << 53) - 1));
}

#[test]
fn creation_fails_into_recovery_only_if_it_recovers() {
    let mut rig = Rig::new(&[A]);
    rig.create("1");
    let failed = |number: &str| {
        conference(
            number,
            ConferenceEvent::Failed { cause: Cause::Refused, release: false, next_retry: 5 * MINUTE },
        )
    };
    refuses(&rig, &failed("1"));
    rig.open("2");
    rig.join(B, 10);
    rig.move_to("2", B);
    rig.restart(&[]);
    assert_eq!(rig.word("2"), "waiting");
    refuses(&rig, &failed("2"));
}

#[test]
fn conference_ends_once_and_is_not_extended_while_it_ends() {
    let mut rig = Rig::new(&[A]);
    rig.open("1");
    rig.release("1");
    assert_eq!(rig.word("1"), "ending");
    refuses(&rig, &conference("1", ConferenceEvent::Ending { cause: Cause::Manager }));
    let number = rig.realm.last_epoch() + 1;
    refuses(&rig, &conference("1", ConferenceEvent::Extended { end: 1 << 40, number }));
    refuses(&rig, &conference("1", ConferenceEvent::Resized { size: 2, number }));
    refuses(&rig, &conference("1", ConferenceEvent::EndNear { number }));
}

#[test]
fn update_is_of_a_conference_that_has_a_unit_and_an_end() {
    let mut rig = Rig::new(&[A]);
    let number = rig.open("1") + 1;
    refuses(&rig, &conference("1", ConferenceEvent::EndNear { number }));
    refuses(&rig, &conference("1", ConferenceEvent::UpdatedAgain { number: None }));
    rig.apply(&conference("1", ConferenceEvent::Extended { end: 1 << 40, number }));
    assert!(rig.realm.admits(&conference("1", ConferenceEvent::UpdatedAgain { number: None })).is_ok());
    let number = number + 1;
    assert!(rig.realm.admits(&conference("1", ConferenceEvent::EndNear { number })).is_ok());
    refuses(&rig, &conference("1", ConferenceEvent::EndNear { number: number - 1 }));
    refuses(&rig, &conference("1", ConferenceEvent::Resized { size: 0, number }));
    refuses(&rig, &conference("1", ConferenceEvent::Resized { size: 1, number: number - 1 }));
    rig.down(A);
    refuses(&rig, &conference("1", ConferenceEvent::UpdatedAgain { number: None }));
    refuses(&rig, &conference("1", ConferenceEvent::EndNear { number }));
}

#[test]
fn only_a_lost_copy_is_adopted() {
    let mut rig = Rig::new(&[A]);
    let old = rig.open("1");
    rig.join(B, 10);
    let moved = rig.move_to("1", B);
    rig.ack("1", B, moved);
    refuses(&rig, &conference("1", ConferenceEvent::Adopted { cmu: name(A), old, epoch: moved + 1 }));
}

#[test]
fn detail_is_written_once_and_only_by_a_newer_write() {
    let mut rig = Rig::new(&[A]);
    let epoch = rig.open("1");
    rig.set("1", A, epoch, 5, &["members", "3"]);
    assert!(rig.realm.admits(&set("1", 6, &["members", "4"])).is_ok());
    refuses(&rig, &set("1", 5, &["members", "4"]));
    refuses(&rig, &set("1", 6, &["speaker", "ann", "speaker", "bob"]));
}

#[test]
fn unit_refuses_only_a_conference_that_is_there() {
    let rig = Rig::new(&[A]);
    let (cmu, reason) = (name(A), Bytes::from_slice(b"no media"));
    refuses(&rig, &conference("1", ConferenceEvent::Refused { cmu, epoch: 1, reason }));
}
