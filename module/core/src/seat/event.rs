//! Events of a show: their definition, their admission on a replica, and what they change. Only events change a
//! show; they are replicated, written to the AOF, published and replayed.
//!
//! Applying an event cannot fail, because `decide` made the event for this state, or `admits` has checked it.

use super::blocks::MAX_BLOCK_SEATS;
use super::claims::{MAX_COUNT, Seats};
use super::moves::Moves;
use super::plan::{self, Limits, Plan, Rule};
use super::state::{Owner, SeatState, Show};
use super::venue::{Seat, Venue};
use super::wish::LastingWish;
use crate::shared::codec::{Damaged, Reader, Writer, ensure};
use crate::shared::field::{Any, Field};
use crate::shared::machine;
use crate::shared::refusal::Refusal;
use crate::shared::{Bytes, MAX_IDENTIFIER, Millis, copied};
use crate::{events, fields, invariant, words};

/// The events of one step; usually one.
pub type Events = machine::Events<Event>;

/// The most seats in one event.
const MAX_SEATS: usize = plan::max::SEATS;

words! {
    /// Counters of shows in `INFO`.
    pub enum Counter {
        /// Holds and picks granted.
        Held => "seat_held",
        /// Holds confirmed.
        Confirmed => "seat_confirmed",
        /// Releases, whole or in part.
        Released => "seat_released",
        /// Holds that ended at their deadlines.
        Expired => "seat_expired",
        /// Refunds.
        Refunded => "seat_refunded",
        /// Users who began to wait.
        Waited => "seat_waited",
        /// Offers to users who waited or asked to wait.
        Offered => "seat_offered",
        /// Users who stopped waiting without an offer.
        Unwaited => "seat_unwaited",
    }
}

events! {
    /// One change.
    pub enum Event counted by Counter {
        /// The show opened: the first event of a key.
        Created {
            /// The plan in its normal form, as JSON.
            plan: String,
        } = 1, notice c"allot.seat.created";
        /// The plan changed. Seats that are in both plans, by their ids, keep their states.
        Altered {
            /// The whole new plan in its normal form, as JSON.
            plan: String,
        } = 2, notice c"allot.seat.altered";
        /// Limits, the length of the event stream, or names, priorities and order rules of areas changed.
        Arranged {
            /// The new limits, all of them.
            limits: Limits,
            /// Length of the event stream, 0 = none.
            events: u32,
            /// The areas that changed, in plan order.
            areas: Vec<Arrangement>,
        } = 3, notice c"allot.seat.altered";
        /// A user holds seats.
        Held(held: Held) = 4, notice c"allot.seat.held", count (Counter::Held, 1);
        /// A user who waited, or asked to wait, holds seats.
        Offered {
            /// The hold.
            held: Held,
            /// When the wait would have ended. Until then it does not begin again under this token.
            wait_until: Millis,
        } = 5, notice c"allot.seat.offered", count (Counter::Offered, 1);
        /// A hold has another deadline.
        Extended {
            /// The hold.
            token: Bytes,
            /// Its new deadline.
            until: Millis,
        } = 6, notice c"allot.seat.extended";
        /// A hold was sold.
        Confirmed {
            /// The hold.
            token: Bytes,
            /// The order under which the sale is recorded.
            order: Option<Bytes>,
        } = 7, notice c"allot.seat.confirmed", count (Counter::Confirmed, 1);
        /// The holder released seats of a hold.
        Released {
            /// The hold.
            token: Bytes,
            /// The seats, in ascending order. If they are all seats of the hold, the hold ends.
            seats: Seats,
        } = 8, notice c"allot.seat.released", count (Counter::Released, 1);
        /// A hold's deadline passed.
        Expired {
            /// The hold.
            token: Bytes,
        } = 9, notice c"allot.seat.expired", count (Counter::Expired, 1);
        /// Sold seats are free again.
        Refunded {
            /// The seats, in ascending order.
            seats: Seats,
        } = 10, notice c"allot.seat.refunded", count (Counter::Refunded, 1);
        /// A user waits.
        Waited(waited: Box<Waited>) = 11, notice c"allot.seat.waiting", count (Counter::Waited, 1);
        /// A user does not wait any more, and was offered nothing.
        Unwaited {
            /// The wait.
            token: Bytes,
            /// Whether its time was over.
            expired: bool,
        } = 12, notice c"allot.seat.unwaited", count (Counter::Unwaited, 1);
        /// Free seats are kept by the house; with a name or an end, in a block.
        Blocked {
            /// Name of the block; `None` for seats that are only blocked, or only until a time.
            name: Option<Bytes>,
            /// When the block ends by itself; `None` leaves the end of a block that exists.
            until: Option<Millis>,
            /// How many seats of the block a user may have, 0 = no limit; `None` leaves the limit of a block that exists.
            per_user: Option<u32>,
            /// The seats, in ascending order.
            seats: Seats,
        } = 13, notice c"allot.seat.blocked";
        /// Blocked seats are free again.
        Unblocked {
            /// The seats, in ascending order.
            seats: Seats,
        } = 14, notice c"allot.seat.unblocked";
        /// A block ended: its blocked seats are free.
        BlockEnded {
            /// Name of the block.
            name: Option<Bytes>,
            /// End of a block without a name, by which it is found.
            until: Option<Millis>,
            /// Whether its time was over.
            expired: bool,
        } = 15, notice c"allot.seat.unblocked";
        /// Messages of the outbox were written to their stream.
        Flushed {
            /// How many, oldest first.
            count: u32,
            /// The id of the last (milliseconds, sequence).
            last_id: (u64, u64),
        } = 16;
        /// Seats joined a hold.
        Added {
            /// The hold.
            token: Bytes,
            /// The seats, in ascending order.
            seats: Seats,
            /// Hash of a request that is carried out once; 0 for others.
            fingerprint: Any<u64>,
        } = 17, notice c"allot.seat.added", count (Counter::Held, 1);
        /// Sales moved to other seats.
        Moved {
            /// The sold seats, in ascending order.
            from: Seats,
            /// The seat to which the sale of each moves: free, or one of `from`.
            to: Vec<Seat>,
        } = 18, notice c"allot.seat.moved";
        /// Another user has sold seats: they are a sale of their own.
        Transferred {
            /// Token of the new sale.
            token: Bytes,
            /// Its user.
            user: Bytes,
            /// Its order.
            order: Option<Bytes>,
            /// The seats, in ascending order.
            seats: Seats,
        } = 19, notice c"allot.seat.transferred";
        /// Nobody who waits can have the queued seats: they are free to all.
        Passed = 20, notice c"allot.seat.passed";
    }
}

