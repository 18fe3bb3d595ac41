//! Creations that wait until a unit has room for them.

use allot_core::conf::outcome::Decided;
use allot_core::conf::request::{ClientRequest, Create, Request};
use allot_core::conf::{Event, Realm, Reply, decide};
use allot_core::invariant;
use allot_core::shared::Bytes;
use allot_core::shared::machine::Events;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::MAX_TTL;

use super::counters;
use super::replies::{Shown, reply_shown};
use crate::engine::argument::Argument;
use crate::engine::step::{Step, change, forget_waiter};
use crate::engine::waiting::{self, Grant, Undo};
use crate::ffi::{Context, KeyName};

/// How long a creation waits, in milliseconds, 0 without an end; `None` if it does not wait.
pub(super) fn wait_of(wait: &Argument<'_>) -> Result<Option<i64>, Refusal> {
    let Some(wait) = wait.optional_integer() else { return Ok(None) };
    if (0..=MAX_TTL).contains(&wait) {
        return Ok(Some(wait));
    }
    Err(Refusal::new(Code::Err, format!("WAIT must be 0 to {MAX_TTL} ms, not {wait}")))
}

/// Blocks the client of a creation that was decided in this way, if it is worth waiting, and the call may wait. Returns
/// whether the client waits.
pub(super) fn begins(
    ctx: Context<'_>,
    name: KeyName<'_>,
    step: &mut Step<'_, '_, Realm>,
    (create, wait): (&Create<'_>, i64),
    decided: &Decided,
) -> Result<bool, Refusal> {
    if !step.state().is_worth_waiting(create, decided) || !waiting::may_block(ctx)? {
        return Ok(false);
    }
    let id = waiting::block(ctx, name, wait, forget_waiter::<Realm>, None);
    let now = step.now();
    step.state_mut().wait(now, id, create);
    Ok(true)
}

/// The next creation that waits for a realm to be answered.
pub(super) fn grant(realm: &mut Realm, now: i64) -> Option<Grant<Events<Event>>> {
    let grant = realm.next_grant(now, waiting::is_alive)?;
    let waiter = grant.waiter;
    match grant.outcome {
        Ok(decision) => {
            let Reply::Conference(e164) = decision.reply else {
                invariant!("a creation is answered with a conference");
                return Some(refused(waiter, "ERR internal: no conference was created".to_owned()));
            };
            let epoch = decision.events.iter().find_map(|event| match event {
                Event::Created(created) => Some(created.epoch),
                _ => None,
            });
            let undo = epoch.map(|epoch| take_back(e164.clone(), epoch));
            let answer = Box::new(|ctx: Context<'_>| ctx.reply_nothing());
            Some(Grant { waiter, events: decision.events, answer, granted: Some(e164), undo })
        }
        Err(refusal) => {
            counters::CONF_REFUSED.add(1);
            Some(refused(waiter, refusal.to_string()))
        }
    }
}

fn refused(waiter: u64, line: String) -> Grant<Events<Event>> {
    let answer = Box::new(move |ctx: Context<'_>| ctx.reply_error(&line));
    Grant { waiter, events: Events::new(), answer, granted: None, undo: None }
}

/// The answer to a creation that has waited: the record of the conference, and after which id the event stream has its
/// events.
pub(super) fn complete(realm: &Realm, grant: &mut Grant<Events<Event>>) {
    let Some(conference) = grant.granted.as_deref().and_then(|e164| realm.conference_called(e164)) else {
        return;
    };
    let (shown, before) = (Shown::of(realm, conference).into_owned(), realm.outbox().last_id);
    grant.answer = Box::new(move |ctx| reply_shown(ctx, &shown, Some(before)));
}

/// Ends a conference whose creator does not know of it.
fn take_back(e164: Bytes, epoch: u64) -> Undo {
    Box::new(move |ctx, name| {
        // A realm that is gone has no conferences.
        let _ = change::<Realm, _>(ctx, name, |step| {
            let is_same =
                |realm: &Realm| realm.conference_called(&e164).is_some_and(|one| one.epoch == epoch);
            if is_same(step.state()) {
                let request = Request::Client(ClientRequest::Release { e164: &e164 });
                let decision = decide(step.state(), step.now(), &request)?;
                decision.events.iter().for_each(|event| step.apply(event));
            }
            Ok(())
        });
    })
}
