//! Blocks with a name, from which requests may take seats, and blocks that end by themselves. Seats that are only blocked
//! are in no block.

use super::claims::Seats;
use super::venue::Seat;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Checked;
use crate::shared::invariant::Expected;
use crate::shared::names::NameIndex;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis};
use crate::{ensure, fields, invariant};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The most seats of one block: ending it takes about 5 ms.
pub const MAX_BLOCK_SEATS: usize = 20_000;

/// The most blocks of a show.
pub const MAX_BLOCKS: usize = 10_000;

fields! {
    /// Seats that were blocked together.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Block {
        /// Its name; `None` for seats that are only blocked until a time.
        pub name: Option<Bytes>,
        /// When it ends by itself; a block without a name always has an end.
        pub until: Option<Millis>,
        /// How many of its seats a user may have, held and bought seats together; 1 or more, and only of a block with a name.
        pub per_user: Option<u32>,
        /// Its seats, in ascending order; never empty. In a block with a name, some may be held or sold.
        pub seats: Seats,
    }
}

/// All blocks of a show. Their numbers are not part of the state: they may differ on a replica.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    table: Table<Block>,
    by_name: NameIndex,
    /// Blocks without a name, by their end.
    by_end: BTreeMap<Millis, u32>,
    of_seat: HashMap<Seat, u32>,
    pub(in crate::seat) deadlines: Deadlines,
}