fields! {
    /// A user waits for seats.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Waited {
        /// Name of the wait.
        pub token: Bytes,
        /// Its user.
        pub user: Bytes,
        /// The seats that the user waits for.
        pub wish: LastingWish,
        /// Priority; the highest is served first.
        pub priority: i32,
        /// When the user stops waiting.
        pub until: Millis,
        /// Time to live of the offered hold, in milliseconds.
        pub offer: Millis,
        /// Hash of the request; 0 if the caller chose no token.
        pub fingerprint: Any<u64>,
    }
}

fields! {
    /// The new name of an area, and how its seats are chosen from now on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Arrangement {
        /// Number of the area.
        pub area: u32,
        /// Name for people, 1 to 256 bytes.
        pub name: String,
        /// The lowest is best.
        pub priority: i32,
        /// Order within a row.
        pub rule: Rule,
    }
}

fields! {
    /// A user holds seats.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Held {
        /// The hold's name.
        pub token: Bytes,
        /// Its user.
        pub user: Bytes,
        /// Its deadline.
        pub until: Millis,
        /// Hash of the request; 0 if the caller chose no token.
        pub fingerprint: Any<u64>,
        /// The seats, in ascending order.
        pub seats: Seats,
        /// The area or bucket that took its turn with this hold.
        pub turn: Turn,
        /// The hold that this one replaces.
        pub replaced: Option<Bytes>,
        /// Whether it is sold in exchange for seats that its user has bought.
        pub exchange: bool,
    }
}

/// Areas of equal priority take turns. A hold whose seats lie in one area is a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No turn: the seats were picked, or lie in several areas.
    None,
    /// The turn of an area, among requests without a tier.
    Area(u32),
    /// The turn of a bucket, among requests for its tier.
    Bucket(u32),
}

impl Field for Turn {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::None => out.unsigned(0),
            Self::Area(area) => {
                out.unsigned(1);
                out.field(area);
            }
            Self::Bucket(bucket) => {
                out.unsigned(2);
                out.field(bucket);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        match reader.unsigned()? {
            0 => Ok(Self::None),
            1 => reader.field().map(Self::Area),
            2 => reader.field().map(Self::Bucket),
            _ => Err(Damaged("a turn is unknown")),
        }
    }
}

