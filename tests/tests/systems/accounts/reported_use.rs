//! Client systems that speak only ZooKeeper report their use in their `-alloc` nodes.

use allot_tests::wait::TIMEOUT;
use allot_tests::{AccountsSystem, eventually, soak};

/// What the book has counted of all accounts.
fn counted(system: &AccountsSystem) -> i64 {
    let usage = system.book().ok("USAGE BY account COUNT 1000");
    usage.array()[1].array().iter().map(|line| line.field("used").int()).sum()
}

#[test]
fn reported_use_is_counted_once_whoever_leads() {
    let mut system = AccountsSystem::start(2);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 2");
    book.ok("MODULE n DEPARTMENT d INSTANCES 1");
    book.add("m", 0..6);
    let instances = ["d/m/one:1", "d/m/two:2", "d/n/three:3"];
    let client = system.add_clients(&[], &instances);
    eventually("all to be attached", TIMEOUT, || book.total("instances") == 3);
    system.healthy("two to share");
    let mut there = "n";
    for round in 0..soak(6, 40) {
        for (number, instance) in instances.iter().enumerate() {
            system.clients[client].say(&format!("use {instance} {}", 1 + round + number));
        }
        match round % 3 {
            // The report may be read by either leader, or by both.
            0 => {
                let leader = system.until_led();
                system.daemons[leader].kill9();
                system.daemons[leader].start();
            }
            // Accounts are taken, and have their last use reported with the release.
            1 => {
                book.ok(&format!("MOVE {there} 2 p0 p1"));
                there = if there == "n" { "m" } else { "n" };
            }
            // An account comes back to the same instance, or goes to another.
            _ => {
                let ours = system.has("m/one:1");
                system.clients[client].say(&format!("return d/m/one:1 {}", ours[0]));
            }
        }
        system.healthy("all to be as the book says");
    }
    let mut sent = 0;
    eventually("all use to be counted", TIMEOUT, || {
        sent = system.clients[client].sent().values().sum();
        sent > 0 && counted(&system) == sent
    });
    // The next leader reads the same reports, and counts nothing twice.
    let leader = system.until_led();
    system.daemons[leader].kill9();
    system.until_led();
    system.healthy("the next leader to have read all");
    assert_eq!(counted(&system), sent);
    // Another process of the name counts from 0 again.
    let before = counted(&system);
    system.clients[client].say("go d/m/one:1");
    system.clients[client].say("come d/m/one:1");
    system.healthy("the next process to have its accounts");
    let ours = system.has("m/one:1").len() as i64;
    system.clients[client].say("use d/m/one:1 1");
    eventually("its use to be counted", TIMEOUT, || counted(&system) == before + ours);
}
