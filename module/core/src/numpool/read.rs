//! Queries of a pool: numbers, leases, totals.

use super::causes::Cause;
use super::cells::State;
use super::number::Number;
use super::record::Place;
use super::settings::Cap;
use super::state::{Pool, Rest, RestReason};
use super::suspensions::Suspension;
use crate::shared::{Bytes, Millis};
use crate::words;

/// A number as `NUMPOOL.GET` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberRecord {
    /// Which.
    pub number: Number,
    /// Where it stands.
    pub state: State,
    /// Its live lease.
    pub lease: Option<Bytes>,
    /// When that ends by itself.
    pub until: Option<Millis>,
    /// Who registered it.
    pub reg_switch: Option<Bytes>,
    /// Who carries its call.
    pub call_switch: Option<Bytes>,
    /// The peer of the last call that named one.
    pub peer: Option<Bytes>,
    /// Calls that it was given for.
    pub uses: u32,
    /// Since when it carries no call.
    pub idle_since: Option<Millis>,
    /// Until when the number cools down.
    pub cool_until: Option<Millis>,
    /// The word of the cause with which its last call that named one ended.
    pub cause: Option<Bytes>,
    /// Whether it is out of service, why, and until when.
    pub suspension: Option<Suspension>,
    /// Until when the caps forbid another call.
    pub limit_until: Option<Millis>,
    /// Its own caps; if there are none, those of the pool hold.
    pub caps: Vec<Cap>,
}

words! {
    /// Which numbers `NUMPOOL.SCAN` shows: those in a state, or those in quarantine.
    pub enum Shown {
        /// Registered and without a call.
        IdleUp => "idle+up",
        /// Neither registered nor with a call.
        IdleDown => "idle+down",
        /// Registered and with a call.
        BusyUp => "busy+up",
        /// With a call, and not registered any more.
        BusyDown => "busy+down",
        /// Out of service, in any state.
        Suspended => "suspended",
        /// Out of service for a cause, in any state.
        Quarantined => "quarantined",
    }
}

impl Shown {
    fn shows(self, record: &NumberRecord) -> bool {
        match self {
            Self::Suspended => record.suspension.is_some(),
            Self::Quarantined => {
                record.suspension.as_ref().is_some_and(|suspended| suspended.cause.is_some())
            }
            state => record.state.word() == state.word(),
        }
    }
}

/// A live lease as `NUMPOOL.LEASES` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveLease {
    /// Its name.
    pub token: Bytes,
    /// Its number.
    pub number: Number,
    /// Who carries the call.
    pub call_switch: Option<Bytes>,
    /// Who is called, if the caller said so.
    pub peer: Option<Bytes>,
    /// Who holds the number instead of a switch.
    pub holder: Option<Bytes>,
    /// When it was granted.
    pub since: Millis,
    /// When it ends by itself.
    pub until: Option<Millis>,
}

/// A switch as `NUMPOOL.SWITCHES` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchRecord {
    /// Its name.
    pub switch: Bytes,
    /// Until when it is alive, if it sends heartbeats.
    pub until: Option<Millis>,
    /// Numbers that it has registered.
    pub numbers: u32,
    /// Calls that it carries.
    pub calls: u32,
}

/// Totals of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Numbers in the pool.
    pub total: u32,
    /// Of these, in each state.
    pub idle_up: u32,
    /// As above.
    pub idle_down: u32,
    /// As above.
    pub busy_up: u32,
    /// As above.
    pub busy_down: u32,
    /// Numbers that rest after a call; they are among the idle.
    pub cooling: u32,
    /// Idle numbers that have begun as many calls as the caps allow.
    pub limited: u32,
    /// Numbers out of service.
    pub suspended: u32,
    /// Of these, numbers in quarantine.
    pub quarantined: u32,
    /// Live leases.
    pub leases: u32,
    /// Numbers that are draining; they are among the busy.
    pub draining: u32,
    /// Calls that wait for a number, on this server.
    pub waiting: u32,
}

