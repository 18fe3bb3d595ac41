//! Changes of rows, seats and areas in docs/seats.md, sentence by sentence.

use super::house::{House, area, code, wish};
use allot_core::seat::request::{Hold, Need, Request, Wish};
use allot_core::seat::{Event, Reply, Show, decide};
use allot_core::shared::refusal::{Code, Refusal};
use serde_json::{Value, json};

/// A row of gold seats.
fn row(label: &str, rank: i32, seats: &str) -> Value {
    json!({"label": label, "rank": rank, "tier": "gold", "seats": seats})
}

/// Area `a` with the rows 1 and 2 of four gold seats, and area `floor` with six places.
fn house() -> House {
    let floor = json!({"id": "floor", "priority": 2, "standing": 6, "tier": "pit"});
    House::new(&json!({"areas": [area("a", 1, "ltr", &["....", "...."]), floor],
        "limits": {"holds_per_user": 0}}))
}

/// A change of area `a`.
fn of_a(mut change: Value) -> Value {
    change["id"] = json!("a");
    json!({ "areas": [change] })
}

fn text(outcome: Result<Reply, Refusal>) -> String {
    outcome.unwrap_err().to_string()
}

impl House {
    /// Changes the plan, and checks that a snapshot of the show is loaded as the same show.
    fn altered(&mut self, part: &Value) {
        assert_eq!(self.alter(part), Ok(Reply::Ok), "{part}");
        assert_eq!(self.show.check(), Ok(()));
        let bytes = self.show.encode();
        assert_eq!(Show::decode(&bytes).unwrap().encode(), bytes);
    }

    fn state(&self, id: &str) -> &'static str {
        let seat = self.show.venue().find(id.as_bytes());
        seat.map_or("none", |seat| self.show.state(seat).word())
    }

    fn seats_of_hold(&self, token: &str) -> String {
        let claims = self.show.claims();
        let claim = claims.get(claims.find(token.as_bytes()).unwrap());
        claim.seats.iter().map(|&seat| self.show.venue().id(seat)).collect::<Vec<_>>().join(" ")
    }

    fn block_until(&mut self, name: &str, seats: &[&str]) {
        let seats = seats.iter().map(|seat| seat.as_bytes()).collect();
        self.ask(&Request::Block { name: Some(name.as_bytes()), until: Some(500), per_user: None, seats })
            .unwrap();
    }
}

#[test]
fn rows_and_areas_are_added_to_an_open_show() {
    let mut house = house();
    house.pick("ann", "t", &["a-1-2"]).unwrap();
    let mut part = of_a(json!({"put_rows": [row("0", -1, "1-3")]}));
    part["add_areas"] = json!([area("b", 0, "rtl", &[".."])]);
    house.altered(&part);
    assert_eq!(house.map(), ".h../..../.../....../..");
    assert_eq!(house.hold(wish("u", 2)), "b-1-1 b-1-2", "the new area has the best priority");
    assert_eq!(house.hold(wish("u", 3)), "a-0-1 a-0-2 a-0-3");
    // The same rows again change nothing; the same area again is an error.
    part.as_object_mut().unwrap().remove("add_areas");
    let again = allot_core::seat::plan::parse(part.to_string().as_bytes()).unwrap();
    assert!(decide(&house.show, 1, &Request::Alter(again)).unwrap().events.is_empty());
    let twice = house.alter(&json!({"add_areas": [area("b", 0, "rtl", &[".."])]}));
    assert_eq!(text(twice), "ERR plan: areas[3]: area id 'b' occurs twice");
}

#[test]
fn put_row_takes_the_place_of_the_row_with_its_label() {
    let mut house = house();
    house.pick("ann", "t", &["a-1-4"]).unwrap();
    house.altered(&of_a(json!({"put_rows": [row("1", 0, "9,|,4-7")]})));
    assert_eq!(house.map(), ". h.../..../......");
    assert_eq!((house.state("a-1-4"), house.state("a-1-1")), ("held", "none"));
    house.confirm("t", Some("o")).unwrap();
    assert_eq!(house.state("a-1-4"), "sold");
}

