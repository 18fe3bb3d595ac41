//! The bytes of a snapshot, which are kept for good: all later versions read what this one has written.

use super::hex::lines;
use super::house::{House, area, wish};
use allot_core::seat::Show;
use allot_core::seat::request::{Request, Wait};
use allot_core::seat::snapshot::VERSION;
use allot_core::shared::token::TokenChoice;
use serde_json::json;

const SNAPSHOT: &str = include_str!("snapshot.hex");

/// A show in which every part of a snapshot has something.
fn sample_show() -> Show {
    let areas = [area("a", 1, "center", &["..... ...", "........"]), area("b", 2, "ltr", &["...."])];
    let mut house = House::new(&json!({"areas": areas, "events": 100}));
    house.hold(wish("ann", 2));
    house.confirm("t1", Some("order-1")).unwrap();
    house.hold(wish("bob", 3));
    let seat = |show: &Show, seat: u32| String::from_utf8(show.venue().id(seat).into()).unwrap();
    let [first, second, last] = [14, 15, 19].map(|number| seat(&house.show, number));
    house.pick("cid", "t9", &[&first]).unwrap();
    house.confirm("t9", None).unwrap();
    house.block(&[&second]);
    let block = Request::Block {
        name: Some(b"press"),
        until: Some(90_000),
        per_user: Some(2),
        seats: vec![last.as_bytes()],
    };
    house.ask(&block).unwrap();
    let mut hold = wish("dee", 9);
    hold.token = TokenChoice { token: b"w1", chosen: true };
    house.ask(&Request::Wait(Wait { hold, offer: 100, priority: 5 })).unwrap();
    hold = wish("eve", 9);
    hold.token = TokenChoice { token: b"w2", chosen: true };
    house.ask(&Request::Wait(Wait { hold, offer: 100, priority: 0 })).unwrap();
    house.ask(&Request::Unwait(b"w2")).unwrap();
    assert_eq!(house.show.check(), Ok(()));
    house.show
}

#[test]
fn snapshot_keeps_its_bytes() {
    let show = sample_show();
    assert_eq!(lines(&show.encode()), SNAPSHOT);
    assert_eq!(Show::decode(&show.encode()).unwrap().encode(), show.encode());
}

#[test]
fn snapshot_of_another_version_is_refused() {
    let sound = House::rows("ltr", &["...."]).show.encode();
    assert_eq!(u64::from(sound[0]), VERSION);
    assert!(Show::decode(&sound).is_ok());
    for version in [VERSION as u8 - 1, VERSION as u8 + 1] {
        let mut other = sound.clone();
        other[0] = version;
        assert!(Show::decode(&other).is_err(), "{version}");
    }
}
