//! The examples of docs/replication.md, byte by byte; and the names of all notifications in docs/operate.md.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use allot_core::account::{self, AccountEvent};
use allot_core::conf::{self, ConferenceEvent};
use allot_core::numpool::event::Called;
use allot_core::numpool::{self, Number};
use allot_core::seat;
use allot_core::seat::claims::Seats;
use allot_core::seat::event::{Held, Turn};
use allot_core::shared::Bytes;
use allot_core::shared::codec::Writer;
use allot_core::shared::event::MachineEvent;
use allot_core::shared::field::Any;
use allot_core::shared::payload::{self, Payload};
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// The bytes of `documented`, a list of hexadecimal numbers, are the payload of these events of the key `{g}`.
fn is_encoded_as<E: MachineEvent + Debug + PartialEq>(at: i64, events: &[E], documented: &str) {
    let documented: Vec<u8> =
        documented.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let mut out = Writer::default();
    payload::begin_events(at, &mut out);
    events.iter().for_each(|event| event.encode(&mut out));
    payload::seal(b"{g}", &mut out);
    assert_eq!(out.bytes, documented, "{:02x?}", out.bytes);
    let Payload::Events { events: read, .. } = Payload::read(b"{g}", &documented).unwrap() else { panic!() };
    assert_eq!(&E::decode_all(read).unwrap()[..], events);
}

#[test]
fn hold_of_a_show_has_its_documented_bytes() {
    let held = Held {
        token: Bytes::from_slice(b"t1"),
        user: Bytes::from_slice(b"ann"),
        until: 1_795_227_454_791,
        fingerprint: Any(0x3ee1_4788_4394_6c50),
        seats: Seats::from_slice(&[0, 1]),
        turn: Turn::Area(0),
        replaced: None,
        exchange: false,
    };
    is_encoded_as(
        1_795_227_394_791,
        &[seat::Event::Held(held)],
        "01  ce 8b a1 be bf 68
         04  02 74 31  03 61 6e 6e  8e b5 a8 be bf 68  d0 d8 d1 9c 84 f1 d1 f0 3e  02 00 01  01 00  00  00
         18 8f f0 29 5c 4b 83 19",
    );
    let flushed = seat::Event::Flushed { count: 1, last_id: (1_795_227_394_791, 0) };
    is_encoded_as(
        1_795_227_394_791,
        &[flushed],
        "01  ce 8b a1 be bf 68
         10  01  e7 c5 90 df 9f 34 00
         78 2d c2 e1 a7 da f0 d4",
    );
}

#[test]
fn call_of_a_pool_has_its_documented_bytes() {
    let called = Called {
        number: Number::parse(b"1001").unwrap(),
        token: Bytes::from_slice(b"c1"),
        until: Some(1_795_238_383_244),
        switch: Some(Bytes::from_slice(b"sw1")),
        peer: Some(Bytes::from_slice(b"5551")),
        holder: None,
        least_uses: None,
    };
    is_encoded_as(
        1_795_238_323_244,
        &[numpool::Event::Called(called)],
        "01  d8 90 d7 c8 bf 68
         09  02 54 45  02 63 31  01 98 ba de c8 bf 68  01 03 73 77 31  01 04 35 35 35 31  00  00
         d9 eb df 6d ea 5e d7 55",
    );
}

#[test]
fn details_of_a_conference_have_their_documented_bytes() {
    let mut fields = Writer::default();
    fields.string(b"members");
    fields.string(b"3");
    let set = ConferenceEvent::Set { seq: 1, fields: fields.bytes };
    is_encoded_as(
        1_795_238_323_244,
        &[conf::Event::Conference { e164: Bytes::from_slice(b"4930"), event: set }],
        "01  d8 90 d7 c8 bf 68
         09  04 34 39 33 30  0f  01  0a 07 6d 65 6d 62 65 72 73 01 33
         f1 9a 92 fc 2f ee e7 61",
    );
}

#[test]
fn login_of_an_account_has_its_documented_bytes() {
    let login = AccountEvent::LoggedIn { terminal: Bytes::from_slice(b"t1"), until: 1_795_238_383_244 };
    is_encoded_as(
        1_795_238_323_244,
        &[account::Event::Account { account: Bytes::from_slice(b"p1"), event: login }],
        "01  d8 90 d7 c8 bf 68
         10  02 70 31  01  02 74 31  98 ba de c8 bf 68
         7b 9c 83 47 dc 7a 12 cc",
    );
}

/// The texts of all sources in a folder.
fn sources(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| {
        if path.is_dir() { sources(&path) } else { vec![std::fs::read_to_string(path).unwrap()] }
    };
    entries.flat_map(text).collect()
}

#[test]
fn every_notification_is_in_the_page_about_operation() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(package.join("../../docs/operate.md")).unwrap();
    let mut count = 0;
    for text in sources(&package.join("src")) {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for notice in code.flat_map(|line| line.split("c\"allot.").skip(1)) {
            let notice = notice.split('"').next().unwrap();
            let (family, word) = notice.split_once('.').unwrap();
            let row = page.lines().find(|line| line.contains(&format!("`allot.{family}.`"))).unwrap();
            assert!(row.contains(&format!("`{word}`")), "allot.{notice} is not in docs/operate.md");
            count += 1;
        }
    }
    assert!(count > 100, "{count} notifications");
}
