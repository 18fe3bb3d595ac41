//! Rules that several requests share: names, limits, deadlines, tokens.

use crate::invariant;
use crate::seat::claims::{Claim, Seats, Stage};
use crate::seat::event::{Event, Turn};
use crate::seat::outcome::{HoldRecord, Reply};
use crate::seat::state::{Owner, Show};
use crate::seat::venue::Seat;
use crate::seat::wish::{NamedWish, Need, NumberedWish, Wish};
use crate::shared::Millis;
use crate::shared::decision;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;
use crate::shared::token::{TokenChoice, check_identifier, check_ttl};

/// A decision on a request to a show.
pub(in crate::seat) type Decided = decision::Decided<Event, Reply>;

/// The record of the hold, if an equal request with this token made it before.
pub(in crate::seat) fn retried(
    show: &Show,
    now: Millis,
    user: &[u8],
    token: TokenChoice<'_>,
    fingerprint: u64,
) -> Result<Option<HoldRecord>, Refusal> {
    check_identifier("user", user)?;
    check_identifier("token", token.token)?;
    if show.waiters.find(token.token).is_some() {
        return refuse(Code::Exists, format!("token {} is in use by a waiting user", quoted(token.token)));
    }
    let Some(id) = show.claims.find(token.token) else { return Ok(None) };
    let claim = show.claims.get(id);
    match show.claims.stage(id) {
        Stage::Held { until } if until > now && token.chosen && claim.fingerprint == fingerprint => {
            Ok(Some(show.hold_record(claim, until)))
        }
        Stage::Held { .. } => {
            refuse(Code::Exists, format!("token {} is in use by another hold", quoted(token.token)))
        }
        Stage::Sold(_) => {
            refuse(Code::Exists, format!("token {} is in use: its seats are sold", quoted(token.token)))
        }
    }
}

