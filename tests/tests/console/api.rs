//! The API: what it reads is what Redis has, and what it does is seen in Redis.

use std::time::{Duration, Instant};

use allot_tests::consoles::Console;
use allot_tests::shows::{THEATRE, create, sample_venue, with_events};
use allot_tests::{RedisServer, Reply, eventually};
use serde_json::{Value, json};

/// The rows of `SEAT.MAP` of an area.
fn rows(server: &RedisServer, key: &str, area: &str) -> Vec<String> {
    let mut connection = server.connection();
    let rows: Vec<(String, String)> =
        redis::cmd("SEAT.MAP").arg(key).arg(area).query(&mut connection).expect("a map");
    rows.into_iter().map(|(_, seats)| seats).collect()
}

/// Applies changes to the rows of a map whose only area is the first.
fn apply(map: &mut [Vec<u8>], changes: &Value) {
    for (name, state) in [("free", b'.'), ("held", b'h'), ("sold", b's'), ("blocked", b'x')] {
        for at in changes[name].as_array().unwrap() {
            let mut at = usize::try_from(at.as_u64().unwrap()).unwrap();
            let row = map
                .iter_mut()
                .find(|row| {
                    let is_here = at < row.len();
                    if !is_here {
                        at -= row.len();
                    }
                    is_here
                })
                .expect("a position of the map");
            row[at] = state;
        }
    }
}

#[test]
fn map_and_its_changes_are_the_map_of_redis() {
    let server = RedisServer::start();
    for (key, plan) in
        [("{k}:quiet", sample_venue(40, 50)), ("{k}:told", with_events(&sample_venue(40, 50), 1000))]
    {
        create(&server, key, &plan);
        let console = Console::start(&server, &[]);
        let mut events = console.events(key);
        events.next("sync");
        let answer = console.get(&format!("show/map?key={key}")).json();
        let mut seq = answer["seq"].as_u64().unwrap();
        let mut map: Vec<Vec<u8>> = answer["areas"][0]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row.as_str().unwrap().as_bytes().to_vec())
            .collect();
        let mut client = server.raw();
        for round in 0..30 {
            let (user, token) = (format!("u{round}"), format!("t{round}"));
            client.call(&["SEAT.HOLD", key, &user, "37", "TTL", "60000", "TOKEN", &token]);
            match round % 3 {
                0 => drop(client.call(&["SEAT.CONFIRM", key, &token])),
                1 => drop(client.call(&["SEAT.RELEASE", key, &token])),
                _ => {}
            }
        }
        let wanted = rows(&server, key, "a");
        let began = Instant::now();
        while map.iter().map(|row| String::from_utf8_lossy(row).into_owned()).collect::<Vec<_>>() != wanted {
            let changes = events.next("changes");
            seq += 1;
            assert_eq!(changes["seq"].as_u64().unwrap(), seq);
            apply(&mut map, &changes);
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

#[test]
fn added_row_is_in_map_and_plan_at_once_without_events() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 5));
    let console = Console::start(&server, &[]);
    let mut events = console.events("show");
    events.next("sync");
    let part = r#"{"areas":[{"id":"a","put_rows":[{"label":"3","rank":3,"tier":"t","seats":"1-7"}]}]}"#;
    assert_eq!(server.raw().call(&["SEAT.ALTER", "show", part]), Reply::Simple("OK".into()));
    events.next("resync");
    let answer = console.get("show/map?key=show").json();
    let rows = |list: &Value| list.as_array().unwrap().len();
    assert_eq!((rows(&answer["areas"][0]), rows(&answer["plan"]["areas"][0]["rows"])), (3, 3));
}

#[test]
fn changes_of_a_standing_area_are_its_counts() {
    let server = RedisServer::start();
    let floor = json!({"id": "floor", "standing": 50, "tier": "pit"});
    let stalls = json!({"id": "a", "rows": [{"label": "1", "rank": 1, "tier": "t", "seats": "1-4"}]});
    create(&server, "show", &json!({"areas": [floor, stalls]}).to_string());
    let console = Console::start(&server, &[]);
    let mut events = console.events("show");
    events.next("sync");
    let areas = || console.get("show/map?key=show").json()["areas"].clone();
    assert_eq!(areas(), json!([["50", "0", "0", "0"], ["...."]]));
    server.command("SEAT.PICK show ann TTL 60000 TOKEN t SEATS 3 floor-1 floor-9 a-1-2");
    let changes = events.next("changes");
    assert_eq!(changes["standing"], json!([[0, ["48", "2", "0", "0"]]]));
    // Places have no positions: the first position of the map is the first seat of the row.
    assert_eq!(changes["held"], json!([1]));
    assert_eq!(areas(), json!([["48", "2", "0", "0"], [".h.."]]));
    server.command("SEAT.BLOCK show 1 floor-2");
    assert_eq!(events.next("changes")["standing"], json!([[0, ["47", "2", "0", "1"]]]));
}

