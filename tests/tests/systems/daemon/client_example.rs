//! The client crate on a live server: its example, and typed commands of shows, number pools and conferences.

use std::time::Duration;

use allot_client::{
    CallRequest, CreateRequest, Endpoint, Error, Hold, HoldRequest, JoinRequest, ListFilter, Listed,
    NumberStore, PickRequest, RealmStore, Record, SeatChoice, SeatStore, Servers, Totals,
};
use allot_tests::pools::pool_info;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, eventually};

#[allow(dead_code, unreachable_pub, missing_docs, reason = "a program of its own")]
#[path = "../../../../orchestrator/client/examples/seats.rs"]
mod seats;

/// A connection whose answers may be late, as those of calls that wait are.
async fn connect(server: &RedisServer, key: &str) -> allot_client::Connection {
    let (endpoint, user) = Endpoint::url(&server.url()).unwrap();
    Servers { user, ..Servers::new(endpoint, key) }.connection(TIMEOUT).await.unwrap()
}

/// A show of one row of the seats `box-1-1` to `box-1-4`.
async fn opened(server: &RedisServer) -> SeatStore {
    let show = SeatStore::new(connect(server, "show").await, "show");
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
    assert_eq!(rows, [("1".into(), "hh. ".into()), ("2".into(), "...".into())]);
    let refused = show.alter(r#"{"remove_seats":["box-1-1"]}"#).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }) && refused.to_string().contains("box-1-1"), "{refused}");
    assert_eq!(show.confirm("t", None).await.unwrap(), 2);
}

#[tokio::test]
async fn seats_of_a_block_are_picked_and_sold_to_their_user() {
    let server = RedisServer::start();
    let show = opened(&server).await;
    server.raw().words("SEAT.BLOCK show NAME press 2 box-1-3 box-1-4");
    let (pair, clicked) = (seats(&[3, 4]), seats(&[2]));
    let pick = PickRequest { user: "ann", ttl_ms: 600_000, seats: &pair[..1], ..PickRequest::default() };
    assert_eq!(code(show.pick(&pick).await).as_deref(), Some("BADSTATE"), "it is a seat of the block");
    let lonely = PickRequest { orphans: Some("FORBID"), seats: &clicked, ..pick };
    assert_eq!(code(show.pick(&lonely).await).as_deref(), Some("LIMIT"), "seat 1 would stay alone");
    let (from, token) = (Some("press"), Some("ann-1"));
    let held = show.pick(&PickRequest { from, token, ..pick }).await.unwrap();
    assert_eq!(held, Hold { token: "ann-1".into(), seats: seats(&[3]), orphans: vec![] });
    let holds = show.list(Listed::Holds, &ListFilter::default(), 0, 100).await.unwrap().0;
    assert_eq!(holds.iter().map(|hold| hold.text("token")).collect::<Vec<_>>(), ["ann-1"]);
    assert_eq!(show.confirm("ann-1", None).await.unwrap(), 1);
    server.raw().words("SEAT.UNBLOCK show NAME press");
    let free = ListFilter { state: Some("free"), ..ListFilter::default() };
    let (first, cursor) = show.list(Listed::Seats, &free, 0, 2).await.unwrap();
    let (rest, end) = show.list(Listed::Seats, &free, cursor, 100).await.unwrap();
    let ids = [first, rest].concat().iter().map(|seat| seat.text("id")).collect::<Vec<_>>();
    assert_eq!((ids, cursor == 0, end), (seats(&[1, 2, 4]), false, 0));
    let totals = Totals { all: 4, free: 3, held: 0, sold: 1, blocked: 0 };
    assert_eq!(Totals::of(&show.stat(None, None).await.unwrap()), totals);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_numbers_and_end_with_causes() {
    let server = RedisServer::start();
    let pool = NumberStore::new(connect(&server, "pool").await, "pool");
    let numbers = ["4930111".to_owned(), "4930112".to_owned()];
    pool.add(&numbers).await.unwrap();
    pool.register(&numbers, Some("switch-a")).await.unwrap();
    server.raw().words("NUMPOOL.CAUSE pool spam COOLDOWN 86400000");

    let request = CallRequest {
        lease: Some("first"),
        ttl: Some(60_000),
        peer: Some("5550100"),
        prefixes: &["33", "49301"],
        pick: Some("LEASTUSED"),
        ..CallRequest::default()
    };
    let first = pool.call(request).await.unwrap().unwrap();
    assert_eq!((&*first.number, &*first.lease, first.until.is_some()), ("4930111", "first", true));
    assert_eq!(pool.call(request).await.unwrap(), Some(first), "the same lease has the same call");
    let other = CallRequest { prefixes: &["44"], ..CallRequest::default() };
    assert_eq!(pool.call(other).await.unwrap(), None, "no number begins with 44");
    let second = CallRequest { number: Some("4930112"), lease: Some("second"), ..CallRequest::default() };
    pool.call(second).await.unwrap().unwrap();
    let brief = CallRequest { wait: Some(20), ..CallRequest::default() };
    assert_eq!(pool.call(brief).await.unwrap(), None, "no number becomes free");

    // A waiting call blocks its connection.
    let waiting = NumberStore::new(connect(&server, "pool").await, "pool");
    let third = CallRequest { lease: Some("third"), wait: Some(0), priority: 1, ..CallRequest::default() };
    let waiter = tokio::spawn(async move { waiting.call(third).await });
    eventually("the call to wait", TIMEOUT, || pool_info(&mut server.raw(), "pool", "waiting") == 1);
    assert!(!pool.hang_up("4930111", "older", Some("spam")).await.unwrap(), "the lease is over");
    assert!(pool.hang_up("4930111", "first", Some("spam")).await.unwrap());
    assert!(pool.hang_up("4930112", "second", None).await.unwrap());
    assert_eq!(waiter.await.unwrap().unwrap().unwrap().number, "4930112", "the other is in quarantine");
    let info = pool.info().await.unwrap();
    let count = |name: &str| info.get::<u64>(name).unwrap();
    assert_eq!((count("quarantined"), count("busy_up"), count("waiting")), (1, 1, 0));
    let causes: Vec<Record> = info.get("causes").unwrap();
    assert_eq!((causes[0].text("cause"), causes[0].text("count")), ("spam".to_owned(), "1".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_call_is_refused_when_it_must_be_sent_again() {
    let server = RedisServer::start();
    let pool = NumberStore::new(connect(&server, "pool").await, "pool");
    pool.add(&["4930111".to_owned()]).await.unwrap();
    let request = CallRequest { lease: Some("mine"), wait: Some(0), ..CallRequest::default() };
    let waiter = tokio::spawn(async move { pool.call(request).await });
    eventually("the call to wait", TIMEOUT, || pool_info(&mut server.raw(), "pool", "waiting") == 1);
    server.raw().words("DEL pool");
    assert_eq!(waiter.await.unwrap().unwrap_err().code(), Some("UNBLOCKED"));
}

#[tokio::test]
async fn conferences_are_placed_by_load_or_by_share() {
    let server = RedisServer::start();
    let realm = RealmStore::new(connect(&server, "{eu}").await, "{eu}");
    let place = async |place: &str| {
        let record: Record = realm.ask(realm.begin("CONF.REALM").arg("PLACE").arg(place)).await.unwrap();
        record.text("place")
    };
    assert_eq!(place("LOAD").await, "load");
    let tags = ["hd".to_owned(), "gpu".to_owned()];
    for (cmu, load) in [("10.0.0.1:1:1", 90), ("10.0.0.2:1:1", 10)] {
        let machine = Some("web1");
        let unit = JoinRequest { capacity: 10, zone: Some("berlin"), tags: &tags, lease_ms: 60_000, machine };
        realm.join(cmu, &unit).await.unwrap();
        realm.beat(cmu, Some(load)).await.unwrap();
    }
    let request = CreateRequest {
        e164: "4930200",
        end: Some(4_000_000_000_000),
        size: Some(2),
        licences: Some(3),
        priority: Some(7),
        zone: Some("berlin"),
        zone_fall: Some(5000),
        host: Some("10.0.0.2"),
        require: &tags[..1],
        prefer: &tags,
        no_recover: true,
        request: Some("r1"),
        ..CreateRequest::default()
    };
    let created = realm.create(&request).await.unwrap();
    let fields = [
        "e164",
        "state",
        "cmu",
        "end",
        "size",
        "licences",
        "priority",
        "zone",
        "recoverable",
        "request",
        "zonefall",
        "unit",
        "require",
        "prefer",
    ];
    assert_eq!(
        fields.map(|field| created.text(field)),
        [
            "4930200",
            "creating",
            "10.0.0.2:1:1",
            "4000000000000",
            "2",
            "3",
            "7",
            "berlin",
            "0",
            "r1",
            "5000",
            "10.0.0.2",
            r#"["hd"]"#,
            r#"["gpu","hd"]"#
        ]
    );
    assert!(created.get::<String>("evt").is_ok());
    let pool = NumberStore::new(connect(&server, "{eu}:pool").await, "{eu}:pool");
    pool.add(&["4930111".to_owned()]).await.unwrap();
    pool.register(&["4930111".to_owned()], None).await.unwrap();
    assert_eq!(place("SHARE").await, "share");
    let called = CreateRequest { e164: "*", from: Some("{eu}:pool"), ..CreateRequest::default() };
    let called = realm.create(&called).await.unwrap();
    assert_eq!((called.text("e164"), called.text("cmu")), ("4930111".into(), "10.0.0.1:1:1".into()));
    assert_eq!(
        realm.create(&CreateRequest { request: None, ..request }).await.unwrap_err().code(),
        Some("EXISTS")
    );
}
