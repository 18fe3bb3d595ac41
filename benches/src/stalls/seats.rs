//! Plans, lists of seats, listings, and holds that are overdue.

use allot_tests::raw::encode;
use serde_json::{Value, json};

use crate::probe::Probe;

const SEATS_A_ROW: usize = 50;

/// A plan of equal rows in the short form, in areas of up to 500 rows.
fn regular_plan(seats: usize) -> Value {
    let areas: Vec<Value> = (0..seats.div_ceil(SEATS_A_ROW * 500))
        .map(|area| {
            let rows = (seats / SEATS_A_ROW - area * 500).min(500);
            let row = |row| json!({"label": format!("{row}"), "rank": row, "tier": "gold", "seats": "1-50"});
            json!({"id": format!("a{area}"), "rows": (0..rows).map(row).collect::<Vec<_>>()})
        })
        .collect();
    json!({"areas": areas, "limits": {"holds_per_user": 0}})
}

/// The id of a seat of the regular plan.
fn seat(number: usize) -> String {
    let row = number / SEATS_A_ROW;
    format!("a{}-{}-{}", row / 500, row % 500, number % SEATS_A_ROW + 1)
}

/// A plan in which successive seats are of 4000 tiers by turns, and carry 60 flags by turns.
fn irregular_plan(seats: usize) -> Value {
    let seat = |seat: usize| json!({"label": seat.to_string(), "tier": format!("tier {}", seat % 4000), "flags": [format!("f{}", seat % 60)]});
    let row = |row: usize| {
        let last = ((row + 1) * 4000).min(seats);
        json!({"label": row.to_string(), "rank": row, "seats": (row * 4000..last).map(seat).collect::<Vec<_>>()})
    };
    let rows: Vec<Value> = (0..seats.div_ceil(4000)).map(row).collect();
    json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}})
}

/// A request with a list of seats and the number of them.
fn with_seats(command: &str, count: usize) -> Vec<String> {
    let begin = [command.to_owned(), "show".to_owned(), count.to_string()];
    begin.into_iter().chain((0..count).map(seat)).collect()
}

/// A regular show.
pub(crate) fn regular(probe: &mut Probe, elements: usize) {
    let plan = regular_plan(elements).to_string();
    probe.measure("SEAT.CREATE, rows in the short form", &["SEAT.CREATE", "show", &plan]);
    let name = r#"{"areas":[{"id":"a0","name":"Stalls"}]}"#;
    probe.measure("SEAT.ALTER of a name", &["SEAT.ALTER", "show", name]);
    let priority = r#"{"areas":[{"id":"a0","priority":3}]}"#;
    probe.measure("SEAT.ALTER of a priority", &["SEAT.ALTER", "show", priority]);
    let tier = r#"{"areas":[{"id":"a0","rows":[{"label":"7","tier":"silver"}]}]}"#;
    probe.measure("SEAT.ALTER of the tier of a row", &["SEAT.ALTER", "show", tier]);
    let row =
        r#"{"areas":[{"id":"a0","put_rows":[{"label":"new","rank":-1,"tier":"gold","seats":"1-50"}]}]}"#;
    probe.measure("SEAT.ALTER that adds a row", &["SEAT.ALTER", "show", row]);
    probe.measure("SEAT.PLAN", &["SEAT.PLAN", "show"]);
    probe.measure("SEAT.MAP of 25,000 seats", &["SEAT.MAP", "show", "a0"]);
    probe.measure("SEAT.STAT", &["SEAT.STAT", "show"]);
    for command in ["SEAT.BLOCK", "SEAT.UNBLOCK"] {
        probe.measure(&format!("{command} of 20,000"), &with_seats(command, 20_000));
    }
    for command in ["SEAT.BLOCK", "SEAT.REFUND"] {
        probe.measure(&format!("{command} of all"), &with_seats(command, elements));
    }
    for option in ["AREAS", "FLAGS"] {
        let count = elements / 2;
        let begin = ["SEAT.HOLD", "show", "ann", "1", "TTL", "1000", option].map(str::to_owned);
        let words = (0..count).map(|word| format!("w{word}"));
        let request: Vec<String> = begin.into_iter().chain([count.to_string()]).chain(words).collect();
        probe.measure(&format!("SEAT.HOLD with {option} of {count} words"), &request);
    }
    probe.measure("DEL of the show", &["DEL", "show"]);
}

