//! `allot book simulate`: months replayed from files, and their costs recounted without the code of the book.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use allot_tests::RedisServer;
use allot_tests::daemon::{Run, run};
use serde_json::Value;
use tempfile::TempDir;

/// A tariff: instructions at the flat price, and the steps beyond.
type Tariff = (u64, [(u64, u64); 2]);

/// The tariffs of the recounted month: of accounts with an even number, and of those with an odd one.
const TARIFFS: [Tariff; 2] = [(100, [(150, 1), (400, 3)]), (70, [(130, 2), (400, 4)])];

struct Desk {
    server: RedisServer,
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { server: RedisServer::start(), dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Simulates a month. Three files are used: the trace, the accounts, and the assignments that are written.
    fn simulate(&self, accounts: &str, trace: &str, more: &[&str]) -> Run {
        let paths = ["trace.csv", "accounts.csv", "assignments.csv"].map(|name| self.path(name));
        fs::write(&paths[0], trace).unwrap();
        fs::write(&paths[1], accounts).unwrap();
        let [trace, accounts, assignments] = paths.each_ref().map(|path| path.to_str().unwrap());
        let line = ["book", "simulate", trace, "--accounts", accounts, "--assignments", assignments];
        run(&self.server, &[&line[..], more].concat())
    }
}

#[test]
fn a_month_is_replayed_from_files_without_a_server() {
    let desk = Desk::new();
    let mut accounts = "department,module,account,quota,tiers\n".to_owned();
    for number in 0..20 {
        let _ = writeln!(accounts, "d,m,p{number},100,1000:0.5");
    }
    let mut trace = "time,module,instance,count\n".to_owned();
    for hour in 0..600 {
        let _ = writeln!(trace, "{},m,busy,3\n{},m,idle,0", hour * 3600, hour * 3600);
    }
    let text = desk.simulate(&accounts, &trace, &[]).ok().out;
    assert!(text.contains("fixed       400 "), "{text}");
    let json: Value =
        serde_json::from_str(&desk.simulate(&accounts, &trace, &["--format", "json"]).ok().out).unwrap();
    let [fixed, rebalanced] = [0, 1].map(|month| &json["months"][month]);
    assert_eq!((&fixed["cost"], &json["least_cost"]), (&"400".into(), &"0".into()));
    let evened: f64 = rebalanced["cost"].as_str().unwrap().parse().unwrap();
    assert!(evened <= 40.0 && rebalanced["moves"].as_u64().unwrap() > 0, "{json}");
    let unsorted = "time,module,instance,count\n5,m,a,1\n4,m,a,1\n";
    assert!(desk.simulate(&accounts, unsorted, &[]).ended(3).err.contains("line 3"));
}

/// A month of two departments: one module with a busy and a quiet instance, one that becomes busy late, and one that
/// lends its department nothing.
fn uneven_month() -> (String, String) {
    let mut accounts = "department,module,account,quota,tiers\n".to_owned();
    for (module, department, numbers) in [("m", "d", 0..20), ("n", "d", 20..41), ("o", "x", 41..50)] {
        for number in numbers {
            let (quota, steps) = TARIFFS[number % 2];
            let steps = steps.map(|(upto, price)| format!("{upto}:{price}")).join(" ");
            let _ = writeln!(accounts, "{department},{module},p{number:02},{quota},{steps}");
        }
    }
    let mut trace = "time,module,instance,count\n".to_owned();
    for hour in 0..720 {
        let busy = 1 + hour * 31 % 11;
        let late = if hour < 500 { 0 } else { 5 };
        for (place, count) in [("m,a", busy), ("m,b", hour % 2), ("n,c", late), ("o,e", 1), ("o,f", hour % 4)]
        {
            let _ = writeln!(trace, "{},{place},{count}", hour * 3600);
        }
    }
    (accounts, trace)
}

/// The lines of a table without its heading, by columns.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().skip(1).map(|line| line.split(',').collect()).collect()
}

