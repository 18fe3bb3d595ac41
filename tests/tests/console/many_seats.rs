//! Actions on more seats than one request names: one question, parts, and what is said if a part is refused.

use std::fmt::Write as _;

use allot_tests::RedisServer;
use allot_tests::browser::Browser;
use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue, sample_venue_with};
use serde_json::{Value, json};

use crate::SOON;
use crate::actions::{answer, click, opened, shows};

/// Counts requests that act, and keeps what buttons said.
const WATCH: &str = "window.sent = 0; window.said = [];
    const { fetch } = window;
    window.fetch = (path, more) => {
        if (more?.body?.includes('SEAT.')) window.sent += 1;
        return fetch(path, more);
    };
    new MutationObserver(() => document.querySelectorAll('.said').forEach((one) => window.said.push(one.textContent)))
        .observe(document.body, {subtree: true, childList: true, characterData: true});";

/// How many seats the server has in each state.
fn counts(server: &RedisServer, key: &str) -> [i64; 4] {
    let buckets = server.raw().call(&["SEAT.STAT", key]);
    ["free", "held", "sold", "blocked"]
        .map(|state| buckets.array().iter().map(|bucket| bucket.field(state).int()).sum())
}

/// Opens the page of a show, with all seats of its area selected.
fn all_selected(console: &Console, count: usize) -> Browser {
    let browser = opened(console, "/show?key=show:1&seat=a-1-1");
    browser.wait_for("the seat", "document.querySelector('.map')?.view?.chosen.size === 1", SOON);
    click(&browser, "area");
    let selected = format!("document.querySelector('.map').view.chosen.size === {count}");
    browser.wait_for("all seats", &selected, SOON);
    browser.run(WATCH);
    browser
}

#[test]
fn twenty_thousand_seats_are_blocked_after_one_question_and_unblocked() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(40, 500));
    let console = Console::start(&server, &[]);
    let browser = all_selected(&console, 20_000);
    click(&browser, "Block 20,000");
    browser.wait_for("the undo", "document.querySelector('.undo button')", SOON);
    assert_eq!(counts(&server, "show:1"), [0, 0, 0, 20_000]);
    let seen = browser.run(
        "return [window.sent,
            window.said.some((said) => /^[1-9][\\d,]* of 20,000 seats are blocked$/.test(said))]",
    );
    assert_eq!(seen, json!([40, true]));
    click(&browser, "Undo");
    browser.wait_for("no undo", "!document.querySelector('.undo button')", SOON);
    assert_eq!(counts(&server, "show:1"), [20_000, 0, 0, 0]);
    shows(&browser, "20,000 free");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn part_that_is_refused_ends_an_action_and_is_told_with_what_was_done() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue_with(3, 500, r#""limits":{"holds_per_user":2}"#));
    let console = Console::start(&server, &[]);
    let browser = all_selected(&console, 1500);
    click(&browser, "Hold 1,500");
    shows(&browser, "1,000 of 1,500 seats are held; then: ");
    assert_eq!(counts(&server, "show:1"), [500, 1000, 0, 0]);
    // What was done can be made undone.
    click(&browser, "Undo");
    browser.wait_for("the free seats", "document.querySelector('.count-free').textContent === '1,500'", SOON);
    assert_eq!(counts(&server, "show:1"), [1500, 0, 0, 0]);
}

#[test]
fn many_holds_are_sold_refunded_and_released_by_their_records() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(3, 500));
    let seats = |row: usize| {
        (1..=500).fold(String::new(), |mut all, seat| {
            let _ = write!(all, " a-{row}-{seat}");
            all
        })
    };
    for row in 1..=3 {
        server.command(&format!("SEAT.PICK show:1 ann{row} TTL 600000 TOKEN t{row} SEATS 500{}", seats(row)));
    }
    server.command("SEAT.CONFIRM show:1 t1 ORDER o1");
    server.command("SEAT.CONFIRM show:1 t2 ORDER o2");
    let console = Console::start(&server, &[]);
    let browser = all_selected(&console, 1500);
    // The records of all seats are read: the third hold is known.
    click(&browser, "Release");
    browser.wait_for("the release", "document.querySelector('.count-held').textContent === '0'", SOON);
    browser.wait_for(
        "the button",
        "[...document.querySelectorAll('.acts button')].some((one) =>
        one.textContent === 'Refund 1,000')",
        SOON,
    );
    browser.run(
        "[...document.querySelectorAll('.acts button')].find((one) =>
        one.textContent === 'Transfer 1,000').click()",
    );
    browser.run(
        "const typed = document.querySelector('dialog[open] form').elements;
        typed.typed1.value = 'o9'; typed.typed1.dispatchEvent(new Event('input', {bubbles: true}))",
    );
    answer(&browser, "bob");
    shows(&browser, "1,000 seats transferred");
    for seat in ["a-1-1", "a-2-500"] {
        let record = server.raw().call(&["SEAT.GET", "show:1", seat]);
        assert_eq!((record.field("user").text(), record.field("order").text()), ("bob".into(), "o9".into()));
    }
    click(&browser, "Refund 1,000");
    browser.wait_for("the free seats", "document.querySelector('.count-free').textContent === '1,500'", SOON);
    assert_eq!(counts(&server, "show:1"), [1500, 0, 0, 0]);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn command_takes_as_many_seats_as_the_server_does() {
    let server = RedisServer::start();
    let area = "x".repeat(60);
    let rows: Vec<Value> = (1..=40)
        .map(|row| json!({"label": row.to_string(), "rank": row, "tier": "t", "seats": "1-500"}))
        .collect();
    create(&server, "show:1", &json!({"areas": [{"id": area, "rows": rows}]}).to_string());
    let console = Console::start(&server, &[]);
    let mut arguments = vec![json!(20_000)];
    arguments.extend((0..20_000).map(|at| json!(format!("{area}-{}-{}", at / 500 + 1, at % 500 + 1))));
    let body = json!({"command": "SEAT.BLOCK", "key": "show:1", "arguments": arguments});
    let answer = console.act("command", &body);
    assert_eq!((answer.status, &answer.json()["result"]), (200, &json!(20_000)), "{}", answer.body);
}
