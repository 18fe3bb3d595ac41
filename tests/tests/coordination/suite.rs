//! What must hold of every implementation. Each of these runs in one process and on a real ZooKeeper server.

use std::time::{Duration, Instant};

use allot_coordination::{
    Error, Kind, LeadershipState, Link, MULTI_LIMIT, NODE_LIMIT, Op, Presence, Settings, Version,
};
use allot_tests::eventually;
use allot_tests::wait::TIMEOUT;

use crate::participants::{Local, Participant, Real, World};

macro_rules! suite {
    ($($name:ident)*) => {
        mod in_process { $(#[test] fn $name() { super::$name(&super::Local::new()); })* }
        mod zookeeper { $(#[test] fn $name() { super::$name(&super::Real::new()); })* }
    };
}

suite! {
    nodes_are_written_by_version_only
    a_multi_is_done_whole_or_not_at_all
    what_is_too_large_is_refused_before_it_is_sent
    numbers_of_sequential_nodes_grow
    a_directory_says_when_its_children_change
    a_node_says_when_its_data_change_and_when_it_goes
    ephemeral_nodes_go_with_their_session
    calls_beyond_the_limit_wait_and_then_give_up
    one_candidate_leads_and_each_term_is_greater
    a_leader_that_vanishes_is_replaced_and_its_name_with_it
    a_candidate_that_withdraws_while_waiting_leaves_the_queue
    a_deposed_leader_writes_nothing
    leadership_pauses_while_cut_off_and_resumes_with_its_lock
    all_sessions_over_means_a_new_leader_in_a_higher_term
    a_create_whose_answer_was_lost_is_read_back
    members_are_listed_with_what_they_say_and_go_when_they_vanish
    a_member_is_there_again_under_its_next_session
    a_name_that_another_holds_is_waited_for
    what_an_earlier_session_of_the_same_process_left_is_replaced
    nothing_is_asked_after_close
}

/// How often a scene is played that only shows something as long as nobody is cut off.
const SCENES: usize = 5;

/// Asks until there is an answer: who waits for the machine may be cut off meanwhile, and some calls have a short limit
/// for the sake of others that are to have no answer.
async fn answered<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(10)).await,
            answer => return answer.unwrap(),
        }
    }
}

/// How many candidates stand.
fn standing(participant: &Participant) -> usize {
    participant.run(async |coordinator| {
        let tree = coordinator.tree();
        answered(|| tree.children("/el/latches")).await.len()
    })
}

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
    let settings = Settings {
        call: Some(Duration::from_millis(300)),
        in_flight: 4,
        settle: Some(Duration::from_millis(1)),
    };
    let participant = world.join_with(&settings);
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

fn one_candidate_leads_and_each_term_is_greater(world: &dyn World) {
    let (a, b) = (world.join(), world.join());
    let mut first = a.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead_a = a.run(async |_| first.elected().await.unwrap());
    let mut second = b.run(async |coordinator| coordinator.campaign("/el", "b"));
    eventually("both to stand", TIMEOUT, || standing(&b) == 2);
    assert!(second.leadership().is_none());
    assert_eq!(b.run(async |_| second.leader().await.unwrap()), Some("a".into()));
    assert_eq!(lead_a.check(), Ok(lead_a.term()));
    // Handing over: a is out before b is in, and goes to the end of the queue.
    let asked = Instant::now();
    lead_a.resign();
    assert_eq!(lead_a.check(), Err(Error::NotLeading));
    let lead_b = b.run(async |_| second.elected().await.unwrap());
    println!("orderly hand-over: {:?}", asked.elapsed());
    assert!(lead_b.term() > lead_a.term());
    assert_eq!(lead_a.state(), LeadershipState::Lost);
    b.run(async |_| second.withdraw().await);
    assert_eq!(lead_b.state(), LeadershipState::Lost);
    let again = a.run(async |_| first.elected().await.unwrap());
    assert!(again.term() > lead_b.term());
    let epoch = a.run(async |coordinator| coordinator.tree().get("/el/epoch").await.unwrap().unwrap());
    assert_eq!(String::from_utf8(epoch.data).unwrap(), again.term().to_string());
}

fn a_leader_that_vanishes_is_replaced_and_its_name_with_it(world: &dyn World) {
    let (a, b) = (world.join(), world.join());
    let mut first = a.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead_a = a.run(async |_| first.elected().await.unwrap());
    let mut second = b.run(async |coordinator| coordinator.campaign("/el", "b"));
    let vanished = Instant::now();
    drop(a);
    let lead_b = b.run(async |_| second.elected().await.unwrap());
    println!(
        "take-over after a leader vanished, session timeout {:?}: {:?}",
        crate::participants::SESSION,
        vanished.elapsed()
    );
    assert!(lead_b.term() > lead_a.term());
    assert_eq!(b.run(async |_| second.leader().await.unwrap()), Some("b".into()));
    drop(first);
}

