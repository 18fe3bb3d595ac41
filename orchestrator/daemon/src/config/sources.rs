//! The sources of a command's settings. Flags override the environment, and the environment overrides a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allot_client::Connection;
use anyhow::{Context, Result, anyhow};
use clap::builder::StyledStr;
use clap::{Args, Command};

use super::resolve::{self, Config};
use super::sections::{
    Accounts, Compaction, Conference, Given, Realm, Redis, Role, ZooKeeper, redis_address,
};
use super::span::Span;

/// A file of settings, and settings that override it.
#[derive(Debug, Args)]
pub struct Source {
    /// File of settings (TOML); examples/allot.toml has all of them.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    given: Given,
}

impl Source {
    /// A file, and settings over it.
    pub fn new(file: PathBuf, given: Given) -> Self {
        Self { config: Some(file), given }
    }

    /// The resolved settings.
    pub fn config(self) -> Result<Config> {
        let config = load(self.given, self.config.as_deref())?;
        config.check_roles()?;
        Ok(config)
    }

    /// The same sources, for a process that has only this role.
    pub fn with_role(mut self, role: Role) -> Self {
        self.given.process.roles = Some(vec![role]);
        self
    }
}

/// The help text of a setting, for commands that take only some settings of its section.
fn help_of<A: Args>(flag: &str) -> StyledStr {
    let section = A::augment_args(Command::new("section"));
    let help =
        section.get_arguments().find(|argument| argument.get_id() == flag).and_then(clap::Arg::get_help);
    help.cloned().unwrap_or_default()
}

/// The settings of a command that works on one key: the way to Redis.
#[derive(Debug, Args)]
#[command(next_help_heading = "Redis")]
pub struct RedisSource {
    /// File of settings (TOML), of which the section [redis] matters here.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    redis: Redis,
}

/// Time for connecting: a server that builds a large show answers no client for seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Additional time limit for the answer to one large request.
const LARGE_REQUEST: Duration = Duration::from_secs(60);

impl RedisSource {
    /// A connection to the server that has this key.
    pub async fn connect(&self, key: &str) -> Result<Connection> {
        let given = Given { redis: self.redis.clone(), ..Given::default() };
        let mut servers = resolve::servers(&merge(given, self.config.as_deref())?)?;
        key.clone_into(&mut servers.key);
        servers.timeout = servers.timeout.max(PATIENCE);
        Ok(servers.connection(LARGE_REQUEST).await?)
    }
}

/// The settings of a command on a realm: the way to Redis, and the realm's key.
#[derive(Debug, Args)]
pub struct RealmSource {
    /// File of settings (TOML), of which Redis and the realm matter here.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    redis: Redis,
    #[command(flatten)]
    realm: Realm,
}

impl RealmSource {
    /// The resolved settings.
    pub fn config(&self) -> Result<Config> {
        self.config_over(Conference::default())
    }

    /// The settings for a command that changes the owner of a conference.
    pub fn config_with(&self, confirm: &Confirm) -> Result<Config> {
        let conference =
            Conference { wait_replicas: confirm.wait_replicas, wait: confirm.wait, ..Conference::default() };
        let config = self.config_over(conference)?;
        config.check_confirmation()?;
        Ok(config)
    }

    fn config_over(&self, conference: Conference) -> Result<Config> {
        let (redis, realm) = (self.redis.clone(), self.realm.clone());
        let given = Given { redis, realm, conference, ..Given::default() };
        load(given, self.config.as_deref())
    }
}

/// The scheduler's settings for the confirmation of a change of owner, for commands that make such a change.
#[derive(Debug, Args)]
pub struct Confirm {
    #[arg(long = "conference-wait-replicas", env = "ALLOT_CONFERENCE_WAIT_REPLICAS", hide_env_values = true)]
    #[arg(help = help_of::<Conference>("conference-wait-replicas"))]
    wait_replicas: Option<u32>,
    #[arg(long = "conference-wait", env = "ALLOT_CONFERENCE_WAIT", hide_env_values = true)]
    #[arg(help = help_of::<Conference>("conference-wait"))]
    wait: Option<Span>,
}

/// The settings of a command on compaction tasks: the way to ZooKeeper, and the root of the tasks.
#[derive(Debug, Args)]
pub struct TreeSource {
    /// File of settings (TOML), of which ZooKeeper and compaction matter here.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    zookeeper: ZooKeeper,
    #[arg(long = "compaction-root", env = "ALLOT_COMPACTION_ROOT", hide_env_values = true)]
    #[arg(help = help_of::<Compaction>("compaction-root"))]
    root: Option<String>,
}

impl TreeSource {
    /// The resolved settings.
    pub fn config(&self) -> Result<Config> {
        let compaction = Compaction { root: self.root.clone(), ..Compaction::default() };
        let given = Given { zookeeper: self.zookeeper.clone(), compaction, ..Given::default() };
        load(given, self.config.as_deref())
    }
}

/// The settings of a command on a book of accounts: the way to Redis and ZooKeeper, the book's key, and its root.
#[derive(Debug, Args)]
pub struct BookSource {
    /// File of settings (TOML), of which Redis, ZooKeeper and accounts matter here.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    redis: Redis,
    #[command(flatten)]
    zookeeper: ZooKeeper,
    #[arg(help = help_of::<Accounts>("accounts-book"))]
    #[arg(long = "book", env = "ALLOT_ACCOUNTS_BOOK", hide_env_values = true, value_name = "KEY")]
    book: Option<String>,
    #[arg(help = help_of::<Accounts>("accounts-root"))]
    #[arg(long = "accounts-root", env = "ALLOT_ACCOUNTS_ROOT", hide_env_values = true, value_name = "PATH")]
    root: Option<String>,
}

impl BookSource {
    /// The resolved settings.
    pub fn config(&self) -> Result<Config> {
        let accounts = Accounts { book: self.book.clone(), root: self.root.clone(), ..Accounts::default() };
        let (redis, zookeeper) = (self.redis.clone(), self.zookeeper.clone());
        let given = Given { redis, zookeeper, accounts, ..Given::default() };
        load(given, self.config.as_deref())
    }
}

fn load(given: Given, file: Option<&Path>) -> Result<Config> {
    Config::resolve(&merge(given, file)?)
}

/// The given settings; an absent setting is taken from the file.
fn merge(given: Given, file: Option<&Path>) -> Result<Given> {
    let Some(path) = file else { return Ok(given) };
    let mut under = read(path)?;
    // A given way to the server replaces every way that the file has.
    if given.redis.names_a_server() || redis_address().is_some() {
        (under.redis.url, under.redis.sentinels, under.redis.cluster) = (None, None, None);
    }
    Ok(given.over(under))
}

/// Reads a file.
fn read(path: &Path) -> Result<Given> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    parse(&text).map_err(|error| anyhow!("{}: {}", path.display(), error.to_string().trim_end()))
}

#[cfg(any(test, feature = "simulation"))]
impl Config {
    /// The settings of a file with this text.
    pub fn of(text: &str) -> Result<Self> {
        Self::resolve(&parse(text)?)
    }
}

pub(super) fn parse(text: &str) -> Result<Given, toml::de::Error> {
    toml::from_str(text)
}
