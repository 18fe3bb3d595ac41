//! Values are keys like any other: copied, renamed, swapped, dumped, watched, used by scripts, read on replicas.

use allot_tests::raw::{RawClient, Reply};
use allot_tests::shows::{allot_info, no_internal_errors};
use allot_tests::stream::readable;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ReplicationStream, eventually};

use crate::family::{Family, KEY, OTHER, TWIN, has_no_errors, send, send_ok, settled, words};

for_each_family! {
    copied_renamed_and_swapped_value_keeps_its_deadlines,
    dumped_value_is_restored_under_its_type,
    read_does_not_count_as_use,
    only_a_change_breaks_watch_and_is_replicated,
    change_by_the_timer_breaks_watch,
    replica_answers_reads_and_refuses_writes,
    transactions_and_scripts_run_every_command,
    full_memory_stops_only_commands_that_need_more,
}

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

/// Digests of two values at the same moment.
fn digests(client: &mut RawClient, one: &str, other: &str) -> [String; 2] {
    let reply = client.call(&["DEBUG", "DIGEST-VALUE", one, other]);
    [reply.array()[0].text(), reply.array()[1].text()]
}

fn copied_renamed_and_swapped_value_keeps_its_deadlines<F: Family>() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let lines = F::create(&mut client, KEY);
    settled(&server);
    F::start_short(&mut client, KEY, 4000);
    let live = || F::LIVE.map_or(0, |gauge| allot_info(&server, gauge));
    let before = live();
    assert_eq!(client.call(&["COPY", KEY, TWIN]), Reply::Int(1));
    assert_eq!(live(), 2 * before);
    let [one, other] = digests(&mut client, KEY, TWIN);
    assert_eq!(one, other, "the copy differs");
    // From now on each value is changed alone.
    send_ok(&mut client, &lines.toggle[0], TWIN);
    let [after, changed] = digests(&mut client, KEY, TWIN);
    assert_eq!(after, one, "a change of the copy changed the original");
    assert_ne!(changed, one);
    let read = |client: &mut RawClient, key: &str| -> Vec<Reply> {
        lines.reads.iter().map(|line| send_ok(client, line, key)).collect()
    };
    let renamed = read(&mut client, KEY);
    assert_eq!(client.call(&["RENAME", KEY, OTHER]), ok());
    assert_eq!(client.words("SWAPDB 0 5"), ok());
    assert_eq!(client.call(&["EXISTS", OTHER, TWIN]), Reply::Int(0));
    client.words("SELECT 5");
    let swapped = read(&mut client, OTHER);
    // On a slow machine the short deadline may have passed.
    if allot_info(&server, F::ENDED) == 0 {
        assert_eq!(swapped, renamed, "the value reads differently under its other name");
    }
    // No client calls: the timer finds both values under their names in the other database.
    eventually("both short deadlines to pass", TIMEOUT, || allot_info(&server, F::ENDED) == 2);
    assert!(live() < 2 * before || F::LIVE.is_none());
    client.words("FLUSHALL");
    assert_eq!(live(), 0);
    assert_eq!(allot_info(&server, "keys_waiting_for_timer"), 0);
    no_internal_errors(&server);
}

fn dumped_value_is_restored_under_its_type<F: Family>() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let mut client = server.raw();
    let lines = F::create(&mut client, KEY);
    settled(&server);
    assert_eq!(client.call(&["TYPE", KEY]), Reply::Simple(F::TYPE.into()));
    client.words("SET beside text");
    let found = client.words(&format!("SCAN 0 COUNT 1000 TYPE {}", F::TYPE));
    assert_eq!(found.array()[1].array(), [Reply::bulk(KEY)]);
    let Reply::Bulk(dump) = client.call(&["DUMP", KEY]) else { panic!("no dump") };
    let restore = |client: &mut RawClient, option: &[u8]| {
        client.call(&[&b"RESTORE"[..], KEY.as_bytes(), b"0", &dump, option])
    };
    assert!(restore(&mut client, b"ABSTTL").error().starts_with("BUSYKEY "));
    let mut there = other.raw();
    there.call(&["SET", KEY, "text"]);
    assert_eq!(restore(&mut there, b"REPLACE"), ok());
    assert_eq!(other.digest_value(KEY), server.digest_value(KEY));
    for line in &lines.reads {
        assert_eq!(send_ok(&mut there, line, KEY), send_ok(&mut client, line, KEY), "{line}");
    }
    send_ok(&mut there, &lines.toggle[0], KEY);
    for server in [&server, &other] {
        no_internal_errors(server);
    }
}

fn read_does_not_count_as_use<F: Family>() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let lines = F::create(&mut client, KEY);
    client.words("CONFIG SET maxmemory-policy allkeys-lfu");
    let frequency = |client: &mut RawClient| client.call(&["OBJECT", "FREQ", KEY]).int();
    send_ok(&mut client, &lines.toggle[0], KEY);
    // What the timer does to a value is use as well.
    settled(&server);
    let before = frequency(&mut client);
    for _ in 0..1500 {
        for line in &lines.reads {
            client.send(&words(line, KEY));
        }
        for line in &lines.reads {
            assert!(!matches!(client.read(), Reply::Error(_)), "{line}");
        }
    }
    assert!(frequency(&mut client) <= before);
    let mut toggles = lines.toggle.iter().rev().cycle();
    eventually("changes to count as use", TIMEOUT, || {
        send_ok(&mut client, toggles.next().expect("a cycle"), KEY);
        frequency(&mut client) > before
    });
    no_internal_errors(&server);
}

