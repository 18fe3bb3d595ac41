//! Decisions at deadlines: leases expire, cool-downs end, registrations lapse.

use crate::invariant;
use crate::numpool::event::{Cause, Event, Events, TOLD_AT_ONCE};
use crate::numpool::number::Number;
use crate::numpool::state::Pool;
use crate::shared::invariant::Expected;
use crate::shared::{Bytes, Millis};
use hashbrown::HashSet;
use smallvec::smallvec;

/// The events of deadlines up to `now`, in the order of their times, for at most `limit` numbers. Call again until
/// none are left.
pub fn decide_due(pool: &Pool, now: Millis, limit: usize) -> Events {
    if pool.earliest_deadline().is_none_or(|earliest| earliest > now) {
        return Events::new();
    }
    let mut due: Vec<Due> = Vec::new();
    let leases = pool.leases.deadlines().due(now, limit).into_iter();
    due.extend(leases.filter_map(|id| lease_due(pool, id, pool.leases.until(id)?, Cause::Expired, now)));
    let mut left = limit;
    for switch in pool.heartbeats.due(now, limit) {
        due.extend(switch_due(pool, switch, now, &mut left));
    }
    let cool_downs = pool.cool_downs.due(now, limit).into_iter();
    due.extend(cool_downs.filter_map(|id| cool_down_due(pool, id, now)));
    let registrations = pool.registrations.due(now, limit).into_iter();
    due.extend(registrations.filter_map(|id| registration_due(pool, id)));
    let suspensions = pool.suspensions.ends().due(now, limit).into_iter();
    due.extend(suspensions.filter_map(|id| suspension_due(pool, id, now)));
    due.sort_unstable_by_key(Due::order);
    due.truncate(limit);
    due_events(pool, due)
}

/// The end of a lease at a deadline that has passed by `now`.
fn lease_due(pool: &Pool, id: u32, until: Millis, cause: Cause, now: Millis) -> Option<Due> {
    let lease = pool.leases.get(id).expected("a lease with a deadline is live")?;
    let (number, last) = (pool.number(lease.number), pool.is_draining(lease.number));
    // Where its rest is over as well, the number joins the queue in the turn of that.
    let cooled = deadline(until, None, pool.settings.cooldown);
    let rested = turn_of(pool, lease.number, cooled.unwrap_or(until), now);
    if rested > until && rested <= now && !last {
        return Some(Due { at: rested, what: What::Ended { at: until, cause, has_rested: true }, number });
    }
    Some(Due { at: until, what: What::Ended { at: until, cause, has_rested: false }, number })
}

/// The ends of at most `left` leases that a switch kept, and once there are no more, the end of its deadline.
fn switch_due(pool: &Pool, switch: u32, now: Millis, left: &mut usize) -> Vec<Due> {
    let mut ends = Vec::new();
    let Some(until) = pool.heartbeats.get(switch).expected("a switch whose deadline has passed has one")
    else {
        return ends;
    };
    // A call that began after the deadline does not end. There are few of these, at the end of the list.
    for id in pool.leases.undated_of(switch).filter(|&id| pool.lease_end(id).is_some()) {
        if *left == 0 {
            return ends;
        }
        *left -= 1;
        ends.extend(lease_due(pool, id, until, Cause::Silent, now));
    }
    let last = ends.iter().map(|end| end.at).max().unwrap_or(until);
    ends.push(Due { at: last, what: What::Silent { switch }, number: Number::LEAST });
    ends
}

/// When a number joins the queue whose rest ends at `rested`, by `now`: its caps may forbid a call for longer.
fn turn_of(pool: &Pool, id: u32, rested: Millis, now: Millis) -> Millis {
    let limit = pool.limited_at(id, rested);
    limit.filter(|&limit| limit <= now).unwrap_or(rested)
}

/// The end of a cool-down.
fn cool_down_due(pool: &Pool, id: u32, now: Millis) -> Option<Due> {
    let (Some(rest), Some(until)) = (pool.cooling.get(id), pool.cool_downs.get(id)) else {
        invariant!("a cool-down that ends is that of a number");
        return None;
    };
    let at = turn_of(pool, rest.number, until, now);
    Some(Due { at, what: What::Cooled, number: pool.number(rest.number) })
}

/// The end of a suspension.
fn suspension_due(pool: &Pool, id: u32, now: Millis) -> Option<Due> {
    let until = pool.suspensions.ends().get(id);
    let until = until.expected("a suspension that ends has a deadline")?;
    Some(Due { at: turn_of(pool, id, until, now), what: What::Resumed, number: pool.number(id) })
}

/// The end of a registration.
fn registration_due(pool: &Pool, id: u32) -> Option<Due> {
    let until = pool.registrations.get(id).expected("a registration that lapses has a deadline")?;
    Some(Due { at: until, what: What::Lapsed, number: pool.number(id) })
}

/// A deadline that has passed.
struct Due {
    at: Millis,
    what: What,
    number: Number,
}

impl Due {
    /// The order in which deadlines are applied.
    fn order(&self) -> (Millis, u8, Number) {
        (self.at, self.what.rank(), self.number)
    }
}

