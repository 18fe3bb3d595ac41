//! What keeps numbers from being called for a time: caps, causes of hangups, and the rests that follow from them.

use super::{Pool, Rest, RestReason};
use crate::numpool::causes::Rule;
use crate::numpool::cells::State;
use crate::numpool::model::history::forget_before;
use crate::numpool::record::Place;
use crate::numpool::settings::Caps;
use crate::shared::Millis;
use crate::shared::list::NONE;
use std::collections::VecDeque;

impl Pool {
    /// Ends a number's rest; it joins the queue if it is registered.
    pub(in crate::numpool) fn cool(&mut self, id: u32) {
        self.stop_resting(id);
        if self.directory.get(id).state() == State::IdleUp {
            self.join(id);
        }
    }

    /// A number that is in no queue rests until then.
    pub(in crate::numpool) fn rest(&mut self, id: u32, until: Millis, reason: RestReason) {
        let cool_down = self.cooling.insert(Rest { number: id, reason });
        *self.resting(reason) += 1;
        self.cool_downs.set(cool_down, until);
        self.directory.at(id).put(Place::Cooling, cool_down);
    }

    /// Until when a number rests, if it does, and why.
    pub(in crate::numpool) fn rest_of(&self, id: u32) -> Option<(Millis, RestReason)> {
        let cool_down = self.directory.get(id).cool_down();
        Some((self.cool_downs.get(cool_down)?, self.cooling.get(cool_down)?.reason))
    }

    /// How many numbers rest for a reason.
    pub(in crate::numpool) fn resting(&mut self, reason: RestReason) -> &mut u32 {
        #[allow(clippy::indexing_slicing, reason = "there are as many counts as reasons")]
        &mut self.rests[reason as usize]
    }

    pub(super) fn stop_resting(&mut self, id: u32) {
        let cool_down = self.directory.get(id).cool_down();
        if cool_down != NONE {
            if let Some(rest) = self.cooling.remove(cool_down) {
                *self.resting(rest.reason) -= 1;
            }
            self.cool_downs.remove(cool_down);
            self.directory.at(id).put(Place::Nowhere, NONE);
        }
    }

    /// The pool has other caps: numbers whose caps are reached now rest, and those whose caps are not reached any more
    /// join the queue. O(numbers that began calls within the windows).
    pub(in crate::numpool) fn set_caps(&mut self, caps: Caps) {
        let (window, now) = (self.caps.window(), self.applied);
        self.history.forget_all(|entry| forget_before(&mut entry.starts, window, now));
        self.caps = caps;
        let numbers: Vec<u32> = self.history.iter().map(|entry| entry.number).collect();
        for id in numbers {
            let limited = self.rest_of(id).is_some_and(|(_, reason)| reason == RestReason::Limit);
            if limited {
                self.cool(id);
            } else if self.directory.get(id).is_queued() && self.limited_until(id).is_some() {
                self.leave(id);
                self.join(id);
            }
        }
        if caps.is_empty() {
            self.history.forget_all(|entry| entry.starts = VecDeque::new());
        }
    }

    /// Until when the caps of the pool forbid another call of a number.
    pub(in crate::numpool) fn limited_until(&self, id: u32) -> Option<Millis> {
        self.history.limited_until(id, &self.caps, self.applied)
    }

    /// The longest time within which calls or their ends are counted.
    pub(in crate::numpool) fn longest_window(&self) -> Millis {
        self.caps.window().max(self.causes.window())
    }

    /// A call of a number ended with a cause.
    pub(in crate::numpool) fn blame(&mut self, id: u32, word: &[u8], at: Millis) {
        let Some(cause) = self.causes.ended(id, word) else { return };
        if let Some(rule) = self.causes.rule(cause).filter(|rule| rule.after > 1) {
            self.history.ended(id, cause, at, rule.within, self.longest_window());
        }
    }

    /// Until when a number is in quarantine if a call of it ends with this cause now.
    pub(in crate::numpool) fn quarantine_until(&self, id: u32, word: &[u8], now: Millis) -> Option<Millis> {
        let cause = self.causes.find(word)?;
        let rule = self.causes.rule(cause)?;
        let counted = |time: &Millis| time.saturating_add(rule.within) > now;
        let ends = self.history.entry(id).and_then(|entry| entry.ends_with(cause));
        let before = ends.map_or(0, |times| times.iter().rev().take_while(|time| counted(time)).count());
        (before + 1 >= rule.after as usize).then(|| now.saturating_add(rule.cooldown))
    }

    /// A cause has another rule, or none. O(numbers with counted causes).
    pub(in crate::numpool) fn set_cause(&mut self, word: &[u8], rule: Option<Rule>) {
        let before = self.causes.find(word).and_then(|cause| self.causes.rule(cause));
        let (window, now) = (before.map_or(0, |rule| rule.within), self.applied);
        let place = self.causes.set_rule(word, rule);
        let counts = rule.is_some_and(|rule| rule.after > 1);
        self.history.forget_all(|entry| {
            if let Some((_, times)) = entry.ends.iter_mut().find(|(cause, _)| Some(*cause) == place) {
                forget_before(times, window, now);
            }
            entry.ends.retain(|(cause, times)| !times.is_empty() && (counts || Some(*cause) != place));
        });
    }
}
