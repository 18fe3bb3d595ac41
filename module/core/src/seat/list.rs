//! `SEAT.LIST`: seats, holds and sales in parts, for clients that compare a show with another system.
//!
//! Seats are listed by their numbers, holds and sales by the numbers of their claims. These numbers are the same on every
//! replica. That of a claim does not change while the claim exists. That of a seat changes only when an `Altered` event
//! changes the rows, and then the cursors of earlier parts are refused. So a thing that exists during the whole listing
//! comes exactly once, whichever server replies to each call.

use super::claims::{Claim, Sale, Stage};
pub use super::decide::rules::block_called;
use super::outcome::HoldRecord;
use super::read::SeatRecord;
use super::state::{SeatState, Show};
use super::venue::{Area, Seat, Tier};
use crate::shared::refusal::{Code, Refusal};
use crate::shared::{Bytes, Millis};

/// A cursor of seats is the number of the next position, and above it so many bits of the venue's arrangement. Together
/// they are an integer that every client can read, also as a double.
const ARRANGEMENT_BITS: u32 = 20;

/// The most seats of the holds and sales in one part: about 5 ms of work.
const SEATS_AT_ONCE: usize = 10_000;

/// Which things are listed; `None` for all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// Seats in this state.
    pub state: Option<SeatState>,
    /// Seats of this tier, claims with one, or waiters who want it.
    pub tier: Option<Tier>,
    /// Seats of this area, claims with one, or waiters who want it.
    pub area: Option<Area>,
    /// Seats, claims and waits of this user.
    pub user: Option<&'a [u8]>,
    /// Seats of this block, also those held or sold from it, claims with one, or waiters who want it.
    pub block: Option<u32>,
}

/// A sale: the seats of one token that are sold and not refunded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleRecord {
    /// The order, if the sale was recorded under one.
    pub order: Option<Bytes>,
    /// Token, user and seats; `until` is 0.
    pub sale: HoldRecord,
}

impl Show {
    /// Seats from the cursor on, and the next cursor; 0 begins the list, and 0 ends it. Examines at most `count`
    /// positions. O(count); the first call after a change of rows O(rows + own ids).
    ///
    /// # Errors
    /// `BADSTATE` if the rows have changed since the cursor was given.
    pub fn list_seats(
        &self,
        filter: Filter<'_>,
        cursor: u64,
        count: u32,
        now: Millis,
    ) -> Result<(Vec<SeatRecord>, u64), Refusal> {
        let arrangement = u64::from(self.venue.arrangement() & ((1 << ARRANGEMENT_BITS) - 1));
        if cursor != 0 && cursor >> Seat::BITS != arrangement {
            let text =
                "the rows of the show have changed since this cursor was given; begin again with CURSOR 0";
            return Err(Refusal::new(Code::BadState, text));
        }
        let range = match filter.area {
            None => 0..self.venue.position_count(),
            Some(area) => self.venue.positions_in(area),
        };
        let from = (cursor as Seat).clamp(range.start, range.end);
        let to = from.saturating_add(count).min(range.end);
        let seats = (from..to).filter(|&seat| self.venue.is_seat(seat));
        let seats =
            seats.filter(|&seat| filter.tier.is_none_or(|tier| self.venue.tier_of(seat) == Some(tier)));
        let seats = seats.filter(|&seat| filter.block.is_none() || self.blocks.of(seat) == filter.block);
        let found = seats.map(|seat| self.seat_record(seat, now)).filter(|record| {
            filter.state.is_none_or(|state| record.state == state)
                && filter.user.is_none_or(|user| record.user.as_deref() == Some(user))
        });
        let next = if to == range.end { 0 } else { arrangement << Seat::BITS | u64::from(to) };
        Ok((found.collect(), next))
    }