/// At least one seat, in ascending order.
impl Field for Seats {
    fn encode(&self, out: &mut Writer) {
        out.rising(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let seats = reader.rising(MAX_SEATS)?;
        if seats.is_empty() { Err(Damaged("an event names no seat")) } else { Ok(Self::from_vec(seats)) }
    }
}

impl Show {
    /// The show that a `Created` event opens.
    ///
    /// # Errors
    /// The plan breaks a rule.
    pub fn open(plan: &str, at: Millis) -> Result<Self, Refusal> {
        Self::opened(&plan::parse(plan.as_bytes())?, at)
    }

    /// The same, of a plan that was parsed. A plan and its normal form open equal shows.
    ///
    /// # Errors
    /// The plan breaks a rule.
    pub fn opened(plan: &Plan, at: Millis) -> Result<Self, Refusal> {
        let mut show = Self::new(plan, at)?;
        if show.events > 0 {
            let created = Event::Created { plan: String::new() };
            for message in show.messages(&created) {
                show.outbox.push(message);
            }
        }
        Ok(show)
    }

    /// Checks whether `decide` could have made an event on this show. O(seats in the event).
    ///
    /// # Errors
    /// The event does not fit the show.
    pub fn admits(&self, event: &Event) -> Result<(), Damaged> {
        let all = |seats: &[Seat], state| {
            seats.iter().all(|&seat| self.venue.is_seat(seat) && self.state(seat) == state)
        };
        let hold = |token: &[u8]| {
            let id = self.claims.find(token).ok_or(Damaged("there is no such hold"))?;
            ensure(self.claims.get(id).sale.is_none(), "the hold is sold")?;
            Ok(id)
        };
        match event {
            Event::Created { .. } => Err(Damaged("the show exists")),
            Event::Altered { plan } => {
                let plan: Plan =
                    plan::parse(plan.as_bytes()).map_err(|_| Damaged("the plan is not well-formed"))?;
                plan.limits.check().map_err(|_| Damaged("a limit is out of range"))?;
                let venue = Venue::build(&plan).map_err(|_| Damaged("the plan breaks a rule"))?;
                let moves = Moves::between(&self.venue, &venue);
                let moves = moves.ok_or(Damaged("an area of the show is missing in the plan"))?;
                let kept = self.keeps_taken_seats(&venue, &moves);
                kept.map_err(|_| Damaged("a seat that is held or sold would be removed or changed"))?;
                let needed = self.waiters_for_lost_flags(&moves).next();
                ensure(needed.is_none(), "a waiter needs a flag that no seat would have")
            }
            Event::Arranged { limits, areas, .. } => {
                limits.check().map_err(|_| Damaged("a limit is out of range"))?;
                let rising = areas.is_sorted_by(|a, b| a.area < b.area);
                let known = areas.last().is_none_or(|last| (last.area as usize) < self.venue.areas().len());
                ensure(rising && known, "an area is unknown or out of order")?;
                let order_kept = areas.iter().all(|area| {
                    let now = self.venue.areas().get(area.area as usize).map(|area| area.rule);
                    (area.rule == Rule::Focus) == (now == Some(Rule::Focus))
                });
                ensure(order_kept, "a rule would change the order of rows")?;
                let named = areas.iter().all(|area| (1..=MAX_IDENTIFIER).contains(&area.name.len()));
                ensure(named, "the name of an area is too short or too long")
            }
            Event::Held(held) | Event::Offered { held, .. } => {
                let replaced = held.replaced.as_ref().map(|token| hold(token)).transpose()?;
                ensure(self.claims.find(&held.token).is_none(), "the token is in use")?;
                let waits = self.waiters.find(&held.token).map(|id| self.waiters.get(id));
                let served = waits.is_none_or(|waiter| {
                    matches!(event, Event::Offered { wait_until, .. } if *wait_until == waiter.until)
                        && waiter.user == held.user
                });
                ensure(served, "the token is in use by a waiting user")?;
                ensure(held.seats.len() <= MAX_COUNT as usize, "a hold has too many seats")?;
                self.admits_hold(&held.seats, replaced, matches!(event, Event::Offered { .. }))?;
                // A turn must be that of the area, or of the bucket, of the seats.
                let takes_turn = held.seats.iter().all(|&seat| match held.turn {
                    Turn::None => true,
                    Turn::Area(area) => self.venue.area_of(self.venue.row_of(seat)) == area,
                    Turn::Bucket(bucket) => self.strip_of(seat).is_some_and(|(other, _)| other == bucket),
                });
                ensure(takes_turn, "a turn is not that of the seats")
            }
            Event::Extended { token, .. } | Event::Confirmed { token, .. } | Event::Expired { token } => {
                hold(token).map(|_| ())
            }
            Event::Released { token, seats } => {
                let id = hold(token)?;
                ensure(
                    seats.iter().all(|&seat| self.owner(seat) == Owner::Claim(id)),
                    "a seat is not of the hold",
                )
            }
            Event::Added { token, seats, .. } => {
                let has = self.claims.get(hold(token)?).seats.len();
                ensure(has + seats.len() <= MAX_COUNT as usize, "a hold would have too many seats")?;
                self.admits_hold(seats, None, false)
            }
            Event::Moved { from, to } => {
                ensure(
                    from.len() == to.len() && all(from, SeatState::Sold),
                    "a seat that moves is not sold",
                )?;
                let mut taken = to.clone();
                taken.sort_unstable();
                let rising = taken.is_sorted_by(|a, b| a < b);
                taken.retain(|seat| from.binary_search(seat).is_err());
                ensure(rising && all(&taken, SeatState::Free), "a seat to which a sale moves is not free")
            }
            Event::Transferred { token, seats, .. } => {
                let is_in_use = self.claims.find(token).is_some() || self.waiters.find(token).is_some();
                ensure(!is_in_use, "the token is in use")?;
                ensure(seats.len() <= MAX_COUNT as usize, "a sale has too many seats")?;
                ensure(all(seats, SeatState::Sold), "a seat is not sold")
            }
            Event::Refunded { seats } => ensure(all(seats, SeatState::Sold), "a seat is not sold"),
            Event::Waited(waited) => self.admits_wait(waited),
            Event::Unwaited { token, .. } => {
                ensure(self.waiters.find(token).is_some(), "nobody waits under this token")
            }
            Event::Blocked { name, until, per_user, seats } => {
                if name.is_some() || until.is_some() {
                    self.fits_block(name.as_deref(), *until, seats.len())?;
                }
                let limit_fits =
                    per_user.is_none_or(|most| most as usize <= MAX_BLOCK_SEATS && name.is_some());
                ensure(limit_fits, "the limit of a block is out of range, or the block has no name")?;
                let is_free = |&seat: &Seat| {
                    self.venue.is_seat(seat) && matches!(self.owner(seat), Owner::Free | Owner::Queued)
                };
                ensure(seats.iter().all(is_free), "a seat is not free")
            }
            Event::Unblocked { seats } => ensure(all(seats, SeatState::Blocked), "a seat is not blocked"),
            Event::BlockEnded { name, until, .. } => {
                ensure(self.blocks.find(name.as_deref(), *until).is_some(), "there is no such block")
            }
            Event::Passed => ensure(!self.waiters.queued().is_empty(), "no seat is queued"),
            Event::Flushed { count, .. } => {
                ensure(*count as usize <= self.outbox.len(), "more messages were written than wait")
            }
        }
    }

