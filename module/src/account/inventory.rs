//! The `ACCOUNT.*` commands of operators: the book, its modules, and its accounts.

use allot_core::account::request::{Changes, ModuleSettings};
use allot_core::account::tariff::{Amount, Step, Tariff};
use allot_core::account::{Book, Event, ManagerRequest, Settings};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::replies::reply_book;
use super::writes::answer;
use crate::engine::argument::Argument;
use crate::engine::step::{self, read};
use crate::engine::value::Value;
use crate::engine::word::{integer, natural};
use crate::engine::{Call, Done};
use crate::ffi::context::Mode;
use crate::ffi::value::Found;

/// `ACCOUNT.BOOK key [CAP n] [DWELL ms] [MAXMOVES n] [MARGIN cost] [TURNS ms ms ...]`
pub(super) fn book(call: &Call<'_>, [_, cap, dwell, max_moves, margin, turns]: &[Argument<'_>; 6]) -> Done {
    let changes = Changes {
        cap: cap.optional_integer(),
        dwell: dwell.optional_integer(),
        max_moves: max_moves.optional_integer(),
        turns: turns.optional_words().map(|turns| turns.iter().filter_map(|turn| integer(turn)).collect()),
        margin: margin.optional_text().map(|text| amount("MARGIN", text)).transpose()?,
    };
    let name = call.key()?;
    let exists = match call.ctx.open(name, Mode::Read).value::<Value<Book>>() {
        Found::Nothing => false,
        Found::OtherType => return Err(step::wrong_type()),
        Found::Value(_) => true,
    };
    if exists {
        return answer(call, &ManagerRequest::Configure(changes).into());
    }
    let settings = Settings::default().with(&changes, call.ctx.clock())?;
    step::create::<Book>(call.ctx, name, &Event::Opened(settings))?;
    // The event that opens a book has not all settings.
    answer(call, &ManagerRequest::Configure(changes).into())
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
    answer(call, &ManagerRequest::Claim { term, leader, force: force.is_given() }.into())
}

/// `ACCOUNT.MODULE key module DEPARTMENT d INSTANCES n [WEIGHT w] [RESERVE n] [MIN n] [TERM t]`
pub(super) fn module(
    call: &Call<'_>,
    [_, module, department, instances, weight, reserve, min, term]: &[Argument<'_>; 8],
) -> Done {
    let settings = ModuleSettings {
        module: module.text(),
        department: department.text(),
        instances: instances.integer(),
        weight: weight.optional_integer(),
        reserve: reserve.optional_integer(),
        min: min.optional_integer(),
    };
    answer(call, &ManagerRequest::Module(settings).in_term(term.optional_natural()))
}

/// `ACCOUNT.ADD key module QUOTA n [TIERS n upto price ...] ACCOUNTS n account ... [TERM t]`
pub(super) fn add(call: &Call<'_>, [_, module, quota, tiers, accounts, term]: &[Argument<'_>; 6]) -> Done {
    let tariff = Tariff { quota: quota.natural(), steps: steps(tiers)? };
    let module = Some(module.text()).filter(|&module| module != b"*");
    let accounts = accounts.words().to_vec();
    answer(call, &ManagerRequest::Add { module, tariff, accounts }.in_term(term.optional_natural()))
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
    answer(
        call,
        &ManagerRequest::Del { accounts: accounts.words().to_vec() }.in_term(term.optional_natural()),
    )
}

/// `ACCOUNT.MOVE key module n account ... [TERM t]`
pub(super) fn move_to(call: &Call<'_>, [_, module, accounts, term]: &[Argument<'_>; 4]) -> Done {
    let (module, accounts) = (module.text(), accounts.words().to_vec());
    answer(call, &ManagerRequest::Move { module, accounts }.in_term(term.optional_natural()))
}

/// `ACCOUNT.FREEZE key account [OFF] [TERM t]`
pub(super) fn freeze(call: &Call<'_>, [_, account, off, term]: &[Argument<'_>; 4]) -> Done {
    let (account, on) = (account.text(), !off.is_given());
    answer(call, &ManagerRequest::Freeze { account, on }.in_term(term.optional_natural()))
}
