//! What happens when something is asked of a book, or when its time has come. Looks, checks every limit, and changes
//! nothing. `logins` has what those ask who work with accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Event, Events};
use super::logins;
use super::place::{Instance, MAX_PLACES, Module, Presence};
use super::read::Used;
use super::rebalance::Shift;
use super::record::{Account, Goal, Name, Standing};
use super::request::{Changes, ModuleWish, Request};
use super::state::{Book, Settings};
use super::tariff::{MAX_COUNT, Tariff};
use crate::invariant;
use crate::shared::decision;
use crate::shared::fence::{self, MAX_TIME};
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_identifier, check_ttl};
use crate::shared::{Bytes, Millis};
use smallvec::smallvec;

pub(super) use crate::shared::refusal::refuse;

/// The most turns of the month that are kept ahead.
const MAX_TURNS: usize = 120;
/// The most accounts of a batch.
pub const MAX_BATCH: usize = 10_000;
/// The most moves of one rebalancing.
pub const MAX_MOVES: i64 = 1000;
/// How many it makes where nobody says how many.
pub const USUAL_MOVES: i64 = 100;

/// What happens, and what the caller is told.
pub type Decision = decision::Decision<Event, Reply>;

/// What the caller hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, or no change.
    Ok,
    /// A count.
    Integer(i64),
    /// The book's record.
    Book,
    /// A module's record, by its name.
    Module(Name),
    /// An instance's record, by its names.
    Instance(Name, Name),
    /// An account's record, by its name.
    Account(Bytes),
    /// What was used.
    Used(Used),
    /// Who moves, and what each move avoids.
    Moves(Vec<Shift>),
}

/// A decision, or why there is none.
pub type Decided = decision::Decided<Event, Reply>;

pub(super) fn decided(event: Event, reply: Reply) -> Decision {
    Decision::event(event, reply)
}

pub(super) fn unchanged(reply: Reply) -> Decision {
    Decision::unchanged(reply)
}

/// Decides a request at `now`, which is not before the last time applied.
///
/// # Errors
/// What the specification refuses, in its codes.
pub fn decide(book: &Book, now: Millis, request: &Request<'_>) -> Decided {
    check_term(book, request)?;
    match request {
        Request::Configure(changes) => {
            let settings = book.settings.with(changes, now)?;
            if settings == book.settings {
                return Ok(unchanged(Reply::Book));
            }
            Ok(decided(Event::Configured(settings), Reply::Book))
        }
        Request::Claim { term, leader, force } => decide_claim(book, *term, leader, *force),
        Request::Module(wish) => decide_module(book, wish),
        Request::Add { module, tariff, accounts, .. } => decide_add(book, *module, tariff, accounts),
        Request::Del { accounts, .. } => {
            let accounts = known_once(book, accounts, |_| true)?;
            let count = Reply::Integer(accounts.len() as i64);
            Ok(decided(Event::Deleted { accounts }, count))
        }
        Request::Move { module, accounts, .. } => {
            let (id, module) = known_module(book, module)?;
            for &account in accounts {
                if book.destination(known_account(book, account)?).is_none() {
                    let text = format!("account {} is being deleted", quoted(account));
                    return refuse(Code::BadState, text);
                }
            }
            let accounts = known_once(book, accounts, |one| book.destination(one) != Some(id))?;
            let count = Reply::Integer(accounts.len() as i64);
            if accounts.is_empty() {
                return Ok(unchanged(count));
            }
            Ok(decided(Event::Rehomed { module: module.name.clone(), accounts }, count))
        }
        Request::Freeze { account, on, .. } => decide_freeze(book, account, *on),
        Request::Attach { module, instance, .. } => decide_attach(book, module, instance),
        Request::Detach { module, instance, grace, .. } => decide_detach(book, now, module, instance, *grace),
        Request::Rebalance { dry_run, max_moves, .. } => {
            if !(1..=MAX_MOVES).contains(max_moves) {
                return refuse(Code::Err, format!("MAXMOVES must be 1 to {MAX_MOVES}, not {max_moves}"));
            }
            let shifts = book.rebalance(now, *max_moves as usize);
            let events = if *dry_run { Events::new() } else { shifts.iter().map(Shift::event).collect() };
            Ok(Decision { events, reply: Reply::Moves(shifts) })
        }
        Request::Login { account, instance, terminal, ttl } => {
            logins::decide_login(book, now, known_account(book, account)?, instance, terminal, *ttl)
        }
        Request::Renew { account, epoch, ttl } => {
            check_ttl(*ttl)?;
            logins::decide_renew(now, known_account(book, account)?, *epoch, *ttl)
        }
        Request::Logout { account, epoch, back, .. } => {
            Ok(logins::decide_logout(now, known_account(book, account)?, *epoch, *back))
        }
        Request::Use { account, epoch, count } => {
            logins::decide_use(book, now, known_account(book, account)?, *epoch, *count)
        }
    }
}

