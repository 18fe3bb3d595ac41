//! Events of a pool: their definition, their admission on a replica, and what they change. Only events change a
//! pool; they are replicated, written to the AOF, published and replayed.
//!
//! Applying an event cannot fail, because `decide` made the event for this state, or `admits` has checked it.

use super::cells::{Cell, State, Trigger, cell};
use super::directory::MAX_NUMBERS;
use super::heartbeats::MAX_HEARTBEATS;
pub use super::model::causes::{Rule, Word};
pub use super::model::leases::Called;
use super::model::sorted_free::SortedFree;
pub use super::model::state::{Rest, RestReason};
pub use super::model::suspensions::Suspension;
use super::number::Number;
use super::record::Place;
use super::settings::{Cap, Settings, are_sound};
use super::state::{Pool, TransitionContext};
use crate::shared::codec::{Damaged, Reader, Writer, ensure};
use crate::shared::field::Field;
use crate::shared::invariant::Expected;
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use crate::{events, invariant, words};
use smallvec::{SmallVec, smallvec};

/// The events of one step; usually one.
pub type Events = machine::Events<Event>;

/// The numbers of an event; usually one.
pub type Numbers = SmallVec<[Number; 1]>;

/// The most numbers in an event that writes a message for each number.
pub(in crate::numpool) const TOLD_AT_ONCE: usize = 256;

/// Events of a part of the numbers each.
pub(in crate::numpool) fn each_some(numbers: Numbers, event: impl Fn(Numbers) -> Event) -> Events {
    if numbers.len() <= TOLD_AT_ONCE {
        return if numbers.is_empty() { Events::new() } else { smallvec![event(numbers)] };
    }
    numbers.chunks(TOLD_AT_ONCE).map(|numbers| event(Numbers::from_slice(numbers))).collect()
}

words! {
    /// Counters of pools in `INFO`.
    pub enum Counter {
        /// Numbers given for a call.
        Called => "numpool_called",
        /// Calls ended by a hangup.
        HungUp => "numpool_hungup",
        /// Calls ended by the deadline of their lease.
        Expired => "numpool_expired",
        /// Calls ended because their switch did not carry them any more.
        Reconciled => "numpool_reconciled",
        /// Registrations that were not renewed in time.
        Lapsed => "numpool_lapsed",
        /// Switches that did not say in time that they are alive.
        Silent => "numpool_silent",
    }
}