#[test]
fn many_listeners_cost_redis_one_reader() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(20, 20));
    let console = Console::start(&server, &[]);
    let calls = || -> u64 {
        let stat = server.info("commandstats");
        let line = stat.get("cmdstat_SEAT.MAP").or_else(|| stat.get("cmdstat_seat.map"));
        line.and_then(|line| line.strip_prefix("calls=")?.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    let all: Vec<_> = (0..100).map(|_| console.events("show:1")).collect();
    eventually("the reader to read", Duration::from_secs(10), || calls() > 3);
    let (before, began) = (calls(), Instant::now());
    eventually("further reads", Duration::from_secs(20), || calls() > before + 10);
    // One reader reads five times a second, at most; a hundred would have read a thousand times.
    let most = 10 + began.elapsed().as_millis() as u64 / 150;
    assert!(calls() - before <= most, "{} reads in {:?}", calls() - before, began.elapsed());
    drop(all);
}

#[test]
fn reader_ends_when_nobody_looks() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(2, 2));
    let console = Console::start(&server, &[]);
    drop(console.events("show:1"));
    let calls = || {
        server
            .info("commandstats")
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("cmdstat_seat.map"))
    };
    let mut last = calls();
    let mut same = Instant::now();
    eventually("the reads to end", Duration::from_secs(60), || {
        let now = calls();
        if now != last {
            (last, same) = (now, Instant::now());
        }
        same.elapsed() > Duration::from_secs(3)
    });
}

#[test]
fn actions_on_seats_are_seen_in_redis() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    let console = Console::start(&server, &[]);
    let act = |path: &str, body: &Value| {
        let answer = console.act(&format!("show/{path}"), body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()["result"].clone()
    };
    let first = || rows(&server, "show:1", "left").remove(0);
    let seats = json!(["left-A-1", "left-A-2"]);
    let held = act("hold", &json!({"key": "show:1", "user": "ann", "ttl": 60000, "seats": seats}));
    assert_eq!(first(), "hh.... ......");
    let found = console.get("show/find?key=show:1&name=ann").json();
    assert_eq!(found["holds"][0]["token"], held);
    act("confirm", &json!({"key": "show:1", "token": held, "order": "o1"}));
    assert_eq!(first(), "ss.... ......");
    assert_eq!(console.get("show/find?key=show:1&name=o1").json()["order"], seats);
    act("refund", &json!({"key": "show:1", "seats": ["left-A-1"], "order": "o1"}));
    assert_eq!(first(), ".s.... ......");
    act("block", &json!({"key": "show:1", "seats": ["left-A-3"]}));
    assert_eq!(first(), ".sx... ......");
    act("unblock", &json!({"key": "show:1", "seats": ["left-A-3"]}));
    let held = act("hold", &json!({"key": "show:1", "user": "bob", "ttl": 60000, "seats": ["left-A-3"]}));
    act("release", &json!({"key": "show:1", "token": held}));
    assert_eq!(first(), ".s.... ......");
    let records = console.get("show/seats?key=show:1&seats=%5B%22left-A-2%22%5D").json();
    assert_eq!((records[0]["state"].as_str(), records[0]["order"].as_str()), (Some("sold"), Some("o1")));
}