#[test]
fn removed_seats_become_breaks_and_a_row_without_seats_is_removed() {
    let mut house = house();
    house.block(&["a-1-3"]);
    house.altered(&json!({"remove_seats": ["a-1-2", "a-1-3", "a-1-2"]}));
    assert_eq!(house.map(), ".  ./..../......");
    assert_eq!(house.hold(wish("u", 2)), "a-2-1 a-2-2");
    house.altered(&json!({"remove_seats": ["a-1-1", "a-1-4"]}));
    assert_eq!(house.map(), "hh../......");
    // The area keeps a row.
    let last = house.alter(&of_a(json!({"remove_rows": ["2"]})));
    let expected =
        "ERR plan: areas: area 'a' would have no row, and areas cannot be removed; block its seats instead";
    assert_eq!(text(last), expected);
    house.altered(&of_a(json!({"remove_rows": ["2"], "put_rows": [row("2", 7, "1-2"), row("3", 0, "1")]})));
    assert_eq!(house.map(), "hh/./......");
}

#[test]
fn held_or_sold_seats_are_neither_removed_nor_changed() {
    let mut house = house();
    for (token, seat) in [("held", "a-1-1"), ("sold", "a-2-1"), ("floor", "floor-5")] {
        house.pick("ann", token, &[seat]).unwrap();
    }
    house.confirm("sold", None).unwrap();
    let before = house.show.encode();
    let listed =
        |seat: Value| of_a(json!({"put_rows": [{"label": "1", "rank": 0, "tier": "gold", "seats": [seat]}]}));
    for (part, expected) in [
        (json!({"remove_seats": ["a-1-1"]}), "seat 'a-1-1' is held; it cannot be removed"),
        (of_a(json!({"remove_rows": ["2"]})), "seat 'a-2-1' is sold; it cannot be removed"),
        (of_a(json!({"put_rows": [row("2", 1, "2-4")]})), "seat 'a-2-1' is sold; it cannot be removed"),
        (listed(json!({"label": "1", "id": "x"})), "seat 'a-1-1' is held; it cannot be removed"),
        (listed(json!({"label": "1", "tier": "silver"})), "seat 'a-1-1' is held; its tier cannot change"),
        (listed(json!({"label": "1", "flags": ["view"]})), "seat 'a-1-1' is held; its flags cannot change"),
        (json!({"areas": [{"id": "floor", "standing": 4}]}), "seat 'floor-5' is held; it cannot be removed"),
    ] {
        assert_eq!(text(house.alter(&part)), format!("BADSTATE {expected}"));
    }
    assert_eq!(house.show.encode(), before);
    house.release("held").unwrap();
    house.altered(&listed(json!({"label": "1", "tier": "silver", "flags": ["view"]})));
}

#[test]
fn flagged_seat_that_is_sold_keeps_its_flags() {
    let mut house = House::rows("ltr", &["w.", ".."]);
    house.pick("ann", "t", &["a-1-1"]).unwrap();
    let put = |flags: Value| {
        of_a(json!({"put_rows": [
            {"label": "0", "rank": -1, "tier": "gold", "seats": [{"label": "1", "flags": ["view"]}]},
            {"label": "1", "rank": 0, "tier": "gold", "seats": [{"label": "1", "flags": flags}]}]}))
    };
    let expected = "BADSTATE seat 'a-1-1' is held; its flags cannot change";
    assert_eq!(text(house.alter(&put(json!([])))), expected);
    assert_eq!(text(house.alter(&put(json!(["wheelchair", "view"])))), expected);
    assert_eq!(text(house.alter(&put(json!(["view"])))), expected);
    house.altered(&put(json!(["wheelchair"])));
}

