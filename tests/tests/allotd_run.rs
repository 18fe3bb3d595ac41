//! allotd as a daemon and as a tool for conferences: settings, probes, signals, programs, commands.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use allot_tests::daemon::run;
use allot_tests::module::repository;
use allot_tests::realms::{REALM, Realm, UNITS};
use allot_tests::wait::GENEROUS;
use allot_tests::{Process, RedisServer, ZooKeeperServer, eventually};

/// A daemon of these roles on this server, without a ZooKeeper.
fn daemon(server: &RedisServer, name: &str, roles: &str, more: &[&str]) -> Process {
    let host = format!("127.0.0.1/{name}");
    let url = server.url();
    let arguments =
        ["--roles", roles, "--name", name, "--realm", REALM, "--cmu-host", &host, "--redis-url", &url];
    let process = Process::new(name, &[&arguments[..], more].concat());
    process.start();
    eventually(&format!("{name} to be ready"), GENEROUS, || process.is_ready());
    process
}

#[test]
fn settings_are_checked_before_anything_begins() {
    let server = RedisServer::start();
    let example = repository().join("examples/allot.toml");
    let checked = run(&server, &["config", "check", example.to_str().unwrap()]).ok();
    assert!(checked.out.contains("roles: conference, data-proxy, cmu\n"), "{}", checked.out);
    assert!(checked.out.contains("coordination is within the process"), "{}", checked.out);
    let wrong = server.dir().join("wrong.toml");
    fs::write(&wrong, "[cmu]\ncapcity = 5\n").unwrap();
    let refused = run(&server, &["config", "check", wrong.to_str().unwrap()]).ended(3);
    assert!(refused.err.contains("wrong.toml") && refused.err.contains("line 2"), "{}", refused.err);
    assert!(refused.err.contains("expected") && refused.err.contains("capacity"), "{}", refused.err);
    let refused = run(&server, &["run", "--config", wrong.to_str().unwrap()]).ended(3);
    assert!(refused.err.contains("capcity"), "{}", refused.err);
    assert!(run(&server, &["run"]).ended(3).err.contains("--roles"));
}

#[test]
fn what_a_role_lacks_is_found_before_it_is_played() {
    let server = RedisServer::start();
    let file = server.dir().join("compaction.toml");
    let path = file.to_str().unwrap();
    let whole = [
        "[allotd]",
        "roles = [\"compaction\"]",
        "[compaction]",
        "node = \"host_9876\"",
        "runner = [\"/usr/bin/compact\", \"--all\"]",
        "[zookeeper]",
        "servers = \"127.0.0.1:1\"",
    ];
    for (lacks, setting) in
        [("node", "compaction.node"), ("runner", "compaction.runner"), ("servers", "zookeeper.servers")]
    {
        let less: Vec<&str> = whole.into_iter().filter(|line| !line.starts_with(lacks)).collect();
        fs::write(&file, less.join("\n")).unwrap();
        let refused = run(&server, &["config", "check", path]).ended(3);
        assert!(refused.err.contains(setting), "{}", refused.err);
        let refused = run(&server, &["run", "--config", path]).ended(3);
        assert!(refused.err.contains(setting), "{}", refused.err);
        // Commands that read it for its stores do not mind.
        run(&server, &["conference", "list", "--config", path, "--realm", REALM]).ended(4);
    }
    let checked = run(&server, &["config", "check", path, "--zookeeper-servers", "127.0.0.1:1"]).ok();
    assert!(checked.out.contains("roles: compaction\n"), "{}", checked.out);
    assert!(checked.out.contains("compaction: host_9876 of default"), "{}", checked.out);
    assert!(checked.out.contains("by /usr/bin/compact --all\n"), "{}", checked.out);
    fs::write(&file, "[allotd]\nroles = [\"accounts\"]\n").unwrap();
    let refused = run(&server, &["config", "check", path]).ended(3);
    assert!(refused.err.contains("zookeeper.servers"), "{}", refused.err);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let server = RedisServer::start();
    // It would drain for an hour: there is no other unit.
    let unit = daemon(&server, "unit", "cmu", &["--cmu-drain", "true", "--cmu-drain-limit", "1h"]);
    let mut client = Realm::of(&server);
    client.begin("1", "");
    eventually("the conference to be open", GENEROUS, || client.place("1").2 == "open");
    unit.signal("TERM");
    eventually("it to drain", GENEROUS, || unit.log().contains("draining"));
    assert!(unit.is_running());
    unit.signal("INT");
    assert!(unit.ended().success());
    assert!(unit.log().contains("asked again"), "{}", unit.log());
}