fn flags(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| format!("f{number}")).collect::<Vec<_>>().join(" ")
}

/// A plan of one tier and rows of 50 seats, each listed, which carry 60 flags by turns.
fn flagged_plan(seats: usize) -> Value {
    let seat = |seat: usize| json!({"label": seat.to_string(), "tier": "gold", "flags": [format!("f{}", seat % 60)]});
    let row = |row: usize| json!({"label": row.to_string(), "rank": row, "seats": (row * 50..(row + 1) * 50).map(seat).collect::<Vec<_>>()});
    json!({"areas": [{"id": "a", "rows": (0..seats / 50).map(row).collect::<Vec<_>>()}], "limits": {"holds_per_user": 0}})
}

/// A show of one tier in which each seat is listed and has a flag.
pub(crate) fn flagged(probe: &mut Probe, elements: usize) {
    let plan = flagged_plan(elements).to_string();
    probe.fill(std::iter::once(vec!["SEAT.CREATE".into(), "show".into(), plan]));
    let hold = ["SEAT.HOLD", "show", "ann", "3", "TTL", "1000", "ADJACENT", "REQUIRE"];
    for (name, options) in [
        ("new FLAGS", "FLAGS 2 f1 f2"),
        ("new FLAGS, one tier", "TIER gold FLAGS 2 f4 f5"),
        ("new NEED", "NEED 1 f11 NEED 1 f15 FLAGS 1 f13"),
        ("new NEED, one tier", "TIER gold NEED 1 f21 NEED 1 f25 FLAGS 1 f23"),
    ] {
        let request: Vec<&str> = hold.into_iter().chain(options.split(' ')).collect();
        for again in ["", " again"] {
            probe.measure(&format!("SEAT.HOLD with {name} in vain{again}, each seat with a flag"), &request);
        }
    }
    // No run has the flag more than once, so all rows are read.
    let wish: Vec<&str> = hold.into_iter().chain("FLAGS 2 f2 f3 WISH f1".split(' ')).collect();
    probe.measure("SEAT.HOLD with WISH, each seat with a flag", &wish);
}

/// Holds and releases of one seat, without waiters and with wishes that wait for what the show does not have.
pub(crate) fn waiting(probe: &mut Probe, elements: usize) {
    let plan = flagged_plan(elements).to_string();
    probe.fill(std::iter::once(vec!["SEAT.CREATE".into(), "show".into(), plan]));
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let hold = |number: usize| words(format!("SEAT.HOLD show ann 1 TTL 600000 FLAGS 1 f7 TOKEN t{number}"));
    let release = |number: usize| words(format!("SEAT.RELEASE show t{number}"));
    let holds_and_releases = |probe: &mut Probe, with: &str, first: usize| {
        let numbers = first..first + 1000;
        probe.longest(&format!("SEAT.HOLD of a seat {with}"), numbers.clone().map(hold));
        probe.longest(&format!("SEAT.RELEASE of a seat {with}"), numbers.map(release));
    };
    holds_and_releases(probe, "without waiters", 0);
    let wish = |number: usize| {
        let wait = format!("SEAT.WAIT show u{number} 100 TTL 86400000 OFFER 600000 ADJACENT REQUIRE");
        let flags = [number % 59, number / 59 + number % 59 + 1].map(|flag| format!("f{}", flag % 60));
        match number {
            0..200 => words(format!("{wait} FLAGS 2 {} {}", flags[0], flags[1])),
            _ => words(format!("{wait} NEED 1 f{} FLAGS 1 f{}", number % 60, (number / 60 + number) % 60)),
        }
    };
    probe.longest("SEAT.WAIT of a new wish in vain", (0..300).map(wish));
    holds_and_releases(probe, "while 300 wishes wait", 1000);
}

