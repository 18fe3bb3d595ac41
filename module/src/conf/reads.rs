//! The `CONF.*` and `CMU.*` commands that only read.

use allot_core::conf::Realm;
use allot_core::conf::conference::Conference;
use allot_core::conf::read::ShownState;
use allot_core::conf::unit::Unit;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use std::borrow::Cow;

use super::replies::{reply_conference, reply_history, reply_unit};
use crate::engine::argument::{Argument, READ_AT_ONCE};
use crate::engine::reply::{Field, expect_present, reply_field, reply_list, reply_page, reply_record};
use crate::engine::step::read;
use crate::engine::{Call, Done};

/// The most conferences of one page, however great COUNT is: 10,000 took 18 ms.
const MAX_PAGE: usize = 4_000;
/// The entries of a list if the caller gives no COUNT.
const USUAL_COUNT: u32 = 100;

/// A conference as it is after all deadlines that have passed.
fn known<'a>(realm: &'a Realm, e164: &[u8], now: i64) -> Result<Cow<'a, Conference>, Refusal> {
    realm
        .conference_called(e164)
        .and_then(|one| realm.as_of(one, now))
        .ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no conference {}", quoted(e164))))
}

fn known_unit(realm: &Realm, cmu: &[u8]) -> Result<u32, Refusal> {
    realm
        .find_unit(cmu)
        .ok_or_else(|| Refusal::new(Code::NotFound, format!("unit {} has not joined", quoted(cmu))))
}

/// `CONF.GET key e164 [field ...]`
pub(super) fn get(call: &Call<'_>, [_, e164, fields]: &[Argument<'_>; 3]) -> Done {
    let (e164, fields) = (e164.text(), fields.words());
    read::<Realm>(call, |realm, now| {
        let one = known(realm, e164, now)?;
        if fields.is_empty() {
            call.ctx.reply_map(one.details.len());
            for detail in &one.details {
                call.ctx.reply_string(&detail.field);
                call.ctx.reply_string(&detail.value.0);
            }
            return Ok(());
        }
        reply_list(call.ctx, fields, |field| {
            reply_field(call.ctx, &Field::maybe(realm.detail(&one, field)));
        });
        Ok(())
    })
}

/// `CONF.INFO key e164`
pub(super) fn info(call: &Call<'_>, [_, e164]: &[Argument<'_>; 2]) -> Done {
    let e164 = e164.text();
    read::<Realm>(call, |realm, now| {
        reply_conference(call.ctx, realm, &*known(realm, e164, now)?, None);
        Ok(())
    })
}

/// `CONF.HISTORY key e164`
pub(super) fn history(call: &Call<'_>, [_, e164]: &[Argument<'_>; 2]) -> Done {
    let e164 = e164.text();
    read::<Realm>(call, |realm, now| {
        reply_history(call.ctx, &*known(realm, e164, now)?);
        Ok(())
    })
}

/// `CONF.LIST key [STATE s] [CMU c] [CURSOR c] [COUNT n]`
pub(super) fn list(call: &Call<'_>, [_, state, cmu, cursor, count]: &[Argument<'_>; 5]) -> Done {
    let state = state.member::<ShownState>()?;
    let (cmu, cursor) = (cmu.optional_text(), cursor.optional_natural().unwrap_or(0));
    let count = count.count(USUAL_COUNT, READ_AT_ONCE)?;
    read::<Realm>(call, |realm, _| {
        let unit = cmu.map(|cmu| known_unit(realm, cmu)).transpose()?;
        let (found, next) = realm.list(state, unit, cursor, MAX_PAGE.min(count as usize));
        let next = Field::Number(next as i64);
        reply_page(call.ctx, &next, &found, |one| reply_conference(call.ctx, realm, one, None));
        Ok(())
    })
}

