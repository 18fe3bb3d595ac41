//! The `SEAT.*` commands that change a show: arguments in, the state machine asked, replies out.

use std::cell::OnceCell;

use allot_core::seat::plan::{self, Plan};
use allot_core::seat::request::{Adjacent, Hold, Orphans, Pick, Replace, Request};
use allot_core::seat::{Event, Reply, Show, decide};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use allot_core::shared::token::TokenChoice;

use super::records::reply_hold;
use crate::command::{Call, is, not_one_of, unknown};
use crate::family::{self, Step, change};
use crate::sys::context::Mode;
use crate::sys::value::Found;
use crate::sys::{Context, KeyName};
use crate::{config, info, outbox, token};

type Done = Result<(), Refusal>;

/// Decides a request and applies what comes of it; the reply is true then.
fn request(ctx: Context<'_>, name: KeyName<'_>, request: &Request<'_>) -> Result<Reply, Refusal> {
    let outcome = change::<Show, _>(ctx, name, |step| {
        let decision = decide(step.state(), step.now(), request)?;
        for event in &decision.events {
            step.apply(event);
        }
        Ok(decision.reply)
    });
    if outcome.is_err() {
        info::SEAT_REFUSED.add(1);
    }
    outcome
}

fn answer(call: &Call<'_>, request_: &Request<'_>) -> Done {
    match request(call.ctx, call.key()?, request_)? {
        Reply::Ok => call.ctx.reply_ok(),
        Reply::None => call.ctx.reply_nothing(),
        Reply::Integer(value) => call.ctx.reply_integer(value),
        Reply::Hold(_) => {}
    }
    Ok(())
}

/// `SEAT.CREATE key plan`
pub(super) fn create(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let json = arguments.any()?;
    arguments.finish()?;
    let plan: Plan = plan::parse(json)?;
    // Built here to be checked and brought into its normal form, which is what is replicated.
    let wanted = Show::new(&plan, 0)?;
    let name = call.key()?;
    if plan.events > 0 {
        outbox::check_stream(call.ctx, name, "plan: events")?;
    }
    let normal = wanted.plan_json();
    let mut key = call.ctx.open(name, Mode::Read);
    let existing = match key.value::<Show>() {
        Found::Nothing => None,
        Found::OtherType => return Err(family::wrong_type()),
        Found::Value(value) => Some(value.state.plan_json()),
    };
    drop(key);
    match existing {
        None => family::create::<Show>(call.ctx, name, &Event::Created { plan: normal })?,
        Some(existing) if existing == normal => {}
        Some(_) => {
            let text = format!("there is a show with another plan at {}", quoted(name.as_bytes()));
            return Err(Refusal::new(Code::Exists, text));
        }
    }
    call.ctx.reply_ok();
    Ok(())
}

/// `SEAT.ALTER key plan-part`
pub(super) fn alter(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let part: plan::PlanPart = plan::parse(arguments.any()?)?;
    arguments.finish()?;
    if part.events.is_some_and(|events| events > 0) {
        outbox::check_stream(call.ctx, call.key()?, "plan: events")?;
    }
    answer(call, &Request::Alter(part))
}

/// `SEAT.HOLD key user count TTL ms [option ...]`
pub(super) fn hold(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let made = OnceCell::new();
    let mut hold = Hold {
        user: arguments.identifier("user")?,
        count: arguments.integer("count")?,
        ttl: 0,
        tier: None,
        areas: Vec::new(),
        adjacent: Adjacent::default(),
        orphans: Orphans::default(),
        flags: Vec::new(),
        replace: None,
        token: TokenChoice { token: &[], chosen: false },
    };
    let mut ttl = None;
    while let Some(option) = arguments.option() {
        if is(option, "TTL") {
            arguments.once(0, option)?;
            ttl = Some(arguments.integer_of(option)?);
        } else if is(option, "TIER") {
            arguments.once(1, option)?;
            hold.tier = Some(arguments.identifier_of(option)?);
        } else if is(option, "TOKEN") {
            arguments.once(2, option)?;
            hold.token = TokenChoice { token: arguments.identifier_of(option)?, chosen: true };
        } else if is(option, "REPLACE") {
            arguments.once(3, option)?;
            let token = arguments.identifier_of(option)?;
            hold.replace = Some(Replace { token, other: arguments.takes("OTHER") });
        } else if is(option, "AREAS") {
            arguments.once(4, option)?;
            hold.areas = arguments.list(option)?;
        } else if is(option, "FLAGS") {
            arguments.once(5, option)?;
            hold.flags = arguments.list(option)?;
        } else if is(option, "ADJACENT") {
            arguments.once(6, option)?;
            hold.adjacent = adjacent(option, arguments.value(option)?)?;
        } else if is(option, "ORPHANS") {
            arguments.once(7, option)?;
            hold.orphans = orphans(option, arguments.value(option)?)?;
        } else {
            return Err(unknown(option));
        }
    }
    if !hold.token.chosen {
        hold.token.token = made.get_or_init(token::make);
    }
    hold.ttl = time_to_live(ttl)?;
    check_count(hold.count)?;
    let flags = std::mem::take(&mut hold.flags);
    let record = change::<Show, _>(call.ctx, call.key()?, |step| {
        if !flags.is_empty() {
            let bits = flags.iter().fold(0, |all, flag| all | step.state().venue().flag_bit(flag));
            step.state_mut().prepare(bits);
            hold.flags = flags;
        }
        grant(call.ctx, step, &Request::Hold(hold))
    });
    refused_or_done(record)
}

