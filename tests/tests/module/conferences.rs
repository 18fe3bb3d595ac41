//! Conferences on a real server: what is replied, what units and watchers are told, what a lost unit may still do, and
//! how long the server is held when thousands of conferences lose their unit at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use allot_tests::raw::encode;
use allot_tests::realms::{REALM, Realm, UNITS};
use allot_tests::shows::{allot_info, clock, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

#[test]
fn a_unit_that_dies_loses_its_conferences_to_another_and_writes_no_more() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &UNITS[..2]);
    realm.ok("CONF.REALM POLICY EARLIEST");
    let (a, first) = realm.open("7");
    assert_eq!(realm.ok(&format!("CONF.SET 7 {a} {first} 1 members 3 speaker ann")), Reply::Int(2));
    assert_eq!(realm.ok("CONF.GET 7 speaker nothing").array()[0], Reply::bulk("ann"));
    realm.ok(&format!("CMU.DOWN {a}"));
    assert_eq!(realm.place("7"), (String::new(), first, "pending".into()));
    assert_eq!(realm.ok("CONF.GET 7").record().len(), 2, "while it waits they show the last");
    let grants = realm.ok("CONF.RECOVER");
    let grant = grants.array()[0].array();
    let (b, second) = (grant[1].text(), grant[2].int());
    assert_eq!((grant[0].text(), grants.array().len()), ("7".into(), 1));
    assert!(b != a && second > first);
    realm.ok(&format!("CONF.ACK 7 {b} {second}"));
    assert_eq!(realm.place("7"), (b.clone(), second, "open".into()));
    for (write, code) in [
        (format!("CONF.SET 7 {a} {first} 9 members 9"), "NOTOWNER"),
        (format!("CONF.SET 7 {b} {first} 9 members 9"), "STALE"),
        (format!("CONF.SET 8 {b} {second} 9 members 9"), "NOTFOUND"),
    ] {
        assert_eq!(realm.code(&write), code, "{write}");
    }
    realm.ok(&format!("CONF.SET 7 {b} {second} 5 members 2"));
    assert_eq!(realm.code(&format!("CONF.SET 7 {b} {second} 5 members 1")), "STALE");
    let counters = ["not_owner", "stale_epoch", "stale_seq", "ended"];
    let counted = counters.map(|name| allot_info(&server, &format!("conf_writes_{name}")));
    assert_eq!(counted, [1, 1, 1, 1]);
    assert_eq!((allot_info(&server, "conf_reopened"), allot_info(&server, "conf_reopened_300s")), (1, 1));
    // The first one comes back, and has it again by the policy of the realm: nobody ended it, and its copy is the older one.
    realm.join(&a);
    let report = realm.ok(&format!("CMU.REPORT {a} HIGHEST {first} 7 {first}"));
    let adopted = report.field("adopted").array()[0].array().to_vec();
    assert_eq!((adopted[0].text(), adopted[1].int()), ("7".into(), first));
    assert_eq!(realm.place("7"), (a.clone(), adopted[2].int(), "open".into()));
    let release = realm.entries(&format!("cmd:{b}"));
    assert_eq!(release.last().unwrap(), &format!("RELEASE 7 {b} {second} 0"));
    let history = realm.ok("CONF.HISTORY 7");
    let how: Vec<Reply> = history.array().iter().map(|entry| entry.field("how")).collect();
    assert_eq!(how[..2], [Reply::bulk("lost"), Reply::bulk("released")]);
    assert!(how[2].is_null());
    no_internal_errors(&server);
}

