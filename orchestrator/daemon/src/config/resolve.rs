//! Turns given settings into the settings of a process: adds defaults, reads files of secrets, checks single settings.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use allot_runtime::child::program;
use allot_runtime::telemetry::LogFormat;

use super::sections::{self, AccountsConfig, CmuConfig, ConferenceConfig, DataProxyConfig, Given, Role};
use allot_client::{Endpoint, Secret, Servers, without_password};
use allot_coordination::session::Connector;
use allot_core::invariant;

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
    pub conference: ConferenceConfig,
    /// Settings of the data proxy.
    pub data_proxy: DataProxyConfig,
    /// Settings of the media unit.
    pub cmu: CmuConfig,
    /// Settings of the compaction unit.
    pub compaction: allot_compaction::Settings,
    /// Settings of the assignment of accounts.
    pub accounts: AccountsConfig,
    /// Address of metrics and probes.
    pub http: Option<SocketAddr>,
    /// Settings of the console.
    pub console: allot_console::Settings,
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
            Role::MediaUnit if self.cmu.drain => self.cmu.stop_limit + self.cmu.drain_limit,
            Role::MediaUnit => self.cmu.stop_limit,
            Role::Compaction => self.compaction.stop_limit,
            Role::Scheduler | Role::DataProxy | Role::Accounts | Role::Console => Duration::ZERO,
        };
        self.roles.iter().map(|role| limit(*role)).max().unwrap_or_default()
    }
}

/// A ZooKeeper ensemble.
#[derive(Debug, Clone)]
pub struct ZooKeeperConfig {
    /// Addresses of the servers.
    pub servers: String,
    /// Session timeout.
    pub session: Duration,
    /// User and password.
    pub digest: Option<(String, Secret)>,
}

impl Config {
    /// The same settings, with the way to the master that has the book of accounts.
    pub fn for_book(&self) -> Self {
        let servers = Servers { key: self.accounts.book.clone(), ..self.servers.clone() };
        Self { servers, ..self.clone() }
    }

    /// The settings of a process for which these were given.
    pub fn resolve(given: &Given) -> Result<Self> {
        let (process, servers) = (given.process.resolve()?, servers(given)?);
        let cmu = cmu(given)?;
        Ok(Self {
            name: process.name,
            roles: process.roles.unwrap_or_default().into_iter().collect(),
            zookeeper: zookeeper(given)?,
            connector: None,
            realm: realm(given)?,
            conference: conference(given)?,
            data_proxy: given.data_proxy.resolve()?,
            compaction: compaction(given)?,
            accounts: accounts(given)?,
            http: given.http.resolve()?.listen,
            log: given.log.resolve()?.format,
            root: path(given.zookeeper.resolve()?.root, "zookeeper.root", "/allot")?,
            console: console(given, &servers)?,
            servers,
            cmu,
        })
    }
}

/// The server at `redis.url`; without that, at the address in `ALLOT_REDIS`; without both, at the default. Only the
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
pub(super) fn servers(given: &Given) -> Result<Servers> {
    let (redis, resolved) = (&given.redis, given.redis.resolve()?);
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
            "'{}' is no address of the form HOST:PORT; name a user by redis.user, and the password by a file, \
             redis.password-file",
            without_password(address)
        );
    }
    let tls = resolved.tls;
    let (mut url_user, mut url_password) = (None, None);
    let endpoint = if !sentinels.is_empty() {
        let Some(master) = redis.master.clone() else {
            bail!("redis.sentinels are given without redis.master, the name by which they know the master")
        };
        Endpoint::Sentinels { sentinels, master, tls }
    } else if !cluster.is_empty() {
        Endpoint::Cluster { nodes: cluster, tls }
    } else {
        let (endpoint, user, password) = address(redis.url.as_deref(), &resolved.url)?;
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
    let file = zookeeper.password_file.as_deref();
    let password = secret(file, "zookeeper.password-file", "ALLOT_ZOOKEEPER_PASSWORD")?;
    let digest = match (zookeeper.user, password) {
        (Some(user), Some(password)) => Some((user, password)),
        (Some(_), None) => bail!(
            "zookeeper.user is given without a password: name a file by zookeeper.password-file, or set \
             ALLOT_ZOOKEEPER_PASSWORD"
        ),
        (None, _) => None,
    };
    Ok(Some(ZooKeeperConfig { servers, session: zookeeper.session, digest }))
}

