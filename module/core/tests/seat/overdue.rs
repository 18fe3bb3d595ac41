//! Overdue holds and blocks: a request ends those that its decision depends on, and no others.

use super::house::{House, wish};
use allot_core::seat::plan::{self, PickOrphans, PlanPart};
use allot_core::seat::request::{Adjacent, Hold, Need, Orphans, Pick, Replace, Request};
use allot_core::seat::{Reply, decide, decide_overdue};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::TokenChoice;
use serde_json::{Value, json};

/// A show of two areas, gold and silver, in which all seats of `held` are held until 1000, four seats a hold.
fn overdue_house(held: &[&str]) -> House {
    let rows = |tier: &str| -> Vec<Value> {
        let row = |row: usize| json!({"label": row.to_string(), "rank": row, "tier": tier, "seats": "1-400"});
        (0..10).map(row).collect()
    };
    let area = |tier: &str| json!({"id": tier, "rows": rows(tier)});
    let plan = json!({"areas": [area("gold"), area("silver")], "limits": {"holds_per_user": 0}});
    let mut house = House::new(&plan);
    for tier in held {
        for _ in 0..1000 {
            house.hold(Hold { tier: Some(tier.as_bytes()), ttl: 999, ..wish("ann", 4) });
        }
    }
    house.now = 2000;
    house
}

/// How many overdue holds expire for a request, and its answer.
fn expired_for(house: &House, request: &Request<'_>) -> (usize, Result<Reply, Refusal>) {
    let (mut show, mut expired) = (house.show.clone(), 0);
    loop {
        let events = decide_overdue(&show, house.now, request);
        if events.is_empty() {
            return (expired, decide(&show, house.now, request).map(|decision| decision.reply));
        }
        expired += events.len();
        events.iter().for_each(|event| show.apply(house.now, event));
    }
}

#[test]
fn a_request_expires_only_the_holds_it_depends_on() {
    let token = TokenChoice { token: b"new", chosen: true };
    let house = overdue_house(&["gold"]);
    let (expired, answer) = expired_for(&house, &Request::Hold(Hold { token, ..wish("bob", 4) }));
    assert!(expired == 0 && matches!(answer, Ok(Reply::Hold(_))), "there are free seats of silver");
    let gold = Hold { tier: Some(b"gold"), token, ..wish("bob", 4) };
    for (adjacent, orphans, most) in [
        (Adjacent::Prefer, Orphans::Avoid, 100),
        (Adjacent::Require, Orphans::Avoid, 200),
        (Adjacent::Require, Orphans::Forbid, 200),
        (Adjacent::Area, Orphans::Avoid, 100),
        (Adjacent::Ignore, Orphans::Allow, 100),
    ] {
        let (expired, answer) =
            expired_for(&house, &Request::Hold(Hold { adjacent, orphans, ..gold.clone() }));
        assert!((1..=most).contains(&expired), "{expired} holds expired for {adjacent:?}");
        let Ok(Reply::Hold(record)) = answer else { panic!("{adjacent:?}: {answer:?}") };
        assert_eq!(record.seats.len(), 4);
    }
    let pick = Pick {
        user: b"bob",
        ttl: 1000,
        token,
        orphans: None,
        from: None,
        seats: vec![b"gold-3-7", b"gold-9-400"],
    };
    let (expired, answer) = expired_for(&house, &Request::Pick(pick));
    assert!(expired == 2 && matches!(answer, Ok(Reply::Hold(_))), "{answer:?}");
    let (expired, answer) = expired_for(&house, &Request::Block(vec![b"gold-0-1", b"gold-0-2"]));
    assert_eq!((expired, answer), (1, Ok(Reply::Integer(2))));
    let (expired, answer) = expired_for(&house, &Request::Confirm { token: b"t7", user: None, order: None });
    assert_eq!((expired, answer.map_err(|refusal| refusal.code)), (1, Err(Code::NotFound)));
}

#[test]
fn overdue_holds_elsewhere_do_not_expire_for_a_request_in_vain() {
    let mut house = overdue_house(&["gold"]);
    let silver: Vec<String> =
        (0..10).flat_map(|row| (1..=400).map(move |seat| format!("silver-{row}-{seat}"))).collect();
    let request = Request::Block(silver.iter().map(String::as_bytes).collect());
    let decision = decide(&house.show, house.now, &request).unwrap();
    decision.events.iter().for_each(|event| house.show.apply(house.now, event));
    let token = TokenChoice { token: b"new", chosen: true };
    let silver = Hold { tier: Some(b"silver"), token, ..wish("bob", 4) };
    assert_eq!(expired_for(&house, &Request::Hold(silver)), (0, Ok(Reply::None)));
}