/// What is due at `now`, at most `limit` events; where nothing is, a step of dealing of at most `limit` accounts.
pub fn decide_due(book: &Book, now: Millis, limit: usize) -> Events {
    let events = decide_over(book, now, limit);
    // What is dealt depends on what comes of these.
    if events.is_empty() { book.decide_deal(limit) } else { events }
}

/// What is over at `now`, at most `limit` events: months, logins, and the time that the places of instances are kept.
pub fn decide_over(book: &Book, now: Millis, limit: usize) -> Events {
    let mut events = Events::new();
    let turns = book.settings.turns.iter().take_while(|&&turn| turn <= now).count();
    events.extend((0..turns).map(|_| Event::MonthTurned));
    for id in book.logins.due(now, limit) {
        if let Some(one) = book.indexed(id) {
            events.push(Event::LoggedOut { account: one.name.clone(), lapsed: true });
        }
    }
    events.extend(book.gone(&book.away.due(now, limit)));
    events
}

impl Settings {
    /// These settings with some changed.
    ///
    /// # Errors
    /// `ERR` for one that is out of range.
    pub fn with(&self, changes: &Changes, now: Millis) -> Result<Self, Refusal> {
        let mut settings = self.clone();
        let range = |name: &str, value: i64, least: i64, most: i64| {
            if (least..=most).contains(&value) {
                return Ok(value);
            }
            refuse(Code::Err, format!("{name} must be {least} to {most}, not {value}"))
        };
        if let Some(cap) = changes.cap {
            settings.cap = range("CAP", cap, 0, MAX_COUNT as i64)?.unsigned_abs();
        }
        if let Some(dwell) = changes.dwell {
            settings.dwell = range("DWELL", dwell, 0, MAX_TTL)?;
        }
        if let Some(moves) = changes.max_moves {
            settings.max_moves = range("MAXMOVES", moves, 0, 1000)? as u32;
        }
        if let Some(turns) = &changes.turns {
            let rises = turns.windows(2).all(|pair| matches!(pair, [one, next] if one < next));
            let within = turns.iter().all(|&turn| turn > now && turn <= MAX_TIME);
            if !rises || !within || turns.len() > MAX_TURNS {
                let text = format!("TURNS must be 1 to {MAX_TURNS} times that are yet to come, rising");
                return refuse(Code::Err, text);
            }
            settings.turns.clone_from(turns);
        }
        Ok(settings)
    }

    /// Whether a snapshot or an event may bring these settings.
    pub(super) fn is_sound(&self) -> bool {
        let rises = self.turns.windows(2).all(|pair| matches!(pair, [one, next] if one < next));
        let within = self.turns.iter().all(|turn| (0..=MAX_TIME).contains(turn));
        rises
            && within
            && self.turns.len() <= MAX_TURNS
            && self.cap <= MAX_COUNT
            && (0..=MAX_TTL).contains(&self.dwell)
            && self.max_moves <= 1000
    }
}

