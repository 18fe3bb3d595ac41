//! The settings of `allotd run`: a file, over it the environment, over that flags; and `allotd config check`.

mod check;
mod resolve;
mod sections;
mod span;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};

use crate::cli::{Global, Outcome};

pub(crate) use resolve::{AccountsConfig, CmuConfig, ConferenceConfig, Config};
pub(crate) use sections::{Accounts, Compaction, Conference, Given, Realm, Redis, Role, ZooKeeper};
pub(crate) use span::Span;

/// A file of settings, and settings that override it.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// File of settings (TOML); examples/allot.toml has all of them.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    given: Given,
}

impl Source {
    /// What holds.
    pub(crate) fn config(self, global: &Global) -> Result<Config> {
        let mut given = self.given;
        with_global(&mut given.redis, global);
        let config = load(given, self.config.as_deref())?;
        config.check_roles()?;
        Ok(config)
    }
}

/// Where a realm is: what commands that look at one, or change it, must know.
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
    /// What holds.
    pub(crate) fn config(&self, global: &Global) -> Result<Config> {
        self.config_over(global, Conference::default())
    }

    /// What holds where somebody changes an owner.
    pub(crate) fn config_with(&self, global: &Global, confirm: &Confirm) -> Result<Config> {
        let conference =
            Conference { wait_replicas: confirm.wait_replicas, wait: confirm.wait, ..Conference::default() };
        self.config_over(global, conference)
    }

    fn config_over(&self, global: &Global, conference: Conference) -> Result<Config> {
        let (redis, realm) = (self.redis.clone(), self.realm.clone());
        let mut given = Given { redis, realm, conference, ..Given::default() };
        with_global(&mut given.redis, global);
        load(given, self.config.as_deref())
    }
}

/// Who must confirm a change of owner: the scheduler's settings, for people who make one.
#[derive(Debug, Args)]
pub(crate) struct Confirm {
    /// Replicas that must confirm a change of owner; if fewer do, it is reported and the change stands. Without
    /// replicas nobody is asked [default: 1]
    #[arg(long = "conference-wait-replicas", env = "ALLOT_CONFERENCE_WAIT_REPLICAS", hide_env_values = true)]
    wait_replicas: Option<u32>,
    /// How long they are waited for [default: 100ms]
    #[arg(long = "conference-wait", env = "ALLOT_CONFERENCE_WAIT", hide_env_values = true)]
    wait: Option<Span>,
}

/// Where tasks of compaction are: what commands that look at them, or change them, must know.
#[derive(Debug, Args)]
pub(crate) struct TreeSource {
    /// File of settings (TOML), of which ZooKeeper and compaction matter here.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    zookeeper: ZooKeeper,
    /// Path of compaction's nodes in ZooKeeper [default: /cluster.compact/Compaction_v2]
    #[arg(long = "compaction-root", env = "ALLOT_COMPACTION_ROOT", hide_env_values = true)]
    root: Option<String>,
}

impl TreeSource {
    /// What holds.
    pub(crate) fn config(&self) -> Result<Config> {
        let compaction = Compaction { root: self.root.clone(), ..Compaction::default() };
        let given = Given { zookeeper: self.zookeeper.clone(), compaction, ..Given::default() };
        load(given, self.config.as_deref())
    }
}

/// Where a book of accounts is: what commands that look at one, or change it, must know.
#[derive(Debug, Args)]
pub(crate) struct BookSource {
    /// File of settings (TOML), of which Redis, ZooKeeper and accounts matter here.
    #[arg(long, env = "ALLOT_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    redis: Redis,
    #[command(flatten)]
    zookeeper: ZooKeeper,
    /// Key of the book [default: {acme}:accounts]
    #[arg(long = "book", env = "ALLOT_ACCOUNTS_BOOK", hide_env_values = true, value_name = "KEY")]
    book: Option<String>,
    /// Path in ZooKeeper where client systems come [default: /resource]
    #[arg(long = "accounts-root", env = "ALLOT_ACCOUNTS_ROOT", hide_env_values = true, value_name = "PATH")]
    root: Option<String>,
}

