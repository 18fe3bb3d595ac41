//! The `NUMPOOL.*` commands that only read.

use allot_core::numpool::Pool;
use allot_core::numpool::read::Shown;
use allot_core::shared::refusal::{Code, Refusal};

use super::replies::{reply_info, reply_live_lease, reply_number, reply_switch};
use super::writes::number;
use crate::engine::argument::{Argument, READ_AT_ONCE};
use crate::engine::reply::{Field, reply_page};
use crate::engine::step::read;
use crate::engine::{Call, Done};

/// The slots that a scan examines if the caller gives no COUNT.
const USUAL_COUNT: u32 = 10;

/// `NUMPOOL.GET key number`
pub(super) fn get(call: &Call<'_>, [_, wanted]: &[Argument<'_>; 2]) -> Done {
    let number = number(wanted.text())?;
    read::<Pool>(call, |pool, now| {
        let Some(record) = pool.number_record(number, now) else {
            return Err(Refusal::new(Code::NotFound, format!("number {number} is not in the pool")));
        };
        reply_number(call.ctx, &record);
        Ok(())
    })
}

/// `NUMPOOL.INFO key`
pub(super) fn info(call: &Call<'_>, [_key]: &[Argument<'_>; 1]) -> Done {
    read::<Pool>(call, |pool, now| {
        reply_info(call.ctx, pool, now);
        Ok(())
    })
}

/// `NUMPOOL.SCAN key cursor [STATE state] [COUNT n]`
pub(super) fn scan(call: &Call<'_>, [_, from, state, count]: &[Argument<'_>; 4]) -> Done {
    let (cursor, count) = (cursor(from.integer())?, count.count(USUAL_COUNT, READ_AT_ONCE)?);
    let state = shown(state)?;
    read::<Pool>(call, |pool, now| {
        let (next, numbers) = pool.scan(cursor, count, state, now);
        reply_page(call.ctx, &Field::Made(next.to_string()), &numbers, |number| {
            call.ctx.reply_string(&number.text());
        });
        Ok(())
    })
}

/// The state of a scan. `NUMPOOL.INFO` names states with `_` for `+`, so `_` is accepted.
fn shown(state: &Argument<'_>) -> Result<Option<Shown>, Refusal> {
    let plus = |byte: &u8| if *byte == b'_' { b'+' } else { *byte };
    let text: Option<Vec<u8>> = state.optional_text().map(|text| text.iter().map(plus).collect());
    match text.and_then(|text| Shown::parse(&text)) {
        Some(shown) => Ok(Some(shown)),
        None => state.member(),
    }
}

/// `NUMPOOL.LEASES key [SWITCH id] [CURSOR c] [COUNT n]`
pub(super) fn leases(call: &Call<'_>, [_, switch, from, count]: &[Argument<'_>; 4]) -> Done {
    let (switch, count) = (switch.optional_text(), count.count(USUAL_COUNT, READ_AT_ONCE)?);
    let from = cursor(from.optional_integer().unwrap_or(0))?;
    read::<Pool>(call, |pool, now| {
        let (next, leases) = pool.lease_scan(from, count, switch, now);
        reply_page(call.ctx, &Field::Made(next.to_string()), &leases, |lease| {
            reply_live_lease(call.ctx, lease);
        });
        Ok(())
    })
}

/// `NUMPOOL.SWITCHES key [CURSOR c] [COUNT n]`
pub(super) fn switches(call: &Call<'_>, [_, from, count]: &[Argument<'_>; 3]) -> Done {
    let (from, count) =
        (cursor(from.optional_integer().unwrap_or(0))?, count.count(USUAL_COUNT, READ_AT_ONCE)?);
    read::<Pool>(call, |pool, now| {
        let (next, switches) = pool.switch_scan(from, count, now);
        reply_page(call.ctx, &Field::Made(next.to_string()), &switches, |switch| {
            reply_switch(call.ctx, switch);
        });
        Ok(())
    })
}

fn cursor(value: i64) -> Result<u32, Refusal> {
    u32::try_from(value).map_err(|_| Refusal::new(Code::Err, format!("there is no cursor {value}")))
}
