//! Every setting, once: its name in the file, its flag, its variable, and what it is for. What none of the three
//! gives is `None` here; `resolve` knows the defaults.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::span::Span;
use allot_runtime::telemetry::LogFormat;

/// A part that a process can play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// The scheduler of conferences: one of them leads.
    Conference,
    /// Writes what units tell of their conferences.
    DataProxy,
    /// A media unit.
    Cmu,
    /// A unit of compaction.
    Compaction,
    /// Deals accounts to client systems: one of them leads.
    Accounts,
}

impl Role {
    /// Its name in the file.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Conference => "conference",
            Self::DataProxy => "data-proxy",
            Self::Cmu => "cmu",
            Self::Compaction => "compaction",
            Self::Accounts => "accounts",
        }
    }
}

/// Makes a section: a field that may be absent for each setting, with its flag and its variable.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident {
        $( $(#[$field_meta:meta])* $field:ident: $type:ty = $flag:literal, $env:literal; )*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub(crate) struct $name {
            $( $(#[$field_meta])*
            #[arg(id = $flag, long = $flag, env = $env, hide_env_values = true)]
            pub(crate) $field: Option<$type>, )*
        }

        impl $name {
            /// These settings, and where one is absent that of `under`.
            pub(crate) fn over(self, under: Self) -> Self {
                Self { $( $field: self.$field.or(under.$field), )* }
            }

            /// Flag and variable of every setting, and its name in the file.
            #[cfg(test)]
            pub(crate) const NAMES: &[(&str, &str, &str)] = &[$( (stringify!($field), $flag, $env), )*];
        }
    };
}

section! {
    /// What concerns the process.
    Process {
        /// Name of this process among its like, for people; unique [default: HOST:PID:START]
        name: String = "name", "ALLOT_NAME";
        /// Roles that it plays
        #[arg(value_delimiter = ',')]
        roles: Vec<Role> = "roles", "ALLOT_ROLES";
    }
}

section! {
    /// Where Redis is, and who we are there.
    Redis {
        /// Address of a Redis server: redis://HOST:PORT, or rediss://HOST:PORT for TLS [default:
        /// redis://127.0.0.1:6379]
        #[arg(visible_alias = "redis", value_name = "URL")]
        url: String = "redis-url", "ALLOT_REDIS_URL";
        /// Addresses (HOST:PORT) of Sentinels to ask for the master
        #[arg(value_delimiter = ',')]
        sentinels: Vec<String> = "redis-sentinels", "ALLOT_REDIS_SENTINELS";
        /// The master's name there
        master: String = "redis-master", "ALLOT_REDIS_MASTER";
        /// Addresses (HOST:PORT) of some nodes of a Redis Cluster
        #[arg(value_delimiter = ',')]
        cluster: Vec<String> = "redis-cluster", "ALLOT_REDIS_CLUSTER";
        /// Whether Sentinels and nodes of a cluster speak TLS
        tls: bool = "redis-tls", "ALLOT_REDIS_TLS";
        /// File with the certificates (PEM) that a server's must be signed by [default: the system's]
        ca_file: PathBuf = "redis-ca-file", "ALLOT_REDIS_CA_FILE";
        /// ACL user
        user: String = "redis-user", "ALLOT_REDIS_USER";
        /// File with the password in its first line; or the password itself in ALLOT_REDIS_PASSWORD
        password_file: PathBuf = "redis-password-file", "ALLOT_REDIS_PASSWORD_FILE";
        /// File with the password of the Sentinels; or ALLOT_SENTINEL_PASSWORD
        sentinel_password_file: PathBuf = "redis-sentinel-password-file", "ALLOT_SENTINEL_PASSWORD_FILE";
        /// How long an answer may take; at most half of what the lease leaves after a beat [default: 1500ms]
        timeout: Span = "redis-timeout", "ALLOT_REDIS_TIMEOUT";
    }
}

/// An address in the environment: a shorter name of `ALLOT_REDIS_URL`.
pub(super) fn redis_address() -> Option<String> {
    std::env::var("ALLOT_REDIS").ok().filter(|url| !url.is_empty())
}

impl Redis {
    /// Whether one of the three ways to the server is given.
    pub(super) fn names_a_server(&self) -> bool {
        self.url.is_some() || self.sentinels.is_some() || self.cluster.is_some()
    }
}

