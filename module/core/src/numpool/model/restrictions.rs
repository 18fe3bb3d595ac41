//! What keeps numbers from being called for a time: the rate of the pool, caps, causes of hangups, and the rests that
//! follow from them.

use super::causes::{Rule, Word};
use super::cells::State;
use super::history::{STARTS, forget_before, push};
use super::last_numbers::LastNumbers;
use super::record::Place;
use super::settings::{Cap, Settings};
use super::state::{Pool, Rest, RestReason, Resting};
use super::suspensions::Suspension;
use crate::invariant;
use crate::shared::Millis;
use crate::shared::invariant::Expected;
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
    pub(in crate::numpool) fn rest(&mut self, id: u32, Rest { until, reason }: Rest) {
        let cool_down = self.cooling.insert(Resting { number: id, reason });
        *self.resting(reason) += 1;
        self.cool_downs.set(cool_down, until);
        self.directory.at(id).put(Place::Cooling, cool_down);
    }

    /// A number is out of service.
    pub(in crate::numpool) fn suspend(&mut self, id: u32, suspension: Suspension) {
        self.suspensions.set(id, suspension);
        self.leave(id);
    }

    /// A number is in service again, and goes on from at least so many calls; it joins the queue if it is registered
    /// and does not rest.
    pub(in crate::numpool) fn resume(&mut self, id: u32, uses: u32) {
        self.suspensions.remove(id);
        let record = self.directory.at(id);
        record.uses = record.uses.max(uses);
        if record.state() == State::IdleUp && record.place == Place::Nowhere {
            self.join(id);
        }
    }

    /// A call of a number ends for a cause, and the number is suspended for it. A longer suspension is not shortened.
    pub(in crate::numpool) fn quarantine(&mut self, id: u32, cause: Option<Word>, until: Millis) {
        let is_longer = |before: Suspension| before.until.is_none_or(|before| before >= until);
        if !self.suspensions.get(id).is_some_and(is_longer) {
            self.suspensions.set(id, Suspension { cause, until: Some(until) });
        }
    }

    /// The suspension of a number that has not ended by `now`.
    pub(in crate::numpool) fn suspension_at(&self, id: u32, now: Millis) -> Option<Suspension> {
        self.suspensions.get(id).filter(|suspension| suspension.until.is_none_or(|until| until > now))
    }

    /// Until when a number rests, if it does, and why.
    pub(in crate::numpool) fn rest_of(&self, id: u32) -> Option<Rest> {
        let cool_down = self.directory.get(id).cool_down();
        let Resting { reason, .. } = *self.cooling.get(cool_down)?;
        let until = self.cool_downs.get(cool_down);
        invariant!(until.is_some(), "a number that rests does so until a time");
        Some(Rest { until: until?, reason })
    }

    /// Whether a number rests for its caps.
    pub(in crate::numpool) fn is_limited(&self, id: u32) -> bool {
        self.rest_of(id).is_some_and(|rest| rest.reason == RestReason::Limit)
    }

    /// How many numbers rest for a reason.
    pub(in crate::numpool) fn resting(&mut self, reason: RestReason) -> &mut u32 {
        #[allow(clippy::indexing_slicing, reason = "there are as many counts as reasons")]
        &mut self.rests[reason as usize]
    }

    pub(in crate::numpool) fn stop_resting(&mut self, id: u32) {
        let cool_down = self.directory.get(id).cool_down();
        if cool_down != NONE {
            match self.cooling.remove(cool_down) {
                Some(rest) => *self.resting(rest.reason) -= 1,
                None => invariant!("a number that cools down is among those that rest"),
            }
            self.cool_downs.remove(cool_down);
            self.directory.at(id).put(Place::Nowhere, NONE);
        }
    }

    /// The pool has other settings.
    pub(in crate::numpool) fn set_settings(&mut self, settings: Settings) {
        let (window, days, now) = (self.settings.longest_cap(), self.settings.days, self.applied);
        let is_capped_otherwise = self.settings.caps != settings.caps || days != settings.days;
        let rate = self.settings.rate;
        self.settings = settings;
        if self.settings.rate != rate {
            self.follow_rate(rate.map_or(0, |rate| rate.window));
        }
        if self.settings.peers == 0 {
            self.last_numbers = LastNumbers::default();
        }
        if is_capped_otherwise {
            let own_caps = &self.own_caps;
            self.history.forget_all(|times| {
                times.forget_before(STARTS, window.max(own_caps.longest_of(times.number, days)), now);
            });
            self.follow_caps();
        }
    }

    /// The pool has another rate; `window` is that of the rate before.
    fn follow_rate(&mut self, window: Millis) {
        forget_before(&mut self.starts, window, self.applied);
        if self.settings.rate.is_none() {
            self.starts = VecDeque::new();
        }
        self.waiters.hold(None);
    }

    /// A call began.
    pub(in crate::numpool) fn count_start(&mut self) {
        if let Some(rate) = self.settings.rate {
            push(&mut self.starts, self.applied, rate.window);
        }
    }

    /// The call that began at `since` does not count for the rate. A call that began before the pool had one is not counted.
    pub(in crate::numpool) fn take_back_start(&mut self, since: Millis) {
        if let Ok(place) = self.starts.binary_search(&since) {
            self.starts.remove(place);
            self.waiters.hold(None);
        }
    }

    /// Until when the rate of the pool forbids another call, if it does at `now`. O(1).
    pub fn rate_until(&self, now: Millis) -> Option<Millis> {
        let until = self.settings.rate?.full_until(&self.starts, self.settings.days, now);
        until.filter(|&until| until > now)
    }

    /// Numbers whose caps are reached now rest, and those whose caps are not reached any more join the queue. O(numbers that
    /// began calls within the windows).
    pub(in crate::numpool) fn follow_caps(&mut self) {
        let numbers: Vec<u32> = self.history.iter().map(|entry| entry.number).collect();
        numbers.into_iter().for_each(|id| self.follow_caps_of(id));
        if self.settings.caps.is_empty() {
            let own_caps = &self.own_caps;
            self.history.forget_all(|times| {
                let is_capped = own_caps.get(times.number).is_some();
                times.lists.retain(|list| is_capped || list.what != STARTS);
            });
        }
    }

    fn follow_caps_of(&mut self, id: u32) {
        if self.is_limited(id) {
            self.cool(id);
        } else if self.directory.get(id).is_queued() && self.limited_until(id).is_some() {
            self.leave(id);
            self.join(id);
        }
    }

    /// A number has other caps of its own, or none. O(calls of the number).
    pub(in crate::numpool) fn set_own_caps(&mut self, id: u32, caps: &[Cap]) {
        let own = self.own_caps.longest_of(id, self.settings.days);
        let (window, now) = (self.settings.longest_cap().max(own), self.applied);
        self.own_caps.set(id, caps.to_vec());
        let is_capped = !self.caps_of(id).is_empty();
        self.history.forget_of(id, |times| {
            times.forget_before(STARTS, window, now);
            times.lists.retain(|list| is_capped || list.what != STARTS);
        });
        self.follow_caps_of(id);
    }

    /// The caps of a number: its own, or else those of the pool.
    #[inline]
    pub(in crate::numpool) fn caps_of(&self, id: u32) -> &[Cap] {
        self.own_caps.get(id).unwrap_or(&self.settings.caps)
    }

    /// Until when the caps of a number forbid another call at a time.
    pub(in crate::numpool) fn limited_at(&self, id: u32, at: Millis) -> Option<Millis> {
        self.history.limited_until(id, self.caps_of(id), self.settings.days, at)
    }

    /// Until when the caps of a number forbid another call.
    pub(in crate::numpool) fn limited_until(&self, id: u32) -> Option<Millis> {
        self.limited_at(id, self.applied)
    }

    /// The longest time within which calls or their ends are counted.
    pub(in crate::numpool) fn longest_window(&self) -> Millis {
        self.settings.longest_cap().max(self.own_caps.longest(self.settings.days)).max(self.causes.window())
    }

    /// A call of a number ended with a cause.
    pub(in crate::numpool) fn blame(&mut self, id: u32, word: &[u8], at: Millis) {
        let Some(cause) = self.causes.ended(id, word) else { return };
        if let Some(rule) = self.causes.rule(cause).filter(|rule| rule.after > 1) {
            self.history.happened(id, cause.into(), at, rule.within, self.longest_window());
        }
    }

    /// Until when a number is in quarantine if a call of it ends with this cause now.
    pub(in crate::numpool) fn quarantine_until(&self, id: u32, word: &[u8], now: Millis) -> Option<Millis> {
        let cause = self.causes.find(word)?;
        let rule = self.causes.rule(cause)?;
        let counted = |time: &Millis| time.saturating_add(rule.within) > now;
        let ends = self.history.entry(id).and_then(|entry| entry.of(cause.into()));
        let before = ends.map_or(0, |times| times.iter().rev().take_while(|time| counted(time)).count());
        (before + 1 >= rule.after as usize).then(|| now.saturating_add(rule.cooldown))
    }

    /// A cause has another rule, or none. O(numbers with counted causes).
    pub(in crate::numpool) fn set_cause(&mut self, word: &[u8], rule: Option<Rule>) {
        let before = self.causes.find(word).and_then(|cause| self.causes.rule(cause));
        let (window, now) = (before.map_or(0, |rule| rule.within), self.applied);
        let place = self.causes.set_rule(word, rule);
        let Some(place) = place.map(u32::from).expected("there is room for a cause that gets a rule") else {
            return;
        };
        let counts = rule.is_some_and(|rule| rule.after > 1);
        self.history.forget_all(|times| {
            times.forget_before(place, window, now);
            times.lists.retain(|list| counts || list.what != place);
        });
    }
}
