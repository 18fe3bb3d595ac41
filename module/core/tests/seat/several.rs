//! The same seats in several shows, sentence by sentence of docs/seats.md.

use super::house::{House, area, wish};
use super::rig::Random;
use allot_core::seat::decide::several::{At, Refused, Several, decide_in_all};
use allot_core::seat::request::{AddBest, Hold, NamedWish, Need, Orphans, Pick, Request};
use allot_core::seat::{Reply, Show};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use serde_json::json;

/// The legs of a train, or the evenings of a season.
struct Tour(Vec<House>);

impl Tour {
    /// Shows of one plan, with one area `a` of these rows.
    fn of(count: usize, rows: &[&str]) -> Self {
        Self((0..count).map(|_| House::rows("ltr", rows)).collect())
    }

    fn map(&self) -> Vec<String> {
        self.0.iter().map(House::map).collect()
    }

    /// Asks the shows of this range; the shows of `beside` are beside.
    fn ask(
        &mut self,
        shows: std::ops::Range<usize>,
        beside: &[usize],
        request: &Request<'_>,
    ) -> Result<Reply, Refused> {
        let at: Vec<At<'_>> =
            self.0[shows.clone()].iter().map(|house| At { show: &house.show, now: house.now }).collect();
        let beside: Vec<&Show> = beside.iter().map(|&place| &self.0[place].show).collect();
        let decisions = decide_in_all(&Several { first: at[0], also: &at[1..], beside: &beside }, request)?;
        for (house, decision) in self.0[shows].iter_mut().zip(&decisions) {
            for event in &decision.events {
                house.show.admits(event).unwrap();
                house.show.apply(house.now, event);
            }
            house.show.check().unwrap();
        }
        Ok(decisions[0].reply.clone())
    }

    fn hold(
        &mut self,
        shows: std::ops::Range<usize>,
        beside: &[usize],
        token: &str,
        count: u32,
    ) -> Result<Reply, Refused> {
        self.ask(shows, beside, &Request::Hold(named(wish("ann", count), token)))
    }
}

fn named<'a>(hold: Hold<'a>, token: &'a str) -> Hold<'a> {
    Hold { token: TokenChoice { token: token.as_bytes(), chosen: true }, ..hold }
}