section! {
    /// Where ZooKeeper is, and who we are there.
    ZooKeeper {
        /// Servers, HOST:PORT with commas between. Without any, coordination is within this process only
        servers: String = "zookeeper-servers", "ALLOT_ZOOKEEPER";
        /// How long a session outlives its last sign of life [default: 4s]
        session: Span = "zookeeper-session", "ALLOT_ZOOKEEPER_SESSION";
        /// Path of all our nodes [default: /allot]
        root: String = "zookeeper-root", "ALLOT_ZOOKEEPER_ROOT";
        /// User of digest authentication; our nodes are then his alone
        user: String = "zookeeper-user", "ALLOT_ZOOKEEPER_USER";
        /// File with his password; or ALLOT_ZOOKEEPER_PASSWORD
        password_file: PathBuf = "zookeeper-password-file", "ALLOT_ZOOKEEPER_PASSWORD_FILE";
    }
}

section! {
    /// Which realm.
    Realm {
        /// Key of the realm [default: {allot}:conf]
        key: String = "realm", "ALLOT_REALM";
    }
}

section! {
    /// The scheduler.
    Conference {
        /// How often units and the queue of recovery are looked at [default: 250ms]
        tick: Span = "conference-tick", "ALLOT_CONFERENCE_TICK";
        /// How long a unit whose lease is over, but whose ZooKeeper node is there, is given [default: 10s]
        grace: Span = "conference-grace", "ALLOT_CONFERENCE_GRACE";
        /// Conferences given to one unit a second, at most, while they are recovered [default: 50]
        pace: u32 = "conference-pace", "ALLOT_CONFERENCE_PACE";
        /// Conferences given to one unit at once [default: 10]
        burst: u32 = "conference-burst", "ALLOT_CONFERENCE_BURST";
        /// The brake holds where more than this percentage of the units would go down at once [default: 30]
        brake_percent: u32 = "conference-brake-percent", "ALLOT_CONFERENCE_BRAKE_PERCENT";
        /// Units that must fall silent, at least, for the brake to hold [default: 2]
        brake_least: u32 = "conference-brake-least", "ALLOT_CONFERENCE_BRAKE_LEAST";
        /// What counts as at once [default: 10s]
        brake_window: Span = "conference-brake-window", "ALLOT_CONFERENCE_BRAKE_WINDOW";
        /// The brake is lifted after both stores were well for so long [default: 60s]
        brake_lift: Span = "conference-brake-lift", "ALLOT_CONFERENCE_BRAKE_LIFT";
        /// Replicas that must confirm a change of owner; if fewer do, it is reported and the change stands. Without
        /// replicas nobody is asked [default: 1]
        wait_replicas: u32 = "conference-wait-replicas", "ALLOT_CONFERENCE_WAIT_REPLICAS";
        /// How long they are waited for [default: 100ms]
        wait: Span = "conference-wait", "ALLOT_CONFERENCE_WAIT";
    }
}

section! {
    /// The data proxy.
    DataProxy {
        /// Name of the group of consumers [default: proxies]
        group: String = "data-proxy-group", "ALLOT_DATA_PROXY_GROUP";
        /// Messages taken at once [default: 512]
        batch: u32 = "data-proxy-batch", "ALLOT_DATA_PROXY_BATCH";
        /// What another consumer took and did not acknowledge for so long is taken over [default: 30s]
        claim_after: Span = "data-proxy-claim-after", "ALLOT_DATA_PROXY_CLAIM_AFTER";
    }
}

section! {
    /// The unit.
    Cmu {
        /// Its host, in its identity HOST:PID:START; another unit on that host replaces it. A name may follow an
        /// address: 10.0.0.1/b [default: our address towards Redis]
        host: String = "cmu-host", "ALLOT_CMU_HOST";
        /// Room for conferences [default: 100]
        capacity: u32 = "cmu-capacity", "ALLOT_CMU_CAPACITY";
        /// Its zone; conferences can require one
        zone: String = "cmu-zone", "ALLOT_CMU_ZONE";
        /// How long it counts as alive after a beat [default: 5s]
        lease: Span = "cmu-lease", "ALLOT_CMU_LEASE";
        /// How often it beats [default: 1s]
        beat: Span = "cmu-beat", "ALLOT_CMU_BEAT";
        /// Ends its media when Redis was not heard for so long, and comes back as a new unit [default: never]
        self_stop: Span = "cmu-self-stop", "ALLOT_CMU_SELF_STOP";
        /// Program, and its arguments, that is started for each conference and stopped with it [default: none]
        #[arg(value_delimiter = ' ')]
        program: Vec<String> = "cmu-program", "ALLOT_CMU_PROGRAM";
        /// How long a program may take to end after SIGTERM, before SIGKILL [default: 4s]
        stop_limit: Span = "cmu-stop-limit", "ALLOT_CMU_STOP_LIMIT";
        /// Whether its conferences are moved away when it is told to end [default: false]
        drain: bool = "cmu-drain", "ALLOT_CMU_DRAIN";
        /// How long that may take [default: 60s]
        drain_limit: Span = "cmu-drain-limit", "ALLOT_CMU_DRAIN_LIMIT";
        /// For demonstrations: each conference tells something new so often [default: never]
        chatter: Span = "cmu-chatter", "ALLOT_CMU_CHATTER";
    }
}

