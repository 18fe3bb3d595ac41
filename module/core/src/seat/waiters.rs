//! The waiting list in step with the show: what an event changes for waiters.

use super::claims::MAX_COUNT;
use super::decide::rules::check_user_limits;
use super::decide::wait::next_offer;
use super::event::{Event, Waited};
use super::outcome::WaitRecord;
use super::request::Adjacent;
use super::state::{Owner, Show};
use super::venue::Seat;
use super::waiting::{Waiter, Waiters};
use crate::invariant;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::counter::Counter;
use crate::shared::field::Any;
use crate::shared::{Bytes, Millis};
use hashbrown::HashSet;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Users whose holds or seats an event changes.
type Users = SmallVec<[Bytes; 1]>;

impl Show {
    /// The waiting list.
    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// The next offer to a waiter, until nobody can be served.
    #[inline]
    pub fn follow_up(&mut self, now: Millis) -> Option<Event> {
        if self.waiters.unserved { self.serve_next(now) } else { None }
    }

    #[cold]
    fn serve_next(&mut self, now: Millis) -> Option<Event> {
        let mut in_vain = Vec::new();
        let event = next_offer(self, now, &mut in_vain);
        in_vain.into_iter().for_each(|id| self.waiters.searched_in_vain(id));
        self.waiters.unserved = event.is_some();
        event
    }

    /// The record of a waiter.
    pub fn wait_record(&self, id: u32) -> WaitRecord {
        let waiter = self.waiters.get(id);
        WaitRecord {
            token: waiter.token.clone(),
            user: waiter.user.clone(),
            count: self.waiters.queue_of(waiter).wish.count,
            offered: false,
            position: self.waiters.position(id) as u64,
            since: waiter.since,
            until: waiter.until,
        }
    }

    /// Users whose limits an event changes; none where nobody waits. Called before the event is applied.
    pub(super) fn users_changed_by(&self, event: &Event) -> Users {
        if self.waiters.is_empty() {
            return Users::new();
        }
        let user_of = |id: u32| self.claims.user(self.claims.get(id).user).name.clone();
        match event {
            Event::Held(held) | Event::Offered(held) => smallvec::smallvec![held.user.clone()],
            Event::Confirmed { token, .. } | Event::Released { token, .. } | Event::Expired { token } => {
                self.claims.find(token).map(user_of).into_iter().collect()
            }
            Event::Refunded { seats } => {
                let mut users: Vec<Bytes> = seats
                    .iter()
                    .filter_map(|&seat| match self.owner(seat) {
                        Owner::Claim(id) => Some(user_of(id)),
                        Owner::Free | Owner::Blocked => None,
                    })
                    .collect();
                users.sort_unstable();
                users.dedup();
                Users::from_vec(users)
            }
            _ => Users::new(),
        }
    }

    /// Whether a block has more seats to take after an event, or other ones; false where nobody waits. Called before the
    /// event is applied.
    pub(super) fn adds_to_blocks(&self, event: &Event) -> bool {
        if self.waiters.is_empty() {
            return false;
        }
        let in_block = |seats: &[Seat]| seats.iter().any(|&seat| self.blocks.of(seat).is_some());
        let of_hold =
            |token: &[u8]| self.claims.find(token).is_some_and(|id| in_block(&self.claims.get(id).seats));
        match event {
            Event::Altered { .. }
            | Event::Limited { .. }
            | Event::Arranged { .. }
            | Event::BlockedIn { .. } => true,
            Event::Released { seats, .. } | Event::Refunded { seats } => in_block(seats),
            Event::Expired { token } => of_hold(token),
            Event::Held(held) | Event::Offered(held) => held.replaced.as_deref().is_some_and(of_hold),
            _ => false,
        }
    }

    /// Brings the waiting list in step with an event that was applied. `in_blocks`: what `adds_to_blocks` said before.
    pub(super) fn follow(&mut self, event: &Event, users: &[Bytes], in_blocks: bool) {
        if self.waiters.is_empty() {
            return;
        }
        match event {
            Event::Flushed { .. }
            | Event::Extended { .. }
            | Event::Created { .. }
            | Event::Waited(_)
            | Event::WaitedFrom(_)
            | Event::Unwaited { .. } => return,
            Event::Altered { .. } | Event::Limited { .. } | Event::Arranged { .. } => {
                self.recheck_all_limits();
            }
            _ => users.iter().for_each(|user| self.recheck_limits(user)),
        }
        let only_takes = match event {
            Event::Held(held) | Event::Offered(held) => held.replaced.is_none(),
            Event::Blocked { .. } | Event::Confirmed { .. } => true,
            _ => false,
        };
        if !only_takes {
            self.waiters.search_again(in_blocks);
        }
        self.waiters.unserved = true;
    }

