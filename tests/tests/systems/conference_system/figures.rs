//! Figures of allotd, measured when asked for:
//!
//!     cargo build --profile daemon -p allotd
//!     ALLOT_ALLOTD=target/daemon/allotd cargo test -p allot-tests --test systems figures -- --ignored --nocapture --test-threads=1

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use allot_tests::realms::{REALM, Realm};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Plan, Process, RedisServer, System, eventually};

/// All settings as they are by default. ZooKeeper counts time in quarters of a second, and writes before it answers.
fn plan(capacity: usize) -> Plan {
    let zookeeper = "tickTime=250\ninitLimit=20\nsyncLimit=10\nforceSync=yes\n".to_owned();
    Plan { schedulers: 2, proxies: 1, units: 1, capacity, settings: Vec::new(), zookeeper }
}

/// From `kill -9` of a unit that has them all to all being open on so many others.
fn back_after_kill(conferences: usize, survivors: usize) {
    let plan = plan(conferences);
    let mut system = System::start(&plan);
    let mut realm = system.realm();
    for number in 0..conferences {
        realm.begin(&format!("49{number}"), "");
    }
    system.until("all to be open", |realm| realm.stat("open") == conferences as i64);
    system.add_units(&plan, survivors);
    let pid = format!(":{}:", system.units[0].pid());
    let killed = Instant::now();
    system.units[0].kill9();
    let (mut down, mut given) = (None, Vec::<Given>::new());
    loop {
        let asked = killed.elapsed();
        let units = realm.ok("CMU.LIST");
        let dead = units
            .array()
            .iter()
            .find(|unit| unit.field("cmu").text().contains(&pid))
            .expect("it is on record");
        if down.is_none() && dead.field("state").text() == "down" {
            down = Some(killed.elapsed());
        }
        let alive = units.array().iter().filter(|unit| !unit.field("cmu").text().contains(&pid));
        let has = alive.map(|unit| (unit.field("cmu").text(), unit.field("conferences").int()));
        given.push(Given { asked, answered: killed.elapsed(), has: has.collect() });
        if down.is_some() && realm.stat("open") == conferences as i64 {
            break;
        }
        assert!(killed.elapsed() < TIMEOUT, "{:?}", realm.ok("CONF.STAT"));
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "{conferences} conferences of a unit killed by -9: down after {:.1?}, all open on {survivors} others after {:.1?}",
        down.unwrap(),
        killed.elapsed()
    );
    println!("no unit was given more than {:.0} in a second", most_in_a_second(&given));
}

/// What each unit had, by one answer.
struct Given {
    asked: Duration,
    answered: Duration,
    has: BTreeMap<String, i64>,
}

/// The most that a unit was given in a second. Fails where one was given more than its pace allows, which is 50 a second
/// and 10 at once.
fn most_in_a_second(given: &[Given]) -> f64 {
    let mut most = 0.0_f64;
    for (place, first) in given.iter().enumerate() {
        for last in &given[place..] {
            let passed = last.answered.saturating_sub(first.asked).as_secs_f64();
            for (cmu, now) in &last.has {
                let more = (now - first.has.get(cmu).copied().unwrap_or(0)) as f64;
                // What was granted at one time may have been placed a moment later.
                assert!(more <= 10.0 + 50.0 * (passed + 0.2), "{cmu}: {more} in {passed:.2} s");
                if (0.9..=1.0).contains(&passed) {
                    most = most.max(more);
                }
            }
        }
    }
    most
}

#[test]
#[ignore = "a measurement"]
fn a_hundred_conferences_are_back_on_ten_units() {
    for _ in 0..3 {
        back_after_kill(100, 10);
    }
}

#[test]
#[ignore = "a measurement"]
fn ten_thousand_conferences_are_back_on_twenty_five_units() {
    back_after_kill(10_000, 25);
}

