//! The definition of every setting of the daemon. `section!` derives flags, variables, defaults, help and
//! the example file from it.

use std::net::SocketAddr;
use std::path::PathBuf;

use allot_compaction::Section as Compaction;
use allot_runtime::section;
use allot_runtime::settings::{Span, Words, Zone};
use allot_runtime::telemetry::LogFormat;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ready::Ready;

/// A role that a process can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Places and recovers conferences; one scheduler leads.
    Scheduler,
    /// Writes the details that units send of their conferences.
    DataProxy,
    /// Runs conferences.
    MediaUnit,
    /// A compaction node.
    Compaction,
    /// Assigns accounts to client systems; one process with this role leads.
    Accounts,
}

impl Role {
    /// The role's name in flags, in the file, in logs and in probes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::DataProxy => "data-proxy",
            Self::MediaUnit => "media-unit",
            Self::Compaction => "compaction",
            Self::Accounts => "accounts",
        }
    }
}

section! {
    /// The process.
    Process "allotd" => ProcessConfig {
        /// Name of this process in logs and elections; unique. Without it, HOST:PID:START
        name: String = "name", "ALLOT_NAME", example r#""scheduler-1""#;
        /// Roles of this process: scheduler, data-proxy, media-unit, compaction, accounts
        #[arg(value_delimiter = ',')]
        roles: Vec<Role> = "roles", "ALLOT_ROLES", given r#"["scheduler", "data-proxy", "media-unit"]"#;
    }
}

section! {
    /// The Redis server, and allotd's user on it.
    Redis "redis" => RedisConfig {
        /// Address of the master: redis://HOST:PORT; by Sentinels redis+sentinel://HOST:PORT,HOST:PORT/MASTER, where
        /// MASTER is their name for it; or some nodes of a cluster, redis+cluster://HOST:PORT,HOST:PORT. TLS with rediss
        /// for redis. Only an address in the variable ALLOT_REDIS, a short name of ALLOT_REDIS_URL, may have a password
        #[arg(visible_alias = "redis", value_name = "URL")]
        url: String = "redis-url", "ALLOT_REDIS_URL", shown "redis://127.0.0.1:6379";
        /// File with the certificates (PEM) that must have signed the server's certificate. Without it, the system's
        ca_file: PathBuf = "redis-ca-file", "ALLOT_REDIS_CA_FILE", example r#""/etc/allot/ca.pem""#;
        /// ACL user
        user: String = "redis-user", "ALLOT_REDIS_USER", example r#""scheduler""#;
        /// File with the user's password in its first line. The password itself can also be in the variable
        /// ALLOT_REDIS_PASSWORD, but not in this file, in an address or on a command line
        password_file: PathBuf = "redis-password-file", "ALLOT_REDIS_PASSWORD_FILE", example r#""/etc/allot/redis-password""#;
        /// File with the password of the Sentinels in its first line; or ALLOT_SENTINEL_PASSWORD
        sentinel_password_file: PathBuf = "redis-sentinel-password-file", "ALLOT_SENTINEL_PASSWORD_FILE", example r#""/etc/allot/sentinel-password""#;
        /// Time limit for an answer. For media units and schedulers, at most half of the time that the lease leaves
        /// after a heartbeat
        timeout: Span = "redis-timeout", "ALLOT_REDIS_TIMEOUT", default "1500ms", in "1ns"..="1000years";
    }
}

/// An address in the environment. It may have a password, since other users cannot read the environment.
pub(super) fn redis_address() -> Option<String> {
    std::env::var("ALLOT_REDIS").ok().filter(|url| !url.is_empty())
}

