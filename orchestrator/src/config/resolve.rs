//! From what was given to what holds: defaults, files of secrets, and whether it all fits together.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::tz::TimeZone;

use allot_runtime::telemetry::LogFormat;

use super::sections::{self, Given, Role};
use super::span::Span;
use allot_client::{Endpoint, Secret, Servers, without_password};

/// What holds for a process. Spans are settings as given, with their defaults.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) name: Option<String>,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) servers: Servers,
    pub(crate) zookeeper: Option<ZooKeeperConfig>,
    /// Key of the realm.
    pub(crate) realm: String,
    pub(crate) conference: ConferenceConfig,
    pub(crate) data_proxy: DataProxyConfig,
    pub(crate) cmu: CmuConfig,
    pub(crate) compaction: allot_compaction::Settings,
    pub(crate) accounts: AccountsConfig,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) log: LogFormat,
    /// Path of our nodes in the coordination service.
    pub(crate) root: String,
}

/// Address of the Redis server if none is given.
const DEFAULT_REDIS: &str = "redis://127.0.0.1:6379";
/// The session timeout of coordination within the process.
const IN_PROCESS: Duration = Duration::from_secs(4);

impl Config {
    /// How long a session with the coordination service outlives its last sign of life, be that a ZooKeeper or not.
    pub(crate) fn session(&self) -> Duration {
        self.zookeeper.as_ref().map_or(IN_PROCESS, |zookeeper| zookeeper.session)
    }

    /// How long the roles of this process may take to hand over what they have.
    pub(crate) fn farewell(&self) -> Duration {
        let limit = |role: Role| match role {
            Role::Cmu if self.cmu.drain => self.cmu.stop_limit + self.cmu.drain_limit,
            Role::Cmu => self.cmu.stop_limit,
            Role::Compaction => self.compaction.stop_limit,
            Role::Conference | Role::DataProxy | Role::Accounts => Duration::ZERO,
        };
        self.roles.iter().map(|role| limit(*role)).max().unwrap_or_default()
    }
}

/// A ZooKeeper ensemble.
#[derive(Debug, Clone)]
pub(crate) struct ZooKeeperConfig {
    pub(crate) servers: String,
    pub(crate) session: Duration,
    pub(crate) digest: Option<(String, Secret)>,
}

/// The scheduler's settings.
#[derive(Debug, Clone)]
pub(crate) struct ConferenceConfig {
    pub(crate) tick: Duration,
    pub(crate) grace: Duration,
    pub(crate) pace: u32,
    pub(crate) burst: u32,
    pub(crate) brake_percent: u32,
    pub(crate) brake_least: u32,
    pub(crate) brake_window: Duration,
    pub(crate) brake_lift: Duration,
    pub(crate) wait_replicas: u32,
    pub(crate) wait: Duration,
}

/// The data proxy's settings.
#[derive(Debug, Clone)]
pub(crate) struct DataProxyConfig {
    pub(crate) group: String,
    pub(crate) batch: u32,
    pub(crate) claim_after: Duration,
}

/// The unit's settings.
#[derive(Debug, Clone)]
pub(crate) struct CmuConfig {
    pub(crate) host: Option<String>,
    pub(crate) capacity: u32,
    pub(crate) zone: Option<String>,
    pub(crate) lease: Duration,
    pub(crate) beat: Duration,
    pub(crate) self_stop: Option<Duration>,
    pub(crate) program: Vec<String>,
    pub(crate) stop_limit: Duration,
    pub(crate) drain: bool,
    pub(crate) drain_limit: Duration,
    pub(crate) chatter: Option<Duration>,
}

/// The settings of dealing accounts.
#[derive(Debug, Clone)]
pub(crate) struct AccountsConfig {
    /// Key of the book.
    pub(crate) book: String,
    /// Where client systems come, which is not under `Config::root`.
    pub(crate) root: String,
    pub(crate) grace: Duration,
    pub(crate) barrier: Duration,
    pub(crate) tick: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) zone: TimeZone,
    pub(crate) rebalance: Duration,
    pub(crate) wait_replicas: u32,
    pub(crate) wait: Duration,
}

impl Config {
    /// The same, where the master that is meant is the one that has the book of accounts.
    pub(crate) fn for_book(&self) -> Self {
        let servers = Servers { realm: self.accounts.book.clone(), ..self.servers.clone() };
        Self { servers, ..self.clone() }
    }

