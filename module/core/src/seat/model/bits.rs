//! A row as bits: runs of free seats, and the best window of N seats, by shifts and ANDs.
//!
//! Bit p of word p / 64 is position p of the row; a set bit is a seat that may be taken. Breaks are positions
//! whose bit is never set, so two set bits side by side are two adjacent seats.

use super::plan::Rule;
use crate::shared::invariant::Expected;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// The bits of one row; rows of up to 256 positions need no allocation.
pub type Bits = SmallVec<[u64; 4]>;

/// Whether bit `at` is set.
pub fn is_set(bits: &[u64], at: usize) -> bool {
    bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

/// Sets or clears bit `at`, which lies inside `bits`.
pub fn put(bits: &mut [u64], at: usize, value: bool) {
    let Some(word) = bits.get_mut(at / 64).expected("a bit that is set or cleared lies inside its row")
    else {
        return;
    };
    let bit = 1 << (at % 64);
    if value { *word |= bit } else { *word &= !bit }
}

/// Set bits of a word, lowest first.
pub fn ones_of(word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let bit = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

/// Set bits, lowest first.
pub fn ones(bits: &[u64]) -> impl Iterator<Item = usize> {
    bits.iter().enumerate().flat_map(|(number, &word)| ones_of(word).map(move |bit| number * 64 + bit))
}

/// Number of set bits.
pub fn count(bits: &[u64]) -> u32 {
    bits.iter().map(|word| word.count_ones()).sum()
}

/// Adds the bits of `more` to `union`, which grows if need be.
pub fn unite(union: &mut Bits, more: &[u64]) {
    union.resize(union.len().max(more.len()), 0);
    union.iter_mut().zip(more).for_each(|(union, more)| *union |= more);
}

/// Number of set bits of a range. O(words of the range).
pub fn count_in(bits: &[u64], range: Range<usize>) -> usize {
    if let ([word], 0..64) = (bits, range.end) {
        // The fast path for rows of one word, the usual case.
        return (word & ((1 << range.end) - 1) & (u64::MAX << range.start)).count_ones() as usize;
    }
    // The lowest bits of a word, before this place.
    let below = |place: usize, word: usize| match place.saturating_sub(word * 64) {
        bits @ 0..64 => (1u64 << bits) - 1,
        _ => u64::MAX,
    };
    let words = range.start / 64..range.end.div_ceil(64);
    let set =
        words.filter_map(|word| Some(bits.get(word)? & below(range.end, word) & !below(range.start, word)));
    set.map(|word| word.count_ones() as usize).sum()
}

/// The bit at p of the result is the bit at p + n of `bits`.
fn toward_start(bits: &[u64], n: usize) -> Bits {
    let (words, shift) = (n / 64, n % 64);
    let word = |at: usize| bits.get(at).copied().unwrap_or(0);
    (0..bits.len())
        .map(|at| match shift {
            0 => word(at + words),
            _ => word(at + words) >> shift | word(at + words + 1) << (64 - shift),
        })
        .collect()
}

/// The bit at p of the result is the bit at p - n of `bits`, for n < 64.
fn toward_end(bits: &[u64], n: usize) -> Bits {
    let mut carry = 0;
    bits.iter()
        .map(|&word| {
            let shifted = word << n | carry;
            carry = if n == 0 { 0 } else { word >> (64 - n) };
            shifted
        })
        .collect()
}

/// Bit s is set where a run of `n` set bits begins at s. O(words log n).
pub fn windows(bits: &[u64], n: usize) -> Bits {
    if let [word] = *bits {
        // The fast path for rows of one word, the usual case.
        let (mut found, mut have) = (word, 1);
        while have < n {
            let step = have.min(n - have);
            found &= if step < 64 { found >> step } else { 0 };
            have += step;
        }
        return smallvec![found];
    }
    let mut found = Bits::from_slice(bits);
    let mut have = 1;
    while have < n {
        let step = have.min(n - have);
        let shifted = toward_start(&found, step);
        found.iter_mut().zip(shifted).for_each(|(word, other)| *word &= other);
        have += step;
    }
    found
}

/// The windows of `n` in `starts` that leave no single free seat: on each side, none or at least two seats of the run
/// in `free` remain. O(words).
pub fn stranding_nobody(starts: &[u64], free: &[u64], n: usize) -> Bits {
    if let ([start], [free]) = (starts, free) {
        let left = free << 1 & !(free << 2);
        let beyond = |by: usize| if by < 64 { free >> by } else { 0 };
        let right = beyond(n) & !beyond(n + 1);
        return smallvec![start & !left & !right];
    }
    let left = toward_end(free, 1).into_iter().zip(toward_end(free, 2)).map(|(one, two)| one & !two);
    let right = toward_start(free, n).into_iter().zip(toward_start(free, n + 1)).map(|(one, two)| one & !two);
    starts.iter().zip(left.zip(right)).map(|(start, (left, right))| start & !left & !right).collect()
}

/// The best window of `n` in `starts`, in a row of `len` positions.
///
/// `ltr` the leftmost, `rtl` the rightmost, `center` the one whose middle is nearest the row's middle, of two
/// the left one. O(words).
pub fn best_window(starts: &[u64], n: usize, len: usize, rule: Rule) -> Option<usize> {
    match rule {
        Rule::Ltr | Rule::Focus => first_from(starts, 0),
        Rule::Rtl => last_up_to(starts, len),
        Rule::Center => {
            // The window in the exact middle would start at (len - n) / 2.
            let middle = len.saturating_sub(n) / 2;
            let left = last_up_to(starts, middle);
            let right = first_from(starts, middle + 1);
            match (left, right) {
                (Some(l), Some(r)) if distance(r, n, len) < distance(l, n, len) => Some(r),
                (Some(l), _) => Some(l),
                (None, right) => right,
            }
        }
    }
}

/// Twice the distance between the middle of the window and the middle of the row.
pub fn distance(start: usize, n: usize, len: usize) -> usize {
    (2 * start + n).abs_diff(len)
}

/// Where a window of `n` is in the order of a rule: the least is the best. With the rule `focus`, that is the order of
/// equally near ones.
pub fn order(start: usize, n: usize, len: usize, rule: Rule) -> (usize, usize) {
    match rule {
        Rule::Ltr | Rule::Focus => (start, 0),
        Rule::Rtl => (len.saturating_sub(start), 0),
        Rule::Center => (distance(start, n, len), start),
    }
}

fn first_from(bits: &[u64], from: usize) -> Option<usize> {
    let mut number = from / 64;
    let mut word = bits.get(number)? & (!0 << (from % 64));
    while word == 0 {
        number += 1;
        word = *bits.get(number)?;
    }
    Some(number * 64 + word.trailing_zeros() as usize)
}

fn last_up_to(bits: &[u64], to: usize) -> Option<usize> {
    let mut number = (to / 64).min(bits.len().checked_sub(1)?);
    let mask = if number == to / 64 { !0 >> (63 - to % 64) } else { !0 };
    let mut word = bits.get(number)? & mask;
    while word == 0 {
        number = number.checked_sub(1)?;
        word = *bits.get(number)?;
    }
    Some(number * 64 + 63 - word.leading_zeros() as usize)
}

/// Runs of set bits, from the left: start and length.
pub fn runs(bits: &[u64]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = first_from(bits, at)?;
        let mut end = start;
        // Ones of this word above `end`, then whole words of ones.
        loop {
            let word = bits.get(end / 64).copied().unwrap_or(0);
            let ones = (word >> (end % 64)).trailing_ones() as usize;
            end += ones;
            if ones == 0 || !end.is_multiple_of(64) {
                break;
            }
        }
        at = end;
        Some((start, end - start))
    })
}

