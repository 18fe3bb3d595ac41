//! A pool as one would write it in an afternoon: a list of numbers, a list that is the queue, every search a loop.
//! What the real one is held against.

#![allow(unreachable_pub, reason = "one test program")]

use allot_core::numpool::cells::State;
use allot_core::numpool::request::Policy;
use allot_core::numpool::{Number, Settings};
use allot_core::shared::refusal::Code;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub token: Vec<u8>,
    pub switch: Option<Vec<u8>>,
    pub peer: Option<Vec<u8>>,
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
}

#[derive(Clone, Debug, Default)]
pub struct Naive {
    pub entries: Vec<Entry>,
    pub queue: Vec<Number>,
    pub settings: Settings,
}

pub struct Wish<'a> {
    pub number: Option<Number>,
    pub ttl: Option<i64>,
    pub token: &'a [u8],
    pub switch: Option<&'a [u8]>,
    pub peer: Option<&'a [u8]>,
    pub prefix: Option<Number>,
    pub pick: Option<Policy>,
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
        loop {
            let dues = self.entries.iter().flat_map(|entry| {
                let until = entry.lease.as_ref().and_then(|lease| lease.until);
                [(until, 0), (entry.cool_until, 1), (entry.reg_until, 2)]
                    .into_iter()
                    .filter_map(move |(due, what)| Some((due?, what, entry.number)))
            });
            let Some((at, what, number)) = dues.min().filter(|&(at, ..)| at <= now) else { return };
            match what {
                0 => {
                    let cooldown = self.settings.cooldown;
                    self.end(number, at, (cooldown > 0).then_some(at + cooldown));
                }
                1 => {
                    self.entry(number).unwrap().cool_until = None;
                    self.settle(number);
                }
                _ => {
                    let entry = self.entry(number).unwrap();
                    (entry.up, entry.reg_until, entry.reg_switch) = (false, None, None);
                    self.settle(number);
                }
            }
        }
    }

    /// Puts a number into the queue, or takes it out, as its state demands.
    fn settle(&mut self, number: Number) {
        let waits = self
            .get(number)
            .is_some_and(|entry| entry.up && entry.lease.is_none() && entry.cool_until.is_none());
        let there = self.queue.contains(&number);
        if waits && !there {
            self.queue.push(number);
        } else if !waits {
            self.queue.retain(|other| *other != number);
        }
    }

    fn end(&mut self, number: Number, at: i64, cool_until: Option<i64>) {
        let entry = self.entry(number).unwrap();
        if entry.draining {
            self.entries.retain(|entry| entry.number != number);
        } else {
            entry.lease = None;
            entry.since = at;
            entry.cool_until = cool_until;
        }
        self.settle(number);
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
                self.entries.retain(|entry| entry.number != number);
                self.settle(number);
            }
        }
        count
    }

    fn all_there(&self, numbers: &[Number]) -> Result<(), Code> {
        if numbers.iter().all(|&number| self.get(number).is_some()) { Ok(()) } else { Err(Code::NotFound) }
    }

    pub fn reg(
        &mut self,
        numbers: &[Number],
        ttl: Option<i64>,
        switch: Option<&[u8]>,
        now: i64,
    ) -> Result<i64, Code> {
        self.all_there(numbers)?;
        let regttl = self.settings.regttl;
        let mut count = 0;
        for &number in numbers {
            let entry = self.entry(number).unwrap();
            count += i64::from(!entry.up);
            entry.up = true;
            entry.reg_until = ttl.or((regttl > 0).then_some(regttl)).map(|ttl| now + ttl);
            entry.reg_switch = switch.map(<[u8]>::to_vec);
            self.settle(number);
        }
        Ok(count)
    }

    pub fn unreg(&mut self, numbers: &[Number]) -> Result<i64, Code> {
        self.all_there(numbers)?;
        let mut count = 0;
        for &number in numbers {
            let entry = self.entry(number).unwrap();
            count += i64::from(entry.up);
            (entry.up, entry.reg_until, entry.reg_switch) = (false, None, None);
            self.settle(number);
        }
        Ok(count)
    }

    pub fn unreg_switch(&mut self, switch: &[u8]) -> i64 {
        let registered = self.entries.iter().filter(|entry| entry.reg_switch.as_deref() == Some(switch));
        let numbers: Vec<Number> = registered.map(|entry| entry.number).collect();
        self.unreg(&numbers).unwrap()
    }

    pub fn by_token(&self, token: &[u8]) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.lease.as_ref().is_some_and(|lease| lease.token == token))
    }

    /// Which numbers a wish may get: one, unless it is to be drawn.
    pub fn candidates(&self, wish: &Wish<'_>) -> Result<Vec<Number>, Code> {
        if let Some(number) = wish.number {
            if wish.prefix.is_some() || wish.pick.is_some() {
                return Err(Code::Err);
            }
            return match self.state(number) {
                State::NoData => Err(Code::NotFound),
                State::IdleUp if self.queue.contains(&number) => Ok(vec![number]),
                _ => Err(Code::BadState),
            };
        }
        let text = |number: Number| number.to_string();
        let fits =
            |number: &Number| wish.prefix.is_none_or(|prefix| text(*number).starts_with(&text(prefix)));
        let free: Vec<Number> = self.queue.iter().copied().filter(fits).collect();
        let uses = |number: &Number| self.get(*number).unwrap().uses;
        let mut first = free.first().copied();
        match wish.pick.unwrap_or(self.settings.pick) {
            Policy::Longest => {}
            Policy::Random => return Ok(free),
            Policy::LeastUsed => first = free.iter().copied().min_by_key(uses),
            Policy::Sticky => {
                let peer = |number: &Number| self.get(*number).unwrap().peer.clone();
                let of_peer = free
                    .iter()
                    .copied()
                    .find(|number| wish.peer.is_some() && peer(number).as_deref() == wish.peer);
                first = of_peer.or(first);
            }
        }
        Ok(first.into_iter().collect())
    }

    pub fn grant(&mut self, number: Number, wish: &Wish<'_>, now: i64) {
        let usual = self.settings.lease;
        let entry = self.entry(number).unwrap();
        entry.uses += 1;
        if wish.peer.is_some() {
            entry.peer = wish.peer.map(<[u8]>::to_vec);
        }
        entry.lease = Some(Lease {
            token: wish.token.to_vec(),
            switch: wish.switch.map(<[u8]>::to_vec).or(entry.reg_switch.clone()),
            peer: wish.peer.map(<[u8]>::to_vec),
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
        switch: &[u8],
        before: Option<i64>,
        carried: &[&[u8]],
        now: i64,
    ) -> (u64, u64, Vec<Vec<u8>>) {
        let mine: Vec<(i64, Number, Vec<u8>)> = self
            .entries
            .iter()
            .filter_map(|entry| {
                let lease = entry.lease.as_ref()?;
                (lease.switch.as_deref() == Some(switch))
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
