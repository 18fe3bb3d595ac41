//! A growing table whose entries keep their number: claims, users, orders.

use super::codec::{Damaged, Reader, Writer};
use super::field::Field;
use super::invariant::Checked;
use crate::{ensure, invariant};
use std::ops::{Index, IndexMut};

const CHUNK: usize = 512;

/// A slab: `insert` gives out a free number, `remove` makes it free again.
///
/// Entries live in chunks of 512, so a table that grows to a million entries under a rush never copies what it
/// holds (one doubling of a plain vector would block the server for tens of milliseconds). A table of a few entries is
/// small.
/// Numbers come from the table itself; indexing with another one is a broken invariant and panics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Table<T> {
    /// Adds an entry; O(1).
    pub fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if let Some(id) = self.free.pop() {
            if let Some(slot) = self.slot_mut(id) {
                *slot = Some(value);
                return id;
            }
            invariant!("a free number of a table has a slot");
        }
        // Without a free number every slot is taken, so the new entry comes last.
        let id = self.len - 1;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(Some(value)),
            _ => self.chunks.push(vec![Some(value)]),
        }
        id as u32
    }

    /// Takes an entry out; O(1).
    pub fn remove(&mut self, id: u32) -> Option<T> {
        let value = self.slot_mut(id)?.take()?;
        self.free.push(id);
        self.len -= 1;
        Some(value)
    }

    /// Rebuilds a table from its entries by number, and from its free numbers in the order in which they became free.
    /// `None` if the two contradict each other. A table rebuilt in this way gives out the same numbers in the same
    /// order on every server, so numbers may be part of a state, and a cursor over them stays valid after a restart.
    pub fn restore(slots: impl Iterator<Item = Option<T>>, free: Vec<u32>) -> Option<Self> {
        let mut table = Self::default();
        for slot in slots {
            table.len += usize::from(slot.is_some());
            match table.chunks.last_mut() {
                Some(chunk) if chunk.len() < CHUNK => chunk.push(slot),
                _ => table.chunks.push(vec![slot]),
            }
        }
        let mut seen = vec![false; table.slots() as usize];
        for &id in &free {
            let taken = table.get(id).is_some();
            if std::mem::replace(seen.get_mut(id as usize)?, true) || taken {
                return None;
            }
        }
        table.free = free;
        (table.len + table.free.len() == table.slots() as usize).then_some(table)
    }

    /// A table with the same numbers, whose entries are made from those of this one.
    pub fn map<U>(&self, mut make: impl FnMut(u32, &T) -> U) -> Table<U> {
        let mut mapped = Table { chunks: Vec::new(), free: self.free.clone(), len: self.len };
        let mut number = 0..;
        for chunk in &self.chunks {
            let made = chunk.iter().zip(&mut number).map(|(slot, id)| Some(make(id, slot.as_ref()?)));
            mapped.chunks.push(made.collect());
        }
        mapped
    }

    /// An empty table that gives its next entries these numbers in this order, and all later ones the free numbers, the
    /// last first. `None` if the numbers contradict each other.
    pub fn numbered(next: &[u32], mut free: Vec<u32>) -> Option<Self> {
        free.extend(next.iter().rev());
        Self::restore((0..free.len()).map(|_| None), free)
    }

    /// An empty table that gives its next entries the numbers of the entries of this one, in this order.
    ///
    /// # Errors
    /// An entry is not named, or several times.
    pub fn emptied(&self, next: &[u32]) -> Result<Self, Damaged> {
        let empty = Self::numbered(next, self.free.clone());
        empty.ok_or(Damaged("an entry of a table has no name, or several"))
    }

    /// An upper bound of all numbers given out so far, including numbers that are free now.
    pub fn slots(&self) -> u32 {
        self.chunks.last().map_or(0, |last| ((self.chunks.len() - 1) * CHUNK + last.len()) as u32)
    }

    /// Numbers without an entry, in the order in which they became free.
    pub fn free(&self) -> &[u32] {
        &self.free
    }

    /// The entry of that number, if there is one.
    pub fn get(&self, id: u32) -> Option<&T> {
        self.chunks.get(id as usize / CHUNK)?.get(id as usize % CHUNK)?.as_ref()
    }

    /// The entry of that number, if there is one.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slot_mut(id)?.as_mut()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().enumerate().flat_map(|(chunk_number, chunk)| {
            chunk.iter().enumerate().filter_map(move |(place, slot)| {
                slot.as_ref().map(|value| ((chunk_number * CHUNK + place) as u32, value))
            })
        })
    }

    /// Checks the table against itself: its length, its free numbers, and the lengths of its chunks. O(slots).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        let full = self.chunks.iter().rev().skip(1).all(|chunk| chunk.len() == CHUNK);
        ensure!(full && self.chunks.iter().all(|chunk| !chunk.is_empty()), "a chunk of a table is not full");
        let entries = self.iter().count();
        ensure!(entries == self.len, "a table has {entries} entries and counts {}", self.len);
        let slots = self.slots() as usize;
        let free = self.free.len();
        ensure!(
            entries + free == slots,
            "a table has {slots} slots for {entries} entries and {free} free numbers"
        );
        let mut seen = vec![false; slots];
        for &id in &self.free {
            let seen = seen.get_mut(id as usize).map(|seen| std::mem::replace(seen, true));
            ensure!(seen == Some(false), "free number {id} of a table has no slot, or is free twice");
            ensure!(self.get(id).is_none(), "free number {id} of a table has an entry");
        }
        Ok(())
    }

    /// Bytes allocated by the table itself, without what its entries point to.
    pub fn allocated(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum::<usize>() * size_of::<Option<T>>()
            + self.chunks.capacity() * size_of::<Vec<Option<T>>>()
            + self.free.capacity() * size_of::<u32>()
    }

    fn slot_mut(&mut self, id: u32) -> Option<&mut Option<T>> {
        self.chunks.get_mut(id as usize / CHUNK)?.get_mut(id as usize % CHUNK)
    }
}

