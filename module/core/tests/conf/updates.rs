//! A unit learns each change of its conference: another end, another size, and that the end is near. Units are followed
//! by what they are told: they handle each message of their stream, in order, at any time, and again in each session.

use super::rig::{Rig, wish};
use allot_core::conf::request::{Changes, ClientRequest, CopyParams, Create, Report, Request, UnitRequest};
use allot_core::conf::state::Settings;
use std::collections::BTreeMap;

const A: &str = "a:1:1";
const B: &str = "b:1:1";
const C: &str = "c:1:1";

/// What the programs of all units know, by unit and conference.
#[derive(Default)]
pub(super) struct Programs(BTreeMap<(String, String), Program>);

struct Program {
    epoch: u64,
    copy_epoch: u64,
    last_update: u64,
    end: String,
    size: String,
    is_near: bool,
}

impl Programs {
    /// A unit handles a message as docs/protocol.md says.
    pub(super) fn hear(&mut self, told: &str) {
        let Some((stream, message)) = told.strip_prefix("cmd:").and_then(|told| told.split_once(' ')) else {
            return;
        };
        let words: Vec<&str> = message.split(' ').collect();
        let [event, e164, _, epoch, rest @ ..] = &words[..] else { return };
        // A number in damaged bytes may have a space.
        let Ok(epoch) = epoch.parse::<u64>() else { return };
        let place = (stream.to_owned(), (*e164).to_owned());
        let known = self.0.get_mut(&place);
        match (*event, rest) {
            ("CREATE", [end, size, ..]) => {
                let (end, size) = ((*end).to_owned(), (*size).to_owned());
                let (copy_epoch, last_update) = (epoch, epoch);
                let program = Program { epoch, copy_epoch, last_update, end, size, is_near: false };
                self.0.insert(place, program);
            }
            ("EPOCH", [..]) => {
                known.into_iter().for_each(|program| program.epoch = epoch);
            }
            ("UPDATE", [number, end, size, near]) => {
                let number = number.parse::<u64>().unwrap();
                let Some(program) = known.filter(|program| program.last_update < number) else { return };
                if program.epoch == epoch {
                    (program.last_update, program.is_near) = (number, *near == "1");
                    (program.end, program.size) = ((*end).to_owned(), (*size).to_owned());
                }
            }
            _ => {}
        }
    }

    /// Each unit knows of its conferences what the realm knows.
    pub(super) fn check(&self, rig: &Rig) {
        for one in rig.realm.list(None, None, 0, usize::MAX).0 {
            let Some(owner) = one.owner.and_then(|owner| rig.realm.unit(owner)) else { continue };
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            let Some(program) = self.0.get(&(text(&owner.cmu), text(&one.e164))) else { continue };
            // Copies that units only made up have no programs.
            let is_its = (program.epoch, program.copy_epoch) == (one.epoch, one.copy_epoch);
            if is_its && one.ending.is_none() {
                let end = one.end.map_or_else(String::new, |end| end.to_string());
                let known = (&program.end, &program.size, program.is_near);
                assert_eq!(known, (&end, &one.size.to_string(), one.end_is_near), "{one:?}");
            }
        }
    }
}

fn extend(rig: &mut Rig, e164: &str, end: i64) -> String {
    rig.code(&Request::Client(ClientRequest::Extend { e164: e164.as_bytes(), end, dry_run: false }))
}

fn resize(rig: &mut Rig, e164: &str, size: i64) -> String {
    rig.code(&Request::Client(ClientRequest::Resize { e164: e164.as_bytes(), size }))
}

fn warn(rig: &mut Rig, warn: i64) -> String {
    rig.code(&Request::Client(ClientRequest::Configure(Changes { warn: Some(warn), ..Changes::default() })))
}

fn used(rig: &Rig, cmu: &str) -> u64 {
    rig.realm.unit_called(cmu.as_bytes()).unwrap().used
}

/// Conference 1 of size 2 until 100 s, open on A; realm with WARN 10 s.
fn rig() -> Rig {
    let mut rig = Rig::with(Settings { warn: 10_000, ..Settings::default() }, &[A, B]);
    let create = Create { end: Some(100_000), size: 2, ..wish("1") };
    rig.ask(&Request::Client(ClientRequest::Create(create))).unwrap();
    let epoch = rig.epoch("1");
    rig.ack("1", A, epoch);
    rig.told.clear();
    rig
}