events! {
    /// One change.
    pub enum Event counted by Counter {
        /// The pool was created: the first event of a key.
        Created(settings: Settings) = 1, notice c"allot.numpool.created";
        /// The pool has other settings.
        Configured(settings: Settings) = 2, notice c"allot.numpool.configured";
        /// Numbers are added, or kept if they were draining.
        Added(numbers: Numbers) = 3, notice c"allot.numpool.added";
        /// Numbers and their leases are deleted.
        Deleted(numbers: Numbers) = 4, notice c"allot.numpool.deleted";
        /// Numbers that carry calls are draining: deleted when their calls end.
        Draining(numbers: Numbers) = 5, notice c"allot.numpool.draining";
        /// A switch registered numbers, or did so again.
        Registered {
            /// Which.
            numbers: Numbers,
            /// When that lapses.
            until: Option<Millis>,
            /// Who it was.
            switch: Option<Bytes>,
            /// The least count of calls from which a number goes on that joins the queue.
            uses: u32,
        } = 6, notice c"allot.numpool.registered";
        /// Registrations of numbers ended.
        Unregistered {
            /// Which.
            numbers: Numbers,
            /// The switch, if all of its registrations end.
            switch: Option<Bytes>,
        } = 7, notice c"allot.numpool.unregistered";
        /// Registrations were not renewed in time.
        Lapsed(numbers: Numbers) = 8,
            notice c"allot.numpool.lapsed",
            count (Counter::Lapsed, numbers.len() as u64);
        /// A number was given for a call.
        Called(called: Called) = 9, notice c"allot.numpool.called", count (Counter::Called, 1);
        /// Calls ended.
        Ended {
            /// On which numbers.
            numbers: Numbers,
            /// Until when they cool down.
            cool_until: Option<Millis>,
            /// Why.
            cause: Cause,
            /// The cause of a hangup, in the word of its caller.
            word: Option<Word>,
            /// Until when the cause of the hangup suspends them.
            quarantine: Option<Millis>,
        } = 10,
            notice match cause {
                Cause::HungUp | Cause::TakenBack => c"allot.numpool.hungup",
                Cause::Expired => c"allot.numpool.expired",
                Cause::Reconciled | Cause::Silent => c"allot.numpool.reconciled",
            },
            count (
                match cause {
                    Cause::HungUp | Cause::TakenBack => Counter::HungUp,
                    Cause::Expired => Counter::Expired,
                    Cause::Reconciled | Cause::Silent => Counter::Reconciled,
                },
                numbers.len() as u64,
            );
        /// A lease has another deadline.
        Renewed {
            /// Its number.
            number: Number,
            /// The new deadline.
            until: Millis,
        } = 11, notice c"allot.numpool.renewed";
        /// Numbers have rested.
        Cooled(numbers: Numbers) = 12, notice c"allot.numpool.cooled";
        /// A cause has another rule, or none.
        Ruled {
            /// The word of the cause.
            word: Word,
            /// When it sends a number into quarantine.
            rule: Option<Rule>,
        } = 13, notice c"allot.numpool.configured";
        /// A switch is alive, and keeps its calls.
        Beat {
            /// Which.
            switch: Bytes,
            /// Until when.
            until: Millis,
        } = 15, notice c"allot.numpool.beat";
        /// A switch did not say in time that it is alive. Its calls have ended.
        Silent {
            /// Which.
            switch: Bytes,
        } = 16, notice c"allot.numpool.silent", count (Counter::Silent, 1);
        /// A server took over. The deadlines of all switches begin again.
        BegunAgain = 20, notice c"allot.numpool.begun-again";
        /// Numbers are out of service.
        Suspended {
            /// Which.
            numbers: Numbers,
            /// Why, and until when.
            suspension: Suspension,
        } = 17, notice c"allot.numpool.suspended";
        /// Numbers are in service again.
        Resumed {
            /// Which.
            numbers: Numbers,
            /// The least count of calls from which they go on.
            uses: u32,
        } = 18, notice c"allot.numpool.resumed";
        /// A number has other caps of its own; without any it has those of the pool.
        Capped {
            /// Which.
            number: Number,
            /// At most four.
            caps: Vec<Cap>,
        } = 19, notice c"allot.numpool.capped";
        /// Messages of the outbox were written to their stream.
        Flushed {
            /// How many, oldest first.
            count: u32,
            /// The id of the last (milliseconds, sequence).
            last_id: (u64, u64),
        } = 14;
    }
}

words! {
    /// Why a call ended. The numbers are the encoding's and never change.
    pub enum Cause {
        /// Somebody hung up.
        HungUp = 0 => "hungup",
        /// The lease's deadline passed.
        Expired = 1 => "expired",
        /// The switch does not carry the call any more.
        Reconciled = 2 => "reconciled",
        /// The caller never heard of the call, so the call does not count for the caps.
        TakenBack = 3 => "taken-back",
        /// The deadline of the switch that carries the call has passed.
        Silent = 4 => "silent",
    }
}

/// At least one number.
impl Field for Numbers {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.len() as u64);
        self.iter().for_each(|number| out.field(number));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut numbers = Self::new();
        for _ in 0..reader.unsigned()? {
            numbers.push(reader.field()?);
        }
        if numbers.is_empty() { Err(Damaged("an event names no number")) } else { Ok(numbers) }
    }
}

impl Field for Number {
    fn encode(&self, out: &mut Writer) {
        let (bytes, used) = self.packed();
        out.string(bytes.get(..used).unwrap_or(&bytes));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Self::unpacked(reader.string()?).ok_or(Damaged("a number is not valid"))
    }
}

/// The least size of a batch that may drop the orders of free numbers.
const MANY: usize = 1000;