    /// Finds out again which waiters the limits allow to have seats. O(waiters).
    pub(super) fn recheck_all_limits(&mut self) {
        let ids: Vec<u32> = self.waiters.table.iter().map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.recheck_limit(id));
    }

    fn recheck_limits(&mut self, user: &[u8]) {
        let ids: SmallVec<[u32; 2]> = self.waiters.of_user(user).into();
        ids.into_iter().for_each(|id| self.recheck_limit(id));
    }

    fn recheck_limit(&mut self, id: u32) {
        let waiter = self.waiters.get(id);
        let count = self.waiters.queue_of(waiter).wish.count;
        let limited = check_user_limits(self, &waiter.user, count, None).is_err();
        self.waiters.unserved |= self.waiters.set_limited(id, limited);
    }

    pub(super) fn wait(&mut self, at: Millis, waited: &Waited) {
        let place = (Reverse(waited.priority), self.waiters.arrivals);
        self.waiters.arrivals = self.waiters.arrivals.saturating_add(1);
        let id = self.waiters.add(
            waited.token.clone(),
            waited.user.clone(),
            &waited.wish,
            place,
            [at, waited.until, waited.offer],
            waited.fingerprint.0,
        );
        self.recheck_limit(id);
    }

    /// A waiter leaves the list: served, or not.
    pub(super) fn unwait(&mut self, token: &[u8]) {
        match self.waiters.find(token) {
            Some(id) => self.waiters.remove(id),
            None => invariant!("a waiter who leaves is on the list"),
        }
    }

    /// Checks whether `decide` could have let somebody wait.
    ///
    /// # Errors
    /// The event does not fit the show.
    pub(super) fn admits_wait(&self, waited: &Waited) -> Result<(), Damaged> {
        Counter::new("number of arrivals", self.waiters.arrivals).check_event()?;
        self.fits_wait(waited)
    }

    fn fits_wait(&self, waited: &Waited) -> Result<(), Damaged> {
        if self.claims.find(&waited.token).is_some() || self.waiters.find(&waited.token).is_some() {
            return Err(Damaged("the token is in use"));
        }
        let wish = &waited.wish;
        if !(1..=MAX_COUNT as u32).contains(&wish.count) || wish.adjacent == Adjacent::Ignore {
            return Err(Damaged("a wish is out of range"));
        }
        let needed = wish.needs.iter().try_fold(0_u32, |sum, need| sum.checked_add(need.count));
        let known = |flags: u64| flags & !self.venue.all_flags() == 0;
        let is_flag = |flag: u64| flag.is_power_of_two() && known(flag);
        let sound =
            known(wish.flags.0) && wish.needs.iter().all(|need| need.count > 0 && is_flag(need.flag.0));
        if !sound || needed.is_none_or(|needed| needed > wish.count) {
            return Err(Damaged("the flags or needs of a wish are out of range"));
        }
        let rising = wish.areas.windows(2).all(|pair| matches!(pair, [a, b] if a < b));
        let known = wish.areas.last().is_none_or(|&last| (last as usize) < self.venue.areas().len());
        if rising && known { Ok(()) } else { Err(Damaged("an area is unknown or out of order")) }
    }

    /// Encodes the waiting list: numbers, then waiters by token.
    pub(super) fn encode_waiters(&self, out: &mut Writer) {
        let mut waiters: Vec<(u32, &Waiter)> = self.waiters.table.iter().collect();
        waiters.sort_unstable_by(|(_, a), (_, b)| a.token.cmp(&b.token));
        out.unsigned(self.waiters.arrivals);
        out.unsigned(waiters.len() as u64);
        waiters.iter().for_each(|(number, _)| out.field(number));
        out.field(&self.waiters.table.free().to_vec());
        for (_, waiter) in waiters {
            let (Reverse(priority), arrival) = waiter.place;
            out.field(&Waited {
                token: waiter.token.clone(),
                user: waiter.user.clone(),
                wish: self.waiters.queue_of(waiter).wish.clone(),
                priority,
                until: waiter.until,
                offer: waiter.offer,
                fingerprint: Any(waiter.fingerprint),
            });
            out.unsigned(arrival);
            out.field(&waiter.since);
            out.field(&self.waiters.queue_of(waiter).wish.from);
        }
    }

    /// Decodes the waiting list, after the claims. `with_blocks`: waits have the block that they wait for.
    ///
    /// # Errors
    /// Bytes that `encode_waiters` never writes.
    pub(super) fn decode_waiters(
        &mut self,
        reader: &mut Reader<'_>,
        with_blocks: bool,
    ) -> Result<(), Damaged> {
        let arrivals = reader.count()?;
        let count = reader.unsigned()?;
        let numbers = (0..count).map(|_| reader.field()).collect::<Result<Vec<u32>, _>>()?;
        let fit = self.waiters.number(&numbers, reader.field()?);
        fit.ok_or(Damaged("the numbers of the waiters contradict each other"))?;
        let (mut last, mut places) = (Bytes::new(), HashSet::new());
        for _ in 0..count {
            let mut waited: Waited = reader.field()?;
            let (arrival, since) = (reader.count()?, reader.time()?);
            if with_blocks {
                waited.wish.from = reader.field()?;
            }
            if waited.token <= last {
                return Err(Damaged("the waiters are not in order"));
            }
            if arrival >= arrivals || !places.insert(arrival) {
                return Err(Damaged("a waiter arrived after the last one, or with another"));
            }
            self.fits_wait(&waited)?;
            last.clone_from(&waited.token);
            self.waiters.arrivals = arrival;
            self.wait(since, &waited);
        }
        self.waiters.arrivals = arrivals;
        self.waiters.unserved = count > 0;
        Ok(())
    }
}
