//! The settings of commands: of the file of the daemon, each command reads what it needs. Flags override the environment,
//! and the environment overrides a file.

use std::path::PathBuf;
use std::time::Duration;

use allot_client::Connection;
use allot_compaction::Section as Compaction;
use allot_runtime::settings::Span;
use allotd::config::sections::{Accounts, Given, Realm, Redis, Scheduler, ZooKeeper};
use allotd::config::{Config, load, load_servers};
use anyhow::Result;
use clap::builder::StyledStr;
use clap::{Args, Command};

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
pub(crate) struct RedisSource {
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
    pub(crate) async fn connect(&self, key: &str) -> Result<Connection> {
        let given = Given { redis: self.redis.clone(), ..Given::default() };
        let mut servers = load_servers(given, self.config.as_deref())?;
        key.clone_into(&mut servers.key);
        servers.timeout = servers.timeout.max(PATIENCE);
        Ok(servers.connection(LARGE_REQUEST).await?)
    }
}

/// The settings of a command on a realm: the way to Redis, and the realm's key.
#[derive(Debug, Args)]
pub(crate) struct RealmSource {
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
    pub(crate) fn config(&self) -> Result<Config> {
        self.config_over(Scheduler::default())
    }

    /// The settings for a command that changes the owner of a conference.
    pub(crate) fn config_with(&self, confirm: &Confirm) -> Result<Config> {
        let scheduler =
            Scheduler { wait_replicas: confirm.wait_replicas, wait: confirm.wait, ..Scheduler::default() };
        let config = self.config_over(scheduler)?;
        config.check_confirmation()?;
        Ok(config)
    }

    fn config_over(&self, scheduler: Scheduler) -> Result<Config> {
        let (redis, realm) = (self.redis.clone(), self.realm.clone());
        let given = Given { redis, realm, scheduler, ..Given::default() };
        load(given, self.config.as_deref())
    }
}

/// The scheduler's settings for the confirmation of a change of owner, for commands that make such a change.
#[derive(Debug, Args)]
pub(crate) struct Confirm {
    #[arg(long = "scheduler-wait-replicas", env = "ALLOT_SCHEDULER_WAIT_REPLICAS", hide_env_values = true)]
    #[arg(help = help_of::<Scheduler>("scheduler-wait-replicas"))]
    wait_replicas: Option<u32>,
    #[arg(long = "scheduler-wait", env = "ALLOT_SCHEDULER_WAIT", hide_env_values = true)]
    #[arg(help = help_of::<Scheduler>("scheduler-wait"))]
    wait: Option<Span>,
}

/// The settings of a command on compaction tasks: the way to ZooKeeper, and the root of the tasks.
#[derive(Debug, Args)]
pub(crate) struct TreeSource {
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
    pub(crate) fn config(&self) -> Result<Config> {
        let compaction = Compaction { root: self.root.clone(), ..Compaction::default() };
        let given = Given { zookeeper: self.zookeeper.clone(), compaction, ..Given::default() };
        load(given, self.config.as_deref())
    }
}

/// The settings of a command on a book of accounts: the way to Redis and ZooKeeper, the book's key, and its root.
#[derive(Debug, Args)]
pub(crate) struct BookSource {
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
    pub(crate) fn config(&self) -> Result<Config> {
        let accounts = Accounts { book: self.book.clone(), root: self.root.clone(), ..Accounts::default() };
        let (redis, zookeeper) = (self.redis.clone(), self.zookeeper.clone());
        let given = Given { redis, zookeeper, accounts, ..Given::default() };
        load(given, self.config.as_deref())
    }
}