impl Pool {
    /// The pool that a `Created` event makes.
    pub fn open(event: &Event, at: Millis) -> Option<Self> {
        let Event::Created(settings) = event else { return None };
        let mut pool = Self::new(settings.clone(), at);
        if settings.events > 0 {
            pool.tell(event);
        }
        Some(pool)
    }

    /// Checks whether `decide` could have made an event on this pool. O(numbers in the event).
    ///
    /// # Errors
    /// The event does not fit the pool.
    pub fn admits(&self, event: &Event) -> Result<(), Damaged> {
        match event {
            Event::Created(_) => Err(Damaged("the pool exists")),
            Event::Configured(_) => Ok(()),
            Event::Added(numbers) => {
                distinct(numbers)?;
                let fits =
                    |number: &Number| self.directory.find(*number).is_none_or(|id| self.is_draining(id));
                ensure(numbers.iter().all(fits), "a number is in the pool")?;
                // A number that was to go and stays takes no more room.
                let fresh = numbers.iter().filter(|number| self.directory.find(**number).is_none()).count();
                ensure(fresh <= (MAX_NUMBERS - self.len()) as usize, "there is no room for so many numbers")
            }
            Event::Deleted(numbers) => {
                distinct(numbers)?;
                self.all(numbers, Trigger::Del)
            }
            Event::Registered { numbers, .. } => {
                distinct(numbers)?;
                let known = |number: &Number| self.directory.find(*number).is_some();
                ensure(numbers.iter().all(known), "there is no such number")
            }
            Event::Unregistered { numbers, .. } => {
                distinct(numbers)?;
                self.all(numbers, Trigger::Unreg)
            }
            Event::Lapsed(numbers) => {
                distinct(numbers)?;
                let ends = |id: u32| self.registrations.get(id).is_some();
                ensure(self.are(numbers, ends), "a registration has no end")
            }
            Event::Called(called) => {
                ensure(self.leases.find(&called.token).is_none(), "the lease exists")?;
                let id = self.directory.find(called.number).ok_or(Damaged("there is no such number"))?;
                ensure(self.directory.get(id).is_queued(), "the number is not free")
            }
            Event::Draining(numbers) => {
                distinct(numbers)?;
                let is_called = |id: u32| self.directory.get(id).place == Place::Call;
                ensure(
                    self.are(numbers, is_called),
                    "a number carries no call, or is to go at its end already",
                )
            }
            Event::Ended { numbers, cause, .. } => {
                distinct(numbers)?;
                self.all(numbers, Trigger::HangUp)?;
                let lease = |id: u32| self.directory.get(id).lease();
                let ends = |id: u32| self.leases.until(lease(id)).is_some();
                ensure(*cause != Cause::Expired || self.are(numbers, ends), "a lease has no end")?;
                let is_kept = |id: u32| !ends(id) && self.lease_end(lease(id)).is_some();
                ensure(*cause != Cause::Silent || self.are(numbers, is_kept), "no switch keeps a lease")
            }
            Event::Renewed { number, .. } => self.all(&[*number], Trigger::HangUp),
            Event::Cooled(numbers) => {
                distinct(numbers)?;
                ensure(self.are(numbers, |id| self.rest_of(id).is_some()), "a number does not rest")
            }
            Event::Ruled { word, .. } => {
                ensure(self.causes.has_room(&word.0), "there is no room for another cause")
            }
            Event::Suspended { numbers, .. } => {
                distinct(numbers)?;
                ensure(self.are(numbers, |_| true), "there is no such number")
            }
            Event::Resumed { numbers, .. } => {
                distinct(numbers)?;
                ensure(self.are(numbers, |id| self.suspensions.contains(id)), "a number is not suspended")
            }
            Event::Capped { number, caps } => {
                ensure(are_sound(caps), "the caps of a number are out of range")?;
                ensure(self.directory.find(*number).is_some(), "there is no such number")
            }
            Event::Beat { switch, .. } => {
                let has_room = self.heartbeats.len() < MAX_HEARTBEATS || self.has_deadline(switch);
                ensure(has_room, "too many switches have a deadline")
            }
            Event::BegunAgain => ensure(!self.heartbeats.is_empty(), "no switch has a deadline"),
            Event::Silent { switch } => ensure(self.has_deadline(switch), "a switch has no deadline"),
            Event::Flushed { count, .. } => {
                ensure(*count as usize <= self.outbox.len(), "more messages were written than wait")
            }
        }
    }

