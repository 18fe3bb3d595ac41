//! Conferences with a start in the future: what is reserved for them, what begins when their start comes, and what
//! others may take meanwhile.

use super::rig::{MINUTE, Rig, created, wish, zone};
use allot_core::conf::conference::State;
use allot_core::conf::event::Created;
use allot_core::conf::request::{
    Changes, ClientRequest, Create, DrainOf, Request, SchedulerRequest, UnitRequest, WishesRequest,
};
use allot_core::conf::state::Settings;
use allot_core::conf::{ConferenceEvent, Event, Reply, decide, decide_due};
use allot_core::shared::machine::MachineEvent as _;

pub(super) const A: &str = "a:1:1";
pub(super) const B: &str = "b:1:1";

/// A conference of this size from a minute to another, counted from the beginning of the rig.
fn booking(e164: &str, from: i64, to: i64, size: i64) -> Create<'_> {
    Create { start: Some(at(from)), end: Some(at(to)), size, ..wish(e164) }
}

fn at(minute: i64) -> i64 {
    1000 + minute * MINUTE
}

pub(super) fn request(create: Create<'_>) -> Request<'_> {
    Request::Client(ClientRequest::Create(create))
}

fn schedule(rig: &mut Rig, e164: &str, from: i64, to: i64, size: i64) {
    rig.ask(&request(booking(e164, from, to, size))).unwrap();
}

/// The text of the refusal.
fn refusal(rig: &mut Rig, create: Create<'_>) -> String {
    rig.ask(&request(create)).unwrap_err().to_string()
}

/// The reply to a change of the end, which a dry run has as well, without a change.
fn extend(rig: &mut Rig, e164: &str, minute: i64) -> String {
    let request =
        |dry_run| Request::Client(ClientRequest::Extend { e164: e164.as_bytes(), end: at(minute), dry_run });
    let before = (rig.realm.last_epoch(), rig.told.len());
    let tried = rig.code(&request(true));
    assert_eq!((rig.realm.last_epoch(), rig.told.len()), before);
    let done = rig.code(&request(false));
    assert_eq!(tried, done);
    done
}

pub(super) fn resize(rig: &mut Rig, e164: &str, size: i64) -> String {
    rig.code(&Request::Client(ClientRequest::Resize { e164: e164.as_bytes(), size }))
}

fn alter(rig: &mut Rig, e164: &str, wishes: WishesRequest<'_>) -> String {
    rig.code(&Request::Client(ClientRequest::Alter { e164: e164.as_bytes(), wishes }))
}

fn join(rig: &mut Rig, cmu: &str, zone: Option<&[u8]>, tags: &[&[u8]]) {
    let join = UnitRequest::Join {
        cmu: cmu.as_bytes(),
        capacity: 10,
        zone,
        tags,
        lease: 3_600_000_000,
        machine: None,
    };
    rig.ask(&Request::Unit(join)).unwrap();
}

fn require<'a>(tags: &'a [&'a [u8]]) -> WishesRequest<'a> {
    WishesRequest { require: Some(tags), ..WishesRequest::default() }
}

const DONE: &str = "Conference([49])";

#[test]
fn scheduled_conference_is_created_at_its_start() {
    let settings = Settings { licences: 5, ..Settings::default() };
    let mut rig = Rig::with(settings, &[A]);
    schedule(&mut rig, "1", 10, 20, 4);
    let origin = rig.epoch("1");
    assert_eq!(rig.told, [format!("evt scheduled 1  {origin} scheduled")]);
    assert_eq!(
        (rig.state("1"), rig.owner("1"), rig.realm.licences_used()),
        (State::Scheduled, String::new(), 0)
    );
    assert_eq!(rig.realm.next_due(), Some(at(10)));
    rig.pass(10 * MINUTE - 1);
    assert_eq!(rig.state("1"), State::Scheduled);
    rig.check();
    rig.told.clear();
    rig.pass(1);
    let epoch = rig.epoch("1");
    assert!(epoch > origin && rig.one("1").origin_epoch == origin);
    let create = format!("cmd:{A} CREATE 1 {A} {epoch} {} 4 0  0 0", at(20));
    assert_eq!(rig.told, [create, format!("evt created 1 {A} {epoch} creating")]);
    assert_eq!((rig.state("1"), rig.realm.licences_used()), (State::Creating, 1));
    assert_eq!((rig.one("1").start, rig.one("1").recovering), (Some(at(10)), false));
    rig.check();
    assert_eq!(rig.ack("1", A, epoch), "Ok");
    rig.pass(10 * MINUTE);
    assert_eq!(rig.word("1"), "ending");
    assert_eq!(rig.given_up("1", A, epoch), "Ok");
    rig.check();
}

#[test]
fn creation_with_a_start_is_refused_without_its_time() {
    let mut rig = Rig::new(&[A]);
    let whole = booking("1", 10, 20, 1);
    let host = WishesRequest { host: Some(Some(b"a")), ..WishesRequest::default() };
    for (create, text) in [
        (Create { end: None, ..whole }, "ERR a conference with START needs an END"),
        (Create { end: whole.start, ..whole }, "ERR END 601000 must be after the start, 601000"),
        (Create { start: Some(1000), ..whole }, "ERR START 1000 is not in the future; it is 1000"),
        (Create { wishes: host, ..whole }, "ERR the unit of a scheduled conference is chosen at its start"),
    ] {
        let refusal = refusal(&mut rig, create);
        assert!(refusal.starts_with(text), "{refusal}");
    }
    schedule(&mut rig, "1", 10, 20, 1);
    assert_eq!(rig.code_of_create("1"), "EXISTS");
    assert_eq!(rig.code_of_move("1"), "BADSTATE");
    assert_eq!(alter(&mut rig, "1", host), "ERR");
    assert_eq!(extend(&mut rig, "1", 10), "ERR");
    rig.check();
}

#[test]
fn repeated_request_replies_the_scheduled_conference() {
    let mut rig = Rig::new(&[A]);
    let create = Create { request: Some(b"r"), ..booking("1", 10, 20, 10) };
    rig.ask(&request(create)).unwrap();
    rig.pass(15 * MINUTE);
    // Its start is past by now.
    assert_eq!(rig.ask(&request(create)).unwrap(), Reply::Conference(b"1"[..].into()));
}

#[test]
fn nothing_takes_room_that_is_reserved() {
    let mut rig = Rig::new(&[A]);
    schedule(&mut rig, "1", 10, 20, 8);
    // Without an end it would still be there.
    let forever = Create { size: 3, ..wish("2") };
    let text = refusal(&mut rig, forever);
    assert!(text.contains("reserved") && text.contains(&format!("with START {} it fits", at(20))), "{text}");
    let until = |minute, more: i64| Create { end: Some(at(minute) + more), ..forever };
    assert_eq!(rig.code(&request(until(10, 1))), "LIMIT");
    rig.ask(&request(until(10, 0))).unwrap();
    rig.ask(&request(Create { size: 2, ..wish("3") })).unwrap();
    // What is there may not stay or grow into it either.
    assert_eq!(extend(&mut rig, "2", 11), "LIMIT");
    assert_eq!(extend(&mut rig, "2", 9), "Conference([50])");
    assert_eq!(resize(&mut rig, "2", 5), "Conference([50])");
    assert_eq!(resize(&mut rig, "3", 3), "LIMIT");
    rig.check();
    assert_eq!(rig.release("1"), DONE);
    assert_eq!(rig.word("1"), "ended");
    assert_eq!(extend(&mut rig, "2", 30), "Conference([50])");
    rig.check();
}

#[test]
fn conferences_follow_each_other_without_a_gap() {
    let mut rig = Rig::new(&[A]);
    schedule(&mut rig, "1", 10, 20, 10);
    schedule(&mut rig, "2", 20, 30, 10);
    schedule(&mut rig, "3", 5, 10, 10);
    let text = refusal(&mut rig, booking("4", 3, 6, 1));
    assert!(text.ends_with(&format!("the earliest START that fits is {}", at(30))), "{text}");
    let text = refusal(&mut rig, booking("4", 3, 6, 11));
    assert!(text.ends_with("no later START fits"), "{text}");
    schedule(&mut rig, "4", 2, 5, 10);
    for (number, start) in [("4", 2), ("3", 5), ("1", 10), ("2", 20)] {
        rig.now = at(start);
        rig.due();
        if rig.state(number) == State::Pending {
            // Its unit has not ended the last one yet.
            assert_eq!(rig.recover(), 0);
        }
        for other in ["1", "2", "3", "4"] {
            if rig.word(other) == "ending" {
                assert_eq!(rig.given_up(other, A, rig.epoch(other)), "Ok");
            }
        }
        rig.recover();
        assert_eq!(rig.ack(number, A, rig.epoch(number)), "Ok", "{number}");
        rig.check();
    }
}

#[test]
fn extension_and_size_of_a_scheduled_conference_need_room() {
    let mut rig = Rig::new(&[A]);
    schedule(&mut rig, "1", 10, 20, 6);
    schedule(&mut rig, "2", 20, 30, 6);
    assert_eq!(extend(&mut rig, "1", 21), "LIMIT");
    assert_eq!(resize(&mut rig, "1", 11), "LIMIT");
    assert_eq!(resize(&mut rig, "1", 4), DONE);
    assert_eq!(extend(&mut rig, "1", 30), DONE);
    assert_eq!(resize(&mut rig, "1", 5), "LIMIT");
    rig.check();
    rig.pass(10 * MINUTE);
    assert_eq!(rig.commands(A), [format!("CREATE 1 {A} {} {} 4 0  0 0", rig.epoch("1"), at(30))]);
}

#[test]
fn licences_are_reserved_as_room_is() {
    let mut rig = Rig::with(Settings { licences: 3, ..Settings::default() }, &[A, B]);
    let two = Create { licences: 2, ..booking("1", 10, 20, 1) };
    rig.ask(&request(two)).unwrap();
    let text = refusal(&mut rig, Create { e164: b"2", ..two });
    assert!(text.ends_with(&format!("the earliest START that fits is {}", at(20))), "{text}");
    assert_eq!(rig.code(&request(Create { licences: 2, ..wish("2") })), "LIMIT");
    rig.ask(&request(Create { licences: 3, end: Some(at(10)), ..wish("2") })).unwrap();
    rig.check();
}

#[test]
fn zone_and_tags_reserve_room_of_their_units_only() {
    let mut rig = Rig::new(&[]);
    join(&mut rig, A, Some(b"east"), &[b"hd"]);
    join(&mut rig, B, Some(b"west"), &[]);
    let hd = |e164, size| Create { wishes: require(&[b"hd"]), ..booking(e164, 10, 20, size) };
    rig.ask(&request(hd("1", 7))).unwrap();
    assert_eq!(rig.code(&request(hd("2", 4))), "LIMIT");
    assert_eq!(rig.code(&request(Create { wishes: zone(b"north"), ..hd("2", 1) })), "LIMIT");
    // A is empty, and comes first by its name; but its room is reserved.
    rig.ask(&request(Create { size: 4, ..wish("3") })).unwrap();
    assert_eq!(rig.owner("3"), B);
    rig.ask(&request(Create { size: 3, ..wish("4") })).unwrap();
    assert_eq!(rig.owner("4"), A);
    for (number, cmu) in [("3", B), ("4", A)] {
        assert_eq!(rig.ack(number, cmu, rig.epoch(number)), "Ok");
    }
    // There is room for this one on one of both, in the sum: 20 less 7, 4 and 3.
    assert_eq!(rig.code(&request(booking("5", 10, 20, 7))), "LIMIT");
    rig.ask(&request(booking("5", 10, 20, 6))).unwrap();
    assert_eq!(alter(&mut rig, "5", require(&[b"hd"])), "LIMIT");
    assert_eq!(alter(&mut rig, "5", zone(b"west")), "Conference([53])");
    rig.check();
    // At the same start, the one without a wish leaves A to the one that needs it.
    assert_eq!(alter(&mut rig, "5", WishesRequest { zone: Some(None), ..require(&[]) }), "Conference([53])");
    rig.pass(10 * MINUTE);
    assert_eq!((rig.owner("1"), rig.owner("5")), (A.into(), B.into()));
    rig.check();
}

#[test]
fn unit_that_is_down_or_drained_does_not_count() {
    let mut rig = Rig::new(&[A, B]);
    let drain = |rig: &mut Rig, on| {
        let of = DrainOf::Unit(B.as_bytes());
        let request = SchedulerRequest::Drain { of, on, moves: false };
        rig.ask(&Request::Scheduler { term: None, request }).unwrap();
    };
    schedule(&mut rig, "1", 10, 20, 10);
    schedule(&mut rig, "2", 30, 40, 8);
    drain(&mut rig, true);
    assert_eq!(rig.code(&request(booking("3", 30, 40, 3))), "LIMIT");
    rig.check();
    drain(&mut rig, false);
    rig.down(A);
    assert_eq!(rig.code(&request(booking("3", 30, 40, 3))), "LIMIT");
    rig.join(A, 10);
    rig.report(A, rig.realm.last_epoch(), &[]);
    rig.check();
    schedule(&mut rig, "3", 30, 40, 3);
    // Another capacity, and other tags, of a unit that has conferences.
    rig.ask(&request(Create { size: 2, end: Some(at(9)), ..wish("4") })).unwrap();
    join(&mut rig, A, None, &[b"hd"]);
    rig.ask(&request(Create { wishes: require(&[b"hd"]), ..booking("5", 1, 2, 8) })).unwrap();
    join(&mut rig, A, Some(b"east"), &[]);
    rig.check();
    rig.join(B, 3);
    rig.check();
}

#[test]
fn conference_whose_start_finds_no_room_waits_for_it() {
    for recoverable in [true, false] {
        let mut rig = Rig::new(&[A]);
        rig.ask(&request(Create { recoverable, ..booking("1", 10, 20, 4) })).unwrap();
        rig.down(A);
        rig.told.clear();
        rig.pass(10 * MINUTE);
        let origin = rig.one("1").origin_epoch;
        assert_eq!(rig.told.last().unwrap(), &format!("evt delayed 1  {origin} pending"));
        assert_eq!((rig.one("1").out_since, rig.recover()), (None, 0));
        rig.check();
        rig.pass(MINUTE);
        rig.join(B, 10);
        rig.told.clear();
        assert_eq!(rig.recover(), 1);
        let epoch = rig.epoch("1");
        // The unit need not know that the conference has waited.
        assert_eq!(rig.commands(B), [format!("CREATE 1 {B} {epoch} {} 4 0  0 0", at(20))]);
        assert_eq!(rig.ack("1", B, epoch), "Ok");
        assert_eq!(rig.word("1"), "open");
        rig.check();
        rig.down(B);
        assert_eq!(rig.word("1"), if recoverable { "pending" } else { "ended" });
        rig.check();
    }
}

#[test]
fn first_creation_at_a_start_is_tried_on_other_units_and_then_waits() {
    for recoverable in [true, false] {
        let mut rig = Rig::with(Settings { tries: 2, ..Settings::default() }, &[A, B]);
        rig.ask(&request(Create { recoverable, ..booking("1", 10, 20, 4) })).unwrap();
        rig.pass(10 * MINUTE);
        assert_eq!(rig.nack("1", A, rig.epoch("1")), "Ok");
        assert_eq!((rig.owner("1"), rig.word("1")), (B.into(), "creating"));
        assert_eq!(rig.nack("1", B, rig.epoch("1")), "Ok");
        assert_eq!((rig.word("1"), rig.one("1").out_since, rig.recover()), ("pending", None, 0));
        rig.check();
        // Units that failed are tried again after `RETRY`. One that is lost before it answers changes nothing.
        rig.pass(5 * MINUTE);
        assert_eq!((rig.recover(), rig.word("1")), (1, "creating"));
        let owner = rig.owner("1");
        rig.down(&owner);
        assert_eq!((rig.word("1"), rig.recover(), rig.word("1")), ("pending", 1, "creating"));
        assert_eq!(rig.ack("1", &rig.owner("1"), rig.epoch("1")), "Ok");
        assert_eq!(rig.word("1"), "open");
        rig.check();
    }
}

#[test]
fn room_stays_reserved_after_a_start_that_found_none() {
    let mut rig = Rig::new(&[A]);
    rig.ask(&request(Create { size: 10, end: Some(at(10)), ..wish("first") })).unwrap();
    assert_eq!(rig.ack("first", A, rig.epoch("first")), "Ok");
    schedule(&mut rig, "booked", 10, 20, 10);
    let walk_in = Create { size: 10, ..wish("walk-in") };
    rig.realm.wait(rig.now, 1, &walk_in);
    rig.pass(10 * MINUTE);
    assert_eq!((rig.word("first"), rig.word("booked")), ("ending", "pending"));
    // The unit has its room back, and nobody else takes it.
    assert_eq!(rig.given_up("first", A, rig.epoch("first")), "Ok");
    assert!(rig.realm.next_grant(rig.now, |_| true).is_none());
    assert_eq!(rig.code(&request(Create { e164: b"other", ..walk_in })), "LIMIT");
    assert_eq!((rig.recover(), rig.word("booked")), (1, "creating"));
    assert!(rig.realm.next_grant(rig.now, |_| true).is_none());
    rig.check();
    assert_eq!(rig.ack("booked", A, rig.epoch("booked")), "Ok");
    rig.pass(10 * MINUTE);
    assert_eq!(rig.given_up("booked", A, rig.epoch("booked")), "Ok");
    assert_eq!(rig.realm.next_grant(rig.now, |_| true).map(|grant| grant.waiter), Some(1));
}

#[test]
fn of_two_starts_at_one_time_the_greater_priority_comes_first() {
    let mut rig = Rig::new(&[A, B]);
    for (e164, priority) in [("low", 0), ("high", 9)] {
        rig.ask(&request(Create { priority, ..booking(e164, 10, 20, 10) })).unwrap();
    }
    rig.down(B);
    rig.pass(10 * MINUTE);
    assert_eq!((rig.word("high"), rig.word("low")), ("creating", "pending"));
}

/// The conferences that one step starts, of which it looks at so many deadlines.
fn started(rig: &mut Rig, limit: usize) -> Vec<String> {
    let events = decide_due(&rig.realm, rig.now, limit);
    events.iter().for_each(|event| rig.apply(event));
    rig.flush();
    let names = events.iter().filter(|event| event.name() == "started").filter_map(|event| event.e164());
    names.map(|e164| String::from_utf8_lossy(e164).into_owned()).collect()
}

#[test]
fn greatest_priorities_start_first_also_if_a_step_starts_few() {
    let mut rig = Rig::new(&[A, B]);
    for priority in [3, 7, 0, 5, 1, 6, 4, 2] {
        rig.ask(&request(Create { priority, ..booking(&priority.to_string(), 10, 20, 1) })).unwrap();
    }
    rig.now = at(10);
    for three in [&["7", "6", "5"][..], &["4", "3", "2"], &["1", "0"]] {
        assert_eq!(started(&mut rig, 3), three);
    }
}

#[test]
fn starts_amid_many_areas_are_sliced() {
    const STARTS: usize = 100;
    let mut rig = Rig::new(&[]);
    rig.join(A, 1000);
    let zones: Vec<String> = (0..40).map(|zone| format!("z{zone}")).collect();
    for name in &zones {
        join(&mut rig, &format!("{name}:1:1"), Some(name.as_bytes()), &[]);
        // One after the other, with a pause, fills the unit, so all of them must be looked at to see what is left.
        for turn in 0..20 {
            let e164 = format!("{name}-{turn}");
            let from = 12 + 2 * turn;
            let create = booking(&e164, from, from + 1, 9);
            rig.ask(&request(Create { wishes: zone(name.as_bytes()), ..create })).unwrap();
        }
    }
    for number in 0..STARTS {
        schedule(&mut rig, &number.to_string(), 10, 60, 2);
    }
    rig.now = at(10);
    let mut steps = Vec::new();
    while steps.iter().sum::<usize>() < STARTS {
        steps.push(started(&mut rig, 500).len());
        assert!(steps.last().is_some_and(|&count| count > 0), "{steps:?}");
    }
    // Each looks at the 40 changes of 40 areas.
    let most = 50_000 / (40 * 40) + 1;
    assert!(steps.iter().all(|&count| count <= most) && steps.len() >= STARTS / most, "{steps:?}");
    assert!((0..STARTS).all(|number| rig.owner(&number.to_string()) == A), "the zones have room for theirs");
    rig.check();
    // A start that need not look at them is not held up.
    let mut rig = Rig::new(&[]);
    rig.join(A, 1000);
    for number in 0..STARTS {
        schedule(&mut rig, &number.to_string(), 10, 60, 2);
    }
    rig.now = at(10);
    assert_eq!(started(&mut rig, 500).len(), STARTS);
}

#[test]
fn waiters_beside_what_is_booked_are_decided_in_slices_and_none_is_forgotten() {
    let mut rig = Rig::new(&[A]);
    schedule(&mut rig, "booked", 10, 20, 10);
    // All but the last last too long, each for another reason.
    for waiter in 0..20 {
        let end = if waiter == 19 { at(9) } else { at(30) - waiter as i64 };
        let e164 = waiter.to_string();
        rig.realm.wait(rig.now, waiter, &Create { end: Some(end), ..wish(&e164) });
    }
    let mut calls = 0;
    let grant = loop {
        // Room becomes free all the time.
        rig.join(A, 10);
        calls += 1;
        if let Some(grant) = rig.realm.next_grant(rig.now, |_| true) {
            break grant;
        }
        assert!(rig.realm.has_pending_grants() && calls < 20, "{calls} calls");
    };
    assert_eq!((grant.waiter, calls), (19, 5));
    // Once all were decided, and nothing changes, none is decided again.
    while rig.realm.has_pending_grants() {
        rig.realm.next_grant(rig.now, |_| true);
    }
}

#[test]
fn start_has_one_try_also_if_no_other_follows() {
    let mut rig = Rig::with(Settings { tries: 1, ..Settings::default() }, &[A]);
    schedule(&mut rig, "1", 10, 20, 4);
    rig.pass(10 * MINUTE);
    assert_eq!(rig.owner("1"), A);
    assert_eq!(rig.nack("1", A, rig.epoch("1")), "Ok");
    rig.pass(10 * MINUTE);
    assert_eq!(rig.word("1"), "ended");
}

#[test]
fn release_ends_a_scheduled_conference_at_once() {
    let mut rig = Rig::new(&[A]);
    let called = Some((&b"pool"[..], &b"lease"[..]));
    rig.ask(&request(Create { called_from: called, ..booking("1", 10, 20, 4) })).unwrap();
    let origin = rig.epoch("1");
    rig.told.clear();
    assert_eq!(rig.release("1"), DONE);
    let ended = format!("evt ended 1  {origin} ended manager 1 {origin} 1000 {}  1000", at(10));
    assert_eq!(rig.told, [ended, "hangup pool 1 lease".to_owned()]);
    rig.check();
    schedule(&mut rig, "1", 10, 20, 10);
    rig.check();
}

#[test]
fn start_that_a_failover_lost_is_found_by_its_copy() {
    for is_ended in [false, true] {
        let mut rig = Rig::new(&[A]);
        schedule(&mut rig, "1", 10, 20, 4);
        // Another master has started it at this epoch, and died before this one knew.
        rig.now = at(10) - 1;
        let epoch = rig.now as u64 * 1000 + 500;
        let ended: &[(&str, u64)] = if is_ended { &[("1", epoch)] } else { &[] };
        let list: &[(&str, u64)] = if is_ended { &[] } else { &[("1", epoch)] };
        rig.report_with(A, epoch, ended, list);
        assert_eq!(rig.word("1"), if is_ended { "ended" } else { "open" });
        rig.check();
        rig.pass(MINUTE);
        assert_eq!(rig.word("1"), if is_ended { "ended" } else { "open" });
        rig.check();
    }
}

#[test]
fn start_and_end_that_were_missed_end_the_conference() {
    let mut rig = Rig::new(&[A]);
    schedule(&mut rig, "1", 10, 20, 4);
    schedule(&mut rig, "2", 10, 30, 4);
    rig.now = at(20);
    let one = rig.realm.conference_called(b"1").unwrap();
    assert_eq!(rig.realm.as_of(one, rig.now).unwrap().state, State::Ended);
    rig.due();
    assert_eq!((rig.word("1"), rig.word("2")), ("ended", "creating"));
    assert_eq!(rig.one("1").cause.word(), "end-time");
    rig.check();
}

#[test]
fn creation_waits_for_room_beside_what_is_reserved() {
    let mut rig = Rig::new(&[A]);
    schedule(&mut rig, "1", 10, 20, 10);
    for (id, end) in [(1, None), (2, Some(at(11))), (3, Some(at(10)))] {
        let e164 = format!("w{id}");
        let create = Create { end, size: 6, ..wish(&e164) };
        let decided = decide(&rig.realm, rig.now, &request(create));
        if id < 3 {
            assert!(rig.realm.is_worth_waiting(&create, &decided));
        }
        rig.realm.wait(rig.now, id, &create);
    }
    // Something changes: all are decided again, and one of the same size does not stand for the others.
    resize(&mut rig, "1", 9);
    let grant = rig.realm.next_grant(rig.now, |_| true).unwrap();
    assert_eq!((grant.waiter, grant.outcome.is_ok()), (3, true));
    grant.outcome.unwrap().events.iter().for_each(|event| rig.apply(event));
    assert!(rig.realm.next_grant(rig.now, |_| true).is_none());
    rig.check();
}

#[test]
fn as_many_conferences_and_combinations_are_scheduled_as_may_be() {
    let mut rig = Rig::new(&[A]);
    rig.join(A, 1_000_000);
    let mut number = 0;
    let mut book = |rig: &mut Rig, start, wishes: WishesRequest<'_>| {
        number += 1;
        let create = Create { wishes, ..booking("", start, 20, 1) };
        let e164 = number.to_string();
        rig.code(&request(Create { e164: e164.as_bytes(), ..create })).starts_with("Conference")
    };
    for area in 0..64 {
        let tag = area.to_string();
        join(&mut rig, "b:1:1", None, &[tag.as_bytes()]);
        assert!(book(&mut rig, 10, require(&[tag.as_bytes()])), "{area}");
        // The first conference of all begins before the others.
        assert!(area > 0 || book(&mut rig, 5, require(&[tag.as_bytes()])));
    }
    assert!(!book(&mut rig, 10, WishesRequest::default()));
    rig.check();
    // One that waits for its first unit may get a further combination, and the realm can still be loaded.
    rig.pass(5 * MINUTE);
    assert_eq!(rig.word("2"), "pending");
    assert_eq!(alter(&mut rig, "2", require(&[b"another"])), "Conference([50])");
    rig.check();
}

#[test]
fn events_of_a_schedule_are_admitted_only_where_they_fit() {
    let mut rig = Rig::new(&[A]);
    schedule(&mut rig, "1", 10, 20, 4);
    let epoch = rig.realm.last_epoch() + 1;
    let of = |event| Event::Conference { e164: b"1"[..].into(), event };
    let host = allot_core::conf::conference::Wishes { host: Some(b"a"[..].into()), ..Default::default() };
    let booked = Created { cmu: None, start: Some(at(10)), end: Some(at(20)), ..created("2", A, epoch) };
    for refused in [
        Event::Created(Box::new(booked.clone())),
        Event::Scheduled(Box::new(created("2", A, epoch))),
        Event::Scheduled(Box::new(Created { end: None, ..booked.clone() })),
        Event::Scheduled(Box::new(Created { end: Some(at(10)), ..booked.clone() })),
        Event::Scheduled(Box::new(Created { wishes: host.clone(), ..booked.clone() })),
        Event::Found(Box::new(booked.clone())),
        of(ConferenceEvent::Granted { cmu: A.as_bytes().into(), epoch }),
        of(ConferenceEvent::Acked),
        of(ConferenceEvent::Altered { wishes: host }),
        of(ConferenceEvent::Extended { end: at(10), number: epoch }),
    ] {
        assert!(rig.realm.admits(&refused).is_err(), "{refused:?}");
    }
    rig.apply(&Event::Scheduled(Box::new(booked)));
    rig.apply(&of(ConferenceEvent::Started { cmu: A.as_bytes().into(), epoch: epoch + 1 }));
    for refused in
        [ConferenceEvent::Delayed, ConferenceEvent::Started { cmu: A.as_bytes().into(), epoch: epoch + 2 }]
    {
        assert!(rig.realm.admits(&of(refused)).is_err());
    }
    rig.check();
}

#[test]
fn lower_number_of_licences_does_not_end_what_is_scheduled() {
    let mut rig = Rig::new(&[A]);
    schedule(&mut rig, "1", 10, 20, 4);
    rig.create("2");
    let changes = Changes { licences: Some(1), ..Changes::default() };
    rig.ask(&Request::Client(ClientRequest::Configure(changes))).unwrap();
    rig.pass(10 * MINUTE);
    assert_eq!((rig.word("1"), rig.word("2")), ("creating", "ended"));
}
