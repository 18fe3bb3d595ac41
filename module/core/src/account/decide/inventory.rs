//! Requests of the leader and of operators: modules, accounts, instances.

use std::collections::{BTreeMap, BTreeSet};

use super::lookups::{check_batch, known_account, known_instance, known_module, known_once};
use crate::account::event::{AccountEvent, Event, Events, InstanceEvent};
use crate::account::model::place::{Instance, MAX_MIN, MAX_PLACES, Module, Policy, Presence};
use crate::account::model::record::{AccountState, Goal, LAST_TURN, Name};
use crate::account::model::state::{Book, MAX_TIME, levels_of};
use crate::account::model::tariff::{MAX_COUNT, Tariff};
use crate::account::outcome::{Decided, Decision, Reply, decided, refuse, unchanged};
use crate::account::request::ModuleSettings;
use crate::shared::refusal::{Code, Refusal, try_again};
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_identifier};
use crate::shared::{Bytes, Millis};
use smallvec::smallvec;

pub(super) fn decide_module(book: &Book, settings: &ModuleSettings<'_>) -> Decided {
    for (what, name) in [("module", settings.module), ("DEPARTMENT", settings.department)] {
        check_identifier(what, name)?;
        if name == b"*" {
            let text = format!("{what} must not be '*', which stands for all: choose another name");
            return refuse(Code::Err, text);
        }
    }
    let known = book.find_module(settings.module).and_then(|id| Some((id, book.indexed_module(id)?)));
    let numbers = [
        ("INSTANCES", Some(settings.instances), 0),
        ("WEIGHT", settings.weight, known.map_or(1, |(_, module)| module.weight)),
        ("RESERVE", settings.reserve, known.map_or(0, |(_, module)| module.reserve)),
    ];
    let mut values = [0u32; 3];
    for (value, (name, wanted, usual)) in values.iter_mut().zip(numbers) {
        let wanted = wanted.unwrap_or(i64::from(usual));
        if !(0..=MAX_PLACES).contains(&wanted) {
            return refuse(Code::Err, format!("{name} must be 0 to {MAX_PLACES}, not {wanted}"));
        }
        *value = wanted as u32;
    }
    let [places, weight, reserve] = values;
    let policy = changed_policy(known.map(|(_, module)| module.policy).unwrap_or_default(), settings)?;
    let name = Name::from(settings.module);
    let department = Name::from(settings.department);
    let same = known.is_some_and(|(_, module)| {
        (module.places, module.weight, module.reserve) == (places, weight, reserve)
            && (&module.department, module.policy) == (&department, policy)
    });
    let mut events = Events::new();
    if !same {
        events.push(Event::Defined { module: name.clone(), department, places, weight, reserve, policy });
    }
    if let Some((id, _)) = known {
        events.extend(book.place_changes(id, places as usize));
    }
    Ok(Decision { events, reply: Reply::Module(name) })
}

/// The further settings of a module with the given changes.
fn changed_policy(mut policy: Policy, settings: &ModuleSettings<'_>) -> Result<Policy, Refusal> {
    if let Some(min) = settings.min {
        if !(0..=i64::from(MAX_MIN)).contains(&min) {
            return refuse(Code::Err, format!("MIN must be 0 to {MAX_MIN}, not {min}"));
        }
        policy.min = min as u32;
    }
    if let Some(lend) = settings.lend {
        if !(0..=MAX_TTL).contains(&lend) {
            return refuse(Code::Err, format!("LEND must be 0 to {MAX_TTL} ms, not {lend}"));
        }
        policy.lend = lend;
    }
    if let Some(cap) = settings.cap {
        policy.cap = checked_count("CAP", cap)?;
    }
    if let Some(need) = settings.need {
        policy.need = checked_count("NEED", need)?;
    }
    policy.share = settings.share.unwrap_or(policy.share);
    Ok(policy)
}

/// A number of instructions in a month.
fn checked_count(option: &str, count: i64) -> Result<u64, Refusal> {
    if (0..=MAX_COUNT as i64).contains(&count) {
        return Ok(count.unsigned_abs());
    }
    refuse(Code::Err, format!("{option} must be 0 to {MAX_COUNT}, not {count}"))
}

pub(super) fn decide_department(book: &Book, department: &[u8], cap: i64) -> Decided {
    check_identifier("department", department)?;
    let (department, cap) = (Name::from(department), checked_count("CAP", cap)?);
    let reply = Reply::Department(department.clone());
    if book.budget(&department).map_or(0, |budget| budget.cap) == cap {
        return unchanged(reply);
    }
    decided(Event::DepartmentCapped { department, cap }, reply)
}