#[test]
fn people_move_conferences_and_drain_units() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &[]);
    client.ok("CMU.JOIN a:1:1 CAPACITY 100 ZONE z LEASE 3600000000");
    let people =
        |line: &str| run(&server, &[&line.split(' ').collect::<Vec<_>>()[..], &["--realm", REALM]].concat());
    let told =
        "--end 2100-01-01T00:00:00Z --size 3 --priority -2 --licences 2 --zone z --no-recover --request r";
    people(&format!("conference create 1 {told}")).ok();
    let record = client.ok("CONF.INFO 1");
    let numbers =
        ["end", "size", "priority", "licences", "recoverable"].map(|field| record.field(field).int());
    assert_eq!(numbers, [4_102_444_800_000, 3, -2, 2, 0]);
    assert_eq!((record.field("zone").text(), record.field("request").text()), ("z".into(), "r".into()));
    client.open("2");
    client.ok("CMU.JOIN b:1:1 CAPACITY 100 LEASE 3600000000");

    let moving = people("conference move 2 --to b:1:1 --json").ok();
    let moving: serde_json::Value = serde_json::from_str(&moving.out).unwrap();
    assert_eq!((&moving["cmu"], &moving["moving_to"]), (&"a:1:1".into(), &"b:1:1".into()));
    let epoch = moving["moving_epoch"].as_i64().unwrap();
    client.ok(&format!("CONF.ACK 2 b:1:1 {epoch}"));
    assert_eq!(client.place("2"), ("b:1:1".to_owned(), epoch, "open".to_owned()));
    for (cmu, e164) in [("a:1:1", "1"), ("b:1:1", "2")] {
        let listed = people(&format!("conference list --cmu {cmu}")).ok().out;
        let numbers: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(numbers, [e164], "{listed}");
    }

    let units = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        run(&server, &[&["units", "--realm", REALM], &words[..]].concat())
    };
    let state = |client: &mut Realm, cmu: &str| {
        let units = client.ok("CMU.LIST");
        let unit = units.array().iter().find(|unit| unit.field("cmu").text() == cmu).unwrap();
        unit.field("state").text()
    };
    // There is more room on `b` as long as nothing is said.
    units("drain b:1:1").ok();
    assert_eq!(state(&mut client, "b:1:1"), "draining");
    assert_eq!(client.begin("3", "").0, "a:1:1");
    units("undrain b:1:1").ok();
    assert_eq!(state(&mut client, "b:1:1"), "up");
    assert_eq!(client.begin("4", "").0, "b:1:1");
    let drained = units("drain b:1:1 --move --json").ok();
    let drained: serde_json::Value = serde_json::from_str(&drained.out).unwrap();
    assert!(drained["moves"].as_i64().unwrap() >= 1, "{drained}");
    assert_eq!(client.ok("CONF.INFO 2").field("moving_to").text(), "a:1:1");
}

#[test]
fn people_hear_when_no_replica_confirms_what_they_did() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    let mut client = Realm::create(&server, &UNITS[..2]);
    replica.replica_of(&server);
    let people =
        |line: &str| run(&server, &[&line.split(' ').collect::<Vec<_>>()[..], &["--realm", REALM]].concat());
    let mut number = 0;
    eventually("a creation to be confirmed", GENEROUS, || {
        number += 1;
        people(&format!("conference create {number}")).ok().err.is_empty()
    });
    client.open("m");
    client.open("n");
    replica.pause();
    let file = server.dir().join("allot.toml");
    fs::write(
        &file,
        "[conference]
wait-replicas = 0
",
    )
    .unwrap();
    let nobody = format!("--config {}", file.display());
    for (line, warned) in [
        ("conference create x".to_owned(), true),
        ("conference move m".to_owned(), true),
        ("conference create y --conference-wait-replicas 0".to_owned(), false),
        (format!("conference move n {nobody}"), false),
        (format!("conference create z {nobody} --conference-wait-replicas 1 --conference-wait 50ms"), true),
    ] {
        let done = people(&line).ok();
        assert_eq!(done.err.contains("not enough replicas confirmed"), warned, "{line}: {}", done.err);
        assert!(done.out.contains("state"), "{line}: {}", done.out);
    }
}

