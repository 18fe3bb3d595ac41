//! The `CONF.*` commands that change a realm: they read the arguments, have the state machine decide, and reply.
//! `units` has the commands by which units report, and `CMU.*`.

use allot_core::conf::request::{
    Changes, Claim, ClientRequest, Create, Request, SchedulerRequest, Set, UnitRequest, WishesRequest,
};
use allot_core::conf::state::Settings;
use allot_core::conf::{Event, Realm, Reply};
use allot_core::invariant;
use allot_core::shared::decision::Decision;
use allot_core::shared::refusal::{Code, Refusal};

use super::replies::{reply_conference, reply_realm};
use super::{counters, waiting};
use crate::engine::argument::Argument;
use crate::engine::reply::reply_present;
use crate::engine::step::{self, Step, answer, change, count_refused};
use crate::engine::waiting::cancel_undo;
use crate::engine::{Call, Done, outbox, token};
use crate::ffi::{Context, KeyName};
use crate::numpool::call_number;

/// `CONF.REALM key [option value ...]`
pub(super) fn realm(
    call: &Call<'_>,
    [
        _,
        licences,
        retry,
        window,
        policy,
        create_timeout,
        release_timeout,
        wait_timeout,
        tombstone,
        placement,
        tries,
        failures,
        warn,
        ramp,
        dropped,
    ]: &[Argument<'_>; 15],
) -> Done {
    let changes = Changes {
        licences: licences.optional_integer(),
        retry: retry.optional_integer(),
        window: window.optional_integer(),
        policy: policy.member()?,
        create_timeout: create_timeout.optional_integer(),
        release_timeout: release_timeout.optional_integer(),
        wait_timeout: wait_timeout.optional_integer(),
        tombstone: tombstone.optional_integer(),
        placement: placement.member()?,
        tries: tries.optional_integer(),
        failures: failures.optional_integer(),
        warn: warn.optional_integer(),
        ramp: ramp.optional_integer(),
    };
    let name = call.key()?;
    let exists = step::exists::<Realm>(call.ctx, name)?;
    // Without options this is a read, so the timer applies the deadlines that have passed.
    let dropped = dropped.is_given();
    if exists && changes == Changes::default() && !dropped {
        return reply_settings(call);
    }
    if dropped && changes != Changes::default() {
        let text = "DROP changes no setting; send the settings by a CONF.REALM of their own";
        return Err(Refusal::new(Code::Err, text));
    }
    if exists && !dropped {
        return answer_client(call, ClientRequest::Configure(changes));
    }
    if !exists {
        check_hash_tag(call.ctx, name)?;
        let settings = Settings::default().with(&changes)?;
        step::create::<Realm>(call.ctx, name, &Event::Opened { settings })?;
    }
    // A realm that was deleted is dropped as well: units that come back may have copies.
    if dropped { answer_client(call, ClientRequest::Drop) } else { reply_settings(call) }
}

fn reply_settings(call: &Call<'_>) -> Done {
    step::read::<Realm>(call, |realm, _| {
        reply_realm(call.ctx, realm);
        Ok(())
    })
}

/// Refuses a key of a cluster without a hash tag: its streams would be in other slots.
fn check_hash_tag(ctx: Context<'_>, name: KeyName<'_>) -> Done {
    if ctx.is_cluster() && !outbox::has_hash_tag(name.as_bytes()) {
        let text = "in a cluster a realm needs a hash tag in its key's name, as in '{emea}:conf', so that its streams \
                    are in its slot";
        return Err(Refusal::new(Code::Err, text));
    }
    Ok(())
}

pub(super) fn answer_client(call: &Call<'_>, request: ClientRequest<'_>) -> Done {
    answer::<Realm>(call, &Request::Client(request))
}

pub(super) fn answer_unit(call: &Call<'_>, request: UnitRequest<'_>) -> Done {
    answer::<Realm>(call, &Request::Unit(request))
}

/// Answers a request of the scheduler, whose term is an argument of the call.
pub(super) fn answer_scheduler(call: &Call<'_>, term: &Argument<'_>, request: SchedulerRequest<'_>) -> Done {
    answer::<Realm>(call, &Request::Scheduler { term: term.optional_natural(), request })
}

/// `CONF.TERM key term leader [FORCE]`
pub(super) fn claim(call: &Call<'_>, [_, term, leader, force]: &[Argument<'_>; 4]) -> Done {
    let (term, leader) = (term.natural(), leader.text());
    answer::<Realm>(call, &Request::Claim(Claim { term, leader, force: force.is_given() }))
}

