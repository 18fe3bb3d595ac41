//! docs/seats.md, sentence by sentence.

use allot_core::seat::plan::{self, Plan, PlanPart};
use allot_core::seat::request::{Adjacent, Hold, Orphans, Pick, Replace, Request};
use allot_core::seat::{Event, Reply, Show, decide, decide_due};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::TokenChoice;
use serde_json::{Value, json};

/// A show and its clock.
pub(super) struct House {
    pub(super) show: Show,
    pub(super) now: i64,
    next: u32,
}

/// A hold request with the defaults of `SEAT.HOLD`.
pub(super) fn wish(user: &str, count: i64) -> Hold<'_> {
    Hold {
        user: user.as_bytes(),
        count,
        ttl: 1000,
        tier: None,
        areas: vec![],
        adjacent: Adjacent::Prefer,
        orphans: Orphans::Avoid,
        flags: vec![],
        replace: None,
        token: TokenChoice { token: b"", chosen: false },
    }
}

impl House {
    pub(super) fn new(plan: &Value) -> Self {
        Self { show: Show::open(&plan.to_string(), 0).unwrap(), now: 1, next: 0 }
    }

    /// One area `a` with these rows; `.` a seat, a space a break. No user limits.
    fn rows(rule: &str, rows: &[&str]) -> Self {
        Self::new(&json!({"areas": [area("a", 1, rule, rows)], "limits": {"holds_per_user": 0}}))
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Refusal> {
        for event in decide_due(&self.show, self.now, usize::MAX) {
            self.show.apply(self.now, &event);
        }
        let decision = decide(&self.show, self.now, request)?;
        for event in &decision.events {
            self.show.admits(event).unwrap();
            self.show.apply(self.now, event);
        }
        Ok(decision.reply)
    }

    /// The seats that a hold gets, `none`, or the code of its refusal.
    pub(super) fn hold(&mut self, hold: Hold<'_>) -> String {
        self.next += 1;
        let token = format!("t{}", self.next);
        let token = if hold.token.chosen {
            hold.token
        } else {
            TokenChoice { token: token.as_bytes(), chosen: false }
        };
        match self.ask(&Request::Hold(Hold { token, ..hold })) {
            Ok(Reply::Hold(record)) => {
                record.seats.iter().map(|&seat| self.show.venue().id(seat)).collect::<Vec<_>>().join(" ")
            }
            Ok(_) => "none".into(),
            Err(refusal) => refusal.code.word().into(),
        }
    }

    fn pick(&mut self, user: &str, token: &str, seats: &[&str]) -> Result<Reply, Refusal> {
        let token = TokenChoice { token: token.as_bytes(), chosen: true };
        let seats = seats.iter().map(|seat| seat.as_bytes()).collect();
        self.ask(&Request::Pick(Pick { user: user.as_bytes(), ttl: 1000, token, seats }))
    }

    /// Takes seats away: what is left is what the test is about.
    fn block(&mut self, seats: &[&str]) {
        self.ask(&Request::Block(seats.iter().map(|seat| seat.as_bytes()).collect())).unwrap();
    }

    fn confirm(&mut self, token: &str, order: Option<&str>) -> Result<Reply, Refusal> {
        self.ask(&Request::Confirm { token: token.as_bytes(), user: None, order: order.map(str::as_bytes) })
    }

    fn release(&mut self, token: &str) -> Result<Reply, Refusal> {
        self.ask(&Request::Release { token: token.as_bytes(), seats: None })
    }

    fn alter(&mut self, part: &Value) -> Result<Reply, Refusal> {
        let part: PlanPart = plan::parse(part.to_string().as_bytes()).unwrap();
        self.ask(&Request::Alter(part))
    }

    fn map(&self) -> String {
        let rows = self.show.venue().rows().map(|row| {
            let mut line = String::new();
            self.show.write_map_row(row, &mut line);
            line
        });
        rows.collect::<Vec<_>>().join("/")
    }
}

fn area(id: &str, priority: i32, rule: &str, rows: &[&str]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .enumerate()
        .map(|(number, row)| {
            let mut label = 0;
            let seats: Vec<Value> = row
                .chars()
                .map(|seat| {
                    label += i32::from(seat != ' ');
                    match seat {
                        ' ' => Value::Null,
                        '.' => json!({"label": label.to_string()}),
                        'w' => json!({"label": label.to_string(), "flags": ["wheelchair"]}),
                        tier => json!({"label": label.to_string(), "tier": tier.to_string()}),
                    }
                })
                .collect();
            json!({"label": (number + 1).to_string(), "rank": number, "tier": "gold", "seats": seats})
        })
        .collect();
    json!({"id": id, "priority": priority, "rule": rule, "rows": rows})
}

fn code(outcome: Result<Reply, Refusal>) -> Code {
    outcome.unwrap_err().code
}

fn plan_error(plan: &Value) -> String {
    let parsed = plan::parse::<Plan>(plan.to_string().as_bytes());
    parsed.and_then(|plan| Show::new(&plan, 0)).unwrap_err().to_string()
}

// Show.

#[test]
fn seats_with_a_break_between_them_are_not_adjacent() {
    let mut show = House::rows("ltr", &[". .."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-2 a-1-3");
}

#[test]
fn printed_numbers_say_nothing_about_adjacency() {
    let mut show = House::new(&json!({"areas": [{"id": "a", "rows": [
        {"label": "1", "rank": 1, "tier": "gold", "seats": "2,4,6,|,5,3,1"}]}]}));
    assert_eq!(show.hold(wish("u", 3)), "a-1-2 a-1-4 a-1-6");
}

#[test]
fn a_seat_of_another_tier_ends_a_run() {
    let mut show = House::rows("ltr", &[".s...."]);
    assert_eq!(show.hold(Hold { tier: Some(b"gold"), ..wish("u", 3) }), "a-1-3 a-1-4 a-1-5");
}

#[test]
fn ltr_is_front_row_first_then_left_to_right() {
    let mut show = House::rows("ltr", &["....", "...."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2");
}

#[test]
fn rtl_is_front_row_first_then_right_to_left() {
    let mut show = House::rows("rtl", &["....", "...."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-3 a-1-4");
}

#[test]
fn center_is_nearest_the_middle_and_ties_go_left() {
    let mut show = House::rows("center", &["......"]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-3 a-1-4");
    let mut show = House::rows("center", &["....."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2", "2-3 and 3-4 strand one");
    let mut show = House::rows("center", &["....."]);
    assert_eq!(show.hold(Hold { orphans: Orphans::Allow, ..wish("u", 2) }), "a-1-2 a-1-3");
    let mut show = House::rows("center", &["  ..  .."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2");
}

#[test]
fn flagged_seat_needs_its_flag_in_a_hold_and_its_name_in_a_pick() {
    let mut show = House::rows("ltr", &["w.w"]);
    assert_eq!(show.hold(wish("u", 2)), "none");
    assert_eq!(show.hold(Hold { flags: vec![b"wheelchair"], ..wish("u", 2) }), "a-1-1 a-1-2");
    assert!(show.pick("v", "p", &["a-1-3"]).is_ok());
}

// Plan.

#[test]
fn the_error_for_a_refused_plan_names_the_place_and_the_reason() {
    let row = |label: &str| json!({"label": label, "rank": 1, "tier": "t", "seats": "1-3"});
    let plan = json!({"areas": [{"id": "stalls", "rows": [row("A"), row("B"), row("C"), row("A")]}]});
    assert_eq!(plan_error(&plan), "ERR plan: areas[0].rows[3]: seat id 'stalls-A-1' occurs twice");
    let dashes = json!({"areas": [{"id": "a", "rows": [{"label": "b-c", "rank": 1, "tier": "t", "seats": "1"}]},
                                  {"id": "a-b", "rows": [{"label": "c", "rank": 1, "tier": "t", "seats": "1"}]}]});
    assert_eq!(plan_error(&dashes), "ERR plan: areas[1].rows[0]: seat id 'a-b-c-1' occurs twice");
    let rank = json!({"areas": [{"id": "a", "rows": [{"label": "1", "tier": "t", "seats": "1"}]}]});
    assert!(
        plan_error(&rank).starts_with("ERR plan: areas[0].rows[0]: missing field `rank`"),
        "rank is required"
    );
    let tier = json!({"areas": [{"id": "a", "rows": [{"label": "1", "rank": 1, "seats": "1"}]}]});
    assert!(plan_error(&tier).starts_with("ERR plan: areas[0].rows[0].seats[0]: has no tier"));
    let deep = json!({"areas": [{"id": "a", "rows": [{"label": "1", "rank": 1, "tier": "t", "seats": [{"label": 1}]}]}]});
    assert!(plan_error(&deep).starts_with("ERR plan: areas[0].rows[0].seats[0].label: invalid type"));
}

#[test]
fn limits_absent_are_none_except_one_hold_per_user() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["......"])]}));
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2");
    assert_eq!(show.hold(wish("u", 2)), "LIMIT");
    let mut show = House::rows("ltr", &["......"]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2");
    assert_eq!(show.hold(wish("u", 2)), "a-1-3 a-1-4", "0 is none");
}

#[test]
fn seats_per_user_counts_held_and_sold_seats() {
    let limits = json!({"seats_per_user": 3, "holds_per_user": 0});
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["......"])], "limits": limits}));
    show.pick("u", "sold", &["a-1-1", "a-1-2"]).unwrap();
    show.confirm("sold", None).unwrap();
    show.pick("u", "held", &["a-1-3"]).unwrap();
    assert_eq!(show.hold(wish("u", 1)), "LIMIT");
    show.release("held").unwrap();
    assert_eq!(show.hold(wish("u", 1)), "a-1-3");
    show.now += 1000;
    assert_eq!(show.hold(wish("u", 1)), "a-1-3", "the hold before has expired");
    show.ask(&Request::Refund { order: None, seats: vec![b"a-1-1"] }).unwrap();
    assert_eq!(show.hold(wish("u", 1)), "a-1-1");
}

#[test]
fn ties_of_rank_are_in_plan_order() {
    let row = |label: &str, rank: i32| json!({"label": label, "rank": rank, "tier": "t", "seats": "1-2"});
    let mut show =
        House::new(&json!({"areas": [{"id": "a", "rows": [row("C", 2), row("B", 1), row("A", 1)]}]}));
    assert_eq!(show.hold(wish("u", 2)), "a-B-1 a-B-2");
}

#[test]
fn a_plan_beyond_the_limits_is_refused() {
    let wide =
        json!({"areas": [{"id": "a", "rows": [{"label": "1", "rank": 1, "tier": "t", "seats": "1-4097"}]}]});
    assert!(plan_error(&wide).contains("more than 4096 positions"));
    let areas: Vec<Value> = (0..4097).map(|number| area(&number.to_string(), 1, "ltr", &["."])).collect();
    assert!(plan_error(&json!({ "areas": areas })).contains("more than 4096"));
    let rows: Vec<Value> = (0..500)
        .map(|row| json!({"label": row.to_string(), "rank": 1, "tier": "t", "seats": "1-4001"}))
        .collect();
    assert!(plan_error(&json!({"areas": [{"id": "a", "rows": rows}]})).contains("more than 2000000 seats"));
}

#[test]
fn from_the_plan_an_equal_empty_show_can_be_created() {
    let show = House::rows("center", &["..w. s.", "g..."]).show;
    let json = show.plan_json();
    let again = Show::open(&json, 0).unwrap();
    assert_eq!(again.plan_json(), json);
    assert_eq!(again.encode(), show.encode());
}

// SEAT.HOLD, exactly.

#[test]
fn equal_request_with_a_live_token_gets_the_same_record() {
    let mut show = House::rows("ltr", &["...."]);
    let token = TokenChoice { token: b"mine", chosen: true };
    let ask = |ttl| Request::Hold(Hold { token, ttl, ..wish("u", 2) });
    let Ok(Reply::Hold(first)) = show.ask(&ask(1000)) else { panic!() };
    show.now += 10;
    let Ok(Reply::Hold(again)) = show.ask(&ask(500)) else { panic!() };
    assert_eq!(first, again);
    let other = Request::Hold(Hold { token, ..wish("u", 1) });
    assert_eq!(code(show.ask(&other)), Code::Exists, "another request");
    let other = Request::Hold(Hold { token, ..wish("v", 2) });
    assert_eq!(code(show.ask(&other)), Code::Exists, "another user");
}

#[test]
fn a_retry_comes_before_the_limits() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["...."])]}));
    let hold = Request::Hold(Hold { token: TokenChoice { token: b"mine", chosen: true }, ..wish("u", 2) });
    assert!(show.ask(&hold).is_ok());
    assert!(show.ask(&hold).is_ok(), "holds_per_user is 1");
}

