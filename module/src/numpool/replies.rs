//! Replies that are records, field by field in the order of the documentation.

use allot_core::numpool::causes::Cause;
use allot_core::numpool::decide::{Alive, Listed, Reconciled};
use allot_core::numpool::read::{LiveLease, NumberRecord, SwitchRecord};
use allot_core::numpool::settings::{Cap, DAY};
use allot_core::numpool::{LeaseRecord, Pool};

use crate::engine::reply::{Field, reply_record};
use crate::ffi::Context;

pub(super) fn reply_lease(ctx: Context<'_>, record: &LeaseRecord) {
    let number = record.number.text();
    let fields = [
        ("number", Field::Text(&number)),
        ("lease", Field::Text(&record.token)),
        ("until", Field::number(record.until)),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_reconciled(ctx: Context<'_>, outcome: &Reconciled) {
    let fields = [
        ("kept", Field::Number(outcome.kept as i64)),
        ("freed", Field::Number(outcome.freed as i64)),
        ("unknown", Field::list(&outcome.unknown, |token| Field::Text(token))),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_listed(ctx: Context<'_>, listed: &Listed) {
    let missing = Field::list(&listed.missing, |number| Field::Made(number.to_string()));
    reply_record(ctx, &[("done", Field::Number(listed.done)), ("missing", missing)]);
}

pub(super) fn reply_number(ctx: Context<'_>, record: &NumberRecord) {
    let number = record.number.text();
    let suspension = record.suspension.as_ref();
    let cause = suspension.and_then(|suspension| suspension.cause.as_ref());
    let until = suspension.and_then(|suspension| suspension.until);
    let fields = [
        ("number", Field::Text(&number)),
        ("state", Field::Text(record.state.word().as_bytes())),
        ("lease", Field::maybe(record.lease.as_deref())),
        ("until", Field::number(record.until)),
        ("reg_switch", Field::maybe(record.reg_switch.as_deref())),
        ("call_switch", Field::maybe(record.call_switch.as_deref())),
        ("peer", Field::maybe(record.peer.as_deref())),
        ("uses", Field::Number(record.uses.into())),
        ("idle_since", Field::number(record.idle_since)),
        ("cool_until", Field::number(record.cool_until)),
        ("cause", Field::maybe(record.cause.as_deref())),
        ("quarantine_until", Field::number(until.filter(|_| cause.is_some()))),
        ("limit_until", Field::number(record.limit_until)),
        ("suspended", Field::Number(suspension.is_some().into())),
        ("suspend_cause", Field::maybe(cause.map(|word| &word.0[..]))),
        ("suspend_until", Field::number(until)),
        ("caps", Field::list(&record.caps, cap)),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_live_lease(ctx: Context<'_>, lease: &LiveLease) {
    let number = lease.number.text();
    let fields = [
        ("token", Field::Text(&lease.token)),
        ("number", Field::Text(&number)),
        ("call_switch", Field::maybe(lease.call_switch.as_deref())),
        ("peer", Field::maybe(lease.peer.as_deref())),
        ("since", Field::Number(lease.since)),
        ("until", Field::number(lease.until)),
        ("holder", Field::maybe(lease.holder.as_deref())),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_alive(ctx: Context<'_>, alive: Alive) {
    let (until, calls) = (Field::Number(alive.until), Field::Number(alive.calls.into()));
    reply_record(ctx, &[("until", until), ("calls", calls)]);
}

pub(super) fn reply_switch(ctx: Context<'_>, record: &SwitchRecord) {
    let fields = [
        ("switch", Field::Text(&record.switch)),
        ("until", Field::number(record.until)),
        ("numbers", Field::Number(record.numbers.into())),
        ("calls", Field::Number(record.calls.into())),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_info(ctx: Context<'_>, pool: &Pool, now: i64) {
    let (totals, settings, (causes, others)) = (pool.totals(), pool.settings(), pool.causes());
    let fields = [
        ("total", Field::Number(totals.total.into())),
        ("idle_up", Field::Number(totals.idle_up.into())),
        ("idle_down", Field::Number(totals.idle_down.into())),
        ("busy_up", Field::Number(totals.busy_up.into())),
        ("busy_down", Field::Number(totals.busy_down.into())),
        ("cooling", Field::Number(totals.cooling.into())),
        ("leases", Field::Number(totals.leases.into())),
        ("lease", Field::Number(settings.lease)),
        ("cooldown", Field::Number(settings.cooldown)),
        ("regttl", Field::Number(settings.regttl)),
        ("pick", Field::Text(settings.pick.word().as_bytes())),
        ("events", Field::Number(settings.events.into())),
        ("draining", Field::Number(totals.draining.into())),
        ("waiting", Field::Number(totals.waiting.into())),
        ("limited", Field::Number(totals.limited.into())),
        ("suspended", Field::Number(totals.suspended.into())),
        ("quarantined", Field::Number(totals.quarantined.into())),
        ("caps", Field::list(&settings.caps, cap)),
        ("causes", Field::list(causes, cause)),
        ("causes_other", Field::Number(others as i64)),
        ("rate", Field::Number(settings.rate.map_or(0, |rate| rate.count.into()))),
        ("rate_window", Field::number(settings.rate.map(|rate| rate.window))),
        ("rate_until", Field::number(pool.rate_until(now))),
        ("peers", Field::Number(settings.peers.into())),
        ("peerttl", Field::Number(settings.peerttl)),
        ("known_peers", Field::Number(pool.known_peers() as i64)),
        ("daystart", Field::Number(settings.days.start)),
        ("daylength", Field::Number(settings.days.length)),
    ];
    reply_record(ctx, &fields);
}

fn cap(cap: &Cap) -> Field<'_> {
    let window = Field::number(Some(cap.window).filter(|&window| window != DAY));
    Field::Record(vec![("window", window), ("count", Field::Number(cap.count.into()))])
}

fn cause(cause: &Cause) -> Field<'_> {
    Field::Record(vec![
        ("cause", Field::Text(&cause.word.0)),
        ("count", Field::Number(cause.count as i64)),
        ("cooldown", Field::number(cause.rule.map(|rule| rule.cooldown))),
        ("after", Field::number(cause.rule.map(|rule| rule.after.into()))),
        ("within", Field::number(cause.rule.filter(|rule| rule.after > 1).map(|rule| rule.within))),
    ])
}
