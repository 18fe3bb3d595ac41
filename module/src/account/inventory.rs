//! The `ACCOUNT.*` commands of operators: the book, its modules, and its accounts.

use allot_core::account::place::Share;
use allot_core::account::request::{Changes, ModuleSettings};
use allot_core::account::tariff::{Amount, Step, Tariff};
use allot_core::account::{Book, Event, ManagerRequest, Settings};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::writes::answer_manager;
use crate::engine::argument::Argument;
use crate::engine::outbox::check_stream;
use crate::engine::step::{self, answer};
use crate::engine::word::{integer, natural};
use crate::engine::{Call, Done};

/// `ACCOUNT.BOOK key [CAP n] [DWELL ms] [MAXMOVES n] [MARGIN cost] [LENDLEVEL n] [EVENTS n] [MONTHS] [TERM t]
/// [TURNS ms ms ...]`
pub(super) fn book(
    call: &Call<'_>,
    [_, cap, dwell, max_moves, margin, lend_level, events, months, term, turns]: &[Argument<'_>; 10],
) -> Done {
    let term = term.optional_natural();
    let turns: Option<Vec<i64>> =
        turns.optional_words().map(|turns| turns.iter().filter_map(|turn| integer(turn)).collect());
    let (turns, calendar_turns) = if term.is_some() { (None, turns) } else { (turns, None) };
    let changes = Changes {
        cap: cap.optional_integer(),
        dwell: dwell.optional_integer(),
        max_moves: max_moves.optional_integer(),
        turns,
        calendar_turns,
        months: months.is_given(),
        margin: margin.optional_text().map(|text| amount("MARGIN", text)).transpose()?,
        lend_level: lend_level.optional_integer(),
        events: events.optional_integer(),
    };
    let name = call.key()?;
    if changes.events.is_some_and(|events| events > 0) {
        check_stream(call.ctx, name, "EVENTS")?;
    }
    if term.is_some() || step::exists::<Book>(call.ctx, name)? {
        return answer::<Book>(call, &ManagerRequest::Configure(changes).in_term(term));
    }
    let settings = Settings::default().with(&changes, call.ctx.clock())?;
    step::create::<Book>(call.ctx, name, &Event::Opened(settings))?;
    answer::<Book>(call, &ManagerRequest::Configure(changes).in_term(term))
}

/// An amount of money that an option names.
fn amount(option: &str, text: &[u8]) -> Result<Amount, Refusal> {
    Amount::parse_price(text).ok_or_else(|| {
        let why = "a price is a decimal number below a billion, with at most nine digits behind the point";
        Refusal::new(Code::Err, format!("{option}: {why}, not {}", quoted(text)))
    })
}

/// `ACCOUNT.TERM key term leader [FORCE]`
pub(super) fn claim(call: &Call<'_>, [_, term, leader, force]: &[Argument<'_>; 4]) -> Done {
    let (term, leader) = (term.natural(), leader.text());
    answer::<Book>(call, &ManagerRequest::Claim { term, leader, force: force.is_given() }.into())
}

/// `ACCOUNT.MODULE key module DEPARTMENT d INSTANCES n [WEIGHT w] [RESERVE n] [MIN n] [SHARE places|present]
/// [LEND ms] [CAP n] [NEED n] [TERM t]`
pub(super) fn module(
    call: &Call<'_>,
    [_, module, department, instances, weight, reserve, min, share, lend, cap, need, term]: &[Argument<'_>;
         12],
) -> Done {
    let settings = ModuleSettings {
        module: module.text(),
        department: department.text(),
        instances: instances.integer(),
        weight: weight.optional_integer(),
        reserve: reserve.optional_integer(),
        min: min.optional_integer(),
        share: share.choice(&[Share::Places, Share::Present]),
        lend: lend.optional_integer(),
        cap: cap.optional_integer(),
        need: need.optional_integer(),
    };
    answer_manager(call, term, ManagerRequest::Module(settings))
}

/// `ACCOUNT.DELMODULE key module [TERM t]`
pub(super) fn remove_module(call: &Call<'_>, [_, module, term]: &[Argument<'_>; 3]) -> Done {
    let request = ManagerRequest::RemoveModule { module: module.text() };
    answer_manager(call, term, request)
}

/// `ACCOUNT.DEPARTMENT key department CAP n [TERM t]`
pub(super) fn department(call: &Call<'_>, [_, department, cap, term]: &[Argument<'_>; 4]) -> Done {
    let request = ManagerRequest::Department { department: department.text(), cap: cap.integer() };
    answer_manager(call, term, request)
}

/// `ACCOUNT.TARIFF key QUOTA n [TIERS n upto price ...] ACCOUNTS n account ... [TERM t]`
pub(super) fn tariff(call: &Call<'_>, [_, quota, tiers, accounts, term]: &[Argument<'_>; 5]) -> Done {
    let tariff = Tariff { quota: quota.natural(), steps: steps(tiers)? };
    let accounts = accounts.words().to_vec();
    answer_manager(call, term, ManagerRequest::Reprice { tariff, accounts })
}

/// `ACCOUNT.ADD key module [DEPARTMENT d] QUOTA n [TIERS n upto price ...] [TURN day] ACCOUNTS n account ...
/// [TERM t]`
pub(super) fn add(
    call: &Call<'_>,
    [_, module, department, quota, tiers, turn, accounts, term]: &[Argument<'_>; 8],
) -> Done {
    let request = ManagerRequest::Add {
        module: Some(module.text()).filter(|&module| module != b"*"),
        department: department.optional_text(),
        tariff: Tariff { quota: quota.natural(), steps: steps(tiers)? },
        turn: turn.optional_integer(),
        accounts: accounts.words().to_vec(),
    };
    answer_manager(call, term, request)
}

/// The end and the price of each step.
fn steps(tiers: &Argument<'_>) -> Result<Vec<Step>, Refusal> {
    let rows = tiers.words().as_chunks().0.iter();
    let step = |&[upto, price]: &[&[u8]; 2]| {
        let upto = natural("TIERS", upto)?;
        Ok(Step { upto, price: amount("TIERS", price)? })
    };
    rows.map(step).collect()
}

/// `ACCOUNT.DEL key n account ... [TERM t]`
pub(super) fn del(call: &Call<'_>, [_, accounts, term]: &[Argument<'_>; 3]) -> Done {
    answer_manager(call, term, ManagerRequest::Del { accounts: accounts.words().to_vec() })
}

/// `ACCOUNT.MOVE key module n account ... [TERM t]`
pub(super) fn move_to(call: &Call<'_>, [_, module, accounts, term]: &[Argument<'_>; 4]) -> Done {
    let (module, accounts) = (module.text(), accounts.words().to_vec());
    answer_manager(call, term, ManagerRequest::Move { module, accounts })
}

/// `ACCOUNT.FREEZE key account [OFF] [UNTIL ms] [TERM t]`
pub(super) fn freeze(call: &Call<'_>, [_, account, off, until, term]: &[Argument<'_>; 5]) -> Done {
    let (account, on, until) = (account.text(), !off.is_given(), until.optional_integer());
    answer_manager(call, term, ManagerRequest::Freeze { account, on, until })
}

/// `ACCOUNT.LIMIT key [CAP n] [TURN day] ACCOUNTS n account ... [TERM t]`
pub(super) fn limit(call: &Call<'_>, [_, cap, turn, accounts, term]: &[Argument<'_>; 5]) -> Done {
    let (cap, turn) = (cap.optional_integer(), turn.optional_integer());
    let request = ManagerRequest::Limit { cap, turn, accounts: accounts.words().to_vec() };
    answer_manager(call, term, request)
}
