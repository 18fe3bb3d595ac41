//! Who may do what in ZooKeeper: the rights on the nodes of `allotd`.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use allot_coordination::session::Connector;
use allot_coordination::zookeeper::ZooKeeper;
use allot_coordination::{Coordinator, Error};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Process, RedisServer, ZooKeeperServer, eventually};

const REALM: &str = "{allot}:conf";
const SECRET: &str = "a-secret-of-the-test";

#[test]
fn zookeeper_nodes_belong_to_their_user_alone() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
    let (url, address) = (server.url(), zookeeper.address());
    let all = Process::new(
        "all",
        &[
            "--roles",
            "scheduler,media-unit",
            "--redis-url",
            &url,
            "--zookeeper-servers",
            &address,
            "--zookeeper-user",
            "allot",
            "--media-unit-host",
            "127.0.0.1/z",
        ],
    )
    .with("ALLOT_ZOOKEEPER_PASSWORD", SECRET)
    .with("ALLOT_LOG", "trace");
    all.start();
    eventually("a scheduler and a unit", TIMEOUT, || {
        all.metric("allot_scheduler_leading") == Some(1.0) && all.is_ready()
    });
    let units = format!("/allot/{REALM}/units");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let look = |connector: ZooKeeper| {
        runtime.block_on(async {
            let connector: Arc<dyn Connector> = Arc::new(connector);
            let coordinator = Coordinator::start(connector);
            coordinator.up().await.unwrap();
            let tree = coordinator.tree();
            let seen = tree.children(&units).await;
            let epoch = tree.get(&format!("/allot/{REALM}/election/epoch")).await;
            coordinator.close().await;
            (seen, epoch.map(|node| node.is_some()))
        })
    };
    let anybody = || ZooKeeper::new(address.parse().unwrap(), Duration::from_secs(30));
    let (seen, epoch) = look(anybody().with_user("allot", SECRET, false));
    assert_eq!((seen.unwrap().len(), epoch.unwrap()), (1, true));
    for other in [anybody(), anybody().with_user("allot", "wrong", false)] {
        let (seen, epoch) = look(other);
        assert!(matches!(seen, Err(Error::Refused { .. })), "{seen:?}");
        assert!(matches!(epoch, Err(Error::Refused { .. })), "{epoch:?}");
    }
    assert!(!all.log().contains(SECRET));
    all.kill9();

    // Who has the password from a file is that user as well.
    let file = server.dir().join("zookeeper-password");
    fs::write(&file, format!("{SECRET}\n")).unwrap();
    let (path, user) = (file.display().to_string(), ["--zookeeper-user", "allot"]);
    let stores = ["--redis-url", &url, "--zookeeper-servers", &address, "--zookeeper-password-file", &path];
    let next = Process::new("next", &[&["--roles", "scheduler"][..], &stores, &user].concat());
    next.start();
    eventually("the next to lead", TIMEOUT, || {
        next.metric("allot_scheduler_leading") == Some(1.0) && next.is_ready()
    });
}

#[test]
fn a_scheduler_that_may_not_read_the_units_gives_its_lead_up() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
    let (url, address) = (server.url(), zookeeper.address());
    let units = format!("/allot/{REALM}/units");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ensure = |connector: ZooKeeper, path: &str| {
        runtime.block_on(async {
            let connector: Arc<dyn Connector> = Arc::new(connector);
            let coordinator = Coordinator::start(connector);
            coordinator.up().await.unwrap();
            coordinator.tree().ensure(path).await.unwrap();
            coordinator.close().await;
        });
    };
    let anybody = || ZooKeeper::new(address.parse().unwrap(), Duration::from_secs(30));
    ensure(anybody(), &format!("/allot/{REALM}"));
    ensure(anybody().with_user("another", SECRET, false), &units);
    let stores = ["--redis-url", &url, "--zookeeper-servers", &address];
    let scheduler = Process::new("scheduler", &[&["--roles", "scheduler"][..], &stores].concat());
    scheduler.start();
    eventually("it to give its lead up", TIMEOUT, || {
        scheduler.log().contains("the units in ZooKeeper cannot be read; giving leadership up")
    });
    let refused =
        |(status, body): (u16, String)| status == 503 && body.contains(&format!("members of {units}"));
    eventually("the probe to name what is refused", TIMEOUT, || {
        scheduler.http("/readyz").is_some_and(refused)
    });
}
