//! The cart: `SEAT.PICK ... ADD` and `SEAT.HOLD ... ADD` add seats to a live hold.

use super::also::Also;
use super::hold::{decide_hold, decide_pick, seats_found};
use super::rules::{
    Decided, available_seats, check_block_limit, check_open, check_user, check_user_limits, live_block,
    named, resolve,
};
use super::search::Search;
use crate::seat::claims::{Claim, MAX_COUNT, Seats, Stage};
use crate::seat::event::Event;
use crate::seat::outcome::Reply;
use crate::seat::request::{AddBest, Pick};
use crate::seat::state::Show;
use crate::shared::Millis;
use crate::shared::decision::{decided, unchanged};
use crate::shared::field::Any;
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::text::quoted;
use crate::shared::token::TokenChoice;

/// A live hold to which a request adds seats.
struct Cart<'a> {
    id: u32,
    claim: &'a Claim,
    until: Millis,
}

pub(super) fn decide_add_picked(show: &Show, now: Millis, pick: &Pick<'_>) -> Decided {
    no_exchange(&pick.exchange)?;
    let Some(cart) = Cart::of(show, now, pick.user, pick.token)? else {
        return decide_pick(show, now, pick, pick.add_fingerprint(), false);
    };
    let mut seats = named(show, &pick.seats)?;
    seats.retain(|seat| cart.claim.seats.binary_search(seat).is_err());
    if seats.is_empty() {
        return unchanged(Reply::Hold(show.hold_record(cart.claim, cart.until)));
    }
    cart.check_room(show, pick.user, seats.len())?;
    let from = pick.from.map(|name| live_block(show, now, name)).transpose()?;
    check_block_limit(show, from, pick.user, seats.len() as u32, &[])?;
    available_seats(show, &seats, from)?;
    cart.add(show, seats, 0)
}

/// `also` has the other shows of a request for several.
pub(super) fn decide_add_best(
    show: &Show,
    now: Millis,
    add: &AddBest<'_>,
    also: Option<&Also<'_>>,
) -> Decided {
    let (hold, fingerprint) = (&add.hold, add.fingerprint());
    no_exchange(&hold.exchange)?;
    if hold.replace.is_some() {
        return refuse(Code::Err, "ADD keeps the hold of its TOKEN; it cannot go with REPLACE");
    }
    let Some(cart) = Cart::of(show, now, hold.user, hold.token)? else {
        return decide_hold(show, now, hold, fingerprint, also);
    };
    let done = cart.claim.fingerprint == fingerprint || show.claims.added(cart.id).contains(&fingerprint);
    if add.once.is_some() && done {
        return unchanged(Reply::Hold(show.hold_record(cart.claim, cart.until)));
    }
    hold.wish.check()?;
    cart.check_room(show, hold.user, hold.wish.count as usize)?;
    let from = hold.wish.from.map(|name| live_block(show, now, name)).transpose()?;
    check_block_limit(show, from, hold.user, hold.wish.count, &[])?;
    let wish = resolve(show, &hold.wish)?;
    check_open(show)?;
    let search = Search::new(show, &wish, &[], false);
    let found = also.into_iter().fold(search, Search::within).run_beside(&cart.claim.seats);
    match seats_found(show, found, &hold.wish)? {
        None => unchanged(Reply::None),
        Some(seats) => cart.add(show, seats, if add.once.is_some() { fingerprint } else { 0 }),
    }
}

fn no_exchange(seats: &[&[u8]]) -> Result<(), Refusal> {
    if seats.is_empty() {
        return Ok(());
    }
    refuse(Code::Err, "EXCHANGE is for a hold as a whole; it cannot go with ADD")
}

impl<'a> Cart<'a> {
    /// The live hold of this token, which must be the user's; `None` if the request makes the hold.
    fn of(show: &'a Show, now: Millis, user: &[u8], token: TokenChoice<'_>) -> Result<Option<Self>, Refusal> {
        if !token.chosen {
            return refuse(Code::Err, "ADD needs TOKEN: name the hold to which the seats are added");
        }
        let Some(id) = show.claims.find(token.token) else { return Ok(None) };
        let claim = show.claims.get(id);
        match show.claims.stage(id) {
            Stage::Held { until } if until > now => {
                check_user(show, id, Some(user))?;
                Ok(Some(Self { id, claim, until }))
            }
            Stage::Held { .. } | Stage::Sold(_) => Ok(None),
        }
    }

    /// Refuses more seats than a hold, or its user, may have.
    fn check_room(&self, show: &Show, user: &[u8], more: usize) -> Result<(), Refusal> {
        let has = self.claim.seats.len();
        if (has + more) as i64 > MAX_COUNT {
            let token = quoted(&self.claim.token[..]);
            return refuse(
                Code::Limit,
                format!("hold {token} has {has} seats, and may have {MAX_COUNT}, not {more} more"),
            );
        }
        check_user_limits(show, user, (has + more) as u32, Some(self.id), 0)
    }

    /// Adds seats, of which the hold has none.
    fn add(&self, show: &Show, seats: Seats, fingerprint: u64) -> Decided {
        let mut record = show.hold_record(self.claim, self.until);
        record.seats.extend_from_slice(&seats);
        record.seats.sort_unstable();
        let added = Event::Added { token: self.claim.token.clone(), seats, fingerprint: Any(fingerprint) };
        decided(added, Reply::Hold(record))
    }
}
