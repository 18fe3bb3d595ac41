//! Faults of a real ensemble of three.

use std::sync::Arc;
use std::time::{Duration, Instant};

use allot_coordination::session::Connector;
use allot_coordination::zookeeper::ZooKeeper;
use allot_coordination::{Election, Error, Kind, LeadershipState, Link};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Ensemble, ZooKeeperServer, eventually};

use crate::coordination::participants::{Participant, SESSION};

fn join(ensemble: &Ensemble, session: Duration) -> Participant {
    let connector: Arc<dyn Connector> =
        Arc::new(ZooKeeper::new(ensemble.address().parse().unwrap(), session));
    Participant::new(connector, None)
}

#[test]
fn leadership_outlives_the_ensembles_own_leader_and_a_follower() {
    let ensemble = Ensemble::start();
    // The lead is to outlive an election of servers that wait for the machine, with time to spare.
    let session = Duration::from_secs(30);
    let (a, b) = (join(&ensemble, session), join(&ensemble, session));
    let mut election = a.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead = a.run(async |_| election.elected().await.unwrap());
    let other = b.run(async |coordinator| coordinator.campaign("/el", "b"));
    let mut members = b.run(async |coordinator| coordinator.members("/units"));
    let mut membership = a.run(async |coordinator| coordinator.join("/units", "a", b"a:1"));
    a.run(async |_| membership.present().await.unwrap());

    for which in ["leader", "follower"] {
        let server = if which == "leader" { ensemble.leader() } else { ensemble.follower() };
        let before = a.coordinator().status();
        let killed = Instant::now();
        server.kill9();
        let path = format!("/after-{which}");
        a.run(async |_| {
            // A fenced write of the same term goes through as soon as there is a leader again.
            let tree = lead.tree().unwrap();
            while tree.create(&path, b"", Kind::Persistent).await.is_err() {
                assert_ne!(lead.state(), LeadershipState::Lost, "the lead was lost");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        println!("written in the same term {:?} after the ensemble's {which} was killed", killed.elapsed());
        // A write whose answer was lost may be read back before the lock is looked at on the new connection.
        eventually("the lead to hold", TIMEOUT, || {
            assert_ne!(lead.state(), LeadershipState::Lost, "the lead was lost");
            lead.check() == Ok(lead.term())
        });
        assert_eq!(a.coordinator().status().generation, before.generation);
        server.restart();
        eventually("the ensemble to be whole again", TIMEOUT, || {
            ensemble.servers().iter().all(|server| server.mode().is_some())
        });
    }
    assert!(other.leadership().is_none());
    // Watches still bring word after all these reconnects.
    b.run(async |_| members.wait_for(|seen| seen.current && seen.members.contains_key("a")).await.unwrap());
    a.run(async |_| membership.leave().await);
    b.run(async |_| members.wait_for(|seen| seen.current && seen.members.is_empty()).await.unwrap());
}

#[test]
fn a_member_that_may_not_be_read_is_there_and_hides_no_other() {
    let server = ZooKeeperServer::start();
    let zookeeper = || ZooKeeper::new(server.address().parse().unwrap(), SESSION);
    let participant = |zookeeper: ZooKeeper| Participant::new(Arc::new(zookeeper), None);
    let (looker, open, closed) = (
        participant(zookeeper()),
        participant(zookeeper()),
        participant(zookeeper().with_user("u", "p", false)),
    );
    let mut members = looker.run(async |coordinator| coordinator.members("/units"));
    // The directory is everybody's.
    looker.run(async |_| members.wait_for(|seen| seen.current).await.unwrap());
    let join = |participant: &Participant, name: &'static str| {
        participant.run(async |coordinator| {
            let mut membership = coordinator.join("/units", name, name.as_bytes());
            membership.present().await.unwrap();
            membership
        })
    };
    let _closed = join(&closed, "closed");
    let refused = looker.run(async |coordinator| coordinator.tree().get("/units/closed").await);
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    let _open = join(&open, "open");
    let seen =
        looker.run(async |_| members.wait_for(|seen| seen.current && seen.members.len() == 2).await.unwrap());
    assert_eq!(seen.members["open"].data, b"open");
    assert!(seen.members["closed"].is_hidden());
    // Its end is noticed as well.
    drop(closed);
    looker.run(async |_| members.wait_for(|seen| seen.current && seen.members.len() == 1).await.unwrap());
}

#[test]
fn leadership_is_given_up_while_the_ensemble_hangs() {
    let ensemble = Ensemble::start();
    // The lead is over after 0.6 of it; what is left is for a test that waits for the machine.
    let participant = join(&ensemble, Duration::from_secs(16));
    let session = participant.coordinator().session_timeout();
    let mut election = participant.run(async |coordinator| coordinator.campaign("/el", "a"));
    let lead = participant.run(async |_| election.elected().await.unwrap());
    let paused = Instant::now();
    ensemble.servers().iter().for_each(|server| server.pause());
    eventually("leadership not to hold", TIMEOUT, || lead.check().is_err());
    let held = paused.elapsed();
    println!("leadership held for {held:?} after the ensemble hung, session timeout {session:?}");
    assert!(held < session, "somebody else could have led: {held:?}");
    eventually("the leadership to be lost", TIMEOUT, || lead.state() == LeadershipState::Lost);
    let over = paused.elapsed();
    println!("over after {over:?}");
    assert!(over < session, "it could have gone on in the time of another: {over:?}");
    ensemble.servers().iter().for_each(|server| server.resume());
    let again = participant.run(async |_| election.elected().await.unwrap());
    assert!(again.term() > lead.term());
    assert!(lead.check().is_err());
}

#[test]
fn outage_longer_than_the_session_ends_in_a_new_higher_term() {
    let ensemble = Ensemble::start();
    let session = Duration::from_secs(4);
    let participants = [join(&ensemble, session), join(&ensemble, session)];
    let mut elections: Vec<_> = participants
        .iter()
        .map(|participant| participant.run(async |coordinator| coordinator.campaign("/el", "x")))
        .collect();
    let first = loop {
        if let Some(lead) = elections.iter().find_map(Election::leadership) {
            break lead;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    ensemble.servers().iter().for_each(|server| server.kill9());
    eventually("all sessions to be over", TIMEOUT, || {
        participants.iter().all(|participant| participant.coordinator().status().link == Link::Ended)
    });
    assert_eq!(first.state(), LeadershipState::Lost);
    let back = Instant::now();
    ensemble.servers().iter().for_each(ZooKeeperServer::restart);
    let (left, right) = elections.split_at_mut(1);
    let second = participants[0].run(async |_| {
        tokio::select! { lead = left[0].elected() => lead.unwrap(), lead = right[0].elected() => lead.unwrap() }
    });
    println!("led again {:?} after all servers were started again", back.elapsed());
    assert!(second.term() > first.term());
    let late = first.tree().unwrap();
    let refused = participants[0].run(async |_| late.create("/late", b"", Kind::Persistent).await);
    assert!(refused.is_err());
}