#[test]
fn a_replica_that_hangs_is_missed_unless_nobody_is_to_be_asked() {
    for (replicas, missed) in [("1", true), ("0", false)] {
        let (server, replica) = (RedisServer::start(), RedisServer::start());
        let mut client = Realm::create(&server, &[]);
        replica.replica_of(&server);
        let wait = ["--conference-wait-replicas", replicas];
        let unit = daemon(&server, "unit", "cmu", &wait);
        let (cmu, _) = client.begin("1", "");
        eventually("the conference to be open", GENEROUS, || client.place("1").2 == "open");
        replica.pause();
        let missing = |process: &Process, part: &str| {
            process.metric(&format!("allot_{part}_unconfirmed_total")).unwrap_or(0.0) > 0.0
        };
        // Given up for nothing it reports what it has, and has it again. At its second report the word on the first is in.
        for _ in 0..2 {
            let reports = || unit.metric("allot_unit_reports_total").unwrap_or_default();
            let before = reports();
            client.ok(&format!("CMU.DOWN {cmu}"));
            eventually("it to be its own again", GENEROUS, || {
                client.place("1").2 == "open" && reports() > before
            });
        }
        assert_eq!(missing(&unit, "unit"), missed, "of {replicas}");
        unit.kill9();
        // The same for what a scheduler places: on one unit, then on the next.
        let scheduler = daemon(&server, "scheduler", "conference", &wait);
        let granted = || scheduler.metric("allot_scheduler_grants_total").unwrap_or_default();
        let mut last = cmu;
        for (next, grants) in [("b:1:1", 1.0), ("c:1:1", 2.0)] {
            client.join(next);
            client.ok(&format!("CMU.DOWN {last}"));
            eventually("it to be placed anew", GENEROUS, || granted() >= grants);
            last = next.to_owned();
        }
        assert_eq!(missing(&scheduler, "scheduler"), missed, "of {replicas}");
    }
}

#[test]
fn details_that_were_lost_are_told_again() {
    let server = RedisServer::start();
    let media = program(&server);
    let _scheduler = daemon(&server, "scheduler", "conference", &[]);
    let unit = Process::new("unit", &["--roles", "cmu", "--realm", REALM, "--cmu-host", "127.0.0.1/unit"])
        .behind_redis(server.port())
        .with("ALLOT_CMU_PROGRAM", &media);
    unit.start();
    let mut client = Realm::of(&server);
    eventually("the unit to be up", GENEROUS, || {
        client.call("CONF.STAT").record().iter().any(|(name, value)| name == "up" && value.int() == 1)
    });
    let (_, first) = client.begin("1", "");
    let info = format!("{REALM}:info");
    let (length, lose) = (format!("XLEN {info}"), format!("DEL {info}"));
    // The program tells once. Nobody has read it, and nobody ever will.
    eventually("its detail to be told", GENEROUS, || client.client.words(&length).int() == 1);
    client.client.words(&lose);
    let proxy = daemon(&server, "proxy", "data-proxy", &[]);
    let told = allot_tests::Reply::bulk(format!("1 {first}"));
    let detail = |client: &mut Realm| client.ok("CONF.GET 1 started").array()[0].clone();
    eventually("a proxy that begins to have it told again", GENEROUS, || detail(&mut client) == told);
    let written = || proxy.metric("allot_proxy_messages_total{outcome=\"written\"}").unwrap_or_default();
    eventually("it to be counted", GENEROUS, || written() > 0.0);
    let before = written();
    client.client.words(&lose);
    eventually("a proxy that lost the stream to have it told again", GENEROUS, || written() > before);

    // Who owns it anew says everything anew.
    unit.cut_redis();
    eventually("the unit to be given up", GENEROUS, || client.place("1").2 == "pending");
    unit.heal();
    eventually("it to be open again", GENEROUS, || client.place("1").2 == "open");
    assert!(client.place("1").1 > first);
    eventually("its detail to be back", GENEROUS, || detail(&mut client) == told);
}

