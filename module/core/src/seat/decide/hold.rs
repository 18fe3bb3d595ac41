//! `SEAT.HOLD` and `SEAT.PICK`: the best seats, or those that the user names, become a hold.

use super::also::Also;
use super::orphans::check_orphans;
use super::rules::{
    Decided, available_seats, check_block_limit, check_open, check_user_limits, deadline, exchanged,
    live_block, live_hold, named, resolve, retried, turn_of,
};
use super::search::{Found, Search};
use crate::seat::claims::{MAX_COUNT, Seats};
use crate::seat::event::{Event, Held, Turn};
use crate::seat::outcome::{HoldRecord, Reply};
use crate::seat::request::{Hold, NamedWish, Need, Orphans, Pick};
use crate::seat::state::Show;
use crate::seat::venue::Seat;
use crate::shared::decision::{decided, unchanged};
use crate::shared::field::Any;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;
use crate::shared::{Bytes, Millis, copied};

/// `also` has the other shows of a request for several.
pub(super) fn decide_hold(
    show: &Show,
    now: Millis,
    hold: &Hold<'_>,
    fingerprint: u64,
    also: Option<&Also<'_>>,
) -> Decided {
    if let Some(record) = retried(show, now, hold.user, hold.token, fingerprint)? {
        return unchanged(Reply::Hold(record));
    }
    hold.wish.check()?;
    let terms = Terms::of(show, now, hold)?;
    let wish = resolve(show, &hold.wish)?;
    let search = Search::new(show, &wish, terms.lifted, terms.again);
    let found = also.into_iter().fold(search, Search::within).run();
    let Some(seats) = seats_found(show, found, &hold.wish)? else { return unchanged(Reply::None) };
    let turn = turn_of(show, &wish, &seats);
    terms.held(hold, fingerprint, seats, turn)
}

/// What a show grants a user who asks for a hold, before its seats are known.
pub(super) struct Terms<'a> {
    /// The deadline of the hold.
    until: Millis,
    /// The token of the hold that it replaces.
    replaced: Option<&'a [u8]>,
    /// The seats of that hold, which count as free.
    pub(super) lifted: &'a [Seat],
    /// Whether the hold may have them again.
    pub(super) again: bool,
    /// The block to which its seats belong.
    pub(super) from: Option<u32>,
}

impl<'a> Terms<'a> {
    /// The terms of this request, which is within all limits.
    pub(super) fn of(show: &'a Show, now: Millis, hold: &Hold<'_>) -> Result<Self, Refusal> {
        let replaced = match hold.replace {
            Some(replace) => Some(live_hold(show, now, replace.token, Some(hold.user))?),
            None => None,
        };
        let lifted = replaced.map(|id| show.claims.get(id));
        let until = deadline(show, now, lifted.map_or(now, |claim| claim.created), hold.ttl)?;
        let mut spared = exchanged(show, hold.user, &hold.exchange)?;
        check_user_limits(show, hold.user, hold.wish.count, replaced, spared.len() as u32)?;
        let from = hold.wish.from.map(|name| live_block(show, now, name)).transpose()?;
        spared.extend_from_slice(lifted.map_or(&[], |claim| &claim.seats));
        check_block_limit(show, from, hold.user, hold.wish.count, &spared)?;
        check_open(show)?;
        Ok(Self {
            until,
            replaced: lifted.map(|claim| &claim.token[..]),
            lifted: lifted.map_or(&[], |claim| &claim.seats),
            again: hold.replace.is_some_and(|replace| !replace.other),
            from,
        })
    }

    /// The terms of a request that makes no hold, or whose limits are looked at elsewhere.
    pub(super) fn of_seats_alone(from: Option<u32>) -> Self {
        Self { until: 0, replaced: None, lifted: &[], again: false, from }
    }

    /// The hold of these seats.
    pub(super) fn held(&self, hold: &Hold<'_>, fingerprint: u64, seats: Seats, turn: Turn) -> Decided {
        let replaced = self.replaced.map(Bytes::from_slice);
        let (exchange, until) = (!hold.exchange.is_empty(), self.until);
        decided_hold(hold.user, hold.token.token, seats, |token, user, seats| Held {
            token,
            user,
            until,
            fingerprint: Any(fingerprint),
            seats,
            turn,
            replaced,
            exchange,
        })
    }
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
    let given = exchanged(show, pick.user, &pick.exchange)?;
    check_user_limits(show, pick.user, seats.len() as u32, None, given.len() as u32)?;
    let from = pick.from.map(|name| live_block(show, now, name)).transpose()?;
    check_block_limit(show, from, pick.user, seats.len() as u32, &given)?;
    available_seats(show, &seats, from)?;
    if forbids_orphans {
        check_orphans(show, &seats, from)?;
    }
    decided_hold(pick.user, pick.token.token, seats, |token, user, seats| Held {
        token,
        user,
        until,
        fingerprint: Any(fingerprint),
        seats,
        turn: Turn::None,
        replaced: None,
        exchange: !pick.exchange.is_empty(),
    })
}

/// The hold that `held` makes of a token, a user and seats, with its record as the reply.
fn decided_hold(
    user: &[u8],
    token: &[u8],
    seats: Seats,
    held: impl FnOnce(Bytes, Bytes, Seats) -> Held,
) -> Decided {
    let held = held(Bytes::from_slice(token), Bytes::from_slice(user), seats);
    let record = HoldRecord {
        token: held.token.clone(),
        user: held.user.clone(),
        seats: copied(&held.seats),
        until: held.until,
    };
    decided(Event::Held(held), Reply::Hold(record))
}
