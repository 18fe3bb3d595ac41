//! The example of the client crate does what it says; a show is altered while it is open.

use std::time::Duration;

use allot_client::{Endpoint, Error, HoldRequest, SeatChoice, SeatStore, Servers};
use allot_tests::RedisServer;

#[allow(dead_code, unreachable_pub, missing_docs, reason = "a program of its own")]
#[path = "../../../orchestrator/client/examples/seats.rs"]
mod seats;

#[tokio::test]
async fn example_sells_a_seat_and_sees_the_event() {
    let server = RedisServer::start();
    let limit = Duration::from_secs(30);
    for sold in 1..=2 {
        tokio::time::timeout(limit, seats::run(&server.url(), "show")).await.unwrap().unwrap();
        let buckets = server.raw().words("SEAT.STAT show");
        assert_eq!(buckets.array()[0].field("sold").int(), sold);
    }
}

#[tokio::test]
async fn show_is_altered_while_it_is_open() {
    let server = RedisServer::start();
    let (endpoint, user) = Endpoint::url(&server.url()).unwrap();
    let connection =
        Servers { user, ..Servers::new(endpoint, "show") }.connection(Duration::ZERO).await.unwrap();
    let show = SeatStore::new(connection, "show");
    show.create(r#"{"areas":[{"id":"box","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-4"}]}]}"#)
        .await
        .unwrap();
    let request = HoldRequest {
        user: "ann",
        count: 2,
        ttl_ms: 600_000,
        choice: SeatChoice::default(),
        token: Some("t"),
    };
    show.hold(&request).await.unwrap().unwrap();
    show.alter(r#"{"remove_seats":["box-1-4"],"areas":[{"id":"box","put_rows":[{"label":"2","rank":0,"tier":"gold","seats":"1-3"}]}]}"#)
        .await
        .unwrap();
    let rows: Vec<(String, String)> =
        show.map("box").await.unwrap().into_iter().map(|row| (row.label, row.seats)).collect();
    assert_eq!(rows, [("2".into(), "...".into()), ("1".into(), "hh. ".into())]);
    let refused = show.alter(r#"{"remove_seats":["box-1-1"]}"#).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }) && refused.to_string().contains("box-1-1"), "{refused}");
    assert_eq!(show.confirm("t", None).await.unwrap(), 2);
}
