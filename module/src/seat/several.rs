//! The same seats in several shows: `ALSO n key ...` and `BESIDE n key ...`.

use allot_core::seat::claims::Seats;
use allot_core::seat::decide::several::{At, MOST_SHOWS, Refused, Several, decide_in_all};
use allot_core::seat::find::find_in_all;
use allot_core::seat::request::{NamedWish, Request};
use allot_core::seat::{Decision, Show};
use allot_core::shared::invariant::Expected;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use crate::engine::argument::Argument;
use crate::engine::step::{self, answer, count_refused};
use crate::engine::{Call, Done};
use crate::ffi::KeyName;

/// The keys of a call for several shows: the first, those of `ALSO`, those of `BESIDE`.
struct Names<'a> {
    all: Vec<KeyName<'a>>,
    /// How many of `all` are the first and those of `ALSO`.
    changed: usize,
}

impl<'a> Names<'a> {
    fn of(call: &Call<'a>, also: &Argument<'a>, beside: &Argument<'a>) -> Result<Self, Refusal> {
        let also_shows = also.at_most(MOST_SHOWS, "shows")?.len();
        beside.at_most(MOST_SHOWS, "shows")?;
        Ok(Self { all: call.keys_with(&[also, beside])?, changed: 1 + also_shows })
    }

    /// Calls `ask` with the shows of these states, which are in the order of the names.
    fn ask<'s, T>(
        &self,
        states: impl Iterator<Item = (&'s Show, i64)>,
        ask: impl FnOnce(&Several<'_>) -> Result<T, Refused>,
    ) -> Result<T, Refusal> {
        let mut states = states.map(|(show, now)| At { show, now });
        let shows: Vec<At<'_>> = states.by_ref().take(self.changed).collect();
        let beside: Vec<&Show> = states.map(|at| at.show).collect();
        let Some((&first, also)) = shows.split_first().expected("a call for several shows names the first")
        else {
            return Err(Refusal::new(Code::Err, "internal: the call has no show"));
        };
        ask(&Several { first, also, beside: &beside }).map_err(|(place, refusal)| {
            let name = self.all.get(place).map_or_else(String::new, |name| quoted(name.as_bytes()));
            Refusal::new(refusal.code, format!("{name}: {}", refusal.text))
        })
    }
}

/// As `answer`, with the same seats in several shows.
pub(super) fn answer_in_all<'a>(
    call: &Call<'a>,
    also: &Argument<'a>,
    beside: &Argument<'a>,
    request: &Request<'_>,
) -> Done {
    if !also.is_given() && !beside.is_given() {
        return answer::<Show>(call, request);
    }
    let names = Names::of(call, also, beside)?;
    count_refused::<Show>(step::change_all::<Show, _>(call.ctx, &names.all, |steps| {
        if let Some(first) = steps.first_mut() {
            first.prepare(request);
        }
        let states = steps.iter().map(|step| (step.state(), step.now()));
        let decisions: Vec<Decision> = names.ask(states, |shows| decide_in_all(shows, request))?;
        for (step, decision) in steps.iter_mut().zip(&decisions) {
            step.apply_decision(decision);
        }
        if let (Some(first), Some(decision)) = (steps.first(), decisions.first()) {
            first.reply(request, &decision.reply);
        }
        Ok(())
    }))
}

/// As `Show::find`, in several shows. Calls `reply` with the first of them and the offers.
pub(super) fn find<'a>(
    call: &Call<'a>,
    also: &Argument<'a>,
    beside: &Argument<'a>,
    (wish, best): (&NamedWish<'_>, usize),
    reply: impl FnOnce(&Show, &[Seats]),
) -> Done {
    if !also.is_given() && !beside.is_given() {
        return step::read::<Show>(call, |show, _| {
            reply(show, &show.find(wish, best)?);
            Ok(())
        });
    }
    let names = Names::of(call, also, beside)?;
    step::read_all::<Show, _>(call.ctx, &names.all, |states| {
        let offers = names.ask(states.iter().copied(), |shows| find_in_all(shows, wish, best))?;
        if let Some((first, _)) = states.first() {
            reply(first, &offers);
        }
        Ok(())
    })
}
