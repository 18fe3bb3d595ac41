//! Queries of a show: seats, holds, orders, totals, maps; and events as messages.

use super::claims::{Claim, Seats, Stage};
use super::event::Event;
use super::kind::Kind;
use super::outcome::HoldRecord;
use super::state::{Bucket, Owner, SeatState, Show};
use super::venue::{Area, Row, Seat};
use crate::invariant;
use crate::shared::event::MachineEvent;
use crate::shared::outbox::Message;
use crate::shared::{Bytes, Millis};
use hashbrown::HashMap;

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
        match claim.stage {
            Stage::Held { until } if until <= now => {
                record.state = left;
                return record;
            }
            Stage::Held { until } => record.until = Some(until),
            Stage::Sold { order, .. } => {
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

    /// The live holds of a user at `now`, the earliest deadline first.
    pub fn holds_of(&self, user: &[u8], now: Millis) -> Vec<HoldRecord> {
        let Some(info) = self.claims.user_called(user) else { return Vec::new() };
        let mut holds: Vec<HoldRecord> = self
            .claims
            .holds_of(info)
            .iter()
            .filter_map(|&id| {
                let claim = self.claims.get(id);
                let Stage::Held { until } = claim.stage else {
                    invariant!("a claim in a user's list of holds is a hold");
                    return None;
                };
                (until > now).then(|| self.hold_record(claim, until))
            })
            .collect();
        holds.sort_unstable_by(|a, b| (a.until, &a.token).cmp(&(b.until, &b.token)));
        holds
    }

    /// The seats of an order, in ascending order; `None` for an unknown order, and for one of more than `most` seats.
    /// O(seats log seats), and at most O(most log most).
    pub fn order_seats(&self, reference: &[u8], most: usize) -> Option<Seats> {
        let claims = self.claims.claims_of(self.claims.order_called(reference)?);
        let seats_of = |&id: &u32| &self.claims.get(id).seats;
        // A claim has one seat at least, so an order of more claims is not even counted.
        if claims.len() > most || claims.iter().map(|id| seats_of(id).len()).sum::<usize>() > most {
            return None;
        }
        let mut seats: Seats = claims.iter().flat_map(|id| seats_of(id).iter().copied()).collect();
        seats.sort_unstable();
        Some(seats)
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

    /// An event as entries of the stream `<key>:evt`: event, hold, user and seats. A refund is one entry for each
    /// sale. Called before the event is applied.
    pub(super) fn messages(&self, event: &Event) -> Vec<Message> {
        let all = |token: &[u8]| self.claims.find(token).map_or(&[][..], |id| &self.claims.get(id).seats);
        match event {
            Event::Created { .. } | Event::Altered { .. } | Event::Arranged { .. } => {
                vec![self.entry(event, None, &[])]
            }
            Event::Held(held) | Event::Offered(held) => {
                let entry = self.entry(event, None, &[]).with("token", &held.token).with("user", &held.user);
                let entry = entry.with("seats", self.ids(&held.seats).as_bytes());
                let entry = entry.with("until", held.until.to_string().as_bytes());
                vec![entry.with_some("replaced", held.replaced.as_deref())]
            }
            Event::Extended { token, until } => {
                vec![self.entry(event, Some(token), all(token)).with("until", until.to_string().as_bytes())]
            }
            Event::Confirmed { token, order } => {
                vec![self.entry(event, Some(token), all(token)).with_some("order", order.as_deref())]
            }
            Event::Released { token, seats } => vec![self.entry(event, Some(token), seats)],
            Event::Expired { token } => vec![self.entry(event, Some(token), all(token))],
            Event::Refunded { seats } => {
                // In the order of the first seat of each sale.
                let mut sales: Vec<(u32, Vec<Seat>)> = Vec::new();
                let mut places: HashMap<u32, usize> = HashMap::new();
                for &seat in seats {
                    let Owner::Claim(id) = self.owner(seat) else {
                        invariant!("a seat that is refunded is sold");
                        continue;
                    };
                    let place = *places.entry(id).or_insert(sales.len());
                    match sales.get_mut(place) {
                        Some((_, seats)) => seats.push(seat),
                        None => sales.push((id, vec![seat])),
                    }
                }
                let entry = |(id, seats): &(u32, Vec<Seat>)| {
                    self.entry(event, Some(&self.claims.get(*id).token), seats)
                };
                sales.iter().map(entry).collect()
            }
            Event::Waited(waited) => {
                let entry = self.entry(event, None, &[]).with("token", &waited.token);
                let entry = entry.with("user", &waited.user);
                vec![entry.with("until", waited.until.to_string().as_bytes())]
            }
            Event::Unwaited { token, expired } => {
                let user = self.waiters.find(token).map(|id| &self.waiters.get(id).user[..]);
                let reason: &[u8] = if *expired { b"expired" } else { b"left" };
                let entry = self.entry(event, None, &[]).with("token", token);
                vec![entry.with_some("user", user).with("reason", reason)]
            }
            Event::Blocked { name, until, seats } => {
                let entry = self.entry(event, None, seats).with_some("block", name.as_deref());
                let until = until.map(|until| until.to_string());
                vec![entry.with_some("until", until.as_deref().map(str::as_bytes))]
            }
            Event::Unblocked { seats } => vec![self.entry(event, None, seats)],
            Event::BlockEnded { name, until, expired } => {
                let block = self.blocks.find(name.as_deref(), *until);
                let seats = block.map_or_else(Seats::new, |id| self.blocked_seats(id));
                let reason: &[u8] = if *expired { b"expired" } else { b"ended" };
                let entry = self.entry(event, None, &seats).with_some("block", name.as_deref());
                vec![entry.with("reason", reason)]
            }
            // Written messages are not published themselves.
            Event::Flushed { .. } => vec![],
        }
    }

    /// The entry of an event, with the hold or sale of that token and those seats.
    fn entry(&self, event: &Event, token: Option<&[u8]>, seats: &[Seat]) -> Message {
        let mut entry = Message::new("evt").with("event", event.name().as_bytes());
        let claim = token.and_then(|token| self.claims.find(token)).map(|id| self.claims.get(id));
        invariant!(
            token.is_none() || claim.is_some(),
            "an event of a hold or sale names a claim that is there"
        );
        if let Some(claim) = claim {
            entry = entry.with("token", &claim.token).with("user", &self.claims.user(claim.user).name);
            if let Stage::Sold { order: Some(order), .. } = claim.stage {
                entry = entry.with("order", &self.claims.order(order).reference);
            }
        }
        let ids = (!seats.is_empty()).then(|| self.ids(seats));
        entry.with_some("seats", ids.as_deref().map(str::as_bytes))
    }

    /// Ids of seats as a JSON list: ids are free text, so no separator would do.
    fn ids(&self, seats: &[Seat]) -> String {
        let ids: Vec<String> = seats.iter().map(|&seat| self.venue.id(seat)).collect();
        let json = serde_json::to_string(&ids);
        invariant!(json.is_ok(), "a list of texts can be written as JSON");
        json.unwrap_or_default()
    }
}