/// `CONF.CREATE key e164 [START ms] [END ms] [SIZE n] ...` or `CONF.CREATE key * FROM pool ...`
pub(super) fn create(
    call: &Call<'_>,
    [
        _,
        e164,
        start,
        end,
        size,
        licences,
        priority,
        zone,
        zone_fall,
        host,
        require,
        prefer,
        no_recovery,
        request,
        pool,
        wait,
    ]: &[Argument<'_>; 16],
) -> Done {
    let wishes = WishesRequest {
        zone: Some(zone.optional_text()),
        zone_fall: zone_fall.optional_integer(),
        host: Some(host.optional_text()),
        require: require.optional_words(),
        prefer: prefer.optional_words(),
    };
    let create = Create {
        e164: e164.text(),
        start: start.optional_integer(),
        end: end.optional_integer(),
        size: size.optional_integer().unwrap_or(1),
        licences: licences.optional_integer().unwrap_or(1),
        priority: priority.optional_integer().unwrap_or(0),
        wishes,
        recoverable: !no_recovery.is_given(),
        waits: false,
        request: request.optional_text(),
        called_from: None,
    };
    let pool = pool.place_of_key().map(|place| call.key_at(place)).transpose()?;
    let wait = waiting::wait_of(wait)?;
    if wait.is_some() && create.start.is_some() {
        let text = "START and WAIT exclude each other: LIMIT names the earliest START that fits";
        return Err(Refusal::new(Code::Err, text));
    }
    match (create.e164 == b"*", pool) {
        (false, None) => answer_created(call, |step| {
            // Those that wait come first.
            step.serve();
            let decided = step.decide(&created(create));
            match wait {
                Some(wait) if waiting::begins(call.ctx, call.key()?, step, (&create, wait), &decided)? => {
                    Ok(None)
                }
                _ => decided.map(Some),
            }
        }),
        (true, Some(_)) if wait.is_some() => {
            let text = "a creation with FROM does not WAIT: call a number with NUMPOOL.CALL first";
            Err(Refusal::new(Code::Err, text))
        }
        (true, Some(pool)) => create_from(call, &create, pool),
        (true, None) => {
            Err(Refusal::new(Code::Err, "* stands for a number that is called: say FROM which pool"))
        }
        (false, Some(_)) => {
            Err(Refusal::new(Code::Err, "FROM calls any number of the pool, so * must stand for the e164"))
        }
    }
}

/// Creates a conference. The reply says after which id the event stream has the events of the conference. Without a
/// decision the client waits.
fn answer_created(
    call: &Call<'_>,
    decide: impl FnOnce(&mut Step<'_, '_, Realm>) -> Result<Option<Decision<Event, Reply>>, Refusal>,
) -> Done {
    count_refused::<Realm>(change::<Realm, _>(call.ctx, call.key()?, |step| {
        let before = step.state().outbox().last_id;
        let Some(decision) = decide(step)? else { return Ok(()) };
        step.apply_decision(&decision);
        let Reply::Conference(e164) = &decision.reply else {
            invariant!("a creation is answered with a conference");
            return Err(Refusal::new(Code::Err, "internal: no conference was created"));
        };
        // Perhaps the retry of a creation whose connection ended before the answer was sent.
        cancel_undo(call.ctx.selected_db(), call.key()?, e164);
        let realm = step.state();
        reply_present(call.ctx, realm.conference_called(e164), |conference| {
            reply_conference(call.ctx, realm, conference, Some(before));
        });
        Ok(())
    }))
}

/// Creates a conference on a number of a pool: the number is called and the conference created, or neither.
fn create_from(call: &Call<'_>, create: &Create<'_>, pool: KeyName<'_>) -> Done {
    let lease = token::make();
    let mut create = *create;
    create.called_from = Some((pool.as_bytes(), &lease));
    let mut of_pool = None;
    let done = answer_created(call, |step| {
        step.serve();
        // Before a number is called, so that a retry gets the reply that was lost.
        if let Some(known) = create.request.and_then(|request| step.state().asked_for(request)) {
            return Ok(Some(Decision::unchanged(Reply::Conference(known.e164.clone()))));
        }
        let take = |number: &[u8]| step.decide(&created(Create { e164: number, ..create }));
        let (called, effects) = call_number(call.ctx, pool, call.key()?, &lease, take)?;
        of_pool = Some(effects);
        called.map(Some)
    });
    if let Some(effects) = of_pool {
        effects.publish();
    }
    done
}

fn created(create: Create<'_>) -> Request<'_> {
    Request::Client(ClientRequest::Create(create))
}

/// `CONF.RELEASE key e164`
pub(super) fn release(call: &Call<'_>, [_, e164]: &[Argument<'_>; 2]) -> Done {
    answer_client(call, ClientRequest::Release { e164: e164.text() })
}

/// `CONF.EXTEND key e164 END ms [DRYRUN]`
pub(super) fn extend(call: &Call<'_>, [_, e164, end, dry_run]: &[Argument<'_>; 4]) -> Done {
    let dry_run = dry_run.is_given();
    answer_client(call, ClientRequest::Extend { e164: e164.text(), end: end.integer(), dry_run })
}