#[test]
fn holds_orders_and_blocks_go_on_after_rows_are_reordered() {
    let mut house = house();
    house.pick("ann", "t", &["a-1-1", "a-2-4"]).unwrap();
    house.pick("bob", "s", &["a-1-2", "a-2-3"]).unwrap();
    house.confirm("s", Some("o")).unwrap();
    house.block_until("press", &["a-1-3", "a-2-1"]);
    house.altered(&of_a(json!({"rows": [{"label": "1", "rank": 9}]})));
    assert_eq!(house.map(), "hsx./x.sh/......");
    assert_eq!(house.seats_of_hold("t"), "a-2-4 a-1-1");
    assert_eq!(house.seats_of_hold("s"), "a-2-3 a-1-2");
    let from = Hold { wish: Wish { from: Some(b"press"), ..wish("u", 1).wish }, ..wish("u", 1) };
    assert_eq!(house.hold(from), "a-2-1", "the nearest seat of the block");
    let exchange =
        Request::Exchange { token: b"t", user: None, order: Some(b"o2"), from: b"o", seats: vec![b"a-2-3"] };
    assert_eq!(house.ask(&exchange), Ok(Reply::Integer(2)));
    assert_eq!(
        house.ask(&Request::Refund { order: Some(b"o"), seats: Some(vec![b"a-1-2"]), into: None }),
        Ok(Reply::Integer(1))
    );
    assert_eq!(house.map(), "s.x./h..s/......");
    house.now = 500;
    house.settle();
    assert_eq!(house.map(), "s.../h..s/......");
}

#[test]
fn removed_seats_leave_their_block_which_ends_with_its_last_seat() {
    let mut house = house();
    house.block_until("press", &["a-1-3", "a-2-1"]);
    house.pick("ann", "t", &["a-1-1"]).unwrap();
    house.altered(&json!({"remove_seats": ["a-1-3"]}));
    assert_eq!(house.show.blocks().len(), 1);
    house.altered(&of_a(json!({"remove_rows": ["2"]})));
    assert!(house.show.blocks().is_empty());
    assert_eq!(house.show.next_due(), house.show.claims().earliest());
    assert_eq!(code(house.ask(&Request::EndBlock(b"press"))), Code::NotFound);
}

#[test]
fn seat_with_an_own_id_stays_the_same_seat_in_another_row_or_area() {
    let seats = json!([{"label": "1", "id": "9001"}, {"label": "2", "id": "9002"}, {"label": "3"}]);
    let rows = json!([{"label": "1", "rank": 0, "tier": "gold", "seats": seats}]);
    let mut house = House::new(&json!({"areas": [{"id": "a", "rows": rows}, area("b", 1, "ltr", &["."])]}));
    house.pick("ann", "t", &["9001", "9002"]).unwrap();
    let seat = |id: &str| json!([{"label": "7", "id": id}]);
    house.altered(&json!({"remove_seats": ["9001", "9002"], "areas": [
        {"id": "a", "put_rows": [{"label": "0", "rank": -1, "tier": "gold", "seats": seat("9002")}]},
        {"id": "b", "put_rows": [{"label": "0", "rank": -1, "tier": "gold", "seats": seat("9001")}]}]}));
    assert_eq!(house.map(), "  ./h/./h");
    assert_eq!(house.seats_of_hold("t"), "9002 9001");
    house.confirm("t", Some("o")).unwrap();
    assert_eq!((house.state("9001"), house.state("9002")), ("sold", "sold"));
}

