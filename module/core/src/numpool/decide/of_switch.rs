//! Requests about a switch: `RECONCILE` ends the leases that the switch no longer carries, and `UNREG` its registrations.
//! A request that is too much for one step is carried out in slices.

use super::due::deadline;
use crate::invariant;
use crate::numpool::event::{Cause, Event, Events, Numbers, each_some};
use crate::numpool::leases::Lease;
use crate::numpool::model::sliced::{Ends, Sliced};
use crate::numpool::number::Number;
use crate::numpool::outcome::{Decision, Reconciled, Reply};
use crate::numpool::request::OfSwitch;
use crate::numpool::state::Pool;
use crate::shared::decision::Decided;
use crate::shared::list::{Links, List, NONE};
use crate::shared::refusal::{Code, Refusal, refuse};
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis};
use hashbrown::HashSet;

/// The most leases or registrations of a switch that one step ends: about 5 ms of work.
pub const MAX_AT_ONCE: u32 = 10_000;
/// How many leases or numbers a slice looks at.
const LOOKED_AT: usize = 10_000;
/// The most requests of a pool that are in progress.
const MAX_IN_PROGRESS: usize = 16;

/// Decides a request about a switch in one step.
pub(super) fn decide_of_switch(pool: &Pool, now: Millis, request: &OfSwitch<'_>) -> Decided<Event, Reply> {
    let mut work = pool.work_of(now, request)?;
    let events = pool.next_slice(&mut work, now, usize::MAX, usize::MAX);
    Ok(Decision { events, reply: outcome(work) })
}

/// The outcome of a request that is done.
fn outcome(done: Sliced) -> Reply {
    match done.ends {
        Ends::Leases | Ends::Unswitched => {
            let Sliced { kept, ended: freed, unknown, .. } = done;
            Reply::Reconciled(Reconciled { kept, freed, unknown })
        }
        Ends::Registrations => Reply::Integer(done.ended as i64),
    }
}

impl Pool {
    /// Whether a request about a switch ends more than one step may end. O(1).
    pub fn needs_slices(&self, request: &OfSwitch<'_>) -> bool {
        let (ends, switch) = request.ends();
        let switch = self.switches.find(switch).unwrap_or(NONE);
        self.list_of(ends, switch).len() > MAX_AT_ONCE
    }

    /// Begins a request about a switch that is carried out in slices. When it is done, its outcome is for the waiter that
    /// `wait` returns, which is called only if the request is accepted. O(tokens).
    ///
    /// # Errors
    /// As a request that is decided at once; `LIMIT` if too many are in progress.
    pub fn begin_in_slices(
        &mut self,
        now: Millis,
        request: &OfSwitch<'_>,
        wait: impl FnOnce() -> u64,
    ) -> Result<(), Refusal> {
        if self.sliced.len() >= MAX_IN_PROGRESS {
            let text = format!(
                "a pool carries out at most {MAX_IN_PROGRESS} requests in slices at once; try again later"
            );
            return refuse(Code::Limit, text);
        }
        let work = self.work_of(now, request)?;
        self.drop_orders_if_cheaper(self.list_of(work.ends, work.switch).len() as usize);
        self.sliced.begin(wait(), work);
        Ok(())
    }

    /// What a request looks at, and what it spares. O(tokens).
    fn work_of(&self, now: Millis, request: &OfSwitch<'_>) -> Result<Sliced, Refusal> {
        let (ends, switch) = request.ends();
        if ends != Ends::Unswitched {
            check_identifier("SWITCH", switch)?;
        }
        let switch = self.switches.find(switch).unwrap_or(NONE);
        let list = self.list_of(ends, switch);
        let (next, last, carried, unknown) = (list.head, list.tail(), HashSet::new(), Vec::new());
        let mut work = Sliced { ends, switch, next, last, carried, before: None, unknown, kept: 0, ended: 0 };
        if let OfSwitch::Reconcile { before, leases, .. } = request {
            work.before = *before;
            for token in *leases {
                check_identifier("LEASE", token)?;
                // Without a switch of that name, `NONE` would be the switch of leases that have none.
                let is_known = switch != NONE || ends == Ends::Unswitched;
                let is_carried = |id: &u32| {
                    let is_its = |lease: &Lease| lease.switch == switch && lease.holder == NONE;
                    is_known && self.leases.get(*id).is_some_and(is_its) && !self.has_expired(*id, now)
                };
                match self.leases.find(token).filter(is_carried) {
                    Some(id) => drop(work.carried.insert(id)),
                    None => work.unknown.push(Bytes::from_slice(token)),
                }
            }
            work.kept = work.carried.len() as u64;
        }
        Ok(work)
    }

