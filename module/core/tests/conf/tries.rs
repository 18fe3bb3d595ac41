//! Creations that fail: they are tried on other units, and a unit on which many fail gets nothing for a while.

use super::rig::{Rig, wish, zone};
use allot_core::conf::conference::Cause;
use allot_core::conf::request::{
    Changes, ClientRequest, Create, Report, Request, SchedulerRequest, UnitRequest,
};
use allot_core::conf::state::Settings;
use allot_core::conf::unit::Name;
use allot_core::conf::{ConferenceEvent, Event, Realm, Reply, UnitEvent, decide_due};
use std::collections::BTreeMap;

const A: &str = "a:1:1";
const B: &str = "b:1:1";
const C: &str = "c:1:1";

/// A naive count of failures: it follows events, and notices a placement on a unit that is in back-off.
#[derive(Clone, Debug)]
pub(super) struct Failures {
    settings: Settings,
    /// Failures in a row of each unit, and until when nothing is placed on it.
    units: BTreeMap<Name, (i64, i64)>,
}

impl Failures {
    /// No failures, under these settings.
    pub(super) fn under(settings: Settings) -> Self {
        Self { settings, units: BTreeMap::new() }
    }

    /// An event at that time, and the unit that has created a conference by it.
    pub(super) fn follow(&mut self, at: i64, event: &Event, creator: Option<&Name>) {
        if let Event::Configured { settings } = event {
            self.settings = *settings;
        }
        let settings = self.settings;
        let placed = match event {
            Event::Created(created) => created.cmu.as_ref(),
            Event::Conference {
                event:
                    ConferenceEvent::Granted { cmu, .. }
                    | ConferenceEvent::Started { cmu, .. }
                    | ConferenceEvent::Retried { cmu, .. }
                    | ConferenceEvent::Moving { to: cmu, .. },
                ..
            } => Some(cmu),
            _ => None,
        };
        if let Some(cmu) = placed
            && let Some((failures, until)) = self.units.get_mut(cmu)
        {
            assert!(*until <= at, "{} gets a conference in its back-off", cmu.escape_ascii());
            if *failures >= settings.failures {
                // A trial: the next one waits for its answer.
                *until = at + settings.create_timeout;
            }
        }
        match event {
            Event::Unit { cmu, event: UnitEvent::Failed } => {
                let (failures, until) = self.units.entry(cmu.clone()).or_default();
                *failures += 1;
                if *failures >= settings.failures {
                    let length = (1000 << (*failures - settings.failures).min(6)).min(60_000);
                    *until = at + length;
                }
            }
            Event::Unit { cmu, event: UnitEvent::Forgotten } => {
                self.units.remove(cmu);
            }
            _ => {}
        }
        if let Some(cmu) = creator {
            self.units.remove(cmu);
        }
    }
}

fn refuse_all(rig: &mut Rig, e164: &str) -> Vec<String> {
    let mut units = Vec::new();
    rig.create(e164);
    while rig.word(e164) == "creating" {
        let (owner, epoch) = (rig.owner(e164), rig.epoch(e164));
        assert_eq!(rig.nack(e164, &owner, epoch), "Ok");
        units.push(owner);
    }
    units
}

fn configure(rig: &mut Rig, changes: Changes) {
    rig.ask(&Request::Client(ClientRequest::Configure(changes))).unwrap();
}

/// `failures`, and how long the back-off still lasts.
fn backoff(rig: &Rig, cmu: &str) -> (u32, Option<i64>) {
    let unit = rig.realm.unit_called(cmu.as_bytes()).unwrap();
    (unit.failures, unit.backoff_until.map(|until| until - rig.now))
}

#[test]
fn refused_creation_is_tried_on_other_units() {
    let mut rig = Rig::new(&[A, B, C, "d:1:1"]);
    assert_eq!(refuse_all(&mut rig, "1"), [A, B, C], "three tries, and not the same unit twice");
    let one = rig.one("1");
    assert_eq!((one.cause, one.history.len(), rig.realm.licences_used()), (Cause::Refused, 3, 0));
    assert!(rig.realm.units().all(|unit| unit.used == 0), "room is given back");
    configure(&mut rig, Changes { tries: Some(1), ..Changes::default() });
    assert_eq!(refuse_all(&mut rig, "2").len(), 1);
    rig.check();
}

