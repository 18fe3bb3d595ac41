//! The simulated Redis against the real client.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use allot_client::streams::{BLOCK, Commands, Group};
use allot_client::{Endpoint, JoinRequest, RealmStore, Servers, Session};
use tokio::time::{Instant, sleep, timeout};

use super::Redis;
use crate::invariants::Observer;
use crate::link::Link;
use crate::network::{Network, SENTINEL};
use crate::{BOOK, REALM, clock, run_paused};

const LAG: Duration = Duration::from_millis(20);

struct Client {
    redis: Redis,
    servers: Servers,
    link: Link,
}

/// What the units of these tests say when they join.
const JOIN: JoinRequest<'_> =
    JoinRequest { capacity: 10, zone: None, tags: &[], lease_ms: 5000, machine: None };

fn client() -> Client {
    clock::begin();
    let (redis, link) = (Redis::start((REALM, BOOK), LAG, Observer::default()), Link::new());
    let network = Network { redis: redis.clone(), link: link.clone() };
    let endpoint = Endpoint::Sentinels {
        sentinels: vec![format!("{SENTINEL}:26379")],
        master: "mymaster".to_owned(),
        tls: false,
    };
    let servers = Servers { dial: Some(Arc::new(network)), ..Servers::new(endpoint, REALM) };
    Client { redis, servers, link }
}

impl Client {
    async fn session(&self) -> (Session, RealmStore) {
        let session = self.servers.session().await.unwrap();
        let store = RealmStore::new(session.connection.clone(), REALM);
        (session, store)
    }
}

/// A consumer of a group of proxies.
async fn join(session: &Session, stream: &str, consumer: &str) -> Group {
    let reader = session.another(BLOCK).await.unwrap();
    let names = (stream.to_owned(), "proxies".to_owned(), consumer.to_owned());
    Group::join(session.connection.clone(), reader, names).await.unwrap()
}

async fn create(store: &RealmStore, e164: &str) {
    store.ask::<redis::Value>(store.begin("CONF.CREATE").arg(e164)).await.unwrap();
}

#[test]
fn unit_gets_its_commands_and_reports_what_it_has() {
    run_paused(1, async {
        let client = client();
        let (session, store) = client.session().await;
        store.realm().await.unwrap();
        store.join("a:1:1", &JOIN).await.unwrap();
        let stream = store.stream("cmd:a:1:1");
        let mut commands = Commands::read(session.another(BLOCK).await.unwrap(), stream);
        let create = async {
            sleep(Duration::from_secs(2)).await;
            create(&store, "491").await;
        };
        let (entries, ()) = tokio::join!(commands.next(), create);
        let entry = entries.unwrap().pop().unwrap();
        assert_eq!((entry.text("event"), entry.text("e164")), ("CREATE".to_owned(), "491".to_owned()));
        let epoch = entry.number("epoch");
        let ack = store.begin("CONF.ACK").arg("491").arg("a:1:1").arg(epoch).clone();
        store.ask::<redis::Value>(&ack).await.unwrap();
        let units = store.units().await.unwrap();
        assert_eq!((units[0].state.as_str(), units[0].conferences), ("up", 1));
        let refused = store.beat("b:1:1", None).await.unwrap_err();
        assert_eq!(refused.code(), Some("NOTFOUND"));
    });
}

#[test]
fn lease_expires_without_a_request() {
    run_paused(1, async {
        let client = client();
        let (_, store) = client.session().await;
        store.realm().await.unwrap();
        store.join("a:1:1", &JOIN).await.unwrap();
        sleep(Duration::from_secs(6)).await;
        let state = client.redis.realm(|realm| realm.unit_called(b"a:1:1").unwrap().word());
        assert_eq!(state, Some("unreachable"));
    });
}

#[test]
fn consumer_that_takes_an_entry_while_idle_ones_are_removed_loses_nothing() {
    for seed in 0..100 {
        run_paused(seed, async move {
            let client = client();
            let (session, store) = client.session().await;
            let stream = store.stream("info");
            let mut tidying = join(&session, &stream, "tidying").await;
            let mut quiet = join(&session, &stream, "quiet").await;
            assert!(quiet.fresh(1, Duration::from_millis(1)).await.unwrap().is_empty());
            sleep(Duration::from_secs(10)).await;
            let add = redis::cmd("XADD").arg(&stream).arg("*").arg("number").arg(1).clone();
            store.ask::<redis::Value>(&add).await.unwrap();
            let (session, _) = client.session().await;
            let mut quiet = join(&session, &stream, "quiet").await;
            let take = async {
                sleep(Duration::from_millis(seed % 8)).await;
                quiet.fresh(1, Duration::from_millis(1)).await.unwrap()
            };
            let (tidied, taken) = tokio::join!(tidying.tidy(Duration::from_secs(5)), take);
            tidied.unwrap();
            assert_eq!(taken.len(), 1);
            let left = tidying.claim(Duration::ZERO, "0-0", 9).await.unwrap().1;
            assert_eq!(left, taken, "seed {seed}");
        });
    }
}

