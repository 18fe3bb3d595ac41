//! Random requests, put to the pool and to the naive one.

use super::*;

fn list_of(caps: &[(i64, usize)]) -> Vec<Cap> {
    caps.iter().map(|&(window, count)| Cap { window, count: count as u32 }).collect()
}

impl Bench {
    pub(super) fn some_numbers(&mut self) -> Vec<Number> {
        let many = if self.random.chance(15) { 4 } else { 1 };
        (0..many).map(|_| self.random.pick(&self.numbers)).collect()
    }

    /// A cause gets another rule, or none.
    pub(super) fn rule(&mut self) {
        let word = self.random.pick(&CAUSES);
        let rule = self.random.pick(&[None, Some((60, 1, 0)), Some((40, 2, 100)), Some((200, 3, 300))]);
        self.naive.set_rule(word, rule);
        let (cooldown, after, within) = rule.unwrap_or((0, 1, 0));
        let request =
            Request::Cause { word: word.as_bytes(), rule: Rule { cooldown, after: after as u32, within } };
        assert_eq!(self.ask(&request), Ok(Reply::Ok));
    }

    /// A number gets other caps of its own, or none.
    pub(super) fn own_caps(&mut self) {
        let (number, caps) = (self.random.pick(&self.numbers), self.random.pick(&CAPS));
        let is_there = self.naive.set_own_caps(number, caps);
        let got = self.ask(&Request::Caps { number, caps: &list_of(caps) });
        assert_eq!(got, if is_there { Ok(Reply::Ok) } else { Err(Code::NotFound) });
    }

    pub(super) fn some_token(&mut self) -> Vec<u8> {
        if self.tokens.is_empty() || self.random.chance(10) {
            return b"nobody's".to_vec();
        }
        // Mostly a late one, which is live as often as not.
        let recent = self.tokens.len().saturating_sub(6);
        let at = recent + self.random.below(self.tokens.len() - recent);
        self.tokens[at].clone()
    }

    pub(super) fn call(&mut self) {
        let chosen = self.random.chance(50);
        let token = if chosen && self.random.chance(20) {
            self.some_token()
        } else {
            self.next_token += 1;
            format!("t{}", self.next_token).into_bytes()
        };
        let prefix = self.random.pick(&["1", "13", "138", "+", "+49", "0", "7", "00000000000000000000000"]);
        let prefix = Number::parse(prefix.as_bytes()).unwrap();
        let other = self.random.pick(&self.numbers);
        let lists = [&[][..], &[prefix], &[prefix, other], &[other, prefix, prefix]];
        let prefixes = lists[if self.random.chance(20) { 1 + self.random.below(3) } else { 0 }];
        let switch = if self.random.chance(50) { Some(self.random.pick(&SWITCHES)) } else { None };
        let peer = if self.random.chance(60) { Some(self.random.pick(&PEERS)) } else { None };
        let wish = Wish {
            number: self.random.chance(15).then(|| self.numbers[0]),
            ttl: self.random.pick(&[None, None, Some(10), Some(70)]),
            token: &token,
            switch,
            peer,
            prefixes,
            pick: if self.random.chance(40) { Some(self.random.pick(&Policy::ALL)) } else { None },
            holder: self.random.chance(10).then_some(b"realm"),
        };
        let random = self.random.next();
        if wish.number.is_none() {
            self.pool.sort_at_once(wish.pick, !prefixes.is_empty());
        }
        let call = Call {
            number: wish.number,
            ttl: wish.ttl,
            endless: false,
            holder: wish.holder,
            lease: TokenChoice { token: &token, chosen },
            switch: wish.switch,
            peer: wish.peer,
            prefixes,
            pick: wish.pick,
            random,
        };
        let malformed = wish.number.is_some() && (!prefixes.is_empty() || wish.pick.is_some());
        let live = self
            .naive
            .by_token(&token)
            .filter(|_| !malformed)
            .map(|entry| (entry.number, entry.lease.as_ref().and_then(|lease| lease.until)));
        let waits = self.random.chance(30) && live.is_none() && wish.holder.is_none();
        if waits && is_worth_waiting(&decide(&self.pool, self.now, &Request::Call(call))) {
            let priority = self.random.pick(&[0, 0, 0, 2, -1]);
            self.next_waiter += 1;
            let id = self.next_waiter;
            let replaced = self.pool.wait(id, &call, priority);
            let before = self.naive.waiting.iter().position(|waiter| waiter.token == token);
            let before = before.map(|at| self.naive.waiting.remove(at));
            let gone = self.gone.iter().find(|waiter| Some(waiter.id) == replaced);
            let before = before.or(gone.cloned());
            assert_eq!(replaced, before.as_ref().map(|waiter| waiter.id));
            let place = before.filter(|waiter| waiter.rank.0 == priority).map_or(id, |waiter| waiter.rank.1);
            let Wish { number, ttl, pick, .. } = wish;
            let rank = (priority, place);
            self.naive.waiting.push(Waiting {
                id,
                rank,
                number,
                ttl,
                token: token.clone(),
                switch,
                peer,
                prefixes: prefixes.to_vec(),
                pick,
            });
            return;
        }
        let got = self.ask(&Request::Call(call));
        if let Some((number, until)) = live {
            let expected = if wish.number.is_some_and(|wanted| wanted != number) || !chosen {
                Err(Code::Exists)
            } else {
                Ok((number, until))
            };
            assert_eq!(got.map(lease), expected);
            return;
        }
        match self.naive.candidates(&wish) {
            Err(code) => assert_eq!(got, Err(code)),
            Ok(candidates) if candidates.is_empty() => assert_eq!(got, Ok(Reply::None)),
            Ok(candidates) => {
                let (number, until) = lease(got.unwrap());
                assert!(candidates.contains(&number), "{number} is none of {candidates:?}: {call:?}");
                self.naive.grant(number, &wish, self.now);
                assert_eq!(until, self.naive.get(number).unwrap().lease.as_ref().unwrap().until);
                self.tokens.push(token);
            }
        }
    }

