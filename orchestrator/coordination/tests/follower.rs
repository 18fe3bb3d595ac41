//! The loop that reads the tree, when requests are refused and connections are lost.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by them")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use allot_coordination::in_process::InProcess;
use allot_coordination::{Coordinator, Error, Kind, Version};
use allot_simulation::line::{Line, Step, Steps};

/// Refuses all requests while it is told to, and counts them.
#[derive(Default)]
struct Guard {
    refuses: AtomicBool,
    requests: AtomicU64,
}

impl Steps for Guard {
    fn next(&self, _: &str, _: &str) -> Step {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.refuses.load(Ordering::Relaxed) { Step::Refused } else { Step::Answered(Duration::ZERO) }
    }
}

async fn guarded() -> (InProcess, Arc<Guard>, Coordinator) {
    let (tree, guard) = (InProcess::new(Duration::from_secs(2)), Arc::new(Guard::default()));
    let line = Line::new(tree.clone(), guard.clone());
    let coordinator = Coordinator::start(Arc::new(line));
    assert!(coordinator.up().await.is_ok());
    (tree, guard, coordinator)
}

#[tokio::test(start_paused = true)]
async fn refusal_is_a_problem_until_it_is_lifted_and_is_tried_seldom() {
    let (_tree, guard, coordinator) = guarded().await;
    let mut problems = coordinator.problems();
    guard.refuses.store(true, Ordering::Relaxed);
    let mut members = coordinator.members("/units");
    problems.wait_for(|problems| problems.len() == 1).await.unwrap();
    let text = problems.borrow().values().next().cloned().unwrap();
    assert!(text.starts_with("members of /units: ") && text.contains("refused"), "{text}");
    sleep(Duration::from_secs(60)).await;
    let before = guard.requests.load(Ordering::Relaxed);
    sleep(Duration::from_secs(60)).await;
    let made = guard.requests.load(Ordering::Relaxed) - before;
    assert!((6..=12).contains(&made), "{made} requests in a minute");
    guard.refuses.store(false, Ordering::Relaxed);
    members.wait_for(|snapshot| snapshot.current).await.unwrap();
    assert!(problems.borrow().is_empty());
    // The problem of a loop that has ended is none.
    guard.refuses.store(true, Ordering::Relaxed);
    let membership = coordinator.join("/units", "u", b"u");
    problems.wait_for(|problems| problems.len() == 1).await.unwrap();
    guard.refuses.store(false, Ordering::Relaxed);
    membership.leave().await;
    assert!(problems.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn follower_reads_again_after_each_change_and_connection() {
    let (tree, _guard, coordinator) = guarded().await;
    coordinator.tree().create("/n", b"1", Kind::Persistent).await.unwrap();
    let mut follower = coordinator.follower("node");
    let of = coordinator.tree();
    let read = || async {
        let (node, changed) = of.watch_node("/n").await?;
        Ok::<_, Error>((node.data, changed))
    };
    assert_eq!(follower.read(read).await.unwrap(), b"1");
    assert!(timeout(Duration::from_secs(9), follower.changed()).await.is_err());
    coordinator.tree().set("/n", b"2", Version::FIRST).await.unwrap();
    follower.changed().await;
    assert_eq!(follower.read(read).await.unwrap(), b"2");
    let began = Instant::now();
    tree.freeze();
    follower.changed().await;
    tree.thaw();
    assert_eq!(follower.read(read).await.unwrap(), b"2");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn refusal_of_what_need_not_be_read_any_more_is_no_problem() {
    let (_tree, guard, coordinator) = guarded().await;
    let problems = coordinator.problems();
    let (mut follower, of) = (coordinator.follower("node"), coordinator.tree());
    guard.refuses.store(true, Ordering::Relaxed);
    let read = follower.read(|| of.watch("/"));
    assert!(timeout(Duration::from_secs(9), read).await.is_err());
    assert_eq!(problems.borrow().len(), 1, "the refusal is told");
    follower.rest();
    assert!(problems.borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn member_that_was_replaced_between_two_reads_is_read_again() {
    let (tree, guard, coordinator) = guarded().await;
    let mut members = coordinator.members("/units");
    members.wait_for(|snapshot| snapshot.current).await.unwrap();
    let other = Coordinator::start(Arc::new(tree));
    other.up().await.unwrap();
    let create = async |name: &str, data: &[u8]| {
        other.tree().create(&format!("/units/{name}"), data, Kind::Ephemeral).await.unwrap();
    };
    for name in ["a", "b", "c"] {
        create(name, b"1").await;
        members.wait_for(|snapshot| snapshot.members.contains_key(name)).await.unwrap();
    }
    // Of the members that are known, none is read.
    let before = guard.requests.load(Ordering::Relaxed);
    create("d", b"1").await;
    members.wait_for(|snapshot| snapshot.members.len() == 4).await.unwrap();
    assert_eq!(guard.requests.load(Ordering::Relaxed) - before, 2);
    other.tree().delete("/units/b", Version::FIRST).await.unwrap();
    create("b", b"2").await;
    let seen = members.wait_for(|snapshot| snapshot.members["b"].data == b"2").await.unwrap();
    assert_eq!(seen.members.len(), 4);
}
