//! The brake: where too many units would go down at once, more likely than their deaths is a fault of what they are
//! seen through, and to move all their conferences would be the worst answer. No clock, no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::verdicts::Look;

/// When the brake holds, and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// More than this share of the units, in percent,
    pub(crate) percent: u32,
    /// and at least so many,
    pub(crate) least: u32,
    /// within this time.
    pub(crate) window: Duration,
    /// It is lifted after both stores were well for so long.
    pub(crate) lift: Duration,
}

/// What the brake says to a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// These are to be declared down; recovery goes on.
    Go(Vec<String>),
    /// Nobody is declared down and nothing is recovered.
    Hold {
        /// Whether it has just begun to hold.
        begun: bool,
    },
}

/// Why it was lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifted {
    /// Both stores were well for long enough.
    Health,
    /// The operator said so.
    Operator,
    /// The units are back, but for no more than may go at once.
    Returned,
}

/// The brake of one scheduler.
#[derive(Debug)]
pub(crate) struct Brake {
    limits: Limits,
    /// Units that were declared down lately, and when.
    recent: BTreeMap<String, Instant>,
    /// While it holds: since when both stores were well.
    holding: Option<Instant>,
    /// Units for which it was lifted: they are declared down, however many they are.
    excused: BTreeSet<String>,
    /// While it holds: since when no more are silent than may go at once.
    few: Option<Instant>,
    /// How long leases are at most, and when all of them began anew.
    leases: Option<(Duration, Instant)>,
}

impl Brake {
    /// A brake that does not hold.
    pub(crate) fn new(limits: Limits) -> Self {
        let (recent, excused) = (BTreeMap::new(), BTreeSet::new());
        Self { limits, recent, holding: None, excused, few: None, leases: None }
    }

    /// Whether it holds.
    pub(crate) fn holds(&self) -> bool {
        self.holding.is_some()
    }

    /// Leases are so long at most, and all began anew then: for that long who is not silent may be dead all the same.
    pub(crate) fn leases(&mut self, longest: Duration, began: Instant) {
        self.leases = Some((longest, began));
    }

    /// A store was not well: the time until it is lifted begins anew.
    pub(crate) fn unwell(&mut self, now: Instant) {
        self.few = None;
        if let Some(since) = &mut self.holding {
            *since = now;
        }
    }

    /// What to do about a look; what it lets go is noted as down.
    pub(crate) fn judge(&mut self, look: &Look, now: Instant) -> Word {
        if self.holding.is_some() {
            return Word::Hold { begun: false };
        }
        let window = self.limits.window;
        self.recent.retain(|_, at| now.saturating_duration_since(*at) < window);
        self.excused.retain(|cmu| look.silent.contains(cmu));
        let news = look.down.iter().any(|cmu| !self.is_known(cmu));
        if news && self.are_too_many(look) {
            self.holding = Some(now);
            return Word::Hold { begun: true };
        }
        for cmu in look.down.iter().filter(|cmu| !self.excused.contains(*cmu)) {
            self.recent.insert(cmu.clone(), now);
        }
        Word::Go(look.down.clone())
    }

    /// Whether its going is nothing new.
    fn is_known(&self, cmu: &String) -> bool {
        self.excused.contains(cmu) || self.recent.contains_key(cmu)
    }

    /// Whether too many went, or will go, within one window.
    fn are_too_many(&self, look: &Look) -> bool {
        // Those that are silent now would go down within the window, too.
        let fresh = look.silent.iter().filter(|cmu| !self.is_known(cmu)).count();
        let gone = fresh + self.recent.len();
        let all = look.alive + self.recent.len();
        gone >= self.limits.least as usize && gone * 100 > all * self.limits.percent as usize
    }

    /// Whether the units are back: all of them, or all but so few, for a lease's length, that the others were only late.
    /// Of many that come back one after another the last must not be taken for dead.
    fn are_back(&mut self, look: &Look, now: Instant) -> bool {
        self.few = if self.are_too_many(look) { None } else { self.few.or(Some(now)) };
        let Some((lease, began)) = self.leases else { return look.silent.is_empty() };
        let few = self.few.is_some_and(|since| now.saturating_duration_since(since) >= lease);
        now.saturating_duration_since(began) > lease && (look.silent.is_empty() || few)
    }

