//! `allot conference`, `realm` and `record`: a creation that waits, settings, and records of conferences that ended.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use allot_tests::daemon::{Run, alone, command, run};
use allot_tests::random::Random;
use allot_tests::realms::{REALM, Realm};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, eventually};
use serde_json::Value;

fn people(server: &RedisServer, line: &str) -> Run {
    run(server, &[&line.split(' ').collect::<Vec<_>>()[..], &["--realm", REALM]].concat())
}

#[test]
fn creation_waits_until_the_conference_is_open_or_has_failed() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| people(&server, "conference create 1 --wait --format json"));
        eventually("the creation", TIMEOUT, || realm.stat("creating") == 1);
        let epoch = realm.place("1").1;
        assert!(!waiting.is_finished());
        realm.ok(&format!("CONF.ACK 1 a:1:1 {epoch}"));
        let record: Value = serde_json::from_str(&waiting.join().unwrap().ok().out).unwrap();
        assert_eq!((&record["state"], record["epoch"].as_i64()), (&"open".into(), Some(epoch)));
    });
    thread::scope(|scope| {
        let waiting = scope.spawn(|| people(&server, "conference create 2 --wait --timeout 1m"));
        eventually("the creation", TIMEOUT, || realm.stat("creating") == 1);
        let epoch = realm.place("2").1;
        realm.ok(&format!("CONF.NACK 2 a:1:1 {epoch} no-media"));
        let failed = waiting.join().unwrap().ended(1);
        assert!(failed.err.contains("refused (no-media)"), "{}", failed.err);
    });
    let late = people(&server, "conference create 3 --wait --timeout 300ms").ended(1);
    assert!(late.err.contains("still creating"), "{}", late.err);
    assert_eq!(realm.place("3").2, "creating", "it remains");
    // A repeated request finds the conference open, although its event came before.
    let (_, epoch) = realm.begin("4", "REQUEST r");
    realm.ok(&format!("CONF.ACK 4 a:1:1 {epoch}"));
    people(&server, "conference create 4 --request r --wait --timeout 300ms").ok();
}

#[test]
fn conference_goes_where_its_wishes_say_and_elsewhere_when_they_change() {
    let server = RedisServer::start();
    let unit = |host: &str, zone: &str, tags: &str| {
        let more = ["--media-unit-zone", zone, "--media-unit-tags", tags];
        alone(&server, host, "media-unit", &more)
    };
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let (_fra, _lon) = (unit("fra", "fra", "hd,gpu"), unit("lon", "lon", "hd"));
    let mut realm = Realm::of(&server);
    eventually("the units to be up", TIMEOUT, || realm.stat("up") == 2);
    let create = |line: &str| people(&server, &format!("conference create {line} --wait --format json"));
    let unit_of = |run: Run| {
        let record: Value = serde_json::from_str(&run.ok().out).unwrap();
        record["unit"].as_str().unwrap().to_owned()
    };
    for (line, host) in [
        ("1 --require hd --require gpu", "127.0.0.1/fra:"),
        ("2 --prefer gpu", "127.0.0.1/fra:"),
        ("3 --zone lon", "127.0.0.1/lon:"),
        ("4 --host 127.0.0.1/lon --zone-fall 1m", "127.0.0.1/lon:"),
    ] {
        let identity = unit_of(create(line));
        assert!(identity.starts_with(host), "{line}: {identity}");
    }
    let none = people(&server, "conference create 5 --zone lon --require gpu").ended(5);
    assert!(none.err.contains("no unit of zone 'lon' with 'gpu' has room"), "{}", none.err);
    // Its unit has no such tag, so the next move takes it to the other.
    realm.ok("CONF.ALTER 3 NOZONE REQUIRE 2 hd gpu PREFER 0");
    people(&server, "conference move 3").ok();
    eventually("it to have moved", TIMEOUT, || realm.place("3").0.starts_with("127.0.0.1/fra:"));
    let record = people(&server, "conference get 3 --format json").ok().out;
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["require"], serde_json::json!(["gpu", "hd"]), "{record}");
    let listed = people(&server, "unit list").ok().out;
    assert!(listed.contains("gpu hd"), "{listed}");
}