section! {
    /// The unit of compaction.
    Compaction {
        /// Its name, HOST_PORT; each unit needs its own
        node: String = "compaction-node", "ALLOT_COMPACTION_NODE";
        /// Its processing cluster; tasks stay within theirs [default: default]
        pc: String = "compaction-pc", "ALLOT_COMPACTION_PC";
        /// Subtasks that it runs at once [default: 2]
        slots: u32 = "compaction-slots", "ALLOT_COMPACTION_SLOTS";
        /// Subtasks that run at once in the whole cluster, at most; the same for all units; 0 for any number [default:
        /// 0]
        limit: u32 = "compaction-limit", "ALLOT_COMPACTION_LIMIT";
        /// Program, and its arguments, that compacts a partition
        #[arg(value_delimiter = ' ')]
        runner: Vec<String> = "compaction-runner", "ALLOT_COMPACTION_RUNNER";
        /// Program, and its arguments, that prints the partitions of a table, a line each
        #[arg(value_delimiter = ' ')]
        partitions: Vec<String> = "compaction-partitions", "ALLOT_COMPACTION_PARTITIONS";
        /// Directory whose files are the partitions, in place of a program; {db}, {schema} and {table} stand for the
        /// task's
        partitions_dir: String = "compaction-partitions-dir", "ALLOT_COMPACTION_PARTITIONS_DIR";
        /// How long a runner may run [default: 1h]
        timeout: Span = "compaction-timeout", "ALLOT_COMPACTION_TIMEOUT";
        /// How long it may take to end after SIGTERM, before SIGKILL [default: 10s]
        stop_limit: Span = "compaction-stop-limit", "ALLOT_COMPACTION_STOP_LIMIT";
        /// How often a subtask whose worker was lost is begun again, where its task does not say [default: 1]
        retries: u32 = "compaction-retries", "ALLOT_COMPACTION_RETRIES";
        /// How long a manager is away before its tasks are moved [default: one ZooKeeper session]
        grace: Span = "compaction-grace", "ALLOT_COMPACTION_GRACE";
        /// How often the monitor looks at everything, and packs history [default: 1h]
        every: Span = "compaction-every", "ALLOT_COMPACTION_EVERY";
        /// Subtasks of one task that are assigned and not over, at most [default: 1000]
        wave: u32 = "compaction-wave", "ALLOT_COMPACTION_WAVE";
        /// How long after its end a task is packed into history [default: 1day]
        compress_after: Span = "compaction-compress-after", "ALLOT_COMPACTION_COMPRESS_AFTER";
        /// How long packed history is kept [default: 30days]
        delete_after: Span = "compaction-delete-after", "ALLOT_COMPACTION_DELETE_AFTER";
        /// Directory for the last output of runners [default: allot-compaction/NODE among temporary files]
        output_dir: PathBuf = "compaction-output-dir", "ALLOT_COMPACTION_OUTPUT_DIR";
        /// Path of compaction's nodes in ZooKeeper [default: /cluster.compact/Compaction_v2]
        root: String = "compaction-root", "ALLOT_COMPACTION_ROOT";
    }
}

