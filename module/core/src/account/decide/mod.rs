//! Decides requests and deadlines: checks every limit, and changes nothing. `inventory` decides the requests of the
//! leader and of operators, `logins` the requests of instances. `assign` and `rebalance` choose instances.

pub mod assign;
mod inventory;
mod logins;
mod lookups;
mod needs;
pub mod pick;
mod places;
pub mod rebalance;

pub use self::lookups::{MAX_BATCH, known_account, known_instance, known_module};

use self::inventory::{
    decide_add, decide_attach, decide_department, decide_detach, decide_freeze, decide_limit, decide_module,
    decide_remove_module, decide_reprice,
};
use self::lookups::known_once;
use crate::account::event::{AccountEvent, Event, Events};
use crate::account::model::record::{Account, AccountState, Epoch};
use crate::account::model::state::{Book, MAX_DAILY_MOVES, MAX_LEVEL, MAX_TIME, MAX_TURNS, Settings};
use crate::account::model::tariff::{Amount, MAX_COUNT};
use crate::account::outcome::{Decided, Decision, Reply, Shift, decided, refuse, unchanged};
use crate::account::request::{Changes, InstanceRequest, ManagerRequest, Request};
use crate::shared::Millis;
use crate::shared::counter::Counter;
use crate::shared::fence;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_ttl};

/// The most moves of one rebalancing.
pub const MAX_MOVES: i64 = 1000;
/// The most moves if the request gives no number.
pub const USUAL_MOVES: i64 = 100;

/// Decides a request at `now`, which is not before the last time applied.
///
/// # Errors
/// A refusal, with its error code and text.
pub fn decide(book: &Book, now: Millis, request: &Request<'_>) -> Decided {
    book.counters().iter().try_for_each(Counter::check_room)?;
    match request {
        Request::Manager(term, request) => {
            fence::check_term(book.term, *term)?;
            decide_management(book, now, request)
        }
        Request::Instance(request) => decide_work(book, now, request),
    }
}

fn decide_management(book: &Book, now: Millis, request: &ManagerRequest<'_>) -> Decided {
    match request {
        ManagerRequest::Configure(changes) => {
            let settings = book.settings.with(changes, now)?;
            if settings == book.settings {
                return unchanged(Reply::Book);
            }
            decided(Event::Configured(settings), Reply::Book)
        }
        ManagerRequest::Claim { term, leader, force } => decide_claim(book, *term, leader, *force),
        ManagerRequest::Module(settings) => decide_module(book, settings),
        ManagerRequest::RemoveModule { module } => decide_remove_module(book, module),
        ManagerRequest::Department { department, cap } => decide_department(book, department, *cap),
        ManagerRequest::Reprice { tariff, accounts } => decide_reprice(book, tariff, accounts),
        ManagerRequest::Add { module, department, tariff, turn, accounts } => {
            decide_add(book, (*module, *department), tariff, *turn, accounts)
        }
        ManagerRequest::Del { accounts } => {
            let accounts = known_once(book, accounts, |_| true)?;
            let count = Reply::Integer(accounts.len() as i64);
            decided(Event::Deleted { accounts }, count)
        }
        ManagerRequest::Move { module, accounts } => {
            let (id, module) = known_module(book, module)?;
            for &account in accounts {
                if book.destination(known_account(book, account)?).is_none() {
                    let text = format!("account {} is being deleted", quoted(account));
                    return refuse(Code::BadState, text);
                }
            }
            let accounts = known_once(book, accounts, |account| book.moves_to(account, id))?;
            let count = Reply::Integer(accounts.len() as i64);
            if accounts.is_empty() {
                return unchanged(count);
            }
            decided(Event::Rehomed { module: module.name.clone(), accounts }, count)
        }
        ManagerRequest::Freeze { account, on, until } => decide_freeze(book, now, account, *on, *until),
        ManagerRequest::Limit { cap, turn, accounts } => decide_limit(book, *cap, *turn, accounts),
        ManagerRequest::Attach { module, instance } => decide_attach(book, now, module, instance),
        ManagerRequest::Detach { module, instance, grace } => {
            decide_detach(book, now, module, instance, *grace)
        }
        ManagerRequest::Raise { epoch, account } => decide_raise(book, now, *epoch, *account),
        ManagerRequest::Rebalance { dry_run, max_moves } => {
            if !(1..=MAX_MOVES).contains(max_moves) {
                return refuse(Code::Err, format!("MAXMOVES must be 1 to {MAX_MOVES}, not {max_moves}"));
            }
            let shifts = book.rebalance(now, *max_moves as usize);
            let events = if *dry_run { Events::new() } else { shifts.iter().map(Shift::event).collect() };
            Ok(Decision { events, reply: Reply::Moves(shifts) })
        }
    }
}

