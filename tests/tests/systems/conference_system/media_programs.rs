//! The programs that units run for their conferences: begun, told, ended with them, and never outliving them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use allot_tests::daemon::{alone, media_program};
use allot_tests::realms::{REALM, Realm};
use allot_tests::shows::clock;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Process, RedisServer, Reply, eventually};

#[test]
fn a_program_is_started_for_each_conference_and_ended_with_it() {
    let server = RedisServer::start();
    let media = media_program(&server);
    let all = alone(&server, "all", "scheduler,data-proxy,media-unit", &["--media-unit-program", &media]);
    let mut client = Realm::of(&server);
    let over = |e164: &str, code: &str| fs::write(server.dir().join(format!("{e164}.over")), code).unwrap();
    let pid = |e164: &str| fs::read_to_string(server.dir().join(format!("{e164}.pid"))).unwrap_or_default();
    for e164 in ["1", "2", "3"] {
        let (_, epoch) = client.begin(e164, "");
        let told = format!("{e164} {epoch}");
        eventually("its details to be written", TIMEOUT, || {
            client.ok(&format!("CONF.GET {e164} started")).array()[0] == allot_tests::Reply::bulk(&told)
        });
    }
    // People end one, another fails and goes on, a third is released.
    over("1", "0\n");
    eventually("the first to be over", TIMEOUT, || client.place("1").2 == "ended");
    assert_eq!(client.ok("CONF.INFO 1").field("cause").text(), "unit");
    let before = pid("2");
    over("2", "7\n");
    eventually("the second to be started again", TIMEOUT, || !pid("2").is_empty() && pid("2") != before);
    assert_eq!(client.place("2").2, "open");
    client.ok("CONF.RELEASE 3");
    eventually("the third to be over", TIMEOUT, || client.place("3").2 == "ended");
    eventually("it to be ended in an orderly way", TIMEOUT, || server.dir().join("media.3.bye").exists());
    assert!(all.terminate().success());
    assert!(server.dir().join("media.2.bye").exists());
    // What cannot be executed is refused, and the manager hears why.
    let lost = server.dir().join("lost");
    fs::write(&lost, "#!/nowhere/sh\n").unwrap();
    fs::set_permissions(&lost, fs::Permissions::from_mode(0o755)).unwrap();
    for (e164, program) in [("4", "/nowhere/media"), ("5", lost.to_str().unwrap())] {
        let none = alone(&server, "none", "scheduler,media-unit", &["--media-unit-program", program]);
        client.begin(e164, "");
        eventually("the conference to have failed", TIMEOUT, || client.place(e164).2 == "ended");
        let refused = format!("refused {e164}");
        let heard = |entry: &String| entry.contains(&refused) && entry.contains(program);
        assert!(client.entries("evt").iter().any(heard), "{:?}", client.entries("evt"));
        assert!(none.terminate().success());
    }
}

#[test]
fn a_unit_that_stops_itself_ends_its_media_and_comes_back_as_another() {
    let server = RedisServer::start();
    let media = media_program(&server);
    let scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let host = "127.0.0.1/unit";
    let unit = Process::new("unit", &["--roles", "media-unit", "--realm", REALM, "--media-unit-host", host])
        .behind_redis(server.port())
        .with("ALLOT_MEDIA_UNIT_PROGRAM", &media);
    unit.start();
    let mut client = Realm::of(&server);
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1);
    let (first, _) = client.begin("1", "");
    eventually("the conference to be open", TIMEOUT, || client.place("1").2 == "open");
    unit.cut_redis();
    eventually("its media to be ended", TIMEOUT, || server.dir().join("media.1.bye").exists());
    unit.heal();
    eventually("it to be open on the unit that came back", TIMEOUT, || {
        let (cmu, _, state) = client.place("1");
        cmu != first && cmu.starts_with(host) && state == "open"
    });
    let history = client.ok("CONF.HISTORY 1");
    assert_eq!(history.array()[0].field("how").text(), "lost");
    drop(scheduler);
}

