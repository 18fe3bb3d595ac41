//! `allotd` as a daemon, and `allot` for conferences: settings, probes, signals, commands.

use std::fs;
use std::time::{Duration, Instant};

use allot_tests::daemon::{alone, media_program, run, run_daemon};
use allot_tests::module::repository;
use allot_tests::realms::{REALM, Realm, UNITS};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Process, RedisServer, ZooKeeperServer, eventually};

#[test]
fn settings_are_checked_before_anything_begins() {
    let server = RedisServer::start();
    let example = repository().join("examples/allot.toml");
    let checked = run_daemon(&server, &["check-config", example.to_str().unwrap()]).ok();
    assert!(checked.out.contains("roles: scheduler, data-proxy, media-unit\n"), "{}", checked.out);
    assert!(checked.out.contains("coordination is within the process"), "{}", checked.out);
    let wrong = server.dir().join("wrong.toml");
    fs::write(&wrong, "[media-unit]\ncapcity = 5\n").unwrap();
    let refused = run_daemon(&server, &["check-config", wrong.to_str().unwrap()]).ended(3);
    assert!(refused.err.contains("wrong.toml") && refused.err.contains("line 2"), "{}", refused.err);
    assert!(refused.err.contains("expected") && refused.err.contains("capacity"), "{}", refused.err);
    let refused = run_daemon(&server, &["run", "--config", wrong.to_str().unwrap()]).ended(3);
    assert!(refused.err.contains("capcity"), "{}", refused.err);
    assert!(run_daemon(&server, &["run"]).ended(3).err.contains("--roles"));
}

#[test]
fn missing_settings_of_a_role_are_found_before_it_starts() {
    let server = RedisServer::start();
    let file = server.dir().join("compaction.toml");
    let path = file.to_str().unwrap();
    let whole = [
        "[allotd]",
        "roles = [\"compaction\"]",
        "[compaction]",
        "node = \"host_9876\"",
        "runner = [\"/bin/true\", \"--all\"]",
        "[zookeeper]",
        "servers = \"127.0.0.1:1\"",
    ];
    for (lacks, setting) in
        [("node", "compaction.node"), ("runner", "compaction.runner"), ("servers", "zookeeper.servers")]
    {
        let less: Vec<&str> = whole.into_iter().filter(|line| !line.starts_with(lacks)).collect();
        fs::write(&file, less.join("\n")).unwrap();
        let refused = run_daemon(&server, &["check-config", path]).ended(3);
        assert!(refused.err.contains(setting), "{}", refused.err);
        let refused = run_daemon(&server, &["run", "--config", path]).ended(3);
        assert!(refused.err.contains(setting), "{}", refused.err);
    }
    let checked = run_daemon(&server, &["check-config", path, "--zookeeper-servers", "127.0.0.1:1"]).ok();
    assert!(checked.out.contains("roles: compaction\n"), "{}", checked.out);
    assert!(checked.out.contains("compaction: host_9876 of default"), "{}", checked.out);
    assert!(checked.out.contains("by /bin/true --all\n"), "{}", checked.out);
    fs::write(&file, whole.join("\n").replace("/bin/true", "/nosuch/compact")).unwrap();
    let refused = run_daemon(&server, &["check-config", path]).ended(3);
    assert!(refused.err.contains("compaction.runner /nosuch/compact: No such file"), "{}", refused.err);
    fs::write(&file, "[allotd]\nroles = [\"accounts\"]\n").unwrap();
    let refused = run_daemon(&server, &["check-config", path]).ended(3);
    assert!(refused.err.contains("zookeeper.servers"), "{}", refused.err);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let server = RedisServer::start();
    // It would drain for an hour: there is no other unit.
    let unit =
        alone(&server, "unit", "media-unit", &["--media-unit-drain", "--media-unit-drain-limit", "1h"]);
    let mut client = Realm::of(&server);
    client.begin("1", "");
    eventually("the conference to be open", TIMEOUT, || client.place("1").2 == "open");
    unit.signal("TERM");
    eventually("it to drain", TIMEOUT, || unit.log().contains("draining"));
    assert!(unit.is_running());
    unit.signal("INT");
    assert!(unit.wait_for_end().success());
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

    let moving = people("conference move 2 --to b:1:1 --format json").ok();
    let moving: serde_json::Value = serde_json::from_str(&moving.out).unwrap();
    assert_eq!((&moving["unit"], &moving["moving_to"]), (&"a:1:1".into(), &"b:1:1".into()));
    let epoch = client.ok("CONF.INFO 2").field("moving_epoch").int();
    client.ok(&format!("CONF.ACK 2 b:1:1 {epoch}"));
    assert_eq!(client.place("2"), ("b:1:1".to_owned(), epoch, "open".to_owned()));
    for (cmu, e164) in [("a:1:1", "1"), ("b:1:1", "2")] {
        let listed = people(&format!("conference list --unit {cmu}")).ok().out;
        let numbers: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(numbers, [e164], "{listed}");
    }

    let units = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        run(&server, &[&["unit", words[0], "--realm", REALM], &words[1..]].concat())
    };
    let state = |client: &mut Realm, cmu: &str| {
        let units = client.ok("CMU.LIST");
        let unit = units.array().iter().find(|unit| unit.field("cmu").text() == cmu).unwrap();
        unit.field("state").text()
    };
    // There is more room on `b` as long as nothing is said.
    units("drain b").ok();
    assert_eq!(state(&mut client, "b:1:1"), "draining");
    assert_eq!(client.begin("3", "").0, "a:1:1");
    units("undrain b:1:1").ok();
    assert_eq!(state(&mut client, "b:1:1"), "up");
    assert_eq!(client.begin("4", "").0, "b:1:1");
    units("drain b:1:1 --move").ended(2);
    assert_eq!(state(&mut client, "b:1:1"), "up", "without --yes nothing");
    let drained = units("drain b:1:1 --move --yes").ok();
    assert!(drained.out.starts_with("unit b is draining: "), "{}", drained.out);
    assert_eq!(client.ok("CONF.INFO 2").field("moving_to").text(), "a:1:1");
}