#[test]
fn a_flag_stands_over_the_environment_and_that_over_the_file() {
    let server = RedisServer::start();
    let file = server.dir().join("allot.toml");
    let text = format!(
        "[allotd]\nroles = [\"data-proxy\"]\n[realm]\nkey = \"{{file}}\"\n[redis]\nurl = \"{}\"\n",
        server.url()
    );
    fs::write(&file, text).unwrap();
    let realm = |flags: &[&str], variables: &[(&str, &str)]| {
        let arguments = [&["--config", file.to_str().unwrap()], flags].concat();
        let process = Process::new("proxy", &arguments);
        let process = variables.iter().fold(process, |process, (name, value)| process.with(name, value));
        process.start();
        eventually("it to be ready", GENEROUS, || process.is_ready());
        let log = process.log();
        log.lines().find_map(|line| line.split_once("realm: ")).map(|(_, realm)| realm.to_owned()).unwrap()
    };
    let environment = [("ALLOT_REALM", "{environment}")];
    assert_eq!(realm(&[], &[]), "{file}");
    assert_eq!(realm(&[], &environment), "{environment}");
    assert_eq!(realm(&["--realm", "{flag}"], &environment), "{flag}");
}

#[test]
fn the_log_may_be_json_a_line_an_event() {
    let server = RedisServer::start();
    let scheduler = daemon(&server, "scheduler", "conference", &["--log-format", "json"]);
    let mut client = Realm::of(&server);
    eventually("the realm to be claimed", GENEROUS, || client.ok("CONF.REALM").field("term").int() >= 1);
    assert!(scheduler.terminate().success());
    let log = scheduler.log();
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    for (message, field, value) in
        [("role begins", "name", "scheduler".into()), ("this scheduler leads", "term", 1.into())]
    {
        let event = events.iter().find(|event| event["message"] == message);
        let event = event.unwrap_or_else(|| panic!("no {message:?} in {log}"));
        assert_eq!((&event[field], &event["level"]), (&value, &"INFO".into()), "{event}");
    }
}

#[test]
fn who_hears_that_messages_were_lost_makes_up_for_it() {
    let server = RedisServer::start();
    let media = program(&server);
    let all = daemon(&server, "all", "conference,data-proxy,cmu", &["--cmu-program", &media]);
    let mut client = Realm::of(&server);
    let (cmu, _) = client.begin("1", "");
    let written = || all.metric("allot_proxy_messages_total{outcome=\"written\"}").unwrap_or_default();
    eventually("its details to be written", GENEROUS, || written() > 0.0);
    let mut lose = |stream: &str| {
        let entry = format!("XADD {REALM}:{stream} * event RESYNC e164 - cmu - epoch 0 lost 7");
        assert!(matches!(client.client.words(&entry), allot_tests::Reply::Bulk(_)));
    };
    // The program told them once; the unit tells them anew when the proxy has asked for that.
    let before = written();
    lose("info");
    eventually("its details to be written again", GENEROUS, || written() > before);
    let reports = || all.metric("allot_unit_reports_total").unwrap_or_default();
    let before = reports();
    lose(&format!("cmd:{cmu}"));
    eventually("the unit to report what it has", GENEROUS, || reports() > before);
    assert_eq!(client.place("1").2, "open");
}

