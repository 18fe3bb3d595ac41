//! Elections, the leader's term, and membership.

use std::time::Instant;

use allot_coordination::{Error, Kind, LeadershipState, Link, Presence, Version};
use allot_tests::eventually;
use allot_tests::wait::TIMEOUT;

use super::answered;
use crate::coordination::participants::{Participant, World};

suite! {
    one_candidate_leads_and_each_term_is_greater
    a_leader_that_vanishes_is_replaced_and_its_name_with_it
    a_candidate_that_withdraws_while_waiting_leaves_the_queue
    a_deposed_leader_writes_nothing
    leadership_pauses_while_cut_off_and_resumes_with_its_lock
    all_sessions_over_means_a_new_leader_in_a_higher_term
    members_are_listed_with_what_they_say_and_go_when_they_vanish
    a_member_is_there_again_under_its_next_session
    a_name_that_another_holds_is_waited_for
    what_an_earlier_session_of_the_same_process_left_is_replaced
}

/// How many candidates stand.
fn standing(participant: &Participant) -> usize {
    participant.run(async |coordinator| {
        let tree = coordinator.tree();
        answered(|| tree.children("/el/latches")).await.len()
    })
}

fn one_candidate_leads_and_each_term_is_greater(world: &dyn World) {
    let (a, b) = (world.join(), world.join());
    let mut first = a.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead_a = a.run(async |_| first.elected().await.unwrap());
    let mut second = b.run(async |coordinator| coordinator.campaign("/el", "b"));
    eventually("both to stand", TIMEOUT, || standing(&b) == 2);
    assert!(second.leadership().is_none());
    assert_eq!(b.run(async |coordinator| coordinator.leader("/el").await.unwrap()), Some("a".into()));
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
        crate::coordination::participants::SESSION,
        vanished.elapsed()
    );
    assert!(lead_b.term() > lead_a.term());
    assert_eq!(b.run(async |coordinator| coordinator.leader("/el").await.unwrap()), Some("b".into()));
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
    assert!(
        matches!(first.presence(), Presence::Present(session) if Some(session) == a.coordinator().session_id())
    );
    assert_eq!(second.presence(), Presence::Taken);
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
