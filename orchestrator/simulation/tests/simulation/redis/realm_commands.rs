//! The commands of conferences and units: arguments in, the real state machine asked, records out. Records have the fields
//! that programs read.

use allot_core::conf::outcome::Reported;
use allot_core::conf::request::{
    AssignmentNotice, Changes, Claim, ClientRequest, CopyParams, Create, DrainOf, End, Report, Request,
    SchedulerRequest, Set, UnitRequest, WishesRequest,
};
use allot_core::conf::state::Settings;
use allot_core::conf::unit::Unit;
use allot_core::conf::{Event, Realm, Reply as Outcome};
use allot_core::shared::refusal::{Code, Refusal};

use super::arguments::{Arguments, number};
use super::command::Command;
use super::database::{Database, Write};
use super::reply::{self, Reply};

/// The lease of a unit that asks for none, in milliseconds.
const LEASE_MS: i64 = 5000;

/// Carries a command out; `None` if it is no command of this family.
pub(super) fn run(
    database: &mut Database,
    clock: i64,
    command: &Command,
    log: &mut Vec<Write>,
) -> Option<Reply> {
    let name = command.name();
    if !name.starts_with(b"CONF.") && !name.starts_with(b"CMU.") {
        return None;
    }
    let mut arguments = Arguments::new(command);
    let key = &arguments.word();
    let done = match name {
        b"CONF.REALM" if !database.realms.contains_key(key) => changes(&mut arguments).and_then(|changes| {
            let settings = Settings::default().with(&changes)?;
            database.open::<Realm>(key, &Event::Opened { settings }, clock, log);
            Ok(realm_record(&database.realms[key]))
        }),
        b"CMU.LIST" => read(database, key, |realm| Reply::Array(realm.units().map(unit_record).collect())),
        b"CONF.STAT" => read(database, key, stat),
        _ => request(name, &mut arguments)
            .and_then(|request| database.answer(key, clock, log, &request, render)),
    };
    Some(done.unwrap_or_else(|refusal| reply::error(&refusal.to_string())))
}

fn read(database: &Database, key: &[u8], read: impl FnOnce(&Realm) -> Reply) -> Result<Reply, Refusal> {
    let realm = database.realms.get(key);
    realm.map(read).ok_or_else(|| Refusal::new(Code::NoKey, "there is no such key"))
}

fn request<'a>(name: &[u8], arguments: &mut Arguments<'a>) -> Result<Request<'a>, Refusal> {
    if let Some(request) = client_request(name, arguments)? {
        return Ok(Request::Client(request));
    }
    if let Some(request) = unit_request(name, arguments)? {
        return Ok(Request::Unit(request));
    }
    if let Some(request) = scheduler_request(name, arguments)? {
        return Ok(Request::Scheduler { term: arguments.natural_after("TERM")?, request });
    }
    if name == b"CONF.TERM" {
        let (term, leader) = (arguments.natural()?, arguments.text());
        return Ok(Request::Claim(Claim { term, leader, force: arguments.flag("FORCE") }));
    }
    Err(Refusal::new(Code::Err, format!("unknown command '{}'", name.escape_ascii())))
}

fn client_request<'a>(
    name: &[u8],
    arguments: &mut Arguments<'a>,
) -> Result<Option<ClientRequest<'a>>, Refusal> {
    Ok(Some(match name {
        b"CONF.REALM" if arguments.flag("DROP") => ClientRequest::Drop,
        b"CONF.REALM" => ClientRequest::Configure(changes(arguments)?),
        b"CONF.CREATE" => ClientRequest::Create(create(arguments)?),
        b"CONF.RELEASE" => ClientRequest::Release { e164: arguments.text() },
        b"CONF.EXTEND" => {
            let e164 = arguments.text();
            let end = arguments.integer_after("END")?.unwrap_or_default();
            ClientRequest::Extend { e164, end, dry_run: false }
        }
        b"CONF.RESIZE" => ClientRequest::Resize { e164: arguments.text(), size: arguments.natural()? as i64 },
        b"CMU.ASK" => {
            let details = arguments.rest().last() == Some(b"DETAILS");
            let cmu = (arguments.rest().len() == 2).then(|| arguments.text());
            ClientRequest::Ask { cmu, details }
        }
        _ => return Ok(None),
    }))
}

