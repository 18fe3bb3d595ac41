//! Random requests, each asked of the show under test and of the naive one.

use super::naive::{Naive, Outcome, Seat, State, Waiter, Wish, bytes};
use super::rig::{BLOCKS, FLAGS, Random, Rig, TIERS};
use allot_core::seat::Reply;
use allot_core::seat::claims::Seats;
use allot_core::seat::plan::PickOrphans;
use allot_core::seat::request::{
    AddBest, Adjacent, Hold, Move, Orphans, Pick, Replace, Request, Transfer, Wait,
};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;

pub(super) fn random_wish(rig: &Rig, random: &mut Random) -> Wish {
    let areas: Vec<String> = rig.naive.areas.iter().map(|area| area.id.clone()).collect();
    let mut count = random.pick(&[1, 1, 2, 2, 3, 4, 6]);
    // The index does not tell runs of 127 seats and more apart.
    if rig.naive.areas.iter().flat_map(|area| &area.rows).any(|row| row.len() > 100) && random.chance(25) {
        count = random.pick(&[40, 100, 124, 125, 126, 127, 128, 130]);
    }
    let flags: Vec<String> = FLAGS.iter().filter(|_| random.chance(25)).map(ToString::to_string).collect();
    let mut needs = Vec::new();
    let mut left = count;
    for flag in FLAGS {
        if left > 0 && random.chance(20) {
            let count = 1 + random.below(left.min(2));
            needs.push((count, flag.to_owned()));
            left -= count;
        }
    }
    Wish {
        count,
        tier: random.chance(60).then(|| random.pick(&TIERS).to_owned()),
        areas: if random.chance(20) { (0..2).map(|_| random.pick(&areas)).collect() } else { vec![] },
        adjacent: random.pick(&[
            Adjacent::Prefer,
            Adjacent::Prefer,
            Adjacent::Require,
            Adjacent::Area,
            Adjacent::Ignore,
        ]),
        orphans: random.pick(&[Orphans::Avoid, Orphans::Avoid, Orphans::Allow, Orphans::Forbid]),
        flags,
        needs,
        preferred: FLAGS.iter().filter(|_| random.chance(10)).map(ToString::to_string).collect(),
        from: random.chance(25).then(|| random.pick(&BLOCKS).to_owned()),
    }
}

