//! The `ACCOUNT.*` commands of the leader, of instances and of terminals: they read the arguments, have the state
//! machine decide, and reply. `inventory` has the commands of operators.

use allot_core::account::decide::USUAL_MOVES;
use allot_core::account::{Book, InstanceRequest, ManagerRequest};
use allot_core::shared::refusal::Refusal;

use super::reads::count_of;
use crate::engine::argument::Argument;
use crate::engine::step::answer;
use crate::engine::{Call, Done, config};

/// Answers a request of the leader or an operator, whose term is an argument of the call.
pub(super) fn answer_manager(call: &Call<'_>, term: &Argument<'_>, request: ManagerRequest<'_>) -> Done {
    answer::<Book>(call, &request.in_term(term.optional_natural()))
}

fn answer_instance(call: &Call<'_>, request: InstanceRequest<'_>) -> Done {
    answer::<Book>(call, &request.into())
}

/// `ACCOUNT.ATTACH key module instance [TERM t]`
pub(super) fn attach(call: &Call<'_>, [_, module, instance, term]: &[Argument<'_>; 4]) -> Done {
    let (module, instance) = (module.text(), instance.text());
    answer_manager(call, term, ManagerRequest::Attach { module, instance })
}

/// `ACCOUNT.DETACH key module instance [GRACE ms] [TERM t]`
pub(super) fn detach(call: &Call<'_>, [_, module, instance, grace, term]: &[Argument<'_>; 5]) -> Done {
    let (module, instance) = (module.text(), instance.text());
    let grace = grace.optional_integer().unwrap_or(0);
    answer_manager(call, term, ManagerRequest::Detach { module, instance, grace })
}

fn time_to_live(ttl: &Argument<'_>) -> Result<i64, Refusal> {
    config::check_ttl(&config::ACCOUNT_MAX_TTL, "TTL", ttl.integer())
}

/// `ACCOUNT.LOGIN key account instance terminal TTL ms`
pub(super) fn login(call: &Call<'_>, [_, account, instance, terminal, ttl]: &[Argument<'_>; 5]) -> Done {
    let (account, instance, terminal) = (account.text(), instance.text(), terminal.text());
    answer_instance(call, InstanceRequest::Login { account, instance, terminal, ttl: time_to_live(ttl)? })
}

/// `ACCOUNT.RENEW key account epoch TTL ms`
pub(super) fn renew(call: &Call<'_>, [_, account, epoch, ttl]: &[Argument<'_>; 4]) -> Done {
    let (account, epoch) = (account.text(), epoch.natural());
    answer_instance(call, InstanceRequest::Renew { account, epoch, ttl: time_to_live(ttl)? })
}

/// `ACCOUNT.LOGOUT key account epoch [BACK] [TERM t]`
pub(super) fn logout(call: &Call<'_>, [_, account, epoch, back, term]: &[Argument<'_>; 5]) -> Done {
    let (account, epoch, back) = (account.text(), epoch.natural(), back.is_given());
    answer_instance(call, InstanceRequest::Logout { account, epoch, back, term: term.optional_natural() })
}

/// `ACCOUNT.PICK key module instance [COUNT n]`
pub(super) fn pick(call: &Call<'_>, [_, module, instance, count]: &[Argument<'_>; 4]) -> Done {
    let (module, instance, count) = (module.text(), instance.text(), count_of(count, 1)?);
    answer_instance(call, InstanceRequest::Pick { module, instance, count })
}

/// `ACCOUNT.USE key account epoch [COUNT n]`
pub(super) fn usage(call: &Call<'_>, [_, account, epoch, count]: &[Argument<'_>; 4]) -> Done {
    let (account, epoch) = (account.text(), epoch.natural());
    answer_instance(
        call,
        InstanceRequest::Use { account, epoch, count: count.optional_integer().unwrap_or(1) },
    )
}

/// `ACCOUNT.REPORT key account epoch total`
pub(super) fn report(call: &Call<'_>, [_, account, epoch, total]: &[Argument<'_>; 4]) -> Done {
    let (account, epoch, total) = (account.text(), epoch.natural(), total.natural());
    answer_instance(call, InstanceRequest::Report { account, epoch, total })
}

/// `ACCOUNT.RAISE key epoch [ACCOUNT account] [TERM t]`
pub(super) fn raise(call: &Call<'_>, [_, epoch, account, term]: &[Argument<'_>; 4]) -> Done {
    let request = ManagerRequest::Raise { epoch: epoch.natural(), account: account.optional_text() };
    answer_manager(call, term, request)
}

/// `ACCOUNT.REBALANCE key [DRYRUN] [MAXMOVES n] [TERM t]`
pub(super) fn rebalance(call: &Call<'_>, [_, dry_run, max_moves, term]: &[Argument<'_>; 4]) -> Done {
    let max_moves = max_moves.optional_integer().unwrap_or(USUAL_MOVES);
    let request = ManagerRequest::Rebalance { dry_run: dry_run.is_given(), max_moves };
    answer_manager(call, term, request)
}
