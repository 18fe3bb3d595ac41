//! Creations that wait for room.

use super::rig::{Rig, wish, zone};
use allot_core::conf::request::{Changes, ClientRequest, Create, Request, WishesRequest};
use allot_core::conf::state::{Placement, Settings};
use allot_core::conf::{Reply, decide};

const A: &str = "a:1:1";
const B: &str = "b:1:1";

/// Decides a creation, and has it wait under this id if it is worth waiting. Returns whether it waits.
fn wait(rig: &mut Rig, id: u64, create: Create<'_>) -> bool {
    let decided = decide(&rig.realm, rig.now, &Request::Client(ClientRequest::Create(create)));
    let waits = rig.realm.is_worth_waiting(&create, &decided);
    if waits {
        rig.realm.wait(rig.now, id, &create);
    }
    waits
}

/// Serves all waiters that can be served: their ids, and the conference or the code of the refusal.
fn serve(rig: &mut Rig, is_alive: impl Fn(u64) -> bool) -> Vec<(u64, String)> {
    let mut served = Vec::new();
    while rig.realm.has_pending_grants()
        && let Some(grant) = rig.realm.next_grant(rig.now, &is_alive)
    {
        let outcome = match grant.outcome {
            Ok(decision) => {
                decision.events.iter().for_each(|event| rig.apply(event));
                let Reply::Conference(e164) = decision.reply else { panic!("a conference") };
                String::from_utf8_lossy(&e164).into_owned()
            }
            Err(refusal) => refusal.code.word().to_owned(),
        };
        served.push((grant.waiter, outcome));
    }
    rig.flush();
    served
}

fn all(rig: &mut Rig) -> Vec<(u64, String)> {
    serve(rig, |_| true)
}

/// A realm with one unit that has room for one conference, which is there.
fn full() -> Rig {
    let mut rig = Rig::new(&[]);
    rig.join(A, 1);
    rig.open("1");
    rig
}

#[test]
fn creation_waits_until_a_unit_has_room() {
    let mut rig = full();
    assert!(wait(&mut rig, 7, wish("2")));
    assert!(!rig.realm.has_pending_grants());
    assert_eq!(all(&mut rig), []);
    let epoch = rig.epoch("1");
    rig.ended("1", A, epoch);
    assert_eq!(all(&mut rig), [(7, "2".to_owned())]);
    assert_eq!((rig.owner("2"), rig.realm.waiting_creations()), (A.to_owned(), 0));
    rig.check();
}

#[test]
fn greater_priority_comes_first_then_the_earlier() {
    let mut rig = full();
    for (id, e164, priority) in [(1, "2", 0), (2, "3", 5), (3, "4", 5)] {
        assert!(wait(&mut rig, id, Create { priority, ..wish(e164) }));
    }
    rig.join(B, 2);
    rig.report(B, 0, &[]);
    assert_eq!(all(&mut rig), [(2, "3".to_owned()), (3, "4".to_owned())]);
    assert_eq!(rig.realm.waiting_creations(), 1);
}

#[test]
fn waiter_for_which_there_is_no_room_does_not_hold_up_others() {
    let mut rig = full();
    assert!(wait(&mut rig, 1, Create { size: 9, ..wish("2") }));
    assert!(wait(&mut rig, 2, Create { wishes: zone(b"fra"), ..wish("3") }));
    assert!(wait(&mut rig, 3, wish("4")));
    let epoch = rig.epoch("1");
    rig.ended("1", A, epoch);
    assert_eq!(all(&mut rig), [(3, "4".to_owned())]);
    assert_eq!(rig.realm.waiting_creations(), 2);
}

#[test]
fn creation_waits_for_licences_and_for_settings() {
    let mut rig = Rig::new(&[A]);
    let licences = |count| {
        Request::Client(ClientRequest::Configure(Changes { licences: Some(count), ..Changes::default() }))
    };
    rig.ask(&licences(1)).unwrap();
    rig.open("1");
    assert!(wait(&mut rig, 1, wish("2")));
    rig.ask(&licences(2)).unwrap();
    assert_eq!(all(&mut rig), [(1, "2".to_owned())]);
}

#[test]
fn waiter_that_can_never_be_served_is_refused() {
    let mut rig = full();
    assert!(!wait(&mut rig, 1, wish("1")), "it exists");
    let tags: Vec<Vec<u8>> = (0..1000).map(|tag| format!("t{tag}").into_bytes()).collect();
    let tags: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
    let mut tagged = wish("2");
    tagged.wishes.require = Some(&tags);
    assert!(!wait(&mut rig, 2, tagged), "too many tags");
    let end = rig.now + 1000;
    assert!(wait(&mut rig, 3, Create { end: Some(end), ..wish("3") }));
    assert!(wait(&mut rig, 4, wish("4")));
    assert!(wait(&mut rig, 5, wish("4")));
    rig.pass(2000);
    rig.join(B, 10);
    rig.report(B, 0, &[]);
    let expected = [(3, "ERR"), (4, "4"), (5, "EXISTS")].map(|(id, text)| (id, text.to_owned()));
    assert_eq!(all(&mut rig), expected);
}