/// A unit that is the only one, behind a wire to Redis, with conferences whose programs run, and no scheduler.
fn cut_off(server: &RedisServer, settings: &[(&str, &str)], conferences: &[&str]) -> (Process, Realm) {
    let mut client = Realm::create(server, &[]);
    let host = "127.0.0.1/unit";
    let mut unit =
        Process::new("unit", &["--roles", "media-unit", "--realm", REALM, "--media-unit-host", host])
            .behind_redis(server.port())
            .with("ALLOT_MEDIA_UNIT_PROGRAM", &media_program(server))
            .with("ALLOT_MEDIA_UNIT_LEASE", "1h");
    for (name, value) in settings {
        unit = unit.with(name, value);
    }
    unit.start();
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1 && unit.is_ready());
    for e164 in conferences {
        client.begin(e164, "");
        let pid = server.dir().join(format!("{e164}.pid"));
        eventually("its program to run", TIMEOUT, || client.place(e164).2 == "open" && pid.exists());
    }
    unit.cut_redis();
    eventually("its session to be over", TIMEOUT, || !unit.is_ready());
    (unit, client)
}

#[test]
fn conference_ended_by_people_stays_ended_after_a_self_stop() {
    let server = RedisServer::start();
    let (unit, mut client) = cut_off(&server, &[("ALLOT_MEDIA_UNIT_LEASE", "20s")], &["1", "2"]);
    let (first, _, _) = client.place("1");
    fs::write(server.dir().join("1.over"), "0\n").unwrap();
    eventually("the unit to hear of it", TIMEOUT, || {
        unit.log().contains("program exited 0: ended by participants")
    });
    eventually("its other media to be ended", TIMEOUT, || server.dir().join("media.2.bye").exists());
    assert_eq!(client.place("1").2, "open", "nobody could be told");
    unit.heal();
    eventually("another to take its place", TIMEOUT, || client.place("2").2 == "pending");
    let (cmu, _, state) = client.place("1");
    assert_eq!((state.as_str(), client.ok("CONF.INFO 1").field("cause").text().as_str()), ("ended", "unit"));
    assert!(cmu.is_empty() || cmu == first, "{cmu}");
    assert!(unit.terminate().success());
}

#[test]
fn unit_reports_ends_from_a_loss_of_redis_before_it_exits() {
    let server = RedisServer::start();
    let (unit, mut client) = cut_off(&server, &[], &["1"]);
    fs::write(server.dir().join("1.over"), "0\n").unwrap();
    eventually("the unit to hear of it", TIMEOUT, || {
        unit.log().contains("program exited 0: ended by participants")
    });
    unit.signal("TERM");
    eventually("it to be about to end", TIMEOUT, || unit.log().contains("unit ends"));
    // Longer than it takes to try once.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(client.place("1").2, "open", "nobody could be told");
    unit.heal();
    assert!(unit.wait_for_end().success());
    assert_eq!(client.place("1").2, "ended");
    assert_eq!(client.ok("CONF.INFO 1").field("cause").text(), "unit");
}

