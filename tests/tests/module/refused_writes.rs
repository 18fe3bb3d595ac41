//! A master that refuses the writes of clients gives nothing out by itself: neither numbers to calls that wait, nor
//! seats to the waiting list.

use std::fs;
use std::thread;
use std::time::Duration;

use allot_tests::pools::{fill, number, pool_info};
use allot_tests::raw::RawClient;
use allot_tests::shows::{create, hold, no_internal_errors, sample_venue};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// Time in which a deadline of 1.5 s would certainly have been carried out.
const LONG_AFTER: Duration = Duration::from_millis(2500);

/// How a master comes to refuse writes, and to take them again.
struct Cause {
    code: &'static str,
    begin: fn(&RedisServer),
    end: fn(&RedisServer),
}

const NO_REPLICAS: Cause = Cause {
    code: "NOREPLICAS",
    begin: |server| _ = server.command("CONFIG SET min-replicas-to-write 1"),
    end: |server| _ = server.command("CONFIG SET min-replicas-to-write 0"),
};

/// The server cannot save, because a folder has the name of its file.
const CANNOT_SAVE: Cause = Cause {
    code: "MISCONF",
    begin: |server| {
        fs::create_dir_all(server.dir().join("taken/inside")).expect("the folder of the server is writable");
        server.command("BGSAVE");
        eventually("the save to fail", TIMEOUT, || {
            server.info_field("persistence", "rdb_last_bgsave_status") == "err"
        });
    },
    end: |server| _ = server.command("CONFIG SET stop-writes-on-bgsave-error no"),
};

/// A slot of another key is served by nobody. The server itself ends calls that wait then.
const CLUSTER_DOWN: Cause = Cause {
    code: "CLUSTERDOWN",
    begin: |server| {
        server.command("CLUSTER DELSLOTS 1");
        cluster_is(server, "fail");
    },
    end: |server| _ = server.command("CLUSTER ADDSLOTS 1"),
};

fn cluster_is(server: &RedisServer, state: &str) {
    let mut client = server.raw();
    eventually("the state of the cluster", TIMEOUT, || {
        client.words("CLUSTER INFO").text().contains(&format!("cluster_state:{state}"))
    });
}

fn start() -> RedisServer {
    RedisServer::builder().arg("save", "3600 1").arg("dbfilename", "taken").start()
}

/// A server that is alone in its cluster.
fn start_cluster() -> RedisServer {
    let server = RedisServer::builder().cluster_node().arg("cluster-allow-reads-when-down", "yes").start();
    server.command("CLUSTER ADDSLOTSRANGE 0 16383");
    cluster_is(&server, "ok");
    server
}

#[test]
fn calls_that_wait_get_no_number_while_writes_are_refused() {
    for cause in [NO_REPLICAS, CANNOT_SAVE] {
        let server = start();
        let mut control = server.raw();
        fill(&mut control, "pool", 1);
        control.words("NUMPOOL.CALL pool TTL 1500 LEASE a");
        let mut waiter = server.raw();
        waiter.send(&["NUMPOOL.CALL", "pool", "LEASE", "b", "WAIT", "0"]);
        eventually("the call to wait", TIMEOUT, || pool_info(&mut control, "pool", "waiting") == 1);
        (cause.begin)(&server);
        assert!(control.words("NUMPOOL.CALL pool LEASE c").error().starts_with(cause.code));
        thread::sleep(LONG_AFTER);
        assert_eq!(pool_info(&mut control, "pool", "waiting"), 1, "{}", cause.code);
        (cause.end)(&server);
        // Nobody sends a command for the pool: the timer looks again.
        assert_eq!(waiter.read().field("number").text(), number(0));
        no_internal_errors(&server);
    }
}

#[test]
fn waiting_list_gets_no_offer_while_writes_are_refused() {
    for cause in [NO_REPLICAS, CANNOT_SAVE, CLUSTER_DOWN] {
        let server = if cause.code == CLUSTER_DOWN.code { start_cluster() } else { start() };
        create(&server, "show", &sample_venue(1, 5));
        let mut control = server.raw();
        hold(&mut control, "show", "ann", 5, 1500, "a");
        control.words("SEAT.WAIT show bob 5 TTL 600000 OFFER 600000 TOKEN b");
        let waits = |client: &mut RawClient| {
            client.words("SEAT.LIST show WAITING COUNT 10").field("items") != Reply::Array(vec![])
        };
        (cause.begin)(&server);
        assert!(control.words("SEAT.CONFIRM show a").error().starts_with(cause.code));
        thread::sleep(LONG_AFTER);
        assert!(waits(&mut control), "an offer was made: {}", cause.code);
        (cause.end)(&server);
        eventually("the offer", TIMEOUT, || !waits(&mut control));
        no_internal_errors(&server);
    }
}
