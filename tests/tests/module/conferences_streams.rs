//! Messages of a realm whose streams cannot be written for a while: a key of another type stands in their place, or
//! a slot migration took them away. Nothing fails by it, and in the end each message is in its stream once.

use allot_tests::realms::{REALM, Realm, UNITS};
use allot_tests::shows::{allot_info, clock, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Cluster, RedisServer, Reply, eventually};

/// A key of another type in a stream's place.
fn block(realm: &mut Realm, stream: &str) {
    realm.client.words(&format!("DEL {REALM}:{stream}"));
    realm.client.words(&format!("SET {REALM}:{stream} text"));
}

/// The streams of a realm of two units, entry by entry.
fn streams(server: &RedisServer) -> [Vec<Reply>; 3] {
    let mut realm = Realm::of(server);
    ["evt", "cmd:a:1:1", "cmd:b:1:1"].map(|stream| realm.whole(stream))
}

/// The time and the number of each id.
fn ids(entries: &[Reply]) -> Vec<(u64, u64)> {
    let id = |entry: &Reply| {
        let id = entry.array()[0].text();
        let (time, number) = id.split_once('-').unwrap();
        (time.parse().unwrap(), number.parse().unwrap())
    };
    entries.iter().map(id).collect()
}

/// What a conference's life up to its opening says to watchers, and to its unit.
fn told(e164: &str, cmu: &str, epoch: i64) -> ([String; 2], String) {
    let told =
        [format!("created {e164} {cmu} {epoch} creating"), format!("opened {e164} {cmu} {epoch} open")];
    (told, format!("CREATE {e164} {cmu} {epoch}  1 0  0 0"))
}