/// A show of 4000 tiers in which each seat is listed.
pub(crate) fn many_tiers(probe: &mut Probe, elements: usize) {
    let plan = irregular_plan(elements).to_string();
    probe.measure("SEAT.CREATE, 4000 tiers and 60 flags", &["SEAT.CREATE", "show", &plan]);
    probe.measure("MEMORY USAGE, 4000 tiers", &["MEMORY", "USAGE", "show"]);
    let name = r#"{"areas":[{"id":"a","name":"Stalls"}]}"#;
    probe.measure("SEAT.ALTER of a name, 4000 tiers", &["SEAT.ALTER", "show", name]);
    let priority = r#"{"areas":[{"id":"a","priority":3}]}"#;
    probe.measure("SEAT.ALTER of a priority, 4000 tiers", &["SEAT.ALTER", "show", priority]);
    probe.measure("SEAT.STAT of 4000 buckets", &["SEAT.STAT", "show"]);
    let hold = ["SEAT.HOLD", "show", "ann", "4", "TTL", "1000"];
    probe.measure("SEAT.HOLD, 4000 tiers", &hold);
    let mut measure = |name: &str, options: &str| {
        let request: Vec<&str> = hold.into_iter().chain(options.split(' ')).collect();
        probe.measure(&format!("SEAT.HOLD with {name}, 4000 tiers"), &request);
    };
    measure("new FLAGS", "FLAGS 2 f1 f2");
    measure("new FLAGS in vain", "ADJACENT REQUIRE FLAGS 2 f3 f4");
    measure("the same FLAGS in vain", "ADJACENT REQUIRE FLAGS 2 f3 f4");
    measure("almost all FLAGS in vain", &format!("ADJACENT REQUIRE FLAGS 59 {}", flags(1..60)));
    measure("new NEED", "NEED 1 f11 NEED 1 f12 FLAGS 1 f13");
    measure("new NEED in vain", "ADJACENT REQUIRE NEED 1 f21 NEED 1 f22 FLAGS 1 f23");
    measure("the same NEED in vain", "ADJACENT REQUIRE NEED 1 f21 NEED 1 f22 FLAGS 1 f23");
    let most = format!("ADJACENT REQUIRE NEED 1 f1 NEED 1 f2 NEED 1 f3 NEED 1 f4 FLAGS 55 {}", flags(5..60));
    measure("new NEED and almost all FLAGS in vain", &most);
    probe.measure("DEL of the show, 4000 tiers", &["DEL", "show"]);
    let few = irregular_plan(60_000).to_string();
    probe.measure("SEAT.CREATE, 60,000 seats of 4000 tiers", &["SEAT.CREATE", "few", &few]);
    probe.measure("MEMORY USAGE, 60,000 seats of 4000 tiers", &["MEMORY", "USAGE", "few"]);
}

