//! Builds buckets, bits and indexes from the venue and the owners of seats.

use super::{Bucket, Counts, Owner, Show, Strip, StripRef, View};
use crate::invariant;
use crate::seat::bits;
use crate::seat::index::{RunIndex, Runs};
use crate::seat::venue::{Area, Seat, Tier, Venue};
use hashbrown::HashMap;

/// The most views that a bucket keeps for requests with flags. A view is not part of the state: without one the
/// search walks the rows, with the same result.
const MAX_VIEWS: usize = 8;

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
        let mut drafts: Vec<(Area, Tier, Vec<Strip>)> = Vec::new();
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
            drafts.extend(tiers.iter().map(|&tier| (area, tier, Vec::new())));
            area_buckets.push(first..drafts.len() as u32);
            for row in info.rows.clone() {
                row_strips_at.push(row_strips.len() as u32);
                let (layout, base) = (self.venue.layout(row), self.venue.base(row));
                for (tier, seats) in &layout.tiers {
                    let bucket = first + tiers.partition_point(|other| other < tier) as u32;
                    let Some((_, _, strips)) = drafts.get_mut(bucket as usize) else {
                        invariant!("a tier of an area has a bucket");
                        continue;
                    };
                    row_strips.push(StripRef { bucket, strip: strips.len() as u32 });
                    strips.push(Strip { row, word: words.len() as u32 });
                    let mut free = seats.clone();
                    for position in bits::ones(seats) {
                        bits::put(&mut free, position, self.owner(base + position as Seat) == Owner::Free);
                    }
                    words.extend_from_slice(&free);
                }
            }
        }
        self.words = words.into();
        self.row_strips = row_strips.into();
        self.row_strips_at = row_strips_at.into();
        self.area_buckets = area_buckets.into();
        self.buckets =
            drafts.into_iter().map(|(area, tier, strips)| self.bucket(area, tier, strips, &turns)).collect();
        self.order_buckets();
    }

    fn bucket(
        &self,
        area: Area,
        tier: Tier,
        strips: Vec<Strip>,
        turns: &HashMap<(Area, Tier), u64>,
    ) -> Bucket {
        let mut counts = Counts::default();
        let mut flags = 0;
        for strip in &strips {
            let (layout, base) = (self.venue.layout(strip.row), self.venue.base(strip.row));
            let Some((_, seats)) = layout.tiers.iter().find(|(other, _)| *other == tier) else {
                invariant!("the row of a bucket's strip has seats of its tier");
                continue;
            };
            for position in bits::ones(seats) {
                flags |= layout.flags_at(position);
                *counts.of(self.state(base + position as Seat)) += 1;
            }
        }
        let turn = turns.get(&(area, tier)).copied().unwrap_or(0);
        let mut bucket = Bucket { area, tier, strips: strips.into(), flags, counts, views: Vec::new(), turn };
        bucket.views.push(self.view(&bucket, 0));
        if flags != 0 {
            bucket.views.push(self.view(&bucket, flags));
        }
        bucket
    }

    /// Sorts the buckets into the order of the search.
    pub(in crate::seat) fn order_buckets(&mut self) {
        let mut all: Vec<u32> = (0..self.buckets.len() as u32).collect();
        all.sort_by_key(|&number| (self.venue.area(self.bucket_at(number).area).priority, number));
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

    pub(in crate::seat) fn view(&self, bucket: &Bucket, allowed: u64) -> View {
        let mut free = 0;
        let runs: Vec<Runs> = bucket
            .strips
            .iter()
            .map(|strip| {
                let seats = self.takeable(*strip, allowed);
                free += bits::count(&seats);
                Runs::of(&seats)
            })
            .collect();
        View { allowed, free, runs: RunIndex::new(&runs) }
    }

    /// Makes the views for a request with these flags. Called before such a request is decided; views change no
    /// result, only the speed.
    pub fn prepare(&mut self, flags: u64) {
        if flags == 0 {
            return;
        }
        for number in 0..self.buckets.len() as u32 {
            let bucket = self.bucket_at(number);
            let allowed = flags & bucket.flags;
            if bucket.views.iter().any(|view| view.allowed == allowed) {
                continue;
            }
            let view = self.view(bucket, allowed);
            let bucket = self.bucket_mut(number);
            if bucket.views.len() >= 2 + MAX_VIEWS {
                bucket.views.remove(2);
            }
            bucket.views.push(view);
        }
    }

    /// The first held or sold seat whose tier is another in `venue`, which has the same seats. O(seats).
    pub(in crate::seat) fn taken_seat_of_other_tier(&self, venue: &Venue) -> Option<Seat> {
        venue.rows().find_map(|row| {
            let base = venue.base(row);
            let tier = |venue: &Venue, seat: Seat| {
                let layout = venue.layout(row);
                let slot = layout.tier_slot((seat - base) as usize)?;
                layout.tiers.get(slot).map(|&(tier, _)| venue.tier_name(tier).to_owned())
            };
            venue.seats_of(row).find(|&seat| {
                matches!(self.owner(seat), Owner::Claim(_)) && tier(&self.venue, seat) != tier(venue, seat)
            })
        })
    }
}
