//! Decides requests: searches, checks every limit, and changes nothing.

mod alter;
mod block;
mod near;
pub(super) mod orphans;
mod party;
mod rows;
pub(super) mod rules;
mod scatter;
pub(super) mod search;
mod split;
pub mod wait;
mod whole_areas;

use self::orphans::{check_orphans, forbids_orphans};
use self::rules::{
    Decided, all_are, all_are_of_order, bad_seat, check_user, check_user_limits, deadline, live_block,
    live_hold, named, no_hold, resolve, retried, sale_of, turn_of,
};
use self::search::{Found, Search};
use super::claims::{MAX_COUNT, Seats, Stage};
use super::event::{Event, Events, Held, Turn};
use super::outcome::{HoldRecord, Reply};
use super::request::{Hold, Orphans, Pick, Request};
use super::state::{Owner, Show};
use crate::shared::decision::{decided, unchanged};
use crate::shared::field::Any;
use crate::shared::refusal::{Code, refuse};
use crate::shared::text::quoted;
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis, copied};

/// Decides a request at `now`, which is not before the last time applied. A hold, wait or block that the request names
/// has ended once its deadline has passed, whether or not that was carried out.
///
/// # Errors
/// A refusal, with its error code and text.
pub fn decide(show: &Show, now: Millis, request: &Request<'_>) -> Decided {
    match request {
        Request::Hold(hold) => decide_hold(show, now, hold),
        Request::Pick(pick) => decide_pick(show, now, pick),
        Request::Extend { token, ttl } => decide_extend(show, now, token, *ttl),
        Request::Confirm { token, user, order } => decide_confirm(show, now, token, *user, *order),
        Request::Exchange { token, user, order, from, seats } => {
            let mut decision = decide_confirm(show, now, token, *user, *order)?;
            // A retry refunds nothing again.
            if !decision.events.is_empty() {
                let seats = named(show, seats)?;
                all_are_of_order(show, &seats, from)?;
                decision.events.push(Event::Refunded { seats });
            }
            Ok(decision)
        }
        Request::Release { token, seats } => decide_release(show, now, token, seats.as_deref()),
        Request::Refund { order, seats } => decide_refund(show, *order, seats),
        Request::Block { name, until, seats } => block::decide_block(show, now, *name, *until, seats),
        Request::EndBlock(name) => block::decide_end(show, now, name),
        Request::Unblock(seats) => {
            let seats = named(show, seats)?;
            all_are(show, &seats, Owner::Blocked, "blocked")?;
            block::none_has_ended(show, now, &seats)?;
            let count = seats.len() as i64;
            decided(Event::Unblocked { seats }, Reply::Integer(count))
        }
        Request::Alter(part) => alter::decide_alter(show, now, part),
        Request::Wait(wait) => wait::decide_wait(show, now, wait),
        Request::Unwait(token) => wait::decide_unwait(show, now, token),
    }
}

/// The events of waits, blocks and holds whose deadline has passed, at most `limit`. Call again until none are left. Waits
/// come first, so that nobody is offered seats after the end of a wait.
pub fn decide_due(show: &Show, now: Millis, limit: usize) -> Events {
    let mut events: Events = wait::overdue_waits(show, now, limit).collect();
    events.extend(show.overdue_blocks(now, limit - events.len()));
    let holds = show.claims.due(now, limit - events.len());
    events.extend(holds.into_iter().map(|id| Event::Expired { token: show.claims.get(id).token.clone() }));
    events
}

fn decide_hold(show: &Show, now: Millis, hold: &Hold<'_>) -> Decided {
    let fingerprint = hold.fingerprint();
    if let Some(record) = retried(show, now, hold.user, hold.token, fingerprint)? {
        return unchanged(Reply::Hold(record));
    }
    hold.wish.check()?;
    let replaced = match hold.replace {
        Some(replace) => Some(live_hold(show, now, replace.token, Some(hold.user))?),
        None => None,
    };
    let born = replaced.map_or(now, |id| show.claims.get(id).created);
    let until = deadline(show, now, born, hold.ttl)?;
    check_user_limits(show, hold.user, hold.wish.count, replaced)?;
    hold.wish.from.map(|name| live_block(show, now, name)).transpose()?;
    let wish = resolve(show, &hold.wish)?;
    let lifted = replaced.map(|id| show.claims.get(id));
    let again = hold.replace.is_some_and(|replace| !replace.other);
    let seats = match Search::new(show, &wish, lifted.map_or(&[], |claim| &claim.seats), again).run() {
        Found::TooFew => return unchanged(Reply::None),
        Found::NotAdjacent => {
            let alone = if wish.orphans == Orphans::Forbid {
                " without leaving a single one beside them"
            } else {
                ""
            };
            return refuse(Code::NoAdjacent, format!("no {} seats side by side are free{alone}", wish.count));
        }
        Found::Seats(seats) => seats,
    };
    let turn = turn_of(show, &wish, &seats);
    let replaced = lifted.map(|claim| copied(&claim.token));
    decided_hold(hold.user, hold.token.token, until, fingerprint, seats, turn, replaced)
}