pub(super) fn decide_remove_module(book: &Book, module: &[u8]) -> Decided {
    let (id, module) = known_module(book, module)?;
    if !book.is_unused(id) {
        let (name, (accounts, _)) = (quoted(&module.name), module.counts());
        let instances = module.instances().count();
        let text = format!(
            "module {name} has {accounts} accounts and {instances} instances: delete or move the accounts, and \
             detach the instances first"
        );
        return refuse(Code::BadState, text);
    }
    decided(Event::ModuleRemoved { module: module.name.clone() }, Reply::Ok)
}

pub(super) fn decide_reprice(book: &Book, tariff: &Tariff, accounts: &[&[u8]]) -> Decided {
    if let Some(fault) = tariff.fault() {
        return refuse(Code::Err, fault);
    }
    let accounts = known_once(book, accounts, |account| *account.tariff != *tariff)?;
    let reply = Reply::Integer(accounts.len() as i64);
    if accounts.is_empty() {
        return unchanged(reply);
    }
    decided(Event::Repriced { tariff: tariff.clone(), accounts }, reply)
}

/// A day of a month of the book.
fn checked_turn(day: i64) -> Result<u32, Refusal> {
    if (1..=i64::from(LAST_TURN)).contains(&day) {
        return Ok(day as u32);
    }
    refuse(Code::Err, format!("TURN must be a day from 1 to {LAST_TURN}, not {day}"))
}

pub(super) fn decide_add(
    book: &Book,
    (module, department): (Option<&[u8]>, Option<&[u8]>),
    tariff: &Tariff,
    turn: Option<i64>,
    accounts: &[&[u8]],
) -> Decided {
    if let Some(fault) = tariff.fault() {
        return refuse(Code::Err, fault);
    }
    check_batch(accounts)?;
    let mut seen = BTreeSet::new();
    for &account in accounts {
        check_identifier("account", account)?;
        if book.find(account).is_some() || !seen.insert(account) {
            return refuse(Code::Exists, format!("account {} is there already", quoted(account)));
        }
    }
    let mut events = match module {
        Some(_) if department.is_some() => {
            let text =
                "DEPARTMENT says over which modules accounts are distributed: it needs '*' as the module";
            return refuse(Code::Err, text);
        }
        Some(module) => {
            let (_, module) = known_module(book, module)?;
            let (module, accounts) = (module.name.clone(), names(accounts));
            smallvec![Event::Added { module, tariff: tariff.clone(), accounts }]
        }
        None => distributed(book, department, tariff, accounts)?,
    };
    if let Some(day) = turn.map(checked_turn).transpose()? {
        let day_of = |name: &[u8]| book.deleted.get(name).map_or(1, |deleted| deleted.tally.day());
        let other: Vec<&[u8]> = accounts.iter().copied().filter(|name| day_of(name) != day).collect();
        events.extend((!other.is_empty()).then(|| Event::TurnSet { day, accounts: names(&other) }));
    }
    Ok(Decision { events, reply: Reply::Integer(accounts.len() as i64) })
}

fn names(accounts: &[&[u8]]) -> Vec<Bytes> {
    accounts.iter().map(|name| Bytes::from_slice(name)).collect()
}

/// Distributes accounts over the modules of a department, or over all modules.
fn distributed(
    book: &Book,
    department: Option<&[u8]>,
    tariff: &Tariff,
    accounts: &[&[u8]],
) -> Result<Events, Refusal> {
    // Each account goes to the module of which the smallest part of the need is covered before; if none lacks it, to the
    // module with the fewest instructions for its weight; of equal ones, to the module with the fewest accounts.
    let within = |module: &&Module| {
        department.is_none_or(|department| levels_of(&module.department).any(|level| level == department))
    };
    let modules: Vec<&Module> = book.modules().filter(within).collect();
    let share = |new: usize, place: usize| {
        let module = modules.get(place)?;
        let (new, quota, weight) = (new as u128, u128::from(tariff.quota), u128::from(module.weight));
        // Accounts that are frozen, or on their way to another module, cover nothing here.
        let now = u128::try_from(module.worth).unwrap_or(0);
        let (covered, need) = (now + new * quota, u128::from(module.policy.need));
        // A module without a weight gets no more than it needs. An account without a quota covers no need.
        let fits = if weight == 0 { covered + quota <= need } else { covered < need };
        let (lacks, instructions) = match quota {
            0 => (false, 0),
            _ if fits => (true, covered),
            _ => (false, covered + quota),
        };
        let divisor = if lacks { need } else { weight };
        let part = |number: u128| (number << 40).checked_div(divisor);
        let accounts = module.accounts.len() as u128 + new + 1;
        Some(((!lacks, part(instructions)?, part(accounts)?), place))
    };
    let mut order: BTreeSet<((bool, u128, u128), usize)> =
        (0..modules.len()).filter_map(|place| share(0, place)).collect();
    let mut parts: BTreeMap<usize, Vec<&[u8]>> = BTreeMap::new();
    for &account in accounts {
        let Some((_, place)) = order.pop_first() else {
            let of = department.map(|department| format!(" of department {}", quoted(department)));
            let text = format!(
                "no module{} has a WEIGHT above 0 or less than its NEED: set one of them to distribute accounts",
                of.unwrap_or_default()
            );
            return refuse(Code::NotFound, text);
        };
        let part = parts.entry(place).or_default();
        part.push(account);
        order.extend(share(part.len(), place));
    }
    let events = parts.iter().filter_map(|(&place, part)| {
        let module = modules.get(place)?.name.clone();
        Some(Event::Added { module, tariff: tariff.clone(), accounts: names(part) })
    });
    Ok(events.collect())
}

