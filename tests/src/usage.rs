//! What `MEMORY USAGE` says of keys, held against what the server's memory grew by.

use crate::raw::RawClient;
use crate::redis_server::RedisServer;
use crate::wait::{TIMEOUT, eventually};

/// A server whose own memory stays what it is.
#[track_caller]
pub fn quiet() -> RedisServer {
    RedisServer::builder().arg("latency-tracking", "no").arg("slowlog-max-len", "0").start()
}

/// Bytes that the server uses.
#[track_caller]
pub fn used(server: &RedisServer) -> i64 {
    server.info_field("memory", "used_memory").parse().expect("a number")
}

/// Bytes that a key uses, as the server says.
pub fn usage(client: &mut RawClient, key: &str) -> i64 {
    client.call(&["MEMORY", "USAGE", key]).int()
}

/// Fails where `MEMORY USAGE` of the keys is not what the server's memory grew by, give or take a fifth.
#[track_caller]
pub fn usage_is_true(server: &RedisServer, before: i64, keys: &[impl AsRef<str>]) {
    let mut client = server.raw();
    // Buffers of clients shrink a while after they were needed.
    let mut last = (0, 0);
    eventually("used_memory to fit MEMORY USAGE", TIMEOUT, || {
        let said: i64 = keys.iter().map(|key| usage(&mut client, key.as_ref())).sum();
        let grown = used(server) - before;
        if (said, grown) != last {
            eprintln!("{} keys: MEMORY USAGE {said}, used_memory {grown}", keys.len());
            last = (said, grown);
        }
        (said - grown).abs() <= grown / 5
    });
}
