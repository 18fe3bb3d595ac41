//! Overdue holds and blocks that a request depends on. After a pause or a restart a million holds may be overdue, and
//! many blocks may share one end. The timer ends them in slices; a request ends only those on which its own decision
//! depends.

use super::decide;
use super::expected::{Expected, SLICE, claim_of, expiries, is_overdue};
use super::orphans::forbids_orphans;
use super::rules::{check_user_limits, live_hold, resolve};
use super::wait::as_hold;
use crate::seat::blocks::MAX_BLOCKS;
use crate::seat::event::Events;
use crate::seat::outcome::Reply;
use crate::seat::plan::PlanPart;
use crate::seat::request::{Hold, Request};
use crate::seat::state::Show;
use crate::seat::venue::Seat;
use crate::shared::Millis;
use crate::shared::refusal::Code;

/// The events of overdue holds and blocks on which the decision of `request` depends. Empty when the decision is final: apply
/// the events and call again until then.
///
/// A request for best seats is decided on the seats that are free by now. Only when it finds none are the seats of
/// overdue blocks and holds looked for, so that no request is refused because of one that has ended. Those that would not
/// help it do not end.
pub fn decide_overdue(show: &Show, now: Millis, request: &Request<'_>) -> Events {
    if show.next_due().is_none_or(|due| due > now) {
        return Events::new();
    }
    // First the blocks, so that seats of overdue holds do not return to a block that has ended.
    let blocks = show.overdue_among(now, blocks_of(show, request));
    if !blocks.is_empty() {
        return blocks.into();
    }
    if matches!(request, Request::BlockIn { .. }) && show.blocks.len() >= MAX_BLOCKS {
        let one = show.overdue_blocks(now, 1);
        if !one.is_empty() {
            return one.into();
        }
    }
    let holds = match request {
        Request::Extend { token, .. }
        | Request::Confirm { token, .. }
        | Request::Exchange { token, .. }
        | Request::Release { token, .. } => show.claims.find(token).into_iter().collect(),
        Request::Pick(pick) => {
            let mut holds = owners(show, &pick.seats);
            if forbids_orphans(show, pick) {
                holds.extend(neighbours(show, &pick.seats));
            }
            holds.extend(show.claims.find(pick.token.token));
            holds.extend(of_user(show, now, pick.user, pick.seats.len() as u32, None));
            holds
        }
        Request::Block(seats)
        | Request::BlockIn { seats, .. }
        | Request::Unblock(seats)
        | Request::Refund { seats, .. } => owners(show, seats),
        Request::EndBlock(name) => of_block(show, now, show.blocks.called(name)),
        Request::Hold(hold) => return for_hold(show, now, hold, request),
        Request::Wait(wait) => {
            let hold = as_hold(wait);
            return for_hold(show, now, &hold, &Request::Hold(hold.clone()));
        }
        Request::Unwait(_) => Vec::new(),
        Request::Alter(part) => of_part(show, part),
    };
    expiries(show, now, holds)
}

/// The blocks on which a decision depends, even if it finds seats: the block that the request names, and those of the
/// seats that it names or gives up for others. Only blocks that exist; a block may occur more than once.
fn blocks_of(show: &Show, request: &Request<'_>) -> Vec<u32> {
    let named = |name: Option<&[u8]>| name.and_then(|name| show.blocks.called(name));
    let of_seats = |ids: &[&[u8]]| -> Vec<u32> {
        let seats = ids.iter().filter_map(|id| show.venue.find(id));
        seats.filter_map(|seat| show.blocks.of(seat)).collect()
    };
    let for_hold = |hold: &Hold<'_>| -> Vec<u32> {
        let replaced = hold.replace.and_then(|replace| show.claims.find(replace.token));
        let seats = replaced.map_or(&[][..], |id| &show.claims.get(id).seats[..]);
        let replaced = seats.iter().filter_map(|&seat| show.blocks.of(seat));
        replaced.chain(named(hold.from)).collect()
    };
    match request {
        Request::Hold(hold) => for_hold(hold),
        Request::Wait(wait) => for_hold(&wait.hold),
        Request::Pick(pick) => {
            let mut blocks = of_seats(&pick.seats);
            if forbids_orphans(show, pick) {
                blocks.extend(near(show, &pick.seats).filter_map(|seat| show.blocks.of(seat)));
            }
            blocks.extend(named(pick.from));
            blocks
        }
        Request::Block(seats) | Request::Unblock(seats) => of_seats(seats),
        Request::BlockIn { name, seats, .. } => {
            let mut blocks = of_seats(seats);
            blocks.extend(named(*name));
            blocks
        }
        Request::EndBlock(name) => named(Some(*name)).into_iter().collect(),
        Request::Extend { .. }
        | Request::Confirm { .. }
        | Request::Exchange { .. }
        | Request::Release { .. }
        | Request::Refund { .. }
        | Request::Unwait(_)
        | Request::Alter(_) => Vec::new(),
    }
}