/// `CONF.STAT key`
pub(super) fn stat(call: &Call<'_>, [_key]: &[Argument<'_>; 1]) -> Done {
    read::<Realm>(call, |realm, _| {
        let totals = realm.totals();
        let [waiting, creating, open, pending, ended, scheduled] =
            totals.states.map(|count| Field::Number(count as i64));
        let [up, suspect, unreachable, down] = totals.units.map(|count| Field::Number(count as i64));
        let fields = [
            ("waiting", waiting),
            ("creating", creating),
            ("open", open),
            ("lost", Field::Number(totals.lost as i64)),
            ("pending", pending),
            ("scheduled", scheduled),
            ("ended", ended),
            ("up", up),
            ("suspect", suspect),
            ("unreachable", unreachable),
            ("down", down),
            ("draining", Field::Number(totals.draining as i64)),
            ("backoff", Field::Number(totals.backoff as i64)),
            ("capacity", Field::Number(totals.capacity as i64)),
            ("used", Field::Number(totals.used as i64)),
            ("licences", Field::Number(realm.settings().licences as i64)),
            ("licences_used", Field::Number(realm.licences_used() as i64)),
            ("unsent", Field::Number(realm.outbox().len() as i64)),
            ("dropped", Field::Number(realm.outbox().dropped as i64)),
            ("drained", Field::list(realm.drained(), Field::Text)),
        ];
        reply_record(call.ctx, &fields);
        Ok(())
    })
}

/// `CONF.PLAN key [DOWN cmu]` or `CONF.PLAN key DOWN ANY [CURSOR c]`
pub(super) fn plan(call: &Call<'_>, [_, down, cursor]: &[Argument<'_>; 3]) -> Done {
    let (down, cursor) = (down.optional_text(), cursor.optional_natural());
    if down.is_some_and(|cmu| cmu.eq_ignore_ascii_case(b"ANY")) {
        return plan_any(call, cursor.unwrap_or(0));
    }
    if cursor.is_some() {
        return Err(Refusal::new(Code::Err, "CURSOR continues DOWN ANY: without it there is one reply"));
    }
    read::<Realm>(call, |realm, now| {
        let line = |id: u32, cmu: Option<&[u8]>, why: Option<&str>| {
            let Some(conference) = expect_present(realm.conference(id)) else { return call.ctx.reply_null() };
            let fields = [
                ("e164", Field::Text(&conference.e164)),
                ("cmu", Field::maybe(cmu)),
                ("why", Field::maybe(why.map(str::as_bytes))),
                ("next_retry", Field::number(realm.next_try(conference))),
            ];
            reply_record(call.ctx, &fields);
        };
        match down {
            None => {
                reply_list(call.ctx, realm.plan_pending(now), |(id, why)| line(id, None, Some(why)));
            }
            Some(cmu) => {
                reply_list(call.ctx, realm.plan_down(known_unit(realm, cmu)?, now), |(id, goes)| {
                    line(id, goes.as_deref().ok(), goes.as_ref().err().copied());
                });
            }
        }
        Ok(())
    })
}

/// `CONF.PLAN key DOWN ANY [CURSOR c]`
fn plan_any(call: &Call<'_>, cursor: u64) -> Done {
    // No unit has a number beyond 32 bits.
    let cursor = u32::try_from(cursor).unwrap_or(u32::MAX);
    read::<Realm>(call, |realm, now| {
        let (forecasts, next) = realm.forecast_losses(cursor, now);
        reply_page(call.ctx, &Field::Number(next.into()), &forecasts, |forecast| {
            let all = forecast.placed + forecast.no_room + forecast.ending;
            let fields = [
                ("cmu", Field::Text(&forecast.cmu)),
                ("conferences", Field::Number(all as i64)),
                ("placed", Field::Number(forecast.placed as i64)),
                ("no_room", Field::Number(forecast.no_room as i64)),
                ("ending", Field::Number(forecast.ending as i64)),
            ];
            reply_record(call.ctx, &fields);
        });
        Ok(())
    })
}

/// `CMU.LIST key`
pub(super) fn units(call: &Call<'_>, [_key]: &[Argument<'_>; 1]) -> Done {
    read::<Realm>(call, |realm, _| {
        let units: Vec<&Unit> = realm.units().collect();
        reply_list(call.ctx, units, |unit| reply_unit(call.ctx, unit));
        Ok(())
    })
}