/// A user waits; most shows are nearly sold out, so that waits are long. The token may be that of a wait that has ended.
pub(super) fn wait(rig: &mut Rig, random: &mut Random, token: &str) {
    let is_in_use = |token: &Vec<u8>| {
        let claim = rig.naive.claims.get(token);
        rig.naive.waiters.iter().any(|waiter| waiter.token == *token)
            || claim.is_some_and(|claim| !claim.sold || rig.naive.ended[token] <= rig.now)
    };
    let ended: Vec<Vec<u8>> = rig.naive.ended.keys().filter(|token| !is_in_use(token)).cloned().collect();
    let again = (!ended.is_empty() && random.chance(20)).then(|| random.pick(&ended));
    let token = again.as_ref().map_or(token, |token| std::str::from_utf8(token).unwrap());
    let user = random.pick(&["ann", "bob", "eve", "fay", "gus"]);
    let mut wish = random_wish(rig, random);
    // Some wait for the same.
    let waiting = &rig.naive.waiters;
    if !waiting.is_empty() && random.chance(40) {
        wish = waiting[random.below(waiting.len())].wish.clone();
    }
    if wish.adjacent == Adjacent::Ignore {
        wish.adjacent = Adjacent::Require;
    }
    let (ttl, offer) = (random.pick(&[80, 600]), random.pick(&[30, 200, 501]));
    let priority = random.pick(&[0, 0, 0, 5, -5]);
    let asked = wish.clone();
    let request = Request::Wait(Wait {
        hold: Hold {
            user: user.as_bytes(),
            ttl,
            replace: None,
            exchange: vec![],
            token: TokenChoice { token: token.as_bytes(), chosen: true },
            wish: asked.named(),
        },
        offer,
        priority,
    });
    let (now, naive) = (rig.now, &mut rig.naive);
    let unknown = names_unknown(naive, &wish);
    let token = token.as_bytes().to_vec();
    let has_ended = naive.ended.get(&token).is_some_and(|&until| until > now);
    let waits = naive.waiters.iter().filter(|waiter| waiter.user == user.as_bytes()).count();
    let most = if naive.waits_per_user == 0 { 100 } else { naive.waits_per_user };
    let mut lasting = wish.clone();
    lasting.areas.sort();
    lasting.areas.dedup();
    // A flag that no seat has means nothing, also if seats get the flag later.
    let known: Vec<String> = naive.places().flat_map(|place| naive.seat(place).flags.clone()).collect();
    lasting.flags.extend(wish.preferred.clone());
    lasting.flags.retain(|flag| known.contains(flag));
    lasting.flags.sort();
    lasting.flags.dedup();
    lasting.preferred.retain(|flag| known.contains(flag));
    // Others wait for the same since before the plan changed: only the limits of the user count.
    let is_waited_for = naive.waiters.iter().any(|waiter| waiter.wish == lasting);
    let expected = if has_ended {
        Err(Code::Ended)
    } else if naive.max_hold > 0 && offer > naive.max_hold
        || naive.seats_per_user > 0 && wish.count > naive.seats_per_user
    {
        Err(Code::Limit)
    } else if unknown {
        Err(Code::NotFound)
    } else if naive.can_never_have(user.as_bytes(), &wish, is_waited_for) {
        Err(Code::Limit)
    } else if naive.allows(user.as_bytes(), &wish)
        && matches!(naive.grant(&wish, user.as_bytes(), &token, now, now + offer, None), Outcome::Seats(_))
    {
        naive.ended.insert(token, now + ttl);
        Ok(true)
    } else if waits >= most {
        Err(Code::Limit)
    } else {
        let (user, wish) = (user.as_bytes().to_vec(), lasting);
        naive.waiters.push(Waiter { token, user, wish, since: now, until: now + ttl, offer, priority });
        Ok(false)
    };
    let got = rig.ask(&request).map(|reply| match reply {
        Reply::Wait(record) => record.offered,
        reply => panic!("{reply:?}"),
    });
    assert_eq!(got, expected, "{request:?}");
    if got.is_ok() {
        assert!(matches!(rig.ask(&request), Ok(Reply::Wait(_))), "a retry gets its record");
    }
}

pub(super) fn unwait(rig: &mut Rig, random: &mut Random) {
    let waiting: Vec<Vec<u8>> = rig.naive.waiters.iter().map(|waiter| waiter.token.clone()).collect();
    if waiting.is_empty() {
        return;
    }
    let token = random.pick(&waiting);
    let place = rig.naive.waiters.iter().position(|waiter| waiter.token == token).unwrap();
    rig.naive.end_wait(place);
    assert_eq!(rig.ask(&Request::Unwait(&token)), Ok(Reply::Ok));
}

pub(super) fn hold(rig: &mut Rig, random: &mut Random, token: &str, tokens: &[Vec<u8>]) {
    let user = random.pick(&["ann", "bob", "cid"]);
    let wish = random_wish(rig, random);
    let replace = (!tokens.is_empty() && random.chance(35)).then(|| (random.pick(tokens), random.chance(50)));
    let exchange = seats_to_exchange(&mut rig.naive, random, user);
    let request = Hold {
        user: user.as_bytes(),
        ttl: random.pick(&[50, 400, 501]),
        replace: replace.as_ref().map(|(token, other)| Replace { token, other: *other }),
        exchange: bytes(&exchange),
        token: TokenChoice { token: token.as_bytes(), chosen: true },
        wish: wish.named(),
    };
    if random.chance(70) {
        rig.show.prepare(&request.wish);
    }
    let expected = expect_hold(&mut rig.naive, rig.now, &request, &wish);
    let until = rig.now + request.ttl;
    let request = Request::Hold(request);
    let got = rig.ask(&request);
    let seats = |seats: &[u32]| seats.iter().map(|&seat| rig.show.venue().id(seat)).collect::<Vec<_>>();
    let got = got.map(|reply| match reply {
        Reply::Hold(record) => Outcome::Seats(seats(&record.seats)),
        _ => Outcome::TooFew,
    });
    assert_eq!(got, expected, "{wish:?} {replace:?} {exchange:?}");
    if let Ok(Outcome::Seats(_)) = got {
        let again = rig.ask(&request).unwrap();
        assert!(matches!(again, Reply::Hold(record) if record.until == until), "a retry gets its hold");
    }
}