#[test]
fn people_hear_when_no_replica_confirms_what_they_did() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    let mut client = Realm::create(&server, &UNITS[..2]);
    replica.replica_of(&server);
    let people =
        |line: &str| run(&server, &[&line.split(' ').collect::<Vec<_>>()[..], &["--realm", REALM]].concat());
    let mut raw = server.raw();
    let online = || raw.words("INFO replication").text().contains("state=online");
    eventually("the replica to be known", TIMEOUT, online);
    let mut number = 0;
    eventually("a creation to be confirmed", TIMEOUT, || {
        number += 1;
        people(&format!("conference create {number}")).ok().err.is_empty()
    });
    client.open("m");
    client.open("n");
    replica.pause();
    let file = |name: &str, settings: &str| {
        let file = server.dir().join(name);
        let url = server.url();
        fs::write(&file, format!("server = \"s\"\n[servers.s]\nurl = \"{url}\"\n{settings}")).unwrap();
        format!("--server s --config {}", file.display())
    };
    let nobody = file("nobody.toml", "wait-replicas = \"0\"\n");
    let short = file("short.toml", "wait = \"50ms\"\n");
    for (line, warned) in [
        ("conference create x".to_owned(), true),
        ("conference move m".to_owned(), true),
        ("conference end x --yes".to_owned(), true),
        (format!("conference create y {nobody}"), false),
        (format!("conference end y --yes {nobody}"), false),
        (format!("conference move n {nobody}"), false),
        (format!("conference create z {short}"), true),
    ] {
        let done = people(&line).ok();
        assert_eq!(done.err.contains("not enough replicas confirmed"), warned, "{line}: {}", done.err);
        assert_eq!(done.out.lines().count(), 1, "{line}: {}", done.out);
    }
    for (more, warned) in [("", true), (&*nobody, false)] {
        let done = people(&format!(
            "unit drain {} --move --yes{}{more}",
            UNITS[0],
            if more.is_empty() { "" } else { " " }
        ))
        .ok();
        assert_eq!(done.err.contains("not enough replicas confirmed"), warned, "{more:?}: {}", done.err);
    }
}

