//! A show: venue, free seats, claims.

mod buckets;
mod flags;

use super::bits::{self, Bits};
use super::blocks::Blocks;
use super::claims::Claims;
use super::ended::EndedWaits;
use super::index::{RunIndex, Runs};
use super::kind::Kind;
use super::owners::{FREE, Owners};
use super::plan::{Limits, Plan, max};
use super::sparse::Sparse;
use super::venue::{Area, Row, Seat, Tier, Venue};
use super::waiting::Waiters;
use crate::invariant;
use crate::shared::Millis;
use crate::shared::invariant::Expected;
use crate::shared::outbox::Outbox;
use crate::shared::refusal::Refusal;
use crate::words;
use std::ops::Range;

/// One performance: the state of one key.
#[derive(Clone, Debug)]
pub struct Show {
    pub(in crate::seat) venue: Venue,
    pub(in crate::seat) limits: Limits,
    /// Length of the event stream, 0 = none.
    pub(in crate::seat) events: u32,
    /// The last time applied; never decreases.
    pub(in crate::seat) applied: Millis,
    pub(in crate::seat) claims: Claims,
    /// The owner of each position: `FREE` (for breaks as well), `BLOCKED`, or the number of a claim.
    pub(in crate::seat) owners: Owners,
    /// Free seats of all strips as bits: for each strip the words in which it has seats.
    pub(in crate::seat) words: Box<[u64]>,
    /// By area, then tier: the order of `SEAT.STAT`, and of the snapshot.
    pub(in crate::seat) buckets: Vec<Bucket>,
    /// Buckets of each area.
    pub(in crate::seat) area_buckets: Box<[Range<u32>]>,
    /// Buckets of each tier by priority, then plan order.
    pub(in crate::seat) tier_buckets: Box<[Box<[u32]>]>,
    /// All buckets by priority, then plan order.
    pub(in crate::seat) all_buckets: Box<[u32]>,
    /// The strips of all rows, each by bucket and strip, and the index of each row's first strip.
    pub(in crate::seat) row_strips: Box<[(u32, u32)]>,
    pub(in crate::seat) row_strips_at: Box<[u32]>,
    /// When each area was last served without a tier, as a count of turns; 0 = never.
    pub(in crate::seat) area_turns: Box<[u64]>,
    /// Turns taken so far.
    pub(in crate::seat) turns: u64,
    pub(in crate::seat) outbox: Outbox,
    pub(in crate::seat) waiters: Waiters,
    pub(in crate::seat) ended_waits: EndedWaits,
    pub(in crate::seat) blocks: Blocks,
}

const BLOCKED: u32 = u32::MAX - 1;

/// The holder of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The seat is free.
    Free,
    /// Those who wait: the seat is free for them alone.
    Queued,
    /// The house: the seat is blocked.
    Blocked,
    /// The claim of that number.
    Claim(u32),
}

/// The seats of one tier in one area.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Its area.
    pub area: Area,
    /// Its tier.
    pub tier: Tier,
    /// Its part of each row, in seat order.
    pub(in crate::seat) strips: Box<[Strip]>,
    /// All flags that some seat of the bucket has.
    pub(in crate::seat) flags: u64,
    /// Seats by state.
    pub counts: Counts,
    /// Views: first the one without flags, then the one with all flags (if there are any), then those that requests
    /// needed.
    pub(in crate::seat) views: Vec<View>,
    /// The turn at which the bucket was last served; 0 for never.
    pub(in crate::seat) turn: u64,
}

/// Seats by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// For sale, queued seats included.
    pub free: u32,
    /// Held by a token.
    pub held: u32,
    /// Sold.
    pub sold: u32,
    /// Kept by the house.
    pub blocked: u32,
}

/// The seats of a bucket in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    pub(in crate::seat) row: Row,
    /// The place of the bucket's tier among the tiers of the row.
    pub(in crate::seat) slot: u16,
    word: u32,
}

/// The seats of a bucket that a request with certain flags may take.
#[derive(Clone, Debug)]
pub struct View {
    /// The kind of seats; it allows only flags that the bucket has.
    pub(in crate::seat) kind: Kind,
    /// Free seats that the request may take.
    pub(in crate::seat) free: u32,
    pub(in crate::seat) runs: RunIndex,
}