/// The claims that own these seats. Unknown seats are left to the decision.
fn owners(show: &Show, ids: &[&[u8]]) -> Vec<u32> {
    let seats = ids.iter().filter_map(|id| show.venue.find(id));
    seats.filter_map(|seat| claim_of(show, seat)).collect()
}

/// The claims that own a seat near these.
fn neighbours(show: &Show, ids: &[&[u8]]) -> Vec<u32> {
    near(show, ids).filter_map(|seat| claim_of(show, seat)).collect()
}

/// The seats at most two places beside these: they decide whether a seat stays alone.
fn near(show: &Show, ids: &[&[u8]]) -> impl Iterator<Item = Seat> {
    let seats = ids.iter().filter_map(|id| show.venue.find(id));
    seats.flat_map(|seat| seat.saturating_sub(2)..=seat.saturating_add(2))
}

/// The claims that own seats which may be removed, or change their tiers or flags. Names, priorities, order rules and ranks
/// depend on no hold.
fn of_part(show: &Show, part: &PlanPart) -> Vec<u32> {
    let areas =
        part.areas.iter().filter_map(|area| Some((area, show.venue.area_called(area.id.as_bytes())?)));
    let rows = areas.flat_map(|(change, area)| {
        let retiered = change.rows.iter().filter(|row| row.tier.is_some() || row.seats.is_some());
        let labels = retiered.map(|row| &row.label).chain(change.put_rows.iter().map(|row| &row.label));
        let labels = labels.chain(&change.remove_rows);
        let named = labels.flat_map(move |label| show.venue.rows_labelled(area, label.as_bytes()));
        let places = change.tier.is_some() || change.standing.is_some();
        named.chain(places.then(|| show.venue.area(area).rows.clone()).into_iter().flatten())
    });
    let removed = part.remove_seats.iter().filter_map(|id| show.venue.find(id.as_bytes()));
    let seats = rows.flat_map(|row| show.venue.seats_of(row)).chain(removed);
    seats.filter_map(|seat| claim_of(show, seat)).collect()
}

/// Overdue holds of seats of a block, to which the seats return. O(seats of the block).
fn of_block(show: &Show, now: Millis, block: Option<u32>) -> Vec<u32> {
    let seats = block.and_then(|id| show.blocks.get(id)).map_or(&[][..], |block| &block.seats);
    let holds = seats.iter().filter_map(|&seat| claim_of(show, seat));
    holds.filter(|&id| is_overdue(show, id, now)).take(SLICE).collect()
}

/// Overdue holds of a user who would exceed a limit.
fn of_user(show: &Show, now: Millis, user: &[u8], count: u32, replaced: Option<u32>) -> Vec<u32> {
    let Some(info) = show.claims.user_called(user) else { return Vec::new() };
    if check_user_limits(show, user, count, replaced).is_ok() {
        return Vec::new();
    }
    let holds = show.claims.holds_of(info).iter().copied();
    holds.filter(|&id| is_overdue(show, id, now)).take(SLICE).collect()
}

fn for_hold(show: &Show, now: Millis, hold: &Hold<'_>, request: &Request<'_>) -> Events {
    let named = [Some(hold.token.token), hold.replace.map(|replace| replace.token)];
    let mut holds: Vec<u32> =
        named.into_iter().flatten().filter_map(|token| show.claims.find(token)).collect();
    holds.retain(|&id| is_overdue(show, id, now));
    if !holds.is_empty() {
        return expiries(show, now, holds);
    }
    let replaced = hold.replace.and_then(|replace| live_hold(show, now, replace.token, Some(hold.user)).ok());
    let of_user = of_user(show, now, hold.user, hold.count.clamp(0, u32::MAX.into()) as u32, replaced);
    if !of_user.is_empty() {
        return expiries(show, now, of_user);
    }
    let together = match decide(show, now, request) {
        Ok(decision) if decision.reply == Reply::None => false,
        Err(refusal) if refusal.code == Code::NoAdjacent => true,
        Ok(_) | Err(_) => return Events::new(),
    };
    let Ok(wish) = resolve(show, &hold.wanted()) else { return Events::new() };
    let again = hold.replace.is_some_and(|replace| !replace.other);
    Expected::new(show, now, &wish, replaced, again).to_end(together)
}
