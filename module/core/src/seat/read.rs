//! What can be seen of a show: seats, holds, orders, totals, maps, and events as messages.

use super::claims::{Seats, Stage};
use super::decide::HoldRecord;
use super::event::Event;
use super::state::{Bucket, Owner, Show, Standing};
use super::venue::{Area, Row, Seat};
use crate::invariant;
use crate::shared::event::MachineEvent;
use crate::shared::outbox::Message;
use crate::shared::{Bytes, Millis};

/// A seat as `SEAT.GET` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatRecord {
    /// Its number.
    pub seat: Seat,
    /// Where it stands.
    pub standing: Standing,
    /// Token of its hold or sale.
    pub token: Option<Bytes>,
    /// Whose it is.
    pub user: Option<Bytes>,
    /// Deadline of its hold.
    pub until: Option<Millis>,
    /// Order it was sold under.
    pub order: Option<Bytes>,
}

impl Show {
    /// A seat as it is at `now`: a hold that is due is over, whether that was applied or not.
    pub fn seat_record(&self, seat: Seat, now: Millis) -> SeatRecord {
        let mut record = SeatRecord {
            seat,
            standing: self.standing(seat),
            token: None,
            user: None,
            until: None,
            order: None,
        };
        let Owner::Claim(id) = self.owner(seat) else { return record };
        let claim = self.claims.get(id);
        match claim.stage {
            Stage::Held { until } if until <= now => {
                record.standing = Standing::Free;
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

    /// The holds of a user that live at `now`, the earliest deadline first.
    pub fn holds_of(&self, user: &[u8], now: Millis) -> Vec<HoldRecord> {
        let Some(info) = self.claims.user_called(user) else { return Vec::new() };
        let mut holds: Vec<HoldRecord> = self
            .claims
            .holds_of(info)
            .iter()
            .filter_map(|&id| {
                let claim = self.claims.get(id);
                let Stage::Held { until } = claim.stage else {
                    invariant!("what is listed with a user's holds is held");
                    return None;
                };
                let (token, user) = (claim.token.clone(), Bytes::from_slice(user));
                (until > now).then(|| HoldRecord { token, user, seats: claim.seats.clone(), until })
            })
            .collect();
        holds.sort_unstable_by(|a, b| (a.until, &a.token).cmp(&(b.until, &b.token)));
        holds
    }

    /// The seats of an order, rising; `None` where there is no such order.
    pub fn order_seats(&self, reference: &[u8]) -> Option<Seats> {
        let order = self.claims.order_called(reference)?;
        let claims = self.claims.claims_of(order).iter();
        let mut seats: Seats = claims.flat_map(|&id| self.claims.get(id).seats.iter().copied()).collect();
        seats.sort_unstable();
        Some(seats)
    }

    /// How many groups of adjacent seats these (rising) are, and in how many areas.
    pub fn groups_and_areas(&self, seats: &[Seat]) -> (usize, usize) {
        let (mut groups, mut areas) = (0, 0);
        let mut last: Option<(Seat, Row, Area)> = None;
        for &seat in seats {
            let row = self.venue.row_of(seat);
            let area = self.venue.area_of(row);
            if last.is_none_or(|(before, last_row, _)| before + 1 != seat || last_row != row) {
                groups += 1;
            }
            if last.is_none_or(|(.., last_area)| last_area != area) {
                areas += 1;
            }
            last = Some((seat, row, area));
        }
        (groups, areas)
    }

    /// The longest run of adjacent free seats of a bucket, whatever their flags.
    pub fn longest_run(&self, bucket: &Bucket) -> u16 {
        let view = bucket.view(bucket.flags);
        invariant!(view.is_some(), "a bucket has an index for all of its flags");
        view.map_or(0, |view| view.runs.all().longest)
    }

    /// Appends a row of the map: a character a position.
    pub fn write_map_row(&self, row: Row, out: &mut String) {
        let (layout, base) = (self.venue.layout(row), self.venue.base(row));
        out.extend((0..layout.len).map(|position| match layout.tier_slot(usize::from(position)) {
            Some(_) => self.standing(base + Seat::from(position)).glyph(),
            None => ' ',
        }));
    }

    /// An event as entries of the stream `<key>:evt`: what happened, to which hold, whose, which seats. A refund is
    /// one entry for each sale that it takes seats of. Called before the event is applied.
    pub(super) fn messages(&self, event: &Event) -> Vec<Message> {
        let all = |token: &[u8]| self.claims.find(token).map_or(&[][..], |id| &self.claims.get(id).seats);
        match event {
            // That something was said need not be said.
            Event::Flushed { .. } => vec![],
            Event::Created { .. } | Event::Altered { .. } | Event::Limited { .. } => {
                vec![self.entry(event, None, &[])]
            }
            Event::Held(held) => {
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
                let mut sales: Vec<(u32, Vec<Seat>)> = Vec::new();
                for &seat in seats {
                    let Owner::Claim(id) = self.owner(seat) else {
                        invariant!("a seat that is refunded is sold");
                        continue;
                    };
                    match sales.iter_mut().find(|(sale, _)| *sale == id) {
                        Some((_, seats)) => seats.push(seat),
                        None => sales.push((id, vec![seat])),
                    }
                }
                let entry = |(id, seats): &(u32, Vec<Seat>)| {
                    self.entry(event, Some(&self.claims.get(*id).token), seats)
                };
                sales.iter().map(entry).collect()
            }
            Event::Blocked { seats } | Event::Unblocked { seats } => vec![self.entry(event, None, seats)],
        }
    }

    /// The entry of an event, with the hold or sale of that token and those seats.
    fn entry(&self, event: &Event, token: Option<&[u8]>, seats: &[Seat]) -> Message {
        let mut entry = Message::new("evt").with("event", event.name().as_bytes());
        let claim = token.and_then(|token| self.claims.find(token)).map(|id| self.claims.get(id));
        invariant!(token.is_none() || claim.is_some(), "an event names a claim that is there");
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