#[test]
fn every_transition_is_told_once_and_every_command_reaches_its_unit() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let end = clock(&mut realm.client) + 3_600_000;
    let (_, first) = realm.begin("7", &format!("END {end} SIZE 2 PRIORITY 3 REQUEST r1"));
    assert_eq!(realm.begin("7", "REQUEST r1"), ("a:1:1".into(), first), "a retry gets its record");
    assert_eq!(realm.code("CONF.CREATE 7 REQUEST r2"), "EXISTS");
    realm.ok(&format!("CONF.ACK 7 a:1:1 {first}"));
    assert_eq!(realm.ok(&format!("CONF.ACK 7 a:1:1 {}", first + 1)), Reply::bulk("RELEASE"));
    let later = end + 1000;
    realm.ok(&format!("CONF.EXTEND 7 END {later}"));
    let number = realm.ok("CONF.REALM").field("last_epoch").int();
    realm.ok("CMU.ASK a:1:1 DETAILS");
    realm.ok("CMU.ASK LIST");
    realm.ok("CONF.RELEASE 7");
    realm.ok(&format!("CONF.ENDED 7 a:1:1 {first}"));
    assert_eq!(realm.ok("CONF.INFO 7").field("cause"), Reply::bulk("manager"));
    assert_eq!(
        realm.entries("cmd:a:1:1"),
        [
            format!("CREATE 7 a:1:1 {first} {end} 2 3 r1 0 0"),
            format!("RELEASE 7 a:1:1 {} 0", first + 1),
            format!("UPDATE 7 a:1:1 {first} {number} {later} 2 0"),
            "REPORT  a:1:1 0 DETAILS".into(),
            "REPORT  a:1:1 0 LIST".into(),
            format!("RELEASE 7 a:1:1 {first} 1"),
        ]
    );
    let (info, history) = (realm.ok("CONF.INFO 7"), realm.ok("CONF.HISTORY 7"));
    let [created, opened, ended] = ["created", "opened", "ended"].map(|name| info.field(name).int());
    let [from, heard, to] = ["from", "opened", "to"].map(|name| history.array()[0].field(name).int());
    assert_eq!(
        realm.entries("evt"),
        [
            "joined  a:1:1 0 up".to_owned(),
            format!("created 7 a:1:1 {first} creating"),
            format!("opened 7 a:1:1 {first} open"),
            format!("extended 7 a:1:1 {first} open"),
            format!("ending 7 a:1:1 {first} open manager"),
            format!(
                "ended 7 a:1:1 {first} ended manager 1 {first} {created}  {opened} {ended} \
                 a:1:1 {first} {from} {heard} {to} ended"
            ),
        ]
    );
    no_internal_errors(&server);
}

#[test]
fn a_stream_of_another_type_keeps_nothing_else_waiting_and_loses_nothing() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.client.words(&format!("DEL {REALM}:evt"));
    realm.client.words(&format!("SET {REALM}:evt text"));
    for number in 0..50 {
        realm.open(&number.to_string());
    }
    assert_eq!(realm.entries("cmd:a:1:1").len(), 50, "commands are sent nevertheless");
    assert_eq!(realm.stat("unsent"), 100);
    assert!(allot_info(&server, "outbox_failures") >= 100);
    realm.client.words(&format!("DEL {REALM}:evt"));
    eventually("the timer to send what waited", TIMEOUT, || realm.stat("unsent") == 0);
    let told: Vec<String> = realm.entries("evt");
    let expected: Vec<String> = (0..50)
        .flat_map(|number| {
            let epoch = realm.place(&number.to_string()).1;
            [
                format!("created {number} a:1:1 {epoch} creating"),
                format!("opened {number} a:1:1 {epoch} open"),
            ]
        })
        .collect();
    assert_eq!(told, expected);
    no_internal_errors(&server);
}

#[test]
fn ten_thousand_conferences_of_a_dead_unit_recover_in_short_steps() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    // A creation waits until all of the others are made.
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    for number in 0..10_000 {
        realm.client.send(&["CONF.CREATE", REALM, &number.to_string()]);
    }
    let records: Vec<Reply> = (0..10_000).map(|_| realm.client.read()).collect();
    for record in &records {
        let (e164, epoch) = (record.field("e164").text(), record.field("epoch").int().to_string());
        realm.client.send(&["CONF.ACK", REALM, &e164, "a:1:1", &epoch]);
    }
    for _ in &records {
        assert_eq!(realm.client.read(), Reply::Simple("OK".into()));
    }
    for cmu in &UNITS[1..] {
        realm.join(cmu);
    }
    let start = Instant::now();
    realm.ok("CMU.DOWN a:1:1");
    let down = start.elapsed();
    assert_eq!(realm.stat("pending"), 10_000);
    let (mut granted, mut steps) = (0, Vec::new());
    while granted < 10_000 {
        let start = Instant::now();
        let grants = realm.ok("CONF.RECOVER COUNT 100").array().len();
        steps.push(start.elapsed());
        assert!((1..=100).contains(&grants), "{grants} in a step of a hundred");
        granted += grants;
    }
    steps.sort_unstable();
    let (median, longest) = (steps[steps.len() / 2], steps[steps.len() - 1]);
    eprintln!("down in {down:?}, recovered in steps of {median:?}, {longest:?} at most");
    // The figures are the bench's. One step says nothing, since any process may have to wait for the machine.
    assert!(median < Duration::from_secs(1), "each step is long: {median:?}");
    assert_eq!((realm.stat("pending"), realm.stat("creating")), (0, 10_000));
    eventually("all messages to be sent", TIMEOUT, || realm.stat("unsent") == 0);
    let told = realm.entries("evt");
    for (event, cause) in [("lost", "down"), ("granted", "recovery")] {
        let of: BTreeSet<&String> =
            told.iter().filter(|line| line.starts_with(event) && line.ends_with(cause)).collect();
        assert_eq!(of.len(), 10_000, "{event}: each once");
    }
    assert_eq!(told.len(), 3 + 1 + 10_000 * 4);
    let commands = realm.entries("cmd:b:1:1").len() + realm.entries("cmd:c:1:1").len();
    assert_eq!((commands, realm.stat("dropped")), (10_000, 0));
    no_internal_errors(&server);
}

