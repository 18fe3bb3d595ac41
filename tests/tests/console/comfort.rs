//! What makes a page easy to pass on and to use without a mouse: its address, its title, its times, keys and paper.

use allot_tests::RedisServer;
use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue, with_events};
use serde_json::json;

use crate::SOON;
use crate::actions::{opened, shows};

/// Presses keys on the map.
const PRESS: &str = "const press = (...keys) => keys.forEach((key) =>
    document.querySelector('.map').dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})));";
const MAP: &str = "document.querySelector('.map')?.view?.show";
const TITLE: &str = "document.title";

#[test]
fn seat_is_selected_by_keys_and_is_in_the_address() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(3, 5));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    browser.wait_for("the map", MAP, SOON);
    assert_eq!(browser.run(&format!("return {TITLE}")), "Show show:1 · Allot");
    // From a seat in the middle to the corner, and from there one seat on and one row back.
    let corner = "'ArrowLeft', 'ArrowLeft', 'ArrowLeft', 'ArrowLeft', 'ArrowUp', 'ArrowUp'";
    browser.run(&format!("{PRESS} press('Enter', {corner}, 'ArrowRight', 'ArrowDown', 'Enter')"));
    browser.wait_for("the seat", &format!("{TITLE} === 'a-2-2 · Show show:1 · Allot'"), SOON);
    assert_eq!(browser.run("return location.search"), "?key=show%3A1&seat=a-2-2");
    shows(&browser, "row 2, seat 2");
    browser.run(&format!("{PRESS} press('ArrowRight', ' ')"));
    let both = "new URLSearchParams(location.search).get('seats') === '[\"a-2-2\",\"a-2-3\"]'";
    browser.wait_for("both seats", both, SOON);
    // The address leads somebody else to the same seats.
    let address = browser.run("return location.pathname + location.search");
    browser.go("about:blank");
    browser.go(&console.address(address.as_str().unwrap()));
    shows(&browser, "2 seats");
    browser.wait_for("their records", "document.querySelectorAll('.records li').length === 2", SOON);
    browser
        .run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Clear').click()");
    browser.wait_for("the address without seats", "location.search === '?key=show%3A1'", SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn times_have_their_zone_and_are_utc_on_demand() {
    let server = RedisServer::start();
    create(&server, "show:1", &with_events(&sample_venue(1, 5), 100));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    browser.zone("Asia/Kathmandu");
    browser.go(&console.address("/show?key=show:1"));
    let zones = "[document.querySelector('.zone')?.textContent,
        /creation of the show, \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d (.*)\\./.exec(document.querySelector('main').innerText)?.[1]]";
    browser.wait_for("the zone", &format!("{zones}.join() === 'UTC+5:45,UTC+5:45'"), SOON);
    browser.run("document.querySelector('.zone').click()");
    browser.wait_for("UTC", &format!("{zones}.join() === 'UTC,UTC'"), SOON);
    // This browser remembers it.
    browser.go(&console.address("/show?key=show:1"));
    browser.wait_for("UTC again", &format!("{zones}.join() === 'UTC,UTC'"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn switch_without_calls_is_seen_and_unregistered() {
    let server = RedisServer::start();
    server.command("NUMPOOL.ADD {p} 1001 1002 1003");
    server.command("NUMPOOL.REG {p} 1001 1002 SWITCH east");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/pool?key=%7Bp%7D");
    shows(&browser, "2 numbers");
    crate::actions::click(&browser, "Unregister");
    shows(&browser, "no switch");
    let info = format!("{:?}", server.raw().call(&["NUMPOOL.SWITCHES", "{p}"]));
    assert!(!info.contains("east"), "{info}");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn printed_page_has_no_buttons_and_says_when_it_was_printed() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 5));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-3");
    browser.wait_for("the seat", "document.querySelector('.records li')", SOON);
    browser.media("print");
    browser.run("dispatchEvent(new Event('beforeprint'))");
    let shown = |selector: &str| {
        browser.run(&format!(
            "return [...document.querySelectorAll({selector:?})].filter((one) =>
            one.checkVisibility()).length"
        ))
    };
    assert_eq!(shown(".acts, .act, .save, .tools, nav, input, select"), json!(0));
    assert_eq!(shown(".map, .records li, .printed, main table"), json!(4));
    let printed = browser.run("return document.querySelector('.printed').innerText");
    assert!(printed.as_str().unwrap().contains("/show?key=show:1&seat=a-1-3"), "{printed}");
    browser.media("");
}