    pub(super) fn hang_up(&mut self) {
        // Mostly on a number that carries a call, and mostly with that call's token.
        let busy: Vec<Number> = self
            .naive
            .entries
            .iter()
            .filter(|entry| entry.lease.is_some())
            .map(|entry| entry.number)
            .collect();
        let number = if busy.is_empty() || self.random.chance(20) {
            self.random.pick(&self.numbers)
        } else {
            self.random.pick(&busy)
        };
        let own = self.naive.get(number).and_then(|entry| Some(entry.lease.as_ref()?.token.clone()));
        let token = match self.random.below(3) {
            0 => None,
            1 => own,
            _ => Some(self.some_token()),
        };
        if let Some(lease) = token.as_deref().filter(|_| self.random.chance(10)) {
            let expected = self.naive.take_back(number, lease, self.now);
            return self.count(&Request::TakeBack { number, lease }, Ok(expected));
        }
        let cooldown = self.random.pick(&[None, None, Some(0), Some(25)]);
        let cause = self.random.chance(40).then(|| self.random.pick(&CAUSES));
        let expected = self.naive.hangup(number, token.as_deref(), cooldown, cause, self.now);
        let (lease, cause) = (token.as_deref(), cause.map(str::as_bytes));
        self.count(&Request::HangUp { number, lease, cooldown, cause }, expected);
    }

    pub(super) fn reconcile(&mut self) {
        let switch = self.random.chance(70).then(|| self.random.pick(&SWITCHES));
        let tokens: Vec<Vec<u8>> = (0..self.random.below(4)).map(|_| self.some_token()).collect();
        let tokens: Vec<&[u8]> = tokens.iter().map(|token| &token[..]).collect();
        let before =
            if self.random.chance(50) { Some(self.now - self.random.pick(&[-1, 0, 10])) } else { None };
        let (kept, freed, unknown) = self.naive.reconcile(switch, before, &tokens, self.now);
        let Ok(Reply::Reconciled(got)) =
            self.ask(&Request::OfSwitch(OfSwitch::Reconcile { switch, before, leases: &tokens }))
        else {
            panic!("RECONCILE was refused");
        };
        assert_eq!((got.kept, got.freed), (kept, freed));
        assert!(got.unknown.iter().map(|token| &token[..]).eq(unknown.iter().map(|token| &token[..])));
    }

    pub(super) fn configure(&mut self) {
        let mut span = || if self.random.chance(40) { Some(self.random.pick(&SPANS)) } else { None };
        let mut changes = Changes { lease: span(), cooldown: span(), regttl: span(), ..Changes::default() };
        if self.random.chance(50) {
            let (caps, days) = (self.random.pick(&CAPS), self.random.pick(&DAYS));
            (changes.caps, changes.days) = (Some(list_of(caps)), Some(days));
            self.naive.set_caps(caps, days);
        }
        if self.random.chance(20) {
            let rate = self.random.pick(&RATES);
            let (window, count) = rate.unwrap_or((0, 0));
            changes.rate = Some(Cap { window, count: count as u32 });
            self.naive.set_rate(rate);
        }
        if self.random.chance(20) {
            changes.peers = Some(self.random.pick(&[0, 1, 2, 10]));
            changes.peerttl = Some(self.random.pick(&SPANS));
            let settings = &mut self.naive.settings;
            (settings.peers, settings.peerttl) = (changes.peers.unwrap() as u32, changes.peerttl.unwrap());
            if settings.peers == 0 {
                self.naive.peers.clear();
            }
        }
        let settings = &mut self.naive.settings;
        settings.lease = changes.lease.unwrap_or(settings.lease);
        settings.cooldown = changes.cooldown.unwrap_or(settings.cooldown);
        settings.regttl = changes.regttl.unwrap_or(settings.regttl);
        assert_eq!(self.ask(&Request::Configure(changes)), Ok(Reply::Ok));
    }
}
