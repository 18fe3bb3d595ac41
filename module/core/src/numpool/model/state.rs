//! A pool: numbers, the queue, and the transitions of numbers.

use super::causes::Causes;
use super::cells::{Action, Cell, State, Trigger, cell};
use super::directory::Directory;
use super::groups::Groups;
use super::history::{History, STARTS};
use super::last_numbers::LastNumbers;
use super::leases::{Called, Lease, Leases};
use super::number::Number;
use super::own_caps::OwnCaps;
use super::record::{Place, Record};
use super::settings::Settings;
use super::sliced::SlicedRequests;
use super::sorted_free::{Numbers, SortedFree};
use super::suspensions::Suspensions;
use super::waiters::Waiters;
use crate::shared::Millis;
use crate::shared::column::Column;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Expected;
use crate::shared::list::{Links, List, NONE};
use crate::shared::outbox::Outbox;
use crate::shared::table::Table;
use crate::{fields, invariant, words};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// A pool of numbers.
///
/// A number is in the queue exactly while it is idle and registered, neither rests nor is suspended; it has a lease exactly while
/// it is busy; it is listed with a switch exactly while that has registered it, and with a peer while it is in the
/// queue and called that one last.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub(in crate::numpool) applied: Millis,
    pub(in crate::numpool) settings: Settings,
    pub(in crate::numpool) directory: Directory<Record>,
    pub(in crate::numpool) counts: [u32; 5],
    pub(in crate::numpool) draining: u32,
    pub(in crate::numpool) queue: List,
    /// By number: when its registration lapses.
    pub(in crate::numpool) registrations: Deadlines,
    /// Numbers that rest, and by their place here until when.
    pub(in crate::numpool) cooling: Table<Resting>,
    pub(in crate::numpool) cool_downs: Deadlines,
    /// How many numbers rest for each reason.
    pub(in crate::numpool) rests: [u32; RestReason::ALL.len()],
    pub(in crate::numpool) suspensions: Suspensions,
    pub(in crate::numpool) causes: Causes,
    pub(in crate::numpool) history: History,
    /// Caps of single numbers.
    pub(in crate::numpool) own_caps: OwnCaps,
    /// When calls of the pool began, in rising order, as far as its rate counts them.
    pub(in crate::numpool) starts: VecDeque<Millis>,
    pub(in crate::numpool) leases: Leases,
    pub(in crate::numpool) switches: Groups,
    /// Who holds numbers instead of a switch.
    pub(in crate::numpool) holders: Groups,
    /// By switch: until when it is alive.
    pub(in crate::numpool) heartbeats: Deadlines,
    /// By switch with a deadline: how much time it gets when a server takes over, in milliseconds.
    pub(in crate::numpool) beat_ttls: Column<Millis>,
    pub(in crate::numpool) peers: Groups,
    /// The last number of each peer, in a pool with `PEERS`.
    pub(in crate::numpool) last_numbers: LastNumbers,
    pub(in crate::numpool) sorted: SortedFree,
    /// The least count of calls of the free numbers when one of them was last chosen by use.
    pub(in crate::numpool) least_uses: Option<u32>,
    pub(in crate::numpool) outbox: Outbox,
    /// Calls that wait for a number, on this server.
    pub(in crate::numpool) waiters: Waiters,
    /// Requests that are carried out in slices, on this server.
    pub(in crate::numpool) sliced: SlicedRequests,
    /// By lease of a holder: since when the holder lacks its conference, as far as this server has looked.
    pub(in crate::numpool) missed: HashMap<u32, Millis>,
}

words! {
    /// Why a number that is idle is not in the queue. The numbers are part of the encoding and never change.
    #[derive(Default)]
    pub enum RestReason {
        /// It cools down after a call.
        #[default]
        CoolDown = 0 => "cool-down",
        /// It has begun as many calls as its caps allow.
        Limit = 1 => "limit",
    }
}

fields! {
    /// A time in which a number that is idle is not in the queue.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rest {
        /// When it is over.
        pub until: Millis,
        /// Why the number rests.
        pub reason: RestReason,
    }
}

