//! Builds buckets, bits and indexes from the venue and the owners of seats.

use super::{Bucket, Counts, SeatState, Show, Strip, View};
use crate::invariant;
use crate::seat::bits;
use crate::seat::index::{RunIndex, Runs};
use crate::seat::kind::Kind;
use crate::seat::venue::{Area, Seat, Tier, Venue};
use crate::shared::invariant::Expected;
use hashbrown::HashMap;

/// The most views that a bucket keeps for requests with flags. A view is not part of the state: without one the
/// search walks the rows, with the same result.
const MAX_VIEWS: usize = 8;

/// The kept words for which one request makes views: about 2 ms of work.
const VIEWED_AT_ONCE: usize = 5000;

/// A bucket without its views.
struct Draft {
    area: Area,
    tier: Tier,
    strips: Vec<Strip>,
    counts: Counts,
    flags: u64,
}

impl Draft {
    fn new(area: Area, tier: Tier) -> Self {
        Self { area, tier, strips: Vec::new(), counts: Counts::default(), flags: 0 }
    }
}

impl Bucket {
    /// The view of this kind of seats, if there is one.
    pub(in crate::seat) fn view(&self, kind: Kind) -> Option<&View> {
        let kind = Kind { allowed: kind.allowed & self.flags, ..kind };
        self.views.iter().find(|view| view.kind == kind)
    }

    /// Whether the bucket may have seats of this kind, but no view of them.
    pub(in crate::seat) fn lacks_view(&self, kind: Kind) -> bool {
        kind.carried & !self.flags == 0 && self.view(kind).is_none()
    }
}

impl Show {
    /// Updates the tier numbers of the buckets to a changed venue, before the buckets are built again.
    pub(in crate::seat) fn rename_tiers(&mut self, old: &Venue) {
        for bucket in &mut self.buckets {
            // A tier without seats has no bucket, so its turn is dropped.
            bucket.tier = self.venue.tier_called(old.tier_name(bucket.tier).as_bytes()).unwrap_or(Tier::MAX);
        }
    }

    /// Fills buckets, strips and indexes from venue and owners. O(seats).
    pub(in crate::seat) fn build_buckets(&mut self) {
        let turns: HashMap<(Area, Tier), u64> =
            std::mem::take(&mut self.buckets).iter().map(|old| ((old.area, old.tier), old.turn)).collect();
        let mut drafts: Vec<Draft> = Vec::new();
        let (mut row_strips, mut row_strips_at) = (Vec::new(), Vec::with_capacity(self.venue.rows().len()));
        let mut words = Vec::new();
        let mut area_buckets = Vec::with_capacity(self.venue.areas().len());
        for (area, info) in self.venue.areas().iter().enumerate() {
            let area = area as Area;
            let tiers =
                info.rows.clone().flat_map(|row| self.venue.layout(row).tiers.iter().map(|&(tier, _)| tier));
            let mut tiers: Vec<Tier> = tiers.collect();
            tiers.sort_unstable();
            tiers.dedup();
            let first = drafts.len() as u32;
            drafts.extend(tiers.iter().map(|&tier| Draft::new(area, tier)));
            area_buckets.push(first..drafts.len() as u32);
            for row in info.rows.clone() {
                row_strips_at.push(row_strips.len() as u32);
                let (layout, base) = (self.venue.layout(row), self.venue.base(row));
                for (slot, (tier, seats)) in layout.tiers.iter().enumerate() {
                    let bucket = first + tiers.partition_point(|other| other < tier) as u32;
                    let Some(draft) =
                        drafts.get_mut(bucket as usize).expected("a tier of an area has a bucket")
                    else {
                        continue;
                    };
                    row_strips.push((bucket, draft.strips.len() as u32));
                    let word = words.len();
                    draft.strips.push(Strip { row, slot: slot as u16, word: word as u32 });
                    words.extend_from_slice(&seats.words);
                    let Some(free) = words.get_mut(word..).expected("a strip has its words") else {
                        continue;
                    };
                    for position in seats.ones() {
                        let state = self.state(base + position as Seat);
                        *draft.counts.of(state) += 1;
                        draft.flags |= layout.flags_at(position);
                        if !matches!(state, SeatState::Free | SeatState::Queued) {
                            seats.kept.put(free, position, false);
                        }
                    }
                }
            }
        }
        self.words = words.into();
        self.row_strips = row_strips.into();
        self.row_strips_at = row_strips_at.into();
        self.area_buckets = area_buckets.into();
        self.buckets = drafts.into_iter().map(|draft| self.bucket(draft, &turns)).collect();
        self.order_buckets();
    }

    fn bucket(&self, draft: Draft, turns: &HashMap<(Area, Tier), u64>) -> Bucket {
        let Draft { area, tier, strips, counts, flags } = draft;
        let turn = turns.get(&(area, tier)).copied().unwrap_or(0);
        let (strips, views) = (strips.into(), Vec::new());
        let mut bucket = Bucket { area, tier, strips, flags, counts, views, turn };
        bucket.views.push(self.view(&bucket, Kind::default()));
        if flags != 0 {
            bucket.views.push(self.view(&bucket, Kind::with(flags)));
        }
        bucket
    }

    /// Sorts the buckets into the order of the search.
    pub(in crate::seat) fn order_buckets(&mut self) {
        // The buckets of an area have successive numbers, so sorting the areas is enough.
        let mut areas: Vec<Area> = (0..self.venue.areas().len() as Area).collect();
        areas.sort_by_key(|&area| (self.venue.area(area).priority, area));
        let all: Vec<u32> = areas.into_iter().flat_map(|area| self.buckets_of(area)).collect();
        let mut tiers = vec![Vec::new(); self.venue.tiers().len()];
        for &number in &all {
            match tiers.get_mut(usize::from(self.bucket_at(number).tier)) {
                Some(tier) => tier.push(number),
                None => invariant!("the tier of a bucket is one of the venue"),
            }
        }
        self.tier_buckets = tiers.into_iter().map(Vec::into_boxed_slice).collect();
        self.all_buckets = all.into();
    }

    pub(in crate::seat) fn view(&self, bucket: &Bucket, kind: Kind) -> View {
        let mut free = 0;
        let runs: Vec<Runs> = bucket
            .strips
            .iter()
            .map(|strip| {
                let seats = self.takeable_words(*strip, kind);
                free += bits::count(&seats);
                self.runs_of(*strip, &seats)
            })
            .collect();
        View { kind, free, runs: RunIndex::new(&runs) }
    }

    /// Makes views of these kinds for these buckets, one at least, and stops after `VIEWED_AT_ONCE` words: the search reads
    /// the rows of the other buckets, and later requests make their views. Views change no result, only the speed.
    pub(in crate::seat) fn make_views(&mut self, buckets: &[u32], kinds: &[Kind]) {
        let mut words = 0;
        for &number in buckets {
            for &kind in kinds {
                if self.bucket_at(number).lacks_view(kind) {
                    words += self.make_view(number, kind);
                }
                if words >= VIEWED_AT_ONCE {
                    return;
                }
            }
        }
    }

    /// Makes a view that a bucket lacks. Returns its kept words.
    fn make_view(&mut self, number: u32, kind: Kind) -> usize {
        let bucket = self.bucket_at(number);
        let view = self.view(bucket, Kind { allowed: kind.allowed & bucket.flags, ..kind });
        let words = bucket.strips.iter().map(|strip| self.free_seats(*strip).len()).sum();
        let bucket = self.bucket_mut(number);
        if bucket.views.len() >= 2 + MAX_VIEWS {
            bucket.views.remove(2);
        }
        bucket.views.push(view);
        words
    }
}
