//! docs/conferences.md besides the specification's list: epochs, identities, leases, terms, moves, details.

use super::rig::{MINUTE, Rig, wish, zone};
use allot_core::conf::Event;
use allot_core::conf::conference::State;
use allot_core::conf::request::{
    Changes, Claim, ClientRequest, Create, DrainOf, Request, SchedulerRequest, UnitRequest,
};
use allot_core::conf::unit::{MAX_UNITS, Name, UnitState};

const A: &str = "a:1:1";
const B: &str = "b:1:1";

#[test]
fn epochs_grow_with_the_clock_and_without_it() {
    let mut rig = Rig::new(&[A]);
    let first = rig.create("1");
    assert_eq!(first, 1_000_000);
    assert_eq!(rig.create("2"), 1_000_001);
    rig.now = 500_000;
    assert_eq!(rig.create("3"), 500_000_000);
    rig.check();
}

#[test]
fn epochs_go_on_behind_what_units_have_handled() {
    let mut rig = Rig::new(&[A, B]);
    // Given out by a master whose clock was ahead, and which was lost before a replica heard of it.
    let lost = 7_000_000_000;
    let first = rig.open("1");
    rig.down(A);
    rig.join(A, 10);
    rig.report(A, lost, &[("1", first)]);
    assert_eq!((rig.owner("1").as_str(), rig.epoch("1")), (A, lost + 1), "it takes what is news to it");
    assert_eq!(rig.create("2"), lost + 2);
    rig.check();
    // At a time when there was none.
    rig.report(B, lost + 10, &[]);
    assert_eq!(rig.create("3"), lost + 11);
    rig.check();
    // Nobody gave these out.
    for never in [9_000_000_000_000_000, 1_000_000 + 86_400_000_001] {
        rig.report(B, never, &[]);
        assert_eq!(rig.realm.last_epoch(), lost + 11);
    }
    rig.report(B, 1_000_000 + 86_400_000_000, &[]);
    assert_eq!(rig.realm.last_epoch(), 86_401_000_000);
    rig.check();
}

#[test]
fn nothing_is_placed_on_a_unit_whose_highest_epoch_is_implausible() {
    let mut rig = Rig::new(&[A, B]);
    let first = rig.open("1");
    assert_eq!(rig.owner("1"), A);
    // It would ignore each CREATE, and each new conference would end unanswered.
    rig.report(A, 9_000_000_000_000_000, &[("1", first)]);
    assert_eq!(rig.state("1"), State::Open, "what it has stays");
    for e164 in ["2", "3", "4"] {
        rig.create(e164);
        assert_eq!(rig.owner(e164), B);
    }
    rig.check();
    rig.report(A, first, &[("1", first)]);
    rig.create("5");
    assert_eq!(rig.owner("5"), A);
    rig.check();
}

#[test]
fn an_identity_that_was_replaced_is_heard_no_more() {
    let mut rig = Rig::new(&[A]);
    let epoch = rig.open("1");
    rig.join("a:1:2", 10);
    assert_eq!(rig.beat(A), "STALE");
    assert_eq!(
        rig.code(&Request::Unit(UnitRequest::Join {
            cmu: A.as_bytes(),
            capacity: 1,
            zone: None,
            tags: &[],
            lease: 1,
            machine: None,
        })),
        "STALE"
    );
    let report = allot_core::conf::request::Report {
        cmu: A.as_bytes(),
        highest: epoch,
        ended: vec![],
        starting: vec![],
        params: vec![],
        list: vec![],
    };
    assert_eq!(rig.code(&Request::Unit(UnitRequest::Report(report))), "STALE");
    assert_eq!(rig.set("1", A, epoch, 1, &["a", "b"]), "NOTOWNER");
    // But in this: what people ended on it does not live again.
    assert_eq!(rig.ended("1", A, epoch - 1), "STALE");
    assert_eq!(rig.state("1"), State::Pending);
    assert_eq!(rig.ended("1", A, epoch), "Ok");
    assert_eq!((rig.state("1"), rig.ended("1", A, epoch)), (State::Ended, "Ok".into()));
    // Its stream is deleted: a message without fields.
    assert!(rig.told.iter().any(|line| line == &format!("cmd:{A}")), "{:?}", rig.told);
}