/// The kinds of deadlines.
#[derive(Clone, Copy)]
enum What {
    /// The end of a lease at a time.
    Ended {
        at: Millis,
        cause: Cause,
        /// Whether the rest that followed is over as well.
        has_rested: bool,
    },
    Cooled,
    /// The end of a suspension.
    Resumed,
    Lapsed,
    /// The end of the deadline of a switch.
    Silent {
        switch: u32,
    },
}

impl What {
    /// The order of what is due at one time: as if each had been seen to in its turn.
    fn rank(self) -> u8 {
        match self {
            Self::Ended { has_rested: false, .. } => 0,
            Self::Ended { has_rested: true, .. } | Self::Cooled | Self::Resumed => 1,
            Self::Lapsed => 2,
            Self::Silent { .. } => 3,
        }
    }
}

/// The events of deadlines, in their order.
fn due_events(pool: &Pool, due: Vec<Due>) -> Events {
    let mut events = Events::new();
    let (mut gone, uses) = (HashSet::new(), pool.uses_of_joining());
    for Due { what, number, .. } in due {
        // An earlier event of these has ended what is due: the number went with its last call, or rests no longer.
        if gone.contains(&number) {
            continue;
        }
        let next = match what {
            What::Ended { at, cause, has_rested } => {
                if pool.directory.find(number).is_some_and(|id| pool.is_draining(id)) {
                    gone.insert(number);
                }
                // It rests from the time at which the lease was over, whenever that is noticed.
                let cool_until = deadline(at, None, pool.settings.cooldown).filter(|_| !has_rested);
                let (numbers, word, quarantine) = (smallvec![number], None, None);
                Event::Ended { numbers, cool_until, cause, word, quarantine }
            }
            What::Silent { switch } => {
                let name = pool.switches.name(switch).unwrap_or_default();
                Event::Silent { switch: Bytes::from_slice(name) }
            }
            What::Cooled => Event::Cooled(smallvec![number]),
            What::Resumed => Event::Resumed { numbers: smallvec![number], uses },
            What::Lapsed => {
                // With that it rests no longer for its caps.
                if pool.directory.find(number).is_some_and(|id| pool.is_limited(id)) {
                    gone.insert(number);
                }
                Event::Lapsed(smallvec![number])
            }
        };
        match (events.last_mut(), &next) {
            (Some(Event::Cooled(numbers)), Event::Cooled(_))
            | (Some(Event::Lapsed(numbers)), Event::Lapsed(_))
            | (Some(Event::Resumed { numbers, .. }), Event::Resumed { .. }) => numbers.push(number),
            (
                Some(Event::Ended { numbers, cool_until: last, cause: before, .. }),
                Event::Ended { cool_until, cause, .. },
            ) if (&*before, &*last) == (cause, cool_until) && numbers.len() < TOLD_AT_ONCE => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numpool::leases::tests::LINKS_READ;
    use crate::numpool::request::{Call, Request};
    use crate::numpool::{Settings, decide};
    use crate::shared::token::TokenChoice;

    const CALLS: usize = 500;

    fn call(pool: &mut Pool, token: &str, ttl: Option<Millis>) {
        let request = Request::Call(Call {
            number: None,
            ttl,
            endless: false,
            holder: None,
            lease: TokenChoice { token: token.as_bytes(), chosen: true },
            switch: Some(b"sw"),
            peer: None,
            prefixes: &[],
            pick: None,
            random: 0,
        });
        let events = decide(pool, 1, &request).unwrap().events;
        apply(pool, 1, &events);
    }

    fn apply(pool: &mut Pool, at: Millis, events: &[Event]) {
        events.iter().for_each(|event| pool.apply(at, event));
    }

    #[test]
    fn end_of_a_switch_looks_only_at_calls_that_end() {
        let mut pool = Pool::new(Settings::default(), 0);
        let numbers: Vec<Number> =
            (0..2 * CALLS).map(|n| Number::parse(format!("{n:04}").as_bytes()).unwrap()).collect();
        let register = Request::Reg { numbers: &numbers, ttl: None, switch: None, missing: false };
        for request in [Request::Add(&numbers), register, Request::Beat { switch: b"sw", ttl: 100 }] {
            let events = decide(&pool, 1, &request).unwrap().events;
            apply(&mut pool, 1, &events);
        }
        for n in 0..CALLS {
            call(&mut pool, &format!("dated {n}"), Some(1_000_000));
            call(&mut pool, &format!("kept {n}"), None);
        }
        for left in (0..CALLS / 10).rev() {
            LINKS_READ.set(0);
            let events = decide_due(&pool, 200, 10);
            let read = LINKS_READ.get();
            assert!(read <= 11, "the links of {read} leases were read to end 10");
            apply(&mut pool, 200, &events);
            assert_eq!(pool.live_leases(), CALLS + 10 * left);
        }
        let last = decide_due(&pool, 200, 10);
        apply(&mut pool, 200, &last);
        assert_eq!((pool.heartbeats.is_empty(), pool.check()), (true, Ok(())));
    }
}
