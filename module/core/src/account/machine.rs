//! Books as a family.

use super::assign::STEP;
use super::event::Event;
use super::{Book, Reply, Request, decide, decide_over};
use crate::shared::Millis;
use crate::shared::decision::Decided;
use crate::shared::machine::{Events, Gauge, Machine, own_methods};
use crate::shared::outbox::{Outbox, Sent};
use crate::shared::refusal::Refusal;
use std::ffi::CStr;

impl Machine for Book {
    type Event = Event;
    type Request<'a> = Request<'a>;
    type Reply = Reply;

    const TYPE: &'static CStr = c"allotacct";
    const ENCODING: i32 = 1;
    const APPLY: &'static CStr = c"ACCOUNT.APPLY";
    const GAUGES: &'static [Gauge<Self>] =
        &[Gauge { field: c"account_live_logins", part: |book| book.live_logins() as i64 }];
    const DUE_AT_ONCE: usize = 1000;

    own_methods!(Event);

    fn open(event: &Event, at: Millis) -> Option<Result<Self, Refusal>> {
        match event {
            Event::Opened(settings) => Some(Ok(Self::open(settings.clone(), at))),
            _ => None,
        }
    }

    fn decide(&self, now: Millis, request: &Request<'_>) -> Decided<Event, Reply> {
        decide(self, now, request)
    }

    fn is_nothing(&self, reply: &Reply) -> bool {
        let Reply::Picked(module, name, _) = reply else { return false };
        let module = self.find_module(module);
        let instance = module.and_then(|id| self.find_instance(id, name)).and_then(|id| self.instance(id));
        instance.is_some_and(|instance| self.pick(instance, 1).is_empty())
    }

    fn count_overdue(&self, now: Millis, limit: usize) -> usize {
        let deadlines = [&self.logins, &self.thaws, &self.cycles, &self.away];
        deadlines.map(|deadlines| deadlines.count_passed(now, limit)).iter().sum::<usize>().min(limit)
    }

    /// A request of an instance performs no step of assignment while an assignment is in progress, because the timer
    /// continues this assignment. Otherwise it performs the one step that it makes possible, for example by a logout.
    fn work_with(&self, request: &Request<'_>) -> usize {
        match request {
            Request::Instance(_) if !self.is_even() => 0,
            Request::Instance(_) | Request::Manager(..) => STEP,
        }
    }

    fn continue_work(&mut self, _now: Millis, limit: usize) -> Events<Event> {
        if self.has_room() { self.decide_assignment(limit) } else { Events::new() }
    }

    fn due(&self, now: Millis, limit: usize) -> Events<Event> {
        decide_over(self, now, limit)
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
