//! A value for each numbered thing, in columns that exist only where they are used.

use super::invariant::Checked;
use crate::{ensure, invariant};

/// Values of one chunk. Chunks are never moved, so growing to a million values copies nothing.
const CHUNK: usize = 4096;

/// A value by number. A column reaches from 0 to the greatest number that was set; numbers between that were not set have
/// the default value. All O(1).
#[derive(Clone, Debug)]
pub struct Column<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Copy + Default> Column<T> {
    /// The value of that number, which the column reaches.
    #[inline]
    pub fn get(&self, id: u32) -> T {
        self.find(id).unwrap_or_else(Self::unset)
    }

    #[cold]
    fn unset() -> T {
        invariant!("a value that is read was set");
        T::default()
    }

    /// The value of that number, if the column reaches it.
    #[inline]
    pub fn find(&self, id: u32) -> Option<T> {
        self.chunks.get(id as usize / CHUNK)?.get(id as usize % CHUNK).copied()
    }

    /// Sets the value of that number.
    #[inline]
    pub fn set(&mut self, id: u32, value: T) {
        *self.at(id) = value;
    }

    /// The value of that number, to be changed.
    #[allow(clippy::indexing_slicing, reason = "grown to hold the place just before")]
    pub fn at(&mut self, id: u32) -> &mut T {
        let (chunk, place) = (id as usize / CHUNK, id as usize % CHUNK);
        if self.chunks.get(chunk).is_none_or(|chunk| chunk.len() <= place) {
            self.grow(chunk, place);
        }
        &mut self.chunks[chunk][place]
    }

    /// All values up to the last one that was set, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, T)> + '_ {
        self.chunks.iter().flatten().zip(0..).map(|(&value, id)| (id, value))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.chunks = Vec::new();
    }

    /// Checks that a value has one place only: every chunk but the last is full. O(chunks).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        let mut chunks = self.chunks.iter().rev();
        let last = chunks.next().map_or(0, Vec::len);
        ensure!(last <= CHUNK, "the last chunk of a column has {last} values");
        ensure!(chunks.all(|chunk| chunk.len() == CHUNK), "a chunk of a column is not full");
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
            + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    #[cold]
    fn grow(&mut self, chunk: usize, place: usize) {
        while self.chunks.len() <= chunk {
            // The first chunk has none before it.
            if let Some(last) = self.chunks.last_mut() {
                last.resize(CHUNK, T::default());
            }
            self.chunks.push(Vec::new());
        }
        if let Some(chunk) = self.chunks.get_mut(chunk)
            && chunk.len() <= place
        {
            chunk.resize(place + 1, T::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_finds_a_damaged_column() {
        let mut column = Column::default();
        column.set(9000u32, 1u8);
        assert_eq!(column.check(), Ok(()));
        column.chunks[0].pop();
        assert!(column.check().is_err());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a value that is read was set")]
    fn value_that_no_column_reaches_is_a_broken_invariant() {
        let mut column = Column::default();
        column.set(5u32, 1u8);
        column.get(6);
    }

    #[test]
    fn values_stay_where_they_were_put() {
        let mut column = Column::default();
        for id in [9000u32, 0, 4095, 4096, 70_000] {
            column.set(id, id + 1);
        }
        for id in [9000u32, 0, 4095, 4096, 70_000] {
            assert_eq!(column.get(id), id + 1);
        }
        assert_eq!((column.get(1), column.find(1)), (0, Some(0)));
        assert_eq!(column.find(1_000_000), None);
        *column.at(5) += 7;
        assert_eq!(column.get(5), 7);
    }
}
