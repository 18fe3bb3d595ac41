//! `SEAT.HOLD` and `SEAT.PICK`: the best seats, or those that the user names, become a hold.

use super::orphans::check_orphans;
use super::rules::{
    Decided, available_seats, check_user_limits, deadline, live_block, live_hold, named, resolve, retried,
    turn_of,
};
use super::search::{Found, Search};
use crate::seat::claims::{MAX_COUNT, Seats};
use crate::seat::event::{Event, Held, Turn};
use crate::seat::outcome::{HoldRecord, Reply};
use crate::seat::request::{Hold, NamedWish, Need, Orphans, Pick};
use crate::seat::state::Show;
use crate::shared::decision::{decided, unchanged};
use crate::shared::field::Any;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;
use crate::shared::{Bytes, Millis, copied};

pub(super) fn decide_hold(show: &Show, now: Millis, hold: &Hold<'_>, fingerprint: u64) -> Decided {
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
    let found = Search::new(show, &wish, lifted.map_or(&[], |claim| &claim.seats), again).run();
    let Some(seats) = seats_found(show, found, &hold.wish)? else { return unchanged(Reply::None) };
    let turn = turn_of(show, &wish, &seats);
    let replaced = lifted.map(|claim| copied(&claim.token));
    decided_hold(hold.user, hold.token.token, until, fingerprint, seats, turn, replaced)
}

/// The seats that a search found; `None` if too few are free.
pub(super) fn seats_found(show: &Show, found: Found, wish: &NamedWish<'_>) -> Result<Option<Seats>, Refusal> {
    match found {
        Found::TooFew => Ok(None),
        Found::NotAdjacent => refuse(Code::NoAdjacent, not_adjacent(show, wish)),
        Found::Seats(seats) => Ok(Some(seats)),
    }
}

/// Which seats side by side are not free.
fn not_adjacent(show: &Show, wish: &NamedWish<'_>) -> String {
    let tier = match wish.tier {
        Some(tier) => format!(" of tier {}", quoted(tier)),
        None if show.venue.tiers().len() > 1 => " of one tier".to_owned(),
        None => String::new(),
    };
    let block = wish.from.map_or_else(String::new, |block| format!(" of block {}", quoted(block)));
    let need = |need: &Need<&[u8]>| format!("{} with flag {}", need.count, quoted(need.flag));
    let needs: Vec<String> = wish.needs.iter().map(need).collect();
    let free = if needs.is_empty() {
        " side by side are free".to_owned()
    } else {
        format!(", of them {}, are free side by side", needs.join(" and "))
    };
    let areas = if wish.areas.is_empty() { "" } else { " in the named areas" };
    let alone =
        if wish.orphans == Orphans::Forbid { " without leaving a single one beside them" } else { "" };
    format!("no {} seats{tier}{block}{free}{areas}{alone}", wish.count)
}

pub(super) fn decide_pick(
    show: &Show,
    now: Millis,
    pick: &Pick<'_>,
    fingerprint: u64,
    forbids_orphans: bool,
) -> Decided {
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
    available_seats(show, &seats, from)?;
    if forbids_orphans {
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