section! {
    /// ZooKeeper, and allotd's user on it.
    ZooKeeper "zookeeper" => ZooKeeperSettings {
        /// Servers, HOST:PORT with commas between; a directory after the last one, as in host:2181/customer, has all
        /// nodes below it. Without any, coordination stays within this process: for one machine and for development
        servers: String = "zookeeper-servers", "ALLOT_ZOOKEEPER", example r#""10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181""#;
        /// Session timeout; at least twice the servers' tickTime, and four times as long as ZooKeeper takes to answer
        session: Span = "zookeeper-session", "ALLOT_ZOOKEEPER_SESSION", default "4s", in "1ns"..="1000years";
        /// Path of allotd's nodes
        root: String = "zookeeper-root", "ALLOT_ZOOKEEPER_ROOT", default "/allot";
        /// User. The nodes can then be read and written by this user alone
        user: String = "zookeeper-user", "ALLOT_ZOOKEEPER_USER", example r#""allot""#;
        /// Whether the user authenticates by SASL (DIGEST-MD5), where the servers check the password. Otherwise by the
        /// scheme `digest`
        sasl: bool = "zookeeper-sasl", "ALLOT_ZOOKEEPER_SASL", default false;
        /// File with the user's password in its first line; or ALLOT_ZOOKEEPER_PASSWORD
        password_file: PathBuf = "zookeeper-password-file", "ALLOT_ZOOKEEPER_PASSWORD_FILE", example r#""/etc/allot/zookeeper-password""#;
        /// File with the certificates (PEM) that must have signed the certificates of the servers. With it, all
        /// connections use TLS
        ca_file: PathBuf = "zookeeper-ca-file", "ALLOT_ZOOKEEPER_CA_FILE", example r#""/etc/allot/zookeeper-ca.pem""#;
        /// File with the client's own certificate (PEM), if the servers ask for one
        cert_file: PathBuf = "zookeeper-cert-file", "ALLOT_ZOOKEEPER_CERT_FILE", example r#""/etc/allot/zookeeper-cert.pem""#;
        /// File with the key (PEM) of that certificate
        key_file: PathBuf = "zookeeper-key-file", "ALLOT_ZOOKEEPER_KEY_FILE", example r#""/etc/allot/zookeeper-key.pem""#;
    }
}

section! {
    /// The realm of conferences.
    Realm "realm" => RealmConfig {
        /// Key of the realm. In a cluster it needs a hash tag, so that its streams lie beside it
        key: String = "realm", "ALLOT_REALM", shown "{allot}:conf";
    }
}

section! {
    /// The scheduler.
    Scheduler "scheduler" => SchedulerConfig {
        /// Interval at which units and the recovery queue are examined
        tick: Span = "scheduler-tick", "ALLOT_SCHEDULER_TICK", default "250ms", in "1ns"..="1000years";
        /// Time that the scheduler waits for a unit whose lease has expired while its ZooKeeper node exists
        grace: Span = "scheduler-grace", "ALLOT_SCHEDULER_GRACE", default "10s", in "1ns"..="1000years";
        /// Conferences that one unit is assigned per second during recovery, at most
        pace: u32 = "scheduler-pace", "ALLOT_SCHEDULER_PACE", default 50, in "1"..="4294967295";
        /// Conferences that one unit is assigned at once during recovery, at most
        burst: u32 = "scheduler-burst", "ALLOT_SCHEDULER_BURST", default 10, in "1"..="4294967295";
        /// Mass-failure guard: if more than this percentage of the units, and at least guard-units units, would
        /// be declared down within guard-window, no unit is declared down
        guard_percent: u32 = "scheduler-guard-percent", "ALLOT_SCHEDULER_GUARD_PERCENT", default 30;
        /// Units that must be silent, at least, before the guard holds. Fewer units, as of one rack of a small site, are
        /// recovered at once
        guard_units: u32 = "scheduler-guard-units", "ALLOT_SCHEDULER_GUARD_UNITS", default 4;
        /// The window in which failures count together for the guard
        guard_window: Span = "scheduler-guard-window", "ALLOT_SCHEDULER_GUARD_WINDOW", default "10s", in "1ns"..="1000years";
        /// The guard is lifted after Redis and ZooKeeper answered without a fault for this time, or by an operator
        guard_lift: Span = "scheduler-guard-lift", "ALLOT_SCHEDULER_GUARD_LIFT", default "60s", in "1ns"..="1000years";
        /// Replicas that must confirm a change of owner. If fewer confirm it, the log reports that and the change
        /// stays. A master without replicas needs no confirmation
        wait_replicas: u32 = "scheduler-wait-replicas", "ALLOT_SCHEDULER_WAIT_REPLICAS", default 1;
        /// Time limit of the wait for replicas
        wait: Span = "scheduler-wait", "ALLOT_SCHEDULER_WAIT", default "100ms", in "1ns"..="1000years";
    }
}

section! {
    /// The data proxy.
    DataProxy "data-proxy" => DataProxyConfig {
        /// Name of the consumer group. The proxies of one group share the work
        group: String = "data-proxy-group", "ALLOT_DATA_PROXY_GROUP", default "proxies";
        /// Messages taken at once
        batch: u32 = "data-proxy-batch", "ALLOT_DATA_PROXY_BATCH", default 512, in "1"..="10000";
        /// Messages that another consumer took and did not acknowledge are taken over after this time
        claim_after: Span = "data-proxy-claim-after", "ALLOT_DATA_PROXY_CLAIM_AFTER", default "30s", in "1ns"..="1000years";
    }
}

