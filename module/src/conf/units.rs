//! The words of units on a conference (`CONF.ACK`, `CONF.NACK`, `CONF.ENDED`), and `CMU.*`.

use allot_core::conf::reports::Reported;
use allot_core::conf::request::{Report, Request, Word};
use allot_core::shared::refusal::{Code, Refusal};

use super::writes::{Done, answer, epoch};
use crate::command::{Arguments, Call, is, not_one_of, unknown};
use crate::numbers::{number, term};
use crate::sys::Context;

/// The lease of a unit that asks for none.
const LEASE_MS: i64 = 5000;

fn word<'a>(arguments: &mut Arguments<'a>) -> Result<Word<'a>, Refusal> {
    let (e164, cmu) = (arguments.identifier("e164")?, arguments.identifier("cmu")?);
    Ok(Word { e164, cmu, epoch: number(arguments, "epoch")? })
}

/// `CONF.ACK key e164 cmu epoch`
pub(super) fn ack(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let word = word(&mut arguments)?;
    arguments.finish()?;
    answer(call, &Request::Ack(word))
}

/// `CONF.NACK key e164 cmu epoch [reason]`
pub(super) fn nack(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let word = word(&mut arguments)?;
    let reason = if call.len() > 5 { Some(arguments.identifier("reason")?) } else { None };
    arguments.finish()?;
    answer(call, &Request::Nack(word, reason))
}

/// `CONF.ENDED key e164 cmu epoch`
pub(super) fn ended(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let word = word(&mut arguments)?;
    arguments.finish()?;
    answer(call, &Request::Ended(word))
}

/// `CMU.JOIN key cmu CAPACITY n [ZONE z] [LEASE ms]`
pub(super) fn join(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let cmu = arguments.identifier("cmu")?;
    let (mut capacity, mut zone, mut lease) = (None, None, LEASE_MS);
    while let Some(option) = arguments.option() {
        if is(option, "CAPACITY") {
            arguments.once(0, option)?;
            capacity = Some(arguments.integer_of(option)?);
        } else if is(option, "ZONE") {
            arguments.once(1, option)?;
            zone = Some(arguments.identifier_of(option)?);
        } else if is(option, "LEASE") {
            arguments.once(2, option)?;
            lease = arguments.integer_of(option)?;
        } else {
            return Err(unknown(option));
        }
    }
    let Some(capacity) = capacity else {
        return Err(Refusal::new(
            Code::Err,
            "CAPACITY is missing: say how many conferences the unit has room for",
        ));
    };
    answer(call, &Request::Join { cmu, capacity, zone, lease })
}

/// `CMU.BEAT key cmu [LOAD n]`
pub(super) fn beat(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let cmu = arguments.identifier("cmu")?;
    let load = if arguments.takes("LOAD") { Some(arguments.integer_of(b"LOAD")?) } else { None };
    arguments.finish()?;
    answer(call, &Request::Beat { cmu, load })
}

/// `CMU.REPORT key cmu HIGHEST epoch [e164 epoch ...]`
pub(super) fn report(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let cmu = arguments.identifier("cmu")?;
    if !arguments.takes("HIGHEST") {
        let text = "HIGHEST is missing: say which epoch was the highest that the unit had handled, or 0";
        return Err(Refusal::new(Code::Err, text));
    }
    let highest = number(&mut arguments, "HIGHEST")?;
    let rest = arguments.rest();
    let mut list = Vec::with_capacity(rest.len() / 2);
    for pair in rest.chunks(2) {
        let &[e164, at] = pair else {
            let text = "conferences and epochs come by turns, and the last epoch is missing";
            return Err(Refusal::new(Code::Err, text));
        };
        list.push((e164, epoch(at)?));
    }
    answer(call, &Request::Report(Report { cmu, highest, list }))
}

pub(super) fn reply_reported(ctx: Context<'_>, reported: &Reported) {
    ctx.reply_map(4);
    ctx.reply_string(b"kept");
    ctx.reply_integer(reported.kept);
    ctx.reply_string(b"adopted");
    ctx.reply_array(reported.adopted.len());
    for (e164, old, new) in &reported.adopted {
        ctx.reply_array(3);
        ctx.reply_string(e164);
        ctx.reply_integer(*old as i64);
        ctx.reply_integer(*new as i64);
    }
    for (name, list) in [("released", &reported.released), ("ended", &reported.ended)] {
        ctx.reply_string(name.as_bytes());
        ctx.reply_array(list.len());
        list.iter().for_each(|e164| ctx.reply_string(e164));
    }
}

/// `CMU.ASK key [cmu] LIST|DETAILS`
pub(super) fn ask(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let cmu = if call.len() > 3 { Some(arguments.identifier("cmu")?) } else { None };
    let details = match arguments.any()? {
        what if is(what, "LIST") => false,
        what if is(what, "DETAILS") => true,
        what => return Err(not_one_of(b"CMU.ASK", what, "LIST or DETAILS")),
    };
    arguments.finish()?;
    answer(call, &Request::Ask { cmu, details })
}

/// `CMU.DRAIN key cmu [OFF|MOVE] [TERM t]`
pub(super) fn drain(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let cmu = arguments.identifier("cmu")?;
    let (mut on, mut moves, mut claimed) = (true, false, None);
    while let Some(option) = arguments.option() {
        if is(option, "OFF") {
            arguments.once(0, option)?;
            on = false;
        } else if is(option, "MOVE") {
            arguments.once(0, option)?;
            moves = true;
        } else if is(option, "TERM") {
            claimed = term(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    answer(call, &Request::Drain { cmu, on, moves, term: claimed })
}

/// `CMU.DOWN key cmu [TERM t]`
pub(super) fn down(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let cmu = arguments.identifier("cmu")?;
    let mut claimed = None;
    while let Some(option) = arguments.option() {
        if !is(option, "TERM") {
            return Err(unknown(option));
        }
        claimed = term(&mut arguments, option)?;
    }
    answer(call, &Request::Down { cmu, term: claimed })
}
