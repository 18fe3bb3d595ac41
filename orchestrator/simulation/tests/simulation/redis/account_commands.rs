//! The commands of books that the accounts role and operators send: arguments in, the real state machine asked, records
//! out. Records have the fields that programs read.

use std::collections::BTreeMap;

use allot_core::account::decide::USUAL_MOVES;
use allot_core::account::place::Module;
use allot_core::account::record::Account;
use allot_core::account::request::{Changes, ModuleSettings};
use allot_core::account::tariff::Tariff;
use allot_core::account::{
    Book, Event, InstanceRequest, ManagerRequest, Reply as Outcome, Request, Settings,
};
use allot_core::shared::refusal::{Code, Refusal};

use super::arguments::{Arguments, number};
use super::command::Command;
use super::database::{Database, Write};
use super::reply::{self, Reply};

/// Carries a command out; `None` if it is no command of this family.
pub(super) fn run(
    database: &mut Database,
    clock: i64,
    command: &Command,
    log: &mut Vec<Write>,
) -> Option<Reply> {
    let name = command.name().strip_prefix(b"ACCOUNT.")?;
    let mut arguments = Arguments::new(command);
    let key = &arguments.word();
    let done = match name {
        b"BOOK" if !database.books.contains_key(key) => {
            Settings::default().with(&Changes::default(), clock).map(|settings| {
                database.open::<Book>(key, &Event::Opened(settings), clock, log);
                book_record(&database.books[key], clock)
            })
        }
        b"INFO" | b"LIST" | b"USAGE" | b"HISTORY" => read(database, key, clock, name, &mut arguments),
        _ => request(name, &mut arguments)
            .and_then(|request| database.answer(key, clock, log, &request, render)),
    };
    Some(done.unwrap_or_else(|refusal| reply::error(&refusal.to_string())))
}

fn request<'a>(name: &[u8], arguments: &mut Arguments<'a>) -> Result<Request<'a>, Refusal> {
    let term = arguments.natural_after("TERM")?;
    let manager = match name {
        b"BOOK" => {
            let turns = arguments.flag("TURNS").then(|| arguments.rest());
            let turns = turns.map(|turns| turns.map(number).collect::<Result<_, _>>());
            ManagerRequest::Configure(Changes { calendar_turns: turns.transpose()?, ..Changes::default() })
        }
        b"TERM" => {
            let (term, leader) = (arguments.natural()?, arguments.text());
            ManagerRequest::Claim { term, leader, force: arguments.flag("FORCE") }
        }
        b"MODULE" => {
            let module = arguments.text();
            let department = arguments.text_after("DEPARTMENT").unwrap_or_default();
            let instances = arguments.integer_after("INSTANCES")?.unwrap_or_default();
            let reserve = arguments.integer_after("RESERVE")?;
            let settings =
                ModuleSettings { module, department, instances, reserve, ..ModuleSettings::default() };
            ManagerRequest::Module(settings)
        }
        b"ADD" => {
            let module = Some(arguments.text());
            let tariff =
                Tariff { quota: arguments.natural_after("QUOTA")?.unwrap_or_default(), steps: Vec::new() };
            let _count = arguments.text_after("ACCOUNTS");
            let accounts = arguments.rest().collect();
            ManagerRequest::add(module, tariff, accounts)
        }
        b"MOVE" => {
            let (module, _count) = (arguments.text(), arguments.natural()?);
            ManagerRequest::Move { module, accounts: arguments.rest().collect() }
        }
        b"FREEZE" => {
            let (account, until) = (arguments.text(), arguments.integer_after("UNTIL")?);
            ManagerRequest::Freeze { account, on: !arguments.flag("OFF"), until }
        }
        b"ATTACH" => ManagerRequest::Attach { module: arguments.text(), instance: arguments.text() },
        b"DETACH" => {
            let (module, instance) = (arguments.text(), arguments.text());
            let grace = arguments.integer_after("GRACE")?.unwrap_or_default();
            ManagerRequest::Detach { module, instance, grace }
        }
        b"RAISE" => {
            let epoch = arguments.natural()?;
            ManagerRequest::Raise { epoch, account: arguments.text_after("ACCOUNT") }
        }
        b"REBALANCE" => {
            ManagerRequest::Rebalance { dry_run: arguments.flag("DRYRUN"), max_moves: USUAL_MOVES }
        }
        b"LOGOUT" => {
            let (account, epoch) = (arguments.text(), arguments.natural()?);
            let back = arguments.flag("BACK");
            return Ok(InstanceRequest::Logout { account, epoch, back, term }.into());
        }
        b"REPORT" => {
            let (account, epoch) = (arguments.text(), arguments.natural()?);
            return Ok(InstanceRequest::Report { account, epoch, total: arguments.natural()? }.into());
        }
        _ => {
            let text = format!("unknown command 'ACCOUNT.{}'", name.escape_ascii());
            return Err(Refusal::new(Code::Err, text));
        }
    };
    Ok(manager.in_term(term))
}

