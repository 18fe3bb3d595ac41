//! When numbers began calls, and when their calls ended for which cause: what caps and quarantine count.
//!
//! Numbers without a call or a cause within the longest window take four bytes here, once another number has one. Each
//! event drops at most two entries that no window reaches any more, so the memory follows the traffic.

use super::settings::{Cap, Days, MAX_COUNT};
use crate::shared::Millis;
use crate::shared::column::Column;
use crate::shared::invariant::Checked;
use crate::shared::invariant::Expected;
use crate::shared::list::{List, NONE, links_in_table};
use crate::shared::table::Table;
use crate::{ensure, fields, invariant};
use std::collections::VecDeque;

/// The most times that are kept of one kind for one number: no cap and no rule counts more.
pub(in crate::numpool) const MAX_TIMES: usize = MAX_COUNT as usize;

/// How many entries an event may drop that no window reaches.
const SWEPT_AT_ONCE: usize = 2;

/// What happened at the starts of calls; the ends of calls have the place of their cause.
pub(in crate::numpool) const STARTS: u32 = u32::MAX;

fields! {
    /// The latest times of one number.
    #[derive(Clone, Debug)]
    pub(in crate::numpool) struct Times if is_sound else "the times of a number are not in order" {
        /// The id of the number.
        pub(in crate::numpool) number: u32,
        /// The times of each kind that happened.
        pub(in crate::numpool) lists: Vec<Recent>,
    }

    /// When calls of a number began, or ended with a cause.
    #[derive(Clone, Debug)]
    pub(in crate::numpool) struct Recent {
        /// `STARTS`, or the place of the cause.
        pub(in crate::numpool) what: u32,
        /// The times, in rising order.
        pub(in crate::numpool) times: VecDeque<Millis>,
    }
}

impl Times {
    /// The times of a kind.
    pub(in crate::numpool) fn of(&self, what: u32) -> Option<&VecDeque<Millis>> {
        self.lists.iter().find(|list| list.what == what).map(|list| &list.times)
    }

    /// Moves all times that are later than this one to it.
    pub(in crate::numpool) fn end_at(&mut self, latest: Millis) {
        let times = self.lists.iter_mut().flat_map(|list| &mut list.times);
        times.for_each(|time| *time = latest.min(*time));
    }

    /// Drops times of a kind that a window that ends at `at` does not reach any more.
    pub(in crate::numpool) fn forget_before(&mut self, what: u32, window: Millis, at: Millis) {
        self.lists
            .iter_mut()
            .filter(|list| list.what == what)
            .for_each(|list| forget_before(&mut list.times, window, at));
        self.lists.retain(|list| !list.times.is_empty());
    }

    /// Whether the times rise, and there are no lists without need.
    fn is_sound(&self) -> bool {
        let once = |list: &Recent| self.lists.iter().filter(|other| other.what == list.what).count() == 1;
        let rises =
            |list: &Recent| (1..=MAX_TIMES).contains(&list.times.len()) && list.times.iter().is_sorted();
        !self.lists.is_empty() && self.lists.iter().all(|list| once(list) && rises(list))
    }

    /// The latest of all times.
    pub(in crate::numpool) fn latest(&self) -> Millis {
        self.lists.iter().filter_map(|list| list.times.back()).copied().max().unwrap_or(0)
    }

    fn allocated(&self) -> usize {
        self.lists.iter().map(|list| list.times.capacity()).sum::<usize>() * size_of::<Millis>()
            + self.lists.capacity() * size_of::<Recent>()
    }
}

