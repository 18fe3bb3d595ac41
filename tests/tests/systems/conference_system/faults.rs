//! The conference system under faults: real servers, real processes, conferences that write all the time. After each
//! fault every conference that should live is open on exactly one unit that runs, writes into it and has it; no write
//! was accepted of anybody else; and none that was ended lives.

use std::thread::sleep;
use std::time::{Duration, Instant};

use allot_tests::module::{python, repository};
use allot_tests::proxy::Proxy;
use allot_tests::realms::REALM;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Plan, Process, Random, System, eventually, soak};

const CONFERENCES: usize = 100;

fn system() -> System {
    let mut system = System::start(&Plan::default());
    system.create(CONFERENCES);
    system
}

/// Ends one conference, and waits until all is well.
#[track_caller]
fn healthy(system: &mut System, what: &str) {
    system.release_one();
    let took = system.healthy(what);
    println!("{what}: well again after {took:.1?}");
}

/// The same where lease, session and pace say how long it takes: some 5 s, and more on a machine that stands still.
#[track_caller]
fn healthy_soon(system: &mut System, what: &str) {
    system.release_one();
    let took = system.healthy_in(Duration::from_secs(30), what);
    println!("{what}: well again after {took:.1?}");
}

/// Waits until a unit is down by the scheduler's verdict, and its conferences went elsewhere.
#[track_caller]
fn given_up(system: &System, unit: usize) {
    let pid = format!(":{}:", system.units[unit].pid());
    system.until("the unit to be down", |realm| {
        let units = realm.ok("CMU.LIST");
        let of = |record: &&allot_tests::Reply| record.field("cmu").text().contains(&pid);
        units.array().iter().find(of).is_none_or(|record| record.field("state").text() == "down")
    });
}

#[test]
fn lost_units_lose_their_conferences_and_come_back() {
    let mut system = System::start(&Plan::default().with("ALLOT_MEDIA_UNIT_LEASE", "5s"));
    system.create(CONFERENCES);

    system.units[0].kill9();
    healthy_soon(&mut system, "a unit killed");
    system.until("one unit to be missed", |realm| realm.stat("up") == 4);
    system.units[0].start();
    system.until("the killed unit to be up again", |realm| realm.stat("up") == 5);

    // It hangs, is given up, and wakes: its copies have ended, and it comes back as another.
    system.units[1].pause();
    given_up(&system, 1);
    system.until("its conferences to be open elsewhere", |realm| {
        realm.stat("pending") + realm.stat("creating") == 0
    });
    system.units[1].resume();
    healthy(&mut system, "a unit stopped, given up and continued");
    system.until("all units to be up", |realm| realm.stat("up") == 5);

    // Redis hears nothing of it, ZooKeeper does: it is given up after the grace.
    system.units[2].cut_redis();
    given_up(&system, 2);
    system.units[2].heal();
    healthy(&mut system, "a unit cut off Redis, and back");

    // ZooKeeper hears nothing of it, Redis does: nothing happens.
    let before = system.places();
    system.units[3].cut_zookeeper();
    system.until("its node to be gone", |_| {
        let path = format!("/allot/{REALM}/units");
        system.zookeeper.children(&path).iter().filter(|name| name.contains("media-unit-3")).count() == 0
    });
    sleep(Duration::from_secs(4));
    assert_eq!(system.places(), before, "a unit that beats was given up");
    system.units[3].heal();

    system.units[4].cut_redis();
    system.units[4].cut_zookeeper();
    given_up(&system, 4);
    system.units[4].heal();
    healthy(&mut system, "a unit cut off both, and back");
    system.until("all units to be up", |realm| realm.stat("up") == 5);

    // In an orderly way it need not be waited for.
    let asked = Instant::now();
    assert!(system.units[0].terminate().success());
    system.units[0].start();
    healthy(&mut system, "a unit asked to end, and started again");
    println!("handed over {:.1?} after SIGTERM", asked.elapsed());
    assert!(system.audited() > 1000);
}