#[test]
fn a_replaced_incarnation_is_told_to_stop_and_its_stream_is_gone() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let (_, epoch) = realm.open("7");
    assert_eq!(realm.client.words(&format!("EXISTS {REALM}:cmd:a:1:1")), Reply::Int(1));
    realm.join("a:1:2");
    assert_eq!(realm.client.words(&format!("EXISTS {REALM}:cmd:a:1:1")), Reply::Int(0));
    for line in ["CMU.BEAT a:1:1", "CMU.JOIN a:1:1 CAPACITY 1", "CMU.REPORT a:1:1 HIGHEST 0"] {
        assert_eq!(realm.code(line), "STALE", "{line}");
    }
    assert_eq!(realm.code(&format!("CONF.SET 7 a:1:1 {epoch} 1 a b")), "NOTOWNER");
    assert_eq!(realm.ok("CONF.RECOVER").array()[0].array()[1], Reply::bulk("a:1:2"));
    assert_eq!(realm.ok("CMU.LIST").array().len(), 1);
}

#[test]
fn unit_that_refuses_everything_keeps_nobody_waiting() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &UNITS);
    let bad = UNITS[0];
    for number in 0..8 {
        realm.begin(&number.to_string(), "");
        for _ in 0..2 {
            let (cmu, epoch, _) = realm.place(&number.to_string());
            let answer = if cmu == bad { "NACK" } else { "ACK" };
            realm.ok(&format!("CONF.{answer} {number} {cmu} {epoch}"));
        }
    }
    assert_eq!((realm.stat("open"), realm.stat("backoff")), (8, 1));
    assert_eq!((allot_info(&server, "conf_retried"), allot_info(&server, "cmu_failures")), (3, 3));
    let unit = realm.ok("CMU.LIST").array()[0].clone();
    assert_eq!((unit.field("cmu").text(), unit.field("failures").int()), (bad.into(), 3));
    let told = realm.entries("evt");
    assert_eq!(
        told.iter().filter(|line| line.starts_with(&format!("backoff  {bad}"))).count(),
        1,
        "{told:?}"
    );
    // It gets a conference again as a trial, a second later, and after a restart of the server as well.
    eventually("its trial to begin", TIMEOUT, || {
        realm.entries("evt").iter().any(|line| line.starts_with(&format!("trial  {bad}")))
    });
    let (cmu, epoch) = realm.begin("trial", "");
    assert_eq!(cmu, bad, "it has the most room");
    realm.ok(&format!("CONF.ACK trial {cmu} {epoch}"));
    assert_eq!((realm.stat("backoff"), realm.ok("CMU.LIST").array()[0].field("failures").int()), (0, 0));
    no_internal_errors(&server);
}

#[test]
fn drained_host_stays_drained_when_its_unit_and_the_server_restart() {
    let server = RedisServer::builder().arg("appendonly", "yes").start();
    let mut realm = Realm::create(&server, &["a:1:1", "b:1:1"]);
    assert_eq!(realm.ok("CMU.DRAIN a:1:1").field("state"), Reply::bulk("draining"));
    let host = realm.ok("CMU.DRAIN HOST c");
    assert_eq!((host.field("host").text(), host.field("draining").int()), ("c".into(), 1));
    assert!(host.field("cmu").is_null());
    server.restart();
    let mut realm = Realm::of(&server);
    for cmu in ["a:2:2", "c:1:1"] {
        realm.join(cmu);
    }
    for number in 0..6 {
        assert_eq!(realm.begin(&number.to_string(), "").0, "b:1:1");
    }
    let drained = realm.ok("CONF.REALM").field("drained");
    assert_eq!(drained.array(), [Reply::bulk("a"), Reply::bulk("c")]);
    assert_eq!(realm.ok("CONF.STAT").field("drained"), drained);
    realm.ok("CMU.DRAIN HOST a OFF");
    assert_eq!(realm.begin("7", "").0, "a:2:2");
    // A unit that is about to end is drained itself, and the next unit of its host is not.
    assert_eq!(realm.ok("CMU.LEAVE b:1:1").field("left").int(), 6, "they are not open");
    realm.join("b:2:2");
    assert_eq!(realm.ok("CMU.LIST").array()[1].field("state"), Reply::bulk("up"));
    no_internal_errors(&server);
}

