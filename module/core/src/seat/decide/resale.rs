//! Sold seats change places and hands: `SEAT.MOVE` and `SEAT.TRANSFER`.

use super::rules::{
    Decided, all_are_of_order, available_seats, bad_seat, check_block_limits, named, sale_of,
};
use crate::seat::claims::MAX_COUNT;
use crate::seat::event::Event;
use crate::seat::outcome::Reply;
use crate::seat::request::{Move, Transfer};
use crate::seat::state::Show;
use crate::seat::venue::Seat;
use crate::shared::Bytes;
use crate::shared::decision::{decided, unchanged};
use crate::shared::refusal::{Code, refuse};
use crate::shared::text::quoted;
use crate::shared::token::check_identifier;

pub(super) fn decide_move(show: &Show, request: &Move<'_>) -> Decided {
    let ids = |which: fn(&(_, _)) -> &[u8]| request.pairs.iter().map(which).collect::<Vec<&[u8]>>();
    let from = named(show, &ids(|pair: &(&[u8], &[u8])| pair.0))?;
    let mut taken = named(show, &ids(|pair: &(&[u8], &[u8])| pair.1))?;
    if let Some(&seat) = from.iter().find(|&&seat| sale_of(show, seat).is_none()) {
        return bad_seat(show, seat, "sold");
    }
    taken.retain(|seat| from.binary_search(seat).is_err());
    available_seats(show, &taken, None)?;
    let seats = |(from, to): &(&[u8], &[u8])| Some((show.venue.find(from)?, show.venue.find(to)?));
    let mut pairs: Vec<(Seat, Seat)> = request.pairs.iter().filter_map(seats).collect();
    pairs.sort_unstable();
    let tier = |seat: Seat| show.venue.tier_of(seat);
    if let Some(&(from, to)) = pairs.iter().find(|&&(from, to)| !request.any_tier && tier(from) != tier(to)) {
        let name = |seat| quoted(tier(seat).map(|tier| show.venue.tier_name(tier)).unwrap_or_default());
        let text = format!(
            "seat {} is of tier {}, and seat {} of tier {}; ANYTIER permits it",
            quoted(show.venue.id(from)),
            name(from),
            quoted(show.venue.id(to)),
            name(to)
        );
        return refuse(Code::BadState, text);
    }
    let count = pairs.len() as i64;
    let to = pairs.into_iter().map(|(_, to)| to).collect();
    decided(Event::Moved { from, to }, Reply::Integer(count))
}

pub(super) fn decide_transfer(show: &Show, transfer: &Transfer<'_>) -> Decided {
    check_identifier("user", transfer.user)?;
    transfer.to_order.map(|order| check_identifier("order", order)).transpose()?;
    let seats = named(show, &transfer.seats)?;
    if seats.len() as i64 > MAX_COUNT {
        return refuse(Code::Err, format!("a sale has at most {MAX_COUNT} seats, not {}", seats.len()));
    }
    if let Some(&seat) = seats.iter().find(|&&seat| sale_of(show, seat).is_none()) {
        return bad_seat(show, seat, "sold");
    }
    if let Some(order) = transfer.order {
        all_are_of_order(show, &seats, order)?;
    }
    let sales = || seats.iter().filter_map(|&seat| sale_of(show, seat));
    let mut orders: Vec<Option<&[u8]>> =
        sales().map(|claim| Some(&show.claims.order(claim.sale?.order?).reference[..])).collect();
    orders.sort_unstable();
    orders.dedup();
    let order = match (transfer.to_order, &orders[..]) {
        (Some(order), _) => Some(order),
        (None, [order]) => *order,
        (None, _) => return refuse(Code::Err, "the seats are of several orders: name TO ORDER"),
    };
    let count = seats.len() as i64;
    let user = show.claims.user_called(transfer.user);
    let more = sales().filter(|sale| Some(sale.user) != user).count() as u32;
    if more == 0 && orders[..] == [order] {
        return unchanged(Reply::Integer(count));
    }
    let (most, has) = (show.limits.seats_per_user, user.map_or(0, |user| show.claims.user(user).seats));
    if most > 0 && has.saturating_add(more) > most {
        let user = quoted(transfer.user);
        return refuse(
            Code::Limit,
            format!("user {user} may have {most} seats and has {has}, not {more} more"),
        );
    }
    let is_of_another = |seat: &Seat| sale_of(show, *seat).is_some_and(|sale| Some(sale.user) != user);
    let gained: Vec<Seat> = seats.iter().copied().filter(is_of_another).collect();
    check_block_limits(show, transfer.user, &gained, &[])?;
    let (token, user) = (Bytes::from_slice(transfer.token), Bytes::from_slice(transfer.user));
    let order = order.map(Bytes::from_slice);
    decided(Event::Transferred { token, user, order, seats }, Reply::Integer(count))
}