    /// Live holds from the cursor on, and the next cursor, as `list_seats`.
    pub fn list_holds(
        &self,
        filter: Filter<'_>,
        cursor: u64,
        count: u32,
        now: Millis,
    ) -> (Vec<HoldRecord>, u64) {
        self.list_claims(filter, cursor, count, |stage, record| match stage {
            Stage::Held { until } if until > now => Some(HoldRecord { until, ..record }),
            Stage::Held { .. } | Stage::Sold(_) => None,
        })
    }

    /// Sales from the cursor on, and the next cursor, as `list_seats`.
    pub fn list_sales(&self, filter: Filter<'_>, cursor: u64, count: u32) -> (Vec<SaleRecord>, u64) {
        self.list_claims(filter, cursor, count, |stage, sale| match stage {
            Stage::Held { .. } => None,
            Stage::Sold(Sale { order, .. }) => Some(SaleRecord {
                order: order.map(|order| self.claims.order(order).reference.clone()),
                sale,
            }),
        })
    }

    /// Waiters from the cursor on, and the next cursor, as `list_seats`: of those who want seats of the filter's tier,
    /// area or block, only those who asked for it by name.
    pub fn list_waiters(&self, filter: Filter<'_>, cursor: u64, count: u32, now: Millis) -> (Vec<u32>, u64) {
        let end = self.waiters.table.slots();
        let from = u32::try_from(cursor).unwrap_or(u32::MAX).min(end);
        let to = from.saturating_add(count).min(end);
        let tier = filter.tier.map(|tier| self.venue.tier_name(tier).as_bytes());
        let block = filter.block.map(|block| self.blocks.get(block).and_then(|block| block.name.as_deref()));
        let passes = |id: &u32| {
            let Some(waiter) = self.waiters.table.get(*id) else { return false };
            let wish = &self.waiters.queue_of(waiter).wish;
            waiter.until > now
                && filter.user.is_none_or(|user| waiter.user[..] == *user)
                && tier.is_none_or(|tier| wish.tier.as_deref() == Some(tier))
                && filter.area.is_none_or(|area| wish.areas.contains(&area))
                && block.is_none_or(|block| block.is_some() && wish.from.as_deref() == block)
        };
        ((from..to).filter(passes).collect(), if to == end { 0 } else { to.into() })
    }

    /// Examines at most `count` numbers of claims, and stops earlier if the claims have many seats.
    fn list_claims<T>(
        &self,
        filter: Filter<'_>,
        cursor: u64,
        count: u32,
        record: impl Fn(Stage, HoldRecord) -> Option<T>,
    ) -> (Vec<T>, u64) {
        let end = self.claims.table.slots();
        let from = u32::try_from(cursor).unwrap_or(u32::MAX).min(end);
        let to = from.saturating_add(count).min(end);
        let (mut found, mut seats) = (Vec::new(), 0);
        for number in from..to {
            if seats >= SEATS_AT_ONCE {
                return (found, number.into());
            }
            let Some(claim) = self.claims.table.get(number).filter(|claim| self.passes(claim, filter)) else {
                continue;
            };
            let whole = self.hold_record(claim, 0);
            if let Some(record) = record(self.claims.stage(number), whole) {
                seats += claim.seats.len();
                found.push(record);
            }
        }
        (found, if to == end { 0 } else { to.into() })
    }

    fn passes(&self, claim: &Claim, filter: Filter<'_>) -> bool {
        let in_area = |&seat: &Seat| {
            filter.area.is_none_or(|area| self.venue.area_of(self.venue.row_of(seat)) == area)
                && filter.tier.is_none_or(|tier| self.venue.tier_of(seat) == Some(tier))
                && (filter.block.is_none() || self.blocks.of(seat) == filter.block)
        };
        let every_seat = filter.area.is_none() && filter.tier.is_none() && filter.block.is_none();
        filter.user.is_none_or(|user| self.claims.user(claim.user).name[..] == *user)
            && (every_seat || claim.seats.iter().any(in_area))
    }
}
