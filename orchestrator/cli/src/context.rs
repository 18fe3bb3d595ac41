//! What all commands share: the way to the servers, the output, questions before changes, and the state of long work.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allot_client::{Connection, Error, Record, Servers, Session, query};
use allot_compaction::{Section, TaskClient};
use allot_coordination::Coordinator;
use allot_coordination::zookeeper::ConnectString;
use futures_util::future::BoxFuture;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use redis::cmd;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::failure::{Cause, Failure, Result};
use crate::output::Output;
use crate::settings::Settings;
use crate::terminal;

/// Session timeout with ZooKeeper: a command need not be missed soon.
const SESSION: Duration = Duration::from_secs(30);
/// Keys that one step of a scan looks at.
const STEP: u32 = 1000;
/// Time for removing what an interrupted command leaves.
const CLEANUP: Duration = Duration::from_secs(5);

/// A kind of value in Redis, by the noun that people use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noun {
    Show,
    Pool,
    Realm,
    Book,
}

impl Noun {
    pub(crate) const ALL: [Self; 4] = [Self::Show, Self::Pool, Self::Realm, Self::Book];

    /// The noun, what `TYPE` says, and what people call it.
    pub(crate) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Show => ("show", "allotseat", "a show"),
            Self::Pool => ("pool", "allotpool", "a number pool"),
            Self::Realm => ("realm", "allotconf", "a realm of conferences"),
            Self::Book => ("book", "allotacct", "a book of accounts"),
        }
    }

    /// The command line that creates one.
    pub(crate) fn creation(self) -> &'static str {
        match self {
            Self::Show => "allot show create KEY FILE",
            Self::Pool => "allot pool load KEY FILE",
            Self::Realm => "allot realm set NAME=VALUE",
            Self::Book => "allot book apply FILE",
        }
    }

    /// The command that replies totals, and the field of the items that take the memory.
    pub(crate) fn totals(self) -> (&'static str, &'static str) {
        match self {
            Self::Show => ("SEAT.STAT", "seats"),
            Self::Pool => ("NUMPOOL.INFO", "total"),
            Self::Realm => ("CONF.STAT", "open"),
            Self::Book => ("ACCOUNT.INFO", "accounts"),
        }
    }
}

/// What an interrupted command says, and what it still does.
#[derive(Default)]
struct Interrupted {
    /// How much is done of how much, in which unit, and what to type to go on.
    work: Option<(u64, u64, &'static str, String)>,
    cleanup: Option<BoxFuture<'static, ()>>,
}

/// The context of a command. Clones share it.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) out: Output,
    pub(crate) settings: Arc<Settings>,
    pub(crate) yes: bool,
    pub(crate) dry_run: bool,
    /// The key that the command is about.
    subject: Arc<Mutex<Option<(Noun, String)>>>,
    interrupted: Arc<Mutex<Interrupted>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    pub(crate) fn new(out: Output, settings: Settings, yes: bool, dry_run: bool) -> Self {
        let (subject, interrupted) = (Arc::default(), Arc::default());
        Self { out, settings: Arc::new(settings), yes, dry_run, subject, interrupted }
    }

    /// A connection for single requests to the server that has this key.
    pub(crate) async fn open(&self, noun: Noun, key: &str) -> Result<Connection> {
        *lock(&self.subject) = Some((noun, key.to_owned()));
        self.connect(&self.settings.servers(key)?).await
    }

    /// A session with the master of this key.
    pub(crate) async fn session(&self, noun: Noun, key: &str) -> Result<Session> {
        *lock(&self.subject) = Some((noun, key.to_owned()));
        let servers = self.settings.servers(key)?;
        self.within(&servers, servers.session()).await
    }

    pub(crate) async fn connect(&self, servers: &Servers) -> Result<Connection> {
        self.within(servers, servers.connection(Duration::ZERO)).await
    }

    async fn within<T>(
        &self,
        servers: &Servers,
        opening: impl Future<Output = Result<T, Error>>,
    ) -> Result<T> {
        let named = |failure: Failure| match self.settings.missing_name() {
            Some(why) if failure.cause == Cause::Unreachable => failure.hint(why),
            _ => failure,
        };
        let limit = self.settings.limit;
        let late = || {
            let limit = humantime::format_duration(limit);
            let why = format!("{servers} did not answer within {limit}");
            Failure::new(Cause::Unreachable, why).hint("--limit-time 1m waits longer; is it a Redis server?")
        };
        match timeout(limit, opening).await {
            Err(_) => Err(late()),
            // The limit of the connection itself is the same.
            Ok(Err(Error::Link { source, .. })) if source.is_timeout() => Err(late()),
            Ok(opened) => opened.map_err(|error| named(Failure::from(error))),
        }
    }

