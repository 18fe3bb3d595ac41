//! Random requests for the same seats in several shows, against naive shows: all of them carry out a request, or none.

use super::naive::{Naive, Outcome, State, Wish, bytes};
use super::rig::{BLOCKS, Random, Rig, random_plan};
use super::steps;
use allot_core::seat::claims::Seats;
use allot_core::seat::decide::several::{At, Several, decide_in_all};
use allot_core::seat::find::find_in_all;
use allot_core::seat::outcome::Decision;
use allot_core::seat::plan::Plan;
use allot_core::seat::request::{AddBest, Hold, Pick, Replace, Request};
use allot_core::seat::state::Owner;
use allot_core::seat::{Reply, Show};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use proptest::prelude::*;

/// The place of the show that refuses, and why.
type Refused = (usize, Code);

/// The shows of a request, the first of which chooses the best seats; and those beside.
struct Shows<'a> {
    rigs: &'a mut [Rig],
    beside: &'a [Rig],
}

impl Shows<'_> {
    fn with<T>(&self, ask: impl FnOnce(&Several<'_>) -> T) -> T {
        let at: Vec<At<'_>> = self.rigs.iter().map(|rig| At { show: &rig.show, now: rig.now }).collect();
        let beside: Vec<&Show> = self.beside.iter().map(|rig| &rig.show).collect();
        ask(&Several { first: at[0], also: &at[1..], beside: &beside })
    }

    fn decide(&self, request: &Request<'_>) -> Result<Vec<Decision>, Refused> {
        let decided = self.with(|shows| decide_in_all(shows, request));
        decided.map_err(|(place, refusal)| (place, refusal.code))
    }

    /// Carries out what was decided; so the shows must be then.
    fn apply(&mut self, naives: Vec<Naive>, decisions: &[Decision]) {
        assert_eq!(decisions.len(), self.rigs.len());
        for ((rig, naive), decision) in self.rigs.iter_mut().zip(naives).zip(decisions) {
            rig.naive = naive;
            for event in &decision.events {
                rig.apply(event);
            }
            rig.serve();
        }
    }

    /// A request that each show decides for itself. Its replies are these numbers, if it has any. Returns whether it
    /// was carried out.
    fn ask(
        &mut self,
        request: &Request<'_>,
        expect: impl Fn(&mut Naive, i64) -> Result<Option<i64>, Code>,
    ) -> bool {
        let mut naives: Vec<Naive> = self.rigs.iter().map(|rig| rig.naive.clone()).collect();
        let now = self.rigs[0].now;
        let expected = naives.iter_mut().enumerate();
        let expected = expected.map(|(place, naive)| expect(naive, now).map_err(|code| (place, code)));
        let expected = expected.collect::<Result<Vec<_>, Refused>>();
        match (self.decide(request), expected) {
            (Ok(decisions), Ok(counts)) => {
                for (decision, count) in decisions.iter().zip(counts) {
                    assert!(count.is_none_or(|count| decision.reply == Reply::Integer(count)), "{request:?}");
                }
                self.apply(naives, &decisions);
                true
            }
            (Err(got), Err(expected)) => {
                assert_eq!(got, expected, "{request:?}");
                false
            }
            (got, expected) => panic!("{request:?}: {got:?}, and not {expected:?}"),
        }
    }

    /// A request that was carried out is sent again.
    fn retry(&self, request: &Request<'_>) {
        let again = self.decide(request).unwrap();
        assert!(again.iter().all(|decision| decision.events.is_empty()), "{request:?}: {again:?}");
    }

    /// The first show as a search for all shows sees it. The seats of a cart stay in it.
    fn combined(&self, wish: &Wish, replace: Option<&[u8]>, cart: Option<&[u8]>) -> Naive {
        let mut naives: Vec<Naive> = self.rigs.iter().map(|rig| rig.naive.clone()).collect();
        let mut all = naives[0].clone();
        let held_by = |token: Option<&[u8]>| token.map(|token| State::Held(token.to_vec()));
        for id in all.ids() {
            let (mut is_free, mut is_lifted) = (true, false);
            for naive in &mut naives {
                let block = naive.block_called(wish.from.as_deref());
                let seat = naive.by_id(&id);
                let lifted = Some(&seat.state) == held_by(replace).as_ref() && seat.block == block;
                is_free &= lifted || seat.is_available(block);
                is_lifted |= lifted;
            }
            let seat = all.by_id(&id);
            if Some(&seat.state) == held_by(cart).as_ref() {
                continue;
            }
            if !is_free {
                (seat.state, seat.block) = (State::Blocked, None);
            } else if let (true, Some(held)) = (is_lifted, held_by(replace)) {
                seat.state = held;
            }
        }
        for id in all.ids() {
            let is_taken = |rig: &&Rig| {
                let seat = rig.show.venue().find(id.as_bytes());
                seat.is_some_and(|seat| rig.show.owner(seat) != Owner::Free)
            };
            let taken = self.beside.iter().filter(is_taken).count();
            all.beside.insert(id, taken);
        }
        all
    }

    fn hold(&mut self, random: &mut Random, token: &str) {
        let user = random.pick(&["ann", "bob", "cid"]);
        let wish = steps::random_wish(&self.rigs[0], random);
        let tokens: Vec<Vec<u8>> = self.rigs[0].naive.claims.keys().cloned().collect();
        let replaces = !tokens.is_empty() && random.chance(40);
        let replace = replaces.then(|| (random.pick(&tokens), random.chance(50)));
        let exchange = steps::seats_to_exchange(&mut self.rigs[0].naive, random, user);
        let hold = Hold {
            user: user.as_bytes(),
            ttl: random.pick(&[50, 400]),
            replace: replace.as_ref().map(|(token, other)| Replace { token, other: *other }),
            exchange: bytes(&exchange),
            token: TokenChoice { token: token.as_bytes(), chosen: true },
            wish: wish.named(),
        };
        if random.chance(50) {
            self.rigs[0].show.prepare(&hold.wish);
        }
        let mut naives: Vec<Naive> = self.rigs.iter().map(|rig| rig.naive.clone()).collect();
        let expected = self.expect_hold(&mut naives, &hold, &wish);
        let request = Request::Hold(hold);
        self.check_seats(&request, naives, expected);
    }

    /// The seats of a hold in all shows; or the refusal of one of them.
    fn expect_hold(&self, naives: &mut [Naive], hold: &Hold<'_>, wish: &Wish) -> Result<Outcome, Refused> {
        let now = self.rigs[0].now;
        for (place, naive) in naives.iter().enumerate().skip(1) {
            naive.check_terms(now, hold).map_err(|code| (place, code))?;
        }
        let replace = hold.replace.map(|replace| (replace.token, replace.other));
        let mut all = self.combined(wish, replace.map(|(token, _)| token), None);
        let first = |code| (0, code);
        steps::check_wish(wish).map_err(first)?;
        naives[0].check_terms(now, hold).map_err(first)?;
        steps::check_names(&naives[0], wish).map_err(first)?;
        let (token, until) = (hold.token.token, now + hold.ttl);
        let outcome = all.grant(wish, hold.user, token, now, until, replace);
        let Outcome::Seats(ids) = &outcome else {
            return if outcome == Outcome::TooFew { Ok(outcome) } else { Err((0, Code::NoAdjacent)) };
        };
        (naives[0].turns, naives[0].turn) = (all.turns, all.turn);
        for naive in naives {
            let born = replace.map_or(now, |(old, _)| naive.claims[old].created);
            if let Some((old, _)) = replace {
                naive.free_claim(old);
            }
            naive.take(ids, hold.user, token, born, until);
            naive.claims.get_mut(token).unwrap().exchange = !hold.exchange.is_empty();
        }
        Ok(outcome)
    }

    /// A request for the best seats.
    fn check_seats(&mut self, request: &Request<'_>, naives: Vec<Naive>, expected: Result<Outcome, Refused>) {
        match (self.decide(request), expected) {
            (Ok(decisions), Ok(Outcome::Seats(_))) => {
                let is_hold = |decision: &Decision| matches!(decision.reply, Reply::Hold(_));
                assert!(decisions.iter().all(is_hold), "{request:?}: {decisions:?}");
                self.apply(naives, &decisions);
                if matches!(request, Request::Hold(_) | Request::AddBest(AddBest { once: Some(_), .. })) {
                    self.retry(request);
                }
            }
            (Ok(decisions), Ok(_)) => {
                let [Decision { events, reply: Reply::None }] = &decisions[..] else {
                    panic!("{request:?}: {decisions:?}");
                };
                assert!(events.is_empty(), "{request:?}: {events:?}");
            }
            (Err(got), Err(expected)) => assert_eq!(got, expected, "{request:?}"),
            (got, expected) => panic!("{request:?}: {got:?}, and not {expected:?}"),
        }
    }

    /// The best seats join a hold in all shows; where it does not exist, it is made.
    fn add_best(&mut self, random: &mut Random, token: &[u8], step: usize) {
        let user = steps::user_of_cart(&self.rigs[0].naive, random, token);
        let wish = Wish { from: None, ..steps::random_wish(&self.rigs[0], random) };
        let choice = TokenChoice { token, chosen: true };
        let (replace, exchange, wanted) = (None, vec![], wish.named());
        let hold = Hold { user: &user, ttl: 100, replace, exchange, token: choice, wish: wanted };
        let mut naives: Vec<Naive> = self.rigs.iter().map(|rig| rig.naive.clone()).collect();
        let expected = self.expect_added(&mut naives, &hold, &wish);
        let once = random.chance(50).then(|| format!("once{step}"));
        let request = Request::AddBest(AddBest { hold, once: once.as_ref().map(String::as_bytes) });
        self.check_seats(&request, naives, expected);
    }

    fn expect_added(&self, naives: &mut [Naive], hold: &Hold<'_>, wish: &Wish) -> Result<Outcome, Refused> {
        let (now, first, token) = (self.rigs[0].now, |code| (0, code), hold.token.token);
        let mut all = self.combined(wish, None, Some(token));
        let outcome = if naives[0].has_cart(hold.user, token).map_err(first)? {
            steps::expect_added(&mut naives[0], &all, hold, wish).map_err(first)?
        } else {
            naives[0].check_token(token).map_err(first)?;
            steps::check_wish(wish).map_err(first)?;
            naives[0].check_terms(now, hold).map_err(first)?;
            steps::check_names(&naives[0], wish).map_err(first)?;
            let outcome = all.grant(wish, hold.user, token, now, now + hold.ttl, None);
            match &outcome {
                Outcome::NotAdjacent => return Err((0, Code::NoAdjacent)),
                Outcome::TooFew => {}
                Outcome::Seats(ids) => {
                    naives[0].take(ids, hold.user, token, now, now + hold.ttl);
                    (naives[0].turns, naives[0].turn) = (all.turns, all.turn);
                }
            }
            outcome
        };
        if outcome == Outcome::TooFew {
            return Ok(outcome);
        }
        let seats = naives[0].seats_of(token);
        let Hold { user, ttl, token, .. } = *hold;
        let pick =
            Pick { user, ttl, token, orphans: None, from: None, seats: bytes(&seats), exchange: vec![] };
        for (place, naive) in naives.iter_mut().enumerate().skip(1) {
            naive.add_picked(now, &pick).map_err(|code| (place, code))?;
        }
        Ok(outcome)
    }

    fn find(&self, random: &mut Random) {
        let wish = steps::random_wish(&self.rigs[0], random);
        let best = 1 + random.below(4);
        let wanted = wish.named();
        let named = |rig: &Rig| rig.naive.block_named(wanted.from).is_ok();
        let expected = if let Some(place) = self.rigs.iter().skip(1).position(|rig| !named(rig)) {
            Err((place + 1, Code::NotFound))
        } else {
            let all = self.combined(&wish, None, None);
            steps::offers(&self.rigs[0].naive, &all, &wish, best).map_err(|code| (0, code))
        };
        let found = self.with(|shows| find_in_all(shows, &wanted, best));
        let venue = self.rigs[0].show.venue();
        let ids = |seats: &Seats| seats.iter().map(|&seat| venue.id(seat)).collect::<Vec<_>>();
        let found = found.map(|offers| offers.iter().map(ids).collect::<Vec<_>>());
        assert_eq!(found.map_err(|(place, refusal)| (place, refusal.code)), expected, "{wanted:?}");
    }

    /// A pick, or a click into a cart.
    fn pick(&mut self, random: &mut Random, token: &[u8], adds: bool) {
        let naive = &mut self.rigs[0].naive;
        let user = if adds { steps::user_of_cart(naive, random, token) } else { b"dee".to_vec() };
        let exchange = if adds { vec![] } else { steps::seats_to_exchange(naive, random, "dee") };
        let ids = steps::some_ids(random, &naive.ids());
        let pick = Pick {
            user: &user,
            ttl: 100,
            token: TokenChoice { token, chosen: true },
            orphans: steps::random_orphans(random),
            from: random.chance(20).then(|| random.pick(&BLOCKS).as_bytes()),
            seats: bytes(&ids),
            exchange: bytes(&exchange),
        };
        let request = if adds { Request::AddPicked(pick.clone()) } else { Request::Pick(pick.clone()) };
        let is_done = self.ask(&request, |naive, now| {
            if adds { naive.add_picked(now, &pick) } else { naive.pick(now, &pick) }.map(|()| None)
        });
        if is_done {
            self.retry(&request);
        }
    }

    /// A request that names a hold, or sold seats.
    fn write(&mut self, random: &mut Random, token: &[u8]) {
        let ids = self.rigs[0].naive.ids();
        let order = random.pick(&[None, Some(&b"order1"[..])]);
        let into = random.chance(25).then(|| random.pick(&BLOCKS));
        match random.below(6) {
            0 => {
                let request = Request::Extend { token, ttl: 200 };
                self.ask(&request, |naive, now| naive.extend(now, token, 200).map(Some));
            }
            1 | 2 => {
                let request = Request::Confirm { token, user: None, order };
                if self.ask(&request, |naive, _| naive.confirm(token, order).map(Some)) {
                    self.retry(&request);
                }
            }
            3 => {
                let seats = steps::some_of_hold(&self.rigs[0].naive, random, token);
                let names = seats.as_deref().map(bytes);
                let request = Request::Release { token, seats: names, into: into.map(str::as_bytes) };
                self.ask(&request, |naive, _| naive.release(token, seats.as_deref(), into).map(Some));
            }
            4 => {
                let (order, seats) = steps::seats_to_refund(&mut self.rigs[0].naive, random, &ids);
                let names = seats.as_deref().map(bytes);
                let request = Request::Refund { order, seats: names, into: into.map(str::as_bytes) };
                self.ask(&request, |naive, _| naive.refund(order, seats.as_deref(), into).map(Some));
            }
            _ => {
                let given = steps::seats_of_order(&self.rigs[0].naive, random, &ids);
                let (order, seats) = (&b"order1"[..], bytes(&given));
                let request = Request::Exchange { token, user: None, order: Some(order), from: order, seats };
                if self.ask(&request, |naive, _| naive.exchange(token, order, order, &given).map(Some)) {
                    self.retry(&request);
                }
            }
        }
    }
}

