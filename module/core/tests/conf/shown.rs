//! The state of conferences as replies show it: `lost` while the lease of their unit has expired.

use super::rig::Rig;
use allot_core::conf::conference::State;
use allot_core::conf::read::ShownState;
use allot_core::conf::request::{Request, UnitRequest};

/// Two units with leases of 5 s, and an open conference for each number; the odd ones are on a.
fn rig(numbers: usize) -> Rig {
    let mut rig = Rig::new(&[]);
    for cmu in ["a:1:1", "b:1:1"] {
        let cmu = cmu.as_bytes();
        let join = UnitRequest::Join { cmu, capacity: 90, zone: None, tags: &[], lease: 5000, machine: None };
        rig.ask(&Request::Unit(join)).unwrap();
    }
    for number in 1..=numbers {
        rig.open(&number.to_string());
    }
    rig
}

/// All numbers of a listing, in pages of 2.
fn numbers(rig: &Rig, state: Option<ShownState>, cmu: Option<&str>) -> String {
    let unit = cmu.map(|cmu| rig.realm.find_unit(cmu.as_bytes()).unwrap());
    let (mut found, mut cursor) = (Vec::new(), 0);
    loop {
        let (page, next) = rig.realm.list(state, unit, cursor, 2);
        found.extend(page.iter().map(|one| String::from_utf8_lossy(&one.e164).into_owned()));
        if next == 0 {
            return found.join(" ");
        }
        cursor = next;
    }
}

#[test]
fn open_conferences_of_a_silent_unit_are_lost_until_it_is_heard_or_down() {
    let mut rig = rig(6);
    let states = |rig: &Rig| {
        let listed = [ShownState::Open, ShownState::Lost, ShownState::Pending];
        let listed = listed.map(|state| numbers(rig, Some(state), None));
        let totals = rig.realm.totals();
        let count = |numbers: &String| numbers.split_whitespace().count();
        let [open, lost, pending] = listed.each_ref().map(count);
        let counted =
            (totals.states[State::Open as usize], totals.lost, totals.states[State::Pending as usize]);
        assert_eq!((open, lost, pending), counted, "listing and totals agree");
        listed.join(" / ")
    };
    assert_eq!(states(&rig), "1 2 3 4 5 6 /  / ");
    rig.pass(4000);
    rig.beat("b:1:1");
    rig.pass(1000);
    assert_eq!(states(&rig), "2 4 6 / 1 3 5 / ");
    assert_eq!(numbers(&rig, None, None), "1 2 3 4 5 6");
    assert_eq!(numbers(&rig, None, Some("a:1:1")), "1 3 5");
    assert_eq!(numbers(&rig, Some(ShownState::Lost), Some("a:1:1")), "1 3 5");
    assert_eq!(numbers(&rig, Some(ShownState::Open), Some("a:1:1")), "");
    rig.beat("a:1:1");
    assert_eq!(states(&rig), "1 2 3 4 5 6 /  / ");
    rig.pass(5000);
    rig.down("a:1:1");
    assert_eq!(states(&rig), " / 2 4 6 / 1 3 5");
    rig.check();
}

#[test]
fn each_state_is_shown_by_its_word_and_only_open_ones_are_lost() {
    let words: Vec<&str> = ShownState::ALL.iter().map(|state| state.word()).collect();
    assert!(State::ALL.iter().all(|state| words.contains(&state.word())));
    let mut rig = rig(1);
    rig.create("2");
    rig.pass(5000);
    let shown = |e164: &str| rig.realm.shown_state(rig.one(e164));
    assert_eq!((shown("1"), shown("2")), (ShownState::Lost, ShownState::Creating));
}