fn a_candidate_that_withdraws_while_waiting_leaves_the_queue(world: &dyn World) {
    let (a, b) = (world.join(), world.join());
    let mut first = a.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead = a.run(async |_| first.elected().await.unwrap());
    let second = b.run(async |coordinator| coordinator.campaign("/el", "b"));
    eventually("both to stand", TIMEOUT, || standing(&a) == 2);
    b.run(async |_| second.withdraw().await);
    a.run(async |coordinator| {
        let tree = coordinator.tree();
        answered(|| tree.sync()).await;
    });
    assert_eq!(standing(&a), 1);
    assert!(lead.check().is_ok());
}

fn a_deposed_leader_writes_nothing(world: &dyn World) {
    let (a, b) = (world.join(), world.join());
    let mut first = a.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead = a.run(async |_| first.elected().await.unwrap());
    let tree = lead.tree().unwrap();
    a.run(async |_| {
        tree.create("/owned", b"a", Kind::Persistent).await.unwrap();
        assert_eq!(tree.set("/owned", b"a again", Version::FIRST).await, Ok(Version(1)));
        // A refusal that is not about the fence stays what it is.
        let late = tree.set("/owned", b"a", Version::FIRST).await;
        assert_eq!(late, Err(Error::BadVersion("/owned".into())));
        assert!(lead.check().is_ok());
    });
    // Somebody takes the lock away. Of these many writes some are sent before the leader hears of it.
    let writes = a.run(async |_| {
        let taker = b.coordinator().clone();
        let taking = async {
            let names = taker.tree().children("/el/latches").await.unwrap();
            taker.tree().delete(&format!("/el/latches/{}", names[0]), Version::FIRST).await.unwrap();
            taker.tree().create("/taken", b"", Kind::Persistent).await.unwrap();
        };
        taking.await;
        let mut outcomes = Vec::new();
        for n in 0..50 {
            outcomes.push(tree.create(&format!("/late-{n}"), b"", Kind::Persistent).await);
        }
        outcomes
    });
    assert!(writes.iter().all(|outcome| *outcome == Err(Error::NotLeading)), "{writes:?}");
    let names = b.run(async |coordinator| {
        coordinator.tree().sync().await.unwrap();
        coordinator.tree().children("/").await.unwrap()
    });
    assert!(!names.iter().any(|name| name.starts_with("late")), "{names:?}");
    assert_eq!(lead.state(), LeadershipState::Lost);
    // It stands again, in a later term; what was left of the earlier stays shut.
    let again = a.run(async |_| first.elected().await.unwrap());
    assert!(again.term() > lead.term());
    a.run(async |_| {
        assert_eq!(tree.create("/late", b"", Kind::Persistent).await, Err(Error::NotLeading));
        again.tree().unwrap().create("/in-time", b"", Kind::Persistent).await.unwrap();
    });
}

fn leadership_pauses_while_cut_off_and_resumes_with_its_lock(world: &dyn World) {
    let participant = world.join();
    let mut election = participant.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead = participant.run(async |_| election.elected().await.unwrap());
    let before = participant.coordinator().status();
    let frozen = Instant::now();
    world.freeze();
    eventually("the cut to be seen", TIMEOUT, || participant.coordinator().status().link != Link::Up);
    assert_eq!(lead.check(), Err(Error::NotLeading));
    println!("leadership did not hold {:?} after the service hung", frozen.elapsed());
    world.thaw();
    let after = participant.run(async |coordinator| coordinator.up().await.unwrap());
    assert!(after.attachment > before.attachment, "everything must be read again");
    let again = participant.run(async |_| election.elected().await.unwrap());
    // In the same term if it was back in time, else in a later one; never again in the old after its end.
    assert!(again.term() >= lead.term());
    assert_eq!(lead.check().is_ok(), again.term() == lead.term());
    assert!(again.tree().is_ok());
    participant.run(async |_| again.tree().unwrap().create("/w", b"", Kind::Persistent).await.unwrap());
}

fn all_sessions_over_means_a_new_leader_in_a_higher_term(world: &dyn World) {
    let (a, b) = (world.join(), world.join());
    let mut first = a.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead = a.run(async |_| first.elected().await.unwrap());
    let mut second = b.run(async |coordinator| coordinator.campaign("/el", "b"));
    world.freeze();
    eventually("all sessions to be over", TIMEOUT, || {
        [&a, &b].iter().all(|participant| participant.coordinator().status().link == Link::Ended)
    });
    assert_eq!(lead.state(), LeadershipState::Lost);
    assert!(!a.coordinator().is_trusted());
    world.thaw();
    let term = a.run(async |_| {
        tokio::select! { lead = first.elected() => lead.unwrap().term(), lead = second.elected() => lead.unwrap().term() }
    });
    assert!(term > lead.term());
    assert_eq!(lead.check(), Err(Error::NotLeading));
    assert!(a.run(async |coordinator| coordinator.up().await.unwrap()).generation >= 2);
}

