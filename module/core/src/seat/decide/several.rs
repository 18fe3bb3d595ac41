//! The same seats in several shows: the evenings of a season ticket, the legs of a journey.
//!
//! Each show decides for itself. Only the best seats are one question: the search in the first show sees, of its seats,
//! those that the other shows have free as well.

use super::also::{Also, Other};
use super::cart::decide_add_best;
use super::decide;
use super::hold::{Terms, decide_hold};
use super::rules::{Decided, available_seats, bad_seat, live_block, named, retried};
use crate::seat::claims::Seats;
use crate::seat::event::Turn;
use crate::seat::outcome::{Decision, HoldRecord, Reply};
use crate::seat::request::{AddBest, Hold, Pick, Request};
use crate::seat::state::Show;
use crate::seat::venue::Seat;
use crate::shared::Millis;
use crate::shared::decision::unchanged;
use crate::shared::machine::Machine;
use crate::shared::refusal::{Code, Refusal, refuse, try_again};
use crate::shared::text::quoted;

/// The most shows that a request names beside the first, of each kind.
pub const MOST_SHOWS: usize = 100;

/// The most positions of all shows together that one request searches, in about 10 ms.
pub const MOST_SEARCHED: u64 = 2_000_000;

/// How often a position counts in a show in which seats have other numbers: each seat is looked up by its id.
const BY_ID: u64 = 25;

/// A show of a request, and its time.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The show.
    pub show: &'a Show,
    /// *Now* of the show, which is not before the last time applied.
    pub now: Millis,
}

/// The shows of a request for the same seats in several.
#[derive(Clone, Copy, Debug)]
pub struct Several<'a> {
    /// The show whose modes and rules choose the best seats.
    pub first: At<'a>,
    /// The other shows, none of them twice.
    pub also: &'a [At<'a>],
    /// Shows in which seats that are taken are preferred.
    pub beside: &'a [&'a Show],
}

/// A refusal, and the place of the show that refuses: 0 for the first.
pub type Refused = (usize, Refusal);

/// Decides a request on several shows: a decision for each, that of the first before the others, or for the first alone if
/// it grants nothing. As `decide` for each show, with the same seats in all of them. A decision that may be another once
/// deadlines that have passed are carried out is refused with `TRYAGAIN`.
///
/// # Errors
/// The refusal of one of the shows.
pub fn decide_in_all(shows: &Several<'_>, request: &Request<'_>) -> Result<Vec<Decision>, Refused> {
    let decided = match request {
        Request::Hold(hold) => hold_in_all(shows, hold),
        Request::AddBest(add) => add_in_all(shows, add),
        _ => {
            let first = decide(shows.first.show, shows.first.now, request).map_err(|refusal| (0, refusal))?;
            shows.followed_by(first, |at| decide(at.show, at.now, request))
        }
    };
    let may_differ = match &decided {
        Ok(decisions) => decisions.iter().all(|decision| decision.reply == Reply::None),
        Err((_, refusal)) => refusal.code.may_be_lifted(),
    };
    let overdue = |at: &At<'_>| at.show.count_overdue(at.now, 1) > 0;
    match std::iter::once(&shows.first).chain(shows.also).position(overdue).filter(|_| may_differ) {
        None => decided,
        Some(place) => {
            let at = if place == 0 { Some(&shows.first) } else { shows.also.get(place - 1) };
            let count = |limit| at.map_or(0, |at| at.show.count_overdue(at.now, limit));
            try_again(count).map_err(|refusal| (place, refusal))
        }
    }
}

