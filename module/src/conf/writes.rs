//! The `CONF.*` commands that change a realm: arguments in, the state machine asked, replies out. `units` has the
//! words of units and `CMU.*`.

use allot_core::conf::decide::Decided;
use allot_core::conf::request::{Changes, Create, Request, Set};
use allot_core::conf::state::{Policy, Settings};
use allot_core::conf::{Event, Realm, Reply, decide};
use allot_core::shared::refusal::{Code, Refusal};

use super::records::{reply_conference, reply_realm, reply_unit};
use crate::command::{Arguments, Call, is, not_one_of, unknown};
use crate::family::{self, Step, change};
use crate::numbers::{natural, number, term};
use crate::record::{Field, reply_record};
use crate::sys::context::Mode;
use crate::sys::value::Found;
use crate::sys::{Context, KeyName};
use crate::{info, numpool, outbox, token};

pub(super) type Done = Result<(), Refusal>;

/// Decides a request, applies what comes of it and replies.
pub(super) fn answer(call: &Call<'_>, request: &Request<'_>) -> Done {
    answer_with(call, |step| decide(step.state(), step.now(), request))
}

/// As `answer`, with a decision that takes more than the realm.
fn answer_with(call: &Call<'_>, decide: impl FnOnce(&Step<'_, '_, Realm>) -> Decided) -> Done {
    let done = change::<Realm, _>(call.ctx, call.key()?, |step| {
        let decision = decide(step)?;
        for event in &decision.events {
            step.apply(event);
        }
        reply(call.ctx, step.state(), &decision.reply);
        Ok(())
    });
    if done.is_err() {
        info::CONF_REFUSED.add(1);
    }
    done
}

fn reply(ctx: Context<'_>, realm: &Realm, reply: &Reply) {
    match reply {
        Reply::Ok => ctx.reply_ok(),
        Reply::Released => ctx.reply_string(b"RELEASE"),
        Reply::Integer(value) => ctx.reply_integer(*value),
        Reply::Realm => reply_realm(ctx, realm),
        Reply::Conference(e164) => match realm.conference_called(e164) {
            Some(one) => reply_conference(ctx, realm, one),
            None => ctx.reply_null(),
        },
        Reply::Unit(cmu) => match realm.unit_called(cmu) {
            Some(unit) => reply_unit(ctx, unit),
            None => ctx.reply_null(),
        },
        Reply::Reported(reported) => super::units::reply_reported(ctx, reported),
        Reply::Grants(grants) => {
            ctx.reply_array(grants.len());
            for grant in grants {
                ctx.reply_array(3);
                ctx.reply_string(&grant.e164);
                ctx.reply_string(&grant.cmu);
                ctx.reply_integer(grant.epoch as i64);
            }
        }
        Reply::Moves(moves, left) => {
            reply_record(ctx, &[("moves", Field::Number(*moves)), ("left", Field::Number(*left))]);
        }
    }
}

/// `CONF.REALM key [option value ...]`
pub(super) fn realm(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let mut changes = Changes::default();
    while let Some(option) = arguments.option() {
        setting(&mut arguments, option, &mut changes)?;
    }
    let name = call.key()?;
    let mut key = call.ctx.open(name, Mode::Read);
    let exists = match key.value::<Realm>() {
        Found::Nothing => false,
        Found::OtherType => return Err(family::wrong_type()),
        Found::Value(_) => true,
    };
    drop(key);
    if exists {
        return answer(call, &Request::Configure(changes));
    }
    check_hash_tag(call.ctx, name)?;
    let settings = Settings::default().with(&changes)?;
    family::create::<Realm>(call.ctx, name, &Event::Opened { settings })?;
    family::read::<Realm, _>(call.ctx, name, |realm, _| {
        reply_realm(call.ctx, realm);
        Ok(())
    })
}