/// A number that rests.
#[derive(Clone, Copy, Debug)]
pub(in crate::numpool) struct Resting {
    pub(in crate::numpool) number: u32,
    pub(in crate::numpool) reason: RestReason,
}

/// Data of an event that transitions need.
#[derive(Clone, Copy, Debug)]
pub(in crate::numpool) struct TransitionContext<'a> {
    pub(in crate::numpool) at: Millis,
    /// The rest of a number whose call ends.
    pub(in crate::numpool) rest: Option<Rest>,
    /// The lease that begins.
    pub(in crate::numpool) called: Option<&'a Called>,
}

impl TransitionContext<'_> {
    pub(in crate::numpool) fn at(at: Millis) -> Self {
        Self { at, rest: None, called: None }
    }
}

impl Pool {
    /// A pool without numbers.
    pub fn new(settings: Settings, at: Millis) -> Self {
        Self { applied: at, settings, ..Self::default() }
    }

    /// The settings of the pool: defaults of requests.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time of this pool: the greater of the clock and the last time applied.
    pub fn now(&self, clock: Millis) -> Millis {
        self.applied.max(clock)
    }

    /// The earliest deadline, or when the rate lets a call that waits begin. While one may be served, or work goes on in
    /// slices, this is now.
    pub fn next_due(&self) -> Option<Millis> {
        if self.has_pending_grants() || !self.sliced.is_empty() || self.is_at_work() {
            return Some(self.applied);
        }
        match (self.earliest_deadline(), self.waiters.held_until()) {
            (Some(due), Some(held)) => Some(due.min(held)),
            (due, held) => due.or(held),
        }
    }

    /// The earliest deadline.
    pub(in crate::numpool) fn earliest_deadline(&self) -> Option<Millis> {
        let never = Millis::MAX;
        let leases = self.leases.deadlines().earliest().unwrap_or(never);
        let registrations = self.registrations.earliest().unwrap_or(never);
        let cool_downs = self.cool_downs.earliest().unwrap_or(never);
        let heartbeats = self.heartbeats.earliest().unwrap_or(never);
        let suspensions = self.suspensions.ends().earliest().unwrap_or(never);
        let earliest = leases.min(registrations).min(cool_downs).min(heartbeats).min(suspensions);
        Some(earliest).filter(|&due| due < never)
    }

    /// Unsent messages.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// How many numbers there are.
    pub fn len(&self) -> u32 {
        self.directory.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.directory.is_empty()
    }

    /// How many live leases there are.
    pub fn live_leases(&self) -> usize {
        self.leases.len()
    }

    /// The state of a number. O(1).
    pub fn state_of(&self, number: Number) -> State {
        self.directory.find(number).map_or(State::NoData, |id| self.directory.get(id).state())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.directory.allocated()
            + self.registrations.allocated()
            + self.cooling.allocated()
            + self.suspensions.allocated()
            + self.causes.allocated()
            + self.history.allocated()
            + self.own_caps.allocated()
            + self.starts.capacity() * size_of::<Millis>()
            + self.cool_downs.allocated()
            + self.leases.allocated()
            + self.switches.allocated()
            + self.holders.allocated()
            + self.heartbeats.allocated()
            + self.beat_ttls.allocated()
            + self.peers.allocated()
            + self.last_numbers.allocated()
            + self.sorted.allocated()
            + self.outbox.allocated()
    }

    /// A rough number of allocations, which tells whether freeing is worth a background thread.
    pub fn free_effort(&self) -> usize {
        1 + self.directory.slots() as usize / 1024 + self.leases.len() + self.last_numbers.len() / 1024
    }

    /// The number of an id that has one.
    pub(in crate::numpool) fn number(&self, id: u32) -> Number {
        self.directory.name_of(id)
    }