impl Blocks {
    /// Whether there is no block.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// All blocks, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Block)> {
        self.table.iter()
    }

    /// The block of that name.
    pub fn called(&self, name: &[u8]) -> Option<u32> {
        self.by_name
            .find(name, |id| self.table.get(id).is_some_and(|block| block.name.as_deref() == Some(name)))
    }

    /// The block of that name; without a name, the one that ends at `until`.
    pub fn find(&self, name: Option<&[u8]>, until: Option<Millis>) -> Option<u32> {
        match name {
            Some(name) => self.called(name),
            None => self.by_end.get(&until?).copied(),
        }
    }

    /// The block of that number.
    pub fn get(&self, id: u32) -> Option<&Block> {
        self.table.get(id)
    }

    /// The block of a seat. O(1).
    #[inline]
    pub fn of(&self, seat: Seat) -> Option<u32> {
        if self.is_empty() { None } else { self.of_seat.get(&seat).copied() }
    }

    /// Adds seats (ascending, in no block) to a block, or makes the block. `until` changes the end of a block with a name,
    /// and `per_user` its limit, where 0 is none; `None` keeps them. O(seats of the block).
    pub(in crate::seat) fn add(
        &mut self,
        name: Option<&Bytes>,
        until: Option<Millis>,
        per_user: Option<u32>,
        seats: &[Seat],
    ) {
        let id = self.find(name.map(|name| &name[..]), until).unwrap_or_else(|| {
            let id =
                self.table.insert(Block { name: name.cloned(), until, per_user: None, seats: Seats::new() });
            match (name, until) {
                (Some(name), _) => self.by_name.insert(name, id),
                (None, Some(until)) => _ = self.by_end.insert(until, id),
                (None, None) => _ = invariant!(false, "a block has a name or an end"),
            }
            id
        });
        let Some(block) = self.table.get_mut(id).expected("a block that is found by its name or end exists")
        else {
            return;
        };
        block.seats.extend_from_slice(seats);
        block.seats.sort_unstable();
        block.until = until.or(block.until);
        block.per_user = per_user.map_or(block.per_user, |most| (most > 0).then_some(most));
        if let Some(until) = block.until {
            self.deadlines.set(id, until);
        }
        for &seat in seats {
            let other = self.of_seat.insert(seat, id);
            invariant!(other.is_none(), "a seat is in one block");
        }
    }

    /// Takes seats out of their blocks, and removes blocks without seats. O(seats of these blocks).
    pub(in crate::seat) fn drop_seats(&mut self, seats: &[Seat]) {
        let block_of = |seat: &Seat| Some((self.of_seat.remove(seat)?, *seat));
        let mut dropped: Vec<(u32, Seat)> = seats.iter().filter_map(block_of).collect();
        dropped.sort_unstable();
        for of_block in dropped.chunk_by(|(one, _), (other, _)| one == other) {
            let id = of_block.first().map(|&(id, _)| id);
            let Some((id, block)) =
                id.and_then(|id| Some((id, self.table.get_mut(id)?))).expected("the block of a seat exists")
            else {
                continue;
            };
            // Both lists rise, so one walk over them is enough.
            let mut next = of_block.iter().peekable();
            block.seats.retain(|seat| next.next_if(|(_, dropped)| dropped == seat).is_none());
            invariant!(next.peek().is_none(), "a seat that leaves a block is one of its seats");
            if block.seats.is_empty() {
                self.remove(id);
            }
        }
    }

    /// Gives the seats of all blocks their new numbers. Seats that are gone leave their blocks, and a block ends with its
    /// last seat. O(S log S) with S seats of blocks.
    pub(in crate::seat) fn move_seats(&mut self, to: impl Fn(Seat) -> Option<Seat>) {
        self.of_seat.clear();
        for id in 0..self.table.slots() {
            let Some(block) = self.table.get_mut(id) else { continue };
            block.seats = block.seats.iter().filter_map(|&seat| to(seat)).collect();
            block.seats.sort_unstable();
            self.of_seat.extend(block.seats.iter().map(|&seat| (seat, id)));
            if block.seats.is_empty() {
                self.remove(id);
            }
        }
    }

    /// Removes a block, and returns its seats.
    pub(in crate::seat) fn remove(&mut self, id: u32) -> Seats {
        let Some(block) = self.table.remove(id).expected("a block that ends exists") else {
            return Seats::new();
        };
        self.deadlines.remove(id);
        match (&block.name, block.until) {
            (Some(name), _) => self.by_name.remove(name, id),
            (None, Some(until)) => _ = self.by_end.remove(&until),
            (None, None) => _ = invariant!(false, "a block has a name or an end"),
        }
        for seat in &block.seats {
            self.of_seat.remove(seat);
        }
        block.seats
    }

    /// Checks blocks, seats, names and ends against one another. O(seats of blocks).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.table.check()?;
        self.deadlines.check()?;
        let named = self.table.iter().filter_map(|(id, block)| Some((id, &block.name.as_ref()?[..])));
        self.by_name.check(named)?;
        let (mut seats, mut ends, mut nameless) = (0, 0, 0);
        for (id, block) in self.table.iter() {
            let rising = block.seats.is_sorted_by(|a, b| a < b);
            ensure!(
                rising && !block.seats.is_empty(),
                "the seats of block {id} do not rise, or there is none"
            );
            ensure!(
                self.deadlines.get(id) == block.until,
                "block {id} has another end than {:?}",
                block.until
            );
            let has_limit = block.per_user.is_some();
            ensure!(!has_limit || block.name.is_some(), "block {id} has a limit and no name");
            ensure!(block.per_user != Some(0), "block {id} has the limit 0, which is none");
            let stray = block.seats.iter().find(|&seat| self.of_seat.get(seat) != Some(&id));
            ensure!(stray.is_none(), "seat {stray:?} of block {id} is not its own");
            seats += block.seats.len();
            ends += usize::from(block.until.is_some());
            if block.name.is_none() {
                nameless += 1;
                let found = block.until.and_then(|until| self.by_end.get(&until));
                ensure!(found == Some(&id), "block {id} is not found by its end");
            }
        }
        ensure!(self.of_seat.len() == seats, "{} seats are in blocks that have {seats}", self.of_seat.len());
        ensure!(self.by_end.len() == nameless, "{} of {nameless} blocks are found", self.by_end.len());
        ensure!(self.deadlines.len() == ends, "{ends} blocks have {} ends", self.deadlines.len());
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        // An entry of a B-tree whose nodes are two thirds full.
        const NODE: usize = 18;
        let seats_and_name = |block: &Block| {
            block.seats.capacity() * size_of::<Seat>() + block.name.as_ref().map_or(0, Bytes::allocated)
        };
        self.table.allocated()
            + self.table.iter().map(|(_, block)| seats_and_name(block)).sum::<usize>()
            + self.by_end.len() * NODE
            + self.by_name.allocated()
            + self.of_seat.allocation_size()
            + self.deadlines.allocated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_finds_damaged_blocks() {
        let mut sound = Blocks::default();
        sound.add(Some(&Bytes::from_slice(b"press")), Some(50), Some(2), &[1, 4]);
        sound.add(Some(&Bytes::from_slice(b"house")), None, None, &[2]);
        sound.add(None, Some(70), None, &[3]);
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Blocks); 17] = [
            |blocks| blocks.table[0].seats.reverse(),
            |blocks| blocks.table[0].seats.truncate(1),
            |blocks| blocks.table[1].seats.clear(),
            |blocks| blocks.table[0].until = None,
            |blocks| blocks.table[1].until = Some(9),
            |blocks| blocks.table[2].until = Some(71),
            |blocks| blocks.table[1].per_user = Some(0),
            |blocks| blocks.table[2].per_user = Some(1),
            |blocks| _ = blocks.of_seat.insert(1, 1),
            |blocks| _ = blocks.of_seat.insert(9, 1),
            |blocks| _ = blocks.of_seat.remove(&2),
            |blocks| blocks.by_name.remove(b"press", 0),
            |blocks| blocks.by_name.insert(b"nobody", 0),
            |blocks| _ = blocks.by_end.remove(&70),
            |blocks| _ = blocks.by_end.insert(50, 0),
            |blocks| blocks.deadlines.remove(0),
            |blocks| blocks.deadlines.set(1, 9),
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut blocks = sound.clone();
            damage(&mut blocks);
            assert!(blocks.check().is_err(), "damage {number} is not found");
        }
    }
}
