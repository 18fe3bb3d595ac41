//! Decides requests: searches, checks every limit, and changes nothing.

mod alter;
pub mod overdue;
pub mod search;

use self::search::{Found, Search, Wish};
use super::claims::{MAX_COUNT, Seats, Stage};
use super::event::{Event, Events, Held, Turn};
pub use super::outcome::{Decision, HoldRecord, Reply};
use super::plan::PlanPart;
use super::request::{Hold, Orphans, Pick, Request, Wanted};
use super::state::{Owner, Show};
use super::venue::Seat;
use crate::invariant;
use crate::shared::decision::{self, decided, unchanged};
use crate::shared::field::Any;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;
use crate::shared::token::{TokenChoice, check_identifier, check_ttl};
use crate::shared::{Bytes, Millis};

type Decided = decision::Decided<Event, Reply>;

/// Decides a request at `now`, which is not before the last time applied. The overdue holds of
/// `overdue::decide_overdue` have expired before.
///
/// # Errors
/// A refusal, with its error code and text.
pub fn decide(show: &Show, now: Millis, request: &Request<'_>) -> Decided {
    match request {
        Request::Hold(hold) => decide_hold(show, now, hold),
        Request::Pick(pick) => decide_pick(show, now, pick),
        Request::Extend { token, ttl } => decide_extend(show, now, token, *ttl),
        Request::Confirm { token, user, order } => decide_confirm(show, token, *user, *order),
        Request::Release { token, seats } => decide_release(show, token, seats.as_deref()),
        Request::Refund { order, seats } => decide_refund(show, *order, seats),
        Request::Block(seats) => {
            let seats = named(show, seats)?;
            all_are(show, &seats, Owner::Free, "free")?;
            let count = seats.len() as i64;
            decided(Event::Blocked { seats }, Reply::Integer(count))
        }
        Request::Unblock(seats) => {
            let seats = named(show, seats)?;
            all_are(show, &seats, Owner::Blocked, "blocked")?;
            let count = seats.len() as i64;
            decided(Event::Unblocked { seats }, Reply::Integer(count))
        }
        Request::Alter(part) => decide_alter(show, part),
    }
}

/// The events of holds whose deadline has passed, at most `limit`. Call again until none are left.
pub fn decide_due(show: &Show, now: Millis, limit: usize) -> Events {
    let due = show.claims.due(now, limit);
    due.into_iter().map(|id| Event::Expired { token: show.claims.get(id).token.clone() }).collect()
}

fn decide_hold(show: &Show, now: Millis, hold: &Hold<'_>) -> Decided {
    let fingerprint = hold.fingerprint();
    if let Some(record) = retried(show, hold.user, hold.token, fingerprint)? {
        return unchanged(Reply::Hold(record));
    }
    hold.wanted().check()?;
    let until = deadline(show, now, now, hold.ttl)?;
    let replaced = match hold.replace {
        Some(replace) => Some(live_hold(show, replace.token, Some(hold.user))?),
        None => None,
    };
    check_user_limits(show, hold.user, hold.count as u32, replaced)?;
    let wish = resolve(show, &hold.wanted())?;
    let lifted = replaced.map(|id| show.claims.get(id));
    let again = hold.replace.is_some_and(|replace| !replace.other);
    let seats = match Search::new(show, &wish, lifted.map_or(&[], |claim| &claim.seats), again).run() {
        Found::TooFew => return unchanged(Reply::None),
        Found::NotAdjacent => {
            let alone = if hold.orphans == Orphans::Forbid {
                " without leaving a single one beside them"
            } else {
                ""
            };
            return refuse(Code::NoAdjacent, format!("no {} seats side by side are free{alone}", hold.count));
        }
        Found::Seats(seats) => seats,
    };
    let turn = turn_of(show, &wish, &seats);
    let replaced = lifted.map(|claim| claim.token.clone());
    decided_hold(hold.user, hold.token.token, until, fingerprint, seats, turn, replaced)
}