impl Pool {
    /// A number as it is at `now`: after all deadlines up to then, whether or not they were applied. `None` for a
    /// number that is not in the pool then. O(1).
    pub fn number_record(&self, number: Number, now: Millis) -> Option<NumberRecord> {
        let id = self.directory.find(number)?;
        let record = self.directory.get(id);
        let named = |name: Option<&[u8]>| name.map(Bytes::from_slice);
        let lapsed = self.registrations.get(id).is_some_and(|until| until <= now);
        let lease = self.leases.get(record.lease());
        let (own, until) = (self.leases.until(record.lease()), self.lease_end(record.lease()));
        let expired = until.is_some_and(|until| until <= now);
        if expired && record.place == Place::LastCall {
            return None;
        }
        let busy = record.state().is_busy() && !expired;
        let up = record.state().is_up() && !lapsed;
        let state = match (busy, up) {
            (true, true) => State::BusyUp,
            (true, false) => State::BusyDown,
            (false, true) => State::IdleUp,
            (false, false) => State::IdleDown,
        };
        let cool_until = match (until, self.rest_of(id)) {
            (Some(until), _) if expired => {
                (self.settings.cooldown > 0).then(|| until.saturating_add(self.settings.cooldown))
            }
            (_, Some(Rest { until, reason: RestReason::CoolDown })) => Some(until),
            (_, Some(Rest { reason: RestReason::Limit, .. }) | None) => None,
        };
        let lease = lease.filter(|_| busy);
        Some(NumberRecord {
            number,
            state,
            lease: lease.map(|lease| lease.token.clone()),
            until: own.filter(|_| busy),
            reg_switch: named(self.switches.name(self.switches.of(id)).filter(|_| up)),
            call_switch: named(lease.and_then(|lease| self.switches.name(lease.switch))),
            peer: named(self.peers.name(self.peers.of(id))),
            uses: record.uses,
            idle_since: match until {
                _ if busy => None,
                Some(until) => Some(until),
                None => Some(record.since()),
            },
            cool_until: cool_until.filter(|&until| until > now),
            cause: named(self.causes.last(id)),
            suspension: self.suspension_at(id, now),
            limit_until: self.limited_at(id, now),
            caps: self.own_caps.get(id).unwrap_or_default().to_vec(),
        })
    }

    /// The pool in numbers, as last applied. O(1).
    pub fn totals(&self) -> Totals {
        let [_, idle_up, idle_down, busy_up, busy_down] = self.counts;
        let [cool_down, limited] = self.rests;
        let (suspended, quarantined) = self.suspensions.counts();
        Totals {
            total: self.len(),
            idle_up,
            idle_down,
            busy_up,
            busy_down,
            cooling: cool_down,
            limited,
            suspended,
            quarantined,
            leases: self.leases.len() as u32,
            draining: self.draining,
            waiting: self.waiting_calls() as u32,
        }
    }

    /// Of how many peers the pool knows the last number.
    pub fn known_peers(&self) -> usize {
        self.last_numbers.len()
    }

    /// The causes that the pool knows, and how many calls ended with others.
    pub fn causes(&self) -> (&[Cause], u64) {
        (&self.causes.list, self.causes.other)
    }

    /// Numbers from a cursor on: examines `count` slots, and returns the numbers in `state` at `now`, with the next
    /// cursor, 0 at the end. A number that stays in the pool keeps its slot, so it is returned at least once.
    /// O(count).
    pub fn scan(&self, cursor: u32, count: u32, state: Option<Shown>, now: Millis) -> (u32, Vec<Number>) {
        let end = cursor.saturating_add(count).min(self.directory.slots());
        let shown = (cursor..end).filter_map(|id| {
            let number = self.directory.name(id)?;
            let record = self.number_record(number, now)?;
            state.is_none_or(|state| state.shows(&record)).then_some(number)
        });
        let shown = shown.collect();
        (if end == self.directory.slots() { 0 } else { end }, shown)
    }

    /// Whether a lease with this token is live at `now`. O(1).
    pub fn has_lease(&self, token: &[u8], now: Millis) -> bool {
        let until = self.leases.find(token).map(|lease| self.lease_end(lease));
        until.is_some_and(|until| until.is_none_or(|until| until > now))
    }

    /// Leases that live at `now`, from a cursor on, as `scan`; with `switch` only those that it carries. O(count).
    pub fn lease_scan(
        &self,
        cursor: u32,
        count: u32,
        switch: Option<&[u8]>,
        now: Millis,
    ) -> (u32, Vec<LiveLease>) {
        let table = self.leases.table();
        let end = cursor.saturating_add(count).min(table.slots());
        let named = |name: Option<&[u8]>| name.map(Bytes::from_slice);
        let shown = (cursor..end).filter_map(|id| {
            let lease = table.get(id)?;
            let call_switch = self.switches.name(lease.switch);
            let has_ended = self.lease_end(id).is_some_and(|until| until <= now);
            if switch.is_some() && switch != call_switch || has_ended {
                return None;
            }
            let peer = self.peers.name(self.peers.of(lease.number)).filter(|_| lease.has_peer);
            Some(LiveLease {
                token: lease.token.clone(),
                number: self.number(lease.number),
                call_switch: named(call_switch),
                peer: named(peer),
                holder: named(self.holders.name(lease.holder)),
                since: lease.since,
                until: self.leases.until(id),
            })
        });
        let shown = shown.collect();
        (if end == table.slots() { 0 } else { end }, shown)
    }

    /// Switches from a cursor on, as `scan`: those that registered numbers, carry calls, or are alive at `now`. O(count).
    pub fn switch_scan(&self, cursor: u32, count: u32, now: Millis) -> (u32, Vec<SwitchRecord>) {
        let end = cursor.saturating_add(count).min(self.switches.slots());
        let shown = (cursor..end).filter_map(|id| {
            let group = self.switches.get(id)?;
            Some(SwitchRecord {
                switch: group.name.clone(),
                until: self.heartbeats.get(id).filter(|&until| until > now),
                numbers: group.members.len(),
                calls: self.leases.list_of(id).len(),
            })
        });
        let shown = shown.collect();
        (if end == self.switches.slots() { 0 } else { end }, shown)
    }
}
