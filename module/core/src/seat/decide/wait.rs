//! The waiting list: `SEAT.WAIT`, `SEAT.UNWAIT`, and the offers to waiters.

use super::freed::{still_missing, why_never};
use super::rows::candidates;
use super::rules::{
    Decided, check_block_limit, check_user_limits, deadline, live_block, resolve, retried, turn_of,
};
use super::search::{Found, Search};
use crate::seat::event::{Event, Held, Waited};
use crate::seat::outcome::{Reply, WaitRecord};
use crate::seat::plan::max;
use crate::seat::request::Wait;
use crate::seat::state::Show;
use crate::seat::venue::Seat;
use crate::seat::waiting::{MAX_QUEUES, MAX_WAITERS};
use crate::seat::wish::{LastingWish, NamedWish, NumberedWish, Wish};
use crate::shared::counter::Counter;
use crate::shared::decision::{decided, unchanged};
use crate::shared::field::Any;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;
use crate::shared::token::check_ttl;
use crate::shared::{Bytes, Millis};

pub(super) fn decide_wait(show: &Show, now: Millis, wait: &Wait<'_>) -> Decided {
    let fingerprint = wait.fingerprint();
    if let Some(record) = waited(show, now, wait, fingerprint)? {
        return unchanged(Reply::Wait(record));
    }
    wait.hold.wish.check()?;
    check_ttl(wait.hold.ttl)?;
    let offered_until = deadline(show, now, now, wait.offer)?;
    let (count, user) = (wait.hold.wish.count, wait.hold.user);
    let most = show.limits.seats_per_user;
    if most > 0 && count > most {
        return refuse(Code::Limit, format!("a user may have {most} seats, not {count}"));
    }
    wait.hold.wish.from.map(|name| live_block(show, now, name)).transpose()?;
    let wish = resolve(show, &wait.hold.wish)?;
    check_possible(show, user, &wish)?;
    let token = Bytes::from_slice(wait.hold.token.token);
    let wait_until = now.saturating_add(wait.hold.ttl);
    let record = |position: u64, until| {
        let (token, user, offered) = (token.clone(), Bytes::from_slice(user), position == 0);
        Reply::Wait(WaitRecord { token, user, count, offered, position, since: now, until })
    };
    if !show.waiters.is_closed()
        && within_limits(show, user, count, wish.from)
        && let Found::Seats(seats) = Search::new(show, &wish, &[], false).run()
    {
        let reply = record(0, offered_until);
        let (user, turn) = (Bytes::from_slice(user), turn_of(show, &wish, &seats));
        let fingerprint = Any(fingerprint);
        let (until, replaced, exchange) = (offered_until, None, false);
        let held = Held { token, user, until, fingerprint, seats, turn, replaced, exchange };
        return decided(Event::Offered { held, wait_until }, reply);
    }
    let ids = wish;
    let wish = lasting(&wait.hold.wish, ids.clone());
    if wish.from.is_none()
        && !show.waiters.has_queue(&wish)
        && let Some(why) = why_never(show, &ids)
    {
        return refuse(Code::Limit, why);
    }
    check_room(show, wait, &wish)?;
    let position = show.waiters.next_position(&wish, wait.priority) as u64;
    let (reply, until) = (record(position, wait_until), wait_until);
    let user = Bytes::from_slice(user);
    let (priority, offer, fingerprint) = (wait.priority, wait.offer, Any(fingerprint));
    let waited = Waited { token, user, wish, priority, until, offer, fingerprint };
    decided(Event::Waited(Box::new(waited)), reply)
}

/// The record of the wait, if an equal request with this token made it before.
fn waited(
    show: &Show,
    now: Millis,
    wait: &Wait<'_>,
    fingerprint: u64,
) -> Result<Option<WaitRecord>, Refusal> {
    let token = wait.hold.token;
    if let Some(id) = show.waiters.find(token.token) {
        let waiter = show.waiters.get(id);
        if waiter.until > now && token.chosen && waiter.fingerprint == fingerprint {
            return Ok(Some(show.wait_record(id)));
        }
        return refuse(Code::Exists, format!("token {} is in use by a waiting user", quoted(token.token)));
    }
    let offered = show.waiting(token.token, now);
    if offered.is_none() && show.ended_waits.contains(token.token, now) {
        let text = format!(
            "the wait {} has ended: its user was served, declined the seats, or left; to wait again, choose another token",
            quoted(token.token)
        );
        return refuse(Code::Ended, text);
    }
    Ok(retried(show, now, wait.hold.user, token, fingerprint)?.and(offered))
}

/// Refuses a wish that no seats that become free could ever meet: the show has too few, or the user has bought too many
/// of the show or of the block.
fn check_possible(show: &Show, user: &[u8], wish: &NumberedWish) -> Result<(), Refusal> {
    let (count, most) = (wish.count, show.limits.seats_per_user);
    let seats_of = |&bucket: &u32| show.bucket_at(bucket).counts.all();
    let seats: u32 = candidates(show, wish).iter().map(seats_of).sum();
    if seats < count {
        let text = format!("the show has {seats} seats of this tier and these areas, not {count}");
        return refuse(Code::Limit, text);
    }
    let bought = show.claims.user_called(user).map_or(0, |id| {
        let held = show.claims.holds_of(id).map(|hold| show.claims.get(hold).seats.len() as u32);
        show.claims.user(id).seats.saturating_sub(held.sum())
    });
    if most > 0 && bought + count > most {
        let text = format!("user {} may have {most} seats and has bought {bought}", quoted(user));
        return refuse(Code::Limit, text);
    }
    let holds = show.claims.user_called(user).into_iter().flat_map(|id| show.claims.holds_of(id));
    let held: Vec<Seat> = holds.flat_map(|hold| show.claims.get(hold).seats.iter().copied()).collect();
    check_block_limit(show, wish.from, user, count, &held)
}

