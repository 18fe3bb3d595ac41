//! `SEAT.LIST` and `SEAT.FIND`.

use allot_core::seat::Show;
use allot_core::seat::find::MAX_OFFERS;
use allot_core::seat::list::{Filter, block_called};
use allot_core::shared::refusal::{Code, Refusal};

use super::reads::known;
use super::replies::{reply_hold, reply_places, reply_sale, reply_seat, reply_seats, reply_waiter};
use super::several;
use super::writes::wish_of;
use crate::engine::argument::Argument;
use crate::engine::reply::{Field, reply_field, reply_list};
use crate::engine::step::read;
use crate::engine::{Call, Done};
use crate::ffi::Context;

/// The places that one call of `SEAT.LIST` examines if the caller gives no COUNT.
const USUAL_COUNT: u32 = 100;

/// The most places that one call of `SEAT.LIST` examines: a record of a seat takes more than 1 us.
const MAX_LISTED: u32 = 4000;

/// The things that `SEAT.LIST` lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    Seats,
    Holds,
    Orders,
    Waiting,
}

/// `SEAT.LIST key SEATS|HOLDS|ORDERS|WAITING [STATE s] [TIER t] [AREA a] [USER u] [BLOCK b] [CURSOR c] [COUNT n]`
pub(super) fn list(
    call: &Call<'_>,
    [_, what, state, tier, area, user, block, cursor, count]: &[Argument<'_>; 9],
) -> Done {
    let what = what
        .choice(&[Listed::Seats, Listed::Holds, Listed::Orders, Listed::Waiting])
        .unwrap_or(Listed::Seats);
    let state = state.member()?;
    if state.is_some() && what != Listed::Seats {
        return Err(Refusal::new(Code::Err, "only seats have a STATE"));
    }
    let (tier, area, user) = (tier.optional_text(), area.optional_text(), user.optional_text());
    let cursor = cursor.optional_natural().unwrap_or(0);
    let count = count.count(USUAL_COUNT, MAX_LISTED)?;
    read::<Show>(call, |show, now| {
        let (tier, area) = known(show, tier, area)?;
        let block = block.optional_text().map(|name| block_called(show, name)).transpose()?;
        let (filter, ctx) = (Filter { state, tier, area, user, block }, call.ctx);
        match what {
            Listed::Seats => {
                let (seats, next) = show.list_seats(filter, cursor, count, now)?;
                reply_part(ctx, next, &seats, |record| reply_seat(ctx, show, record));
            }
            Listed::Holds => {
                let (holds, next) = show.list_holds(filter, cursor, count, now);
                reply_part(ctx, next, &holds, |record| reply_hold(ctx, show, record));
            }
            Listed::Orders => {
                let (sales, next) = show.list_sales(filter, cursor, count);
                reply_part(ctx, next, &sales, |record| reply_sale(ctx, show, record));
            }
            Listed::Waiting => {
                let (waiters, next) = show.list_waiters(filter, cursor, count, now);
                reply_part(ctx, next, &waiters, |&id| reply_waiter(ctx, show, id));
            }
        }
        Ok(())
    })
}

/// A part of a list: the next cursor, and the records.
fn reply_part<T>(ctx: Context<'_>, next: u64, records: &[T], reply: impl Fn(&T)) {
    ctx.reply_map(2);
    ctx.reply_string(b"cursor");
    ctx.reply_integer(next as i64);
    ctx.reply_string(b"items");
    reply_list(ctx, records, reply);
}

/// `SEAT.FIND key count [option ...] [BEST k] [ALSO n key ...] [BESIDE n key ...]`
pub(super) fn find<'a>(
    call: &Call<'a>,
    [_, count, tier, areas, adjacent, orphans, flags, needs, preferred, from, best, also, beside]: &[Argument<'a>;
         13],
) -> Done {
    let wish = wish_of([count, tier, areas, adjacent, orphans, flags, needs, preferred, from])?;
    let best = best.optional_integer().unwrap_or(1);
    if !(1..=MAX_OFFERS as i64).contains(&best) {
        return Err(Refusal::new(Code::Err, format!("BEST must be 1 to {MAX_OFFERS}, not {best}")));
    }
    several::find(call, also, beside, (&wish, best as usize), |show, offers| {
        let ctx = call.ctx;
        reply_list(ctx, offers, |seats| {
            ctx.reply_map(5);
            ctx.reply_string(b"seats");
            reply_seats(ctx, show, seats);
            ctx.reply_string(b"area");
            reply_field(ctx, &Field::maybe(show.only_area(seats).map(str::as_bytes)));
            reply_places(ctx, show, seats);
        });
    })
}