#[test]
fn the_message_of_a_user_limit_has_the_live_token() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["...."])]}));
    show.pick("u", "mine", &["a-1-1"]).unwrap();
    let refusal =
        show.ask(&Request::Hold(Hold { token: TokenChoice { token: b"x", chosen: true }, ..wish("u", 1) }));
    assert!(refusal.unwrap_err().text.contains("'mine'"));
}

#[test]
fn replace_swaps_the_users_hold_as_if_its_seats_were_free() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "old", &["a-1-2"]).unwrap();
    let replace = Some(Replace { token: b"old", other: false });
    assert_eq!(show.hold(Hold { replace, ..wish("u", 4) }), "a-1-1 a-1-2 a-1-3 a-1-4");
    assert_eq!(code(show.release("old")), Code::NotFound);
}

#[test]
fn replace_other_does_not_take_the_same_seats_again() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "old", &["a-1-1", "a-1-2"]).unwrap();
    let replace = Some(Replace { token: b"old", other: true });
    assert_eq!(show.hold(Hold { replace, ..wish("u", 2) }), "a-1-3 a-1-4");
    assert_eq!(show.map(), "..hh");
}

#[test]
fn replace_other_counts_the_seats_given_back_as_free_beside_the_new_ones() {
    // 2-3 would strand 1; 4-5 have 2-3 to their left, and 6-7, given back, to their right.
    let mut show = House::rows("ltr", &[".......", "......."]);
    show.pick("u", "old", &["a-1-6"]).unwrap();
    show.block(&["a-1-1", "a-1-7"]);
    let replace = Some(Replace { token: b"old", other: true });
    assert_eq!(show.hold(Hold { replace, ..wish("u", 3) }), "a-1-2 a-1-3 a-1-4", "5 and 6 are two");
}