section! {
    /// The media unit.
    MediaUnit "media-unit" => MediaUnitConfig {
        /// The unit's host, the first part of its identity HOST:PID:START. A unit that joins replaces any other of its
        /// host. If several units share an address, a name follows it: 10.0.0.1/b. Without it, the address of this
        /// machine towards Redis
        host: String = "media-unit-host", "ALLOT_MEDIA_UNIT_HOST", example r#""10.0.0.1/b""#;
        /// What tells the unit's machine from others. A unit whose host another machine has is refused. Without it, the
        /// host name and the beginning of /etc/machine-id. If a container gets another host name at each start, a fixed
        /// name lets the next one take over at once
        machine: String = "media-unit-machine", "ALLOT_MEDIA_UNIT_MACHINE", example r#""rack-3/m7""#;
        /// Room for conferences
        capacity: u32 = "media-unit-capacity", "ALLOT_MEDIA_UNIT_CAPACITY", shown 100, in "1"..="1000000000";
        /// The unit's zone; conferences can require one
        zone: String = "media-unit-zone", "ALLOT_MEDIA_UNIT_ZONE", example r#""berlin""#;
        /// Tags of the unit, which conferences may require or prefer
        #[arg(value_delimiter = ',')]
        tags: Vec<String> = "media-unit-tags", "ALLOT_MEDIA_UNIT_TAGS", list r#"["hd", "dial-in"]"#;
        /// Time for which the unit counts as alive after a heartbeat
        lease: Span = "media-unit-lease", "ALLOT_MEDIA_UNIT_LEASE", default "5s", in "1ms"..="10years";
        /// Interval at which the unit sends heartbeats; at most half of the lease
        beat: Span = "media-unit-beat", "ALLOT_MEDIA_UNIT_BEAT", default "1s", in "1ns"..="1000years";
        /// Whether the unit ends its media before the scheduler can have the conferences opened elsewhere: when Redis
        /// has not answered for the lease and the grace period, or for the lease and ZooKeeper does not answer either.
        /// The unit then joins again as a new one. Its scheduler.grace must not be longer than that of the schedulers
        self_stop: bool = "media-unit-self-stop", "ALLOT_MEDIA_UNIT_SELF_STOP", default true;
        /// Program, and its arguments, that is started for each conference and stopped with it. Without one, a
        /// conference has no program
        program: Words = "media-unit-program", "ALLOT_MEDIA_UNIT_PROGRAM", list r#"["/usr/local/bin/media", "--quiet"]"#;
        /// How the program says that people can join: `line`, by a line READY on its standard output; `spawn`, not at all;
        /// `exec:COMMAND`, a shell command that exits with code 0 then. The conference counts as open from then on
        ready: Ready = "media-unit-ready", "ALLOT_MEDIA_UNIT_READY", default "line";
        /// Times that a program which fails is restarted, each time after a longer pause. After that the unit gives the
        /// conference back, and another unit opens it
        restarts: u32 = "media-unit-restarts", "ALLOT_MEDIA_UNIT_RESTARTS", default 3, in "0"..="1000";
        /// Time that a program has to end after SIGTERM, before SIGKILL
        stop_limit: Span = "media-unit-stop-limit", "ALLOT_MEDIA_UNIT_STOP_LIMIT", default "4s", in "1ns"..="1000years";
        /// Whether the unit's conferences are moved away before it ends at SIGTERM
        drain: bool = "media-unit-drain", "ALLOT_MEDIA_UNIT_DRAIN", default false;
        /// Time limit for moving the conferences away
        drain_limit: Span = "media-unit-drain-limit", "ALLOT_MEDIA_UNIT_DRAIN_LIMIT", default "60s", in "1ns"..="1000years";
        /// Program, and its arguments, that prints the unit's load in percent (0 to 100). It is started at heartbeats and
        /// must end within the lease. Without one, the unit reports the CPU load of its host. The load counts where
        /// the realm places conferences by load (`CONF.REALM PLACE LOAD`)
        load_program: Words = "media-unit-load-program", "ALLOT_MEDIA_UNIT_LOAD_PROGRAM", list r#"["/usr/local/bin/media-load"]"#;
        /// For demonstrations: each conference sends a new detail at this interval. Without it, never
        chatter: Span = "media-unit-chatter", "ALLOT_MEDIA_UNIT_CHATTER", example r#""1s""#;
    }
}