#[test]
fn second_unit_opens_what_the_first_refused() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.create("1");
    rig.told.clear();
    rig.nack("1", A, first);
    let second = rig.epoch("1");
    assert!(second > first);
    assert_eq!((rig.owner("1").as_str(), rig.word("1")), (B, "creating"));
    assert_eq!(rig.commands(B), [format!("CREATE 1 {B} {second}  1 0  0 0")], "no recovery");
    assert_eq!(rig.ack("1", A, first), "Released", "the first unit is too late");
    assert_eq!(rig.ack("1", B, second), "Ok");
    assert!(rig.one("1").tried.is_empty());
    rig.check();
}

#[test]
fn unanswered_creations_are_tried_elsewhere_each_with_its_own_epoch() {
    let mut rig = Rig::new(&[A, B]);
    let numbers: Vec<String> = (0..4).map(|number| format!("n{number}")).collect();
    for e164 in &numbers {
        rig.create(e164);
    }
    let on_a: Vec<&String> = numbers.iter().filter(|e164| rig.owner(e164) == A).collect();
    rig.told.clear();
    rig.pass(10_000);
    // Neither unit answers: they swap their conferences.
    for e164 in &numbers {
        let expected = if on_a.contains(&e164) { B } else { A };
        assert_eq!((rig.word(e164), rig.owner(e164).as_str()), ("creating", expected), "{e164}");
    }
    let released: Vec<String> =
        rig.commands(A).into_iter().filter(|command| command.starts_with("RELEASE")).collect();
    let go_on = |command: &String| command.ends_with(" 0");
    assert!(!released.is_empty() && released.iter().all(go_on), "{released:?}");
    rig.check();
}

#[test]
fn unit_that_gets_a_back_off_at_these_deadlines_gets_none_of_their_conferences() {
    let settings = Settings { failures: 2, ..Settings::default() };
    let mut rig = Rig::with(settings, &[A, B]);
    for number in 0..4 {
        rig.create(&format!("n{number}"));
    }
    rig.now += 10_000;
    let events = decide_due(&rig.realm, rig.now, usize::MAX);
    let mut failures = Failures::under(settings);
    for event in &events {
        failures.follow(rig.now, event, None);
        rig.apply(event);
    }
    assert_eq!((backoff(&rig, A).0, backoff(&rig, B).0), (2, 2));
    rig.flush();
    rig.check();
}

#[test]
fn creation_that_may_not_be_recovered_is_tried_elsewhere_as_well() {
    let mut rig = Rig::new(&[A, B]);
    let create = Create { recoverable: false, ..wish("1") };
    rig.ask(&Request::Client(ClientRequest::Create(create))).unwrap();
    let epoch = rig.epoch("1");
    rig.nack("1", A, epoch);
    assert_eq!((rig.word("1"), rig.owner("1").as_str()), ("creating", B));
}

#[test]
fn conference_whose_end_was_requested_is_not_tried_again() {
    let mut rig = Rig::new(&[A, B]);
    let epoch = rig.create("1");
    rig.release("1");
    rig.nack("1", A, epoch);
    assert_eq!(rig.word("1"), "ended");
}

#[test]
fn zone_and_room_hold_for_the_next_unit() {
    let mut rig = Rig::new(&[B]);
    let join = |cmu: &'static str| UnitRequest::Join {
        cmu: cmu.as_bytes(),
        capacity: 10,
        zone: Some(b"east"),
        tags: &[],
        lease: 3_600_000,
        machine: None,
    };
    rig.ask(&Request::Unit(join(A))).unwrap();
    let create = Create { wishes: zone(b"east"), ..wish("1") };
    rig.ask(&Request::Client(ClientRequest::Create(create))).unwrap();
    let epoch = rig.epoch("1");
    rig.nack("1", A, epoch);
    assert_eq!(rig.word("1"), "ended", "no other unit of the zone");
}

#[test]
fn healthy_units_get_everything_while_one_refuses() {
    let mut rig = Rig::new(&[A, B, C]);
    let mut opened = 0;
    for number in 0..8 {
        let e164 = format!("n{number}");
        rig.create(&e164);
        while rig.word(&e164) == "creating" {
            let (owner, epoch) = (rig.owner(&e164), rig.epoch(&e164));
            if owner == A {
                rig.nack(&e164, &owner, epoch);
            } else {
                rig.ack(&e164, &owner, epoch);
                opened += 1;
            }
        }
    }
    assert_eq!((opened, backoff(&rig, A).0), (8, 3), "three refusals, and then a back-off");
    rig.check();
}

