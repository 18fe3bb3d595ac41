//! `allot server` and `allot version`: the servers of the settings, and a doctor for the one in use.

use std::collections::HashMap;
use std::fs;

use allot_client::{Connection, Error, query, query_all};
use clap::Subcommand;
use clap_complete::engine::ArgValueCompleter;
use redis::{Value as Reply, cmd};
use serde_json::{Value, json};

use crate::context::{Context, Noun};
use crate::failure::{Cause, Failure, Result, counted};
use crate::output::{columns, field, lines};
use crate::settings::{self, own_file};
use crate::{complete, stores, terminal, time};

/// The greatest difference between the clocks of this machine and of the server, in milliseconds.
const CLOCKS: i64 = 1000;

/// The verbs of servers.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the servers of the settings
    #[command(alias = "ls")]
    List,
    /// Make a server of the settings the one that is meant
    Use {
        /// The name of the server
        #[arg(add = ArgValueCompleter::new(complete::servers))]
        name: String,
    },
    /// Check reach, password and ACL, module, versions, role, persistence, clocks and ZooKeeper
    Check,
    /// Show what the values of each kind take of the memory of the server
    Sizing,
}

columns! {
    SERVERS = name Text, in_use Flag, url Text, user Text, zookeeper Text, realm Text wide, book Text wide;
    CHECKS = check Text, result Text, found Text, action Text;
    SIZES = kind Text, keys Number, items Number, bytes Number, bytes_per_item Number, largest Text;
    VERSIONS = client Text, module Text, server Text, fits Flag;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List => {
            let settings = &context.settings;
            let row = |(name, server): (&String, &crate::settings::Server)| {
                json!({
                    "name": name, "in_use": settings.name.as_ref() == Some(name), "url": server.url,
                    "user": server.user, "zookeeper": server.zookeeper, "realm": server.realm, "book": server.book,
                })
            };
            let rows: Vec<Value> = settings.named.iter().map(row).collect();
            context.out.list(SERVERS, &rows, "no file of settings names a server; allot config example")
        }
        Verb::Use { name } => make_usual(context, &name),
        Verb::Check => check(context).await,
        Verb::Sizing => sizing(context).await,
    }
}