#[test]
fn what_people_ended_on_a_unit_that_was_replaced_is_too_late_once_another_has_it_open() {
    let mut rig = Rig::new(&[A, B]);
    let epoch = rig.open("1");
    rig.join("a:1:2", 10);
    rig.recover();
    let (owner, second) = (rig.owner("1"), rig.epoch("1"));
    rig.ack("1", &owner, second);
    assert_eq!(rig.ended("1", A, epoch), "STALE");
    assert_eq!(rig.state("1"), State::Open);
    // Until then nobody can be in it.
    let mut rig = Rig::new(&[A, B]);
    let epoch = rig.open("1");
    rig.join("a:1:2", 10);
    rig.recover();
    rig.told.clear();
    assert_eq!((rig.ended("1", A, epoch), rig.state("1")), ("Ok".into(), State::Ended));
    let told = [rig.verbs("a:1:2"), rig.verbs(B)].concat();
    assert_eq!(told, "RELEASE", "the unit that creates it stops");
    rig.check();
}

#[test]
fn a_host_is_remembered_when_its_unit_is_forgotten() {
    let mut rig = Rig::new(&[A, B]);
    rig.join("a:1:2", 10);
    rig.down("a:1:2");
    rig.pass(20 * MINUTE);
    assert!(rig.realm.unit_called(b"a:1:2").is_none());
    rig.check();
    // Neither is who was replaced heard again, nor is anything placed on who has not said what it has.
    assert_eq!(
        rig.code(&Request::Unit(UnitRequest::Join {
            cmu: A.as_bytes(),
            capacity: 9,
            zone: None,
            tags: &[],
            lease: 1,
            machine: None,
        })),
        "STALE"
    );
    rig.join("a:1:3", 10);
    assert!(!rig.realm.unit_called(b"a:1:3").unwrap().reported);
    rig.report("a:1:3", 0, &[]);
    assert!(rig.realm.unit_called(b"a:1:3").unwrap().reported);
    assert_eq!(
        rig.code(&Request::Unit(UnitRequest::Join {
            cmu: A.as_bytes(),
            capacity: 9,
            zone: None,
            tags: &[],
            lease: 1,
            machine: None,
        })),
        "STALE"
    );
    rig.check();
    // Not for ever: there may be any number of hosts.
    for host in 0..1100 {
        let cmu = format!("h{host}:1:1");
        rig.join(&cmu, 1);
        rig.down(&cmu);
    }
    rig.pass(20 * MINUTE);
    rig.check();
    let remembered = (0..1100).filter(|host| {
        let cmu = format!("h{host}:1:1");
        rig.join(&cmu, 1);
        !rig.realm.unit_called(cmu.as_bytes()).unwrap().reported
    });
    assert_eq!(remembered.count(), 1024);
    rig.check();
}

#[test]
fn down_unit_gets_nothing_before_its_report_and_is_forgotten_later() {
    let mut rig = Rig::new(&[A]);
    rig.down(A);
    assert_eq!(rig.beat(A), "NOTFOUND");
    rig.join(A, 10);
    assert_eq!(rig.code(&Request::Client(ClientRequest::Create(wish("1")))), "LIMIT");
    rig.report(A, 0, &[]);
    rig.create("1");
    let epoch = rig.epoch("1");
    rig.ack("1", A, epoch);
    rig.down(A);
    // As long as a conference remembers it, it is remembered.
    rig.pass(20 * MINUTE);
    assert!(rig.realm.unit_called(A.as_bytes()).is_some());
    rig.release("1");
    rig.due();
    assert!(rig.realm.unit_called(A.as_bytes()).is_none());
    rig.check();
}

