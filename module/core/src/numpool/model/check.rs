//! Checks a whole pool: records, lists, deadlines and sums against each other.

use super::cells::State;
use super::record::Place;
use super::sorted_free::Numbers;
use super::state::{Pool, RestReason};
use crate::ensure;
use crate::shared::invariant::Checked;
use crate::shared::list::NONE;

impl Pool {
    /// Checks the whole pool: each structure against itself, and all of them against the numbers' records.
    /// O(size of the pool), O(n log n) for the orders.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.directory.check()?;
        self.queue.check(&self.directory)?;
        self.registrations.check()?;
        self.cooling.check()?;
        self.cool_downs.check()?;
        self.leases.check()?;
        self.outbox.check()?;
        self.causes.check()?;
        self.suspensions.check()?;
        let stray = self.suspensions.ids().find(|&id| self.directory.name(id).is_none());
        ensure!(stray.is_none(), "id {stray:?} is suspended and is no number of the pool");
        self.check_history()?;
        self.check_numbers()?;
        self.check_leases()?;
        let stray = self.queue.iter(&self.directory).find(|&id| !self.directory.get(id).is_queued());
        ensure!(stray.is_none(), "id {stray:?} is in the queue and does not say so");
        let slots = self.directory.slots();
        let carriers = self.leases.table().iter().map(|(_, lease)| lease.switch);
        self.check_heartbeats()?;
        self.switches.check(slots, |_| true, carriers.chain(self.heartbeats.ids()))?;
        let holders = self.leases.table().iter().map(|(_, lease)| lease.holder);
        self.holders.check(slots, |_| true, holders)?;
        self.peers.check(slots, |id| self.directory.get(id).is_queued(), [].into_iter())?;
        self.sorted.check(self.queue, Numbers { directory: &self.directory, peers: &self.peers })
    }

    /// Each record against the lists that its number is in, and the sums over all of them.
    fn check_numbers(&self) -> Checked {
        let (mut counts, mut draining, mut queued, mut resting, mut lapsing) = ([0; 5], 0, 0, 0, 0);
        for id in 0..self.directory.slots() {
            self.check_number(id)?;
            if self.directory.name(id).is_none() {
                continue;
            }
            let record = self.directory.get(id);
            if let Some(count) = counts.get_mut(record.state() as usize) {
                *count += 1;
            }
            draining += u32::from(record.place == Place::LastCall);
            queued += u32::from(record.place == Place::Queue);
            resting += usize::from(record.place == Place::Cooling);
            lapsing += usize::from(self.registrations.get(id).is_some());
        }
        ensure!(
            self.counts == counts,
            "the pool counts {:?} numbers by state and has {counts:?}",
            self.counts
        );
        ensure!(
            self.draining == draining,
            "the pool counts {} draining numbers of {draining}",
            self.draining
        );
        let waiting = self.queue.len();
        ensure!(waiting == queued, "{waiting} numbers are in the queue, and {queued} say so");
        let (rests, ends) = (self.cooling.len(), self.cool_downs.len());
        ensure!(
            rests == resting && ends == resting,
            "{resting} numbers rest, in {rests} rests with {ends} ends"
        );
        let ends = self.registrations.len();
        ensure!(ends == lapsing, "{lapsing} registrations lapse, at {ends} times");
        Ok(())
    }

    /// What a number's record says is so elsewhere.
    fn check_number(&self, id: u32) -> Checked {
        let record = self.directory.get(id);
        let (state, place) = (record.state(), record.place);
        let named = self.directory.name(id).is_some();
        let (suspended, is_free) = (self.suspensions.contains(id), state == State::IdleUp);
        ensure!(named || !suspended, "id {id} has no number and is suspended");
        ensure!(named == (state != State::NoData), "id {id} is in state {state:?}, its name {named}");
        let fits = match place {
            Place::Nowhere => matches!(state, State::NoData | State::IdleDown) || suspended && is_free,
            Place::Queue => is_free && !suspended,
            Place::Cooling => matches!(state, State::IdleUp | State::IdleDown),
            Place::Call | Place::LastCall => state.is_busy(),
        };
        ensure!(fits, "number {id} is {state:?} and {place:?}");
        if place == Place::Cooling {
            let cool_down = record.cool_down();
            ensure!(
                self.cooling.get(cool_down).map(|rest| rest.number) == Some(id),
                "rest {cool_down} of number {id} is not its own"
            );
            ensure!(self.cool_down_ends(cool_down), "rest {cool_down} of number {id} has no end");
            ensure!(
                !self.is_limited(id) || is_free && !suspended,
                "number {id} rests for its caps and is not free"
            );
        }
        if state.is_busy() {
            let lease = self.leases.get(record.lease()).map(|lease| lease.number);
            ensure!(lease == Some(id), "the lease of number {id} is that of {lease:?}");
        }
        let registered = self.registrations.get(id).is_some() || self.switches.of(id) != NONE;
        ensure!(state.is_up() || !registered, "number {id} is {state:?} and registered");
        ensure!(named || self.peers.of(id) == NONE, "id {id} has no number and a peer");
        Ok(())
    }

    /// Times are those of numbers of the pool, and no number that its caps forbid is free.
    fn check_history(&self) -> Checked {
        self.history.check()?;
        let stray = self.history.iter().find(|entry| self.directory.name(entry.number).is_none());
        ensure!(
            stray.is_none(),
            "there are times of {:?}, which has no number",
            stray.map(|entry| entry.number)
        );
        let mut rests = [0; RestReason::ALL.len()];
        for (_, rest) in self.cooling.iter() {
            if let Some(count) = rests.get_mut(rest.reason as usize) {
                *count += 1;
            }
        }
        ensure!(self.rests == rests, "the pool counts {:?} rests by reason and has {rests:?}", self.rests);
        let limited = self.queue.iter(&self.directory).find(|&id| self.limited_until(id).is_some());
        ensure!(limited.is_none(), "number {limited:?} is free, and its caps forbid a call");
        Ok(())
    }

    fn cool_down_ends(&self, cool_down: u32) -> bool {
        self.cool_downs.get(cool_down).is_some()
    }

    /// Each live lease is that of the number that it names.
    fn check_leases(&self) -> Checked {
        for (id, lease) in self.leases.table().iter() {
            ensure!(self.directory.name(lease.number).is_some(), "lease {id} is of no number");
            let found = self.directory.get(lease.number).lease();
            ensure!(found == id, "lease {id} is that of number {}, which has {found}", lease.number);
            let has_peer = self.peers.of(lease.number) != NONE;
            ensure!(
                has_peer || !lease.has_peer,
                "lease {id} has a peer, and number {} has none",
                lease.number
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::number::Number;
    use super::super::sorted_free::SortedFree;
    use super::super::state::Resting;
    use super::super::suspensions::Suspension;
    use super::*;
    use crate::numpool::request::{Call, Policy, Request};
    use crate::numpool::{Settings, decide};
    use crate::shared::list::List;
    use crate::shared::token::TokenChoice;

    fn number(text: &str) -> Number {
        Number::parse(text.as_bytes()).unwrap()
    }

    fn ask(pool: &mut Pool, request: &Request<'_>) {
        for event in decide(pool, 1, request).unwrap().events {
            assert_eq!(pool.admits(&event), Ok(()));
            pool.apply(1, &event);
        }
    }

    fn call(pool: &mut Pool, text: &str) {
        let lease = TokenChoice { token: text.as_bytes(), chosen: true };
        let (switch, peer) = (Some(&b"sw"[..]), Some(&b"peer"[..]));
        let call = Call {
            number: Some(number(text)),
            ttl: None,
            endless: false,
            holder: None,
            lease,
            switch,
            peer,
            prefix: None,
            pick: None,
            random: 0,
        };
        ask(pool, &Request::Call(call));
    }

    /// Ids 0 and 1 wait, 2 is called, 3 is called and goes after that, 4 rests, 5 is down.
    fn sample_pool() -> Pool {
        let mut pool = Pool::new(Settings { lease: 100, regttl: 100, ..Settings::default() }, 0);
        let numbers = ["10", "11", "12", "13", "14", "15"].map(number);
        ask(&mut pool, &Request::Add(&numbers));
        ask(
            &mut pool,
            &Request::Reg { missing: false, numbers: &numbers[..5], ttl: None, switch: Some(b"sw") },
        );
        ["12", "13", "14"].into_iter().for_each(|text| call(&mut pool, text));
        ask(&mut pool, &Request::Del { numbers: &numbers[3..4], drain: true });
        ask(&mut pool, &Request::HangUp { number: numbers[4], lease: None, cooldown: Some(50), cause: None });
        pool.sort_at_once(Some(Policy::Sticky), Some(number("1")));
        pool
    }

    #[test]
    fn check_finds_a_damaged_pool() {
        let sound = sample_pool();
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Pool); 19] = [
            |pool| pool.suspensions.set(0, Suspension { cause: None, until: None }),
            |pool| pool.suspensions.set(6, Suspension { cause: None, until: Some(60) }),
            |pool| pool.heartbeats.set(0, 60),
            |pool| pool.heartbeats.set(7, 60),
            |pool| pool.counts[0] = 1,
            |pool| pool.counts[1] += 1,
            |pool| pool.draining = 0,
            |pool| pool.directory.at(0).place = Place::Nowhere,
            |pool| pool.directory.at(0).set_state(State::IdleDown),
            |pool| pool.directory.at(2).put(Place::Call, 1),
            |pool| pool.directory.at(3).put(Place::Call, 1),
            |pool| pool.directory.at(4).put(Place::Cooling, 1),
            |pool| pool.queue = List::default(),
            |pool| pool.registrations.set(5, 7),
            |pool| pool.cool_downs.remove(0),
            |pool| _ = pool.cooling.insert(Resting { number: 0, reason: RestReason::CoolDown }),
            |pool| pool.switches.unlist(0),
            |pool| pool.peers.list(4),
            |pool| {
                pool.sorted = SortedFree::default();
                pool.sorted.begin(false, false, List::default());
            },
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut pool = sound.clone();
            damage(&mut pool);
            assert!(pool.check().is_err(), "damage {number} is not found");
        }
    }

    #[test]
    fn full_pool_admits_a_draining_number_that_is_added_again() {
        let mut pool = sample_pool();
        pool.directory.fill_up();
        let decision = decide(&pool, 1, &Request::Add(&[number("13")])).unwrap();
        assert_eq!(pool.admits(&decision.events[0]), Ok(()));
        assert!(decide(&pool, 1, &Request::Add(&[number("99")])).is_err());
    }

    #[test]
    fn deleted_numbers_are_counted_in_no_state() {
        let mut pool = sample_pool();
        ask(&mut pool, &Request::Del { numbers: &[number("10"), number("12")], drain: false });
        assert_eq!(pool.check(), Ok(()));
    }
}