#[test]
fn conference_ended_on_a_replaced_unit_stays_ended() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let (_, epoch) = realm.open("7");
    realm.client.words(&format!("SET {REALM}:cmd:b:1:1 mine"));
    realm.join("b:1:1");
    // The first takes the stream of the second with it, and of the other nothing that is not its own.
    realm.join("a:1:2");
    realm.join("b:1:2");
    assert_eq!(realm.client.words(&format!("GET {REALM}:cmd:b:1:1")).text(), "mine");
    assert_eq!(realm.client.words(&format!("EXISTS {REALM}:cmd:a:1:1")).int(), 0);
    assert_eq!(realm.place("7").2, "pending");
    realm.ok(&format!("CONF.ENDED 7 a:1:1 {epoch}"));
    assert_eq!(realm.place("7").2, "ended");
    assert_eq!(realm.code("CMU.BEAT a:1:1"), "STALE");
}

#[test]
fn read_of_a_conference_includes_due_changes() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.open("1");
    realm.ok("CONF.REALM CREATETIMEOUT 5000");
    let time = realm.client.words("TIME").array()[0].text().parse::<u64>().unwrap() * 1000;
    realm.ok(&format!("CONF.EXTEND 1 END {}", time + 6000));
    realm.begin("2", "");
    // Nothing can be changed, and so nothing happens by itself.
    realm.client.words("CLIENT PAUSE 600000 WRITE");
    eventually("what is due to be seen", TIMEOUT, || {
        let record = realm.ok("CONF.INFO 1");
        assert_eq!(record.field("state").text(), "open");
        !record.field("ending").is_null() && realm.place("2").2 == "ended"
    });
    assert_eq!(realm.stat("ended"), 0, "nothing has happened yet");
    assert_eq!(realm.ok("CONF.HISTORY 2").array()[0].field("how").text(), "failed");
    realm.client.words("CLIENT UNPAUSE");
    eventually("it to happen", TIMEOUT, || realm.stat("ended") >= 1);
}

#[test]
fn settings_are_read_without_carrying_out_what_is_due() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.ok("CONF.REALM CREATETIMEOUT 30");
    let key = REALM;
    let mut client = server.raw();
    // In one batch: the timer has no turn between the commands.
    let lines = [
        format!("CONF.CREATE {key} 1"),
        "DEBUG SLEEP 0.2".into(),
        format!("CONF.REALM {key}"),
        format!("CONF.STAT {key}"),
    ];
    let batch: Vec<u8> = lines.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect();
    client.send_bytes(&batch);
    let replies: Vec<Reply> = lines.iter().map(|_| client.read()).collect();
    assert_eq!(replies[2].field("createtimeout").int(), 30);
    assert_eq!(replies[3].field("creating").int(), 1, "the creation is overdue, and not ended yet");
}

#[test]
fn reports_say_what_people_ended_and_lose_nothing_else() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let epochs = ["1", "2", "3"].map(|e164| realm.open(e164).1);
    let [first, _, third] = epochs;
    let report = realm.ok(&format!("CMU.REPORT a:1:1 HIGHEST {third} ENDED 1 1 {first} 3 {third}"));
    assert_eq!(report.field("kept").int(), 1);
    assert_eq!(report.field("ended").array(), [Reply::bulk("1")]);
    assert_eq!(report.field("lost").array(), [Reply::bulk("2")]);
    let states = ["1", "2", "3"].map(|e164| realm.place(e164).2);
    assert_eq!(states, ["ended", "pending", "open"]);
    realm.ok(&format!("CONF.ENDED 3 a:1:1 {third} RELEASED"));
    let record = realm.ok("CONF.INFO 3");
    assert_eq!(
        (record.field("state").text(), record.field("cause").text()),
        ("pending".into(), "released".into())
    );
    no_internal_errors(&server);
}