#[test]
fn leases_make_a_unit_suspect_and_unreachable_and_never_down() {
    let mut rig = Rig::new(&[]);
    rig.ask(&Request::Unit(UnitRequest::Join {
        cmu: A.as_bytes(),
        capacity: 10,
        zone: None,
        tags: &[],
        lease: 5000,
        machine: None,
    }))
    .unwrap();
    let word = |rig: &Rig| rig.realm.unit_called(A.as_bytes()).unwrap().word();
    rig.pass(2999);
    assert_eq!(word(&rig), "up");
    rig.pass(1);
    assert_eq!(
        (word(&rig), rig.code(&Request::Client(ClientRequest::Create(wish("1"))))),
        ("suspect", "LIMIT".into())
    );
    rig.pass(2000);
    assert_eq!(word(&rig), "unreachable");
    rig.pass(600_000);
    assert_eq!(word(&rig), "unreachable");
    rig.ask(&Request::Claim(Claim { term: 1, leader: b"css", force: false })).unwrap();
    assert_eq!(word(&rig), "up", "a claim starts all leases again");
    rig.pass(5000);
    rig.beat(A);
    assert_eq!(word(&rig), "up");
}

#[test]
fn a_deposed_scheduler_is_refused() {
    let mut rig = Rig::new(&[A]);
    let claim =
        |term, leader: &'static str, force| Request::Claim(Claim { term, leader: leader.as_bytes(), force });
    assert_eq!(rig.code(&claim(2, "one", false)), "Realm");
    assert_eq!(rig.code(&claim(2, "one", false)), "Realm");
    assert_eq!(rig.code(&claim(2, "two", false)), "STALE");
    assert_eq!(rig.code(&claim(1, "one", false)), "STALE");
    assert_eq!(rig.code(&claim(3, "two", false)), "Realm");
    for term in [2, 4] {
        let term = Some(term);
        assert_eq!(
            rig.code(&Request::Scheduler { term, request: SchedulerRequest::Recover { count: 1 } }),
            "STALE"
        );
        assert_eq!(
            rig.code(&Request::Scheduler { term, request: SchedulerRequest::Restart { live: vec![] } }),
            "STALE"
        );
        assert_eq!(
            rig.code(&Request::Scheduler { term, request: SchedulerRequest::Down { cmu: A.as_bytes() } }),
            "STALE"
        );
        assert_eq!(
            rig.code(&Request::Scheduler {
                term,
                request: SchedulerRequest::Drain { of: DrainOf::Unit(A.as_bytes()), on: true, moves: false }
            }),
            "STALE"
        );
        assert_eq!(
            rig.code(&Request::Scheduler { term, request: SchedulerRequest::Move { e164: b"1", to: None } }),
            "STALE"
        );
    }
    assert_eq!(
        rig.code(&Request::Scheduler { term: Some(3), request: SchedulerRequest::Recover { count: 1 } }),
        "Grants([])"
    );
    assert_eq!(rig.code(&claim(1, "three", true)), "Realm");
}