impl Show {
    /// An empty show.
    ///
    /// # Errors
    /// The rule that the plan breaks, with the place in the plan.
    pub fn new(plan: &Plan, now: Millis) -> Result<Self, Refusal> {
        plan.limits.check()?;
        let venue = Venue::build(plan)?;
        let owners = Owners::new(venue.position_count() as usize);
        let area_turns = vec![0; venue.areas().len()].into_boxed_slice();
        let mut show = Self {
            venue,
            limits: plan.limits,
            events: plan.events,
            applied: now,
            claims: Claims::default(),
            owners,
            words: Box::default(),
            buckets: Vec::new(),
            area_buckets: Box::default(),
            tier_buckets: Box::default(),
            all_buckets: Box::default(),
            row_strips: Box::default(),
            row_strips_at: Box::default(),
            area_turns,
            turns: 0,
            outbox: Outbox::default(),
            waiters: Waiters::default(),
            ended_waits: EndedWaits::default(),
            blocks: Blocks::default(),
        };
        show.build_buckets();
        Ok(show)
    }

    /// The plan in its normal form; two shows of equal plans have equal normal forms.
    pub fn plan(&self) -> Plan {
        Plan {
            areas: self.venue.areas_as_plan(),
            limits: self.limits,
            events: self.events,
            focus: self.venue.focus,
        }
    }

    /// The normal form as JSON.
    pub fn plan_json(&self) -> String {
        self.plan().to_json()
    }

    /// The place.
    pub fn venue(&self) -> &Venue {
        &self.venue
    }

    /// Limits of each user.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Holds, sales, users and orders.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Buckets by area, then tier.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Messages that wait to be written to the event stream.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The earliest deadline of a hold, a wait or a block; the last time applied while somebody may be servable.
    pub fn next_due(&self) -> Option<Millis> {
        if self.waiters.is_empty() && self.blocks.is_empty() {
            return self.claims.earliest();
        }
        let unserved = self.waiters.unserved.then_some(self.applied);
        let waits = self.waiters.deadlines.earliest();
        let earliest = [self.claims.earliest(), waits, self.blocks.deadlines.earliest(), unserved];
        earliest.into_iter().flatten().min()
    }

    /// The time of this show: the greater of the clock and the last time applied.
    pub fn now(&self, clock: Millis) -> Millis {
        clock.max(self.applied)
    }

    /// The owner of a seat. A number beyond the end, which an event of another server may contain, is never free.
    pub fn owner(&self, seat: Seat) -> Owner {
        match self.owners.get(seat).unwrap_or(BLOCKED) {
            FREE if self.waiters.is_queued(seat) => Owner::Queued,
            FREE => Owner::Free,
            BLOCKED => Owner::Blocked,
            claim => Owner::Claim(claim),
        }
    }

    /// The state of a seat.
    pub fn state(&self, seat: Seat) -> SeatState {
        match self.owner(seat) {
            Owner::Free => SeatState::Free,
            Owner::Queued => SeatState::Queued,
            Owner::Blocked => SeatState::Blocked,
            Owner::Claim(id) if self.claims.get(id).sale.is_some() => SeatState::Sold,
            Owner::Claim(_) => SeatState::Held,
        }
    }

    /// Buckets of a tier, or of all tiers, by priority, then plan order.
    pub(in crate::seat) fn candidates(&self, tier: Option<Tier>) -> &[u32] {
        let Some(tier) = tier else { return &self.all_buckets };
        let Some(buckets) = self.tier_buckets.get(usize::from(tier)).expected("a tier has a list of buckets")
        else {
            return &[];
        };
        buckets
    }

    /// Priority of a bucket's area; the lowest is best.
    pub(in crate::seat) fn priority(&self, bucket: u32) -> i32 {
        self.venue.area(self.bucket_at(bucket).area).priority
    }

    /// Numbers of an area's buckets.
    pub(in crate::seat) fn buckets_of(&self, area: Area) -> Range<u32> {
        self.area_buckets.get(area as usize).cloned().unwrap_or_else(|| {
            invariant!("an area has buckets");
            0..0
        })
    }

    #[allow(clippy::indexing_slicing, reason = "numbers of buckets come from the show")]
    pub(in crate::seat) fn bucket_at(&self, number: u32) -> &Bucket {
        &self.buckets[number as usize]
    }

    #[allow(clippy::indexing_slicing, reason = "numbers of buckets come from the show")]
    #[inline]
    fn bucket_mut(&mut self, number: u32) -> &mut Bucket {
        &mut self.buckets[number as usize]
    }

    /// All seats of a strip, free or not.
    #[allow(clippy::indexing_slicing, reason = "slots of strips come from the venue")]
    #[inline]
    pub(in crate::seat) fn seats_of(&self, strip: Strip) -> &Sparse {
        &self.venue.layout(strip.row).tiers[usize::from(strip.slot)].1
    }

    /// Free seats of a strip, with any flags: the kept words of the strip.
    #[inline]
    pub(in crate::seat) fn free_seats(&self, strip: Strip) -> &[u64] {
        let (at, words) = (strip.word as usize, self.seats_of(strip).kept.words());
        self.words.get(at..at + words).unwrap_or_else(|| {
            invariant!("a strip has its words");
            &[]
        })
    }

