//! Groups of a party that splits, near each other: in the smallest part of an area.
//!
//! The size of a part is its width and its depth, see `frame`.

use super::frame::ROW;
use super::rows::{Rows, RunNeed};
use super::split::{Group, Run, Split};
use crate::seat::places::POSITION;
use std::borrow::Cow;

/// The largest party whose groups are looked for near each other.
pub(super) const NEAR: usize = 10;

/// How many rows with suitable runs are examined, the best first: so the time does not depend on the size of the area.
const ROWS_EXAMINED: usize = 32;

/// A row is directly behind another if it is at most so far behind: one rank, or three widths of a seat.
const BEHIND: i64 = ROW + ROW / 2;

/// The size of a part of the area, and the groups in it.
type Part = (i64, Vec<Group>);

/// The seats of one kind that a party wants: the free runs, and how these seats split.
#[derive(Clone)]
struct OfKind<'a> {
    runs: Cow<'a, [Run]>,
    split: &'a Split,
}

/// The groups of a party in the smallest part of an area; among equal parts the best rows and places. A party with needs
/// has several kinds of seats: so many seats in these rows. `None` if the party cannot be seated in the rows that are
/// examined. O(R S log S) with R rows examined and S positions of a row, mostly less.
pub(super) fn groups_near(kinds: &[(usize, &Rows<'_>)], area: &[u32]) -> Option<Vec<Group>> {
    let splits: Option<Vec<Split>> = kinds.iter().map(|(count, rows)| rows.split(area, *count)).collect();
    let (splits, (_, rows)) = (splits?, kinds.first()?);
    let of_kind = |(split, (_, rows)): (_, &(usize, &Rows<'_>))| {
        let split: &Split = split;
        OfKind { runs: rows.runs_in(area, split.least).into(), split }
    };
    let wanted: Vec<OfKind<'_>> = splits.iter().zip(kinds).map(of_kind).collect();
    let apart = rows.smallest_part(&wanted, smallest_possible(&wanted, area));
    let best = match &splits[..] {
        [split] => match rows.one_behind(area, split, apart.as_ref()) {
            Some(behind) if split.least == 1 => Some(behind),
            behind => behind.into_iter().chain(apart).min(),
        },
        _ => apart,
    };
    best.map(|(_, groups)| groups)
}

impl Rows<'_> {
    /// The runs of at least `least` seats in the first rows of an area that have any, by depth.
    fn runs_in(&self, area: &[u32], least: usize) -> Vec<Run> {
        let rows = self.walk(area, RunNeed::Run(least)).take(ROWS_EXAMINED);
        let mut runs: Vec<Run> = rows.flat_map(|(row, places)| self.runs_of(row, &places, least)).collect();
        runs.sort_by_key(|run| run.span.depth);
        runs
    }

    /// All but one in one group, and the last directly behind or before them, who is not alone there. `None` if the party
    /// need not sit so, or lies in a smaller part otherwise.
    fn one_behind(&self, area: &[u32], split: &Split, apart: Option<&Part>) -> Option<Part> {
        let together = split.count.saturating_sub(1);
        if split.longest.len() != 2 || together < 2 || split.least > 2 {
            return None;
        }
        let largest = match apart {
            Some((size, _)) if split.least == 2 => *size,
            Some(_) | None => i64::MAX,
        };
        let runs = OfKind { runs: self.runs_in(area, 1).into(), split };
        let pairs = runs.runs.iter().filter(|run| run.len == together).filter_map(|run| {
            let near = runs.of_depths(run.span.depth - BEHIND, run.span.depth + BEHIND);
            let behind = near.runs.iter().filter(|other| {
                other.row != run.row && (other.span.depth - run.span.depth).abs() >= POSITION
            });
            let others = behind.map(|other| other.between(run.span.left, run.right()));
            let others = others.filter(|other| other.len > 0).map(|other| {
                (
                    together as i64 * POSITION + (other.span.depth - run.span.depth).abs(),
                    self.best_part(&other, 1),
                )
            });
            let (size, alone) = others.min().filter(|(size, _)| *size <= largest)?;
            let mut groups = vec![self.best_part(run, together), alone];
            groups.sort_unstable();
            Some((size, groups))
        });
        pairs.min()
    }

    /// The smallest part of the area in which the party is seated; without places none is smaller than `smallest`.
    fn smallest_part(&self, wanted: &[OfKind<'_>], smallest: i64) -> Option<Part> {
        let runs = || wanted.iter().flat_map(|kind| kind.runs.iter());
        let has_places = runs().next().is_some_and(|run| self.show.venue.places.of(run.row).is_some());
        let mut depths: Vec<i64> = runs().map(|run| run.span.depth).collect();
        depths.sort_unstable();
        depths.dedup();
        let mut best: Option<Part> = None;
        for (at, &front) in depths.iter().enumerate() {
            // A part with worse rows must be smaller. With places, a row farther back may be the better one.
            let smaller = i64::from(!has_places);
            let largest = best.as_ref().map_or(i64::MAX, |(size, _)| size - smaller);
            if largest < smallest && !has_places {
                break;
            }
            let mut best_of_front: Option<Part> = None;
            for &back in depths.iter().skip(at) {
                let depth = back - front;
                let widest = best_of_front.as_ref().map_or(largest, |(size, _)| *size) - depth;
                if widest < POSITION {
                    break;
                }
                let rows: Vec<OfKind<'_>> = wanted.iter().map(|kind| kind.of_depths(front, back)).collect();
                let found = self.narrowest(&rows, widest);
                let found = found.map(|(width, groups)| (width + depth, groups));
                best_of_front = best_of_front.into_iter().chain(found).min();
            }
            best =
                if has_places { best.into_iter().chain(best_of_front).min() } else { best_of_front.or(best) };
        }
        best
    }

    /// The narrowest strip across these runs in which the party is seated, at most so wide: its width, and the groups.
    fn narrowest(&self, wanted: &[OfKind<'_>], mut widest: i64) -> Option<Part> {
        if !wanted.iter().all(|kind| kind.has_enough(kind.runs.iter().map(|run| run.len))) {
            return None;
        }
        let party: usize = wanted.iter().map(|kind| kind.split.count).sum();
        let runs = wanted.iter().flat_map(|kind| kind.runs.iter());
        let mut seats: Vec<i64> =
            runs.flat_map(|run| (0..run.len as i64).map(|seat| run.span.left + seat * POSITION)).collect();
        seats.sort_unstable();
        let mut by_left = wanted.to_vec();
        by_left.iter_mut().for_each(|kind| kind.runs.to_mut().sort_unstable_by_key(|run| run.span.left));
        let runs = wanted.iter().flat_map(|kind| kind.runs.iter());
        let longest = runs.map(|run| run.right() - run.span.left).max().unwrap_or(0);
        let mut best: Option<Part> = None;
        let mut before = None;
        for (at, &left) in seats.iter().enumerate() {
            if before.replace(left) == Some(left) {
                continue;
            }
            // A strip begins and ends with a seat.
            let ends = seats.get(at..).unwrap_or_default();
            let ends =
                ends.get(..ends.partition_point(|&end| end + POSITION - left <= widest)).unwrap_or_default();
            let strip: Vec<OfKind<'_>> =
                by_left.iter().map(|kind| kind.across(left, left.saturating_add(widest), longest)).collect();
            let seated = |end: i64| strip.iter().all(|kind| kind.is_seated(left, end + POSITION));
            if ends.len() < party || !ends.last().is_some_and(|&end| seated(end)) {
                continue;
            }
            let Some(&end) = ends.get(ends.partition_point(|&end| !seated(end))) else { continue };
            let right = end + POSITION;
            widest = right - left;
            let mut groups: Vec<Group> =
                strip.iter().flat_map(|kind| self.best_groups(kind, left, right)).collect();
            groups.sort_unstable();
            best = best.into_iter().chain([(widest, groups)]).min();
        }
        best
    }

    /// The best groups of a kind between two lines across the area, where it is seated.
    fn best_groups(&self, kind: &OfKind<'_>, left: i64, right: i64) -> Vec<Group> {
        let OfKind { runs, split } = kind;
        let runs = runs.iter().map(|run| run.between(left, right));
        let mut runs: Vec<Run> = runs.filter(|run| run.len >= split.least).collect();
        let (mut missing, mut groups) = (split.count, Vec::new());
        for others in (0..split.longest.len()).rev() {
            let candidates = runs.iter().enumerate().filter_map(|(at, run)| {
                let size = run.len.min(missing.saturating_sub(others * split.least));
                let rest = runs.iter().enumerate().filter(|&(other, _)| other != at).map(|(_, run)| run.len);
                let fits = size >= split.least && missing - size <= longest_of(rest, others, split.least)?;
                fits.then(|| (self.best_part(run, size), at))
            });
            let Some((group, at)) = candidates.min() else { break };
            runs.remove(at);
            missing -= group.1.0;
            groups.push(group);
        }
        groups
    }
}

impl OfKind<'_> {
    /// The runs in rows between these depths.
    fn of_depths(&self, front: i64, back: i64) -> OfKind<'_> {
        let begin = self.runs.partition_point(|run| run.span.depth < front);
        let end = self.runs.partition_point(|run| run.span.depth <= back);
        OfKind { runs: self.runs.get(begin..end).unwrap_or_default().into(), split: self.split }
    }

    /// The runs, which are ordered by their left ends and at most `longest` wide, that may lie between two lines across the
    /// area. O(log runs).
    fn across(&self, left: i64, right: i64, longest: i64) -> OfKind<'_> {
        let begin = self.runs.partition_point(|run| run.span.left + longest <= left);
        let end = self.runs.partition_point(|run| run.span.left < right);
        OfKind { runs: self.runs.get(begin..end).unwrap_or_default().into(), split: self.split }
    }

    /// Whether runs of these lengths have the seats, in as few groups.
    fn has_enough(&self, lengths: impl Iterator<Item = usize>) -> bool {
        let most = longest_of(lengths, self.split.longest.len(), self.split.least);
        most.is_some_and(|seats| seats >= self.split.count)
    }

    /// Whether the parts of the runs between two lines across the area have the seats.
    fn is_seated(&self, left: i64, right: i64) -> bool {
        self.has_enough(self.runs.iter().map(|run| run.between(left, right).len))
    }
}

/// The seats of so many of the longest runs, of which each counts for at most [`NEAR`]; `None` if fewer have at least
/// `least`.
fn longest_of(lengths: impl Iterator<Item = usize>, groups: usize, least: usize) -> Option<usize> {
    let mut counts = [0; NEAR + 1];
    for len in lengths.filter(|&len| len >= least) {
        if let Some(count) = counts.get_mut(len.min(NEAR)) {
            *count += 1;
        }
    }
    let (mut missing, mut seats) = (groups, 0);
    for (len, count) in counts.into_iter().enumerate().rev() {
        let taken = missing.min(count);
        missing -= taken;
        seats += taken * len;
    }
    (missing == 0).then_some(seats)
}

/// No part of an area without places in which the party is seated is smaller. Groups of one tier and kind are a seat apart in
/// a row.
fn smallest_possible(wanted: &[OfKind<'_>], area: &[u32]) -> i64 {
    let seats: usize = wanted.iter().map(|kind| kind.split.count).sum();
    let groups: usize = wanted.iter().map(|kind| kind.split.longest.len()).sum();
    let runs = || wanted.iter().flat_map(|kind| kind.runs.iter());
    let side_by_side = runs()
        .zip(runs().skip(1))
        .any(|(one, other)| one.span.depth == other.span.depth && one.row != other.row);
    let apart = if area.len() == 1 && !side_by_side { groups + 1 - wanted.len() } else { 0 };
    let sizes = (1..=groups).map(|rows| {
        let width = (seats + apart.saturating_sub(rows)).div_ceil(rows);
        width as i64 * POSITION + (rows as i64 - 1) * ROW
    });
    sizes.min().unwrap_or(0)
}
