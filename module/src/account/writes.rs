//! The `ACCOUNT.*` commands of instances and of those who work with accounts: arguments in, the state machine asked,
//! replies out. `inventory` has those of operators.

use allot_core::account::deal::STEP;
use allot_core::account::decide::USUAL_MOVES;
use allot_core::account::{Book, Reply, Request, decide};
use allot_core::shared::refusal::{Code, Refusal};

use super::records::{
    reply_account, reply_book, reply_instance, reply_login, reply_module, reply_shifts, reply_used,
};
use crate::command::{Arguments, Call, is, unknown};
use crate::family::{self, change};
use crate::numbers::{number, term};
use crate::sys::Context;
use crate::{config, info};

pub(super) type Done = Result<(), Refusal>;

/// How many steps of dealing a command does itself that changes the deal; the rest is left to the timer.
const STEPS: usize = 4;

/// How many steps of dealing a request does. Who only works with accounts does nothing of a deal that is under way: a
/// logout does what it makes possible itself.
fn steps(book: &Book, request: &Request<'_>) -> usize {
    match request {
        Request::Login { .. } | Request::Renew { .. } | Request::Logout { .. } | Request::Use { .. } => {
            usize::from(book.is_even())
        }
        _ => STEPS,
    }
}

/// Decides a request, applies what comes of it, deals what is to be dealt and replies.
pub(super) fn answer(call: &Call<'_>, request: &Request<'_>) -> Done {
    let done = change::<Book, _>(call.ctx, call.key()?, |step| {
        let steps = steps(step.state(), request);
        let decision = decide(step.state(), step.now(), request)?;
        for event in &decision.events {
            step.apply(event);
        }
        for _ in 0..steps {
            let deal = step.state().decide_deal(STEP);
            if deal.is_empty() {
                break;
            }
            deal.iter().for_each(|event| step.apply(event));
        }
        let short = matches!(request, Request::Login { .. } | Request::Renew { .. });
        reply(call.ctx, step.state(), step.now(), &decision.reply, short);
        Ok(())
    });
    if let Err(refusal) = &done {
        info::ACCOUNT_REFUSED.add(1);
        match refusal.code {
            Code::Limit => info::ACCOUNT_CAPPED.add(1),
            Code::Stale => info::ACCOUNT_STALE.add(1),
            _ => {}
        }
    }
    done
}

fn reply(ctx: Context<'_>, book: &Book, now: i64, reply: &Reply, short: bool) {
    match reply {
        Reply::Ok => ctx.reply_ok(),
        Reply::Integer(value) => ctx.reply_integer(*value),
        Reply::Book => reply_book(ctx, book, now),
        Reply::Module(name) => match book.find_module(name).and_then(|id| book.module(id)) {
            Some(module) => reply_module(ctx, book, module),
            None => ctx.reply_null(),
        },
        Reply::Instance(module, name) => {
            let module = book.find_module(module);
            let instance = module.and_then(|module| book.find_instance(module, name));
            match instance.and_then(|id| book.instance(id)) {
                Some(instance) => reply_instance(ctx, book, instance),
                None => ctx.reply_null(),
            }
        }
        Reply::Account(name) => match book.account_called(name) {
            Some(one) if short => reply_login(ctx, one),
            Some(one) => reply_account(ctx, book, one, now),
            None => ctx.reply_null(),
        },
        Reply::Used(used) => reply_used(ctx, used),
        Reply::Moves(shifts) => reply_shifts(ctx, shifts),
    }
}

/// `TERM t` and nothing else, at the end of a command.
pub(super) fn term_at_end(mut arguments: Arguments<'_>) -> Result<Option<u64>, Refusal> {
    let mut claimed = None;
    while let Some(option) = arguments.option() {
        if !is(option, "TERM") {
            return Err(unknown(option));
        }
        claimed = term(&mut arguments, option)?;
    }
    Ok(claimed)
}

/// `ACCOUNT.ATTACH key module instance [TERM t]`
pub(super) fn attach(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (module, instance) = (arguments.identifier("module")?, arguments.identifier("instance")?);
    let term = term_at_end(arguments)?;
    answer(call, &Request::Attach { module, instance, term })
}

/// `ACCOUNT.DETACH key module instance [GRACE ms] [TERM t]`
pub(super) fn detach(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (module, instance) = (arguments.identifier("module")?, arguments.identifier("instance")?);
    let (mut grace, mut claimed) = (0, None);
    while let Some(option) = arguments.option() {
        if is(option, "GRACE") {
            arguments.once(0, option)?;
            grace = arguments.integer_of(option)?;
        } else if is(option, "TERM") {
            claimed = term(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    answer(call, &Request::Detach { module, instance, grace, term: claimed })
}

/// A time to live behind its word, which must be there.
fn time_to_live(arguments: &mut Arguments<'_>) -> Result<i64, Refusal> {
    if !arguments.takes("TTL") {
        let text = "TTL is missing: say for how many milliseconds the login shall last unless it is renewed";
        return Err(Refusal::new(Code::Err, text));
    }
    config::check_ttl(&config::ACCOUNT_MAX_TTL, "TTL", arguments.integer_of(b"TTL")?)
}

/// `ACCOUNT.LOGIN key account instance terminal TTL ms`
pub(super) fn login(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let account = arguments.identifier("account")?;
    let (instance, terminal) = (arguments.identifier("instance")?, arguments.identifier("terminal")?);
    let ttl = time_to_live(&mut arguments)?;
    arguments.finish()?;
    answer(call, &Request::Login { account, instance, terminal, ttl })
}

/// `ACCOUNT.RENEW key account epoch TTL ms`
pub(super) fn renew(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let account = arguments.identifier("account")?;
    let epoch = number(&mut arguments, "epoch")?;
    let ttl = time_to_live(&mut arguments)?;
    arguments.finish()?;
    answer(call, &Request::Renew { account, epoch, ttl })
}

/// `ACCOUNT.LOGOUT key account epoch [BACK] [TERM t]`
pub(super) fn logout(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let account = arguments.identifier("account")?;
    let epoch = number(&mut arguments, "epoch")?;
    let back = arguments.takes("BACK");
    let term = term_at_end(arguments)?;
    answer(call, &Request::Logout { account, epoch, back, term })
}

/// `ACCOUNT.USE key account epoch [COUNT n]`
pub(super) fn usage(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let account = arguments.identifier("account")?;
    let epoch = number(&mut arguments, "epoch")?;
    let count = if arguments.takes("COUNT") { arguments.integer_of(b"COUNT")? } else { 1 };
    arguments.finish()?;
    answer(call, &Request::Use { account, epoch, count })
}

/// `ACCOUNT.REBALANCE key [DRYRUN] [MAXMOVES n] [TERM t]`
pub(super) fn rebalance(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (mut dry_run, mut max_moves, mut claimed) = (false, USUAL_MOVES, None);
    while let Some(option) = arguments.option() {
        if is(option, "DRYRUN") {
            arguments.once(0, option)?;
            dry_run = true;
        } else if is(option, "MAXMOVES") {
            arguments.once(1, option)?;
            max_moves = arguments.integer_of(option)?;
        } else if is(option, "TERM") {
            claimed = term(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    answer(call, &Request::Rebalance { dry_run, max_moves, term: claimed })
}

/// `ACCOUNT.APPLY key payload`
pub(super) fn apply(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let payload = arguments.any()?;
    arguments.finish()?;
    family::obey::<Book>(call.ctx, call.key()?, payload)?;
    call.ctx.reply_ok();
    Ok(())
}