#[test]
fn a_number_is_free_when_nothing_of_its_program_runs_any_more() {
    let server = RedisServer::start();
    let path = server.dir().join("slow");
    let text = "#!/bin/sh\ntrap 'while [ ! -e \"$1/go.$ALLOT_E164\" ]; do sleep 0.05; done\n\
                rm \"$1/go.$ALLOT_E164\"; rmdir \"$1/running.$ALLOT_E164\"; exit 0' TERM\n\
                mkdir \"$1/running.$ALLOT_E164\" || echo twice > \"$1/twice\"\n\
                echo READY\necho $$ > \"$1/began.$ALLOT_EPOCH\"\nwhile :; do sleep 0.05; done\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let media = format!("{} {}", path.display(), server.dir().display());
    let patient = ["--media-unit-program", &media, "--media-unit-stop-limit", "1min"];
    let unit = alone(&server, "unit", "scheduler,media-unit", &patient);
    let mut client = Realm::of(&server);
    client.ok("CONF.REALM RELEASETIMEOUT 60000");
    let go = |e164: &str| fs::write(server.dir().join(format!("go.{e164}")), "").unwrap();
    for _ in 0..2 {
        let (_, epoch) = client.begin("1", "");
        let began = server.dir().join(format!("began.{epoch}"));
        eventually("its program to run", TIMEOUT, || client.place("1").2 == "open" && began.exists());
        client.ok("CONF.RELEASE 1");
        // Others do not wait for it.
        client.begin("2", "");
        eventually("another to be open", TIMEOUT, || client.place("2").2 == "open");
        assert!(server.dir().join("running.1").exists() && client.place("1").2 == "open");
        client.ok("CONF.RELEASE 2");
        go("1");
        go("2");
        eventually("both to be over", TIMEOUT, || {
            client.place("1").2 == "ended" && client.place("2").2 == "ended"
        });
        assert!(!server.dir().join("running.1").exists(), "its program runs still");
    }
    assert!(!server.dir().join("twice").exists());
    assert!(unit.terminate().success());
}

#[test]
fn people_end_conferences_of_a_unit_that_drains() {
    let server = RedisServer::start();
    let media = media_program(&server);
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let drain = ["--media-unit-program", &media, "--media-unit-drain", "--media-unit-drain-limit", "1h"];
    let unit = alone(&server, "unit", "media-unit", &drain);
    let mut client = Realm::of(&server);
    client.begin("1", "");
    eventually("its program to run", TIMEOUT, || {
        client.place("1").2 == "open" && server.dir().join("1.pid").exists()
    });
    unit.signal("TERM");
    eventually("it to drain", TIMEOUT, || unit.log().contains("draining"));
    // No other unit is there, so it stays where it is until people end it.
    fs::write(server.dir().join("1.over"), "0\n").unwrap();
    eventually("it to be over", TIMEOUT, || client.place("1").2 == "ended");
    assert_eq!(client.ok("CONF.INFO 1").field("cause").text(), "unit");
    assert!(unit.wait_for_end().success());
}

#[test]
fn unit_draining_without_redis_reports_ended_conferences_later() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &[]);
    let unit = Process::new(
        "unit",
        &["--roles", "media-unit", "--realm", REALM, "--media-unit-host", "127.0.0.1/unit"],
    )
    .behind_redis(server.port())
    .with("ALLOT_MEDIA_UNIT_PROGRAM", &media_program(&server))
    .with("ALLOT_MEDIA_UNIT_LEASE", "1h")
    .with("ALLOT_MEDIA_UNIT_DRAIN", "true")
    .with("ALLOT_MEDIA_UNIT_DRAIN_LIMIT", "1h");
    unit.start();
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1 && unit.is_ready());
    client.begin("1", "");
    let pid = || fs::read_to_string(server.dir().join("1.pid")).unwrap_or_default();
    eventually("its program to run", TIMEOUT, || client.place("1").2 == "open" && pid().ends_with('\n'));
    unit.signal("TERM");
    eventually("it to drain", TIMEOUT, || unit.log().contains("draining"));
    unit.cut_redis();
    eventually("its session to be over", TIMEOUT, || !unit.is_ready());
    fs::write(server.dir().join("1.over"), "0\n").unwrap();
    eventually("its program to end", TIMEOUT, || !runs(pid().trim()));
    eventually("the unit to hear of it", TIMEOUT, || {
        unit.log().contains("program exited 0: ended by participants")
    });
    unit.heal();
    eventually("it to be over", TIMEOUT, || client.place("1").2 == "ended");
    assert!(unit.wait_for_end().success());
}

