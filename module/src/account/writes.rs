//! The `ACCOUNT.*` commands of the leader, of instances and of terminals: they read the arguments, have the state
//! machine decide, and reply. `inventory` has the commands of operators.

use allot_core::account::assign::STEP;
use allot_core::account::decide::USUAL_MOVES;
use allot_core::account::place::Instance;
use allot_core::account::{Book, InstanceRequest, ManagerRequest, Reply, Request, decide};
use allot_core::shared::refusal::{Code, Refusal};

use super::counters;
use super::reads::count_of;
use super::replies::{
    reply_account, reply_all_picked, reply_book, reply_department, reply_instance, reply_login, reply_module,
    reply_shifts, reply_used,
};
use crate::engine::argument::Argument;
use crate::engine::reply::{present, reply_present};
use crate::engine::step::change;
use crate::engine::{Call, Done, config};
use crate::ffi::Context;

/// Whether a request performs a step of assignment; the timer performs the others. A request of an instance performs none
/// while an assignment is in progress, because the timer continues this assignment. Otherwise it performs the one step
/// that it makes possible, for example by a logout.
fn assigns(book: &Book, request: &Request<'_>) -> bool {
    match request {
        Request::Instance(_) => book.is_even(),
        Request::Manager(..) => true,
    }
}

/// Decides a request, applies its events, performs a step of assignment and replies.
pub(super) fn answer(call: &Call<'_>, request: &Request<'_>) -> Done {
    let done = change::<Book, _>(call.ctx, call.key()?, |step| {
        let assigns = assigns(step.state(), request);
        let decision = decide(step.state(), step.now(), request)?;
        for event in &decision.events {
            step.apply(event);
        }
        if matches!(decision.reply, Reply::Picked(..)) {
            counters::ACCOUNT_ASKED.add(decision.events.len() as u64);
        }
        if assigns {
            let events = step.state().decide_assignment(STEP);
            events.iter().for_each(|event| step.apply(event));
        }
        let short = matches!(
            request,
            Request::Instance(InstanceRequest::Login { .. } | InstanceRequest::Renew { .. })
        );
        reply(call.ctx, step.state(), step.now(), &decision.reply, short);
        Ok(())
    });
    if let Err(refusal) = &done {
        counters::ACCOUNT_REFUSED.add(1);
        match refusal.code {
            Code::Limit => counters::ACCOUNT_CAPPED.add(1),
            Code::Stale => counters::ACCOUNT_STALE.add(1),
            _ => {}
        }
    }
    done
}

fn find_instance<'a>(book: &'a Book, module: &[u8], name: &[u8]) -> Option<&'a Instance> {
    let id = book.find_instance(book.find_module(module)?, name)?;
    book.instance(id)
}

fn reply(ctx: Context<'_>, book: &Book, now: i64, reply: &Reply, short: bool) {
    match reply {
        Reply::Ok => ctx.reply_ok(),
        Reply::Integer(value) => ctx.reply_integer(*value),
        Reply::Book => reply_book(ctx, book, now),
        Reply::Module(name) => {
            let module = book.find_module(name).and_then(|id| book.module(id));
            reply_present(ctx, module, |module| reply_module(ctx, book, module, now));
        }
        Reply::Department(name) => reply_department(ctx, book, name),
        Reply::Instance(module, name) => {
            reply_present(ctx, find_instance(book, module, name), |instance| {
                reply_instance(ctx, book, instance);
            });
        }
        Reply::Account(name) => reply_present(ctx, book.account_called(name), |account| {
            if short {
                reply_login(ctx, account);
            } else {
                reply_account(ctx, book, account, now);
            }
        }),
        Reply::Picked(module, name, count) => {
            let instance = find_instance(book, module, name);
            let picked = present(instance).map(|instance| book.pick(instance, *count)).unwrap_or_default();
            reply_all_picked(ctx, book, &picked);
        }
        Reply::Used(used) => reply_used(ctx, used),
        Reply::Moves(shifts) => reply_shifts(ctx, shifts),
    }
}