#[test]
fn rebalance_moves_so_many_at_a_time_until_the_shares_are_even() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    for e164 in 1..=8 {
        realm.open(&e164.to_string());
    }
    realm.join("b:1:1");
    let planned = people(&server, "unit rebalance --dry-run --max-moves 3 --format json").ok();
    let rows: Value = serde_json::from_str(&planned.out).unwrap();
    let rows: Vec<_> = rows.as_array().unwrap().iter().map(|row| (&row["from"], &row["to"])).collect();
    assert_eq!(rows, [(&Value::from("a:1:1"), &Value::from("b:1:1")); 3], "{}", planned.out);
    assert_eq!(
        (realm.stat("used"), realm.entries("evt").iter().any(|line| line.starts_with("mov"))),
        (8, false)
    );
    // Two at a time: the next ones begin when both are done.
    let moved = thread::scope(|scope| {
        let command = scope.spawn(|| people(&server, "unit rebalance --at-once 2 --format jsonl"));
        for done in [2, 4] {
            eventually("two moves to begin", TIMEOUT, || realm.stat("used") == 10);
            for number in 1..=8 {
                let record = realm.ok(&format!("CONF.INFO {number}"));
                if !record.field("moving_to").is_null() {
                    let epoch = record.field("moving_epoch").int();
                    assert_eq!(
                        realm.stat("used"),
                        if number_of_moved(&mut realm).is_multiple_of(2) { 10 } else { 9 }
                    );
                    realm.ok(&format!("CONF.ACK {number} b:1:1 {epoch}"));
                }
            }
            assert_eq!(number_of_moved(&mut realm), done);
        }
        command.join().unwrap().ok().out
    });
    assert_eq!(lines(&moved).len(), 4, "{moved}");
    let none = people(&server, "unit rebalance").ended(1);
    assert!(none.err.contains("the used share of the units is even"), "{}", none.err);
    // At most as many as are allowed.
    realm.join("c:1:1");
    thread::scope(|scope| {
        let command = scope.spawn(|| people(&server, "unit rebalance --max-moves 1"));
        eventually("a move to begin", TIMEOUT, || realm.stat("used") == 9);
        let target = realm.ok("CONF.LIST").array()[1].array().iter().find_map(|one| {
            let moves = !one.field("moving_to").is_null();
            moves.then(|| (one.field("e164").text(), one.field("moving_epoch").int()))
        });
        let (e164, epoch) = target.unwrap();
        realm.ok(&format!("CONF.ACK {e164} c:1:1 {epoch}"));
        command.join().unwrap().ok();
    });
    assert_eq!((realm.stat("used"), number_of_moved(&mut realm)), (8, 5));
}

/// How many moves are done.
fn number_of_moved(realm: &mut Realm) -> usize {
    realm.entries("evt").iter().filter(|line| line.starts_with("moved ")).count()
}

#[test]
fn creation_waits_for_room_on_a_host_that_was_drained_before_it_had_a_unit() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &[]);
    let late = people(&server, "conference create 1 --wait-for-room 200ms").ended(1);
    assert!(late.err.contains("no unit had room for conference 1 within 200ms"), "{}", late.err);
    people(&server, "conference create 1 --wait-for-room 0s").ended(2);
    let drained = people(&server, "unit drain --host a").ok().out;
    assert_eq!(drained, "host a is draining: its units get no new conferences\n");
    realm.join("a:1:1");
    let shown = run(&server, &["realm", "get", REALM, "--format", "json"]).ok().out;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["drained"], serde_json::json!(["a"]), "{shown}");
    people(&server, "conference create 1").ended(5);
    let created = thread::scope(|scope| {
        let command = scope.spawn(|| people(&server, "conference create 1 --wait-for-room 5m"));
        let mut clients = server.raw();
        eventually("the creation to wait", TIMEOUT, || {
            clients.call(&["INFO", "clients"]).text().contains("blocked_clients:1")
        });
        people(&server, "unit undrain --host a").ok();
        command.join().unwrap().ok().out
    });
    assert_eq!(created, "conference 1 is creating on a\n");
    let moved = people(&server, "unit drain --host a --move --yes").ok().out;
    assert_eq!(moved, "host a is draining: 0 conferences began to move, 1 left\n");
}

