//! Requests of instances: exclusive logins with deadlines, and instructions that are counted before they are sent.

use crate::account::event::{AccountEvent, Event};
use crate::account::model::record::{Account, AccountState, Epoch};
use crate::account::model::state::{Book, levels_of};
use crate::account::model::tariff::MAX_COUNT;
use crate::account::outcome::{Decided, Decision, Reply, decided, refuse, unchanged};
use crate::account::read::Used;
use crate::shared::list::NONE;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{check_identifier, check_ttl};
use crate::shared::{Bytes, Millis};

/// The most instructions that one request counts.
const MAX_USE: i64 = 1_000_000_000;

pub(super) fn decide_renew(now: Millis, account: &Account, epoch: Epoch, ttl: Millis) -> Decided {
    live(now, account, epoch)?;
    if account.state != AccountState::Assigned {
        let text = format!("account {} is {}: log out", quoted(&account.name), account.state.word());
        return refuse(Code::BadState, text);
    }
    let until = now.saturating_add(ttl);
    decided(account.event(AccountEvent::Renewed { until }), Reply::Account(account.name.clone()))
}

pub(super) fn decide_logout(now: Millis, account: &Account, epoch: Epoch, back: bool) -> Decided {
    if back && account.state == AccountState::Assigned {
        return give_back(account, epoch);
    }
    let login = account.live_login(now).is_some_and(|login| login.epoch == epoch);
    let gives =
        account.state == AccountState::Revoking || account.instance == NONE && account.login.is_some();
    let by_assignment = account.epoch == epoch && gives;
    if !login && !by_assignment {
        // The login has ended already, or the epoch is of another login: a late logout ends nothing.
        return unchanged(Reply::Integer(0));
    }
    decided(account.event(AccountEvent::LoggedOut { lapsed: false }), Reply::Integer(1))
}

/// Decides that an instance returns an account that was not revoked: a login ends, and the account is assigned again.
fn give_back(account: &Account, epoch: Epoch) -> Decided {
    if account.epoch != epoch {
        return unchanged(Reply::Integer(0));
    }
    let over = account.login.is_some().then(|| account.event(AccountEvent::LoggedOut { lapsed: false }));
    let withdrawn = Event::Withdrawn { accounts: vec![account.name.clone()] };
    Ok(Decision { events: over.into_iter().chain([withdrawn]).collect(), reply: Reply::Integer(1) })
}

pub(super) fn decide_login(
    book: &Book,
    now: Millis,
    account: &Account,
    instance: &[u8],
    terminal: &[u8],
    ttl: Millis,
) -> Decided {
    check_identifier("terminal", terminal)?;
    check_ttl(ttl)?;
    let name = quoted(&account.name);
    match account.state {
        AccountState::Assigned => {}
        AccountState::Free => {
            return refuse(Code::NotOwner, format!("account {name} is free: nobody holds it"));
        }
        AccountState::Revoking | AccountState::Frozen => {
            return refuse(
                Code::BadState,
                format!("account {name} is {}, not assigned", account.state.word()),
            );
        }
    }
    let holder = book.instance_name(account.instance);
    if *holder != *instance {
        let text = format!("account {name} is assigned to instance {}", quoted(&holder));
        return refuse(Code::NotOwner, text);
    }
    if let Some(login) = account.live_login(now)
        && *login.terminal != *terminal
    {
        let by = quoted(&login.terminal);
        return refuse(Code::NotOwner, format!("account {name} is logged in at {by} until {}", login.until));
    }
    let (terminal, until) = (Bytes::from_slice(terminal), now.saturating_add(ttl));
    let event = account.event(AccountEvent::LoggedIn { terminal, until });
    decided(event, Reply::Account(account.name.clone()))
}

/// Refuses an epoch that is not that of the current login.
fn live(now: Millis, account: &Account, epoch: Epoch) -> Result<(), Refusal> {
    let name = quoted(&account.name);
    match account.live_login(now) {
        _ if account.state == AccountState::Frozen => {
            refuse(Code::BadState, format!("account {name} is frozen"))
        }
        Some(login) if login.epoch == epoch => Ok(()),
        Some(login) => {
            refuse(Code::Stale, format!("account {name} is logged in by {}, not by {epoch}", login.epoch))
        }
        None => refuse(Code::Stale, format!("account {name} is not logged in by {epoch} any more")),
    }
}

/// Refuses a count beyond the budget of the module, of its department, or of a department that contains it.
fn check_budgets(book: &Book, account: &Account, count: u64) -> Result<(), Refusal> {
    let Some(module) = book.indexed_module(account.module) else { return Ok(()) };
    let beyond = |of: &str, name: &[u8], used: u128, cap: u64| {
        if cap == 0 || used + u128::from(count) <= u128::from(cap) {
            return Ok(());
        }
        let name = quoted(name);
        refuse(Code::Limit, format!("{of} {name} has used {used} this month, and the cap is {cap}"))
    };
    beyond("module", &module.name, module.used(), module.policy.cap)?;
    levels_of(&module.department).try_for_each(|level| {
        let budget = book.budget(level).unwrap_or_default();
        beyond("department", level, budget.used, budget.cap)
    })
}

pub(super) fn decide_use(book: &Book, now: Millis, account: &Account, epoch: Epoch, count: i64) -> Decided {
    if !(1..=MAX_USE).contains(&count) {
        return refuse(Code::Err, format!("COUNT must be 1 to {MAX_USE}, not {count}"));
    }
    // A client that works without a login uses the epoch of the assignment.
    let by_assignment = account.epoch == epoch
        && account.state == AccountState::Assigned
        && account.live_login(now).is_none();
    if !by_assignment {
        live(now, account, epoch)?;
    }
    let (count, before) = (count.unsigned_abs(), account.position(book.month));
    let cap = account.limit(book.settings.limit());
    if before.saturating_add(count) > cap || !account.has_room(book.month, count) {
        let name = quoted(&account.name);
        let text = format!("account {name} has used {before} this month, and the cap is {cap}");
        return refuse(Code::Limit, text);
    }
    check_budgets(book, account, count)?;
    decided(account.event(AccountEvent::Used { count }), Reply::Used(Used::with(account, book.month, count)))
}

/// Decides a report of the instructions since an assignment. The instance has sent them, so no cap refuses them.
pub(super) fn decide_report(book: &Book, account: &Account, epoch: Epoch, total: u64) -> Decided {
    let name = quoted(&account.name);
    if total > MAX_COUNT {
        return refuse(Code::Err, format!("the total must be at most {MAX_COUNT}, not {total}"));
    }
    if account.stay_of(epoch).is_none() {
        let text = format!("account {name} was never assigned by {epoch}, or by 32 later epochs since");
        return refuse(Code::Stale, text);
    }
    let Some(counted) = account.reported(epoch) else {
        let text = format!("assignment {epoch} of account {name} is older than those whose use is kept");
        return refuse(Code::Stale, text);
    };
    let count = total.saturating_sub(counted);
    if !account.has_room(book.month, count) {
        return refuse(
            Code::Limit,
            format!("account {name} cannot have used more than {MAX_COUNT} this month"),
        );
    }
    let reply = Reply::Used(Used::with(account, book.month, count));
    if count == 0 {
        return unchanged(reply);
    }
    decided(account.event(AccountEvent::Reported { epoch, count }), reply)
}
