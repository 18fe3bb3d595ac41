//! The `ACCOUNT.*` commands that only look.

use std::collections::BTreeMap;

use allot_core::account::Book;
use allot_core::account::record::{Account, Standing};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::records::{reply_account, reply_book, reply_history, reply_module, reply_picked, reply_usage};
use super::writes::Done;
use crate::command::{Arguments, Call, is, not_one_of, unknown};
use crate::family::read;
use crate::numbers::natural;

/// The most accounts that may be asked for at once.
const MAX_LIST: i64 = 10_000;
/// The most that one call gives, whoever asks for more: some milliseconds, for which the server does nothing else.
const MOST: usize = 1000;

fn known<'a>(book: &'a Book, account: &[u8]) -> Result<&'a Account, Refusal> {
    book.account_called(account)
        .ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no account {}", quoted(account))))
}

fn known_module(book: &Book, module: &[u8]) -> Result<u32, Refusal> {
    book.find_module(module)
        .ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no module {}", quoted(module))))
}

fn known_instance(book: &Book, module: &[u8], instance: &[u8]) -> Result<u32, Refusal> {
    let id = book.find_instance(known_module(book, module)?, instance);
    id.ok_or_else(|| {
        let text = format!("instance {} is not attached to {}", quoted(instance), quoted(module));
        Refusal::new(Code::NotFound, text)
    })
}

fn count_of(arguments: &mut Arguments<'_>, option: &[u8]) -> Result<usize, Refusal> {
    let count = arguments.integer_of(option)?;
    if (1..=MAX_LIST).contains(&count) {
        return Ok(MOST.min(count as usize));
    }
    Err(Refusal::new(Code::Err, format!("COUNT must be 1 to {MAX_LIST}, not {count}")))
}

/// `ACCOUNT.PICK key module instance [COUNT n]`
pub(super) fn pick(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (module, instance) = (arguments.identifier("module")?, arguments.identifier("instance")?);
    let count = if arguments.takes("COUNT") { count_of(&mut arguments, b"COUNT")? } else { 1 };
    arguments.finish()?;
    read::<Book, _>(call.ctx, call.key()?, |book, _| {
        let id = known_instance(book, module, instance)?;
        let picked = book.instance(id).map(|instance| book.pick(instance, count)).unwrap_or_default();
        if picked.is_empty() {
            call.ctx.reply_nothing();
            return Ok(());
        }
        call.ctx.reply_array(picked.len());
        picked.iter().for_each(|one| reply_picked(call.ctx, book, one));
        Ok(())
    })
}

/// `ACCOUNT.INFO key [module|account]`; where both have the name, `MODULE name` or `ACCOUNT name` says which.
pub(super) fn info(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let of = arguments.rest();
    read::<Book, _>(call.ctx, call.key()?, |book, now| {
        let module = |name: &[u8]| book.find_module(name).and_then(|id| book.module(id));
        match *of {
            [] => reply_book(call.ctx, book, now),
            [word, name] if is(word, "MODULE") => match book.module(known_module(book, name)?) {
                Some(module) => reply_module(call.ctx, book, module),
                None => call.ctx.reply_null(),
            },
            [word, name] if is(word, "ACCOUNT") => reply_account(call.ctx, book, known(book, name)?, now),
            [name] => {
                if let Some(module) = module(name) {
                    reply_module(call.ctx, book, module);
                } else if let Some(one) = book.account_called(name) {
                    reply_account(call.ctx, book, one, now);
                } else {
                    let text = format!("there is neither a module nor an account {}", quoted(name));
                    return Err(Refusal::new(Code::NotFound, text));
                }
            }
            [word, ..] => return Err(unknown(word)),
        }
        Ok(())
    })
}