#[test]
fn back_off_doubles_and_a_trial_ends_it() {
    let mut rig = Rig::new(&[A]);
    let mut waits = Vec::new();
    for number in 0..12 {
        refuse_all(&mut rig, &format!("n{number}"));
        let (failures, wait) = backoff(&rig, A);
        assert_eq!(failures, number + 1);
        let Some(wait) = wait else { continue };
        waits.push(wait);
        assert_eq!(rig.code_of_create("x"), "LIMIT");
        rig.pass(wait - 1);
        assert_eq!(rig.code_of_create("x"), "LIMIT");
        rig.pass(1);
    }
    assert_eq!(waits, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000]);
    rig.told.clear();
    // One trial, and nothing beside it.
    let epoch = rig.create("trial");
    assert_eq!(rig.code_of_create("x"), "LIMIT");
    rig.check();
    rig.ack("trial", A, epoch);
    assert_eq!(backoff(&rig, A), (0, None));
    assert!(rig.told.iter().any(|told| told.starts_with("evt restored")));
    rig.create("x");
    rig.check();
}

#[test]
fn trial_that_ends_without_an_answer_is_followed_by_another() {
    let mut rig = Rig::new(&[A]);
    for number in 0..3 {
        refuse_all(&mut rig, &format!("n{number}"));
    }
    rig.pass(1000);
    let epoch = rig.create("trial");
    rig.release("trial");
    rig.given_up("trial", A, epoch);
    assert_eq!(rig.code_of_create("x"), "LIMIT");
    rig.pass(10_000);
    rig.create("x");
}

#[test]
fn only_one_recovery_is_a_trial() {
    let mut rig = Rig::new(&[A, B]);
    let numbers = ["1", "2", "3", "4"];
    for e164 in numbers {
        rig.open(e164);
    }
    rig.down(B);
    // Three of B's are refused by A.
    for _ in 0..3 {
        if rig.recover() == 0 {
            break;
        }
        for e164 in numbers {
            let (owner, epoch) = (rig.owner(e164), rig.epoch(e164));
            if rig.word(e164) == "creating" && owner == A {
                rig.nack(e164, A, epoch);
            }
        }
        rig.pass(300_000);
    }
    assert!(backoff(&rig, A).0 >= 3);
    rig.pass(60_000);
    assert_eq!(rig.recover(), 1, "the trial");
    assert_eq!(rig.recover(), 0);
    rig.check();
}

#[test]
fn move_that_its_target_refuses_counts_and_a_full_back_off_is_named() {
    let mut rig = Rig::new(&[A, B]);
    rig.open("1");
    for _ in 0..3 {
        let epoch = rig.move_to("1", B);
        rig.nack("1", B, epoch);
    }
    assert_eq!(backoff(&rig, B), (3, Some(1000)));
    let request = SchedulerRequest::Move { e164: b"1", to: Some(B.as_bytes()) };
    let refusal = rig.ask(&Request::Scheduler { term: None, request }).unwrap_err();
    assert!(refusal.text.contains("in back-off"), "{}", refusal.text);
    rig.pass(1000);
    let epoch = rig.move_to("1", B);
    rig.ack("1", B, epoch);
    assert_eq!(backoff(&rig, B), (0, None));
}

#[test]
fn unit_without_a_lease_does_not_fail() {
    let mut rig = Rig::new(&[]);
    let join = UnitRequest::Join {
        cmu: A.as_bytes(),
        capacity: 10,
        zone: None,
        tags: &[],
        lease: 5000,
        machine: None,
    };
    rig.ask(&Request::Unit(join)).unwrap();
    rig.create("1");
    rig.pass(60_000);
    assert_eq!((rig.word("1"), backoff(&rig, A)), ("creating", (0, None)), "it could not answer");
}

