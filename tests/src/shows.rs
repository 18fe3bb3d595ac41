//! Shows to test with, and the questions that most tests ask of one.

use std::collections::HashSet;

use crate::raw::{RawClient, Reply};
use crate::redis_server::RedisServer;

/// A small venue with everything a plan can have: two areas of one priority and one behind them, three tiers,
/// aisles, flags, all order rules.
pub const THEATRE: &str = r#"{"areas":[
  {"id":"left","priority":1,"rule":"center","rows":[
    {"label":"A","rank":1,"tier":"gold","seats":"1-6,|,7-12"},
    {"label":"B","rank":2,"seats":[{"label":"1","tier":"gold"},{"label":"2","tier":"gold","flags":["wheelchair"]},null,
      {"label":"3","tier":"silver"},{"label":"4","tier":"silver"},{"label":"5","tier":"silver"}]}]},
  {"id":"right","priority":1,"rule":"rtl","rows":[
    {"label":"A","rank":1,"tier":"gold","seats":"1-12"},
    {"label":"B","rank":2,"tier":"silver","seats":"2,4,6,|,1,3,5"}]},
  {"id":"back","priority":2,"rule":"ltr","rows":[
    {"label":"1","rank":1,"tier":"bronze","seats":"1-20"},{"label":"2","rank":2,"tier":"bronze","seats":"1-20"}]}],
  "limits":{"holds_per_user":0}}"#;

/// The plan of one area `a` of so many rows (`1`...) of so many seats of tier `t`, without limits.
pub fn sample_venue(rows: usize, seats: usize) -> String {
    sample_venue_with(rows, seats, r#""limits":{"holds_per_user":0}"#)
}

/// As [`sample_venue`], with other fields of the plan, as JSON.
pub fn sample_venue_with(rows: usize, seats: usize, fields: &str) -> String {
    let rows: Vec<String> = (1..=rows)
        .map(|n| format!(r#"{{"label":"{n}","rank":{n},"tier":"t","seats":"1-{seats}"}}"#))
        .collect();
    format!(r#"{{"areas":[{{"id":"a","rows":[{}]}}],{fields}}}"#, rows.join(","))
}

/// The plan with a stream of so many events beside its show.
pub fn with_events(plan: &str, events: usize) -> String {
    plan.replacen("{\"areas\"", &format!("{{\"events\":{events},\"areas\""), 1)
}

/// Opens a show.
#[track_caller]
pub fn create(server: &RedisServer, key: &str, plan: &str) {
    assert_eq!(server.raw().call(&["SEAT.CREATE", key, plan]), Reply::Simple("OK".into()));
}

/// Holds seats under a token, and returns the hold's record.
#[track_caller]
pub fn hold(client: &mut RawClient, key: &str, user: &str, count: usize, ttl: i64, token: &str) -> Reply {
    let (count, ttl) = (count.to_string(), ttl.to_string());
    let reply = client.call(&["SEAT.HOLD", key, user, &count, "TTL", &ttl, "TOKEN", token]);
    assert_eq!(reply.field("token"), Reply::bulk(token));
    reply
}

/// The ids of the seats of a hold record.
#[track_caller]
pub fn seats_of(record: &Reply) -> Vec<String> {
    record.field("seats").array().iter().map(Reply::text).collect()
}

/// The tokens of a whole list of a show: `HOLDS` or `WAITING`.
#[track_caller]
pub fn listed(client: &mut RawClient, key: &str, list: &str) -> HashSet<String> {
    let (mut tokens, mut cursor) = (HashSet::new(), "0".to_owned());
    loop {
        let part = client.call(&["SEAT.LIST", key, list, "CURSOR", &cursor, "COUNT", "4000"]);
        tokens.extend(part.field("items").array().iter().map(|item| item.field("token").text()));
        cursor = part.field("cursor").int().to_string();
        if cursor == "0" {
            return tokens;
        }
    }
}

/// A seat's state: free, held, sold or blocked.
#[track_caller]
pub fn state_of(client: &mut RawClient, key: &str, seat: &str) -> String {
    client.call(&["SEAT.GET", key, seat]).field("state").text()
}

/// How many seats of a show are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the four states of a seat")]
pub struct Books {
    pub free: i64,
    pub held: i64,
    pub sold: i64,
    pub blocked: i64,
}

impl Books {
    /// All seats of the show.
    pub fn all(self) -> i64 {
        self.free + self.held + self.sold + self.blocked
    }
}

/// The counts of a show by `SEAT.STAT`, held against its `SEAT.MAP`: the two are kept apart in the module.
#[track_caller]
pub fn books(client: &mut RawClient, key: &[u8]) -> Books {
    let stat = client.call(&[b"SEAT.STAT", key]);
    let mut areas: Vec<String> = stat.array().iter().map(|bucket| bucket.field("area").text()).collect();
    areas.dedup();
    // In one transaction, for a hold may end by itself between two questions.
    let mut calls: Vec<Vec<&[u8]>> = vec![vec![b"MULTI"], vec![b"SEAT.STAT", key]];
    calls.extend(areas.iter().map(|area| vec![&b"SEAT.MAP"[..], key, area.as_bytes()]));
    calls.push(vec![b"EXEC"]);
    let replies = client.pipeline(&calls).pop().expect("a reply to each command");
    let (stat, maps) = replies.array().split_first().expect("as many replies as commands");
    let mut books = Books::default();
    for bucket in stat.array() {
        books.free += bucket.field("free").int();
        books.held += bucket.field("held").int();
        books.sold += bucket.field("sold").int();
        books.blocked += bucket.field("blocked").int();
    }
    let mut drawn = Books::default();
    for row in maps.iter().flat_map(Reply::array) {
        for glyph in row.array()[1].text().bytes() {
            match glyph {
                b'.' | b'q' => drawn.free += 1,
                b'h' => drawn.held += 1,
                b's' => drawn.sold += 1,
                b'x' => drawn.blocked += 1,
                _ => {}
            }
        }
    }
    assert_eq!(books, drawn, "SEAT.STAT and SEAT.MAP of {} differ", key.escape_ascii());
    books
}

/// A field of `INFO allot`, counters and gauges alike.
#[track_caller]
pub fn allot_info(server: &RedisServer, field: &str) -> i64 {
    server.info_field("allot", &format!("allot_{field}")).parse().expect("a number")
}

/// Fails where the module had to answer `ERR internal`.
#[track_caller]
pub fn no_internal_errors(server: &RedisServer) {
    assert_eq!(allot_info(server, "internal_errors"), 0, "{}", server.log());
}

/// The server's clock, in milliseconds.
pub fn clock(client: &mut RawClient) -> i64 {
    let time: Vec<i64> =
        client.words("TIME").array().iter().map(|part| part.text().parse().expect("a number")).collect();
    time[0] * 1000 + time[1] / 1000
}
