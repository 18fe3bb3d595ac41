//! The argument for a parameter in a call, as the handler receives it.

use allot_core::invariant;
use allot_core::shared::invariant::Expected;
use allot_core::shared::refusal::Refusal;
use allot_core::shared::words::Words;

use super::parameter::Parameter;
use super::word::{fault, not_one_of};
use std::ops::Range;

// How much one call may ask for, so that no other client waits longer than about 10 ms for it.

/// The most seats or numbers that one call may name.
pub(crate) const LISTED_AT_ONCE: usize = 20_000;

/// The most places that one call of a listing may read (`COUNT`), and the most records of a list without a cursor.
pub(crate) const READ_AT_ONCE: u32 = 10_000;

/// Places of up to four words of a call, none of them 0: where an option that may be given several times has its values.
#[derive(Clone, Copy)]
pub(super) struct Places(pub(super) u64);

impl Places {
    const BITS: u32 = u16::BITS;

    /// With one place more; `None` if there are four, or the place is beyond 65,535.
    pub(super) fn with(self, place: usize) -> Option<Self> {
        let place = u16::try_from(place).ok()?;
        let is_full = self.0 >> (u64::BITS - Self::BITS) != 0;
        (!is_full).then_some(Self(self.0 << Self::BITS | u64::from(place)))
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        let all = (0..u64::BITS / Self::BITS).rev().map(move |at| (self.0 >> (at * Self::BITS)) as u16);
        all.filter(|&place| place != 0).map(usize::from)
    }
}

/// The argument for a parameter in a call.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'a> {
    pub(super) parameter: Option<&'static Parameter>,
    pub(super) words: &'a [&'a [u8]],
    /// The value of a number; the index of the chosen alternative; 1 for a block with its optional last word; the
    /// `Places` of a block that may be given several times, whose words are those of the call; or the place of a key, or
    /// of the first of a list of keys, among the words of the call.
    pub(super) number: i64,
}

impl<'a> Argument<'a> {
    pub(crate) const NONE: Self = Self { parameter: None, words: &[], number: 0 };

    pub(crate) fn is_given(&self) -> bool {
        self.parameter.is_some()
    }

    fn given<T>(&self, value: T) -> Option<T> {
        self.is_given().then_some(value)
    }

    /// The text of a required parameter.
    pub(crate) fn text(&self) -> &'a [u8] {
        let Some(&word) = self.words.first().expected("a required argument is there once a call is parsed")
        else {
            return &[];
        };
        word
    }

    pub(crate) fn optional_text(&self) -> Option<&'a [u8]> {
        self.words.first().copied()
    }

    /// The number of a required parameter.
    pub(crate) fn integer(&self) -> i64 {
        invariant!(self.is_given(), "a required argument is there once a call is parsed");
        self.number
    }

    pub(crate) fn optional_integer(&self) -> Option<i64> {
        self.given(self.number)
    }

    /// The number of a required parameter that is 0 or more.
    pub(crate) fn natural(&self) -> u64 {
        self.integer() as u64
    }

    pub(crate) fn optional_natural(&self) -> Option<u64> {
        self.given(self.number as u64)
    }

    /// The words of a list, without their number.
    pub(crate) fn words(&self) -> &'a [&'a [u8]] {
        self.words
    }

    /// The words of a list, if it is given.
    pub(crate) fn optional_words(&self) -> Option<&'a [&'a [u8]]> {
        self.given(self.words)
    }

    /// The value and the counted list of a block, if it is given.
    pub(crate) fn value_and_list(&self) -> Option<(&'a [u8], &'a [&'a [u8]])> {
        let (value, list) = self.words.split_first()?;
        // The first word of the list is its length.
        let list = list.get(1..);
        invariant!(list.is_some(), "a counted list of a block has its length");
        list.map(|list| (*value, list))
    }

    /// The `N` words of each time that a block is given, which may be given several times.
    pub(crate) fn each<const N: usize>(&self) -> impl Iterator<Item = [&'a [u8]; N]> {
        let (words, places) = (self.words, Places(self.number as u64));
        places.iter().filter_map(|place| words.get(place..place + N)?.try_into().ok())
    }

    /// The words of a list, refused if there are more than `most`. `what` names them in the plural.
    pub(crate) fn at_most(&self, most: usize, what: &str) -> Result<&'a [&'a [u8]], Refusal> {
        let listed = self.words.len();
        if listed <= most {
            return Ok(self.words);
        }
        Err(fault(format!("one call may name at most {most} {what}, not {listed}")))
    }

    /// How many places a call of a listing reads: `COUNT`, at most `most`, or `usual` without one.
    pub(crate) fn count(&self, usual: u32, most: u32) -> Result<u32, Refusal> {
        let Some(count) = self.optional_integer() else { return Ok(usual) };
        let read = u32::try_from(count).ok().filter(|count| (1..=most).contains(count));
        read.ok_or_else(|| fault(format!("COUNT must be 1 to {most}, not {count}")))
    }

    /// The place of a key among the words of the call, if it is given.
    pub(crate) fn place_of_key(&self) -> Option<usize> {
        self.given(self.number as usize)
    }

    /// The places of a list of keys among the words of the call; empty if it is not given.
    pub(crate) fn places_of_keys(&self) -> Range<usize> {
        let first = if self.is_given() { self.number as usize } else { 0 };
        first..first + self.words.len()
    }

    /// Whether a block ends with its optional last word.
    pub(crate) fn has_last_word(&self) -> bool {
        self.number == 1
    }

    /// Which alternative is given; `all` are the meanings of the alternatives, in the order of the table.
    pub(crate) fn choice<T: Copy>(&self, all: &[T]) -> Option<T> {
        let chosen = self.given(self.number)?;
        let meaning = usize::try_from(chosen).ok().and_then(|chosen| all.get(chosen)).copied();
        invariant!(meaning.is_some(), "each of several has a meaning");
        meaning
    }

    /// The member of an enum that has the given word; a refusal if no member has it.
    pub(crate) fn member<T: Words>(&self) -> Result<Option<T>, Refusal> {
        self.member_of(T::MEMBERS)
    }

    /// As `member`, restricted to some members.
    pub(crate) fn member_of<T: Words>(&self, members: &[T]) -> Result<Option<T>, Refusal> {
        let (Some(parameter), Some(text)) = (self.parameter, self.optional_text()) else { return Ok(None) };
        if let Some(member) = T::parse(text).filter(|member| members.contains(member)) {
            return Ok(Some(member));
        }
        let label = parameter.token.unwrap_or(parameter.name);
        Err(not_one_of(label.as_bytes(), text, members.iter().map(|&member| member.word())))
    }
}
