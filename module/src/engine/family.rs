//! What a family is to the module: a deterministic state machine (`Machine`) behind a key, and a little glue.

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
use crate::ffi::{Context, KeyName};

/// What the process keeps for all values of a family.
pub(crate) struct Shelf {
    /// The server's handle of the value type.
    pub(crate) handle: AtomicPtr<RedisModuleType>,
    /// Sum of `Family::gauge` over all keys of this process.
    pub(crate) gauge: AtomicI64,
    /// Counts of the family's events, by the numbers of their counters.
    pub(crate) events: [Count; MAX_EVENT_COUNTERS],
}

/// The most counters that a family's events have.
const MAX_EVENT_COUNTERS: usize = 16;

impl Shelf {
    pub(crate) const fn new() -> Self {
        Self {
            handle: AtomicPtr::new(null_mut()),
            gauge: AtomicI64::new(0),
            events: [const { Count::new() }; MAX_EVENT_COUNTERS],
        }
    }
}

/// What the module adds to a family's state machine.
pub(crate) trait Family: Machine {
    /// Name of the value type, nine characters.
    const TYPE: &'static CStr;
    /// Version of the encoding of a value.
    const ENCODING: i32;
    /// The internal command that carries events to replicas and the AOF.
    const APPLY: &'static CStr;
    /// The gauge's field in `INFO`.
    const GAUGE: &'static CStr;
    /// The family's counters in `INFO` in addition to those of its events.
    const COUNTERS: &'static [&'static Counter];
    /// How many messages a step may send; what is left is sent by the timer.
    const SENT_AT_ONCE: usize = usize::MAX;
    /// How many due events a request applies before it is decided; what is left is applied by the timer.
    const DUE_AT_ONCE: usize = usize::MAX;
    /// When the first maintenance of a key is due (`maintain`).
    const MAINTENANCE_FROM: i64 = NEVER;

    fn shelf() -> &'static Shelf;
    /// What of this state is counted in `INFO`: its live holds, leases and the like.
    fn gauge(&self) -> i64;

    /// Counts what depends on the state before the event is applied.
    fn observe(&self, _at: i64, _event: &Self::Event) {}
    /// Counts the event in `INFO`; its notification, if it has one.
    fn announce(event: &Self::Event) -> Option<&'static CStr> {
        const { assert!(<Self::Event as MachineEvent>::Counter::MEMBERS.len() <= MAX_EVENT_COUNTERS) };
        if let Some((counter, by)) = event.counted()
            && let Some(count) = Self::shelf().events.get(counter.number() as usize)
        {
            count.add(by);
        }
        event.notice()
    }

    /// Delivers a message that is for no stream; whether that is done for good. `None` for all others.
    fn deliver(_ctx: Context<'_>, _stream: &[u8], _message: &Fields) -> Option<bool> {
        None
    }

    /// What the master does for a key from time to time, in addition to its deadlines: the events that follow, and when the
    /// next maintenance is due. `place` is kept from one time to the next.
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

/// Has a family's counters and its gauge told in `INFO`; once, at load.
pub(crate) fn add_to_info<F: Family>() {
    let members = <F::Event as MachineEvent>::Counter::MEMBERS.iter();
    // No word of ours has a byte 0.
    let field = |word: &str| CString::new(word).unwrap_or_default();
    let events = members.zip(&F::shelf().events).map(|(counter, count)| (field(counter.word()), count));
    info::add_source(info::Source {
        events: events.collect(),
        counters: F::COUNTERS,
        gauge: F::GAUGE,
        value: &F::shelf().gauge,
    });
}