#[test]
fn a_hold_in_the_best_area_expires_holds_of_one_row() {
    let house = overdue_house(&["gold", "silver"]);
    let token = TokenChoice { token: b"new", chosen: true };
    let best_area =
        |count| Hold { adjacent: Adjacent::Area, orphans: Orphans::Forbid, token, ..wish("bob", count) };
    let (expired, answer) = expired_for(&house, &Request::Hold(best_area(40)));
    assert!((10..=100).contains(&expired) && matches!(answer, Ok(Reply::Hold(_))), "{expired}: {answer:?}");
    // Four seats of each row of silver stay free, and each is single.
    let mut house = overdue_house(&["gold"]);
    let kept: Vec<String> =
        (0..10).flat_map(|row| (0..4).map(move |seat| format!("silver-{row}-{}", seat * 100 + 1))).collect();
    for seat in 1..=400 {
        let seats: Vec<String> = (0..10).map(|row| format!("silver-{row}-{seat}")).collect();
        let seats: Vec<&[u8]> =
            seats.iter().filter(|seat| !kept.contains(seat)).map(String::as_bytes).collect();
        if !seats.is_empty() {
            let decision = decide(&house.show, house.now, &Request::Block(seats)).unwrap();
            decision.events.iter().for_each(|event| house.show.apply(house.now, event));
        }
    }
    let silver = Hold { tier: Some(b"silver"), ..best_area(4) };
    let (expired, answer) = expired_for(&house, &Request::Hold(silver));
    assert_eq!((expired, answer.unwrap_err().code), (0, Code::NoAdjacent));
}

#[test]
fn a_change_of_tiers_expires_only_holds_of_its_rows() {
    let house = overdue_house(&["gold", "silver"]);
    let alter = |part: Value| Request::Alter(plan::parse::<PlanPart>(part.to_string().as_bytes()).unwrap());
    let row = json!({"label": "3", "tier": "silver"});
    let (expired, answer) = expired_for(&house, &alter(json!({"areas": [{"id": "gold", "rows": [row]}]})));
    assert_eq!((expired, answer), (100, Ok(Reply::Ok)));
    let (expired, answer) = expired_for(&house, &alter(json!({"areas": [{"id": "gold", "name": "Gold"}]})));
    assert_eq!((expired, answer), (0, Ok(Reply::Ok)));
}

#[test]
fn change_of_seats_expires_only_holds_of_these_seats_and_rows() {
    let house = overdue_house(&["gold", "silver"]);
    let of_gold = |change: Value| {
        let mut part = json!({"areas": [{"id": "gold"}]});
        part["areas"][0].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Request::Alter(plan::parse::<PlanPart>(part.to_string().as_bytes()).unwrap())
    };
    let seats = json!({"remove_seats": ["gold-3-7", "gold-4-400"]}).to_string();
    let remove = Request::Alter(plan::parse::<PlanPart>(seats.as_bytes()).unwrap());
    let row = json!({"label": "3", "rank": 3, "tier": "gold", "seats": "1-8"});
    for (request, holds) in [
        (remove, 2),
        (of_gold(json!({"remove_rows": ["3", "4"]})), 200),
        (of_gold(json!({"put_rows": [row]})), 100),
        (of_gold(json!({"rows": [{"label": "3", "rank": 70}]})), 0),
    ] {
        assert_eq!(expired_for(&house, &request), (holds, Ok(Reply::Ok)), "{request:?}");
    }
}

/// A show of two areas, gold and silver. All seats of gold are in blocks of 40 seats that ended together: `b30` has the
/// seats 1 to 40 of row 3, `b31` the next ones.
fn house_of_ended_blocks() -> House {
    let mut house = overdue_house(&[]);
    for block in 0..100 {
        let (row, first) = (block / 10, block % 10 * 40 + 1);
        let seats: Vec<String> = (first..first + 40).map(|seat| format!("gold-{row}-{seat}")).collect();
        let seats = seats.iter().map(String::as_bytes).collect();
        let name = format!("b{block}");
        let until = Some(house.now + 50);
        house.ask(&Request::BlockIn { name: Some(name.as_bytes()), until, seats }).unwrap();
    }
    house.now += 50;
    house
}

