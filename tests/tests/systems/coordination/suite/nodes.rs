//! Nodes, their directories and watches, and calls.

use std::time::Duration;

use allot_coordination::{Error, Kind, Limits, MULTI_LIMIT, NODE_LIMIT, Op, Version};
use allot_tests::eventually;
use allot_tests::wait::TIMEOUT;
use tokio::task::JoinHandle;

use super::answered;
use crate::coordination::participants::{Participant, World};

suite! {
    nodes_are_written_by_version_only
    a_multi_is_done_whole_or_not_at_all
    many_nodes_are_read_in_one_request
    what_is_too_large_is_refused_before_it_is_sent
    numbers_of_sequential_nodes_grow
    a_directory_says_when_its_children_change
    a_node_says_when_its_data_change_and_when_it_goes
    ephemeral_nodes_go_with_their_session
    calls_beyond_the_limit_wait_and_then_give_up
    a_create_whose_answer_was_lost_is_read_back
    nothing_is_asked_after_close
}

/// How often a scene is played that only shows something as long as nobody is cut off.
const SCENES: usize = 5;

fn nodes_are_written_by_version_only(world: &dyn World) {
    let participant = world.join();
    participant.run(async |coordinator| {
        let tree = coordinator.tree();
        assert_eq!(tree.get("/a/b").await, Ok(None));
        assert_eq!(tree.create("/a/b", b"", Kind::Persistent).await, Err(Error::NoNode("/a/b".into())));
        tree.ensure("/a/b").await.unwrap();
        tree.ensure("/a/b").await.unwrap();
        tree.create("/a/b/c", b"one", Kind::Persistent).await.unwrap();
        let exists = tree.create("/a/b/c", b"other", Kind::Persistent).await;
        assert_eq!(exists, Err(Error::Exists("/a/b/c".into())));
        let node = tree.get("/a/b/c").await.unwrap().unwrap();
        assert_eq!(
            (node.data.as_slice(), node.version, node.owner),
            (b"one".as_slice(), Version::FIRST, None)
        );
        let second = tree.set("/a/b/c", b"two", Version::FIRST).await.unwrap();
        assert_eq!(second, Version::FIRST.next());
        let bad = Error::BadVersion("/a/b/c".into());
        assert_eq!(tree.set("/a/b/c", b"late", Version::FIRST).await, Err(bad.clone()));
        assert_eq!(tree.get("/a/b/c").await.unwrap().unwrap().data, b"two");
        assert_eq!(tree.children("/a/b").await.unwrap(), ["c"]);
        assert_eq!(tree.delete("/a/b", Version::FIRST).await, Err(Error::NotEmpty("/a/b".into())));
        assert_eq!(tree.delete("/a/b/c", Version::FIRST).await, Err(bad));
        tree.delete("/a/b/c", second).await.unwrap();
        assert_eq!(tree.delete("/a/b/c", second).await, Err(Error::NoNode("/a/b/c".into())));
        // The same name again is another node.
        tree.create("/a/b/c", b"one", Kind::Persistent).await.unwrap();
        assert!(tree.get("/a/b/c").await.unwrap().unwrap().created > node.created);
    });
}

fn a_multi_is_done_whole_or_not_at_all(world: &dyn World) {
    let participant = world.join();
    participant.run(async |coordinator| {
        let tree = coordinator.tree();
        tree.ensure("/m").await.unwrap();
        tree.create("/m/state", b"init", Kind::Persistent).await.unwrap();
        let turn = |version| {
            vec![
                Op::Delete { path: "/m/state".into(), version: None },
                Op::Create { path: "/m/next".into(), data: b"running".to_vec(), kind: Kind::Persistent },
                Op::Check { path: "/m".into(), version: Some(version) },
            ]
        };
        let refused = tree.multi(turn(Version(7))).await;
        assert_eq!(refused, Err(Error::BadVersion("/m".into())));
        assert_eq!(tree.children("/m").await.unwrap(), ["state"]);
        tree.multi(turn(Version::FIRST)).await.unwrap();
        assert_eq!(tree.children("/m").await.unwrap(), ["next"]);
        assert_eq!(tree.get("/m/next").await.unwrap().unwrap().data, b"running");
    });
}

fn many_nodes_are_read_in_one_request(world: &dyn World) {
    let participant = world.join();
    participant.run(async |coordinator| {
        let tree = coordinator.tree();
        tree.ensure("/e/a/x").await.unwrap();
        tree.create("/e/b", b"two", Kind::Persistent).await.unwrap();
        tree.set("/e/b", b"three", Version::FIRST).await.unwrap();
        let paths = ["/e/b", "/e/none", "/e/a", "/e/b"].map(str::to_owned);
        let nodes = tree.get_each(&paths).await.unwrap();
        let b = tree.get("/e/b").await.unwrap().unwrap();
        assert_eq!((b.data.as_slice(), b.version), (b"three".as_slice(), Version::FIRST.next()));
        let a = tree.get("/e/a").await.unwrap().unwrap();
        let none = Error::NoNode("/e/none".into());
        assert_eq!(nodes, [Ok(b.clone()), Err(none.clone()), Ok(a), Ok(b)]);
        let names = tree.children_of_each(&paths).await.unwrap();
        assert_eq!(names, [Ok(vec![]), Err(none), Ok(vec!["x".to_owned()]), Ok(vec![])]);
        assert_eq!(tree.get_each(&[]).await, Ok(Vec::new()));
        assert_eq!(tree.children_of_each(&[]).await, Ok(Vec::new()));
    });
}