/// `CONF.RESIZE key e164 size`
pub(super) fn resize(call: &Call<'_>, [_, e164, size]: &[Argument<'_>; 3]) -> Done {
    answer_client(call, ClientRequest::Resize { e164: e164.text(), size: size.integer() })
}

/// The name that follows a keyword; `Some(None)` if the keyword is given that removes the name.
#[allow(clippy::option_option, reason = "not named, none, or a name")]
fn name_or_none<'a>(
    name: &Argument<'a>,
    none: &Argument<'_>,
    both: &str,
) -> Result<Option<Option<&'a [u8]>>, Refusal> {
    match (name.optional_text(), none.is_given()) {
        (Some(_), true) => Err(Refusal::new(Code::Err, format!("{both} exclude each other"))),
        (None, false) => Ok(None),
        (name, _) => Ok(Some(name)),
    }
}

/// `CONF.ALTER key e164 [ZONE z|NOZONE] [ZONEFALL ms] [UNIT host|NOUNIT] [REQUIRE n tag ...] [PREFER n tag ...]`
pub(super) fn alter(
    call: &Call<'_>,
    [_, e164, zone, no_zone, zone_fall, host, no_host, require, prefer]: &[Argument<'_>; 9],
) -> Done {
    let wishes = WishesRequest {
        zone: name_or_none(zone, no_zone, "ZONE and NOZONE")?,
        zone_fall: zone_fall.optional_integer(),
        host: name_or_none(host, no_host, "UNIT and NOUNIT")?,
        require: require.optional_words(),
        prefer: prefer.optional_words(),
    };
    answer_client(call, ClientRequest::Alter { e164: e164.text(), wishes })
}

/// `CONF.SET key e164 cmu epoch seq field value [field value ...]`: the hot path.
pub(super) fn set(call: &Call<'_>, [_, e164, cmu, epoch, seq, fields]: &[Argument<'_>; 6]) -> Done {
    let (e164, cmu, fields) = (e164.text(), cmu.text(), fields.words());
    let (epoch, seq) = (epoch.natural(), seq.natural());
    let set = Set { e164, cmu, epoch, seq, fields };
    change::<Realm, _>(call.ctx, call.key()?, |step| {
        let request = Request::Unit(UnitRequest::Set(set));
        let done = step.answer(&request);
        if let Err(refusal) = &done {
            let was_owner = step.state().may_write(e164, cmu, epoch).is_ok();
            counters::write_refused(refusal.code, was_owner);
        }
        done
    })
}

/// The most conferences that `CONF.RECOVER` places and that `CONF.REBALANCE` moves, if the caller gives no number.
const USUAL_COUNT: i64 = 100;

/// `CONF.RECOVER key [COUNT n] [TERM t]`
pub(super) fn recover(call: &Call<'_>, [_, count, term]: &[Argument<'_>; 3]) -> Done {
    let count = count.optional_integer().unwrap_or(USUAL_COUNT);
    answer_scheduler(call, term, SchedulerRequest::Recover { count })
}

/// `CONF.REBALANCE key [MAXMOVES n] [DRYRUN] [TERM t]`
pub(super) fn rebalance(call: &Call<'_>, [_, most, dry_run, term]: &[Argument<'_>; 4]) -> Done {
    let most = most.optional_integer().unwrap_or(USUAL_COUNT);
    answer_scheduler(call, term, SchedulerRequest::Rebalance { most, dry_run: dry_run.is_given() })
}

/// `CONF.RESTART key LIVE n cmu ... [TERM t]`
pub(super) fn restart(call: &Call<'_>, [_, live, term]: &[Argument<'_>; 3]) -> Done {
    answer_scheduler(call, term, SchedulerRequest::Restart { live: live.words().to_vec() })
}

/// `CONF.MOVE key e164 [TO cmu] [TERM t]`
pub(super) fn move_(call: &Call<'_>, [_, e164, to, term]: &[Argument<'_>; 4]) -> Done {
    answer_scheduler(call, term, SchedulerRequest::Move { e164: e164.text(), to: to.optional_text() })
}
