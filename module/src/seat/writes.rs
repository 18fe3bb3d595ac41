//! The `SEAT.*` commands that change a show: they read the arguments, have the state machine decide, and reply.

use allot_core::seat::plan::{self, Plan};
use allot_core::seat::request::{
    AddBest, Hold, Move, NamedWish, Need, Pick, Replace, Request, Transfer, Wish,
};
use allot_core::seat::{Event, Show};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::several::answer_in_all;
use crate::engine::argument::{Argument, LISTED_AT_ONCE};
use crate::engine::step::{self, answer};
use crate::engine::word::integer;
use crate::engine::{Call, Done, config, outbox, token};

/// `SEAT.CREATE key plan`
pub(super) fn create(call: &Call<'_>, [_, json]: &[Argument<'_>; 2]) -> Done {
    let plan: Plan = plan::parse(json.text())?;
    let (name, now) = (call.key()?, call.ctx.clock());
    // Checks the plan and brings it into the normal form, which is replicated.
    let wanted = Show::opened(&plan, now)?;
    if plan.events > 0 {
        outbox::check_stream(call.ctx, name, "plan: events")?;
    }
    let normal = wanted.plan_json();
    if step::exists::<Show>(call.ctx, name)? {
        return step::read::<Show>(call, |show, _| {
            if show.plan_json() != normal {
                let text = format!("there is a show with another plan at {}", quoted(name.as_bytes()));
                return Err(Refusal::new(Code::Exists, text));
            }
            call.ctx.reply_ok();
            Ok(())
        });
    }
    step::create_opened(call.ctx, name, &Event::Created { plan: normal }, wanted, now)?;
    call.ctx.reply_ok();
    Ok(())
}

/// `SEAT.ALTER key plan-part`
pub(super) fn alter(call: &Call<'_>, [_, json]: &[Argument<'_>; 2]) -> Done {
    let part: plan::PlanPart = plan::parse(json.text())?;
    if part.events.is_some_and(|events| events > 0) {
        outbox::check_stream(call.ctx, call.key()?, "plan: events")?;
    }
    answer::<Show>(call, &Request::Alter(part))
}

/// `SEAT.HOLD key user count TTL ms [option ...]`
pub(super) fn hold<'a>(
    call: &Call<'a>,
    [
        _,
        user,
        count,
        ttl,
        tier,
        areas,
        adjacent,
        orphans,
        flags,
        needs,
        preferred,
        from,
        replace,
        chosen,
        add,
        once,
        exchange,
        also,
        beside,
    ]: &[Argument<'a>; 19],
) -> Done {
    let made = token::make_unless(chosen.is_given());
    let replaced = |token| Replace { token, other: replace.has_last_word() };
    let hold = Hold {
        user: user.text(),
        wish: wish_of([count, tier, areas, adjacent, orphans, flags, needs, preferred, from])?,
        ttl: time_to_live(ttl)?,
        replace: replace.optional_text().map(replaced),
        exchange: seats_of(exchange)?,
        token: token::choice(chosen, &made),
    };
    match (add.is_given(), once.optional_text()) {
        (true, once) => answer_in_all(call, also, beside, &Request::AddBest(AddBest { hold, once })),
        (false, None) => answer_in_all(call, also, beside, &Request::Hold(hold)),
        (false, Some(_)) => Err(Refusal::new(Code::Err, "ONCE names a request with ADD")),
    }
}

/// `SEAT.PICK key user TTL ms [ORPHANS AVOID|FORBID|ALLOW] [FROM block] [TOKEN token] [ADD] SEATS n seat ... [EXCHANGE n seat ...] [ALSO n key ...]`
pub(super) fn pick<'a>(
    call: &Call<'a>,
    [_, user, ttl, orphans, from, chosen, add, seats, exchange, also]: &[Argument<'a>; 10],
) -> Done {
    let made = token::make_unless(chosen.is_given());
    let pick = Pick {
        user: user.text(),
        ttl: time_to_live(ttl)?,
        token: token::choice(chosen, &made),
        orphans: orphans.member()?,
        from: from.optional_text(),
        seats: seats.words().to_vec(),
        exchange: seats_of(exchange)?,
    };
    check_count(pick.seats.len() as i64)?;
    let request = if add.is_given() { Request::AddPicked(pick) } else { Request::Pick(pick) };
    answer_in_all(call, also, &Argument::NONE, &request)
}

/// `SEAT.EXTEND key token TTL ms [ALSO n key ...]`
pub(super) fn extend<'a>(call: &Call<'a>, [_, token, ttl, also]: &[Argument<'a>; 4]) -> Done {
    let ttl = time_to_live(ttl)?;
    answer_in_all(call, also, &Argument::NONE, &Request::Extend { token: token.text(), ttl })
}

/// `SEAT.CONFIRM key token [USER user] [ORDER ref] [EXCHANGE ref n seat ...] [ALSO n key ...]`
pub(super) fn confirm<'a>(
    call: &Call<'a>,
    [_, token, user, order, exchange, also]: &[Argument<'a>; 6],
) -> Done {
    let (token, user, order) = (token.text(), user.optional_text(), order.optional_text());
    let request = match exchange.value_and_list() {
        None => Request::Confirm { token, user, order },
        Some((from, seats)) => {
            exchange.at_most(LISTED_AT_ONCE, "seats")?;
            Request::Exchange { token, user, order, from, seats: seats.to_vec() }
        }
    };
    answer_in_all(call, also, &Argument::NONE, &request)
}

