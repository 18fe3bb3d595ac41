//! `NUMPOOL.*`: the number pools' state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod waiting;
mod writes;

use allot_core::conf::Realm;
use allot_core::conf::conference::Conference;
use allot_core::numpool::{Decision, Event, Number, Pool, Reply, Request};
use allot_core::shared::invariant::Expected;
use allot_core::shared::machine::Events;
use allot_core::shared::refusal::Refusal;

use crate::engine::family::{Family, FamilyStatics, Maintained};
use crate::engine::info::Counter;
use crate::engine::value::Value;
use crate::engine::waiting::{Grant, cancel_undo};
use crate::ffi::context::{Answer, Mode};
use crate::ffi::value::Found;
use crate::ffi::{Context, KeyName, OwnedString};

pub(crate) use commands::COMMANDS;
pub(crate) use writes::call_number;

/// How often a pool looks whether the realms that hold its numbers have the conferences, in milliseconds.
const LOOKS_FOR_REALMS: i64 = 1000;
/// How many places of leases are looked at in one step.
const LOOKED_AT: u32 = 2000;

static STATICS: FamilyStatics = FamilyStatics::new();

/// Compares the leases of a realm from a place on with its conferences. Returns the ends of leases whose conference is
/// gone. A realm that is on its way to another node is not known to lack any.
fn look_at_realm(ctx: Context<'_>, name: KeyName<'_>, realm: &[u8], first: u32, now: i64) -> Events<Event> {
    let places = first..first.saturating_add(LOOKED_AT);
    let kind = ctx.ask(c"TYPE", &[realm]);
    let mut pool = ctx.open(name, Mode::Read);
    let Found::Value(pool) = pool.value::<Value<Pool>>() else { return Events::new() };
    match kind {
        Answer::Text(kind) if kind == b"none" => pool.state.look_at_held(realm, places, now, |_| false),
        Answer::Text(_) => {
            let realm_name = OwnedString::new(realm);
            let mut key = ctx.open(realm_name.name(), Mode::Read);
            let conferences = match key.value::<Value<Realm>>() {
                Found::Value(value) => Some(&value.state),
                Found::OtherType => None,
                Found::Nothing => return Events::new(),
            };
            let has = |number: Number| {
                let conference = conferences.and_then(|realm| realm.conference_called(&number.text()));
                conference.is_some_and(Conference::is_live)
            };
            pool.state.look_at_held(realm, places, now, has)
        }
        _ => Events::new(),
    }
}

impl Family for Pool {
    const NUMBER: u8 = 1;
    const MAINTENANCE_FROM: i64 = 0;
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;

    fn statics() -> &'static FamilyStatics {
        &STATICS
    }

    fn reply(&self, ctx: Context<'_>, name: KeyName<'_>, _: i64, _: &Request<'_>, reply: &Reply) {
        match reply {
            Reply::Ok => ctx.reply_ok(),
            Reply::None => ctx.reply_nothing(),
            Reply::Integer(value) => ctx.reply_integer(*value),
            Reply::Lease(record) => {
                // Perhaps the retry of a call whose connection ended before the answer was sent.
                cancel_undo(ctx.selected_db(), name, &record.token);
                replies::reply_lease(ctx, record);
            }
            Reply::Alive(alive) => replies::reply_alive(ctx, *alive),
            Reply::Listed(listed) => replies::reply_listed(ctx, listed),
            Reply::Reconciled(outcome) => replies::reply_reconciled(ctx, outcome),
        }
    }

    fn in_use(&self) -> usize {
        self.live_leases()
    }

    fn count_refusal(_: &Refusal) {
        counters::NUMPOOL_REFUSED.add(1);
    }

    fn count_decision(decision: &Decision) {
        if decision.reply == Reply::None {
            counters::NUMPOOL_NONE_FREE.add(1);
        }
    }

    fn has_pending_grants(&self) -> bool {
        self.has_pending_grants() || self.has_sliced()
    }

    fn grant(&mut self, now: i64) -> Option<Grant<Events<Event>>> {
        waiting::grant(self, now)
    }

    /// The realms that hold leases, each behind the place of the first lease to look at. Their keys are looked at as
    /// streams of other families are.
    fn streams_to_maintain(&self, place: &mut usize) -> Vec<Vec<u8>> {
        let holders = self.holders();
        let first = *place as u32;
        let next = first.saturating_add(LOOKED_AT);
        *place = if holders.is_empty() || next >= self.lease_places() { 0 } else { next as usize };
        holders.into_iter().map(|realm| [&first.to_be_bytes()[..], realm].concat()).collect()
    }

    /// Ends leases whose realm lacks the conference.
    fn maintain(ctx: Context<'_>, name: KeyName<'_>, look: &[u8], now: i64) -> Maintained<Event> {
        let (mut events, again_at) = (Events::new(), now + LOOKS_FOR_REALMS);
        let look = look.split_first_chunk();
        if let Some((first, realm)) = look.expected("a look at a realm begins at a place") {
            events = look_at_realm(ctx, name, realm, u32::from_be_bytes(*first), now);
        }
        Maintained { events, again_at }
    }

    fn forget_waiters(&mut self, waiter: Option<u64>) {
        match waiter {
            Some(waiter) => self.stop_waiting(waiter),
            None => self.forget_waiters(),
        }
    }
}
