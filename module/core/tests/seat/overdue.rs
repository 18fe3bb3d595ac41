//! Overdue holds: a request expires those that its decision depends on, and no others.

use super::house::{House, wish};
use allot_core::seat::plan::{self, PlanPart};
use allot_core::seat::request::{Adjacent, Hold, Orphans, Pick, Request};
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
