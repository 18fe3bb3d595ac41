//! Turns given settings into the settings of a process: adds defaults, reads files of secrets, checks single settings.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use allot_runtime::settings::{identity, path, secret};
use allot_runtime::telemetry::LogFormat;

use super::sections::{self, AccountsConfig, DataProxyConfig, Given, MediaUnitConfig, Role, SchedulerConfig};
use allot_client::{Endpoint, Secret, Servers};
use allot_coordination::session::Connector;
use allot_coordination::zookeeper::{ConnectString, ZooKeeper};

/// The settings of a process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the process; `None` makes one of host, process id and start.
    pub name: Option<String>,
    /// Roles of the process.
    pub roles: BTreeSet<Role>,
    /// The way to Redis.
    pub servers: Servers,
    /// The ZooKeeper ensemble; without it, coordination is within the process.
    pub zookeeper: Option<ZooKeeperConfig>,
    /// What opens sessions in place of ZooKeeper: a simulation.
    pub connector: Option<Arc<dyn Connector>>,
    /// Key of the realm.
    pub realm: String,
    /// Settings of the scheduler.
    pub scheduler: SchedulerConfig,
    /// Settings of the data proxy.
    pub data_proxy: DataProxyConfig,
    /// Settings of the media unit.
    pub media_unit: MediaUnitConfig,
    /// Settings of the compaction node.
    pub compaction: allot_compaction::Settings,
    /// Settings of the assignment of accounts.
    pub accounts: AccountsConfig,
    /// Address of metrics and probes.
    pub http: Option<SocketAddr>,
    /// Format of the log.
    pub log: LogFormat,
    /// Path of `allotd`'s nodes in the coordination service.
    pub root: String,
}

/// The session timeout of coordination within the process.
const IN_PROCESS: Duration = Duration::from_secs(4);

impl Config {
    /// Session timeout of the coordination service: ZooKeeper, or coordination within this process.
    pub fn session(&self) -> Duration {
        self.zookeeper.as_ref().map_or(IN_PROCESS, |zookeeper| zookeeper.session)
    }

    /// Time limit for the roles of this process to hand their work over, by their settings.
    pub fn hand_over(&self) -> Duration {
        let limit = |role: Role| match role {
            Role::MediaUnit if self.media_unit.drain => {
                self.media_unit.stop_limit + self.media_unit.drain_limit
            }
            Role::MediaUnit => self.media_unit.stop_limit,
            Role::Compaction if self.compaction.drain => {
                self.compaction.stop_limit + self.compaction.drain_limit
            }
            Role::Compaction => self.compaction.stop_limit,
            Role::Scheduler | Role::DataProxy | Role::Accounts => Duration::ZERO,
        };
        self.roles.iter().map(|role| limit(*role)).max().unwrap_or_default()
    }
}

/// A ZooKeeper ensemble.
#[derive(Clone)]
pub struct ZooKeeperConfig {
    /// Addresses of the servers.
    pub servers: ConnectString,
    /// Session timeout.
    pub session: Duration,
    /// The way to a session, for people.
    pub way: String,
    /// What opens sessions.
    pub ensemble: ZooKeeper,
}

impl fmt::Debug for ZooKeeperConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.servers, self.way)
    }
}

impl Config {
    /// The same settings, with the way to the master that has the book of accounts.
    #[must_use]
    pub fn for_book(&self) -> Self {
        let servers = Servers { key: self.accounts.book.clone(), ..self.servers.clone() };
        Self { servers, ..self.clone() }
    }

    /// The settings of a process for which these were given.
    pub fn resolve(given: &Given) -> Result<Self> {
        let (process, servers) = (given.process.resolve()?, servers(given)?);
        let media_unit = media_unit(given)?;
        Ok(Self {
            name: process.name,
            roles: process.roles.unwrap_or_default().into_iter().collect(),
            zookeeper: zookeeper(given)?,
            connector: None,
            realm: realm(given)?,
            scheduler: scheduler(given)?,
            data_proxy: given.data_proxy.resolve()?,
            compaction: allot_compaction::Settings::of(&given.compaction)?,
            accounts: accounts(given)?,
            http: given.http.resolve()?.listen,
            log: given.log.resolve()?.format,
            root: root(given)?,
            servers,
            media_unit,
        })
    }
}

/// The address of `redis.url`; without that, of the variable `ALLOT_REDIS`; without both, the default. Only the
/// address in `ALLOT_REDIS` may have a password, since other users cannot read the environment.
fn address(url: Option<&str>, default: &str) -> Result<(Endpoint, Option<String>, Option<Secret>)> {
    if let Some(url) = url {
        let (endpoint, user) = Endpoint::url(url).context("redis.url")?;
        return Ok((endpoint, user, None));
    }
    let url = sections::redis_address().unwrap_or_else(|| default.to_owned());
    Endpoint::url_with_password(&url).context("ALLOT_REDIS")
}