/// Seats that a user may give in exchange: mostly sold to this user.
pub(super) fn seats_to_exchange(naive: &mut Naive, random: &mut Random, user: &str) -> Vec<String> {
    if !random.chance(20) {
        return vec![];
    }
    let ids = naive.ids();
    let anybodys = random.chance(10);
    let is_sold = |id: &&String| match &naive.by_id(id).state.clone() {
        State::Sold(token, _) => anybodys || naive.claims[token].user == user.as_bytes(),
        _ => false,
    };
    let sold: Vec<String> = ids.iter().filter(is_sold).cloned().collect();
    let from = if anybodys && random.chance(50) { &ids } else { &sold };
    if from.is_empty() { vec![] } else { some_ids(random, from) }
}

/// Offers without a hold are what holds would get one after the other, each without the areas of those before.
pub(super) fn find(rig: &Rig, random: &mut Random) {
    let wish = random_wish(rig, random);
    let (best, naive) = (1 + random.below(4), &rig.naive);
    let wanted = wish.named();
    let found = rig.show.find(&wanted, best).map_err(|refusal| refusal.code);
    let ids = |seats: &Seats| seats.iter().map(|&seat| rig.show.venue().id(seat)).collect::<Vec<_>>();
    let found = found.map(|offers| offers.iter().map(ids).collect::<Vec<_>>());
    assert_eq!(found, offers(naive, naive, &wish, best), "{wanted:?}");
}

/// What is offered, if seats are chosen in a show like `all`.
pub(super) fn offers(naive: &Naive, all: &Naive, wish: &Wish, best: usize) -> Result<Vec<Vec<String>>, Code> {
    check_wish(wish)?;
    check_names(naive, wish)?;
    let mut wish = wish.clone();
    if wish.areas.is_empty() {
        wish.areas = naive.areas.iter().map(|area| area.id.clone()).collect();
    }
    let mut offers = Vec::new();
    while offers.len() < best
        && !wish.areas.is_empty()
        && let Outcome::Seats(ids) = all.search(&wish, None)
    {
        let of_offer = naive.places().filter(|&place| ids.contains(&naive.seat(place).id));
        let taken: Vec<&String> = of_offer.map(|place| &naive.areas[place.0].id).collect();
        wish.areas.retain(|area| !taken.contains(&area));
        offers.push(ids);
    }
    Ok(offers)
}

/// The seats of a hold, or its refusal.
pub(super) fn expect_hold(
    naive: &mut Naive,
    now: i64,
    hold: &Hold<'_>,
    wish: &Wish,
) -> Result<Outcome, Code> {
    check_wish(wish)?;
    naive.check_terms(now, hold)?;
    check_names(naive, wish)?;
    let (replace, token) = (hold.replace.map(|replace| (replace.token, replace.other)), hold.token.token);
    let outcome = naive.grant(wish, hold.user, token, now, now + hold.ttl, replace);
    if let Outcome::Seats(_) = outcome {
        naive.claims.get_mut(token).unwrap().exchange = !hold.exchange.is_empty();
    }
    if outcome == Outcome::NotAdjacent { Err(Code::NoAdjacent) } else { Ok(outcome) }
}

/// Refuses a wish that contradicts itself.
pub(super) fn check_wish(wish: &Wish) -> Result<(), Code> {
    let contradicts = wish.adjacent == Adjacent::Ignore && wish.orphans == Orphans::Forbid;
    if contradicts { Err(Code::Err) } else { Ok(()) }
}

pub(super) fn check_names(naive: &Naive, wish: &Wish) -> Result<(), Code> {
    if names_unknown(naive, wish) { Err(Code::NotFound) } else { Ok(()) }
}

/// Whether no seat has the tier, or a needed flag, of a wish, or there is no block of its name.
fn names_unknown(naive: &Naive, wish: &Wish) -> bool {
    let some = |test: &dyn Fn(&Seat) -> bool| naive.places().any(|place| test(naive.seat(place)));
    wish.tier.as_ref().is_some_and(|tier| !some(&|seat| seat.tier == *tier))
        || wish.from.as_ref().is_some_and(|name| !naive.blocks.iter().any(|block| block.name == *name))
        || wish.needs.iter().any(|(_, flag)| !some(&|seat| seat.flags.contains(flag)))
}

