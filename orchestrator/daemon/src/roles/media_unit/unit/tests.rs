//! A unit against a fake server.

mod exclusivity;
mod server;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::*;
use crate::config::{Config, Given};
use allot_coordination::Coordinator;
use allot_coordination::in_process::InProcess;
use allot_runtime::settings::Span;
use server::{Replacing, Server};

/// The time-out of one answer, in milliseconds.
const ANSWER_TIMEOUT_MS: u64 = 3000;
/// How long a test waits for anything.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A process whose units send heartbeats every 50 ms, and the sender of its shutdown request.
fn context(server: &Server) -> (Context, watch::Sender<bool>) {
    context_with(server, None)
}

/// The same. With a lease of this many milliseconds, units end their media when Redis does not answer for so long.
fn context_with(server: &Server, lease: Option<u64>) -> (Context, watch::Sender<bool>) {
    let mut given = Given::default();
    given.redis.url = Some(format!("redis://127.0.0.1:{}", server.port));
    given.redis.timeout = Some(Span::ms(lease.map_or(ANSWER_TIMEOUT_MS, |lease| lease / 3)));
    given.scheduler.wait = Some(Span::ms(100));
    given.accounts.wait = Some(Span::ms(100));
    given.media_unit.beat = Some(Span::ms(50));
    given.media_unit.self_stop = Some(lease.is_some());
    given.media_unit.lease = Some(Span::ms(lease.unwrap_or(10_000)));
    given.scheduler.grace = Some(Span::ms(1));
    context_of(&given)
}

/// A process with these settings, without ZooKeeper.
fn context_of(given: &Given) -> (Context, watch::Sender<bool>) {
    let config = Config::resolve(given).unwrap();
    let (asked, shutdown) = allot_runtime::shutdown_channel();
    let connector = Arc::new(InProcess::new(Duration::from_secs(4)));
    let config = Arc::new(config);
    let context = Context {
        process: allot_runtime::Context {
            name: "n".to_owned(),
            servers: config.servers.clone(),
            host: config.media_unit.host.clone(),
            coordinator: Coordinator::start(connector),
            standalone: true,
            health: allot_runtime::Health::default(),
            pages: allot_runtime::http::RolePages::default(),
            shutdown,
        },
        config,
    };
    (context, asked)
}

/// One session of the unit, until the future ends.
async fn serve<T>(unit: &mut Unit<'_>, until: impl Future<Output = T>) -> T {
    let session = unit.context.config.servers.session().await.unwrap();
    tokio::select! {
        end = unit.serve_session(session) => panic!("the session ended: {end:?}"),
        found = until => found,
    }
}

const CREATE: &str = "event CREATE cmu h:1:1 e164";

#[tokio::test]
async fn ends_of_a_cut_off_unit_are_sent_before_the_next_unit_joins() {
    let server = Server::start().await;
    let (context, _asked) = context_with(&server, Some(3000));
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5"), &format!("{CREATE} 2 epoch 6")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 2 h:1:1 6")).await;
    server.is_cut.store(true, Ordering::Relaxed);
    let people = unit.media.event_sender();
    people.send(MediaEvent::Ended { e164: "1".to_owned(), start: 1 }).await.unwrap();
    let (end, ends) = timeout(TIMEOUT, unit.run()).await.unwrap();
    assert_eq!((end, ends.counts()), (UnitEnd::CutOff, (1, 0)));

    server.is_cut.store(false, Ordering::Relaxed);
    server.commands.lock().unwrap().clear();
    let mut next = Unit::new(&context, "h:1:2".to_owned(), ends);
    let joined = serve(&mut next, server.hears("CMU.JOIN {allot}:conf h:1:2")).await;
    let said = server.find("CONF.ENDED {allot}:conf 1 h:1:1 5");
    assert!(said.is_some_and(|said| said < joined), "{said:?} {joined}");
    assert_eq!(server.count("CONF.ENDED"), 1);
}