fn decide_pick(show: &Show, now: Millis, pick: &Pick<'_>) -> Decided {
    let fingerprint = pick.fingerprint();
    if let Some(record) = retried(show, pick.user, pick.token, fingerprint)? {
        return unchanged(Reply::Hold(record));
    }
    if pick.seats.len() as i64 > MAX_COUNT {
        return refuse(Code::Err, format!("a hold has at most {MAX_COUNT} seats, not {}", pick.seats.len()));
    }
    let until = deadline(show, now, now, pick.ttl)?;
    let seats = named(show, &pick.seats)?;
    check_user_limits(show, pick.user, seats.len() as u32, None)?;
    all_are(show, &seats, Owner::Free, "free")?;
    decided_hold(pick.user, pick.token.token, until, fingerprint, seats, Turn::None, None)
}

fn decided_hold(
    user: &[u8],
    token: &[u8],
    until: Millis,
    fingerprint: u64,
    seats: Seats,
    turn: Turn,
    replaced: Option<Bytes>,
) -> Decided {
    let (token, user) = (Bytes::from_slice(token), Bytes::from_slice(user));
    let record = HoldRecord { token: token.clone(), user: user.clone(), seats: seats.clone(), until };
    let held = Held { token, user, until, fingerprint: Any(fingerprint), seats, turn, replaced };
    decided(Event::Held(held), Reply::Hold(record))
}

/// The record of the hold, if an equal request with this token made it before.
fn retried(
    show: &Show,
    user: &[u8],
    token: TokenChoice<'_>,
    fingerprint: u64,
) -> Result<Option<HoldRecord>, Refusal> {
    check_identifier("user", user)?;
    check_identifier("token", token.token)?;
    let Some(id) = show.claims.find(token.token) else { return Ok(None) };
    let claim = show.claims.get(id);
    match claim.stage {
        Stage::Held { until } if token.chosen && claim.fingerprint == fingerprint => {
            let user = show.claims.user(claim.user).name.clone();
            Ok(Some(HoldRecord { token: claim.token.clone(), user, seats: claim.seats.clone(), until }))
        }
        Stage::Held { .. } => {
            refuse(Code::Exists, format!("token {} is in use by another hold", quoted(token.token)))
        }
        Stage::Sold { .. } => {
            refuse(Code::Exists, format!("token {} is in use: its seats are sold", quoted(token.token)))
        }
    }
}

fn decide_extend(show: &Show, now: Millis, token: &[u8], ttl: Millis) -> Decided {
    let id = live_hold(show, token, None)?;
    let until = deadline(show, now, show.claims.get(id).created, ttl)?;
    decided(Event::Extended { token: Bytes::from_slice(token), until }, Reply::Integer(until))
}

fn decide_confirm(show: &Show, token: &[u8], user: Option<&[u8]>, order: Option<&[u8]>) -> Decided {
    if let Some(order) = order {
        check_identifier("order", order)?;
    }
    let Some(id) = show.claims.find(token) else { return no_hold(token) };
    let claim = show.claims.get(id);
    check_user(show, id, user)?;
    match claim.stage {
        Stage::Held { .. } => {
            let event = Event::Confirmed { token: claim.token.clone(), order: order.map(Bytes::from_slice) };
            decided(event, Reply::Integer(claim.seats.len() as i64))
        }
        Stage::Sold { order: filed, bought } => {
            let filed = filed.map(|order| &show.claims.order(order).reference[..]);
            if filed == order {
                return unchanged(Reply::Integer(bought.into()));
            }
            let filed = filed.map_or_else(
                || "without an order".to_owned(),
                |filed| format!("under order {}", quoted(filed)),
            );
            refuse(Code::Exists, format!("token {} is sold already, {filed}", quoted(token)))
        }
    }
}

fn decide_release(show: &Show, token: &[u8], seats: Option<&[&[u8]]>) -> Decided {
    let id = live_hold(show, token, None)?;
    let claim = show.claims.get(id);
    let seats = match seats {
        None => claim.seats.clone(),
        Some(ids) => {
            let seats = named(show, ids)?;
            if let Some(&seat) = seats.iter().find(|seat| !claim.seats.contains(seat)) {
                return refuse(
                    Code::NotOwner,
                    format!("seat {} is not of hold {}", quoted(show.venue.id(seat)), quoted(token)),
                );
            }
            seats
        }
    };
    let count = seats.len() as i64;
    decided(Event::Released { token: claim.token.clone(), seats }, Reply::Integer(count))
}