#[test]
fn hanging_replica_is_reported_unless_none_is_required() {
    for (replicas, missed) in [("1", true), ("0", false)] {
        let (server, replica) = (RedisServer::start(), RedisServer::start());
        let mut client = Realm::create(&server, &[]);
        replica.replica_of(&server);
        let wait = ["--scheduler-wait-replicas", replicas];
        let unit = alone(&server, "unit", "media-unit", &wait);
        let (cmu, _) = client.begin("1", "");
        eventually("the conference to be open", TIMEOUT, || client.place("1").2 == "open");
        replica.pause();
        let missing = |process: &Process, part: &str| {
            process.metric(&format!("allot_{part}_unconfirmed_total")).unwrap_or(0.0) > 0.0
        };
        // Given up for nothing it reports what it has, and has it again. At its second report the word on the first is in.
        for _ in 0..2 {
            let reports = || unit.metric("allot_unit_reports_total").unwrap_or_default();
            let before = reports();
            client.ok(&format!("CMU.DOWN {cmu}"));
            eventually("it to be its own again", TIMEOUT, || {
                client.place("1").2 == "open" && reports() > before
            });
        }
        assert_eq!(missing(&unit, "unit"), missed, "of {replicas}");
        unit.kill9();
        // The same for what a scheduler places: on one unit, then on the next.
        let scheduler = alone(&server, "scheduler", "scheduler", &wait);
        let granted = || scheduler.metric("allot_scheduler_grants_total").unwrap_or_default();
        let mut last = cmu;
        for (next, grants) in [("b:1:1", 1.0), ("c:1:1", 2.0)] {
            client.join(next);
            client.ok(&format!("CMU.DOWN {last}"));
            eventually("it to be placed again", TIMEOUT, || granted() >= grants);
            last = next.to_owned();
        }
        assert_eq!(missing(&scheduler, "scheduler"), missed, "of {replicas}");
    }
}

#[test]
fn details_that_were_lost_are_told_again() {
    let server = RedisServer::start();
    let media = media_program(&server);
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let unit = Process::new(
        "unit",
        &["--roles", "media-unit", "--realm", REALM, "--media-unit-host", "127.0.0.1/unit"],
    )
    .behind_redis(server.port())
    .with("ALLOT_MEDIA_UNIT_PROGRAM", &media)
    // Its program goes on while the unit is cut off.
    .with("ALLOT_MEDIA_UNIT_SELF_STOP", "false");
    unit.start();
    let mut client = Realm::of(&server);
    eventually("the unit to be up", TIMEOUT, || {
        client.call("CONF.STAT").record().iter().any(|(name, value)| name == "up" && value.int() == 1)
    });
    let (_, first) = client.begin("1", "");
    let info = format!("{REALM}:info");
    let (length, lose) = (format!("XLEN {info}"), format!("DEL {info}"));
    // The program tells once. Nobody has read it, and nobody ever will.
    eventually("its detail to be told", TIMEOUT, || client.client.words(&length).int() == 1);
    client.client.words(&lose);
    let proxy = alone(&server, "proxy", "data-proxy", &[]);
    let told = allot_tests::Reply::bulk(format!("1 {first}"));
    let detail = |client: &mut Realm| client.ok("CONF.GET 1 started").array()[0].clone();
    eventually("a proxy that begins to have it told again", TIMEOUT, || detail(&mut client) == told);
    let written = || proxy.metric("allot_proxy_messages_total{outcome=\"written\"}").unwrap_or_default();
    eventually("it to be counted", TIMEOUT, || written() > 0.0);
    let before = written();
    client.client.words(&lose);
    eventually("a proxy that lost the stream to have it told again", TIMEOUT, || written() > before);

    // One that begins where the group stands already asks as well.
    let stream = format!("cmd:{}", client.place("1").0);
    let asked =
        |client: &mut Realm| client.entries(&stream).iter().filter(|entry| entry.contains("DETAILS")).count();
    let before = asked(&mut client);
    let _another = alone(&server, "another", "data-proxy", &[]);
    eventually("one that begins to ask", TIMEOUT, || asked(&mut client) > before);

    // Who owns it again sends everything again.
    unit.cut_redis();
    eventually("the unit to be given up", TIMEOUT, || client.place("1").2 == "pending");
    unit.heal();
    eventually("it to be open again", TIMEOUT, || client.place("1").2 == "open");
    assert!(client.place("1").1 > first);
    eventually("its detail to be back", TIMEOUT, || detail(&mut client) == told);
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
        eventually("it to be ready", TIMEOUT, || process.is_ready());
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
    let scheduler = alone(&server, "scheduler", "scheduler", &["--log-format", "json"]);
    let mut client = Realm::of(&server);
    eventually("the realm to be claimed", TIMEOUT, || client.ok("CONF.REALM").field("term").int() >= 1);
    assert!(scheduler.terminate().success());
    let log = scheduler.log();
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    for (message, field, value) in
        [("part starts", "name", "scheduler".into()), ("this scheduler leads", "term", 1.into())]
    {
        let event = events.iter().find(|event| event["message"] == message);
        let event = event.unwrap_or_else(|| panic!("no {message:?} in {log}"));
        assert_eq!((&event[field], &event["level"]), (&value, &"INFO".into()), "{event}");
    }
}

