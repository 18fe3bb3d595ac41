//! What a family is to the module: a deterministic state machine behind a key.

use allot_core::shared::codec::{Damaged, Writer};
use allot_core::shared::invariant::Checked;
use allot_core::shared::outbox::{Fields, Outbox};
use allot_core::shared::refusal::Refusal;
use redis_module::raw::RedisModuleType;
use smallvec::SmallVec;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr};

use super::deadlines::NEVER;
use super::info::Counter;
use crate::ffi::{Context, KeyName};

/// What the process keeps for all values of a family.
pub(crate) struct Shelf {
    /// The server's handle of the value type.
    pub(crate) handle: AtomicPtr<RedisModuleType>,
    /// Sum of `Family::gauge` over all keys of this process.
    pub(crate) gauge: AtomicI64,
}

impl Shelf {
    pub(crate) const fn new() -> Self {
        Self { handle: AtomicPtr::new(null_mut()), gauge: AtomicI64::new(0) }
    }
}

/// A family's state machine, as the shared parts see it.
pub(crate) trait Family: Clone + Send + Sized + 'static {
    /// What happens to a state.
    type Event;
    /// Name of the value type, nine characters.
    const TYPE: &'static CStr;
    /// Version of the encoding of a value.
    const ENCODING: i32;
    /// The internal command that carries events to replicas and the AOF.
    const APPLY: &'static CStr;
    /// The gauge's field in `INFO`.
    const GAUGE: &'static CStr;
    /// The family's counters in `INFO`.
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

    fn decode(bytes: &[u8]) -> Result<Self, Damaged>;
    fn encode(&self) -> Vec<u8>;
    fn allocated(&self) -> usize;
    fn free_effort(&self) -> usize;

    /// *Now* of this key: the greater of the clock and the last time applied.
    fn now(&self, clock: i64) -> i64;
    /// When the earliest deadline of this state comes.
    fn next_due(&self) -> Option<i64>;
    /// The events that are due, at most `limit` of them.
    fn due(&self, now: i64, limit: usize) -> SmallVec<[Self::Event; 1]>;
    /// Those of them that a command applies before it is decided; the rest is left to the timer.
    fn due_before_all(&self, now: i64, limit: usize) -> SmallVec<[Self::Event; 1]> {
        self.due(now, limit)
    }

    /// The state that the first event of a key makes; `None` for any other event.
    fn open(event: &Self::Event, at: i64) -> Option<Result<Self, Refusal>>;
    /// Checks all cross-references and sums of the state. O(size).
    fn check(&self) -> Checked {
        Ok(())
    }
    fn admits(&self, event: &Self::Event) -> Result<(), Damaged>;
    fn apply(&mut self, at: i64, event: &Self::Event);

    fn encode_event(event: &Self::Event, out: &mut Writer);
    fn decode_events(payload: &[u8]) -> Result<SmallVec<[Self::Event; 1]>, Damaged>;
    /// Counts the event in `INFO`; its notification, if it has one.
    fn announce(event: &Self::Event) -> Option<&'static CStr>;

    /// Messages that wait for their streams; `None` for a family that tells by notifications alone.
    fn outbox(&self) -> Option<&Outbox> {
        None
    }
    /// How many entries the stream beside the key keeps.
    fn stream_length(&self, _stream: &[u8]) -> u32 {
        0
    }
    /// The event that messages are in their streams: how many of each stream, in order.
    fn flushed(_sent: Vec<(Vec<u8>, u32)>, _last_id: (u64, u64)) -> Option<Self::Event> {
        None
    }

    /// Delivers a message that is for no stream; whether that is done for good. `None` for all others.
    fn deliver(_ctx: Context<'_>, _stream: &[u8], _message: &Fields) -> Option<bool> {
        None
    }

    /// What the master does for a key from time to time, besides its deadlines: the events that follow, and when the
    /// next maintenance is due. `place` is kept from one time to the next.
    fn maintain(
        &self,
        _ctx: Context<'_>,
        _name: KeyName<'_>,
        _now: i64,
        _place: &mut usize,
    ) -> (SmallVec<[Self::Event; 1]>, i64) {
        (SmallVec::new(), NEVER)
    }
}
