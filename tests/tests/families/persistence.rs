//! What was answered is on the disk.

use allot_tests::shows::no_internal_errors;
use allot_tests::{RedisServer, soak};

use crate::family::{Family, KEY, send, send_ok};

for_each_family! {
    kill_under_fsync_always_keeps_every_answer,
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