#[test]
fn a_request_ends_only_the_blocks_it_depends_on() {
    let token = TokenChoice { token: b"new", chosen: true };
    let house = house_of_ended_blocks();
    let pick = |orphans, seats: &[&'static [u8]]| {
        let seats = seats.to_vec();
        Request::Pick(Pick { user: b"bob", ttl: 1000, token, orphans, from: None, seats })
    };
    let press = |seat: &'static [u8]| Request::BlockIn { name: Some(b"b9"), until: None, seats: vec![seat] };
    let from = Hold { from: Some(b"b7"), token, ..wish("bob", 1) };
    let pick_from = Request::Pick(Pick {
        user: b"bob",
        ttl: 1000,
        token,
        orphans: None,
        from: Some(b"b7"),
        seats: vec![b"silver-0-1"],
    });
    let cases: [(Request<'_>, usize, Option<Code>); 13] = [
        (Request::Extend { token: b"t", ttl: 10 }, 0, Some(Code::NotFound)),
        (Request::Unwait(b"t"), 0, Some(Code::NotFound)),
        (Request::Refund { order: None, seats: vec![b"gold-0-1"] }, 0, Some(Code::BadState)),
        (Request::Hold(Hold { token, ..wish("bob", 4) }), 0, None),
        (pick(None, &[b"gold-3-7", b"gold-3-8"]), 1, None),
        (pick(None, &[b"gold-3-40", b"gold-3-41"]), 2, None),
        // Seat 41 stays free beside the picked one, and so it is not single.
        (pick(Some(PickOrphans::Forbid), &[b"gold-3-40"]), 2, None),
        (Request::Block(vec![b"gold-0-1"]), 1, None),
        (Request::Unblock(vec![b"gold-0-1"]), 1, Some(Code::BadState)),
        (Request::EndBlock(b"b8"), 1, Some(Code::NotFound)),
        (press(b"silver-0-1"), 1, None),
        (Request::Hold(from), 1, Some(Code::NotFound)),
        (pick_from, 1, Some(Code::NotFound)),
    ];
    for (request, blocks, code) in cases {
        let (ended, answer) = expired_for(&house, &request);
        assert_eq!((ended, answer.err().map(|refusal| refusal.code)), (blocks, code), "{request:?}");
    }
}

#[test]
fn a_hold_that_finds_no_seats_ends_blocks_until_it_does() {
    let token = TokenChoice { token: b"new", chosen: true };
    let house = house_of_ended_blocks();
    let gold = |count| Request::Hold(Hold { tier: Some(b"gold"), token, ..wish("bob", count) });
    let (ended, answer) = expired_for(&house, &gold(4));
    assert!((1..=20).contains(&ended) && matches!(answer, Ok(Reply::Hold(_))), "{ended}: {answer:?}");
    let more = Hold { adjacent: Adjacent::Require, tier: Some(b"gold"), token, ..wish("bob", 100) };
    let (ended, answer) = expired_for(&house, &Request::Hold(more));
    assert!((3..=100).contains(&ended) && matches!(answer, Ok(Reply::Hold(_))), "{ended}: {answer:?}");
}

#[test]
fn an_exchange_ends_the_block_of_the_seats_that_are_given_up() {
    let mut house = overdue_house(&[]);
    let until = Some(house.now + 50);
    let row: Vec<String> = (1..=40).map(|seat| format!("gold-0-{seat}")).collect();
    for (name, seats) in [(b"agent", &row[..20]), (b"press", &row[20..])] {
        let seats = seats.iter().map(String::as_bytes).collect();
        house.ask(&Request::BlockIn { name: Some(name), until, seats }).unwrap();
    }
    let old = TokenChoice { token: b"old", chosen: true };
    house.hold(Hold { from: Some(b"agent"), token: old, ..wish("bob", 2) });
    house.now += 50;
    let replace = Some(Replace { token: b"old", other: false });
    let token = TokenChoice { token: b"new", chosen: true };
    let exchange = Request::Hold(Hold { tier: Some(b"gold"), replace, token, ..wish("bob", 3) });
    let (ended, answer) = expired_for(&house, &exchange);
    assert!(matches!(answer, Ok(Reply::Hold(_))), "{answer:?}");
    assert_eq!(
        ended, 1,
        "the seats of the old hold are free for the new one, and those of the press are not needed"
    );
}

#[test]
fn a_block_that_has_ended_does_not_count_as_one_of_the_most_blocks() {
    let row = |row: usize| json!({"label": row.to_string(), "rank": row, "tier": "gold", "seats": "1-4000"});
    let rows: Vec<Value> = (0..3).map(row).collect();
    let mut house = House::new(&json!({"areas": [{"id": "gold", "rows": rows}]}));
    for block in 0..10_000 {
        let (name, seat) = (format!("b{block}"), format!("gold-{}-{}", block / 4000, block % 4000 + 1));
        let (until, seats) = (Some(if block == 77 { 50 } else { 100 }), vec![seat.as_bytes()]);
        house.ask(&Request::BlockIn { name: Some(name.as_bytes()), until, seats }).unwrap();
    }
    let one_more = Request::BlockIn { name: Some(b"more"), until: None, seats: vec![b"gold-2-4000"] };
    let (ended, answer) = expired_for(&house, &one_more);
    assert_eq!((ended, answer.map_err(|refusal| refusal.code)), (0, Err(Code::Limit)));
    house.now = 50;
    assert_eq!(expired_for(&house, &one_more), (1, Ok(Reply::Integer(1))));
}

/// A show of one area with 40 rows of 50 seats, each seat in a hold of its own until 1000. Every tenth seat is for
/// wheelchairs.
fn house_of_single_holds() -> House {
    let seat = |seat: usize| {
        let flags = if seat.is_multiple_of(10) { vec!["wheelchair"] } else { vec![] };
        json!({"label": seat.to_string(), "flags": flags})
    };
    let row = |row: usize| json!({"label": row.to_string(), "rank": row, "tier": "gold", "seats": (0..50).map(seat).collect::<Vec<_>>()});
    let rows: Vec<Value> = (0..40).map(row).collect();
    let mut house =
        House::new(&json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}}));
    for seat in 0..2000 {
        let (id, token) = (format!("a-{}-{}", seat / 50, seat % 50), format!("h{seat}"));
        house.pick("ann", &token, &[&id]).unwrap();
    }
    house.now = 2000;
    house
}