pub(super) fn some_ids(random: &mut Random, ids: &[String]) -> Vec<String> {
    let mut some: Vec<String> = (0..=random.below(3)).map(|_| random.pick(ids)).collect();
    some.sort();
    some.dedup();
    some
}

pub(super) fn pick(rig: &mut Rig, random: &mut Random, token: &str, ids: &[String]) {
    let (ids, exchange) = (some_ids(random, ids), seats_to_exchange(&mut rig.naive, random, "dee"));
    let pick = Pick {
        user: b"dee",
        ttl: 100,
        token: TokenChoice { token: token.as_bytes(), chosen: false },
        orphans: random_orphans(random),
        from: random.chance(30).then(|| random.pick(&BLOCKS).as_bytes()),
        seats: bytes(&ids),
        exchange: bytes(&exchange),
    };
    let expected = rig.naive.pick(rig.now, &pick);
    let request = Request::Pick(pick);
    assert_eq!(rig.ask(&request).map(|_| ()), expected, "{request:?}");
}

pub(super) fn random_orphans(random: &mut Random) -> Option<PickOrphans> {
    random.pick(&[None, Some(PickOrphans::Allow), Some(PickOrphans::Forbid), Some(PickOrphans::Avoid)])
}

/// A request that adds seats to a hold: mostly one of its user, and seats of the user's choice or the best.
pub(super) fn add(rig: &mut Rig, random: &mut Random, token: &[u8], ids: &[String], step: usize) {
    let user = user_of_cart(&rig.naive, random, token);
    let by_user = random.chance(40);
    let ids = some_ids(random, ids);
    let wish = Wish { from: None, ..random_wish(rig, random) };
    let choice = TokenChoice { token, chosen: true };
    let once = random.chance(50).then(|| format!("once{step}"));
    let (now, naive) = (rig.now, &mut rig.naive);
    let (request, expected) = if by_user {
        let (seats, exchange) = (bytes(&ids), vec![]);
        let pick = Pick { user: &user, ttl: 100, token: choice, orphans: None, from: None, seats, exchange };
        let expected = naive.add_picked(now, &pick).map(|()| Outcome::Seats(vec![]));
        (Request::AddPicked(pick), expected)
    } else {
        let (replace, exchange, wanted) = (None, vec![], wish.named());
        let hold = Hold { user: &user, ttl: 100, replace, exchange, token: choice, wish: wanted };
        let expected = match naive.has_cart(&user, token) {
            Ok(false) => expect_hold(naive, now, &hold, &wish),
            Ok(true) => {
                let all = naive.clone();
                expect_added(naive, &all, &hold, &wish)
            }
            Err(code) => Err(code),
        };
        let once = once.as_ref().map(String::as_bytes);
        (Request::AddBest(AddBest { hold, once }), expected)
    };
    let all = rig.naive.seats_of(token);
    let got = rig.ask(&request);
    let seats = |seats: &[u32]| seats.iter().map(|&seat| rig.show.venue().id(seat)).collect::<Vec<_>>();
    match (&got, &expected) {
        (Ok(Reply::Hold(record)), Ok(Outcome::Seats(_))) => {
            assert_eq!(seats(&record.seats), all, "{request:?}");
        }
        (Ok(Reply::None), Ok(Outcome::TooFew)) => {}
        (Err(got), Err(expected)) => assert_eq!(got, expected, "{request:?}"),
        _ => panic!("{got:?} {expected:?} {request:?}"),
    }
    if got.as_ref().is_ok_and(|reply| *reply != Reply::None) && (by_user || once.is_some()) {
        assert_eq!(rig.ask(&request), got, "a retry adds nothing");
    }
}

/// The user of a hold, mostly.
pub(super) fn user_of_cart(naive: &Naive, random: &mut Random, token: &[u8]) -> Vec<u8> {
    match naive.claims.get(token) {
        Some(claim) if random.chance(90) => claim.user.clone(),
        _ => b"hal".to_vec(),
    }
}