#[test]
fn roles_recover_from_lost_messages() {
    let server = RedisServer::start();
    let media = media_program(&server);
    let all = alone(&server, "all", "scheduler,data-proxy,media-unit", &["--media-unit-program", &media]);
    let mut client = Realm::of(&server);
    let (cmu, _) = client.begin("1", "");
    let written = || all.metric("allot_proxy_messages_total{outcome=\"written\"}").unwrap_or_default();
    eventually("its details to be written", TIMEOUT, || written() > 0.0);
    let mut lose = |stream: &str| {
        let entry = format!("XADD {REALM}:{stream} * event RESYNC e164 - cmu - epoch 0 lost 7");
        assert!(matches!(client.client.words(&entry), allot_tests::Reply::Bulk(_)));
    };
    // The program told them once; the unit tells them again when the proxy has asked for that.
    let before = written();
    lose("info");
    eventually("its details to be written again", TIMEOUT, || written() > before);
    let reports = || all.metric("allot_unit_reports_total").unwrap_or_default();
    let before = reports();
    lose(&format!("cmd:{cmu}"));
    eventually("the unit to report what it has", TIMEOUT, || reports() > before);
    assert_eq!(client.place("1").2, "open");
}

#[test]
fn one_process_plays_all_roles_without_a_zookeeper_and_says_so() {
    let server = RedisServer::start();
    let all = alone(&server, "all", "scheduler,data-proxy,media-unit", &["--media-unit-chatter", "100ms"]);
    assert!(all.log().contains("no ZooKeeper is configured"), "{}", all.log());
    let realm = ["--realm", REALM];
    let created = run(
        &server,
        &[&["conference", "create", "4930", "--end", "1h", "--request", "r"], &realm[..]].concat(),
    );
    assert!(created.ok().out.starts_with("conference 4930 is creating on "));
    let mut client = Realm::of(&server);
    eventually("the conference to tell", TIMEOUT, || {
        !client.ok("CONF.GET 4930 chatter").array()[0].is_null()
    });
    let shown = run(&server, &[&["conference", "get", "4930"], &realm[..]].concat()).ok();
    for part in
        ["state         open", "\ndetails\nname     value\nchatter  127.0.0.1/all:", "\nassignments\nunit"]
    {
        assert!(shown.out.contains(part), "no {part:?} in\n{}", shown.out);
    }
    let shown = run(&server, &[&["conference", "get", "4930", "--format", "json"], &realm[..]].concat()).ok();
    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["state"], "open");
    assert!(shown["details"][0]["value"].is_string() && shown["assignments"][0]["how"].is_null());
    let listed = run(&server, &[&["conference", "list", "--state", "open"], &realm[..]].concat()).ok();
    assert_eq!(listed.out.lines().count(), 2, "{}", listed.out);
    let units = run(&server, &[&["unit", "list", "--format", "json"], &realm[..]].concat()).ok();
    let units: serde_json::Value = serde_json::from_str(&units.out).unwrap();
    assert_eq!((&units[0]["state"], &units[0]["conferences"]), (&"up".into(), &1.into()));
    assert_eq!(units[0]["identity"], units[0]["unit"]);
    let cmu = "all";
    let plan = run(&server, &[&["unit", "simulate-loss", cmu], &realm[..]].concat()).ok();
    assert!(plan.out.contains("no room"), "{}", plan.out);
    for any in ["ANY", "any"] {
        let losses = run(&server, &[&["unit", "simulate-loss", any], &realm[..]].concat()).ok();
        let rows: Vec<Vec<&str>> = losses.out.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["unit", "conferences", "find_room", "no_room", "would_end"]);
        assert_eq!(rows[1..], [[cmu, "1", "0", "1", "0"]]);
    }
    let refused = run(&server, &[&["conference", "move", "4930"], &realm[..]].concat()).ended(5);
    assert!(refused.err.contains("no unit has room"), "{}", refused.err);
    run(&server, &[&["conference", "end", "4930", "--yes"], &realm[..]].concat()).ok();
    eventually("the conference to be over", TIMEOUT, || client.place("4930").2 == "ended");
    run(&server, &[&["conference", "get", "4931"], &realm[..]].concat()).ended(4);
    assert!(all.terminate().success());
}

