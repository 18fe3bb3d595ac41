//! Events of a show as entries of its stream `<key>:evt` (docs/seats.md).

use super::claims::Seats;
use super::event::Event;
use super::state::{Owner, Show};
use super::venue::Seat;
use crate::invariant;
use crate::shared::event::MachineEvent;
use crate::shared::outbox::Message;
use hashbrown::HashMap;

impl Show {
    /// An event as entries of the stream `<key>:evt`: event, hold, user and seats. A refund is one entry for each
    /// sale. Called before the event is applied.
    pub(super) fn messages(&self, event: &Event) -> Vec<Message> {
        let all = |token: &[u8]| self.claims.find(token).map_or(&[][..], |id| &self.claims.get(id).seats);
        match event {
            Event::Created { .. } | Event::Altered { .. } | Event::Arranged { .. } => {
                vec![self.entry(event, None, &[])]
            }
            Event::Held(held) | Event::Offered { held, .. } => {
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
            Event::Added { token, seats, .. } | Event::Released { token, seats } => {
                vec![self.entry(event, Some(token), seats)]
            }
            Event::Expired { token } => vec![self.entry(event, Some(token), all(token))],
            Event::Refunded { seats } => {
                let entry = |(id, seats): (u32, Vec<Seat>)| {
                    self.entry(event, Some(&self.claims.get(id).token), &seats)
                };
                self.by_sale(seats).into_iter().map(entry).collect()
            }
            Event::Moved { from, to } => {
                let places: HashMap<Seat, Seat> = from.iter().copied().zip(to.iter().copied()).collect();
                let entry = |(id, old): (u32, Vec<Seat>)| {
                    let new: Vec<Seat> = old.iter().filter_map(|seat| places.get(seat).copied()).collect();
                    let entry = self.entry(event, Some(&self.claims.get(id).token), &new);
                    entry.with("from", self.ids(&old).as_bytes())
                };
                self.by_sale(from).into_iter().map(entry).collect()
            }
            Event::Transferred { token, user, order, seats } => {
                let entry = |(id, seats): (u32, Vec<Seat>)| {
                    let entry = self.entry(event, Some(&self.claims.get(id).token), &seats);
                    let entry = entry.with("new-token", token).with("new-user", user);
                    entry.with_some("new-order", order.as_deref())
                };
                self.by_sale(seats).into_iter().map(entry).collect()
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
            Event::Blocked { name, until, per_user, seats } => {
                let entry = self.entry(event, None, seats).with_some("block", name.as_deref());
                let (until, most) =
                    (until.map(|until| until.to_string()), per_user.map(|most| most.to_string()));
                let entry = entry.with_some("until", until.as_deref().map(str::as_bytes));
                vec![entry.with_some("per_user", most.as_deref().map(str::as_bytes))]
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
            Event::Passed | Event::Flushed { .. } => vec![],
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
            if let Some(order) = claim.sale.and_then(|sale| sale.order) {
                entry = entry.with("order", &self.claims.order(order).reference);
            }
        }
        let ids = (!seats.is_empty()).then(|| self.ids(seats));
        entry.with_some("seats", ids.as_deref().map(str::as_bytes))
    }

    /// Sold seats by their sales, in the order of the first seat of each sale.
    fn by_sale(&self, seats: &[Seat]) -> Vec<(u32, Vec<Seat>)> {
        let mut sales: Vec<(u32, Vec<Seat>)> = Vec::new();
        let mut places: HashMap<u32, usize> = HashMap::new();
        for &seat in seats {
            let Owner::Claim(id) = self.owner(seat) else {
                invariant!("a seat that leaves a sale is sold");
                continue;
            };
            let place = *places.entry(id).or_insert(sales.len());
            match sales.get_mut(place) {
                Some((_, seats)) => seats.push(seat),
                None => sales.push((id, vec![seat])),
            }
        }
        sales
    }

    /// Ids of seats as a JSON list: ids are free text, so no separator would do.
    fn ids(&self, seats: &[Seat]) -> String {
        let ids: Vec<String> = seats.iter().map(|&seat| self.venue.id(seat)).collect();
        let json = serde_json::to_string(&ids);
        invariant!(json.is_ok(), "a list of texts can be written as JSON");
        json.unwrap_or_default()
    }
}