#[test]
fn lost_schedulers_and_proxies_are_replaced_and_change_nothing_after() {
    let mut system = system();

    let leader = system.leader();
    system.schedulers[leader].kill9();
    system.units[0].kill9();
    healthy_soon(&mut system, "the leading scheduler killed, and a unit with it");
    system.schedulers[leader].start();
    system.units[0].start();
    system.until("the killed unit to be up again", |realm| realm.stat("up") == 5);

    // One that does not lead is missed by nobody.
    let standby = 1 - system.leader();
    system.schedulers[standby].pause();
    healthy(&mut system, "the scheduler that stands by hanging");
    system.schedulers[standby].kill9();
    healthy(&mut system, "the scheduler that stands by killed");
    system.schedulers[standby].start();

    // Paused it is deposed; awake again it changes nothing, though all it last saw is out of date.
    let (mut leader, mut term) = (0, 0);
    eventually("the leader to have claimed the realm", TIMEOUT, || {
        leader = system.leader();
        let realm = system.realm().ok("CONF.REALM");
        term = realm.field("term").int();
        realm.field("leader") == allot_tests::Reply::bulk(&system.schedulers[leader].name)
    });
    let did = |system: &System| {
        ["downs_total", "grants_total"]
            .map(|what| system.schedulers[leader].metric(&format!("allot_scheduler_{what}")))
    };
    let before = did(&system);
    let led = |system: &System| system.schedulers[leader].log().matches("this scheduler leads").count();
    let led_before = led(&system);
    system.schedulers[leader].pause();
    system.until("another scheduler to claim the realm", |realm| {
        realm.ok("CONF.REALM").field("term").int() > term
    });
    system.units[1].kill9();
    healthy(&mut system, "the leading scheduler hanging, and a unit killed");
    // There is something to do when it wakes, and it is not the one who does it.
    system.units[2].kill9();
    system.schedulers[leader].resume();
    eventually("the deposed scheduler to know", TIMEOUT, || {
        system.schedulers[leader].metric("allot_scheduler_leading") == Some(0.0)
    });
    system.until("the unit killed last to be down", |realm| realm.stat("down") == 2);
    healthy(&mut system, "another unit killed as the deposed scheduler woke");
    // Unless it was elected again, which a machine that stands still may bring about.
    let did = did(&system);
    if led(&system) == led_before {
        assert_eq!(did, before, "the deposed scheduler did something");
    }
    system.units[1].start();
    system.units[2].start();
    system.until("the killed units to be up again", |realm| realm.stat("up") == 5);

    for (what, redis, zookeeper) in [("Redis", true, false), ("ZooKeeper", false, true), ("both", true, true)]
    {
        let leader = system.leader();
        if redis {
            system.schedulers[leader].cut_redis();
        }
        if zookeeper {
            system.schedulers[leader].cut_zookeeper();
        }
        if zookeeper {
            eventually("the leader that is cut off to stop", TIMEOUT, || {
                system.schedulers[leader].metric("allot_scheduler_leading") == Some(0.0)
            });
        } else {
            let probe = |path: &str, wanted: u16| {
                system.schedulers[leader].http(path).is_some_and(|(status, _)| status == wanted)
            };
            // One that does not lead any more is ready without Redis.
            eventually("the leader that is cut off not to be ready, or not to lead", TIMEOUT, || {
                probe("/readyz", 503)
                    || system.schedulers[leader].metric("allot_scheduler_leading") == Some(0.0)
            });
            eventually("it to be alive", TIMEOUT, || probe("/healthz", 200));
        }
        system.schedulers[leader].heal();
        healthy(&mut system, &format!("the leading scheduler cut off {what}"));
    }

    // Sooner or later one hangs with messages that it has taken; the other writes them.
    let claimed = |system: &System| system.proxies[1].metric("allot_proxy_claimed_total").unwrap_or(0.0);
    eventually("messages of a proxy that hangs to be taken over", TIMEOUT, || {
        system.proxies[0].pause();
        let began = Instant::now();
        while claimed(&system) == 0.0 && began.elapsed() < Duration::from_secs(4) {
            sleep(Duration::from_millis(50));
        }
        system.proxies[0].resume();
        claimed(&system) > 0.0
    });
    healthy(&mut system, "a proxy that hung, and woke");

    system.proxies[0].kill9();
    system.proxies[1].pause();
    sleep(Duration::from_secs(1));
    system.proxies[1].resume();
    healthy(&mut system, "a proxy killed, the other stopped for a while");
    system.proxies[0].start();
    system.proxies[1].cut_redis();
    system.proxies[0].cut_zookeeper();
    healthy(&mut system, "a proxy cut off Redis, the other off ZooKeeper");
    system.proxies.iter().for_each(Process::heal);
    system.proxies[0].cut_redis();
    system.proxies[0].cut_zookeeper();
    healthy(&mut system, "a proxy cut off both");
    system.proxies.iter().for_each(Process::heal);
    system.proxies.iter().for_each(|process| process.kill9());
    system.proxies.iter().for_each(Process::start);
    healthy(&mut system, "all proxies killed and started again");
}

