//! Waits that ended before their time: their users were served, or left. A repeated request does not begin them again.

use crate::shared::invariant::Checked;
use crate::shared::{Bytes, Millis};
use crate::{ensure, invariant};
use std::collections::{BTreeMap, BTreeSet};

/// The most waits that are remembered; of more, those are forgotten whose time is over first.
pub const MAX_ENDED: usize = 1_000_000;

/// How many waits are forgotten at most with each change of the show, if their time is over.
const FORGOTTEN_AT_ONCE: usize = 4;

/// Tokens of ended waits, each until the time to live of its wait is over.
#[derive(Clone, Debug, Default)]
pub struct EndedWaits {
    until: BTreeMap<Bytes, Millis>,
    by_time: BTreeSet<(Millis, Bytes)>,
}

impl EndedWaits {
    /// Whether a wait under this token ended before its time, and this time is not over.
    pub fn contains(&self, token: &[u8], now: Millis) -> bool {
        self.until.get(token).is_some_and(|&until| until > now)
    }

    /// Remembers that a wait has ended whose time is over at `until`.
    pub(in crate::seat) fn remember(&mut self, token: Bytes, until: Millis) {
        if let Some(earlier) = self.until.insert(token.clone(), until) {
            self.by_time.remove(&(earlier, token.clone()));
        }
        self.by_time.insert((until, token));
        if self.until.len() > MAX_ENDED {
            self.forget_first();
        }
    }

    /// Forgets some of the waits whose time is over by `now`.
    pub(in crate::seat) fn forget_passed(&mut self, now: Millis) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            if self.by_time.first().is_none_or(|&(until, _)| until > now) {
                return;
            }
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, token)) = self.by_time.pop_first() {
            let removed = self.until.remove(&token);
            invariant!(removed.is_some(), "a wait that is forgotten was remembered");
        }
    }

    /// All tokens, each with its time, as a snapshot keeps them.
    pub(in crate::seat) fn all(&self) -> &BTreeMap<Bytes, Millis> {
        &self.until
    }

    /// Number of waits.
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Whether no wait is remembered.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Checks tokens and times against one another. O(waits log waits).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        let found =
            self.until.iter().filter(|&(token, &until)| self.by_time.contains(&(until, token.clone())));
        let (found, waits, times) = (found.count(), self.until.len(), self.by_time.len());
        ensure!(
            found == waits && times == waits,
            "{waits} ended waits have {times} times, {found} of them right"
        );
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        // An entry of each tree; nodes are two thirds full.
        const ENTRY: usize = 2 * (size_of::<Bytes>() + size_of::<Millis>()) * 3 / 2;
        self.until.keys().map(|token| ENTRY + 2 * token.allocated()).sum()
    }
}

/// The waits of a snapshot.
impl From<BTreeMap<Bytes, Millis>> for EndedWaits {
    fn from(until: BTreeMap<Bytes, Millis>) -> Self {
        let by_time = until.iter().map(|(token, &until)| (until, token.clone())).collect();
        Self { until, by_time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_waits() -> EndedWaits {
        let mut waits = EndedWaits::default();
        waits.remember(Bytes::from_slice(b"ann"), 9);
        waits.remember(Bytes::from_slice(b"bob"), 5);
        waits
    }

    #[test]
    fn wait_is_forgotten_when_its_time_is_over() {
        let mut waits = two_waits();
        assert!(waits.contains(b"bob", 4) && !waits.contains(b"bob", 5));
        waits.remember(Bytes::from_slice(b"bob"), 7);
        waits.forget_passed(6);
        assert_eq!((waits.len(), waits.contains(b"bob", 6)), (2, true));
        waits.forget_passed(7);
        assert_eq!((waits.len(), waits.contains(b"ann", 8)), (1, true));
        assert_eq!(waits.check(), Ok(()));
    }

    #[test]
    fn check_finds_damaged_ended_waits() {
        let damages: [fn(&mut EndedWaits); 3] = [
            |waits| _ = waits.until.remove(&b"ann"[..]),
            |waits| _ = waits.by_time.pop_first(),
            |waits| _ = waits.until.insert(Bytes::from_slice(b"ann"), 8),
        ];
        assert_eq!(two_waits().check(), Ok(()));
        for (number, damage) in damages.iter().enumerate() {
            let mut waits = two_waits();
            damage(&mut waits);
            assert!(waits.check().is_err(), "damage {number} is not found");
        }
    }
}
