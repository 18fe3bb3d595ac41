//! Why calls ended, in the words of the callers; and which causes send a number into quarantine.

use super::settings::MAX_COUNT;
use crate::fields;
use crate::shared::codec::{Damaged, LAST_COUNT, Reader, Writer};
use crate::shared::column::Column;
use crate::shared::field::Field;
use crate::shared::invariant::Checked;
use crate::shared::token::MAX_TTL;
use crate::shared::{Bytes, Millis};

/// The most causes of a pool.
pub const MAX_CAUSES: usize = 64;
/// The most causes that hangups may add. The others are kept for rules.
const MAX_UNRULED: usize = 32;
/// The most characters of a cause.
pub const MAX_WORD: usize = 32;
/// The last cause of a number whose cause found no room.
const OTHER: u8 = u8::MAX;

fields! {
    /// When a cause sends a number into quarantine.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rule if is_sound else "a rule is out of range" {
        /// Length of the quarantine, in milliseconds.
        pub cooldown: Millis,
        /// How many calls must end with the cause; 1 or more.
        pub after: u32,
        /// Within which time, in milliseconds; 0 where one call is enough.
        pub within: Millis,
    }

    /// A cause that the pool knows.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cause {
        /// Its word.
        pub word: Word,
        /// How many calls ended with it.
        pub count: u64,
        /// When it sends a number into quarantine.
        pub rule: Option<Rule>,
    }
}

/// The word of a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub Bytes);

impl Field for Word {
    fn encode(&self, out: &mut Writer) {
        out.string(&self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let word = reader.identifier()?;
        if is_cause(&word) { Ok(Self(word)) } else { Err(Damaged("a cause is not a word")) }
    }
}

impl Rule {
    /// Whether its times and its count are in their ranges.
    pub fn is_sound(&self) -> bool {
        let within = if self.after == 1 { 0..=MAX_TTL } else { 1..=MAX_TTL };
        (1..=MAX_TTL).contains(&self.cooldown)
            && (1..=MAX_COUNT).contains(&self.after)
            && within.contains(&self.within)
    }
}

/// Whether a word may name a cause: 1 to 32 letters, digits, `-`, `_` or `.`.
pub fn is_cause(word: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (1..=MAX_WORD).contains(&word.len()) && word.iter().all(allowed)
}

/// The causes of a pool, and the last cause of each number.
#[derive(Clone, Debug, Default)]
pub(in crate::numpool) struct Causes {
    pub(in crate::numpool) list: Vec<Cause>,
    /// How many calls ended with a cause for which there was no room.
    pub(in crate::numpool) other: u64,
    /// By number: 0 for none, or the place of the cause in the list, from 1; one byte a number once there are causes.
    last: Column<u8>,
}

impl Causes {
    /// The place of a cause. O(causes).
    pub(in crate::numpool) fn find(&self, word: &[u8]) -> Option<u8> {
        self.list.iter().position(|cause| cause.word.0[..] == *word).map(|place| place as u8)
    }

    /// The rule of a cause.
    pub(in crate::numpool) fn rule(&self, place: u8) -> Option<Rule> {
        self.list.get(usize::from(place))?.rule
    }

    /// The longest time within which calls are counted, in milliseconds.
    pub(in crate::numpool) fn window(&self) -> Millis {
        self.list.iter().filter_map(|cause| cause.rule).map(|rule| rule.within).max().unwrap_or(0)
    }

    /// Whether a rule for this word has room.
    pub(in crate::numpool) fn has_room(&self, word: &[u8]) -> bool {
        self.list.len() < MAX_CAUSES || self.find(word).is_some()
    }

    /// Sets or removes the rule of a cause. Returns the place of the cause.
    pub(in crate::numpool) fn set_rule(&mut self, word: &[u8], rule: Option<Rule>) -> Option<u8> {
        let place = self.find(word).or_else(|| self.add(word, MAX_CAUSES))?;
        self.list.get_mut(usize::from(place))?.rule = rule;
        Some(place)
    }

    /// A call of a number ended with this cause. Returns the place of the cause, if there was room for it.
    pub(in crate::numpool) fn ended(&mut self, number: u32, word: &[u8]) -> Option<u8> {
        let place = self.find(word).or_else(|| self.add(word, MAX_UNRULED));
        match place.and_then(|place| self.list.get_mut(usize::from(place))) {
            Some(cause) => cause.count = (cause.count + 1).min(LAST_COUNT),
            None => self.other = (self.other + 1).min(LAST_COUNT),
        }
        self.last.set(number, place.map_or(OTHER, |place| place + 1));
        place
    }

    fn add(&mut self, word: &[u8], room: usize) -> Option<u8> {
        if self.list.len() >= room {
            return None;
        }
        self.list.push(Cause { word: Word(Bytes::from_slice(word)), count: 0, rule: None });
        Some((self.list.len() - 1) as u8)
    }

    /// The word of the last cause of a number; `other` if the cause found no room.
    pub(in crate::numpool) fn last(&self, number: u32) -> Option<&[u8]> {
        match self.last.find(number)? {
            0 => None,
            OTHER => Some(b"other"),
            place => self.list.get(usize::from(place - 1)).map(|cause| &cause.word.0[..]),
        }
    }

    /// Forgets the last cause of a number.
    pub(in crate::numpool) fn forget(&mut self, number: u32) {
        if self.last.find(number).is_some() {
            self.last.set(number, 0);
        }
    }

    /// The last cause of a number as it is kept.
    pub(in crate::numpool) fn kept_last(&self, number: u32) -> Option<u32> {
        self.last.find(number).filter(|&kept| kept != 0).map(u32::from)
    }

    /// Sets the last cause of a number of a snapshot; `None` for one that is not known.
    pub(in crate::numpool) fn restore_last(&mut self, number: u32, kept: u32) -> Option<()> {
        let kept = u8::try_from(kept).ok()?;
        let is_known = kept == OTHER || (1..=self.list.len()).contains(&usize::from(kept));
        is_known.then(|| self.last.set(number, kept))
    }

    /// The causes of a snapshot; `None` if there are too many, or one is there twice.
    pub(in crate::numpool) fn restore(list: Vec<Cause>, other: u64) -> Option<Self> {
        let causes = Self { list, other, last: Column::default() };
        let once = |(place, cause): (usize, &Cause)| causes.find(&cause.word.0) == Some(place as u8);
        let sound = causes.list.len() <= MAX_CAUSES && causes.list.iter().enumerate().all(once);
        sound.then_some(causes)
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        self.list.capacity() * size_of::<Cause>()
            + self.list.iter().map(|cause| cause.word.0.allocated()).sum::<usize>()
            + self.last.allocated()
    }

    /// Checks the column of last causes. O(numbers).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::numpool) fn check(&self) -> Checked {
        self.last.check()
    }
}