#[test]
fn stores_that_fail_or_go_away_cost_no_conference() {
    let mut system = system();

    system.zookeeper.follower().kill9();
    healthy(&mut system, "a ZooKeeper follower killed");
    system.zookeeper.restore();
    system.zookeeper.follower().pause();
    healthy(&mut system, "a ZooKeeper follower stopped");
    system.zookeeper.restore();
    system.zookeeper.leader().kill9();
    healthy(&mut system, "the ZooKeeper leader killed");
    system.zookeeper.restore();
    system.zookeeper.leader().pause();
    system.units[0].kill9();
    healthy(&mut system, "the ZooKeeper leader stopped, and a unit killed");
    system.zookeeper.restore();
    system.units[0].start();
    system.until("the killed unit to be up again", |realm| realm.stat("up") == 5);
    healthy(&mut system, "both back");

    // All of it away, longer than the sessions live: nobody is given up, then or afterwards.
    let before = system.places();
    system.zookeeper.servers().iter().for_each(|server| server.kill9());
    sleep(Duration::from_secs(5));
    assert_eq!(system.places(), before, "conferences moved while ZooKeeper was away");
    system.zookeeper.restore();
    system.leader();
    sleep(Duration::from_secs(2));
    assert_eq!(system.places(), before, "conferences moved when ZooKeeper was back");
    healthy(&mut system, "all ZooKeeper away for longer than the sessions");

    // Redis silent for longer than the leases, and shorter than units wait for it: nobody is given up either.
    let before = system.places();
    system.master().pause();
    sleep(Duration::from_secs(4));
    system.master().resume();
    healthy_within(&system, "Redis silent for longer than the leases");
    assert_eq!(system.places(), before, "conferences moved since Redis was silent");

    // A replica that confirms nothing holds nothing up for long, and is missed.
    let unconfirmed = |system: &System| {
        let of = |process: &Process| process.metric("allot_scheduler_unconfirmed_total");
        system.schedulers.iter().filter_map(of).sum::<f64>()
    };
    let before = unconfirmed(&system);
    system.replica().pause();
    system.units[2].kill9();
    healthy(&mut system, "the replica hanging, and a unit killed");
    eventually("somebody to have been asked in vain", TIMEOUT, || unconfirmed(&system) > before);
    system.replica().resume();
    system.units[2].start();
    system.until("the killed unit to be up again", |realm| realm.stat("up") == 5);

    system.until_confirmed();
    system.fail_over(true);
    healthy(&mut system, "the master killed, and a failover");
    system.restore_replica();
    // The old master hangs, and wakes as one; it is told at once that it is none.
    system.fail_over(false);
    // Not the one that was killed before, which has come back empty.
    system.units[1].kill9();
    system.restore_replica();
    healthy(&mut system, "the master hanging, a failover, and a unit killed meanwhile");
}

/// Whether the scheduler that leads holds the guard. Another may lead at any moment.
fn guard_holds(system: &System) -> bool {
    system.schedulers[system.leader()].metric("allot_scheduler_guard") == Some(1.0)
}

