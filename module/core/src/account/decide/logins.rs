//! Requests of instances: exclusive logins with deadlines, and instructions that are counted before they are sent.

use crate::account::event::Event;
use crate::account::model::record::{Account, AccountState, Epoch};
use crate::account::model::state::Book;
use crate::account::model::tariff::MAX_COUNT;
use crate::account::outcome::{Decided, Decision, Reply, decided, refuse, unchanged};
use crate::shared::list::NONE;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{check_identifier, check_ttl};
use crate::shared::{Bytes, Millis};

/// The most instructions that one request counts.
const MAX_USE: i64 = 1_000_000_000;

pub(super) fn decide_renew(now: Millis, account: &Account, epoch: Epoch, ttl: Millis) -> Decided {
    live(now, account, epoch)?;
    if account.state != AccountState::Dealt {
        let text = format!("account {} is {}: log out", quoted(&account.name), account.state.word());
        return refuse(Code::BadState, text);
    }
    let until = now.saturating_add(ttl);
    Ok(decided(Event::Renewed { account: account.name.clone(), until }, Reply::Account(account.name.clone())))
}

pub(super) fn decide_logout(now: Millis, account: &Account, epoch: Epoch, back: bool) -> Decision {
    if back && account.state == AccountState::Dealt {
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
    decided(Event::LoggedOut { account: account.name.clone(), lapsed: false }, Reply::Integer(1))
}

/// Decides that an instance returns an account that was not revoked: a login ends, and the account is assigned again.
fn give_back(account: &Account, epoch: Epoch) -> Decision {
    if account.epoch != epoch {
        return unchanged(Reply::Integer(0));
    }
    let name = account.name.clone();
    let over = account.login.is_some().then(|| Event::LoggedOut { account: name.clone(), lapsed: false });
    let withdrawn = Event::Withdrawn { accounts: vec![name] };
    Decision { events: over.into_iter().chain([withdrawn]).collect(), reply: Reply::Integer(1) }
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
        AccountState::Dealt => {}
        AccountState::Free => {
            return refuse(Code::NotOwner, format!("account {name} is free: nobody holds it"));
        }
        AccountState::Revoking | AccountState::Frozen => {
            return refuse(Code::BadState, format!("account {name} is {}, not dealt", account.state.word()));
        }
    }
    let holder = book.instance_name(account.instance);
    if *holder != *instance {
        let text = format!("account {name} is dealt to instance {}", quoted(&holder));
        return refuse(Code::NotOwner, text);
    }
    if let Some(login) = account.live_login(now)
        && *login.terminal != *terminal
    {
        let by = quoted(&login.terminal);
        return refuse(Code::NotOwner, format!("account {name} is logged in at {by} until {}", login.until));
    }
    let event = Event::LoggedIn {
        account: account.name.clone(),
        terminal: Bytes::from_slice(terminal),
        until: now.saturating_add(ttl),
    };
    Ok(decided(event, Reply::Account(account.name.clone())))
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

pub(super) fn decide_use(book: &Book, now: Millis, account: &Account, epoch: Epoch, count: i64) -> Decided {
    if !(1..=MAX_USE).contains(&count) {
        return refuse(Code::Err, format!("COUNT must be 1 to {MAX_USE}, not {count}"));
    }
    // A client that works without a login uses the epoch of the assignment.
    let by_assignment =
        account.epoch == epoch && account.state == AccountState::Dealt && account.live_login(now).is_none();
    if !by_assignment {
        live(now, account, epoch)?;
    }
    let used = account.used_in(book.month).saturating_add(count.unsigned_abs());
    let cap = book.settings.limit();
    if used > cap {
        let text = format!(
            "account {} has used {} this month, and the cap is {cap}",
            quoted(&account.name),
            account.used_in(book.month)
        );
        return refuse(Code::Limit, text);
    }
    let event = Event::Used { account: account.name.clone(), count: count.unsigned_abs() };
    Ok(decided(event, Reply::Used(crate::account::read::Used::of(account, used))))
}

/// Decides a report of the instructions since an assignment. The instance has sent them, so no cap refuses them.
pub(super) fn decide_report(book: &Book, account: &Account, epoch: Epoch, total: u64) -> Decided {
    let name = quoted(&account.name);
    if total > MAX_COUNT {
        return refuse(Code::Err, format!("the total must be at most {MAX_COUNT}, not {total}"));
    }
    let Some(counted) = account.reported(epoch) else {
        let text = format!("assignment {epoch} of account {name} is older than those whose use is kept");
        return refuse(Code::Stale, text);
    };
    let count = total.saturating_sub(counted);
    let used = account.used_in(book.month).saturating_add(count);
    if used > MAX_COUNT {
        return refuse(
            Code::Limit,
            format!("account {name} cannot have used more than {MAX_COUNT} this month"),
        );
    }
    let reply = Reply::Used(crate::account::read::Used::of(account, used));
    if count == 0 {
        return Ok(unchanged(reply));
    }
    Ok(decided(Event::Reported { account: account.name.clone(), epoch, count }, reply))
}