pub(super) fn decide_freeze(
    book: &Book,
    now: Millis,
    account: &[u8],
    on: bool,
    until: Option<Millis>,
) -> Decided {
    let account = known_account(book, account)?;
    let reply = Reply::Account(account.name.clone());
    if let Some(until) = until
        && (!on || !(now + 1..=MAX_TIME).contains(&until))
    {
        let text = format!("UNTIL must be a time after {now}, in milliseconds since 1970, and without OFF");
        return refuse(Code::Err, text);
    }
    if (account.state == AccountState::Frozen) == on && account.thaws_at() == until {
        return unchanged(reply);
    }
    if on && account.state == AccountState::Frozen {
        return decided(account.event(AccountEvent::Frozen { until }), reply);
    }
    if !on {
        return decided(account.event(AccountEvent::Thawed), reply);
    }
    if account.goal == Some(Goal::Delete) {
        // The account will be deleted, so no login is possible any more.
        return unchanged(reply);
    }
    let mut events: Events = smallvec![account.event(AccountEvent::Frozen { until })];
    events.extend(book.replacement(account));
    Ok(Decision { events, reply })
}

pub(super) fn decide_limit(book: &Book, cap: Option<i64>, turn: Option<i64>, accounts: &[&[u8]]) -> Decided {
    if cap.is_none() && turn.is_none() {
        return refuse(
            Code::Err,
            "CAP or TURN must be given: the most instructions in a month, or its first day",
        );
    }
    let mut events = Events::new();
    let mut changed = BTreeSet::new();
    if let Some(cap) = cap {
        let cap = checked_count("CAP", cap)?;
        let accounts = known_once(book, accounts, |account| account.cap != cap)?;
        changed.extend(accounts.iter().cloned());
        events.extend((!accounts.is_empty()).then_some(Event::Limited { cap, accounts }));
    }
    if let Some(turn) = turn {
        let day = checked_turn(turn)?;
        let accounts = known_once(book, accounts, |account| account.tally.day() != day)?;
        changed.extend(accounts.iter().cloned());
        events.extend((!accounts.is_empty()).then_some(Event::TurnSet { day, accounts }));
    }
    Ok(Decision { events, reply: Reply::Integer(changed.len() as i64) })
}

pub(super) fn decide_attach(book: &Book, now: Millis, module: &[u8], instance: &[u8]) -> Decided {
    let (id, module) = known_module(book, module)?;
    check_identifier("instance", instance)?;
    let name = Name::from(instance);
    let reply = Reply::Instance(module.name.clone(), name.clone());
    let known = book.find_instance(id, instance).and_then(|id| book.indexed_instance(id));
    check_place(known, now)?;
    let active = match known.map(|known| known.presence) {
        Some(Presence::Active | Presence::Standby) => return unchanged(reply),
        Some(Presence::Away) => true,
        Some(Presence::Leaving) | None => book.places_taken(id).0 < module.places as usize,
    };
    decided(Event::Attached { module: module.name.clone(), instance: name, active }, reply)
}

/// Refuses an instance whose place is kept no longer: that is about to be carried out.
fn check_place(instance: Option<&Instance>, now: Millis) -> Result<(), Refusal> {
    if instance.and_then(|instance| instance.away_until).is_some_and(|until| until <= now) {
        return try_again(|_| 1);
    }
    Ok(())
}

pub(super) fn decide_detach(
    book: &Book,
    now: Millis,
    module: &[u8],
    instance: &[u8],
    grace: Millis,
) -> Decided {
    if !(0..=MAX_TTL).contains(&grace) {
        return refuse(Code::Err, format!("GRACE must be 0 to {MAX_TTL} ms, not {grace}"));
    }
    let (module_id, module) = known_module(book, module)?;
    let (id, known) = known_instance(book, module_id, module, instance)?;
    check_place(Some(known), now)?;
    if known.presence == Presence::Leaving {
        return unchanged(Reply::Ok);
    }
    let until = now.saturating_add(grace);
    if known.has_place() && grace > 0 {
        if known.away_until == Some(until) {
            return unchanged(Reply::Ok);
        }
        let (module, instance) = (module.name.clone(), known.name.clone());
        return decided(InstanceEvent::Away { until }.of(module, instance), Reply::Ok);
    }
    Ok(Decision { events: book.gone(&[id]), reply: Reply::Ok })
}