#[track_caller]
fn healthy_within(system: &System, what: &str) {
    println!("{what}: well after {:.1?}", system.healthy(what));
}

/// A system whose guard holds when two units are silent, and is lifted after this time.
fn guarded(lift: &str) -> Plan {
    Plan::default().with("ALLOT_SCHEDULER_GUARD_UNITS", "2").with("ALLOT_SCHEDULER_GUARD_LIFT", lift)
}

#[test]
fn guard_holds_after_many_losses_until_it_is_lifted() {
    let mut system = System::start(&guarded("15s"));
    system.create(CONFERENCES);
    let before = system.places();
    // Two of five: 40 %.
    system.units[0].kill9();
    system.units[1].kill9();
    eventually("the guard to hold", TIMEOUT, || guard_holds(&system));
    sleep(Duration::from_secs(3));
    assert_eq!(system.places(), before, "conferences moved although the guard held");
    let units = allot_tests::daemon::run(system.master(), &["unit", "list", "--realm", REALM]).ok();
    assert!(
        units.err.contains("the mass-failure guard holds") && units.out.contains("unreachable"),
        "{}",
        units.err
    );
    // Both stores are well, so it lifts itself in the end.
    healthy(&mut system, "two of five units killed, the guard lifted by itself");
}

#[test]
fn the_guard_is_lifted_by_the_operator_or_by_units_that_are_back() {
    // Not by itself. Units that are silent for so long would end their media.
    let mut system = System::start(&guarded("1h").with("ALLOT_MEDIA_UNIT_SELF_STOP", "false"));
    system.create(CONFERENCES);
    system.units[2].kill9();
    system.units[3].kill9();
    eventually("the guard to hold", TIMEOUT, || guard_holds(&system));
    // Deleting the node that shows it does not lift it.
    let mut client = system.master().raw();
    client.words(&format!("DEL {REALM}:guard"));
    eventually("the guard to be shown again", TIMEOUT, || {
        client.words(&format!("EXISTS {REALM}:guard")).int() == 1
    });
    // Who takes over sees as many missing, and holds it as well.
    let before = system.places();
    let led = system.leader();
    system.schedulers[led].kill9();
    eventually("another to lead", TIMEOUT, || system.leader() != led);
    eventually("the guard to hold with it", TIMEOUT, || guard_holds(&system));
    sleep(Duration::from_secs(3));
    assert_eq!(system.places(), before, "conferences moved at a take-over although the guard held");
    system.schedulers[led].start();
    // Who is elected again, as on a machine that stood still, holds it again.
    system.until("both to be declared down", |realm| {
        let _ = allot_tests::daemon::run(system.master(), &["realm", "lift-guard", REALM, "--yes"]);
        realm.stat("up") == 3
    });
    healthy(&mut system, "two of five units killed, the guard lifted by the operator");
    allot_tests::daemon::run(system.master(), &["realm", "lift-guard", REALM, "--yes"]).ended(1);

    // Units that were only silent come back, and keep what they had.
    system.units[2].start();
    system.units[3].start();
    system.until("all units to be up", |realm| realm.stat("up") == 5);
    healthy(&mut system, "all units back");
    let before = system.places();
    system.units[0].pause();
    system.units[1].pause();
    eventually("the guard to hold again", TIMEOUT, || guard_holds(&system));
    system.units[0].resume();
    system.units[1].resume();
    eventually("the guard to be lifted", TIMEOUT, || !guard_holds(&system));
    assert_eq!(system.places(), before, "conferences moved although their units were only silent");
    healthy_within(&system, "two units silent for a while");
}

