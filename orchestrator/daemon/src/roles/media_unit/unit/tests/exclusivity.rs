//! Until when the media of a unit may run, with the defaults: a lease of 5 s, heartbeats every second, time-outs of 1.5 s
//! for an answer, 10 s of grace.

use super::super::exclusivity::Exclusivity;
use super::*;
use crate::config::Role;
use tokio::time::advance;

const BEAT: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_millis(1500);

/// A process with these roles, and a unit in it whose lease was renewed just now.
async fn renewed(roles: Vec<Role>) -> (Context, Membership, Exclusivity) {
    let mut given = Given::default();
    given.redis.url = Some("redis://127.0.0.1:1".to_owned());
    given.process.roles = Some(roles);
    let (context, _) = context_of(&given);
    let membership = context.coordinator.join(&context.units_dir(), "unit", b"");
    let mut presence = membership.subscribe();
    presence.wait_for(|presence| matches!(presence, allot_coordination::Presence::Present(_))).await.unwrap();
    let exclusivity = Exclusivity::new(&context, None);
    exclusivity.follow(&context, &membership);
    exclusivity.note_renewal(Instant::now(), false);
    (context, membership, exclusivity)
}

/// How long media may run from now on, if nobody looks in between.
async fn runs_for(exclusivity: &Exclusivity) -> Duration {
    let begin = Instant::now();
    while exclusivity.left() != Some(Duration::ZERO) {
        sleep(Duration::from_millis(10)).await;
    }
    begin.elapsed()
}

#[tokio::test(start_paused = true)]
async fn confirmed_node_protects_media_for_the_grace_period() {
    let (_context, _membership, exclusivity) = renewed(vec![Role::MediaUnit, Role::Scheduler]).await;
    // Nobody looks meanwhile: the unit waits for Redis.
    sleep(Duration::from_secs(12)).await;
    assert!(exclusivity.left().unwrap() > Duration::ZERO);
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(exclusivity.left(), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn without_zookeeper_one_answer_that_does_not_come_ends_no_media() {
    let (_context, _membership, exclusivity) = renewed(vec![Role::MediaUnit]).await;
    let time = runs_for(&exclusivity).await;
    assert!(time >= BEAT + ANSWER + Duration::from_millis(400), "{time:?}: a new connection needs time");
    assert!(time + ANSWER < Duration::from_secs(5), "{time:?}: programs need time to end");
}

#[tokio::test(start_paused = true)]
async fn late_answer_does_not_bring_killed_media_back() {
    let (_context, _membership, exclusivity) = renewed(vec![Role::MediaUnit]).await;
    // The process is suspended.
    let sent = Instant::now();
    advance(Duration::from_secs(10)).await;
    exclusivity.note_renewal(sent, true);
    exclusivity.note_renewal(Instant::now(), true);
    assert_eq!(exclusivity.left(), Some(Duration::ZERO));
    // What comes after its media has ended may run again.
    exclusivity.note_renewal(Instant::now(), false);
    assert!(runs_for(&exclusivity).await >= BEAT + ANSWER);
}

#[tokio::test(start_paused = true)]
async fn answer_within_the_time_to_end_counts() {
    let (_context, _membership, exclusivity) = renewed(vec![Role::MediaUnit]).await;
    runs_for(&exclusivity).await;
    exclusivity.note_renewal(Instant::now(), true);
    assert!(exclusivity.left().unwrap() > Duration::ZERO);
}
