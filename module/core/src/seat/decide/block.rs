//! Blocks with a name or an end: `SEAT.BLOCK`, `SEAT.UNBLOCK ... NAME`, and the seats that a pick takes from a block.

use super::rules::{Decided, all_are, live_block, named};
use crate::seat::blocks::{MAX_BLOCK_SEATS, MAX_BLOCKS};
use crate::seat::claims::Seats;
use crate::seat::event::{Event, Events};
use crate::seat::outcome::Reply;
use crate::seat::state::{Owner, Show};
use crate::seat::venue::Seat;
use crate::shared::decision::decided;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis};

/// The greatest time of an event: 2^53 - 1.
const LAST_TIME: Millis = (1 << 53) - 1;

/// The block into which seats go, as a request names it.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) name: Option<&'a [u8]>,
    pub(super) until: Option<Millis>,
    pub(super) per_user: Option<u32>,
}

pub(super) fn decide_block(show: &Show, now: Millis, into: Target<'_>, seats: &[&[u8]]) -> Decided {
    let seats = named(show, seats)?;
    let others: Seats = seats.iter().copied().filter(|&seat| show.owner(seat) != Owner::Queued).collect();
    all_are(show, &others, Owner::Free, "free")?;
    let count = seats.len() as i64;
    decided(blocked(show, now, into, seats)?, Reply::Integer(count))
}

/// What gives up held or sold seats and puts them into a block. Those that are of the block return to it.
pub(super) fn into_block(
    show: &Show,
    now: Millis,
    into: Target<'_>,
    seats: Seats,
    given_up: Event,
) -> Result<Events, Refusal> {
    let block = show.blocks.find(into.name, into.until);
    has_not_ended(show, now, block)?;
    let returns = |&seat: &Seat| block.is_some() && show.blocks.of(seat) == block;
    let (returning, seats): (Seats, Seats) = seats.into_iter().partition(returns);
    let changes_block = into.until.is_some() || into.per_user.is_some();
    if let Some(seat) = returning.first().filter(|_| seats.is_empty() && changes_block) {
        let seat = quoted(show.venue.id(*seat));
        let text = format!(
            "seat {seat} is of this block, whose end and limit change with a seat that joins it; leave out UNTIL and \
             PERUSER"
        );
        return refuse(Code::BadState, text);
    }
    let mut events: Events = std::iter::once(given_up).collect();
    if seats.is_empty() {
        return Ok(events);
    }
    let of_others = |&seat: &Seat| show.blocks.of(seat).is_some();
    let elsewhere: Seats = seats.iter().copied().filter(of_others).collect();
    if !elsewhere.is_empty() {
        events.push(Event::Unblocked { seats: elsewhere });
    }
    events.push(blocked(show, now, into, seats)?);
    Ok(events)
}

/// The event that puts seats into a block, or only blocks them.
fn blocked(show: &Show, now: Millis, into: Target<'_>, seats: Seats) -> Result<Event, Refusal> {
    let Target { name, until, per_user } = into;
    if per_user.is_some() && name.is_none() {
        return refuse(
            Code::Err,
            "PERUSER limits the seats that users take FROM a block: give the block a NAME",
        );
    }
    if let Some(most) = per_user.filter(|&most| most as usize > MAX_BLOCK_SEATS) {
        let text = format!("PERUSER is a number of seats from 0 (no limit) to {MAX_BLOCK_SEATS}, not {most}");
        return refuse(Code::Err, text);
    }
    if let Some(name) = name {
        check_identifier("block", name)?;
    }
    if let Some(until) = until
        && !(now + 1..=LAST_TIME).contains(&until)
    {
        return refuse(
            Code::Err,
            format!("UNTIL is a time in milliseconds since 1970, later than now ({now}), not {until}"),
        );
    }
    if name.is_some() || until.is_some() {
        let block = show.blocks.find(name, until);
        has_not_ended(show, now, block)?;
        let block = block.and_then(|id| show.blocks.get(id));
        if block.is_none() && show.blocks.len() >= MAX_BLOCKS {
            return refuse(Code::Limit, format!("a show has at most {MAX_BLOCKS} blocks"));
        }
        let before = block.map_or(0, |block| block.seats.len());
        if before + seats.len() > MAX_BLOCK_SEATS {
            let text = format!("a block has at most {MAX_BLOCK_SEATS} seats; this one has {before}");
            return refuse(Code::Limit, text);
        }
    }
    Ok(Event::Blocked { name: name.map(Bytes::from_slice), until, per_user, seats })
}

fn has_not_ended(show: &Show, now: Millis, block: Option<u32>) -> Result<(), Refusal> {
    if block.is_some_and(|block| show.has_ended(block, now)) {
        return refuse(Code::BadState, "the block has ended, and its seats are about to be free");
    }
    Ok(())
}

pub(super) fn decide_end(show: &Show, now: Millis, name: &[u8]) -> Decided {
    let block = live_block(show, now, name)?;
    let count = show.blocked_seats(block).len() as i64;
    let ended = Event::BlockEnded { name: Some(Bytes::from_slice(name)), until: None, expired: false };
    decided(ended, Reply::Integer(count))
}

/// Refuses seats whose block has ended: they are about to be free.
pub(super) fn none_has_ended(show: &Show, now: Millis, seats: &[Seat]) -> Result<(), Refusal> {
    let ended = |seat: &&Seat| show.blocks.of(**seat).is_some_and(|block| show.has_ended(block, now));
    match seats.iter().find(ended) {
        None => Ok(()),
        Some(&seat) => {
            refuse(Code::BadState, format!("the block of seat {} has ended", quoted(show.venue.id(seat))))
        }
    }
}