section! {
    /// The assignment of accounts.
    Accounts "accounts" => AccountsConfig {
        /// Key of the book of accounts
        book: String = "accounts-book", "ALLOT_ACCOUNTS_BOOK", default "{allot}:accounts";
        /// Path in ZooKeeper where client systems register
        root: String = "accounts-root", "ALLOT_ACCOUNTS_ROOT", default "/resource";
        /// Time for which the accounts of an instance that has gone are kept for it
        grace: Span = "accounts-grace", "ALLOT_ACCOUNTS_GRACE", default "30s";
        /// Time that a new leader waits for instances to return revoked accounts before it assigns any
        barrier: Span = "accounts-barrier", "ALLOT_ACCOUNTS_BARRIER", default "10s";
        /// Interval at which the book is examined
        tick: Span = "accounts-tick", "ALLOT_ACCOUNTS_TICK", default "250ms", in "1ns"..="1000years";
        /// The longest login that client systems ask for; the server's allot.account-max-ttl bounds it, too
        max_ttl: Span = "accounts-max-ttl", "ALLOT_ACCOUNTS_MAX_TTL", default "1h", in "1ns"..="1000years";
        /// Time zone whose months count, by its name in the IANA database
        time_zone: Zone = "accounts-time-zone", "ALLOT_ACCOUNTS_TIME_ZONE", default "UTC";
        /// Interval at which projected use is rebalanced
        rebalance: Span = "accounts-rebalance", "ALLOT_ACCOUNTS_REBALANCE", default "1h", in "1ns"..="1000years";
        /// Replicas that must confirm an assignment before it is published. A master without replicas needs no
        /// confirmation
        wait_replicas: u32 = "accounts-wait-replicas", "ALLOT_ACCOUNTS_WAIT_REPLICAS", default 1;
        /// Time limit of one wait for replicas
        wait: Span = "accounts-wait", "ALLOT_ACCOUNTS_WAIT", default "500ms", in "1ns"..="1000years";
        /// Whether the HTTP port answers reads of the book and of the tree, also without the lead. Then everybody who
        /// reaches the port can read the names and the use of all accounts
        reads: bool = "accounts-reads", "ALLOT_ACCOUNTS_READS", default false;
    }
}

section! {
    /// Metrics and probes.
    Http "http" => HttpConfig {
        /// Address and port of the HTTP server: /metrics for Prometheus, /healthz and /readyz for a supervisor. Without
        /// it, no port
        listen: SocketAddr = "http-listen", "ALLOT_HTTP_LISTEN", example r#""127.0.0.1:9464""#;
    }
}

section! {
    /// The log.
    Log "log" => LogConfig {
        /// Log lines for people (text) or for machines (json), on standard error. ALLOT_LOG=debug prints more
        #[arg(value_enum)]
        format: LogFormat = "log-format", "ALLOT_LOG_FORMAT", default "text";
    }
}

/// Defines all settings as given: of each section its field, its name in the file, and the heading of its flags.
macro_rules! sections {
    ($($field:ident: $section:ident, $name:literal, $heading:literal;)*) => {
        /// All settings as given.
        #[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Given {
            $(
                #[doc = $heading]
                #[command(flatten, next_help_heading = $heading)]
                #[serde(rename = $name)]
                pub $field: $section,
            )*
            /// `allot console` reads this section of the file.
            #[arg(skip)]
            pub console: IgnoredAny,
        }

        impl Given {
            /// These settings; an absent setting is taken from `under`.
            #[must_use]
            pub fn over(self, under: Self) -> Self {
                Self { $($field: self.$field.over(under.$field),)* console: IgnoredAny }
            }

            /// The example file: every setting, with its default or an example.
            pub fn example() -> String {
                let sections = [$($section::example()),*];
                format!("{EXAMPLE}\n{}", sections.join("\n"))
            }
        }
    };
}

sections! {
    process: Process, "allotd", "Process";
    redis: Redis, "redis", "Redis";
    zookeeper: ZooKeeper, "zookeeper", "ZooKeeper";
    realm: Realm, "realm", "Realm";
    scheduler: Scheduler, "scheduler", "Scheduler";
    data_proxy: DataProxy, "data-proxy", "Data proxy";
    media_unit: MediaUnit, "media-unit", "Media unit";
    compaction: Compaction, "compaction", "Compaction";
    accounts: Accounts, "accounts", "Accounts";
    http: Http, "http", "Metrics and probes";
    log: Log, "log", "Log";
}

/// The head of the example file.
const EXAMPLE: &str = "\
# Settings of `allotd run --config allot.toml`: the output of `allot config example allotd`. All settings are here; those
# behind `#:` show their default, or an example if there is none. Each can also be given as a flag or in the environment:
# `[media-unit] capacity` is --media-unit-capacity and ALLOT_MEDIA_UNIT_CAPACITY. Shorter are ALLOT_ZOOKEEPER
# (`[zookeeper] servers`), --realm and ALLOT_REALM (`[realm] key`), --name and --roles (`[allotd]`; ALLOT_NAME and
# ALLOT_ROLES), and ALLOT_SENTINEL_PASSWORD_FILE (`[redis] sentinel-password-file`). A flag overrides the environment, and
# the environment overrides this file. `[console]` is for `allot console`.
#
# `allotd check-config allot.toml` prints what the file makes of a process.
";
