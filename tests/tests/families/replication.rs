//! What a master tells its replicas are results. Replicas, replicas of replicas and servers loaded from a snapshot or
//! an append-only file hold what the master holds.

use allot_tests::raw::Reply;
use allot_tests::shows::no_internal_errors;
use allot_tests::stream::readable;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ReplicationStream, eventually, soak};

use crate::family::{Family, KEY, State, decode_apply, has_no_errors};

for_each_family! {
    replicated_events_alone_rebuild_the_value,
    replicas_hold_what_their_master_holds,
    broken_link_is_resumed_from_the_backlog,
    reloaded_and_restarted_server_holds_the_same,
    append_only_file_restores_the_same,
    live_master_reloads_what_its_replica_holds,
    internal_command_is_refused_to_every_client,
}

fn replicated_events_alone_rebuild_the_value<F: Family>() {
    const SEED: u64 = 8;
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut stream = ReplicationStream::attach(&server);
    let workload = F::run_workload(&server, SEED, soak(1500, 20_000));
    F::settle(&server, SEED);
    let key = F::workload_key(SEED);
    let mut state: Option<F::State> = None;
    let mut log = F::Log::default();
    let (mut last, mut entries) = (0, 0);
    for command in &stream.drain() {
        let line = readable(std::slice::from_ref(command));
        match &command[0][..] {
            b"MULTI" | b"EXEC" => continue,
            name if name != F::APPLY.as_bytes() => {
                let name = String::from_utf8_lossy(name);
                let target = String::from_utf8_lossy(&command[1]);
                let stream = target.strip_prefix(&key).and_then(|rest| rest.strip_prefix(':'));
                assert!(stream.is_some_and(|stream| F::may_replicate(&name, stream)), "{line}");
                entries += usize::from(name == "XADD");
                continue;
            }
            _ => assert_eq!(command[1], key.as_bytes(), "{line}"),
        }
        let (at, events) = decode_apply::<F>(command);
        assert!(at >= last, "time went back");
        last = at;
        for event in &events {
            F::observe(&mut log, at, event, state.as_ref());
            match &mut state {
                None => state = Some(F::State::open(event, at)),
                Some(state) => state.apply_checked(at, event),
            }
        }
    }
    F::compare(log, &workload, entries);
    // The events make the very bytes that the master would save.
    let Reply::Bulk(dump) = server.raw().call(&["DUMP", &key]) else { panic!("no dump") };
    let bytes = state.expect("there were events").snapshot();
    assert!(dump.windows(bytes.len()).any(|part| part == bytes), "the events make another value");
    no_internal_errors(&server);
}

fn replicas_hold_what_their_master_holds<F: Family>() {
    let master = RedisServer::start();
    let [replica, sub_replica, late] = [(); 3].map(|()| RedisServer::strict().start());
    replica.replica_of(&master);
    sub_replica.replica_of(&replica);
    F::run_workload(&master, 1, soak(1500, 20_000));
    late.replica_of(&master);
    F::run_workload(&master, 2, 300);
    for seed in [1, 2] {
        F::settle(&master, seed);
    }
    master.wait_offset_equal(&replica);
    replica.wait_offset_equal(&sub_replica);
    master.wait_offset_equal(&late);
    let digest = master.digest();
    for follower in [&replica, &sub_replica, &late] {
        assert_eq!(follower.digest(), digest);
        has_no_errors(follower);
    }
    no_internal_errors(&master);
}

fn broken_link_is_resumed_from_the_backlog<F: Family>() {
    const SEED: u64 = 3;
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let partial = || master.info_field("stats", "sync_partial_ok").parse::<u64>().expect("a number");
    let mut workload = F::run_workload(&master, SEED, 200);
    for round in 1..=3 {
        F::continue_workload(&master, &mut workload, round, 100);
        assert_eq!(master.raw().words("CLIENT KILL TYPE replica"), Reply::Int(1));
        F::continue_workload(&master, &mut workload, round + 10, 100);
        eventually("a partial resync", TIMEOUT, || partial() >= round);
        replica.wait_replica_synced();
    }
    F::settle(&master, SEED);
    master.wait_offset_equal(&replica);
    assert_eq!(master.info_field("stats", "sync_full"), "1");
    assert_eq!(master.digest(), replica.digest());
    has_no_errors(&replica);
}

fn reloaded_and_restarted_server_holds_the_same<F: Family>() {
    const SEED: u64 = 4;
    let server = RedisServer::builder().arg("save", "3600 1").start();
    let workload = F::run_workload(&server, SEED, soak(1000, 20_000));
    F::settle(&server, SEED);
    let digest = F::digest(&server);
    server.command("DEBUG RELOAD");
    assert_eq!(F::digest(&server), digest, "after DEBUG RELOAD");
    server.shutdown();
    server.restart();
    assert_eq!(F::digest(&server), digest, "from the snapshot");
    F::keeps_promises(&server, &workload);
    F::redeem_promises(&server, &workload);
    no_internal_errors(&server);
}