fn read(
    database: &Database,
    key: &[u8],
    clock: i64,
    name: &[u8],
    arguments: &mut Arguments<'_>,
) -> Result<Reply, Refusal> {
    let book = database.books.get(key);
    let book = book.ok_or_else(|| Refusal::new(Code::NoKey, "there is no such key"))?;
    let now = book.now(clock);
    Ok(match name {
        b"INFO" => match arguments.text_after("MODULE") {
            None => book_record(book, now),
            Some(name) => {
                let module = book.find_module(name).and_then(|id| book.module(id));
                module_record(book, module.ok_or_else(|| not_found(name))?)
            }
        },
        b"LIST" => {
            let cursor = arguments.natural_after("CURSOR")?.unwrap_or_default();
            let count = arguments.natural_after("COUNT")?.unwrap_or(100) as usize;
            let (found, next) = book.list(None, None, None, cursor, count);
            let found = found.into_iter().map(|account| account_record(book, account, now)).collect();
            Reply::Array(vec![reply::number(next), Reply::Array(found)])
        }
        b"USAGE" => {
            let modules: BTreeMap<_, _> = book.usage_by_module(book.month());
            let lines = modules.keys().map(|module| reply::record([("name", reply::text(&**module))]));
            Reply::Array(vec![Reply::Int(0), Reply::Array(lines.collect())])
        }
        _ => {
            let name = arguments.text();
            let account = book.account_called(name).ok_or_else(|| not_found(name))?;
            let stays =
                account.history.iter().map(|stay| reply::record([("epoch", reply::number(stay.epoch))]));
            Reply::Array(stays.collect())
        }
    })
}

fn not_found(name: &[u8]) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no '{}'", name.escape_ascii()))
}

/// The replies of the commands of managers; programs read no other.
fn render(book: &Book, now: i64, reply: &Outcome) -> Reply {
    match reply {
        Outcome::Integer(number) => Reply::Int(*number),
        Outcome::Book => book_record(book, now),
        Outcome::Moves(moves) => Reply::Array(moves.iter().map(|_| Reply::Array(Vec::new())).collect()),
        _ => Reply::Okay,
    }
}

fn book_record(book: &Book, now: i64) -> Reply {
    let (term, leader) = book.leader();
    let ([free, assigned, revoking, frozen], instances, modules) = book.totals();
    let turns = book.settings().turns.iter().map(|turn| Reply::Int(*turn));
    reply::record([
        ("term", reply::number(term)),
        ("leader", leader.map_or(Reply::Nil, reply::text)),
        ("last_epoch", reply::number(book.last_epoch())),
        ("month", reply::number(book.month())),
        ("month_start", book.month_start(book.month()).map_or(Reply::Nil, Reply::Int)),
        ("month_end", Reply::Int(book.month_end(now))),
        ("modules", reply::number(modules)),
        ("instances", reply::number(instances)),
        ("accounts", reply::number(free + assigned + revoking + frozen)),
        ("free", reply::number(free)),
        ("assigned", reply::number(assigned)),
        ("revoking", reply::number(revoking)),
        ("frozen", reply::number(frozen)),
        ("calendar", Reply::Int(book.settings().calendar.into())),
        ("turns", Reply::Array(turns.collect())),
    ])
}

fn module_record(book: &Book, module: &Module) -> Reply {
    let attached = module.instances().filter_map(|id| book.instance(id)).map(|instance| {
        let state = reply::text(instance.presence.word());
        reply::record([("instance", reply::text(&*instance.name)), ("state", state)])
    });
    reply::record([
        ("module", reply::text(&*module.name)),
        ("department", reply::text(&*module.department)),
        ("attached", Reply::Array(attached.collect())),
    ])
}

fn account_record(book: &Book, account: &Account, now: i64) -> Reply {
    let instance = book.instance_name(account.instance);
    let instance = if instance.is_empty() { Reply::Nil } else { reply::text(&*instance) };
    let login = account.live_login(now).map_or(Reply::Nil, |login| reply::number(login.epoch));
    reply::record([
        ("account", reply::text(&*account.name)),
        ("module", reply::text(&*book.module_name(account.module))),
        ("instance", instance),
        ("state", reply::text(account.state.word())),
        ("epoch", reply::number(account.epoch)),
        ("login_epoch", login),
    ])
}