#[test]
fn group_shares_messages_and_claims_what_others_left() {
    run_paused(1, async {
        let client = client();
        let (session, store) = client.session().await;
        let stream = store.stream("info");
        let (mut first, mut second) =
            (join(&session, &stream, "1").await, join(&session, &stream, "2").await);
        assert!(first.made && !second.made);
        for number in 0..3 {
            let add = redis::cmd("XADD").arg(&stream).arg("*").arg("number").arg(number).clone();
            store.ask::<redis::Value>(&add).await.unwrap();
        }
        let taken = first.fresh(2, BLOCK).await.unwrap();
        let rest = second.fresh(2, BLOCK).await.unwrap();
        assert_eq!((taken.len(), rest.len(), first.own(9, "0").await.unwrap().len()), (2, 1, 2));
        first.acknowledge(&taken[..1]).await.unwrap();
        second.acknowledge(&rest).await.unwrap();
        sleep(Duration::from_secs(3)).await;
        let (next, claimed) = second.claim(Duration::from_secs(2), "0-0", 10).await.unwrap();
        assert_eq!((next.as_str(), &claimed), ("0-0", &taken[1..].to_vec()));
        assert!(second.fresh(2, BLOCK).await.unwrap().is_empty());
        second.tidy(Duration::from_secs(1)).await.unwrap();
    });
}

#[test]
fn read_that_waits_takes_nothing_when_its_connection_is_left() {
    run_paused(1, async {
        let client = client();
        let (session, store) = client.session().await;
        let stream = store.stream("info");
        let (mut first, mut second) =
            (join(&session, &stream, "1").await, join(&session, &stream, "2").await);
        timeout(Duration::from_millis(100), first.fresh(1, BLOCK)).await.unwrap_err();
        drop(first);
        let add = redis::cmd("XADD").arg(&stream).arg("*").arg("number").arg(1).clone();
        store.ask::<redis::Value>(&add).await.unwrap();
        assert_eq!(second.fresh(1, BLOCK).await.unwrap().len(), 1);
        assert_eq!(join(&session, &stream, "1").await.own(1, "0").await.unwrap(), []);
    });
}

#[test]
fn connection_that_breaks_while_it_is_opened_opens_no_session() {
    run_paused(1, async {
        let client = client();
        let (session, _) = client.session().await;
        client.link.set_unreliable(1.0);
        assert!(session.another(BLOCK).await.unwrap_err().ends_session());
        assert!(client.servers.session().await.unwrap_err().ends_session());
        client.link.set_unreliable(0.0);
        client.redis.set_master_up(false);
        assert!(client.servers.session().await.unwrap_err().ends_session());
        client.link.stall(true);
        let asked = Instant::now();
        session.another(BLOCK).await.unwrap_err();
        assert_eq!(asked.elapsed(), Servers::TIMEOUT, "nothing arrives, so no refusal either");
        client.link.stall(false);
        client.redis.set_master_up(true);
        client.servers.session().await.unwrap();
    });
}

#[test]
fn requests_that_nobody_waits_for_are_carried_out() {
    run_paused(1, async {
        let client = client();
        let (session, store) = client.session().await;
        store.realm().await.unwrap();
        client.link.stall(true);
        let join = |unit| store.begin("CMU.JOIN").arg(format!("{unit}:1:1")).arg("CAPACITY").arg(9).clone();
        let (four, last) = ((0..4).map(join).collect(), join(4));
        let (some, other) = tokio::join!(store.ask_all(four), store.ask::<redis::Value>(&last));
        assert!(some.unwrap_err().ends_session() && other.unwrap_err().ends_session(), "no answer in time");
        drop((session, store));
        client.link.stall(false);
        sleep(Duration::from_secs(1)).await;
        let is_known = |unit: &i32| {
            let name = format!("{unit}:1:1");
            client.redis.realm(|realm| realm.unit_called(name.as_bytes()).is_some()).unwrap()
        };
        assert!((0..5).all(|unit| is_known(&unit)));
    });
}

