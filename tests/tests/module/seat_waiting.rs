//! The waiting list on a live server: offers by the timer, events, failover.

use allot_core::seat::Event;
use allot_tests::seat_workload::events_of;
use allot_tests::shows::{create, hold, no_internal_errors, sample_venue, with_events};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ReplicationStream, Reply, eventually};

/// Two rows of five seats, all held by `first` for `ttl_ms`.
fn sold_out(server: &RedisServer, ttl_ms: i64) {
    create(server, "show", &with_events(&sample_venue(2, 5), 50));
    hold(&mut server.raw(), "show", "first", 10, ttl_ms, "h");
}

fn waiting(server: &RedisServer) -> Vec<String> {
    let items = server.raw().words("SEAT.LIST show WAITING COUNT 4000").field("items").array().to_vec();
    items.iter().map(|item| item.field("token").text()).collect()
}

#[test]
fn seats_of_an_expired_hold_and_of_an_expired_offer_go_to_the_next_waiter() {
    let server = RedisServer::start();
    sold_out(&server, 1500);
    let mut client = server.raw();
    for user in ["ann", "bob", "cid"] {
        let record = client.words(&format!("SEAT.WAIT show {user} 10 TTL 600000 OFFER 100 TOKEN {user}"));
        assert_eq!(record.field("state"), Reply::bulk("waiting"));
    }
    // Nobody sends a command for the show: the timer serves the list.
    eventually("everybody to be served", TIMEOUT, || waiting(&server).is_empty());
    let entries = client.words("XRANGE show:evt - +");
    let events: Vec<String> = entries
        .array()
        .iter()
        .map(|entry| entry.array()[1].array().iter().map(Reply::text).collect::<Vec<_>>())
        .map(|fields| format!("{} {}", fields[1], fields.get(3).cloned().unwrap_or_default()))
        .collect();
    let expected = ["offered ann", "expired ann", "offered bob", "expired bob", "offered cid"];
    let told: Vec<&str> = events.iter().map(String::as_str).filter(|told| expected.contains(told)).collect();
    assert_eq!(told, expected, "{events:?}");
    no_internal_errors(&server);
}

#[test]
fn offers_of_one_step_are_bounded_and_the_timer_makes_the_others() {
    const WAITERS: usize = 600;
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(6, 100));
    let mut client = server.raw();
    let blocked: Vec<String> =
        (1..=6).flat_map(|row| (1..=100).map(move |seat| format!("a-{row}-{seat}"))).collect();
    let count = blocked.len().to_string();
    let mut block = vec!["SEAT.BLOCK", "show", "NAME", "all", &count];
    block.extend(blocked.iter().map(String::as_str));
    assert_eq!(client.call(&block), Reply::Int(WAITERS as i64));
    for user in 0..WAITERS {
        client.words(&format!("SEAT.WAIT show u{user} 1 TTL 600000 OFFER 600000"));
    }
    let mut stream = ReplicationStream::attach(&server);
    assert_eq!(client.words("SEAT.UNBLOCK show NAME all"), Reply::Int(WAITERS as i64));
    // Nobody sends another command for the show.
    eventually("everybody to be served", TIMEOUT, || waiting(&server).is_empty());
    let is_offer = |event: &&Event| matches!(event, Event::Offered { .. });
    let mut steps = stream.drain();
    steps.retain(|command| command[0] == b"SEAT.APPLY");
    let offers: Vec<usize> =
        steps.iter().map(|step| events_of(step).1.iter().filter(is_offer).count()).collect();
    assert!(offers.iter().all(|&offers| (1..=250).contains(&offers)), "{offers:?}");
    assert_eq!(offers.iter().sum::<usize>(), WAITERS);
    no_internal_errors(&server);
}

