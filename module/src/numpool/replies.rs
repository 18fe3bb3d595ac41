//! Replies that are records, field by field in the order of the documentation.

use allot_core::numpool::causes::Cause;
use allot_core::numpool::decide::{Alive, Listed, Reconciled};
use allot_core::numpool::read::{LiveLease, NumberRecord, SwitchRecord};
use allot_core::numpool::settings::Cap;
use allot_core::numpool::{LeaseRecord, Pool};

use crate::ffi::Context;

pub(super) fn reply_lease(ctx: Context<'_>, record: &LeaseRecord) {
    ctx.reply_map(3);
    text(ctx, "number", Some(&record.number.text()));
    text(ctx, "lease", Some(&record.token));
    number(ctx, "until", record.until);
}

pub(super) fn reply_reconciled(ctx: Context<'_>, outcome: &Reconciled) {
    ctx.reply_map(3);
    number(ctx, "kept", Some(outcome.kept as i64));
    number(ctx, "freed", Some(outcome.freed as i64));
    ctx.reply_string(b"unknown");
    ctx.reply_array(outcome.unknown.len());
    for token in &outcome.unknown {
        ctx.reply_string(token);
    }
}

pub(super) fn reply_listed(ctx: Context<'_>, listed: &Listed) {
    ctx.reply_map(2);
    number(ctx, "done", Some(listed.done));
    ctx.reply_string(b"missing");
    ctx.reply_array(listed.missing.len());
    for missing in &listed.missing {
        ctx.reply_string(&missing.text());
    }
}

pub(super) fn reply_number(ctx: Context<'_>, record: &NumberRecord) {
    let suspension = record.suspension.as_ref();
    let cause = suspension.and_then(|suspension| suspension.cause.as_ref());
    let until = suspension.and_then(|suspension| suspension.until);
    ctx.reply_map(16);
    text(ctx, "number", Some(&record.number.text()));
    text(ctx, "state", Some(record.state.word().as_bytes()));
    text(ctx, "lease", record.lease.as_deref());
    number(ctx, "until", record.until);
    text(ctx, "reg_switch", record.reg_switch.as_deref());
    text(ctx, "call_switch", record.call_switch.as_deref());
    text(ctx, "peer", record.peer.as_deref());
    number(ctx, "uses", Some(record.uses.into()));
    number(ctx, "idle_since", record.idle_since);
    number(ctx, "cool_until", record.cool_until);
    text(ctx, "cause", record.cause.as_deref());
    number(ctx, "quarantine_until", until.filter(|_| cause.is_some()));
    number(ctx, "limit_until", record.limit_until);
    number(ctx, "suspended", Some(suspension.is_some().into()));
    text(ctx, "suspend_cause", cause.map(|word| &word.0[..]));
    number(ctx, "suspend_until", until);
}

pub(super) fn reply_live_lease(ctx: Context<'_>, lease: &LiveLease) {
    ctx.reply_map(7);
    text(ctx, "token", Some(&lease.token));
    text(ctx, "number", Some(&lease.number.text()));
    text(ctx, "call_switch", lease.call_switch.as_deref());
    text(ctx, "peer", lease.peer.as_deref());
    number(ctx, "since", Some(lease.since));
    number(ctx, "until", lease.until);
    text(ctx, "holder", lease.holder.as_deref());
}

pub(super) fn reply_alive(ctx: Context<'_>, alive: Alive) {
    ctx.reply_map(2);
    number(ctx, "until", Some(alive.until));
    number(ctx, "calls", Some(alive.calls.into()));
}

pub(super) fn reply_switch(ctx: Context<'_>, record: &SwitchRecord) {
    ctx.reply_map(4);
    text(ctx, "switch", Some(&record.switch));
    number(ctx, "until", record.until);
    number(ctx, "numbers", Some(record.numbers.into()));
    number(ctx, "calls", Some(record.calls.into()));
}

pub(super) fn reply_info(ctx: Context<'_>, pool: &Pool) {
    let (totals, settings) = (pool.totals(), pool.settings());
    let numbers = [
        ("total", totals.total),
        ("idle_up", totals.idle_up),
        ("idle_down", totals.idle_down),
        ("busy_up", totals.busy_up),
        ("busy_down", totals.busy_down),
        ("cooling", totals.cooling),
        ("leases", totals.leases),
    ];
    ctx.reply_map(numbers.len() + 13);
    for (name, value) in numbers {
        number(ctx, name, Some(value.into()));
    }
    number(ctx, "lease", Some(settings.lease));
    number(ctx, "cooldown", Some(settings.cooldown));
    number(ctx, "regttl", Some(settings.regttl));
    text(ctx, "pick", Some(settings.pick.word().as_bytes()));
    number(ctx, "events", Some(settings.events.into()));
    number(ctx, "draining", Some(totals.draining.into()));
    number(ctx, "waiting", Some(totals.waiting.into()));
    number(ctx, "limited", Some(totals.limited.into()));
    number(ctx, "suspended", Some(totals.suspended.into()));
    number(ctx, "quarantined", Some(totals.quarantined.into()));
    reply_caps(ctx, &settings.caps);
    let (causes, others) = pool.causes();
    reply_causes(ctx, causes);
    number(ctx, "causes_other", Some(others as i64));
}

fn reply_caps(ctx: Context<'_>, caps: &[Cap]) {
    ctx.reply_string(b"caps");
    ctx.reply_array(caps.len());
    for cap in caps {
        ctx.reply_map(2);
        number(ctx, "window", Some(cap.window));
        number(ctx, "count", Some(cap.count.into()));
    }
}

fn reply_causes(ctx: Context<'_>, causes: &[Cause]) {
    ctx.reply_string(b"causes");
    ctx.reply_array(causes.len());
    for cause in causes {
        ctx.reply_map(5);
        text(ctx, "cause", Some(&cause.word.0));
        number(ctx, "count", Some(cause.count as i64));
        number(ctx, "cooldown", cause.rule.map(|rule| rule.cooldown));
        number(ctx, "after", cause.rule.map(|rule| rule.after.into()));
        number(ctx, "within", cause.rule.filter(|rule| rule.after > 1).map(|rule| rule.within));
    }
}

fn text(ctx: Context<'_>, name: &str, value: Option<&[u8]>) {
    ctx.reply_string(name.as_bytes());
    match value {
        Some(value) => ctx.reply_string(value),
        None => ctx.reply_null(),
    }
}

fn number(ctx: Context<'_>, name: &str, value: Option<i64>) {
    ctx.reply_string(name.as_bytes());
    match value {
        Some(value) => ctx.reply_integer(value),
        None => ctx.reply_null(),
    }
}
