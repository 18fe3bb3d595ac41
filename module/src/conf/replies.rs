//! Replies that are records, field by field in the order of the documentation.

use std::borrow::Cow;

use allot_core::conf::Realm;
use allot_core::conf::conference::Conference;
use allot_core::conf::outcome::Reported;
use allot_core::conf::read::ShownState;
use allot_core::conf::unit::{Name, Unit};

use crate::engine::reply::{Field, reply_list, reply_record};
use crate::ffi::Context;

pub(super) fn reply_realm(ctx: Context<'_>, realm: &Realm) {
    let settings = realm.settings();
    let (term, leader) = realm.leader();
    let fields = [
        ("licences", Field::Number(settings.licences as i64)),
        ("licences_used", Field::Number(realm.licences_used() as i64)),
        ("retry", Field::Number(settings.retry)),
        ("window", Field::Number(settings.window)),
        ("policy", Field::Text(settings.policy.word().as_bytes())),
        ("createtimeout", Field::Number(settings.create_timeout)),
        ("releasetimeout", Field::Number(settings.release_timeout)),
        ("waittimeout", Field::Number(settings.wait_timeout)),
        ("tombstone", Field::Number(settings.tombstone)),
        ("place", Field::Text(settings.placement.word().as_bytes())),
        ("tries", Field::Number(settings.tries)),
        ("failures", Field::Number(settings.failures)),
        ("warn", Field::Number(settings.warn)),
        ("ramp", Field::Number(settings.ramp)),
        ("term", Field::Number(term as i64)),
        ("leader", Field::maybe(leader)),
        ("last_epoch", Field::Number(realm.last_epoch() as i64)),
        ("drained", Field::list(realm.drained(), Field::Text)),
    ];
    reply_record(ctx, &fields);
}

fn names<T: AsRef<[u8]>>(names: &[T]) -> Field<'_> {
    Field::list(names, |name| Field::Text(name.as_ref()))
}

pub(super) fn reply_host(ctx: Context<'_>, realm: &Realm, host: &[u8]) {
    let unit = realm.unit_of_host(host).and_then(|unit| realm.unit(unit));
    let fields = [
        ("host", Field::Text(host)),
        ("cmu", Field::maybe(unit.map(|unit| &unit.cmu[..]))),
        ("draining", Field::Number(realm.drained().any(|drained| drained == host).into())),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_unit(ctx: Context<'_>, unit: &Unit) {
    let fields = [
        ("cmu", Field::Text(&unit.cmu)),
        ("zone", Field::maybe(unit.zone.as_deref())),
        ("capacity", Field::Number(unit.capacity.into())),
        ("used", Field::Number(unit.used as i64)),
        ("state", Field::Text(unit.word().as_bytes())),
        ("draining", Field::Number(unit.is_draining().into())),
        ("reported", Field::Number(unit.reported.into())),
        ("lease", Field::Number(unit.lease)),
        ("lease_ends", Field::Number(unit.lease_ends())),
        ("joined", Field::Number(unit.joined)),
        ("conferences", Field::Number(unit.owned.len() as i64)),
        ("load", Field::number(unit.load.map(|load| load.value.0))),
        ("failures", Field::Number(unit.failures.into())),
        ("backoff_until", Field::number(unit.backoff_until)),
        ("machine", Field::maybe(unit.machine.as_deref())),
        ("conflict", Field::maybe(unit.conflict.as_ref().map(|conflict| &conflict.machine[..]))),
        ("tags", names(&unit.tags)),
    ];
    reply_record(ctx, &fields);
}

/// A conference, and what its reply takes from the realm.
pub(super) struct Shown<'a> {
    one: Cow<'a, Conference>,
    state: ShownState,
    owner: Option<Name>,
    next_try: Option<i64>,
    tried: Vec<Name>,
}

impl<'a> Shown<'a> {
    pub(super) fn of(realm: &Realm, one: &'a Conference) -> Self {
        let tried = if one.tried.is_empty() { Vec::new() } else { realm.tried(one).to_vec() };
        let owner = one.owner.and_then(|unit| realm.unit(unit)).map(|unit| unit.cmu.clone());
        Self {
            one: Cow::Borrowed(one),
            state: realm.shown_state(one),
            owner,
            next_try: realm.next_try(one),
            tried,
        }
    }

    /// The same, for a reply after the key is closed.
    pub(super) fn into_owned(self) -> Shown<'static> {
        Shown { one: Cow::Owned(self.one.into_owned()), ..self }
    }
}