#[test]
fn what_nobody_answers_is_timed_out_by_the_server_itself() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.ok("CONF.REALM CREATETIMEOUT 30 RELEASETIMEOUT 30 WAITTIMEOUT 30 WINDOW 200 TOMBSTONE 200");
    realm.begin("7", "");
    let gone = |realm: &mut Realm, e164: &str| matches!(realm.call(&format!("CONF.INFO {e164}")), Reply::Error(text) if text.starts_with("NOTFOUND"));
    eventually("a creation to be given up, and its record to go", TIMEOUT, || gone(&mut realm, "7"));
    // The others are to be opened first.
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    realm.open("8");
    realm.ok("CONF.RELEASE 8");
    eventually("a release to be given up, and its record to go", TIMEOUT, || gone(&mut realm, "8"));
    realm.open("9");
    realm.ok("CMU.DOWN a:1:1");
    eventually("the wait for recovery to be given up", TIMEOUT, || gone(&mut realm, "9"));
    eventually("the unit to be forgotten", TIMEOUT, || realm.ok("CMU.LIST").array().is_empty());
    assert_eq!(realm.stat("licences_used"), 0);
    let ended: Vec<String> =
        realm.entries("evt").into_iter().filter(|line| line.starts_with("ended")).collect();
    assert_eq!(ended.len(), 3, "{ended:?}");
    for (line, cause) in ended.iter().zip(["timeout", "manager", "window"]) {
        assert!(line.split(' ').any(|word| word == cause), "{cause}: {line}");
    }
    assert_eq!(allot_info(&server, "conf_never_recovered"), 1);
    no_internal_errors(&server);
}

#[test]
fn streams_are_trimmed_by_age_but_not_under_a_live_group_before_the_limit() {
    let server = RedisServer::builder().module_arg("conf-stream-age").module_arg("1000").start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let now = clock(&mut realm.client);
    let info = format!("{REALM}:info");
    // Units write it; some entries are old, and a data proxy has read one of them. In one transaction, since the
    // timer may come at any time.
    realm.client.words("MULTI");
    realm.client.words(&format!("XADD {info} {}-1 e ancient", now - 7_200_000));
    realm.client.words(&format!("XADD {info} {}-1 e old", now - 1_800_000));
    realm.client.words(&format!("XGROUP CREATE {info} dp 0"));
    realm.client.words(&format!("XREADGROUP GROUP dp one COUNT 1 STREAMS {info} >"));
    assert_eq!(realm.client.words("EXEC").array().len(), 4);
    // What is older than an hour goes though it is not acknowledged, and the group is told.
    let resynced = ["old".to_owned(), "RESYNC   0".to_owned()];
    eventually("the stream to be trimmed", TIMEOUT, || realm.entries("info") == resynced);
    assert_eq!(allot_info(&server, "stream_resyncs"), 1);
    // Once the group has read the rest, it is nobody's; the other stream goes by age alone.
    realm.client.words(&format!("XREADGROUP GROUP dp one COUNT 10 STREAMS {info} >"));
    let ids = realm.client.words(&format!("XPENDING {info} dp - + 10"));
    for pending in ids.array() {
        realm.client.words(&format!("XACK {info} dp {}", pending.array()[0].text()));
    }
    eventually("what was read to go", TIMEOUT, || realm.entries("info").is_empty());
    eventually("what nobody reads to go", TIMEOUT, || realm.entries("evt").is_empty());
    no_internal_errors(&server);
}

