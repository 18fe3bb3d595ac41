//! What was answered is on the disk.

use std::fs;
use std::ops::Range;

use allot_tests::shows::no_internal_errors;
use allot_tests::{Random, RedisServer, soak};

use crate::family::{Family, KEY, send, send_ok};

for_each_family! {
    kill_under_fsync_always_keeps_every_answer,
    damaged_event_in_an_append_only_file_stops_the_start,
}

fn kill_under_fsync_always_keeps_every_answer<F: Family>() {
    let server = RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always").start();
    // The sample changes only by the last word before each kill.
    let lines = F::create(&mut server.raw(), KEY);
    crate::family::settled(&server);
    let mut workload = F::run_workload(&server, 20, 60);
    for round in 0..soak(5, 50) {
        if round > 0 {
            F::continue_workload(&server, &mut workload, 20 + round as u64, 60);
        }
        let mut client = server.raw();
        let last_word = &lines.toggle[round % 2];
        send_ok(&mut client, last_word, KEY);
        let digest = server.digest_value(KEY);
        // A request that is sent again gets the same answer, whether it was granted or refused.
        let repeated: Vec<&String> = lines.reads.iter().chain(&lines.unchanged).collect();
        let replies: Vec<_> = repeated.iter().map(|line| send(&mut client, line, KEY)).collect();
        server.kill9();
        server.restart();
        assert_eq!(server.digest_value(KEY), digest, "round {round}, after {last_word}");
        let mut client = server.raw();
        for (line, reply) in repeated.iter().zip(&replies) {
            assert_eq!(send(&mut client, line, KEY), *reply, "round {round}, {line}");
        }
        F::keeps_promises(&server, &workload);
    }
    no_internal_errors(&server);
}

/// Where the payloads of a family's internal command are in an append-only file.
fn payloads(file: &[u8], command: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    let line_end =
        |from: usize| from + file[from..].windows(2).position(|two| two == b"\r\n").expect("a line") + 2;
    while let Some(at) = file[from..].windows(command.len()).position(|part| part == command.as_bytes()) {
        // The name's line, the key's length and name, the payload's length.
        let key = line_end(line_end(from + at));
        let length = line_end(key);
        let payload = line_end(length);
        let text = std::str::from_utf8(&file[length + 1..payload - 2]).expect("a length");
        from = payload + text.parse::<usize>().expect("a length");
        found.push(payload..from);
    }
    found
}

fn damaged_event_in_an_append_only_file_stops_the_start<F: Family>() {
    let server =
        RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always").expect_errors().start();
    let lines = F::create(&mut server.raw(), KEY);
    crate::family::settled(&server);
    let mut client = server.raw();
    for line in &lines.changes {
        send_ok(&mut client, line, KEY);
    }
    crate::family::settled(&server);
    server.kill9();
    let path = server.append_only_file();
    let sound = fs::read(&path).expect("the file");
    let payloads = payloads(&sound, F::APPLY);
    assert!(payloads.len() > 5, "{payloads:?}");
    let mut random = Random::new(77);
    for _ in 0..soak(15, 500) {
        let payload = random.of(&payloads).clone();
        let (at, bit) = (random.within(payload.start, payload.end - 1), random.below(8));
        let mut damaged = sound.clone();
        damaged[at] ^= 1 << bit;
        fs::write(&path, &damaged).expect("the file is writable");
        let log = server.try_restart().expect_err("a server serves what was damaged");
        assert!(log.contains("in the append-only file cannot be applied"), "bit {bit} of {at}: {log}");
    }
    fs::write(&path, &sound).expect("the file is writable");
    server.restart();
    no_internal_errors(&server);
}