fn rewrite_append_only_file(server: &RedisServer) {
    server.command("BGREWRITEAOF");
    eventually("the rewrite to end", TIMEOUT, || {
        let info = server.info("persistence");
        info["aof_rewrite_in_progress"] == "0"
            && info["aof_rewrite_scheduled"] == "0"
            && info["aof_last_bgrewrite_status"] == "ok"
    });
}

fn append_only_file_restores_the_same<F: Family>() {
    for preamble in ["yes", "no"] {
        let server = RedisServer::builder()
            .arg("appendonly", "yes")
            .arg("appendfsync", "always")
            .arg("aof-use-rdb-preamble", preamble)
            .start();
        F::run_workload(&server, 5, soak(600, 10_000));
        F::settle(&server, 5);
        let digest = F::digest(&server);
        server.kill9();
        server.restart();
        assert_eq!(F::digest(&server), digest, "after a restart, preamble {preamble}");
        rewrite_append_only_file(&server);
        server.kill9();
        server.restart();
        assert_eq!(F::digest(&server), digest, "after a rewrite, preamble {preamble}");
        F::run_workload(&server, 7, 200);
        F::settle(&server, 7);
        let digest = F::digest(&server);
        server.kill9();
        server.restart();
        assert_eq!(F::digest(&server), digest, "after changes to the rewritten file, preamble {preamble}");
        no_internal_errors(&server);
    }
}

fn live_master_reloads_what_its_replica_holds<F: Family>() {
    const SEED: u64 = 42;
    let master = RedisServer::builder().arg("appendonly", "yes").arg("aof-use-rdb-preamble", "no").start();
    let replica = RedisServer::strict().start();
    replica.replica_of(&master);
    let mut workload = F::run_workload(&master, SEED, 500);
    for round in 1..=soak(3, 20) {
        F::settle(&master, SEED);
        master.wait_offset_equal(&replica);
        let digest = F::digest(&master);
        assert_eq!(F::digest(&replica), digest, "round {round}: the replica differs");
        let reload = |command: &str| {
            assert_eq!(master.command(command), redis::Value::Okay, "{command}");
            assert_eq!(F::digest(&master), digest, "round {round}, after {command}");
        };
        reload("DEBUG RELOAD");
        reload("DEBUG LOADAOF");
        rewrite_append_only_file(&master);
        reload("DEBUG LOADAOF");
        // A loaded value changes as the replica's value does, which was not loaded.
        F::continue_workload(&master, &mut workload, SEED + round as u64, 500);
    }
    has_no_errors(&replica);
    no_internal_errors(&master);
}

fn internal_command_is_refused_to_every_client<F: Family>() {
    const REFUSED: &str = "ERR this command carries what a master decided; it is not for clients";
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut stream = ReplicationStream::attach(&master);
    F::create(&mut master.raw(), KEY);
    crate::family::settled(&master);
    let commands = stream.drain();
    let mut payloads = commands.iter().filter(|command| command[0] == F::APPLY.as_bytes());
    let (created, changed) =
        (&payloads.next().expect("a creation")[2], &payloads.next_back().expect("a change")[2]);
    master.wait_offset_equal(&replica);
    let digest = master.digest();
    let try_all = |server: &RedisServer| {
        let mut client = server.raw();
        for (key, payload) in [(KEY, changed), ("new", created), ("new", changed)] {
            let apply: [&[u8]; 3] = [F::APPLY.as_bytes(), key.as_bytes(), payload];
            assert_eq!(client.call(&apply).error(), REFUSED);
            client.words("MULTI");
            client.call(&apply);
            assert_eq!(client.words("EXEC").array()[0].error(), REFUSED);
            let script = format!("return redis.call('{}', KEYS[1], ARGV[1])", F::APPLY);
            let eval: [&[u8]; 5] = [b"EVAL", script.as_bytes(), b"1", key.as_bytes(), payload];
            assert!(client.call(&eval).error().starts_with(REFUSED));
        }
    };
    try_all(&master);
    replica.command("CONFIG SET replica-read-only no");
    try_all(&replica);
    replica.command("CONFIG SET replica-read-only yes");
    let apply: [&[u8]; 3] = [F::APPLY.as_bytes(), KEY.as_bytes(), changed];
    assert!(replica.raw().call(&apply).error().starts_with("READONLY "));
    assert_eq!((master.digest(), replica.digest()), (digest.clone(), digest));
}