#[test]
fn one_process_plays_all_roles_without_a_zookeeper_and_says_so() {
    let server = RedisServer::start();
    let all = daemon(&server, "all", "conference,data-proxy,cmu", &["--cmu-chatter", "100ms"]);
    assert!(all.log().contains("no ZooKeeper is configured"), "{}", all.log());
    let realm = ["--realm", REALM];
    let created = run(
        &server,
        &[&["conference", "create", "4930", "--end", "1h", "--request", "r"], &realm[..]].concat(),
    );
    assert!(created.ok().out.contains("state          creating"));
    let mut client = Realm::of(&server);
    eventually("the conference to tell", GENEROUS, || {
        !client.ok("CONF.GET 4930 chatter").array()[0].is_null()
    });
    let shown = run(&server, &[&["conference", "show", "4930"], &realm[..]].concat()).ok();
    for part in ["state          open", "\ndetails\nchatter  127.0.0.1/all:", "\nassignments\nepoch"] {
        assert!(shown.out.contains(part), "no {part:?} in\n{}", shown.out);
    }
    let shown = run(&server, &[&["conference", "show", "4930", "--json"], &realm[..]].concat()).ok();
    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["conference"]["state"], "open");
    assert!(shown["details"]["chatter"].is_string() && shown["history"][0]["how"].is_null());
    let listed = run(&server, &[&["conference", "list", "--state", "open"], &realm[..]].concat()).ok();
    assert_eq!(listed.out.lines().count(), 2, "{}", listed.out);
    let units = run(&server, &[&["units", "--json"], &realm[..]].concat()).ok();
    let units: serde_json::Value = serde_json::from_str(&units.out).unwrap();
    assert_eq!((&units[0]["state"], &units[0]["conferences"]), (&"up".into(), &1.into()));
    let cmu = units[0]["cmu"].as_str().unwrap();
    let plan = run(&server, &[&["conference", "plan", "--down", cmu], &realm[..]].concat()).ok();
    assert!(plan.out.contains("no room"), "{}", plan.out);
    let refused = run(&server, &[&["conference", "move", "4930"], &realm[..]].concat()).ended(4);
    assert!(refused.err.contains("CONF.MOVE was refused"), "{}", refused.err);
    let history = run(&server, &[&["conference", "history", "4930"], &realm[..]].concat()).ok();
    assert_eq!(history.out.lines().count(), 2, "{}", history.out);
    run(&server, &[&["conference", "release", "4930"], &realm[..]].concat()).ok();
    eventually("the conference to be over", GENEROUS, || client.place("4930").2 == "ended");
    run(&server, &[&["conference", "show", "4931"], &realm[..]].concat()).ended(4);
    assert!(all.terminate().success());
}

#[test]
fn a_later_process_without_a_zookeeper_takes_the_realm_over() {
    let server = RedisServer::start();
    let first = daemon(&server, "first", "conference", &[]);
    let mut client = Realm::of(&server);
    let mut claimed_by = |name: &str| {
        eventually(&format!("the {name} to have claimed the realm"), GENEROUS, || {
            client.ok("CONF.REALM").field("leader") == allot_tests::Reply::bulk(name)
        });
    };
    claimed_by("first");
    first.kill9();
    let second = daemon(&server, "second", "conference", &[]);
    claimed_by("second");
    assert!(client.ok("CONF.REALM").field("term").int() >= 2);
    // A claim by somebody later shuts it out, until an operator lets it in again.
    client.ok("CONF.TERM 99 other");
    eventually("the second to be shut out", GENEROUS, || {
        second.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("STALE"))
    });
    assert!(second.log().contains("conference unclaim"), "{}", second.log());
    run(&server, &["conference", "unclaim", "--realm", REALM]).ok();
    eventually("the second to be ready again", GENEROUS, || second.is_ready());
    eventually("it to have claimed the realm again", GENEROUS, || {
        let realm = client.ok("CONF.REALM");
        realm.field("leader") == allot_tests::Reply::bulk("second") && realm.field("term").int() < 99
    });
}

#[test]
fn not_ready_is_not_dead() {
    let server = RedisServer::start();
    let all = daemon(&server, "all", "conference,data-proxy,cmu", &[]);
    server.kill9();
    eventually("the process not to be ready", GENEROUS, || {
        all.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("session with Redis"))
    });
    eventually("it to be alive", GENEROUS, || all.http("/healthz").is_some_and(|(status, _)| status == 200));
    server.restart();
    eventually("the process to be ready again", GENEROUS, || all.is_ready());
    let mut client = Realm::of(&server);
    eventually("its unit to be up", GENEROUS, || client.stat("up") == 1);
}