#[test]
fn a_later_process_without_a_zookeeper_takes_the_realm_over() {
    let server = RedisServer::start();
    let first = alone(&server, "first", "scheduler", &[]);
    let mut client = Realm::of(&server);
    let mut claimed_by = |name: &str| {
        eventually(&format!("the {name} to have claimed the realm"), TIMEOUT, || {
            client.ok("CONF.REALM").field("leader") == allot_tests::Reply::bulk(name)
        });
    };
    claimed_by("first");
    first.kill9();
    let second = alone(&server, "second", "scheduler", &[]);
    claimed_by("second");
    assert!(client.ok("CONF.REALM").field("term").int() >= 2);
    // A claim by somebody later shuts it out, until an operator lets it in again.
    client.ok("CONF.TERM 99 other");
    eventually("the second to be shut out", TIMEOUT, || {
        second.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("STALE"))
    });
    assert!(second.log().contains("allot redis CONF.TERM"), "{}", second.log());
    run(&server, &["redis", "CONF.TERM", REALM, "0", "operator", "FORCE"]).ended(2);
    run(&server, &["--yes", "redis", "CONF.TERM", REALM, "0", "operator", "FORCE"]).ok();
    eventually("the second to be ready again", TIMEOUT, || second.is_ready());
    eventually("it to have claimed the realm again", TIMEOUT, || {
        let realm = client.ok("CONF.REALM");
        realm.field("leader") == allot_tests::Reply::bulk("second") && realm.field("term").int() < 99
    });
}

#[test]
fn not_ready_is_not_dead() {
    let server = RedisServer::start();
    let all = alone(&server, "all", "scheduler,data-proxy,media-unit", &[]);
    server.kill9();
    eventually("the process not to be ready", TIMEOUT, || {
        all.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("session with Redis"))
    });
    eventually("it to be alive", TIMEOUT, || all.http("/healthz").is_some_and(|(status, _)| status == 200));
    server.restart();
    eventually("the process to be ready again", TIMEOUT, || all.is_ready());
    let mut client = Realm::of(&server);
    eventually("its unit to be up", TIMEOUT, || client.stat("up") == 1);
}

#[test]
fn a_scheduler_that_is_asked_to_end_hands_over_at_once() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
    let address = zookeeper.address();
    let start = |name| {
        alone(&server, name, "scheduler", &["--zookeeper-servers", &address, "--zookeeper-session", "30s"])
    };
    let mut schedulers = [start("first"), start("second")];
    let mut client = Realm::of(&server);
    let mut leader = || client.ok("CONF.REALM").field("leader");
    let name = |scheduler: &Process| allot_tests::Reply::bulk(&scheduler.name);
    eventually("one to lead", TIMEOUT, || schedulers.iter().any(|scheduler| leader() == name(scheduler)));
    if leader() != name(&schedulers[0]) {
        schedulers.reverse();
    }
    let asked = Instant::now();
    schedulers[0].signal("TERM");
    while leader() != name(&schedulers[1]) {
        assert!(asked.elapsed() < TIMEOUT, "nobody took over");
        std::thread::sleep(Duration::from_millis(1));
    }
    let took = asked.elapsed();
    println!("another claimed the realm {took:.0?} after SIGTERM");
    assert!(took < Duration::from_secs(20), "its session was waited for: {took:?}");
    assert!(schedulers[0].wait_for_end().success());
}

