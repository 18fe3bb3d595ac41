//! Accounts dealt to client systems: real servers, daemons as processes, clients that know nothing but ZooKeeper. Each has
//! a platform before it that notices a second login.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use allot_tests::wait::GENEROUS;
use allot_tests::{Dealing, eventually};

#[test]
fn clients_that_come_and_go_share_the_accounts_of_their_module() {
    let mut system = Dealing::start(1);
    let mut book = system.book();
    // The first start, and an empty tree.
    book.ok("MODULE billing DEPARTMENT finance INSTANCES 2 RESERVE 1");
    book.add("billing", 0..9);
    let first = system.add_clients(&[], &["finance/billing/web1:8080"]);
    system.healthy("one instance to have all");
    assert_eq!(book.shares("billing"), [8]);

    let second = system.add_clients(&[], &["finance/billing/web2:8080"]);
    eventually("the second to be attached", GENEROUS, || book.shares("billing").len() == 2);
    system.healthy("two instances to share");
    assert_eq!(book.shares("billing"), [4, 4]);

    // A third stands by, and is promoted when a place falls free.
    let third = system.add_clients(&[], &["finance/billing/web3:8080"]);
    eventually("the third to be attached", GENEROUS, || book.shares("billing").len() == 3);
    system.healthy("the third to stand by");
    assert_eq!(book.shares("billing"), [4, 4, 0]);
    system.clients[first].say("go finance/billing/web1:8080");
    eventually("the first to be gone", GENEROUS, || book.shares("billing").len() == 2);
    system.healthy("the third to have the place of the first");
    assert_eq!(book.shares("billing"), [4, 4]);

    // One that dies is missed after its session and the grace.
    system.clients[second].kill9();
    system.clients.remove(second);
    eventually("the second to be gone", GENEROUS, || book.shares("billing").len() == 1);
    system.healthy("the third to have all");
    assert_eq!(book.shares("billing"), [8]);
    let _ = third;
}
