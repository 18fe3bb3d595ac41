//! Shows and seats that are found: in a long list, by who has them, and by a finger on a phone.

use allot_tests::RedisServer;
use allot_tests::browser::Browser;
use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue};
use serde_json::json;

use crate::SOON;
use crate::actions::{click, opened, shows};

const SELECTED: &str = "document.querySelector('.map')?.view?.chosen.size";

/// Writes into the search and sends it.
fn search(browser: &Browser, text: &str) {
    let form = "document.querySelector('form[role=search]')";
    browser.wait_for("the search", form, SOON);
    browser.run(&format!("{form}.elements.text.value = {text:?}; {form}.requestSubmit();"));
}

#[test]
fn seats_are_found_by_user_token_and_order_in_one_show_and_in_all() {
    let server = RedisServer::start();
    for key in ["show:1", "show:2", "show:3"] {
        create(&server, key, &sample_venue(1, 9));
    }
    server.command("SEAT.PICK show:1 ann TTL 600000 TOKEN t1 SEATS 1 a-1-1");
    server.command("SEAT.PICK show:2 ann TTL 600000 TOKEN t2 SEATS 2 a-1-1 a-1-2");
    server.command("SEAT.PICK show:2 ann TTL 600000 TOKEN t3 SEATS 3 a-1-4 a-1-5 a-1-6");
    server.command("SEAT.CONFIRM show:2 t3 ORDER o3");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show");
    search(&browser, "ann");
    let found = "[...document.querySelectorAll('form[role=search] li')].map((one) =>
        one.innerText.trim().replace(/\\s+/g, ' ')).join()";
    browser.wait_for("both shows", &format!("{found} === 'show:1 1 seat,show:2 5 seats'"), SOON);
    click(&browser, "show:2");
    browser.wait_for("five seats", &format!("{SELECTED} === 5"), SOON);
    for (text, count) in [("o3", 3), ("t3", 3), ("t2", 2), ("a-1-9", 1)] {
        search(&browser, text);
        browser.wait_for(text, &format!("{SELECTED} === {count}"), SOON);
    }
    search(&browser, "nobody");
    shows(&browser, "nothing is known of nobody");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn long_list_of_shows_is_drawn_in_parts_and_filtered() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let plan = sample_venue(1, 4);
    for show in 0..450 {
        client.call(&["SEAT.CREATE", &format!("show:{show}"), &plan]);
    }
    server.command("SEAT.PICK show:321 ann TTL 600000 TOKEN t SEATS 2 a-1-1 a-1-2");
    server.command("SEAT.CONFIRM show:321 t");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show");
    shows(&browser, "450 shows");
    let rows = "document.querySelectorAll('main tbody tr').length";
    browser.wait_for("the first part", &format!("{rows} === 200"), SOON);
    shows(&browser, "250 more; the filter finds them");
    click(&browser, "200 more rows");
    browser.wait_for("the second part", &format!("{rows} === 400"), SOON);
    click(&browser, "50 more rows");
    browser.wait_for("all", &format!("{rows} === 450"), SOON);
    browser.run(
        "const find = document.querySelector('main .find'); find.value = 'show:321';
        find.dispatchEvent(new Event('input', {bubbles: true}));",
    );
    browser.wait_for("the show", &format!("{rows} === 1"), SOON);
    shows(&browser, "50 %");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn finger_selects_two_seats_and_their_row_and_sees_a_record() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(2, 5));
    server.command("SEAT.PICK show:1 ann TTL 600000 TOKEN t SEATS 1 a-1-4");
    let console = Console::start(&server, &[]);
    let browser = Browser::start();
    browser.narrow(390, 844);
    browser.go(&console.address("/show?key=show:1"));
    browser.wait_for("the map", "document.querySelector('.map')?.view?.show", SOON);
    let health = browser.run("return document.querySelector('.health').checkVisibility()");
    assert_eq!(health, json!(true));
    // A finger on the map scrolls the page, until the map is enlarged.
    let touch = || browser.run("return getComputedStyle(document.querySelector('.map')).touchAction");
    assert_eq!(touch(), "pan-y");
    browser.run("document.querySelector('.map').view.zoom(3)");
    assert_eq!(touch(), "none");
    browser.run("document.querySelector('.map').view.fit()");
    assert_eq!(touch(), "pan-y");
    for (at, seats) in [(0, 1), (3, 2)] {
        browser.run("document.querySelector('.map').scrollIntoView({block: 'center'})");
        let point = browser.run(&format!(
            "const map = document.querySelector('.map'), box = map.getBoundingClientRect(), {{ view }} = map;
            return [box.left + view.sx(view.layout.x[{at}]), box.top + view.sy(view.layout.y[{at}])]"
        ));
        browser.tap((point[0].as_f64().unwrap(), point[1].as_f64().unwrap()));
        browser.wait_for("the seat", &format!("{SELECTED} === {seats}"), SOON);
    }
    let card = "document.querySelector('.card')?.innerText";
    browser.wait_for("the record", &format!("{card}.includes('seat 4') && {card}.includes('ann')"), SOON);
    click(&browser, "row");
    browser.wait_for("the row", &format!("{SELECTED} === 5"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn holds_that_end_first_are_on_top_and_are_released_together() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 10));
    for hold in 0..10 {
        let (ttl, seat) = (600_000 - hold * 10_000, hold + 1);
        server.command(&format!("SEAT.PICK show:1 ann{hold} TTL {ttl} TOKEN t{hold} SEATS 1 a-1-{seat}"));
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-1");
    let users =
        "[...document.querySelectorAll('.holds .who')].map((one) => one.textContent).slice(0, 3).join()";
    browser.wait_for("the holds", &format!("{users} === 'ann9,ann8,ann7'"), SOON);
    click(&browser, "row");
    click(&browser, "Release 10 holds");
    let free = "document.querySelector('.map').view.show.state.every((state) => state === 1)";
    browser.wait_for("the free seats", free, SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn list_of_shows_has_the_end_of_the_next_hold_and_is_sorted_by_it() {
    let server = RedisServer::start();
    for key in ["show:1", "show:2", "show:3"] {
        create(&server, key, &sample_venue(1, 9));
    }
    server.command("SEAT.PICK show:2 ann TTL 3600000 TOKEN t1 SEATS 1 a-1-1");
    server.command("SEAT.PICK show:3 ann TTL 1800000 TOKEN t1 SEATS 1 a-1-1");
    server.command("SEAT.PICK show:3 bob TTL 900000 TOKEN t2 SEATS 1 a-1-2");
    let until = server.raw().call(&["SEAT.GET", "show:3", "a-1-2"]).field("until").int();
    let console = Console::start(&server, &[]);
    let totals = console.get("show/totals?keys=[%22show:1%22,%22show:3%22]").json();
    assert_eq!((&totals[0]["next_end"], &totals[1]["next_end"]), (&json!(null), &json!(until)), "{totals}");
    let browser = opened(&console, "/show?shows.sort=next");
    let column = |at: usize| {
        format!(
            "[...document.querySelectorAll('main tbody tr')].map((row) => row.cells[{at}].innerText.trim())"
        )
    };
    browser.wait_for("the order", &format!("{}.join() === 'show:3,show:2,show:1'", column(0)), SOON);
    let ends = format!(
        "{}.map((text) => /^\\d{{4}}-\\d\\d-\\d\\d \\d\\d:/.test(text)).join() === 'true,true,false'",
        column(7)
    );
    browser.wait_for("two ends", &ends, SOON);
    server.command("SEAT.RELEASE show:3 t2");
    server.command("SEAT.RELEASE show:3 t1");
    browser.wait_for("the other order", &format!("{}.join() === 'show:2,show:1,show:3'", column(0)), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn all_holds_are_saved_as_a_file_by_their_end() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(10, 30));
    for hold in 0..60 {
        let (row, seat) = (hold / 10 + 1, 2 * (hold % 10) + 1);
        server.command(&format!(
            "SEAT.PICK show:1 ann{hold} TTL {} TOKEN t{hold} SEATS 2 a-{row}-{seat} a-{row}-{}",
            900_000 - hold * 10_000,
            seat + 1
        ));
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    let button = "document.querySelector('[aria-label=\"Save all holds as CSV\"]')";
    browser.wait_for("the button", button, SOON);
    browser.run(&format!(
        "const make = URL.createObjectURL;
         URL.createObjectURL = (blob) => {{ blob.text().then((text) => {{ window.saved = text; }}); return make(blob); }};
         {button}.click();"
    ));
    browser.wait_for("the file", "window.saved", SOON);
    let saved = browser.run("return window.saved");
    let lines: Vec<&str> = saved.as_str().unwrap().lines().collect();
    assert_eq!((lines.len(), lines[0]), (61, "user,token,count,until,seats"));
    assert!(lines[1].starts_with("ann59,t59,2,20") && lines[1].ends_with("Z,a-6-19 a-6-20"), "{}", lines[1]);
    assert!(lines[60].starts_with("ann0,t0,2,20"), "{}", lines[60]);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn numbers_are_whole_on_a_phone() {
    let server = RedisServer::start();
    create(&server, "show:of-the-stadium-in-the-east", &sample_venue(120, 500));
    create(&server, "show:2", &sample_venue(1, 9));
    let console = Console::start(&server, &[]);
    let browser = Browser::start();
    browser.narrow(390, 844);
    browser.go(&console.address("/show"));
    shows(&browser, "60,000");
    let broken = browser.run(
        "return [...document.querySelectorAll('td.right')].filter((cell) => {
            const range = document.createRange(); range.selectNodeContents(cell);
            const lines = [...range.getClientRects()].map((box) => box.bottom);
            return Math.max(...lines) - Math.min(...lines) > 8;
        }).map((cell) => cell.textContent)",
    );
    assert_eq!(broken, json!([]));
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn key_that_is_no_text_is_listed_with_escapes() {
    let server = RedisServer::start();
    for key in [&b"show:\xff"[..], b"show:1", b"show:2"] {
        let mut command = redis::cmd("SEAT.CREATE");
        command.arg(key).arg(sample_venue(1, 4));
        command.query::<()>(&mut server.connection()).unwrap();
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show");
    shows(&browser, "show:\\xff");
    shows(&browser, "is no text and has no page");
    browser.go(&console.address("/"));
    shows(&browser, "show:\\xff");
    shows(&browser, "is no text and has no page");
    assert_eq!(browser.errors(), Vec::<String>::new());
}