fn only_a_change_breaks_watch_and_is_replicated<F: Family>() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let lines = F::create(&mut client, KEY);
    settled(&server);
    let mut watcher = server.raw();
    let mut breaks_watch = |line: &str| {
        assert_eq!(watcher.call(&["WATCH", KEY]), ok());
        let reply = send(&mut client, line, KEY);
        watcher.words("MULTI");
        watcher.words("PING");
        (watcher.words("EXEC").is_null(), reply)
    };
    let mut stream = ReplicationStream::attach(&server);
    for line in &lines.unchanged {
        let (broken, reply) = breaks_watch(line);
        assert!(!broken, "{line} changed the value: {reply:?}");
    }
    assert_eq!(readable(&stream.drain()), "");
    for line in lines.changes.iter().chain(&lines.toggle) {
        let (broken, reply) = breaks_watch(line);
        assert!(broken, "{line} changed nothing: {reply:?}");
        let applied = stream.drain().iter().any(|command| command[0] == F::APPLY.as_bytes());
        assert!(applied, "{line} was not replicated");
    }
    no_internal_errors(&server);
}

fn change_by_the_timer_breaks_watch<F: Family>() {
    let server = RedisServer::start();
    let mut client = server.raw();
    F::create(&mut client, KEY);
    settled(&server);
    let mut watcher = server.raw();
    // Long enough to be watched before it ends.
    F::start_short(&mut client, KEY, 4000);
    watcher.call(&["WATCH", KEY]);
    assert_eq!(allot_info(&server, F::ENDED), 0);
    eventually("the short deadline to pass", TIMEOUT, || allot_info(&server, F::ENDED) == 1);
    watcher.words("MULTI");
    assert!(watcher.words("EXEC").is_null());
}

fn replica_answers_reads_and_refuses_writes<F: Family>() {
    let (server, replica) = (RedisServer::start(), RedisServer::strict().start());
    let mut here = server.raw();
    let lines = F::create(&mut here, KEY);
    replica.replica_of(&server);
    let mut there = replica.raw();
    let mut agree = |here: &mut RawClient| {
        server.wait_offset_equal(&replica);
        for line in &lines.reads {
            // The master's timer may change the value between the two questions.
            let mut replies = None;
            eventually(&format!("both to answer {line} alike"), TIMEOUT, || {
                let both = (send_ok(here, line, KEY), send_ok(&mut there, line, KEY));
                let same = both.0 == both.1;
                if !same && replies.as_ref() != Some(&both) {
                    eprintln!("{line}: {both:?}");
                }
                replies = Some(both);
                same
            });
        }
    };
    agree(&mut here);
    for line in &lines.changes {
        send_ok(&mut here, line, KEY);
        agree(&mut here);
    }
    let mut there = replica.raw();
    for line in &lines.writes {
        assert!(send(&mut there, line, KEY).error().starts_with("READONLY "), "{line}");
    }
    settled(&server);
    server.wait_offset_equal(&replica);
    assert_eq!(server.digest(), replica.digest());
}

fn transactions_and_scripts_run_every_command<F: Family>() {
    const SCRIPT: &str = "return redis.call(unpack(ARGV))";
    let (server, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&server);
    let mut client = server.raw();
    let in_transaction = F::create(&mut client, KEY);
    client.words("MULTI");
    let queued: Vec<&String> = in_transaction.changes.iter().chain(&in_transaction.reads).collect();
    for line in &queued {
        assert_eq!(send(&mut client, line, KEY), Reply::Simple("QUEUED".into()), "{line}");
    }
    let replies = client.words("EXEC");
    for (line, reply) in queued.iter().zip(replies.array()) {
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    let in_script = F::create(&mut client, TWIN);
    let mut eval = |kind: &str, line: &str| {
        let call = [&[kind, SCRIPT, "1", TWIN][..], &words(line, TWIN)].concat();
        client.call(&call)
    };
    for line in in_script.changes.iter().chain(&in_script.reads) {
        let reply = eval("EVAL", line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    for line in &in_script.reads {
        let reply = eval("EVAL_RO", line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    for line in &in_script.writes {
        let reply = eval("EVAL_RO", line);
        assert!(reply.error().contains("Write commands are not allowed"), "{line}: {reply:?}");
    }
    settled(&server);
    server.wait_offset_equal(&replica);
    assert_eq!(server.digest(), replica.digest());
    has_no_errors(&replica);
    no_internal_errors(&server);
}

fn full_memory_stops_only_commands_that_need_more<F: Family>() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let lines = F::create(&mut client, KEY);
    F::start_short(&mut client, KEY, 1500);
    client.words("CONFIG SET maxmemory 1");
    for line in &lines.reads {
        send_ok(&mut client, line, KEY);
    }
    for line in &lines.writes {
        let name = line.split(' ').next().expect("a command has a name");
        let info = client.words(&format!("COMMAND INFO {name}"));
        let flags: Vec<String> = info.array()[0].array()[2].array().iter().map(Reply::text).collect();
        let refused = matches!(send(&mut client, line, KEY), Reply::Error(text) if text.starts_with("OOM "));
        assert_eq!(refused, flags.iter().any(|flag| flag == "denyoom"), "{line}: {flags:?}");
    }
    eventually("the short deadline to pass", TIMEOUT, || allot_info(&server, F::ENDED) == 1);
    no_internal_errors(&server);
}