#[test]
fn extension_and_resizing_are_sent_to_the_unit() {
    let mut rig = rig();
    let epoch = rig.epoch("1");
    extend(&mut rig, "1", 200_000);
    let number = rig.realm.last_epoch();
    assert!(number > epoch);
    assert_eq!(rig.commands(A), [format!("UPDATE 1 {A} {epoch} {number} 200000 2 0")]);
    assert_eq!(rig.told, [format!("evt extended 1 {A} {epoch} open")]);
    rig.told.clear();
    // Nothing changes, and nothing is sent.
    extend(&mut rig, "1", 200_000);
    resize(&mut rig, "1", 2);
    assert_eq!(rig.commands(A), [""; 0]);
    resize(&mut rig, "1", 5);
    let number = rig.realm.last_epoch();
    assert_eq!(rig.commands(A), [format!("UPDATE 1 {A} {epoch} {number} 200000 5 0")]);
    assert_eq!(rig.told, [format!("evt resized 1 {A} {epoch} open")]);
    rig.check();
}

#[test]
fn both_units_of_a_move_learn_a_change() {
    let mut rig = rig();
    let target = rig.move_to("1", B);
    rig.told.clear();
    extend(&mut rig, "1", 200_000);
    assert_eq!((rig.verbs(A), rig.verbs(B)), ("UPDATE".into(), "UPDATE".into()));
    // The target has opened it, and its ACK is lost. Its report has it send the change again.
    let number = rig.realm.last_epoch();
    rig.report(B, target, &[("1", target)]);
    assert_eq!(rig.commands(B), [format!("UPDATE 1 {B} {target} {number} 200000 2 0")]);
    // A change before the move is not sent to the target, which was told the new end by CREATE.
    let mut rig = self::rig();
    extend(&mut rig, "1", 200_000);
    let target = rig.move_to("1", B);
    rig.told.clear();
    rig.report(B, target, &[("1", target)]);
    assert_eq!(rig.verbs(B), "");
}

#[test]
fn lost_change_is_sent_again_after_a_report() {
    let mut rig = rig();
    let epoch = rig.epoch("1");
    rig.report(A, epoch, &[("1", epoch)]);
    assert_eq!(rig.verbs(A), "", "there was no change");
    extend(&mut rig, "1", 200_000);
    let sent = rig.commands(A);
    for _ in 0..2 {
        rig.report(A, epoch, &[("1", epoch)]);
        assert_eq!(rig.commands(A), sent);
    }
    // Also to a unit that is still creating the conference, or whose conference waits for its report.
    rig.restart(&[A, B]);
    rig.told.clear();
    rig.report(A, epoch, &[("1", epoch)]);
    assert_eq!(rig.commands(A), sent);
    let epoch = rig.create("2");
    let owner = rig.owner("2");
    extend(&mut rig, "2", 300_000);
    rig.told.clear();
    rig.report_starting(&owner, epoch, &[("2", epoch)]);
    assert!(rig.verbs(&owner).contains("UPDATE"));
    rig.check();
}

/// A report of unit A, which runs conference 1 at this epoch, and knows this end and size of it.
fn report_knowing(rig: &mut Rig, highest: u64, epoch: u64, (end, size): (i64, i64)) {
    let params = CopyParams { e164: b"1", end: Some(end), size, priority: 0, request: None };
    let list = vec![(&b"1"[..], epoch)];
    let (cmu, params) = (A.as_bytes(), vec![params]);
    let report = Report { cmu, highest, ended: vec![], starting: vec![], params, list };
    rig.ask(&Request::Unit(UnitRequest::Report(report))).unwrap();
}

#[test]
fn change_that_a_failover_lost_is_taken_back_at_the_unit() {
    let mut rig = rig();
    let epoch = rig.epoch("1");
    let lost = epoch + 100;
    report_knowing(&mut rig, lost, epoch, (200_000, 2));
    let number = rig.realm.last_epoch();
    let told = [format!("UPDATE 1 {A} {epoch} {number} 100000 2 0")];
    assert!(number > lost);
    assert_eq!(rig.commands(A), told);
    // Once it has read that, it is told nothing new.
    report_knowing(&mut rig, number, epoch, (100_000, 2));
    assert_eq!((rig.commands(A), rig.realm.last_epoch()), (told.to_vec(), number));
    // Neither is a unit that will read the last UPDATE only now.
    resize(&mut rig, "1", 3);
    let last = rig.realm.last_epoch();
    rig.told.clear();
    report_knowing(&mut rig, number, epoch, (100_000, 2));
    assert_eq!(rig.commands(A), [format!("UPDATE 1 {A} {epoch} {last} 100000 3 0")]);
    rig.check();
    // A copy whose unit lost it, and which a former master told something, is adopted with what is so.
    rig.down(A);
    rig.join(A, 10);
    rig.told.clear();
    let lost = rig.realm.last_epoch() + 100;
    report_knowing(&mut rig, lost, epoch, (100_000, 7));
    let (again, number) = (rig.epoch("1"), rig.realm.last_epoch());
    let commands = rig.commands(A);
    assert_eq!(commands.last().unwrap(), &format!("UPDATE 1 {A} {again} {number} 100000 3 0"));
    assert!(number > lost);
    rig.check();
}