    /// What holds where this was given.
    pub(crate) fn resolve(given: &Given) -> Result<Self> {
        let servers = servers(given)?;
        let cmu = cmu(given)?;
        let config = Self {
            name: given.process.name.clone(),
            roles: given.process.roles.clone().unwrap_or_default().into_iter().collect(),
            zookeeper: zookeeper(given)?,
            realm: realm(given)?,
            conference: conference(given)?,
            data_proxy: data_proxy(given)?,
            compaction: compaction(given)?,
            accounts: accounts(given)?,
            http: given.http.listen,
            log: given.log.format.unwrap_or(LogFormat::Text),
            root: root(given)?,
            servers,
            cmu,
        };
        config.check_times()?;
        Ok(config)
    }
}

/// The server at `redis.url`; without it, at the address in `ALLOT_REDIS`, where alone a password may stand: an
/// environment cannot be read by others. Without both, the default.
fn address(url: Option<&str>) -> Result<(Endpoint, Option<String>, Option<Secret>)> {
    if let Some(url) = url {
        let (endpoint, user) = Endpoint::url(url).context("redis.url")?;
        return Ok((endpoint, user, None));
    }
    let url = sections::redis_address().unwrap_or_else(|| DEFAULT_REDIS.to_owned());
    Endpoint::url_with_password(&url).context("ALLOT_REDIS")
}

/// The way to Redis that these settings name.
pub(super) fn servers(given: &Given) -> Result<Servers> {
    let redis = &given.redis;
    let sentinels = redis.sentinels.clone().unwrap_or_default();
    let cluster = redis.cluster.clone().unwrap_or_default();
    let ways = usize::from(redis.url.is_some())
        + usize::from(!sentinels.is_empty())
        + usize::from(!cluster.is_empty());
    ensure!(
        ways <= 1,
        "redis.url, redis.sentinels and redis.cluster are three ways to one server; give one of them"
    );
    if let Some(address) = sentinels.iter().chain(&cluster).find(|address| address.contains('@')) {
        bail!(
            "'{}' is no address of the form HOST:PORT; a user is named by redis.user, and his password by a file, \
             redis.password-file",
            without_password(address)
        );
    }
    let tls = redis.tls.unwrap_or(false);
    let (mut url_user, mut url_password) = (None, None);
    let endpoint = if !sentinels.is_empty() {
        let Some(master) = redis.master.clone() else {
            bail!("redis.sentinels are given without redis.master, the name by which they know the master")
        };
        Endpoint::Sentinels { sentinels, master, tls }
    } else if !cluster.is_empty() {
        Endpoint::Cluster { nodes: cluster, tls }
    } else {
        let (endpoint, user, password) = address(redis.url.as_deref())?;
        (url_user, url_password) = (user, password);
        endpoint
    };
    let ca = match &redis.ca_file {
        Some(path) => Some(fs::read(path).with_context(|| format!("redis.ca-file {}", path.display()))?),
        None => None,
    };
    Ok(Servers {
        endpoint,
        user: redis.user.clone().or(url_user),
        password: secret(redis.password_file.as_deref(), "redis.password-file", "ALLOT_REDIS_PASSWORD")?
            .or(url_password),
        sentinel_password: secret(
            redis.sentinel_password_file.as_deref(),
            "redis.sentinel-password-file",
            "ALLOT_SENTINEL_PASSWORD",
        )?,
        ca,
        timeout: positive(redis.timeout, Span::ms(1500), "redis.timeout")?,
        realm: realm(given)?,
    })
}

fn zookeeper(given: &Given) -> Result<Option<ZooKeeperConfig>> {
    let zookeeper = &given.zookeeper;
    let Some(servers) = zookeeper.servers.clone().filter(|servers| !servers.trim().is_empty()) else {
        return Ok(None);
    };
    let password =
        secret(zookeeper.password_file.as_deref(), "zookeeper.password-file", "ALLOT_ZOOKEEPER_PASSWORD")?;
    let digest = match (zookeeper.user.clone(), password) {
        (Some(user), Some(password)) => Some((user, password)),
        (Some(_), None) => bail!(
            "zookeeper.user is given without a password: name a file by zookeeper.password-file, or set \
             ALLOT_ZOOKEEPER_PASSWORD"
        ),
        (None, _) => None,
    };
    let session = positive(zookeeper.session, Span::ms(4000), "zookeeper.session")?;
    Ok(Some(ZooKeeperConfig { servers, session, digest }))
}

fn root(given: &Given) -> Result<String> {
    path(given.zookeeper.root.as_deref().unwrap_or("/allot"), "zookeeper.root", "/allot")
}

