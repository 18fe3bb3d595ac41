//! States of ZooKeeper and of the network in which a process cannot work: it says which one it is, is not ready, asks
//! seldom, uses no processor time, and ends when it is told to.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use allot_coordination::session::Connector;
use allot_coordination::zookeeper::ZooKeeper;
use allot_coordination::{Coordinator, Kind, Tree};
use allot_tests::daemon::run;
use allot_tests::proxy::Proxy;
use allot_tests::wait::TIMEOUT;
use allot_tests::zookeeper::on_tree;
use allot_tests::{Process, RedisServer, ZooKeeperServer, eventually};

const REALM: &str = "{allot}:conf";
/// For how long requests and processor time are counted.
const SPAN: Duration = Duration::from_secs(6);

/// The processor time that each process uses in [`SPAN`].
fn used(processes: &[Process]) -> Vec<Duration> {
    let before: Vec<Duration> = processes.iter().map(|process| process.processor_time()).collect();
    thread::sleep(SPAN);
    processes
        .iter()
        .zip(before)
        .map(|(process, before)| process.processor_time().saturating_sub(before))
        .collect()
}

#[track_caller]
fn says(process: &Process, text: &str) {
    eventually(&format!("{} to say '{text}'", process.name), TIMEOUT, || {
        process.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains(text))
    });
}

/// Connects as this user, if one is given.
fn as_user<T, F: Future<Output = T>>(address: &str, user: Option<&str>, act: impl FnOnce(Tree) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut zookeeper = ZooKeeper::new(address.parse().unwrap(), Duration::from_secs(30));
        if let Some(user) = user {
            zookeeper = zookeeper.with_user(user, "secret", false);
        }
        let connector: Arc<dyn Connector> = Arc::new(zookeeper);
        let coordinator = Coordinator::start(connector);
        coordinator.up().await.unwrap();
        let done = act(coordinator.tree()).await;
        coordinator.close().await;
        done
    })
}

/// A port that does this with each connection, and counts them.
fn listener(act: impl Fn(TcpStream) + Send + 'static) -> (u16, Arc<AtomicU64>) {
    let (listener, count) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(AtomicU64::new(0)));
    let (port, counted) = (listener.local_addr().unwrap().port(), count.clone());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            act(stream);
        }
    });
    (port, count)
}

#[test]
fn no_state_of_the_network_costs_processor_time_or_keeps_a_process() {
    let server = RedisServer::start();
    let url = server.url();
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (closing, closed) = listener(drop);
    let (silent, held) = listener(|mut stream| {
        thread::spawn(move || stream.read_to_end(&mut Vec::new()));
    });
    let cases = [
        // Connecting to an address of a group fails at once, as without a route.
        ("route", "224.0.0.1:2181".to_owned(), "no route"),
        ("refused", format!("127.0.0.1:{refusing}"), "no server listens on this port"),
        ("name", "zookeeper.invalid:2181".to_owned(), "failed to lookup address"),
        ("closing", format!("127.0.0.1:{closing}"), "the server closes the connection: it expects TLS"),
        ("silent", format!("127.0.0.1:{silent}"), "accepts connections and does not answer"),
    ];
    let processes = cases.clone().map(|(name, address, _)| {
        let arguments =
            ["--roles", "media-unit,accounts", "--redis-url", &url, "--zookeeper-servers", &address];
        let process = Process::new(name, &arguments).with("ALLOT_ZOOKEEPER_SESSION", "1s");
        let process = process.with("ALLOT_MEDIA_UNIT_HOST", name).with("ALLOT_LOG", "info");
        process.start();
        process
    });
    for (process, (_, _, text)) in processes.iter().zip(&cases) {
        says(process, text);
    }
    // The client library goes astray after one session timeout.
    thread::sleep(Duration::from_secs(2));
    let asked = || [closed.load(Ordering::Relaxed), held.load(Ordering::Relaxed)];
    let before = asked();
    for (process, used) in processes.iter().zip(used(&processes)) {
        println!("{}: {used:?} of processor time in {SPAN:?}", process.name);
        assert!(used < SPAN / 10, "{} used {used:?} in {SPAN:?}", process.name);
        assert_eq!(process.http("/healthz").map(|(status, _)| status), Some(200), "{}", process.name);
    }
    let connections = [0, 1].map(|kind| asked()[kind] - before[kind]);
    println!("connections in {SPAN:?}: {connections:?}");
    assert!(connections.iter().all(|&count| count < 100), "{connections:?}");
    for process in &processes {
        let began = Instant::now();
        process.terminate();
        assert!(
            began.elapsed() < Duration::from_secs(15),
            "{} took {:?} to end",
            process.name,
            began.elapsed()
        );
    }
}