/// The entries by number, and the free numbers in the order in which they became free.
impl<T: Field> Field for Table<T> {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.slots().into());
        for slot in self.chunks.iter().flatten() {
            out.field(&slot.is_some());
            slot.iter().for_each(|entry| out.field(entry));
        }
        out.field(&self.free);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let slots: Vec<Option<T>> = reader.field()?;
        let restored = Self::restore(slots.into_iter(), reader.field()?);
        restored.ok_or(Damaged("the free numbers of a table do not fit its entries"))
    }
}

impl<T> Index<u32> for Table<T> {
    type Output = T;

    #[allow(clippy::panic, reason = "a number that the table did not give out is a broken invariant")]
    fn index(&self, id: u32) -> &T {
        match self.get(id) {
            Some(value) => value,
            None => panic!("no entry {id} in this table"),
        }
    }
}

impl<T> IndexMut<u32> for Table<T> {
    #[allow(clippy::panic, reason = "a number that the table did not give out is a broken invariant")]
    fn index_mut(&mut self, id: u32) -> &mut T {
        match self.get_mut(id) {
            Some(value) => value,
            None => panic!("no entry {id} in this table"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_finds_a_damaged_table() {
        let mut sound = Table::default();
        (0..600).for_each(|value| _ = sound.insert(value));
        (5..8).for_each(|id| _ = sound.remove(id));
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Table<i32>); 5] = [
            |table| table.len += 1,
            |table| _ = table.free.pop(),
            |table| table.free[0] = table.free[1],
            |table| table.free[0] = 9,
            |table| table.chunks[0][3] = None,
        ];
        for damage in damages {
            let mut table = sound.clone();
            damage(&mut table);
            assert!(table.check().is_err());
        }
    }

    #[test]
    fn numbers_are_kept_and_reused() {
        let mut table = Table::default();
        let ids: Vec<u32> = (0..1000).map(|value| table.insert(value)).collect();
        assert_eq!(ids, (0..1000).collect::<Vec<u32>>());
        assert_eq!(table.remove(700), Some(700));
        assert_eq!(table.remove(700), None);
        assert_eq!(table.len(), 999);
        assert_eq!(table.insert(5), 700);
        assert_eq!(table[700], 5);
        assert_eq!(table.iter().count(), 1000);
        table.remove(3);
        table.remove(900);
        let slots: Vec<Option<i32>> = (0..table.slots()).map(|id| table.get(id).copied()).collect();
        let mut again = Table::restore(slots.iter().copied(), table.free().to_vec()).unwrap();
        assert_eq!(again.insert(1), table.insert(1));
        assert_eq!(again.insert(1), table.insert(1));
        assert_eq!(again.insert(1), table.insert(1));
        for free in [vec![3], vec![3, 900, 900], vec![3, 901], vec![3, 1000]] {
            assert!(Table::restore(slots.iter().copied(), free).is_none());
        }
    }
}