/// `ACCOUNT.LIST key [MODULE m [INSTANCE i]] [STATE s] [CURSOR c] [COUNT n]`
pub(super) fn list(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (mut module, mut instance, mut standing, mut cursor, mut count) = (None, None, None, 0, 100);
    while let Some(option) = arguments.option() {
        if is(option, "MODULE") {
            arguments.once(0, option)?;
            module = Some(arguments.identifier_of(option)?);
        } else if is(option, "INSTANCE") {
            arguments.once(1, option)?;
            instance = Some(arguments.identifier_of(option)?);
        } else if is(option, "STATE") {
            arguments.once(2, option)?;
            let word = arguments.value(option)?;
            let found = Standing::ALL.into_iter().find(|standing| is(word, standing.word()));
            standing =
                Some(found.ok_or_else(|| not_one_of(option, word, "free, dealt, revoking or frozen"))?);
        } else if is(option, "CURSOR") {
            arguments.once(3, option)?;
            cursor = natural("CURSOR", arguments.value(option)?)?;
        } else if is(option, "COUNT") {
            arguments.once(4, option)?;
            count = count_of(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    if instance.is_some() && module.is_none() {
        return Err(Refusal::new(
            Code::Err,
            "INSTANCE needs a MODULE: instances have names within their module",
        ));
    }
    read::<Book, _>(call.ctx, call.key()?, |book, now| {
        let place = match (module, instance) {
            (Some(module), Some(instance)) => Some(known_instance(book, module, instance)?),
            _ => None,
        };
        let module = module.map(|module| known_module(book, module)).transpose()?;
        let (found, next) = book.list(module, place, standing, cursor, count);
        call.ctx.reply_array(2);
        call.ctx.reply_integer(next as i64);
        call.ctx.reply_array(found.len());
        found.iter().for_each(|one| reply_account(call.ctx, book, one, now));
        Ok(())
    })
}

/// What usage is summed by.
#[derive(Clone, Copy)]
enum By {
    Department,
    Module,
    Account,
}

/// `ACCOUNT.USAGE key [BY department|module|account] [AGO n] [CURSOR c] [COUNT n]`
pub(super) fn usage(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (mut by, mut ago, mut cursor, mut count) = (By::Department, 0, 0, 100);
    while let Some(option) = arguments.option() {
        if is(option, "BY") {
            arguments.once(0, option)?;
            by = match arguments.value(option)? {
                word if is(word, "DEPARTMENT") => By::Department,
                word if is(word, "MODULE") => By::Module,
                word if is(word, "ACCOUNT") => By::Account,
                word => return Err(not_one_of(option, word, "department, module or account")),
            };
        } else if is(option, "AGO") {
            arguments.once(1, option)?;
            ago = natural("AGO", arguments.value(option)?)?;
        } else if is(option, "CURSOR") {
            arguments.once(2, option)?;
            cursor = natural("CURSOR", arguments.value(option)?)?;
        } else if is(option, "COUNT") {
            arguments.once(3, option)?;
            count = count_of(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    read::<Book, _>(call.ctx, call.key()?, |book, now| {
        let past = u32::try_from(ago).ok().and_then(|ago| book.month().checked_sub(ago));
        let Some(month) = past.filter(|&month| book.month_start(month).is_some()) else {
            return Err(Refusal::new(Code::NotFound, format!("the month {ago} ago is not on record")));
        };
        reply_usages(call, book, (by, month, now), cursor, count);
        Ok(())
    })
}

fn reply_usages(call: &Call<'_>, book: &Book, (by, month, now): (By, u32, i64), cursor: u64, count: usize) {
    let running = month == book.month();
    let begin = |next: u64, rows: usize| {
        call.ctx.reply_array(2);
        call.ctx.reply_integer(next as i64);
        call.ctx.reply_array(rows);
    };
    let projected = |module: &[u8]| {
        let id = book.find_module(module).filter(|_| running);
        id.map(|id| book.projected_of(id, now))
    };
    match by {
        By::Account => {
            let (found, next) = book.list(None, None, None, cursor, count);
            begin(next, found.len());
            for one in found {
                reply_usage(call.ctx, &one.name, &book.usage_of(one, month), None);
            }
        }
        By::Module => {
            let sums = book.usage_by_module(month);
            begin(0, sums.len());
            for (module, (_, usage)) in &sums {
                reply_usage(call.ctx, module, usage, projected(module));
            }
        }
        By::Department => {
            let sums = book.usage_by_department(month);
            let more = if running { book.projected_by_department(now) } else { BTreeMap::new() };
            begin(0, sums.len());
            for (department, usage) in &sums {
                reply_usage(call.ctx, department, usage, more.get(department).copied());
            }
        }
    }
}

/// `ACCOUNT.HISTORY key account`
pub(super) fn history(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let account = arguments.identifier("account")?;
    arguments.finish()?;
    read::<Book, _>(call.ctx, call.key()?, |book, _| {
        reply_history(call.ctx, known(book, account)?);
        Ok(())
    })
}