#[test]
fn process_without_rights_names_what_is_refused_and_asks_seldom() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
    let (url, address) = (server.url(), zookeeper.address());
    for root in ["/allot", "/resource", "/cluster.compact"] {
        as_user(&address, Some("owner"), async |tree| tree.ensure(root).await.unwrap());
    }
    let arguments = [
        "--roles",
        "scheduler,accounts,media-unit,compaction",
        "--redis-url",
        &url,
        "--zookeeper-servers",
        &address,
        "--compaction-node",
        "host_1",
        "--compaction-runner",
        "/bin/true",
    ];
    let stranger = Process::new("stranger", &arguments).with("ALLOT_MEDIA_UNIT_HOST", "a");
    let wrong = Process::new("wrong password", &[&arguments[..], &["--zookeeper-user", "owner"]].concat());
    let wrong = wrong.with("ALLOT_ZOOKEEPER_PASSWORD", "wrong").with("ALLOT_MEDIA_UNIT_HOST", "b");
    let processes = [stranger, wrong];
    processes.iter().for_each(Process::start);
    for process in &processes {
        for loops in
            ["candidacy under /allot", "own node /allot", "creating the nodes of this unit", "not authorized"]
        {
            says(process, loops);
        }
    }
    // The pauses grow to ten seconds.
    thread::sleep(Duration::from_secs(10));
    let packets = || zookeeper.figure("zk_packets_received").unwrap();
    let before = packets();
    for (process, used) in processes.iter().zip(used(&processes)) {
        println!("{}: {used:?} of processor time in {SPAN:?}", process.name);
        assert!(used < SPAN / 10, "{} used {used:?} in {SPAN:?}", process.name);
    }
    let each = (packets() - before) / SPAN.as_secs_f64() / processes.len() as f64;
    println!("{each:.1} requests a second of each process");
    assert!(each < 10.0, "{each} requests a second of each process");
}

#[test]
fn missing_directory_after_the_servers_is_created_or_named() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
    let (url, address) = (server.url(), zookeeper.address());
    let scheduler = |name: &str, directory: &str| {
        let servers = format!("{address}{directory}");
        let process = Process::new(
            name,
            &["--roles", "scheduler", "--redis-url", &url, "--zookeeper-servers", &servers],
        );
        process.start();
        process
    };
    // A command that only reads creates nothing.
    let missing = format!("{address}/customers/one");
    let refused = run(&server, &["task", "list", "--zookeeper", &missing]).ended(4);
    assert!(
        refused.err.contains("/customers/one") && refused.err.contains("does not exist"),
        "{}",
        refused.err
    );
    let created = scheduler("creates", "/customers/one");
    eventually("the scheduler to lead", TIMEOUT, || {
        created.is_ready() && created.metric("allot_scheduler_leading") == Some(1.0)
    });
    let election = format!("/customers/one/allot/{REALM}/election/epoch");
    assert!(as_user(&address, None, async |tree| tree.get(&election).await.unwrap().is_some()));
    run(&server, &["task", "list", "--zookeeper", &missing]).ended(1);
    created.terminate();
    // The data of ZooKeeper is lost: a new session creates the directory again.
    created.start();
    eventually("the scheduler to lead", TIMEOUT, || created.metric("allot_scheduler_leading") == Some(1.0));
    zookeeper.start_empty();
    eventually("the directory to be there again", TIMEOUT, || {
        as_user(&address, None, async |tree| tree.get(&election).await.unwrap().is_some())
    });
    as_user(&address, Some("owner"), async |tree| tree.ensure("/owned").await.unwrap());
    let refused = scheduler("may not", "/owned/below");
    says(
        &refused,
        "the directory /owned/below after the addresses of the servers was refused: it does not exist",
    );
    as_user(&address, Some("owner"), async |tree| tree.ensure("/owned/below").await.unwrap());
    says(&refused, "candidacy under");
}