/// The best seats join a live hold, if they are chosen in a show like `all`.
pub(super) fn expect_added(
    naive: &mut Naive,
    all: &Naive,
    hold: &Hold<'_>,
    wish: &Wish,
) -> Result<Outcome, Code> {
    let token = hold.token.token;
    check_wish(wish)?;
    naive.check_cart(hold.user, token, wish.count)?;
    check_names(naive, wish)?;
    let outcome = all.search_beside(wish, token);
    if let Outcome::Seats(ids) = &outcome {
        naive.add(token, ids);
    }
    if outcome == Outcome::NotAdjacent { Err(Code::NoAdjacent) } else { Ok(outcome) }
}

pub(super) fn confirm(rig: &mut Rig, token: &[u8], order: Option<&[u8]>) {
    let expected = rig.naive.confirm(token, order);
    let got = rig.ask(&Request::Confirm { token, user: None, order });
    assert_eq!(got, expected.map(Reply::Integer));
}

/// Sells a hold in exchange for sold seats, which mostly are all of one order.
pub(super) fn exchange(rig: &mut Rig, random: &mut Random, token: &[u8], ids: &[String]) {
    let order = &b"order1"[..];
    let ids = seats_of_order(&rig.naive, random, ids);
    let expected = rig.naive.exchange(token, order, order, &ids);
    let request =
        Request::Exchange { token, user: None, order: Some(order), from: order, seats: bytes(&ids) };
    assert_eq!(rig.ask(&request), expected.map(Reply::Integer));
}

/// Some seats of an order, or sometimes any.
pub(super) fn seats_of_order(naive: &Naive, random: &mut Random, ids: &[String]) -> Vec<String> {
    let filed = naive.ids_of_order(b"order1");
    let from = if filed.is_empty() || random.chance(20) { ids } else { &filed };
    some_ids(random, from)
}

pub(super) fn release(rig: &mut Rig, random: &mut Random, token: &[u8]) {
    let seats = some_of_hold(&rig.naive, random, token);
    let into = random.chance(25).then(|| random.pick(&BLOCKS));
    let expected = rig.naive.release(token, seats.as_deref(), into).map(Reply::Integer);
    let (seats, into) = (seats.as_deref().map(bytes), into.map(str::as_bytes));
    assert_eq!(rig.ask(&Request::Release { token, seats, into }), expected);
}

/// Some seats of a hold; `None` for all.
pub(super) fn some_of_hold(naive: &Naive, random: &mut Random, token: &[u8]) -> Option<Vec<String>> {
    let mut seats = naive.seats_of(token);
    let some = random.chance(50) && !seats.is_empty();
    some.then(|| {
        seats.truncate(1 + random.below(seats.len()));
        seats
    })
}

/// A hold becomes blocked seats.
pub(super) fn block_hold(rig: &mut Rig, random: &mut Random, token: &[u8]) {
    let name = random.chance(60).then(|| random.pick(&BLOCKS));
    let most = (name.is_some() && random.chance(30)).then(|| random.pick(&[0, 1, 2, 4]));
    let until = random.chance(40).then(|| rig.now + random.pick(&[1, 30, 90]));
    let naive = &mut rig.naive;
    let seats = naive.seats_of(token);
    let named = naive.blocks.iter().find(|block| name == Some(block.name.as_str())).map(|block| block.number);
    let all_are_of_it = named.is_some() && seats.iter().all(|id| naive.by_id(id).block == named);
    let expected = match naive.claims.get(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold => Err(Code::BadState),
        Some(_) if all_are_of_it && (until.is_some() || most.is_some()) => Err(Code::BadState),
        Some(_) => {
            naive.give_up_into(&seats, Some(name.unwrap_or_default()), until, most);
            Ok(Reply::Integer(seats.len() as i64))
        }
    };
    let per_user = most.map(|most| most as u32);
    let request = Request::BlockHold { name: name.map(str::as_bytes), until, per_user, token };
    assert_eq!(rig.ask(&request), expected, "{request:?}");
}

