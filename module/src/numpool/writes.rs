//! The `NUMPOOL.*` commands that change a pool: arguments in, the state machine asked, replies out.

use std::cell::OnceCell;

use allot_core::numpool::decide::{Decision, configured};
use allot_core::numpool::event::Numbers;
use allot_core::numpool::request::{Changes, Policy, Request};
use allot_core::numpool::{Event, Number, Pool, Reply, Settings, decide, request};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::TokenChoice;

use smallvec::smallvec;

use super::records::{reply_lease, reply_reconciled};
use crate::command::{Arguments, Call, is, not_one_of, unknown};
use crate::family::{self, Step, change, change_or_create};
use crate::sys::{Context, KeyName};
use crate::{config, info, outbox, token};

type Done = Result<(), Refusal>;

/// Applies what a decision says; its reply is true then.
fn settle(step: &mut Step<'_, '_, Pool>, decision: Decision) -> Reply {
    for event in &decision.events {
        step.apply(event);
    }
    decision.reply
}

/// Decides a request, applies what comes of it and replies.
fn answer(call: &Call<'_>, request: &Request<'_>) -> Done {
    let outcome = change::<Pool, _>(call.ctx, call.key()?, |step| {
        let decision = decide(step.state(), step.now(), request)?;
        Ok(settle(step, decision))
    });
    reply(call, outcome)
}

/// As `answer`, for a request that makes the pool where there is none, with these settings.
fn answer_or_create(call: &Call<'_>, settings: Settings, request: &Request<'_>) -> Done {
    let created = Event::Created(settings);
    let outcome = change_or_create::<Pool, _>(call.ctx, call.key()?, &created, |step| {
        let decision = decide(step.state(), step.now(), request)?;
        Ok(settle(step, decision))
    });
    reply(call, outcome)
}

fn reply(call: &Call<'_>, outcome: Result<Reply, Refusal>) -> Done {
    match outcome {
        Err(refusal) => {
            info::NUMPOOL_REFUSED.add(1);
            return Err(refusal);
        }
        Ok(Reply::Ok) => call.ctx.reply_ok(),
        Ok(Reply::None) => {
            info::NUMPOOL_NONE_FREE.add(1);
            call.ctx.reply_nothing();
        }
        Ok(Reply::Integer(value)) => call.ctx.reply_integer(value),
        Ok(Reply::Lease(record)) => reply_lease(call.ctx, &record),
        Ok(Reply::Reconciled(outcome)) => reply_reconciled(call.ctx, &outcome),
    }
    Ok(())
}

/// `NUMPOOL.ADD key number [number ...]`
pub(super) fn add(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let numbers = numbers(&mut arguments)?;
    arguments.finish()?;
    answer_or_create(call, Settings::default(), &Request::Add(&numbers))
}

/// `NUMPOOL.DEL key number [number ...] [DRAIN]`
pub(super) fn del(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let numbers = numbers(&mut arguments)?;
    let drain = arguments.takes("DRAIN");
    arguments.finish()?;
    answer(call, &Request::Del { numbers: &numbers, drain })
}

/// `NUMPOOL.REG key number [number ...] [TTL ms] [SWITCH id]`
pub(super) fn reg(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let numbers = numbers(&mut arguments)?;
    let (mut ttl, mut switch) = (None, None);
    while let Some(option) = arguments.option() {
        if is(option, "TTL") {
            arguments.once(0, option)?;
            ttl = Some(time_to_live(arguments.integer_of(option)?)?);
        } else if is(option, "SWITCH") {
            arguments.once(1, option)?;
            switch = Some(arguments.identifier_of(option)?);
        } else {
            return Err(unknown(option));
        }
    }
    answer(call, &Request::Reg { numbers: &numbers, ttl, switch })
}

/// `NUMPOOL.UNREG key number [number ...]` or `NUMPOOL.UNREG key SWITCH id`
pub(super) fn unreg(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    if arguments.takes("SWITCH") {
        let switch = arguments.identifier_of(b"SWITCH")?;
        arguments.finish()?;
        return answer(call, &Request::UnregSwitch(switch));
    }
    let numbers = numbers(&mut arguments)?;
    arguments.finish()?;
    answer(call, &Request::Unreg(&numbers))
}