#[test]
fn replace_keeps_the_old_hold_where_nothing_is_found() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "old", &["a-1-2"]).unwrap();
    let replace = Some(Replace { token: b"old", other: true });
    assert_eq!(show.hold(Hold { replace, ..wish("u", 4) }), "none");
    assert_eq!(show.map(), ".h..");
}

#[test]
fn unknown_tier_or_area_is_not_found_and_a_sold_out_one_is_null() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &[".s"]), area("b", 1, "ltr", &["."])]}));
    assert_eq!(show.hold(Hold { tier: Some(b"platinum"), ..wish("u", 1) }), "NOTFOUND");
    assert_eq!(show.hold(Hold { areas: vec![b"z"], ..wish("u", 1) }), "NOTFOUND");
    assert_eq!(show.hold(Hold { tier: Some(b"s"), areas: vec![b"b"], ..wish("u", 1) }), "none");
}

#[test]
fn prefer_takes_the_best_level_with_a_run_before_it_scatters() {
    let plan = json!({"areas": [area("a", 1, "ltr", &[". . ."]), area("b", 2, "ltr", &["..."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 3)), "b-1-1 b-1-2 b-1-3");
    assert_eq!(House::new(&plan).hold(wish("u", 4)), "a-1-1 a-1-2 a-1-3 b-1-1");
}

#[test]
fn require_answers_noadjacent_instead_of_scattering() {
    let mut show = House::rows("ltr", &[". . ."]);
    assert_eq!(show.hold(Hold { adjacent: Adjacent::Require, ..wish("u", 2) }), "NOADJACENT");
    assert_eq!(show.hold(Hold { adjacent: Adjacent::Require, ..wish("u", 4) }), "none");
}

#[test]
fn area_puts_the_area_before_adjacency() {
    let plan = json!({"areas": [area("a", 1, "ltr", &[". . ."]), area("b", 2, "ltr", &["..."])]});
    let mut show = House::new(&plan);
    assert_eq!(show.hold(Hold { adjacent: Adjacent::Area, ..wish("u", 3) }), "a-1-1 a-1-2 a-1-3");
    let mut show = House::new(&plan);
    assert_eq!(show.hold(Hold { adjacent: Adjacent::Area, ..wish("u", 4) }), "a-1-1 a-1-2 a-1-3 b-1-1");
}

#[test]
fn ignore_takes_the_first_free_seats_in_seat_order() {
    let mut show = House::rows("ltr", &[". . .", "..."]);
    assert_eq!(show.hold(Hold { adjacent: Adjacent::Ignore, ..wish("u", 4) }), "a-1-1 a-1-2 a-1-3 a-2-1");
}

#[test]
fn areas_of_equal_priority_take_turns_per_tier() {
    let rows = &["..s.."][..];
    let plan = json!({"areas": [area("a", 1, "ltr", rows), area("b", 1, "ltr", rows)], "limits": {"holds_per_user": 0}});
    let mut show = House::new(&plan);
    let gold = || Hold { tier: Some(b"gold"), ..wish("u", 2) };
    assert_eq!(show.hold(gold()), "a-1-1 a-1-2");
    assert_eq!(show.hold(Hold { tier: Some(b"s"), ..wish("u", 1) }), "a-1-3", "another tier, another turn");
    assert_eq!(show.hold(gold()), "b-1-1 b-1-2");
    assert_eq!(show.hold(gold()), "a-1-4 a-1-5");
}

#[test]
fn only_a_granted_hold_into_one_area_takes_a_turn() {
    let rows = &["...."][..];
    let plan = json!({"areas": [area("a", 1, "ltr", rows), area("b", 1, "ltr", rows)], "limits": {"holds_per_user": 0}});
    let mut show = House::new(&plan);
    show.pick("u", "p", &["a-1-4"]).unwrap();
    assert_eq!(show.hold(wish("u", 5)).split(' ').count(), 5, "over both areas");
    show.now += 2000;
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2", "neither the pick nor the scattered hold was a turn");
}

#[test]
fn orphans_avoid_looks_over_all_rows_before_it_strands() {
    let mut show = House::rows("ltr", &["...", "...."]);
    assert_eq!(show.hold(wish("u", 2)), "a-2-1 a-2-2");
    assert_eq!(show.hold(wish("u", 2)), "a-2-3 a-2-4");
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2", "there is no other");
}

#[test]
fn orphans_forbid_never_strands_and_never_scatters() {
    let mut show = House::rows("ltr", &["..."]);
    for adjacent in [Adjacent::Prefer, Adjacent::Require, Adjacent::Area] {
        assert_eq!(show.hold(Hold { adjacent, orphans: Orphans::Forbid, ..wish("u", 2) }), "NOADJACENT");
    }
    assert_eq!(
        show.hold(Hold { adjacent: Adjacent::Ignore, orphans: Orphans::Forbid, ..wish("u", 2) }),
        "ERR"
    );
}

#[test]
fn scattered_seats_are_few_groups_of_one_area_longest_runs_first() {
    let mut show = House::rows("ltr", &[". .. ...", "...."]);
    assert_eq!(show.hold(wish("u", 6)), "a-1-4 a-1-5 a-2-1 a-2-2 a-2-3 a-2-4");
}

#[test]
fn over_areas_takes_all_of_each_and_in_the_last_only_what_is_missing() {
    let plan = json!({"areas": [area("b", 2, "ltr", &[". .."]), area("a", 1, "ltr", &[". ."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 4)), "b-1-2 b-1-3 a-1-1 a-1-2");
}

// The other commands.

#[test]
fn pick_names_those_not_free_and_refuses_a_seat_named_twice() {
    let mut show = House::rows("ltr", &["...."]);
    show.block(&["a-1-1", "a-1-3"]);
    let refusal = show.pick("u", "t", &["a-1-1", "a-1-2", "a-1-3"]).unwrap_err();
    assert_eq!(refusal.to_string(), "BADSTATE seats 'a-1-1' (blocked), 'a-1-3' (blocked) are not free");
    assert_eq!(code(show.pick("u", "t", &["a-1-2", "a-1-2"])), Code::Err);
    assert_eq!(code(show.pick("u", "t", &["a-1-9"])), Code::NotFound);
}

#[test]
fn extend_never_goes_past_creation_plus_max_hold() {
    let plan = json!({"areas": [area("a", 1, "ltr", &["...."])], "limits": {"max_hold_ms": 2000}});
    let mut show = House::new(&plan);
    assert_eq!(show.hold(Hold { ttl: 2001, ..wish("u", 1) }), "LIMIT", "nor does a hold at once");
    show.pick("u", "t", &["a-1-1"]).unwrap();
    show.now += 500;
    let extend = |ttl| Request::Extend { token: b"t", ttl };
    assert_eq!(show.ask(&extend(1500)), Ok(Reply::Integer(2001)));
    assert_eq!(code(show.ask(&extend(1501))), Code::Limit);
}

#[test]
fn confirm_sells_once_and_answers_a_retry_the_same() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "t", &["a-1-1", "a-1-2"]).unwrap();
    let user = Request::Confirm { token: b"t", user: Some(b"v"), order: None };
    assert_eq!(code(show.ask(&user)), Code::NotOwner);
    assert_eq!(show.confirm("t", Some("o")), Ok(Reply::Integer(2)));
    assert_eq!(show.confirm("t", Some("o")), Ok(Reply::Integer(2)));
    assert_eq!(code(show.confirm("t", Some("p"))), Code::Exists);
    show.ask(&Request::Refund { order: Some(b"o"), seats: vec![b"a-1-1"] }).unwrap();
    assert_eq!(show.confirm("t", Some("o")), Ok(Reply::Integer(2)), "one is still sold");
    show.ask(&Request::Refund { order: Some(b"o"), seats: vec![b"a-1-2"] }).unwrap();
    assert_eq!(code(show.confirm("t", Some("o"))), Code::NotFound);
}

#[test]
fn confirm_of_an_expired_hold_is_not_found() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "t", &["a-1-1"]).unwrap();
    show.now += 1000;
    assert_eq!(code(show.confirm("t", None)), Code::NotFound);
    assert_eq!(show.map(), "....");
}

