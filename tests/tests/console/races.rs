//! Clicks, answers and pages that overtake each other.

use allot_tests::browser::Browser;
use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue};
use allot_tests::{RedisServer, eventually};
use serde_json::json;

use crate::SOON;
use crate::actions::{TEXT, answer, click, log_in, opened, opened_with_token, shows};

const SELECTED: &str = "document.querySelector('.map')?.view?.chosen.size";

/// Keeps answers of the API to requests whose path or body has a text, until `window.pass()` lets them through.
fn hold_back(browser: &Browser, text: &str) {
    browser.run(&format!(
        "const {{ fetch }} = window; const kept = []; window.kept = kept;
        window.fetch = async (path, more) => {{
            const answer = await fetch(path, more);
            if (!kept.open && `${{path}} ${{more?.body || ''}}`.includes({text:?})) await new Promise((done) => kept.push(done));
            return answer;
        }};
        window.pass = () => {{ kept.open = true; kept.forEach((done) => done()); }};"
    ));
}

fn search(browser: &Browser, text: &str) {
    let form = "document.querySelector('form[role=search]')";
    browser.run(&format!("{form}.elements.text.value = {text:?}; {form}.requestSubmit();"));
}

#[test]
fn second_click_before_the_button_is_drawn_acts_once() {
    let server = RedisServer::start();
    server.command("NUMPOOL.ADD {p} 1001 1002");
    server.command("NUMPOOL.REG {p} 1001 1002 SWITCH east");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/pool?key=%7Bp%7D");
    let button = "[...document.querySelectorAll('main button')].find((one) => one.textContent === 'Suspend')";
    browser.wait_for("the button", button, SOON);
    browser.run(&format!("({button}).click()"));
    browser.wait_for("the question", "document.querySelector('dialog[open] form')", SOON);
    browser.run(
        "const form = document.querySelector('dialog[open] form'); form.requestSubmit(); form.requestSubmit();",
    );
    browser.wait_for("the undo", "document.querySelector('.undo button')", SOON);
    shows(&browser, "out of service");
    assert_eq!(server.counted("numpool.suspend", "calls"), 1);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn swap_that_is_answered_twice_is_made_once() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 5));
    for (user, seat) in [("ann", 1), ("bob", 4)] {
        server.command(&format!("SEAT.PICK show:1 {user} TTL 60000 TOKEN {user} SEATS 1 a-1-{seat}"));
        server.command(&format!("SEAT.CONFIRM show:1 {user}"));
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-1");
    browser.wait_for("the seat", &format!("{SELECTED} === 1"), SOON);
    let point = |at: usize| {
        let place = browser.run(&format!(
            "const map = document.querySelector('.map'), box = map.getBoundingClientRect(), {{ view }} = map;
            return [box.left + view.sx(view.layout.x[{at}]), box.top + view.sy(view.layout.y[{at}])]"
        ));
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    };
    browser.drag(point(0), point(3));
    browser.wait_for("the question", "document.querySelector('dialog[open] form')", SOON);
    hold_back(&browser, "SEAT.MOVE");
    browser.run("document.querySelector('dialog[open] form').requestSubmit()");
    browser.wait_for("the answer", "window.kept.length", SOON);
    browser.run("document.querySelector('dialog[open] form')?.requestSubmit(); window.pass()");
    shows(&browser, "went to another place");
    assert_eq!(server.counted("seat.move", "calls"), 1);
    assert_eq!(server.raw().call(&["SEAT.GET", "show:1", "a-1-4"]).field("user").text(), "ann");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn search_that_was_sent_last_is_the_one_that_counts() {
    let server = RedisServer::start();
    for key in ["show:1", "show:2"] {
        create(&server, key, &sample_venue(1, 9));
    }
    server.command("SEAT.PICK show:1 ann TTL 600000 TOKEN t1 SEATS 3 a-1-1 a-1-2 a-1-3");
    server.command("SEAT.PICK show:1 bob TTL 600000 TOKEN t2 SEATS 2 a-1-5 a-1-6");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    browser.wait_for("the map", "document.querySelector('.map')?.view?.show", SOON);
    hold_back(&browser, "text=ann");
    search(&browser, "ann");
    browser.wait_for("the first answer", "window.kept.length", SOON);
    search(&browser, "bob");
    browser.wait_for("the seats of bob", &format!("{SELECTED} === 2"), SOON);
    browser.run("window.pass()");
    // In all shows, too; the answer of the first search comes while the second is over.
    let late = browser.run(&format!("return new Promise((done) => setTimeout(() => done({SELECTED}), 300))"));
    assert_eq!(late, 2);
    browser.go(&console.address("/show"));
    shows(&browser, "2 shows");
    hold_back(&browser, "text=ann");
    search(&browser, "ann");
    browser.wait_for("the first answer", "window.kept.length", SOON);
    search(&browser, "bob");
    let found =
        "document.querySelector('form[role=search] [role=status]').innerText.replace(/\\s+/g, ' ').trim()";
    browser.wait_for("the seats of bob", &format!("{found} === 'bob: show:1 2 seats'"), SOON);
    browser.run("window.pass()");
    let late = browser.run(&format!("return new Promise((done) => setTimeout(() => done({found}), 300))"));
    assert_eq!(late, "bob: show:1 2 seats");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn undo_is_offered_on_the_page_of_its_action_alone() {
    let server = RedisServer::start();
    for key in ["show:1", "show:2"] {
        create(&server, key, &sample_venue(1, 5));
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-1");
    browser.wait_for("the seat", "document.querySelector('.records li')", SOON);
    hold_back(&browser, "SEAT.BLOCK");
    click(&browser, "Block 1");
    browser.wait_for("the answer", "window.kept.length", SOON);
    let choose = |key: &str| {
        browser.run(&format!(
            "const choice = document.querySelector('.choice select'); choice.value = {key:?};
            choice.dispatchEvent(new Event('change', {{bubbles: true}}))"
        ));
        browser.wait_for(key, &format!("document.title === 'Show {key} · Allot'"), SOON);
    };
    choose("show:2");
    browser.run("window.pass()");
    let late = browser.run(
        "return new Promise((done) => setTimeout(() => done(document.querySelectorAll('.undo').length), 300))",
    );
    assert_eq!(late, 0);
    choose("show:1");
    browser.wait_for("the undo", "document.querySelector('.undo button')", SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn refusal_of_the_session_before_does_not_end_this_one() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(2, 5));
    let token = "operator-token-of-the-test";
    let (_console, browser) = opened_with_token(&server, token, "/show?key=show:1&seat=a-1-1");
    let log_in = || {
        log_in(&browser, token);
        browser.wait_for("the seat", "document.querySelector('.records li')", SOON);
    };
    log_in();
    // The session ends while a request of it is answered; the answer comes after the next login.
    hold_back(&browser, "show/holds-of-before");
    browser.run(
        "window.late = import('/lib/api.js').then(async ({ get }) => {
            await fetch('/api/v1/session', {method: 'DELETE', headers: {'x-allot-request': '1'}});
            return get('show/holds-of-before', {key: 'show:1'}).catch((error) => error.message);
        }); return 1",
    );
    browser.wait_for("the refusal", "window.kept.length", SOON);
    log_in();
    browser.run("window.pass(); return window.late");
    // The page asks what its session may do, and goes on.
    browser.wait_for(
        "the seat",
        "document.querySelector('.records li') && !document.querySelector('.login')",
        SOON,
    );
    server.command("SEAT.BLOCK show:1 1 a-1-3");
    browser.wait_for("live values", "document.querySelector('.count-blocked')?.textContent === '1'", SOON);
}

#[test]
fn list_that_cannot_be_read_again_stays_and_says_so() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 5));
    server.command("SEAT.PICK show:1 ann TTL 600000 TOKEN t SEATS 1 a-1-1");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    browser.wait_for("the hold", "document.querySelector('.holds li')", SOON);
    browser.run(
        "const { fetch } = window; window.fetch = (path, more) => String(path).includes('show/holds')
            ? Promise.resolve(new Response('{\"message\": \"no holds today\"}', {status: 503})) : fetch(path, more);",
    );
    shows(&browser, "The holds cannot be read: no holds today");
    let holds = browser.run("return document.querySelectorAll('.holds li').length");
    assert_eq!(holds, 1);
    assert!(!browser.run(&format!("return {TEXT}")).as_str().unwrap().contains("No seat is held"));
}

