//! The waiting list in step with the show: what an event changes for waiters.

use super::claims::MAX_COUNT;
use super::decide::rules::check_user_limits;
use super::decide::wait::next_offer;
use super::event::{Event, Waited, freed_by_move};
use super::outcome::WaitRecord;

use super::state::{Owner, Show};
use super::venue::Seat;
use super::waiting::Waiters;
use super::wish::Adjacent;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::counter::Counter;
use crate::shared::invariant::Expected;
use crate::shared::{Bytes, Millis};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Users whose holds or seats an event changes.
type Users = SmallVec<[Bytes; 1]>;

/// What an event changes for those who wait.
pub(super) enum Effect {
    /// Nothing.
    None,
    /// Seats change hands, and what the limits allow these users.
    Seats { users: Users, freed: Freed },
    /// Everything may have changed.
    All,
}

/// Whether seats become free.
pub(super) enum Freed {
    None,
    Some,
    /// Seats of a block may be among them.
    AlsoInBlocks,
}

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

    /// What an event changes for those who wait. Called before the event is applied.
    pub(super) fn effect_on_waiters(&self, event: &Event) -> Effect {
        if self.waiters.is_empty() {
            return Effect::None;
        }
        let user_of = |id: u32| self.claims.user(self.claims.get(id).user).name.clone();
        let holder = |token: &[u8]| self.claims.find(token).map(user_of).into_iter().collect();
        let owners = |given: &[Seat]| {
            let owners = given.iter().filter_map(|&seat| match self.owner(seat) {
                Owner::Claim(id) => Some(user_of(id)),
                Owner::Free | Owner::Blocked => None,
            });
            let mut users: Users = owners.collect();
            users.sort_unstable();
            users.dedup();
            users
        };
        let in_block = |seats: &[Seat]| seats.iter().any(|&seat| self.blocks.of(seat).is_some());
        let of_hold =
            |token: &[u8]| self.claims.find(token).is_some_and(|id| in_block(&self.claims.get(id).seats));
        let seats = |users, freed| Effect::Seats { users, freed };
        let freed = |in_blocks: bool| if in_blocks { Freed::AlsoInBlocks } else { Freed::Some };
        match event {
            Event::Created { .. }
            | Event::Extended { .. }
            | Event::Waited(_)
            | Event::Unwaited { .. }
            | Event::Flushed { .. } => Effect::None,
            Event::Altered { .. } | Event::Arranged { .. } => Effect::All,
            Event::Held(held) | Event::Offered { held, .. } => {
                let freed = held.replaced.as_deref().map_or(Freed::None, |token| freed(of_hold(token)));
                seats(smallvec::smallvec![held.user.clone()], freed)
            }
            Event::Added { token, .. } | Event::Confirmed { token, .. } => seats(holder(token), Freed::None),
            Event::Released { token, seats: given } => seats(holder(token), freed(in_block(given))),
            Event::Expired { token } => seats(holder(token), freed(of_hold(token))),
            Event::Refunded { seats: given } => seats(owners(given), freed(in_block(given))),
            Event::Moved { from, to } => match &freed_by_move(from, to)[..] {
                [] => Effect::None,
                left => seats(Users::new(), freed(in_block(left))),
            },
            Event::Transferred { user, seats: given, .. } => {
                let mut users = owners(given);
                users.push(user.clone());
                seats(users, Freed::None)
            }
            // The seats of a block with a name can be waited for.
            Event::Blocked { name: Some(_), .. } => seats(Users::new(), Freed::AlsoInBlocks),
            Event::Blocked { name: None, .. } => seats(Users::new(), Freed::None),
            Event::Unblocked { .. } | Event::BlockEnded { .. } => seats(Users::new(), Freed::Some),
        }
    }

    /// Brings the waiting list in step with an event that was applied.
    pub(super) fn follow(&mut self, effect: Effect) {
        match effect {
            Effect::None => return,
            Effect::All => {
                self.recheck_all_limits();
                self.waiters.search_again(true);
            }
            Effect::Seats { users, freed } => {
                users.iter().for_each(|user| self.recheck_limits(user));
                match freed {
                    Freed::None => {}
                    Freed::Some => self.waiters.search_again(false),
                    Freed::AlsoInBlocks => self.waiters.search_again(true),
                }
            }
        }
        self.waiters.unserved = !self.waiters.is_empty();
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
        let limited = check_user_limits(self, &waiter.user, count, None, 0).is_err();
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

    /// A waiter leaves the list: served, or not. Returns when the time of the wait is over.
    pub(super) fn unwait(&mut self, token: &[u8]) -> Option<Millis> {
        let id = self.waiters.find(token).expected("a waiter who leaves is on the list")?;
        let until = self.waiters.get(id).until;
        self.waiters.remove(id);
        Some(until)
    }

    /// Checks whether `decide` could have let somebody wait.
    ///
    /// # Errors
    /// The event does not fit the show.
    pub(super) fn admits_wait(&self, waited: &Waited) -> Result<(), Damaged> {
        Counter::new("number of arrivals", self.waiters.arrivals).check_event()?;
        self.fits_wait(waited)
    }

    /// As above, for a snapshot, which may have any number of users who arrived.
    ///
    /// # Errors
    /// The wait does not fit the show.
    pub(super) fn fits_wait(&self, waited: &Waited) -> Result<(), Damaged> {
        ensure(
            self.claims.find(&waited.token).is_none() && self.waiters.find(&waited.token).is_none(),
            "the token is in use",
        )?;
        let wish = &waited.wish;
        ensure(
            (1..=MAX_COUNT as u32).contains(&wish.count) && wish.adjacent != Adjacent::Ignore,
            "a wish is out of range",
        )?;
        let needed = wish.needs.iter().try_fold(0_u32, |sum, need| sum.checked_add(need.count));
        let known = |flags: u64| flags & !self.venue.all_flags() == 0;
        let is_flag = |flag: u64| flag.is_power_of_two() && known(flag);
        let sound = known(wish.flags) && wish.needs.iter().all(|need| need.count > 0 && is_flag(need.flag));
        ensure(
            sound && needed.is_some_and(|needed| needed <= wish.count),
            "the flags or needs of a wish are out of range",
        )?;
        let rising = wish.areas.windows(2).all(|pair| matches!(pair, [a, b] if a < b));
        let known = wish.areas.last().is_none_or(|&last| (last as usize) < self.venue.areas().len());
        if rising && known { Ok(()) } else { Err(Damaged("an area is unknown or out of order")) }
    }
}