#[test]
fn release_of_some_seats_keeps_the_others() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "t", &["a-1-1", "a-1-2", "a-1-3"]).unwrap();
    let some = Request::Release { token: b"t", seats: Some(vec![b"a-1-2"]) };
    assert_eq!(show.ask(&some), Ok(Reply::Integer(1)));
    assert_eq!(show.map(), "h.h.");
    assert_eq!(code(show.ask(&some)), Code::NotOwner);
    assert_eq!(show.release("t"), Ok(Reply::Integer(2)));
}

#[test]
fn a_doubled_refund_with_its_order_does_not_free_what_was_sold_again() {
    let mut show = House::rows("ltr", &["...."]);
    for (token, order) in [("t1", "o1"), ("t2", "o2")] {
        show.pick("u", token, &["a-1-1"]).unwrap();
        show.confirm(token, Some(order)).unwrap();
        let refund = Request::Refund { order: Some(b"o1"), seats: vec![b"a-1-1"] };
        let expected = if order == "o1" { Ok(Reply::Integer(1)) } else { Err(Code::NotOwner) };
        assert_eq!(show.ask(&refund).map_err(|refusal| refusal.code), expected);
    }
    assert_eq!(code(show.ask(&Request::Refund { order: None, seats: vec![b"a-1-2"] })), Code::BadState);
}