/// The way to Redis that these settings name.
fn servers(given: &Given) -> Result<Servers> {
    let (redis, resolved) = (&given.redis, given.redis.resolve()?);
    let (endpoint, url_user, url_password) = address(redis.url.as_deref(), &resolved.url)?;
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
        timeout: resolved.timeout,
        key: realm(given)?,
        dial: None,
    })
}

fn zookeeper(given: &Given) -> Result<Option<ZooKeeperConfig>> {
    let zookeeper = given.zookeeper.resolve()?;
    let Some(servers) = zookeeper.servers.filter(|servers| !servers.trim().is_empty()) else {
        return Ok(None);
    };
    let servers: ConnectString = servers.parse().map_err(|error| anyhow!("zookeeper.servers: {error}"))?;
    let (mut ensemble, mut way) = (ZooKeeper::new(servers.clone(), zookeeper.session), String::new());
    let file = zookeeper.password_file.as_deref();
    let password = secret(file, "zookeeper.password-file", "ALLOT_ZOOKEEPER_PASSWORD")?;
    match (zookeeper.user, password) {
        (Some(user), Some(password)) => {
            ensemble = ensemble.with_user(&user, password.reveal(), zookeeper.sasl);
            way = format!(", as {user}{}", if zookeeper.sasl { " by SASL" } else { "" });
        }
        (Some(_), None) => bail!(
            "zookeeper.user is given without a password: name a file by zookeeper.password-file, or set \
             ALLOT_ZOOKEEPER_PASSWORD"
        ),
        (None, _) => ensure!(!zookeeper.sasl, "zookeeper.sasl is given without zookeeper.user"),
    }
    let pem = |path: Option<&PathBuf>, name: &str| {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).with_context(|| format!("zookeeper.{name} {}", path.display()))
        };
        path.map(read).transpose()
    };
    let ca = pem(zookeeper.ca_file.as_ref(), "ca-file")?;
    let cert = pem(zookeeper.cert_file.as_ref(), "cert-file")?;
    let key = pem(zookeeper.key_file.as_ref(), "key-file")?;
    ensemble = ensemble
        .with_tls(ca.as_deref(), cert.as_deref(), key.as_deref())
        .map_err(|error| anyhow!("zookeeper: {error}"))?;
    if ca.is_some() {
        way += ", by TLS";
    }
    Ok(Some(ZooKeeperConfig { servers, session: zookeeper.session, way, ensemble }))
}

/// Path of the nodes of `allotd`.
fn root(given: &Given) -> Result<String> {
    let root = given.zookeeper.resolve()?.root;
    path(&root, "zookeeper.root", "/allot")?;
    Ok(root)
}

fn realm(given: &Given) -> Result<String> {
    let key = given.realm.resolve()?.key;
    ensure!(!key.is_empty(), "realm.key is empty");
    Ok(key)
}

fn scheduler(given: &Given) -> Result<SchedulerConfig> {
    let scheduler = given.scheduler.resolve()?;
    Ok(SchedulerConfig { guard_units: scheduler.guard_units.max(1), ..scheduler })
}

fn media_unit(given: &Given) -> Result<MediaUnitConfig> {
    // CMU.JOIN refuses longer names and more tags, and the unit would repeat the command for ever.
    const LONGEST: usize = 256;
    const MOST_TAGS: usize = 64;
    let unit = given.media_unit.resolve()?;
    let tags = unit.tags.iter().map(|tag| ("tags", tag));
    for (setting, name) in unit.zone.iter().map(|zone| ("zone", zone)).chain(tags) {
        ensure!(
            (1..=LONGEST).contains(&name.len()),
            "a name in media-unit.{setting} has {} bytes; write a name of 1 to {LONGEST} bytes",
            name.len()
        );
    }
    ensure!(
        unit.tags.len() <= MOST_TAGS,
        "media-unit.tags has {} tags; write at most {MOST_TAGS}",
        unit.tags.len()
    );
    if let Some(host) = &unit.host {
        identity("media-unit.host", host)?;
    }
    if let Some(machine) = &unit.machine {
        identity("media-unit.machine", machine)?;
    }
    let chatter = unit.chatter.map(|chatter| chatter.max(Duration::from_millis(1)));
    Ok(MediaUnitConfig { chatter, ..unit })
}

fn accounts(given: &Given) -> Result<AccountsConfig> {
    let accounts = given.accounts.resolve()?;
    ensure!(!accounts.book.is_empty(), "accounts.book is empty");
    path(&accounts.root, "accounts.root", "/resource")?;
    Ok(accounts)
}
