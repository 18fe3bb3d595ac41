//! Decides requests: searches, checks every limit, and changes nothing.

pub(super) mod also;
mod alter;
mod beside;
mod block;
mod cart;
mod frame;
mod freed;
mod hold;
mod near;
pub(super) mod orphans;
mod party;
mod preferred;
mod resale;
mod rows;
pub(super) mod rules;
mod scatter;
pub(super) mod search;
pub mod several;
mod split;
pub mod wait;
mod whole_areas;

use self::orphans::forbids_orphans;
use self::rules::{
    Decided, all_are, all_are_of_order, bad_seat, check_block_limits, check_user, deadline, exchanged,
    live_hold, named, no_hold, sale_of,
};
use super::claims::{Sale, Seats, Stage};
use super::event::{Event, Events};
use super::outcome::{Decision, Reply};
use super::request::{MAX_REFUNDED, Request};
use super::state::{Owner, Show};
use crate::shared::decision::{decided, unchanged};
use crate::shared::refusal::{Code, Refusal, refuse};
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
        Request::Hold(hold) => hold::decide_hold(show, now, hold, hold.fingerprint(), None),
        Request::AddBest(add) => cart::decide_add_best(show, now, add, None),
        Request::Pick(pick) => {
            hold::decide_pick(show, now, pick, pick.fingerprint(), forbids_orphans(show, pick))
        }
        Request::AddPicked(pick) => cart::decide_add_picked(show, now, pick),
        Request::Extend { token, ttl } => decide_extend(show, now, token, *ttl),
        Request::Confirm { token, user, order } => decide_confirm(show, now, token, *user, *order, &[]),
        Request::Exchange { token, user, order, from, seats } => {
            let mut decision = decide_confirm(show, now, token, *user, *order, seats)?;
            // A retry refunds nothing again.
            if !decision.events.is_empty() {
                let seats = named(show, seats)?;
                all_are_of_order(show, &seats, from)?;
                decision.events.push(Event::Refunded { seats });
            }
            Ok(decision)
        }
        Request::Release { token, seats, into } => decide_release(show, now, token, seats.as_deref(), *into),
        Request::Refund { order, seats, into } => decide_refund(show, now, *order, seats.as_deref(), *into),
        Request::Move(request) => resale::decide_move(show, request),
        Request::Transfer(transfer) => resale::decide_transfer(show, transfer),
        Request::BlockHold { name, until, per_user, token } => {
            let id = live_hold(show, now, token, None)?;
            let seats = copied(&show.claims.get(id).seats);
            let released = Event::Released { token: Bytes::from_slice(token), seats: copied(&seats) };
            let count = Reply::Integer(seats.len() as i64);
            let into = block::Target { name: *name, until: *until, per_user: *per_user };
            let events = block::into_block(show, now, into, seats, released)?;
            Ok(Decision { events, reply: count })
        }
        Request::Block { name, until, per_user, seats } => {
            let into = block::Target { name: *name, until: *until, per_user: *per_user };
            block::decide_block(show, now, into, seats)
        }
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
    let holds = show.claims.deadlines.due(now, limit - events.len());
    events.extend(holds.into_iter().map(|id| Event::Expired { token: show.claims.get(id).token.clone() }));
    events
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
    given: &[&[u8]],
) -> Decided {
    if let Some(order) = order {
        check_identifier("order", order)?;
    }
    let Some(id) = show.claims.find(token) else { return no_hold(token) };
    let claim = show.claims.get(id);
    check_user(show, id, user)?;
    match show.claims.stage(id) {
        Stage::Held { until } if until <= now => no_hold(token),
        Stage::Held { .. } => {
            check_exchange(show, id, given)?;
            let event = Event::Confirmed { token: claim.token.clone(), order: order.map(Bytes::from_slice) };
            decided(event, Reply::Integer(claim.seats.len() as i64))
        }
        Stage::Sold(Sale { order: filed, bought }) => {
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

/// Refuses to sell a hold for which seats were to be given back, if its user would have more than the limit without that.
fn check_exchange(show: &Show, id: u32, given: &[&[u8]]) -> Result<(), Refusal> {
    let (claim, most) = (show.claims.get(id), show.limits.seats_per_user);
    if !show.claims.exchanges.contains(&id) {
        return Ok(());
    }
    let user = show.claims.user(claim.user);
    let mut spared = exchanged(show, &user.name, given).unwrap_or_default();
    let has = user.seats - spared.len() as u32;
    if most == 0 || has <= most {
        spared.extend_from_slice(&claim.seats);
        return check_block_limits(show, &user.name, &claim.seats, &spared);
    }
    let (token, user) = (quoted(&claim.token[..]), quoted(&user.name[..]));
    let text = format!(
        "hold {token} was made in exchange for sold seats, and user {user} would have {has} seats of {most}: name them \
         with EXCHANGE"
    );
    refuse(Code::Limit, text)
}

fn decide_release(
    show: &Show,
    now: Millis,
    token: &[u8],
    seats: Option<&[&[u8]]>,
    into: Option<&[u8]>,
) -> Decided {
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
    let released = Event::Released { token: claim.token.clone(), seats: copied(&seats) };
    given_up(show, now, seats, released, into)
}

/// Seats that are given up by an event: they are free, or go into a block.
fn given_up(show: &Show, now: Millis, seats: Seats, event: Event, into: Option<&[u8]>) -> Decided {
    let reply = Reply::Integer(seats.len() as i64);
    match into {
        None => decided(event, reply),
        Some(name) => {
            let into = block::Target { name: Some(name), until: None, per_user: None };
            let events = block::into_block(show, now, into, seats, event)?;
            Ok(Decision { events, reply })
        }
    }
}

fn decide_refund(
    show: &Show,
    now: Millis,
    order: Option<&[u8]>,
    ids: Option<&[&[u8]]>,
    into: Option<&[u8]>,
) -> Decided {
    let seats = match (ids, order) {
        (Some(ids), _) => named(show, ids)?,
        (None, Some(order)) => seats_of_order(show, order)?,
        (None, None) => return refuse(Code::Err, "name the seats to refund, or an ORDER"),
    };
    if let Some(&seat) = seats.iter().find(|&&seat| sale_of(show, seat).is_none()) {
        return bad_seat(show, seat, "sold");
    }
    if let Some(order) = order {
        all_are_of_order(show, &seats, order)?;
    }
    let refunded = Event::Refunded { seats: copied(&seats) };
    given_up(show, now, seats, refunded, into)
}

/// All seats of an order.
fn seats_of_order(show: &Show, order: &[u8]) -> Result<Seats, Refusal> {
    if show.claims.order_called(order).is_none() {
        return refuse(Code::NotFound, format!("there is no order {}", quoted(order)));
    }
    let Some(seats) = show.order_seats(order, MAX_REFUNDED) else {
        let order = quoted(order);
        let text = format!("order {order} has more than {MAX_REFUNDED} seats: name the seats to refund");
        return refuse(Code::Limit, text);
    };
    Ok(seats)
}