impl Several<'_> {
    /// The decision of the first show, and those of the others.
    fn followed_by(
        &self,
        first: Decision,
        decide: impl Fn(&At<'_>) -> Decided,
    ) -> Result<Vec<Decision>, Refused> {
        let mut decisions = vec![first];
        for (at, place) in self.also.iter().zip(1..) {
            decisions.push(decide(at).map_err(|refusal| (place, refusal))?);
        }
        Ok(decisions)
    }

    /// As `followed_by`: the others hold the seats that the first does. Without such seats, none is asked.
    fn with_seats_of(
        &self,
        first: Decision,
        decide: impl Fn(&At<'_>, &[&[u8]]) -> Decided,
    ) -> Result<Vec<Decision>, Refused> {
        let ids = match &first.reply {
            Reply::Hold(HoldRecord { seats, .. }) => ids(self.first.show, seats),
            _ => return Ok(vec![first]),
        };
        let ids: Vec<&[u8]> = ids.iter().map(String::as_bytes).collect();
        self.followed_by(first, |at| decide(at, &ids))
    }

    /// The other shows, for a request that only looks.
    ///
    /// # Errors
    /// There is no such block in one of the shows.
    pub(in crate::seat) fn looked_at(&self, block: Option<&[u8]>) -> Result<Also<'_>, Refused> {
        self.others(|at| {
            let from = block.map(|name| live_block(at.show, at.now, name)).transpose()?;
            Ok(Terms::of_seats_alone(from))
        })
    }

    /// The other shows, with the terms of the request in each.
    fn others<'a>(
        &'a self,
        terms: impl Fn(&At<'a>) -> Result<Terms<'a>, Refusal>,
    ) -> Result<Also<'a>, Refused> {
        let venue = &self.first.show.venue;
        let mut others = Vec::with_capacity(self.also.len());
        for (at, place) in self.also.iter().zip(1..) {
            let Terms { from, lifted, again, .. } = terms(at).map_err(|refusal| (place, refusal))?;
            others.push(Other { from, lifted, again, ..Other::of(at.show, venue) });
        }
        let also = Also::new(others, self.beside, venue);
        let searched = u64::from(venue.position_count()) * also.weight(BY_ID);
        if searched > MOST_SEARCHED {
            let text = format!(
                "the shows have {searched} positions together, and one request searches {MOST_SEARCHED} (those of a show \
                 with other seats than the first count {BY_ID} times): name fewer shows, or pick the seats"
            );
            return Err((0, Refusal::new(Code::Limit, text)));
        }
        Ok(also)
    }
}

fn ids(show: &Show, seats: &Seats) -> Vec<String> {
    seats.iter().map(|&seat| show.venue.id(seat)).collect()
}

fn hold_in_all(shows: &Several<'_>, hold: &Hold<'_>) -> Result<Vec<Decision>, Refused> {
    let (fingerprint, At { show, now }) = (hold.fingerprint(), shows.first);
    let known = |at: &At<'_>| retried(at.show, at.now, hold.user, hold.token, fingerprint);
    let first = if known(&shows.first).map_err(|refusal| (0, refusal))?.is_some() {
        decide_hold(show, now, hold, fingerprint, None)
    } else {
        let also = shows.others(|at| match known(at)? {
            Some(_) => refuse(Code::Exists, held_here_alone(hold.token.token)),
            None => Terms::of(at.show, at.now, hold),
        })?;
        decide_hold(show, now, hold, fingerprint, Some(&also))
    };
    let first = first.map_err(|refusal| (0, refusal))?;
    shows.with_seats_of(first, |at, named_seats| {
        let seats = named(at.show, named_seats)?;
        match known(at)? {
            Some(record) if record.seats == seats => unchanged(Reply::Hold(record)),
            Some(_) => refuse(Code::Exists, held_here_alone(hold.token.token)),
            None => {
                let terms = Terms::of(at.show, at.now, hold)?;
                check_free(at.show, &seats, &terms)?;
                terms.held(hold, fingerprint, seats, Turn::None)
            }
        }
    })
}

fn held_here_alone(token: &[u8]) -> String {
    format!("token {} holds seats here that it does not hold in the first show", quoted(token))
}

/// Refuses seats that are neither free nor lifted.
fn check_free(show: &Show, seats: &[Seat], terms: &Terms<'_>) -> Result<(), Refusal> {
    let lifted = |seat: &Seat| terms.lifted.contains(seat) && show.blocks.of(*seat) == terms.from;
    let (again, others): (Vec<Seat>, Vec<Seat>) = seats.iter().partition(|&seat| lifted(seat));
    match again.first() {
        Some(&seat) if !terms.again => bad_seat(show, seat, "another seat than before"),
        _ => available_seats(show, &others, terms.from),
    }
}

fn add_in_all(shows: &Several<'_>, add: &AddBest<'_>) -> Result<Vec<Decision>, Refused> {
    let (At { show, now }, hold) = (shows.first, &add.hold);
    let also = shows.looked_at(hold.wish.from)?;
    let first = decide_add_best(show, now, add, Some(&also)).map_err(|refusal| (0, refusal))?;
    shows.with_seats_of(first, |at, seats| {
        let Hold { user, ttl, token, .. } = *hold;
        let (from, seats) = (hold.wish.from, seats.to_vec());
        decide(
            at.show,
            at.now,
            &Request::AddPicked(Pick { user, ttl, token, orphans: None, from, seats, exchange: Vec::new() }),
        )
    })
}