fn adjacent(option: &[u8], value: &[u8]) -> Result<Adjacent, Refusal> {
    Ok(match value {
        value if is(value, "PREFER") => Adjacent::Prefer,
        value if is(value, "REQUIRE") => Adjacent::Require,
        value if is(value, "AREA") => Adjacent::Area,
        value if is(value, "IGNORE") => Adjacent::Ignore,
        _ => return Err(not_one_of(option, value, "PREFER, REQUIRE, AREA or IGNORE")),
    })
}

fn orphans(option: &[u8], value: &[u8]) -> Result<Orphans, Refusal> {
    Ok(match value {
        value if is(value, "AVOID") => Orphans::Avoid,
        value if is(value, "ALLOW") => Orphans::Allow,
        value if is(value, "FORBID") => Orphans::Forbid,
        _ => return Err(not_one_of(option, value, "AVOID, ALLOW or FORBID")),
    })
}

/// `SEAT.PICK key user TTL ms [TOKEN token] SEATS n seat ...`
pub(super) fn pick(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let made = OnceCell::new();
    let mut pick = Pick {
        user: arguments.identifier("user")?,
        ttl: 0,
        token: TokenChoice { token: &[], chosen: false },
        seats: Vec::new(),
    };
    let mut ttl = None;
    while let Some(option) = arguments.option() {
        if is(option, "TTL") {
            arguments.once(0, option)?;
            ttl = Some(arguments.integer_of(option)?);
        } else if is(option, "TOKEN") {
            arguments.once(1, option)?;
            pick.token = TokenChoice { token: arguments.identifier_of(option)?, chosen: true };
        } else if is(option, "SEATS") {
            arguments.once(2, option)?;
            pick.seats = arguments.list(option)?;
        } else {
            return Err(unknown(option));
        }
    }
    if !pick.token.chosen {
        pick.token.token = made.get_or_init(token::make);
    }
    pick.ttl = time_to_live(ttl)?;
    if pick.seats.is_empty() {
        return Err(Refusal::new(Code::Err, "SEATS is missing: name the seats to pick"));
    }
    check_count(pick.seats.len() as i64)?;
    refused_or_done(change::<Show, _>(call.ctx, call.key()?, |step| {
        grant(call.ctx, step, &Request::Pick(pick))
    }))
}

/// Decides a request for a hold, applies it and replies.
fn grant(ctx: Context<'_>, step: &mut Step<'_, '_, Show>, request: &Request<'_>) -> Done {
    let decision = decide(step.state(), step.now(), request)?;
    for event in &decision.events {
        step.apply(event);
    }
    if let Reply::Hold(record) = decision.reply {
        reply_hold(ctx, step.state(), &record);
    } else {
        info::SEAT_SOLD_OUT.add(1);
        ctx.reply_nothing();
    }
    Ok(())
}

fn refused_or_done(outcome: Done) -> Done {
    if outcome.is_err() {
        info::SEAT_REFUSED.add(1);
    }
    outcome
}

/// `SEAT.EXTEND key token TTL ms`
pub(super) fn extend(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let token = arguments.identifier("token")?;
    let ttl = if arguments.takes("TTL") { Some(arguments.integer_of(b"TTL")?) } else { None };
    arguments.finish()?;
    let ttl = time_to_live(ttl)?;
    answer(call, &Request::Extend { token, ttl })
}

/// `SEAT.CONFIRM key token [USER user] [ORDER ref]`
pub(super) fn confirm(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let token = arguments.identifier("token")?;
    let (mut user, mut order) = (None, None);
    while let Some(option) = arguments.option() {
        if is(option, "USER") {
            arguments.once(0, option)?;
            user = Some(arguments.identifier_of(option)?);
        } else if is(option, "ORDER") {
            arguments.once(1, option)?;
            order = Some(arguments.identifier_of(option)?);
        } else {
            return Err(unknown(option));
        }
    }
    answer(call, &Request::Confirm { token, user, order })
}

/// `SEAT.RELEASE key token [SEATS n seat ...]`
pub(super) fn release(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let token = arguments.identifier("token")?;
    let seats = if arguments.takes("SEATS") { Some(arguments.list(b"SEATS")?) } else { None };
    arguments.finish()?;
    answer(call, &Request::Release { token, seats })
}

/// `SEAT.REFUND key [ORDER ref] n seat ...`
pub(super) fn refund(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let order = if arguments.takes("ORDER") { Some(arguments.identifier_of(b"ORDER")?) } else { None };
    let seats = arguments.list(b"n")?;
    arguments.finish()?;
    answer(call, &Request::Refund { order, seats })
}

/// `SEAT.BLOCK key n seat ...`
pub(super) fn block(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let seats = arguments.list(b"n")?;
    arguments.finish()?;
    answer(call, &Request::Block(seats))
}

/// `SEAT.UNBLOCK key n seat ...`
pub(super) fn unblock(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let seats = arguments.list(b"n")?;
    arguments.finish()?;
    answer(call, &Request::Unblock(seats))
}

/// `SEAT.APPLY key payload`: what a master decided.
pub(super) fn apply(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let payload = arguments.any()?;
    arguments.finish()?;
    family::obey::<Show>(call.ctx, call.key()?, payload)?;
    call.ctx.reply_ok();
    Ok(())
}

fn time_to_live(ttl: Option<i64>) -> Result<i64, Refusal> {
    let missing = "TTL is missing: say how long the hold shall live, in milliseconds";
    config::check_ttl(&config::SEAT_MAX_TTL, "TTL", ttl.ok_or_else(|| Refusal::new(Code::Err, missing))?)
}

fn check_count(count: i64) -> Done {
    let most = config::SEAT_MAX_COUNT.get();
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(Refusal::new(Code::Err, format!("count must be 1 to {most} (allot.seat-max-count), not {count}")))
}