#[tokio::test]
async fn ends_are_sent_in_every_session_also_after_a_replica_confirmed() {
    let server = Server::start().await;
    server.has_replica.store(true, Ordering::Relaxed);
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 1 h:1:1 5")).await;
    let people = unit.media.event_sender();
    people.send(MediaEvent::Ended { e164: "1".to_owned(), start: 1 }).await.unwrap();
    let ended = "CONF.ENDED {allot}:conf 1 h:1:1 5";
    serve(&mut unit, async {
        server.hears(ended).await;
        server.hears_more("WAIT", server.count("WAIT")).await;
    })
    .await;
    assert_eq!((server.count(ended), unit.ends.counts()), (1, (0, 1)));

    // Failovers: the next master may not know the end, nor the one after it.
    for session in 2..4 {
        let joins = server.count("CMU.JOIN");
        serve(&mut unit, server.hears_more("CMU.JOIN", joins)).await;
        assert_eq!(server.count(ended), session);
    }
    server.is_confirmed.store(true, Ordering::Relaxed);
    let waits = server.count("WAIT");
    serve(&mut unit, async {
        server.hears_more("WAIT", waits).await;
        // The unit has handled the answer by its next heartbeat.
        server.hears_more("CMU.BEAT", server.count("CMU.BEAT")).await;
    })
    .await;
    assert_eq!((server.count(ended), unit.ends.counts()), (4, (0, 0)));
    // The failover may be to another replica.
    serve(&mut unit, server.hears_more("CMU.REPORT", server.count("CMU.REPORT"))).await;
    assert_eq!((server.count(ended), unit.ends.counts()), (5, (0, 0)));
    assert!(server.count("CMU.REPORT {allot}:conf h:1:1 HIGHEST 5 ENDED 1 1 5") > 0, "reports name it");
}

#[tokio::test]
async fn next_unit_of_the_process_repeats_ends_that_were_confirmed() {
    let server = Server::start().await;
    let (context, _asked) = context_with(&server, Some(3000));
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5"), &format!("{CREATE} 2 epoch 6")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 2 h:1:1 6")).await;
    let people = unit.media.event_sender();
    people.send(MediaEvent::Ended { e164: "1".to_owned(), start: 1 }).await.unwrap();
    let ended = "CONF.ENDED {allot}:conf 1 h:1:1 5";
    serve(&mut unit, async {
        server.hears(ended).await;
        // Without replicas nothing is left to confirm with the second heartbeat.
        server.hears_more("CMU.BEAT", server.count("CMU.BEAT") + 1).await;
    })
    .await;
    assert_eq!((server.count(ended), unit.ends.counts()), (1, (0, 0)));
    server.is_cut.store(true, Ordering::Relaxed);
    let (end, ends) = timeout(TIMEOUT, unit.run()).await.unwrap();
    assert_eq!(end, UnitEnd::CutOff);

    // Meanwhile a replica took over that does not know the end.
    server.is_cut.store(false, Ordering::Relaxed);
    server.commands.lock().unwrap().clear();
    let mut next = Unit::new(&context, "h:1:2".to_owned(), ends);
    let joined = serve(&mut next, server.hears("CMU.JOIN {allot}:conf h:1:2")).await;
    assert_eq!(server.count(ended), 2);
    let heard = server.heard.lock().unwrap();
    assert!(heard.iter().rposition(|line| line.starts_with(ended)) < Some(joined));
}

#[tokio::test]
async fn copy_whose_ack_is_answered_release_is_ended_and_not_reported() {
    let server = Server::start().await;
    server.releases.store(true, Ordering::Relaxed);
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5"), "event REPORT what LIST"]);
    serve(&mut unit, async {
        server.hears("CONF.ENDED {allot}:conf 1 h:1:1 5 RELEASED").await;
        server.hears("CMU.REPORT {allot}:conf h:1:1 HIGHEST 5").await;
    })
    .await;
    assert_eq!(unit.conferences.len(), 0);
    assert_eq!(server.count("CMU.REPORT {allot}:conf h:1:1 HIGHEST 5 PARAMS"), 0, "it reports no copy");
}

#[tokio::test]
async fn epoch_of_a_copy_that_is_gone_is_answered_with_why() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5"), &format!("{CREATE} 2 epoch 6")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 2 h:1:1 6")).await;
    unit.handle_media_event(MediaEvent::Ended { e164: "1".to_owned(), start: 1 });
    server.tell(&["event RELEASE e164 2 epoch 6"]);
    server.tell(&["event EPOCH e164 1 epoch 7 old 5", "event EPOCH e164 2 epoch 8 old 6"]);
    serve(&mut unit, async {
        server.hears("CONF.ENDED {allot}:conf 1 h:1:1 7").await;
        server.hears("CONF.ENDED {allot}:conf 2 h:1:1 8 RELEASED").await;
    })
    .await;
    assert_eq!(server.count("CONF.ENDED {allot}:conf 1 h:1:1 7 RELEASED"), 0);
    assert_eq!(server.count("CONF.ENDED {allot}:conf 2 h:1:1 6 RELEASED"), 1);
}

