//! The record of a number, in twenty bytes.

use super::cells::State;
use super::directory::Directory;
use crate::shared::Millis;
use crate::shared::list::{Links, NONE};

/// A number's record.
#[derive(Clone, Copy, Debug)]
pub(in crate::numpool) struct Record {
    /// Its neighbours in the queue; for a number that is not there: its lease, or its cool-down, and `NONE`.
    links: [u32; 2],
    /// Calls that it was given for; stops at 2^32 - 1.
    pub(in crate::numpool) uses: u32,
    since: [u16; 3],
    state: State,
    /// Where else it is.
    pub(in crate::numpool) place: Place,
}

/// What a number's links are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::numpool) enum Place {
    /// Nothing.
    #[default]
    Nowhere,
    /// Its neighbours in the queue.
    Queue,
    /// Its cool-down.
    Cooling,
    /// Its lease.
    Call,
    /// Its lease, at whose end it goes.
    LastCall,
}

impl Default for Record {
    fn default() -> Self {
        Self { links: [NONE; 2], uses: 0, since: [0; 3], state: State::NoData, place: Place::Nowhere }
    }
}

/// The last time that a record can hold: the year 10889.
pub(in crate::numpool) const LATEST: Millis = (1 << 48) - 1;

impl Record {
    /// The record of a number that is new at `now`.
    pub(in crate::numpool) fn new(now: Millis) -> Self {
        let mut record = Self { state: State::IdleDown, ..Self::default() };
        record.set_since(now);
        record
    }

    pub(in crate::numpool) fn state(self) -> State {
        self.state
    }

    pub(in crate::numpool) fn set_state(&mut self, state: State) {
        self.state = state;
    }

    /// Since when it is idle; without meaning while it is busy.
    pub(in crate::numpool) fn since(self) -> Millis {
        let [low, middle, high] = self.since.map(Millis::from);
        high << 32 | middle << 16 | low
    }

    pub(in crate::numpool) fn set_since(&mut self, since: Millis) {
        let since = since.clamp(0, LATEST);
        self.since = [since as u16, (since >> 16) as u16, (since >> 32) as u16];
    }

    /// The lease of a number that carries a call, or `NONE`.
    pub(in crate::numpool) fn lease(self) -> u32 {
        let [lease, _] = self.links;
        if matches!(self.place, Place::Call | Place::LastCall) { lease } else { NONE }
    }

    /// The cool-down of a number that cools down, or `NONE`.
    pub(in crate::numpool) fn cool_down(self) -> u32 {
        let [cool_down, _] = self.links;
        if self.place == Place::Cooling { cool_down } else { NONE }
    }

    /// Puts it somewhere that is not the queue, with the lease or cool-down that belongs to the place.
    pub(in crate::numpool) fn put(&mut self, place: Place, what: u32) {
        self.place = place;
        self.links = [what, NONE];
    }

    /// Whether it waits in the queue.
    pub(in crate::numpool) fn is_queued(self) -> bool {
        self.place == Place::Queue
    }
}

impl Links for Directory<Record> {
    fn links(&self, id: u32) -> [u32; 2] {
        self.get(id).links
    }

    fn set_links(&mut self, id: u32, links: [u32; 2]) {
        self.at(id).links = links;
    }
}

const _: () = assert!(size_of::<Record>() == 20);