#[test]
fn pipeline_may_break_anywhere() {
    const JOINED: usize = 4;
    run_paused(1, async {
        let client = client();
        let (_, store) = client.session().await;
        store.realm().await.unwrap();
        let mut carried_out = BTreeSet::new();
        for run in 0..200 {
            let (_, store) = client.session().await;
            let join = |unit| {
                store.begin("CMU.JOIN").arg(format!("{run}-{unit}:1:1")).arg("CAPACITY").arg(9).clone()
            };
            client.link.set_unreliable(0.5);
            let broke = store.ask_all((0..JOINED).map(join).collect()).await.is_err();
            client.link.set_unreliable(0.0);
            let is_known = |unit: &usize| {
                let name = format!("{run}-{unit}:1:1");
                client.redis.realm(|realm| realm.unit_called(name.as_bytes()).is_some()).unwrap()
            };
            let known: Vec<usize> = (0..JOINED).filter(is_known).collect();
            assert_eq!(known, (0..known.len()).collect::<Vec<_>>(), "the first ones");
            assert!(broke || known.len() == JOINED);
            carried_out.extend(broke.then_some(known.len()));
        }
        assert_eq!(carried_out.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn failover_loses_what_the_replica_did_not_have() {
    run_paused(1, async {
        let client = client();
        let (mut session, store) = client.session().await;
        store.realm().await.unwrap();
        store.join("a:1:1", &JOIN).await.unwrap();
        create(&store, "491").await;
        let waited = Instant::now();
        assert!(session.wait(1, Duration::from_secs(1)).await.unwrap());
        assert!(waited.elapsed() >= LAG && waited.elapsed() < Duration::from_millis(500));
        client.redis.connect_replica(false);
        create(&store, "492").await;
        assert!(!session.wait(1, Duration::from_secs(1)).await.unwrap());
        client.redis.fail_over();
        assert!(store.beat("a:1:1", None).await.unwrap_err().ends_session());
        let (session, store) = client.session().await;
        assert_eq!(session.node.to_string(), "redis://redis-1:6379");
        store.beat("a:1:1", None).await.unwrap();
        let known = |e164: &[u8]| client.redis.realm(|realm| realm.conference_called(e164).is_some());
        assert_eq!((known(b"491"), known(b"492")), (Some(true), Some(false)));
    });
}

#[test]
fn replica_has_the_bytes_of_its_master() {
    run_paused(1, async {
        let client = client();
        let (_, store) = client.session().await;
        store.realm().await.unwrap();
        for unit in ["a:1:1", "b:1:1"] {
            store.join(unit, &JOIN).await.unwrap();
        }
        for number in 0..8 {
            create(&store, &format!("49{number}")).await;
        }
        store.down("a:1:1", None).await.unwrap();
        store.report("b:1:1", 0, &[], &[], &[], &[]).await.unwrap();
        store.drain_host("c", true).await.unwrap();
        store.drain_host("d", true).await.unwrap();
        store.drain_host("d", false).await.unwrap();
        assert_eq!(store.leave("b:1:1").await.unwrap(), 4, "they are not open");
        let drained = client.redis.realm(|realm| realm.drained().map(<[u8]>::to_vec).collect::<Vec<_>>());
        assert_eq!(drained, Some(vec![b"c".to_vec()]));
        sleep(LAG).await;
        let master = client.redis.realm(allot_core::conf::Realm::encode).unwrap();
        assert_eq!(client.redis.replica(allot_core::conf::Realm::encode), Some(master));
    });
}

#[test]
fn broken_connection_hides_whether_the_request_was_carried_out() {
    run_paused(1, async {
        let client = client();
        let (_, store) = client.session().await;
        store.realm().await.unwrap();
        client.link.set_unreliable(1.0);
        let (mut carried_out, mut lost) = (0, 0);
        for number in 0..40 {
            client.link.set_unreliable(0.0);
            let (_, store) = client.session().await;
            client.link.set_unreliable(1.0);
            let unit = format!("{number}:1:1");
            assert!(store.join(&unit, &JOIN).await.unwrap_err().ends_session());
            match client.redis.realm(|realm| realm.find_unit(unit.as_bytes())).unwrap() {
                Some(_) => carried_out += 1,
                None => lost += 1,
            }
        }
        assert!(carried_out > 5 && lost > 5, "{carried_out} {lost}");
    });
}

#[test]
fn stalled_connection_answers_when_it_moves_again() {
    run_paused(1, async {
        let client = client();
        let (_, store) = client.session().await;
        store.realm().await.unwrap();
        client.link.stall(true);
        let join = store.join("a:1:1", &JOIN);
        let resume = async {
            sleep(Duration::from_secs(1)).await;
            client.link.stall(false);
        };
        let (joined, ()) = tokio::join!(join, resume);
        joined.unwrap();
        client.link.stall(true);
        assert!(store.beat("a:1:1", None).await.unwrap_err().ends_session(), "no answer in time");
    });
}

#[test]
fn client_knows_the_reserved_names_of_details() {
    assert_eq!(allot_client::RESERVED_DETAILS, allot_core::conf::conference::RESERVED_DETAILS);
}
