//! Seats that are selected by row, area and tier, holds that get another end, and sales that go to other seats or users.

use allot_tests::RedisServer;
use allot_tests::browser::Browser;
use allot_tests::consoles::Console;
use allot_tests::shows::{THEATRE, create, sample_venue, with_events};
use serde_json::{Value, json};

use crate::SOON;
use crate::actions::{TEXT, answer, click, opened, shows};

const STATES: &str = "document.querySelector('.map').view.show.state.join('')";
const SELECTED: &str = "document.querySelector('.map').view.chosen.size";

fn is_selected(browser: &Browser, count: usize) {
    browser.wait_for(&format!("{count} seats"), &format!("{SELECTED} === {count}"), SOON);
}

fn map(browser: &Browser) {
    browser.wait_for("the map", "document.querySelector('.map')?.view?.show", SOON);
}

/// Sells seats to a user under an order.
fn sell(server: &RedisServer, user: &str, order: &str, seats: &[&str]) {
    let (count, seats) = (seats.len(), seats.join(" "));
    server.command(&format!("SEAT.PICK show:1 {user} TTL 60000 TOKEN {order} SEATS {count} {seats}"));
    server.command(&format!("SEAT.CONFIRM show:1 {order} ORDER {order}"));
}

/// The user of a sold seat.
fn user_of(server: &RedisServer, seat: &str) -> String {
    server.raw().call(&["SEAT.GET", "show:1", seat]).field("user").text()
}

/// Drags the seat at a position of the map to another one.
fn drag(browser: &Browser, from: usize, to: usize) {
    let point = |at: usize| -> (f64, f64) {
        let place = browser.run(&format!(
            "const map = document.querySelector('.map'), box = map.getBoundingClientRect();
            const {{ view }} = map; return [box.left + view.sx(view.layout.x[{at}]), box.top + view.sy(view.layout.y[{at}])]"
        ));
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    };
    browser.drag(point(from), point(to));
}

/// Waits for a question of the page, and gives its words and its answers.
fn question(browser: &Browser) -> (String, Vec<String>) {
    browser.wait_for("the question", "document.querySelector('dialog[open]')", SOON);
    let asked = browser.run(
        "const dialog = document.querySelector('dialog[open]'); return [dialog.querySelector('p').innerText,
        ...[...dialog.querySelectorAll('button')].map((one) => one.innerText)]",
    );
    let mut all: Vec<String> = serde_json::from_value(asked).unwrap();
    (all.remove(0), all)
}

/// Gives the question this answer.
fn choose(browser: &Browser, text: &str) {
    browser.run(&format!(
        "[...document.querySelectorAll('dialog[open] button')].find((one) => one.innerText === {text:?}).click()"
    ));
}

/// Opens the question of a button.
fn ask(browser: &Browser, text: &str) {
    let button =
        format!("[...document.querySelectorAll('main button')].find((one) => one.textContent === {text:?})");
    browser.wait_for(text, &format!("{button} && !({button}).disabled"), SOON);
    browser.run(&format!("({button}).click()"));
}