fn decide_pick(show: &Show, now: Millis, pick: &Pick<'_>) -> Decided {
    let fingerprint = pick.fingerprint();
    if let Some(record) = retried(show, now, pick.user, pick.token, fingerprint)? {
        return unchanged(Reply::Hold(record));
    }
    if pick.seats.len() as i64 > MAX_COUNT {
        return refuse(Code::Err, format!("a hold has at most {MAX_COUNT} seats, not {}", pick.seats.len()));
    }
    let until = deadline(show, now, now, pick.ttl)?;
    let seats = named(show, &pick.seats)?;
    check_user_limits(show, pick.user, seats.len() as u32, None)?;
    let from = pick.from.map(|name| live_block(show, now, name)).transpose()?;
    match from {
        None => all_are(show, &seats, Owner::Free, "free")?,
        Some(block) => block::all_are_available(show, &seats, block)?,
    }
    if forbids_orphans(show, pick) {
        check_orphans(show, &seats, from)?;
    }
    decided_hold(pick.user, pick.token.token, until, fingerprint, seats, Turn::None, None)
}

fn decided_hold(
    user: &[u8],
    token: &[u8],
    until: Millis,
    fingerprint: u64,
    seats: Seats,
    turn: Turn,
    replaced: Option<Bytes>,
) -> Decided {
    let (token, user) = (Bytes::from_slice(token), Bytes::from_slice(user));
    let record = HoldRecord { token: copied(&token), user: copied(&user), seats: copied(&seats), until };
    let held = Held { token, user, until, fingerprint: Any(fingerprint), seats, turn, replaced };
    decided(Event::Held(held), Reply::Hold(record))
}

fn decide_extend(show: &Show, now: Millis, token: &[u8], ttl: Millis) -> Decided {
    let id = live_hold(show, now, token, None)?;
    let until = deadline(show, now, show.claims.get(id).created, ttl)?;
    decided(Event::Extended { token: Bytes::from_slice(token), until }, Reply::Integer(until))
}

fn decide_confirm(
    show: &Show,
    now: Millis,
    token: &[u8],
    user: Option<&[u8]>,
    order: Option<&[u8]>,
) -> Decided {
    if let Some(order) = order {
        check_identifier("order", order)?;
    }
    let Some(id) = show.claims.find(token) else { return no_hold(token) };
    let claim = show.claims.get(id);
    check_user(show, id, user)?;
    match claim.stage {
        Stage::Held { until } if until <= now => no_hold(token),
        Stage::Held { .. } => {
            let event = Event::Confirmed { token: copied(&claim.token), order: order.map(Bytes::from_slice) };
            decided(event, Reply::Integer(claim.seats.len() as i64))
        }
        Stage::Sold { order: filed, bought } => {
            let filed = filed.map(|order| &show.claims.order(order).reference[..]);
            if filed == order {
                return unchanged(Reply::Integer(bought.into()));
            }
            let filed = filed.map_or_else(
                || "without an order".to_owned(),
                |filed| format!("under order {}", quoted(filed)),
            );
            refuse(Code::Exists, format!("token {} is sold already, {filed}", quoted(token)))
        }
    }
}

fn decide_release(show: &Show, now: Millis, token: &[u8], seats: Option<&[&[u8]]>) -> Decided {
    let id = live_hold(show, now, token, None)?;
    let claim = show.claims.get(id);
    let seats = match seats {
        None => copied(&claim.seats),
        Some(ids) => {
            let seats = named(show, ids)?;
            if let Some(&seat) = seats.iter().find(|seat| !claim.seats.contains(seat)) {
                return refuse(
                    Code::NotOwner,
                    format!("seat {} is not of hold {}", quoted(show.venue.id(seat)), quoted(token)),
                );
            }
            seats
        }
    };
    let count = seats.len() as i64;
    decided(Event::Released { token: copied(&claim.token), seats }, Reply::Integer(count))
}

fn decide_refund(show: &Show, order: Option<&[u8]>, ids: &[&[u8]]) -> Decided {
    let seats = named(show, ids)?;
    if let Some(&seat) = seats.iter().find(|&&seat| sale_of(show, seat).is_none()) {
        return bad_seat(show, seat, "sold");
    }
    if let Some(order) = order {
        all_are_of_order(show, &seats, order)?;
    }
    let count = seats.len() as i64;
    decided(Event::Refunded { seats }, Reply::Integer(count))
}