/// `ACCOUNT.ATTACH key module instance [TERM t]`
pub(super) fn attach(call: &Call<'_>, [_, module, instance, term]: &[Argument<'_>; 4]) -> Done {
    let (module, instance) = (module.text(), instance.text());
    answer(call, &ManagerRequest::Attach { module, instance }.in_term(term.optional_natural()))
}

/// `ACCOUNT.DETACH key module instance [GRACE ms] [TERM t]`
pub(super) fn detach(call: &Call<'_>, [_, module, instance, grace, term]: &[Argument<'_>; 5]) -> Done {
    let (module, instance) = (module.text(), instance.text());
    let grace = grace.optional_integer().unwrap_or(0);
    answer(call, &ManagerRequest::Detach { module, instance, grace }.in_term(term.optional_natural()))
}

fn time_to_live(ttl: &Argument<'_>) -> Result<i64, Refusal> {
    config::check_ttl(&config::ACCOUNT_MAX_TTL, "TTL", ttl.integer())
}

/// `ACCOUNT.LOGIN key account instance terminal TTL ms`
pub(super) fn login(call: &Call<'_>, [_, account, instance, terminal, ttl]: &[Argument<'_>; 5]) -> Done {
    let (account, instance, terminal) = (account.text(), instance.text(), terminal.text());
    answer(call, &InstanceRequest::Login { account, instance, terminal, ttl: time_to_live(ttl)? }.into())
}

/// `ACCOUNT.RENEW key account epoch TTL ms`
pub(super) fn renew(call: &Call<'_>, [_, account, epoch, ttl]: &[Argument<'_>; 4]) -> Done {
    let (account, epoch) = (account.text(), epoch.natural());
    answer(call, &InstanceRequest::Renew { account, epoch, ttl: time_to_live(ttl)? }.into())
}

/// `ACCOUNT.LOGOUT key account epoch [BACK] [TERM t]`
pub(super) fn logout(call: &Call<'_>, [_, account, epoch, back, term]: &[Argument<'_>; 5]) -> Done {
    let (account, epoch, back) = (account.text(), epoch.natural(), back.is_given());
    answer(call, &InstanceRequest::Logout { account, epoch, back, term: term.optional_natural() }.into())
}

/// `ACCOUNT.PICK key module instance [COUNT n]`
pub(super) fn pick(call: &Call<'_>, [_, module, instance, count]: &[Argument<'_>; 4]) -> Done {
    let (module, instance, count) = (module.text(), instance.text(), count_of(count, 1)?);
    answer(call, &InstanceRequest::Pick { module, instance, count }.into())
}

/// `ACCOUNT.USE key account epoch [COUNT n]`
pub(super) fn usage(call: &Call<'_>, [_, account, epoch, count]: &[Argument<'_>; 4]) -> Done {
    let (account, epoch) = (account.text(), epoch.natural());
    answer(
        call,
        &InstanceRequest::Use { account, epoch, count: count.optional_integer().unwrap_or(1) }.into(),
    )
}

/// `ACCOUNT.REPORT key account epoch total`
pub(super) fn report(call: &Call<'_>, [_, account, epoch, total]: &[Argument<'_>; 4]) -> Done {
    let (account, epoch, total) = (account.text(), epoch.natural(), total.natural());
    answer(call, &InstanceRequest::Report { account, epoch, total }.into())
}

/// `ACCOUNT.RAISE key epoch [ACCOUNT account] [TERM t]`
pub(super) fn raise(call: &Call<'_>, [_, epoch, account, term]: &[Argument<'_>; 4]) -> Done {
    let request = ManagerRequest::Raise { epoch: epoch.natural(), account: account.optional_text() };
    answer(call, &request.in_term(term.optional_natural()))
}

/// `ACCOUNT.REBALANCE key [DRYRUN] [MAXMOVES n] [TERM t]`
pub(super) fn rebalance(call: &Call<'_>, [_, dry_run, max_moves, term]: &[Argument<'_>; 4]) -> Done {
    let max_moves = max_moves.optional_integer().unwrap_or(USUAL_MOVES);
    let request = ManagerRequest::Rebalance { dry_run: dry_run.is_given(), max_moves };
    answer(call, &request.in_term(term.optional_natural()))
}