#[test]
fn records_have_all_their_fields_in_both_protocols() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &UNITS);
    // What is refused is not tried elsewhere.
    realm.ok("CONF.REALM TRIES 1");
    let (cmu, _) = realm.open("7");
    realm.open("8");
    let names =
        |reply: &Reply| reply.record().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    for protocol in 2..=3 {
        if protocol == 3 {
            realm.client.hello3();
        }
        let conference = "e164 state cmu epoch origin_epoch copy_epoch created opened start end ended cause \
                          pending_since attempts next_retry moving_to moving_epoch ending recovering recoverable \
                          priority size licences zone zonefall unit elsewhere request pool require \
                          prefer tried";
        assert_eq!(names(&realm.ok("CONF.INFO 7")), conference);
        let created = realm.ok(&format!("CONF.CREATE new{protocol}"));
        assert_eq!(names(&created), format!("{conference} evt"));
        let after = created.field("evt").text();
        let told = realm.client.call(&["XREAD", "STREAMS", &format!("{REALM}:evt"), &after]);
        assert!(format!("{told:?}").contains(&format!("new{protocol}")), "{told:?}");
        let (unit, epoch) = (created.field("cmu").text(), created.field("epoch").int());
        realm.ok(&format!("CONF.NACK new{protocol} {unit} {epoch}"));
        let list = realm.ok("CONF.LIST STATE open COUNT 1");
        assert_eq!(names(&list.array()[1].array()[0]), conference);
        let cursor = list.array()[0].int();
        let rest = realm.ok(&format!("CONF.LIST STATE open CURSOR {cursor}"));
        assert_eq!((rest.array()[0].int(), rest.array()[1].array().len()), (0, 1));
        let unit = "cmu zone capacity used state draining reported lease lease_ends joined conferences load \
                    failures backoff_until machine conflict tags";
        assert_eq!(names(&realm.ok("CMU.LIST").array()[0]), unit);
        assert_eq!(names(&realm.ok(&format!("CMU.BEAT {cmu} LOAD 5"))), unit);
        assert_eq!(names(&realm.ok("CONF.HISTORY 7").array()[0]), "epoch copy_epoch cmu from opened to how");
        assert_eq!(
            names(&realm.ok("CONF.REALM")),
            "licences licences_used retry window policy createtimeout releasetimeout waittimeout tombstone \
             place tries failures warn ramp term leader last_epoch drained"
        );
        let plan = realm.ok(&format!("CONF.PLAN DOWN {cmu}"));
        assert_eq!(names(&plan.array()[0]), "e164 cmu why next_retry");
        let losses = realm.ok("CONF.PLAN DOWN any CURSOR 0");
        assert_eq!(names(&losses.array()[1].array()[0]), "cmu conferences placed no_room ending");
        assert_eq!(realm.code(&format!("CONF.PLAN DOWN {cmu} CURSOR 0")), "ERR");
        assert!(realm.ok("CONF.PLAN").array().is_empty());
        let own = realm.ok(&format!("CONF.LIST CMU {cmu}"));
        assert_eq!(own.array()[1].array().len(), 1);
    }
}

#[test]
fn lasting_conference_is_listed_once_while_others_come_and_go() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let steady: BTreeSet<String> = (0..200).map(|number| format!("steady{number}")).collect();
    let mut passing = std::collections::VecDeque::new();
    for (number, e164) in steady.iter().enumerate() {
        realm.open(e164);
        if number % 2 == 0 {
            let other = format!("passing{number}");
            passing.push_back((realm.open(&other), other));
        }
    }
    let (mut seen, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let page = realm.ok(&format!("CONF.LIST STATE open CURSOR {cursor} COUNT 7"));
        seen.extend(page.array()[1].array().iter().map(|one| one.field("e164").text()));
        cursor = page.array()[0].int().to_string();
        if cursor == "0" {
            break;
        }
        // Before and behind the page some end, and others come.
        for ((cmu, epoch), e164) in [passing.pop_front(), passing.pop_back()].into_iter().flatten() {
            realm.ok(&format!("CONF.ENDED {e164} {cmu} {epoch}"));
            realm.open(&format!("late-{e164}"));
        }
    }
    seen.retain(|e164| e164.starts_with("steady"));
    assert_eq!(seen.len(), steady.len());
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), steady);
}

#[test]
fn page_of_a_list_has_a_bound_whatever_its_count() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    (0..4100).for_each(|number| drop(realm.begin(&format!("c{number}"), "")));
    let page = realm.ok("CONF.LIST COUNT 10000");
    assert_eq!(page.array()[1].array().len(), 4000);
    let rest = realm.ok(&format!("CONF.LIST COUNT 10000 CURSOR {}", page.array()[0].int()));
    assert_eq!((rest.array()[0].int(), rest.array()[1].array().len()), (0, 100));
}