#[test]
fn quota_that_is_used_up_is_named_until_it_is_raised() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start_with("enforceQuota=true\n", &[]));
    let (url, address) = (server.url(), zookeeper.address());
    let limits = "/zookeeper/quota/allot/zookeeper_limits";
    let set = |count: i64| {
        on_tree(&address, async |tree| {
            tree.ensure("/allot").await.unwrap();
            tree.ensure("/zookeeper/quota/allot").await.unwrap();
            let text = format!("count={count},bytes=-1=;byteHardLimit=-1;countHardLimit={count}");
            if let Some(node) = tree.get(limits).await.unwrap() {
                tree.set(limits, text.as_bytes(), node.version).await.unwrap();
            } else {
                tree.create(limits, text.as_bytes(), Kind::Persistent).await.unwrap();
                let stats = "/zookeeper/quota/allot/zookeeper_stats";
                tree.create(stats, b"count=1,bytes=0", Kind::Persistent).await.unwrap();
            }
        });
    };
    set(2);
    let scheduler = Process::new(
        "scheduler",
        &["--roles", "scheduler", "--redis-url", &url, "--zookeeper-servers", &address],
    );
    scheduler.start();
    says(&scheduler, "exceed path quota");
    set(100);
    eventually("the scheduler to lead", TIMEOUT, || {
        scheduler.is_ready() && scheduler.metric("allot_scheduler_leading") == Some(1.0)
    });
}

#[test]
fn only_the_leader_whose_claim_redis_accepts_says_that_it_leads() {
    let server = RedisServer::start();
    let (url, ensembles) = (server.url(), [ZooKeeperServer::start(), ZooKeeperServer::start()]);
    let schedulers = ensembles.each_ref().map(|ensemble| {
        let address = ensemble.address();
        let arguments = ["--roles", "scheduler", "--redis-url", &url, "--zookeeper-servers", &address];
        let process = Process::new(&address, &arguments);
        process.start();
        process
    });
    let leading = |process: &Process| process.metric("allot_scheduler_leading") == Some(1.0);
    let refused = |process: &Process| process.log().contains("Redis has seen a later leader");
    eventually("one to be refused", TIMEOUT, || schedulers.iter().any(refused));
    eventually("the other to lead alone", TIMEOUT, || {
        let [first, second] = schedulers.each_ref().map(leading);
        first != second
    });
    let loser = schedulers.iter().find(|process| refused(process)).unwrap();
    says(loser, "our term is refused");
    assert!(!leading(loser));
}

#[test]
fn long_way_to_zookeeper_is_lived_with_or_named() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
    let wire = Proxy::to(zookeeper.port());
    let (url, address) = (server.url(), format!("127.0.0.1:{}", wire.port()));
    // A quarter of the session timeout: answers come later than the next question is due.
    wire.delay(Duration::from_secs(1));
    let scheduler = Process::new(
        "scheduler",
        &["--roles", "scheduler", "--redis-url", &url, "--zookeeper-servers", &address],
    );
    scheduler.start();
    let leads = || scheduler.metric("allot_scheduler_leading") == Some(1.0);
    eventually("the scheduler to lead", TIMEOUT, leads);
    let began = Instant::now();
    let (mut seen, mut led) = (0, 0);
    while began.elapsed() < SPAN * 3 {
        seen += 1;
        led += usize::from(leads() && scheduler.is_ready());
        thread::sleep(Duration::from_millis(50));
    }
    println!("led in {led} of {seen} looks");
    assert_eq!(scheduler.metric("allot_scheduler_term"), Some(1.0));
    assert!(led * 20 >= seen * 19, "led in {led} of {seen} looks");
    // Half of it: no session can be kept.
    wire.delay(Duration::from_secs(2));
    says(&scheduler, "too long for a session timeout of 4s: set zookeeper.session to");
    wire.delay(Duration::ZERO);
    eventually("the scheduler to lead again", TIMEOUT, || leads() && scheduler.is_ready());
}