fn unit_request<'a>(name: &[u8], arguments: &mut Arguments<'a>) -> Result<Option<UnitRequest<'a>>, Refusal> {
    Ok(Some(match name {
        b"CONF.ACK" => UnitRequest::Ack(notice(arguments)?),
        b"CONF.NACK" => UnitRequest::Nack(notice(arguments)?, arguments.next()),
        b"CONF.FAILED" => UnitRequest::Failed(notice(arguments)?, arguments.next()),
        b"CONF.ENDED" => {
            let notice = notice(arguments)?;
            UnitRequest::Ended(notice, if arguments.flag("RELEASED") { End::Released } else { End::People })
        }
        b"CMU.JOIN" => {
            let cmu = arguments.text();
            let capacity = arguments.integer_after("CAPACITY")?.unwrap_or_default();
            let lease = arguments.integer_after("LEASE")?.unwrap_or(LEASE_MS);
            let (zone, machine) = (arguments.text_after("ZONE"), arguments.text_after("MACHINE"));
            UnitRequest::Join { cmu, capacity, zone, tags: &[], lease, machine }
        }
        b"CMU.LEAVE" => UnitRequest::Leave { cmu: arguments.text() },
        b"CMU.BEAT" => UnitRequest::Beat { cmu: arguments.text(), load: arguments.integer_after("LOAD")? },
        b"CMU.REPORT" => {
            let cmu = arguments.text();
            let highest = arguments.natural_after("HIGHEST")?.unwrap_or_default();
            let count = arguments.integer_after("ENDED")?.unwrap_or_default();
            let ended = (0..count).map(|_| assignment(arguments)).collect::<Result<_, _>>()?;
            let count = arguments.integer_after("STARTING")?.unwrap_or_default();
            let starting = (0..count).map(|_| assignment(arguments)).collect::<Result<_, _>>()?;
            let count = arguments.integer_after("PARAMS")?.unwrap_or_default();
            let params = (0..count).map(|_| params(arguments)).collect::<Result<_, _>>()?;
            let mut list = Vec::new();
            while arguments.rest().len() > 0 {
                list.push(assignment(arguments)?);
            }
            UnitRequest::Report(Report { cmu, highest, ended, starting, params, list })
        }
        _ => return Ok(None),
    }))
}

fn scheduler_request<'a>(
    name: &[u8],
    arguments: &mut Arguments<'a>,
) -> Result<Option<SchedulerRequest<'a>>, Refusal> {
    Ok(Some(match name {
        b"CONF.RECOVER" => {
            SchedulerRequest::Recover { count: arguments.integer_after("COUNT")?.unwrap_or(100) }
        }
        b"CONF.RESTART" => {
            let count = arguments.integer_after("LIVE")?.unwrap_or_default();
            SchedulerRequest::Restart { live: (0..count).map(|_| arguments.text()).collect() }
        }
        b"CONF.REBALANCE" => {
            let most = arguments.integer_after("MAXMOVES")?.unwrap_or(100);
            SchedulerRequest::Rebalance { most, dry_run: arguments.flag("DRYRUN") }
        }
        b"CONF.MOVE" => {
            let e164 = arguments.text();
            SchedulerRequest::Move { e164, to: arguments.text_after("TO") }
        }
        b"CMU.DRAIN" => {
            let of = match arguments.text_after("HOST") {
                Some(host) => DrainOf::Host(host),
                None => DrainOf::Unit(arguments.text()),
            };
            SchedulerRequest::Drain { of, on: !arguments.flag("OFF"), moves: arguments.flag("MOVE") }
        }
        b"CMU.DOWN" => SchedulerRequest::Down { cmu: arguments.text() },
        _ => return Ok(None),
    }))
}

/// A conference and the epoch at which a unit has or had it.
fn assignment<'a>(arguments: &mut Arguments<'a>) -> Result<(&'a [u8], u64), Refusal> {
    Ok((arguments.text(), arguments.natural()?))
}