#[test]
fn a_scheduler_that_is_asked_to_end_hands_over_at_once() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
    let address = zookeeper.address();
    let start = |name| {
        daemon(&server, name, "conference", &["--zookeeper-servers", &address, "--zookeeper-session", "30s"])
    };
    let mut schedulers = [start("first"), start("second")];
    let mut client = Realm::of(&server);
    let mut leader = || client.ok("CONF.REALM").field("leader");
    let name = |scheduler: &Process| allot_tests::Reply::bulk(&scheduler.name);
    eventually("one to lead", GENEROUS, || schedulers.iter().any(|scheduler| leader() == name(scheduler)));
    if leader() != name(&schedulers[0]) {
        schedulers.reverse();
    }
    let asked = Instant::now();
    schedulers[0].signal("TERM");
    while leader() != name(&schedulers[1]) {
        assert!(asked.elapsed() < GENEROUS, "nobody took over");
        std::thread::sleep(Duration::from_millis(1));
    }
    let took = asked.elapsed();
    println!("another claimed the realm {took:.0?} after SIGTERM");
    assert!(took < Duration::from_secs(20), "its session was waited for: {took:?}");
    assert!(schedulers[0].ended().success());
}

#[test]
fn a_unit_that_is_asked_to_end_has_its_conferences_moved_away_first() {
    let server = RedisServer::start();
    let _scheduler = daemon(&server, "scheduler", "conference", &[]);
    let leaving = daemon(&server, "leaving", "cmu", &["--cmu-drain", "true"]);
    let mut client = Realm::of(&server);
    for number in 0..20 {
        client.begin(&format!("49{number}"), "");
    }
    eventually("all to be open", GENEROUS, || client.stat("open") == 20);
    let staying = daemon(&server, "staying", "cmu", &[]);
    eventually("the other unit to be up", GENEROUS, || client.stat("up") == 2);
    assert!(leaving.terminate().success());
    assert_eq!(client.stat("open"), 20);
    for number in 0..20 {
        let (cmu, _, state) = client.place(&format!("49{number}"));
        assert!(cmu.contains("staying") && state == "open", "{cmu} {state}");
        let history = client.ok(&format!("CONF.HISTORY 49{number}"));
        assert_eq!(history.array()[0].field("how").text(), "moved");
    }
    eventually("it to have them all", GENEROUS, || staying.metric("allot_unit_conferences") == Some(20.0));
}

/// A program that tells what it was told, and ends when the test says so.
fn program(server: &RedisServer) -> String {
    let path = server.dir().join("media");
    let text = "#!/bin/sh\ntrap 'echo bye > \"$0.$ALLOT_E164.bye\"; exit 0' TERM\n\
                echo \"started=$ALLOT_E164 $ALLOT_EPOCH\"\necho $$ > \"$1/$ALLOT_E164.pid\"\n\
                while [ ! -e \"$1/$ALLOT_E164.over\" ]; do sleep 0.05; done\nread code < \"$1/$ALLOT_E164.over\"\n\
                rm \"$1/$ALLOT_E164.over\"\nexit $code\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{} {}", path.display(), server.dir().display())
}