    fn has_deadline(&self, switch: &[u8]) -> bool {
        self.switches.find(switch).is_some_and(|switch| self.heartbeats.get(switch).is_some())
    }

    /// Whether all numbers are in the pool and meet a condition.
    fn are(&self, numbers: &[Number], has: impl Fn(u32) -> bool) -> bool {
        numbers.iter().all(|number| self.directory.find(*number).is_some_and(&has))
    }

    /// Checks that the event changes the state of each number.
    fn all(&self, numbers: &[Number], trigger: Trigger) -> Result<(), Damaged> {
        let moves = |number: &Number| matches!(cell(self.state_of(*number), trigger), Cell::To(..));
        ensure(numbers.iter().all(moves), "the state of a number does not allow the event")
    }

    /// Applies an event at `at`. O(numbers named), times O(log n) for those with deadlines, and for all once the
    /// pool was prepared.
    pub fn apply(&mut self, at: Millis, event: &Event) {
        self.applied = self.applied.max(at);
        if self.settings.events > 0 {
            self.tell(event);
        }
        let context = TransitionContext::at(at);
        match event {
            // The state that this event makes is `open`'s.
            Event::Created(_) => {}
            Event::Configured(settings) => self.set_settings(settings.clone()),
            Event::Added(numbers) => numbers.iter().for_each(|&number| self.add(number, at)),
            Event::Deleted(numbers) => {
                self.each(numbers, |pool, id| pool.transition(id, Trigger::Del, context));
            }
            Event::Draining(numbers) => self.each(numbers, Self::drain),
            Event::Registered { numbers, until, switch, uses } => self.each(numbers, |pool, id| {
                let record = pool.directory.at(id);
                if record.state() == State::IdleDown {
                    record.uses = record.uses.max(*uses);
                }
                pool.transition(id, Trigger::Reg, context);
                match until {
                    Some(until) => pool.registrations.set(id, *until),
                    None => pool.registrations.remove(id),
                }
                pool.registered_by(id, switch.as_deref());
            }),
            Event::Unregistered { numbers, .. } | Event::Lapsed(numbers) => {
                self.each(numbers, |pool, id| pool.unregister(id, context));
            }
            Event::Called(called) => {
                if let Some(id) = self.id(called.number) {
                    self.transition(id, Trigger::Call, TransitionContext { called: Some(called), ..context });
                }
            }
            Event::Ended { numbers, cool_until, cause, word, quarantine } => {
                self.each(numbers, |pool, id| {
                    if let Some(word) = word {
                        pool.blame(id, &word.0, at);
                    }
                    if let Some(until) = quarantine {
                        pool.quarantine(id, word.clone(), *until);
                    }
                    pool.end_call(id, *cool_until, *cause, at);
                });
            }
            Event::Renewed { number, until } => {
                if let Some(id) = self.id(*number) {
                    self.leases.renew(self.directory.get(id).lease(), *until);
                }
            }
            Event::Cooled(numbers) => self.each(numbers, Self::cool),
            Event::Ruled { word, rule } => self.set_cause(&word.0, *rule),
            Event::Suspended { numbers, suspension } => {
                self.each(numbers, |pool, id| pool.suspend(id, suspension.clone()));
            }
            Event::Resumed { numbers, uses } => self.each(numbers, |pool, id| pool.resume(id, *uses)),
            Event::Capped { number, caps } => {
                if let Some(id) = self.id(*number) {
                    self.set_own_caps(id, caps);
                }
            }
            Event::Beat { switch, until } => self.beat(switch, *until, at),
            Event::BegunAgain => self.begin_heartbeats_again(at),
            Event::Silent { switch } => self.fall_silent(switch),
            Event::Flushed { count, last_id } => self.outbox.sent(*count as usize, *last_id),
        }
    }