fn setting(arguments: &mut Arguments<'_>, option: &[u8], changes: &mut Changes) -> Done {
    if is(option, "POLICY") {
        arguments.once(0, option)?;
        changes.policy = Some(match arguments.value(option)? {
            value if is(value, "EARLIEST") => Policy::Earliest,
            value if is(value, "KEEP") => Policy::Keep,
            value => return Err(not_one_of(option, value, "EARLIEST or KEEP")),
        });
        return Ok(());
    }
    let fields: [(&str, &mut Option<i64>); 7] = [
        ("LICENCES", &mut changes.licences),
        ("RETRY", &mut changes.retry),
        ("WINDOW", &mut changes.window),
        ("CREATETIMEOUT", &mut changes.create_timeout),
        ("RELEASETIMEOUT", &mut changes.release_timeout),
        ("WAITTIMEOUT", &mut changes.wait_timeout),
        ("TOMBSTONE", &mut changes.tombstone),
    ];
    for (number, (word, field)) in fields.into_iter().enumerate() {
        if is(option, word) {
            arguments.once(number as u32 + 1, option)?;
            *field = Some(arguments.integer_of(option)?);
            return Ok(());
        }
    }
    Err(unknown(option))
}

/// In a cluster the streams beside a key belong to its slot only by a hash tag.
fn check_hash_tag(ctx: Context<'_>, name: KeyName<'_>) -> Done {
    if ctx.is_cluster() && !outbox::has_hash_tag(name.as_bytes()) {
        let text = "in a cluster a realm needs a hash tag in its key's name, as in '{emea}:conf', so that its streams \
                    are in its slot";
        return Err(Refusal::new(Code::Err, text));
    }
    Ok(())
}

/// `CONF.TERM key term leader [FORCE]`
pub(super) fn claim(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let term = number(&mut arguments, "term")?;
    let leader = arguments.identifier("leader")?;
    let force = arguments.takes("FORCE");
    arguments.finish()?;
    answer(call, &Request::Claim { term, leader, force })
}

/// `CONF.CREATE key e164 [END ms] [SIZE n] ...` or `CONF.CREATE key * FROM pool ...`
pub(super) fn create(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let mut create = Create {
        e164: arguments.identifier("e164")?,
        end: None,
        size: 1,
        licences: 1,
        priority: 0,
        zone: None,
        recoverable: true,
        request: None,
        called_from: None,
    };
    let mut pool = None;
    while let Some(option) = arguments.option() {
        if is(option, "END") {
            arguments.once(0, option)?;
            create.end = Some(arguments.integer_of(option)?);
        } else if is(option, "SIZE") {
            arguments.once(1, option)?;
            create.size = arguments.integer_of(option)?;
        } else if is(option, "LICENCES") {
            arguments.once(2, option)?;
            create.licences = arguments.integer_of(option)?;
        } else if is(option, "PRIORITY") {
            arguments.once(3, option)?;
            create.priority = arguments.integer_of(option)?;
        } else if is(option, "ZONE") {
            arguments.once(4, option)?;
            create.zone = Some(arguments.identifier_of(option)?);
        } else if is(option, "NORECOVER") {
            arguments.once(5, option)?;
            create.recoverable = false;
        } else if is(option, "REQUEST") {
            arguments.once(6, option)?;
            create.request = Some(arguments.identifier_of(option)?);
        } else if is(option, "FROM") {
            arguments.once(7, option)?;
            arguments.value(option)?;
            pool = Some(call.name(arguments.place())?);
        } else {
            return Err(unknown(option));
        }
    }
    match (create.e164 == b"*", pool) {
        (false, None) => answer(call, &Request::Create(create)),
        (true, Some(pool)) => create_from(call, &create, pool),
        (true, None) => {
            Err(Refusal::new(Code::Err, "* stands for a number that is called: say FROM which pool"))
        }
        (false, Some(_)) => {
            Err(Refusal::new(Code::Err, "FROM calls any number of the pool, so * must stand for the e164"))
        }
    }
}

/// Creates a conference on a number of a pool: the number is called and the conference created, or neither.
fn create_from(call: &Call<'_>, create: &Create<'_>, pool: KeyName<'_>) -> Done {
    let lease = token::make();
    let mut create = *create;
    create.called_from = Some((pool.as_bytes(), &lease));
    answer_with(call, |step| {
        // Before a number is called: a retry gets the answer that was lost.
        if let Some(one) = create.request.and_then(|request| step.state().asked_for(request)) {
            return Ok(Decision::unchanged(Reply::Conference(one.e164.clone())));
        }
        numpool::call_for(call.ctx, pool, &lease, |number| {
            let number = number.to_string();
            decide(step.state(), step.now(), &Request::Create(Create { e164: number.as_bytes(), ..create }))
        })
    })
}