section! {
    /// Dealing accounts.
    Accounts {
        /// Key of the book [default: {acme}:accounts]
        book: String = "accounts-book", "ALLOT_ACCOUNTS_BOOK";
        /// Path in ZooKeeper where client systems come [default: /resource]
        root: String = "accounts-root", "ALLOT_ACCOUNTS_ROOT";
        /// How long the accounts of an instance that went wait for it [default: 30s]
        grace: Span = "accounts-grace", "ALLOT_ACCOUNTS_GRACE";
        /// How long a new leader waits for an instance to give accounts back before it deals any [default: 10s]
        barrier: Span = "accounts-barrier", "ALLOT_ACCOUNTS_BARRIER";
        /// How often the book is looked at [default: 250ms]
        tick: Span = "accounts-tick", "ALLOT_ACCOUNTS_TICK";
        /// The longest login that client systems ask for [default: 1h]
        max_ttl: Span = "accounts-max-ttl", "ALLOT_ACCOUNTS_MAX_TTL";
        /// Time zone whose months count, as the IANA database has it [default: UTC]
        time_zone: String = "accounts-time-zone", "ALLOT_ACCOUNTS_TIME_ZONE";
        /// How often projected use is evened out [default: 1h]
        rebalance: Span = "accounts-rebalance", "ALLOT_ACCOUNTS_REBALANCE";
        /// Replicas that must confirm a deal before it is shown; none is asked where none is there [default: 1]
        wait_replicas: u32 = "accounts-wait-replicas", "ALLOT_ACCOUNTS_WAIT_REPLICAS";
        /// How long they are waited for at a time [default: 500ms]
        wait: Span = "accounts-wait", "ALLOT_ACCOUNTS_WAIT";
    }
}

section! {
    /// The HTTP port of metrics and probes.
    Http {
        /// Address and port to listen on; none, no port [default: none]
        listen: SocketAddr = "http-listen", "ALLOT_HTTP_LISTEN";
    }
}

section! {
    /// What is said about the work.
    Log {
        /// Lines for people, or objects for machines [default: text]
        #[arg(value_enum)]
        format: LogFormat = "log-format", "ALLOT_LOG_FORMAT";
    }
}

/// All settings as given.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Given {
    #[command(flatten, next_help_heading = "Process")]
    #[serde(rename = "allotd")]
    pub(crate) process: Process,
    #[command(flatten, next_help_heading = "Redis")]
    pub(crate) redis: Redis,
    #[command(flatten, next_help_heading = "ZooKeeper")]
    pub(crate) zookeeper: ZooKeeper,
    #[command(flatten, next_help_heading = "Realm")]
    pub(crate) realm: Realm,
    #[command(flatten, next_help_heading = "Scheduler")]
    pub(crate) conference: Conference,
    #[command(flatten, next_help_heading = "Data proxy")]
    pub(crate) data_proxy: DataProxy,
    #[command(flatten, next_help_heading = "Media unit")]
    pub(crate) cmu: Cmu,
    #[command(flatten, next_help_heading = "Compaction")]
    pub(crate) compaction: Compaction,
    #[command(flatten, next_help_heading = "Accounts")]
    pub(crate) accounts: Accounts,
    #[command(flatten, next_help_heading = "Metrics and probes")]
    pub(crate) http: Http,
    #[command(flatten, next_help_heading = "Log")]
    pub(crate) log: Log,
}

impl Given {
    /// These settings, and where one is absent that of `under`.
    pub(crate) fn over(self, under: Self) -> Self {
        Self {
            process: self.process.over(under.process),
            redis: self.redis.over(under.redis),
            zookeeper: self.zookeeper.over(under.zookeeper),
            realm: self.realm.over(under.realm),
            conference: self.conference.over(under.conference),
            data_proxy: self.data_proxy.over(under.data_proxy),
            cmu: self.cmu.over(under.cmu),
            compaction: self.compaction.over(under.compaction),
            accounts: self.accounts.over(under.accounts),
            http: self.http.over(under.http),
            log: self.log.over(under.log),
        }
    }

    /// Section, field, flag and variable of every setting.
    #[cfg(test)]
    pub(crate) fn names() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
        let sections = [
            ("allotd", Process::NAMES),
            ("redis", Redis::NAMES),
            ("zookeeper", ZooKeeper::NAMES),
            ("realm", Realm::NAMES),
            ("conference", Conference::NAMES),
            ("data-proxy", DataProxy::NAMES),
            ("cmu", Cmu::NAMES),
            ("compaction", Compaction::NAMES),
            ("accounts", Accounts::NAMES),
            ("http", Http::NAMES),
            ("log", Log::NAMES),
        ];
        let all = sections.into_iter();
        all.flat_map(|(section, names)| names.iter().map(move |&(a, b, c)| (section, a, b, c))).collect()
    }
}
