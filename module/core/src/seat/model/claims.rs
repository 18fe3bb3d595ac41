//! Holds and sales by token, with their users, orders and deadlines.

#![allow(
    clippy::indexing_slicing,
    reason = "numbers of claims, users and orders come from the tables themselves"
)]

use super::venue::Seat;
use crate::invariant;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Expected;
use crate::shared::list::{List, NONE, links_in_table};
use crate::shared::names::NameIndex;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis, spilled};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most seats of one hold.
pub const MAX_COUNT: i64 = 500;

/// The most requests with `ONCE` that a hold remembers; of more, it forgets the first.
pub const MAX_ADDED: usize = 16;

/// Seats of a claim, by number; four fit without an allocation.
pub type Seats = SmallVec<[Seat; 4]>;

/// The seats of one token: held until a deadline, or sold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Token, by which the holder names the claim.
    pub token: Bytes,
    /// Number of the user.
    pub user: u32,
    /// When the claim was made; of a hold that replaced another, when the first of them was made.
    pub created: Millis,
    /// Hash of the request, by which a retry is recognised; 0 if the caller chose no token.
    pub fingerprint: u64,
    /// Of a claim that is sold.
    pub sale: Option<Sale>,
    /// Seats, in ascending order; never empty.
    pub seats: Seats,
    /// In the user's list of holds, or in the order's list of claims.
    pub(in crate::seat) links: [u32; 2],
}

links_in_table!(Claim);

/// The stage of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Held until a deadline.
    Held {
        /// The deadline.
        until: Millis,
    },
    /// Bought.
    Sold(Sale),
}

/// What a claim has after it was sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sale {
    /// Number of the order, if there is one.
    pub order: Option<u32>,
    /// How many seats were bought, including those refunded since.
    pub bought: u32,
}

/// A user with at least one claim.
#[derive(Clone, Debug)]
pub struct User {
    /// As the caller gives it.
    pub name: Bytes,
    /// Seats held and sold.
    pub seats: u32,
    /// Claims, held and sold.
    pub(in crate::seat) claims: u32,
    /// Live holds.
    pub(in crate::seat) holds: List,
}

/// An order with at least one claim.
#[derive(Clone, Debug)]
pub struct Order {
    /// As the caller gives it.
    pub reference: Bytes,
    /// Claims.
    pub(in crate::seat) claims: List,
}

/// All claims of a show.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The claims by their numbers, which are part of the state: they are the same on every replica and after a restart.
    pub(in crate::seat) table: Table<Claim>,
    pub(in crate::seat) users: Table<User>,
    pub(in crate::seat) orders: Table<Order>,
    pub(in crate::seat) by_token: NameIndex,
    pub(in crate::seat) by_user: NameIndex,
    pub(in crate::seat) by_order: NameIndex,
    pub(in crate::seat) deadlines: Deadlines,
    /// Hashes of the requests that added seats once, by hold, the oldest first.
    pub(in crate::seat) added: BTreeMap<u32, VecDeque<u64>>,
    /// Holds that are sold in exchange for seats that their users have bought.
    pub(in crate::seat) exchanges: BTreeSet<u32>,
}

impl Claims {
    /// The claim of that token.
    pub fn find(&self, token: &[u8]) -> Option<u32> {
        self.by_token.find(token, |id| &self.table[id].token[..] == token)
    }

    /// The claim of that number, which must exist.
    pub fn get(&self, id: u32) -> &Claim {
        &self.table[id]
    }

    /// Whether a claim is held, and until when, or sold. O(1).
    pub fn stage(&self, id: u32) -> Stage {
        match self.table[id].sale {
            Some(sale) => Stage::Sold(sale),
            None => {
                Stage::Held { until: self.deadlines.get(id).expected("a hold has a deadline").unwrap_or(0) }
            }
        }
    }

