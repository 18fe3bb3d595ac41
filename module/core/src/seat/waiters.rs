//! The waiting list in step with the show: what an event changes for waiters.

use super::claims::MAX_COUNT;
use super::decide::wait::{Examined, examine, within_limits};
use super::event::{Event, Waited};
use super::outcome::WaitRecord;
use super::sales::freed_by_move;

use super::state::{Owner, Show};
use super::venue::Seat;
use super::waiting::Waiters;
use super::wish::Adjacent;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::counter::Counter;
use crate::shared::invariant::Expected;
use crate::shared::machine::FollowUp;
use crate::shared::{Bytes, Millis};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Users whose holds or seats an event changes.
type Users = SmallVec<[Bytes; 1]>;

/// What an event changes for those who wait.
pub(super) enum Effect {
    /// Nothing.
    None,
    /// What the limits allow these users, and perhaps the seats of blocks. Which seats are free is noted as they change.
    Some { users: Users, in_blocks: bool },
    /// The limit of a block; if the block has new seats, those of blocks as well.
    Limit { in_blocks: bool },
    /// Everything may have changed.
    All,
}

impl Show {
    /// The waiting list.
    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Examines the list for the next waiter who may be served, until nobody can be served.
    #[inline]
    pub fn follow_up(&mut self, now: Millis) -> FollowUp<Event> {
        if self.waiters.unserved { self.examine_next(now) } else { FollowUp::Done }
    }

    #[cold]
    fn examine_next(&mut self, now: Millis) -> FollowUp<Event> {
        let Some(id) = self.waiters.next_to_examine() else {
            self.waiters.note_examined();
            let is_done = self.waiters.queued().is_empty();
            return if is_done { FollowUp::Done } else { FollowUp::Event(Event::Passed) };
        };
        match examine(self, now, id) {
            Examined::Over(event) => FollowUp::Event(event),
            Examined::Served(event) => {
                self.waiters.note_served(id);
                FollowUp::Event(event)
            }
            Examined::InVain { missing } => {
                self.waiters.note_in_vain(id, missing);
                FollowUp::Continue
            }
        }
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
                Owner::Free | Owner::Queued | Owner::Blocked => None,
            });
            let mut users: Users = owners.collect();
            users.sort_unstable();
            users.dedup();
            users
        };
        let in_block = |seats: &[Seat]| seats.iter().any(|&seat| self.blocks.of(seat).is_some());
        let of_hold =
            |token: &[u8]| self.claims.find(token).is_some_and(|id| in_block(&self.claims.get(id).seats));
        let some = |users, in_blocks| Effect::Some { users, in_blocks };
        let has_limit = |block: u32| self.blocks.get(block).is_some_and(|block| block.per_user.is_some());
        match event {
            Event::Created { .. }
            | Event::Extended { .. }
            | Event::Waited(_)
            | Event::Unwaited { .. }
            | Event::Passed
            | Event::Flushed { .. } => Effect::None,
            Event::Altered { .. } | Event::Arranged { .. } => Effect::All,
            Event::Held(held) | Event::Offered { held, .. } => {
                some(smallvec::smallvec![held.user.clone()], held.replaced.as_deref().is_some_and(of_hold))
            }
            Event::Added { token, .. } | Event::Confirmed { token, .. } => some(holder(token), false),
            Event::Released { token, seats } => some(holder(token), in_block(seats)),
            Event::Expired { token } => some(holder(token), of_hold(token)),
            Event::Refunded { seats } => some(owners(seats), in_block(seats)),
            Event::Moved { from, to } => some(owners(from), in_block(&freed_by_move(from, to))),
            Event::Transferred { user, seats, .. } => {
                let mut users = owners(seats);
                users.push(user.clone());
                some(users, false)
            }
            // The seats of a block with a name can be waited for.
            Event::Blocked { per_user: Some(_), .. } => Effect::Limit { in_blocks: true },
            Event::Blocked { name, per_user: None, .. } => some(Users::new(), name.is_some()),
            // Its last seat may leave the block, which ends.
            Event::Unblocked { seats } => {
                let mut blocks = seats.iter().filter_map(|&seat| self.blocks.of(seat));
                if blocks.any(has_limit) { Effect::Limit { in_blocks: false } } else { Effect::None }
            }
            Event::BlockEnded { name, until, .. } => {
                let block = self.blocks.find(name.as_deref(), *until);
                if block.is_some_and(has_limit) { Effect::Limit { in_blocks: false } } else { Effect::None }
            }
        }
    }

    /// Brings the waiting list in step with an event that was applied.
    pub(super) fn follow(&mut self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::All => {
                self.recheck_all_limits();
                self.waiters.search_anew();
            }
            Effect::Some { users, in_blocks } => {
                users.iter().for_each(|user| self.recheck_limits(user));
                self.search_blocks(in_blocks);
            }
            Effect::Limit { in_blocks } => {
                self.recheck_all_limits();
                self.search_blocks(in_blocks);
            }
        }
    }

    fn search_blocks(&mut self, in_blocks: bool) {
        if in_blocks {
            self.waiters.search_all(|wish| wish.from.is_some());
        }
    }

    /// Finds out again which waiters the limits allow to have seats. O(waiters + those who wait for a block with a limit *
    /// seats of the block).
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
        let wish = &self.waiters.queue_of(waiter).wish;
        let (user, queue) = (&waiter.user, waiter.queue);
        let from = wish.from.as_deref().and_then(|name| self.blocks.called(name));
        let limited = !within_limits(self, user, wish.count, from);
        if self.waiters.set_limited(id, limited) {
            self.waiters.search_for(queue);
        }
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
        // While the show is closed, nobody who joins the list was searched for.
        if self.waiters.is_closed() {
            self.waiters.search_for(self.waiters.get(id).queue);
        }
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
        let sound = known(wish.flags)
            && wish.preferred & !wish.flags == 0
            && wish.needs.iter().all(|need| need.count > 0 && is_flag(need.flag));
        ensure(
            sound && needed.is_some_and(|needed| needed <= wish.count),
            "the flags or needs of a wish are out of range",
        )?;
        let rising = wish.areas.is_sorted_by(|a, b| a < b);
        let known = wish.areas.last().is_none_or(|&last| (last as usize) < self.venue.areas().len());
        if rising && known { Ok(()) } else { Err(Damaged("an area is unknown or out of order")) }
    }
}