/// A path in the coordination service.
fn path(given: &str, name: &str, example: &str) -> Result<String> {
    let parts = given.strip_prefix('/').unwrap_or_default();
    ensure!(
        !parts.is_empty() && parts.split('/').all(|part| !matches!(part, "" | "." | "..")),
        "{name} is '{given}'; write a path as {example}"
    );
    Ok(given.to_owned())
}

fn realm(given: &Given) -> Result<String> {
    let key = given.realm.key.clone().unwrap_or_else(|| "{allot}:conf".to_owned());
    ensure!(!key.is_empty(), "realm.key is empty");
    Ok(key)
}

fn conference(given: &Given) -> Result<ConferenceConfig> {
    let conference = &given.conference;
    let pace = conference.pace.unwrap_or(50);
    let burst = conference.burst.unwrap_or(10);
    ensure!(pace > 0 && burst > 0, "conference.pace and conference.burst must be 1 at least");
    Ok(ConferenceConfig {
        tick: positive(conference.tick, Span::ms(250), "conference.tick")?,
        grace: positive(conference.grace, Span::ms(10_000), "conference.grace")?,
        pace,
        burst,
        brake_percent: conference.brake_percent.unwrap_or(30),
        brake_least: conference.brake_least.unwrap_or(2).max(1),
        brake_window: positive(conference.brake_window, Span::ms(10_000), "conference.brake-window")?,
        brake_lift: positive(conference.brake_lift, Span::ms(60_000), "conference.brake-lift")?,
        wait_replicas: conference.wait_replicas.unwrap_or(1),
        wait: positive(conference.wait, Span::ms(100), "conference.wait")?,
    })
}

fn data_proxy(given: &Given) -> Result<DataProxyConfig> {
    let proxy = &given.data_proxy;
    let batch = proxy.batch.unwrap_or(512);
    ensure!((1..=10_000).contains(&batch), "data-proxy.batch is {batch}; it may be 1 to 10000");
    Ok(DataProxyConfig {
        group: proxy.group.clone().unwrap_or_else(|| "proxies".to_owned()),
        batch,
        claim_after: positive(proxy.claim_after, Span::ms(30_000), "data-proxy.claim-after")?,
    })
}

fn cmu(given: &Given) -> Result<CmuConfig> {
    // What CMU.JOIN refuses: a unit would ask for it again without end.
    const MOST_ROOM: u32 = 1_000_000_000;
    const LONGEST_NAME: usize = 256;
    const SHORTEST_LEASE: Duration = Duration::from_millis(1);
    const LONGEST_LEASE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
    let cmu = &given.cmu;
    let capacity = cmu.capacity.unwrap_or(100);
    ensure!((1..=MOST_ROOM).contains(&capacity), "cmu.capacity is {capacity}; it may be 1 to {MOST_ROOM}");
    if let Some(zone) = &cmu.zone {
        ensure!(
            (1..=LONGEST_NAME).contains(&zone.len()),
            "cmu.zone has {} bytes; write a name of 1 to {LONGEST_NAME} bytes",
            zone.len()
        );
    }
    let lease = positive(cmu.lease, Span::ms(5000), "cmu.lease")?;
    ensure!(
        (SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease),
        "cmu.lease is {}; it may be {} to 10years",
        Span(lease),
        Span(SHORTEST_LEASE)
    );
    if let Some(host) = &cmu.host {
        let sound = !host.is_empty() && host.len() <= 200 && !host.contains(char::is_whitespace);
        ensure!(
            sound,
            "cmu.host is '{host}'; write an address or a name without spaces, of 200 bytes at most"
        );
    }
    Ok(CmuConfig {
        host: cmu.host.clone(),
        capacity,
        zone: cmu.zone.clone(),
        lease,
        beat: positive(cmu.beat, Span::ms(1000), "cmu.beat")?,
        self_stop: cmu.self_stop.map(|span| span.0),
        program: cmu.program.clone().unwrap_or_default(),
        stop_limit: positive(cmu.stop_limit, Span::ms(4000), "cmu.stop-limit")?,
        drain: cmu.drain.unwrap_or(false),
        drain_limit: positive(cmu.drain_limit, Span::ms(60_000), "cmu.drain-limit")?,
        chatter: cmu.chatter.map(|span| span.0.max(Duration::from_millis(1))),
    })
}