#[test]
fn waiting_list_is_read_and_changed() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 2));
    let console = Console::start(&server, &[]);
    let wait = |user: &str| {
        let wanted = json!({"key": "show:1", "user": user, "count": 2, "ttl": 60000, "offer": 60000});
        console.act("show/wait", &wanted).json()["result"].clone()
    };
    assert_eq!(wait("ann")["state"], "offered");
    let bob = wait("bob");
    assert_eq!((&bob["state"], &bob["position"]), (&json!("waiting"), &json!(1)));
    let cid = wait("cid");
    let users = || {
        let list = console.get("show/waiting?key=show:1").json();
        assert_eq!(list["next"], 0);
        let users = list["items"].as_array().unwrap().iter();
        users.map(|wait| wait["user"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(users(), ["bob", "cid"]);
    let off = console.act("show/unwait", &json!({"key": "show:1", "token": bob["token"]}));
    assert_eq!(off.status, 200, "{}", off.body);
    assert_eq!(users(), ["cid"]);
    let again = console.act("show/unwait", &json!({"key": "show:1", "token": bob["token"]}));
    assert_eq!((again.status, again.json()["code"].as_str()), (404, Some("NOTFOUND")));
    // A release serves the next user at once, under the token of the wait.
    let found = console.get("show/find?key=show:1&name=ann").json();
    console.act("show/release", &json!({"key": "show:1", "token": found["holds"][0]["token"]}));
    assert_eq!(console.get("show/find?key=show:1&name=cid").json()["holds"][0]["token"], cid["token"]);
    assert_eq!(users(), Vec::<String>::new());
}

#[test]
fn table_of_accounts_is_compared_and_imported() {
    let server = RedisServer::start();
    server.command("ACCOUNT.BOOK {b}");
    let console = Console::start(&server, &[]);
    let table = "department,module,account,quota,tiers\nfinance,billing,p1,100,150:0.1\n";
    let import = |table: &str, dry: bool| {
        console.act("book/import", &json!({"key": "{b}", "table": table, "dry_run": dry}))
    };
    let plan = import(table, true).json()["result"].clone();
    assert_eq!((&plan["changes"], &plan["applied"]), (&json!(2), &json!(false)), "{plan}");
    assert!(plan["lines"].to_string().contains("+ module billing of finance"), "{plan}");
    assert_eq!(console.get("book/accounts?key=%7Bb%7D").json()["items"], json!([]));
    let done = import(table, false).json()["result"].clone();
    assert_eq!((&done["changes"], &done["applied"]), (&json!(2), &json!(true)), "{done}");
    assert_eq!(console.get("book/accounts?key=%7Bb%7D").json()["items"][0]["account"], "p1");
    assert_eq!(import(table, true).json()["result"]["changes"], 0);
    let wrong = import("department,module,account,quota\nfinance,billing,p2,much\n", true);
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    assert!(wrong.body.contains("line 2"), "{}", wrong.body);
    // Tables are longer than the bodies of other requests.
    let lines: Vec<String> =
        (0..20_000).map(|at| format!("finance,billing,account-{at},100,150:0.1")).collect();
    let long = format!("department,module,account,quota,tiers\n{}\n", lines.join("\n"));
    assert!(long.len() > 512 * 1024);
    assert_eq!(import(&long, true).json()["result"]["changes"], 20_000);
}

#[test]
fn refusals_of_redis_come_with_their_code() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    server.command("SET text value");
    let console = Console::start(&server, &[]);
    let code = |answer: allot_tests::http::Answer| {
        (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
    };
    let is = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(code(console.get("show/map?key=nothing")), is(404, "NOKEY"));
    assert_eq!(code(console.get("show/map?key=text")), is(400, "bad-request"));
    assert_eq!(code(console.get("events?key=nothing")), is(404, "NOKEY"));
    assert_eq!(code(console.get("events?key=text")), is(400, "bad-request"));
    assert_eq!(code(console.get("show/seats?key=show:1&seats=%5B%22none%22%5D")), is(404, "NOTFOUND"));
    assert_eq!(code(console.get("show/seats?key=show:1&seats=none")), is(400, "bad-request"));
    assert_eq!(code(console.get("compaction/history")), is(404, "absent"));
    assert_eq!(code(console.get("nothing")), is(404, "absent"));
    let sold = json!({"key": "show:1", "seats": ["left-A-1"]});
    assert_eq!(code(console.act("show/refund", &sold)), is(409, "BADSTATE"));
    let unit = json!({"key": "nothing", "cmu": "u"});
    assert_eq!(console.act("realm/drain", &unit).status, 404);
    assert_eq!(code(console.act("realm/lift-guard", &json!({"key": "{r}"}))), is(409, "BADSTATE"));
}

#[test]
fn every_read_of_the_document_answers() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    for command in [
        "CONF.REALM {r}:conf",
        "NUMPOOL.ADD {p} 1",
        "ACCOUNT.BOOK {b}",
        "CMU.JOIN {r}:conf u CAPACITY 3 LEASE 60000",
    ] {
        server.command(command);
    }
    let console = Console::start(&server, &[]);
    let document = console.get("openapi.json").json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."), "{document}");
    let key = |path: &str| match path {
        path if path.contains("/realm") => "{r}:conf",
        path if path.contains("/pool") => "{p}",
        path if path.contains("/book") => "{b}",
        _ => "show:1",
    };
    let mut reads = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods.get("get").is_none() || path.ends_with("/events") || path.contains("compaction") {
            continue;
        }
        let more = match path.rsplit('/').next() {
            Some("seats") => "&seats=%5B%22left-A-1%22%5D",
            Some("find") => "&name=ann",
            Some("conference") => "&e164=1",
            _ => "",
        };
        let answer = console.get(&format!("{}?key={}{more}", path.trim_start_matches("/api/v1/"), key(path)));
        let is_unknown = path.ends_with("/conference") && answer.status == 404;
        assert!(answer.status == 200 || is_unknown, "{path}: {} {}", answer.status, answer.body);
        reads += 1;
    }
    assert!(reads >= 10, "{reads}");
}

#[test]
fn keys_of_all_kinds_are_found() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    for command in ["CONF.REALM {r}:conf", "NUMPOOL.ADD {p} 1", "ACCOUNT.BOOK {b}", "SET other 1"] {
        server.command(command);
    }
    let console = Console::start(&server, &[]);
    let keys = console.get("keys").json();
    let found: Vec<(&str, &str)> = keys
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (key["kind"].as_str().unwrap(), key["key"].as_str().unwrap()))
        .collect();
    assert_eq!(found, [("book", "{b}"), ("pool", "{p}"), ("realm", "{r}:conf"), ("show", "show:1")]);
}

#[test]
fn restart_of_redis_is_told_and_survived() {
    let server = RedisServer::builder().arg("save", "3600 1").start();
    create(&server, "show:1", &sample_venue(3, 4));
    let console = Console::start(&server, &[]);
    let mut events = console.events("show:1");
    events.next("sync");
    server.shutdown();
    events.next("trouble");
    server.restart();
    events.next("sync");
    assert_eq!(console.get("show/map?key=show:1").status, 200);
}