/// `NUMPOOL.CALL key [number] [option ...]`
pub(super) fn call(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let made = OnceCell::new();
    let mut wish = request::Call {
        number: if arguments.next_is(Number::is_like) { Some(number(arguments.any()?)?) } else { None },
        ttl: None,
        endless: false,
        lease: TokenChoice { token: &[], chosen: false },
        switch: None,
        peer: None,
        prefix: None,
        pick: None,
        random: 0,
    };
    while let Some(option) = arguments.option() {
        if is(option, "TTL") {
            arguments.once(0, option)?;
            wish.ttl = Some(time_to_live(arguments.integer_of(option)?)?);
        } else if is(option, "LEASE") {
            arguments.once(1, option)?;
            wish.lease = TokenChoice { token: arguments.identifier_of(option)?, chosen: true };
        } else if is(option, "SWITCH") {
            arguments.once(2, option)?;
            wish.switch = Some(arguments.identifier_of(option)?);
        } else if is(option, "PEER") {
            arguments.once(3, option)?;
            wish.peer = Some(arguments.identifier_of(option)?);
        } else if is(option, "PREFIX") {
            arguments.once(4, option)?;
            wish.prefix = Some(number(arguments.value(option)?)?);
        } else if is(option, "PICK") {
            arguments.once(5, option)?;
            wish.pick = Some(policy(option, arguments.value(option)?)?);
        } else {
            return Err(unknown(option));
        }
    }
    if !wish.lease.chosen {
        wish.lease.token = made.get_or_init(token::make);
    }
    let outcome = change::<Pool, _>(call.ctx, call.key()?, |step| {
        let decision = decide_call(step, &mut wish)?;
        Ok(settle(step, decision))
    });
    reply(call, outcome)
}

/// Decides a call, with what the pool needs for it at hand.
fn decide_call(step: &mut Step<'_, '_, Pool>, wish: &mut request::Call<'_>) -> Result<Decision, Refusal> {
    if wish.pick.unwrap_or(step.state().settings().pick) == Policy::Random {
        wish.random = token::random();
    }
    if wish.number.is_none() {
        step.state_mut().prepare(wish.pick, wish.prefix);
    }
    decide(step.state(), step.now(), &Request::Call(*wish))
}

/// How many numbers are tried for something that is there on some of them already.
const TRIED: usize = 64;

/// Calls a number of a pool for something that will hang it up, unless `take` refuses that number: both happen, or
/// neither does. Where it is there already on that number (`EXISTS`), the others are tried, the longest waiting first.
/// The lease never falls due by itself.
pub(crate) fn call_for<T>(
    ctx: Context<'_>,
    pool: KeyName<'_>,
    lease: &[u8],
    take: impl Fn(Number) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut wish = request::Call {
        number: None,
        ttl: None,
        endless: true,
        lease: TokenChoice { token: lease, chosen: false },
        switch: None,
        peer: None,
        prefix: None,
        pick: None,
        random: 0,
    };
    change::<Pool, _>(ctx, pool, |step| {
        let mut others = None;
        loop {
            let decision = decide_call(step, &mut wish)?;
            let Reply::Lease(record) = &decision.reply else {
                info::NUMPOOL_NONE_FREE.add(1);
                let name = allot_core::shared::text::quoted(pool.as_bytes());
                let text = format!("no number of the pool {name} can be called now");
                return Err(Refusal::new(Code::Limit, text));
            };
            let number = record.number;
            let refusal = match take(number) {
                Err(refusal) if refusal.code == Code::Exists => refusal,
                Err(refusal) => return Err(refusal),
                Ok(taken) => {
                    settle(step, decision);
                    return Ok(taken);
                }
            };
            let others = others.get_or_insert_with(|| {
                let waiting = step.state().waiting().filter(|other| *other != number).take(TRIED);
                waiting.collect::<Vec<_>>().into_iter()
            });
            wish.number = others.next();
            if wish.number.is_none() {
                return Err(refusal);
            }
        }
    })
}

/// `NUMPOOL.HANGUP key number [LEASE token] [COOLDOWN ms]`
pub(super) fn hangup(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let number = number(arguments.any()?)?;
    let (mut lease, mut cooldown) = (None, None);
    while let Some(option) = arguments.option() {
        if is(option, "LEASE") {
            arguments.once(0, option)?;
            lease = Some(arguments.identifier_of(option)?);
        } else if is(option, "COOLDOWN") {
            arguments.once(1, option)?;
            cooldown = Some(arguments.integer_of(option)?);
        } else {
            return Err(unknown(option));
        }
    }
    answer(call, &Request::HangUp { number, lease, cooldown })
}