fn compaction(given: &Given) -> Result<allot_compaction::Settings> {
    let default = allot_compaction::Settings::default();
    let compaction = &given.compaction;
    let (slots, wave) = (compaction.slots.unwrap_or(default.slots), compaction.wave.unwrap_or(default.wave));
    let limit = compaction.limit.unwrap_or(default.limit);
    ensure!((1..=10_000).contains(&slots), "compaction.slots is {slots}; it may be 1 to 10000");
    ensure!((1..=100_000).contains(&wave), "compaction.wave is {wave}; it may be 1 to 100000");
    ensure!(
        limit <= 1_000_000,
        "compaction.limit is {limit}; it may be 1000000 at most, or 0 for any number"
    );
    ensure!(
        compaction.partitions.is_none() || compaction.partitions_dir.is_none(),
        "compaction.partitions and compaction.partitions-dir are two ways to list partitions; give one of them"
    );
    for (name, word) in [("node", &compaction.node), ("pc", &compaction.pc)] {
        let sound =
            |word: &String| !word.is_empty() && word.len() <= 200 && !word.contains(char::is_whitespace);
        ensure!(
            word.as_ref().is_none_or(sound),
            "compaction.{name} is '{}'; write a name without spaces, of 200 bytes at most",
            word.as_deref().unwrap_or_default()
        );
    }
    let node = compaction.node.clone();
    let output_dir = compaction
        .output_dir
        .clone()
        .unwrap_or_else(|| default.output_dir.join(node.as_deref().unwrap_or("unit").replace('/', "_")));
    let span = |given: Option<Span>, default: Duration, name| positive(given, Span(default), name);
    Ok(allot_compaction::Settings {
        node,
        pc: compaction.pc.clone().unwrap_or(default.pc),
        slots,
        limit,
        runner: compaction.runner.clone().unwrap_or_default(),
        partitions: compaction.partitions.clone().unwrap_or_default(),
        partitions_dir: compaction.partitions_dir.clone(),
        timeout: span(compaction.timeout, default.timeout, "compaction.timeout")?,
        stop_limit: span(compaction.stop_limit, default.stop_limit, "compaction.stop-limit")?,
        retries: compaction.retries.unwrap_or(default.retries),
        grace: compaction.grace.map(|span| span.0),
        every: span(compaction.every, default.every, "compaction.every")?,
        wave,
        compress_after: span(compaction.compress_after, default.compress_after, "compaction.compress-after")?,
        delete_after: span(compaction.delete_after, default.delete_after, "compaction.delete-after")?,
        output_dir,
        root: path(compaction.root.as_deref().unwrap_or(&default.root), "compaction.root", &default.root)?,
        session: zookeeper(given)?.map(|zookeeper| zookeeper.session),
    })
}

fn accounts(given: &Given) -> Result<AccountsConfig> {
    const ROOT: &str = "/resource";
    let accounts = &given.accounts;
    let book = accounts.book.clone().unwrap_or_else(|| "{acme}:accounts".to_owned());
    ensure!(!book.is_empty(), "accounts.book is empty");
    let zone = time_zone(accounts.time_zone.as_deref().unwrap_or("UTC"));
    Ok(AccountsConfig {
        book,
        root: path(accounts.root.as_deref().unwrap_or(ROOT), "accounts.root", ROOT)?,
        grace: accounts.grace.unwrap_or(Span::ms(30_000)).0,
        barrier: accounts.barrier.unwrap_or(Span::ms(10_000)).0,
        tick: positive(accounts.tick, Span::ms(250), "accounts.tick")?,
        max_ttl: positive(accounts.max_ttl, Span::ms(3_600_000), "accounts.max-ttl")?,
        zone: zone.context("accounts.time-zone")?,
        rebalance: positive(accounts.rebalance, Span::ms(3_600_000), "accounts.rebalance")?,
        wait_replicas: accounts.wait_replicas.unwrap_or(1),
        wait: positive(accounts.wait, Span::ms(500), "accounts.wait")?,
    })
}

/// The time zone of this name: one of the IANA database, or `UTC`.
pub(crate) fn time_zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).with_context(|| {
        format!("'{name}' is no time zone; write one as the IANA database has it, e.g. Europe/Berlin, or UTC")
    })
}

fn positive(given: Option<Span>, default: Span, name: &str) -> Result<Duration> {
    let span = given.unwrap_or(default).0;
    ensure!(!span.is_zero(), "{name} is 0");
    Ok(span)
}

/// A secret from the first line of a file, or from the environment. Neither shows in a list of processes.
fn secret(file: Option<&Path>, name: &str, variable: &str) -> Result<Option<Secret>> {
    let text = match file {
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("{name} {}", path.display()))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        None => match std::env::var(variable) {
            Ok(text) => text,
            Err(_) => return Ok(None),
        },
    };
    ensure!(!text.is_empty(), "the password of {name} is empty");
    Ok(Some(Secret::new(text)))
}