#[tokio::test]
async fn release_of_a_conference_that_is_over_is_repeated_like_an_end_by_people() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5 end 9 size 2 priority 3 request r")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 1 h:1:1 5")).await;
    let known = server.hears("CMU.REPORT {allot}:conf h:1:1 HIGHEST 5 PARAMS 1 1 9 2 3 r 1 5");
    serve(&mut unit, known).await;
    server.tell(&["event RELEASE e164 1 epoch 5 over 1"]);
    serve(&mut unit, server.hears("CONF.ENDED {allot}:conf 1 h:1:1 5")).await;
    let before = server.count("CONF.ENDED {allot}:conf 1 h:1:1 5");
    // A realm that lost its data is told again.
    serve(&mut unit, server.hears("CMU.REPORT {allot}:conf h:1:1 HIGHEST 5 ENDED 1 1 5")).await;
    assert!(server.count("CONF.ENDED {allot}:conf 1 h:1:1 5") > before);
    assert_eq!(server.count("CONF.ENDED {allot}:conf 1 h:1:1 5 RELEASED"), 0);
}

#[tokio::test]
async fn end_is_sent_for_every_epoch_that_the_copy_had() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5"), "event EPOCH e164 1 epoch 7 old 5"]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 1 h:1:1 7")).await;
    unit.handle_media_event(MediaEvent::Ended { e164: "1".to_owned(), start: 1 });
    // The next master may not know the adoption that gave the copy its epoch 7.
    let reported = "CMU.REPORT {allot}:conf h:1:1 HIGHEST 7 ENDED 2 1 7 1 5";
    serve(&mut unit, server.hears(reported)).await;
    assert_eq!(server.count("CONF.ENDED {allot}:conf 1 h:1:1 7"), 1);
    assert_eq!(server.count("CONF.ENDED {allot}:conf 1 h:1:1 5"), 1);
}

#[tokio::test]
async fn replaced_unit_sends_its_ends_and_is_not_declared_down() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 1 h:1:1 5")).await;
    let people = unit.media.event_sender();
    server.put(Replacing::Wanted);
    let meanwhile = async {
        server.comes_to(Replacing::Beaten).await;
        people.send(MediaEvent::Ended { e164: "1".to_owned(), start: 1 }).await.unwrap();
        server.put(Replacing::Said);
    };
    let ((end, _), ()) = timeout(TIMEOUT, async { tokio::join!(unit.run(), meanwhile) }).await.unwrap();
    assert_eq!(end, UnitEnd::Replaced);
    assert_eq!(server.count("CONF.ENDED {allot}:conf 1 h:1:1 5"), 1);
    assert_eq!(server.count("CMU.DOWN"), 0);
}

#[tokio::test]
async fn replaced_unit_sends_what_people_ended_until_its_last_program_ended() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5"), &format!("{CREATE} 2 epoch 6")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 2 h:1:1 6")).await;
    let (people, program) = (unit.media.event_sender(), unit.media.fake_program("1"));
    server.put(Replacing::Wanted);
    let meanwhile = async {
        server.comes_to(Replacing::Beaten).await;
        server.put(Replacing::Said);
        // The unit hears that it was replaced, and waits for the program of conference 1.
        sleep(Duration::from_millis(500)).await;
        people.send(MediaEvent::Ended { e164: "2".to_owned(), start: 2 }).await.unwrap();
        drop(program);
    };
    let ((end, _), ()) = timeout(TIMEOUT, async { tokio::join!(unit.run(), meanwhile) }).await.unwrap();
    assert_eq!(end, UnitEnd::Replaced);
    assert_eq!(server.count("CONF.ENDED {allot}:conf 2 h:1:1 6"), 1);
}

#[tokio::test]
async fn unit_that_shuts_down_sends_its_ends_when_redis_is_back() {
    let server = Server::start().await;
    let (context, asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 1 h:1:1 5")).await;
    server.is_cut.store(true, Ordering::Relaxed);
    unit.handle_media_event(MediaEvent::Ended { e164: "1".to_owned(), start: 1 });
    asked.send_replace(true);
    let healed = async {
        sleep(PAUSE * 3).await;
        server.is_cut.store(false, Ordering::Relaxed);
    };
    let ((end, ends), ()) = timeout(TIMEOUT, async { tokio::join!(unit.run(), healed) }).await.unwrap();
    assert_eq!((end, ends.all_sent()), (UnitEnd::Shutdown, true));
    let said = server.find("CONF.ENDED {allot}:conf 1 h:1:1 5");
    assert!(said.is_some() && said < server.find("CMU.DOWN {allot}:conf h:1:1"), "{said:?}");
}

#[tokio::test]
async fn unit_without_ends_shuts_down_without_waiting_for_redis() {
    let server = Server::start().await;
    let (context, asked) = context(&server);
    server.is_cut.store(true, Ordering::Relaxed);
    asked.send_replace(true);
    let unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    let (end, _) = timeout(TIMEOUT / 4, unit.run()).await.unwrap();
    assert_eq!(end, UnitEnd::Shutdown);
}

#[tokio::test]
async fn ended_is_sent_after_the_program_ended_and_delays_nothing_else() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 1 h:1:1 5")).await;
    let program = unit.media.fake_program("1");
    let story = async {
        server.hears("CMU.JOIN").await;
        server.tell(&["event RELEASE e164 1 epoch 5", &format!("{CREATE} 2 epoch 6")]);
        server.hears("CONF.ACK {allot}:conf 2 h:1:1 6").await;
        let beats = server.count("CMU.BEAT");
        server.hears_more("CMU.BEAT", beats).await;
        assert_eq!(server.count("CONF.ENDED"), 0, "its program still runs");
        // A list would tell that the conference has ended as well.
        let reports = server.count("CMU.REPORT");
        server.tell(&["event REPORT what LIST"]);
        sleep(Duration::from_millis(300)).await;
        assert_eq!(server.count("CMU.REPORT"), reports);
        drop(program);
        server.hears("CONF.ENDED {allot}:conf 1 h:1:1 5").await;
        server.hears("CMU.REPORT {allot}:conf h:1:1 HIGHEST 6 PARAMS 1 2     2 6").await;
    };
    serve(&mut unit, story).await;
}

