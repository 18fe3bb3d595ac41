//! Checks a whole pool: records, lists, deadlines and sums against each other, and against a pool that is made again from
//! the snapshot.

use super::sorted_free::Numbers;
use super::state::Pool;
use crate::ensure;
use crate::shared::invariant::{Checked, Contradiction};

impl Pool {
    /// Checks the whole pool: each structure against itself, and all of them against what a snapshot says of the numbers
    /// and leases. O(size of the pool), O(n log n) for the orders.
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
        self.suspensions.ends().check()?;
        self.history.check()?;
        self.last_numbers.check()?;
        self.heartbeats.check()?;
        let slots = self.directory.slots();
        let carriers = self.leases.table().iter().map(|(_, lease)| lease.switch);
        self.switches.check(slots, |_| true, carriers.chain(self.heartbeats.ids()))?;
        let holders = self.leases.table().iter().map(|(_, lease)| lease.holder);
        self.holders.check(slots, |_| true, holders)?;
        self.peers.check(slots, |id| self.directory.get(id).is_queued(), [].into_iter())?;
        self.sorted.check(self.queue, Numbers { directory: &self.directory, peers: &self.peers })?;
        let is_kept =
            |id, number| self.directory.get(number).cool_down() == id && self.cool_downs.get(id).is_some();
        let stray = self.cooling.iter().find(|&(id, rest)| !is_kept(id, rest.number));
        ensure!(stray.is_none(), "{stray:?} is not the rest of its number, or has no end");
        let sound = Self::decode(&self.encode()).map_err(|damaged| Contradiction(damaged.0.to_owned()))?;
        let place_in = |pool: &Self, id| {
            let record = pool.directory.get(id);
            (record.state(), record.place, record.lease(), pool.switches.of(id), pool.peers.of(id))
        };
        for id in 0..slots {
            let (place, expected) = (place_in(self, id), place_in(&sound, id));
            ensure!(place == expected, "number {id} is {place:?}, and not {expected:?}");
        }
        for (what, same) in [
            ("the numbers by state", self.counts == sound.counts),
            ("the draining numbers", self.draining == sound.draining),
            ("the rests by reason", self.rests == sound.rests),
            ("the rests", self.cooling.len() == sound.cooling.len()),
            ("the ends of rests", self.cool_downs.len() == sound.cool_downs.len()),
            ("the ends of registrations", self.registrations == sound.registrations),
            ("the suspensions", self.suspensions == sound.suspensions),
            ("the caps of numbers", self.own_caps == sound.own_caps),
            ("the deadlines of switches", self.heartbeats == sound.heartbeats),
        ] {
            ensure!(same, "{what} are not those that the numbers say");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::State;
    use super::super::number::Number;
    use super::super::record::Place;
    use super::super::sorted_free::SortedFree;
    use super::super::state::{RestReason, Resting};
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
            prefixes: &[],
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
        pool.sort_at_once(Some(Policy::Sticky), true);
        pool
    }

    #[test]
    fn check_finds_a_damaged_pool() {
        let sound = sample_pool();
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Pool); 19] = [
            |pool| pool.suspensions.set(0, Suspension { cause: None, until: None }),
            |pool| pool.suspensions.set(6, Suspension { cause: None, until: Some(60) }),
            |pool| {
                pool.heartbeats.set(0, 60);
                pool.beat_ttls.set(0, 60);
            },
            |pool| {
                pool.heartbeats.set(7, 60);
                pool.beat_ttls.set(7, 60);
            },
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
                pool.sorted.begin(false, List::default());
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