fn decide_refund(show: &Show, order: Option<&[u8]>, ids: &[&[u8]]) -> Decided {
    let seats = named(show, ids)?;
    for &seat in &seats {
        let stage = match show.owner(seat) {
            Owner::Claim(id) => Some(show.claims.get(id).stage),
            Owner::Free | Owner::Blocked => None,
        };
        let Some(Stage::Sold { order: filed, .. }) = stage else {
            return bad_seat(show, seat, "sold");
        };
        let filed = filed.map(|order| &show.claims.order(order).reference[..]);
        if let Some(order) = order
            && filed != Some(order)
        {
            return refuse(
                Code::NotOwner,
                format!("seat {} is not of order {}", quoted(show.venue.id(seat)), quoted(order)),
            );
        }
    }
    let count = seats.len() as i64;
    decided(Event::Refunded { seats }, Reply::Integer(count))
}

fn decide_alter(show: &Show, part: &PlanPart) -> Decided {
    if part.areas.iter().all(|area| area.rows.is_empty()) {
        let limits = alter::altered_limits(show.limits, part);
        limits.check()?;
        let events = part.events.unwrap_or(show.events);
        let areas = alter::arranged_areas(show, part)?;
        return match (areas.is_empty(), limits == show.limits && events == show.events) {
            (true, true) => unchanged(Reply::Ok),
            (true, false) => decided(Event::Limited { limits, events }, Reply::Ok),
            (false, _) => decided(Event::Arranged { limits, events, areas }, Reply::Ok),
        };
    }
    let plan = alter::altered_plan(show, part)?;
    if plan == show.plan() {
        return unchanged(Reply::Ok);
    }
    decided(Event::Altered { plan: plan.to_json() }, Reply::Ok)
}

/// A deadline `ttl` after `now`, for a hold made at `created`; refused beyond the longest life of a hold.
fn deadline(show: &Show, now: Millis, created: Millis, ttl: Millis) -> Result<Millis, Refusal> {
    check_ttl(ttl)?;
    let until = now.saturating_add(ttl);
    let longest = show.limits.max_hold_ms as Millis;
    if longest > 0 && until > created.saturating_add(longest) {
        let left = (created.saturating_add(longest) - now).max(0);
        return refuse(
            Code::Limit,
            format!("a hold lives at most {longest} ms in all; this one may have {left} more"),
        );
    }
    Ok(until)
}

fn check_user_limits(show: &Show, user: &[u8], count: u32, replaced: Option<u32>) -> Result<(), Refusal> {
    let limits = show.limits;
    let Some(info) = show.claims.user_called(user) else {
        if limits.seats_per_user > 0 && count > limits.seats_per_user {
            return refuse(
                Code::Limit,
                format!("a user may have {} seats, not {count}", limits.seats_per_user),
            );
        }
        return Ok(());
    };
    let holds = show.claims.holds_of(info);
    let live = holds
        .first()
        .map_or_else(String::new, |&id| format!("; live hold: {}", quoted(&show.claims.get(id).token[..])));
    let given_up = replaced.map_or(0, |id| show.claims.get(id).seats.len() as u32);
    let kept_holds = holds.len() as u32 - u32::from(replaced.is_some());
    if limits.holds_per_user > 0 && kept_holds >= limits.holds_per_user {
        return refuse(
            Code::Limit,
            format!(
                "user {} may have {} live holds and has {kept_holds}{live}",
                quoted(user),
                limits.holds_per_user
            ),
        );
    }
    let kept = show.claims.user(info).seats - given_up;
    if limits.seats_per_user > 0 && kept.saturating_add(count) > limits.seats_per_user {
        return refuse(
            Code::Limit,
            format!("user {} may have {} seats and has {kept}{live}", quoted(user), limits.seats_per_user),
        );
    }
    Ok(())
}