/// A user with a hold for each seat; then all holds are overdue at once.
pub(crate) fn holds(probe: &mut Probe, elements: usize) {
    let plan = regular_plan(elements).to_string();
    probe.fill(std::iter::once(vec!["SEAT.CREATE".into(), "show".into(), plan]));
    // Long enough for all holds.
    let ttl = 10_000 + elements / 20;
    let hold = |_| ["SEAT.HOLD", "show", "ann", "1", "TTL", &ttl.to_string()].map(str::to_owned).to_vec();
    probe.fill((0..elements).map(hold));
    probe.measure("SEAT.HOLDS of a user with all seats", &["SEAT.HOLDS", "show", "ann"]);
    // While writes are paused, no deadline is applied.
    let pause = format!("CLIENT PAUSE {} WRITE", ttl * 2);
    probe.fill(std::iter::once(pause.split(' ').map(str::to_owned).collect()));
    std::thread::sleep(std::time::Duration::from_millis(ttl as u64 + 1000));
    let hold = encode(&["SEAT.HOLD", "show", "bob", "4", "TTL", "600000"]);
    let requests = [encode(&["CLIENT", "UNPAUSE"]), hold.clone()];
    probe.measure_all("SEAT.HOLD, all holds overdue", &requests);
    let nowhere = ["SEAT.HOLD", "show", "bob", "100", "TTL", "600000", "ADJACENT", "REQUIRE"];
    probe.measure("SEAT.HOLD that finds nothing, many holds overdue", &nowhere);
    let pick = ["SEAT.PICK", "show", "bob", "TTL", "600000", "SEATS", "1", &seat(elements - 1)];
    probe.measure("SEAT.PICK, many holds overdue", &pick);
    let nobody = ["SEAT.HOLD", "show", "bob", "60", "TTL", "600000", "ADJACENT", "AREA", "ORPHANS", "FORBID"];
    probe.measure("SEAT.HOLD of the best area that finds nothing", &nobody);
    let tier = r#"{"areas":[{"id":"a0","rows":[{"label":"7","tier":"silver"}]}]}"#;
    probe.measure("SEAT.ALTER of a tier, many holds overdue", &["SEAT.ALTER", "show", tier]);
    // Every third hold is overdue, so that no two seats side by side can be had.
    probe.fill(std::iter::once(["DEL", "show"].map(str::to_owned).to_vec()));
    probe.fill(std::iter::once(vec![
        "SEAT.CREATE".into(),
        "show".into(),
        regular_plan(elements).to_string(),
    ]));
    let hold = |number: usize| {
        let ttl = if number.is_multiple_of(3) { ttl } else { 86_400_000 };
        ["SEAT.HOLD", "show", "ann", "1", "TTL", &ttl.to_string()].map(str::to_owned).to_vec()
    };
    probe.fill((0..elements).map(hold));
    let pause = format!("CLIENT PAUSE {} WRITE", ttl * 2);
    probe.fill(std::iter::once(pause.split(' ').map(str::to_owned).collect()));
    std::thread::sleep(std::time::Duration::from_millis(ttl as u64 + 1000));
    let pair = encode(&["SEAT.HOLD", "show", "bob", "2", "TTL", "600000", "ADJACENT", "REQUIRE"]);
    let requests = [encode(&["CLIENT", "UNPAUSE"]), pair];
    probe.measure_all("SEAT.HOLD of two that finds nothing, each third hold overdue", &requests);
    // One order of many sales.
    let end = elements / 4;
    probe.fill(std::iter::once(["DEL", "show"].map(str::to_owned).to_vec()));
    probe.fill(std::iter::once(vec!["SEAT.CREATE".into(), "show".into(), regular_plan(end).to_string()]));
    let sale = |number: usize| {
        let token = format!("t{number}");
        let hold =
            ["SEAT.HOLD", "show", "ann", "1", "TTL", "600000", "TOKEN", &token].map(str::to_owned).to_vec();
        [hold, ["SEAT.CONFIRM", "show", &token, "ORDER", "all"].map(str::to_owned).to_vec()]
    };
    probe.fill((0..end).flat_map(sale));
    probe.measure("SEAT.ORDER of many sales", &["SEAT.ORDER", "show", "all"]);
    probe.measure("SEAT.REFUND of 20,000 sales", &with_seats("SEAT.REFUND", 20_000));
}

/// A sorted set.
pub(crate) fn zmpop(probe: &mut Probe, elements: usize) {
    let add = |member: usize| {
        ["ZADD", "zset", &member.to_string(), &format!("member:{member}")].map(str::to_owned).to_vec()
    };
    for command in ["ZMPOP", "SEAT.ZMPOP"] {
        probe.fill((0..elements).map(add));
        let request = [command, "1", "zset", "MIN", "COUNT", &elements.to_string()];
        probe.measure(&format!("{command} with COUNT of all"), &request);
    }
}
