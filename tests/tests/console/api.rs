//! The API: what it reads is what Redis has, and what it does is seen in Redis.

use std::time::{Duration, Instant};

use allot_tests::consoles::{ACTION, Console};
use allot_tests::http::request;
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
    let calls = || server.counted("seat.map", "calls");
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
    let calls = || server.counted("seat.map", "calls");
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
fn console_that_nobody_looks_at_sends_nothing_to_redis() {
    let server = RedisServer::start();
    create(&server, "show:1", &with_events(&sample_venue(2, 2), 100));
    let console = Console::start(&server, &[]);
    drop(console.events("overview"));
    let own = |name: &str| name == "cmdstat_info" || name.starts_with("cmdstat_config");
    let sent = || {
        let stat = server.info("commandstats");
        stat.into_iter().filter(|(name, _)| !own(name)).collect::<Vec<_>>()
    };
    eventually("the reader to end", Duration::from_secs(60), || {
        server.command("CONFIG RESETSTAT");
        std::thread::sleep(Duration::from_secs(3));
        sent().is_empty()
    });
}

#[test]
fn list_of_keys_is_shared_by_all_pages() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    let console = Console::start(&server, &[]);
    let mut pages = ["keys", "overview", "overview"].map(|name| console.events(name));
    for _ in 0..4 {
        pages[1].next("state");
        pages[2].next("state");
        console.get("keys");
    }
    assert_eq!(pages[0].next("state")["keys"][0]["key"], "show:1");
    // One scan for each of the four types.
    assert_eq!(server.counted("scan", "calls"), 4);
}

#[test]
fn every_allowed_command_is_one_that_the_server_knows() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    let mut connection = server.connection();
    let allowed = console.get("command").json();
    for command in allowed.as_array().unwrap() {
        let name = command["name"].as_str().unwrap();
        let known: Vec<(String, i64, Vec<String>, i64, i64)> = redis::cmd("COMMAND")
            .arg("INFO")
            .arg(name)
            .query::<Vec<Vec<redis::Value>>>(&mut connection)
            .unwrap()
            .into_iter()
            .map(|info| redis::from_redis_value(redis::Value::Array(info[..5].to_vec())).unwrap())
            .collect();
        let [(_, _, flags, first, last)] = known.as_slice() else { panic!("{name}: {known:?}") };
        // The key is the first argument, and there is no other.
        assert_eq!((*first, *last), (1, 1), "{name}");
        let flag = if command["access"] == "viewer" { "readonly" } else { "write" };
        assert!(flags.iter().any(|known| known == flag), "{name}: {flags:?}");
    }
    assert!(allowed.as_array().unwrap().len() > 25);
    let code = |answer: allot_tests::http::Answer| (answer.status, answer.json()["code"].clone());
    for other in ["SEAT.CREATE", "ACCOUNT.DEL", "FLUSHALL"] {
        assert_eq!(code(console.send(&[other, "k", "x"])), (403, json!("not-allowed")), "{other}");
    }
    assert_eq!(code(console.send(&["SEAT.GET", "", "x"])), (400, json!("bad-request")));
    let odd = console.act("command", &json!({"command": "SEAT.GET", "key": "k", "arguments": [["x"]]}));
    assert_eq!((odd.status, odd.header("content-type")), (422, "application/problem+json"), "{}", odd.body);
}

#[test]
fn actions_on_seats_are_seen_in_redis() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    let console = Console::start(&server, &[]);
    let first = || rows(&server, "show:1", "left").remove(0);
    let pick = |user: &str, seats: &[&str]| {
        let count = seats.len().to_string();
        let words = [&["SEAT.PICK", "show:1", user, "TTL", "60000", "SEATS", &count], seats].concat();
        console.sent(&words)["token"].as_str().unwrap().to_owned()
    };
    let held = pick("ann", &["left-A-1", "left-A-2"]);
    assert_eq!(first(), "hh.... ......");
    assert_eq!(console.sent(&["SEAT.HOLDS", "show:1", "ann"])[0]["token"], json!(held));
    console.sent(&["SEAT.CONFIRM", "show:1", &held, "ORDER", "o1"]);
    assert_eq!(first(), "ss.... ......");
    assert_eq!(console.sent(&["SEAT.ORDER", "show:1", "o1"]), json!(["left-A-1", "left-A-2"]));
    console.sent(&["SEAT.REFUND", "show:1", "ORDER", "o1", "1", "left-A-1"]);
    assert_eq!(first(), ".s.... ......");
    let block = json!({"command": "seat.block", "key": "show:1", "arguments": [1, "left-A-3"]});
    assert_eq!(console.act("command", &block).json(), json!({"result": 1}));
    assert_eq!(first(), ".sx... ......");
    console.sent(&["SEAT.UNBLOCK", "show:1", "1", "left-A-3"]);
    let held = pick("bob", &["left-A-3"]);
    console.sent(&["SEAT.RELEASE", "show:1", &held]);
    assert_eq!(first(), ".s.... ......");
    let records = console.get("show/seats?key=show:1&seats=%5B%22left-A-2%22%5D").json();
    assert_eq!((records[0]["state"].as_str(), records[0]["order"].as_str()), (Some("sold"), Some("o1")));
}