#[test]
fn a_unit_that_is_asked_to_end_has_its_conferences_moved_away_first() {
    let server = RedisServer::start();
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let leaving = alone(&server, "leaving", "media-unit", &["--media-unit-drain"]);
    let mut client = Realm::of(&server);
    for number in 0..20 {
        client.begin(&format!("49{number}"), "");
    }
    eventually("all to be open", TIMEOUT, || client.stat("open") == 20);
    let staying = alone(&server, "staying", "media-unit", &[]);
    eventually("the other unit to be up", TIMEOUT, || client.stat("up") == 2);
    assert!(leaving.terminate().success());
    assert_eq!(client.stat("open"), 20);
    for number in 0..20 {
        let (cmu, _, state) = client.place(&format!("49{number}"));
        assert!(cmu.contains("staying") && state == "open", "{cmu} {state}");
        let history = client.ok(&format!("CONF.HISTORY 49{number}"));
        assert_eq!(history.array()[0].field("how").text(), "moved");
    }
    eventually("it to have them all", TIMEOUT, || staying.metric("allot_unit_conferences") == Some(20.0));
}

#[test]
fn a_unit_whose_place_another_takes_ends() {
    let server = RedisServer::start();
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let first = alone(&server, "unit", "media-unit", &[]);
    let mut client = Realm::of(&server);
    client.begin("1", "");
    eventually("the conference to be open", TIMEOUT, || client.place("1").2 == "open");
    let second = alone(&server, "unit", "media-unit", &[]);
    assert_eq!(first.wait_for_end().code(), Some(3));
    assert!(
        first.log().contains("was replaced") && first.log().contains("media-unit.host"),
        "{}",
        first.log()
    );
    eventually("the other to have its conference", TIMEOUT, || {
        second.metric("allot_unit_conferences") == Some(1.0) && client.place("1").2 == "open"
    });
}

#[test]
fn a_unit_of_the_same_name_on_another_machine_waits_and_stops_nothing() {
    let server = RedisServer::start();
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let unit = |machine: &str| {
        let host = ["--media-unit-host", "127.0.0.1/unit", "--media-unit-machine", machine];
        let url = server.url();
        let more = ["--roles", "media-unit", "--realm", REALM, "--redis-url", &url];
        let process = Process::new(machine, &[&host[..], &more].concat());
        process.start();
        process
    };
    let first = unit("m1");
    eventually("the first to be ready", TIMEOUT, || first.is_ready());
    let mut client = Realm::of(&server);
    client.begin("1", "");
    eventually("the conference to be open", TIMEOUT, || client.place("1").2 == "open");
    let owner = client.place("1");
    let second = unit("m2");
    eventually("the second to say what to change", TIMEOUT, || {
        second.http("/readyz").is_some_and(|(status, body)| {
            status == 503 && body.contains("on machine 'm1'") && body.contains("media-unit.host")
        })
    });
    eventually("the first to say it", TIMEOUT, || first.log().contains("m2"));
    assert_eq!(client.ok("CMU.LIST").array()[0].field("conflict").text(), "m2");
    let listed = run(&server, &["unit", "list", "--realm", REALM]).ok();
    assert!(listed.err.contains("machine 'm2'"), "{}", listed.err);
    assert!(first.is_ready() && second.is_running(), "{}", second.log());
    assert_eq!((client.place("1"), first.metric("allot_unit_conferences")), (owner, Some(1.0)));
    // Its place is free when it has ended.
    assert!(first.terminate().success());
    eventually("the second to have its conference", TIMEOUT, || {
        second.is_ready()
            && second.metric("allot_unit_conferences") == Some(1.0)
            && client.place("1").2 == "open"
    });
}

#[test]
fn a_unit_that_does_not_know_its_address_waits_until_it_does() {
    let unit =
        Process::new("unit", &["--roles", "media-unit", "--redis-url", "redis://nowhere.invalid:6379"]);
    unit.start();
    eventually("it to say what it lacks", TIMEOUT, || {
        unit.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("media-unit.host"))
    });
    assert!(!unit.log().contains("unit begins"), "it took some address for its own");
    assert!(unit.terminate().success());
}