#[test]
fn settings_of_tries_and_failures_have_a_range() {
    let mut rig = Rig::new(&[A]);
    for changes in [
        Changes { tries: Some(0), ..Changes::default() },
        Changes { tries: Some(101), ..Changes::default() },
        Changes { failures: Some(0), ..Changes::default() },
        Changes { failures: Some(-1), ..Changes::default() },
    ] {
        assert_eq!(rig.code(&Request::Client(ClientRequest::Configure(changes))), "ERR");
    }
    // A unit whose failures were few may be on trial under the new setting.
    refuse_all(&mut rig, "1");
    configure(&mut rig, Changes { failures: Some(1), ..Changes::default() });
    rig.create("2");
    assert_eq!(rig.code_of_create("3"), "LIMIT");
    rig.check();
    let again = Realm::decode(&rig.realm.encode()).unwrap();
    assert_eq!(again.unit_called(A.as_bytes()).unwrap().backoff_until, Some(rig.now + 10_000));
}

#[test]
fn conference_whose_program_failed_goes_to_another_unit() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    rig.pass(7000);
    assert_eq!(rig.failed("1", A, first), "Ok");
    let one = rig.one("1");
    assert_eq!((rig.word("1"), one.cause, one.out_since), ("pending", Cause::Failed, Some(rig.now)));
    assert_eq!((rig.recover(), rig.owner("1").as_str()), (1, B), "not on the unit that failed");
    assert_eq!(backoff(&rig, A).0, 1);
    // Nobody can end it where it failed, and that unit cannot have it back.
    assert_eq!(rig.ended("1", A, first), "NOTOWNER");
    rig.report(A, first, &[("1", first)]);
    assert_eq!(rig.owner("1"), B);
    // Said twice, it changes nothing.
    assert_eq!(rig.failed("1", A, first), "NOTOWNER");
    rig.check();
}

#[test]
fn failure_of_an_earlier_epoch_of_the_copy_counts() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    rig.down(A);
    rig.join(A, 10);
    rig.report(A, first, &[("1", first)]);
    assert!(rig.epoch("1") > first, "the copy has a new epoch, of which the unit has not heard");
    assert_eq!(rig.failed("1", A, first), "Ok");
    assert_eq!(rig.word("1"), "pending");
    rig.check();
}

#[test]
fn target_of_a_move_takes_over_when_the_program_fails_on_the_source() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    let second = rig.move_to("1", B);
    assert_eq!(rig.failed("1", A, first), "Ok");
    assert_eq!((rig.word("1"), rig.owner("1").as_str(), rig.epoch("1")), ("creating", B, second));
    rig.check();
    // A program that fails on the target leaves the source as it is.
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    let second = rig.move_to("1", B);
    assert_eq!(rig.failed("1", B, second), "Ok");
    assert_eq!((rig.word("1"), rig.epoch("1"), rig.one("1").moving.is_some()), ("open", first, false));
    assert_eq!(backoff(&rig, B).0, 1);
}

#[test]
fn move_ends_the_earlier_copy_only_when_the_target_is_open() {
    let mut rig = Rig::new(&[A, B]);
    rig.open("1");
    let second = rig.move_to("1", B);
    rig.told.clear();
    rig.report_starting(B, second, &[("1", second)]);
    assert_eq!((rig.verbs(A).as_str(), rig.owner("1").as_str()), ("", A), "people are still on the source");
    rig.ack("1", B, second);
    assert_eq!((rig.verbs(A).as_str(), rig.owner("1").as_str()), ("RELEASE", B));
    rig.check();
}

#[test]
fn copy_that_was_never_open_is_not_adopted() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.create("1");
    rig.down(A);
    rig.recover();
    rig.join(A, 10);
    rig.told.clear();
    let Reply::Reported(reported) = rig.report_starting(A, first, &[("1", first)]) else { panic!() };
    assert_eq!((reported.released.len(), reported.adopted.len()), (1, 0));
    assert_eq!((rig.verbs(A).as_str(), rig.owner("1").as_str()), ("RELEASE", B));
    rig.check();
}

#[test]
fn conference_is_named_once_in_a_report() {
    let mut rig = Rig::new(&[A]);
    let epoch = rig.open("1");
    let (starting, list) = (vec![(&b"1"[..], epoch)], vec![(&b"1"[..], epoch)]);
    let report = Report { cmu: A.as_bytes(), highest: epoch, ended: vec![], starting, params: vec![], list };
    assert_eq!(rig.code(&Request::Unit(UnitRequest::Report(report))), "ERR");
}
