//! How long two copies of a conference run when a unit hangs or is cut off: by the times that media programs write.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use allot_tests::{Plan, System};

const CONFERENCES: usize = 6;

/// A program that writes the time, in milliseconds, every 100 ms.
fn clock_program(dir: &Path) -> String {
    let path = dir.join("media");
    let text = "#!/bin/sh\necho READY\nwhile :; do date +%s%3N >> \"$1/$ALLOT_E164.$$\"; sleep 0.1; done\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{} {}", path.display(), dir.display())
}

/// For each conference, from when to when each of its programs ran.
fn runs(dir: &Path) -> BTreeMap<String, Vec<(i64, i64)>> {
    let mut all: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some((e164, _)) = name.split_once('.') else { continue };
        let text = fs::read_to_string(&path).unwrap();
        let times: Vec<i64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let Some((from, to)) = times.first().zip(times.last()) else { continue };
        all.entry(e164.to_owned()).or_default().push((*from, *to));
    }
    all.values_mut().for_each(|runs| runs.sort_unstable());
    all
}

/// For how long, at most, two programs of one conference ran at the same time, in milliseconds.
fn longest_overlap(dir: &Path) -> i64 {
    let of = |runs: &Vec<(i64, i64)>| runs.windows(2).map(|pair| pair[0].1 - pair[1].0).max().unwrap_or(0);
    runs(dir).values().map(of).max().unwrap_or(0).max(0)
}

fn starts(dir: &Path) -> usize {
    runs(dir).values().map(Vec::len).sum()
}

/// Waits until a unit is down, and its conferences are open elsewhere.
#[track_caller]
fn recovered(system: &System, unit: usize) {
    let pid = format!(":{}:", system.units[unit].pid());
    system.until("the unit to be given up", |realm| {
        let units = realm.ok("CMU.LIST");
        let of = |record: &&allot_tests::Reply| record.field("cmu").text().contains(&pid);
        units.array().iter().find(of).is_none_or(|record| record.field("state").text() == "down")
            && realm.stat("open") == CONFERENCES as i64
    });
    // Copies that should have ended would be noticed.
    sleep(Duration::from_secs(2));
}

#[test]
fn no_conference_runs_twice_when_a_unit_hangs_or_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { units: 3, ..Plan::default() };
    let mut system = System::start(&plan.with("ALLOT_MEDIA_UNIT_PROGRAM", &clock_program(dir.path())));
    system.create(CONFERENCES);
    system.healthy("all to be open");

    // For longer than the lease, and less than the grace period: nothing stops.
    let before = starts(dir.path());
    system.units[0].cut_redis();
    system.units[1].cut_zookeeper();
    sleep(Duration::from_millis(3500));
    system.units[0].heal();
    system.units[1].heal();
    system.healthy("units back that were cut off for a while");
    assert_eq!(starts(dir.path()), before, "a program was stopped that need not");

    system.until_confirmed();
    system.fail_over(true);
    system.healthy("the master killed, and its replica in its place");
    system.restore_replica();
    assert_eq!(starts(dir.path()), before, "a program was stopped by a failover");

    system.units[0].pause();
    recovered(&system, 0);
    system.units[0].resume();
    system.healthy("a unit that hung");
    system.units[1].cut_redis();
    recovered(&system, 1);
    system.units[1].heal();
    system.healthy("a unit that was cut off Redis");
    system.units[2].cut_redis();
    system.units[2].cut_zookeeper();
    recovered(&system, 2);
    system.units[2].heal();
    system.healthy("a unit that was cut off both");
    assert!(starts(dir.path()) >= before + CONFERENCES, "conferences were recovered");
    assert_eq!(longest_overlap(dir.path()), 0, "two copies ran: {:?}", runs(dir.path()));
}
