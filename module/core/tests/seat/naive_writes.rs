//! What requests that name holds or seats change in the naive show, and what they are refused for.

use super::naive::{Naive, State};
use allot_core::seat::plan::PickOrphans;
use allot_core::seat::request::{Hold, Pick};
use allot_core::shared::refusal::Code;

fn names(ids: &[&[u8]]) -> Vec<String> {
    ids.iter().map(|id| std::str::from_utf8(id).unwrap().to_owned()).collect()
}

impl Naive {
    /// Refuses a request for a hold, before its seats are chosen.
    pub(super) fn check_terms(&self, now: i64, hold: &Hold<'_>) -> Result<(), Code> {
        let (mut spared, mut born) = (vec![], now);
        if let Some(replace) = hold.replace {
            let claim = self.claims.get(replace.token).ok_or(Code::NotFound)?;
            if claim.user != hold.user {
                return Err(Code::NotOwner);
            }
            if claim.sold {
                return Err(Code::BadState);
            }
            (spared, born) = (self.seats_of(replace.token), claim.created);
        }
        self.check_life(now + hold.ttl - born)?;
        let exchanged = self.exchanged(hold.user, &hold.exchange)?;
        let count = hold.wish.count as usize;
        let given_up = (usize::from(hold.replace.is_some()), spared.len());
        self.check_limits(hold.user, count, given_up, exchanged)?;
        let block = self.block_named(hold.wish.from)?;
        spared.extend(names(&hold.exchange));
        self.check_block(hold.user, block, count, &spared)
    }

    fn check_life(&self, life: i64) -> Result<(), Code> {
        if self.max_hold > 0 && life > self.max_hold { Err(Code::Limit) } else { Ok(()) }
    }

    /// Refuses so many further seats, of which the user gives up so many holds and seats, and exchanges sold ones.
    pub(super) fn check_limits(
        &self,
        user: &[u8],
        count: usize,
        given_up: (usize, usize),
        exchanged: usize,
    ) -> Result<(), Code> {
        let holds = self.user_holds(user) - given_up.0;
        let seats = self.user_seats(user) - given_up.1 - exchanged;
        let is_full = self.holds_per_user > 0 && holds >= self.holds_per_user
            || self.seats_per_user > 0 && seats + count > self.seats_per_user;
        if is_full { Err(Code::Limit) } else { Ok(()) }
    }

    /// How many seats are given in exchange: all of them sold to this user.
    fn exchanged(&self, user: &[u8], ids: &[&[u8]]) -> Result<usize, Code> {
        let ids = names(ids);
        let seats = self.places().map(|place| self.seat(place)).filter(|seat| ids.contains(&seat.id));
        for seat in seats {
            match &seat.state {
                State::Sold(token, _) if self.claims[token].user == user => {}
                State::Sold(..) => return Err(Code::NotOwner),
                _ => return Err(Code::BadState),
            }
        }
        Ok(ids.len())
    }

    /// The number of the block that a request names.
    pub(super) fn block_named(&self, name: Option<&[u8]>) -> Result<Option<usize>, Code> {
        let Some(name) = name else { return Ok(None) };
        self.block_called(std::str::from_utf8(name).ok()).map(Some).ok_or(Code::NotFound)
    }

    /// Refuses so many further seats of a block to a user who gives up the `spared` seats.
    fn check_block(
        &self,
        user: &[u8],
        block: Option<usize>,
        more: usize,
        spared: &[String],
    ) -> Result<(), Code> {
        if self.block_allows(user, block, more, spared) { Ok(()) } else { Err(Code::Limit) }
    }

    /// The number of the block that a pick names, if its user may have these seats of the block, or free ones without.
    fn picked_from(
        &mut self,
        pick: &Pick<'_>,
        ids: &[String],
        spared: &[String],
    ) -> Result<Option<usize>, Code> {
        let block = self.block_named(pick.from)?;
        self.check_block(pick.user, block, ids.len(), spared)?;
        let are_available = ids.iter().all(|id| self.by_id(id).is_available(block));
        if are_available { Ok(block) } else { Err(Code::BadState) }
    }

    /// Refuses the token of a hold, a sale or a wait for a new hold.
    pub(super) fn check_token(&self, token: &[u8]) -> Result<(), Code> {
        let waits = self.waiters.iter().any(|waiter| waiter.token == token);
        if waits || self.claims.contains_key(token) { Err(Code::Exists) } else { Ok(()) }
    }

    pub(super) fn pick(&mut self, now: i64, pick: &Pick<'_>) -> Result<(), Code> {
        self.check_token(pick.token.token)?;
        let ids = names(&pick.seats);
        self.check_life(pick.ttl)?;
        let exchanged = self.exchanged(pick.user, &pick.exchange)?;
        self.check_limits(pick.user, ids.len(), (0, 0), exchanged)?;
        let block = self.picked_from(pick, &ids, &names(&pick.exchange))?;
        let forbids = pick.orphans.unwrap_or(self.pick_orphans) != PickOrphans::Allow;
        if forbids && self.strands_needlessly(&ids, block) {
            return Err(Code::Limit);
        }
        self.take(&ids, pick.user, pick.token.token, now, now + pick.ttl);
        self.claims.get_mut(pick.token.token).unwrap().exchange = !pick.exchange.is_empty();
        Ok(())
    }