#[test]
fn alter_changes_limits_names_priorities_rules_and_tiers_after_opening() {
    let mut show = House::rows("ltr", &["....", "...."]);
    show.pick("u", "t", &["a-1-1"]).unwrap();
    let part = json!({"limits": {"seats_per_user": 2}, "areas": [{"id": "a", "name": "Stalls", "priority": 3,
        "rule": "rtl", "rows": [{"label": "2", "tier": "silver"}, {"label": "1", "tier": "silver", "seats": "3-4"}]}]});
    assert_eq!(show.alter(&part), Ok(Reply::Ok));
    let plan: Value = serde_json::from_str(&show.show.plan_json()).unwrap();
    assert_eq!(plan["limits"], json!({"seats_per_user": 2, "holds_per_user": 0, "max_hold_ms": 0}));
    assert_eq!([&plan["areas"][0]["name"], &plan["areas"][0]["rule"]], ["Stalls", "rtl"]);
    assert_eq!(show.hold(Hold { tier: Some(b"silver"), ..wish("v", 2) }), "a-1-3 a-1-4");
    assert_eq!(show.map(), "h.hh/....", "held seats stay held");
}

#[test]
fn alter_of_names_priorities_and_rules_does_not_replace_the_plan() {
    let areas = |changed: bool| {
        let (mut first, mut second) = (area("a", 1, "ltr", &["..", ".."]), area("b", 2, "ltr", &[".s"]));
        if changed {
            (first["name"], first["priority"]) = (json!("Stalls"), json!(3));
            second["rule"] = json!("center");
        }
        json!({"areas": [first, second], "limits": {"holds_per_user": i32::from(changed)}})
    };
    let part = json!({"limits": {"holds_per_user": 1}, "areas": [
        {"id": "b", "rule": "rtl"}, {"id": "a", "name": "Stalls", "priority": 3}, {"id": "b", "rule": "center"}]});
    let part: PlanPart = plan::parse(part.to_string().as_bytes()).unwrap();
    let mut house = House::new(&areas(false));
    let decision = decide(&house.show, 1, &Request::Alter(part.clone())).unwrap();
    assert!(matches!(&decision.events[..], [Event::Arranged { areas, .. }] if areas.len() == 2));
    assert_eq!(house.ask(&Request::Alter(part.clone())), Ok(Reply::Ok));
    assert_eq!(house.show.check(), Ok(()));
    assert_eq!(house.show.plan_json(), House::new(&areas(true)).show.plan_json());
    assert_eq!(house.hold(wish("u", 1)), "b-1-1", "area b comes first now");
    assert!(decide(&house.show, 1, &Request::Alter(part)).unwrap().events.is_empty(), "nothing changes");
    for (name, text) in [("", "ERR plan: areas[0].name: is empty"), (&"x".repeat(257), "has 257 bytes")] {
        let refusal = house.alter(&json!({"areas": [{"id": "a", "name": name}]})).unwrap_err();
        assert!(format!("{} {}", refusal.code.word(), refusal.text).contains(text), "{refusal:?}");
    }
}