    /// Free seats of a row, with any flags and of any tier, but no queued ones, as bits of the row. O(words of the row), for
    /// each of its tiers.
    pub(in crate::seat) fn free_in_row(&self, row: Row) -> Bits {
        let layout = self.venue.layout(row);
        let mut free = Bits::from_elem(0, usize::from(layout.len).div_ceil(64));
        for &(bucket, strip) in self.strips_of(row) {
            if let Some(strip) = self.strip(bucket, strip) {
                let kept = self.seats_of(strip).kept;
                bits::unite(&mut free, &kept.dense(self.free_seats(strip), layout.len.into()));
            }
        }
        self.hide_queued(row, &mut free);
        free
    }

    /// Clears the bits of a row's queued seats.
    pub(in crate::seat) fn hide_queued(&self, row: Row, seats: &mut [u64]) {
        let positions = self.venue.positions_of(row);
        for &seat in self.waiters.queued().range(positions.clone()) {
            bits::put(seats, (seat - positions.start) as usize, false);
        }
    }

    /// The strips of a row, one for each of its tiers, each by bucket and strip.
    pub(in crate::seat) fn strips_of(&self, row: Row) -> &[(u32, u32)] {
        let first = self.row_strips_at.get(row as usize).map_or(0, |&first| first as usize);
        let strips = self.row_strips.get(first..first + self.venue.layout(row).tiers.len());
        invariant!(strips.is_some(), "a row has a strip for each of its tiers");
        strips.unwrap_or_default()
    }

    /// The bucket and the strip of a seat; `None` for a break.
    #[inline]
    pub(in crate::seat) fn strip_of(&self, seat: Seat) -> Option<(u32, u32)> {
        self.strip_in_row(self.venue.row_of(seat), seat)
    }

    /// As `strip_of`, for a seat of this row.
    #[inline]
    fn strip_in_row(&self, row: Row, seat: Seat) -> Option<(u32, u32)> {
        let slot = self.venue.layout(row).tier_slot((seat - self.venue.base(row)) as usize)?;
        let at = *self.row_strips_at.get(row as usize)? as usize + slot;
        self.row_strips.get(at).copied()
    }

    /// Gives seats (in ascending order) to another owner and updates bits, counts and indexes. `from` and `to` are
    /// the states before and after; seats that become free are queued if somebody waits. O(seats log rows).
    pub(in crate::seat) fn hand_over(
        &mut self,
        seats: &[Seat],
        from: SeatState,
        to: SeatState,
        owner: Owner,
    ) {
        let owner = match owner {
            Owner::Free | Owner::Queued => FREE,
            Owner::Blocked => BLOCKED,
            Owner::Claim(claim) => claim,
        };
        self.waiters.note_changed(seats, to == SeatState::Free);
        let changes_free = (from == SeatState::Free) != (to == SeatState::Free);
        let mut rest = seats;
        while let Some(&seat) = rest.first() {
            let row = self.venue.row_of(seat);
            let (found, only_tier) = (self.strip_in_row(row, seat), self.positions_of_only_tier(row));
            let together = |&&next: &&Seat| match &only_tier {
                Some(row) => row.contains(&next),
                None => self.strip_of(next) == found,
            };
            let (group, later) = rest.split_at(rest.iter().take_while(together).count().max(1));
            rest = later;
            let owned = group.iter().all(|&seat| self.owners.set(seat, owner));
            let Some((bucket, strip)) =
                found.filter(|_| owned).expected("a seat that changes its owner is one of the show")
            else {
                continue;
            };
            self.bucket_mut(bucket).counts.move_seats(from, to, group.len() as u32);
            if changes_free {
                self.put_free(bucket, strip, group, to == SeatState::Free);
            }
        }
    }

    /// The positions of a row, if it has one tier, and so one strip.
    fn positions_of_only_tier(&self, row: Row) -> Option<Range<Seat>> {
        (self.venue.layout(row).tiers.len() == 1).then(|| self.venue.positions_of(row))
    }

    /// Changes the state of seats without changing the owner: a hold becomes a sale.
    pub(in crate::seat) fn recount(&mut self, seats: &[Seat], from: SeatState, to: SeatState) {
        for &seat in seats {
            match self.strip_of(seat) {
                Some((bucket, _)) => self.bucket_mut(bucket).counts.move_seats(from, to, 1),
                None => invariant!("a seat that is counted is one of the show"),
            }
        }
    }

