//! An index in parts, which grows by one part at a time.

use crate::invariant;

/// At least one part, each with the entries whose hashes have the same low bits. They are divided as in linear hashing:
/// the first, then the second, and so on, until there are twice as many. So a large index never moves all of its entries
/// at once.
#[derive(Clone, Debug, Default)]
pub struct Parts<T> {
    first: T,
    /// The second part and those after it.
    more: Vec<T>,
}

impl<T> Parts<T> {
    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.more.len()
    }

    /// All parts.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// The part that has the entries of this hash.
    #[inline]
    pub fn of(&self, hash: u32) -> &T {
        let place = place_in_more(hash, self.more.len());
        place.and_then(|place| self.more.get(place)).unwrap_or(&self.first)
    }

    /// The same, to be changed.
    #[inline]
    pub fn of_mut(&mut self, hash: u32) -> &mut T {
        let place = place_in_more(hash, self.more.len());
        place.and_then(|place| self.more.get_mut(place)).unwrap_or(&mut self.first)
    }

    /// Divides a part into two that `make` makes, without its entries. Returns the part, whose entries are to be put where
    /// they belong now.
    pub fn divide(&mut self, make: impl Fn(&T) -> T) -> T {
        let added = self.count();
        let divided = added & ((added + 1).next_power_of_two() - 1) >> 1;
        let part = divided.checked_sub(1).and_then(|place| self.more.get_mut(place));
        invariant!(part.is_some() || divided == 0, "a part is divided before there are twice as many");
        let part = part.unwrap_or(&mut self.first);
        let (half, other) = (make(part), make(part));
        let part = std::mem::replace(part, half);
        self.more.push(other);
        part
    }

    /// Bytes allocated, without those of the parts.
    pub fn allocated(&self) -> usize {
        self.more.capacity() * size_of::<T>()
    }
}

/// Which part of so many behind the first one has the entries of this hash; `None` for the first one.
#[inline]
fn place_in_more(hash: u32, more: usize) -> Option<usize> {
    if more == 0 {
        return None;
    }
    let all = (more + 1).next_power_of_two() - 1;
    let at = hash as usize & all;
    // A part that does not exist yet has its entries in that which will be divided.
    let at = if at <= more { at } else { at & (all >> 1) };
    at.checked_sub(1)
}
