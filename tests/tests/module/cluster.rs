//! A cluster of three masters: keys belong to slots, a slot moves with its live holds, and the stream beside a show
//! stays beside it.

use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{
    THEATRE, books, clock, create, hold, no_internal_errors, sample_venue, sample_venue_with, seats_of,
};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Cluster, RedisServer, Reply, SeatWorkload, eventually};

/// Moves the slot of a key and all its keys.
fn migrate(cluster: &Cluster, key: &str) {
    cluster.begin_move(key).finish();
}

#[test]
fn keys_belong_to_slots_and_slots_move_with_their_live_holds() {
    let cluster = Cluster::start(3, 0);
    // On the wrong node, every command is sent on.
    for key in ["a", "b", "c", "d"] {
        let (home, wrong) = (cluster.master_for(key), cluster.other_than_for(key));
        create(home, key, &sample_venue(2, 10));
        for line in [
            &format!("SEAT.STAT {key}"),
            &format!("SEAT.HOLD {key} u 1 TTL 1000"),
            &format!("SEAT.ZMPOP 1 {key} MIN"),
        ] {
            assert!(wrong.raw().words(line).error().starts_with("MOVED "), "{line}");
        }
    }
    let crossing = cluster.master_for("a").raw().words("SEAT.ZMPOP 4 a b c d MIN");
    assert!(crossing.error().starts_with("CROSSSLOT "), "{crossing:?}");

    // Two shows of one tag live on one node.
    create(cluster.master_for("{gala}:1"), "{gala}:1", THEATRE);
    create(cluster.master_for("{gala}:1"), "{gala}:2", &sample_venue_with(3, 10, r#""events":20"#));
    let from = cluster.master_for("{gala}:1");
    SeatWorkload::new(from.raw(), "{gala}:1", 60).run(150);
    let lasting_from = |server: &RedisServer| books(&mut server.raw(), b"{gala}:1");
    eventually("the short holds of the workload to expire", TIMEOUT, || {
        let digest = || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            from.digest_value("{gala}:1")
        };
        // A server that was kept waiting answers once more before its timer comes.
        let first = digest();
        first == digest() && first == digest()
    });
    // Only now, since the short one is to outlive the move.
    let kept = hold(&mut from.raw(), "{gala}:2", "ann", 2, LONG_TTL_MS, "kept");
    let short = hold(&mut from.raw(), "{gala}:2", "bob", 3, 3000, "short").field("until").int();
    let (before, counts) = (from.digest_value("{gala}:1"), lasting_from(from));
    migrate(&cluster, "{gala}:1");
    let to = cluster.master_for("{gala}:1");
    assert_ne!(to.port(), from.port());
    assert_eq!(to.digest_value("{gala}:1"), before);
    assert_eq!(lasting_from(to), counts);
    let mut client = to.raw();
    assert_eq!(client.words("SEAT.HOLDS {gala}:2 ann"), Reply::Array(vec![kept.clone()]));
    assert_eq!(client.words("SEAT.CONFIRM {gala}:2 kept ORDER o"), Reply::Int(2));
    eventually("the short hold to expire on the new node", TIMEOUT, || {
        books(&mut client, b"{gala}:2").held == 0
    });
    assert!(clock(&mut client) >= short, "it expired early");
    assert!(from.raw().words("SEAT.STAT {gala}:2").error().starts_with("MOVED "));
    let order = client.words("SEAT.ORDER {gala}:2 o");
    assert_eq!(order.array().len(), seats_of(&kept).len());
    // The stream went along, and goes on: two holds, a sale, an expiry.
    let events = client.words("XRANGE {gala}:2:evt - +");
    let mut names: Vec<String> =
        events.array().iter().map(|entry| entry.array()[1].array()[1].text()).collect();
    // Where the move took longer than the short hold lives, that expired before the sale.
    names[3..].sort_unstable();
    assert_eq!(names, ["created", "held", "held", "confirmed", "expired"]);

    // Back again, with holds that fall due meanwhile.
    for number in 0..10 {
        hold(&mut client, "{gala}:2", &format!("u{number}"), 1, 1 + number * 20, &format!("m{number}"));
    }
    for _ in 0..4 {
        migrate(&cluster, "{gala}:2");
    }
    let mut home = cluster.master_for("{gala}:2").raw();
    eventually("all to expire", TIMEOUT, || books(&mut home, b"{gala}:2").held == 0);
    cluster.nodes().for_each(no_internal_errors);
}

#[test]
fn a_stream_of_events_needs_a_hash_tag_in_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let node = cluster.master_for("show");
    let refused = "ERR plan: events: the event stream of a key in a cluster needs a hash tag in the key's name, as in '{name}:1'";
    let with_events = sample_venue_with(2, 5, r#""events":10"#);
    assert_eq!(node.raw().call(&["SEAT.CREATE", "show", &with_events]).error(), refused);
    create(node, "show", &sample_venue(2, 5));
    assert_eq!(node.raw().call(&["SEAT.ALTER", "show", r#"{"events":3}"#]).error(), refused);
    let tagged = cluster.master_for("{show}");
    create(tagged, "{show}", &with_events);
    let mut client = tagged.raw();
    assert_eq!(client.words("SEAT.BLOCK {show} 1 a-1-1"), Reply::Int(1));
    assert_eq!(client.words("XLEN {show}:evt"), Reply::Int(2));
    // Renamed to a key without a tag, it keeps its messages and fails nothing.
    if cluster.master_for("{show}").port() == cluster.master_for("show").port() {
        assert_eq!(client.words("DEL show"), Reply::Int(1));
        assert_eq!(client.words("RENAME {show} show"), Reply::Simple("OK".into()));
        assert_eq!(client.words("SEAT.UNBLOCK show 1 a-1-1"), Reply::Int(1));
    }
    no_internal_errors(tagged);
}