/// Refuses who is not the leader that claimed the book.
fn check_term(book: &Book, request: &Request<'_>) -> Result<(), Refusal> {
    let term = match request {
        Request::Module(wish) => wish.term,
        Request::Add { term, .. }
        | Request::Del { term, .. }
        | Request::Move { term, .. }
        | Request::Freeze { term, .. }
        | Request::Attach { term, .. }
        | Request::Detach { term, .. }
        | Request::Logout { term, .. }
        | Request::Rebalance { term, .. } => *term,
        _ => None,
    };
    fence::check_term(book.term, term)
}

fn decide_claim(book: &Book, term: u64, leader: &[u8], force: bool) -> Decided {
    let leader = fence::check_claim((book.term, book.leader.as_deref()), (term, leader), force)?;
    Ok(decided(Event::Claimed { term, leader }, Reply::Book))
}

fn decide_module(book: &Book, wish: &ModuleWish<'_>) -> Decided {
    for (what, name) in [("module", wish.module), ("DEPARTMENT", wish.department)] {
        check_identifier(what, name)?;
        if name == b"*" {
            let text = format!("{what} must not be '*', which stands for all: choose another name");
            return refuse(Code::Err, text);
        }
    }
    let known = book.find_module(wish.module).and_then(|id| Some((id, book.indexed_module(id)?)));
    let numbers = [
        ("INSTANCES", Some(wish.instances), 0),
        ("WEIGHT", wish.weight, known.map_or(1, |(_, module)| module.weight)),
        ("RESERVE", wish.reserve, known.map_or(0, |(_, module)| module.reserve)),
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
    let name = Name::from(wish.module);
    let department = Name::from(wish.department);
    if let Some((_, module)) = known
        && (module.places, module.weight, module.reserve) == (places, weight, reserve)
        && module.department == department
    {
        return Ok(unchanged(Reply::Module(name)));
    }
    let mut events: Events =
        smallvec![Event::Defined { module: name.clone(), department, places, weight, reserve }];
    if let Some((id, _)) = known {
        events.extend(book.place_changes(id, places as usize));
    }
    Ok(Decision { events, reply: Reply::Module(name) })
}

fn decide_add(book: &Book, module: Option<&[u8]>, tariff: &Tariff, accounts: &[&[u8]]) -> Decided {
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
    let reply = Reply::Integer(accounts.len() as i64);
    let names = |accounts: &[&[u8]]| accounts.iter().map(|name| Bytes::from_slice(name)).collect();
    if let Some(module) = module {
        let (_, module) = known_module(book, module)?;
        let module = module.name.clone();
        return Ok(decided(
            Event::Added { module, tariff: tariff.clone(), accounts: names(accounts) },
            reply,
        ));
    }
    // Each to the module that has fewest for its weight.
    let weighs = |&(_, module): &(usize, &Module)| module.weight > 0;
    let mut order: BTreeSet<(u128, usize)> = BTreeSet::new();
    let modules: Vec<&Module> = book.modules().collect();
    let share = |count: usize, module: &Module| ((count as u128 + 1) << 40) / u128::from(module.weight);
    for (place, module) in modules.iter().copied().enumerate().filter(weighs) {
        order.insert((share(module.accounts.len(), module), place));
    }
    if order.is_empty() {
        return refuse(Code::NotFound, "there is no module with a WEIGHT to distribute accounts by");
    }
    let mut parts: BTreeMap<usize, Vec<&[u8]>> = BTreeMap::new();
    for &account in accounts {
        let next = order.pop_first().and_then(|(_, place)| Some((place, modules.get(place)?)));
        let Some((place, module)) = next else {
            invariant!("each module with a weight has a place in the order");
            break;
        };
        let part = parts.entry(place).or_default();
        part.push(account);
        order.insert((share(module.accounts.len() + part.len(), module), place));
    }
    let events = parts.iter().filter_map(|(&place, part)| {
        let module = modules.get(place)?.name.clone();
        Some(Event::Added { module, tariff: tariff.clone(), accounts: names(part) })
    });
    Ok(Decision { events: events.collect(), reply })
}

fn decide_freeze(book: &Book, account: &[u8], on: bool) -> Decided {
    let one = known_account(book, account)?;
    let reply = Reply::Account(one.name.clone());
    if (one.standing == Standing::Frozen) == on {
        return Ok(unchanged(reply));
    }
    let name = one.name.clone();
    if !on {
        return Ok(decided(Event::Thawed { account: name }, reply));
    }
    if one.goal == Some(Goal::Delete) {
        // It is on its way out, and nobody can log in with it.
        return Ok(unchanged(reply));
    }
    // Somebody who is logged in is so until it is over, whatever the platform says: nobody else may be before.
    let event =
        if one.login.is_some() { Event::Halted { account: name } } else { Event::Frozen { account: name } };
    let mut events: Events = smallvec![event];
    events.extend(book.replacement(one));
    Ok(Decision { events, reply })
}

fn decide_attach(book: &Book, module: &[u8], instance: &[u8]) -> Decided {
    let (id, module) = known_module(book, module)?;
    check_identifier("instance", instance)?;
    let name = Name::from(instance);
    let reply = Reply::Instance(module.name.clone(), name.clone());
    let known = book.find_instance(id, instance).and_then(|id| book.indexed_instance(id));
    let active = match known.map(|known| known.presence) {
        Some(Presence::Active | Presence::Standby) => return Ok(unchanged(reply)),
        Some(Presence::Away) => true,
        Some(Presence::Leaving) | None => book.places_taken(id).0 < module.places as usize,
    };
    Ok(decided(Event::Attached { module: module.name.clone(), instance: name, active }, reply))
}

fn decide_detach(book: &Book, now: Millis, module: &[u8], instance: &[u8], grace: Millis) -> Decided {
    if !(0..=MAX_TTL).contains(&grace) {
        return refuse(Code::Err, format!("GRACE must be 0 to {MAX_TTL} ms, not {grace}"));
    }
    let (module_id, module) = known_module(book, module)?;
    let known = book.find_instance(module_id, instance);
    let Some((id, known)) = known.and_then(|id| Some((id, book.indexed_instance(id)?))) else {
        let text = format!("instance {} is not attached to {}", quoted(instance), quoted(&module.name));
        return refuse(Code::NotFound, text);
    };
    if known.presence == Presence::Leaving {
        return Ok(unchanged(Reply::Ok));
    }
    if known.presence == Presence::Active && grace > 0 {
        let (module, instance) = (module.name.clone(), known.name.clone());
        return Ok(decided(Event::Away { module, instance, until: now.saturating_add(grace) }, Reply::Ok));
    }
    // One that is away already keeps its time, unless it is to go now.
    if known.presence == Presence::Away && grace > 0 {
        return Ok(unchanged(Reply::Ok));
    }
    Ok(Decision { events: book.gone(&[id]), reply: Reply::Ok })
}

impl Book {
    /// Instances are gone for good, and those that stand by take their places. O(instances of their modules).
    fn gone(&self, ids: &[u32]) -> Events {
        let mut events = Events::new();
        let mut modules: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for &id in ids {
            if let Some(instance) = self.indexed_instance(id) {
                modules.entry(instance.module).or_default().insert(id);
                let module = self.module_name(instance.module);
                events.push(Event::Detached { module, instance: instance.name.clone() });
            }
        }
        for (id, gone) in modules {
            let (taken, waiting) = self.places_taken(id);
            let Some(module) = self.indexed_module(id) else { continue };
            let placed = |id: &&u32| self.indexed_instance(**id).is_some_and(Instance::has_place);
            let free = module.places as usize + gone.iter().filter(placed).count();
            let next = waiting.iter().filter(|id| !gone.contains(id));
            events.extend(next.take(free.saturating_sub(taken)).map(|&id| self.placed(module, id)));
        }
        events
    }

    /// What replaces an account that is frozen, at once and from the reserve if need be: where it is, or was on its way to.
    /// An instance that is away gets it as well, since its share waits for it.
    fn replacement(&self, one: &Account) -> Option<Event> {
        let place = match one.goal {
            None if one.standing == Standing::Dealt => one.instance,
            goal => Self::place_of(goal)?,
        };
        let place = self.indexed_instance(place).filter(|place| place.has_place())?;
        let module = self.indexed_module(place.module)?;
        let spare = module.free.first().and_then(|&id| self.indexed(id))?;
        let (module, instance) = (module.name.clone(), place.name.clone());
        Some(Event::Dealt { module, instance, accounts: vec![spare.name.clone()] })
    }

    /// An instance gets a place.
    fn placed(&self, module: &Module, id: u32) -> Event {
        Event::Placed { module: module.name.clone(), instance: self.instance_name(id), active: true }
    }

    /// Who gets a place and who loses one where a module has another number of them. Whoever came last goes first, and
    /// one that is away for good.
    fn place_changes(&self, id: u32, places: usize) -> Vec<Event> {
        let (taken, waiting) = self.places_taken(id);
        let Some(module) = self.indexed_module(id) else { return Vec::new() };
        if places >= taken {
            return waiting.iter().take(places - taken).map(|&id| self.placed(module, id)).collect();
        }
        let placed = |id: u32| self.indexed_instance(id).filter(|instance| instance.has_place());
        let all: Vec<&Instance> = module.instances().filter_map(placed).collect();
        let leave = all.iter().rev().take(taken - places).map(|one| {
            let (module, instance) = (module.name.clone(), one.name.clone());
            match one.presence {
                Presence::Away => Event::Detached { module, instance },
                _ => Event::Placed { module, instance, active: false },
            }
        });
        leave.collect()
    }

    /// The module that an account is on its way to, or belongs to; `None` where it is about to be deleted.
    pub(super) fn destination(&self, one: &Account) -> Option<u32> {
        match one.goal {
            Some(Goal::Delete) => None,
            Some(Goal::Module(module)) => Some(module),
            Some(Goal::Place(place)) => {
                // Its instance is not forgotten while an account is on its way to it.
                Some(self.indexed_instance(place).map_or(one.module, |place| place.module))
            }
            Some(Goal::Deal) | None => Some(one.module),
        }
    }
}

fn check_batch(accounts: &[&[u8]]) -> Result<(), Refusal> {
    if (1..=MAX_BATCH).contains(&accounts.len()) {
        return Ok(());
    }
    refuse(Code::Err, format!("a batch has 1 to {MAX_BATCH} accounts, not {}", accounts.len()))
}

/// Accounts of a batch that are not what they are to be, each once. All must be known.
fn known_once(
    book: &Book,
    accounts: &[&[u8]],
    changes: impl Fn(&Account) -> bool,
) -> Result<Vec<Bytes>, Refusal> {
    check_batch(accounts)?;
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for &account in accounts {
        let one = known_account(book, account)?;
        if seen.insert(account) && changes(one) {
            names.push(one.name.clone());
        }
    }
    Ok(names)
}

pub(super) fn known_account<'a>(book: &'a Book, account: &[u8]) -> Result<&'a Account, Refusal> {
    book.account_called(account)
        .ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no account {}", quoted(account))))
}

pub(super) fn known_module<'a>(book: &'a Book, module: &[u8]) -> Result<(u32, &'a Module), Refusal> {
    let known = book.find_module(module).and_then(|id| Some((id, book.indexed_module(id)?)));
    known.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no module {}", quoted(module))))
}