#[test]
fn records_of_an_earlier_selection_are_not_acted_on() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 5));
    server.command("SEAT.PICK show:1 ann TTL 600000 TOKEN t1 SEATS 1 a-1-1");
    server.command("SEAT.PICK show:1 bob TTL 600000 TOKEN t2 SEATS 1 a-1-5");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-1");
    shows(&browser, "user ann");
    hold_back(&browser, "show/seats");
    browser.run("document.querySelector('.holds li:nth-child(2) button').click()");
    browser.wait_for("the other title", "document.title.startsWith('a-1-5')", SOON);
    // The seat of bob is shown, and its record is not there yet.
    let buttons = "[...document.querySelectorAll('.acts button')].map((one) => one.textContent)";
    assert_eq!(browser.run(&format!("return {buttons}.includes('Release')")), json!(false));
    assert!(
        !browser.run("return document.querySelector('.records').innerText").as_str().unwrap().contains("ann")
    );
    browser.run("window.pass()");
    shows(&browser, "user bob");
    click(&browser, "Release");
    answer(&browser, "");
    eventually("the release", SOON, || {
        server.raw().call(&["SEAT.GET", "show:1", "a-1-5"]).field("state").text() == "free"
    });
    assert_eq!(server.raw().call(&["SEAT.GET", "show:1", "a-1-1"]).field("state").text(), "held");
}

#[test]
fn read_that_hangs_when_the_console_goes_is_repeated_when_it_is_back() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 5));
    server.command("SEAT.PICK show:1 ann TTL 600000 TOKEN t SEATS 1 a-1-1");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    browser.wait_for("the hold", "document.querySelector('.holds li')", SOON);
    // As where a network that is cut loses an answer: one read gets none.
    browser.run(
        "const { fetch } = window; window.hung = 0; window.fetch = (path, more) =>
            String(path).includes('show/holds') && window.hung === 0
                ? new Promise((_, no) => {
                    window.hung = 1;
                    more.signal.addEventListener('abort', () => no(new Error('aborted')));
                })
                : fetch(path, more);",
    );
    browser.wait_for("the read that hangs", "window.hung", SOON);
    console.process.pause();
    browser.wait_for("old values", "document.querySelector('.values.old')", SOON);
    console.process.resume();
    server.command("SEAT.PICK show:1 bob TTL 600000 TOKEN u SEATS 1 a-1-2");
    let holds = "document.querySelectorAll('.holds li').length === 2";
    browser.wait_for("the other hold", holds, SOON / 2);
    assert_eq!(browser.errors(), Vec::<String>::new());
}
