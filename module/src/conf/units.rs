//! Notices of units about a conference (`CONF.ACK`, `CONF.NACK`, `CONF.ENDED`), and `CMU.*`.

use allot_core::conf::request::{
    AssignmentNotice, ClientRequest, CopyParams, DrainOf, End, Report, SchedulerRequest, UnitRequest,
};
use allot_core::shared::refusal::Refusal;

use super::writes::{answer_client, answer_scheduler, answer_unit};
use crate::engine::argument::Argument;
use crate::engine::word::{natural, whole};
use crate::engine::{Call, Done};

/// The lease of a unit whose `CMU.JOIN` has no `LEASE`, in milliseconds.
const LEASE_MS: i64 = 5000;

fn notice<'a>(e164: &Argument<'a>, cmu: &Argument<'a>, epoch: &Argument<'a>) -> AssignmentNotice<'a> {
    AssignmentNotice { e164: e164.text(), cmu: cmu.text(), epoch: epoch.natural() }
}

/// `CONF.ACK key e164 cmu epoch`
pub(super) fn ack(call: &Call<'_>, [_, e164, cmu, epoch]: &[Argument<'_>; 4]) -> Done {
    answer_unit(call, UnitRequest::Ack(notice(e164, cmu, epoch)))
}

/// `CONF.NACK key e164 cmu epoch [reason]`
pub(super) fn nack(call: &Call<'_>, [_, e164, cmu, epoch, reason]: &[Argument<'_>; 5]) -> Done {
    answer_unit(call, UnitRequest::Nack(notice(e164, cmu, epoch), reason.optional_text()))
}

/// `CONF.FAILED key e164 cmu epoch [reason]`
pub(super) fn failed(call: &Call<'_>, [_, e164, cmu, epoch, reason]: &[Argument<'_>; 5]) -> Done {
    let notice = notice(e164, cmu, epoch);
    answer_unit(call, UnitRequest::Failed(notice, reason.optional_text()))
}

/// `CONF.ENDED key e164 cmu epoch [RELEASED]`
pub(super) fn ended(call: &Call<'_>, [_, e164, cmu, epoch, released]: &[Argument<'_>; 5]) -> Done {
    let end = if released.is_given() { End::Released } else { End::People };
    answer_unit(call, UnitRequest::Ended(notice(e164, cmu, epoch), end))
}

/// `CMU.JOIN key cmu CAPACITY n [ZONE z] [TAGS n tag ...] [LEASE ms] [MACHINE m]`
pub(super) fn join(
    call: &Call<'_>,
    [_, cmu, capacity, zone, tags, lease, machine]: &[Argument<'_>; 7],
) -> Done {
    let (cmu, capacity, zone, tags) = (cmu.text(), capacity.integer(), zone.optional_text(), tags.words());
    let (lease, machine) = (lease.optional_integer().unwrap_or(LEASE_MS), machine.optional_text());
    answer_unit(call, UnitRequest::Join { cmu, capacity, zone, tags, lease, machine })
}

/// `CMU.BEAT key cmu [LOAD n]`
pub(super) fn beat(call: &Call<'_>, [_, cmu, load]: &[Argument<'_>; 3]) -> Done {
    answer_unit(call, UnitRequest::Beat { cmu: cmu.text(), load: load.optional_integer() })
}

/// `CMU.REPORT key cmu HIGHEST epoch [ENDED n e164 epoch ...] [STARTING n e164 epoch ...] [PARAMS n e164 end size
/// priority request ...] [e164 epoch ...]`
pub(super) fn report(
    call: &Call<'_>,
    [_, cmu, highest, ended, starting, params, list]: &[Argument<'_>; 7],
) -> Done {
    let (ended, starting, list) = (assignments(ended)?, assignments(starting)?, assignments(list)?);
    let params = params.words().as_chunks().0.iter().map(copy_params).collect::<Result<_, _>>()?;
    let (cmu, highest) = (cmu.text(), highest.natural());
    answer_unit(call, UnitRequest::Report(Report { cmu, highest, ended, starting, params, list }))
}

/// Pairs of E.164 number and epoch.
fn assignments<'a>(rows: &Argument<'a>) -> Result<Vec<(&'a [u8], u64)>, Refusal> {
    let rows = rows.words().as_chunks().0.iter();
    rows.map(|&[e164, epoch]| Ok((e164, natural("epoch", epoch)?))).collect()
}

/// What the unit knows about a conference: number, end, size, priority and request. What it does not know is empty.
fn copy_params<'a>(row: &[&'a [u8]; 5]) -> Result<CopyParams<'a>, Refusal> {
    let [e164, end, size, priority, request] = *row;
    let known = |word: &'a [u8]| Some(word).filter(|word| !word.is_empty());
    let number = |what, word| known(word).map(|word| whole(what, word)).transpose();
    let (size, priority) = (number("size", size)?.unwrap_or(1), number("priority", priority)?.unwrap_or(0));
    Ok(CopyParams { e164, end: number("end", end)?, size, priority, request: known(request) })
}

/// `CMU.ASK key [cmu] LIST|DETAILS`
pub(super) fn ask(call: &Call<'_>, [_, cmu, what]: &[Argument<'_>; 3]) -> Done {
    let details = what.choice(&[false, true]) == Some(true);
    answer_client(call, ClientRequest::Ask { cmu: cmu.optional_text(), details })
}

/// The mode of `CMU.DRAIN`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    Off,
    Move,
}

/// `CMU.DRAIN key HOST host|cmu [OFF|MOVE] [TERM t]`
pub(super) fn drain(call: &Call<'_>, [_, which, how, term]: &[Argument<'_>; 4]) -> Done {
    let is_host = which.choice(&[true, false]) == Some(true);
    let of = if is_host { DrainOf::Host(which.text()) } else { DrainOf::Unit(which.text()) };
    let how = how.choice(&[Drain::Off, Drain::Move]);
    let (on, moves) = (how != Some(Drain::Off), how == Some(Drain::Move));
    answer_scheduler(call, term, SchedulerRequest::Drain { of, on, moves })
}

/// `CMU.LEAVE key cmu`
pub(super) fn leave(call: &Call<'_>, [_, cmu]: &[Argument<'_>; 2]) -> Done {
    answer_unit(call, UnitRequest::Leave { cmu: cmu.text() })
}

/// `CMU.DOWN key cmu [TERM t]`
pub(super) fn down(call: &Call<'_>, [_, cmu, term]: &[Argument<'_>; 3]) -> Done {
    answer_scheduler(call, term, SchedulerRequest::Down { cmu: cmu.text() })
}