#[test]
fn adopted_copy_learns_what_changed_without_it() {
    let mut rig = rig();
    let old = rig.epoch("1");
    rig.down(A);
    extend(&mut rig, "1", 200_000);
    assert_eq!((rig.verbs(A), rig.word("1")), (String::new(), "pending"));
    let number = rig.realm.last_epoch();
    rig.join(A, 10);
    rig.report(A, old, &[("1", old)]);
    let epoch = rig.epoch("1");
    assert_eq!(
        rig.commands(A),
        [format!("EPOCH 1 {A} {epoch} {old}"), format!("UPDATE 1 {A} {epoch} {number} 200000 2 0")]
    );
    rig.check();
}

#[test]
fn end_that_is_near_is_said_once_for_each_copy_and_each_end() {
    let mut rig = rig();
    let epoch = rig.epoch("1");
    rig.now = 89_999;
    rig.due();
    assert_eq!(rig.told, [""; 0]);
    rig.pass(1);
    let number = rig.realm.last_epoch();
    assert_eq!(rig.commands(A), [format!("UPDATE 1 {A} {epoch} {number} 100000 2 1")]);
    assert_eq!(rig.told, [format!("evt ending 1 {A} {epoch} open end-near")]);
    rig.told.clear();
    rig.pass(5_000);
    assert_eq!(rig.told, [""; 0]);
    // A later end is not near, until it is.
    extend(&mut rig, "1", 120_000);
    assert!(rig.commands(A)[0].ends_with(" 120000 2 0"));
    rig.pass(20_000);
    assert!(rig.commands(A)[0].ends_with(" 120000 2 1"));
    // Another unit is told when people can join there.
    rig.down(A);
    rig.recover();
    rig.told.clear();
    let epoch = rig.epoch("1");
    rig.pass(1);
    assert_eq!(rig.verbs(B), "");
    rig.ack("1", B, epoch);
    rig.pass(0);
    assert_eq!(rig.verbs(B), "UPDATE");
    rig.check();
    rig.now = 120_000;
    rig.due();
    assert_eq!((rig.word("1"), rig.verbs(B)), ("ending", "RELEASE".into()));
    rig.check();
}

#[test]
fn no_end_is_near_without_warn_and_a_shorter_warn_is_waited_for() {
    let mut rig = rig();
    assert_eq!(warn(&mut rig, -1), "ERR");
    warn(&mut rig, 0);
    rig.now = 99_999;
    rig.due();
    assert_eq!(rig.told, [""; 0]);
    warn(&mut rig, 1);
    rig.due();
    assert_eq!(rig.verbs(A), "UPDATE");
    rig.check();
}

#[test]
fn growth_takes_room_on_the_unit_or_is_refused() {
    let mut rig = rig();
    rig.open("2");
    rig.move_to("2", A);
    assert_eq!((used(&rig, A), rig.owner("2").as_str()), (3, B));
    assert_eq!(resize(&mut rig, "1", 10), "LIMIT");
    assert_eq!(resize(&mut rig, "1", 9), "Conference([49])");
    assert_eq!(used(&rig, A), 10);
    assert_eq!(resize(&mut rig, "2", 2), "LIMIT", "the target of its move is full");
    assert_eq!(resize(&mut rig, "1", 1), "Conference([49])");
    assert_eq!(resize(&mut rig, "2", 2), "Conference([50])");
    assert_eq!((used(&rig, A), used(&rig, B)), (3, 2));
    rig.check();
    // A unit on which nothing new is placed keeps its conferences, and their needs.
    rig.ask(&Request::Unit(UnitRequest::Leave { cmu: B.as_bytes() })).unwrap();
    assert_eq!(resize(&mut rig, "2", 3), "Conference([50])");
    // The owner has joined again with less room than is in use.
    rig.join(A, 1);
    assert_eq!(resize(&mut rig, "1", 2), "LIMIT");
    rig.check();
}

#[test]
fn pending_conference_waits_for_room_for_its_new_size() {
    let mut rig = rig();
    rig.down(A);
    assert_eq!(resize(&mut rig, "1", 11), "Conference([49])");
    assert_eq!(rig.recover(), 0);
    rig.join(C, 11);
    assert_eq!(rig.recover(), 1);
    assert!(rig.commands(C)[0].ends_with(" 100000 11 0  1 0"));
    rig.check();
}

#[test]
fn conference_that_ends_is_not_resized() {
    let mut rig = rig();
    for (size, code) in [(0, "ERR"), (1_000_000_001, "ERR"), (3, "Conference([49])")] {
        assert_eq!(resize(&mut rig, "1", size), code, "{size}");
    }
    rig.release("1");
    assert_eq!(resize(&mut rig, "1", 4), "BADSTATE");
    rig.ended("1", A, rig.epoch("1"));
    assert_eq!((resize(&mut rig, "1", 4), resize(&mut rig, "9", 4)), ("BADSTATE".into(), "NOTFOUND".into()));
}