#[test]
fn wrong_calls_are_refused_with_the_word_that_is_wrong() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let (_, epoch) = realm.open("7");
    for (line, part) in [
        ("CONF.CREATE 9 SIZE 0", "ERR SIZE must be 1 to"),
        ("CONF.CREATE 9 SIZE x", "ERR 'SIZE' takes a whole number, not 'x'"),
        ("CONF.CREATE 9 COLOUR red", "ERR syntax error: 'COLOUR' is not expected here"),
        ("CONF.CREATE 9 END 5", "ERR END 5 is not in the future"),
        ("CONF.CREATE 9 ZONE moon", "LIMIT no unit of zone 'moon' has room for a conference of size 1"),
        ("CONF.SET 7 a:1:1 -1 1 a b", "ERR epoch must be a whole number"),
        ("CONF.SET 7 a:1:1 1 1 a b c", "ERR fields and values come by turns"),
        ("CONF.SET 7 a:1:1 @ 1 epoch b", "ERR 'epoch' cannot be the name of a detail"),
        ("CONF.ENDED 7 a:1:1 1 RELEASE", "ERR syntax error: 'RELEASE' is not expected here"),
        ("CMU.REPORT a:1:1 HIGHEST 0 ENDED 2 7 1", "ERR 'ENDED': 2 rows are announced and 1 follow"),
        ("CMU.REPORT a:1:1 HIGHEST 0 ENDED 1 7 x", "ERR epoch must be a whole number"),
        ("CONF.EXTEND 7 UNTIL 5", "ERR END is missing"),
        (
            "CONF.LIST STATE asleep",
            "ERR 'STATE' takes scheduled, waiting, creating, open, lost, pending or ended",
        ),
        ("CONF.LIST COUNT 0", "ERR COUNT must be 1 to"),
        ("CONF.RECOVER COUNT 1001", "ERR COUNT must be 1 to 1000"),
        ("CONF.RECOVER TERM 9", "STALE term 9 is not the claimed one"),
        ("CONF.RESTART TERM 0", "ERR LIVE is missing"),
        ("CONF.MOVE 7 TO a:1:1", "BADSTATE conference '7' is on unit 'a:1:1' already"),
        ("CONF.MOVE 7", "LIMIT no unit has room"),
        ("CMU.JOIN b:1:1", "ERR wrong number of arguments"),
        ("CMU.JOIN b:1:1 ZONE z", "ERR CAPACITY is missing"),
        ("CMU.BEAT b:1:1", "NOTFOUND unit 'b:1:1' has not joined"),
        ("CMU.REPORT a:1:1 HIGHEST 0 7", "ERR conferences and epochs come by turns"),
        ("CMU.ASK a:1:1 EVERYTHING", "ERR 'CMU.ASK' takes LIST or DETAILS"),
        ("CONF.INFO 9", "NOTFOUND there is no conference '9'"),
        ("CONF.APPLY x", "ERR this command carries what a master decided"),
    ] {
        let reply = realm.call(&line.replace('@', &epoch.to_string()));
        assert!(reply.error().starts_with(part), "{line}: {reply:?}");
    }
    assert_eq!(server.raw().words("CONF.STAT nothing").error(), "NOKEY there is no key 'nothing'");
    server.raw().words("SET text t");
    assert!(server.raw().words("CONF.STAT text").error().starts_with("WRONGTYPE "));
    no_internal_errors(&server);
}

#[test]
fn unit_with_full_load_gets_nothing_until_its_load_is_a_lease_old() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["b:1:1"]);
    realm.ok("CMU.JOIN a:1:1 CAPACITY 100000 LEASE 1500");
    realm.ok("CONF.REALM PLACE LOAD");
    realm.ok("CMU.BEAT a:1:1 LOAD 100");
    for e164 in ["1", "2"] {
        assert_eq!(realm.begin(e164, "").0, "b:1:1");
    }
    realm.ok("CMU.BEAT b:1:1 LOAD 7");
    eventually("the load to expire", TIMEOUT, || {
        // A heartbeat without a load renews the lease and not the load.
        realm.ok("CMU.BEAT a:1:1").field("load").is_null()
    });
    assert_eq!(realm.begin("3", "").0, "a:1:1");
    no_internal_errors(&server);
}

