//! A pool as one would write it in an afternoon: a list of numbers, a list that is the queue, every search a loop.
//! What the real one is held against.

#![allow(unreachable_pub, reason = "one test program")]

mod restrictions;

use allot_core::numpool::cells::State;
use allot_core::numpool::request::Policy;
use allot_core::numpool::{Number, Settings};
use allot_core::shared::refusal::Code;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub token: Vec<u8>,
    pub switch: Option<Vec<u8>>,
    pub peer: Option<Vec<u8>>,
    pub holder: Option<Vec<u8>>,
    pub since: i64,
    pub until: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub number: Number,
    pub up: bool,
    pub lease: Option<Lease>,
    pub draining: bool,
    pub reg_switch: Option<Vec<u8>>,
    pub reg_until: Option<i64>,
    pub peer: Option<Vec<u8>>,
    pub uses: u32,
    pub since: i64,
    pub cool_until: Option<i64>,
    /// Out of service: for a cause, until a time.
    pub suspended: Option<(Option<&'static str>, Option<i64>)>,
    /// Until when its caps forbid a call, while it is neither called nor rests.
    pub limit_until: Option<i64>,
    /// Its own caps.
    pub caps: Vec<(i64, usize)>,
    /// When its calls began, and ended with a cause whose ends are counted.
    pub starts: Vec<i64>,
    pub ends: Vec<(&'static str, i64)>,
    /// Which change of the times of all numbers was the last one of this number.
    pub changed: u64,
    pub cause: Option<&'static str>,
}

/// A call that waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub id: u64,
    pub rank: (i32, u64),
    pub number: Option<Number>,
    pub ttl: Option<i64>,
    pub token: Vec<u8>,
    pub switch: Option<&'static [u8]>,
    pub peer: Option<&'static [u8]>,
    pub prefixes: Vec<Number>,
    pub pick: Option<Policy>,
}

impl Waiting {
    pub fn wish(&self) -> Wish<'_> {
        let Self { number, ttl, switch, peer, pick, .. } = *self;
        let (token, prefixes) = (&self.token[..], &self.prefixes[..]);
        Wish { number, ttl, token, switch, peer, prefixes, pick, holder: None }
    }
}

/// A rule for a cause: cool-down, after, within.
pub type Rule = (i64, usize, i64);