/// `CONF.RELEASE key e164`
pub(super) fn release(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let e164 = arguments.identifier("e164")?;
    arguments.finish()?;
    answer(call, &Request::Release { e164 })
}

/// `CONF.EXTEND key e164 END ms`
pub(super) fn extend(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let e164 = arguments.identifier("e164")?;
    if !arguments.takes("END") {
        return Err(Refusal::new(
            Code::Err,
            "END is missing: say when the conference shall end, in milliseconds",
        ));
    }
    let end = arguments.integer_of(b"END")?;
    arguments.finish()?;
    answer(call, &Request::Extend { e164, end })
}

/// `CONF.SET key e164 cmu epoch seq field value [field value ...]`: the hot path.
pub(super) fn set(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (e164, cmu) = (arguments.identifier("e164")?, arguments.identifier("cmu")?);
    let epoch = number(&mut arguments, "epoch")?;
    let seq = number(&mut arguments, "seq")?;
    let fields = arguments.rest();
    if !fields.len().is_multiple_of(2) {
        let text = "fields and values come by turns, and the last value is missing";
        return Err(Refusal::new(Code::Err, text));
    }
    let set = Set { e164, cmu, epoch, seq, fields };
    let mut fault = None;
    let done = change::<Realm, _>(call.ctx, call.key()?, |step| {
        let decided = decide(step.state(), step.now(), &Request::Set(set));
        let decision = decided.inspect_err(|refusal| {
            fault = Some((refusal.code, step.state().may_write(e164, cmu, epoch).is_ok()));
        })?;
        for event in &decision.events {
            step.apply(event);
        }
        if let Reply::Integer(written) = decision.reply {
            call.ctx.reply_integer(written);
        }
        Ok(())
    });
    if let Some((code, was_owner)) = fault {
        info::write_refused(code, was_owner);
    }
    done
}

/// `CONF.RECOVER key [COUNT n] [TERM t]`
pub(super) fn recover(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (mut count, mut claimed) = (100, None);
    while let Some(option) = arguments.option() {
        if is(option, "COUNT") {
            arguments.once(0, option)?;
            count = arguments.integer_of(option)?;
        } else if is(option, "TERM") {
            claimed = term(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    answer(call, &Request::Recover { count, term: claimed })
}

/// `CONF.RESTART key LIVE n cmu ... [TERM t]`
pub(super) fn restart(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let (mut live, mut claimed) = (None, None);
    while let Some(option) = arguments.option() {
        if is(option, "LIVE") {
            arguments.once(0, option)?;
            let none = arguments.takes("0");
            live = Some(if none { Vec::new() } else { arguments.list(option)? });
        } else if is(option, "TERM") {
            claimed = term(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    let Some(live) = live else {
        return Err(Refusal::new(Code::Err, "LIVE is missing: name the units that are alive, or LIVE 0"));
    };
    answer(call, &Request::Restart { live, term: claimed })
}

/// `CONF.MOVE key e164 [TO cmu] [TERM t]`
pub(super) fn move_(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let e164 = arguments.identifier("e164")?;
    let (mut to, mut claimed) = (None, None);
    while let Some(option) = arguments.option() {
        if is(option, "TO") {
            arguments.once(0, option)?;
            to = Some(arguments.identifier_of(option)?);
        } else if is(option, "TERM") {
            claimed = term(&mut arguments, option)?;
        } else {
            return Err(unknown(option));
        }
    }
    answer(call, &Request::Move { e164, to, term: claimed })
}

/// `CONF.APPLY key payload`: what a master decided.
pub(super) fn apply(call: &Call<'_>) -> Done {
    let mut arguments = call.arguments(2);
    let payload = arguments.any()?;
    arguments.finish()?;
    family::obey::<Realm>(call.ctx, call.key()?, payload)?;
    call.ctx.reply_ok();
    Ok(())
}

/// An epoch among other words.
pub(super) fn epoch(argument: &[u8]) -> Result<u64, Refusal> {
    natural("epoch", argument)
}