#[test]
fn settings_of_a_realm_are_printed_and_changed() {
    let server = RedisServer::start();
    let realm = |line: &str| {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        run(&server, &[&["realm", words[0], REALM, "--format", "json"], &words[1..]].concat())
    };
    let printed = |line: &str| serde_json::from_str::<Value>(&realm(line).ok().out).unwrap();
    // Settings that are only read create no realm.
    let absent = realm("get").ended(4);
    assert!(absent.err.contains(REALM), "{}", absent.err);
    assert_eq!(server.raw().call(&["EXISTS", REALM]).int(), 0);

    let all = "set licences=10 retry=1m window=20m policy=keep create-timeout=4s release-timeout=2s wait-timeout=7s \
               tombstone=30s place=load warn=2m";
    let mut record = printed(all);
    for (setting, value) in [
        ("licences", 10.into()),
        ("retry_ms", 60_000.into()),
        ("window_ms", 1_200_000.into()),
        ("policy", "keep".into()),
        ("create_timeout_ms", 4000.into()),
        ("release_timeout_ms", 2000.into()),
        ("wait_timeout_ms", 7000.into()),
        ("tombstone_ms", 30_000.into()),
        ("place", Value::from("load")),
        ("warn_ms", 120_000.into()),
    ] {
        assert_eq!(record[setting], value, "{setting} of {record}");
    }
    record["place"] = "share".into();
    assert_eq!(printed("set place=share"), record, "the other settings stay");
    assert_eq!(printed("get"), record);
    assert_eq!(Realm::of(&server).ok("CONF.REALM").field("place").text(), "share");
    let odd = realm("set place=most").ended(2);
    assert!(odd.err.contains("share or load"), "{}", odd.err);
    let odd = realm("set plaice=load").ended(2);
    assert!(odd.err.contains("licences, retry"), "{}", odd.err);
}

/// How often a conference is moved while it is open: a third of them once, and a third three times.
fn moves(number: usize) -> usize {
    [1, 0, 3][number % 3]
}

/// Opens, moves and ends a conference.
fn live(realm: &mut Realm, number: usize) {
    let e164 = number.to_string();
    let (mut cmu, mut epoch) = realm.open(&e164);
    for _ in 0..moves(number) {
        epoch = realm.ok(&format!("CONF.MOVE {e164}")).field("moving_epoch").int();
        cmu = if cmu == "a:1:1" { "b:1:1".into() } else { "a:1:1".into() };
        realm.ok(&format!("CONF.ACK {e164} {cmu} {epoch}"));
    }
    realm.ok(&format!("CONF.ENDED {e164} {cmu} {epoch}"));
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of a CSV file, as those of JSON.
fn rows(text: &str) -> Vec<Value> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().unwrap().clone();
    let value = |(name, cell): (&str, &str)| {
        // What is no number, no list and not absent is text.
        let value = match name {
            "number" => cell.into(),
            _ if cell.is_empty() => Value::Null,
            _ => serde_json::from_str(cell).unwrap_or_else(|_| cell.into()),
        };
        (name.to_owned(), value)
    };
    reader.records().map(|row| names.iter().zip(&row.unwrap()).map(value).collect()).collect()
}

