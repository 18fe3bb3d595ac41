//! Blocks with a name or an end: `SEAT.BLOCK`, `SEAT.UNBLOCK ... NAME`, and the seats that a pick takes from a block.

use super::rules::{Decided, all_are, live_block, named};
use crate::seat::blocks::{MAX_BLOCK_SEATS, MAX_BLOCKS};
use crate::seat::event::Event;
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

pub(super) fn decide_block(
    show: &Show,
    now: Millis,
    name: Option<&[u8]>,
    until: Option<Millis>,
    seats: &[&[u8]],
) -> Decided {
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
    let seats = named(show, seats)?;
    all_are(show, &seats, Owner::Free, "free")?;
    if name.is_some() || until.is_some() {
        let block = show.blocks.find(name, until);
        if block.is_some_and(|block| show.has_ended(block, now)) {
            return refuse(Code::BadState, "the block has ended, and its seats are about to be free");
        }
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
    let count = seats.len() as i64;
    decided(Event::Blocked { name: name.map(Bytes::from_slice), until, seats }, Reply::Integer(count))
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

/// Refuses seats that are not of this block, or that are held or sold.
pub(super) fn all_are_available(show: &Show, seats: &[Seat], block: u32) -> Result<(), Refusal> {
    let Some(&seat) = seats.iter().find(|&&seat| !show.is_available(seat, Some(block))) else {
        return Ok(());
    };
    let (id, state) = (quoted(show.venue.id(seat)), show.state(seat).word());
    let name = show.blocks.get(block).and_then(|block| block.name.clone()).unwrap_or_default();
    let name = quoted(&name[..]);
    if show.blocks.of(seat) == Some(block) {
        return refuse(Code::BadState, format!("seat {id} of block {name} is {state}"));
    }
    refuse(Code::BadState, format!("seat {id} is {state}, and not of block {name}"))
}
