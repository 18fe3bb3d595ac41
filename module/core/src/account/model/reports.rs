//! The use of an account as its instances report it: totals since the assignment, each counted once.

use super::tariff::MAX_COUNT;

/// The most assignments whose totals are kept. Only the latest assignments of an account are still reported.
pub(in crate::account) const MAX_REPORTS: usize = 4;

/// The instructions that were counted from reports, by the epoch of the assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Epoch of each assignment, in ascending order, and its total. At most [`MAX_REPORTS`].
    pub(in crate::account) totals: Vec<(u64, u64)>,
}

impl Reports {
    /// What was counted of an assignment; `None` if the assignment is older than all that are kept, so that its
    /// total may have been dropped.
    pub(in crate::account) fn counted(&self, epoch: u64) -> Option<u64> {
        if let Ok(place) = self.place(epoch) {
            return self.totals.get(place).map(|&(_, total)| total);
        }
        let oldest = self.totals.first().is_some_and(|&(oldest, _)| epoch < oldest);
        (self.totals.len() < MAX_REPORTS || !oldest).then_some(0)
    }

    /// Adds to the total of an assignment. If there is no room, the oldest assignment is dropped.
    pub(in crate::account) fn count(&mut self, epoch: u64, count: u64) {
        match self.place(epoch) {
            Ok(place) => {
                if let Some((_, total)) = self.totals.get_mut(place) {
                    *total = total.saturating_add(count).min(MAX_COUNT);
                }
            }
            Err(place) => {
                self.totals.insert(place, (epoch, count));
                if self.totals.len() > MAX_REPORTS {
                    self.totals.remove(0);
                }
            }
        }
    }

    fn place(&self, epoch: u64) -> Result<usize, usize> {
        self.totals.binary_search_by_key(&epoch, |&(epoch, _)| epoch)
    }

    /// Bytes allocated.
    pub(in crate::account) fn allocated(&self) -> usize {
        size_of::<Self>() + self.totals.capacity() * size_of::<(u64, u64)>()
    }
}