#[test]
fn standing_area_grows_and_shrinks_at_its_end() {
    let mut house = house();
    house.pick("ann", "t", &["floor-2"]).unwrap();
    house.altered(&json!({"areas": [{"id": "floor", "standing": 9000}]}));
    assert_eq!((house.state("floor-2"), house.state("floor-9000")), ("held", "free"));
    house.pick("bob", "s", &["floor-4100"]).unwrap();
    let shrunk = house.alter(&json!({"areas": [{"id": "floor", "standing": 4099}]}));
    assert_eq!(text(shrunk), "BADSTATE seat 'floor-4100' is held; it cannot be removed");
    house.altered(&json!({"areas": [{"id": "floor", "standing": 4100}]}));
    house.release("s").unwrap();
    house.altered(&json!({"areas": [{"id": "floor", "standing": 3}]}));
    assert_eq!(house.map(), "..../..../.h.");
    // A show without standing areas keeps its owners in another form.
    let mut house = House::rows("ltr", &[".."]);
    house.pick("ann", "t", &["a-1-2"]).unwrap();
    house.altered(&json!({"add_areas": [{"id": "floor", "standing": 5, "tier": "pit"}]}));
    assert_eq!(house.map(), ".h/.....");
}

#[test]
fn impossible_changes_of_rows_and_seats_name_the_place() {
    let mut house = house();
    let own = json!({"label": "5", "rank": 5, "tier": "gold", "seats": [{"label": "1", "id": "x"}]});
    let same = json!({"label": "5", "rank": 5, "tier": "gold", "seats": [{"label": "2"}]});
    house.altered(&json!({"add_areas": [{"id": "b", "rows": [own, same]}]}));
    let of_b = |change: Value| json!({"areas": [{"id": "b", "put_rows": [change]}]});
    for (part, expected) in [
        (
            json!({"remove_seats": ["a-1-1", "a-1-5"]}),
            "NOTFOUND remove_seats[1]: this show has no seat 'a-1-5'",
        ),
        (
            json!({"remove_seats": ["floor-1"]}),
            "ERR plan: remove_seats[0]: 'floor-1' is a place of a standing area; change its `standing`",
        ),
        (of_a(json!({"remove_rows": ["9"]})), "NOTFOUND areas[0].remove_rows: this area has no row '9'"),
        (
            of_a(json!({"standing": 4})),
            "ERR plan: areas[0]: standing: only a standing area has one; add rows or seats to this one",
        ),
        (
            of_b(row("5", 1, "3")),
            "ERR plan: areas[0].put_rows[0]: row '5' is one of several rows with this label; remove them first with `remove_rows`",
        ),
        (
            of_a(json!({"put_rows": [row("7", 1, "1"), row("7", 2, "2")]})),
            "ERR plan: areas[0].put_rows[1]: row '7' occurs twice",
        ),
        (
            of_a(json!({"put_rows": [row("7", 1, "1,1")]})),
            "ERR plan: areas[0].rows[2]: seat id 'a-7-1' occurs twice",
        ),
        (
            of_a(json!({"put_rows": [row("7", 1, "-")], "rows": [{"label": "7", "tier": "t"}]})),
            "ERR plan: areas[0].rows[0]: '-' is no range of plain numbers; write labels that contain a '-' or a leading zero as a list",
        ),
        (
            of_a(json!({"put_rows": [{"label": "7", "rank": 1, "tier": "t", "seats": []}]})),
            "ERR plan: areas[0].rows[2]: seats: has no seat",
        ),
        (
            of_a(json!({"rows": [{"label": "1"}]})),
            "ERR plan: areas[0].rows[0]: names neither a rank nor a tier nor seats",
        ),
        (
            json!({"areas": [{"id": "floor", "put_rows": [row("1", 1, "1")]}]}),
            "ERR plan: areas[1]: rows: a standing area has none",
        ),
        (
            json!({"areas": [{"id": "floor", "standing": 0}]}),
            "ERR plan: areas[1]: standing: must be 1 to 2000000 places, not 0",
        ),
    ] {
        assert_eq!(text(house.alter(&part)), expected);
    }
}