fn what_is_too_large_is_refused_before_it_is_sent(world: &dyn World) {
    let participant = world.join();
    participant.run(async |coordinator| {
        let tree = coordinator.tree();
        let before = coordinator.status();
        tree.create("/large", &vec![1; NODE_LIMIT], Kind::Persistent).await.unwrap();
        let over = tree.create("/larger", &vec![1; NODE_LIMIT + 1], Kind::Persistent).await;
        assert!(matches!(over, Err(Error::TooLarge { limit: NODE_LIMIT, .. })), "{over:?}");
        let over = tree.set("/large", &vec![1; 2 * NODE_LIMIT], Version::FIRST).await;
        assert!(matches!(over, Err(Error::TooLarge { .. })), "{over:?}");
        // Each node is small enough, all together would cut the connection.
        let piece = |n: usize| Op::Create {
            path: format!("/piece-{n}"),
            data: vec![1; MULTI_LIMIT / 4],
            kind: Kind::Persistent,
        };
        let over = tree.multi((0..5).map(piece).collect()).await;
        assert!(matches!(over, Err(Error::TooLarge { limit: MULTI_LIMIT, .. })), "{over:?}");
        tree.multi((0..3).map(piece).collect()).await.unwrap();
        // Nothing of it touched the connection.
        assert_eq!(coordinator.status(), before);
    });
}

fn numbers_of_sequential_nodes_grow(world: &dyn World) {
    let participant = world.join();
    participant.run(async |coordinator| {
        let tree = coordinator.tree();
        tree.ensure("/s").await.unwrap();
        let mut names = Vec::new();
        for round in 0..12 {
            let name = tree.create_sequential("/s", "n-", b"", Kind::Persistent).await.unwrap();
            if round % 2 == 0 {
                tree.delete(&format!("/s/{name}"), Version::FIRST).await.unwrap();
            }
            names.push(name);
        }
        assert!(names.is_sorted() && names.iter().all(|name| name.len() == "n-".len() + 10), "{names:?}");
        names.dedup();
        assert_eq!(names.len(), 12);
    });
}

fn a_directory_says_when_its_children_change(world: &dyn World) {
    let (watcher, other) = (world.join(), world.join());
    let [changed] = watcher.run(async |coordinator| {
        coordinator.tree().ensure("/w").await.unwrap();
        let (names, changed) = coordinator.tree().watch("/w").await.unwrap();
        assert!(names.is_empty());
        [changed]
    });
    other.run(async |coordinator| coordinator.tree().create("/w/n", b"", Kind::Persistent).await.unwrap());
    watcher.run(async |coordinator| {
        changed.await;
        assert_eq!(coordinator.tree().children("/w").await.unwrap(), ["n"]);
    });
}

fn a_node_says_when_its_data_change_and_when_it_goes(world: &dyn World) {
    let (watcher, other) = (world.join(), world.join());
    let look = || {
        let [look] = watcher.run(async |coordinator| [coordinator.tree().watch_node("/d").await]);
        look
    };
    assert_eq!(look().map(|(node, _)| node), Err(Error::NoNode("/d".into())));
    other.run(async |coordinator| coordinator.tree().create("/d", b"one", Kind::Persistent).await.unwrap());
    watcher.run(async |coordinator| coordinator.tree().sync().await.unwrap());
    let (node, changed) = look().unwrap();
    assert_eq!(node.data, b"one");
    let version =
        other.run(async |coordinator| [coordinator.tree().set("/d", b"two", node.version).await.unwrap()]);
    watcher.run(async |_| changed.await);
    let (node, changed) = look().unwrap();
    assert_eq!((node.data.as_slice(), [node.version]), (&b"two"[..], version));
    other.run(async |coordinator| coordinator.tree().delete("/d", node.version).await.unwrap());
    watcher.run(async |_| changed.await);
}

fn ephemeral_nodes_go_with_their_session(world: &dyn World) {
    let (first, second) = (world.join(), world.join());
    first.run(async |coordinator| {
        let tree = coordinator.tree();
        tree.ensure("/e").await.unwrap();
        tree.create("/e/first", b"", Kind::Ephemeral).await.unwrap();
        let node = tree.get("/e/first").await.unwrap().unwrap();
        assert_eq!(node.owner, coordinator.session_id());
        let child = tree.create("/e/first/child", b"", Kind::Persistent).await;
        assert!(matches!(child, Err(Error::Refused { .. })), "{child:?}");
    });
    second.run(async |coordinator| {
        coordinator.tree().create("/e/second", b"", Kind::Ephemeral).await.unwrap();
    });
    // In an orderly way: gone at once. Without a word: gone in time.
    let names = |participant: &Participant| {
        participant.run(async |coordinator| {
            let tree = coordinator.tree();
            answered(|| tree.sync()).await;
            answered(|| tree.children("/e")).await
        })
    };
    first.run(async |coordinator| coordinator.close().await);
    assert_eq!(names(&second), ["second"]);
    drop(second);
    let third = world.join();
    eventually("the node of the vanished to be gone", TIMEOUT, || names(&third).is_empty());
}