#[test]
fn each_ended_conference_has_one_record_whenever_the_writer_is_killed() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1", "b:1:1"]);
    let mut random = Random::new(23);
    let file = |name: &str| server.dir().join(name).to_str().unwrap().to_owned();
    let (json, csv) = (file("records.json"), file("records.csv"));
    let writers = [
        ["record", "collect", "--output", &json, "--realm", REALM, "--group", "json", "--format", "jsonl"],
        ["record", "collect", "--output", &csv, "--realm", REALM, "--group", "csv", "--format", "csv"],
    ];
    let mut number = 0;
    for _ in 0..25 {
        let mut started = writers.map(|writer| {
            command(&server, &[&writer[..], &["--follow"]].concat()).stderr(Stdio::null()).spawn().unwrap()
        });
        for writer in &mut started {
            let until = Instant::now() + Duration::from_millis(random.within(20, 300) as u64);
            while Instant::now() < until {
                number += 1;
                live(&mut realm, number);
            }
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
    }
    for writer in [writers, writers].concat() {
        run(&server, &writer).ok();
    }
    let records = lines(&fs::read_to_string(&json).unwrap());
    assert_eq!(rows(&fs::read_to_string(&csv).unwrap()), records, "CSV and JSON have the same records");
    let of: BTreeMap<usize, &Value> =
        records.iter().map(|record| (record["number"].as_str().unwrap().parse().unwrap(), record)).collect();
    assert_eq!((records.len(), of.len()), (number, number), "each conference once, none missing");
    for (place, record) in records.iter().enumerate() {
        assert_eq!(record["record"].as_u64(), Some(place as u64 + 1));
        assert_eq!(record["missing_before"], 0);
    }
    for (&e164, record) in &of {
        let history = realm.ok(&format!("CONF.HISTORY {e164}"));
        let segments = record["segments"].as_array().unwrap();
        assert_eq!(segments.len(), 1 + moves(e164));
        assert_eq!(segments.len(), history.array().len());
        for (segment, entry) in segments.iter().zip(history.array()) {
            assert_eq!(segment["unit"], entry.field("cmu").text());
            assert_eq!(segment["how"], entry.field("how").text());
            assert_eq!(segment["epoch"].as_i64().unwrap(), entry.field("epoch").int());
            for name in ["from", "opened", "to"] {
                let time = humantime::parse_rfc3339(segment[name].as_str().unwrap()).unwrap();
                let ms = time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
                assert_eq!(ms, entry.field(name).int(), "{name}");
            }
        }
    }
}

#[test]
fn records_that_the_stream_dropped_are_reported() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1", "b:1:1"]);
    let records = |more: &str| people(&server, &format!("record collect{more}"));
    live(&mut realm, 1);
    let file = server.dir().join("records.csv");
    let csv = format!(" --format csv --group csv --output {}", file.display());
    assert_eq!(records(&csv).ok().err, "");
    // To look takes nothing from any group, and makes none.
    let groups = |realm: &mut Realm| realm.client.words(&format!("XINFO GROUPS {REALM}:evt")).array().len();
    let before = groups(&mut realm);
    for _ in 0..2 {
        assert_eq!(lines(&people(&server, "record list --format jsonl").ok().out).len(), 1);
    }
    assert_eq!(groups(&mut realm), before);
    for number in 2..=4 {
        live(&mut realm, number);
    }
    realm.client.words(&format!("XTRIM {REALM}:evt MAXLEN 0"));
    live(&mut realm, 5);
    let late = records(&csv).ok();
    assert!(late.err.contains("3 conferences"), "{}", late.err);
    let text = fs::read_to_string(&file).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with("id,record,missing_before,number"), "{text}");
    let cells: Vec<&str> = rows[2].split(',').collect();
    assert_eq!((rows.len(), &cells[1..4]), (3, &["5", "3", "5"][..]), "{text}");
    // In a new file nothing is known of earlier records.
    let late = records(&format!(" --group new --output {}.new", file.display())).ok();
    assert!(late.err.contains("4 conferences ended before it"), "{}", late.err);
    run(&server, &["record", "list", "--realm", "nowhere"]).ended(4);
}