#[test]
fn events_tell_how_an_unfinished_move_ends() {
    let moved = || {
        let mut rig = Rig::new(&[A, B]);
        let epoch = rig.open("1");
        let moving = rig.move_to("1", B);
        rig.told.clear();
        (rig, epoch, moving)
    };
    let events = |rig: &Rig| -> Vec<String> {
        let words = |line: &String| line.split(' ').skip(1).take(4).collect::<Vec<_>>().join(" ");
        rig.told.iter().filter(|line| line.starts_with("evt ") && line.contains(" 1 ")).map(words).collect()
    };
    let (mut rig, epoch, moving) = moved();
    rig.down(A);
    assert_eq!(events(&rig), [format!("lost 1 {A} {epoch}"), format!("granted 1 {B} {moving}")]);
    assert_eq!(rig.one("1").pending_since, Some(rig.now), "its recovery is counted from now");
    let (mut rig, epoch, moving) = moved();
    rig.release("1");
    assert_eq!(events(&rig), [format!("move-failed 1 {B} {moving}"), format!("ending 1 {A} {epoch}")]);
    // The source cannot go on: the target takes over.
    let (mut rig, epoch, moving) = moved();
    rig.ask(&Request::Scheduler {
        term: None,
        request: SchedulerRequest::Restart { live: vec![A.as_bytes(), B.as_bytes()] },
    })
    .unwrap();
    rig.nack("1", A, epoch);
    assert_eq!((rig.state("1"), rig.owner("1").as_str(), rig.epoch("1")), (State::Creating, B, moving));
    assert_eq!(rig.verbs(B), "");
}

#[test]
fn nothing_moves_out_of_its_zone() {
    let mut rig = Rig::new(&[A]);
    let mut join = |cmu: &'static str, zone: &'static [u8]| {
        let request = Request::Unit(UnitRequest::Join {
            cmu: cmu.as_bytes(),
            capacity: 9,
            zone: Some(zone),
            tags: &[],
            lease: 3_600_000,
            machine: None,
        });
        rig.ask(&request).unwrap();
    };
    join("e:1:1", b"eu");
    join("f:1:1", b"eu");
    join("u:1:1", b"us");
    rig.ask(&Request::Client(ClientRequest::Create(Create { wishes: zone(b"eu"), ..wish("1") }))).unwrap();
    let epoch = rig.epoch("1");
    rig.ack("1", "e:1:1", epoch);
    let to = |cmu: &'static str| Request::Scheduler {
        term: None,
        request: SchedulerRequest::Move { e164: b"1", to: Some(cmu.as_bytes()) },
    };
    assert_eq!((rig.code(&to("u:1:1")), rig.code(&to(A))), ("BADSTATE".into(), "BADSTATE".into()));
    assert!(!rig.code(&to("f:1:1")).starts_with("BADSTATE"));
}

type Act = fn(&mut Rig, u64);

#[test]
fn a_move_reserves_room_and_is_cancelled_or_done_or_outlives_its_source() {
    let start = || {
        let mut rig = Rig::new(&[A, B]);
        let epoch = rig.open("1");
        let moving = rig.move_to("1", B);
        assert_eq!(rig.realm.unit_called(B.as_bytes()).unwrap().used, 1);
        rig.check();
        (rig, epoch, moving)
    };
    let (mut rig, epoch, moving) = start();
    assert_eq!(rig.set("1", A, epoch, 1, &["a", "1"]), "Integer(1)");
    assert_eq!(rig.set("1", B, moving, 1, &["a", "2"]), "NOTOWNER");
    rig.ack("1", B, moving);
    assert_eq!((rig.owner("1").as_str(), rig.epoch("1"), rig.state("1")), (B, moving, State::Open));
    assert_eq!(rig.set("1", A, epoch, 2, &["a", "1"]), "NOTOWNER");
    assert_eq!(rig.verbs(A), "CREATE RELEASE");
    assert_eq!(rig.realm.unit_called(A.as_bytes()).unwrap().used, 0);
    let cancelled: [(Act, &str); 4] = [
        (|rig, moving| drop(rig.nack("1", B, moving)), "CREATE"),
        (|rig, _| rig.pass(10_000), "CREATE RELEASE"),
        (|rig, _| rig.down(B), "CREATE"),
        (|rig, moving| drop(rig.report(B, moving, &[])), "CREATE"),
    ];
    for (act, told) in cancelled {
        let (mut rig, epoch, moving) = start();
        act(&mut rig, moving);
        assert_eq!((rig.owner("1").as_str(), rig.epoch("1"), &rig.one("1").moving), (A, epoch, &None));
        assert_eq!(rig.realm.unit_called(B.as_bytes()).unwrap().used, 0);
        assert_eq!(rig.verbs(B), told);
        rig.check();
    }
    let (mut rig, _, moving) = start();
    rig.down(A);
    assert_eq!((rig.owner("1").as_str(), rig.state("1"), rig.epoch("1")), (B, State::Creating, moving));
    rig.ack("1", B, moving);
    assert_eq!(rig.state("1"), State::Open);
    rig.check();
    let (mut rig, ..) = start();
    rig.release("1");
    assert_eq!((rig.verbs(A), rig.verbs(B)), ("CREATE RELEASE".into(), "CREATE RELEASE".into()));
    assert_eq!(rig.realm.unit_called(B.as_bytes()).unwrap().used, 0);
}

