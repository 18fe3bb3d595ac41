//! Random requests, each asked of the show under test and of the naive one.

use super::naive::{Naive, Outcome, Seat, State, Waiter, Wish, bytes};
use super::rig::{BLOCKS, FLAGS, Random, Rig, TIERS};
use allot_core::seat::Reply;
use allot_core::seat::claims::Seats;
use allot_core::seat::plan::PickOrphans;
use allot_core::seat::request::{
    AddBest, Adjacent, Hold, Move, NamedWish, Orphans, Pick, Replace, Request, Transfer, Wait,
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
    let ttl = random.pick(&[50, 400, 501]);
    let request = Hold {
        user: user.as_bytes(),
        ttl,
        replace: replace.as_ref().map(|(token, other)| Replace { token, other: *other }),
        exchange: vec![],
        token: TokenChoice { token: token.as_bytes(), chosen: true },
        wish: wish.named(),
    };
    if random.chance(70) {
        rig.show.prepare(&request.wish);
    }
    let request = Request::Hold(request);
    let expected = expect_hold(rig, &wish, user.as_bytes(), token.as_bytes(), ttl, replace.as_ref());
    let got = rig.ask(&request);
    let seats = |seats: &[u32]| seats.iter().map(|&seat| rig.show.venue().id(seat)).collect::<Vec<_>>();
    let got = got.map(|reply| match reply {
        Reply::Hold(record) => Outcome::Seats(seats(&record.seats)),
        _ => Outcome::TooFew,
    });
    assert_eq!(got, expected, "{wish:?} {replace:?}");
    if let Ok(Outcome::Seats(_)) = got {
        let again = rig.ask(&request).unwrap();
        assert!(
            matches!(again, Reply::Hold(record) if record.until == rig.now + ttl),
            "a retry gets its hold"
        );
    }
}

/// Offers without a hold are what holds would get one after the other, each without the areas of those before.
pub(super) fn find(rig: &Rig, random: &mut Random) {
    let mut wish = random_wish(rig, random);
    let (asked, best, naive) = (wish.clone(), 1 + random.below(4), &rig.naive);
    let wanted = asked.named();
    let found = rig.show.find(&wanted, best).map_err(|refusal| refusal.code);
    if asked.adjacent == Adjacent::Ignore && asked.orphans == Orphans::Forbid {
        assert_eq!(found, Err(Code::Err));
        return;
    }
    if names_unknown(naive, &asked) {
        assert_eq!(found, Err(Code::NotFound));
        return;
    }
    if wish.areas.is_empty() {
        wish.areas = naive.areas.iter().map(|area| area.id.clone()).collect();
    }
    let mut expected = Vec::new();
    while expected.len() < best
        && !wish.areas.is_empty()
        && let Outcome::Seats(ids) = naive.search(&wish, None)
    {
        let of_offer = naive.places().filter(|&place| ids.contains(&naive.seat(place).id));
        let taken: Vec<&String> = of_offer.map(|place| &naive.areas[place.0].id).collect();
        wish.areas.retain(|area| !taken.contains(&area));
        expected.push(ids);
    }
    let ids = |seats: &Seats| seats.iter().map(|&seat| rig.show.venue().id(seat)).collect::<Vec<_>>();
    assert_eq!(found.unwrap().iter().map(ids).collect::<Vec<_>>(), expected, "{wanted:?}");
}