impl BookSource {
    /// What holds.
    pub(crate) fn config(&self, global: &Global) -> Result<Config> {
        let accounts = Accounts { book: self.book.clone(), root: self.root.clone(), ..Accounts::default() };
        let (redis, zookeeper) = (self.redis.clone(), self.zookeeper.clone());
        let mut given = Given { redis, zookeeper, accounts, ..Given::default() };
        with_global(&mut given.redis, global);
        load(given, self.config.as_deref())
    }
}

/// `--redis` is an address like `redis.url`, unless there is another way to the server.
fn with_global(redis: &mut Redis, global: &Global) {
    if redis.url.is_none() && redis.sentinels.is_none() && redis.cluster.is_none() {
        redis.url.clone_from(&global.redis);
    }
}

fn load(mut given: Given, file: Option<&Path>) -> Result<Config> {
    if let Some(path) = file {
        let mut under = read(path)?;
        // One way to the server takes the place of another, also where the file has a third.
        if given.redis.url.is_some() || given.redis.sentinels.is_some() || given.redis.cluster.is_some() {
            (under.redis.url, under.redis.sentinels, under.redis.cluster) = (None, None, None);
        }
        given = given.over(under);
    }
    Config::resolve(&given)
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Given> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    parse(&text).map_err(|error| anyhow!("{}: {}", path.display(), error.to_string().trim_end()))
}

#[cfg(test)]
impl Config {
    /// Of a file with this text.
    pub(crate) fn of(text: &str) -> Self {
        Self::resolve(&parse(text).unwrap()).unwrap()
    }
}

fn parse(text: &str) -> Result<Given, toml::de::Error> {
    toml::from_str(text)
}

/// What can be done with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a file of settings, with the environment and flags over it as in `run`, and say what they make of a
    /// process.
    Check {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        given: Box<Given>,
    },
}

/// Does it.
pub(crate) fn run(global: &Global, command: Command) -> Outcome {
    let Command::Check { file, given } = command;
    match (Source { config: Some(file), given: *given }).config(global) {
        Ok(config) => {
            print!("{}", describe(&config));
            Outcome::Done
        }
        Err(error) => {
            eprintln!("allotd: {error:#}");
            Outcome::InputRefused
        }
    }
}