#[test]
fn a_unit_that_stops_itself_and_wakes_late_takes_nothing_back() {
    let server = RedisServer::start();
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let mut client = Realm::of(&server);
    let late = alone(&server, "late", "media-unit", &[]);
    for e164 in ["1", "2", "3"] {
        client.begin(e164, "");
    }
    eventually("all to be open", TIMEOUT, || client.stat("open") == 3);
    let (first, _, _) = client.place("1");
    let _other = alone(&server, "other", "media-unit", &[]);
    eventually("both units to be up", TIMEOUT, || client.stat("up") == 2);
    late.pause();
    let places = |client: &mut Realm| ["1", "2", "3"].map(|e164| client.place(e164));
    eventually("all to be open on the other", TIMEOUT, || {
        places(&mut client).iter().all(|(cmu, _, state)| *cmu != first && state == "open")
    });
    let before = places(&mut client);
    late.resume();
    eventually("it to be back as another", TIMEOUT, || {
        let units = client.ok("CMU.LIST");
        let is_next = |cmu: &str| cmu.contains("/late:") && cmu != first;
        units
            .array()
            .iter()
            .any(|unit| is_next(&unit.field("cmu").text()) && unit.field("state").text() == "up")
    });
    assert_eq!(places(&mut client), before, "copies that were to end took their conferences back");
    for e164 in ["1", "2", "3"] {
        assert_eq!(client.ok(&format!("CONF.HISTORY {e164}")).array().len(), 2);
    }
}

#[test]
fn unit_back_at_redis_sends_every_detail_again() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &[]);
    // It is there before there is anybody whom it could ask for details.
    let _proxy = alone(&server, "proxy", "data-proxy", &[]);
    let unit = Process::new(
        "unit",
        &["--roles", "media-unit", "--realm", REALM, "--media-unit-host", "127.0.0.1/unit"],
    )
    .behind_redis(server.port())
    .with("ALLOT_MEDIA_UNIT_PROGRAM", &media_program(&server))
    .with("ALLOT_MEDIA_UNIT_LEASE", "1h");
    unit.start();
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1 && unit.is_ready());
    let (_, epoch) = client.begin("1", "");
    let detail = allot_tests::Reply::bulk(format!("1 {epoch}"));
    eventually("its detail to be written", TIMEOUT, || client.ok("CONF.GET 1 started").array()[0] == detail);
    let told = |client: &mut Realm| {
        client.entries("info").iter().filter(|entry| entry.starts_with("SET 1 ")).count()
    };
    let before = told(&mut client);
    unit.cut_redis();
    eventually("its session to be over", TIMEOUT, || !unit.is_ready());
    assert_eq!(told(&mut client), before);
    unit.heal();
    eventually("it to be told again", TIMEOUT, || told(&mut client) > before);
    assert_eq!(client.place("1").1, epoch, "it was its own all the time");
}

/// A program that minds no signal, with a child that does not either and holds its output.
fn stubborn(server: &RedisServer) -> String {
    let path = server.dir().join("stubborn");
    let text = "#!/bin/sh\ntrap '' TERM HUP INT\n\
                (echo $(exec sh -c 'echo $PPID') > \"$1/child.$$\"; while :; do sleep 0.05; done) &\n\
                while [ ! -s \"$1/child.$$\" ]; do sleep 0.01; done\n\
                echo \"$$ $(cat \"$1/child.$$\")\" > \"$1/$ALLOT_E164.pids\"\necho READY\nwhile :; do sleep 0.05; done\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{} {}", path.display(), server.dir().display())
}

/// The processes that a conference's program has told, which all must run.
fn processes(server: &RedisServer, e164: &str) -> Vec<String> {
    let told = server.dir().join(format!("{e164}.pids"));
    let mut all: Vec<String> = Vec::new();
    eventually("its program to run", TIMEOUT, || {
        let told = fs::read_to_string(&told).unwrap_or_default();
        all = told.split_whitespace().map(str::to_owned).collect();
        all.len() == 2 && told.ends_with('\n')
    });
    assert!(all.iter().all(|pid| runs(pid)), "{all:?}");
    all
}