#[test]
fn changes_of_an_area_are_made_in_order() {
    let mut house = house();
    // Seats are removed before rows are put, and rows are put before tiers and ranks change.
    let mut part = of_a(json!({"put_rows": [row("1", 0, "1-2")],
        "rows": [{"label": "1", "rank": 5, "tier": "silver", "seats": "2"}]}));
    part["remove_seats"] = json!(["a-1-1", "a-1-2", "a-1-3", "a-1-4"]);
    house.altered(&part);
    assert_eq!(house.map(), "..../../......");
    assert_eq!(
        house.hold(Hold { wish: Wish { tier: Some(b"silver"), ..wish("u", 1).wish }, ..wish("u", 1) }),
        "a-1-2"
    );
}

#[test]
fn altered_show_equals_one_of_the_new_plan_with_the_same_history() {
    let history = |house: &mut House| {
        house.pick("ann", "t", &["a-1-1", "a-2-4"]).unwrap();
        house.pick("bob", "s", &["a-2-2"]).unwrap();
        house.confirm("s", Some("o")).unwrap();
        house.block_until("press", &["a-1-4"]);
        house
            .wait("cid", Hold { wish: Wish { needs: vec![need(1)], ..wish("", 3).wish }, ..wish("", 3) }, 0)
            .unwrap();
    };
    let wheelchair = json!([{"label": "1", "tier": "gold", "flags": ["wheelchair"]}]);
    let view = json!([{"label": "1", "tier": "silver", "flags": ["view"]}]);
    let old = json!({"label": "3", "rank": 3, "seats": wheelchair});
    let new = json!({"label": "0", "rank": -1, "seats": view});
    let mut altered = house();
    altered.altered(&of_a(json!({"put_rows": [old]})));
    history(&mut altered);
    altered
        .altered(&of_a(json!({"put_rows": [new], "rows": [{"label": "1", "rank": 2}], "remove_rows": []})));
    let mut built = House::new(&serde_json::from_str(&altered.show.plan_json()).unwrap());
    history(&mut built);
    built.settle();
    assert_eq!(altered.show.encode(), built.show.encode());
}

fn need(count: u32) -> Need<&'static [u8]> {
    Need { count, flag: &b"wheelchair"[..] }
}

#[test]
fn areas_keep_their_turns_and_new_areas_come_first() {
    let mut house =
        House::new(&json!({"areas": [area("a", 1, "ltr", &["...."]), area("b", 1, "ltr", &["...."])],
        "limits": {"holds_per_user": 0}}));
    let gold =
        |count| Hold { wish: Wish { tier: Some(b"gold"), ..wish("u", count).wish }, ..wish("u", count) };
    assert_eq!(house.hold(gold(1)), "a-1-1");
    assert_eq!(house.hold(gold(1)), "b-1-1");
    // A new first tier changes the numbers of tiers.
    let silver = json!({"label": "0", "rank": -1, "tier": "silver", "seats": "1"});
    let mut part = of_a(json!({"put_rows": [silver]}));
    part["add_areas"] = json!([area("c", 1, "ltr", &["...."])]);
    house.altered(&part);
    assert_eq!(
        ["c-1-1", "a-1-2", "b-1-2", "c-1-2"].map(|_| house.hold(gold(1))),
        ["c-1-1", "a-1-2", "b-1-2", "c-1-2"]
    );
}

/// Area `a` with a wheelchair space in row 1 and a seat with a view in row 2, all held by `h`.
fn sold_out() -> House {
    let flagged = |label: &str, rank: i32, flag: &str| {
        let seats = json!([{"label": "1", "flags": [flag]}, {"label": "2"}]);
        json!({"label": label, "rank": rank, "tier": "gold", "seats": seats})
    };
    let rows = [flagged("1", 1, "wheelchair"), flagged("2", 2, "view")];
    let mut house =
        House::new(&json!({"areas": [{"id": "a", "rows": rows}], "limits": {"waits_per_user": 2}}));
    house.pick("zoe", "h", &["a-1-1", "a-1-2", "a-2-1", "a-2-2"]).unwrap();
    house
}

