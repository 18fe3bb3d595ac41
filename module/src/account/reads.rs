//! The `ACCOUNT.*` commands that only read.

use std::collections::BTreeMap;

use allot_core::account::Book;
use allot_core::account::decide::{known_account, known_instance, known_module};
use allot_core::account::record::AccountState;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::replies::{reply_account, reply_book, reply_history, reply_module, reply_usage};
use crate::engine::argument::{Argument, READ_AT_ONCE};
use crate::engine::reply::{Field, reply_page};
use crate::engine::step::read;
use crate::engine::{Call, Done};

/// The most accounts that one call returns, even if `COUNT` is greater. This takes some milliseconds, in which the
/// server does nothing else.
const MOST: usize = 1000;
/// The entries of a list if the caller gives no COUNT.
const USUAL_COUNT: u32 = 100;

/// How many accounts a call returns.
pub(super) fn count_of(count: &Argument<'_>, usual: u32) -> Result<usize, Refusal> {
    Ok(MOST.min(count.count(usual, READ_AT_ONCE)? as usize))
}

/// The subject of `ACCOUNT.INFO`.
#[derive(Clone, Copy)]
enum Of {
    Module,
    Account,
    Either,
}

/// `ACCOUNT.INFO key [module|account]`. If a module and an account have the name, `MODULE name` or `ACCOUNT name`
/// chooses one.
pub(super) fn info(call: &Call<'_>, [_, of]: &[Argument<'_>; 2]) -> Done {
    let asked = of.choice(&[Of::Module, Of::Account, Of::Either]);
    let name = of.optional_text().unwrap_or_default();
    read::<Book>(call, |book, now| {
        let module = |name: &[u8]| book.find_module(name).and_then(|id| book.module(id));
        match asked {
            None => reply_book(call.ctx, book, now),
            Some(Of::Module) => reply_module(call.ctx, book, known_module(book, name)?.1, now),
            Some(Of::Account) => reply_account(call.ctx, book, known_account(book, name)?, now),
            Some(Of::Either) => {
                if let Some(module) = module(name) {
                    reply_module(call.ctx, book, module, now);
                } else if let Some(account) = book.account_called(name) {
                    reply_account(call.ctx, book, account, now);
                } else {
                    let text = format!("there is neither a module nor an account {}", quoted(name));
                    return Err(Refusal::new(Code::NotFound, text));
                }
            }
        }
        Ok(())
    })
}

/// `ACCOUNT.LIST key [MODULE m [INSTANCE i]] [STATE s] [CURSOR c] [COUNT n]`
pub(super) fn list(call: &Call<'_>, [_, module, instance, state, cursor, count]: &[Argument<'_>; 6]) -> Done {
    let (module, instance) = (module.optional_text(), instance.optional_text());
    let state = state.member::<AccountState>()?;
    let (cursor, count) = (cursor.optional_natural().unwrap_or(0), count_of(count, USUAL_COUNT)?);
    if instance.is_some() && module.is_none() {
        let text = "INSTANCE needs a MODULE: instances have names within their module";
        return Err(Refusal::new(Code::Err, text));
    }
    read::<Book>(call, |book, now| {
        let module = module.map(|module| known_module(book, module)).transpose()?;
        let known = |((id, module), instance)| known_instance(book, id, module, instance);
        let place = module.zip(instance).map(known).transpose()?.map(|(place, _)| place);
        let (found, next) = book.list(module.map(|(id, _)| id), place, state, cursor, count);
        let next = Field::Number(next as i64);
        reply_page(call.ctx, &next, &found, |one| reply_account(call.ctx, book, one, now));
        Ok(())
    })
}

/// The cursor of a reply that has all entries.
const ALL: Field<'_> = Field::Number(0);

/// The name of the only line of `ACCOUNT.USAGE ... BY book`.
const BOOK_ROW: &[u8] = b"book";

/// The grouping of `ACCOUNT.USAGE`.
#[derive(Clone, Copy)]
enum By {
    Book,
    Department,
    Module,
    Account,
}

/// `ACCOUNT.USAGE key [BY book|department|module|account] [AGO n] [CURSOR c] [COUNT n]`
pub(super) fn usage(call: &Call<'_>, [_, by, ago, cursor, count]: &[Argument<'_>; 5]) -> Done {
    let by = by.choice(&[By::Book, By::Department, By::Module, By::Account]).unwrap_or(By::Department);
    let (ago, cursor) = (ago.optional_natural().unwrap_or(0), cursor.optional_natural().unwrap_or(0));
    let count = count_of(count, USUAL_COUNT)?;
    read::<Book>(call, |book, now| {
        let past = u32::try_from(ago).ok().and_then(|ago| book.month().checked_sub(ago));
        let Some(month) = past.filter(|&month| book.month_start(month).is_some()) else {
            return Err(Refusal::new(Code::NotFound, format!("the month {ago} ago is not on record")));
        };
        reply_usages(call, book, (by, month, now), cursor, count);
        Ok(())
    })
}

fn reply_usages(call: &Call<'_>, book: &Book, (by, month, now): (By, u32, i64), cursor: u64, count: usize) {
    let (ctx, running) = (call.ctx, month == book.month());
    let projected = |module: &[u8]| {
        let id = book.find_module(module).filter(|_| running);
        id.and_then(|id| book.projected_of(id, now))
    };
    match by {
        By::Book => {
            let projected = if running { book.projected_of_book(now) } else { None };
            reply_page(ctx, &ALL, [book.usage_of_book(month)], |usage| {
                reply_usage(ctx, BOOK_ROW, &usage, projected);
            });
        }
        By::Account => {
            let (found, next) = book.list(None, None, None, cursor, count);
            reply_page(ctx, &Field::Number(next as i64), &found, |one| {
                let projected = if running { book.projected_for(one, now) } else { None };
                reply_usage(ctx, &one.name, &book.usage_of(one, month), projected);
            });
        }
        By::Module => {
            reply_page(ctx, &ALL, &book.usage_by_module(month), |(module, usage)| {
                reply_usage(ctx, module, usage, projected(module));
            });
        }
        By::Department => {
            let more = if running { book.projected_by_department(now) } else { BTreeMap::new() };
            reply_page(ctx, &ALL, &book.usage_by_department(month), |(department, usage)| {
                reply_usage(ctx, department, usage, more.get(department).copied().flatten());
            });
        }
    }
}

/// `ACCOUNT.HISTORY key account`
pub(super) fn history(call: &Call<'_>, [_, account]: &[Argument<'_>; 2]) -> Done {
    let account = account.text();
    read::<Book>(call, |book, _| {
        reply_history(call.ctx, known_account(book, account)?);
        Ok(())
    })
}