#[test]
fn details_are_written_by_the_owner_and_newer_ones_stay() {
    let mut rig = Rig::new(&[A, B]);
    let epoch = rig.create("1");
    assert_eq!(rig.set("1", A, epoch, 5, &["a", "1", "b", "2"]), "Integer(2)");
    assert_eq!(rig.set("1", A, epoch, 4, &["a", "0", "c", "3"]), "Integer(1)");
    assert_eq!(rig.set("1", A, epoch, 5, &["a", "0", "b", "0"]), "STALE");
    assert_eq!(rig.set("1", A, epoch, 6, &["b", "4"]), "Integer(1)");
    assert_eq!(rig.set("1", A, epoch, 6, &["b"]), "ERR");
    assert_eq!(rig.set("1", A, epoch, 6, &["d", "1", "d", "2"]), "Integer(1)", "the last one counts");
    assert_eq!(rig.set("1", B, epoch, 7, &["b", "5"]), "NOTOWNER");
    assert_eq!(rig.set("1", A, epoch + 1, 7, &["b", "5"]), "STALE");
    assert_eq!(rig.set("2", A, epoch, 7, &["b", "5"]), "NOTFOUND");
    for reserved in ["event", "e164", "cmu", "epoch", "seq"] {
        assert_eq!(rig.set("1", A, epoch, 7, &["b", "5", reserved, "1"]), "ERR", "{reserved}");
    }
    let details = |rig: &Rig| -> Vec<String> {
        rig.one("1").details.iter().map(|one| String::from_utf8_lossy(&one.value.0).into_owned()).collect()
    };
    assert_eq!(details(&rig), ["1", "4", "3", "2"]);
    rig.check();
    rig.ack("1", A, epoch);
    rig.down(A);
    // While it is pending they still show the last, and nobody may write.
    assert_eq!((details(&rig).len(), rig.set("1", A, epoch, 9, &["a", "x"])), (4, "NOTOWNER".into()));
    rig.recover();
    assert_eq!(details(&rig).len(), 0);
    let epoch = rig.epoch("1");
    rig.ack("1", B, epoch);
    rig.ended("1", B, epoch);
    assert_eq!(rig.set("1", B, epoch, 9, &["a", "x"]), "BADSTATE");
}

#[test]
fn draining_moves_what_there_is_and_takes_nothing_new() {
    let mut rig = Rig::new(&[A, B]);
    for number in 0..6 {
        rig.open(&number.to_string());
    }
    let drain = |on, moves| Request::Scheduler {
        term: None,
        request: SchedulerRequest::Drain { of: DrainOf::Unit(A.as_bytes()), on, moves },
    };
    assert_eq!(rig.code(&drain(true, true)), "Moves(3, 0)");
    rig.create("x");
    assert_eq!(rig.owner("x"), B);
    assert_eq!(rig.realm.unit_called(A.as_bytes()).unwrap().word(), "draining");
    rig.ask(&drain(false, false)).unwrap();
    assert_eq!(rig.realm.unit_called(A.as_bytes()).unwrap().word(), "up");
    rig.check();
}