/// What the program of a conference was told.
fn params<'a>(arguments: &mut Arguments<'a>) -> Result<CopyParams<'a>, Refusal> {
    let (e164, end) = (arguments.text(), arguments.text());
    let end = std::str::from_utf8(end).ok().and_then(|end| end.parse().ok());
    let (size, priority) = (arguments.natural()? as i64, number(arguments.text())?);
    let request = Some(arguments.text()).filter(|request| !request.is_empty());
    Ok(CopyParams { e164, end, size, priority, request })
}

/// `CONF.SET`, whose fields are borrowed as one list.
pub(super) fn set(database: &mut Database, clock: i64, command: &Command, log: &mut Vec<Write>) -> Reply {
    let mut arguments = Arguments::new(command);
    let key = &arguments.word();
    let done = notice(&mut arguments).and_then(|AssignmentNotice { e164, cmu, epoch }| {
        let seq = arguments.natural()?;
        let fields: Vec<&[u8]> = arguments.rest().collect();
        let request = Request::Unit(UnitRequest::Set(Set { e164, cmu, epoch, seq, fields: &fields }));
        database.answer(key, clock, log, &request, render)
    });
    done.unwrap_or_else(|refusal| reply::error(&refusal.to_string()))
}

/// What is wrong with the acceptance of a `CONF.SET`: only the owner may write, at its epoch.
pub(super) fn stale_write(database: &Database, command: &Command, reply: &Reply) -> Option<String> {
    let (key, e164, cmu, epoch) = (command.get(1)?, command.get(2)?, command.get(3)?, command.get(4)?);
    let realm = database.realms.get(key).filter(|_| !matches!(reply, Reply::ServerError(_)))?;
    let conference = realm.conference_called(e164)?;
    let owner = conference.owner.and_then(|unit| realm.unit(unit));
    let is_owner = owner.is_some_and(|owner| *owner.cmu == *cmu);
    let is_current = conference.epoch.to_string().as_bytes() == epoch;
    (!is_owner || !is_current).then(|| {
        format!("{} was written by {} at {}", e164.escape_ascii(), cmu.escape_ascii(), epoch.escape_ascii())
    })
}

fn notice<'a>(arguments: &mut Arguments<'a>) -> Result<AssignmentNotice<'a>, Refusal> {
    let (e164, cmu) = (arguments.text(), arguments.text());
    Ok(AssignmentNotice { e164, cmu, epoch: arguments.natural()? })
}

fn changes(arguments: &mut Arguments<'_>) -> Result<Changes, Refusal> {
    Ok(Changes {
        licences: arguments.integer_after("LICENCES")?,
        retry: arguments.integer_after("RETRY")?,
        window: arguments.integer_after("WINDOW")?,
        policy: None,
        create_timeout: arguments.integer_after("CREATETIMEOUT")?,
        release_timeout: arguments.integer_after("RELEASETIMEOUT")?,
        wait_timeout: arguments.integer_after("WAITTIMEOUT")?,
        tombstone: arguments.integer_after("TOMBSTONE")?,
        placement: None,
        tries: arguments.integer_after("TRIES")?,
        failures: arguments.integer_after("FAILURES")?,
        warn: arguments.integer_after("WARN")?,
        ramp: arguments.integer_after("RAMP")?,
    })
}

fn create<'a>(arguments: &mut Arguments<'a>) -> Result<Create<'a>, Refusal> {
    Ok(Create {
        e164: arguments.text(),
        start: arguments.integer_after("START")?,
        end: arguments.integer_after("END")?,
        size: arguments.integer_after("SIZE")?.unwrap_or(1),
        licences: arguments.integer_after("LICENCES")?.unwrap_or(1),
        priority: arguments.integer_after("PRIORITY")?.unwrap_or(0),
        wishes: WishesRequest { zone: Some(arguments.text_after("ZONE")), ..WishesRequest::default() },
        recoverable: !arguments.flag("NORECOVER"),
        waits: false,
        request: arguments.text_after("REQUEST"),
        called_from: None,
    })
}