    /// The masters of the server in use: one, or all of a cluster.
    pub(crate) async fn masters(&self) -> Result<Vec<Connection>> {
        let servers = self.settings.servers("")?;
        let mut all = Vec::new();
        for master in self.within(&servers, servers.masters()).await? {
            all.push(self.connect(&servers.at(master)).await?);
        }
        Ok(all)
    }

    /// Calls `found` for each page of keys of this kind, on each master.
    pub(crate) async fn scan(
        &self,
        noun: Noun,
        mut found: impl AsyncFnMut(&mut Connection, Vec<String>) -> Result,
    ) -> Result {
        for mut master in self.masters().await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = cmd("SCAN");
                scan.arg(cursor).arg("COUNT").arg(STEP).arg("TYPE").arg(noun.words().1);
                let (next, page): (u64, Vec<Vec<u8>>) = query(&mut master, &scan).await?;
                let keys = page.into_iter().map(|key| String::from_utf8_lossy(&key).into_owned()).collect();
                found(&mut master, keys).await?;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The session with ZooKeeper.
    pub(crate) async fn coordinator(&self) -> Result<Coordinator> {
        let Some(servers) = &self.settings.server.zookeeper else {
            let hint = "set ALLOT_ZOOKEEPER=HOST:PORT,HOST:PORT, or zookeeper in the settings of the server";
            return Err(Failure::usage("no ZooKeeper is named").hint(hint));
        };
        let connect: ConnectString = servers.parse().map_err(|why| {
            Failure::usage(format!("ZooKeeper's servers '{servers}': {why}"))
                .hint("write HOST:PORT,HOST:PORT/PATH")
        })?;
        let ensemble = self.settings.ensemble(connect, SESSION)?;
        let coordinator = Coordinator::start(Arc::new(ensemble));
        match coordinator.up_within(self.settings.limit).await {
            Ok(_) => Ok(coordinator),
            Err(allot_coordination::Error::Offline) => {
                let limit = humantime::format_duration(self.settings.limit);
                let why = format!("ZooKeeper at {servers} did not answer within {limit}");
                let hint = "is it up? ALLOT_ZOOKEEPER names other servers";
                Err(Failure::new(Cause::Unreachable, why).hint(hint))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The client of compaction tasks.
    pub(crate) async fn tasks(&self) -> Result<TaskClient> {
        let root = self.settings.server.compaction_root.clone();
        let settings = allot_compaction::Settings::of(&Section { root, ..Section::default() })?;
        Ok(TaskClient::new(self.coordinator().await?, settings))
    }

    /// Goes on with a change. A dry run says the change, and ends here.
    pub(crate) fn proceed(&self, change: &str) -> Result {
        if !self.dry_run {
            return Ok(());
        }
        if self.out.format.is_json() {
            self.out.json(&json!({"dry_run": true, "would": change}))?;
        } else {
            self.out.text(&format!("dry run: would {change}; nothing was changed\n"))?;
        }
        Err(Failure::new(Cause::Done, ""))
    }

    /// Goes on with a change of much, or one that cannot be undone: asks at a terminal, and without one wants `--yes`.
    pub(crate) async fn confirm(&self, change: &str) -> Result {
        self.proceed(change)?;
        if self.yes {
            return Ok(());
        }
        let question = format!("this will {change}. Go on? [y/N] ");
        // A thread of its own waits for the answer, so that Ctrl-C is seen meanwhile.
        let answer = tokio::task::spawn_blocking(move || terminal::ask(&question)).await;
        match answer.map_err(|error| Failure::new(Cause::Local, error.to_string()))? {
            None => Err(Failure::usage(format!("this would {change}")).hint("say --yes to do it")),
            Some(answer) if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") => Ok(()),
            Some(_) => Err(Failure::no("nothing was changed")),
        }
    }

    /// Refuses `--dry-run` where the server cannot be asked.
    pub(crate) fn no_dry_run(&self, what: &str) -> Result {
        let refused = || Failure::usage(format!("{what} cannot be tried out: there is no --dry-run"));
        if self.dry_run { Err(refused()) } else { Ok(()) }
    }

    /// Begins long work of `total` steps (0 if it is not known). `again` says how to go on after an interruption.
    pub(crate) fn work(&self, what: &'static str, total: u64, steps: &'static str, again: &str) -> Work {
        let bar = if self.out.quiet { ProgressBar::hidden() } else { ProgressBar::new(total) };
        set_style(&bar, total);
        bar.set_message(what);
        let again = again.replace("the same command", &format!("`{}`", terminal::command_line()));
        lock(&self.interrupted).work = Some((0, total, steps, again));
        Work { bar, context: self.clone() }
    }

    /// What to do if the command is interrupted.
    pub(crate) fn on_interruption(&self, cleanup: BoxFuture<'static, ()>) {
        lock(&self.interrupted).cleanup = Some(cleanup);
    }

    /// The end of an interrupted command: what it leaves, and what it says.
    pub(crate) async fn interrupted(&self, cause: Cause) -> Failure {
        let Interrupted { work, cleanup } = std::mem::take(&mut *lock(&self.interrupted));
        if let Some(cleanup) = cleanup {
            let _ = timeout(CLEANUP, cleanup).await;
        }
        let failure = |message| Failure::new(cause, message);
        match work {
            None => failure("interrupted".to_owned()),
            Some((done, 0, steps, again)) => failure(format!("interrupted: {done} {steps}")).hint(again),
            Some((done, total, steps, again)) => {
                failure(format!("interrupted: {done} of {total} {steps}")).hint(again)
            }
        }
    }

    /// A refusal in the words of the user: what is at the key that the command is about.
    pub(crate) async fn explained(&self, failure: Failure) -> Failure {
        let subject = lock(&self.subject).clone();
        let (Some((noun, key)), Some(code)) = (subject, failure.code.as_deref()) else { return failure };
        let (word, kind, name) = noun.words();
        let hint = match (code, noun) {
            ("NOTFOUND", Noun::Realm) => Some("allot conference list"),
            ("NOTFOUND", Noun::Book) => Some("allot account list"),
            ("LIMIT", Noun::Realm) => {
                Some("allot unit list shows the room, and allot realm get the licences")
            }
            _ => None,
        };
        if let (Some(hint), None) = (hint, &failure.hint) {
            return failure.hint(hint);
        }
        if !matches!(code, "NOKEY" | "WRONGTYPE") {
            return failure;
        }
        let Ok(mut connection) = self.open(noun, &key).await else { return failure };
        let found: Result<String, _> = query(&mut connection, cmd("TYPE").arg(&key)).await;
        match found.as_deref() {
            Ok("none") => Failure::absent(format!("there is no {word} '{key}'"))
                .hint(format!("allot {word} list; {} creates one", noun.creation())),
            Ok(found) if found != kind => {
                let other = Noun::ALL.into_iter().find(|other| other.words().1 == found);
                match other.map(Noun::words) {
                    Some((other, _, is)) => Failure::absent(format!("'{key}' is {is}, not {name}"))
                        .hint(format!("allot {other} get {key}")),
                    None => Failure::absent(format!("'{key}' is a {found} of Redis, not {name}"))
                        .hint(format!("allot {word} list")),
                }
            }
            _ => failure,
        }
    }
}

fn set_style(bar: &ProgressBar, total: u64) {
    let form = if total == 0 {
        "{msg} {human_pos}, {rate}, {elapsed}"
    } else {
        "{msg} [{wide_bar}] {human_pos}/{human_len}, {rate}, rest {eta}"
    };
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style.with_key("rate", |state: &ProgressState, text: &mut dyn Write| {
            // A text that cannot be written is not shown.
            let _ = write!(text, "{:.0}/s", state.per_sec());
        }));
    }
}

/// Long work: done, rate and rest on standard error, if that is a terminal.
pub(crate) struct Work {
    bar: ProgressBar,
    context: Context,
}

impl Work {
    /// So many steps of so many are done; the total is kept if it is 0.
    pub(crate) fn at(&self, done: u64, total: u64) {
        if total > 0 && self.bar.length() != Some(total) {
            self.bar.set_length(total);
            set_style(&self.bar, total);
        }
        self.bar.set_position(done);
        if let Some(work) = &mut lock(&self.context.interrupted).work {
            work.0 = done;
            work.1 = work.1.max(total);
        }
    }

    /// Prints a line above the bar.
    pub(crate) fn note(&self, text: &str) {
        self.bar.suspend(|| self.context.out.note(text));
    }

    pub(crate) fn message(&self, text: String) {
        self.bar.set_message(text);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The values of records, which rows are printed of.
pub(crate) fn values(records: &[Record]) -> Vec<Value> {
    records.iter().map(Record::json).collect()
}