#[test]
fn freed_seats_go_to_those_who_wait_and_to_nobody_who_asks_right_after() {
    const WAITERS: usize = 1000;
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(10, 100));
    let mut client = server.raw();
    let seats: Vec<String> =
        (1..=10).flat_map(|row| (1..=100).map(move |seat| format!("a-{row}-{seat}"))).collect();
    let count = seats.len().to_string();
    let mut block = vec!["SEAT.BLOCK", "show", &count];
    block.extend(seats.iter().map(String::as_str));
    assert_eq!(client.call(&block), Reply::Int(WAITERS as i64));
    for user in 0..WAITERS {
        client.words(&format!("SEAT.WAIT show u{user} 1 TTL 600000 OFFER 600000"));
    }
    let mut unblock = vec!["SEAT.UNBLOCK", "show", &count];
    unblock.extend(seats.iter().map(String::as_str));
    client.send(&unblock);
    for other in 0..100 {
        client.send(&["SEAT.HOLD", "show", &format!("o{other}"), "1", "TTL", "600000"]);
    }
    assert_eq!(client.read(), Reply::Int(WAITERS as i64));
    for other in 0..100 {
        let refused = client.read();
        let is_refused = refused == Reply::NullArray || refused.error().starts_with("TRYAGAIN");
        assert!(is_refused, "user o{other} does not wait: {refused:?}");
    }
    eventually("everybody to be served", TIMEOUT, || waiting(&server).is_empty());
    for user in 0..WAITERS {
        assert_eq!(client.words(&format!("SEAT.HOLDS show u{user}")).array().len(), 1, "user u{user}");
    }
    no_internal_errors(&server);
}

#[test]
fn waiting_list_moves_to_a_replica_that_takes_over() {
    let (master, replica) = (RedisServer::strict().start(), RedisServer::strict().start());
    sold_out(&master, 600_000);
    replica.replica_of(&master);
    replica.wait_replica_synced();
    for user in ["ann", "bob"] {
        master.raw().words(&format!("SEAT.WAIT show {user} 5 TTL 600000 OFFER 60000 TOKEN {user}"));
    }
    master.wait_offset_equal(&replica);
    assert_eq!(replica.digest_value("show"), master.digest_value("show"));
    assert_eq!(waiting(&replica), ["ann", "bob"]);
    replica.command("REPLICAOF NO ONE");
    assert_eq!(replica.raw().words("SEAT.RELEASE show h"), Reply::Int(10));
    assert_eq!(waiting(&replica), [""; 0]);
    assert_eq!(replica.raw().words("SEAT.HOLDS show bob").array().len(), 1);
}

#[test]
fn seats_for_which_nobody_waits_are_found_on_a_replica() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    let row = |label, tier| format!(r#"{{"label":"{label}","rank":1,"tier":"{tier}","seats":"1-2"}}"#);
    let rows = format!("{},{}", row("A", "gold"), row("B", "silver"));
    create(&master, "show", &format!(r#"{{"areas":[{{"id":"a","rows":[{rows}]}}]}}"#));
    let mut client = master.raw();
    client.words("SEAT.HOLD show bob 2 TTL 600000 TIER gold TOKEN b");
    client.words("SEAT.WAIT show ann 2 TTL 600000 OFFER 60000 TIER gold TOKEN a");
    // Once the replica has a snapshot, nothing tells it that the master has examined the list.
    replica.replica_of(&master);
    replica.wait_replica_synced();
    let find = |tier| replica.raw().words(&format!("SEAT.FIND show 2 TIER {tier}")).array().len();
    assert_eq!((find("silver"), find("gold")), (1, 0));
    no_internal_errors(&replica);
}

#[test]
fn wait_is_read_by_its_token_and_does_not_begin_again_after_a_restart() {
    let server = RedisServer::start();
    sold_out(&server, 600_000);
    let mut client = server.raw();
    let wait = "SEAT.WAIT show ann 5 TTL 600000 OFFER 60000 TOKEN ann";
    let record = client.words(wait);
    assert_eq!(client.words("SEAT.WAITING show ann"), record);
    assert_eq!(client.words("SEAT.WAITING show nobody"), Reply::NullArray);
    client.words("SEAT.RELEASE show h");
    let offer = client.words("SEAT.WAITING show ann");
    assert_eq!((offer.field("state"), offer.field("position")), (Reply::bulk("offered"), Reply::Int(0)));
    assert_eq!(client.words("SEAT.RELEASE show ann"), Reply::Int(5));
    server.command("DEBUG RELOAD");
    assert!(client.words(wait).error().starts_with("ENDED the wait 'ann' has ended"));
    assert_eq!(client.words("SEAT.WAITING show ann"), Reply::NullArray);
    no_internal_errors(&server);
}
