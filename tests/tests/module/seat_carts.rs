//! Carts on a live server: seats join a hold, also while others wait.

use allot_tests::shows::{create, no_internal_errors, sample_venue, with_events};
use allot_tests::{RedisServer, Reply};

fn seats(record: &Reply) -> Vec<String> {
    record.field("seats").array().iter().map(Reply::text).collect()
}

#[test]
fn clicks_join_one_hold_and_a_waiter_gets_none_of_its_seats() {
    let server = RedisServer::start();
    create(&server, "show", &with_events(&sample_venue(1, 4), 50));
    let mut client = server.raw();
    let first = client.words("SEAT.PICK show ann TTL 60000 TOKEN cart ADD SEATS 1 a-1-2");
    assert_eq!(
        client.words("SEAT.WAIT show bob 4 TTL 60000 OFFER 60000 TOKEN bob").field("state"),
        Reply::bulk("waiting")
    );
    let second = client.words("SEAT.PICK show ann TTL 60000 TOKEN cart ADD SEATS 2 a-1-2 a-1-3");
    assert_eq!(
        (seats(&second), second.field("until")),
        (vec!["a-1-2".into(), "a-1-3".into()], first.field("until"))
    );
    let best = "SEAT.HOLD show ann 1 TTL 60000 TOKEN cart ADD ONCE click";
    let third = client.words(best);
    assert_eq!(seats(&third), ["a-1-1", "a-1-2", "a-1-3"]);
    server.command("DEBUG RELOAD");
    assert_eq!(client.words(best), third, "carried out once, also after a restart");
    for (line, expected) in [
        (
            "SEAT.PICK show bob TTL 60000 TOKEN cart ADD SEATS 1 a-1-4",
            "NOTOWNER token 'cart' is not of user 'bob'",
        ),
        (
            "SEAT.PICK show ann TTL 60000 ADD SEATS 1 a-1-4",
            "ERR ADD needs TOKEN: name the hold to which the seats are added",
        ),
        ("SEAT.HOLD show ann 1 TTL 60000 TOKEN cart ONCE click", "ERR ONCE names a request with ADD"),
        (
            "SEAT.HOLD show ann 1 TTL 60000 REPLACE cart TOKEN t ADD",
            "ERR ADD keeps the hold of its TOKEN; it cannot go with REPLACE",
        ),
    ] {
        assert_eq!(client.words(line).error(), expected, "{line}");
    }
    assert_eq!(client.words("SEAT.CONFIRM show cart"), Reply::Int(3));
    let added: Vec<Vec<String>> = client
        .words("XRANGE show:evt - +")
        .array()
        .iter()
        .map(|entry| entry.array()[1].array().iter().map(Reply::text).collect::<Vec<_>>())
        .filter(|fields| fields[1] == "added")
        .collect();
    let entry = |seats: &str| {
        ["event", "added", "token", "cart", "user", "ann", "seats", seats].map(str::to_owned).to_vec()
    };
    assert_eq!(added, [entry(r#"["a-1-3"]"#), entry(r#"["a-1-1"]"#)]);
    no_internal_errors(&server);
}