fn a_create_whose_answer_was_lost_is_read_back(world: &dyn World) {
    let settings =
        Settings { call: Some(Duration::from_millis(200)), settle: Some(TIMEOUT), ..Settings::default() };
    let participant = world.join_with(&settings);
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
        let cut_off = coordinator.status() != before;
        assert!(cut_off || asked.iter().all(|ask| !ask.is_finished()));
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

fn members_are_listed_with_what_they_say_and_go_when_they_vanish(world: &dyn World) {
    let (looker, a, b) = (world.join(), world.join(), world.join());
    let mut members = looker.run(async |coordinator| coordinator.members("/units"));
    let join = |participant: &Participant, name: &'static str| {
        participant.run(async |coordinator| {
            let mut membership = coordinator.join("/units", name, name.as_bytes());
            membership.present().await.unwrap();
            membership
        })
    };
    let one = join(&a, "10.0.0.1:1:1");
    let _two = join(&b, "10.0.0.2:1:1");
    let seen = looker.run(async |_| {
        members.wait_for(|snapshot| snapshot.current && snapshot.members.len() == 2).await.unwrap()
    });
    assert_eq!(seen.members["10.0.0.1:1:1"].data, b"10.0.0.1:1:1");
    assert_eq!(seen.members["10.0.0.1:1:1"].owner, a.coordinator().session_id());
    a.run(async |_| one.leave().await);
    let left = looker.run(async |_| members.wait_for(|snapshot| snapshot.members.len() == 1).await.unwrap());
    assert!(left.members.contains_key("10.0.0.2:1:1"));
    drop(b);
    looker.run(async |_| {
        members.wait_for(|snapshot| snapshot.current && snapshot.members.is_empty()).await.unwrap()
    });
}

fn a_member_is_there_again_under_its_next_session(world: &dyn World) {
    let (looker, participant) = (world.join(), world.join());
    let mut members = looker.run(async |coordinator| coordinator.members("/units"));
    let mut membership = participant.run(async |coordinator| coordinator.join("/units", "u", b"u:1"));
    participant.run(async |_| membership.present().await.unwrap());
    let before = looker.run(async |_| members.wait_for(|seen| seen.members.contains_key("u")).await.unwrap());
    world.freeze();
    // Cut off, nobody is taken for dead, and nobody takes himself for present.
    looker.run(async |_| members.wait_for(|seen| !seen.current).await.unwrap());
    assert_eq!(members.snapshot().members, before.members);
    eventually("all sessions to be over", TIMEOUT, || {
        [&looker, &participant]
            .iter()
            .all(|participant| participant.coordinator().status().link == Link::Ended)
    });
    assert_eq!(membership.presence(), Presence::Away);
    world.thaw();
    let is_new = |owner: Option<i64>| owner.is_some() && owner != before.members["u"].owner;
    let after = looker.run(async |_| {
        members
            .wait_for(|seen| seen.current && seen.members.get("u").is_some_and(|unit| is_new(unit.owner)))
            .await
            .unwrap()
    });
    assert!(after.members["u"].created > before.members["u"].created);
    participant.run(async |_| membership.present().await.unwrap());
}

fn a_name_that_another_holds_is_waited_for(world: &dyn World) {
    let (a, b) = (world.join(), world.join());
    let mut first = a.run(async |coordinator| coordinator.join("/units", "u", b"first"));
    a.run(async |_| first.present().await.unwrap());
    let mut second = b.run(async |coordinator| coordinator.join("/units", "u", b"second"));
    let node = |participant: &Participant| {
        participant.run(async |coordinator| coordinator.tree().get("/units/u").await.unwrap().unwrap())
    };
    assert_eq!(node(&b).data, b"first");
    eventually("the second to look", TIMEOUT, || second.presence() != Presence::Away);
    assert_eq!((first.presence(), second.presence()), (Presence::Present, Presence::Taken));
    a.run(async |_| first.leave().await);
    b.run(async |_| second.present().await.unwrap());
    assert_eq!(
        (node(&b).data.as_slice(), node(&b).owner),
        (b"second".as_slice(), b.coordinator().session_id())
    );
}

fn what_an_earlier_session_of_the_same_process_left_is_replaced(world: &dyn World) {
    let (earlier, later) = (world.join(), world.join());
    earlier.run(async |coordinator| {
        coordinator.tree().ensure("/units").await.unwrap();
        coordinator.tree().create("/units/u", b"u:1", Kind::Ephemeral).await.unwrap();
    });
    // The earlier session lives on, and yet nobody waits for its end.
    let mut membership = later.run(async |coordinator| coordinator.join("/units", "u", b"u:1"));
    later.run(async |_| membership.present().await.unwrap());
    let node = later.run(async |coordinator| coordinator.tree().get("/units/u").await.unwrap().unwrap());
    assert_eq!(node.owner, later.coordinator().session_id());
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
