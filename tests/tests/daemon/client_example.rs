//! The example of the client crate does what it says; the typed commands of a show.

use std::time::Duration;

use allot_client::{
    Endpoint, Error, FindRequest, Hold, HoldRequest, ListFilter, Listed, PickRequest, Record, Sale,
    SeatChoice, SeatStore, Servers, WaitRequest,
};
use allot_tests::RedisServer;

#[allow(dead_code, unreachable_pub, missing_docs, reason = "a program of its own")]
#[path = "../../../orchestrator/client/examples/seats.rs"]
mod seats;

/// A show of one row of the seats `box-1-1` to `box-1-4`.
async fn opened(server: &RedisServer) -> SeatStore {
    let (endpoint, user) = Endpoint::url(&server.url()).unwrap();
    let connection =
        Servers { user, ..Servers::new(endpoint, "show") }.connection(Duration::ZERO).await.unwrap();
    let show = SeatStore::new(connection, "show");
    show.create(r#"{"areas":[{"id":"box","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-4"}]}]}"#)
        .await
        .unwrap();
    show
}

fn request<'a>(user: &'a str, count: u32, token: &'a str) -> HoldRequest<'a> {
    HoldRequest { user, count, ttl_ms: 600_000, choice: SeatChoice::default(), token: Some(token) }
}

/// The ids of these seats of the row.
fn seats(labels: &[u32]) -> Vec<String> {
    labels.iter().map(|label| format!("box-1-{label}")).collect()
}

fn code<T>(outcome: Result<T, Error>) -> Option<String> {
    outcome.err().and_then(|error| error.code().map(str::to_owned))
}

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
    let show = opened(&server).await;
    show.hold(&request("ann", 2, "t")).await.unwrap().unwrap();
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

#[tokio::test]
async fn seats_of_a_block_are_picked_and_sold_to_their_user() {
    let server = RedisServer::start();
    let show = opened(&server).await;
    let (pair, far_off) = (seats(&[3, 4]), Some(4_102_444_800_000));
    assert_eq!(show.block_in(Some("press"), far_off, &pair).await.unwrap(), 2);
    let pick = PickRequest { user: "ann", ttl_ms: 600_000, seats: &pair[..1], ..PickRequest::default() };
    assert_eq!(code(show.pick(&pick).await).as_deref(), Some("BADSTATE"), "it is a seat of the block");
    let (from, token) = (Some("press"), Some("ann-1"));
    let held = show.pick(&PickRequest { from, token, ..pick }).await.unwrap();
    assert_eq!(held, Hold { token: "ann-1".into(), seats: seats(&[3]) });
    let lonely = PickRequest { user: "bob", seats: &seats(&[1]), orphans: Some("FORBID"), ..pick };
    assert_eq!(code(show.pick(&lonely).await).as_deref(), Some("LIMIT"), "seat 2 would stay alone");
    assert_eq!(show.end_block("press").await.unwrap(), 1);
    assert_eq!(code(show.end_block("press").await).as_deref(), Some("NOTFOUND"));
    let sale = Sale { token: "ann-1", user: Some("bob"), ..Sale::default() };
    assert_eq!(code(show.sell(&sale).await).as_deref(), Some("NOTOWNER"));
    assert_eq!(show.sell(&Sale { user: Some("ann"), ..sale }).await.unwrap(), 1);
    let free = ListFilter { state: Some("free"), ..ListFilter::default() };
    let (first, cursor) = show.list(Listed::Seats, &free, 0, 2).await.unwrap();
    let (rest, end) = show.list(Listed::Seats, &free, cursor, 100).await.unwrap();
    let ids = [first, rest].concat().iter().map(|seat| seat.text("id")).collect::<Vec<_>>();
    assert_eq!((ids, cursor == 0, end), (seats(&[1, 2, 4]), false, 0));
}

#[tokio::test]
async fn waiter_is_offered_the_seats_that_another_user_exchanges() {
    let server = RedisServer::start();
    let show = opened(&server).await;
    show.hold(&request("ann", 2, "ann-1")).await.unwrap().unwrap();
    show.confirm("ann-1", Some("order-1")).await.unwrap();
    show.hold(&request("ann", 2, "ann-2")).await.unwrap().unwrap();
    let wish = |hold| WaitRequest { hold, offer_ms: 60_000, priority: 0 };
    for (user, position) in [("bob", 1), ("cid", 2)] {
        let waits = show.wait(&wish(request(user, 2, user))).await.unwrap();
        assert_eq!((waits.text("state"), waits.get("position").unwrap()), ("waiting".into(), position));
    }
    let list = async |what| show.list(what, &ListFilter::default(), 0, 100).await.unwrap().0;
    let tokens = |records: Vec<Record>| records.iter().map(|record| record.text("token")).collect::<Vec<_>>();
    assert_eq!(tokens(list(Listed::Waiting).await), ["bob", "cid"]);
    show.unwait("cid").await.unwrap();
    assert_eq!(code(show.unwait("cid").await).as_deref(), Some("NOTFOUND"));
    let returned = seats(&[1, 2]);
    let exchange = Some(("order-1", &returned[..]));
    let sale = Sale { token: "ann-2", user: Some("ann"), order: Some("order-2"), exchange };
    let not_theirs = Sale { exchange: Some(("order-9", &returned)), ..sale };
    assert_eq!(code(show.sell(&not_theirs).await).as_deref(), Some("NOTOWNER"));
    assert!(
        show.find(&FindRequest { count: 1, best: 1, ..FindRequest::default() }).await.unwrap().is_empty()
    );
    for _ in 0..2 {
        assert_eq!(show.sell(&sale).await.unwrap(), 2, "also when asked again");
    }
    assert_eq!(show.order("order-2").await.unwrap(), seats(&[3, 4]));
    assert_eq!(show.wait(&wish(request("bob", 2, "bob"))).await.unwrap().text("state"), "offered");
    assert_eq!(show.holds("bob").await.unwrap()[0].get::<Vec<String>>("seats").unwrap(), returned);
    assert_eq!(tokens(list(Listed::Orders).await), ["ann-2"]);
    show.release("bob").await.unwrap();
    let offers = show.find(&FindRequest { count: 2, best: 3, ..FindRequest::default() }).await.unwrap();
    assert_eq!(offers[0].get::<Vec<String>>("seats").unwrap(), returned);
}
