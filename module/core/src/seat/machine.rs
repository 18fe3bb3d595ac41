//! Shows as a family.

use super::event::Event;
use super::request::{AddBest, Wait};
use super::{Reply, Request, Show, decide, decide_due};
use crate::shared::Millis;
use crate::shared::decision::Decided;
use crate::shared::machine::{Events, FollowUp, Gauge, Machine, own_methods};
use crate::shared::outbox::{Outbox, Sent};
use crate::shared::refusal::Refusal;
use std::ffi::CStr;

impl Machine for Show {
    type Event = Event;
    type Request<'a> = Request<'a>;
    type Reply = Reply;

    const TYPE: &'static CStr = c"allotseat";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"SEAT.APPLY";
    const GAUGES: &'static [Gauge<Self>] = &[
        Gauge { field: c"seat_live_holds", part: |show| show.claims().holds() as i64 },
        Gauge { field: c"seat_waiting", part: |show| show.waiters().len() as i64 },
    ];
    const DUE_AT_ONCE: usize = 500;

    own_methods!(Event);

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        let Event::Created { plan } = event else { return None };
        Some(Self::open(plan, at))
    }

    #[inline]
    fn prepare(&mut self, request: &Request<'_>) {
        match request {
            Request::Hold(hold)
            | Request::AddBest(AddBest { hold, .. })
            | Request::Wait(Wait { hold, .. }) => self.prepare(&hold.wish),
            _ => {}
        }
    }

    fn decide(&self, now: Millis, request: &Request<'_>) -> Decided<Event, Reply> {
        decide(self, now, request)
    }

    fn is_nothing(&self, reply: &Reply) -> bool {
        *reply == Reply::None
    }

    fn count_overdue(&self, now: Millis, limit: usize) -> usize {
        let deadlines = [&self.claims.deadlines, &self.waiters.deadlines, &self.blocks.deadlines];
        let passed = deadlines.map(|deadlines| deadlines.count_passed(now, limit));
        // The examination of the waiting list is one change more.
        (passed.iter().sum::<usize>() + usize::from(self.waiters.unserved)).min(limit)
    }

    // Every request asks, and mostly nothing is due and nobody waits.
    #[inline]
    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        if self.next_due().is_none_or(|earliest| earliest > now) {
            return Events::new();
        }
        decide_due(self, now, limit)
    }

    #[inline]
    fn follow_up(&mut self, now: Millis) -> FollowUp<Event> {
        self.follow_up(now)
    }

    fn outbox(&self) -> &Outbox {
        self.outbox()
    }

    fn stream_length(&self, _: &[u8]) -> u32 {
        self.events
    }

    fn flushed(sent: Sent) -> Event {
        Event::Flushed { count: sent.count(), last_id: sent.last_id }
    }
}