#[test]
fn a_unit_in_another_language_takes_part_beside_ours() {
    let mut system = System::start(&Plan { schedulers: 1, proxies: 1, units: 1, ..Plan::default() });
    let script = repository().join("tests/python/unit.py");
    let wire = Proxy::to(system.master().port());
    let redis = format!("redis://127.0.0.1:{}", wire.port());
    let zookeeper = system.zookeeper.address();
    let unit = Process::other(
        "python",
        python(),
        &[
            script.to_str().unwrap(),
            "--redis",
            &redis,
            "--zookeeper",
            &zookeeper,
            "--realm",
            REALM,
            "--host",
            "127.0.0.1/python",
            "--lease",
            "3000",
        ],
    );
    unit.start();
    system.units.push(unit);
    system.until("both units to be up", |realm| realm.stat("up") == 2);
    system.create(40);
    let of =
        |system: &System, name: &str| system.places().iter().filter(|(cmu, _)| cmu.contains(name)).count();
    // One that was silent for a moment is given less.
    let shares = (of(&system, "media-unit-0"), of(&system, "python"));
    assert!(shares.0 > 0 && shares.1 > 0 && shares.0 + shares.1 == 40, "{shares:?}");

    system.units[1].kill9();
    healthy(&mut system, "the unit in Python killed");
    system.units[1].start();
    system.until("both units to be up", |realm| realm.stat("up") == 2);
    system.units[0].kill9();
    healthy(&mut system, "ours killed");
    assert_eq!(of(&system, "python"), of(&system, ":"), "all that live are there");
    system.units[0].start();
    system.until("both units to be up", |realm| realm.stat("up") == 2);

    // Cut off, given up and back: its copies are the older ones, and in this realm it gets them all back by EPOCH.
    system.realm().ok("CONF.REALM POLICY EARLIEST");
    wire.cut();
    given_up(&system, 1);
    system.until("all to be open elsewhere", |realm| realm.stat("pending") + realm.stat("creating") == 0);
    assert!(of(&system, "media-unit-0") > 0);
    wire.heal();
    eventually("an older copy to be the owner again", TIMEOUT, || of(&system, "media-unit-0") == 0);
    healthy(&mut system, "the unit in Python cut off Redis, and back");

    assert!(system.units[1].terminate().success());
    healthy(&mut system, "the unit in Python asked to end");
}

/// Faults at random, several at a time, then all is repaired and must be well.
#[test]
fn faults_at_random_cost_no_conference() {
    let mut random = Random::new(5);
    let mut system = system();
    for round in 0..soak(2, 40) {
        let faults: Vec<String> = (0..random.within(1, 3)).map(|_| fault(&mut system, &mut random)).collect();
        sleep(Duration::from_millis(random.within(500, 5000) as u64));
        repair(&mut system);
        system.release_one();
        system.until_confirmed();
        let took = system.healthy(&format!("round {round}: {faults:?}"));
        println!("round {round}: {faults:?}: well after {took:.1?}");
        if round % 10 == 9 {
            system.create(10);
        }
    }
}

fn fault(system: &mut System, random: &mut Random) -> String {
    let kind = random.below(10);
    if kind == 8 {
        let servers = system.zookeeper.servers();
        let server = random.of(servers);
        if random.once_in(2) {
            server.kill9();
        } else if server.is_running() {
            server.pause();
        }
        return "a ZooKeeper server".to_owned();
    }
    if kind == 9 {
        if !system.redis.iter().all(|server| server.is_running()) || system.is_replica_behind() {
            return "nothing".to_owned();
        }
        system.fail_over(random.once_in(2));
        return "the master".to_owned();
    }
    let all: Vec<&Process> = system.processes().collect();
    let process = *random.of(&all);
    if !process.is_running() {
        return "nothing".to_owned();
    }
    let what = match kind {
        0..=2 => {
            process.kill9();
            "killed"
        }
        3 | 4 => {
            process.pause();
            "stopped"
        }
        5 => {
            process.cut_redis();
            "cut off Redis"
        }
        6 => {
            process.cut_zookeeper();
            "cut off ZooKeeper"
        }
        _ => {
            process.cut_redis();
            process.cut_zookeeper();
            "cut off both"
        }
    };
    format!("{} {what}", process.name)
}

fn repair(system: &mut System) {
    system.zookeeper.restore();
    for process in system.processes() {
        process.heal();
        if process.is_running() {
            process.resume();
        } else {
            process.start();
        }
    }
    system.restore_replica();
}
