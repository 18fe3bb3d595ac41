//! Blocks with a name or an end in step with the show: which seats return to a block, and what ends it.

use super::blocks::{Block, MAX_BLOCK_SEATS, MAX_BLOCKS};
use super::claims::{Seats, Stage};
use super::event::Event;
use super::state::{Owner, SeatState, Show};
use super::venue::Seat;
use crate::shared::Millis;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::invariant::Checked;
use crate::shared::invariant::Expected;
use crate::{ensure, invariant};

/// A block as `SEAT.BLOCKS` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord<'a> {
    /// The block.
    pub block: &'a Block,
    /// How many of its seats are neither held nor sold.
    pub left: usize,
}

impl Show {
    /// The blocks that have not ended at `now`: those with names by their names, then the others by their ends.
    /// O(B log B + S) with B blocks that have S seats.
    pub fn block_records(&self, now: Millis) -> Vec<BlockRecord<'_>> {
        let is_left = |&&seat: &&Seat| match self.owner(seat) {
            Owner::Claim(id) => matches!(self.claims.stage(id), Stage::Held { until } if until <= now),
            Owner::Free | Owner::Queued | Owner::Blocked => true,
        };
        let blocks = self.blocks.iter().filter(|&(id, _)| !self.has_ended(id, now));
        let record = |(_, block): (u32, _)| {
            let block: &Block = block;
            BlockRecord { block, left: block.seats.iter().filter(is_left).count() }
        };
        let mut records: Vec<BlockRecord<'_>> = blocks.map(record).collect();
        records.sort_unstable_by_key(|record| {
            (record.block.name.is_none(), record.block.name.as_deref(), record.block.until)
        });
        records
    }

    /// Blocks with a name or an end.
    pub fn blocks(&self) -> &super::blocks::Blocks {
        &self.blocks
    }

    /// Seats of a hold or sale are given up: they are free, or blocked again while their block exists.
    pub(super) fn give_up(&mut self, seats: &[Seat], from: SeatState) {
        if self.blocks.is_empty() {
            return self.hand_over(seats, from, SeatState::Free, Owner::Free);
        }
        let (blocked, free): (Seats, Seats) =
            seats.iter().copied().partition(|&seat| self.blocks.of(seat).is_some());
        self.hand_over(&free, from, SeatState::Free, Owner::Free);
        self.hand_over(&blocked, from, SeatState::Blocked, Owner::Blocked);
    }

    /// The state of seats before a hold takes them: blocked if they are of a block.
    pub(super) fn state_before_hold(&self, seats: &[Seat]) -> SeatState {
        match seats.first().and_then(|&seat| self.blocks.of(seat)) {
            None => SeatState::Free,
            Some(_) => SeatState::Blocked,
        }
    }

    /// A block ends: its blocked seats are free, and its held and sold seats do not return to it.
    pub(super) fn end_block(&mut self, name: Option<&[u8]>, until: Option<Millis>) {
        let Some(id) = self.blocks.find(name, until).expected("a block that ends exists") else { return };
        let seats = self.blocked_seats(id);
        self.blocks.remove(id);
        self.hand_over(&seats, SeatState::Blocked, SeatState::Free, Owner::Free);
    }

    /// The seats of a block that are neither held nor sold, in ascending order. O(seats of the block).
    pub(super) fn blocked_seats(&self, id: u32) -> Seats {
        let block = self.blocks.get(id);
        invariant!(block.is_some(), "a block whose seats are asked for exists");
        let seats = block.map_or(&[][..], |block| &block.seats);
        seats.iter().copied().filter(|&seat| self.owner(seat) == Owner::Blocked).collect()
    }

    /// Whether a request may take a seat: a free one, or with a block a blocked seat of that block.
    pub(super) fn is_available(&self, seat: Seat, from: Option<u32>) -> bool {
        let owner = if from.is_some() { Owner::Blocked } else { Owner::Free };
        self.owner(seat) == owner && self.blocks.of(seat) == from
    }

    /// The block of a seat at `now`: a block whose end has passed has ended, whether or not that was applied.
    pub(super) fn block_at(&self, seat: Seat, now: Millis) -> Option<&Block> {
        let block = self.blocks.of(seat).and_then(|id| self.blocks.get(id));
        block.filter(|block| block.until.is_none_or(|until| until > now))
    }

    /// Whether the end of a block has passed by `now`, but was not applied yet.
    pub(super) fn has_ended(&self, id: u32, now: Millis) -> bool {
        self.blocks.get(id).and_then(|block| block.until).is_some_and(|until| until <= now)
    }

    /// The ends of blocks by `now`, as events: as many as have about `limit` seats, and one at least.
    pub(super) fn overdue_blocks(&self, now: Millis, limit: usize) -> Vec<Event> {
        let mut seats = 0;
        let due = self.blocks.deadlines.due(now, limit).into_iter().filter_map(|id| self.blocks.get(id));
        let due = due.take_while(|block| {
            let fits = seats < limit;
            seats = seats.saturating_add(block.seats.len());
            fits
        });
        due.map(end_of).collect()
    }

    /// Checks whether a hold of these seats could have been decided. `replaced` is the claim that it replaces; an offer may
    /// have queued seats.
    ///
    /// # Errors
    /// A seat is not free, or not of the same block as the others.
    pub(super) fn admits_hold(
        &self,
        seats: &[Seat],
        replaced: Option<u32>,
        is_offer: bool,
    ) -> Result<(), Damaged> {
        let block = seats.first().and_then(|&seat| self.blocks.of(seat));
        let fits = seats.iter().all(|&seat| {
            let is_available = match self.owner(seat) {
                Owner::Free => block.is_none(),
                Owner::Queued => block.is_none() && is_offer,
                Owner::Blocked => block.is_some(),
                Owner::Claim(id) => replaced == Some(id),
            };
            self.venue.is_seat(seat) && self.blocks.of(seat) == block && is_available
        });
        let named = block.is_none_or(|id| self.blocks.get(id).is_some_and(|block| block.name.is_some()));
        if fits && named { Ok(()) } else { Err(Damaged("a seat is not free")) }
    }

    /// Checks whether seats could be added to a block, or make one; their owners are checked elsewhere.
    ///
    /// # Errors
    /// The block has neither name nor end, or would have too many seats.
    pub(super) fn fits_block(
        &self,
        name: Option<&[u8]>,
        until: Option<Millis>,
        seats: usize,
    ) -> Result<(), Damaged> {
        ensure(name.is_some() || until.is_some(), "a block has neither a name nor an end")?;
        let block = self.blocks.find(name, until).and_then(|id| self.blocks.get(id));
        let room = block.map_or_else(|| self.blocks.len() < MAX_BLOCKS, |_| true);
        let before = block.map_or(0, |block| block.seats.len());
        if room && before + seats <= MAX_BLOCK_SEATS { Ok(()) } else { Err(Damaged("a block is too large")) }
    }

    /// Checks that seats of blocks are blocked, or held or sold from a block with a name.
    pub(super) fn check_blocks(&self) -> Checked {
        self.blocks.check()?;
        for (id, block) in self.blocks.iter() {
            let stray = block.seats.iter().find(|&&seat| !self.may_be_in_block(seat, block.name.is_some()));
            ensure!(
                stray.is_none(),
                "seat {stray:?} of block {id} is {:?}",
                stray.map(|&seat| self.owner(seat))
            );
        }
        Ok(())
    }

    pub(super) fn may_be_in_block(&self, seat: Seat, named: bool) -> bool {
        match self.owner(seat) {
            Owner::Blocked => self.venue.is_seat(seat),
            Owner::Claim(_) => named,
            Owner::Free | Owner::Queued => false,
        }
    }
}

/// The end of a block that has passed its end, as an event.
fn end_of(block: &Block) -> Event {
    let until = block.until.filter(|_| block.name.is_none());
    Event::BlockEnded { name: block.name.clone(), until, expired: true }
}