/// A deadline `ttl` after `now`, for a hold made at `created`; refused beyond the longest life of a hold.
pub(in crate::seat) fn deadline(
    show: &Show,
    now: Millis,
    created: Millis,
    ttl: Millis,
) -> Result<Millis, Refusal> {
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

/// Refuses `count` seats more than a user may have. The limits count neither the hold that is replaced, nor `exchanged`
/// sold seats of the user.
pub(in crate::seat) fn check_user_limits(
    show: &Show,
    user: &[u8],
    count: u32,
    replaced: Option<u32>,
    exchanged: u32,
) -> Result<(), Refusal> {
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
    let live =
        show.claims.holds_of(info).next().map_or_else(String::new, |id| {
            format!("; live hold: {}", quoted(&show.claims.get(id).token[..]))
        });
    let given_up = replaced.map_or(0, |id| show.claims.get(id).seats.len() as u32);
    let kept_holds = show.claims.hold_count(info) - u32::from(replaced.is_some());
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
    let kept = show.claims.user(info).seats.saturating_sub(given_up + exchanged);
    if limits.seats_per_user > 0 && kept.saturating_add(count) > limits.seats_per_user {
        return refuse(
            Code::Limit,
            format!("user {} may have {} seats and has {kept}{live}", quoted(user), limits.seats_per_user),
        );
    }
    Ok(())
}

/// Refuses `more` seats of a block than a user may have of it. The limit does not count `spared` seats, which the user
/// gives up. O(1) without a limit, otherwise O(seats of the block).
pub(in crate::seat) fn check_block_limit(
    show: &Show,
    block: Option<u32>,
    user: &[u8],
    more: u32,
    spared: &[Seat],
) -> Result<(), Refusal> {
    let Some(block) = block.and_then(|id| show.blocks.get(id)) else { return Ok(()) };
    let Some(most) = block.per_user else { return Ok(()) };
    let seats_of = |user: u32| {
        let is_of_user = |&&seat: &&Seat| match show.owner(seat) {
            Owner::Claim(id) => show.claims.get(id).user == user && !spared.contains(&seat),
            Owner::Free | Owner::Queued | Owner::Blocked => false,
        };
        block.seats.iter().filter(is_of_user).count() as u32
    };
    // Most of those who wait have no seats.
    let has = show.claims.user_called(user).map_or(0, seats_of);
    if has.saturating_add(more) <= most {
        return Ok(());
    }
    let name = quoted(block.name.as_deref().unwrap_or_default());
    refuse(Code::Limit, format!("user {} may have {most} seats of block {name} and has {has}", quoted(user)))
}

/// As `check_block_limit`, of all blocks whose seats a user is to have.
pub(super) fn check_block_limits(
    show: &Show,
    user: &[u8],
    gained: &[Seat],
    spared: &[Seat],
) -> Result<(), Refusal> {
    let mut blocks: Vec<u32> = gained.iter().filter_map(|&seat| show.blocks.of(seat)).collect();
    blocks.sort_unstable();
    for of_block in blocks.chunk_by(|one, other| one == other) {
        check_block_limit(show, of_block.first().copied(), user, of_block.len() as u32, spared)?;
    }
    Ok(())
}

/// The seats that a hold is to replace: sold seats of this user.
///
/// # Errors
/// `NOTFOUND` for an unknown seat; `BADSTATE` for one that is not sold, `NOTOWNER` for one of another user.
pub(super) fn exchanged(show: &Show, user: &[u8], ids: &[&[u8]]) -> Result<Seats, Refusal> {
    if ids.is_empty() {
        return Ok(Seats::new());
    }
    let seats = named(show, ids)?;
    for &seat in &seats {
        match sale_of(show, seat) {
            None => return bad_seat(show, seat, "sold"),
            Some(sale) if show.claims.user(sale.user).name[..] != *user => {
                let text =
                    format!("seat {} is not sold to user {}", quoted(show.venue.id(seat)), quoted(user));
                return refuse(Code::NotOwner, text);
            }
            Some(_) => {}
        }
    }
    Ok(seats)
}

/// Resolves the names of a wish.
pub(in crate::seat) fn resolve(show: &Show, wish: &NamedWish<'_>) -> Result<NumberedWish, Refusal> {
    let tier = match wish.tier {
        None => None,
        Some(name) => match show.venue.tier_called(name) {
            Some(tier) => Some(tier),
            None => return refuse(Code::NotFound, format!("no seat of this show has tier {}", quoted(name))),
        },
    };
    let mut areas = Vec::with_capacity(wish.areas.len());
    for name in &wish.areas {
        match show.venue.area_called(name) {
            Some(area) => areas.push(area),
            None => return refuse(Code::NotFound, format!("this show has no area {}", quoted(name))),
        }
    }
    let bits = |names: &[&[u8]]| names.iter().fold(0, |union, name| union | show.venue.flag_bit(name));
    let preferred = bits(&wish.preferred);
    let flags = bits(&wish.flags) | preferred;
    let mut needs = Vec::with_capacity(wish.needs.len());
    for &Need { count, flag } in &wish.needs {
        match show.venue.flag_bit(flag) {
            0 => {
                return refuse(Code::NotFound, format!("no seat of this show has flag {}", quoted(flag)));
            }
            flag => needs.push(Need { count, flag }),
        }
    }
    let from = wish.from.map(|name| block_called(show, name)).transpose()?;
    let &Wish { count, adjacent, orphans, .. } = wish;
    Ok(Wish { count, tier, areas, adjacent, orphans, flags, needs, preferred, from })
}

/// The number of the block of that name.
///
/// # Errors
/// `NOTFOUND` if there is none.
pub fn block_called(show: &Show, name: &[u8]) -> Result<u32, Refusal> {
    show.blocks.called(name).map_or_else(|| no_block(name), Ok)
}

/// The turn that these seats take: that of their area, if they all lie in one.
pub(in crate::seat) fn turn_of(show: &Show, wish: &NumberedWish, seats: &[Seat]) -> Turn {
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

/// As `block_called`. A block whose end has passed has ended, whether or not that was carried out.
pub(in crate::seat) fn live_block(show: &Show, now: Millis, name: &[u8]) -> Result<u32, Refusal> {
    let block = block_called(show, name)?;
    if show.has_ended(block, now) { no_block(name) } else { Ok(block) }
}

fn no_block<T>(name: &[u8]) -> Result<T, Refusal> {
    refuse(Code::NotFound, format!("there is no block {}; it may have ended", quoted(name)))
}

/// The number of a live hold; with `user`, it must be that user's. A hold whose deadline has passed has expired, whether
/// or not that was carried out.
pub(in crate::seat) fn live_hold(
    show: &Show,
    now: Millis,
    token: &[u8],
    user: Option<&[u8]>,
) -> Result<u32, Refusal> {
    let Some(id) = show.claims.find(token) else { return no_hold(token) };
    check_user(show, id, user)?;
    match show.claims.stage(id) {
        Stage::Held { until } if until <= now => no_hold(token),
        Stage::Held { .. } => Ok(id),
        Stage::Sold(_) => refuse(Code::BadState, format!("token {} is sold, not held", quoted(token))),
    }
}

pub(in crate::seat) fn check_user(show: &Show, id: u32, user: Option<&[u8]>) -> Result<(), Refusal> {
    match user {
        Some(user) if show.claims.user(show.claims.get(id).user).name[..] != *user => refuse(
            Code::NotOwner,
            format!("token {} is not of user {}", quoted(&show.claims.get(id).token[..]), quoted(user)),
        ),
        _ => Ok(()),
    }
}

pub(in crate::seat) fn no_hold<T>(token: &[u8]) -> Result<T, Refusal> {
    refuse(Code::NotFound, format!("there is no hold {}; it may have expired", quoted(token)))
}

/// The sale of a seat; `None` for a seat that is not sold.
pub(super) fn sale_of(show: &Show, seat: Seat) -> Option<&Claim> {
    let Owner::Claim(id) = show.owner(seat) else { return None };
    Some(show.claims.get(id)).filter(|claim| claim.sale.is_some())
}

/// Refuses seats that are not sold under this order.
pub(super) fn all_are_of_order(show: &Show, seats: &[Seat], order: &[u8]) -> Result<(), Refusal> {
    let is_of_order = |&seat: &Seat| {
        let filed = sale_of(show, seat).and_then(|claim| claim.sale?.order);
        filed.is_some_and(|filed| show.claims.order(filed).reference[..] == *order)
    };
    match seats.iter().find(|seat| !is_of_order(seat)) {
        None => Ok(()),
        Some(&seat) => refuse(
            Code::NotOwner,
            format!("seat {} is not of order {}", quoted(show.venue.id(seat)), quoted(order)),
        ),
    }
}

/// Numbers of the seats of these ids, in ascending order.
pub(in crate::seat) fn named(show: &Show, ids: &[&[u8]]) -> Result<Seats, Refusal> {
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

pub(in crate::seat) fn all_are(
    show: &Show,
    seats: &[Seat],
    owner: Owner,
    state: &str,
) -> Result<(), Refusal> {
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

pub(in crate::seat) fn bad_seat<T>(show: &Show, seat: Seat, wanted: &str) -> Result<T, Refusal> {
    let state = show.state(seat).word();
    refuse(Code::BadState, format!("seat {} is {state}, not {wanted}", quoted(show.venue.id(seat))))
}

/// Refuses everybody while seats that are free to all may be for those who wait.
pub(super) fn check_open(show: &Show) -> Result<(), Refusal> {
    if show.waiters.is_closed() {
        return refuse(Code::TryAgain, "the waiting list is being examined: send the request again");
    }
    Ok(())
}

/// Refuses seats that a request may not take: only free ones, or with a block blocked seats of this block.
pub(super) fn available_seats(show: &Show, seats: &[Seat], from: Option<u32>) -> Result<(), Refusal> {
    check_open(show)?;
    let Some(block) = from else { return all_are(show, seats, Owner::Free, "free") };
    let Some(&seat) = seats.iter().find(|&&seat| !show.is_available(seat, from)) else { return Ok(()) };
    let (id, state) = (quoted(show.venue.id(seat)), show.state(seat).word());
    let name = show.blocks.get(block).and_then(|block| block.name.clone()).unwrap_or_default();
    let name = quoted(&name[..]);
    if show.blocks.of(seat) == from {
        return refuse(Code::BadState, format!("seat {id} of block {name} is {state}"));
    }
    refuse(Code::BadState, format!("seat {id} is {state}, and not of block {name}"))
}
