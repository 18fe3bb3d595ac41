//! What keeps free numbers of the naive pool from being called: caps, its rate, suspensions, and rules of causes.

use super::{Naive, Rule};
use allot_core::numpool::Number;
use allot_core::numpool::request::Days;

impl Naive {
    /// Until when the caps forbid a call of a number, at a time.
    pub fn limited_until(&self, number: Number, at: i64) -> Option<i64> {
        let starts = &self.get(number)?.starts;
        let caps = self.caps_of(number);
        let forbids = |time: i64| {
            caps.iter().any(|&(window, count)| {
                let within = |start: i64| match window {
                    0 => self.day_of(start) == self.day_of(time),
                    _ => time < start + window,
                };
                starts.iter().filter(|&&start| start <= time && within(start)).count() >= count
            })
        };
        let days = self.settings.days;
        let end = |start: i64, window: i64| match window {
            0 => days.start + (self.day_of(start) + 1) * days.length,
            _ => start + window,
        };
        let ends = starts.iter().flat_map(|&start| caps.iter().map(move |&(window, _)| end(start, window)));
        let mut ends: Vec<i64> = ends.filter(|&end| end > at).collect();
        ends.sort_unstable();
        if forbids(at) { ends.into_iter().find(|&end| !forbids(end)) } else { None }
    }

    /// The pool has another rate.
    pub fn set_rate(&mut self, rate: Option<(i64, usize)>) {
        if self.rate != rate {
            let (now, window) = (self.now, self.rate.map_or(0, |rate| rate.0));
            self.starts.retain(|start| rate.is_some() && start + window > now);
            self.rate = rate;
        }
    }

    /// Until when the rate forbids a call, at a time.
    pub fn rate_until(&self, at: i64) -> Option<i64> {
        let (window, count) = self.rate?;
        let forbids = |time: i64| self.starts.iter().filter(|&&start| time < start + window).count() >= count;
        let mut ends: Vec<i64> = self.starts.iter().map(|start| start + window).collect();
        ends.sort_unstable();
        if forbids(at) { ends.into_iter().find(|&end| !forbids(end)) } else { None }
    }

    fn day_of(&self, at: i64) -> i64 {
        (at - self.settings.days.start).div_euclid(self.settings.days.length)
    }

    pub(super) fn caps_of(&self, number: Number) -> &[(i64, usize)] {
        let own = self.get(number).map_or(&[][..], |entry| &entry.caps);
        if own.is_empty() { &self.caps } else { own }
    }

    /// How far back the caps of a number, and of the pool, look.
    pub(super) fn span_of(&self, number: Number) -> i64 {
        let own = self.get(number).map_or(&[][..], |entry| &entry.caps);
        let days = self.settings.days.length;
        let spans = self.caps.iter().chain(own).map(|&(window, _)| if window == 0 { days } else { window });
        spans.max().unwrap_or(0)
    }

    /// A number has other caps of its own, or none.
    pub fn set_own_caps(&mut self, number: Number, caps: &[(i64, usize)]) -> bool {
        let (now, span) = (self.now, self.span_of(number));
        let Some(entry) = self.entry(number) else { return false };
        if entry.caps != caps {
            entry.caps = caps.to_vec();
            entry.starts.retain(|start| start + span > now);
            if self.caps_of(number).is_empty() {
                self.entry(number).unwrap().starts.clear();
            }
            self.follow_caps_of(number);
        }
        true
    }

    fn follow_caps_of(&mut self, number: Number) {
        let limit = self.limited_until(number, self.now);
        let entry = self.entry(number).unwrap();
        if entry.limit_until.take().is_some() {
            self.limit(number, self.now);
        } else if limit.is_some() && self.queue.contains(&number) {
            self.queue.retain(|other| *other != number);
            self.limit(number, self.now);
        }
    }

    /// Takes numbers out of service. Returns how many were in service.
    pub fn suspend(&mut self, numbers: &[Number], cause: Option<&'static str>, until: Option<i64>) -> i64 {
        let (numbers, _) = self.part(numbers);
        let mut count = 0;
        for number in numbers {
            let entry = self.entry(number).unwrap();
            count += i64::from(entry.suspended.is_none());
            (entry.suspended, entry.limit_until) = (Some((cause, until)), None);
            self.settle(number);
        }
        count
    }

    pub fn resume(&mut self, numbers: &[Number]) -> i64 {
        let (numbers, _) = self.part(numbers);
        let uses = self.uses_of_joining();
        let mut count = 0;
        for number in numbers {
            let entry = self.entry(number).unwrap();
            if entry.suspended.take().is_some() {
                count += 1;
                entry.uses = entry.uses.max(uses);
                self.limit(number, self.now);
            }
        }
        count
    }

    /// A number that would join the queue rests if its caps forbid a call.
    pub(super) fn limit(&mut self, number: Number, at: i64) {
        let limit = self.limited_until(number, at);
        let waits = self.waits(number);
        if waits && !self.queue.contains(&number) {
            self.entry(number).unwrap().limit_until = limit;
        }
        self.settle(number);
    }

    /// The pool has other caps, or other days.
    pub fn set_caps(&mut self, caps: &[(i64, usize)], days: Days) {
        if self.caps == caps && self.settings.days == days {
            return;
        }
        let (now, spans) = (self.now, self.entries.iter().map(|entry| self.span_of(entry.number)));
        let spans: Vec<i64> = spans.collect();
        for (entry, span) in self.entries.iter_mut().zip(spans) {
            entry.starts.retain(|start| start + span > now);
        }
        (self.caps, self.settings.days) = (caps.to_vec(), days);
        let mut numbers: Vec<(u64, Number)> =
            self.entries.iter().map(|entry| (entry.changed, entry.number)).collect();
        numbers.sort_unstable();
        numbers.into_iter().for_each(|(_, number)| self.follow_caps_of(number));
        if caps.is_empty() {
            let others = self.entries.iter_mut().filter(|entry| entry.caps.is_empty());
            others.for_each(|entry| entry.starts.clear());
        }
    }

    /// A cause has another rule, or none.
    pub fn set_rule(&mut self, word: &'static str, rule: Option<Rule>) {
        let before = self.rules.iter().find(|(other, _)| *other == word).map(|(_, rule)| *rule);
        if before == rule {
            return;
        }
        let (now, window) = (self.now, before.map_or(0, |rule| rule.2));
        self.rules.retain(|(other, _)| *other != word);
        self.rules.extend(rule.map(|rule| (word, rule)));
        let counts = rule.is_some_and(|rule| rule.1 > 1);
        for entry in &mut self.entries {
            entry.ends.retain(|&(other, time)| other != word || counts && time + window > now);
        }
    }

    /// Counts the end of a call with a cause. Returns until when the number is in quarantine.
    pub(super) fn blame(&mut self, number: Number, word: &'static str) -> Option<i64> {
        let (now, changed) = (self.now, self.change());
        match self.counts.iter_mut().find(|(other, _)| *other == word) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((word, 1)),
        }
        let rule = self.rules.iter().find(|(other, _)| *other == word).map(|(_, rule)| *rule);
        let entry = self.entry(number).unwrap();
        entry.cause = Some(word);
        let (cooldown, after, within) = rule?;
        let before = entry.ends.iter().filter(|&&(other, time)| other == word && time + within > now);
        let quarantine = before.count() + 1 >= after;
        if after > 1 {
            entry.ends.push((word, now));
            entry.changed = changed;
        }
        (quarantine && !entry.draining).then_some(now + cooldown)
    }
}
