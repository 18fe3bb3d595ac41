//! Decisions at deadlines: leases expire, cool-downs end, registrations lapse.

use crate::invariant;
use crate::numpool::event::{Cause, Event, Events};
use crate::numpool::number::Number;
use crate::numpool::state::Pool;
use crate::shared::Millis;
use hashbrown::HashSet;
use smallvec::smallvec;

/// The most numbers in an event that writes a message for each number: messages are sent between two events, and only
/// so many are kept.
pub(super) const TOLD_AT_ONCE: usize = crate::shared::outbox::CAPACITY / 4;

/// The events of deadlines up to `now`, in the order of their times, for at most `limit` numbers. Call again until
/// none are left.
pub fn decide_due(pool: &Pool, now: Millis, limit: usize) -> Events {
    let mut due: Vec<Due> = Vec::new();
    if pool.next_due().is_none_or(|earliest| earliest > now) {
        return Events::new();
    }
    for id in pool.leases.deadlines().due(now, limit) {
        let (Some(lease), Some(until)) = (pool.leases.get(id), pool.leases.until(id)) else {
            invariant!("a lease with a deadline is live");
            continue;
        };
        let last = pool.is_draining(lease.number);
        // Where its rest is over as well, the number joins the queue in the turn of that.
        match deadline(until, None, pool.settings.cooldown) {
            Some(rested) if rested <= now && !last => {
                due.push(Due { at: rested, what: What::ExpiredAndCooled, number: pool.number(lease.number) });
            }
            _ => due.push(Due { at: until, what: What::Expired, number: pool.number(lease.number) }),
        }
    }
    for id in pool.cool_downs.due(now, limit) {
        match (pool.cooling.get(id), pool.cool_downs.get(id)) {
            (Some(&number), Some(until)) => {
                due.push(Due { at: until, what: What::Cooled, number: pool.number(number) });
            }
            _ => invariant!("a cool-down that ends is that of a number"),
        }
    }
    for id in pool.registrations.due(now, limit) {
        match pool.registrations.get(id) {
            Some(until) => due.push(Due { at: until, what: What::Lapsed, number: pool.number(id) }),
            None => invariant!("a registration that lapses has a deadline"),
        }
    }
    due.sort_unstable_by_key(|due| (due.at, due.what.rank(), due.number));
    due.truncate(limit);
    due_events(pool, due)
}

/// A deadline that has passed.
struct Due {
    at: Millis,
    what: What,
    number: Number,
}

/// The kinds of deadlines.
#[derive(Clone, Copy)]
enum What {
    Expired,
    /// Expired, and what rest followed is over as well.
    ExpiredAndCooled,
    Cooled,
    Lapsed,
}

impl What {
    /// The order of what is due at one time: as if each had been seen to in its turn.
    fn rank(self) -> u8 {
        match self {
            Self::Expired => 0,
            Self::ExpiredAndCooled | Self::Cooled => 1,
            Self::Lapsed => 2,
        }
    }
}

fn due_events(pool: &Pool, due: Vec<Due>) -> Events {
    let mut events = Events::new();
    let mut gone = HashSet::new();
    for Due { at, what, number } in due {
        // Its lease was over before, and with that the number went.
        if gone.contains(&number) {
            continue;
        }
        let next = match what {
            What::Expired => {
                if pool.directory.find(number).is_some_and(|id| pool.is_draining(id)) {
                    gone.insert(number);
                }
                // It rests from the time at which the lease was over, whenever that is noticed.
                let cool_until = deadline(at, None, pool.settings.cooldown);
                Event::Ended { numbers: smallvec![number], cool_until, cause: Cause::Expired }
            }
            What::ExpiredAndCooled => {
                Event::Ended { numbers: smallvec![number], cool_until: None, cause: Cause::Expired }
            }
            What::Cooled => Event::Cooled(smallvec![number]),
            What::Lapsed => Event::Lapsed(smallvec![number]),
        };
        match (events.last_mut(), &next) {
            (Some(Event::Cooled(numbers)), Event::Cooled(_))
            | (Some(Event::Lapsed(numbers)), Event::Lapsed(_)) => numbers.push(number),
            (Some(Event::Ended { numbers, cool_until: last, .. }), Event::Ended { cool_until, .. })
                if last == cool_until && numbers.len() < TOLD_AT_ONCE =>
            {
                numbers.push(number);
            }
            _ => events.push(next),
        }
    }
    events
}

/// When a time to live ends that a request gave, or else the pool's, of which 0 is none.
pub(super) fn deadline(now: Millis, ttl: Option<Millis>, usual: Millis) -> Option<Millis> {
    let ttl = ttl.or((usual > 0).then_some(usual));
    ttl.map(|ttl| now.saturating_add(ttl))
}