/// Sales move to other seats: mostly to free ones, or they are swapped.
pub(super) fn move_sales(rig: &mut Rig, random: &mut Random, ids: &[String]) {
    let naive = &mut rig.naive;
    let state = |naive: &mut Naive, id: &String| naive.by_id(id).state.clone();
    let sold: Vec<String> =
        ids.iter().filter(|&id| matches!(state(naive, id), State::Sold(..))).cloned().collect();
    let free: Vec<String> = naive.ids_in(&State::Free);
    let among = if sold.is_empty() || random.chance(10) { ids } else { &sold };
    let from = some_ids(random, among);
    let mut to = from.clone();
    to.rotate_left(random.below(2));
    for seat in &mut to {
        if random.chance(60) {
            let among = if free.is_empty() || random.chance(10) { ids } else { &free };
            *seat = random.pick(among);
        }
    }
    let any_tier = random.chance(70);
    let distinct = to.iter().collect::<std::collections::BTreeSet<_>>().len() == to.len();
    let is_sold = from.iter().all(|id| matches!(state(naive, id), State::Sold(..)));
    let fits = to.iter().all(|id| from.contains(id) || state(naive, id) == State::Free);
    let tier = |naive: &mut Naive, id: &String| naive.by_id(id).tier.clone();
    let same = from.iter().zip(&to).all(|(from, to)| tier(naive, from) == tier(naive, to));
    let expected = if !distinct {
        Err(Code::Err)
    } else if is_sold && fits && (any_tier || same) {
        let sales: Vec<State> = from.iter().map(|id| state(naive, id)).collect();
        from.iter().for_each(|id| naive.give_up(id));
        to.iter().zip(sales).for_each(|(id, sale)| naive.by_id(id).state = sale);
        Ok(Reply::Integer(from.len() as i64))
    } else {
        Err(Code::BadState)
    };
    let pairs = bytes(&from).into_iter().zip(bytes(&to)).collect();
    let request = Request::Move(Move { pairs, any_tier });
    assert_eq!(rig.ask(&request), expected, "{request:?}");
}

/// Another user has sold seats.
pub(super) fn transfer(rig: &mut Rig, random: &mut Random, token: &str, ids: &[String]) {
    let naive = &mut rig.naive;
    let sale = |naive: &mut Naive, id: &String| match &naive.by_id(id).state {
        State::Sold(token, order) => Some((token.clone(), order.clone())),
        _ => None,
    };
    let sold: Vec<String> = ids.iter().filter(|&id| sale(naive, id).is_some()).cloned().collect();
    let among = if sold.is_empty() || random.chance(10) { ids } else { &sold };
    let ids = some_ids(random, among);
    let user = random.pick(&["ann", "bob", "ivy"]);
    let order = random.pick(&[None, None, Some(&b"order1"[..])]);
    let to_order = random.pick(&[None, Some(&b"order1"[..]), Some(b"order2")]);
    let sales: Vec<_> = ids.iter().map(|id| sale(naive, id)).collect();
    let orders: Vec<Option<Vec<u8>>> = sales.iter().flatten().map(|(_, order)| order.clone()).collect();
    let one = orders.iter().all(|order| *order == orders[0]);
    let others = sales.iter().flatten().filter(|(token, _)| naive.claims[token].user != user.as_bytes());
    let more = others.count();
    let gained: Vec<String> = ids
        .iter()
        .filter(|&id| sale(naive, id).is_some_and(|(token, _)| naive.claims[&token].user != user.as_bytes()))
        .cloned()
        .collect();
    let mut blocks: Vec<Option<usize>> = gained.iter().map(|id| naive.by_id(id).block).collect();
    blocks.sort_unstable();
    let block_is_full = blocks
        .chunk_by(|one, other| one == other)
        .any(|some| some[0].is_some() && !naive.block_allows(user.as_bytes(), some[0], some.len(), &[]));
    let new_order = to_order.map(<[u8]>::to_vec).or_else(|| orders.first().cloned().flatten());
    let expected = if orders.len() < ids.len() {
        Err(Code::BadState)
    } else if order.is_some_and(|order| orders.iter().any(|filed| filed.as_deref() != Some(order))) {
        Err(Code::NotOwner)
    } else if !one && to_order.is_none() {
        Err(Code::Err)
    } else if more == 0 && one && orders[0] == new_order {
        Ok(Reply::Integer(ids.len() as i64))
    } else if block_is_full
        || naive.seats_per_user > 0 && naive.user_seats(user.as_bytes()) + more > naive.seats_per_user
    {
        Err(Code::Limit)
    } else {
        naive.take(&ids, user.as_bytes(), token.as_bytes(), rig.now, rig.now);
        for id in &ids {
            naive.by_id(id).state = State::Sold(token.as_bytes().to_vec(), new_order.clone());
        }
        let claim = naive.claims.get_mut(token.as_bytes()).unwrap();
        (claim.sold, claim.bought, claim.order) = (true, ids.len(), new_order);
        naive.forget_empty();
        Ok(Reply::Integer(ids.len() as i64))
    };
    let (user, token, seats) = (user.as_bytes(), token.as_bytes(), bytes(&ids));
    let request = Request::Transfer(Transfer { user, seats, order, to_order, token });
    assert_eq!(rig.ask(&request), expected, "{request:?}");
    if expected.is_ok() {
        let again =
            Request::Transfer(Transfer { user, seats: bytes(&ids), order: None, to_order, token: b"again" });
        assert_eq!(rig.ask(&again), expected, "a retry changes nothing");
        assert!(rig.show.claims().find(b"again").is_none());
    }
}

