//! What those ask who work with accounts: exclusive logins with deadlines, and instructions counted before they are sent.

use super::decide::{Decided, Decision, Reply, decided, refuse, unchanged};
use super::event::Event;
use super::record::{Account, Epoch, Standing};
use super::state::Book;
use crate::shared::list::NONE;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{check_identifier, check_ttl};
use crate::shared::{Bytes, Millis};

/// The most instructions that are counted at once.
const MAX_USE: i64 = 1_000_000_000;

pub(super) fn decide_renew(now: Millis, one: &Account, epoch: Epoch, ttl: Millis) -> Decided {
    live(now, one, epoch)?;
    if one.standing != Standing::Dealt {
        let text = format!("account {} is {}: log out", quoted(&one.name), one.standing.word());
        return refuse(Code::BadState, text);
    }
    let until = now.saturating_add(ttl);
    Ok(decided(Event::Renewed { account: one.name.clone(), until }, Reply::Account(one.name.clone())))
}

pub(super) fn decide_logout(now: Millis, one: &Account, epoch: Epoch, back: bool) -> Decision {
    if back && one.standing == Standing::Dealt {
        return give_back(one, epoch);
    }
    let login = one.live_login(now).is_some_and(|login| login.epoch == epoch);
    let gives = one.standing == Standing::Revoking || one.instance == NONE && one.login.is_some();
    let deal = one.epoch == epoch && gives;
    if !login && !deal {
        // It is over already, or another's: a late word ends nothing.
        return unchanged(Reply::Integer(0));
    }
    decided(Event::LoggedOut { account: one.name.clone(), lapsed: false }, Reply::Integer(1))
}

/// An instance gives an account back that nobody asked it for: whoever was logged in there is so no more, and it is dealt
/// anew.
fn give_back(one: &Account, epoch: Epoch) -> Decision {
    if one.epoch != epoch {
        return unchanged(Reply::Integer(0));
    }
    let name = one.name.clone();
    let over = one.login.is_some().then(|| Event::LoggedOut { account: name.clone(), lapsed: false });
    let withdrawn = Event::Withdrawn { accounts: vec![name] };
    Decision { events: over.into_iter().chain([withdrawn]).collect(), reply: Reply::Integer(1) }
}

pub(super) fn decide_login(
    book: &Book,
    now: Millis,
    one: &Account,
    instance: &[u8],
    terminal: &[u8],
    ttl: Millis,
) -> Decided {
    check_identifier("terminal", terminal)?;
    check_ttl(ttl)?;
    let name = quoted(&one.name);
    match one.standing {
        Standing::Dealt => {}
        Standing::Free => return refuse(Code::NotOwner, format!("account {name} is free: nobody holds it")),
        Standing::Revoking | Standing::Frozen => {
            return refuse(Code::BadState, format!("account {name} is {}, not dealt", one.standing.word()));
        }
    }
    let holder = book.instance_name(one.instance);
    if *holder != *instance {
        let text = format!("account {name} is dealt to instance {}", quoted(&holder));
        return refuse(Code::NotOwner, text);
    }
    if let Some(login) = one.live_login(now)
        && *login.terminal != *terminal
    {
        let by = quoted(&login.terminal);
        return refuse(Code::NotOwner, format!("account {name} is logged in at {by} until {}", login.until));
    }
    let event = Event::LoggedIn {
        account: one.name.clone(),
        terminal: Bytes::from_slice(terminal),
        until: now.saturating_add(ttl),
    };
    Ok(decided(event, Reply::Account(one.name.clone())))
}

/// Refuses who is not logged in by that epoch.
fn live(now: Millis, one: &Account, epoch: Epoch) -> Result<(), Refusal> {
    let name = quoted(&one.name);
    match one.live_login(now) {
        _ if one.standing == Standing::Frozen => refuse(Code::BadState, format!("account {name} is frozen")),
        Some(login) if login.epoch == epoch => Ok(()),
        Some(login) => {
            refuse(Code::Stale, format!("account {name} is logged in by {}, not by {epoch}", login.epoch))
        }
        None => refuse(Code::Stale, format!("account {name} is not logged in by {epoch} any more")),
    }
}

pub(super) fn decide_use(book: &Book, now: Millis, one: &Account, epoch: Epoch, count: i64) -> Decided {
    if !(1..=MAX_USE).contains(&count) {
        return refuse(Code::Err, format!("COUNT must be 1 to {MAX_USE}, not {count}"));
    }
    // Whoever works without logging in has the deal for an epoch.
    let by_deal = one.epoch == epoch && one.standing == Standing::Dealt && one.live_login(now).is_none();
    if !by_deal {
        live(now, one, epoch)?;
    }
    let used = one.used_in(book.month).saturating_add(count.unsigned_abs());
    let cap = book.settings.limit();
    if used > cap {
        let text = format!(
            "account {} has used {} this month, and the cap is {cap}",
            quoted(&one.name),
            one.used_in(book.month)
        );
        return refuse(Code::Limit, text);
    }
    let event = Event::Used { account: one.name.clone(), count: count.unsigned_abs() };
    Ok(decided(event, Reply::Used(super::read::Used::of(one, used))))
}