    /// The live hold of this user to which seats are added; `None` if the request makes it.
    pub(super) fn has_cart(&self, user: &[u8], token: &[u8]) -> Result<bool, Code> {
        match self.claims.get(token) {
            Some(claim) if claim.sold => Err(Code::Exists),
            Some(claim) if claim.user != user => Err(Code::NotOwner),
            claim => Ok(claim.is_some()),
        }
    }

    /// Refuses so many further seats of a cart.
    pub(super) fn check_cart(&self, user: &[u8], token: &[u8], more: usize) -> Result<(), Code> {
        let has = self.seats_of(token).len();
        self.check_limits(user, has + more, (1, has), 0)
    }

    pub(super) fn add_picked(&mut self, now: i64, pick: &Pick<'_>) -> Result<(), Code> {
        let token = pick.token.token;
        if !self.has_cart(pick.user, token)? {
            return self.pick(now, &Pick { orphans: Some(PickOrphans::Allow), ..pick.clone() });
        }
        let has = self.seats_of(token);
        let more: Vec<String> = names(&pick.seats).into_iter().filter(|id| !has.contains(id)).collect();
        if more.is_empty() {
            return Ok(());
        }
        self.check_cart(pick.user, token, more.len())?;
        self.picked_from(pick, &more, &[])?;
        self.add(token, &more);
        Ok(())
    }

    /// Seats join a hold.
    pub(super) fn add(&mut self, token: &[u8], ids: &[String]) {
        ids.iter().for_each(|id| self.by_id(id).state = State::Held(token.to_vec()));
    }

    pub(super) fn extend(&mut self, now: i64, token: &[u8], ttl: i64) -> Result<i64, Code> {
        self.check_live(token)?;
        self.check_life(now + ttl - self.claims[token].created)?;
        self.claims.get_mut(token).unwrap().until = now + ttl;
        Ok(now + ttl)
    }

    fn check_live(&self, token: &[u8]) -> Result<(), Code> {
        match self.claims.get(token) {
            None => Err(Code::NotFound),
            Some(claim) if claim.sold => Err(Code::BadState),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn confirm(&mut self, token: &[u8], order: Option<&[u8]>) -> Result<i64, Code> {
        self.sell(token, order, None)
    }

    /// A hold is sold in exchange for seats of an order.
    pub(super) fn exchange(
        &mut self,
        token: &[u8],
        order: &[u8],
        from: &[u8],
        ids: &[String],
    ) -> Result<i64, Code> {
        self.sell(token, Some(order), Some((from, ids)))
    }

    fn sell(
        &mut self,
        token: &[u8],
        order: Option<&[u8]>,
        given: Option<(&[u8], &[String])>,
    ) -> Result<i64, Code> {
        let seats = self.seats_of(token);
        let claim = self.claims.get(token).ok_or(Code::NotFound)?;
        if claim.sold {
            return if claim.order.as_deref() == order { Ok(claim.bought as i64) } else { Err(Code::Exists) };
        }
        if self.has_too_many(token, given.map_or(&[][..], |(_, ids)| ids)) {
            return Err(Code::Limit);
        }
        if let Some((from, ids)) = given {
            self.are_of_order(ids, from)?;
        }
        let order = order.map(<[u8]>::to_vec);
        for id in &seats {
            self.by_id(id).state = State::Sold(token.to_vec(), order.clone());
        }
        let claim = self.claims.get_mut(token).unwrap();
        (claim.sold, claim.bought, claim.order) = (true, seats.len(), order);
        given.iter().flat_map(|(_, ids)| *ids).for_each(|id| self.give_up(id));
        self.forget_empty();
        Ok(seats.len() as i64)
    }

    fn are_of_order(&mut self, ids: &[String], order: &[u8]) -> Result<(), Code> {
        let of_order = self.ids_of_order(order);
        if ids.iter().all(|id| of_order.contains(id)) { Ok(()) } else { Err(Code::NotOwner) }
    }

    /// The seats of an order.
    pub(super) fn ids_of_order(&self, order: &[u8]) -> Vec<String> {
        let seats = self.places().map(|place| self.seat(place));
        let of_order = |state: &State| matches!(state, State::Sold(_, Some(filed)) if *filed == order);
        seats.filter(|seat| of_order(&seat.state)).map(|seat| seat.id.clone()).collect()
    }

    pub(super) fn release(
        &mut self,
        token: &[u8],
        ids: Option<&[String]>,
        into: Option<&str>,
    ) -> Result<i64, Code> {
        self.check_live(token)?;
        let seats = self.seats_of(token);
        if ids.is_some_and(|ids| ids.iter().any(|id| !seats.contains(id))) {
            return Err(Code::NotOwner);
        }
        let ids = ids.map_or(seats, <[String]>::to_vec);
        self.give_up_into(&ids, into, None, None);
        Ok(ids.len() as i64)
    }

    /// Without a list, all seats of the order.
    pub(super) fn refund(
        &mut self,
        order: Option<&[u8]>,
        ids: Option<&[String]>,
        into: Option<&str>,
    ) -> Result<i64, Code> {
        let ids = ids.map_or_else(|| self.ids_of_order(order.unwrap_or_default()), <[String]>::to_vec);
        if ids.is_empty() {
            return Err(Code::NotFound);
        }
        let is_sold = |naive: &mut Self, id: &String| matches!(naive.by_id(id).state, State::Sold(..));
        if !ids.iter().all(|id| is_sold(self, id)) {
            return Err(Code::BadState);
        }
        if let Some(order) = order {
            self.are_of_order(&ids, order)?;
        }
        self.give_up_into(&ids, into, None, None);
        Ok(ids.len() as i64)
    }
}