fn make_usual(context: &Context, name: &str) -> Result {
    if !context.settings.named.contains_key(name) {
        let failure = Failure::absent(format!("no file of settings has a server '{name}'"));
        return Err(failure.hint(settings::names_of(&context.settings.named)));
    }
    let path =
        own_file().ok_or_else(|| Failure::new(Cause::Local, "there is no HOME for a file of settings"))?;
    let shown = path.display().to_string();
    context.proceed(&format!("write server = \"{name}\" into {shown}"))?;
    let failed = |error: std::io::Error| Failure::file(Cause::Local, &shown, &error);
    let old = if path.exists() { fs::read_to_string(&path).map_err(failed)? } else { String::new() };
    // The setting stands before the first section. Everything else stays as it is.
    let sections = old.lines().position(|line| line.trim_start().starts_with('[')).unwrap_or(usize::MAX);
    let is_setting = |line: &str| line.split('=').next().is_some_and(|key| key.trim() == "server");
    let others = old.lines().enumerate().filter(|(place, line)| *place > sections || !is_setting(line));
    let rest: String = lines(others.map(|(_, line)| line));
    let quoted = Value::from(name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let fresh = path.with_extension("toml.new");
    fs::write(&fresh, format!("server = {quoted}\n{rest}"))
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(failed)?;
    if std::env::var_os(settings::SERVER).is_some_and(|value| !value.is_empty()) {
        context.out.note(&format!("{} is set, and overrides the file in this shell", settings::SERVER));
    }
    context.out.done(
        &format!("server '{name}' is meant from now on ({shown})"),
        SERVERS,
        &json!({"name": name, "in_use": true}),
    )
}

/// The findings of the doctor.
#[derive(Default)]
struct Findings(Vec<Value>);

impl Findings {
    /// Adds a finding: `action` is what to do, and `None` if all is well.
    fn add(&mut self, check: &str, found: impl Into<String>, action: Option<&str>) {
        let result = if action.is_some() { "PROBLEM" } else { "ok" };
        self.0.push(json!({"check": check, "result": result, "found": found.into(), "action": action}));
    }

    /// A line for each finding, with what to do below it.
    fn lines(&self, width: Option<usize>) -> String {
        // What was found stands beside the check, and at a narrow terminal below it.
        let is_narrow = width.is_some_and(|width| width < 60);
        let indent = if is_narrow { 9 } else { 27 };
        let text = |finding: &Value, name: &str| field(finding, name).as_str().unwrap_or_default().to_owned();
        let line = |finding: &Value| {
            let [check, result, found, action] =
                ["check", "result", "found", "action"].map(|name| text(finding, name));
            let begin = if is_narrow {
                format!("{result:<7}  {check}\n{:indent$}", "")
            } else {
                format!("{result:<7}  {check:<16}  ")
            };
            let text = if action.is_empty() { found } else { format!("{found}\ndo: {action}") };
            let text = text.lines().map(|line| terminal::folded(line, indent, width)).collect::<Vec<_>>();
            format!("{begin}{}\n", text.join(&format!("\n{:indent$}", "")))
        };
        self.0.iter().map(line).collect()
    }

    /// What was found out; what could not be found out is a finding.
    fn take<T>(&mut self, check: &str, found: Result<T, Error>) -> Option<T> {
        found.map_err(|error| self.failed(check, &error.into())).ok()
    }

    fn failed(&mut self, check: &str, failure: &Failure) {
        self.add(check, failure.message.clone(), Some(failure.hint.as_deref().unwrap_or("see the message")));
    }
}

/// The fields of a section of `INFO`.
async fn info(connection: &mut Connection, section: &str) -> Result<HashMap<String, String>, Error> {
    let text: String = query(connection, cmd("INFO").arg(section)).await?;
    let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    Ok(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The version of the module as text; `None` if it is not loaded. `INFO` shows to every user that it is loaded.
async fn module(connection: &mut Connection) -> Result<Option<String>, Error> {
    let modules: Result<Vec<Reply>, Error> = query(connection, cmd("MODULE").arg("LIST")).await;
    for module in modules.unwrap_or_default() {
        let module = allot_client::Record::read(module)?;
        if module.text("name") == "allot" {
            let version: u64 = module.get("ver")?;
            return Ok(Some(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)));
        }
    }
    Ok(if info(connection, "allot").await?.is_empty() { None } else { Some("unknown".to_owned()) })
}

/// Whether client and module are of the same minor version.
fn fits(module: &str) -> bool {
    let minor = |version: &str| version.rsplit_once('.').map(|(minor, _)| minor.to_owned());
    minor(module) == minor(env!("CARGO_PKG_VERSION"))
}

async fn check(context: &Context) -> Result {
    let mut findings = Findings::default();
    let servers = context.settings.servers("")?;
    findings.add("server", format!("{servers}, named by {}", context.settings.named_by), None);
    match context.masters().await {
        Err(failure) => findings.failed("reach", &failure),
        Ok(masters) => {
            for mut master in masters {
                check_server(&mut findings, &mut master).await;
            }
        }
    }
    match &context.settings.server.zookeeper {
        None => findings.add("zookeeper", "none is named; tasks and nodes need one", None),
        Some(servers) => match context.coordinator().await {
            Ok(coordinator) => {
                findings.add("zookeeper", format!("{servers} answers"), None);
                coordinator.close().await;
            }
            Err(failure) => findings.failed("zookeeper", &failure),
        },
    }
    let problems = findings.0.iter().filter(|finding| finding["result"] != "ok").count();
    if context.out.is_table() {
        context.out.text(&findings.lines(context.out.width))?;
    } else {
        context.out.list(CHECKS, &findings.0, "")?;
    }
    if problems > 0 { Err(Failure::no(counted(problems as u64, "problem"))) } else { Ok(()) }
}

/// The name of the server and its version.
fn product(server: &HashMap<String, String>) -> String {
    match (server.get("valkey_version"), server.get("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, version) => format!("Redis {}", version.map_or("of no version", String::as_str)),
    }
}

/// The commands that the user may not run, of those that lists of each noun begin with.
async fn forbidden(master: &mut Connection) -> Vec<&'static str> {
    let nobody = format!("allot:check:{:016x}", rand::random::<u64>());
    let scan = cmd("SCAN").arg(0).arg("COUNT").arg(1).clone();
    let reads = Noun::ALL.map(|noun| (noun.totals().0, cmd(noun.totals().0).arg(&nobody).clone()));
    let mut forbidden = Vec::new();
    for (name, command) in [("SCAN", scan)].into_iter().chain(reads) {
        let tried: Result<Reply, Error> = query(master, &command).await;
        // The keys that a user may read are no fault.
        if let Err(Error::Refused { code, message, .. }) = tried
            && code == "NOPERM"
            && message.contains("command")
        {
            forbidden.push(name);
        }
    }
    forbidden
}

async fn check_server(findings: &mut Findings, master: &mut Connection) {
    let server = match info(master, "server").await {
        Ok(server) => server,
        Err(error) => return findings.failed("password and ACL", &error.into()),
    };
    let field = |fields: &HashMap<String, String>, name: &str| fields.get(name).cloned().unwrap_or_default();
    let version = field(&server, "redis_version");
    let old =
        version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_none_or(|major| major < 7);
    findings.add(
        "reach",
        format!("{} at port {}", product(&server), field(&server, "tcp_port")),
        old.then_some("Allot needs Redis 7.0 or later"),
    );
    let user: Result<String, Error> = query(master, cmd("ACL").arg("WHOAMI")).await;
    match user {
        Ok(user) => findings.add("password and ACL", format!("user {user}"), None),
        Err(error) if error.code() == Some("NOPERM") => {
            findings.add("password and ACL", "a user of few rights", None);
        }
        Err(error) => findings.failed("password and ACL", &error.into()),
    }
    let forbidden = forbidden(master).await;
    if !forbidden.is_empty() {
        let action = "docs/deploy.md has the ACL rules for operators";
        findings.add("ACL", format!("the user may not: {}", forbidden.join(", ")), Some(action));
    }
    match module(master).await {
        Ok(Some(version)) => {
            let client = env!("CARGO_PKG_VERSION");
            let other = version != "unknown" && !fits(&version);
            let found = format!("{version}; this client is {client}");
            findings.add(
                "module",
                found,
                other.then_some("use a client and a module of the same minor version"),
            );
        }
        Ok(None) => {
            findings.add("module", "not loaded", Some("loadmodule /path/to/liballot.so in redis.conf"));
        }
        Err(error) => findings.failed("module", &error.into()),
    }
    if let Some(counters) = findings.take("internal errors", info(master, "allot").await) {
        let errors = field(&counters, "allot_internal_errors");
        let broken = errors.parse().is_ok_and(|errors: u64| errors > 0);
        findings.add(
            "internal errors",
            errors,
            broken.then_some("a bug: please report it, with the log of the server"),
        );
    }
    if let Some(replication) = findings.take("role", info(master, "replication").await) {
        let (role, replicas) = (field(&replication, "role"), field(&replication, "connected_slaves"));
        let action =
            (role != "master").then_some("name the master, or Sentinels: redis+sentinel://HOST:PORT/MASTER");
        findings.add("role", format!("{role}, {replicas} replicas"), action);
    }
    if let Some(persistence) = findings.take("persistence", info(master, "persistence").await) {
        let append = field(&persistence, "aof_enabled") == "1";
        let failed = ["rdb_last_bgsave_status", "aof_last_write_status"]
            .iter()
            .any(|name| persistence.get(*name).is_some_and(|status| status != "ok"));
        let action = match (append, failed) {
            (_, true) => Some("the last save or write failed: is the disk full? see the log of the server"),
            (false, false) => Some("appendonly yes, or a crash loses what was sold since the last RDB file"),
            (true, false) => None,
        };
        findings.add("persistence", if append { "append-only file" } else { "no append-only file" }, action);
    }
    let before = time::now();
    let told = query::<(i64, i64)>(master, &cmd("TIME")).await;
    if let Some((seconds, micros)) = findings.take("clocks", told) {
        let ahead = seconds * 1000 + micros / 1000 - i64::midpoint(before, time::now());
        let action = (ahead.abs() > CLOCKS).then_some("set both clocks by NTP");
        findings.add("clocks", format!("the server is {ahead} ms ahead of this machine"), action);
    }
}

async fn sizing(context: &Context) -> Result {
    let mut rows = Vec::new();
    for noun in Noun::ALL {
        let (word, _, _) = noun.words();
        let (mut keys, mut items, mut bytes, mut largest) = (0_u64, 0_u64, 0_u64, (0_u64, String::new()));
        context
            .scan(noun, async |connection: &mut Connection, found: Vec<String>| {
                let usage = found.iter().map(|key| cmd("MEMORY").arg("USAGE").arg(key).clone()).collect();
                let usage = query_all(connection, usage).await?;
                let totals = stores::totals(connection, noun, &found).await?;
                for ((key, usage), total) in found.iter().zip(usage).zip(totals) {
                    let (Ok(Reply::Int(size)), Some(total)) = (usage, total) else { continue };
                    keys += 1;
                    bytes += size.unsigned_abs();
                    items += field(&total, noun.totals().1).as_u64().unwrap_or(0);
                    largest = largest.clone().max((size.unsigned_abs(), key.clone()));
                }
                Ok(())
            })
            .await?;
        let each = bytes.checked_div(items);
        rows.push(json!({
            "kind": word, "keys": keys, "items": items, "bytes": bytes, "bytes_per_item": each, "largest": largest.1,
        }));
    }
    context.out.list(SIZES, &rows, "")?;
    for mut master in context.masters().await? {
        let memory = info(&mut master, "memory").await?;
        let field = |name: &str| memory.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        let (used, most): (u64, u64) = (field("used_memory"), field("maxmemory"));
        let bytes = |count: u64| indicatif::HumanBytes(count).to_string();
        let of = if most == 0 { "no maxmemory".to_owned() } else { format!("maxmemory {}", bytes(most)) };
        context.out.note(&format!("the server uses {}, {of}", bytes(used)));
    }
    Ok(())
}

/// Runs `allot version`.
pub(crate) async fn version(context: &Context) -> Result {
    let client = env!("CARGO_PKG_VERSION");
    let found = async {
        let mut connection = context.connect(&context.settings.servers("")?).await?;
        let server = Some(product(&info(&mut connection, "server").await?));
        Ok::<_, Failure>((server, module(&mut connection).await?))
    };
    let (server, module, failure) = match found.await {
        Ok((server, module)) => (server, module, None),
        Err(failure) => (None, None, Some(failure)),
    };
    let fit = module.as_deref().map(fits);
    let row = json!({"client": client, "module": module, "server": server, "fits": fit});
    if context.out.is_table() {
        let module = module.as_deref().unwrap_or("none found");
        let server = server.as_deref().unwrap_or("not reachable");
        let verdict = match fit {
            Some(true) => "client and module fit\n",
            Some(false) => "client and module do not fit: use the same minor version\n",
            None => "",
        };
        context.out.text(&format!("allot   {client}\nmodule  {module}\nserver  {server}\n{verdict}"))?;
    } else {
        context.out.get(VERSIONS, &row, &[])?;
    }
    match (failure, fit) {
        // The version of the client is the answer, also without a server.
        (Some(failure), _) => {
            context.out.note(&format!("allot: {}", failure.message));
            Ok(())
        }
        (None, Some(false)) => Err(Failure::no("")),
        (None, _) => Ok(()),
    }
}
