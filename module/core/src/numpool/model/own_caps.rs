//! Caps of single numbers, which hold instead of the caps of the pool.

use super::settings::{Cap, DAY, Days};
use crate::shared::Millis;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The numbers with caps of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::numpool) struct OwnCaps {
    by_number: HashMap<u32, Vec<Cap>>,
    /// How many of the caps have each window.
    windows: BTreeMap<Millis, u32>,
}

impl OwnCaps {
    /// The caps of a number, if it has some of its own. O(1).
    #[inline]
    pub(in crate::numpool) fn get(&self, number: u32) -> Option<&[Cap]> {
        if self.by_number.is_empty() { None } else { self.by_number.get(&number).map(Vec::as_slice) }
    }

    /// Sets the caps of a number; without caps it has none of its own. O(log windows).
    pub(in crate::numpool) fn set(&mut self, number: u32, caps: Vec<Cap>) {
        if self.by_number.is_empty() && caps.is_empty() {
            return;
        }
        for Cap { window, .. } in self.by_number.remove(&number).into_iter().flatten() {
            if let Some(count) = self.windows.get_mut(&window) {
                *count -= 1;
                if *count == 0 {
                    self.windows.remove(&window);
                }
            }
        }
        caps.iter().for_each(|cap| *self.windows.entry(cap.window).or_default() += 1);
        if !caps.is_empty() {
            self.by_number.insert(number, caps);
        }
    }

    /// How far back the caps of a number look, in milliseconds; 0 without any.
    pub(in crate::numpool) fn longest_of(&self, number: u32, days: Days) -> Millis {
        let caps = self.get(number).unwrap_or_default();
        caps.iter().map(|cap| cap.span(days)).max().unwrap_or(0)
    }

    /// How far back the caps of any number look, in milliseconds; 0 without any. O(1).
    pub(in crate::numpool) fn longest(&self, days: Days) -> Millis {
        let longest = self.windows.last_key_value().map_or(0, |(&window, _)| window);
        if self.windows.contains_key(&DAY) { longest.max(days.length) } else { longest }
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        let caps = self.by_number.values().map(Vec::capacity).sum::<usize>() * size_of::<Cap>();
        self.by_number.allocation_size() + caps + self.windows.len() * size_of::<(Millis, u32)>()
    }
}