    /// Whether it is lifted now, and why. By the operator, or after so long, who is silent is then declared down without
    /// more ado. Where units are back what went before still counts: the brake goes on as if it had not held.
    pub(crate) fn lift(&mut self, look: &Look, operator: bool, now: Instant) -> Option<Lifted> {
        let since = self.holding?;
        let lifted = if operator {
            Lifted::Operator
        } else if now.saturating_duration_since(since) >= self.limits.lift {
            Lifted::Health
        } else if self.are_back(look, now) {
            (self.holding, self.few) = (None, None);
            return Some(Lifted::Returned);
        } else {
            return None;
        };
        (self.holding, self.few) = (None, None);
        self.recent.clear();
        self.excused.clone_from(&look.silent);
        Some(lifted)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits =
        Limits { percent: 30, least: 2, window: Duration::from_secs(10), lift: Duration::from_secs(60) };

    /// A look at `alive` units, of which the first `silent` are silent, and of these the first `down` down.
    fn look(alive: usize, silent: usize, down: usize) -> Look {
        let name = |number: usize| format!("u{number:03}");
        Look { down: (0..down).map(name).collect(), silent: (0..silent).map(name).collect(), alive }
    }

    fn goes(word: &Word) -> usize {
        match word {
            Word::Go(down) => down.len(),
            Word::Hold { .. } => panic!("it holds"),
        }
    }

    #[test]
    fn one_unit_of_few_may_always_go() {
        for alive in 1..5 {
            assert_eq!(goes(&Brake::new(LIMITS).judge(&look(alive, 1, 1), Instant::now())), 1);
        }
    }

    #[test]
    fn two_of_five_hold_and_three_of_ten_do_not() {
        let now = Instant::now();
        assert_eq!(Brake::new(LIMITS).judge(&look(5, 2, 2), now), Word::Hold { begun: true });
        assert_eq!(goes(&Brake::new(LIMITS).judge(&look(10, 3, 3), now)), 3);
        assert_eq!(Brake::new(LIMITS).judge(&look(10, 4, 1), now), Word::Hold { begun: true });
    }

    #[test]
    fn silence_alone_does_not_hold() {
        let mut brake = Brake::new(LIMITS);
        assert_eq!(goes(&brake.judge(&look(5, 4, 0), Instant::now())), 0);
        assert!(!brake.holds());
    }

    #[test]
    fn one_after_another_within_the_window_counts_together() {
        let start = Instant::now();
        let mut brake = Brake::new(LIMITS);
        assert_eq!(goes(&brake.judge(&look(5, 1, 1), start)), 1);
        let second = Look { down: vec!["x".into()], silent: BTreeSet::from(["x".into()]), alive: 4 };
        assert_eq!(brake.judge(&second, start + Duration::from_secs(9)), Word::Hold { begun: true });
        let mut brake = Brake::new(LIMITS);
        assert_eq!(goes(&brake.judge(&look(5, 1, 1), start)), 1);
        assert_eq!(goes(&brake.judge(&second, start + Duration::from_secs(10))), 1);
    }

    #[test]
    fn health_for_a_minute_lifts_it_and_trouble_begins_the_minute_anew() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut brake = Brake::new(LIMITS);
        let many = look(5, 2, 2);
        brake.judge(&many, start);
        assert_eq!(brake.lift(&many, false, at(59)), None);
        brake.unwell(at(59));
        assert_eq!(brake.lift(&many, false, at(118)), None);
        assert_eq!(brake.judge(&many, at(118)), Word::Hold { begun: false });
        assert_eq!(brake.lift(&many, false, at(119)), Some(Lifted::Health));
        assert_eq!(goes(&brake.judge(&many, at(119))), 2);
        // One more that falls silent later is news.
        assert_eq!(goes(&brake.judge(&look(5, 3, 3), at(120))), 3);
    }

