//! Moves that even out the used share of the units: few of them, none against the wishes of a conference, and none that
//! another undoes.

use super::random::{Random, cases};
use super::rig::{Rig, wish};
use allot_core::conf::Reply;
use allot_core::conf::outcome::PlannedMove;
use allot_core::conf::request::{
    ClientRequest, Create, Request, SchedulerRequest, UnitRequest, WishesRequest,
};

fn rebalance(rig: &mut Rig, most: i64, dry_run: bool) -> Vec<PlannedMove> {
    let request = SchedulerRequest::Rebalance { most, dry_run };
    match rig.ask(&Request::Scheduler { term: None, request }).unwrap() {
        Reply::Rebalanced(moves) => moves,
        other => panic!("{other:?}"),
    }
}

/// The targets open what moves to them.
fn complete(rig: &mut Rig, moves: &[PlannedMove]) {
    for planned in moves {
        let (e164, to) =
            (std::str::from_utf8(&planned.e164).unwrap(), std::str::from_utf8(&planned.to).unwrap());
        let epoch = rig.one(e164).moving.as_ref().unwrap().epoch;
        assert_eq!(rig.ack(e164, to, epoch), "Ok");
    }
}

fn open(rig: &mut Rig, e164: &str, size: i64, wishes: WishesRequest<'_>) {
    rig.ask(&Request::Client(ClientRequest::Create(Create { size, wishes, ..wish(e164) }))).unwrap();
    let (owner, epoch) = (rig.owner(e164), rig.epoch(e164));
    rig.ack(e164, &owner, epoch);
}

fn join(rig: &mut Rig, cmu: &str, capacity: i64, zone: Option<&[u8]>, tags: &[&[u8]]) {
    let cmu = cmu.as_bytes();
    rig.ask(&Request::Unit(UnitRequest::Join { cmu, capacity, zone, tags, lease: 3_600_000, machine: None }))
        .unwrap();
}

fn used(rig: &Rig) -> Vec<u64> {
    rig.realm.units().map(|unit| unit.used).collect()
}

#[test]
fn new_unit_gets_its_part_with_the_fewest_moves() {
    let mut rig = Rig::new(&["a:1:1", "b:1:1"]);
    for e164 in 0..12 {
        open(&mut rig, &e164.to_string(), 1, WishesRequest::default());
    }
    rig.join("c:1:1", 10);
    let planned = rebalance(&mut rig, 100, true);
    assert_eq!((planned.len(), used(&rig)), (4, vec![6, 6, 0]), "a dry run changes nothing");
    // Part by part, also while moves are in progress.
    let mut moves = rebalance(&mut rig, 1, false);
    moves.extend(rebalance(&mut rig, 100, false));
    assert_eq!(moves, planned);
    assert_eq!(rebalance(&mut rig, 100, false), []);
    complete(&mut rig, &moves);
    assert_eq!((used(&rig), rebalance(&mut rig, 100, true)), (vec![4, 4, 4], vec![]));
    rig.check();
}

#[test]
fn shares_of_the_capacity_are_evened_out_and_great_conferences_first() {
    let mut rig = Rig::new(&["a:1:1"]);
    for (e164, size) in [("1", 1), ("2", 4), ("3", 1), ("4", 4)] {
        open(&mut rig, e164, size, WishesRequest::default());
    }
    rig.join("b:1:1", 20);
    let moves = rebalance(&mut rig, 100, false);
    complete(&mut rig, &moves);
    assert_eq!((moves.len(), used(&rig)), (2, vec![2, 8]));
    assert_eq!(rebalance(&mut rig, 100, true), []);
}

#[test]
fn moves_keep_to_wishes_and_to_units_that_take_conferences() {
    let mut rig = Rig::new(&[]);
    join(&mut rig, "a:1:1", 10, Some(b"east"), &[b"hd"]);
    let zone = WishesRequest { zone: Some(Some(b"east")), ..WishesRequest::default() };
    let tag = WishesRequest { require: Some(&[b"hd"]), ..WishesRequest::default() };
    let preferred = WishesRequest { prefer: Some(&[b"hd"]), ..WishesRequest::default() };
    let host = WishesRequest { host: Some(Some(b"a")), ..WishesRequest::default() };
    for (e164, wishes) in [("1", zone), ("2", tag), ("3", preferred), ("4", host)] {
        open(&mut rig, e164, 1, wishes);
    }
    join(&mut rig, "b:1:1", 10, Some(b"west"), &[]);
    assert_eq!(rebalance(&mut rig, 100, true), []);
    join(&mut rig, "c:1:1", 10, Some(b"west"), &[b"hd"]);
    let to_c = |planned: &PlannedMove| (planned.e164[0], &*planned.to == b"c:1:1");
    let moves: Vec<_> = rebalance(&mut rig, 100, true).iter().map(to_c).collect();
    assert!(moves == [(b'3', true), (b'2', true)] || moves == [(b'2', true), (b'3', true)], "{moves:?}");
    rig.ask(&Request::Unit(UnitRequest::Leave { cmu: b"c:1:1" })).unwrap();
    assert_eq!(rebalance(&mut rig, 100, true), []);
}

#[test]
fn number_of_moves_has_a_range() {
    let mut rig = Rig::new(&["a:1:1"]);
    for most in [0, -1, 1001] {
        let request = SchedulerRequest::Rebalance { most, dry_run: false };
        assert_eq!(rig.code(&Request::Scheduler { term: None, request }), "ERR", "{most}");
    }
}

#[test]
fn random_loads_become_even_with_the_fewest_moves() {
    for seed in 0..u64::from(cases() / 10) {
        let mut random = Random::new(seed);
        let mut rig = Rig::new(&[]);
        let units = 2 + random.below(5);
        let mut count = 0;
        for unit in 0..units {
            rig.join(&format!("u{unit}:1:1"), 1000);
            for _ in 0..random.below(30) {
                count += 1;
                let host = format!("u{unit}");
                let wishes = WishesRequest { host: Some(Some(host.as_bytes())), ..WishesRequest::default() };
                let e164 = count.to_string();
                open(&mut rig, &e164, 1, wishes);
                let wishes = WishesRequest { host: Some(None), ..WishesRequest::default() };
                rig.ask(&Request::Client(ClientRequest::Alter { e164: e164.as_bytes(), wishes })).unwrap();
            }
        }
        let before = used(&rig);
        let (low, high) = (count / units as u64, count.div_ceil(units as u64));
        // What is above the greater even number must go, and what is below the smaller must come.
        let above: u64 = before.iter().map(|used| used.saturating_sub(high)).sum();
        let below: u64 = before.iter().map(|used| low.saturating_sub(*used)).sum();
        let moves = rebalance(&mut rig, 1000, false);
        complete(&mut rig, &moves);
        let after = used(&rig);
        assert!(after.iter().all(|used| (low..=high).contains(used)), "{before:?} became {after:?}");
        assert_eq!(moves.len() as u64, above.max(below), "{before:?} became {after:?}");
        rig.check();
    }
}
