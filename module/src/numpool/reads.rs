//! The `NUMPOOL.*` commands that only look.

use allot_core::numpool::Pool;
use allot_core::numpool::cells::State;
use allot_core::shared::refusal::{Code, Refusal};

use super::records::{reply_info, reply_live_lease, reply_number};
use super::writes::number;
use crate::command::{Arguments, Call, is, not_one_of, unknown};
use crate::family::read;

type Done = Result<(), Refusal>;

/// How many places a scan looks at where the caller does not say.
const USUAL_COUNT: u32 = 10;

/// `NUMPOOL.GET key number`
pub(super) fn get(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let number = number(arguments.any()?)?;
    arguments.finish()?;
    read::<Pool, _>(call.ctx, call.key()?, |pool, now| {
        let Some(record) = pool.number_record(number, now) else {
            return Err(Refusal::new(Code::NotFound, format!("number {number} is not in the pool")));
        };
        reply_number(call.ctx, &record);
        Ok(())
    })
}

/// `NUMPOOL.INFO key`
pub(super) fn info(call: &Call<'_>) -> Done {
    call.arguments(2).finish()?;
    read::<Pool, _>(call.ctx, call.key()?, |pool, _| {
        reply_info(call.ctx, &pool.totals(), &pool.settings());
        Ok(())
    })
}

/// `NUMPOOL.SCAN key cursor [STATE state] [COUNT n]`
pub(super) fn scan(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let cursor = cursor(arguments.integer("cursor")?)?;
    let (mut state, mut count) = (None, USUAL_COUNT);
    while let Some(option) = arguments.option() {
        if is(option, "STATE") {
            arguments.once(0, option)?;
            let value = arguments.value(option)?;
            let known = State::called(value);
            let states = "idle+up, idle+down, busy+up or busy+down";
            state = Some(known.ok_or_else(|| not_one_of(option, value, states))?);
        } else if is(option, "COUNT") {
            arguments.once(1, option)?;
            count = count_of(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    read::<Pool, _>(call.ctx, call.key()?, |pool, now| {
        let (next, numbers) = pool.scan(cursor, count, state, now);
        call.ctx.reply_array(2);
        call.ctx.reply_string(next.to_string().as_bytes());
        call.ctx.reply_array(numbers.len());
        for number in numbers {
            call.ctx.reply_string(&number.text());
        }
        Ok(())
    })
}

/// `NUMPOOL.LEASES key [SWITCH id] [CURSOR c] [COUNT n]`
pub(super) fn leases(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (mut switch, mut from, mut count) = (None, 0, USUAL_COUNT);
    while let Some(option) = arguments.option() {
        if is(option, "SWITCH") {
            arguments.once(0, option)?;
            switch = Some(arguments.identifier_of(option)?);
        } else if is(option, "CURSOR") {
            arguments.once(1, option)?;
            from = cursor(arguments.integer_of(option)?)?;
        } else if is(option, "COUNT") {
            arguments.once(2, option)?;
            count = count_of(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    read::<Pool, _>(call.ctx, call.key()?, |pool, now| {
        let (next, leases) = pool.lease_scan(from, count, switch, now);
        call.ctx.reply_array(2);
        call.ctx.reply_string(next.to_string().as_bytes());
        call.ctx.reply_array(leases.len());
        for lease in &leases {
            reply_live_lease(call.ctx, lease);
        }
        Ok(())
    })
}

fn cursor(value: i64) -> Result<u32, Refusal> {
    u32::try_from(value).map_err(|_| Refusal::new(Code::Err, format!("there is no cursor {value}")))
}

fn count_of(arguments: &mut Arguments<'_>, option: &[u8]) -> Result<u32, Refusal> {
    let count = arguments.integer_of(option)?;
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Refusal::new(Code::Err, format!("COUNT must be 1 to {}, not {count}", u32::MAX))),
    }
}
