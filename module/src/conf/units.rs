//! Notices of units about a conference (`CONF.ACK`, `CONF.NACK`, `CONF.ENDED`), and `CMU.*`.

use allot_core::conf::request::{AssignmentNotice, Report, Request};

use super::writes::answer;
use crate::engine::argument::Argument;
use crate::engine::word::natural;
use crate::engine::{Call, Done};

/// The lease of a unit that asks for none.
const LEASE_MS: i64 = 5000;

fn notice<'a>(e164: &Argument<'a>, cmu: &Argument<'a>, epoch: &Argument<'a>) -> AssignmentNotice<'a> {
    AssignmentNotice { e164: e164.text(), cmu: cmu.text(), epoch: epoch.natural() }
}

/// `CONF.ACK key e164 cmu epoch`
pub(super) fn ack(call: &Call<'_>, [_, e164, cmu, epoch]: &[Argument<'_>; 4]) -> Done {
    answer(call, &Request::Ack(notice(e164, cmu, epoch)))
}

/// `CONF.NACK key e164 cmu epoch [reason]`
pub(super) fn nack(call: &Call<'_>, [_, e164, cmu, epoch, reason]: &[Argument<'_>; 5]) -> Done {
    answer(call, &Request::Nack(notice(e164, cmu, epoch), reason.optional_text()))
}

/// `CONF.ENDED key e164 cmu epoch`
pub(super) fn ended(call: &Call<'_>, [_, e164, cmu, epoch]: &[Argument<'_>; 4]) -> Done {
    answer(call, &Request::Ended(notice(e164, cmu, epoch)))
}

/// `CMU.JOIN key cmu CAPACITY n [ZONE z] [LEASE ms]`
pub(super) fn join(call: &Call<'_>, [_, cmu, capacity, zone, lease]: &[Argument<'_>; 5]) -> Done {
    let (cmu, capacity, zone) = (cmu.text(), capacity.integer(), zone.optional_text());
    let lease = lease.optional_integer().unwrap_or(LEASE_MS);
    answer(call, &Request::Join { cmu, capacity, zone, lease })
}

/// `CMU.BEAT key cmu [LOAD n]`
pub(super) fn beat(call: &Call<'_>, [_, cmu, load]: &[Argument<'_>; 3]) -> Done {
    answer(call, &Request::Beat { cmu: cmu.text(), load: load.optional_integer() })
}

/// `CMU.REPORT key cmu HIGHEST epoch [e164 epoch ...]`
pub(super) fn report(call: &Call<'_>, [_, cmu, highest, list]: &[Argument<'_>; 4]) -> Done {
    let rows = list.words().as_chunks().0.iter();
    let list = rows.map(|&[e164, epoch]| Ok((e164, natural("epoch", epoch)?)));
    let list = list.collect::<Result<_, _>>()?;
    answer(call, &Request::Report(Report { cmu: cmu.text(), highest: highest.natural(), list }))
}

/// `CMU.ASK key [cmu] LIST|DETAILS`
pub(super) fn ask(call: &Call<'_>, [_, cmu, what]: &[Argument<'_>; 3]) -> Done {
    let details = what.choice(&[false, true]) == Some(true);
    answer(call, &Request::Ask { cmu: cmu.optional_text(), details })
}

/// The mode of `CMU.DRAIN`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    Off,
    Move,
}

/// `CMU.DRAIN key cmu [OFF|MOVE] [TERM t]`
pub(super) fn drain(call: &Call<'_>, [_, cmu, how, term]: &[Argument<'_>; 4]) -> Done {
    let how = how.choice(&[Drain::Off, Drain::Move]);
    let (on, moves) = (how != Some(Drain::Off), how == Some(Drain::Move));
    answer(call, &Request::Drain { cmu: cmu.text(), on, moves, term: term.optional_natural() })
}

/// `CMU.DOWN key cmu [TERM t]`
pub(super) fn down(call: &Call<'_>, [_, cmu, term]: &[Argument<'_>; 3]) -> Done {
    answer(call, &Request::Down { cmu: cmu.text(), term: term.optional_natural() })
}