    /// Ends the call of a number. A number that was draining goes.
    fn end_call(&mut self, id: u32, cool_until: Option<Millis>, cause: Cause, at: Millis) {
        let record = self.directory.get(id);
        let last = record.place == Place::LastCall;
        let trigger = if last { Trigger::Del } else { Trigger::HangUp };
        if cause == Cause::TakenBack {
            self.uncount_call(id);
        }
        // A lease ended at its deadline or at that of its switch, even if the event came later.
        let by_deadline = matches!(cause, Cause::Expired | Cause::Silent);
        let until = self.lease_end(record.lease()).filter(|_| by_deadline);
        let rest = cool_until.map(|until| Rest { until, reason: RestReason::CoolDown });
        let (at, rest) = (until.unwrap_or(at), rest.filter(|_| !last));
        self.transition(id, trigger, TransitionContext { at, rest, called: None });
    }

    /// The call of a number counts for nothing, because its caller never heard of it. Which peer the number had called
    /// before is not known.
    fn uncount_call(&mut self, id: u32) {
        let record = self.directory.at(id);
        record.uses = record.uses.saturating_sub(1);
        let Some(lease) = self.leases.get(record.lease()).expected("a call that is taken back has a lease")
        else {
            return;
        };
        let (since, has_peer) = (lease.since, lease.has_peer);
        self.history.take_back(id, since);
        self.take_back_start(since);
        if has_peer {
            if let Some(peer) = self.peers.name(self.peers.of(id)) {
                self.last_numbers.forget(peer, self.directory.name_of(id));
            }
            self.peers.assign(id, None);
        }
    }

    fn each(&mut self, numbers: &Numbers, mut change: impl FnMut(&mut Self, u32)) {
        self.drop_orders_if_cheaper(numbers.len());
        for &number in numbers {
            if let Some(id) = self.id(number) {
                change(self, id);
            }
        }
    }

    /// The id of a number that an event names.
    fn id(&self, number: Number) -> Option<u32> {
        let id = self.directory.find(number);
        invariant!(id.is_some(), "an event that was admitted names a number that is there");
        id
    }

    /// Drops the orders of free numbers if a batch changes so many numbers that building the orders again costs less.
    pub(super) fn drop_orders_if_cheaper(&mut self, changes: usize) {
        if changes > MANY && changes > self.queue.len() as usize / 8 {
            self.sorted = SortedFree::default();
        }
    }

    /// Adds a number, or keeps one that was draining.
    fn add(&mut self, number: Number, at: Millis) {
        match self.directory.find(number) {
            None => {
                self.store(number, at);
            }
            Some(id) => {
                let record = self.directory.at(id);
                if invariant!(record.place == Place::LastCall, "a number that is added again was draining") {
                    record.place = Place::Call;
                    self.draining -= 1;
                }
            }
        }
    }

    fn drain(&mut self, id: u32) {
        let record = self.directory.at(id);
        if invariant!(record.place == Place::Call, "a number that is draining carries a call") {
            record.place = Place::LastCall;
            self.draining += 1;
        }
    }

    /// Records the switch that registered a number, which is usually the same as before.
    fn registered_by(&mut self, id: u32, switch: Option<&[u8]>) {
        let by = self.switches.of(id);
        if self.switches.name(by) != switch || self.sliced.unregisters(by) {
            self.leave_switch(id);
            self.switches.assign(id, switch);
            self.switches.list(id);
        }
    }

    /// Queues the messages of an event for the event stream, before the event is applied.
    fn tell(&mut self, event: &Event) {
        for message in self.messages(event) {
            self.outbox.push(message);
        }
    }
}

/// Refuses a number named twice.
fn distinct(numbers: &Numbers) -> Result<(), Damaged> {
    if numbers.len() == 1 {
        return Ok(());
    }
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    ensure(sorted.len() == numbers.len(), "a number is named twice")
}