#[test]
fn added_seats_are_offered_to_waiters_in_the_same_step() {
    let mut house = sold_out();
    for user in ["ann", "bob"] {
        house.wait(user, Hold { ttl: 9000, ..wish("", 2) }, 0).unwrap();
    }
    house.altered(&of_a(json!({"put_rows": [row("3", 3, "1-3")]})));
    house.settle();
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (2, 0));
    house.altered(&of_a(json!({"put_rows": [row("3", 3, "1-4")]})));
    house.settle();
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (2, 2));
}

#[test]
fn waiters_keep_their_flags_when_flags_get_other_numbers() {
    let mut house = sold_out();
    let view = Hold { ttl: 9000, wish: Wish { flags: vec![b"view"], ..wish("", 1).wish }, ..wish("", 1) };
    house.wait("ann", view, 0).unwrap();
    house
        .wait(
            "bob",
            Hold { ttl: 9000, wish: Wish { needs: vec![need(1)], ..wish("", 1).wish }, ..wish("", 1) },
            0,
        )
        .unwrap();
    // The row of the view comes first, so that its flag is the first one.
    house.altered(&of_a(json!({"rows": [{"label": "2", "rank": 0}]})));
    let release = |seat| Request::Release { token: b"h", seats: Some(vec![seat]), into: None };
    house.step(&release(b"a-1-1")).unwrap();
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (0, 1));
    house.step(&release(b"a-2-1")).unwrap();
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (1, 1));
}

#[test]
fn waiters_whose_wishes_become_equal_are_served_in_order_of_arrival() {
    let mut house = sold_out();
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-2-1"]), into: None }).unwrap();
    house.wait("ann", Hold { ttl: 9000, ..wish("", 1) }, 0).unwrap();
    house
        .wait(
            "bob",
            Hold { ttl: 9000, wish: Wish { flags: vec![b"view"], ..wish("", 2).wish }, ..wish("", 2) },
            0,
        )
        .unwrap();
    house.wait("cid", Hold { ttl: 9000, ..wish("", 2) }, 0).unwrap();
    house.wait("dee", Hold { ttl: 9000, ..wish("", 2) }, 1).unwrap();
    assert_eq!(house.show.waiters().queues(), 3);
    house.altered(&json!({"remove_seats": ["a-2-1"]}));
    assert_eq!(house.show.waiters().queues(), 2);
    house.step(&Request::Unwait(b"ann")).unwrap();
    for (number, user) in ["dee", "bob", "cid"].into_iter().enumerate() {
        house.altered(&of_a(json!({"put_rows": [row(&format!("{number}x"), 5, "1-2")]})));
        house.settle();
        assert_eq!(house.seats_of(user), 2, "{user}");
    }
}

#[test]
fn flag_that_a_waiter_needs_stays_while_the_waiter_waits() {
    let mut house = sold_out();
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    house.block(&["a-1-1"]);
    house
        .wait(
            "ann",
            Hold { ttl: 50, wish: Wish { needs: vec![need(1)], ..wish("", 1).wish }, ..wish("", 1) },
            0,
        )
        .unwrap();
    let remove = json!({"remove_seats": ["a-1-1"]});
    let expected = "BADSTATE the wait 'ann' needs flag 'wheelchair', and no seat would have it";
    assert_eq!(text(house.alter(&remove)), expected);
    // The time of the wait is over, but this was not applied.
    house.now = 60;
    let part = allot_core::seat::plan::parse(remove.to_string().as_bytes()).unwrap();
    let events = decide(&house.show, house.now, &Request::Alter(part)).unwrap().events;
    assert!(
        matches!(&events[..], [Event::Unwaited { expired: true, .. }, Event::Altered { .. }]),
        "{events:?}"
    );
    for event in &events {
        house.show.admits(event).unwrap();
        house.show.apply(house.now, event);
    }
    assert_eq!((house.show.check(), house.show.waiters().len()), (Ok(()), 0));
}
