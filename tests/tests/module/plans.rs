//! Plans that cannot be: each is refused with the place and the reason, and makes no key.

use allot_tests::shows::{THEATRE, books, create, no_internal_errors};
use allot_tests::{RedisServer, Reply};

fn areas(areas: &str) -> String {
    format!(r#"{{"areas":[{areas}]}}"#)
}

/// A plan of one area with these rows.
fn rows(rows: &str) -> String {
    areas(&format!(r#"{{"id":"stalls","rows":[{rows}]}}"#))
}

/// A plan of one row with these seats, as JSON.
fn seats(seats: &str) -> String {
    rows(&format!(r#"{{"label":"A","rank":1,"tier":"t","seats":{seats}}}"#))
}

fn refused(plan: &[u8], expected: &str) {
    thread_local!(static SERVER: RedisServer = RedisServer::start());
    SERVER.with(|server| {
        let reply = server.raw().call(&[&b"SEAT.CREATE"[..], b"show", plan]);
        assert_eq!(reply.error(), expected, "{}", plan[..plan.len().min(300)].escape_ascii());
        assert_eq!(server.raw().words("DBSIZE"), Reply::Int(0));
        no_internal_errors(server);
    });
}

#[test]
fn seats_of_one_id_are_refused_by_row_and_id() {
    let a = r#"{"label":"A","rank":1,"tier":"t","seats":"1-3"}"#;
    let b = r#"{"label":"B","rank":2,"tier":"t","seats":"1-3"}"#;
    let c = r#"{"label":"C","rank":3,"tier":"t","seats":"1-3"}"#;
    refused(
        rows(&[a, b, c, a].join(",")).as_bytes(),
        "ERR plan: areas[0].rows[3]: seat id 'stalls-A-1' occurs twice",
    );
    refused(seats(r#""1,2,1""#).as_bytes(), "ERR plan: areas[0].rows[0]: seat id 'stalls-A-1' occurs twice");
    // The dash that joins the parts may stand in them, too.
    let dashed = r#"{"label":"A","rank":1,"tier":"t","seats":[{"label":"x-1"}]},
        {"label":"A-x","rank":2,"tier":"t","seats":[{"label":"1"}]}"#;
    refused(rows(dashed).as_bytes(), "ERR plan: areas[0].rows[1]: seat id 'stalls-A-x-1' occurs twice");
    let across = r#"{"id":"s","rows":[{"label":"A-B","rank":1,"tier":"t","seats":"1"}]},
        {"id":"s-A","rows":[{"label":"B","rank":1,"tier":"t","seats":"1"}]}"#;
    refused(areas(across).as_bytes(), "ERR plan: areas[1].rows[0]: seat id 's-A-B-1' occurs twice");
    let twice = format!(r#"{{"id":"s","rows":[{a}]}},{{"id":"s","rows":[{b}]}}"#);
    refused(areas(&twice).as_bytes(), "ERR plan: areas[1]: area id 's' occurs twice");
}

#[test]
fn empty_parts_are_refused() {
    refused(areas("").as_bytes(), "ERR plan: areas: is empty");
    refused(rows("").as_bytes(), "ERR plan: areas[0]: rows: is empty");
    refused(seats("[]").as_bytes(), "ERR plan: areas[0].rows[0]: seats: has no seat");
    refused(seats("[null,null]").as_bytes(), "ERR plan: areas[0].rows[0]: seats: has no seat");
    refused(seats(r#"[{"label":""}]"#).as_bytes(), "ERR plan: areas[0].rows[0].seats[0].label: is empty");
    refused(areas(r#"{"id":"","rows":[]}"#).as_bytes(), "ERR plan: areas[0].id: is empty");
    refused(b"", "ERR plan: EOF while parsing a value at line 1 column 0");
    refused(b"{}", "ERR plan: missing field `areas` at line 1 column 2");
}

#[test]
fn long_names_are_refused() {
    let long = "x".repeat(1024);
    refused(
        seats(&format!(r#"[{{"label":"{long}"}}]"#)).as_bytes(),
        "ERR plan: areas[0].rows[0].seats[0].label: has 1024 bytes, more than 256",
    );
    refused(
        seats(&format!(r#"[{{"label":"{}"}}]"#, "x".repeat(250))).as_bytes(),
        &format!(
            "ERR plan: areas[0].rows[0]: seat id 'stalls-A-{}...' is longer than 256 bytes",
            "x".repeat(71)
        ),
    );
    refused(
        seats(&format!(r#"[{{"label":"1","tier":"{long}"}}]"#)).as_bytes(),
        "ERR plan: areas[0].rows[0].seats[0].tier: has 1024 bytes, more than 256",
    );
    refused(
        areas(&format!(r#"{{"id":"{long}","rows":[]}}"#)).as_bytes(),
        "ERR plan: areas[0].id: has 1024 bytes, more than 256",
    );
}

#[test]
fn plans_beyond_the_limits_are_refused() {
    refused(
        seats(r#""1-5000""#).as_bytes(),
        "ERR plan: areas[0].rows[0].seats: the row has more than 4096 positions",
    );
    let breaks = vec!["null"; 5000].join(",");
    let reply = seats(&format!("[{breaks}]"));
    let column = reply.match_indices("null").nth(4096).unwrap().0 + 5;
    refused(
        reply.as_bytes(),
        &format!(
            "ERR plan: areas[0].rows[0].seats: the row has more than 4096 positions at line 1 column {column}"
        ),
    );
    let row = |n: usize| format!(r#"{{"label":"{n}","rank":{n},"tier":"t","seats":"1-4000"}}"#);
    let many: Vec<String> = (0..501).map(row).collect();
    refused(
        rows(&many.join(",")).as_bytes(),
        "ERR plan: areas[0].rows[500]: the plan has more than 2000000 seats",
    );
    let area = |n: usize| format!(r#"{{"id":"{n}","rows":[{}]}}"#, row(1));
    let many: Vec<String> = (0..4097).map(area).collect();
    refused(areas(&many.join(",")).as_bytes(), "ERR plan: areas: has 4097 areas, more than 4096");
    let flags: Vec<String> = (0..65).map(|n| format!(r#""f{n}""#)).collect();
    refused(
        seats(&format!(r#"[{{"label":"1","flags":[{}]}}]"#, flags.join(","))).as_bytes(),
        "ERR plan: areas[0].rows[0].seats[0]: the plan has more than 64 flags",
    );
}

#[test]
fn invalid_json_and_other_shapes_are_refused() {
    refused(
        br#"{"areas":[{"id":"a","rows":"none"}]}"#,
        "ERR plan: areas[0].rows: invalid type: string \"none\", expected a sequence at line 1 column 33",
    );
    refused(
        seats("7").as_bytes(),
        "ERR plan: areas[0].rows[0].seats: invalid type: integer `7`, expected a list of seats and nulls, or a text like \"1-12,|,13-24\" at line 1 column 75",
    );
    let plan = rows(r#"{"label":"A","rank":1.5,"tier":"t","seats":"1"}"#);
    refused(
        plan.as_bytes(),
        "ERR plan: areas[0].rows[0].rank: invalid type: floating point `1.5`, expected i32 at line 1 column 56",
    );
    let plan = rows(r#"{"label":"A","rank":3000000000,"tier":"t","seats":"1"}"#);
    refused(
        plan.as_bytes(),
        "ERR plan: areas[0].rows[0].rank: invalid value: integer `3000000000`, expected i32 at line 1 column 63",
    );
    let plan = seats(r#""1""#);
    let short = &plan[..plan.len() - 1];
    for (tail, what) in [
        (
            r#","limits":{"seats_per_user":-1}}"#,
            "limits.seats_per_user: invalid value: integer `-1`, expected u32",
        ),
        (
            r#","limits":{"seats_per_user":4294967296}}"#,
            "limits.seats_per_user: invalid value: integer `4294967296`, expected u32",
        ),
        (
            r#","limits":{"seats":1}}"#,
            "limits.seats: unknown field `seats`, expected one of `seats_per_user`, `holds_per_user`, `max_hold_ms`, `waits_per_user`, `pick_orphans`",
        ),
        (r#","events":"many"}"#, "events: invalid type: string \"many\", expected u32"),
        (
            r#","colour":"red"}"#,
            "colour: unknown field `colour`, expected one of `areas`, `limits`, `events`, `focus`",
        ),
        (r#","areas":[]}"#, "duplicate field `areas`"),
    ] {
        thread_local!(static SERVER: RedisServer = RedisServer::start());
        let reply =
            SERVER.with(|server| server.raw().call(&["SEAT.CREATE", "show", &format!("{short}{tail}")]));
        let expected = format!("ERR plan: {what} at line 1 column ");
        assert!(reply.error().starts_with(&expected), "{tail}: {reply:?}");
    }
    let trailing = format!("{plan} x");
    refused(
        trailing.as_bytes(),
        &format!("ERR plan: trailing characters at line 1 column {}", plan.len() + 2),
    );
    refused(b"[1,2", "ERR plan: [0]: invalid type: integer `1`, expected a sequence at line 1 column 2");
    refused(b"\xff\xfe", "ERR plan: expected value at line 1 column 1");
}

#[test]
fn bytes_that_are_no_text_and_nesting_without_end_are_refused() {
    let mut plan = seats(r#"[{"label":"?"}]"#).into_bytes();
    let at = plan.iter().position(|&byte| byte == b'?').unwrap();
    plan[at] = 0xff;
    refused(
        &plan,
        &format!(
            "ERR plan: areas[0].rows[0].seats[0].label: invalid unicode code point at line 1 column {}",
            at + 1
        ),
    );
    let server = RedisServer::start();
    for deep in
        ["[".repeat(200_000), "{\"areas\":".repeat(50_000), format!("{{\"areas\":{}", "[".repeat(500_000))]
    {
        let reply = server.raw().call(&["SEAT.CREATE", "show", &deep]);
        assert!(reply.error().starts_with("ERR plan: "), "{reply:?}");
    }
    no_internal_errors(&server);
}

#[test]
fn seats_without_a_tier_and_bad_short_forms_are_refused() {
    refused(
        rows(r#"{"label":"A","rank":1,"seats":"1-3"}"#).as_bytes(),
        "ERR plan: areas[0].rows[0].seats[0]: has no tier, and its row has none",
    );
    for (short, what) in [("1,,2", "there is an empty item in '1,,2'"), ("", "there is an empty item in ''")]
    {
        let expected = format!("ERR plan: areas[0].rows[0].seats: {what}");
        refused(seats(&format!("\"{short}\"")).as_bytes(), &expected);
    }
}

#[test]
fn alterations_that_cannot_be_are_refused_and_change_nothing() {
    let server = RedisServer::start();
    create(&server, "show", THEATRE);
    let mut client = server.raw();
    client.words("SEAT.PICK show ann TTL 600000 SEATS 1 left-A-1");
    let digest = server.digest();
    for (part, expected) in [
        (r#"{"areas":[{"id":"none"}]}"#, "NOTFOUND areas[0]: this show has no area 'none'"),
        (
            r#"{"areas":[{"id":"left","rows":[{"label":"A","tier":"silver"}]}]}"#,
            "BADSTATE seat 'left-A-1' is held; its tier cannot change",
        ),
        (
            r#"{"areas":[{"id":"left","rows":[{"label":"Z","tier":"silver"}]}]}"#,
            "NOTFOUND areas[0].rows[0]: this area has no row 'Z'",
        ),
        (
            r#"{"areas":[{"id":"left","rows":[{"label":"A","tier":"x","seats":"99"}]}]}"#,
            "NOTFOUND areas[0].rows[0]: row 'A' has no seat '99'",
        ),
        (r#"{"areas":[{"id":"left","name":""}]}"#, "ERR plan: areas[0].name: is empty"),
        (
            r#"{"seats":1}"#,
            "ERR plan: seats: unknown field `seats`, expected one of `areas`, `add_areas`, `remove_seats`, `limits`, `events`, `focus` at line 1 column 8",
        ),
    ] {
        assert_eq!(client.call(&["SEAT.ALTER", "show", part]).error(), expected, "{part}");
    }
    assert_eq!(server.digest(), digest);
    assert_eq!(client.call(&["SEAT.CREATE", "show", THEATRE]), Reply::Simple("OK".into()));
    let other = THEATRE.replace("1-20", "1-21");
    assert_eq!(
        client.call(&["SEAT.CREATE", "show", &other]).error(),
        "EXISTS there is a show with another plan at 'show'"
    );
    assert_eq!(books(&mut client, b"show").all(), 75);
}