#[test]
fn row_area_and_tier_are_selected_by_buttons_and_keys() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    create(&server, "show:2", &sample_venue(41, 500));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=right-B-1");
    map(&browser);
    is_selected(&browser, 1);
    click(&browser, "row");
    is_selected(&browser, 6);
    click(&browser, "area");
    is_selected(&browser, 18);
    click(&browser, "tier");
    is_selected(&browser, 35);
    click(&browser, "Clear");
    is_selected(&browser, 0);
    browser.run(
        "const press = (key) => document.querySelector('.map').dispatchEvent(new KeyboardEvent('keydown',
        {key, bubbles: true})); press('Enter'); for (let at = 0; at < 9; at += 1) press('ArrowDown'); press('r');",
    );
    is_selected(&browser, 20);
    browser.run(
        "document.querySelector('.map').dispatchEvent(new KeyboardEvent('keydown', {key: 'a', bubbles: true}))",
    );
    is_selected(&browser, 40);
    click(&browser, "Clear");
    browser.run("document.querySelector('button[aria-label=\"Select left\"]').click()");
    is_selected(&browser, 17);
    // Too many are refused, and what was selected stays.
    browser.go(&console.address("/show?key=show:2&seat=a-3-1"));
    map(&browser);
    is_selected(&browser, 1);
    click(&browser, "area");
    shows(&browser, "20,500 seats; at most 20,000 can be selected at once");
    is_selected(&browser, 1);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn hold_gets_another_end_on_the_page() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 4));
    let hold = server.raw().call(&[
        "SEAT.PICK",
        "show:1",
        "ann",
        "TTL",
        "600000",
        "TOKEN",
        "t",
        "SEATS",
        "1",
        "a-1-2",
    ]);
    let before = hold.field("until").int();
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-2");
    ask(&browser, "Extend");
    assert_eq!(question(&browser).0, "Let the hold t of ann end 10 minutes from now?");
    answer(&browser, "0");
    shows(&browser, "1 to 600 minutes");
    answer(&browser, "30");
    shows(&browser, "another end for 1 hold");
    let until = server.raw().call(&["SEAT.HOLDS", "show:1", "ann"]).array()[0].field("until").int();
    assert!((19 * 60_000..=22 * 60_000).contains(&(until - before)), "{before} {until}");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn sales_are_dragged_to_other_seats_and_theirs_go_to_those_who_wait() {
    let server = RedisServer::start();
    let row = |label: &str, rank: u32, tier: &str| json!({"label": label, "rank": rank, "tier": tier, "seats": "1-2"});
    let plan = json!({"areas": [{"id": "a", "rows": [row("A", 1, "gold"), row("B", 2, "blue")]}]});
    create(&server, "show:1", &plan.to_string());
    sell(&server, "ann", "o1", &["a-A-1", "a-A-2"]);
    server.command("SEAT.WAIT show:1 cid 2 TTL 600000 OFFER 60000 TIER gold");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seats=[\"a-A-1\",\"a-A-2\"]");
    map(&browser);
    is_selected(&browser, 2);
    // Beside the map there is nothing for the second seat.
    drag(&browser, 0, 3);
    shows(&browser, "Nothing is moved: there is no seat for a-A-2");
    click(&browser, "Close");
    drag(&browser, 0, 2);
    let (asked, answers) = question(&browser);
    assert_eq!(
        asked,
        "Move a-A-1, a-A-2 of ann to a-B-1, a-B-2? Seats that become free are offered to those who wait. \
        Seats are of another tier; nobody pays or gets anything."
    );
    assert_eq!(answers, ["Cancel", "Move"]);
    assert_eq!(browser.run(&format!("return {STATES}")), "3311");
    choose(&browser, "Move");
    browser.wait_for("the new places", &format!("{STATES} === '2233'"), SOON);
    assert_eq!(user_of(&server, "a-B-1"), "ann");
    assert_eq!(user_of(&server, "a-A-1"), "cid");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn sale_is_dragged_to_another_sale_to_swap_or_to_give_it() {
    let server = RedisServer::start();
    create(&server, "show:1", &with_events(&sample_venue(1, 4), 100));
    sell(&server, "ann", "o1", &["a-1-1"]);
    sell(&server, "bob", "o2", &["a-1-4"]);
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-1");
    map(&browser);
    is_selected(&browser, 1);
    drag(&browser, 0, 3);
    let (asked, answers) = question(&browser);
    assert!(
        asked.starts_with("Move a-1-1 of ann to a-1-4? a-1-4 of bob comes to a-1-1 in exchange.\n"),
        "{asked}"
    );
    assert!(asked.contains("Or give a-1-1 of ann to bob"), "{asked}");
    assert_eq!(answers, ["Cancel", "Swap", "Give to bob"]);
    choose(&browser, "Swap");
    shows(&browser, "2 sales went to another place or user");
    assert_eq!((user_of(&server, "a-1-1"), user_of(&server, "a-1-4")), ("bob".into(), "ann".into()));
    let user = |name: &str| format!("document.querySelector('.records').innerText.includes('user {name}')");
    browser.wait_for("the user of the seat", &user("bob"), SOON);
    click(&browser, "Close");
    drag(&browser, 0, 3);
    assert_eq!(question(&browser).1, ["Cancel", "Swap", "Give to ann"]);
    choose(&browser, "Give to ann");
    shows(&browser, "1 sale went to another place or user");
    assert_eq!((user_of(&server, "a-1-1"), user_of(&server, "a-1-4")), ("ann".into(), "ann".into()));
    browser.wait_for("the user of the seat", &user("ann"), SOON);
    // A seat that is not selected is not carried: the map moves.
    click(&browser, "Close");
    click(&browser, "Clear");
    let left = "document.querySelector('.map').view.left";
    let before = browser.run(&format!("return {left}"));
    drag(&browser, 0, 3);
    browser.wait_for("the moved map", &format!("{left} !== {before}"), SOON);
    assert_eq!(browser.run("return document.querySelector('dialog[open]')"), Value::Null);
    let actions = console.get("actions").json();
    let names: Vec<&str> =
        actions.as_array().unwrap().iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["SEAT.TRANSFER", "SEAT.MOVE"]);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn sales_are_moved_swapped_and_given_by_dialogs() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(2, 4));
    sell(&server, "ann", "o1", &["a-1-1", "a-1-2"]);
    sell(&server, "bob", "o2", &["a-1-4"]);
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seats=[\"a-1-1\",\"a-1-2\"]");
    map(&browser);
    ask(&browser, "Move 2");
    for (to, wrong) in
        [("a-9-9", "no other seat 'a-9-9'"), ("a-2-4", "no seat for a-1-2 so far from its place")]
    {
        answer(&browser, to);
        shows(&browser, wrong);
    }
    assert_eq!(browser.run(&format!("return {STATES}")), "33131111");
    // Two seats on. The sale that is there comes to the seat of the one that takes its place.
    answer(&browser, "a-1-3");
    browser.wait_for("the moved sales", &format!("{STATES} === '13331111'"), SOON);
    let users = ["a-1-2", "a-1-3", "a-1-4"].map(|seat| user_of(&server, seat));
    assert!(users == ["bob", "ann", "ann"], "{users:?}");
    browser.go(&console.address("/show?key=show:1&seats=[\"a-1-2\",\"a-1-3\"]"));
    map(&browser);
    ask(&browser, "Swap");
    assert_eq!(question(&browser).0, "Swap a-1-2 of bob and a-1-3 of ann?");
    answer(&browser, "");
    shows(&browser, "done");
    assert_eq!(user_of(&server, "a-1-3"), "bob");
    browser.go(&console.address("/show?key=show:1&seat=a-1-3"));
    map(&browser);
    ask(&browser, "Transfer 1");
    answer(&browser, "");
    shows(&browser, "the user is missing");
    assert!(
        browser
            .run(&format!("return {TEXT}"))
            .as_str()
            .unwrap()
            .contains("Give a-1-3 of bob to another user?")
    );
    answer(&browser, "dan");
    browser.wait_for(
        "the new user",
        "document.querySelector('.records').innerText.includes('user dan')",
        SOON,
    );
    assert_eq!(user_of(&server, "a-1-3"), "dan");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn conference_gets_another_end_on_the_page() {
    let server = RedisServer::start();
    for line in [
        "CONF.REALM {r}:conf CREATETIMEOUT 600000",
        "CMU.JOIN {r}:conf u1 CAPACITY 5 LEASE 600000",
        "CMU.REPORT {r}:conf u1 HIGHEST 0",
        "CONF.CREATE {r}:conf 4930 END 99999999999999",
    ] {
        server.command(line);
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/realm?key=%7Br%7D:conf&conference=4930");
    ask(&browser, "Change end");
    assert!(question(&browser).0.starts_with("Let the conference 4930 end at "));
    answer(&browser, "90");
    let end = || server.raw().call(&["CONF.INFO", "{r}:conf", "4930"]).field("end").int();
    allot_tests::eventually("the other end", SOON, || end() < 99_999_999_999_999);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    assert!((85 * 60_000..=90 * 60_000).contains(&(end() - now)), "{}", end() - now);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn seats_are_blocked_with_a_reason_and_the_last_action_is_undone() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 4));
    create(&server, "show:2", &sample_venue(1, 4));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-2");
    map(&browser);
    ask(&browser, "Block 1");
    answer(&browser, "camera");
    browser.wait_for("the blocked seat", &format!("{STATES} === '1411'"), SOON);
    assert_eq!(server.raw().call(&["SEAT.GET", "show:1", "a-1-2"]).field("block").text(), "camera");
    ask(&browser, "Undo");
    assert_eq!(question(&browser).0, "Unblock a-1-2?");
    answer(&browser, "");
    browser.wait_for("the free seat", &format!("{STATES} === '1111'"), SOON);
    let undo = "document.querySelector('.undo')";
    browser.wait_for("nothing to undo", &format!("!{undo}"), SOON);
    // On the page of another show it would surprise.
    ask(&browser, "Hold 1");
    answer(&browser, "");
    browser.wait_for("the held seat", &format!("{STATES} === '1211'"), SOON);
    browser.wait_for("the button", undo, SOON);
    browser.run("document.querySelector('.all').click()");
    let other = "document.querySelector('main td a[href*=\"show%3A2\"]')";
    browser.wait_for("the other show", other, SOON);
    browser.run(&format!("{other}.click()"));
    map(&browser);
    shows(&browser, "Click a seat");
    assert_eq!(browser.run(&format!("return {undo}")), Value::Null);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn hold_is_sold_under_an_order_after_a_question_that_says_what() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 5));
    server.command("SEAT.PICK show:1 ann TTL 600000 TOKEN t1 SEATS 2 a-1-1 a-1-2");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-1");
    ask(&browser, "Confirm");
    let (words, _) = question(&browser);
    assert_eq!(words, "Sell the hold t1 of ann: all of its seats, also those that are not selected?");
    answer(&browser, "order-9");
    browser.wait_for("the sale", &format!("{STATES} === '33111'"), SOON);
    assert_eq!(server.raw().call(&["SEAT.GET", "show:1", "a-1-2"]).field("order").text(), "order-9");
    assert_eq!(browser.errors(), Vec::<String>::new());
}