#[test]
fn messages_held_up_by_a_foreign_key_are_sent_once_everywhere() {
    let master = RedisServer::builder()
        .arg("appendonly", "yes")
        .arg("appendfsync", "always")
        .arg("aof-use-rdb-preamble", "no")
        .start();
    let strict = || RedisServer::builder().arg("propagation-error-behavior", "panic").start();
    let (replica, late) = (strict(), strict());
    replica.replica_of(&master);
    let mut realm = Realm::create(&master, &UNITS[..2]);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    block(&mut realm, "evt");
    block(&mut realm, "cmd:a:1:1");
    let (mut events, mut commands) = (Vec::new(), [Vec::new(), Vec::new()]);
    let mut opened = 0;
    let mut open = |realm: &mut Realm, count: usize| {
        for _ in 0..count {
            let e164 = opened.to_string();
            let (cmu, epoch) = realm.open(&e164);
            let (event, command) = told(&e164, &cmu, epoch);
            events.extend(event);
            commands[usize::from(cmu == "b:1:1")].push(command);
            opened += 1;
        }
        (events.clone(), commands.clone())
    };
    open(&mut realm, 30);
    // From here on the outbox is in snapshots as well: a late replica's, and that of a file that was rewritten.
    late.replica_of(&master);
    master.command("BGREWRITEAOF");
    eventually("the rewrite to end", TIMEOUT, || {
        let info = master.info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
    let (events, [to_a, to_b]) = open(&mut realm, 30);
    assert!(to_a.len() > 10 && to_b.len() > 10, "both have a share");
    for counter in ["conf_created", "conf_opened"] {
        assert_eq!(allot_info(&master, counter), 60, "{counter}");
    }
    assert!(allot_info(&master, "outbox_failures") >= 120, "{}", allot_info(&master, "outbox_failures"));
    assert_eq!(realm.stat("unsent"), 120 + to_a.len() as i64);
    assert_eq!(realm.entries("cmd:b:1:1"), to_b, "no other stream waits");
    realm.client.words(&format!("DEL {REALM}:evt {REALM}:cmd:a:1:1"));
    eventually("all to be sent", TIMEOUT, || realm.stat("unsent") == 0);
    assert_eq!(
        [realm.entries("evt"), realm.entries("cmd:a:1:1"), realm.entries("cmd:b:1:1")],
        [events, to_a, to_b]
    );
    assert_eq!(realm.stat("dropped"), 0);
    let there = streams(&master);
    for entries in &there {
        assert!(ids(entries).is_sorted_by(|one, next| one < next), "{entries:?}");
    }
    for server in [&replica, &late] {
        master.wait_offset_equal(server);
        assert_eq!(streams(server), there);
        assert_eq!(server.digest(), master.digest());
        no_internal_errors(server);
        server.kill9();
    }
    no_internal_errors(&master);
    master.kill9();
    master.restart();
    assert_eq!(streams(&master), there, "from the file");
    // What comes next finds nothing that would be sent again.
    let mut realm = Realm::of(&master);
    realm.open("more");
    eventually("all to be sent", TIMEOUT, || realm.stat("unsent") == 0);
    let after = streams(&master);
    let lengths = |streams: &[Vec<Reply>; 3]| streams.iter().map(Vec::len).sum::<usize>();
    assert_eq!(lengths(&after), lengths(&there) + 3);
    for (before, after) in there.iter().zip(&after) {
        assert_eq!(&after[..before.len()], before);
        assert!(ids(after).is_sorted_by(|one, next| one < next), "{after:?}");
    }
    no_internal_errors(&master);
}

#[test]
fn stream_in_a_migrated_slot_gets_each_message_once() {
    let cluster = Cluster::start(3, 0);
    let home = cluster.master_for(REALM);
    let mut realm = Realm::create(home, &UNITS[..2]);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000 RELEASETIMEOUT 3600000");
    assert_eq!([realm.open("before").0, realm.open("too").0], ["a:1:1", "b:1:1"]);
    // The realm is here still; the stream of events, and that of one unit, are there already. The streams of units
    // that join meanwhile cannot begin.
    let begin = || {
        let moving = cluster.begin_move(REALM);
        moving.key(&format!("{REALM}:evt"));
        moving.key(&format!("{REALM}:cmd:a:1:1"));
        moving
    };
    let go_on = |realm: &mut Realm, round: &str, joins: &str, writable: &[&str]| {
        let failures = allot_info(home, "outbox_failures");
        realm.join(joins);
        let mut events = vec![format!("joined  {joins} 0 up")];
        let mut commands: Vec<(String, Vec<String>)> = Vec::new();
        for number in 0..30 {
            let e164 = format!("{round}{number}");
            let (cmu, epoch) = realm.open(&e164);
            let (event, command) = told(&e164, &cmu, epoch);
            events.extend(event);
            let stream = format!("cmd:{cmu}");
            match commands.iter_mut().find(|(name, _)| *name == stream) {
                Some((_, commands)) => commands.push(command),
                None => commands.push((stream, vec![command])),
            }
        }
        assert!(commands.len() >= 3, "each unit has a share: {commands:?}");
        // A slot that moves is no failure.
        assert_eq!(allot_info(home, "outbox_failures"), failures);
        let waits = |stream: &&(String, Vec<String>)| !writable.contains(&&*stream.0);
        let waiting: usize = commands.iter().filter(waits).map(|(_, commands)| commands.len()).sum();
        assert_eq!(realm.stat("unsent"), 61 + waiting as i64);
        (events, commands)
    };
    let before_to_b = realm.entries("cmd:b:1:1");
    let moving = begin();
    let (events, commands) = go_on(&mut realm, "off", "c:1:1", &["cmd:b:1:1"]);
    moving.call_off();
    eventually("all to be sent where they are", TIMEOUT, || realm.stat("unsent") == 0);
    assert_eq!(realm.entries("evt"), events, "what had gone is lost with its key");
    for (stream, commands) in commands {
        let before = if stream == "cmd:b:1:1" { before_to_b.clone() } else { Vec::new() };
        assert_eq!(realm.entries(&stream), [before, commands].concat(), "{stream}");
    }
    // Now it goes through.
    let units = ["evt", "cmd:a:1:1", "cmd:b:1:1", "cmd:c:1:1", "cmd:d:1:1"];
    let before = units.map(|stream| realm.entries(stream));
    let moving = begin();
    let (events, commands) = go_on(&mut realm, "through", "d:1:1", &["cmd:b:1:1", "cmd:c:1:1"]);
    // The stream of an incarnation that is replaced is away, too; it is deleted where it is.
    realm.join("a:1:2");
    assert_eq!(realm.place("before").2, "pending");
    let (from, to) = (moving.from, moving.to);
    moving.finish();
    let mut there = Realm::of(to);
    eventually("all to be sent on the new node", TIMEOUT, || there.stat("unsent") == 0);
    let now = units.map(|stream| there.entries(stream));
    let lost = now[0].iter().filter(|line| line.starts_with("lost ")).count();
    assert!(lost > 0, "{:?}", now[0]);
    for (at, stream) in units.into_iter().enumerate() {
        let more = match stream {
            "evt" => &events[..],
            _ => commands.iter().find(|(name, _)| name == stream).map_or(&[][..], |(_, told)| &told[..]),
        };
        let mut expected = [&before[at][..], more].concat();
        match stream {
            "cmd:a:1:1" => expected.clear(),
            "evt" => expected.extend_from_slice(&now[0][expected.len()..]),
            _ => {}
        }
        assert_eq!(now[at], expected, "{stream}");
    }
    let all = &now[0];
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "an event is there twice");
    assert_eq!(there.stat("dropped"), 0);
    assert!(from.raw().words(&format!("CONF.STAT {REALM}")).error().starts_with("MOVED "));
    cluster.nodes().for_each(no_internal_errors);
}

#[test]
fn a_realm_that_moves_before_its_streams_waits_for_them() {
    let cluster = Cluster::start(3, 0);
    let mut realm = Realm::create(cluster.master_for(REALM), &UNITS[..1]);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    realm.open("before");
    let [events, commands] = ["evt", "cmd:a:1:1"].map(|stream| realm.entries(stream));
    let moving = cluster.begin_move(REALM);
    moving.key(REALM);
    // Its clients are asked over to the new node.
    let mut there = Realm::of(moving.to);
    there.client.words("ASKING");
    let (cmu, epoch) = there.begin("7", "");
    there.client.words("ASKING");
    there.ok(&format!("CONF.ACK 7 {cmu} {epoch}"));
    moving.finish();
    eventually("all to be sent", TIMEOUT, || there.stat("unsent") == 0);
    let (event, command) = told("7", &cmu, epoch);
    assert_eq!(there.entries("evt"), [&events[..], &event].concat());
    assert_eq!(there.entries("cmd:a:1:1"), [&commands[..], &[command]].concat());
    cluster.nodes().for_each(no_internal_errors);
}

#[test]
fn readers_find_a_resync_in_the_place_of_dropped_messages() {
    /// What an outbox keeps for a stream.
    const KEPT: usize = 65_536;
    /// What more is said.
    const MORE: usize = 20_000;
    let server = RedisServer::builder().arg("latency-tracking", "no").start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let (_, epoch) = realm.open("7");
    let stream = format!("{REALM}:cmd:a:1:1");
    let read = realm.whole("cmd:a:1:1")[0].array()[0].text();
    let swap = |realm: &mut Realm, lines: &[&str]| {
        // The timer may come at any time, but not in between.
        realm.client.words("MULTI");
        for line in lines {
            realm.client.words(line);
        }
        assert!(realm.client.words("EXEC").array().iter().all(|reply| !matches!(reply, Reply::Error(_))));
    };
    swap(&mut realm, &[&format!("RENAME {stream} kept"), &format!("SET {stream} text")]);
    let ask = |realm: &mut Realm, count: usize| {
        for part in (0..count).step_by(1000) {
            let count = 1000.min(count - part);
            for _ in 0..count {
                realm.client.send(&["CMU.ASK", REALM, "a:1:1", "LIST"]);
            }
            for _ in 0..count {
                assert_eq!(realm.client.read(), Reply::Simple("OK".into()));
            }
        }
    };
    let memory = |realm: &mut Realm| realm.client.words(&format!("MEMORY USAGE {REALM}")).int();
    ask(&mut realm, KEPT);
    assert_eq!((realm.stat("unsent"), realm.stat("dropped")), (KEPT as i64, 0));
    let full = memory(&mut realm);
    ask(&mut realm, MORE);
    assert_eq!((realm.stat("unsent"), realm.stat("dropped")), (KEPT as i64, MORE as i64));
    let fuller = memory(&mut realm);
    assert!(fuller <= full + full / 100, "{full} bytes became {fuller}");
    // Nobody else waits for it.
    let events = realm.entries("evt").len();
    realm.open("8");
    assert_eq!((realm.entries("evt").len(), realm.stat("unsent")), (events + 2, KEPT as i64));
    swap(&mut realm, &[&format!("DEL {stream}"), &format!("RENAME kept {stream}")]);
    eventually("all that is left to be sent", TIMEOUT, || realm.stat("unsent") == 0);
    // A unit reads on behind what it has read.
    let next = realm.client.call(&["XREAD", "COUNT", "2", "STREAMS", &stream, &read]);
    let next = next.array()[0].array()[1].array().to_vec();
    let fields = |entry: &Reply| entry.array()[1].array().iter().map(Reply::text).collect::<Vec<_>>();
    // The first to be lost were the asked ones; the conference that was created since is another message.
    let lost = (MORE + 1 + 1).to_string();
    let expected = ["event", "RESYNC", "e164", "", "cmu", "a:1:1", "epoch", "0", "lost", &lost];
    assert_eq!(fields(&next[0]), expected);
    assert_eq!(fields(&next[1])[..2], ["event", "REPORT"]);
    let all = realm.entries("cmd:a:1:1");
    assert_eq!(all.len(), 1 + KEPT);
    assert!(all[0].starts_with(&format!("CREATE 7 a:1:1 {epoch} ")));
    assert!(all[2..KEPT].iter().all(|line| line == "REPORT  a:1:1 0 LIST"));
    assert!(all[KEPT].starts_with("CREATE 8 a:1:1 "));
    eventually("memory to be free again", TIMEOUT, || memory(&mut realm) < full / 10);
    no_internal_errors(&server);
}

#[test]
fn stream_with_ids_ahead_of_the_clock_continues_behind_them() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let stream = format!("{REALM}:cmd:a:1:1");
    let ahead = clock(&mut realm.client) + 1_800_000;
    realm.client.words(&format!("XADD {stream} {ahead}-7 x y"));
    let (_, epoch) = realm.open("7");
    realm.ok("CONF.RELEASE 7");
    let ids = |realm: &mut Realm, stream: &str| -> Vec<String> {
        realm.whole(stream).iter().map(|entry| entry.array()[0].text()).collect()
    };
    let behind = [7, 8, 9].map(|seq| format!("{ahead}-{seq}"));
    assert_eq!(ids(&mut realm, "cmd:a:1:1"), behind, "in the same step");
    assert!(realm.entries("cmd:a:1:1")[2].starts_with(&format!("RELEASE 7 a:1:1 {epoch}")));
    assert!(ids(&mut realm, "evt").iter().all(|id| id < &behind[0]), "others do not follow");
    assert_eq!((realm.stat("unsent"), allot_info(&server, "outbox_failures")), (0, 0));
    server.wait_offset_equal(&replica);
    let mut copy = Realm::of(&replica);
    assert_eq!(copy.whole("cmd:a:1:1"), realm.whole("cmd:a:1:1"));
    // But not to where nothing would be trimmed for years.
    realm.client.words(&format!("XADD {stream} 9999999999999-0 x y"));
    realm.open("8");
    assert!(realm.stat("unsent") > 0 && allot_info(&server, "outbox_failures") > 0);
    realm.client.words(&format!("DEL {stream}"));
    eventually("the rest to be sent", TIMEOUT, || realm.stat("unsent") == 0);
    no_internal_errors(&server);
}

#[test]
fn idle_realms_do_not_look_at_their_streams() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.open("7");
    // One look after the creation; the entries are due in ten minutes.
    std::thread::sleep(std::time::Duration::from_millis(5500));
    let looks = server.counted("xrange", "calls");
    std::thread::sleep(std::time::Duration::from_millis(5500));
    assert_eq!(server.counted("xrange", "calls"), looks);
}

#[test]
fn entries_of_clients_are_trimmed_while_the_module_writes_none() {
    let server = RedisServer::builder().module_arg("conf-stream-age").module_arg("1000").start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    let (_, epoch) = realm.open("7");
    eventually("the module's own entries to be trimmed", TIMEOUT, || realm.entries("evt").is_empty());
    realm.client.words(&format!("XADD {REALM}:info * field value"));
    let mut seq = 0;
    eventually("the entry of a client to be trimmed", TIMEOUT, || {
        seq += 1;
        realm.ok(&format!("CONF.SET 7 a:1:1 {epoch} {seq} members {seq}"));
        realm.client.words(&format!("XLEN {REALM}:info")) == Reply::Int(0)
    });
    assert!(realm.entries("evt").is_empty(), "the module has written none");
    no_internal_errors(&server);
}
