//! The interface of a family to the module: what needs the server, beyond the state machine (`Machine`) of its keys.

use allot_core::shared::decision::Decision;
use allot_core::shared::event::MachineEvent;
use allot_core::shared::machine::{Events, Machine};
use allot_core::shared::outbox::Fields;
use allot_core::shared::refusal::Refusal;
use allot_core::shared::words::Words;
use redis_module::raw::RedisModuleType;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr};

use super::deadlines::NEVER;
use super::info::{Count, Counter};
use super::waiting::Grant;
use crate::ffi::{Context, KeyName};

/// Data of the process for all values of a family.
pub(crate) struct FamilyStatics {
    /// The server's handle of the value type.
    pub(crate) handle: AtomicPtr<RedisModuleType>,
    /// Sums of `Machine::GAUGES` over all keys of this process.
    pub(crate) gauges: [AtomicI64; MAX_GAUGES],
    /// Counts of the family's events, by the numbers of their counters.
    pub(crate) events: [Count; MAX_EVENT_COUNTERS],
}

/// The most counters that a family's events have.
const MAX_EVENT_COUNTERS: usize = 16;

/// The most gauges that a family has.
pub(crate) const MAX_GAUGES: usize = 2;

impl FamilyStatics {
    pub(crate) const fn new() -> Self {
        Self {
            handle: AtomicPtr::new(null_mut()),
            gauges: [const { AtomicI64::new(0) }; MAX_GAUGES],
            events: [const { Count::new() }; MAX_EVENT_COUNTERS],
        }
    }
}

/// The additions of the module to a family's state machine.
pub(crate) trait Family: Machine {
    /// The family's place in the table of families.
    const NUMBER: u8;
    /// The family's counters in `INFO` in addition to those of its events.
    const COUNTERS: &'static [&'static Counter];
    /// When the first maintenance of a key is due (`maintain`).
    const MAINTENANCE_FROM: i64 = NEVER;

    fn statics() -> &'static FamilyStatics;

    /// Writes the reply to a request to the key of this name, at the state after the events of its decision.
    fn reply(
        &self,
        ctx: Context<'_>,
        name: KeyName<'_>,
        now: i64,
        request: &Self::Request<'_>,
        reply: &Self::Reply,
    );

    /// How much is lost if the value is deleted: seats held and sold, leases, conferences, logins.
    fn in_use(&self) -> usize;

    /// Counts a refused request.
    fn count_refusal(refusal: &Refusal);

    /// Counts the decision of a request.
    fn count_decision(_decision: &Decision<Self::Event, Self::Reply>) {}

    /// Counts facts that depend on the state before the event is applied.
    fn observe(&self, _at: i64, _event: &Self::Event) {}

    /// Counts the event in `INFO`, and returns its notification, if it has one.
    fn announce(event: &Self::Event) -> Option<&'static CStr> {
        const { assert!(<Self::Event as MachineEvent>::Counter::MEMBERS.len() <= MAX_EVENT_COUNTERS) };
        if let Some((counter, by)) = event.counted()
            && let Some(count) = Self::statics().events.get(counter.number() as usize)
        {
            count.add(by);
        }
        event.notice()
    }

    /// Delivers a message that is not for a stream. Returns whether the message is done with; `None` for a message to a
    /// stream.
    fn deliver(_ctx: Context<'_>, _stream: &[u8], _message: &Fields) -> Option<bool> {
        None
    }

    /// Whether a client that waits for this key may be answered now. A step asks at its end.
    fn has_pending_grants(&self) -> bool {
        false
    }

    /// The next client to answer. The events are applied before the next call.
    fn grant(&mut self, _now: i64) -> Option<Grant<Events<Self::Event>>> {
        None
    }

    /// Completes the answer of a grant, at the state after its events.
    fn complete(&self, _grant: &mut Grant<Events<Self::Event>>) {}

    /// Forgets a waiter, or all of them.
    fn forget_waiters(&mut self, _waiter: Option<u64>) {}

    /// Streams of the key that the master maintains from time to time, from this place on. `place` is 0 again after the
    /// last of them.
    fn streams_to_maintain(&self, _place: &mut usize) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// When the streams of a key that changed at `now` must be maintained.
    fn maintenance_after_change(_now: i64) -> i64 {
        NEVER
    }

    /// Maintains one stream of a key, which is closed.
    fn maintain(_ctx: Context<'_>, _name: KeyName<'_>, _stream: &[u8], _now: i64) -> Maintained<Self::Event> {
        Maintained { events: Events::new(), again_at: NEVER }
    }
}

/// The result of the maintenance of one stream.
pub(crate) struct Maintained<E> {
    /// The events that follow for the key.
    pub(crate) events: Events<E>,
    /// When the stream must be maintained again.
    pub(crate) again_at: i64,
}