    /// Applies an event at `at`. O(seats named · log rows); `Altered` O(seats of the show +
    /// waiters log waiters).
    pub fn apply(&mut self, at: Millis, event: &Event) {
        self.applied = self.applied.max(at);
        self.ended_waits.forget_passed(self.applied);
        if self.events > 0 {
            for message in self.messages(event) {
                self.outbox.push(message);
            }
        }
        let effect = self.effect_on_waiters(event);
        match event {
            // The state that this event makes is `open`'s.
            Event::Created { .. } => {}
            Event::Altered { plan } => self.alter(plan),
            Event::Arranged { limits, events, areas } => {
                self.limits = *limits;
                self.events = *events;
                self.arrange(areas);
            }
            Event::Held(held) => self.hold(at, held),
            Event::Offered { held, wait_until } => {
                if self.waiters.find(&held.token).is_some() {
                    self.unwait(&held.token);
                }
                self.ended_waits.remember(held.token.clone(), *wait_until);
                self.hold(at, held);
            }
            Event::Extended { token, until } => {
                if let Some(id) = self.claim(token) {
                    self.claims.extend(id, *until);
                }
            }
            Event::Confirmed { token, order } => {
                if let Some(id) = self.claim(token) {
                    let seats = copied(&self.claims.get(id).seats);
                    self.claims.sell(id, order.as_deref(), seats.len() as u32);
                    self.recount(&seats, SeatState::Held, SeatState::Sold);
                }
            }
            Event::Released { token, seats } => {
                if let Some(id) = self.claim(token) {
                    self.give_back(id, seats);
                }
            }
            Event::Added { token, seats, fingerprint } => {
                if let Some(id) = self.claim(token) {
                    let before = self.state_before_hold(seats);
                    self.claims.add_seats(id, seats, fingerprint.0);
                    self.hand_over(seats, before, SeatState::Held, Owner::Claim(id));
                }
            }
            Event::Expired { token } => {
                if let Some(id) = self.claim(token) {
                    let seats = self.claims.remove(id);
                    self.give_up(&seats, SeatState::Held);
                }
            }
            Event::Refunded { seats } => {
                self.leave_sales(seats);
                self.give_up(seats, SeatState::Sold);
            }
            Event::Moved { from, to } => self.move_sales(from, to),
            Event::Transferred { token, user, order, seats } => {
                self.leave_sales(seats);
                let id = self.claims.hold(token.clone(), user, at, at, 0, copied(seats));
                self.claims.sell(id, order.as_deref(), seats.len() as u32);
                self.hand_over(seats, SeatState::Sold, SeatState::Sold, Owner::Claim(id));
            }
            Event::Waited(waited) => self.wait(at, waited),
            Event::Unwaited { token, expired } => {
                let until = self.unwait(token).filter(|_| !expired);
                if let Some(until) = until {
                    self.ended_waits.remember(token.clone(), until);
                }
            }
            Event::Blocked { name, until, per_user, seats } => {
                self.hand_over(seats, SeatState::Free, SeatState::Blocked, Owner::Blocked);
                if name.is_some() || until.is_some() {
                    self.blocks.add(name.as_ref(), *until, *per_user, seats);
                }
            }
            Event::Unblocked { seats } => {
                self.hand_over(seats, SeatState::Blocked, SeatState::Free, Owner::Free);
                self.blocks.drop_seats(seats);
            }
            Event::BlockEnded { name, until, .. } => self.end_block(name.as_deref(), *until),
            Event::Passed => {
                self.waiters.note_examined();
                self.waiters.free_queued();
            }
            Event::Flushed { count, last_id } => self.outbox.sent(*count as usize, *last_id),
        }
        self.follow(effect);
    }