fn runs(pid: &str) -> bool {
    // One that has ended stays until its parent looks.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn no_program_outlives_its_conference_or_its_unit() {
    let server = RedisServer::start();
    let media = stubborn(&server);
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let mut client = Realm::of(&server);
    let unit = alone(
        &server,
        "unit",
        "media-unit",
        &["--media-unit-program", &media, "--media-unit-stop-limit", "100ms"],
    );

    client.begin("1", "");
    let all = processes(&server, "1");
    client.ok("CONF.RELEASE 1");
    eventually("the released conference's processes to end", TIMEOUT, || !all.iter().any(|pid| runs(pid)));

    client.begin("2", "");
    let all = processes(&server, "2");
    unit.kill9();
    eventually("the killed unit's processes to end", TIMEOUT, || !all.iter().any(|pid| runs(pid)));
    client.ok("CONF.RELEASE 2");

    // Stopped it can end nothing itself, and its conferences will be open elsewhere.
    let unit = alone(
        &server,
        "unit",
        "media-unit",
        &["--media-unit-program", &media, "--media-unit-lease", "12s", "--redis-timeout", "5s"],
    );
    let (first, _) = client.begin("3", "");
    let all = processes(&server, "3");
    eventually("the conference to be open", TIMEOUT, || client.place("3").2 == "open");
    unit.pause();
    eventually("the stopped unit's processes to end", TIMEOUT, || !all.iter().any(|pid| runs(pid)));
    let (owner, _, state) = client.place("3");
    assert!(owner == first && state == "open", "it was given up before: {owner} {state}");
    fs::remove_file(server.dir().join("3.pids")).unwrap();
    unit.resume();
    eventually("it to be open on the unit that came back", TIMEOUT, || {
        let (cmu, _, state) = client.place("3");
        cmu != first && state == "open"
    });
    let all = processes(&server, "3");

    // A watchdog that is gone is replaced, and told of all that runs.
    let watchdogs = || -> Vec<i32> {
        let entries = fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let ours = |pid: &i32| {
            let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let ours = read("status").contains(&format!("PPid:\t{}\n", unit.pid()));
            ours && read("cmdline").split('\0').any(|word| word == "watchdog")
        };
        pids.filter(ours).collect()
    };
    // That of the incarnation before may still be ending.
    eventually("the unit to have one watchdog", TIMEOUT, || watchdogs().len() == 1);
    let watchdog = watchdogs()[0];
    let killed = std::process::Command::new("kill").args(["-KILL", &watchdog.to_string()]).status();
    assert!(killed.unwrap().success());
    eventually("it to have another", TIMEOUT, || watchdogs().iter().any(|pid| *pid != watchdog));
    client.begin("4", "");
    let more = processes(&server, "4");
    unit.kill9();
    eventually("all its processes to end", TIMEOUT, || !all.iter().chain(&more).any(|pid| runs(pid)));
}

