//! `NUMPOOL.*`: the number pools' state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod writes;

use allot_core::numpool::event::{Cause, Event};
use allot_core::numpool::{Pool, decide_due};
use allot_core::shared::codec::{Damaged, Writer};
use allot_core::shared::machine::MachineEvent;
use allot_core::shared::outbox::Outbox;
use allot_core::shared::refusal::Refusal;
use smallvec::SmallVec;
use std::ffi::CStr;

use crate::engine::family::{Family, Shelf};
use crate::engine::info::Counter;

pub(crate) use commands::COMMANDS;
pub(crate) use writes::call_number;

static SHELF: Shelf = Shelf::new();

impl Family for Pool {
    type Event = Event;
    const TYPE: &'static CStr = c"allotpool";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"NUMPOOL.APPLY";
    const GAUGE: &'static CStr = c"numpool_live_leases";
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn gauge(&self) -> i64 {
        self.live_leases() as i64
    }

    fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        Self::decode(bytes)
    }

    fn encode(&self) -> Vec<u8> {
        self.encode()
    }

    fn allocated(&self) -> usize {
        self.allocated()
    }

    fn free_effort(&self) -> usize {
        self.free_effort()
    }

    fn now(&self, clock: i64) -> i64 {
        self.now(clock)
    }

    fn next_due(&self) -> Option<i64> {
        self.next_due()
    }

    fn due(&self, now: i64, limit: usize) -> SmallVec<[Event; 1]> {
        decide_due(self, now, limit)
    }

    fn open(event: &Event, at: i64) -> Option<Result<Self, Refusal>> {
        Self::open(event, at).map(Ok)
    }

    fn admits(&self, event: &Event) -> Result<(), Damaged> {
        self.admits(event)
    }

    fn apply(&mut self, at: i64, event: &Event) {
        self.apply(at, event);
    }

    fn encode_event(event: &Event, out: &mut Writer) {
        event.encode(out);
    }

    fn decode_events(payload: &[u8]) -> Result<SmallVec<[Event; 1]>, Damaged> {
        Event::decode_all(payload)
    }

    fn announce(event: &Event) -> Option<&'static CStr> {
        Some(match event {
            Event::Created(_) => c"allot.numpool.created",
            Event::Configured(_) => c"allot.numpool.configured",
            Event::Added(_) => c"allot.numpool.added",
            Event::Deleted(_) => c"allot.numpool.deleted",
            Event::Draining(_) => c"allot.numpool.draining",
            Event::Registered { .. } => c"allot.numpool.registered",
            Event::Unregistered(_) | Event::Left { .. } => c"allot.numpool.unregistered",
            Event::Lapsed(numbers) => {
                counters::NUMPOOL_LAPSED.add(numbers.len() as u64);
                c"allot.numpool.lapsed"
            }
            Event::Called(_) => {
                counters::NUMPOOL_CALLED.add(1);
                c"allot.numpool.called"
            }
            Event::Ended { numbers, cause, .. } => {
                let (counter, notice) = match cause {
                    Cause::HungUp => (&counters::NUMPOOL_HUNGUP, c"allot.numpool.hungup"),
                    Cause::Expired => (&counters::NUMPOOL_EXPIRED, c"allot.numpool.expired"),
                    Cause::Reconciled => (&counters::NUMPOOL_RECONCILED, c"allot.numpool.reconciled"),
                };
                counter.add(numbers.len() as u64);
                notice
            }
            Event::Renewed { .. } => c"allot.numpool.renewed",
            Event::Cooled(_) => c"allot.numpool.cooled",
            Event::Flushed { .. } => return None,
        })
    }

    fn outbox(&self) -> Option<&Outbox> {
        Some(self.outbox())
    }

    fn stream_length(&self, _: &[u8]) -> u32 {
        self.settings().events
    }

    fn flushed(sent: Vec<(Vec<u8>, u32)>, last_id: (u64, u64)) -> Option<Event> {
        // A pool has one stream.
        Some(Event::Flushed { count: sent.iter().map(|(_, count)| count).sum(), last_id })
    }
}