    #[test]
    fn the_operators_word_lifts_it_at_once_and_the_units_return_as_well() {
        let now = Instant::now();
        let mut brake = Brake::new(LIMITS);
        brake.judge(&look(5, 2, 2), now);
        assert_eq!(brake.lift(&look(5, 2, 2), true, now), Some(Lifted::Operator));
        assert_eq!(brake.lift(&look(5, 2, 2), true, now), None);
        brake.judge(&look(5, 5, 5), now);
        assert_eq!(brake.lift(&look(5, 0, 0), false, now), Some(Lifted::Returned));
    }

    #[test]
    fn it_is_lifted_when_no_more_are_silent_than_may_go() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut brake = Brake::new(LIMITS);
        brake.leases(Duration::from_secs(5), start);
        // One has died, and at the look that says so another was late.
        assert_eq!(brake.judge(&look(5, 2, 1), at(6)), Word::Hold { begun: true });
        assert_eq!(brake.lift(&look(5, 2, 1), false, at(7)), None);
        for seconds in 8..13 {
            assert_eq!(brake.lift(&look(5, 1, 1), false, at(seconds)), None, "after {seconds} s");
        }
        assert_eq!(brake.lift(&look(5, 1, 1), false, at(13)), Some(Lifted::Returned));
        assert_eq!(goes(&brake.judge(&look(5, 1, 1), at(13))), 1);
    }

    #[test]
    fn nobody_is_back_until_a_lease_is_over_since_all_began_anew() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut brake = Brake::new(LIMITS);
        brake.judge(&look(5, 2, 2), start);
        brake.leases(Duration::from_secs(30), at(1));
        assert_eq!(brake.lift(&look(5, 0, 0), false, at(31)), None);
        assert_eq!(brake.lift(&look(5, 0, 0), false, at(32)), Some(Lifted::Returned));
    }

    #[test]
    fn who_went_before_it_held_counts_until_it_is_lifted_and_afterwards() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let one = |cmu: &str| Look { down: vec![cmu.into()], silent: BTreeSet::from([cmu.into()]), alive: 4 };
        let mut brake = Brake::new(LIMITS);
        assert_eq!(goes(&brake.judge(&look(5, 1, 1), start)), 1);
        assert_eq!(brake.judge(&one("x"), at(5)), Word::Hold { begun: true });
        let back = Look { alive: 4, ..Look::default() };
        assert_eq!(brake.lift(&back, false, at(7)), Some(Lifted::Returned));
        assert_eq!(brake.judge(&one("y"), at(8)), Word::Hold { begun: true });
        // That the window is over does not lift it: the brake would be no more than a delay.
        assert_eq!(brake.lift(&one("y"), false, at(11)), None);
    }

    proptest! {
        /// Unless the operator or the time lifts it, never do more than the limit go down within one window, also where
        /// those that made it hold were only late.
        #[test]
        fn within_a_window_no_more_than_the_limit_go(steps in prop::collection::vec((0usize..4, 0u64..6000), 1..40)) {
            let (start, mut brake) = (Instant::now(), Brake::new(LIMITS));
            let (mut at, mut alive, mut number) = (0u64, 20usize, 0usize);
            let mut gone: Vec<u64> = Vec::new();
            for (count, pause) in steps {
                at += pause;
                let count = count.min(alive);
                let down: Vec<String> = (0..count).map(|more| format!("u{}", number + more)).collect();
                number += count;
                let look = Look { silent: down.iter().cloned().collect(), down, alive };
                let now = start + Duration::from_millis(at);
                let let_go = match brake.judge(&look, now) {
                    Word::Go(let_go) => let_go,
                    Word::Hold { .. } => {
                        let back = Look { alive, ..Look::default() };
                        prop_assert_eq!(brake.lift(&back, false, now), Some(Lifted::Returned));
                        continue;
                    }
                };
                alive -= let_go.len();
                gone.extend(let_go.iter().map(|_| at));
                let within = gone.iter().filter(|then| at - **then < 10_000).count();
                prop_assert!(within < 2 || within * 100 <= (alive + within) * 30);
            }
        }
    }
}