/// Adds a time, and drops times that the window does not reach any more.
pub(in crate::numpool) fn push(times: &mut VecDeque<Millis>, at: Millis, window: Millis) {
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

/// The times of a number in the list of all.
#[derive(Clone, Debug)]
struct Entry {
    times: Times,
    links: [u32; 2],
}

links_in_table!(Entry);

/// The times of all numbers.
#[derive(Clone, Debug, Default)]
pub(in crate::numpool) struct History {
    entries: Table<Entry>,
    /// By number: its entry, counted from 1; 0 for none.
    by_number: Column<u32>,
    /// The entry that was changed least recently first.
    order: List,
}

impl History {
    /// Until when the caps forbid another call of a number: the time at which enough of its calls have left the
    /// windows. `None` if another call may begin at `at`. O(caps).
    pub(in crate::numpool) fn limited_until(
        &self,
        number: u32,
        caps: &[Cap],
        days: Days,
        at: Millis,
    ) -> Option<Millis> {
        let starts = self.entry(number)?.of(STARTS)?;
        caps.iter().filter_map(|cap| cap.full_until(starts, days, at)).max().filter(|&until| until > at)
    }

    /// The times of a number, if there are any.
    pub(in crate::numpool) fn entry(&self, number: u32) -> Option<&Times> {
        let entry = self.entries.get(self.place(number)?);
        invariant!(entry.is_some(), "a number whose times are kept has an entry");
        entry.map(|entry| &entry.times)
    }

    #[inline]
    fn place(&self, number: u32) -> Option<u32> {
        self.by_number.find(number)?.checked_sub(1)
    }

    /// All entries, the one that was changed least recently first.
    pub(in crate::numpool) fn iter(&self) -> impl Iterator<Item = &Times> {
        self.order.iter(&self.entries).filter_map(|id| self.entries.get(id)).map(|entry| &entry.times)
    }

    /// How many numbers have an entry.
    pub(in crate::numpool) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The call that began last, at `since`, does not count. A call that began before the pool had caps is not in the list.
    /// O(1).
    pub(in crate::numpool) fn take_back(&mut self, number: u32, since: Millis) {
        let Some(id) = self.place(number) else { return };
        let Some(Entry { times, .. }) =
            self.entries.get_mut(id).expected("a number whose times are kept has an entry")
        else {
            return;
        };
        let mut starts = times.lists.iter_mut().filter(|list| list.what == STARTS);
        if let Some(starts) = starts.find(|starts| starts.times.back() == Some(&since)) {
            starts.times.pop_back();
        }
        times.lists.retain(|list| !list.times.is_empty());
        if times.lists.is_empty() {
            self.forget(number);
        }
    }

    /// A call began, or ended with a cause. `window` is the longest one that counts what happened, `longest` the longest of
    /// all. O(causes).
    pub(in crate::numpool) fn happened(
        &mut self,
        number: u32,
        what: u32,
        at: Millis,
        window: Millis,
        longest: Millis,
    ) {
        let id = self.place(number).inspect(|&id| self.order.leave(&mut self.entries, id));
        let id = id.unwrap_or_else(|| self.enter(Times { number, lists: Vec::with_capacity(1) }));
        self.order.join(&mut self.entries, id);
        match self.entries.get_mut(id).map(|entry| &mut entry.times.lists) {
            None => invariant!("a number whose times change has an entry"),
            Some(lists) => match lists.iter_mut().find(|list| list.what == what) {
                Some(list) => push(&mut list.times, at, window),
                None => lists.push(Recent { what, times: VecDeque::from([at]) }),
            },
        }
        for _ in 0..SWEPT_AT_ONCE {
            match self.entries.get(self.order.head) {
                Some(Entry { times, .. }) if times.latest().saturating_add(longest) <= at => {
                    let number = times.number;
                    self.forget(number);
                }
                _ => return,
            }
        }
    }

    /// Adds an entry that is in no list.
    fn enter(&mut self, times: Times) -> u32 {
        let number = times.number;
        let id = self.entries.insert(Entry { times, links: [NONE; 2] });
        self.by_number.set(number, id + 1);
        id
    }

    /// Forgets a number, if its times are kept. O(1).
    pub(in crate::numpool) fn forget(&mut self, number: u32) {
        if let Some(id) = self.place(number) {
            self.order.leave(&mut self.entries, id);
            invariant!(self.entries.remove(id).is_some(), "a number whose times are kept has an entry");
            self.by_number.set(number, 0);
        }
    }

    /// Forgets the times of calls, or of ends with a cause. O(n).
    pub(in crate::numpool) fn forget_all(&mut self, what: impl Fn(&mut Times)) {
        let ids: Vec<u32> = self.order.iter(&self.entries).collect();
        ids.into_iter().for_each(|id| self.forget_in(id, &what));
        if self.entries.is_empty() {
            *self = Self::default();
        }
    }

    /// Forgets times of one number. O(its times).
    pub(in crate::numpool) fn forget_of(&mut self, number: u32, what: impl Fn(&mut Times)) {
        if let Some(id) = self.place(number) {
            self.forget_in(id, &what);
        }
    }

    fn forget_in(&mut self, id: u32, what: impl Fn(&mut Times)) {
        let entry = self.entries.get_mut(id).expected("an entry in a list is in the table");
        let Some(Entry { times, .. }) = entry else { return };
        what(times);
        if times.lists.is_empty() {
            let number = times.number;
            self.forget(number);
        }
    }

    /// Adds the times of a snapshot, behind all others. `None` if the number has some.
    pub(in crate::numpool) fn restore(&mut self, times: Times) -> Option<()> {
        self.place(times.number).is_none().then(|| {
            let id = self.enter(times);
            self.order.join(&mut self.entries, id);
        })
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        self.entries.allocated()
            + self.entries.iter().map(|(_, entry)| entry.times.allocated()).sum::<usize>()
            + self.by_number.allocated()
    }

    /// Checks that each entry is sound, is found by its number, and is in the list. O(entries).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::numpool) fn check(&self) -> Checked {
        self.entries.check()?;
        self.order.check(&self.entries)?;
        self.by_number.check()?;
        let found = self.by_number.iter().filter(|&(_, place)| place != 0).count();
        let (entries, listed) = (self.entries.len(), self.order.len() as usize);
        ensure!(
            found == entries && listed == entries,
            "{found} of {entries} histories are found by number, and {listed} are listed"
        );
        for (id, Entry { times, .. }) in self.entries.iter() {
            ensure!(self.place(times.number) == Some(id), "a history is not found by its number");
            ensure!(times.is_sound(), "the times of number {} are not in order", times.number);
        }
        Ok(())
    }
}