fn pick<'a>(token: &'a str, seats: &[&'a str]) -> Request<'a> {
    let token = TokenChoice { token: token.as_bytes(), chosen: true };
    let seats = seats.iter().map(|seat| seat.as_bytes()).collect();
    Request::Pick(Pick { user: b"ann", ttl: 1000, token, orphans: None, from: None, seats, exchange: vec![] })
}

#[test]
fn best_seats_are_those_that_are_free_in_all_shows() {
    let mut tour = Tour::of(3, &["......", "......"]);
    tour.0[1].block(&["a-1-2"]);
    tour.0[2].block(&["a-1-5", "a-1-6"]);
    tour.hold(0..3, &[], "t", 3).unwrap();
    assert_eq!(tour.map(), ["....../hhh...", ".x..../hhh...", "....xx/hhh..."]);
    tour.hold(0..3, &[], "u", 2).unwrap();
    assert_eq!(tour.map()[1], ".xhh../hhh...");
    // Where one show is not asked, its seats do not count.
    tour.hold(0..1, &[], "v", 2).unwrap();
    assert_eq!(tour.map()[0], "hhhh../hhh...");
    let nothing = tour.hold(0..3, &[], "w", 7);
    assert_eq!(nothing, Ok(Reply::None));
    let confirm = |token| Request::Confirm { token, user: None, order: None };
    assert_eq!(tour.ask(0..3, &[], &confirm(b"t")), Ok(Reply::Integer(3)));
    assert_eq!(tour.map(), ["hhhh../sss...", ".xhh../sss...", "..hhxx/sss..."]);
}

#[test]
fn seats_with_other_numbers_are_the_same_by_their_ids() {
    let of = |areas: &[serde_json::Value]| House::new(&json!({"areas": areas}));
    let (a, b) = (area("a", 1, "ltr", &["...."]), area("b", 2, "ltr", &["...."]));
    let mut tour = Tour(vec![of(&[a.clone(), b.clone()]), of(&[b, a])]);
    tour.0[1].block(&["a-1-1"]);
    tour.hold(0..2, &[], "t", 3).unwrap();
    assert_eq!(tour.map(), [".hhh/....", "..../xhhh"]);
}

#[test]
fn show_that_refuses_is_named_and_nothing_changes_anywhere() {
    let mut tour = Tour::of(3, &["...."]);
    tour.0[2].block(&["a-1-2"]);
    let before = tour.map();
    let (place, refusal) = tour.ask(0..3, &[], &pick("t", &["a-1-1", "a-1-2"])).unwrap_err();
    assert_eq!((place, refusal.code), (2, Code::BadState));
    assert_eq!(tour.map(), before);
    tour.hold(0..3, &[], "t", 1).unwrap();
    tour.0[1].release("t").unwrap();
    let before = tour.map();
    for request in [
        Request::Extend { token: b"t", ttl: 500 },
        Request::Confirm { token: b"t", user: None, order: None },
        Request::Release { token: b"t", seats: None, into: None },
    ] {
        let (place, refusal) = tour.ask(0..3, &[], &request).unwrap_err();
        assert_eq!((place, refusal.code), (1, Code::NotFound), "{request:?}");
    }
    assert_eq!(tour.map(), before);
}

#[test]
fn retry_gets_its_hold_and_holds_the_seats_where_they_are_not_held() {
    let mut tour = Tour::of(3, &["...."]);
    let first = tour.hold(0..2, &[], "t", 2).unwrap();
    let before = tour.map();
    assert_eq!(tour.hold(0..2, &[], "t", 2), Ok(first.clone()));
    assert_eq!(tour.map(), before);
    assert_eq!(tour.hold(0..3, &[], "t", 2), Ok(first));
    assert_eq!(tour.map(), ["hh..", "hh..", "hh.."]);
    // A token with other seats elsewhere is not this request's.
    tour.0[1].release("t").unwrap();
    tour.0[1].pick("ann", "t", &["a-1-4"]).unwrap();
    let (place, refusal) = tour.hold(0..3, &[], "t", 2).unwrap_err();
    assert_eq!((place, refusal.code), (1, Code::Exists));
}

#[test]
fn seats_are_added_to_a_cart_in_all_shows() {
    let mut tour = Tour::of(2, &["......"]);
    tour.hold(0..2, &[], "t", 2).unwrap();
    tour.0[1].block(&["a-1-3"]);
    let add = AddBest { hold: named(wish("ann", 2), "t"), once: Some(b"1") };
    let request = Request::AddBest(add);
    tour.ask(0..2, &[], &request).unwrap();
    assert_eq!(tour.map(), ["hh.hh.", "hhxhh."]);
    tour.ask(0..2, &[], &request).unwrap();
    assert_eq!(tour.map(), ["hh.hh.", "hhxhh."]);
}

#[test]
fn of_the_runs_of_an_area_the_one_that_is_taken_beside_is_preferred() {
    let mut tour = Tour::of(3, &["......", "......"]);
    tour.0[0].block(&["a-2-3", "a-2-4"]);
    tour.0[2].block(&["a-2-4"]);
    tour.hold(1..2, &[0, 2], "t", 2).unwrap();
    assert_eq!(tour.map()[1], "....../..hh..");
    // A run that strands a seat comes last.
    let mut tour = Tour::of(2, &["....", "...."]);
    tour.0[1].block(&["a-2-2", "a-2-3"]);
    tour.hold(0..1, &[1], "t", 2).unwrap();
    assert_eq!(tour.map()[0], "..../hh..");
}

#[test]
fn shows_that_are_too_large_together_are_not_searched() {
    let row =
        |label: usize| json!({"label": label.to_string(), "rank": label, "tier": "t", "seats": "1-4000"});
    let rows: Vec<serde_json::Value> = (0..11).map(row).collect();
    let of = |ids: [&str; 2]| {
        let areas = ids.map(|id| json!({"id": id, "rows": if id == "a" { &rows[..] } else { &rows[..1] }}));
        House::new(&json!({"areas": areas, "limits": {"holds_per_user": 0}}))
    };
    let mut tour = Tour(vec![of(["a", "b"]), of(["a", "b"]), of(["b", "a"]), of(["b", "a"])]);
    tour.hold(0..2, &[], "t", 2).unwrap();
    let (place, refusal) = tour.hold(0..4, &[], "u", 2).unwrap_err();
    assert_eq!((place, refusal.code), (0, Code::Limit), "{}", refusal.text);
    tour.ask(0..4, &[], &pick("u", &["a-1-9"])).unwrap();
}

#[test]
fn party_with_needs_sees_no_seat_that_is_taken_in_another_show() {
    let seat = |label: &str, flags: &[&str]| json!({"label": label, "flags": flags});
    let row = |label: &str, seats: serde_json::Value| json!({"label": label, "rank": 1, "tier": "t", "seats": seats});
    let rows = [row("1", json!([seat("1", &[]), seat("2", &["wheelchair"])])), row("2", json!("1"))];
    let plan = json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}});
    let mut tour = Tour(vec![House::new(&plan), House::new(&plan)]);
    tour.0[1].block(&["a-1-1"]);
    let party = |token, count, orphans| {
        let needs = vec![Need { count: 1, flag: &b"wheelchair"[..] }];
        let wish = NamedWish { needs, orphans, ..wish("ann", count).wish };
        Request::Hold(named(Hold { wish, ..self::wish("ann", count) }, token))
    };
    tour.ask(0..2, &[], &party("t", 2, Orphans::Avoid)).unwrap();
    assert_eq!(tour.map(), [".h/h", "xh/h"]);
    tour.ask(0..2, &[], &Request::Release { token: b"t", seats: None, into: None }).unwrap();
    // Nor is it left alone by one who takes the wheelchair only.
    tour.ask(0..2, &[], &party("u", 1, Orphans::Forbid)).unwrap();
    assert_eq!(tour.map(), [".h/.", "xh/."]);
}

/// A train of one coach is sold by random journeys. Returns how many legs passengers travel.
fn sold_legs(beside: bool, seed: u64) -> usize {
    let (legs, mut random, mut carried) = (20, Random::new(seed), 0);
    let mut train = Tour::of(legs, &[".. .."; 8]);
    for journey in 0..600 {
        let from = random.below(legs);
        let to = (from + 1 + random.below(8)).min(legs);
        let neighbours: Vec<usize> = if beside {
            from.checked_sub(1).into_iter().chain((to < legs).then_some(to)).collect()
        } else {
            Vec::new()
        };
        let token = format!("j{journey}");
        let count = random.pick(&[1, 1, 1, 2]);
        match train.hold(from..to, &neighbours, &token, count) {
            Ok(Reply::Hold(_)) => carried += (to - from) * count as usize,
            Ok(Reply::None) => {}
            other => panic!("{other:?}"),
        }
    }
    carried
}

#[test]
fn train_that_prefers_seats_taken_beside_carries_more() {
    let sum = |beside| (0..10).map(|seed| sold_legs(beside, seed)).sum::<usize>();
    let (with, without) = (sum(true), sum(false));
    println!("passenger-legs: {without} without BESIDE, {with} with it");
    assert!(with > without, "{with} passenger-legs with BESIDE, {without} without");
}