#[test]
fn unit_reports_the_load_that_its_program_prints() {
    let server = RedisServer::start();
    let (program, printed) = (server.dir().join("load"), server.dir().join("load.txt"));
    fs::write(&program, format!("#!/bin/sh\nexec cat {}\n", printed.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&printed, "100\n").unwrap();
    let mut client = Realm::create(&server, &[]);
    client.ok("CONF.REALM PLACE LOAD");
    let often = ["--media-unit-beat", "100ms", "--media-unit-lease", "2s", "--redis-timeout", "300ms"];
    let load = |client: &mut Realm| client.ok("CMU.LIST").array().last().map(|unit| unit.field("load"));
    let program = ["--media-unit-load-program", program.to_str().unwrap()];
    let unit = alone(&server, "unit", "media-unit", &[&often[..], &program].concat());
    eventually("its load", TIMEOUT, || load(&mut client) == Some(Reply::Int(100)));
    assert_eq!(client.code("CONF.CREATE 1"), "LIMIT");
    fs::write(&printed, "7.4\n").unwrap();
    eventually("its next load", TIMEOUT, || load(&mut client) == Some(Reply::Int(7)));
    client.begin("1", "");
    fs::remove_file(&printed).unwrap();
    eventually("the load to expire", TIMEOUT, || load(&mut client).is_some_and(|load| load.is_null()));
    assert!(unit.log().contains("reports no load"), "{}", unit.log());
    client.begin("2", "");
    drop(unit);
    // Without a program the unit reports the load of its host.
    let _unit = alone(&server, "host", "media-unit", &often);
    let host = |client: &mut Realm| {
        let units = client.ok("CMU.LIST");
        units.array().iter().any(|unit| {
            let load = unit.field("load");
            unit.field("state").text() == "up" && !load.is_null() && (0..=100).contains(&load.int())
        })
    };
    eventually("the load of the host", TIMEOUT, || host(&mut client));
}

/// A program that copies its standard input and its state into files, and names its end in a detail.
const LISTENER: &str = r#"#!/bin/sh
trap 'exit 0' TERM
echo READY
echo "end=$ALLOT_END"
while read -r line; do
    [ -e "$DIR/$ALLOT_E164.fail" ] && rm "$DIR/$ALLOT_E164.fail" && exit 7
    cp "$ALLOT_STATE" "$DIR/$ALLOT_E164.state"
    echo "$line" >> "$DIR/$ALLOT_E164.input"
done
"#;

#[test]
fn program_learns_an_extension_a_resizing_and_that_its_end_is_near() {
    let server = RedisServer::start();
    let listener = server.dir().join("listener");
    fs::write(&listener, LISTENER.replace("$DIR", server.dir().to_str().unwrap())).unwrap();
    fs::set_permissions(&listener, fs::Permissions::from_mode(0o755)).unwrap();
    let program = listener.to_str().unwrap();
    let all = alone(&server, "all", "scheduler,data-proxy,media-unit", &["--media-unit-program", program]);
    let mut client = Realm::of(&server);
    let now = clock(&mut client.client);
    let [first, later, near] = [3_600_000, 7_200_000, 60_000].map(|time| now + time);
    client.begin("1", &format!("END {first}"));
    let detail = |client: &mut Realm| client.ok("CONF.GET 1 end").array()[0].clone();
    eventually("it to be open", TIMEOUT, || detail(&mut client) == Reply::bulk(first.to_string()));
    let file = |name: &str| fs::read_to_string(server.dir().join(format!("1.{name}"))).unwrap_or_default();
    let line = |end: i64, event: &str, size: u32| {
        format!("{{\"end\":{end},\"event\":\"{event}\",\"size\":{size}}}\n")
    };
    client.ok(&format!("CONF.EXTEND 1 END {later}"));
    let mut lines = line(later, "updated", 1);
    eventually("the program to hear the new end", TIMEOUT, || file("input") == lines);
    assert_eq!(file("state"), lines, "its file has the last line");
    client.ok("CONF.RESIZE 1 3");
    lines += &line(later, "updated", 3);
    eventually("the program to hear its size", TIMEOUT, || file("input") == lines);
    // A program that is started again begins with what is so now, and hears what follows.
    fs::write(server.dir().join("1.fail"), "").unwrap();
    client.ok(&format!("CONF.EXTEND 1 END {near}"));
    eventually("the next run to know the end", TIMEOUT, || {
        detail(&mut client) == Reply::bulk(near.to_string())
    });
    client.ok("CONF.REALM WARN 120000");
    lines += &line(near, "ending", 3);
    eventually("the program to hear that its end is near", TIMEOUT, || file("input") == lines);
    let entries = client.entries("evt");
    assert!(
        entries.iter().any(|entry| entry.starts_with("ending 1") && entry.ends_with("end-near")),
        "{entries:?}"
    );
    // The messages are read again in the next session, and none is handled twice.
    server.raw().call(&["CLIENT", "KILL", "TYPE", "normal"]);
    let mut client = Realm::of(&server);
    eventually("the unit to be back", TIMEOUT, || {
        client.ok("CMU.LIST").array()[0].field("state").text() == "up"
    });
    client.ok(&format!("CONF.EXTEND 1 END {later}"));
    lines += &line(later, "updated", 3);
    eventually("the program to hear the last end", TIMEOUT, || file("input") == lines);
    assert!(all.terminate().success());
}