/// `SEAT.RELEASE key token [SEATS n seat ...] [INTO block] [ALSO n key ...]`
pub(super) fn release<'a>(call: &Call<'a>, [_, token, seats, into, also]: &[Argument<'a>; 5]) -> Done {
    let seats = seats.is_given().then(|| seats_of(seats)).transpose()?;
    let request = Request::Release { token: token.text(), seats, into: into.optional_text() };
    answer_in_all(call, also, &Argument::NONE, &request)
}

/// `SEAT.REFUND key [ORDER ref] [INTO block] [ALSO n key ...] [n seat ...]`
pub(super) fn refund<'a>(call: &Call<'a>, [_, order, into, also, seats]: &[Argument<'a>; 5]) -> Done {
    let seats = seats.is_given().then(|| seats_of(seats)).transpose()?;
    let (order, into) = (order.optional_text(), into.optional_text());
    answer_in_all(call, also, &Argument::NONE, &Request::Refund { order, seats, into })
}

/// `SEAT.MOVE key [ANYTIER] n from to [from to ...]`
pub(super) fn move_sales(call: &Call<'_>, [_, any_tier, pairs]: &[Argument<'_>; 3]) -> Done {
    let words = pairs.at_most(2 * LISTED_AT_ONCE, "seats")?;
    let pairs = words.chunks_exact(2).filter_map(|pair| <&[&[u8]; 2]>::try_from(pair).ok());
    let pairs = pairs.map(|&[from, to]| (from, to)).collect();
    answer::<Show>(call, &Request::Move(Move { pairs, any_tier: any_tier.is_given() }))
}

/// `SEAT.TRANSFER key user [ORDER ref] [TO ORDER ref] SEATS n seat ...`
pub(super) fn transfer(call: &Call<'_>, [_, user, order, to_order, seats]: &[Argument<'_>; 5]) -> Done {
    let made = token::make_unless(false);
    let (order, to_order) = (order.optional_text(), to_order.optional_text());
    let (user, seats) = (user.text(), seats_of(seats)?);
    answer::<Show>(call, &Request::Transfer(Transfer { user, seats, order, to_order, token: &made }))
}

/// What `SEAT.BLOCK` and `SEAT.UNBLOCK` name: seats, or a hold or a block.
#[derive(Clone, Copy)]
enum Which {
    Seats,
    Whole,
}

const WHICH: &[Which] = &[Which::Seats, Which::Whole];

/// `SEAT.BLOCK key [NAME block] [UNTIL ms] [PERUSER n] n seat ...`, or with `HOLD token` in place of the seats
pub(super) fn block(call: &Call<'_>, [_, name, until, per_user, which]: &[Argument<'_>; 5]) -> Done {
    let (name, until) = (name.optional_text(), until.optional_integer());
    let not_a_number = |most| Refusal::new(Code::Err, format!("PERUSER is a number of seats, not {most}"));
    let number = |most| u32::try_from(most).map_err(|_| not_a_number(most));
    let per_user = per_user.optional_integer().map(number).transpose()?;
    let request = match which.choice(WHICH) {
        Some(Which::Whole) => Request::BlockHold { name, until, per_user, token: which.text() },
        Some(Which::Seats) | None => Request::Block { name, until, per_user, seats: seats_of(which)? },
    };
    answer::<Show>(call, &request)
}

/// `SEAT.UNBLOCK key n seat ...` or `SEAT.UNBLOCK key NAME block`
pub(super) fn unblock(call: &Call<'_>, [_, which]: &[Argument<'_>; 2]) -> Done {
    match which.choice(WHICH) {
        Some(Which::Whole) => answer::<Show>(call, &Request::EndBlock(which.text())),
        Some(Which::Seats) | None => answer::<Show>(call, &Request::Unblock(seats_of(which)?)),
    }
}

fn seats_of<'a>(list: &Argument<'a>) -> Result<Vec<&'a [u8]>, Refusal> {
    Ok(list.at_most(LISTED_AT_ONCE, "seats")?.to_vec())
}

fn time_to_live(ttl: &Argument<'_>) -> Result<i64, Refusal> {
    config::check_ttl(&config::SEAT_MAX_TTL, "TTL", ttl.integer())
}

/// The wish of a request, from the arguments that `SEAT.HOLD`, `SEAT.WAIT` and `SEAT.FIND` share.
pub(super) fn wish_of<'a>(
    [count, tier, areas, adjacent, orphans, flags, needs, preferred, from]: [&Argument<'a>; 9],
) -> Result<NamedWish<'a>, Refusal> {
    let needs = needs.each::<2>().map(|[count, flag]| {
        let number = integer(count).and_then(|count| u32::try_from(count).ok());
        let not_a_number = || Refusal::new(Code::Err, format!("{} is not a number of seats", quoted(count)));
        Ok(Need { count: number.ok_or_else(not_a_number)?, flag })
    });
    Ok(Wish {
        needs: needs.collect::<Result<_, Refusal>>()?,
        count: check_count(count.integer())?,
        tier: tier.optional_text(),
        areas: areas.at_most(plan::max::AREAS, "areas")?.to_vec(),
        adjacent: adjacent.member()?.unwrap_or_default(),
        orphans: orphans.member()?.unwrap_or_default(),
        flags: flags.at_most(plan::max::FLAGS, "flags")?.to_vec(),
        preferred: preferred.each::<1>().map(|[flag]| flag).collect(),
        from: from.optional_text(),
    })
}

/// A count of seats, within the limits of the server.
fn check_count(count: i64) -> Result<u32, Refusal> {
    let most = config::SEAT_MAX_COUNT.get();
    if (1..=most).contains(&count) {
        return Ok(count as u32);
    }
    Err(Refusal::new(Code::Err, format!("count must be 1 to {most} (allot.seat-max-count), not {count}")))
}
