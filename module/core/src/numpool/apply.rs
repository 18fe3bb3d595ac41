//! Applies events to a pool. This cannot fail: `decide` made the event for this state, or, for events of a master or
//! an AOF file, `admits` has checked it.

use super::cells::{Cell, Trigger, cell};
use super::directory::MAX_NUMBERS;
use super::event::{Cause, Event, Numbers};
use super::number::Number;
use super::record::Place;
use super::state::{Pool, RestReason, TransitionContext};
use crate::invariant;
use crate::shared::Millis;
use crate::shared::codec::Damaged;

/// The least size of a batch that may drop the orders of free numbers.
const MANY: usize = 1000;

fn ensure(fits: bool, what: &'static str) -> Result<(), Damaged> {
    if fits { Ok(()) } else { Err(Damaged(what)) }
}

impl Pool {
    /// The pool that a `Created` event makes.
    pub fn open(event: &Event, at: Millis) -> Option<Self> {
        let Event::Created(settings) = event else { return None };
        let mut pool = Self::new(*settings, at);
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
            Event::Configured(_) | Event::Capped(_) => Ok(()),
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
            Event::Unregistered(numbers) => {
                distinct(numbers)?;
                self.all(numbers, Trigger::Unreg)
            }
            Event::Lapsed(numbers) => {
                distinct(numbers)?;
                let ends = |id: u32| self.registrations.get(id).is_some();
                ensure(self.are(numbers, ends), "a registration has no end")
            }
            Event::Left { switch } => {
                let listed = self.switches.find(switch).and_then(|switch| self.switches.get(switch));
                let registered = listed.is_some_and(|group| !group.members.is_empty());
                ensure(registered, "the switch has registered no number")
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
                let ends = |id: u32| self.leases.until(self.directory.get(id).lease()).is_some();
                ensure(*cause != Cause::Expired || self.are(numbers, ends), "a lease has no end")
            }
            Event::Renewed { number, .. } => self.all(&[*number], Trigger::HangUp),
            Event::Cooled(numbers) => {
                distinct(numbers)?;
                ensure(self.are(numbers, |id| self.rest_of(id).is_some()), "a number does not rest")
            }
            Event::Ruled { word, rule } => {
                ensure(self.causes.has_room(&word.0), "there is no room for another cause")?;
                ensure(rule.is_none_or(|rule| rule.is_sound()), "a rule is out of range")
            }
            Event::Blamed { number, until, quarantine, .. } => {
                ensure(until.is_some() || !quarantine, "a quarantine has no end")?;
                self.all(&[*number], Trigger::HangUp)
            }
            Event::Flushed { count, .. } => {
                ensure(*count as usize <= self.outbox.len(), "more messages were written than wait")
            }
        }
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
            Event::Configured(settings) => self.settings = *settings,
            Event::Added(numbers) => numbers.iter().for_each(|&number| self.add(number, at)),
            Event::Deleted(numbers) => {
                self.each(numbers, |pool, id| pool.transition(id, Trigger::Del, context));
            }
            Event::Draining(numbers) => self.each(numbers, Self::drain),
            Event::Registered { numbers, until, switch } => self.each(numbers, |pool, id| {
                pool.transition(id, Trigger::Reg, context);
                match until {
                    Some(until) => pool.registrations.set(id, *until),
                    None => pool.registrations.remove(id),
                }
                pool.registered_by(id, switch.as_deref());
            }),
            Event::Unregistered(numbers) | Event::Lapsed(numbers) => {
                self.each(numbers, |pool, id| pool.unregister(id, context));
            }
            Event::Left { switch } => {
                let Some(switch) = self.switches.find(switch) else {
                    invariant!("a switch that leaves has registered numbers");
                    return;
                };
                let registered: Vec<u32> = self.switches.listed(switch).collect();
                self.mind_orders(registered.len());
                registered.into_iter().for_each(|id| self.unregister(id, context));
            }
            Event::Called(called) => {
                if let Some(id) = self.id(called.number) {
                    self.transition(id, Trigger::Call, TransitionContext { called: Some(called), ..context });
                }
            }
            Event::Ended { numbers, cool_until, cause } => self.each(numbers, |pool, id| {
                let record = pool.directory.get(id);
                let last = record.place == Place::LastCall;
                let trigger = if last { Trigger::Del } else { Trigger::HangUp };
                let rest = cool_until.filter(|_| !last).map(|until| (until, RestReason::CoolDown));
                if *cause == Cause::TakenBack {
                    pool.uncount_call(id);
                }
                // An expired lease ended at its deadline, even if the event came later.
                let until = pool.leases.until(record.lease()).filter(|_| *cause == Cause::Expired);
                let at = until.unwrap_or(at);
                pool.transition(id, trigger, TransitionContext { at, rest, called: None });
            }),
            Event::Renewed { number, until } => {
                if let Some(id) = self.id(*number) {
                    self.leases.renew(self.directory.get(id).lease(), *until);
                }
            }
            Event::Cooled(numbers) => self.each(numbers, Self::cool),
            Event::Capped(caps) => self.set_caps(*caps),
            Event::Ruled { word, rule } => self.set_cause(&word.0, *rule),
            Event::Blamed { number, word, until, quarantine } => {
                if let Some(id) = self.id(*number) {
                    let reason = if *quarantine { RestReason::Quarantine } else { RestReason::CoolDown };
                    self.end_for(id, &word.0, until.map(|until| (until, reason)), context);
                }
            }
            Event::Flushed { count, last_id } => self.outbox.sent(*count as usize, *last_id),
        }
    }

    /// Ends the call of a number with a cause.
    fn end_for(
        &mut self,
        id: u32,
        word: &[u8],
        rest: Option<(Millis, RestReason)>,
        context: TransitionContext<'_>,
    ) {
        self.blame(id, word, context.at);
        if self.is_draining(id) {
            self.transition(id, Trigger::Del, context);
        } else {
            self.transition(id, Trigger::HangUp, TransitionContext { rest, ..context });
        }
    }

    /// The call of a number counts for nothing, because its caller never heard of it. Which peer the number had called
    /// before is not known.
    fn uncount_call(&mut self, id: u32) {
        let record = self.directory.at(id);
        record.uses = record.uses.saturating_sub(1);
        let Some(lease) = self.leases.get(record.lease()) else {
            invariant!("a call that is taken back has a lease");
            return;
        };
        self.history.take_back(id, lease.since);
        if lease.has_peer {
            self.peers.assign(id, None);
        }
    }

    fn each(&mut self, numbers: &Numbers, mut change: impl FnMut(&mut Self, u32)) {
        self.mind_orders(numbers.len());
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
    pub(super) fn mind_orders(&mut self, changes: usize) {
        if changes > MANY && changes > self.queue.len() as usize / 8 {
            (self.by_digits, self.by_peer) = (None, None);
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

    pub(super) fn drain(&mut self, id: u32) {
        let record = self.directory.at(id);
        if invariant!(record.place == Place::Call, "a number that is draining carries a call") {
            record.place = Place::LastCall;
            self.draining += 1;
        }
    }

    /// Records the switch that registered a number, which is usually the same as before.
    pub(super) fn registered_by(&mut self, id: u32, switch: Option<&[u8]>) {
        self.sliced.registered(id);
        if self.switches.name(self.switches.of(id)) != switch {
            self.switches.unlist(id);
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