fn render(realm: &Realm, _: i64, reply: &Outcome) -> Reply {
    match reply {
        Outcome::Ok => Reply::Okay,
        Outcome::Released => reply::text("RELEASE"),
        Outcome::Integer(number) => Reply::Int(*number),
        Outcome::Realm => realm_record(realm),
        Outcome::Conference(e164) => conference_record(realm, e164),
        Outcome::Unit(cmu) => realm.unit_called(cmu).map_or(Reply::Nil, unit_record),
        // No program reads a field of it.
        Outcome::Host(_) => reply::record([]),
        Outcome::Refused(refusal) => reply::error(&refusal.to_string()),
        Outcome::Reported(reported) => reported_record(reported),
        Outcome::Grants(grants) => Reply::Array(
            grants
                .iter()
                .map(|grant| {
                    let (e164, cmu) = (reply::text(&*grant.e164), reply::text(&*grant.cmu));
                    Reply::Array(vec![e164, cmu, reply::number(grant.epoch)])
                })
                .collect(),
        ),
        Outcome::Rebalanced(moves) => Reply::Array(
            moves
                .iter()
                .map(|planned| {
                    let names = [&planned.e164[..], &planned.from, &planned.to];
                    Reply::Array(names.map(reply::text).to_vec())
                })
                .collect(),
        ),
        Outcome::Moves(moves, left) => {
            reply::record([("moves", Reply::Int(*moves)), ("left", Reply::Int(*left))])
        }
    }
}

fn realm_record(realm: &Realm) -> Reply {
    let (term, leader) = realm.leader();
    reply::record([
        ("licences", reply::number(realm.settings().licences)),
        ("licences_used", reply::number(realm.licences_used())),
        ("term", reply::number(term)),
        ("leader", leader.map_or(Reply::Nil, reply::text)),
        ("last_epoch", reply::number(realm.last_epoch())),
    ])
}

fn conference_record(realm: &Realm, e164: &[u8]) -> Reply {
    let Some(conference) = realm.conference_called(e164) else { return Reply::Nil };
    let owner = conference.owner.and_then(|unit| realm.unit(unit));
    reply::record([
        ("e164", reply::text(e164)),
        ("state", reply::text(conference.state.word())),
        ("cmu", owner.map_or(Reply::Nil, |unit| reply::text(&*unit.cmu))),
        ("epoch", reply::number(conference.epoch)),
    ])
}

fn unit_record(unit: &Unit) -> Reply {
    let conflict = unit.conflict.as_ref();
    reply::record([
        ("used", reply::number(unit.used)),
        ("failures", reply::number(unit.failures)),
        ("backoff_until", unit.backoff_until.map_or(Reply::Nil, reply::number)),
        ("conflict", conflict.map_or(Reply::Nil, |conflict| reply::text(&*conflict.machine))),
        ("cmu", reply::text(&*unit.cmu)),
        ("state", reply::text(unit.word())),
        ("lease", Reply::Int(unit.lease)),
        ("conferences", reply::number(unit.owned.len())),
    ])
}

fn reported_record(reported: &Reported) -> Reply {
    let adopted = reported.adopted.iter().map(|(e164, old, new)| {
        Reply::Array(vec![reply::text(&**e164), reply::number(*old), reply::number(*new)])
    });
    reply::record([
        ("kept", Reply::Int(reported.kept)),
        ("adopted", Reply::Array(adopted.collect())),
        ("released", reply::texts(reported.released.iter().map(|e164| &**e164))),
        ("ended", reply::texts(reported.ended.iter().map(|e164| &**e164))),
        ("lost", reply::texts(reported.lost.iter().map(|e164| &**e164))),
    ])
}

fn stat(realm: &Realm) -> Reply {
    let totals = realm.totals();
    let [waiting, creating, open, pending, ended, scheduled] = totals.states.map(reply::number);
    let [up, suspect, unreachable, down] = totals.units.map(reply::number);
    reply::record([
        ("waiting", waiting),
        ("creating", creating),
        ("open", open),
        ("lost", reply::number(totals.lost)),
        ("pending", pending),
        ("scheduled", scheduled),
        ("ended", ended),
        ("up", up),
        ("suspect", suspect),
        ("unreachable", unreachable),
        ("down", down),
        ("draining", reply::number(totals.draining)),
        ("backoff", reply::number(totals.backoff)),
    ])
}