#[test]
fn waiters_that_have_left_get_nothing() {
    let mut rig = full();
    for (id, e164) in [(1, "2"), (2, "3"), (3, "4")] {
        assert!(wait(&mut rig, id, wish(e164)));
    }
    rig.realm.stop_waiting(1);
    let epoch = rig.epoch("1");
    rig.ended("1", A, epoch);
    assert_eq!(serve(&mut rig, |id| id != 2), [(3, "4".to_owned())]);
    assert_eq!(rig.realm.waiting_creations(), 0);
    assert_eq!(rig.realm.clone().waiting_creations(), 0);
}

#[test]
fn realm_is_due_while_a_waiter_may_be_served() {
    let mut rig = full();
    for (id, e164) in [(1, "2"), (2, "3")] {
        assert!(wait(&mut rig, id, wish(e164)));
    }
    let later = rig.realm.next_due();
    assert!(later.is_some_and(|due| due > rig.now));
    rig.join(B, 2);
    // A step serves a limited number of waiters: the timer serves the others.
    assert!(rig.realm.next_due().is_some_and(|due| due <= rig.now));
    assert_eq!(all(&mut rig).len(), 2);
    assert!(rig.realm.next_due().is_some_and(|due| due > rig.now));
}

#[test]
fn heartbeats_that_change_nothing_decide_nobody_again() {
    let settings = Settings { placement: Placement::Load, ..Settings::default() };
    let mut rig = Rig::with(settings, &[]);
    rig.join(A, 5);
    rig.beat_with(A, 100);
    assert!(wait(&mut rig, 1, wish("2")));
    rig.beat(A);
    rig.beat_with(A, 100);
    assert!(!rig.realm.has_pending_grants());
    // Another load may leave room.
    rig.beat_with(A, 50);
    assert_eq!(all(&mut rig), [(1, "2".to_owned())]);
    // A unit that is up again has room, too.
    assert!(wait(&mut rig, 2, Create { size: 9, ..wish("3") }));
    rig.pass(rig.realm.unit_called(A.as_bytes()).unwrap().lease * 7 / 10);
    assert_eq!(all(&mut rig), []);
    rig.beat(A);
    assert!(rig.realm.has_pending_grants());
}

/// A creation that wishes zone `fra`, or host `fra`, for a second.
fn bound(e164: &str, by_host: bool) -> Create<'_> {
    let mut create = wish(e164);
    create.wishes = if by_host {
        WishesRequest { host: Some(Some(b"fra")), ..WishesRequest::default() }
    } else {
        zone(b"fra")
    };
    create.wishes.zone_fall = Some(1000);
    create
}

#[test]
fn creation_that_waits_goes_elsewhere_when_its_time_has_come() {
    for by_host in [false, true] {
        let mut rig = Rig::new(&[A, B]);
        assert!(wait(&mut rig, 1, bound("2", by_host)));
        let for_ever = Create { wishes: zone(b"fra"), ..wish("3") };
        assert!(wait(&mut rig, 2, for_ever));
        assert_eq!(rig.realm.next_due(), Some(rig.now + 1000));
        rig.pass(999);
        assert_eq!(all(&mut rig), []);
        rig.pass(1);
        assert_eq!(all(&mut rig), [(1, "2".to_owned())]);
        // Its wishes hold again when it is open; until then, another unit may be tried elsewhere as well.
        let (one, epoch) = (rig.one("2"), rig.epoch("2"));
        assert_eq!((one.wishes.zone.is_some(), one.wishes.host.is_some()), (!by_host, by_host));
        assert!(one.elsewhere && rig.owner("2") == A);
        assert!(rig.told.iter().any(|line| line.starts_with("evt zone-fell 2 ")), "{:?}", rig.told);
        assert_eq!((rig.nack("2", A, epoch), rig.owner("2")), ("Ok".to_owned(), B.to_owned()));
        let epoch = rig.epoch("2");
        assert_eq!((rig.ack("2", B, epoch), rig.one("2").elsewhere), ("Ok".to_owned(), false));
        assert_eq!(rig.realm.waiting_creations(), 1, "the other waits for its zone");
        assert_eq!(all(&mut rig), []);
        assert!(!rig.realm.has_pending_grants());
        rig.check();
    }
}

#[test]
fn creation_goes_elsewhere_later_if_there_is_no_room_at_its_time() {
    let mut rig = full();
    assert!(wait(&mut rig, 1, bound("2", false)));
    assert!(wait(&mut rig, 2, bound("3", false)));
    rig.realm.stop_waiting(2);
    rig.pass(2000);
    assert_eq!(all(&mut rig), []);
    assert!(rig.realm.next_due().is_none_or(|due| due > rig.now), "nobody is decided again");
    let epoch = rig.epoch("1");
    rig.ended("1", A, epoch);
    assert_eq!(all(&mut rig), [(1, "2".to_owned())]);
    // A unit of its zone that comes before its time is taken.
    let mut rig = Rig::new(&[A]);
    assert!(wait(&mut rig, 1, bound("2", true)));
    rig.pass(999);
    rig.join("fra:1:1", 1);
    assert_eq!(all(&mut rig), [(1, "2".to_owned())]);
    assert_eq!((rig.owner("2").as_str(), rig.one("2").elsewhere), ("fra:1:1", false));
    rig.check();
}