#[test]
fn a_program_is_started_for_each_conference_and_ended_with_it() {
    let server = RedisServer::start();
    let media = program(&server);
    let all = daemon(&server, "all", "conference,data-proxy,cmu", &["--cmu-program", &media]);
    let mut client = Realm::of(&server);
    let over = |e164: &str, code: &str| fs::write(server.dir().join(format!("{e164}.over")), code).unwrap();
    let pid = |e164: &str| fs::read_to_string(server.dir().join(format!("{e164}.pid"))).unwrap_or_default();
    for e164 in ["1", "2", "3"] {
        let (_, epoch) = client.begin(e164, "");
        let told = format!("{e164} {epoch}");
        eventually("its details to be written", GENEROUS, || {
            client.ok(&format!("CONF.GET {e164} started")).array()[0] == allot_tests::Reply::bulk(&told)
        });
    }
    // People end one, another fails and goes on, a third is released.
    over("1", "0\n");
    eventually("the first to be over", GENEROUS, || client.place("1").2 == "ended");
    assert_eq!(client.ok("CONF.INFO 1").field("cause").text(), "unit");
    let before = pid("2");
    over("2", "7\n");
    eventually("the second to be started again", GENEROUS, || !pid("2").is_empty() && pid("2") != before);
    assert_eq!(client.place("2").2, "open");
    client.ok("CONF.RELEASE 3");
    eventually("the third to be over", GENEROUS, || client.place("3").2 == "ended");
    eventually("it to be ended in an orderly way", GENEROUS, || server.dir().join("media.3.bye").exists());
    assert!(all.terminate().success());
    assert!(server.dir().join("media.2.bye").exists());
    // What cannot be executed is refused, and the manager hears why.
    let lost = server.dir().join("lost");
    fs::write(&lost, "#!/nowhere/sh\n").unwrap();
    fs::set_permissions(&lost, fs::Permissions::from_mode(0o755)).unwrap();
    for (e164, program) in [("4", "/nowhere/media"), ("5", lost.to_str().unwrap())] {
        let none = daemon(&server, "none", "conference,cmu", &["--cmu-program", program]);
        client.begin(e164, "");
        eventually("the conference to have failed", GENEROUS, || client.place(e164).2 == "ended");
        let refused = format!("refused {e164}");
        let heard = |entry: &String| entry.contains(&refused) && entry.contains(program);
        assert!(client.entries("evt").iter().any(heard), "{:?}", client.entries("evt"));
        assert!(none.terminate().success());
    }
}

#[test]
fn a_unit_that_stops_itself_ends_its_media_and_comes_back_as_another() {
    let server = RedisServer::start();
    let media = program(&server);
    let scheduler = daemon(&server, "scheduler", "conference", &[]);
    let host = "127.0.0.1/unit";
    let unit = Process::new("unit", &["--roles", "cmu", "--realm", REALM, "--cmu-host", host])
        .behind_redis(server.port())
        .with("ALLOT_CMU_PROGRAM", &media)
        .with("ALLOT_CMU_SELF_STOP", "2s");
    unit.start();
    let mut client = Realm::of(&server);
    eventually("the unit to be up", GENEROUS, || client.stat("up") == 1);
    let (first, _) = client.begin("1", "");
    eventually("the conference to be open", GENEROUS, || client.place("1").2 == "open");
    unit.cut_redis();
    eventually("its media to be ended", GENEROUS, || server.dir().join("media.1.bye").exists());
    unit.heal();
    eventually("it to be open on the unit that came back", GENEROUS, || {
        let (cmu, _, state) = client.place("1");
        cmu != first && cmu.starts_with(host) && state == "open"
    });
    let history = client.ok("CONF.HISTORY 1");
    assert_eq!(history.array()[0].field("how").text(), "lost");
    drop(scheduler);
}

/// A program that minds no signal, with a child that does not either and holds its output.
fn stubborn(server: &RedisServer) -> String {
    let path = server.dir().join("stubborn");
    let text = "#!/bin/sh\ntrap '' TERM HUP INT\n\
                (echo $(exec sh -c 'echo $PPID') > \"$1/child.$$\"; while :; do sleep 0.05; done) &\n\
                while [ ! -s \"$1/child.$$\" ]; do sleep 0.01; done\n\
                echo \"$$ $(cat \"$1/child.$$\")\" > \"$1/$ALLOT_E164.pids\"\nwhile :; do sleep 0.05; done\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{} {}", path.display(), server.dir().display())
}

/// The processes that a conference's program has told, which all must run.
fn processes(server: &RedisServer, e164: &str) -> Vec<String> {
    let told = server.dir().join(format!("{e164}.pids"));
    let mut all: Vec<String> = Vec::new();
    eventually("its program to run", GENEROUS, || {
        let told = fs::read_to_string(&told).unwrap_or_default();
        all = told.split_whitespace().map(str::to_owned).collect();
        all.len() == 2 && told.ends_with('\n')
    });
    assert!(all.iter().all(|pid| runs(pid)), "{all:?}");
    all
}