#[test]
fn pending_conference_leaves_its_zone_when_its_time_has_come() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &[]);
    for (cmu, zone) in [("a:1:1", "east"), ("b:1:1", "west")] {
        realm.ok(&format!("CMU.JOIN {cmu} CAPACITY 9 ZONE {zone} TAGS 2 hd {zone} LEASE 3600000"));
    }
    let tags = realm.ok("CMU.LIST").array()[0].field("tags");
    assert_eq!(tags.array().iter().map(Reply::text).collect::<Vec<_>>(), ["east", "hd"]);
    let options = "ZONE east ZONEFALL 50 REQUIRE 1 hd PREFER 2 x y";
    let (cmu, epoch) = realm.begin("7", options);
    assert_eq!(cmu, "a:1:1");
    realm.ok(&format!("CONF.ACK 7 a:1:1 {epoch}"));
    realm.ok("CMU.DOWN a:1:1");
    // The server's timer lets it go.
    eventually("it to be placed elsewhere", TIMEOUT, || {
        realm.ok("CONF.RECOVER");
        realm.place("7").0 == "b:1:1"
    });
    let (info, entries) = (realm.ok("CONF.INFO 7"), realm.entries("evt"));
    assert_eq!((info.field("zone").text(), info.field("elsewhere").int()), ("east".into(), 1));
    assert_eq!((info.field("zonefall").int(), info.field("prefer").array().len()), (50, 2));
    assert!(entries.contains(&format!("zone-fell 7 a:1:1 {epoch} pending")), "{entries:?}");
    for (line, code) in [
        ("CONF.CREATE 8 REQUIRE 1 west ZONE east", "LIMIT"),
        ("CONF.CREATE 8 REQUIRE 2 west", "ERR"),
        ("CONF.CREATE 8 UNIT c", "LIMIT"),
        ("CONF.ALTER 7 ZONE east NOZONE", "ERR"),
        ("CONF.ALTER 9 NOZONE", "NOTFOUND"),
    ] {
        assert_eq!(realm.code(line), code, "{line}");
    }
    let altered = realm.ok("CONF.ALTER 7 ZONE west ZONEFALL 0 UNIT b REQUIRE 0 PREFER 1 hd");
    let lists = ["require", "prefer"].map(|name| altered.field(name).array().len());
    assert_eq!(
        (altered.field("zone").text(), altered.field("unit").text(), lists),
        ("west".into(), "b".into(), [0, 1])
    );
    assert!(altered.field("zonefall").is_null());
    no_internal_errors(&server);
}

#[test]
fn scheduled_conference_opens_at_its_start_and_survives_reload_and_failover() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    let mut realm = Realm::of(&server);
    realm.ok("CONF.REALM");
    realm.ok("CMU.JOIN a:1:1 CAPACITY 9 LEASE 3600000000");
    let start = clock(&mut realm.client) + 3000;
    let later = start + 3_600_000;
    let booked = realm.ok(&format!("CONF.CREATE 7 START {start} END {later} SIZE 6 REQUEST r"));
    assert_eq!((booked.field("state").text(), booked.field("start").int()), ("scheduled".into(), start));
    realm.ok(&format!("CONF.CREATE 8 START {later} END {} SIZE 9", later + 1000));
    assert_eq!((realm.stat("scheduled"), realm.stat("used")), (2, 0));
    assert_eq!(realm.code(&format!("CONF.CREATE 9 START {start} END {later} WAIT 0")), "ERR");
    realm.client.words("DEBUG RELOAD");
    // What is reserved is reserved after the reload.
    let refused = realm.call("CONF.CREATE 9");
    assert!(refused.error().contains(&format!("with START {} it fits", later + 1000)), "{refused:?}");
    assert_eq!(realm.stat("scheduled"), 2);
    eventually("its start", TIMEOUT, || realm.place("7").2 == "creating");
    let (cmu, epoch, _) = realm.place("7");
    assert!(clock(&mut realm.client) >= start);
    realm.ok(&format!("CONF.ACK 7 {cmu} {epoch}"));
    let told = realm.entries(&format!("cmd:{cmu}"));
    assert_eq!(told, [format!("CREATE 7 {cmu} {epoch} {later} 6 0 r 0 0")]);
    // The replica has the same, and starts the other one as a master: not before its time.
    server.wait_offset_equal(&replica);
    replica.command("REPLICAOF NO ONE");
    let mut copy = Realm::of(&replica);
    assert_eq!((copy.place("7").2, copy.place("8").2), ("open".into(), "scheduled".into()));
    assert_eq!(copy.code("CONF.CREATE 9"), "LIMIT");
    let soon = clock(&mut copy.client) + 200;
    copy.ok(&format!("CONF.CREATE 9 START {soon} END {later} SIZE 3"));
    eventually("its start", TIMEOUT, || copy.place("9").2 == "creating");
    assert_eq!(copy.ok("CONF.RELEASE 8").field("state").text(), "ended");
    no_internal_errors(&server);
    no_internal_errors(&replica);
}