/// Whether the limits of the show and of a block allow a user so many further seats.
pub(in crate::seat) fn within_limits(show: &Show, user: &[u8], count: u32, from: Option<u32>) -> bool {
    check_user_limits(show, user, count, None, 0).is_ok()
        && check_block_limit(show, from, user, count, &[]).is_ok()
}

/// Checks the limits of the waiting list.
fn check_room(show: &Show, wait: &Wait<'_>, wish: &LastingWish) -> Result<(), Refusal> {
    let (waiters, user) = (&show.waiters, wait.hold.user);
    let waits = waiters.of_user(user);
    let most = match show.limits.waits_per_user {
        0 => max::WAITS_PER_USER,
        most => most,
    };
    if waits.len() as u32 >= most {
        let first = waits.first().map(|&id| quoted(&waiters.get(id).token[..]));
        let token = first.unwrap_or_default();
        let text =
            format!("user {} may wait {most} times and waits {}; token: {token}", quoted(user), waits.len());
        return refuse(Code::Limit, text);
    }
    if waiters.len() >= MAX_WAITERS {
        return refuse(Code::Limit, format!("{MAX_WAITERS} users wait already"));
    }
    if waiters.queues() >= MAX_QUEUES && !waiters.has_queue(wish) {
        return refuse(Code::Limit, format!("the waiting list has {MAX_QUEUES} different wishes already"));
    }
    Counter::new("number of arrivals", waiters.arrivals).check_room()
}

/// The wish as a waiter has it; `ids` is the same wish by numbers.
fn lasting(names: &NamedWish<'_>, ids: NumberedWish) -> LastingWish {
    let Wish { count, mut areas, adjacent, orphans, flags, mut needs, preferred, .. } = ids;
    areas.sort_unstable();
    areas.dedup();
    needs.sort_unstable_by_key(|need| need.flag);
    let (tier, from) = (names.tier.map(Bytes::from_slice), names.from.map(Bytes::from_slice));
    Wish { count, tier, areas, adjacent, orphans, flags, needs, preferred, from }
}

pub(super) fn decide_unwait(show: &Show, now: Millis, token: &[u8]) -> Decided {
    match show.waiters.find(token) {
        Some(id) if show.waiters.get(id).until > now => {
            decided(Event::Unwaited { token: Bytes::from_slice(token), expired: false }, Reply::Ok)
        }
        _ if show.claims.find(token).is_some() => {
            let text = format!("token {} does not wait any more: it has seats", quoted(token));
            refuse(Code::BadState, text)
        }
        _ => refuse(Code::NotFound, format!("nobody waits under token {}", quoted(token))),
    }
}

/// What was found for a waiter.
pub(in crate::seat) enum Examined {
    /// The time of the wait is over.
    Over(Event),
    /// An offer.
    Served(Event),
    /// No seats; at least so many seats that the wish may take must become free before it can be met.
    InVain {
        /// At least 1.
        missing: u32,
    },
}

/// Examines the list for the first waiter of a queue. O(seats that have changed since); if they may meet the wish, or all
/// seats are to be searched, as a search.
pub(in crate::seat) fn examine(show: &Show, now: Millis, id: u32) -> Examined {
    let waiter = show.waiters.get(id);
    if waiter.until <= now {
        return Examined::Over(Event::Unwaited { token: waiter.token.clone(), expired: true });
    }
    let queue = show.waiters.queue_of(waiter);
    let Some(wish) = served_wish(show, now, &queue.wish) else {
        return Examined::InVain { missing: queue.missing };
    };
    if let Some(changed) = show.waiters.changed_for(queue) {
        let missing = still_missing(show, &wish, queue.missing, changed);
        if missing > 0 {
            return Examined::InVain { missing };
        }
    }
    let search = Search::for_waiter(show, &wish);
    let Found::Seats(seats) = search.run() else {
        return Examined::InVain { missing: search.missing_in_all() };
    };
    let longest = show.limits.max_hold_ms as Millis;
    let offer = if longest > 0 { waiter.offer.min(longest) } else { waiter.offer };
    let held = Held {
        token: waiter.token.clone(),
        user: waiter.user.clone(),
        until: now.saturating_add(offer),
        fingerprint: Any(waiter.fingerprint),
        turn: turn_of(show, &wish, &seats),
        seats,
        replaced: None,
        exchange: false,
    };
    Examined::Served(Event::Offered { held, wait_until: waiter.until })
}

/// The wish of a waiter with the numbers of now; `None` if no seat has its tier any more, or its block does not exist, or
/// has passed its end.
fn served_wish(show: &Show, now: Millis, wish: &LastingWish) -> Option<NumberedWish> {
    let tier = match &wish.tier {
        None => None,
        Some(name) => Some(show.venue.tier_called(name)?),
    };
    let from = match &wish.from {
        None => None,
        Some(name) => Some(show.blocks.called(name).filter(|&block| !show.has_ended(block, now))?),
    };
    let Wish { count, areas, adjacent, orphans, flags, needs, preferred, .. } = wish.clone();
    Some(Wish { count, tier, areas, adjacent, orphans, flags, needs, preferred, from })
}

/// The waiters whose time is over, as events, at most `limit`.
pub(super) fn overdue_waits(show: &Show, now: Millis, limit: usize) -> impl Iterator<Item = Event> {
    let due = show.waiters.deadlines.due(now, limit);
    let token = |id: u32| show.waiters.get(id).token.clone();
    due.into_iter().map(move |id| Event::Unwaited { token: token(id), expired: true })
}
