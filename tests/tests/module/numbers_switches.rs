//! What keeps the numbers and calls of a switch right, on live servers.

use allot_tests::pools::pool_info;
use allot_tests::raw::RawClient;
use allot_tests::shows::no_internal_errors;
use allot_tests::{RedisServer, Reply};

/// A client and a pool of these numbers, registered by `sw1`.
fn pool(server: &RedisServer, numbers: &str) -> RawClient {
    let mut client = server.raw();
    client.words(&format!("NUMPOOL.ADD {{p}} {numbers}"));
    client.words(&format!("NUMPOOL.REG {{p}} {numbers} SWITCH sw1"));
    client
}

#[track_caller]
fn error(client: &mut RawClient, line: &str) -> String {
    match client.words(line) {
        Reply::Error(text) => text,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn deleted_number_does_not_take_its_switch_down() {
    let server = RedisServer::start();
    let mut client = pool(&server, "1001 1002 1003");
    client.words("NUMPOOL.CONFIG {p} REGTTL 3600000");
    client.words("NUMPOOL.DEL {p} 1002");
    let all = "NUMPOOL.REG {p} 1001 1002 1003 SWITCH sw1";
    assert_eq!(client.words(all), Reply::Int(0));
    let listed = client.words(&format!("{all} MISSING"));
    assert_eq!(
        (listed.field("done"), listed.field("missing").array()),
        (Reply::Int(0), &[Reply::bulk("1002")][..])
    );
    assert_eq!(pool_info(&mut client, "{p}", "idle_up"), 2);
    assert_eq!(client.words("NUMPOOL.UNREG {p} 1001 1002 9"), Reply::Int(1));
    assert_eq!(
        error(&mut client, "NUMPOOL.REG {p} 7 8"),
        "NOTFOUND none of the numbers 7 to 8 is in the pool"
    );
    let text = "ERR MISSING is for numbers that are named; it cannot go with SWITCH";
    assert_eq!(error(&mut client, "NUMPOOL.UNREG {p} SWITCH sw1 MISSING"), text);
    no_internal_errors(&server);
}