#[test]
#[ignore = "a measurement"]
fn another_scheduler_takes_over() {
    let system = System::start(&Plan { schedulers: 3, ..plan(10) });
    let mut realm = system.realm();
    let mut take_over = |how: &str, end: &dyn Fn(&Process)| {
        let leader = system.leader();
        let name = allot_tests::Reply::bulk(&system.schedulers[leader].name);
        eventually("it to have claimed the realm", TIMEOUT, || {
            realm.ok("CONF.REALM").field("leader") == name
        });
        let term = realm.ok("CONF.REALM").field("term").int();
        let ended = Instant::now();
        end(&system.schedulers[leader]);
        while realm.ok("CONF.REALM").field("term").int() == term {
            assert!(ended.elapsed() < TIMEOUT, "nobody took over");
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("the leading scheduler {how}: another claimed the realm after {:.2?}", ended.elapsed());
        eventually("it to have ended", TIMEOUT, || !system.schedulers[leader].is_running());
        system.schedulers[leader].start();
        eventually("it to be ready", TIMEOUT, || system.schedulers[leader].is_ready());
    };
    for _ in 0..3 {
        take_over("is killed by -9", &|process| process.kill9());
        take_over("is asked to end", &|process| process.signal("TERM"));
    }
}

const MESSAGES: usize = 200_000;

/// Fills the realm's stream of details; returns when all are there.
fn fill(server: &RedisServer, epochs: &[(String, String, i64)]) {
    let mut connection = server.connection();
    for chunk in (0..MESSAGES).collect::<Vec<_>>().chunks(2000) {
        let mut pipe = redis::pipe();
        for number in chunk {
            let (e164, cmu, epoch) = &epochs[number % epochs.len()];
            pipe.cmd("XADD")
                .arg(format!("{REALM}:info"))
                .arg("*")
                .arg("event")
                .arg("SET")
                .arg("e164")
                .arg(e164);
            pipe.arg("cmu")
                .arg(cmu)
                .arg("epoch")
                .arg(epoch)
                .arg("seq")
                .arg(number + 1)
                .arg("members")
                .arg(number);
            pipe.ignore();
        }
        pipe.exec(&mut connection).unwrap();
    }
}

/// What is there to do it without the module: the same stream by a group, HSET, and XACK, 512 at once.
fn plainly(server: &RedisServer) -> Duration {
    let (mut connection, stream) = (server.connection(), format!("{REALM}:info"));
    redis::cmd("XGROUP").arg("CREATE").arg(&stream).arg("plain").arg(0).exec(&mut connection).unwrap();
    let (began, mut done) = (Instant::now(), 0);
    while done < MESSAGES {
        type Entries = Vec<(String, Vec<(String, Vec<(String, String)>)>)>;
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg("plain").arg("c").arg("COUNT").arg(512).arg("STREAMS").arg(&stream).arg(">");
        let streams: Entries = read.query(&mut connection).unwrap();
        let (mut writes, mut ack) = (redis::pipe(), redis::cmd("XACK"));
        ack.arg(&stream).arg("plain");
        for (id, fields) in &streams[0].1 {
            writes
                .cmd("HSET")
                .arg(format!("plain:{}", fields[1].1))
                .arg(&fields[5].0)
                .arg(&fields[5].1)
                .ignore();
            ack.arg(id);
        }
        done += streams[0].1.len();
        writes.exec(&mut connection).unwrap();
        ack.exec(&mut connection).unwrap();
    }
    began.elapsed()
}

#[test]
#[ignore = "a measurement"]
fn messages_a_second_through_a_data_proxy_beside_plain_hset() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1", "b:1:1"]);
    let epochs: Vec<_> = (0..100)
        .map(|number| {
            let e164 = format!("49{number:03}");
            let (cmu, epoch) = realm.open(&e164);
            (e164, cmu, epoch)
        })
        .collect();
    fill(&server, &epochs);
    let plain = plainly(&server);
    let url = server.url();
    let proxy = Process::new("proxy", &["--roles", "data-proxy", "--redis-url", &url, "--realm", REALM]);
    let groups = || {
        let reply = server.raw().words(&format!("XINFO GROUPS {REALM}:info"));
        let of = |group: &&allot_tests::Reply| group.field("name").text() == "proxies";
        reply.array().iter().find(of).map(|group| {
            let read = group.field("entries-read");
            let pending = group.field("pending").int();
            if read.is_null() { 0 } else { read.int() - pending }
        })
    };
    proxy.start();
    eventually("the proxy to begin", TIMEOUT, || groups().is_some_and(|done| done > 0));
    let (began, before) = (Instant::now(), groups().unwrap());
    while groups().unwrap() < MESSAGES as i64 {
        assert!(began.elapsed() < TIMEOUT, "not all were written");
        std::thread::sleep(Duration::from_millis(2));
    }
    let rate = (MESSAGES as i64 - before) as f64 / began.elapsed().as_secs_f64();
    let plain = MESSAGES as f64 / plain.as_secs_f64();
    println!("{rate:.0} messages a second through a proxy, {plain:.0} plainly: {:.2} x", rate / plain);
    assert_eq!(proxy.metric("allot_proxy_messages_total{outcome=\"refused\"}"), Some(0.0));
}
