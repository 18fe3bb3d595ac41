//! What makes a page easy to pass on and to use without a mouse: its address, its title, its times, keys and paper.

use allot_tests::RedisServer;
use allot_tests::consoles::Console;
use allot_tests::shows::{THEATRE, create, sample_venue, with_events};
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

/// Scrolls a panel into the middle of the window. Gives the names of the panels that are seen at its corners and in its
/// middle, as far as they are in the window: only its own, if nothing covers it.
const COVERS: &str = "const panel = document.querySelector(SELECTOR); panel.scrollIntoView({block: 'center'});
    const box = panel.getBoundingClientRect(), seen = new Set();
    for (const x of [box.left + 8, (box.left + box.right) / 2, box.right - 8])
        for (const y of [box.top + 8, (box.top + box.bottom) / 2, box.bottom - 8]) {
            if (y < 60 || y > innerHeight - 1) continue;
            const at = document.elementFromPoint(x, y);
            seen.add(at?.closest('section')?.getAttribute('aria-label') || at?.closest('div')?.className || 'nothing');
        }
    return [...seen].join();";

#[test]
fn map_covers_nothing_when_the_page_is_scrolled() {
    let server = RedisServer::start();
    create(&server, "show:1", THEATRE);
    for user in 0..12 {
        server.command(&format!("SEAT.HOLD show:1 ann{user} 2 TTL 600000 TOKEN t{user}"));
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    for (width, height) in [(1280, 720), (1440, 900), (1920, 1080), (390, 844)] {
        browser.narrow(width, height);
        browser.go(&console.address("/show?key=show:1"));
        browser.wait_for("the map", MAP, SOON);
        browser.wait_for("the holds", "document.querySelector('.holds li')", SOON);
        for name in ["Waiting list", "Areas", "Holds"] {
            let script = COVERS.replace("SELECTOR", &format!("'section[aria-label=\"{name}\"]'"));
            assert_eq!(browser.run(&script), name, "{width} x {height}");
        }
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn way_back_has_every_page_and_every_thing_that_was_seen() {
    let server = RedisServer::start();
    for key in ["show:1", "show:2"] {
        create(&server, key, &sample_venue(1, 5));
    }
    for line in [
        "CONF.REALM {r} CREATETIMEOUT 600000",
        "CMU.JOIN {r} u1 CAPACITY 5 LEASE 600000",
        "CMU.REPORT {r} u1 HIGHEST 0",
        "CONF.CREATE {r} 4930 END 99999999999999",
        "CONF.CREATE {r} 4931 END 99999999999999",
    ] {
        server.command(line);
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/");
    let at = |title: &str| browser.wait_for(title, &format!("{TITLE} === '{title} · Allot'"), SOON);
    let press = |selector: &str, text: &str| {
        let found = format!(
            "[...document.querySelectorAll({selector:?})].find((one) => one.textContent.trim() === {text:?})"
        );
        browser.wait_for(text, &found, SOON);
        browser.run(&format!("{found}.click()"));
    };
    at("Overview");
    press("nav a", "Shows");
    at("Shows");
    press("main td a", "show:1");
    at("Show show:1");
    browser.wait_for("the map", MAP, SOON);
    browser.run(&format!("{PRESS} press('Enter', 'Enter')"));
    at("a-1-3 · Show show:1");
    // Another show, without the seat of the first one.
    browser.run(
        "const choice = document.querySelector('.choice select'); choice.value = 'show:2';
        choice.dispatchEvent(new Event('change', {bubbles: true}))",
    );
    at("Show show:2");
    press("nav a", "Realm");
    at("Realm {r}");
    press("main tbody td", "4930");
    at("4930 · Realm {r}");
    press("main tbody td", "4931");
    at("4931 · Realm {r}");
    // A link to the page where one is makes no step.
    press("nav a", "Overview");
    at("Overview");
    press("nav a", "Overview");
    let back = || browser.run("history.back()");
    for title in [
        "4931 · Realm {r}",
        "4930 · Realm {r}",
        "Realm {r}",
        "Show show:2",
        "a-1-3 · Show show:1",
        "Shows",
        "Overview",
    ] {
        back();
        at(title);
    }
    for title in ["Shows", "a-1-3 · Show show:1", "Show show:2"] {
        browser.run("history.forward()");
        at(title);
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}