#[test]
fn holds_that_would_not_help_a_party_do_not_end() {
    let token = TokenChoice { token: b"new", chosen: true };
    let house = house_of_single_holds();
    let wheelchairs = |count| vec![Need { count, flag: b"wheelchair" }];
    let party = |count, needed| Hold { needs: wheelchairs(needed), token, ..wish("bob", count) };
    for (adjacent, orphans) in [
        (Adjacent::Require, Orphans::Avoid),
        (Adjacent::Prefer, Orphans::Forbid),
        (Adjacent::Area, Orphans::Forbid),
    ] {
        // No two seats for wheelchairs are side by side.
        let apart = Request::Hold(Hold { adjacent, orphans, ..party(4, 2) });
        let (ended, answer) = expired_for(&house, &apart);
        assert_eq!(answer.map_err(|refusal| refusal.code), Err(Code::NoAdjacent), "{adjacent:?}");
        assert!(ended <= 4, "{ended} holds ended in vain for {adjacent:?}");
        let together = Request::Hold(Hold { adjacent, orphans, ..party(4, 1) });
        let (ended, answer) = expired_for(&house, &together);
        assert!(matches!(answer, Ok(Reply::Hold(_))), "{adjacent:?}: {answer:?}");
        assert!((4..=12).contains(&ended), "{ended} holds ended for {adjacent:?}");
    }
    // Only the seats for wheelchairs are missing.
    let mut house = house_of_single_holds();
    let sold = |seat: &usize| seat.is_multiple_of(10);
    for seat in (0..2000).filter(sold) {
        house.now = 900;
        house.confirm(&format!("h{seat}"), None).unwrap();
    }
    house.now = 2000;
    assert_eq!(expired_for(&house, &Request::Hold(party(4, 1))), (0, Ok(Reply::None)));
}

#[test]
fn a_hold_ends_only_the_holds_of_its_run_and_beside_it() {
    let token = TokenChoice { token: b"new", chosen: true };
    let house = house_of_single_holds();
    for orphans in [Orphans::Allow, Orphans::Avoid, Orphans::Forbid] {
        let hold = Hold { adjacent: Adjacent::Require, orphans, token, ..wish("bob", 4) };
        let (ended, answer) = expired_for(&house, &Request::Hold(hold));
        assert!(matches!(answer, Ok(Reply::Hold(_))), "{orphans:?}: {answer:?}");
        assert!((4..=8).contains(&ended), "{ended} holds ended for {orphans:?}");
    }
    let long = Hold { adjacent: Adjacent::Require, token, ..wish("bob", 10) };
    let (ended, answer) = expired_for(&house, &Request::Hold(long));
    assert_eq!(answer.map_err(|refusal| refusal.code), Err(Code::NoAdjacent), "the row has runs of nine");
    assert!(ended <= 10, "{ended} holds ended in vain");
}