fn decide_work(book: &Book, now: Millis, request: &InstanceRequest<'_>) -> Decided {
    match request {
        InstanceRequest::Login { account, instance, terminal, ttl } => {
            logins::decide_login(book, now, known_account(book, account)?, instance, terminal, *ttl)
        }
        InstanceRequest::Renew { account, epoch, ttl } => {
            check_ttl(*ttl)?;
            logins::decide_renew(now, known_account(book, account)?, *epoch, *ttl)
        }
        InstanceRequest::Logout { account, epoch, back, term } => {
            fence::check_term(book.term, *term)?;
            logins::decide_logout(now, known_account(book, account)?, *epoch, *back)
        }
        InstanceRequest::Pick { module, instance, count } => {
            pick::decide_pick(book, module, instance, *count)
        }
        InstanceRequest::Use { account, epoch, count } => {
            let account = known_account(book, account)?;
            after_turn(book, now, account, |account| logins::decide_use(book, now, account, *epoch, *count))
        }
        InstanceRequest::Report { account, epoch, total } => {
            let Some(known) = book.reported(account, *epoch) else {
                return refuse(Code::NotFound, format!("there is no account {}", quoted(account)));
            };
            after_turn(book, now, known, |known| logins::decide_report(book, known, *epoch, *total))
        }
    }
}

/// Decides a use of an account. If its own month is over, and this was not carried out yet, the next one begins before:
/// what is counted now belongs to it.
fn after_turn(
    book: &Book,
    now: Millis,
    account: &Account,
    decide: impl FnOnce(&Account) -> Decided,
) -> Decided {
    if book.turns_at(account).is_none_or(|turn| turn > now) {
        return decide(account);
    }
    let mut turned = account.clone();
    turned.tally.turn();
    let mut decision = decide(&turned)?;
    // A deleted account turns with what is counted.
    if !decision.events.is_empty() && book.account_called(&account.name).is_some() {
        decision.events.insert(0, account.event(AccountEvent::Turned));
    }
    Ok(decision)
}

/// The events of deadlines up to `now`, at most `limit`; if there are none, a step of assignment of at most `limit`
/// accounts.
pub fn decide_due(book: &Book, now: Millis, limit: usize) -> Events {
    if !book.has_room() {
        return Events::new();
    }
    let events = decide_over(book, now, limit);
    // The assignment depends on the state after these events.
    if events.is_empty() { book.decide_assignment(limit) } else { events }
}

/// The events of deadlines up to `now`, at most `limit`: ends of months of the book and of accounts, of logins, of
/// freezes, and of kept places.
pub fn decide_over(book: &Book, now: Millis, limit: usize) -> Events {
    let mut events = Events::new();
    if !book.has_room() {
        return events;
    }
    let turns = book.settings.turns.iter().take_while(|&&turn| turn <= now).count();
    events.extend((0..turns).map(|_| Event::MonthTurned));
    // The end of a month of the book sets the turns of accounts.
    if turns == 0 {
        let turned = book.cycles.due(now, limit).into_iter().filter_map(|id| book.indexed(id));
        events.extend(turned.map(|account| account.event(AccountEvent::Turned)));
    }
    for id in book.logins.due(now, limit) {
        if let Some(account) = book.indexed(id) {
            events.push(account.event(AccountEvent::LoggedOut { lapsed: true }));
        }
    }
    let thawed = book.thaws.due(now, limit).into_iter().filter_map(|id| book.indexed(id));
    events.extend(thawed.map(|account| account.event(AccountEvent::Thawed)));
    events.extend(book.gone(&book.away.due(now, limit)));
    events
}

