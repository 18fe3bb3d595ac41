//! A page never shows old values as new ones: it says which part is away, in a few seconds, and nothing acts on them.

use allot_tests::RedisServer;
use allot_tests::browser::Browser;
use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue};

use crate::SOON;
use crate::actions::{TEXT, log_in, opened, opened_with_token, shows};

/// The number of sold seats that the page of a show has.
const SOLD: &str = "document.querySelector('.count-sold')?.textContent";
/// Whether the page says that its values are old, and all of its buttons that act are off.
const OLD: &str = "document.querySelector('.values.old') && /Values as of \\d\\d:\\d\\d:\\d\\d/.test(document.querySelector('.trouble').innerText)
    && [...document.querySelectorAll('.act button')].every((one) => one.disabled)";
const NEW: &str = "!document.querySelector('.trouble') && document.querySelector('.values:not(.old)')
    && [...document.querySelectorAll('.act button')].some((one) => !one.disabled)";

fn with_a_show() -> (RedisServer, Console, Browser) {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(2, 5));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-1");
    browser.wait_for("the seat and its buttons", NEW, SOON);
    (server, console, browser)
}

#[test]
fn page_of_a_console_that_is_suspended_says_so_and_acts_no_more() {
    let (server, console, browser) = with_a_show();
    console.process.pause();
    shows(&browser, "The console does not answer");
    browser.wait_for("old values", OLD, SOON);
    browser.wait_for(
        "the health",
        "document.querySelector('.health').innerText === 'The console is away'",
        SOON,
    );
    server.command("SEAT.PICK show:1 ann TTL 60000 TOKEN t SEATS 1 a-1-2");
    server.command("SEAT.CONFIRM show:1 t");
    console.process.resume();
    browser.wait_for("new values", NEW, SOON);
    browser.wait_for("the sale", &format!("{SOLD} === '1'"), SOON);
}

#[test]
fn page_says_that_redis_does_not_answer_and_that_it_is_gone() {
    let (server, _console, browser) = with_a_show();
    server.pause();
    shows(&browser, "The server has not answered for some seconds");
    browser.wait_for("old values", OLD, SOON);
    browser.wait_for("the health", "document.querySelector('.health').innerText === 'Redis is away'", SOON);
    server.resume();
    browser.wait_for("new values", NEW, SOON);
    server.kill9();
    shows(&browser, "Redis is away:");
    browser.wait_for("old values", OLD, SOON);
}

#[test]
fn page_does_not_say_that_there_is_nothing_before_it_has_read() {
    let server = RedisServer::start();
    server.command("ACCOUNT.BOOK {b}:accounts");
    let console = Console::start(&server, &[]);
    server.pause();
    let browser = opened(&console, "/accounts");
    shows(&browser, "The server has not answered for some seconds");
    assert!(!browser.run(&format!("return {TEXT}")).as_str().unwrap().contains("There is no book"));
    server.resume();
    shows(&browser, "No account is in transit");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn page_of_a_show_that_is_deleted_says_so() {
    let (server, _console, browser) = with_a_show();
    server.command("DEL show:1");
    shows(&browser, "It was deleted, or has never been");
    browser.wait_for("old values", OLD, SOON);
    browser.wait_for("the health", "document.querySelector('.health').innerText === 'live'", SOON);
    create(&server, "show:1", &sample_venue(3, 4));
    browser.wait_for("the new show", NEW, SOON);
    browser.wait_for("its seats", &format!("/12\\s+of 12 free/.test({TEXT})"), SOON);
}

#[test]
fn page_of_a_session_that_has_ended_is_there_again_after_the_login() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(2, 5));
    let token = "operator-token-of-the-test";
    let (_console, browser) = opened_with_token(&server, token, "/show?key=show:1&seat=a-1-1");
    let log_in = || {
        log_in(&browser, token);
        browser.wait_for("the seat and its buttons", NEW, SOON);
    };
    log_in();
    // The cookie goes, as at the end of its time.
    browser.run(
        "return fetch('/api/v1/session', {method: 'DELETE', headers: {'x-allot-request': '1'}}).then(() => 1)",
    );
    log_in();
    let address = browser.run("return location.pathname + location.search");
    assert_eq!(address, "/show?key=show:1&seat=a-1-1");
}

#[test]
fn six_windows_at_once_are_all_live() {
    let server = RedisServer::start();
    for number in 1..=6 {
        create(&server, &format!("show:{number}"), &sample_venue(2, 5));
    }
    let console = Console::start(&server, &[]);
    let browser = Browser::start();
    let windows: Vec<String> = (1..=6)
        .map(|number| {
            let window = browser.open_window();
            browser.go(&console.address(&format!("/show?key=show:{number}&seat=a-1-1")));
            window
        })
        .collect();
    for (window, number) in windows.iter().zip(1..) {
        browser.enter(window);
        browser.wait_for("the seat and its buttons", NEW, SOON);
        server.command(&format!("SEAT.PICK show:{number} ann TTL 60000 TOKEN t SEATS 1 a-1-2"));
        server.command(&format!("SEAT.CONFIRM show:{number} t"));
        browser.wait_for("the sale", &format!("{SOLD} === '1'"), SOON);
        let status = browser.run("return fetch('/api/v1/session').then((answer) => answer.status)");
        assert_eq!(status, 200);
        assert_eq!(browser.errors(), Vec::<String>::new());
    }
}

/// Whether a line of a chart has values, then a gap, and then values again.
fn has_gap(chart: &str) -> String {
    format!(
        "/v+n+v/.test([...({chart}?.chart?.data[1] || [])].map((value) => value === null ? 'n' : 'v').join(''))"
    )
}

#[test]
fn charts_have_a_gap_where_values_were_old() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(2, 5));
    let console = Console::start(&server, &[]);
    // The page of a show makes its own points; those of the overview come from the console.
    let browser = Browser::start();
    let pages = [
        ("/show?key=show:1", "document.querySelector('[aria-label^=\"Seats since\"] .chart')"),
        ("/", "document.querySelector('[aria-label^=\"Grants\"] .chart')"),
    ];
    let windows = pages.map(|(path, chart)| {
        let window = browser.open_window();
        browser.go(&console.address(path));
        let points = format!("({chart}?.chart?.data[1].length || 0) > 2");
        browser.wait_for("some points", &points, SOON);
        assert_eq!(browser.run(&format!("return {}", has_gap(chart))), false);
        window
    });
    server.pause();
    for window in &windows {
        browser.enter(window);
        browser.wait_for("old values", "document.querySelector('.values.old')", SOON);
    }
    // Longer than the time between two points after which a line has a gap.
    browser.run("window.began = performance.now()");
    browser.wait_for("some seconds", "performance.now() - window.began > 6000", SOON);
    server.resume();
    for (window, (path, chart)) in windows.iter().zip(pages) {
        browser.enter(window);
        browser.wait_for(&format!("the gap of {path}"), &has_gap(chart), SOON);
        assert_eq!(browser.errors(), Vec::<String>::new());
    }
}