/// A step of one show alone.
fn alone(rig: &mut Rig, random: &mut Random, token: &str) {
    let ids = rig.naive.ids();
    let tokens: Vec<Vec<u8>> = rig.naive.claims.keys().cloned().collect();
    let any = if tokens.is_empty() { b"nobody".to_vec() } else { random.pick(&tokens) };
    match random.below(10) {
        0 => steps::pick(rig, random, token, &ids),
        1 => steps::block(rig, random, &ids),
        2 => steps::end_block(rig, random),
        3 => steps::release(rig, random, &any),
        4 => steps::move_sales(rig, random, &ids),
        5 | 6 => steps::wait(rig, random, token),
        7 => steps::unwait(rig, random),
        8 => steps::block_hold(rig, random, &any),
        _ => steps::hold(rig, random, token, &[]),
    }
}

/// Blocks or unblocks the same few seats in each show, where they are free or blocked.
fn block_in_each(rigs: &mut [Rig], random: &mut Random) {
    let (seed, mut ids) = (random.below(usize::MAX) as u64, rigs[0].naive.ids());
    ids.truncate(12);
    rigs.iter_mut().for_each(|rig| steps::block(rig, &mut Random::new(seed), &ids));
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let plan = random_plan(&mut random);
    let mut other = plan.clone();
    other.areas.reverse();
    let count = random.pick(&[2, 2, 3, 3, 5, 8, 30]);
    let rig = |plan: &Plan| {
        let show = Show::new(plan, 0).unwrap();
        let (replica, overdue, naive) = (show.clone(), show.clone(), Naive::new(plan));
        Rig { replica, overdue, show, naive, plan: plan.clone(), now: 1000, slice: usize::MAX }
    };
    let mut rigs: Vec<Rig> =
        (0..count).map(|_| rig(if random.chance(25) { &other } else { &plan })).collect();
    for step in 0..(160 / count).max(10) {
        let by = random.pick(&[0, 1, 40]);
        rigs.iter_mut().for_each(|rig| rig.advance(by));
        let token = format!("t{step}");
        if random.chance(10) {
            block_in_each(&mut rigs, &mut random);
        } else if random.chance(35) {
            alone(&mut rigs[random.below(count)], &mut random, &token);
        } else {
            rigs.rotate_left(random.below(count));
            let (asked, others) = rigs.split_at_mut(2 + random.below(count - 1));
            let beside = if random.chance(40) { &others[..] } else { &[] };
            let tokens: Vec<Vec<u8>> = asked[0].naive.claims.keys().cloned().collect();
            let any = if tokens.is_empty() { b"nobody".to_vec() } else { random.pick(&tokens) };
            let mut shows = Shows { rigs: asked, beside };
            match random.below(14) {
                0..=3 => shows.hold(&mut random, &token),
                4 => shows.pick(&mut random, token.as_bytes(), false),
                5 => shows.pick(&mut random, token.as_bytes(), true),
                6 => shows.pick(&mut random, &any, true),
                7 => shows.add_best(&mut random, &any, step),
                8 => shows.add_best(&mut random, token.as_bytes(), step),
                9 => shows.find(&mut random),
                _ => shows.write(&mut random, &any),
            }
        }
        rigs.iter().for_each(Rig::check);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shows_equal_the_naive_models(seed in any::<u64>()) {
        run(seed);
    }
}