    /// What a switch carries, or has registered.
    fn list_of(&self, ends: Ends, switch: u32) -> List {
        match ends {
            Ends::Leases => self.leases.list_of(switch),
            Ends::Unswitched => self.leases.unswitched(),
            Ends::Registrations => self.switches.get(switch).map(|group| group.members).unwrap_or_default(),
        }
    }

    /// The next slice of the oldest request: the ends of at most `limit` leases or registrations. Apply the events
    /// before the next call.
    pub fn continue_sliced(&mut self, now: Millis, limit: usize) -> Events {
        let mut sliced = std::mem::take(&mut self.sliced);
        let first = sliced.first_mut();
        let events = first.map_or_else(Events::new, |first| self.next_slice(first, now, limit, LOOKED_AT));
        self.sliced = sliced;
        events
    }

    /// The next slice of a request. Leases and registrations whose deadline has passed are left to the timer.
    fn next_slice(&self, work: &mut Sliced, now: Millis, limit: usize, looked_at: usize) -> Events {
        let mut ended: Vec<(Millis, Number)> = Vec::new();
        for _ in 0..looked_at {
            if work.is_done() || ended.len() >= limit {
                break;
            }
            let id = work.next;
            let [_, behind] = match work.ends {
                Ends::Leases | Ends::Unswitched => self.leases.table().links(id),
                Ends::Registrations => self.switches.neighbours(id),
            };
            work.advance(behind);
            match work.ends {
                Ends::Leases | Ends::Unswitched => ended.extend(self.lease_to_end(work, id, now)),
                Ends::Registrations => {
                    let number = self.number(id);
                    if !self.has_lapsed(id, now) && !self.is_gone(number, now) {
                        ended.push((0, number));
                    }
                }
            }
        }
        work.ended += ended.len() as u64;
        match work.ends {
            Ends::Leases | Ends::Unswitched => {
                // In the order in which the calls began.
                ended.sort_unstable();
                let cool_until = deadline(now, None, self.settings.cooldown);
                let (cause, word, quarantine) = (Cause::Reconciled, None, None);
                let event =
                    |numbers| Event::Ended { numbers, cool_until, cause, word: word.clone(), quarantine };
                each_some(numbers(ended), event)
            }
            Ends::Registrations => {
                let switch = self.switches.name(work.switch).map(Bytes::from_slice);
                each_some(numbers(ended), |numbers| Event::Unregistered { numbers, switch: switch.clone() })
            }
        }
    }

    /// When a lease began and its number, if a request ends it.
    fn lease_to_end(&self, work: &mut Sliced, id: u32, now: Millis) -> Option<(Millis, Number)> {
        let lease = self.leases.get(id);
        invariant!(lease.is_some(), "a lease that a switch carries is live");
        let lease = lease.filter(|_| !work.carried.contains(&id) && !self.has_expired(id, now))?;
        if work.before.is_some_and(|before| lease.since >= before) {
            work.kept += 1;
            return None;
        }
        Some((lease.since, self.number(lease.number)))
    }

    /// Whether `take_sliced` finds an outcome. O(1).
    #[inline]
    pub fn has_sliced(&self) -> bool {
        self.sliced.is_first_done()
    }

    /// The waiter of a request that is done, and its outcome.
    pub fn take_sliced(&mut self) -> Option<(u64, Reply)> {
        let (waiter, done) = self.sliced.take_done()?;
        Some((waiter, outcome(done)))
    }
}

fn numbers(ended: Vec<(Millis, Number)>) -> Numbers {
    ended.into_iter().map(|(_, number)| number).collect()
}