#[test]
fn settings_change_while_the_realm_lives() {
    let mut rig = Rig::new(&[A]);
    rig.open("1");
    rig.down(A);
    let changes = Changes { window: Some(1000), ..Changes::default() };
    assert_eq!(rig.code(&Request::Client(ClientRequest::Configure(changes))), "Realm");
    rig.pass(1000);
    assert_eq!(rig.word("1"), "ended");
    let changes = Changes { window: Some(0), ..Changes::default() };
    assert_eq!(rig.code(&Request::Client(ClientRequest::Configure(changes))), "ERR");
    rig.check();
}

#[test]
fn realm_has_a_limited_number_of_units() {
    let mut rig = Rig::new(&[]);
    for number in 0..MAX_UNITS {
        let cmu = Name::from(format!("h{number}:1:1").as_bytes());
        rig.apply(&Event::Joined {
            cmu,
            capacity: 1,
            zone: None,
            tags: vec![],
            lease: 3_600_000,
            machine: None,
        });
    }
    let join = |cmu| {
        Request::Unit(UnitRequest::Join {
            cmu,
            capacity: 1,
            zone: None,
            tags: &[],
            lease: 1000,
            machine: None,
        })
    };
    assert_eq!(rig.code(&join(b"more:1:1")), "LIMIT");
    assert_ne!(rig.code(&join(b"h7:1:1")), "LIMIT", "it renews its lease");
    assert_ne!(rig.code(&join(b"h7:1:2")), "LIMIT", "it replaces the one of its host");
    // The record of a host's unit is deleted, and another unit takes its place.
    rig.down("h9:1:1");
    rig.pass(600_000);
    assert!(rig.realm.unit_called(b"h9:1:1").is_none());
    assert_ne!(rig.code(&join(b"more:1:1")), "LIMIT");
    assert_eq!(rig.code(&join(b"h9:1:2")), "LIMIT", "the host is known, but it has no unit to replace");
}

#[test]
fn conference_without_room_has_a_time_of_its_next_try_that_has_passed() {
    let mut rig = Rig::new(&[A]);
    rig.open("1");
    rig.down(A);
    rig.pass(MINUTE);
    let plan = rig.realm.plan_pending(rig.now);
    assert_eq!(plan.iter().map(|(_, why)| *why).collect::<Vec<_>>(), ["no room"]);
    assert!(rig.realm.next_try(rig.one("1")).is_some_and(|next| next < rig.now));
    rig.join(B, 10);
    assert_eq!(rig.realm.plan_pending(rig.now)[0].1, "due");
}

#[test]
fn restart_of_schedulers_gives_a_creation_more_time_and_the_target_of_a_move_none() {
    let mut rig = Rig::new(&[A, B]);
    rig.open("1");
    rig.move_to("1", B);
    let epoch = rig.create("2");
    let timeout = rig.realm.settings().create_timeout;
    rig.pass(timeout - 1);
    rig.restart(&[A, B]);
    rig.pass(1);
    assert!(rig.one("1").moving.is_none(), "the move has failed");
    assert_eq!((rig.state("2"), rig.epoch("2")), (State::Creating, epoch));
    rig.check();
}

#[test]
fn totals_count_units_that_drain_as_up_and_records_count_conferences_that_they_have() {
    let mut rig = Rig::new(&[A, B]);
    rig.open("1");
    let of = DrainOf::Unit(A.as_bytes());
    let drain = SchedulerRequest::Drain { of, on: true, moves: false };
    rig.ask(&Request::Scheduler { term: None, request: drain }).unwrap();
    let totals = rig.realm.totals();
    assert_eq!((totals.units[UnitState::Up as usize], totals.draining), (2, 1));
    // A conference that moves takes room on its target, and is not one of its conferences yet.
    rig.move_to("1", B);
    let unit = rig.realm.unit_called(B.as_bytes()).unwrap();
    assert_eq!((unit.used, unit.owned.len()), (1, 0));
    rig.check();
}