/// `NUMPOOL.RENEW key number LEASE token TTL ms`
pub(super) fn renew(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let number = number(arguments.any()?)?;
    let (mut lease, mut ttl) = (None, None);
    while let Some(option) = arguments.option() {
        if is(option, "LEASE") {
            arguments.once(0, option)?;
            lease = Some(arguments.identifier_of(option)?);
        } else if is(option, "TTL") {
            arguments.once(1, option)?;
            ttl = Some(time_to_live(arguments.integer_of(option)?)?);
        } else {
            return Err(unknown(option));
        }
    }
    let missing = |what: &str| Refusal::new(Code::Err, format!("{what} is missing"));
    let lease = lease.ok_or_else(|| missing("LEASE"))?;
    let ttl = ttl.ok_or_else(|| missing("TTL"))?;
    answer(call, &Request::Renew { number, lease, ttl })
}

/// `NUMPOOL.RECONCILE key SWITCH id [BEFORE ms] [LEASE token ...]`
pub(super) fn reconcile(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (mut switch, mut before, mut leases) = (None, None, Vec::new());
    while let Some(option) = arguments.option() {
        if is(option, "SWITCH") {
            arguments.once(0, option)?;
            switch = Some(arguments.identifier_of(option)?);
        } else if is(option, "BEFORE") {
            arguments.once(1, option)?;
            before = Some(arguments.integer_of(option)?);
        } else if is(option, "LEASE") {
            leases.push(arguments.identifier_of(option)?);
            while arguments.next_is(|_| true) {
                leases.push(arguments.identifier("LEASE")?);
            }
        } else {
            return Err(unknown(option));
        }
    }
    let switch =
        switch.ok_or_else(|| Refusal::new(Code::Err, "SWITCH is missing: say whose leases to look at"))?;
    answer(call, &Request::Reconcile { switch, before, leases: &leases })
}

/// `NUMPOOL.CONFIG key [LEASE ms] [COOLDOWN ms] [REGTTL ms] [PICK policy] [EVENTS n]`
pub(super) fn configure(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let mut changes = Changes::default();
    while let Some(option) = arguments.option() {
        if is(option, "LEASE") {
            arguments.once(0, option)?;
            changes.lease =
                Some(config::check_ttl(&config::NUMPOOL_MAX_TTL, "LEASE", arguments.integer_of(option)?)?);
        } else if is(option, "COOLDOWN") {
            arguments.once(1, option)?;
            changes.cooldown = Some(arguments.integer_of(option)?);
        } else if is(option, "REGTTL") {
            arguments.once(2, option)?;
            changes.regttl =
                Some(config::check_ttl(&config::NUMPOOL_MAX_TTL, "REGTTL", arguments.integer_of(option)?)?);
        } else if is(option, "PICK") {
            arguments.once(3, option)?;
            changes.pick = Some(policy(option, arguments.value(option)?)?);
        } else if is(option, "EVENTS") {
            arguments.once(4, option)?;
            let events = arguments.integer_of(option)?;
            let events = u32::try_from(events).map_err(|_| {
                Refusal::new(Code::Err, format!("EVENTS must be 0 to {}, not {events}", u32::MAX))
            })?;
            changes.events = Some(events);
        } else {
            return Err(unknown(option));
        }
    }
    if changes.events.is_some_and(|events| events > 0) {
        outbox::check_stream(call.ctx, call.key()?, "EVENTS")?;
    }
    // A new pool is made with them, so that its first event says all.
    let settings = configured(Settings::default(), &changes)?;
    answer_or_create(call, settings, &Request::Configure(changes))
}

/// `NUMPOOL.APPLY key payload`: what a master decided.
pub(super) fn apply(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let payload = arguments.any()?;
    arguments.finish()?;
    family::obey::<Pool>(call.ctx, call.key()?, payload)?;
    call.ctx.reply_ok();
    Ok(())
}

/// One number or more: words up to the first that cannot be one.
fn numbers(arguments: &mut Arguments<'_>) -> Result<Numbers, Refusal> {
    let mut numbers: Numbers = smallvec![number(arguments.any()?)?];
    while arguments.next_is(Number::is_like) {
        numbers.push(number(arguments.any()?)?);
    }
    Ok(numbers)
}

/// A number.
pub(super) fn number(text: &[u8]) -> Result<Number, Refusal> {
    Number::parse(text).ok_or_else(|| {
        let text = allot_core::shared::text::quoted(text);
        Refusal::new(Code::Err, format!("number {text} is not 1 to 32 characters of 0-9 + * #"))
    })
}

fn policy(option: &[u8], value: &[u8]) -> Result<Policy, Refusal> {
    let policy = Policy::ALL.into_iter().find(|policy| is(value, policy.word()));
    policy.ok_or_else(|| not_one_of(option, value, "LONGEST, RANDOM, LEASTUSED or STICKY"))
}

fn time_to_live(ttl: i64) -> Result<i64, Refusal> {
    config::check_ttl(&config::NUMPOOL_MAX_TTL, "TTL", ttl)
}