impl Settings {
    /// These settings with the given changes.
    ///
    /// # Errors
    /// `ERR` if a setting is out of range.
    pub fn with(&self, changes: &Changes, now: Millis) -> Result<Self, Refusal> {
        let mut settings = self.clone();
        let range = |name: &str, value: i64, most: i64| {
            if (0..=most).contains(&value) {
                return Ok(value);
            }
            refuse(Code::Err, format!("{name} must be 0 to {most}, not {value}"))
        };
        if let Some(cap) = changes.cap {
            settings.cap = range("CAP", cap, MAX_COUNT as i64)?.unsigned_abs();
        }
        if let Some(dwell) = changes.dwell {
            settings.dwell = range("DWELL", dwell, MAX_TTL)?;
        }
        if let Some(moves) = changes.max_moves {
            settings.max_moves = range("MAXMOVES", moves, MAX_DAILY_MOVES.into())? as u32;
        }
        if let Some(margin) = changes.margin {
            if margin > Amount::MAX_PRICE {
                return refuse(Code::Err, "MARGIN must be less than a billion");
            }
            settings.margin = margin;
        }
        if let Some(level) = changes.lend_level {
            settings.lend_level = range("LENDLEVEL", level, MAX_LEVEL.into())? as u32;
        }
        if let Some(events) = changes.events {
            settings.events = range("EVENTS", events, u32::MAX.into())? as u32;
        }
        if changes.months && changes.turns.is_some() {
            return refuse(
                Code::Err,
                "TURNS sets the ends of months, and MONTHS gives them to leaders: send one",
            );
        }
        if changes.calendar_turns.is_some() && !settings.calendar {
            let text = "an operator has set the ends of months by TURNS: send MONTHS to give them to leaders";
            return refuse(Code::BadState, text);
        }
        settings.calendar = changes.months || settings.calendar && changes.turns.is_none();
        if let Some(turns) = changes.turns.as_ref().or(changes.calendar_turns.as_ref()) {
            let rises = turns.is_sorted_by(|turn, next| turn < next);
            let within = turns.iter().all(|&turn| turn > now && turn <= MAX_TIME);
            if !rises || !within || turns.len() > MAX_TURNS {
                let text = format!("TURNS must be 1 to {MAX_TURNS} times that are yet to come, rising");
                return refuse(Code::Err, text);
            }
            settings.turns.clone_from(turns);
        }
        Ok(settings)
    }
}

/// How far an epoch may be ahead of the clock, in milliseconds: more than the clocks of two servers differ.
const EPOCH_LEAD: Millis = 24 * 3_600_000;

/// Decides that later epochs are greater than `epoch`, which the book may have given out and lost in a failover.
fn decide_raise(book: &Book, now: Millis, epoch: Epoch, account: Option<&[u8]>) -> Decided {
    let latest = now.saturating_add(EPOCH_LEAD).unsigned_abs().saturating_mul(1000);
    if epoch > latest {
        return refuse(Code::Err, format!("the epoch must be at most {latest}, a day ahead, not {epoch}"));
    }
    Counter::new("last epoch", epoch).check_room()?;
    let account = account.map(|account| known_account(book, account)).transpose()?;
    let older = |account: &&Account| account.state == AccountState::Assigned && account.epoch <= epoch;
    // Whoever has the account by the epoch can report what it has sent since.
    let again = |account: &Account| {
        let lost = if account.epoch == epoch { 0 } else { epoch };
        account.event(AccountEvent::Reassigned { lost })
    };
    let raised = (book.last_epoch < epoch).then_some(Event::EpochRaised { epoch });
    let again = account.filter(older).map(again);
    let events: Events = raised.into_iter().chain(again).collect();
    let reply = Reply::Integer(i64::from(!events.is_empty()));
    Ok(Decision { events, reply })
}

fn decide_claim(book: &Book, term: u64, leader: &[u8], force: bool) -> Decided {
    let leader = fence::check_claim((book.term, book.leader.as_deref()), (term, leader), force)?;
    decided(Event::Claimed { term, leader }, Reply::Book)
}