pub(super) fn reply_conference(ctx: Context<'_>, realm: &Realm, one: &Conference, evt: Option<(u64, u64)>) {
    reply_shown(ctx, &Shown::of(realm, one), evt);
}

/// The record of a conference. The reply to a creation also has the id after which the event stream has its events.
pub(super) fn reply_shown(ctx: Context<'_>, shown: &Shown<'_>, evt: Option<(u64, u64)>) {
    let one = &*shown.one;
    let mut fields = vec![
        ("e164", Field::Text(&one.e164)),
        ("state", Field::Text(shown.state.word().as_bytes())),
        ("cmu", Field::maybe(shown.owner.as_deref())),
        ("epoch", Field::Number(one.epoch as i64)),
        ("origin_epoch", Field::Number(one.origin_epoch as i64)),
        ("copy_epoch", Field::Number(one.copy_epoch as i64)),
        ("created", Field::Number(one.created)),
        ("opened", Field::number(one.opened)),
        ("start", Field::number(one.start)),
        ("end", Field::number(one.end)),
        ("ended", Field::number(one.ended)),
        ("cause", Field::Text(one.cause.word().as_bytes())),
        ("pending_since", Field::number(one.pending_since)),
        ("attempts", Field::Number(one.attempts.into())),
        ("next_retry", Field::number(shown.next_try)),
        ("moving_to", Field::maybe(one.moving.as_ref().map(|moving| &moving.cmu[..]))),
        ("moving_epoch", Field::number(one.moving.as_ref().map(|moving| moving.epoch as i64))),
        ("ending", Field::number(one.ending)),
        ("recovering", Field::Number(one.recovering.into())),
        ("recoverable", Field::Number(one.recoverable.into())),
        ("priority", Field::Number(one.priority.into())),
        ("size", Field::Number(one.size.into())),
        ("licences", Field::Number(one.licences.into())),
        ("zone", Field::maybe(one.wishes.zone.as_deref())),
        ("zonefall", Field::number(one.wishes.zone_fall)),
        ("unit", Field::maybe(one.wishes.host.as_deref())),
        ("elsewhere", Field::Number(one.elsewhere.into())),
        ("request", Field::maybe(one.request.as_deref())),
        ("pool", Field::maybe(one.called_from.as_ref().map(|from| &from.pool[..]))),
        ("require", names(&one.wishes.require)),
        ("prefer", names(&one.wishes.prefer)),
        ("tried", names(&shown.tried)),
    ];
    fields.extend(evt.map(|(time, sequence)| ("evt", Field::Made(format!("{time}-{sequence}")))));
    reply_record(ctx, &fields);
}

pub(super) fn reply_history(ctx: Context<'_>, one: &Conference) {
    reply_list(ctx, &one.history, |entry| {
        let fields = [
            ("epoch", Field::Number(entry.epoch as i64)),
            ("copy_epoch", Field::Number(entry.copy_epoch as i64)),
            ("cmu", Field::Text(&entry.cmu)),
            ("from", Field::Number(entry.from)),
            ("opened", Field::number(entry.opened)),
            ("to", Field::number(entry.ended.map(|ending| ending.at))),
            ("how", Field::maybe(entry.ended.map(|ending| ending.how.word().as_bytes()))),
        ];
        reply_record(ctx, &fields);
    });
}

/// The reply to `CMU.REPORT`.
pub(super) fn reply_reported(ctx: Context<'_>, reported: &Reported) {
    let fields = [
        ("kept", Field::Number(reported.kept)),
        (
            "adopted",
            Field::list(&reported.adopted, |(e164, old, new)| {
                Field::List(vec![Field::Text(e164), Field::Number(*old as i64), Field::Number(*new as i64)])
            }),
        ),
        ("released", names(&reported.released)),
        ("ended", names(&reported.ended)),
        ("lost", names(&reported.lost)),
    ];
    reply_record(ctx, &fields);
}