#[test]
fn blocks_that_would_not_help_a_hold_do_not_end() {
    let token = TokenChoice { token: b"new", chosen: true };
    // Every second seat of gold is in a block that has ended, ten seats a block; the others are sold.
    let mut house = overdue_house(&[]);
    for block in 0..200 {
        let seats: Vec<String> =
            (0..10).map(|seat| format!("gold-{}-{}", block / 20, block % 20 * 20 + seat * 2 + 1)).collect();
        let (name, seats) = (format!("b{block}"), seats.iter().map(String::as_bytes).collect());
        let until = Some(house.now + 50);
        house.ask(&Request::BlockIn { name: Some(name.as_bytes()), until, seats }).unwrap();
    }
    for row in 0..10 {
        let seats: Vec<String> = (1..=200).map(|seat| format!("gold-{row}-{}", seat * 2)).collect();
        house.ask(&Request::Block(seats.iter().map(String::as_bytes).collect())).unwrap();
    }
    house.now += 50;
    let gold = Hold { tier: Some(b"gold"), token, ..wish("bob", 4) };
    let apart = Hold { adjacent: Adjacent::Require, ..gold.clone() };
    let (ended, answer) = expired_for(&house, &Request::Hold(apart));
    assert_eq!(answer.map_err(|refusal| refusal.code), Err(Code::NoAdjacent));
    assert!(ended <= 1, "{ended} blocks ended in vain");
    let (ended, answer) = expired_for(&house, &Request::Hold(gold));
    assert!(matches!(answer, Ok(Reply::Hold(_))), "{answer:?}");
    assert_eq!(ended, 1, "a block has ten seats");
}

#[test]
fn a_hold_from_a_block_ends_only_the_holds_that_it_needs() {
    let token = TokenChoice { token: b"new", chosen: true };
    let mut house = overdue_house(&[]);
    // Every second seat of a row, so that no two are side by side, and two seats that are.
    let seats: Vec<String> = (1..=400).step_by(2).chain([2]).map(|seat| format!("gold-0-{seat}")).collect();
    let of_block = seats.iter().map(String::as_bytes).collect();
    house.ask(&Request::BlockIn { name: Some(b"press"), until: None, seats: of_block }).unwrap();
    for (number, seat) in seats.iter().enumerate() {
        let name = format!("p{number}");
        let token = TokenChoice { token: name.as_bytes(), chosen: true };
        let (from, seats) = (Some(&b"press"[..]), vec![seat.as_bytes()]);
        house
            .ask(&Request::Pick(Pick { user: b"ann", ttl: 1000, token, orphans: None, from, seats }))
            .unwrap();
    }
    house.now += 1000;
    let press =
        |count| Hold { from: Some(b"press"), adjacent: Adjacent::Require, token, ..wish("bob", count) };
    let (ended, answer) = expired_for(&house, &Request::Hold(press(3)));
    assert!(matches!(answer, Ok(Reply::Hold(_))), "{answer:?}");
    assert!((3..=4).contains(&ended), "{ended} holds ended");
    let (ended, answer) = expired_for(&house, &Request::Hold(press(4)));
    assert_eq!(answer.map_err(|refusal| refusal.code), Err(Code::NoAdjacent));
    assert!(ended <= 4, "{ended} holds ended in vain");
}

#[test]
fn holds_end_in_large_steps_while_others_wait_for_their_seats() {
    let mut house = overdue_house(&["gold"]);
    house.now = 900;
    for user in 0..400 {
        let user = format!("u{user}");
        let hold = Hold { tier: Some(b"gold"), ttl: 10_000, ..wish("", 4) };
        house.wait(&user, hold, 0).unwrap();
    }
    house.now = 2000;
    let token = TokenChoice { token: b"new", chosen: true };
    for adjacent in [Adjacent::Prefer, Adjacent::Require] {
        let request = Request::Hold(Hold { tier: Some(b"gold"), adjacent, token, ..wish("bob", 4) });
        let (mut show, mut steps) = (house.show.clone(), 0);
        loop {
            let events = decide_overdue(&show, house.now, &request);
            if events.is_empty() {
                break;
            }
            steps += 1;
            events.iter().for_each(|event| show.apply(house.now, event));
            while let Some(event) = show.follow_up(house.now) {
                show.apply(house.now, &event);
            }
        }
        let reply = decide(&show, house.now, &request).unwrap().reply;
        assert!(matches!(reply, Reply::Hold(_)), "{reply:?}");
        assert!(steps <= 10, "{steps} steps for {adjacent:?}");
    }
}
