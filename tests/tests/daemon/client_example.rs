//! The example of the client crate does what it says.

use allot_tests::RedisServer;

#[allow(dead_code, unreachable_pub, missing_docs, reason = "a program of its own")]
#[path = "../../../orchestrator/client/examples/seats.rs"]
mod seats;

#[tokio::test]
async fn example_sells_a_seat_and_sees_the_event() {
    let server = RedisServer::start();
    let limit = std::time::Duration::from_secs(30);
    for sold in 1..=2 {
        tokio::time::timeout(limit, seats::run(&server.url(), "show")).await.unwrap().unwrap();
        let buckets = server.raw().words("SEAT.STAT show");
        assert_eq!(buckets.array()[0].field("sold").int(), sold);
    }
}