/// A plan of one area with these rows, in which each of 4096 seats is of the next of 4000 tiers.
fn plan_of_many_tiers(rows: usize) -> Plan {
    let seat = |seat: usize| json!({"label": seat.to_string(), "tier": format!("t{}", seat % 4000)});
    let seats: Vec<Value> = (0..4096).map(seat).collect();
    let row = |row: usize| json!({"label": row.to_string(), "rank": row, "seats": seats});
    let rows: Vec<Value> = (0..rows).map(row).collect();
    let plan = json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}});
    plan::parse(plan.to_string().as_bytes()).unwrap()
}

#[test]
fn row_of_many_tiers_has_the_tier_of_each_seat() {
    let mut show = Show::new(&plan_of_many_tiers(2), 0).unwrap();
    assert_eq!(show.check(), Ok(()));
    assert_eq!((show.buckets().len(), show.venue().seat_count()), (4000, 8192));
    let layout = show.venue().layout(0);
    for position in [0, 95, 96, 3999, 4000, 4095] {
        let slot = layout.tier_slot(position).unwrap();
        let tier = show.venue().tier_name(layout.tiers[slot].0);
        assert_eq!(tier, format!("t{}", position % 4000));
    }
    assert_eq!(layout.tier_slot(4096), None);
    let token = TokenChoice { token: b"t", chosen: true };
    let hold = Hold { tier: Some(b"t7"), token, ..wish("ann", 4) };
    let decision = decide(&show, 1, &Request::Hold(hold)).unwrap();
    decision.events.iter().for_each(|event| show.apply(1, event));
    let Reply::Hold(record) = decision.reply else { panic!("{:?}", decision.reply) };
    let seats: Vec<String> = record.seats.iter().map(|&seat| show.venue().id(seat)).collect();
    assert_eq!(seats, ["a-0-7", "a-0-4007", "a-1-7", "a-1-4007"]);
    assert_eq!(show.check(), Ok(()));
}

