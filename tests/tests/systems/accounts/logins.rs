//! Logins whose deadlines replicas have confirmed, with the typed client and a client in Python, over a failover.

use std::time::Duration;

use allot_client::{BookStore, Confirmation, Endpoint, Servers};
use allot_tests::books::{BOOK, Book};
use allot_tests::proxy::Proxy;
use allot_tests::raw::Reply;
use allot_tests::wait::TIMEOUT;
use allot_tests::{AccountsSystem, RedisServer, eventually};

const SHORT: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(60);

#[test]
fn failover_that_forgets_a_renewal_breaks_no_deadline_that_was_relied_on() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    let mut book = Book::of(&master);
    book.ok("BOOK");
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    book.add("m", 0..1);
    book.ok("ATTACH m a");
    eventually("the account to be assigned", TIMEOUT, || book.shares("m") == [1]);
    replica.replica_of(&master);
    let account = book.ok("LIST").array()[1].array()[0].field("account").text();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, confirmed, forgotten) = runtime.block_on(async {
        let (endpoint, _) = Endpoint::url(&master.url()).unwrap();
        let mut session = Servers::new(endpoint, BOOK).session().await.unwrap();
        assert_eq!(session.replicas, 1);
        let store = BookStore::new(session.connection.clone(), BOOK);
        let limit = Duration::from_secs(5);
        let first = store
            .login((&account, "a", "t1"), SHORT, Confirmation { session: &mut session, replicas: 1, limit })
            .await
            .unwrap()
            .expect("the replica confirms");
        let wait = Confirmation { session: &mut session, replicas: 1, limit };
        let confirmed = store.renew(&account, first, SHORT, wait).await.unwrap();
        // The replica becomes a master of its own: it does not get what follows.
        replica.command("REPLICAOF NO ONE");
        let limit = Duration::from_millis(200);
        let wait = Confirmation { session: &mut session, replicas: 1, limit };
        let forgotten = store.renew(&account, confirmed, LONG, wait).await.unwrap();
        // Nor can another terminal rely on a login that only the old master knows.
        assert!(store.logout(&account, forgotten.epoch).await.unwrap());
        let wait = Confirmation { session: &mut session, replicas: 1, limit };
        assert_eq!(store.login((&account, "a", "t3"), LONG, wait).await.unwrap(), None);
        (first, confirmed, forgotten)
    });
    assert!(book.account(&account, "login_epoch").is_null(), "an unconfirmed login is ended again");
    assert!(confirmed.until >= first.until);
    assert_eq!((forgotten.epoch, forgotten.until), (first.epoch, confirmed.until), "not a minute later");

    // The new master knows the confirmed deadline, and grants another login only after it.
    let mut promoted = Book::of(&replica);
    let mut granted = 0;
    assert_eq!(promoted.account(&account, "until").int(), confirmed.until);
    eventually("another login to be granted", TIMEOUT, || {
        let reply = promoted.call(&format!("LOGIN {account} a t2 TTL 5000"));
        granted = if matches!(reply, Reply::Error(_)) { 0 } else { reply.field("until").int() - 5000 };
        granted > 0
    });
    assert!(granted >= forgotten.until, "{granted} is before {}", forgotten.until);
}

#[test]
fn python_client_logs_out_before_the_last_deadline_that_a_replica_confirmed() {
    let mut system = AccountsSystem::start(0);
    let (next, lagging) = (RedisServer::start(), RedisServer::start());
    let wire = Proxy::to(system.redis.port());
    next.command(&format!("REPLICAOF 127.0.0.1 {}", wire.port()));
    next.wait_replica_synced();
    lagging.replica_of(&system.redis);
    let mut book = system.book();
    book.ok("MODULE m DEPARTMENT d INSTANCES 1");
    book.add("m", 0..1);
    system.add_daemon(&[]);
    system.until_led();
    let url = system.redis.url();
    let client = system.add_clients(&["--redis", &url], &["d/m/one:1"]);
    system.healthy("the account to be used");
    system.redis.wait_offset_equal(&next);

    // One replica confirms nothing any more, but the master goes on waiting for it. The other replica becomes a master
    // that knows all confirmed renewals.
    lagging.pause();
    let until = |server: &RedisServer| Book::of(server).account("p0", "until").int();
    let before = until(&next);
    eventually("a renewal that the other replica confirms", TIMEOUT, || until(&next) > before);
    wire.cut();
    next.command("REPLICAOF NO ONE");
    let confirmed = until(&next);
    eventually("a renewal that no replica confirms", TIMEOUT, || until(&system.redis) > confirmed);
    assert_eq!(system.clients[client].uses()["d/m/one:1"], ["p0"], "the confirmed deadline is yet to come");

    let mut promoted = Book::of(&next);
    eventually("another login to be granted", TIMEOUT, || {
        !matches!(promoted.call("LOGIN p0 one:1 other TTL 5000"), Reply::Error(_))
    });
    assert!(system.clients[client].uses()["d/m/one:1"].is_empty(), "two are logged in with one account");
    lagging.resume();
}