    /// Sets or clears the bits of seats of a strip, and updates the indexes of the strip.
    fn put_free(&mut self, bucket: u32, place: u32, seats: &[Seat], free: bool) {
        let Some(strip) = self.strip(bucket, place) else { return };
        let (base, kept) = (self.venue.base(strip.row), self.seats_of(strip).kept);
        for &seat in seats {
            let at = kept.place((seat - base) as usize);
            let (Some(words), Some(at)) = (self.words.get_mut(strip.word as usize..), at) else {
                invariant!("a strip has its words");
                return;
            };
            if invariant!(
                bits::is_set(words, at) != free,
                "a seat that becomes free was taken, and the other way round"
            ) {
                bits::put(words, at, free);
            }
        }
        let mut views = std::mem::take(&mut self.bucket_mut(bucket).views);
        let layout = self.venue.layout(strip.row);
        for view in &mut views {
            let taken = |seat: &&Seat| view.kind.takes(layout.flags_at((**seat - base) as usize));
            let count = seats.iter().filter(taken).count() as u32;
            if free {
                view.free += count;
            } else {
                view.free -= count;
            }
            view.runs.set(place as usize, self.runs_of(strip, &self.takeable_words(strip, view.kind)));
        }
        self.bucket_mut(bucket).views = views;
    }

    /// The runs in the kept words of a strip.
    #[inline]
    pub(in crate::seat) fn runs_of(&self, strip: Strip, words: &[u64]) -> Runs {
        let kept = self.seats_of(strip).kept;
        // Most rows have one tier, or tiers side by side.
        if kept.is_without_gap() {
            return Runs::of_lengths(bits::runs(words).map(|(_, len)| len));
        }
        Runs::of_lengths(kept.runs(words))
    }

    /// A strip of a bucket, both of this show.
    pub(in crate::seat) fn strip(&self, bucket: u32, strip: u32) -> Option<Strip> {
        let found = self.bucket_at(bucket).strips.get(strip as usize).copied();
        invariant!(found.is_some(), "a strip belongs to its bucket");
        found
    }

    /// Bytes allocated by the whole value.
    pub fn allocated(&self) -> usize {
        let bucket = |bucket: &Bucket| {
            bucket.strips.len() * size_of::<Strip>()
                + bucket.views.capacity() * size_of::<View>()
                + bucket.views.iter().map(|view| view.runs.allocated()).sum::<usize>()
        };
        size_of::<Self>()
            + self.venue.allocated()
            + self.claims.allocated()
            + self.waiters.allocated()
            + self.ended_waits.allocated()
            + self.blocks.allocated()
            + self.outbox.allocated()
            + self.owners.allocated()
            + self.words.len() * size_of::<u64>()
            + self.buckets.capacity() * size_of::<Bucket>()
            + self.buckets.iter().map(bucket).sum::<usize>()
            + self.row_strips.len() * size_of::<(u32, u32)>()
            + self.row_strips_at.len() * size_of::<u32>()
            + self.all_buckets.len() * 2 * size_of::<u32>()
            + self.tier_buckets.len() * size_of::<Box<[u32]>>()
            + self.area_turns.len() * size_of::<u64>()
    }

    /// A rough number of allocations, which tells whether freeing is worth a background thread.
    pub fn free_effort(&self) -> usize {
        1 + self.buckets.len()
            + self.owners.len() / 4096
            + self.claims.holds()
            + self.waiters.len()
            + self.ended_waits.len()
            + self.blocks.len()
    }

    /// The largest number of positions a show has.
    pub const MAX_POSITIONS: usize = max::ALL_POSITIONS;
}

words! {
    /// The state of a seat.
    pub enum SeatState {
        /// For sale.
        Free => "free",
        /// Held.
        Held => "held",
        /// Sold.
        Sold => "sold",
        /// Blocked.
        Blocked => "blocked",
        /// Free for those who wait, as long as one of them may have it; counted and indexed as free.
        Queued => "queued",
    }
}

impl SeatState {
    /// The character of the state in `SEAT.MAP`.
    pub fn glyph(self) -> char {
        match self {
            Self::Free => '.',
            Self::Held => 'h',
            Self::Sold => 's',
            Self::Blocked => 'x',
            Self::Queued => 'q',
        }
    }
}

impl Counts {
    /// Seats in any state.
    pub fn all(self) -> u32 {
        self.free + self.held + self.sold + self.blocked
    }

    /// Counts seats that change their state.
    fn move_seats(&mut self, from: SeatState, to: SeatState, seats: u32) {
        let left = self.of(from).checked_sub(seats);
        invariant!(left.is_some(), "seats leave a count that has them");
        *self.of(from) = left.unwrap_or(0);
        *self.of(to) += seats;
    }

    fn of(&mut self, state: SeatState) -> &mut u32 {
        match state {
            SeatState::Free | SeatState::Queued => &mut self.free,
            SeatState::Held => &mut self.held,
            SeatState::Sold => &mut self.sold,
            SeatState::Blocked => &mut self.blocked,
        }
    }
}