/// What a process with these settings is.
pub(crate) fn describe(config: &Config) -> String {
    let mut text = String::new();
    let roles: Vec<&str> = config.roles.iter().map(|role| role.word()).collect();
    let roles =
        if roles.is_empty() { "none: name some in allotd.roles".to_owned() } else { roles.join(", ") };
    let _ = writeln!(text, "roles: {roles}");
    let _ = writeln!(text, "redis: {}", config.servers);
    let _ = writeln!(text, "realm: {}", config.realm);
    if config.roles.contains(&Role::Accounts) {
        let zone = config.accounts.zone.iana_name().unwrap_or("UTC");
        let _ = writeln!(text, "accounts: {} under {}, {zone}", config.accounts.book, config.accounts.root);
    }
    if config.roles.contains(&Role::Compaction) {
        let compaction = &config.compaction;
        let node = compaction.node.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "compaction: {node} of {} under {}, {} at once by {}",
            compaction.pc,
            compaction.root,
            compaction.slots,
            compaction.runner.join(" ")
        );
    }
    let _ = match &config.zookeeper {
        Some(zookeeper) => writeln!(
            text,
            "zookeeper: {} under {}, session {}{}",
            zookeeper.servers,
            config.root,
            span::Span(zookeeper.session),
            zookeeper.digest.as_ref().map_or(String::new(), |(user, _)| format!(", as {user}"))
        ),
        None => writeln!(text, "zookeeper: none, coordination is within the process"),
    };
    let _ = match config.http {
        Some(address) => writeln!(text, "http: {address}"),
        None => writeln!(text, "http: none, so no metrics and no probes"),
    };
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        given: Given,
    }

    fn flags(line: &str) -> Given {
        Cli::try_parse_from(line.split(' ')).unwrap().given
    }

    fn refused(text: &str) -> String {
        match parse(text) {
            Err(error) => error.to_string(),
            Ok(given) => format!("{:#}", Config::resolve(&given).unwrap_err()),
        }
    }

    #[test]
    fn a_flag_stands_over_the_file() {
        let file = parse("[cmu]\ncapacity = 5\nlease = \"8s\"\n[allotd]\nroles = [\"cmu\"]").unwrap();
        let given = flags("allotd --cmu-capacity 7 --roles conference,data-proxy").over(file);
        let config = Config::resolve(&given).unwrap();
        assert_eq!(config.cmu.capacity, 7);
        assert_eq!(config.cmu.lease.as_secs(), 8);
        assert_eq!(config.roles.into_iter().collect::<Vec<_>>(), [Role::Conference, Role::DataProxy]);
    }

    #[test]
    fn a_length_of_time_without_sense_is_refused_and_nothing_worse() {
        for setting in ["[cmu]\nbeat", "[cmu]\nlease", "[conference]\ntick", "[redis]\ntimeout"] {
            let why = refused(&format!("{setting} = \"500000000000years\""));
            assert!(why.contains("1000 years"), "{why}");
        }
    }

    #[test]
    fn the_example_names_every_setting_and_holds() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/allot.toml");
        let text = fs::read_to_string(&path).unwrap();
        Config::resolve(&parse(&text).unwrap()).unwrap();
        // Also what is commented out is spelt as it must be.
        let mut section = String::new();
        let mut all = Vec::new();
        for line in text.lines() {
            let line = line.trim_start_matches("#:").trim();
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                name.clone_into(&mut section);
            } else if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
                all.push(format!("{section}.{name}"));
            }
        }
        for (section, field, flag, variable) in Given::names() {
            let name = format!("{section}.{}", field.replace('_', "-"));
            assert!(all.contains(&name), "the example lacks {name}");
            assert!(variable.starts_with("ALLOT_"), "{flag}");
        }
        let everything: Vec<&str> =
            text.lines().map(|line| line.strip_prefix("#:").unwrap_or(line)).collect();
        parse(&everything.join("\n")).unwrap();
    }

    /// What docs/allotd.md and the figures there go by; and the example shows what an empty file is.
    #[test]
    fn defaults_are_as_documented() {
        let config = Config::of("");
        let (conference, cmu) = (&config.conference, &config.cmu);
        let times = [cmu.beat, cmu.lease, conference.grace, conference.brake_lift, config.session()];
        assert_eq!(times.map(|time| time.as_secs()), [1, 5, 10, 60, 4]);
        assert_eq!((conference.pace, conference.burst), (50, 10));
        assert_eq!((conference.brake_percent, conference.brake_least, conference.wait_replicas), (30, 2, 1));
        assert_eq!((conference.tick.as_millis(), conference.wait.as_millis()), (250, 100));
        // Lines of these two sections are defaults, but for those of settings that have none.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/allot.toml");
        let (text, mut shown, mut is_meant) = (fs::read_to_string(&path).unwrap(), String::new(), false);
        for line in text.lines() {
            if line.starts_with('[') {
                is_meant = matches!(line, "[conference]" | "[cmu]");
            }
            let line = line.strip_prefix("#:").unwrap_or(line);
            let has_none = ["host", "zone", "self-stop", "program", "chatter"];
            if is_meant && !has_none.iter().any(|name| line.starts_with(&format!("{name} ="))) {
                let _ = writeln!(shown, "{line}");
            }
        }
        let shown = Config::of(&shown);
        assert_eq!(format!("{:?}", shown.conference), format!("{conference:?}"));
        assert_eq!(format!("{:?}", shown.cmu), format!("{cmu:?}"));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place_and_a_way_out() {
        let cases = [
            ("[cmu]\ncapcity = 5", "line 2"),
            ("[cmu]\nlease = 5", "string"),
            ("[cmu]\nlease = \"5\"", "e.g. 500ms"),
            ("[allotd]\nroles = [\"king\"]", "data-proxy"),
            ("[redis]\nurl = \"redis://a\"\ncluster = [\"a:1\"]", "give one of them"),
            ("[redis]\nsentinels = [\"a:1\"]", "redis.master"),
            ("[redis]\nurl = \"http://a\"", "redis.url"),
            ("[redis]\nurl = \"redis://u:secret@a\"", "password"),
            ("[redis]\ncluster = [\"u:secret@a:1\"]", "redis.password-file"),
            ("[redis]\ntimeout = \"4s\"", "2s at most"),
            ("[cmu]\nbeat = \"4s\"", "half of the lease"),
            ("[cmu]\nself-stop = \"1s\"", "two beats"),
            ("[cmu]\nhost = \"a b\"", "without spaces"),
            ("[cmu]\ncapacity = 1000000001", "1000000000"),
            ("[cmu]\nlease = \"11years\"", "10years"),
            ("[cmu]\nlease = \"999us\"\nbeat = \"1us\"\n[redis]\ntimeout = \"1us\"", "1ms"),
            ("[cmu]\nzone = \"\"", "256 bytes"),
            ("[zookeeper]\nservers = \"a:1\"\nuser = \"u\"", "ALLOT_ZOOKEEPER_PASSWORD"),
            ("[zookeeper]\nroot = \"allot\"", "/allot"),
            ("[redis]\npassword-file = \"/nowhere/at/all\"", "/nowhere/at/all"),
            ("[data-proxy]\nbatch = 0", "1 to 10000"),
            ("[compaction]\nlimit = 4000000000", "1000000 at most"),
            ("[accounts]\ntime-zone = \"Berlin\"", "Europe/Berlin"),
            ("[accounts]\nroot = \"resource\"", "/resource"),
            ("[accounts]\nwait = \"2s\"", "redis.timeout"),
        ];
        for (text, part) in cases {
            let refused = refused(text);
            assert!(refused.contains(part), "{text}\n{refused}");
            assert!(!refused.contains("secret@"), "{refused}");
        }
    }

    #[test]
    fn a_scheduler_that_seems_to_sleep_is_refused_with_a_zookeeper_and_without() {
        let check = |text: &str| Config::of(text).check_roles().map_err(|error| error.to_string());
        let scheduler = "[allotd]\nroles = [\"conference\"]\n[conference]\ntick =";
        assert!(check(&format!("{scheduler} \"5s\"")).unwrap_err().contains("2s at most"));
        assert_eq!(check(&format!("{scheduler} \"2s\"")), Ok(()));
        // Who plays another role may read the same file, and ask somebody else for the ZooKeeper.
        assert_eq!(check("[allotd]\nroles = [\"cmu\"]\n[conference]\ntick = \"5s\""), Ok(()));
        let slow = "[zookeeper]\nservers = \"a:1\"\nsession = \"10s\"\n";
        assert_eq!(check(&format!("{slow}{scheduler} \"5s\"")), Ok(()));
        assert!(refused(&format!("{slow}{scheduler} \"6s\"")).contains("5s at most"));
    }

    #[test]
    fn a_secret_is_never_shown() {
        let dir = std::env::temp_dir().join(format!("allot-secret-{}", std::process::id()));
        fs::write(&dir, "wonder\n").unwrap();
        let text = format!("[redis]\nuser = \"u\"\npassword-file = \"{}\"", dir.display());
        let config = Config::resolve(&parse(&text).unwrap()).unwrap();
        fs::remove_file(dir).unwrap();
        assert!(!format!("{config:?}{}", describe(&config)).contains("wonder"));
        assert!(describe(&config).contains("as u"));
    }
}