#[test]
fn alter_is_bad_state_where_held_or_sold_seats_forbid_it() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "t", &["a-1-1"]).unwrap();
    let tier =
        |seats: &str| json!({"areas": [{"id": "a", "rows": [{"label": "1", "tier": "x", "seats": seats}]}]});
    assert_eq!(code(show.alter(&tier("1-2"))), Code::BadState);
    assert_eq!(show.alter(&tier("2-4")), Ok(Reply::Ok));
    assert_eq!(code(show.alter(&tier("9"))), Code::NotFound);
    assert_eq!(code(show.alter(&json!({"areas": [{"id": "z"}]}))), Code::NotFound);
}

#[test]
fn adjacent_and_groups_are_physical_whatever_the_tiers() {
    let mut show = House::rows("ltr", &[".s. ."]);
    let Ok(Reply::Hold(record)) = show.pick("u", "t", &["a-1-1", "a-1-2", "a-1-3", "a-1-4"]) else {
        panic!()
    };
    assert_eq!(show.show.groups_and_areas(&record.seats), (2, 1));
    let Ok(Reply::Hold(record)) = House::rows("ltr", &["."]).pick("u", "t", &["a-1-1"]) else { panic!() };
    assert_eq!(show.show.groups_and_areas(&record.seats), (1, 1), "one seat is adjacent, one group");
}

#[test]
fn a_clock_that_steps_back_undoes_nothing() {
    let mut show = House::rows("ltr", &["...."]);
    show.now = 10_000;
    show.pick("u", "t", &["a-1-1"]).unwrap();
    assert_eq!(show.show.now(5), 10_000);
    assert_eq!(show.show.now(20_000), 20_000);
}

#[test]
fn every_event_is_in_the_stream_where_it_is_switched_on() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["...."])], "events": 10}));
    show.pick("u", "t", &["a-1-1", "a-1-2"]).unwrap();
    show.now += 1000;
    show.block(&["a-1-4"]);
    let fields = |name: &str| {
        let found = show.show.outbox().messages().map(|message| {
            String::from_utf8(message.get(name.as_bytes()).unwrap_or_default().to_vec()).unwrap()
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(fields("event"), ["created", "held", "expired", "blocked"]);
    assert_eq!(fields("user"), ["", "u", "u", ""]);
    assert_eq!(fields("seats"), ["", r#"["a-1-1","a-1-2"]"#, r#"["a-1-1","a-1-2"]"#, r#"["a-1-4"]"#]);
}
