//! When numbers began calls, and when their calls ended for which cause: what caps and quarantine count.
//!
//! Only numbers with a call or a cause within the longest window take memory. Each event drops at most two entries that
//! no window reaches any more, so the memory follows the traffic.

use super::settings::{Caps, MAX_COUNT};
use crate::shared::Millis;
use crate::shared::invariant::Checked;
use crate::shared::list::{Links, List, NONE};
use crate::shared::table::Table;
use crate::{ensure, invariant};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// The most times that are kept of one kind for one number: no cap and no rule counts more.
const MAX_TIMES: usize = MAX_COUNT as usize;

/// How many entries an event may drop that no window reaches.
const SWEPT_AT_ONCE: usize = 2;

/// The latest times of one number, each list in rising order.
#[derive(Clone, Debug, Default)]
pub(in crate::numpool) struct Entry {
    pub(in crate::numpool) number: u32,
    /// When calls began.
    pub(in crate::numpool) starts: VecDeque<Millis>,
    /// When calls ended, by the cause.
    pub(in crate::numpool) ends: Vec<(u8, VecDeque<Millis>)>,
    links: [u32; 2],
}

impl Entry {
    /// An entry without times.
    pub(in crate::numpool) fn of(number: u32) -> Self {
        Self { number, links: [NONE; 2], ..Self::default() }
    }

    /// When calls of the number ended with a cause.
    pub(in crate::numpool) fn ends_with(&self, cause: u8) -> Option<&VecDeque<Millis>> {
        self.ends.iter().find(|(other, _)| *other == cause).map(|(_, times)| times)
    }

    /// Moves all times that are later than this one to it.
    pub(in crate::numpool) fn end_at(&mut self, latest: Millis) {
        let ends = self.ends.iter_mut().flat_map(|(_, times)| times);
        ends.chain(&mut self.starts).for_each(|time| *time = latest.min(*time));
    }

    fn latest(&self) -> Millis {
        let ends = self.ends.iter().filter_map(|(_, times)| times.back());
        ends.chain(self.starts.back()).copied().max().unwrap_or(0)
    }

    fn allocated(&self) -> usize {
        let times =
            self.ends.iter().map(|(_, times)| times.capacity()).sum::<usize>() + self.starts.capacity();
        times * size_of::<Millis>() + self.ends.capacity() * size_of::<(u8, VecDeque<Millis>)>()
    }
}

impl Links for Table<Entry> {
    fn links(&self, id: u32) -> [u32; 2] {
        let entry = self.get(id);
        invariant!(entry.is_some(), "an entry in a list is in the table");
        entry.map_or([NONE; 2], |entry| entry.links)
    }

    fn set_links(&mut self, id: u32, links: [u32; 2]) {
        match self.get_mut(id) {
            Some(entry) => entry.links = links,
            None => invariant!("an entry in a list is in the table"),
        }
    }
}

/// How many maps share the entries: growing one of them delays an event only a little.
const SHARDS: usize = 256;

/// The times of all numbers.
#[derive(Clone, Debug, Default)]
pub(in crate::numpool) struct History {
    entries: Table<Entry>,
    /// From a number to its entry.
    by_number: Vec<HashMap<u32, u32>>,
    /// The entry that was changed least recently first.
    order: List,
}

impl History {
    /// Until when the caps forbid another call of a number: the time at which enough of its calls have left the
    /// windows. `None` if another call may begin at `at`. O(caps).
    pub(in crate::numpool) fn limited_until(&self, number: u32, caps: &Caps, at: Millis) -> Option<Millis> {
        let starts = &self.entry(number)?.starts;
        let end = |(window, count): (Millis, u32)| {
            let oldest = starts.len().checked_sub(count as usize)?;
            starts.get(oldest).map(|start| start.saturating_add(window))
        };
        caps.iter().filter_map(|cap| end((cap.window, cap.count))).max().filter(|&until| until > at)
    }

