//! `SEAT.*`: the seat family's state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod writes;
mod zmpop;

use allot_core::seat::event::Event;
use allot_core::seat::{Show, decide_due};
use allot_core::shared::codec::{Damaged, Writer};
use allot_core::shared::machine::MachineEvent;
use allot_core::shared::outbox::Outbox;
use allot_core::shared::refusal::Refusal;
use smallvec::SmallVec;
use std::ffi::CStr;

use crate::engine::family::{Family, Shelf};
use crate::engine::info::Counter;

pub(crate) use commands::COMMANDS;

static SHELF: Shelf = Shelf::new();

impl Family for Show {
    type Event = Event;
    const TYPE: &'static CStr = c"allotseat";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"SEAT.APPLY";
    const GAUGE: &'static CStr = c"seat_live_holds";
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;

    fn shelf() -> &'static Shelf {
        &SHELF
    }

    fn gauge(&self) -> i64 {
        self.claims().holds() as i64
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
        match event {
            Event::Created { plan } => Some(Self::open(plan, at)),
            _ => None,
        }
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
        let (counter, notice) = match event {
            Event::Created { .. } => (None, c"allot.seat.created"),
            Event::Altered { .. } | Event::Limited { .. } => (None, c"allot.seat.altered"),
            Event::Held(_) => (Some(&counters::SEAT_HELD), c"allot.seat.held"),
            Event::Extended { .. } => (None, c"allot.seat.extended"),
            Event::Confirmed { .. } => (Some(&counters::SEAT_CONFIRMED), c"allot.seat.confirmed"),
            Event::Released { .. } => (Some(&counters::SEAT_RELEASED), c"allot.seat.released"),
            Event::Expired { .. } => (Some(&counters::SEAT_EXPIRED), c"allot.seat.expired"),
            Event::Refunded { .. } => (Some(&counters::SEAT_REFUNDED), c"allot.seat.refunded"),
            Event::Blocked { .. } => (None, c"allot.seat.blocked"),
            Event::Unblocked { .. } => (None, c"allot.seat.unblocked"),
            Event::Flushed { .. } => return None,
        };
        if let Some(counter) = counter {
            counter.add(1);
        }
        Some(notice)
    }

    fn outbox(&self) -> Option<&Outbox> {
        Some(self.outbox())
    }

    fn stream_length(&self, _: &[u8]) -> u32 {
        self.event_stream_length()
    }

    fn flushed(sent: Vec<(Vec<u8>, u32)>, last_id: (u64, u64)) -> Option<Event> {
        // A show has one stream.
        Some(Event::Flushed { count: sent.iter().map(|(_, count)| count).sum(), last_id })
    }
}
