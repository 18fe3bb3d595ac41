//! The bytes of a snapshot, which are kept for good: all later versions read what this one has written.

use super::hex::lines;
use super::rig::{MINUTE, Rig, wish, zone};
use allot_core::conf::request::{
    Claim, ClientRequest, Create, DrainOf, Request, SchedulerRequest, UnitRequest, WishesRequest,
};
use allot_core::conf::{Event, Realm, Reply};

const SNAPSHOT: &str = include_str!("snapshot.hex");

/// A realm with each kind of record: units that are up, drained, down, replaced and forgotten, and conferences that are
/// scheduled, creating, open with details, moving, pending after a failed try, and ended; and with a waiting message.
fn realm() -> Rig {
    let mut rig = Rig::new(&["d:1:1"]);
    rig.ask(&Request::Claim(Claim { term: 7, leader: b"scheduler", force: false })).unwrap();
    rig.down("d:1:1");
    rig.pass(10 * MINUTE);
    for (cmu, zone) in [("a:1:1", Some(&b"east"[..])), ("b:1:1", None), ("b:1:2", None), ("c:1:1", None)] {
        let (cmu, lease) = (cmu.as_bytes(), 3_600_000);
        let tags: &[&[u8]] = if zone.is_some() { &[b"hd", b"gpu"] } else { &[] };
        rig.ask(&Request::Unit(UnitRequest::Join {
            cmu,
            capacity: 10,
            zone,
            tags,
            lease,
            machine: zone.map(|_| &b"m1"[..]),
        }))
        .unwrap();
    }
    rig.beat_with("a:1:1", -3);
    let (cmu, machine) = (b"a:2:2", Some(&b"m2"[..]));
    let second = UnitRequest::Join { cmu, capacity: 1, zone: None, tags: &[], lease: 1, machine };
    assert!(matches!(rig.ask(&Request::Unit(second)), Ok(Reply::Refused(_))));
    let wishes = WishesRequest {
        zone_fall: Some(9000),
        host: Some(Some(b"a")),
        require: Some(&[b"hd"]),
        prefer: Some(&[b"gpu", b"dial-in"]),
        ..zone(b"east")
    };
    let in_zone = Create { wishes, end: Some(9_000_000), priority: -2, size: 2, ..wish("1") };
    let called = Create { request: Some(b"r"), called_from: Some((b"pool", b"lease")), ..wish("2") };
    let later = Create { start: Some(8_000_000), end: Some(9_500_000), size: 2, ..wish("6") };
    for create in [in_zone, called, wish("3"), wish("4"), wish("5"), later] {
        rig.ask(&Request::Client(ClientRequest::Create(create))).unwrap();
    }
    for e164 in ["1", "2", "3"] {
        let (owner, epoch) = (rig.owner(e164), rig.epoch(e164));
        rig.ack(e164, &owner, epoch);
    }
    let (owner, epoch) = (rig.owner("1"), rig.epoch("1"));
    rig.set("1", &owner, epoch, 4, &["members", "3", "empty", ""]);
    let (owner, epoch) = (rig.owner("2"), rig.epoch("2"));
    rig.ended("2", &owner, epoch);
    rig.pass(5);
    let owner = rig.owner("3");
    rig.down(&owner);
    rig.recover();
    let (owner, epoch) = (rig.owner("3"), rig.epoch("3"));
    rig.nack("3", &owner, epoch);
    rig.ask(&Request::Client(ClientRequest::Resize { e164: b"1", size: 3 })).unwrap();
    rig.code_of_move("1");
    rig.ask(&Request::Scheduler {
        term: Some(7),
        request: SchedulerRequest::Drain { of: DrainOf::Unit(b"a:1:1"), on: true, moves: false },
    })
    .unwrap();
    rig.apply(&Event::Asked { cmu: None, details: true });
    rig
}

#[test]
fn snapshot_keeps_its_bytes() {
    let rig = realm();
    let states = ["1", "2", "3", "6"].map(|e164| rig.word(e164));
    assert_eq!(states, ["open", "ended", "pending", "scheduled"]);
    rig.check();
    let mut bytes = rig.realm.encode();
    assert_eq!(lines(&bytes), SNAPSHOT);
    bytes[0] += 1;
    assert!(Realm::decode(&bytes).is_err(), "a version of the future");
}