#[test]
fn waiting_list_is_read_and_changed() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 2));
    let console = Console::start(&server, &[]);
    let wait =
        |user: &str| console.sent(&["SEAT.WAIT", "show:1", user, "2", "TTL", "60000", "OFFER", "60000"]);
    assert_eq!(wait("ann")["state"], "offered");
    let bob = wait("bob");
    assert_eq!((&bob["state"], &bob["position"]), (&json!("waiting"), &json!(1)));
    let cid = wait("cid");
    let users = || {
        let list = console.sent(&["SEAT.LIST", "show:1", "WAITING"]);
        assert_eq!(list["cursor"], 0);
        let users = list["items"].as_array().unwrap().iter();
        users.map(|wait| wait["user"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(users(), ["bob", "cid"]);
    let unwait = ["SEAT.UNWAIT", "show:1", bob["token"].as_str().unwrap()];
    console.sent(&unwait);
    assert_eq!(users(), ["cid"]);
    let again = console.send(&unwait);
    assert_eq!((again.status, again.json()["code"].as_str()), (404, Some("NOTFOUND")));
    // A release serves the next user at once, under the token of the wait.
    let holds = |user: &str| console.sent(&["SEAT.HOLDS", "show:1", user]);
    console.sent(&["SEAT.RELEASE", "show:1", holds("ann")[0]["token"].as_str().unwrap()]);
    assert_eq!(holds("cid")[0]["token"], cid["token"]);
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
    let accounts = || console.sent(&["ACCOUNT.LIST", "{b}"])[1].clone();
    assert_eq!(accounts(), json!([]));
    let done = import(table, false).json()["result"].clone();
    assert_eq!((&done["changes"], &done["applied"]), (&json!(2), &json!(true)), "{done}");
    assert_eq!(accounts()[0]["account"], "p1");
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
    // Other topics of a stream go on.
    for (key, code) in [("nothing", "NOKEY"), ("text", "bad-request")] {
        assert_eq!(console.events(key).next("trouble")["code"], code);
    }
    for topics in ["", "show:1", "[]", "[1]"] {
        assert_eq!(code(console.get(&format!("events?topics={topics}"))), is(400, "bad-request"), "{topics}");
    }
    assert_eq!(code(console.get("show/seats?key=show:1&seats=%5B%22none%22%5D")), is(404, "NOTFOUND"));
    assert_eq!(code(console.get("show/seats?key=show:1&seats=none")), is(400, "bad-request"));
    assert_eq!(code(console.get("compaction/history")), is(404, "absent"));
    assert_eq!(code(console.get("nothing")), is(404, "absent"));
    assert_eq!(code(console.send(&["SEAT.REFUND", "show:1", "1", "left-A-1"])), is(409, "BADSTATE"));
    assert_eq!(console.send(&["CMU.DRAIN", "nothing", "u"]).status, 404);
    assert_eq!(code(console.send(&["SEAT.HOLDS", "text", "ann"])), is(409, "WRONGTYPE"));
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
            Some("find") => "&text=ann",
            Some("totals") => "&keys=%5B%22show:1%22%5D",
            _ => "",
        };
        let answer = console.get(&format!("{}?key={}{more}", path.trim_start_matches("/api/v1/"), key(path)));
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        reads += 1;
    }
    assert!(reads >= 8, "{reads}");
}

#[test]
fn unknown_addresses_and_methods_are_problems() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    for (what, status) in [
        ("GET /api", 404),
        ("GET /api/v2/keys", 404),
        ("POST /api/nothing", 404),
        ("GET /api/v1/nothing", 404),
        ("PUT /api/v1/keys", 405),
        ("GET /api/v1/compaction/stop", 405),
    ] {
        let answer = request(console.port, what, &[ACTION], "");
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (status, "application/problem+json"),
            "{what}"
        );
        assert!(answer.json()["message"].as_str().unwrap().len() > 10, "{what}: {}", answer.body);
    }
}

#[test]
fn file_that_a_browser_has_is_not_sent_again() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    let file = |headers: &[(&str, &str)]| request(console.port, "GET /app.js", headers, "");
    let first = file(&[]);
    let tag = first.header("etag").to_owned();
    assert!(first.status == 200 && tag.len() > 10, "{tag}");
    let again = file(&[("If-None-Match", &tag)]);
    assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", tag.as_str()));
    assert_eq!(file(&[("If-None-Match", "\"other\"")]).status, 200);
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
    let found: Vec<(&str, &str)> = keys["keys"]
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
    assert_eq!(events.next("trouble")["code"], "redis-away");
    server.restart();
    events.next("sync");
    assert_eq!(console.get("show/map?key=show:1").status, 200);
}
