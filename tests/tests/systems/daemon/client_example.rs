//! The client crate on a live server: its example, and typed commands of shows, number pools and conferences.

use std::time::Duration;

use allot_client::{
    CallRequest, Cap, CreateRequest, Endpoint, Error, FindRequest, Hold, HoldRequest, JoinRequest,
    ListFilter, Listed, NumberStore, PickRequest, RealmStore, Record, Sale, SeatBlock, SeatStore, Servers,
    WaitRequest,
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
    HoldRequest { user, count, ttl_ms: 600_000, token: Some(token), ..HoldRequest::default() }
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
async fn seats_join_a_cart_and_a_pick_may_leave_no_single_seat() {
    let server = RedisServer::start();
    let show = opened(&server).await;
    let (user, token, clicked) = ("ann", Some("cart"), seats(&[2]));
    let pick = PickRequest { user, ttl_ms: 600_000, seats: &clicked, token, ..PickRequest::default() };
    let lonely = PickRequest { orphans: Some("FORBID"), token: None, ..pick };
    assert_eq!(code(show.pick(&lonely).await).as_deref(), Some("LIMIT"), "seat 1 would stay alone");
    for _ in 0..2 {
        let cart = show.pick(&PickRequest { add: true, ..pick }).await.unwrap();
        let until = cart.until;
        assert_eq!(cart, Hold { token: "cart".into(), seats: clicked.clone(), until, orphans: seats(&[1]) });
        let cart = show.add(&request(user, 1, "cart"), Some("click")).await.unwrap().unwrap();
        assert_eq!(cart, Hold { token: "cart".into(), seats: seats(&[1, 2]), until, orphans: vec![] });
        show.release("cart").await.unwrap();
    }
}

#[tokio::test]
async fn hold_is_extended_replaced_and_sold_in_exchange() {
    let server = RedisServer::start();
    let show = opened(&server).await;
    let first = show.hold(&request("ann", 2, "ann-1")).await.unwrap().unwrap();
    let later = show.extend("ann-1", 900_000).await.unwrap();
    assert!((first.until + 1..=first.until + 400_000).contains(&later), "{later} after {}", first.until);
    assert_eq!(show.holds("ann").await.unwrap()[0].text("until"), later.to_string());
    let other = HoldRequest { replace: Some("ann-1"), ..request("ann", 3, "ann-2") };
    assert_eq!(show.hold(&other).await.unwrap().unwrap().seats, seats(&[1, 2, 3]));
    assert_eq!(code(show.release("ann-1").await).as_deref(), Some("NOTFOUND"));
    assert_eq!(show.confirm("ann-2", Some("order-1")).await.unwrap(), 3);
    let given = seats(&[1]);
    let exchange = HoldRequest { exchange: &given, ..request("ann", 1, "ann-3") };
    assert_eq!(show.hold(&exchange).await.unwrap().unwrap().seats, seats(&[4]));
    let sale =
        Sale { token: "ann-3", order: Some("order-2"), exchange: Some(("order-1", &given)), user: None };
    assert_eq!(show.sell(&sale).await.unwrap(), 1);
    assert_eq!(show.order("order-1").await.unwrap(), seats(&[2, 3]));
}

#[tokio::test]
async fn sold_seats_move_change_hands_and_go_into_a_block() {
    let server = RedisServer::start();
    let show = opened(&server).await;
    show.hold(&request("ann", 2, "ann-1")).await.unwrap().unwrap();
    show.confirm("ann-1", Some("order-1")).await.unwrap();
    assert_eq!(show.move_sales(&[("box-1-2", "box-1-4")], false).await.unwrap(), 1);
    assert_eq!(show.order("order-1").await.unwrap(), seats(&[1, 4]));
    for order in [Some("order-1"), None] {
        let moved = show.transfer("bob", &seats(&[4]), order, Some("order-2")).await;
        assert_eq!(moved.unwrap(), 1, "also when asked again");
    }
    assert_eq!(show.refund_order("order-2", Some("kept")).await.unwrap(), 1);
    show.hold(&request("cid", 2, "cid-1")).await.unwrap().unwrap();
    assert_eq!(show.release_into("cid-1", "kept").await.unwrap(), 2);
    assert_eq!(show.end_block("kept").await.unwrap(), 3);
}

#[tokio::test]
async fn seats_of_a_block_are_picked_and_sold_to_their_user() {
    let server = RedisServer::start();
    let show = opened(&server).await;
    let (pair, far_off) = (seats(&[3, 4]), Some(4_102_444_800_000));
    assert_eq!(show.block_in(Some("press"), far_off, Some(2), &pair).await.unwrap(), 2);
    let pick = PickRequest { user: "ann", ttl_ms: 600_000, seats: &pair[..1], ..PickRequest::default() };
    assert_eq!(code(show.pick(&pick).await).as_deref(), Some("BADSTATE"), "it is a seat of the block");
    let (from, token) = (Some("press"), Some("ann-1"));
    let held = show.pick(&PickRequest { from, token, ..pick }).await.unwrap();
    assert_eq!((held.token.as_str(), held.seats, held.orphans), ("ann-1", seats(&[3]), vec![]));
    let press = SeatBlock {
        name: Some("press".into()),
        seats: 2,
        left: 1,
        until: Some(4_102_444_800_000),
        per_user: Some(2),
    };
    assert_eq!(show.blocks().await.unwrap(), [press]);
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
    assert_eq!(show.waiting("cid").await.unwrap().unwrap().get::<u64>("position").unwrap(), 2);
    show.unwait("cid").await.unwrap();
    assert!(show.waiting("cid").await.unwrap().is_none());
    assert_eq!(code(show.wait(&wish(request("cid", 2, "cid"))).await).as_deref(), Some("ENDED"));
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

#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_numbers_and_end_with_causes() {
    let server = RedisServer::start();
    let pool = NumberStore::new(connect(&server, "pool").await, "pool");
    let numbers = ["4930111".to_owned(), "4930112".to_owned()];
    pool.add(&numbers).await.unwrap();
    pool.register(&numbers, Some("switch-a")).await.unwrap();
    pool.set_caps(&[Cap { window: Some(3_600_000), count: 2 }]).await.unwrap();
    pool.set_cause("spam", 86_400_000, None).await.unwrap();
    pool.set_cause("busy", 60_000, Some((5, 600_000))).await.unwrap();

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
    assert!(pool.hang_up("4930112", "second", Some("busy")).await.unwrap());
    assert_eq!(waiter.await.unwrap().unwrap().unwrap().number, "4930112", "the other is in quarantine");
    pool.hang_up("4930112", "third", Some("busy")).await.unwrap();

    let quarantined = pool.number("4930111").await.unwrap();
    assert_eq!((&*quarantined.state, quarantined.cause.as_deref()), ("idle+up", Some("spam")));
    assert!(quarantined.quarantine_until.is_some() && quarantined.limit_until.is_none(), "{quarantined:?}");
    assert_eq!((quarantined.peer.as_deref(), quarantined.uses), (Some("5550100"), 1));
    let limited = pool.number("4930112").await.unwrap();
    assert!(limited.limit_until.is_some() && limited.quarantine_until.is_none(), "{limited:?}");
    assert_eq!(pool.number("110").await.unwrap_err().code(), Some("NOTFOUND"));
    let info = pool.info().await.unwrap();
    assert_eq!((info.limited, info.quarantined, info.causes_other), (1, 1, 0));
    let causes: Vec<(&str, u64, Option<i64>, Option<u32>)> =
        info.causes.iter().map(|cause| (&*cause.cause, cause.count, cause.cooldown, cause.after)).collect();
    assert_eq!(causes, [("spam", 1, Some(86_400_000), Some(1)), ("busy", 2, Some(60_000), Some(5))]);
    pool.set_cause("busy", 0, None).await.unwrap();
    pool.set_caps(&[]).await.unwrap();
    pool.set_rate(50, 60_000).await.unwrap();
    let info = pool.info().await.unwrap();
    assert_eq!((info.rate, info.rate_window, info.rate_until), (50, Some(60_000), None));
    pool.set_rate(0, 0).await.unwrap();
    let caps = [Cap { window: None, count: 40 }, Cap { window: Some(60_000), count: 1 }];
    pool.set_number_caps("4930111", &caps).await.unwrap();
    assert_eq!(pool.number("4930111").await.unwrap().caps, caps);
    pool.set_days(1_795_215_600_000, 82_800_000).await.unwrap();
    let info = pool.info().await.unwrap();
    assert_eq!((info.daystart, info.daylength), (1_795_215_600_000, 82_800_000));
    pool.set_peers(10, 60_000).await.unwrap();
    let info = pool.info().await.unwrap();
    assert_eq!((info.peers, info.peerttl, info.known_peers), (10, 60_000, 0));
    let info = pool.info().await.unwrap();
    assert_eq!((info.limited, info.caps.len(), info.causes[1].cooldown), (0, 0, None));
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
        let reply = realm.ask(realm.begin("CONF.REALM").arg("PLACE").arg(place)).await.unwrap();
        Record::read(reply).unwrap().text("place")
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