/// The price of the next instruction of an account after so many, and how many instructions have this price.
fn next_price(account: &str, used: u64) -> (u64, u64) {
    let number: usize = account[1..].parse().unwrap();
    let (quota, steps) = TARIFFS[number % 2];
    let mut open = std::iter::once((quota, 0)).chain(steps).filter(|&(upto, _)| used < upto);
    open.next().map_or((steps[1].1, u64::MAX), |(upto, price)| (price, upto - used))
}

/// The least cost of a trace, as docs/accounts.md defines it: each instruction takes the cheapest account of all.
fn least(accounts: &str, trace: &str) -> u64 {
    let instructions: u64 = rows(trace).iter().map(|row| row[3].parse::<u64>().unwrap()).sum();
    let mut used: BTreeMap<&str, u64> = rows(accounts).iter().map(|row| (row[2], 0)).collect();
    let mut cost = 0;
    for _ in 0..instructions {
        let (account, used) =
            used.iter_mut().min_by_key(|(account, used)| next_price(account, **used).0).unwrap();
        cost += next_price(account, *used).0;
        *used += 1;
    }
    cost
}

/// The cost of a month as docs/accounts.md says it is computed, from the trace and the table of assignments.
fn recounted(trace: &str, assignments: &str) -> u64 {
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    let mut holder: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let mut assigned = rows(assignments).into_iter().peekable();
    for (line, row) in (2..).zip(rows(trace)) {
        while let Some(row) = assigned.next_if(|row| row[1].parse::<usize>().unwrap() <= line) {
            holder.insert(row[2], (row[3], row[4]));
        }
        let mut left: u64 = row[3].parse().unwrap();
        while left > 0 {
            let own = holder.iter().filter(|&(_, place)| *place == (row[1], row[2]));
            let order = |account: &str| {
                let (price, room) = next_price(account, used.get(account).copied().unwrap_or(0));
                (price, Reverse(room), Reverse(account.to_owned()))
            };
            let account = own.map(|(account, _)| *account).min_by_key(|account| order(account)).unwrap();
            let part = left.min(20);
            *used.entry(account).or_default() += part;
            left -= part;
        }
    }
    assert!(assigned.next().is_none(), "each assignment precedes a line of the trace");
    used.iter().flat_map(|(account, &used)| (0..used).map(|before| next_price(account, before).0)).sum()
}

#[test]
fn cost_of_a_rebalanced_month_is_that_of_an_independent_recount() {
    let desk = Desk::new();
    let (accounts, trace) = uneven_month();
    let out = desk.simulate(&accounts, &trace, &["--format", "json"]).ok().out;
    let json: Value = serde_json::from_str(&out).unwrap();
    let month = |name: &str| &json["months"][usize::from(name == "rebalanced")];
    let cost = |name: &str| month(name)["cost"].as_str().unwrap().parse::<u64>().unwrap();
    let assignments = fs::read_to_string(desk.path("assignments.csv")).unwrap();
    assert!(assignments.starts_with("time,line,account,module,instance\n"), "{assignments}");
    let moves = month("rebalanced")["moves"].as_u64().unwrap() as usize;
    let (first, later): (Vec<_>, Vec<_>) = rows(&assignments).into_iter().partition(|row| row[0] == "0");
    assert_eq!((first.len(), later.len()), (50, moves));
    assert!(moves > 10 && cost("rebalanced") > 0 && cost("rebalanced") < cost("fixed"), "{json}");
    assert_eq!(recounted(&trace, &assignments), cost("rebalanced"));
    let best: u64 = json["least_cost"].as_str().unwrap().parse().unwrap();
    assert_eq!(best, least(&accounts, &trace));
    assert!(best > 0 && best < cost("rebalanced"), "{json}");
    // Without the moves of rebalancing it is the static month.
    let kept: Vec<&str> = assignments.lines().take(51).collect();
    assert_eq!(recounted(&trace, &kept.join("\n")), cost("fixed"));
}