    /// The numbers in the queue, the longest waiting first.
    pub fn waiting(&self) -> impl Iterator<Item = Number> + '_ {
        self.queue.iter(&self.directory).map(|id| self.number(id))
    }

    /// Puts a new number into the pool: the cell of `nodata` and ADD.
    pub(in crate::numpool) fn store(&mut self, number: Number, at: Millis) -> u32 {
        let id = self.directory.insert(number);
        *self.directory.at(id) = Record::new(at);
        *self.count(State::IdleDown) += 1;
        id
    }

    /// Applies a transition of the table to a number.
    pub(in crate::numpool) fn transition(
        &mut self,
        id: u32,
        trigger: Trigger,
        context: TransitionContext<'_>,
    ) {
        let state = self.directory.get(id).state();
        let (next, actions) = match cell(state, trigger) {
            Cell::To(next, actions) => (next, actions),
            // A number that is up is registered again.
            Cell::Same => return,
            Cell::NotFound | Cell::BadState => {
                invariant!("an event that is applied is one that the state of its number allows");
                return;
            }
        };
        invariant!(*self.count(state) > 0, "a number is counted with its state");
        *self.count(state) -= 1;
        // A number that is not in the pool is not counted.
        if next != State::NoData {
            *self.count(next) += 1;
        }
        self.directory.at(id).set_state(next);
        for action in actions {
            match action {
                Action::Join => self.join(id),
                Action::Leave => self.leave(id),
                Action::Lease => self.begin_lease(id, context),
                Action::Drop => self.drop_lease(id, context),
                Action::Forget => self.forget(id),
            }
        }
    }

    /// The number's registration ends: lists and deadlines that go with it.
    pub(in crate::numpool) fn unregister(&mut self, id: u32, context: TransitionContext<'_>) {
        self.transition(id, Trigger::Unreg, context);
        self.forget_registration(id);
    }

    fn forget_registration(&mut self, id: u32) {
        self.registrations.remove(id);
        self.leave_switch(id);
        self.switches.assign(id, None);
    }

    /// Takes a number off the list of the switch that registered it.
    pub(in crate::numpool) fn leave_switch(&mut self, id: u32) {
        if !self.sliced.is_empty() && self.switches.of(id) != NONE {
            self.sliced.number_left(id, self.switches.neighbours(id));
        }
        self.switches.unlist(id);
    }

    /// Whether a number is deleted when its call ends.
    pub(in crate::numpool) fn is_draining(&self, id: u32) -> bool {
        self.directory.get(id).place == Place::LastCall
    }

    /// How many numbers are in a state.
    pub(in crate::numpool) fn counted(&self, state: State) -> u32 {
        #[allow(clippy::indexing_slicing, reason = "there are as many counts as states")]
        self.counts[state as usize]
    }

    pub(in crate::numpool) fn count(&mut self, state: State) -> &mut u32 {
        #[allow(clippy::indexing_slicing, reason = "there are as many counts as states")]
        &mut self.counts[state as usize]
    }

    /// Joins the queue at its tail, unless it rests or is suspended: then it joins when that is over. A number whose caps
    /// are reached rests.
    pub(in crate::numpool) fn join(&mut self, id: u32) {
        let place = self.directory.get(id).place;
        if place == Place::Cooling || !invariant!(place == Place::Nowhere, "a number joins once") {
            return;
        }
        if self.suspensions.contains(id) {
            return;
        }
        if !self.caps_of(id).is_empty()
            && let Some(until) = self.limited_until(id)
        {
            self.rest(id, Rest { until, reason: RestReason::Limit });
            return;
        }
        self.directory.at(id).place = Place::Queue;
        self.queue.join(&mut self.directory, id);
        self.waiters.touch(|| self.directory.name_of(id));
        self.peers.list(id);
        self.sorted.joined(id, Numbers { directory: &self.directory, peers: &self.peers });
    }

    /// Leaves the queue. A number that rests is not there; it rests no longer for its caps, which only numbers do that would
    /// be in the queue otherwise.
    pub(in crate::numpool) fn leave(&mut self, id: u32) {
        if !self.directory.get(id).is_queued() {
            if self.is_limited(id) {
                self.stop_resting(id);
            }
            return;
        }
        let [_, behind] = self.directory.links(id);
        self.queue.leave(&mut self.directory, id);
        self.directory.at(id).put(Place::Nowhere, NONE);
        self.peers.unlist(id);
        self.sorted.left(id, behind, Numbers { directory: &self.directory, peers: &self.peers });
    }

    // Not inlined, like the other actions that are not for every transition: they would cost all others time.
    #[inline(never)]
    fn begin_lease(&mut self, id: u32, context: TransitionContext<'_>) {
        let Some(called) = context.called.expected("a call has a lease") else { return };
        let switch = called.switch.as_ref().map_or(NONE, |name| self.switches.refer(name));
        if let Some(peer) = &called.peer {
            self.peers.assign(id, Some(peer));
            if let Settings { peers: room @ 1.., peerttl, .. } = self.settings {
                self.last_numbers.remember(peer, called.number, self.applied, room, peerttl);
            }
        }
        let has_peer = called.peer.is_some();
        self.waiters.lease_began(&called.token);
        let holder = called.holder.as_ref().map_or(NONE, |name| self.holders.refer(name));
        let (token, since, links) = (called.token.clone(), context.at, [NONE; 2]);
        let lease = Lease { token, number: id, switch, since, holder, has_peer, links };
        let lease = self.leases.grant(lease, called.until);
        let record = self.directory.at(id);
        record.put(Place::Call, lease);
        record.uses = record.uses.saturating_add(1);
        self.least_uses = called.least_uses.or(self.least_uses);
        self.count_start();
        if !self.caps_of(id).is_empty() {
            let own = self.own_caps.longest_of(id, self.settings.days);
            let (window, longest) = (self.settings.longest_cap().max(own), self.longest_window());
            self.history.happened(id, STARTS, self.applied, window, longest);
        }
    }

    #[inline(never)]
    fn drop_lease(&mut self, id: u32, context: TransitionContext<'_>) {
        let record = self.directory.at(id);
        let lease = record.lease();
        self.draining -= u32::from(record.place == Place::LastCall);
        record.put(Place::Nowhere, NONE);
        record.set_since(context.at);
        if !self.sliced.is_empty() {
            self.sliced.lease_left(lease, self.leases.table().links(lease));
        }
        if !self.missed.is_empty() {
            self.missed.remove(&lease);
        }
        match self.leases.end(lease) {
            Some(lease) => {
                self.switches.release(lease.switch);
                self.holders.release(lease.holder);
            }
            None => invariant!("a number that carries a call has a lease"),
        }
        if let Some(rest) = context.rest {
            self.rest(id, rest);
        }
    }

    /// Removes a number that is in no queue and has no lease.
    #[inline(never)]
    fn forget(&mut self, id: u32) {
        self.stop_resting(id);
        self.forget_registration(id);
        self.peers.assign(id, None);
        self.history.forget(id);
        self.causes.forget(id);
        self.suspensions.remove(id);
        self.own_caps.set(id, Vec::new());
        let number = self.number(id);
        self.directory.remove(number);
        self.waiters.number_is_gone(number);
        if self.is_empty() {
            self.give_back_memory();
        }
    }

    /// An empty pool takes no more room than a new one.
    fn give_back_memory(&mut self) {
        let nothing = self.leases.is_empty() && self.cooling.is_empty() && self.registrations.is_empty();
        // A switch may be alive without a number.
        let is_alive = !self.heartbeats.is_empty();
        let unnamed =
            (self.switches.is_empty() || is_alive) && self.holders.is_empty() && self.peers.is_empty();
        invariant!(nothing && unnamed && self.queue.is_empty(), "nothing is left in a pool without numbers");
        self.registrations = Deadlines::default();
        self.cooling = Table::default();
        self.suspensions = Suspensions::default();
        self.history = History::default();
        self.own_caps = OwnCaps::default();
        self.cool_downs = Deadlines::default();
        self.leases = Leases::default();
        if !is_alive {
            self.switches = Groups::default();
            self.heartbeats = Deadlines::default();
            self.beat_ttls = Column::default();
        }
        self.holders = Groups::default();
        self.peers = Groups::default();
        self.sorted = SortedFree::default();
        self.least_uses = None;
    }
}
