//! Queries of a show: seats, holds, orders, totals, maps.

use super::claims::{Claim, Sale, Seats, Stage};
use super::kind::Kind;
use super::outcome::{HoldRecord, WaitRecord};
use super::state::{Bucket, Owner, SeatState, Show};
use super::venue::{Area, Row, Seat};
use crate::invariant;
use crate::shared::{Bytes, Millis};

/// A seat as `SEAT.GET` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatRecord {
    /// Its number.
    pub seat: Seat,
    /// State of the seat.
    pub state: SeatState,
    /// Token of the hold or sale.
    pub token: Option<Bytes>,
    /// User of the hold or sale.
    pub user: Option<Bytes>,
    /// Deadline of the hold.
    pub until: Option<Millis>,
    /// Order of the sale.
    pub order: Option<Bytes>,
    /// Name of the block to which the seat belongs, also while it is held or sold from the block.
    pub block: Option<Bytes>,
}

impl Show {
    /// A seat as it is at `now`: a hold whose deadline has passed has ended, whether or not that was applied.
    pub fn seat_record(&self, seat: Seat, now: Millis) -> SeatRecord {
        let block = self.block_at(seat, now);
        // The state of a seat that nobody holds.
        let left = if block.is_some() { SeatState::Blocked } else { SeatState::Free };
        let mut record = SeatRecord {
            seat,
            state: self.state(seat),
            token: None,
            user: None,
            until: None,
            order: None,
            block: block.and_then(|block| block.name.clone()),
        };
        let Owner::Claim(id) = self.owner(seat) else {
            if self.blocks.of(seat).is_some() {
                record.state = left;
            }
            return record;
        };
        let claim = self.claims.get(id);
        match self.claims.stage(id) {
            Stage::Held { until } if until <= now => {
                record.state = left;
                return record;
            }
            Stage::Held { until } => record.until = Some(until),
            Stage::Sold(Sale { order, .. }) => {
                record.order = order.map(|order| self.claims.order(order).reference.clone());
            }
        }
        record.token = Some(claim.token.clone());
        record.user = Some(self.claims.user(claim.user).name.clone());
        record
    }

    /// The record of a hold, or of a sale without a deadline.
    pub(super) fn hold_record(&self, claim: &Claim, until: Millis) -> HoldRecord {
        let user = self.claims.user(claim.user).name.clone();
        HoldRecord { token: claim.token.clone(), user, seats: claim.seats.clone(), until }
    }

    /// The record of the wait under this token at `now`: a user who waits, or seats that are held.
    pub fn waiting(&self, token: &[u8], now: Millis) -> Option<WaitRecord> {
        if let Some(id) = self.waiters.find(token) {
            return Some(id).filter(|&id| self.waiters.get(id).until > now).map(|id| self.wait_record(id));
        }
        let id = self.claims.find(token)?;
        let Stage::Held { until } = self.claims.stage(id) else { return None };
        let claim = self.claims.get(id);
        let HoldRecord { token, user, seats, until } = self.hold_record(claim, until);
        let (count, since) = (seats.len() as u32, claim.created);
        (until > now).then_some(WaitRecord { token, user, count, offered: true, position: 0, since, until })
    }

    /// The live holds of a user at `now`, the earliest deadline first.
    pub fn holds_of(&self, user: &[u8], now: Millis) -> Vec<HoldRecord> {
        let Some(user) = self.claims.user_called(user) else { return Vec::new() };
        let live = |id| match self.claims.stage(id) {
            Stage::Held { until } if until > now => Some(self.hold_record(self.claims.get(id), until)),
            Stage::Held { .. } | Stage::Sold(_) => None,
        };
        let mut holds: Vec<HoldRecord> = self.claims.holds_of(user).filter_map(live).collect();
        holds.sort_unstable_by(|a, b| (a.until, &a.token).cmp(&(b.until, &b.token)));
        holds
    }

    /// The seats of an order, in ascending order; `None` for an unknown order, and for one of more than `most` seats.
    /// O(seats log seats), and at most O(most log most).
    pub fn order_seats(&self, reference: &[u8], most: usize) -> Option<Seats> {
        let claims = self.claims.claims_of(self.claims.order_called(reference)?);
        let seats = claims.flat_map(|id| self.claims.get(id).seats.iter().copied());
        let mut seats: Seats = seats.take(most.saturating_add(1)).collect();
        seats.sort_unstable();
        (seats.len() <= most).then_some(seats)
    }

    /// The number of groups of adjacent seats, and of areas, of these seats (in ascending order).
    pub fn groups_and_areas(&self, seats: &[Seat]) -> (usize, usize) {
        let (mut groups, mut areas) = (0, 0);
        let mut last: Option<(Seat, Row, Area)> = None;
        for &seat in seats {
            let row = self.venue.row_of(seat);
            let area = self.venue.area_of(row);
            // The places of a standing area are one group.
            let same_group = |(before, last_row, last_area): (Seat, Row, Area)| {
                before + 1 == seat && last_row == row || last_area == area && self.venue.is_standing(row)
            };
            if !last.is_some_and(same_group) {
                groups += 1;
            }
            if last.is_none_or(|(.., last_area)| last_area != area) {
                areas += 1;
            }
            last = Some((seat, row, area));
        }
        (groups, areas)
    }

    /// The free seats that these (in ascending order) leave alone: each is next to one of them, and has no neighbour that
    /// is free, of its tier and, like itself, without flags. O(seats).
    pub fn orphans(&self, seats: &[Seat]) -> Seats {
        let mut orphans = Seats::new();
        for &seat in seats {
            let row = self.venue.positions_of(self.venue.row_of(seat));
            if self.venue.is_standing(self.venue.row_of(seat)) {
                continue;
            }
            let tier = |seat: Option<Seat>| {
                let seat = seat.filter(|seat| row.contains(seat) && self.is_available(*seat, None))?;
                self.venue.tier_of(seat).filter(|_| self.venue.flags_of(seat) == 0)
            };
            for beside in [seat.checked_sub(1), seat.checked_add(1)].into_iter().flatten() {
                let own = tier(Some(beside));
                let neighbours = [beside.checked_sub(1), beside.checked_add(1)];
                let alone = own.is_some() && neighbours.into_iter().all(|other| tier(other) != own);
                if alone && orphans.last() != Some(&beside) {
                    orphans.push(beside);
                }
            }
        }
        orphans
    }

    /// The id of the area of these seats (in ascending order), if they are all in one.
    pub fn only_area(&self, seats: &[Seat]) -> Option<&str> {
        let area_of = |seat: &Seat| self.venue.area_of(self.venue.row_of(*seat));
        let (first, last) = (area_of(seats.first()?), area_of(seats.last()?));
        (first == last).then(|| &*self.venue.area(first).id)
    }

    /// The longest run of adjacent free seats of a bucket, with any flags; all free places of a standing area.
    pub fn longest_run(&self, bucket: &Bucket) -> u32 {
        if self.venue.area(bucket.area).standing {
            return bucket.counts.free;
        }
        let view = bucket.view(Kind::with(bucket.flags));
        invariant!(view.is_some(), "a bucket has an index for all of its flags");
        view.map_or(0, |view| view.runs.all().longest.into())
    }

    /// Appends a row of the map: one character for each position.
    pub fn write_map_row(&self, row: Row, out: &mut String) {
        let (layout, base) = (self.venue.layout(row), self.venue.base(row));
        out.extend((0..layout.len).map(|position| match layout.tier_slot(usize::from(position)) {
            Some(_) => self.state(base + Seat::from(position)).glyph(),
            None => ' ',
        }));
    }
}
