//! `SEAT.WAIT`, `SEAT.UNWAIT` and `SEAT.WAITING`.

use allot_core::seat::Show;
use allot_core::seat::request::{Hold, Request, Wait};
use allot_core::shared::refusal::{Code, Refusal};

use super::replies::reply_wait;
use super::writes::wish_of;
use crate::engine::argument::Argument;
use crate::engine::step::{answer, read};
use crate::engine::{Call, Done, config, token};

/// `SEAT.WAIT key user count TTL ms OFFER ms [option ...]`
pub(super) fn wait(
    call: &Call<'_>,
    [
        _,
        user,
        count,
        ttl,
        offer,
        tier,
        areas,
        adjacent,
        orphans,
        flags,
        needs,
        preferred,
        from,
        priority,
        chosen,
    ]: &[Argument<'_>; 15],
) -> Done {
    let made = token::make_unless(chosen.is_given());
    let hold = Hold {
        user: user.text(),
        wish: wish_of([count, tier, areas, adjacent, orphans, flags, needs, preferred, from])?,
        ttl: config::check_ttl(&config::SEAT_MAX_TTL, "TTL", ttl.integer())?,
        replace: None,
        exchange: Vec::new(),
        token: token::choice(chosen, &made),
    };
    let offer = config::check_ttl(&config::SEAT_MAX_TTL, "OFFER", offer.integer())?;
    let priority = priority.optional_integer().unwrap_or(0);
    let priority = i32::try_from(priority)
        .map_err(|_| Refusal::new(Code::Err, format!("PRIORITY {priority} does not fit 32 bits")))?;
    answer::<Show>(call, &Request::Wait(Wait { hold, offer, priority }))
}

/// `SEAT.UNWAIT key token`
pub(super) fn unwait(call: &Call<'_>, [_, token]: &[Argument<'_>; 2]) -> Done {
    answer::<Show>(call, &Request::Unwait(token.text()))
}

/// `SEAT.WAITING key token`
pub(super) fn waiting(call: &Call<'_>, [_, token]: &[Argument<'_>; 2]) -> Done {
    read::<Show>(call, |show, now| {
        match show.waiting(token.text(), now) {
            Some(record) => reply_wait(call.ctx, &record),
            None => call.ctx.reply_nothing(),
        }
        Ok(())
    })
}
