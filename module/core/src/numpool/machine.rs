//! Pools as a family.

use super::event::Event;
use super::{Pool, Reply, Request, decide, decide_due};
use crate::shared::Millis;
use crate::shared::decision::Decided;
use crate::shared::machine::{Events, Gauge, Machine, own_methods};
use crate::shared::outbox::{Outbox, Sent};
use crate::shared::refusal::Refusal;
use smallvec::smallvec;
use std::ffi::CStr;

impl Machine for Pool {
    type Event = Event;
    type Request<'a> = Request<'a>;
    type Reply = Reply;

    const TYPE: &'static CStr = c"allotpool";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"NUMPOOL.APPLY";
    const GAUGES: &'static [Gauge<Self>] =
        &[Gauge { field: c"numpool_live_leases", part: |pool| pool.live_leases() as i64 }];
    const DUE_AT_ONCE: usize = 1000;

    own_methods!(Event);

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        Self::open(event, at).map(Ok)
    }

    fn prepare(&mut self, request: &Request<'_>) {
        if let Request::Call(call) = request
            && call.number.is_none()
        {
            self.begin_to_sort(call.pick, !call.prefixes.is_empty());
        }
    }

    fn take_over(&self) -> Events<Event> {
        if self.heartbeats.is_empty() { Events::new() } else { smallvec![Event::BegunAgain] }
    }

    fn decide(&self, now: Millis, request: &Request<'_>) -> Decided<Event, Reply> {
        decide(self, now, request)
    }

    fn is_nothing(&self, reply: &Reply) -> bool {
        *reply == Reply::None
    }

    fn count_overdue(&self, now: Millis, limit: usize) -> usize {
        let deadlines = [
            self.leases.deadlines(),
            &self.cool_downs,
            &self.registrations,
            &self.heartbeats,
            self.suspensions.ends(),
        ];
        deadlines.map(|deadlines| deadlines.count_passed(now, limit)).iter().sum::<usize>().min(limit)
    }

    fn continue_work(&mut self, now: Millis, limit: usize) -> Events<Event> {
        self.continue_sorting();
        self.finish_work(now);
        self.continue_sliced(now, limit)
    }

    /// No call began, and none ended, later than now. Numbers whose calls count again for the caps leave the queue.
    fn follow_set_back(&mut self) {
        let now = self.applied;
        self.history.forget_all(|entry| entry.end_at(now));
        self.starts.iter_mut().for_each(|start| *start = now.min(*start));
        self.last_numbers.end_at(now);
        self.missed.clear();
        self.waiters.hold(None);
        self.follow_caps();
    }

    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_due(self, now, limit)
    }

    fn outbox(&self) -> &Outbox {
        self.outbox()
    }

    fn stream_length(&self, _: &[u8]) -> u32 {
        self.settings().events
    }

    fn flushed(sent: Sent) -> Event {
        Event::Flushed { count: sent.count(), last_id: sent.last_id }
    }
}