#[tokio::test]
async fn conference_whose_program_is_not_ready_is_reported_as_starting() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    let params = super::super::conferences::ConferenceParams::default();
    let (start, _) = unit.media.start("h:1:1", "1", 5, &params);
    let create = super::super::conferences::Message::Create { e164: "1".to_owned(), epoch: 5, params };
    unit.conferences.handle(create);
    let (started, ready) = tokio::sync::oneshot::channel::<()>();
    unit.tasks.spawn(async move {
        let _ = ready.await;
        Completed::Start { e164: "1".to_owned(), start, result: Ok(()) }
    });
    let story = async {
        server.hears("CMU.REPORT {allot}:conf h:1:1 HIGHEST 5 STARTING 1 1 5").await;
        server.hears_more("CMU.BEAT", 10).await;
        assert_eq!(server.count("CONF.ACK"), 0, "nobody can join yet");
        drop(started);
        server.hears("CONF.ACK {allot}:conf 1 h:1:1 5").await;
        server.tell(&["event REPORT what LIST"]);
        server.hears("CMU.REPORT {allot}:conf h:1:1 HIGHEST 5 PARAMS 1 1     1 5").await;
    };
    serve(&mut unit, story).await;
}

#[tokio::test]
async fn conference_whose_program_fails_for_good_is_given_back() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5"), &format!("{CREATE} 2 epoch 6")]);
    let programs = unit.media.event_sender();
    let story = async {
        server.hears("CONF.ACK {allot}:conf 2 h:1:1 6").await;
        let reason = "ended with exit status: 1".to_owned();
        programs.send(MediaEvent::Failed { e164: "1".to_owned(), start: 1, reason }).await.unwrap();
        server.hears("CONF.FAILED {allot}:conf 1 h:1:1 5 ended with exit status: 1").await;
        server.tell(&["event REPORT what LIST"]);
        server.hears("CMU.REPORT {allot}:conf h:1:1 HIGHEST 6 PARAMS 1 2     2 6").await;
    };
    serve(&mut unit, story).await;
    assert_eq!(server.count("CONF.ENDED"), 0, "people did not end it");
}

#[tokio::test]
async fn many_details_are_sent_within_the_answer_timeout() {
    let server = Server::start().await;
    let (context, _asked) = context(&server);
    let mut unit = Unit::new(&context, "h:1:1".to_owned(), UnacknowledgedEnds::default());
    server.tell(&[&format!("{CREATE} 1 epoch 5")]);
    serve(&mut unit, server.hears("CONF.ACK {allot}:conf 1 h:1:1 5")).await;
    let value = "x".repeat(60_000);
    (0..200).for_each(|field| unit.details.set("1", &format!("f{field}"), value.clone()));
    // All details together take longer than one answer may.
    server.speed.store(200 * 60_000 / (ANSWER_TIMEOUT_MS + 1000), Ordering::Relaxed);
    let story = async {
        server.hears("CMU.JOIN").await;
        let all = async {
            loop {
                let told: HashSet<String> = {
                    let heard = server.heard.lock().unwrap();
                    let told = heard.iter().filter(|line| line.starts_with("XADD"));
                    told.flat_map(|line| line.split(' '))
                        .filter(|word| word.starts_with('f'))
                        .map(str::to_owned)
                        .collect()
                };
                if told.len() == 200 {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TIMEOUT, all).await.unwrap();
    };
    let beats = server.count("CMU.BEAT");
    serve(&mut unit, story).await;
    assert!(server.count("CMU.BEAT") > beats + 3, "heartbeats are sent meanwhile");
}