pub(super) fn expect_hold(
    rig: &mut Rig,
    wish: &Wish,
    user: &[u8],
    token: &[u8],
    ttl: i64,
    replace: Option<&(Vec<u8>, bool)>,
) -> Result<Outcome, Code> {
    let (now, naive) = (rig.now, &mut rig.naive);
    if wish.adjacent == Adjacent::Ignore && wish.orphans == Orphans::Forbid {
        return Err(Code::Err);
    }
    let mut given_up = (0, 0);
    let mut born = now;
    if let Some((old, _)) = replace {
        let claim = &naive.claims[old];
        if claim.user != user {
            return Err(Code::NotOwner);
        }
        if claim.sold {
            return Err(Code::BadState);
        }
        given_up = (1, naive.seats_of(old).len());
        born = claim.created;
    }
    if naive.max_hold > 0 && now + ttl > born + naive.max_hold {
        return Err(Code::Limit);
    }
    if naive.holds_per_user > 0 && naive.user_holds(user) - given_up.0 >= naive.holds_per_user {
        return Err(Code::Limit);
    }
    if naive.seats_per_user > 0 && naive.user_seats(user) - given_up.1 + wish.count > naive.seats_per_user {
        return Err(Code::Limit);
    }
    let given = replace.map_or_else(Vec::new, |(old, _)| naive.seats_of(old));
    let block = naive.block_called(wish.from.as_deref());
    if block.is_some() && !naive.block_allows(user, block, wish.count, &given) {
        return Err(Code::Limit);
    }
    if names_unknown(naive, wish) {
        return Err(Code::NotFound);
    }
    let replace = replace.map(|(old, other)| (&old[..], *other));
    match naive.grant(wish, user, token, now, now + ttl, replace) {
        Outcome::NotAdjacent => Err(Code::NoAdjacent),
        outcome => Ok(outcome),
    }
}

/// Whether no seat has the tier, or a needed flag, of a wish.
pub(super) fn names_unknown(naive: &Naive, wish: &Wish) -> bool {
    let some = |test: &dyn Fn(&Seat) -> bool| naive.places().any(|place| test(naive.seat(place)));
    wish.tier.as_ref().is_some_and(|tier| !some(&|seat| seat.tier == *tier))
        || wish.from.as_ref().is_some_and(|name| !naive.blocks.iter().any(|block| block.name == *name))
        || wish.needs.iter().any(|(_, flag)| !some(&|seat| seat.flags.contains(flag)))
}

fn some_ids(random: &mut Random, ids: &[String]) -> Vec<String> {
    let mut some: Vec<String> = (0..=random.below(3)).map(|_| random.pick(ids)).collect();
    some.sort();
    some.dedup();
    some
}

pub(super) fn pick(rig: &mut Rig, random: &mut Random, token: &str, ids: &[String]) {
    let ids = some_ids(random, ids);
    let (now, naive) = (rig.now, &mut rig.naive);
    let is_bought = |naive: &Naive, token: &Vec<u8>| naive.claims[token].user == b"dee";
    let all = naive.ids();
    let bought = all.into_iter().filter(
        |id| matches!(&naive.by_id(id).state.clone(), State::Sold(token, _) if is_bought(naive, token)),
    );
    let exchange: Vec<String> = if random.chance(20) { bought.take(2).collect() } else { vec![] };
    let counted = naive.user_seats(b"dee") - exchange.len() + ids.len();
    let full = naive.holds_per_user > 0 && naive.user_holds(b"dee") >= naive.holds_per_user
        || naive.seats_per_user > 0 && counted > naive.seats_per_user;
    let from = random.chance(30).then(|| random.pick(&BLOCKS));
    let block =
        from.map(|name| naive.blocks.iter().find(|block| block.name == name).map(|block| block.number));
    if block == Some(None) {
        let token = TokenChoice { token: token.as_bytes(), chosen: false };
        let from = from.map(str::as_bytes);
        let pick = Pick {
            user: b"dee",
            ttl: 100,
            token,
            orphans: None,
            from,
            seats: bytes(&ids),
            exchange: bytes(&exchange),
        };
        let expected = if full { Code::Limit } else { Code::NotFound };
        assert_eq!(rig.ask(&Request::Pick(pick)), Err(expected));
        return;
    }
    let block = block.flatten();
    let free = ids.iter().all(|id| naive.by_id(id).is_available(block));
    let orphans =
        random.pick(&[None, Some(PickOrphans::Allow), Some(PickOrphans::Forbid), Some(PickOrphans::Avoid)]);
    let forbids = orphans.unwrap_or(naive.pick_orphans) != PickOrphans::Allow;
    let strands = forbids && naive.strands_needlessly(&ids, block);
    let over = block.is_some() && !naive.block_allows(b"dee", block, ids.len(), &exchange);
    let expected = if full || over || free && strands {
        Err(Code::Limit)
    } else if free {
        naive.take(&ids, b"dee", token.as_bytes(), now, now + 100);
        naive.claims.get_mut(token.as_bytes()).unwrap().exchange = !exchange.is_empty();
        Ok(())
    } else {
        Err(Code::BadState)
    };
    let token = TokenChoice { token: token.as_bytes(), chosen: false };
    let from = from.map(str::as_bytes);
    let pick =
        Pick { user: b"dee", ttl: 100, token, orphans, from, seats: bytes(&ids), exchange: bytes(&exchange) };
    let got = rig.ask(&Request::Pick(pick));
    assert_eq!(got.map(|_| ()), expected);
}

