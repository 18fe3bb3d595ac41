//! A damaged snapshot or event is refused, or leads to a show that nowhere contradicts itself.

use super::house::{House, wish};
use allot_core::seat::request::{Hold, Request, Wait, Wish};
use allot_core::seat::{Event, Show, decide};
use allot_core::shared::codec::Writer;
use allot_core::shared::machine::MachineEvent;
use allot_core::shared::token::TokenChoice;

/// Two rows with two blocks, a hold and a sale from one of them, and users who wait for free seats and for a block.
fn house() -> House {
    let mut house = House::rows("ltr", &["......", "......"]);
    let block = |name, until, seats| Request::Block { name, until, per_user: None, seats };
    house.ask(&block(Some(&b"press"[..]), Some(90), vec![b"a-1-1", b"a-1-2", b"a-1-3", b"a-2-6"])).unwrap();
    house.ask(&block(None, Some(70), vec![b"a-2-1", b"a-2-2"])).unwrap();
    house.block(&["a-1-6"]);
    let press = |token| Hold {
        token: chosen(token),
        wish: Wish { from: Some(b"press"), ..wish("ann", 1).wish },
        ..wish("ann", 1)
    };
    house.hold(press(b"held"));
    house.hold(press(b"sold"));
    house.confirm("sold", Some("order")).unwrap();
    house.ask(&wait(b"w1", None)).unwrap();
    house.ask(&wait(b"w2", Some(b"press"))).unwrap();
    assert_eq!((house.show.waiters().len(), house.show.blocks().len()), (2, 2));
    house
}

fn chosen(token: &[u8]) -> TokenChoice<'_> {
    TokenChoice { token, chosen: true }
}

fn wait<'a>(token: &'a [u8], from: Option<&'a [u8]>) -> Request<'a> {
    // Each user may wait once.
    let hold =
        Hold { user: token, token: chosen(token), wish: Wish { from, ..wish("", 9).wish }, ..wish("", 9) };
    Request::Wait(Wait { hold, offer: 100, priority: 0 })
}

/// These bytes with one byte changed, or cut off.
fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let changes: [fn(u8) -> u8; 6] =
        [|byte| byte ^ 1, |byte| byte ^ 2, |byte| byte ^ 0x80, |byte| byte.wrapping_add(1), |_| 0, |_| 255];
    let places = (0..bytes.len()).flat_map(move |at| changes.map(|change| (at, change)));
    let changed = places.map(|(at, change)| {
        let mut damaged = bytes.to_vec();
        damaged[at] = change(damaged[at]);
        damaged
    });
    changed.chain((0..bytes.len()).map(|end| bytes[..end].to_vec()))
}

#[test]
fn damaged_snapshot_is_refused_or_sound() {
    let bytes = house().show.encode();
    assert!(Show::decode(&bytes).is_ok());
    let mut sound = 0;
    for damaged in damaged(&bytes) {
        if let Ok(show) = Show::decode(&damaged) {
            assert_eq!(show.check(), Ok(()), "{damaged:?}");
            sound += 1;
        }
    }
    assert!(sound > 0, "no damage was subtle");
}

#[test]
fn damaged_event_is_refused_or_leaves_a_sound_show() {
    let house = house();
    let free_seat = || vec![&b"a-2-4"[..]];
    let requests = [
        Request::Block { name: Some(b"press"), until: None, per_user: None, seats: free_seat() },
        Request::Block { name: None, until: Some(80), per_user: None, seats: free_seat() },
        Request::EndBlock(b"press"),
        Request::Hold(Hold {
            token: chosen(b"h"),
            wish: Wish { from: Some(b"press"), ..wish("cid", 1).wish },
            ..wish("cid", 1)
        }),
        Request::Release { token: b"held", seats: None, into: None },
        Request::Refund { order: None, seats: Some(vec![b"a-2-6"]), into: None },
        Request::Unblock(vec![b"a-1-3", b"a-2-1"]),
        wait(b"w3", Some(b"press")),
        Request::Unwait(b"w2"),
    ];
    for request in requests {
        let events = decide(&house.show, house.now, &request).unwrap().events;
        let mut bytes = Writer::default();
        events.iter().for_each(|event: &Event| event.encode(&mut bytes));
        for damaged in damaged(&bytes.bytes) {
            let Ok(events) = Event::decode_all(&damaged) else { continue };
            let mut show = house.show.clone();
            for event in events {
                if show.admits(&event).is_ok() {
                    show.apply(house.now, &event);
                    assert_eq!(show.check(), Ok(()), "{request:?}: {event:?}");
                }
            }
        }
    }
}
