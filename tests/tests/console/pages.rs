//! The pages, in a real browser: they show the truth soon after a change, and hostile names do no harm.

use std::time::{Duration, Instant};

use allot_tests::browser::Browser;
use allot_tests::consoles::Console;
use allot_tests::shows::{create, sample_venue};
use allot_tests::{RedisServer, eventually};
use serde_json::json;

use crate::SOON;
use crate::actions::{TEXT, answer, click, opened, shows};

/// The states of all seats in the map of the page, as numbers.
const STATES: &str = "Array.from(document.querySelector('.map').view.show.state).join('')";

fn shows_map(browser: &Browser) {
    browser.wait_for("the map", "document.querySelector('.map')?.view?.show", Duration::from_secs(30));
}

#[test]
fn seat_that_is_held_changes_its_colour_on_the_open_map() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(2, 5));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    shows_map(&browser);
    assert_eq!(browser.run(&format!("return {STATES}")), "1111111111");
    server.command("SEAT.PICK show:1 ann TTL 60000 TOKEN t SEATS 2 a-1-2 a-2-5");
    browser.wait_for("the held seats", &format!("{STATES} === '1211111112'"), SOON);
    server.command("SEAT.CONFIRM show:1 t");
    browser.wait_for("the sold seats", &format!("{STATES} === '1311111113'"), SOON);
    // A machine that is busy with other tests delays some changes; a page that is too slow delays all.
    let delays = (0..5).map(|round| {
        server.command(&format!("SEAT.{} show:1 1 a-1-1", if round % 2 == 0 { "BLOCK" } else { "UNBLOCK" }));
        let began = Instant::now();
        let wanted = if round % 2 == 0 { "4311111113" } else { "1311111113" };
        browser.wait_for("the blocked seat", &format!("{STATES} === '{wanted}'"), SOON);
        began.elapsed()
    });
    let fastest = delays.min().unwrap();
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    browser.wait_for("the count", "document.querySelector('.count-sold').textContent === '2'", SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn hall_is_drawn_where_its_plan_says_in_the_order_of_its_rows() {
    let server = RedisServer::start();
    let row = |label: &str, rank: i32, y: i32| json!({"label": label, "rank": rank, "tier": "t", "seats": "1-3", "at": [0, y], "step": [50, 0]});
    // The stage is below, so row 2 is sold first, and row 1 is listed first. The gallery is above the stalls, and is drawn beside them.
    let area = |id: &str| json!({"id": id, "rule": "focus", "rows": [row("1", 1, 0), row("2", 2, 100)]});
    let plan = json!({"areas": [area("stalls"), area("gallery")], "focus": [50, 300]});
    create(&server, "show:1", &plan.to_string());
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    shows_map(&browser);
    let layout = "const { layout } = document.querySelector('.map').view; return";
    assert_eq!(browser.run(&format!("{layout} layout.kind")), "places");
    assert_eq!(browser.run(&format!("{layout} [...layout.x].join(' ')")), "0 1 2 0 1 2 6 7 8 6 7 8");
    assert_eq!(browser.run(&format!("{layout} [...layout.y].join(' ')")), "0 0 0 2 2 2 0 0 0 2 2 2");
    let stages = "layout.shapes.filter((shape) => shape.kind === 'stage').map((shape) => shape.at.join(','))";
    assert_eq!(browser.run(&format!("{layout} {stages}.join(' ')")), "1,6 7,6");
    server.command("SEAT.PICK show:1 ann TTL 60000 TOKEN t SEATS 1 stalls-2-1");
    browser.wait_for("the held seat", &format!("{STATES} === '111211111111'"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn map_is_equal_to_redis_after_a_rush() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(300, 200));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    shows_map(&browser);
    let rush = ["show", "rehearse", "--really", "show:1", "--yes", "--buyers", "200", "--duration", "3s"];
    allot_tests::daemon::run(&server, &rush).ok();
    let mut connection = server.connection();
    let rows: Vec<(String, String)> =
        redis::cmd("SEAT.MAP").arg("show:1").arg("a").query(&mut connection).unwrap();
    let digit = |seat: char| match seat {
        '.' => '1',
        'h' => '2',
        's' => '3',
        _ => '4',
    };
    let wanted: String = rows.iter().flat_map(|(_, seats)| seats.chars()).map(digit).collect();
    assert!(wanted.contains('3'));
    browser.wait_for("the map of Redis", &format!("{STATES} === '{wanted}'"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn operator_blocks_a_selected_seat() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 4));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=a-1-3");
    let button =
        "[...document.querySelectorAll('.acts button')].find((one) => one.textContent.startsWith('Block'))";
    browser.wait_for("the button", button, SOON);
    browser.run(&format!("({button}).click()"));
    answer(&browser, "");
    browser.wait_for("the blocked seat", &format!("{STATES} === '1141'"), SOON);
    let map = server.raw().call(&["SEAT.MAP", "show:1", "a"]);
    assert_eq!(map.array()[0].array()[1].text(), "..x.");
}

#[test]
fn seat_with_an_id_of_its_own_is_found_and_blocked() {
    let server = RedisServer::start();
    let seats = json!([{"label": "1", "id": "VIP:7", "tier": "t"}, {"label": "2", "tier": "t"}]);
    let plan = json!({"areas": [{"id": "a", "rows": [{"label": "A", "rank": 1, "seats": seats}]}]});
    create(&server, "show:1", &plan.to_string());
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1&seat=VIP:7");
    let button =
        "[...document.querySelectorAll('.acts button')].find((one) => one.textContent.startsWith('Block'))";
    browser.wait_for("the button", button, SOON);
    browser.run(&format!("({button}).click()"));
    answer(&browser, "");
    browser.wait_for("the blocked seat", &format!("{STATES} === '41'"), SOON);
    server.command("SEAT.UNBLOCK show:1 1 VIP:7");
    server.command("SEAT.PICK show:1 ann TTL 60000 TOKEN t SEATS 1 VIP:7");
    browser.wait_for("the hold", "document.querySelector('.holds li')", SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn standing_area_is_a_row_of_counts_that_a_hold_changes() {
    let server = RedisServer::start();
    let floor = json!({"id": "floor", "name": "Floor", "standing": 50, "tier": "pit"});
    let stalls = json!({"id": "a", "rows": [{"label": "1", "rank": 1, "tier": "t", "seats": "1-4"}]});
    create(&server, "show:1", &json!({"areas": [stalls, floor]}).to_string());
    // This show has nothing to draw.
    create(&server, "show:2", &json!({"areas": [floor]}).to_string());
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/");
    let counts = "[...document.querySelectorAll('main tbody tr')]
        .map((row) => [...row.cells].slice(0, 7).map((cell) => cell.textContent.trim()).join('|'))
        .find((row) => row.startsWith('Floor standing'))";
    for key in ["show:1", "show:2"] {
        browser.go(&console.address(&format!("/show?key={key}")));
        let row = |counts: &str| format!("Floor standing|pit|1|50|{counts}");
        let becomes = |what: &str, wanted: &str| {
            browser.wait_for(what, &format!("({counts}) === {:?}", row(wanted)), SOON);
        };
        becomes("the free places", "50|0|0");
        server.command(&format!("SEAT.HOLD {key} ann 2 TTL 60000 TIER pit TOKEN t"));
        becomes("the held places", "48|2|0");
        server.command(&format!("SEAT.CONFIRM {key} t"));
        becomes("the sold places", "48|0|2");
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn waiting_user_is_seen_and_taken_off_the_list() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(1, 2));
    server.command("SEAT.PICK show:1 ann TTL 600000 TOKEN t SEATS 2 a-1-1 a-1-2");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    shows_map(&browser);
    shows(&browser, "Nobody waits");
    server.command("SEAT.WAIT show:1 bob 1 TTL 600000 OFFER 60000 TOKEN bob-1");
    shows(&browser, "bob-1");
    click(&browser, "Take off");
    shows(&browser, "Nobody waits");
    assert_eq!(server.raw().call(&["SEAT.LIST", "show:1", "WAITING"]).array()[3].array().len(), 0);
    browser.run(
        "const user = document.querySelector('#waiting input'); user.value = 'cid';
        user.dispatchEvent(new Event('input', {bubbles: true}));",
    );
    click(&browser, "Serve or wait");
    shows(&browser, "cid waits as number 1");
    server.command("SEAT.RELEASE show:1 t");
    shows(&browser, "Nobody waits");
    browser.wait_for("the seats of cid", &format!("{STATES} === '22'"), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

/// Follows a show whose map cannot be read while 500 changes come. The map that comes then has the number 100; the next
/// one has all changes. Gives the number of reads, and the number and the states of the map in the end.
const LATE_MAP: &str = "
    const map = (seq, row) => new Response(JSON.stringify({seq, now: 0, areas: [[row]],
        plan: {areas: [{id: 'a', rows: [{label: '1', rank: 1, tier: 't', seats: '1-2'}]}]}}));
    let reads = 0, answer;
    const [fetched, posted] = [window.fetch, MessagePort.prototype.postMessage];
    window.fetch = () => (reads += 1) === 1 ? new Promise((done) => { answer = done; }) : Promise.resolve(map(500, 'ss'));
    let port;
    MessagePort.prototype.postMessage = function () { port = this; };
    const { follow } = await import('/map/live.js');
    let show;
    const none = () => {};
    const end = follow('k', {loaded: (found) => { show = found; }, changed: none, events: none, waiting: none, trouble: none, clock: none});
    const told = (event, data) => port.onmessage({data: {event, topic: 'k', data}});
    told('resync', 1);
    for (let seq = 1; seq <= 500; seq += 1)
        told('changes', {seq, now: 0, free: [], held: seq === 200 ? [0] : [], sold: [], blocked: []});
    answer(map(100, '..'));
    for (let turn = 0; turn < 100 && show?.seq !== 500; turn += 1) await new Promise((done) => setTimeout(done, 20));
    end();
    window.fetch = fetched;
    MessagePort.prototype.postMessage = posted;
    return [reads, show.seq, Array.from(show.state).join('')];";

#[test]
fn map_that_comes_late_is_read_again() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/");
    shows(&browser, "master");
    let found = browser.run(&format!("return (async () => {{ {LATE_MAP} }})()"));
    assert_eq!(found, json!([2, 500, "33"]));
}

#[test]
fn hostile_names_are_text_on_every_page() {
    let server = RedisServer::start();
    let evil = "<script>window.harmed=1</script><img src=x onerror='window.harmed=1'>\"'&\u{1}\u{7f}";
    let long = "w".repeat(256);
    let plan = json!({"areas": [
        {"id": evil, "name": evil, "rows": [{"label": evil, "rank": 1, "tier": evil, "seats": [{"label": evil}]}]},
        {"id": "b", "name": long, "rows": [{"label": "1", "rank": 1, "tier": long, "seats": "1-3"}]}]});
    let mut connection = server.connection();
    let run = |connection: &mut redis::Connection, parts: &[&str]| {
        let mut command = redis::cmd(parts[0]);
        command.arg(&parts[1..]);
        command.query::<redis::Value>(connection).unwrap_or_else(|error| panic!("{parts:?}: {error}"));
    };
    run(&mut connection, &["SEAT.CREATE", evil, &plan.to_string()]);
    let seat = format!("{evil}-{evil}-{evil}");
    run(&mut connection, &["SEAT.PICK", evil, evil, "TTL", "60000", "TOKEN", evil, "SEATS", "1", &seat]);
    run(&mut connection, &["CONF.REALM", "{r}<i>:conf"]);
    run(&mut connection, &["CMU.JOIN", "{r}<i>:conf", "u/<b>\"'", "CAPACITY", "3", "LEASE", "60000"]);
    run(&mut connection, &["NUMPOOL.ADD", "{p}<i>", "1"]);
    run(&mut connection, &["ACCOUNT.BOOK", "{b}<i>"]);
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/");
    for (page, selector) in [
        ("/show", ".map"),
        ("/realm", ".unit"),
        ("/pool", ".stack"),
        ("/accounts", ".tree"),
        ("/", ".figures"),
    ] {
        browser.go(&console.address(page));
        browser.wait_for(page, &format!("document.querySelector({selector:?})"), SOON);
        if page == "/show" {
            shows_map(&browser);
            browser.wait_for("the hold", "document.querySelector('.holds li')", SOON);
        }
        assert_eq!(browser.run("return window.harmed ?? null"), json!(null), "{page}");
        assert_eq!(
            browser
                .run("return document.querySelectorAll('main img, main script, main i:not([style])').length"),
            0,
            "{page}"
        );
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn restart_of_redis_under_an_open_page_is_told_and_survived() {
    let server = RedisServer::builder().arg("save", "3600 1").start();
    create(&server, "show:1", &sample_venue(1, 3));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    shows_map(&browser);
    server.shutdown();
    browser.wait_for("the page to say so", "document.querySelector('.trouble')", SOON);
    server.restart();
    server.command("SEAT.BLOCK show:1 1 a-1-2");
    browser.wait_for("the page to recover", "!document.querySelector('.trouble')", Duration::from_secs(20));
    browser.wait_for("the change", &format!("{STATES} === '141'"), SOON);
}

#[test]
fn dead_unit_and_its_conferences_are_seen_on_the_realm_page() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    for line in [
        "CONF.REALM {r}:conf CREATETIMEOUT 600000",
        "CMU.JOIN {r}:conf u1 CAPACITY 5 LEASE 60000",
        "CMU.REPORT {r}:conf u1 HIGHEST 0",
        "CONF.CREATE {r}:conf 4930 END 99999999999999",
    ] {
        server.command(line);
    }
    let browser = opened(&console, "/realm?key=%7Br%7D:conf");
    browser.wait_for("the unit", "document.querySelector('.unit.up .call')", SOON);
    server.command("CMU.DOWN {r}:conf u1");
    browser.wait_for("the unit to be down", "document.querySelector('.unit.down')", SOON);
    browser.wait_for("the conference to wait", "document.querySelector('.pending-box .call.pending')", SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn unit_shows_how_many_of_its_conferences_find_no_room_if_it_dies() {
    let server = RedisServer::start();
    let console = Console::start(&server, &[]);
    for line in [
        "CONF.REALM {r}:conf CREATETIMEOUT 600000",
        "CMU.JOIN {r}:conf u1 CAPACITY 3 LEASE 600000",
        "CMU.JOIN {r}:conf u2 CAPACITY 3 LEASE 600000",
        "CONF.CREATE {r}:conf 1",
        "CONF.CREATE {r}:conf 2",
        "CONF.CREATE {r}:conf 3",
        "CONF.CREATE {r}:conf 4",
    ] {
        server.command(line);
    }
    let covers = |wanted: &str| {
        format!(
            "[...document.querySelectorAll('.unit .cover')].map((one) => one.textContent).join() === '{wanted}'"
        )
    };
    let browser = opened(&console, "/realm?key=%7Br%7D:conf");
    let tight = "1 of 2 find no room if it dies";
    browser.wait_for("the lack of room", &covers(&format!("{tight},{tight}")), SOON);
    server.command("CMU.JOIN {r}:conf u3 CAPACITY 3 LEASE 600000");
    let roomy = "0 of 2 find no room if it dies";
    browser.wait_for("the room of another unit", &covers(&format!("{roomy},{roomy}")), SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn host_without_a_unit_is_drained_on_the_realm_page() {
    let server = RedisServer::start();
    server.command("CONF.REALM {r}");
    server.command("CMU.JOIN {r} 10.0.0.1:4711:1 CAPACITY 5 LEASE 600000");
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/realm?key=%7Br%7D");
    shows(&browser, "No host is drained");
    let button =
        "[...document.querySelectorAll('main button')].find((one) => one.textContent === 'Drain a host')";
    browser.wait_for("the button", button, SOON);
    browser.run(&format!("({button}).click()"));
    browser.wait_for("the question", "document.querySelector('dialog[open] form')", SOON);
    let typed = |host: &str| {
        browser.run(&format!(
            "const {{ typed }} = document.querySelector('dialog[open] form').elements; typed.value = {host:?};
            typed.dispatchEvent(new Event('input', {{bubbles: true}}))"
        ));
    };
    let asked = "document.querySelector('dialog[open] p').innerText";
    typed("10.0.0.1");
    browser.wait_for("its unit", &format!("{asked}.includes('its 0 conferences stay')"), SOON);
    typed("10.0.0.9");
    browser.wait_for("no unit", &format!("{asked}.includes('it has no unit now')"), SOON);
    answer(&browser, "10.0.0.9");
    let hosts = "document.querySelector('[aria-label=\"Drained hosts\"]').innerText";
    browser.wait_for("the host", &format!("/10.0.0.9\\s+no unit now/.test({hosts})"), SOON);
    server.command("CMU.JOIN {r} 10.0.0.9:4711:1 CAPACITY 5 LEASE 600000");
    browser.wait_for("its unit drains", "document.querySelector('.unit.draining')", SOON);
    click(&browser, "Undrain");
    shows(&browser, "No host is drained");
    browser.wait_for("the unit", "!document.querySelector('.unit.draining')", SOON);
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn unit_on_which_creations_fail_says_so_and_until_when() {
    let server = RedisServer::start();
    for line in [
        "CONF.REALM {r} FAILURES 1 TRIES 1 CREATETIMEOUT 200",
        "CMU.JOIN {r} u1 CAPACITY 5 LEASE 600000",
        "CMU.REPORT {r} u1 HIGHEST 0",
        "CONF.CREATE {r} 4930 END 99999999999999",
    ] {
        server.command(line);
    }
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/realm?key=%7Br%7D");
    shows(&browser, "1 creations failed in a row");
    // Each further failure makes the pause longer, until the page has seen one.
    let mut number = 4931;
    eventually("the back-off", SOON, || {
        server.raw().words(&format!("CONF.CREATE {{r}} {number} END 99999999999999"));
        number += 1;
        browser.run(&format!("return /nothing new for \\d+ s/.test({TEXT})")) == true
    });
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn only_layers_that_have_changed_are_drawn_and_marks_fade() {
    let server = RedisServer::start();
    create(&server, "show:1", &sample_venue(20, 50));
    let console = Console::start(&server, &[]);
    let browser = opened(&console, "/show?key=show:1");
    shows_map(&browser);
    browser.run(
        "const { view } = document.querySelector('.map'); window.drawn = {Below: 0, Seats: 0, Names: 0, Above: 0};
        for (const layer of Object.keys(window.drawn)) {
            const draw = view[`draw${layer}`].bind(view);
            view[`draw${layer}`] = () => { window.drawn[layer] += 1; draw(); };
        }",
    );
    // All layers are drawn once more, when the page has its last size; then nothing is.
    browser.run("document.querySelector('.map').view.draw()");
    browser.wait_for(
        "the whole map",
        "window.drawn.Below > 0 && !document.querySelector('.map').view.asked",
        SOON,
    );
    browser.run("for (const layer of Object.keys(window.drawn)) window.drawn[layer] = 0");
    // As many seats as in a rush are marked, and then none.
    let seats = (1..=20).flat_map(|row| (1..=25).map(move |seat| format!("a-{row}-{seat}")));
    let seats: Vec<String> = seats.collect();
    server.command(&format!("SEAT.PICK show:1 ann TTL 600000 TOKEN t SEATS 500 {}", seats.join(" ")));
    browser.wait_for("the held seats", "document.querySelector('.count-held').textContent === '500'", SOON);
    browser.wait_for("no marks", "document.querySelector('.map').view.flashing === 0", SOON);
    let drawn = browser.run("return window.drawn");
    let count = |layer: &str| drawn[layer].as_u64().unwrap();
    assert_eq!((count("Below"), count("Names")), (0, 0), "{drawn}");
    assert!((1..=3).contains(&count("Seats")) && count("Above") > count("Seats"), "{drawn}");
    // A seat under the pointer is drawn above.
    browser.run("const { view } = document.querySelector('.map'); window.drawn.Seats = 0; view.hovered = 3; view.draw(8)");
    browser.wait_for("the ring", &format!("window.drawn.Above > {}", count("Above")), SOON);
    assert_eq!(browser.run("return window.drawn.Seats"), json!(0));
    assert_eq!(browser.errors(), Vec::<String>::new());
}
