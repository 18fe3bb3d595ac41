//! The interface of a family to the module: a deterministic state machine (`Machine`) for each key, and some additions.

use allot_core::shared::event::MachineEvent;
use allot_core::shared::machine::{Events, Machine};
use allot_core::shared::outbox::Fields;
use allot_core::shared::words::Words;
use redis_module::raw::RedisModuleType;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr};

use super::deadlines::NEVER;
use super::info::{self, Count, Counter};
use super::waiting::Grant;
use crate::ffi::{Context, KeyName};

/// Data of the process for all values of a family.
pub(crate) struct Shelf {
    /// The server's handle of the value type.
    pub(crate) handle: AtomicPtr<RedisModuleType>,
    /// Sums of `Family::GAUGES` over all keys of this process.
    pub(crate) gauges: [AtomicI64; MAX_GAUGES],
    /// Counts of the family's events, by the numbers of their counters.
    pub(crate) events: [Count; MAX_EVENT_COUNTERS],
}

/// The most counters that a family's events have.
const MAX_EVENT_COUNTERS: usize = 16;

/// The most gauges that a family has.
pub(crate) const MAX_GAUGES: usize = 2;

/// A gauge of a family in `INFO`: live holds, live leases and the like.
pub(crate) struct Gauge<F> {
    /// Its field.
    pub(crate) field: &'static CStr,
    /// The part of one state.
    pub(crate) part: fn(&F) -> i64,
}

impl Shelf {
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
    /// Name of the value type, nine characters.
    const TYPE: &'static CStr;
    /// Version of the encoding of a value.
    const ENCODING: i32;
    /// The internal command that carries events to replicas and the AOF.
    const APPLY: &'static CStr;
    /// The family's gauges in `INFO`.
    const GAUGES: &'static [Gauge<Self>];
    /// The family's counters in `INFO` in addition to those of its events.
    const COUNTERS: &'static [&'static Counter];
    /// How many messages a step may send; the timer sends the others.
    const SENT_AT_ONCE: usize = usize::MAX;
    /// How many due events are applied before a request is decided; the timer applies the others.
    const DUE_AT_ONCE: usize = usize::MAX;
    /// When the first maintenance of a key is due (`maintain`).
    const MAINTENANCE_FROM: i64 = NEVER;

    fn shelf() -> &'static Shelf;

    /// Counts facts that depend on the state before the event is applied.
    fn observe(&self, _at: i64, _event: &Self::Event) {}
    /// Counts the event in `INFO`, and returns its notification, if it has one.
    fn announce(event: &Self::Event) -> Option<&'static CStr> {
        const { assert!(<Self::Event as MachineEvent>::Counter::MEMBERS.len() <= MAX_EVENT_COUNTERS) };
        if let Some((counter, by)) = event.counted()
            && let Some(count) = Self::shelf().events.get(counter.number() as usize)
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

    /// Goes on with a request that is carried out in slices: the events of the next slice, which concerns at most `limit`
    /// elements. The timer asks for slices while the state's next deadline has passed.
    fn continue_requests(&mut self, _now: i64, _limit: usize) -> Events<Self::Event> {
        Events::new()
    }

    /// Forgets a waiter, or all of them.
    fn forget_waiters(&mut self, _waiter: Option<u64>) {}

    /// Maintenance of a key by the master from time to time, in addition to its deadlines. Returns the events that
    /// follow, and when the next maintenance is due. `place` is kept from one maintenance to the next.
    fn maintain(
        &self,
        _ctx: Context<'_>,
        _name: KeyName<'_>,
        _now: i64,
        _place: &mut usize,
    ) -> (Events<Self::Event>, i64) {
        (Events::new(), NEVER)
    }
}

/// Registers a family's counters and gauges for `INFO`; once, at load.
pub(crate) fn add_to_info<F: Family>() {
    const { assert!(F::GAUGES.len() <= MAX_GAUGES) };
    let members = <F::Event as MachineEvent>::Counter::MEMBERS.iter();
    // No word of the module contains a zero byte.
    let field = |word: &str| CString::new(word).unwrap_or_default();
    let events = members.zip(&F::shelf().events).map(|(counter, count)| (field(counter.word()), count));
    let gauges = F::GAUGES.iter().zip(&F::shelf().gauges).map(|(gauge, sum)| (gauge.field, sum));
    info::add_source(info::Source {
        events: events.collect(),
        counters: F::COUNTERS,
        gauges: gauges.collect(),
    });
}