fn console(given: &Given, servers: &Servers) -> Result<allot_console::Settings> {
    let console = given.console.resolve()?;
    // A user of the console's own has a password of its own; without a user, redis.user and its password count.
    let login = |user: Option<String>, file: Option<&Path>, name: &str, variable: &str| -> Result<Servers> {
        let Some(user) = user else { return Ok(servers.clone()) };
        Ok(Servers { user: Some(user), password: secret(file, name, variable)?, ..servers.clone() })
    };
    let token = |file: Option<&Path>, name: &str, variable: &str| secret(file, name, variable);
    Ok(allot_console::Settings {
        listen: console.listen,
        origins: console.origins,
        viewer_token: token(
            console.viewer_token_file.as_deref(),
            "console.viewer-token-file",
            "ALLOT_CONSOLE_VIEWER_TOKEN",
        )?,
        operator_token: token(
            console.operator_token_file.as_deref(),
            "console.operator-token-file",
            "ALLOT_CONSOLE_OPERATOR_TOKEN",
        )?,
        viewer: login(
            console.viewer_user,
            console.viewer_password_file.as_deref(),
            "console.viewer-password-file",
            "ALLOT_CONSOLE_VIEWER_PASSWORD",
        )?,
        operator: login(
            console.operator_user,
            console.operator_password_file.as_deref(),
            "console.operator-password-file",
            "ALLOT_CONSOLE_OPERATOR_PASSWORD",
        )?,
        tls: match (console.tls_cert, console.tls_key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => bail!("console.tls-cert and console.tls-key belong together; give both, or none"),
        },
    })
}

/// Checks a path in the coordination service.
fn path(given: String, name: &str, example: &str) -> Result<String> {
    let parts = given.strip_prefix('/').unwrap_or_default();
    ensure!(
        !parts.is_empty() && parts.split('/').all(|part| !matches!(part, "" | "." | "..")),
        "{name} is '{given}'; write a path as {example}"
    );
    Ok(given)
}

fn realm(given: &Given) -> Result<String> {
    let key = given.realm.resolve()?.key;
    ensure!(!key.is_empty(), "realm.key is empty");
    Ok(key)
}

fn conference(given: &Given) -> Result<ConferenceConfig> {
    let conference = given.conference.resolve()?;
    Ok(ConferenceConfig { brake_least: conference.brake_least.max(1), ..conference })
}

/// Checks a name that is part of an identity.
fn identity(name: &str, given: Option<&String>) -> Result<()> {
    let sound = |word: &String| !word.is_empty() && word.len() <= 200 && !word.contains(char::is_whitespace);
    ensure!(
        given.is_none_or(sound),
        "{name} is '{}'; write a name without spaces, of 200 bytes at most",
        given.map_or("", String::as_str)
    );
    Ok(())
}

fn cmu(given: &Given) -> Result<CmuConfig> {
    // CMU.JOIN refuses a longer zone, and the unit would repeat the command for ever.
    const LONGEST_ZONE: usize = 256;
    let cmu = given.cmu.resolve()?;
    if let Some(zone) = &cmu.zone {
        ensure!(
            (1..=LONGEST_ZONE).contains(&zone.len()),
            "cmu.zone has {} bytes; write a name of 1 to {LONGEST_ZONE} bytes",
            zone.len()
        );
    }
    identity("cmu.host", cmu.host.as_ref())?;
    let chatter = cmu.chatter.map(|chatter| chatter.max(Duration::from_millis(1)));
    Ok(CmuConfig { chatter, ..cmu })
}

fn compaction(given: &Given) -> Result<allot_compaction::Settings> {
    let compaction = given.compaction.resolve()?;
    ensure!(
        given.compaction.partitions.is_none() || compaction.partitions_dir.is_none(),
        "compaction.partitions and compaction.partitions-dir are two ways to list partitions; give one of them"
    );
    identity("compaction.node", compaction.node.as_ref())?;
    identity("compaction.pc", Some(&compaction.pc))?;
    let output_dir = compaction.output_dir.unwrap_or_else(|| {
        let unit = compaction.node.as_deref().unwrap_or("unit").replace('/', "_");
        allot_compaction::Settings::default().output_dir.join(unit)
    });
    Ok(allot_compaction::Settings {
        node: compaction.node,
        pc: compaction.pc,
        slots: compaction.slots,
        limit: compaction.limit,
        runner: compaction.runner,
        partitions: compaction.partitions,
        partitions_dir: compaction.partitions_dir,
        timeout: compaction.timeout,
        stop_limit: compaction.stop_limit,
        retries: compaction.retries,
        grace: compaction.grace,
        every: compaction.every,
        wave: compaction.wave,
        compress_after: compaction.compress_after,
        delete_after: compaction.delete_after,
        output_dir,
        root: path(compaction.root, "compaction.root", "/cluster.compact/Compaction_v2")?,
        session: zookeeper(given)?.map(|zookeeper| zookeeper.session),
    })
}

fn accounts(given: &Given) -> Result<AccountsConfig> {
    let accounts = given.accounts.resolve()?;
    ensure!(!accounts.book.is_empty(), "accounts.book is empty");
    Ok(AccountsConfig { root: path(accounts.root, "accounts.root", "/resource")?, ..accounts })
}

/// A secret from the first line of a file, or from the environment: a list of processes shows neither.
fn secret(file: Option<&Path>, name: &str, variable: &str) -> Result<Option<Secret>> {
    invariant!(program::SECRETS.contains(&variable), "programs inherit no secret");
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