    /// The live holds of a user.
    pub fn holds_of(&self, user: u32) -> impl Iterator<Item = u32> + Clone + '_ {
        self.users[user].holds.iter(&self.table)
    }

    /// How many live holds a user has.
    pub fn hold_count(&self, user: u32) -> u32 {
        self.users[user].holds.len()
    }

    /// The claims of an order.
    pub fn claims_of(&self, order: u32) -> impl Iterator<Item = u32> + Clone + '_ {
        self.orders[order].claims.iter(&self.table)
    }

    /// The user of that name, if the user has a claim.
    pub fn user_called(&self, name: &[u8]) -> Option<u32> {
        self.by_user.find(name, |id| &self.users[id].name[..] == name)
    }

    /// The user of that number.
    pub fn user(&self, id: u32) -> &User {
        &self.users[id]
    }

    /// The order of that reference, if the order has a claim.
    pub fn order_called(&self, reference: &[u8]) -> Option<u32> {
        self.by_order.find(reference, |id| &self.orders[id].reference[..] == reference)
    }

    /// The order of that number.
    pub fn order(&self, id: u32) -> &Order {
        &self.orders[id]
    }

    /// Number of live holds.
    pub fn holds(&self) -> usize {
        self.deadlines.len()
    }

    /// The earliest deadline of a hold.
    pub fn earliest(&self) -> Option<Millis> {
        self.deadlines.earliest()
    }

    /// Adds a hold of these seats (rising, not empty) under a token that is not in use.
    pub fn hold(
        &mut self,
        token: Bytes,
        user: &[u8],
        created: Millis,
        until: Millis,
        fingerprint: u64,
        seats: Seats,
    ) -> u32 {
        let user = self.user_or_new(user);
        let count = seats.len() as u32;
        let id = self.table.insert(Claim {
            token,
            user,
            created,
            fingerprint,
            sale: None,
            seats,
            links: [NONE; 2],
        });
        self.by_token.insert(&self.table[id].token, id);
        self.deadlines.set(id, until);
        let info = &mut self.users[user];
        info.seats += count;
        info.claims += 1;
        info.holds.join(&mut self.table, id);
        id
    }

    /// Adds seats, of which a hold has none. A request whose hash is not 0 is remembered.
    pub fn add_seats(&mut self, id: u32, seats: &[Seat], fingerprint: u64) {
        let claim = &mut self.table[id];
        claim.seats.extend_from_slice(seats);
        claim.seats.sort_unstable();
        self.users[claim.user].seats += seats.len() as u32;
        if fingerprint != 0 {
            let added = self.added.entry(id).or_default();
            added.push_back(fingerprint);
            if added.len() > MAX_ADDED {
                added.pop_front();
            }
        }
    }

    /// Gives a claim other seats in the place of some of its own, as pairs of an old and a new one.
    pub fn replace_seats(&mut self, id: u32, pairs: impl Iterator<Item = (Seat, Seat)>) {
        let (old, new): (Seats, Seats) = pairs.unzip();
        let claim = &mut self.table[id];
        let before = claim.seats.len();
        claim.seats.retain(|seat| !old.contains(seat));
        invariant!(claim.seats.len() + old.len() == before, "a seat that is replaced is in its claim");
        claim.seats.extend_from_slice(&new);
        claim.seats.sort_unstable();
    }

    /// Hashes of the requests that added seats to a hold once, the oldest first.
    pub fn added(&self, id: u32) -> VecDeque<u64> {
        self.added.get(&id).cloned().unwrap_or_default()
    }

    /// Changes the deadline of a hold.
    pub fn extend(&mut self, id: u32, until: Millis) {
        self.deadlines.set(id, until);
    }

    /// A hold becomes a sale. It has, or had, `bought` seats.
    pub fn sell(&mut self, id: u32, order: Option<&[u8]>, bought: u32) {
        invariant!(self.table[id].sale.is_none(), "a claim that is sold was held");
        self.forget_hold(id);
        let order = order.map(|reference| self.order_or_new(reference));
        self.table[id].sale = Some(Sale { order, bought });
        if let Some(order) = order {
            self.orders[order].claims.join(&mut self.table, id);
        }
    }

    /// Removes a seat from its claim, and the claim with its last seat.
    pub fn drop_seat(&mut self, id: u32, seat: Seat) {
        let claim = &mut self.table[id];
        let before = claim.seats.len();
        claim.seats.retain(|one| *one != seat);
        if !invariant!(claim.seats.len() + 1 == before, "a seat that is taken out of a claim is in it") {
            return;
        }
        let (user, empty) = (claim.user, claim.seats.is_empty());
        self.users[user].seats -= 1;
        if empty {
            self.forget(id);
        }
    }

    /// Removes a claim, and returns its seats.
    pub fn remove(&mut self, id: u32) -> Seats {
        let claim = &mut self.table[id];
        let seats = std::mem::take(&mut claim.seats);
        let user = claim.user;
        self.users[user].seats -= seats.len() as u32;
        self.forget(id);
        seats
    }

    /// Gives the seats of all claims their new numbers. No seat of a claim is gone. O(seats of claims).
    pub(in crate::seat) fn move_seats(&mut self, to: impl Fn(Seat) -> Option<Seat>) {
        for id in 0..self.table.slots() {
            let Some(claim) = self.table.get_mut(id) else { continue };
            for seat in &mut claim.seats {
                match to(*seat) {
                    Some(place) => *seat = place,
                    None => invariant!("a seat that is held or sold is in the new plan"),
                }
            }
            claim.seats.sort_unstable();
        }
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        // An entry of a B-tree whose nodes are two thirds full.
        const ADDED: usize = (size_of::<u32>() + size_of::<VecDeque<u64>>()) * 3 / 2;
        self.table.allocated()
            + self.users.allocated()
            + self.orders.allocated()
            + self
                .table
                .iter()
                .map(|(_, claim)| claim.token.allocated() + spilled(&claim.seats))
                .sum::<usize>()
            + self.users.iter().map(|(_, user)| user.name.allocated()).sum::<usize>()
            + self.orders.iter().map(|(_, order)| order.reference.allocated()).sum::<usize>()
            + self.by_token.allocated()
            + self.by_user.allocated()
            + self.by_order.allocated()
            + self.deadlines.allocated()
            + self.added.values().map(|added| ADDED + added.capacity() * size_of::<u64>()).sum::<usize>()
            + self.exchanges.len() * size_of::<u32>() * 3 / 2
    }

    fn user_or_new(&mut self, name: &[u8]) -> u32 {
        if let Some(user) = self.user_called(name) {
            return user;
        }
        let id = self.users.insert(User {
            name: Bytes::from_slice(name),
            seats: 0,
            claims: 0,
            holds: List::default(),
        });
        self.by_user.insert(name, id);
        id
    }

    fn order_or_new(&mut self, reference: &[u8]) -> u32 {
        if let Some(order) = self.order_called(reference) {
            return order;
        }
        let id =
            self.orders.insert(Order { reference: Bytes::from_slice(reference), claims: List::default() });
        self.by_order.insert(reference, id);
        id
    }

    /// Forgets what only a hold has, and removes it from the list of its user.
    fn forget_hold(&mut self, id: u32) {
        self.deadlines.remove(id);
        self.added.remove(&id);
        self.exchanges.remove(&id);
        let user = self.table[id].user;
        self.users[user].holds.leave(&mut self.table, id);
    }

    /// Removes a claim without seats from all indexes.
    fn forget(&mut self, id: u32) {
        match self.table[id].sale {
            None => self.forget_hold(id),
            Some(Sale { order: Some(order), .. }) => self.leave_order(id, order),
            Some(Sale { order: None, .. }) => {}
        }
        let Some(claim) = self.table.remove(id).expected("a claim that is removed was in the table") else {
            return;
        };
        self.by_token.remove(&claim.token, id);
        let user = &mut self.users[claim.user];
        user.claims -= 1;
        if user.claims == 0 {
            invariant!(user.seats == 0, "a user without claims has no seats");
            self.by_user.remove(&user.name, claim.user);
            self.users.remove(claim.user);
        }
    }

    /// Removes a sale from its order, and the order with its last claim.
    fn leave_order(&mut self, id: u32, order: u32) {
        self.orders[order].claims.leave(&mut self.table, id);
        if self.orders[order].claims.is_empty() {
            self.by_order.remove(&self.orders[order].reference, order);
            self.orders.remove(order);
        }
    }
}