/// Positions of the set bits of a row of `len` positions, the best seat by the rule first.
pub fn in_order(bits: &[u64], len: usize, rule: Rule) -> Vec<usize> {
    let mut seats: Vec<usize> = ones(bits).collect();
    match rule {
        Rule::Ltr | Rule::Focus => {}
        Rule::Rtl => seats.reverse(),
        Rule::Center => seats.sort_by_key(|&seat| (distance(seat, 1, len), seat)),
    }
    seats
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(seats: &[bool]) -> Bits {
        let mut bits: Bits = smallvec![0; seats.len().div_ceil(64)];
        for (at, &seat) in seats.iter().enumerate() {
            put(&mut bits, at, seat);
        }
        bits
    }

    fn naive_windows(seats: &[bool], n: usize) -> Vec<usize> {
        (0..seats.len())
            .filter(|&s| s + n <= seats.len() && seats[s..s + n].iter().all(|&seat| seat))
            .collect()
    }

    fn strands(seats: &[bool], s: usize, n: usize) -> bool {
        let left = seats[..s].iter().rev().take_while(|&&seat| seat).count();
        let right = seats[s + n..].iter().take_while(|&&seat| seat).count();
        left == 1 || right == 1
    }

    proptest! {
        #[test]
        fn bits_of_a_range_are_counted_as_a_loop_counts_them(
            seats in prop::collection::vec(prop::bool::ANY, 0..300), from in 0usize..320, len in 0usize..130,
        ) {
            let expected = seats.iter().skip(from).take(len).filter(|&&seat| seat).count();
            prop_assert_eq!(count_in(&pack(&seats), from..from + len), expected);
        }

        #[test]
        fn shifts_and_ands_find_what_a_loop_finds(
            seats in prop::collection::vec(prop::bool::weighted(0.8), 1..300), n in 1usize..130,
        ) {
            let bits = pack(&seats);
            let found = windows(&bits, n);
            let expected = naive_windows(&seats, n);
            prop_assert_eq!(ones(&found).collect::<Vec<_>>(), expected.clone());
            let kind = stranding_nobody(&found, &bits, n);
            let clean: Vec<usize> = expected.iter().copied().filter(|&s| !strands(&seats, s, n)).collect();
            prop_assert_eq!(ones(&kind).collect::<Vec<_>>(), clean);
            let len = seats.len();
            prop_assert_eq!(best_window(&found, n, len, Rule::Ltr), expected.first().copied());
            prop_assert_eq!(best_window(&found, n, len, Rule::Rtl), expected.last().copied());
            let nearest = expected.iter().copied().min_by_key(|&s| ((2 * s + n).abs_diff(len), s));
            prop_assert_eq!(best_window(&found, n, len, Rule::Center), nearest);
        }

        #[test]
        fn runs_are_what_is_between_the_gaps(seats in prop::collection::vec(prop::bool::weighted(0.9), 1..300)) {
            let mut expected = Vec::new();
            let mut at = 0;
            for run in seats.split(|&seat| !seat) {
                if !run.is_empty() {
                    expected.push((at, run.len()));
                }
                at += run.len() + 1;
            }
            prop_assert_eq!(runs(&pack(&seats)).collect::<Vec<_>>(), expected);
        }
    }
}