    fn hold(&mut self, at: Millis, held: &Held) {
        let mut born = at;
        if let Some(id) = held.replaced.as_ref().and_then(|token| self.claim(token)) {
            born = self.claims.get(id).created;
            let seats = self.claims.remove(id);
            self.give_up(&seats, SeatState::Held);
        }
        let before = self.state_before_hold(&held.seats);
        let id = self.claims.hold(
            held.token.clone(),
            &held.user,
            born,
            held.until,
            held.fingerprint.0,
            copied(&held.seats),
        );
        if held.exchange {
            self.claims.exchanges.insert(id);
        }
        self.hand_over(&held.seats, before, SeatState::Held, Owner::Claim(id));
        match held.turn {
            Turn::None => {}
            Turn::Area(area) => {
                let turn = self.next_turn();
                match self.area_turns.get_mut(area as usize) {
                    Some(last) => *last = turn,
                    None => invariant!("an area that takes its turn is one of the show"),
                }
            }
            Turn::Bucket(bucket) => {
                let turn = self.next_turn();
                match self.buckets.get_mut(bucket as usize) {
                    Some(bucket) => bucket.turn = turn,
                    None => invariant!("a bucket that takes its turn is one of the show"),
                }
            }
        }
    }

    /// Counts a turn. Saturates, because a snapshot may have the greatest count.
    fn next_turn(&mut self) -> u64 {
        self.turns = self.turns.saturating_add(1);
        self.turns
    }

    /// The claim that an event names.
    fn claim(&self, token: &[u8]) -> Option<u32> {
        let id = self.claims.find(token);
        invariant!(id.is_some(), "an event that was admitted names a claim that is there");
        id
    }
}