/// Resolves the names of a request.
pub(super) fn resolve(show: &Show, wanted: &Wanted<'_>) -> Result<Wish, Refusal> {
    let tier = match wanted.tier {
        None => None,
        Some(name) => match show.venue.tier_called(name) {
            Some(tier) => Some(tier),
            None => return refuse(Code::NotFound, format!("no seat of this show has tier {}", quoted(name))),
        },
    };
    let mut areas = Vec::with_capacity(wanted.areas.len());
    for name in wanted.areas {
        match show.venue.area_called(name) {
            Some(area) => areas.push(area),
            None => return refuse(Code::NotFound, format!("this show has no area {}", quoted(name))),
        }
    }
    let flags = wanted.flags.iter().fold(0, |all, name| all | show.venue.flag_bit(name));
    let (adjacent, orphans) = (wanted.adjacent, wanted.orphans);
    Ok(Wish { count: wanted.count as usize, tier, areas, adjacent, orphans, flags })
}

/// The turn that these seats take: that of their area, if they all lie in one.
fn turn_of(show: &Show, wish: &Wish, seats: &[Seat]) -> Turn {
    let area = |seat: &Seat| show.venue.area_of(show.venue.row_of(*seat));
    let (Some(first), Some(last)) = (seats.first().map(area), seats.last().map(area)) else {
        invariant!("a hold has seats");
        return Turn::None;
    };
    if first != last {
        return Turn::None;
    }
    if wish.tier.is_none() {
        return Turn::Area(first);
    }
    let place = seats.first().and_then(|&seat| show.strip_of(seat));
    invariant!(place.is_some(), "a seat that is held lies in a bucket");
    place.map_or(Turn::None, |(bucket, _)| Turn::Bucket(bucket))
}

/// The number of a live hold; with `user`, it must be that user's.
fn live_hold(show: &Show, token: &[u8], user: Option<&[u8]>) -> Result<u32, Refusal> {
    let Some(id) = show.claims.find(token) else { return no_hold(token) };
    check_user(show, id, user)?;
    match show.claims.get(id).stage {
        Stage::Held { .. } => Ok(id),
        Stage::Sold { .. } => refuse(Code::BadState, format!("token {} is sold, not held", quoted(token))),
    }
}

fn check_user(show: &Show, id: u32, user: Option<&[u8]>) -> Result<(), Refusal> {
    match user {
        Some(user) if show.claims.user(show.claims.get(id).user).name[..] != *user => refuse(
            Code::NotOwner,
            format!("token {} is not of user {}", quoted(&show.claims.get(id).token[..]), quoted(user)),
        ),
        _ => Ok(()),
    }
}

fn no_hold<T>(token: &[u8]) -> Result<T, Refusal> {
    refuse(Code::NotFound, format!("there is no hold {}; it may have expired", quoted(token)))
}

/// Numbers of the seats of these ids, in ascending order.
fn named(show: &Show, ids: &[&[u8]]) -> Result<Seats, Refusal> {
    if ids.is_empty() {
        return refuse(Code::Err, "at least one seat must be named");
    }
    let mut seats = Seats::with_capacity(ids.len());
    for id in ids {
        match show.venue.find(id) {
            Some(seat) => seats.push(seat),
            None => return refuse(Code::NotFound, format!("seat {} is not in the show", quoted(id))),
        }
    }
    seats.sort_unstable();
    if let Some(&[seat, _]) = seats.windows(2).find(|pair| matches!(pair, [a, b] if a == b)) {
        return refuse(Code::Err, format!("seat {} is named twice", quoted(show.venue.id(seat))));
    }
    Ok(seats)
}

fn all_are(show: &Show, seats: &[Seat], owner: Owner, state: &str) -> Result<(), Refusal> {
    let wrong: Vec<Seat> = seats.iter().copied().filter(|&seat| show.owner(seat) != owner).collect();
    match *wrong {
        [] => Ok(()),
        [seat] => bad_seat(show, seat, state),
        _ => {
            const SHOWN: usize = 20;
            let named =
                |&seat: &Seat| format!("{} ({})", quoted(show.venue.id(seat)), show.state(seat).word());
            let mut list: Vec<String> = wrong.iter().take(SHOWN).map(named).collect();
            if wrong.len() > SHOWN {
                list.push(format!("and {} more", wrong.len() - SHOWN));
            }
            refuse(Code::BadState, format!("seats {} are not {state}", list.join(", ")))
        }
    }
}

fn bad_seat<T>(show: &Show, seat: Seat, wanted: &str) -> Result<T, Refusal> {
    let state = show.state(seat).word();
    refuse(Code::BadState, format!("seat {} is {state}, not {wanted}", quoted(show.venue.id(seat))))
}