    /// The times of a number, if there are any.
    pub(in crate::numpool) fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(*self.by_number.get(number as usize % SHARDS)?.get(&number)?)
    }

    /// All entries, the one that was changed least recently first.
    pub(in crate::numpool) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.order.iter(&self.entries).filter_map(|id| self.entries.get(id))
    }

    /// How many numbers have an entry.
    pub(in crate::numpool) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A call began. `window` is the longest one that counts calls, `longest` the longest of all. O(1).
    pub(in crate::numpool) fn started(&mut self, number: u32, at: Millis, window: Millis, longest: Millis) {
        self.change(number, at, longest, |entry| push(&mut entry.starts, at, window));
    }

    /// The call that began last, at `since`, does not count. O(1).
    pub(in crate::numpool) fn take_back(&mut self, number: u32, since: Millis) {
        let shard = self.by_number.get(number as usize % SHARDS);
        let id = shard.and_then(|shard| shard.get(&number)).copied();
        let Some(entry) = id.and_then(|id| self.entries.get_mut(id)) else { return };
        // A call that began before the pool had caps is not in the list.
        if entry.starts.back() == Some(&since) {
            entry.starts.pop_back();
        }
        if entry.starts.is_empty() && entry.ends.is_empty() {
            self.forget(number);
        }
    }

    /// A call ended with a cause; `window` is the time within which the ends with this cause are counted. O(causes).
    pub(in crate::numpool) fn ended(
        &mut self,
        number: u32,
        cause: u8,
        at: Millis,
        window: Millis,
        longest: Millis,
    ) {
        self.change(number, at, longest, |entry| {
            match entry.ends.iter_mut().find(|(other, _)| *other == cause) {
                Some((_, times)) => push(times, at, window),
                None => entry.ends.push((cause, VecDeque::from([at]))),
            }
        });
    }

    fn change(&mut self, number: u32, at: Millis, longest: Millis, change: impl FnOnce(&mut Entry)) {
        if self.by_number.is_empty() {
            self.by_number = vec![HashMap::new(); SHARDS];
        }
        let Some(shard) = self.by_number.get_mut(number as usize % SHARDS) else {
            invariant!("every number has a shard");
            return;
        };
        let id = if let Some(&id) = shard.get(&number) {
            self.order.leave(&mut self.entries, id);
            id
        } else {
            let id = self.entries.insert(Entry::of(number));
            shard.insert(number, id);
            id
        };
        self.order.join(&mut self.entries, id);
        if let Some(entry) = self.entries.get_mut(id) {
            change(entry);
        }
        for _ in 0..SWEPT_AT_ONCE {
            match self.entries.get(self.order.head) {
                Some(entry) if entry.latest().saturating_add(longest) <= at => {
                    let number = entry.number;
                    self.forget(number);
                }
                _ => return,
            }
        }
    }

    /// Forgets a number. O(1).
    pub(in crate::numpool) fn forget(&mut self, number: u32) {
        let Some(shard) = self.by_number.get_mut(number as usize % SHARDS) else { return };
        if let Some(id) = shard.remove(&number) {
            self.order.leave(&mut self.entries, id);
            self.entries.remove(id);
        }
    }

    /// Forgets the times of calls, or of ends with a cause. O(n).
    pub(in crate::numpool) fn forget_all(&mut self, what: impl Fn(&mut Entry)) {
        let ids: Vec<u32> = self.order.iter(&self.entries).collect();
        for id in ids {
            let Some(entry) = self.entries.get_mut(id) else { continue };
            what(entry);
            if entry.starts.is_empty() && entry.ends.is_empty() {
                let number = entry.number;
                self.forget(number);
            }
        }
        if self.entries.is_empty() {
            *self = Self::default();
        }
    }

    /// Adds an entry of a snapshot as the one that was changed last. `None` if the number has one, or if its times are
    /// not in order.
    pub(in crate::numpool) fn restore(&mut self, entry: Entry) -> Option<()> {
        let rises = |times: &VecDeque<Millis>| {
            let is_sorted = times.iter().zip(times.iter().skip(1)).all(|(a, b)| a <= b);
            !times.is_empty() && times.len() <= MAX_TIMES && is_sorted
        };
        let sound = (entry.starts.is_empty() || rises(&entry.starts))
            && entry.ends.iter().all(|(_, times)| rises(times))
            && !(entry.starts.is_empty() && entry.ends.is_empty())
            && self.entry(entry.number).is_none();
        let (number, at) = (entry.number, entry.latest());
        sound.then(|| {
            self.change(number, at, Millis::MAX, |place| {
                (place.starts, place.ends) = (entry.starts, entry.ends);
            });
        })
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        self.entries.allocated()
            + self.entries.iter().map(|(_, entry)| entry.allocated()).sum::<usize>()
            + self.by_number.capacity() * size_of::<HashMap<u32, u32>>()
            + self.by_number.iter().map(HashMap::allocation_size).sum::<usize>()
    }

    /// Checks that each entry is found by its number and is in the list. O(entries).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::numpool) fn check(&self) -> Checked {
        self.entries.check()?;
        self.order.check(&self.entries)?;
        let found = self.by_number.iter().map(HashMap::len).sum::<usize>();
        let (entries, listed) = (self.entries.len(), self.order.len() as usize);
        ensure!(
            found == entries && listed == entries,
            "{found} of {entries} histories are found by number, and {listed} are listed"
        );
        let lost = self
            .entries
            .iter()
            .find(|(_, entry)| self.entry(entry.number).map(|other| other.number) != Some(entry.number));
        ensure!(lost.is_none(), "a history is not found by its number");
        Ok(())
    }
}

/// Adds a time to a list, and drops times that the window does not reach any more.
fn push(times: &mut VecDeque<Millis>, at: Millis, window: Millis) {
    forget_before(times, window, at);
    if times.len() >= MAX_TIMES {
        times.pop_front();
    }
    times.push_back(at);
}

/// Drops times that a window that ends at `at` does not reach any more.
pub(in crate::numpool) fn forget_before(times: &mut VecDeque<Millis>, window: Millis, at: Millis) {
    while times.front().is_some_and(|time| time.saturating_add(window) <= at) {
        times.pop_front();
    }
}