pub(super) fn refund(rig: &mut Rig, random: &mut Random, ids: &[String]) {
    let (order, seats) = seats_to_refund(&mut rig.naive, random, ids);
    let into = random.chance(25).then(|| random.pick(&BLOCKS));
    let expected = rig.naive.refund(order, seats.as_deref(), into).map(Reply::Integer);
    let (seats, into) = (seats.as_deref().map(bytes), into.map(str::as_bytes));
    assert_eq!(rig.ask(&Request::Refund { order, seats, into }), expected);
}

/// A whole order, or mostly sold seats.
pub(super) fn seats_to_refund(
    naive: &mut Naive,
    random: &mut Random,
    ids: &[String],
) -> (Option<&'static [u8]>, Option<Vec<String>>) {
    if random.chance(20) {
        return (Some(b"order1"), None);
    }
    let is_sold = |id: &&String| matches!(naive.by_id(id).state, State::Sold(..));
    let sold: Vec<String> = ids.iter().filter(is_sold).cloned().collect();
    let from = if sold.is_empty() || random.chance(20) { ids } else { &sold };
    let order = random.chance(20).then_some(&b"order1"[..]);
    (order, Some(some_ids(random, from)))
}

pub(super) fn block(rig: &mut Rig, random: &mut Random, ids: &[String]) {
    let ids = some_ids(random, ids);
    let block = random.chance(60);
    let name = random.chance(60).then(|| random.pick(&BLOCKS));
    let most = (name.is_some() && random.chance(30)).then(|| random.pick(&[0, 1, 2, 4]));
    let until = random.chance(50).then(|| rig.now + random.pick(&[1, 30, 90]));
    let from = if block { State::Free } else { State::Blocked };
    let naive = &mut rig.naive;
    let fits = |state: &State| *state == from || block && *state == State::Queued;
    let freed = naive.freed();
    let expected = if ids.iter().all(|id| fits(&naive.by_id(id).state)) {
        let number =
            (block && (name.is_some() || until.is_some())).then(|| naive.block_for(name, until, most));
        for id in &ids {
            let seat = naive.by_id(id);
            seat.state = if block { State::Blocked } else { freed.clone() };
            seat.block = number;
        }
        naive.forget_blocks();
        Ok(Reply::Integer(ids.len() as i64))
    } else {
        Err(Code::BadState)
    };
    let (name, seats) = (name.map(str::as_bytes), bytes(&ids));
    let request = match (block, name, until) {
        (false, ..) => Request::Unblock(seats),
        (true, ..) => Request::Block { name, until, per_user: most.map(|most| most as u32), seats },
    };
    assert_eq!(rig.ask(&request), expected, "{request:?}");
}

pub(super) fn end_block(rig: &mut Rig, random: &mut Random) {
    let name = random.pick(&BLOCKS);
    let found = rig.naive.blocks.iter().find(|block| block.name == name).map(|block| block.number);
    let expected = match found {
        None => Err(Code::NotFound),
        Some(number) => Ok(Reply::Integer(rig.naive.end_block(number))),
    };
    assert_eq!(rig.ask(&Request::EndBlock(name.as_bytes())), expected);
}

pub(super) fn extend(rig: &mut Rig, token: &[u8]) {
    let expected = rig.naive.extend(rig.now, token, 200).map(Reply::Integer);
    assert_eq!(rig.ask(&Request::Extend { token, ttl: 200 }), expected);
}
