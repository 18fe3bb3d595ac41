//! The `ACCOUNT.*` commands of operators: the book itself, modules, and which accounts there are.

use allot_core::account::request::{Changes, ModuleWish};
use allot_core::account::tariff::{Amount, Step, Tariff};
use allot_core::account::{Book, Event, Request, Settings};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::records::reply_book;
use super::writes::{Done, answer, term_at_end};
use crate::command::{Arguments, Call, integer, is, unknown};
use crate::family;
use crate::numbers::{natural, number, term};
use crate::sys::context::Mode;
use crate::sys::value::Found;

/// `ACCOUNT.BOOK key [CAP n] [DWELL ms] [MAXMOVES n] [TURNS ms ms ...]`
pub(super) fn book(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let mut changes = Changes::default();
    while let Some(option) = arguments.option() {
        if is(option, "CAP") {
            arguments.once(0, option)?;
            changes.cap = Some(arguments.integer_of(option)?);
        } else if is(option, "DWELL") {
            arguments.once(1, option)?;
            changes.dwell = Some(arguments.integer_of(option)?);
        } else if is(option, "MAXMOVES") {
            arguments.once(2, option)?;
            changes.max_moves = Some(arguments.integer_of(option)?);
        } else if is(option, "TURNS") {
            arguments.once(3, option)?;
            let mut turns = vec![arguments.integer_of(option)?];
            while arguments.next_is(|next| integer(next).is_some()) {
                turns.push(arguments.integer("TURNS")?);
            }
            changes.turns = Some(turns);
        } else {
            return Err(unknown(option));
        }
    }
    let name = call.key()?;
    let exists = match call.ctx.open(name, Mode::Read).value::<Book>() {
        Found::Nothing => false,
        Found::OtherType => return Err(family::wrong_type()),
        Found::Value(_) => true,
    };
    if exists {
        return answer(call, &Request::Configure(changes));
    }
    let settings = Settings::default().with(&changes, call.ctx.clock())?;
    family::create::<Book>(call.ctx, name, &Event::Opened(settings))?;
    family::read::<Book, _>(call.ctx, name, |book, now| {
        reply_book(call.ctx, book, now);
        Ok(())
    })
}

/// `ACCOUNT.TERM key term leader [FORCE]`
pub(super) fn claim(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let term = number(&mut arguments, "term")?;
    let leader = arguments.identifier("leader")?;
    let force = arguments.takes("FORCE");
    arguments.finish()?;
    answer(call, &Request::Claim { term, leader, force })
}

/// `ACCOUNT.MODULE key module DEPARTMENT d INSTANCES n [WEIGHT w] [RESERVE n] [TERM t]`
pub(super) fn module(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let module = arguments.identifier("module")?;
    let (mut department, mut instances) = (None, None);
    let (mut weight, mut reserve, mut claimed) = (None, None, None);
    while let Some(option) = arguments.option() {
        if is(option, "DEPARTMENT") {
            arguments.once(0, option)?;
            department = Some(arguments.identifier_of(option)?);
        } else if is(option, "INSTANCES") {
            arguments.once(1, option)?;
            instances = Some(arguments.integer_of(option)?);
        } else if is(option, "WEIGHT") {
            arguments.once(2, option)?;
            weight = Some(arguments.integer_of(option)?);
        } else if is(option, "RESERVE") {
            arguments.once(3, option)?;
            reserve = Some(arguments.integer_of(option)?);
        } else if is(option, "TERM") {
            claimed = term(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    let (Some(department), Some(instances)) = (department, instances) else {
        let text = "DEPARTMENT and INSTANCES must be given: whose module it is, and how many of its instances hold a \
                    share at once";
        return Err(Refusal::new(Code::Err, text));
    };
    answer(
        call,
        &Request::Module(ModuleWish { module, department, instances, weight, reserve, term: claimed }),
    )
}

/// `ACCOUNT.ADD key module QUOTA n [TIERS n upto price ...] ACCOUNTS n account ... [TERM t]`
pub(super) fn add(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let module = arguments.identifier("module")?;
    let (mut quota, mut steps, mut accounts, mut claimed) = (None, Vec::new(), None, None);
    while let Some(option) = arguments.option() {
        if is(option, "QUOTA") {
            arguments.once(0, option)?;
            quota = Some(natural("QUOTA", arguments.value(option)?)?);
        } else if is(option, "TIERS") {
            arguments.once(1, option)?;
            steps = tiers(&mut arguments)?;
        } else if is(option, "ACCOUNTS") {
            arguments.once(2, option)?;
            accounts = Some(arguments.list(option)?);
        } else if is(option, "TERM") {
            claimed = term(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    let (Some(quota), Some(accounts)) = (quota, accounts) else {
        let text = "QUOTA and ACCOUNTS must be given: how much the flat price covers, and which accounts";
        return Err(Refusal::new(Code::Err, text));
    };
    let module = (module != b"*").then_some(module);
    answer(call, &Request::Add { module, tariff: Tariff { quota, steps }, accounts, term: claimed })
}

/// How many steps, then the end and the price of each.
fn tiers(arguments: &mut Arguments<'_>) -> Result<Vec<Step>, Refusal> {
    let count = natural("TIERS", arguments.value(b"TIERS")?)?;
    let mut steps = Vec::new();
    for _ in 0..count {
        let upto = natural("TIERS", arguments.value(b"TIERS")?)?;
        let price = arguments.value(b"TIERS")?;
        let price = Amount::parse_price(price).ok_or_else(|| {
            let why =
                "a price is a decimal number below a billion, with at most nine digits behind the point";
            Refusal::new(Code::Err, format!("TIERS: {why}, not {}", quoted(price)))
        })?;
        steps.push(Step { upto, price });
    }
    Ok(steps)
}

/// `ACCOUNT.DEL key n account ... [TERM t]`
pub(super) fn del(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let accounts = arguments.list(b"n")?;
    let term = term_at_end(arguments)?;
    answer(call, &Request::Del { accounts, term })
}

/// `ACCOUNT.MOVE key module n account ... [TERM t]`
pub(super) fn move_to(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let module = arguments.identifier("module")?;
    let accounts = arguments.list(b"n")?;
    let term = term_at_end(arguments)?;
    answer(call, &Request::Move { module, accounts, term })
}

/// `ACCOUNT.FREEZE key account [OFF] [TERM t]`
pub(super) fn freeze(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let account = arguments.identifier("account")?;
    let on = !arguments.takes("OFF");
    let term = term_at_end(arguments)?;
    answer(call, &Request::Freeze { account, on, term })
}