fn runs(pid: &str) -> bool {
    // One that has ended stays until its parent looks.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn no_program_outlives_its_conference_or_its_unit_whatever_becomes_of_it() {
    let server = RedisServer::start();
    let media = stubborn(&server);
    let _scheduler = daemon(&server, "scheduler", "conference", &[]);
    let mut client = Realm::of(&server);
    let unit = daemon(&server, "unit", "cmu", &["--cmu-program", &media, "--cmu-stop-limit", "100ms"]);

    client.begin("1", "");
    let all = processes(&server, "1");
    client.ok("CONF.RELEASE 1");
    eventually("the released conference's processes to end", GENEROUS, || !all.iter().any(|pid| runs(pid)));

    client.begin("2", "");
    let all = processes(&server, "2");
    unit.kill9();
    eventually("the killed unit's processes to end", GENEROUS, || !all.iter().any(|pid| runs(pid)));
    client.ok("CONF.RELEASE 2");

    // Stopped it can end nothing itself, and its conferences will be open elsewhere.
    let unit = daemon(
        &server,
        "unit",
        "cmu",
        &[
            "--cmu-program",
            &media,
            "--cmu-self-stop",
            "2500ms",
            "--cmu-lease",
            "12s",
            "--redis-timeout",
            "5s",
        ],
    );
    let (first, _) = client.begin("3", "");
    let all = processes(&server, "3");
    eventually("the conference to be open", GENEROUS, || client.place("3").2 == "open");
    unit.pause();
    eventually("the stopped unit's processes to end", GENEROUS, || !all.iter().any(|pid| runs(pid)));
    let (owner, _, state) = client.place("3");
    assert!(owner == first && state == "open", "it was given up before: {owner} {state}");
    fs::remove_file(server.dir().join("3.pids")).unwrap();
    unit.resume();
    eventually("it to be open on the unit that came back", GENEROUS, || {
        let (cmu, _, state) = client.place("3");
        cmu != first && state == "open"
    });
    let all = processes(&server, "3");

    // A watchdog that is gone is replaced, and told of all that runs.
    let watchdogs = || -> Vec<i32> {
        let entries = fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let ours = |pid: &i32| {
            let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let ours = read("status").contains(&format!("PPid:\t{}\n", unit.pid()));
            ours && read("cmdline").split('\0').any(|word| word == "watchdog")
        };
        pids.filter(ours).collect()
    };
    // That of the incarnation before may still be ending.
    eventually("the unit to have one watchdog", GENEROUS, || watchdogs().len() == 1);
    let watchdog = watchdogs()[0];
    let killed = std::process::Command::new("kill").args(["-KILL", &watchdog.to_string()]).status();
    assert!(killed.unwrap().success());
    eventually("it to have another", GENEROUS, || watchdogs().iter().any(|pid| *pid != watchdog));
    client.begin("4", "");
    let more = processes(&server, "4");
    unit.kill9();
    eventually("all its processes to end", GENEROUS, || !all.iter().chain(&more).any(|pid| runs(pid)));
}

#[test]
fn a_unit_whose_place_another_takes_ends() {
    let server = RedisServer::start();
    let _scheduler = daemon(&server, "scheduler", "conference", &[]);
    let first = daemon(&server, "unit", "cmu", &[]);
    let mut client = Realm::of(&server);
    client.begin("1", "");
    eventually("the conference to be open", GENEROUS, || client.place("1").2 == "open");
    let second = daemon(&server, "unit", "cmu", &[]);
    assert_eq!(first.ended().code(), Some(3));
    assert!(first.log().contains("was replaced") && first.log().contains("cmu.host"), "{}", first.log());
    eventually("the other to have its conference", GENEROUS, || {
        second.metric("allot_unit_conferences") == Some(1.0) && client.place("1").2 == "open"
    });
}