/// A request that adds seats to a hold: mostly one of its user, and seats of the user's choice or the best.
pub(super) fn add(rig: &mut Rig, random: &mut Random, token: &[u8], ids: &[String], step: usize) {
    let claim = rig.naive.claims.get(token).cloned();
    let user = match &claim {
        Some(claim) if random.chance(90) => claim.user.clone(),
        _ => b"hal".to_vec(),
    };
    let by_user = random.chance(40);
    let ids = some_ids(random, ids);
    let wish = Wish { from: None, ..random_wish(rig, random) };
    let choice = TokenChoice { token, chosen: true };
    let once = random.chance(50).then(|| format!("once{step}"));
    let request = if by_user {
        let seats = bytes(&ids);
        Request::AddPicked(Pick {
            user: &user,
            ttl: 100,
            token: choice,
            orphans: None,
            from: None,
            seats,
            exchange: vec![],
        })
    } else {
        let wish = NamedWish { from: None, ..wish.named() };
        let hold = Hold { user: &user, ttl: 100, replace: None, exchange: vec![], token: choice, wish };
        Request::AddBest(AddBest { hold, once: once.as_ref().map(String::as_bytes) })
    };
    let (now, naive) = (rig.now, &mut rig.naive);
    let has = naive.seats_of(token);
    let more: Vec<String> = ids.iter().filter(|id| !has.contains(id)).cloned().collect();
    let added = if by_user { more.len() } else { wish.count };
    let others = usize::from(claim.is_some());
    let full = naive.holds_per_user > 0 && naive.user_holds(&user) >= naive.holds_per_user + others
        || naive.seats_per_user > 0 && naive.user_seats(&user) + added > naive.seats_per_user;
    let expected = match &claim {
        Some(claim) if claim.sold => Err(Code::Exists),
        Some(claim) if claim.user != user => Err(Code::NotOwner),
        Some(_) if by_user && more.is_empty() => Ok(Outcome::Seats(vec![])),
        None if !by_user => expect_hold(rig, &wish, &user, token, 100, None),
        _ if !by_user && wish.adjacent == Adjacent::Ignore && wish.orphans == Orphans::Forbid => {
            Err(Code::Err)
        }
        _ if full => Err(Code::Limit),
        _ if by_user && !more.iter().all(|id| naive.by_id(id).is_available(None)) => Err(Code::BadState),
        _ if by_user => Ok(Outcome::Seats(more)),
        _ if names_unknown(naive, &wish) => Err(Code::NotFound),
        _ => match naive.search_beside(&wish, token) {
            Outcome::NotAdjacent => Err(Code::NoAdjacent),
            outcome => Ok(outcome),
        },
    };
    if let Ok(Outcome::Seats(ids)) = &expected {
        if claim.is_none() && by_user {
            rig.naive.take(ids, &user, token, now, now + 100);
        }
        for id in ids {
            rig.naive.by_id(id).state = State::Held(token.to_vec());
        }
    }
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

pub(super) fn confirm(rig: &mut Rig, token: &[u8], order: Option<&[u8]>) {
    let naive = &mut rig.naive;
    let seats = naive.seats_of(token);
    let too_many = naive.has_too_many(token, &[]);
    let expected = match naive.claims.get_mut(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold && claim.order.as_deref() == order => Ok(claim.bought),
        Some(claim) if claim.sold => Err(Code::Exists),
        Some(_) if too_many => Err(Code::Limit),
        Some(claim) => {
            (claim.sold, claim.bought, claim.order) = (true, seats.len(), order.map(<[u8]>::to_vec));
            for id in &seats {
                naive.by_id(id).state = State::Sold(token.to_vec(), order.map(<[u8]>::to_vec));
            }
            Ok(seats.len())
        }
    };
    let got = rig.ask(&Request::Confirm { token, user: None, order });
    assert_eq!(got, expected.map(|seats| Reply::Integer(seats as i64)));
}

/// Sells a hold in exchange for sold seats, which mostly are all of one order.
pub(super) fn exchange(rig: &mut Rig, random: &mut Random, token: &[u8], ids: &[String]) {
    let naive = &mut rig.naive;
    let order = b"order1".to_vec();
    let is_of_order = |naive: &mut Naive, id: &String| matches!(&naive.by_id(id).state, State::Sold(_, Some(filed)) if *filed == order);
    let filed: Vec<String> = ids.iter().filter(|&id| is_of_order(naive, id)).cloned().collect();
    let from = if filed.is_empty() || random.chance(20) { ids } else { &filed };
    let ids = some_ids(random, from);
    let fit = ids.iter().all(|id| is_of_order(naive, id));
    let seats = naive.seats_of(token);
    let too_many = naive.has_too_many(token, &ids);
    let expected = match naive.claims.get_mut(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold && claim.order.as_ref() == Some(&order) => Ok(claim.bought),
        Some(claim) if claim.sold => Err(Code::Exists),
        Some(_) if too_many => Err(Code::Limit),
        Some(_) if !fit => Err(Code::NotOwner),
        Some(claim) => {
            (claim.sold, claim.bought, claim.order) = (true, seats.len(), Some(order.clone()));
            for id in &seats {
                naive.by_id(id).state = State::Sold(token.to_vec(), Some(order.clone()));
            }
            for id in &ids {
                naive.give_up(id);
            }
            naive.forget_empty();
            Ok(seats.len())
        }
    };
    let (order, from) = (Some(&order[..]), &order[..]);
    let request = Request::Exchange { token, user: None, order, from, seats: bytes(&ids) };
    assert_eq!(rig.ask(&request), expected.map(|seats| Reply::Integer(seats as i64)));
}

pub(super) fn release(rig: &mut Rig, random: &mut Random, token: &[u8]) {
    let naive = &mut rig.naive;
    let mut seats = naive.seats_of(token);
    let some = random.chance(50) && !seats.is_empty();
    if some {
        seats.truncate(1 + random.below(seats.len()));
    }
    let into = random.chance(25).then(|| random.pick(&BLOCKS));
    let expected = match naive.claims.get(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold => Err(Code::BadState),
        Some(_) => {
            naive.give_up_into(&seats, into, None, None);
            Ok(Reply::Integer(seats.len() as i64))
        }
    };
    let (seats, into) = (some.then(|| bytes(&seats)), into.map(str::as_bytes));
    assert_eq!(rig.ask(&Request::Release { token, seats, into }), expected);
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
    let naive = &mut rig.naive;
    let sold: Vec<String> =
        ids.iter().filter(|id| matches!(naive.by_id(id).state, State::Sold(..))).cloned().collect();
    let from = if sold.is_empty() || random.chance(20) { ids } else { &sold };
    let whole = random.chance(20);
    let is_of_order = |naive: &mut Naive, id: &String| matches!(&naive.by_id(id).state, State::Sold(_, Some(order)) if *order == b"order1");
    let ids = if whole {
        ids.iter().filter(|&id| is_of_order(naive, id)).cloned().collect()
    } else {
        some_ids(random, from)
    };
    let into = random.chance(25).then(|| random.pick(&BLOCKS));
    let expected = if ids.is_empty() {
        Err(Code::NotFound)
    } else if ids.iter().all(|id| matches!(naive.by_id(id).state, State::Sold(..))) {
        naive.give_up_into(&ids, into, None, None);
        Ok(Reply::Integer(ids.len() as i64))
    } else {
        Err(Code::BadState)
    };
    let (order, seats) = (whole.then_some(&b"order1"[..]), (!whole).then(|| bytes(&ids)));
    assert_eq!(rig.ask(&Request::Refund { order, seats, into: into.map(str::as_bytes) }), expected);
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
    let (now, naive) = (rig.now, &mut rig.naive);
    let longest = naive.max_hold;
    let expected = match naive.claims.get_mut(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold => Err(Code::BadState),
        Some(claim) if longest > 0 && now + 200 > claim.created + longest => Err(Code::Limit),
        Some(claim) => {
            claim.until = now + 200;
            Ok(Reply::Integer(claim.until))
        }
    };
    assert_eq!(rig.ask(&Request::Extend { token, ttl: 200 }), expected);
}