fn calls_beyond_the_limit_wait_and_then_give_up(world: &dyn World) {
    let limits = Limits { call: Duration::from_millis(300), in_flight: 4, settle: Duration::from_millis(1) };
    let participant = world.join_with(limits);
    let one_is_busy = || {
        let before = participant.run(async |coordinator| coordinator.up().await.unwrap());
        // As long as the service is frozen nothing ends, and what was given up is still in flight.
        world.freeze();
        let answers = participant.run(async |coordinator| {
            let asks = (0..6).map(|n| {
                let tree = coordinator.tree();
                tokio::spawn(async move { tree.get(&format!("/n-{n}")).await })
            });
            let mut answers = Vec::new();
            for ask in asks.collect::<Vec<_>>() {
                answers.push(ask.await.unwrap());
            }
            answers
        });
        let cut_off = answers.contains(&Err(Error::Offline)) || participant.coordinator().status() != before;
        world.thaw();
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        let busy = answers.contains(&Err(Error::Busy));
        assert!(busy || cut_off, "{answers:?}");
        busy
    };
    // Who waits for the machine may be cut off before all is asked; then it is done again.
    assert!((0..SCENES).any(|_| one_is_busy()), "cut off each time");
    // The place of each is free again when it has ended.
    participant.run(async |coordinator| {
        coordinator.up().await.unwrap();
        loop {
            if coordinator.tree().get("/n").await == Ok(None) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

fn a_create_whose_answer_was_lost_is_read_back(world: &dyn World) {
    let limits = Limits { call: Duration::from_millis(200), settle: TIMEOUT, in_flight: 256 };
    let participant = world.join_with(limits);
    // Who waits for the machine may be cut off before all is asked; then it is done again.
    assert!((0..SCENES).any(|n| is_read_back(world, &participant, &format!("/r{n}"))), "cut off each time");
}

/// Creates nodes in a directory while the service is frozen; whether that went on without being cut off.
fn is_read_back(world: &dyn World, participant: &Participant, dir: &str) -> bool {
    let before = participant.run(async |coordinator| {
        let tree = coordinator.tree();
        answered(|| tree.ensure(dir)).await;
        coordinator.up().await.unwrap()
    });
    world.freeze();
    let (asked, cut_off) = participant.run(async |coordinator| {
        let tree = coordinator.tree();
        let [plain, mine, multi] = ["plain", "mine", "multi"].map(|name| format!("{dir}/{name}"));
        let asked = [
            tokio::spawn({
                let tree = tree.clone();
                async move { tree.create(&plain, b"mine", Kind::Persistent).await }
            }),
            tokio::spawn({
                let tree = tree.clone();
                async move { tree.create(&mine, b"", Kind::Ephemeral).await }
            }),
            tokio::spawn({
                let tree = tree.clone();
                let many = vec![Op::Create { path: multi, data: b"m".to_vec(), kind: Kind::Persistent }];
                async move { tree.multi(many).await }
            }),
            tokio::spawn({
                let dir = dir.to_owned();
                async move { tree.create_sequential(&dir, "s-", b"", Kind::Persistent).await.map(drop) }
            }),
        ];
        // Long enough for every call to have given up on its answer; a shorter while would test less.
        tokio::time::sleep(Duration::from_millis(400)).await;
        // A call that is cut off may end before the status tells.
        let cut_off = asked.iter().any(JoinHandle::is_finished) || coordinator.status() != before;
        (asked, cut_off)
    });
    world.thaw();
    participant.run(async |coordinator| {
        for ask in asked {
            let answer = ask.await.unwrap();
            assert!(cut_off || answer == Ok(()), "{answer:?}");
        }
        if cut_off {
            return false;
        }
        // Carried out once each, not twice.
        let tree = coordinator.tree();
        let mut names = answered(|| tree.children(dir)).await;
        names.sort();
        assert_eq!(names.len(), 4, "{names:?}");
        assert_eq!(names[..3], ["mine", "multi", "plain"]);
        assert!(names[3].starts_with("s-"), "{names:?}");
        true
    })
}

fn nothing_is_asked_after_close(world: &dyn World) {
    let participant = world.join();
    participant.run(async |coordinator| {
        let mut election = coordinator.campaign("/el", "a");
        let lead = election.elected().await.unwrap();
        coordinator.close().await;
        assert_eq!(coordinator.tree().get("/el").await, Err(Error::Closed));
        assert_eq!(coordinator.up().await, Err(Error::Closed));
        assert_eq!(lead.check(), Err(Error::NotLeading));
        lead.lost().await;
    });
}