#[derive(Clone, Debug, Default)]
pub struct Naive {
    pub entries: Vec<Entry>,
    pub queue: Vec<Number>,
    pub settings: Settings,
    pub now: i64,
    /// Windows, 0 for the calendar day, and how many calls a number may begin within them.
    pub caps: Vec<(i64, usize)>,
    /// A window, and how many calls the pool may begin within it.
    pub rate: Option<(i64, usize)>,
    /// When calls of the pool began, as far as the rate counts them.
    pub starts: Vec<i64>,
    /// The last number of each peer, and when it called; the earliest call first.
    pub peers: Vec<(Vec<u8>, Number, i64)>,
    pub rules: Vec<(&'static str, Rule)>,
    pub counts: Vec<(&'static str, u64)>,
    pub changes: u64,
    pub waiting: Vec<Waiting>,
    /// Until when switches are alive, and how much time each gets when a server takes over.
    pub alive: Vec<(Vec<u8>, i64, i64)>,
    /// The least count of calls of the free numbers when one of them was last chosen by use.
    pub least_uses: Option<u32>,
    /// Whether the pool knows that count of the numbers that are free now.
    pub is_sorted: bool,
}

pub struct Wish<'a> {
    pub number: Option<Number>,
    pub ttl: Option<i64>,
    pub token: &'a [u8],
    pub switch: Option<&'a [u8]>,
    pub peer: Option<&'a [u8]>,
    pub prefixes: &'a [Number],
    pub pick: Option<Policy>,
    pub holder: Option<&'a [u8]>,
}

impl Naive {
    pub fn entry(&mut self, number: Number) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    pub fn get(&self, number: Number) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.number == number)
    }

    pub fn state(&self, number: Number) -> State {
        match self.get(number) {
            None => State::NoData,
            Some(entry) => match (entry.lease.is_some(), entry.up) {
                (false, true) => State::IdleUp,
                (false, false) => State::IdleDown,
                (true, true) => State::BusyUp,
                (true, false) => State::BusyDown,
            },
        }
    }

    /// Everything that is due by `now`, one after the other, each at its time.
    pub fn advance(&mut self, now: i64) {
        self.now = self.now.max(now);
        let uses = self.uses_of_joining();
        loop {
            let dues = self.entries.iter().flat_map(|entry| {
                let until = entry.lease.as_ref().and_then(|lease| self.lease_end(lease));
                let suspended = entry.suspended.and_then(|(_, until)| until);
                let rests = [(entry.cool_until, 1), (entry.limit_until, 1), (suspended, 1)];
                [(until, 0), (entry.reg_until, 2)]
                    .into_iter()
                    .chain(rests)
                    .filter_map(move |(due, what)| Some((due?, what, entry.number)))
            });
            let next = dues.min().filter(|&(at, ..)| at <= now);
            // Switches fall silent behind the calls that they kept.
            let over = next.map_or(now, |(at, ..)| at - 1);
            self.alive.retain(|&(_, until, _)| until > over);
            let Some((at, what, number)) = next else { return };
            match what {
                0 => {
                    let cooldown = self.settings.cooldown;
                    self.end(number, at, (cooldown > 0).then_some(at + cooldown));
                }
                1 => {
                    let entry = self.entry(number).unwrap();
                    entry.cool_until = entry.cool_until.filter(|&until| until > at);
                    entry.limit_until = entry.limit_until.filter(|&until| until > at);
                    let suspended = entry.suspended;
                    entry.suspended = suspended.filter(|(_, until)| until.is_none_or(|until| until > at));
                    if entry.suspended != suspended {
                        entry.uses = entry.uses.max(uses);
                    }
                    self.limit(number, at);
                }
                _ => {
                    let entry = self.entry(number).unwrap();
                    (entry.up, entry.reg_until, entry.reg_switch) = (false, None, None);
                    entry.limit_until = None;
                    self.settle(number);
                }
            }
        }
    }

    /// When a lease ends by itself: at its own deadline or else at that of its switch.
    fn lease_end(&self, lease: &Lease) -> Option<i64> {
        let alive = self.alive.iter().find(|(switch, ..)| Some(switch) == lease.switch.as_ref());
        let alive = alive.filter(|_| lease.holder.is_none());
        lease.until.or(alive.map(|&(_, until, _)| until).filter(|&until| lease.since < until))
    }

    /// A switch is alive. Returns how many calls it carries.
    pub fn beat(&mut self, switch: &[u8], ttl: i64) -> u32 {
        self.alive.retain(|(other, ..)| other != switch);
        self.alive.push((switch.to_vec(), self.now + ttl, ttl));
        let leases = self.entries.iter().filter_map(|entry| entry.lease.as_ref());
        let carried =
            leases.filter(|lease| lease.holder.is_none()).filter_map(|lease| lease.switch.as_deref());
        carried.filter(|other| *other == switch).count() as u32
    }

    /// A server takes the pool over: a switch has the time of its heartbeat again, and half as much the next time.
    pub fn take_over(&mut self, now: i64) {
        for (_, until, ttl) in self.alive.iter_mut().filter(|(_, until, ttl)| *until < now + ttl) {
            *until = now + *ttl;
            *ttl = (*ttl / 2).max(1);
        }
    }

    fn waits(&self, number: Number) -> bool {
        self.get(number).is_some_and(|entry| {
            let rests = entry.cool_until.is_some() || entry.limit_until.is_some();
            entry.up && entry.lease.is_none() && !rests && entry.suspended.is_none()
        })
    }

    /// The count of calls from which a number goes on that joins.
    fn uses_of_joining(&self) -> u32 {
        if self.settings.pick != Policy::LeastUsed && self.least_uses.is_none() {
            return 0;
        }
        let free = if self.is_sorted { self.least_free_uses() } else { None };
        free.or(self.least_uses).unwrap_or(0)
    }

    fn least_free_uses(&self) -> Option<u32> {
        self.queue.iter().map(|&number| self.get(number).unwrap().uses).min()
    }

    fn change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    /// A waiter whose token is that of a live lease.
    pub fn waiter_of_live_lease(&self) -> Option<u64> {
        let mut waiting = self.waiting.iter();
        waiting.find(|waiter| self.by_token(&waiter.token).is_some()).map(|waiter| waiter.id)
    }

    /// The waiter that is served next, if there is one, and the numbers that it may get; or the error.
    pub fn next_waiter(&self) -> Option<(u64, Result<Vec<Number>, Code>)> {
        let mut waiting: Vec<&Waiting> = self.waiting.iter().collect();
        waiting.sort_by_key(|waiter| (-waiter.rank.0, waiter.rank.1));
        let is_gone = |waiter: &&&Waiting| waiter.number.is_some_and(|number| self.get(number).is_none());
        if let Some(waiter) = waiting.iter().find(is_gone) {
            return Some((waiter.id, Err(Code::NotFound)));
        }
        waiting.into_iter().find_map(|waiter| match self.candidates(&waiter.wish()) {
            Ok(numbers) if numbers.is_empty() => None,
            Err(Code::BadState | Code::Limit) => None,
            outcome => Some((waiter.id, outcome)),
        })
    }

    /// Puts a number into the queue, or takes it out, as its state demands.
    fn settle(&mut self, number: Number) {
        let waits = self.waits(number);
        let there = self.queue.contains(&number);
        if waits && !there {
            self.queue.push(number);
        } else if !waits {
            self.queue.retain(|other| *other != number);
        }
    }

    pub fn end(&mut self, number: Number, at: i64, cool_until: Option<i64>) {
        let entry = self.entry(number).unwrap();
        if entry.draining {
            self.remove(number);
        } else {
            entry.lease = None;
            entry.since = at;
            entry.cool_until = cool_until;
        }
        self.limit(number, at);
    }

    fn remove(&mut self, number: Number) {
        self.entries.retain(|entry| entry.number != number);
        if self.entries.is_empty() {
            self.least_uses = None;
        }
    }

    pub fn add(&mut self, numbers: &[Number], now: i64) -> i64 {
        let mut new = 0;
        for &number in numbers {
            if let Some(entry) = self.entry(number) {
                new += i64::from(entry.draining);
                entry.draining = false;
                continue;
            }
            new += 1;
            self.entries.push(Entry {
                number,
                up: false,
                lease: None,
                draining: false,
                reg_switch: None,
                reg_until: None,
                peer: None,
                uses: 0,
                since: now,
                cool_until: None,
                suspended: None,
                limit_until: None,
                caps: Vec::new(),
                starts: Vec::new(),
                ends: Vec::new(),
                changed: 0,
                cause: None,
            });
        }
        new
    }

    pub fn del(&mut self, numbers: &[Number], drain: bool) -> i64 {
        let mut count = 0;
        for &number in numbers {
            let Some(entry) = self.entry(number) else { continue };
            if drain && entry.lease.is_some() {
                count += i64::from(!entry.draining);
                entry.draining = true;
            } else {
                count += 1;
                self.remove(number);
                self.settle(number);
            }
        }
        count
    }

    /// The numbers of a list that are in the pool, and those that are not, each once.
    pub fn part(&self, numbers: &[Number]) -> (Vec<Number>, Vec<Number>) {
        let mut once: Vec<Number> = Vec::new();
        for &number in numbers {
            if !once.contains(&number) {
                once.push(number);
            }
        }
        once.into_iter().partition(|&number| self.get(number).is_some())
    }

    pub fn reg(&mut self, numbers: &[Number], ttl: Option<i64>, switch: Option<&[u8]>, now: i64) -> i64 {
        let (numbers, _) = self.part(numbers);
        let uses = self.uses_of_joining();
        let regttl = self.settings.regttl;
        let mut count = 0;
        for number in numbers {
            let entry = self.entry(number).unwrap();
            count += i64::from(!entry.up);
            if !entry.up && entry.lease.is_none() {
                entry.uses = entry.uses.max(uses);
            }
            entry.up = true;
            entry.reg_until = ttl.or((regttl > 0).then_some(regttl)).map(|ttl| now + ttl);
            entry.reg_switch = switch.map(<[u8]>::to_vec);
            self.limit(number, now);
        }
        count
    }

    pub fn unreg(&mut self, numbers: &[Number]) -> i64 {
        let (numbers, _) = self.part(numbers);
        let mut count = 0;
        for number in numbers {
            let entry = self.entry(number).unwrap();
            count += i64::from(entry.up);
            (entry.up, entry.reg_until, entry.reg_switch) = (false, None, None);
            entry.limit_until = None;
            self.settle(number);
        }
        count
    }

    pub fn unreg_switch(&mut self, switch: &[u8]) -> i64 {
        let registered = self.entries.iter().filter(|entry| entry.reg_switch.as_deref() == Some(switch));
        let numbers: Vec<Number> = registered.map(|entry| entry.number).collect();
        self.unreg(&numbers)
    }

    pub fn by_token(&self, token: &[u8]) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.lease.as_ref().is_some_and(|lease| lease.token == token))
    }

    /// Which numbers a wish may get: one, unless it is to be drawn.
    pub fn candidates(&self, wish: &Wish<'_>) -> Result<Vec<Number>, Code> {
        let numbers = self.free_for(wish)?;
        let is_forbidden = !numbers.is_empty() && self.rate_until(self.now).is_some();
        if is_forbidden { Err(Code::Limit) } else { Ok(numbers) }
    }

    fn free_for(&self, wish: &Wish<'_>) -> Result<Vec<Number>, Code> {
        if let Some(number) = wish.number {
            if !wish.prefixes.is_empty() || wish.pick.is_some() {
                return Err(Code::Err);
            }
            return match self.state(number) {
                State::NoData => Err(Code::NotFound),
                State::IdleUp if self.queue.contains(&number) => Ok(vec![number]),
                State::IdleUp if self.get(number).unwrap().limit_until.is_some() => Err(Code::Limit),
                _ => Err(Code::BadState),
            };
        }
        let text = |number: Number| number.to_string();
        let with = |prefix: &Number| {
            let fits = |number: &&Number| text(**number).starts_with(&text(*prefix));
            self.queue.iter().filter(fits).copied().collect::<Vec<Number>>()
        };
        let free = match wish.prefixes {
            [] => self.queue.clone(),
            prefixes => prefixes.iter().map(with).find(|free| !free.is_empty()).unwrap_or_default(),
        };
        // The number of a peer may have any of the prefixes, of which the first counts.
        let all: Vec<Number> = match wish.prefixes {
            [] => self.queue.clone(),
            prefixes => prefixes.iter().flat_map(with).collect(),
        };
        let uses = |number: &Number| self.get(*number).unwrap().uses;
        let mut first = free.first().copied();
        match wish.pick.unwrap_or(self.settings.pick) {
            Policy::Longest => {}
            Policy::Random => return Ok(free),
            Policy::LeastUsed => first = free.iter().copied().min_by_key(uses),
            Policy::Sticky if self.settings.peers > 0 => {
                let known = self.peers.iter().find(|(peer, ..)| Some(&peer[..]) == wish.peer);
                let known = known.filter(|&&(.., at)| self.is_fresh(at));
                first = known.map(|&(_, number, _)| number).filter(|number| all.contains(number)).or(first);
            }
            Policy::Sticky => {
                let peer = |number: &Number| self.get(*number).unwrap().peer.clone();
                let of_peer = all
                    .iter()
                    .copied()
                    .find(|number| wish.peer.is_some() && peer(number).as_deref() == wish.peer);
                first = of_peer.or(first);
            }
        }
        Ok(first.into_iter().collect())
    }

    fn is_fresh(&self, at: i64) -> bool {
        self.settings.peerttl == 0 || at + self.settings.peerttl > self.now
    }

    fn remember(&mut self, peer: &[u8], number: Number, now: i64) {
        self.peers.retain(|(other, ..)| other != peer);
        self.peers.push((peer.to_vec(), number, now));
        for _ in 0..2 {
            if self.peers.len() > self.settings.peers as usize || !self.is_fresh(self.peers[0].2) {
                self.peers.remove(0);
            }
        }
    }

    pub fn grant(&mut self, number: Number, wish: &Wish<'_>, now: i64) {
        if let Some(peer) = wish.peer.filter(|_| self.settings.peers > 0) {
            self.remember(peer, number, now);
        }
        let registered_by = self.get(number).unwrap().reg_switch.clone().filter(|_| wish.holder.is_none());
        let switch = wish.switch.map(<[u8]>::to_vec).or(registered_by);
        let is_alive =
            wish.holder.is_none() && self.alive.iter().any(|(other, ..)| Some(other) == switch.as_ref());
        let usual = if is_alive { 0 } else { self.settings.lease };
        let changed = self.change();
        if self.rate.is_some() {
            self.starts.push(now);
        }
        let pick = wish.pick.unwrap_or(self.settings.pick);
        if wish.number.is_none() && pick == Policy::LeastUsed {
            self.least_uses = self.least_free_uses();
        }
        let (is_capped, span) = (!self.caps_of(number).is_empty(), self.span_of(number));
        let entry = self.entry(number).unwrap();
        entry.uses += 1;
        if is_capped {
            entry.starts.retain(|start| start + span > now);
            entry.starts.push(now);
            entry.changed = changed;
        }
        if wish.peer.is_some() {
            entry.peer = wish.peer.map(<[u8]>::to_vec);
        }
        entry.lease = Some(Lease {
            token: wish.token.to_vec(),
            switch,
            peer: wish.peer.map(<[u8]>::to_vec),
            holder: wish.holder.map(<[u8]>::to_vec),
            since: now,
            until: wish.ttl.or((usual > 0).then_some(usual)).map(|ttl| now + ttl),
        });
        self.settle(number);
    }

    pub fn hangup(
        &mut self,
        number: Number,
        token: Option<&[u8]>,
        cooldown: Option<i64>,
        cause: Option<&'static str>,
        now: i64,
    ) -> Result<i64, Code> {
        if let Some(token) = token
            && self.by_token(token).is_none_or(|entry| entry.number != number)
        {
            return Ok(0);
        }
        match self.state(number) {
            State::NoData => return Err(Code::NotFound),
            State::IdleUp | State::IdleDown => return Err(Code::BadState),
            State::BusyUp | State::BusyDown => {}
        }
        let cooldown = cooldown.unwrap_or(self.settings.cooldown);
        let quarantine = cause.and_then(|word| self.blame(number, word));
        let entry = self.entry(number).unwrap();
        let longer = |(_, until): (_, Option<i64>)| until.is_none_or(|until| Some(until) >= quarantine);
        if quarantine.is_some() && !entry.suspended.is_some_and(longer) {
            entry.suspended = Some((cause, quarantine));
        }
        self.end(number, now, (cooldown > 0).then_some(now + cooldown));
        Ok(1)
    }

    pub fn renew(&mut self, number: Number, token: &[u8], ttl: i64, now: i64) -> Result<i64, Code> {
        let Some(entry) = self.entry(number) else { return Err(Code::NotFound) };
        match &mut entry.lease {
            Some(lease) if lease.token == token => {
                lease.until = Some(now + ttl);
                Ok(now + ttl)
            }
            _ => Err(Code::NotOwner),
        }
    }

    pub fn reconcile(
        &mut self,
        switch: Option<&[u8]>,
        before: Option<i64>,
        carried: &[&[u8]],
        now: i64,
    ) -> (u64, u64, Vec<Vec<u8>>) {
        let mine: Vec<(i64, Number, Vec<u8>)> = self
            .entries
            .iter()
            .filter_map(|entry| {
                let lease = entry.lease.as_ref()?;
                (lease.switch.as_deref() == switch && lease.holder.is_none())
                    .then(|| (lease.since, entry.number, lease.token.clone()))
            })
            .collect();
        let unknown = carried.iter().filter(|token| !mine.iter().any(|(.., mine)| mine == *token));
        let unknown: Vec<Vec<u8>> = unknown.map(|token| token.to_vec()).collect();
        let keep = |lease: &(i64, Number, Vec<u8>)| {
            carried.contains(&&lease.2[..]) || before.is_some_and(|before| lease.0 >= before)
        };
        let kept = mine.iter().filter(|lease| keep(lease)).count();
        let mut freed: Vec<_> = mine.iter().filter(|lease| !keep(lease)).collect();
        freed.sort();
        let cooldown = self.settings.cooldown;
        for (_, number, _) in &freed {
            self.end(*number, now, (cooldown > 0).then_some(now + cooldown));
        }
        (kept as u64, freed.len() as u64, unknown)
    }
}
