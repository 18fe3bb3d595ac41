//! Random requests, each asked of the show under test and of the naive one.

use super::naive::{Naive, Outcome, Seat, State, Waiter, Wish};
use super::rig::{BLOCKS, FLAGS, Random, Rig, TIERS};
use allot_core::seat::Reply;
use allot_core::seat::claims::Seats;
use allot_core::seat::plan::PickOrphans;
use allot_core::seat::request::{Adjacent, Hold, NamedWish, Need, Orphans, Pick, Replace, Request, Wait};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;

pub(super) fn random_wish(rig: &Rig, random: &mut Random) -> Wish {
    let areas: Vec<String> = rig.naive.areas.iter().map(|area| area.id.clone()).collect();
    let count = random.pick(&[1, 1, 2, 2, 3, 4, 6]);
    let flags: Vec<String> = FLAGS.iter().filter(|_| random.chance(25)).map(ToString::to_string).collect();
    let mut needs = Vec::new();
    let mut left = count;
    for flag in FLAGS {
        if left > 0 && random.chance(20) && !flags.iter().any(|other| other == flag) {
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
        from: random.chance(25).then(|| random.pick(&BLOCKS).to_owned()),
    }
}

/// A user waits; most shows are nearly sold out, so that waits are long.
pub(super) fn wait(rig: &mut Rig, random: &mut Random, token: &str) {
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
    let (areas, flags, needs) = (wish.areas.clone(), wish.flags.clone(), wish.needs.clone());
    let from = wish.from.clone();
    let request = Request::Wait(Wait {
        hold: Hold {
            user: user.as_bytes(),
            ttl,
            replace: None,
            token: TokenChoice { token: token.as_bytes(), chosen: true },
            wish: NamedWish {
                count: wish.count as u32,
                tier: wish.tier.as_deref().map(str::as_bytes),
                areas: areas.iter().map(String::as_bytes).collect(),
                adjacent: wish.adjacent,
                orphans: wish.orphans,
                flags: flags.iter().map(String::as_bytes).collect(),
                needs: needs_of(&needs),
                from: from.as_deref().map(str::as_bytes),
            },
        },
        offer,
        priority,
    });
    let (now, naive) = (rig.now, &mut rig.naive);
    let unknown = names_unknown(naive, &wish);
    let token = token.as_bytes().to_vec();
    let waits = naive.waiters.iter().filter(|waiter| waiter.user == user.as_bytes()).count();
    let most = if naive.waits_per_user == 0 { 100 } else { naive.waits_per_user };
    let expected = if naive.max_hold > 0 && offer > naive.max_hold
        || naive.seats_per_user > 0 && wish.count > naive.seats_per_user
    {
        Err(Code::Limit)
    } else if unknown {
        Err(Code::NotFound)
    } else if naive.allows(user.as_bytes(), wish.count)
        && matches!(naive.grant(&wish, user.as_bytes(), &token, now, now + offer, None), Outcome::Seats(_))
    {
        Ok(true)
    } else if waits >= most {
        Err(Code::Limit)
    } else {
        let (user, mut wish) = (user.as_bytes().to_vec(), wish.clone());
        wish.areas.sort();
        wish.areas.dedup();
        // A flag that no seat has means nothing, also if seats get the flag later.
        let known: Vec<String> = naive.places().flat_map(|place| naive.seat(place).flags.clone()).collect();
        wish.flags.retain(|flag| known.contains(flag));
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
    rig.naive.waiters.retain(|waiter| waiter.token != token);
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
        token: TokenChoice { token: token.as_bytes(), chosen: true },
        wish: NamedWish {
            count: wish.count as u32,
            tier: wish.tier.as_deref().map(str::as_bytes),
            areas: wish.areas.iter().map(String::as_bytes).collect(),
            adjacent: wish.adjacent,
            orphans: wish.orphans,
            flags: wish.flags.iter().map(String::as_bytes).collect(),
            needs: needs_of(&wish.needs),
            from: wish.from.as_deref().map(str::as_bytes),
        },
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
    let wanted = NamedWish {
        count: asked.count as u32,
        tier: asked.tier.as_deref().map(str::as_bytes),
        areas: bytes(&asked.areas),
        adjacent: asked.adjacent,
        orphans: asked.orphans,
        flags: bytes(&asked.flags),
        needs: needs_of(&asked.needs),
        from: asked.from.as_deref().map(str::as_bytes),
    };
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
fn names_unknown(naive: &Naive, wish: &Wish) -> bool {
    let some = |test: &dyn Fn(&Seat) -> bool| naive.places().any(|place| test(naive.seat(place)));
    wish.tier.as_ref().is_some_and(|tier| !some(&|seat| seat.tier == *tier))
        || wish.from.as_ref().is_some_and(|name| !naive.blocks.iter().any(|block| block.name == *name))
        || wish.needs.iter().any(|(_, flag)| !some(&|seat| seat.flags.contains(flag)))
}

fn needs_of(needs: &[(usize, String)]) -> Vec<Need<&[u8]>> {
    needs.iter().map(|(count, flag)| Need { count: *count as u32, flag: flag.as_bytes() }).collect()
}

fn some_ids(random: &mut Random, ids: &[String]) -> Vec<String> {
    let mut some: Vec<String> = (0..=random.below(3)).map(|_| random.pick(ids)).collect();
    some.sort();
    some.dedup();
    some
}

pub(super) fn bytes(ids: &[String]) -> Vec<&[u8]> {
    ids.iter().map(String::as_bytes).collect()
}

pub(super) fn pick(rig: &mut Rig, random: &mut Random, token: &str, ids: &[String]) {
    let ids = some_ids(random, ids);
    let (now, naive) = (rig.now, &mut rig.naive);
    let full = naive.holds_per_user > 0 && naive.user_holds(b"dee") >= naive.holds_per_user
        || naive.seats_per_user > 0 && naive.user_seats(b"dee") + ids.len() > naive.seats_per_user;
    let from = random.chance(30).then(|| random.pick(&BLOCKS));
    let block =
        from.map(|name| naive.blocks.iter().find(|block| block.name == name).map(|block| block.number));
    if block == Some(None) {
        let token = TokenChoice { token: token.as_bytes(), chosen: false };
        let from = from.map(str::as_bytes);
        let pick = Pick { user: b"dee", ttl: 100, token, orphans: None, from, seats: bytes(&ids) };
        let expected = if full { Code::Limit } else { Code::NotFound };
        assert_eq!(rig.ask(&Request::Pick(pick)), Err(expected));
        return;
    }
    let block = block.flatten();
    let free = ids.iter().all(|id| naive.by_id(id).is_available(block));
    let orphans = random.pick(&[None, None, Some(PickOrphans::Allow), Some(PickOrphans::Forbid)]);
    let forbids = orphans.unwrap_or(naive.pick_orphans) == PickOrphans::Forbid;
    let mut picked = naive.clone();
    picked.take(&ids, b"dee", token.as_bytes(), now, now + 100);
    let strands = forbids && picked.single_seats(block) > naive.single_seats(block);
    let expected = if full || free && strands {
        Err(Code::Limit)
    } else if free {
        naive.take(&ids, b"dee", token.as_bytes(), now, now + 100);
        Ok(())
    } else {
        Err(Code::BadState)
    };
    let token = TokenChoice { token: token.as_bytes(), chosen: false };
    let from = from.map(str::as_bytes);
    let pick = Pick { user: b"dee", ttl: 100, token, orphans, from, seats: bytes(&ids) };
    let got = rig.ask(&Request::Pick(pick));
    assert_eq!(got.map(|_| ()), expected);
}

pub(super) fn confirm(rig: &mut Rig, token: &[u8], order: Option<&[u8]>) {
    let naive = &mut rig.naive;
    let seats = naive.seats_of(token);
    let expected = match naive.claims.get_mut(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold && claim.order.as_deref() == order => Ok(claim.bought),
        Some(claim) if claim.sold => Err(Code::Exists),
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
    let expected = match naive.claims.get_mut(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold && claim.order.as_ref() == Some(&order) => Ok(claim.bought),
        Some(claim) if claim.sold => Err(Code::Exists),
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
    let expected = match naive.claims.get(token) {
        None => Err(Code::NotFound),
        Some(claim) if claim.sold => Err(Code::BadState),
        Some(_) => {
            for id in &seats {
                naive.give_up(id);
            }
            naive.forget_empty();
            Ok(Reply::Integer(seats.len() as i64))
        }
    };
    let seats = some.then(|| bytes(&seats));
    assert_eq!(rig.ask(&Request::Release { token, seats }), expected);
}

pub(super) fn refund(rig: &mut Rig, random: &mut Random, ids: &[String]) {
    let naive = &mut rig.naive;
    let sold: Vec<String> =
        ids.iter().filter(|id| matches!(naive.by_id(id).state, State::Sold(..))).cloned().collect();
    let from = if sold.is_empty() || random.chance(20) { ids } else { &sold };
    let ids = some_ids(random, from);
    let expected = if ids.iter().all(|id| matches!(naive.by_id(id).state, State::Sold(..))) {
        for id in &ids {
            naive.give_up(id);
        }
        naive.forget_empty();
        Ok(Reply::Integer(ids.len() as i64))
    } else {
        Err(Code::BadState)
    };
    assert_eq!(rig.ask(&Request::Refund { order: None, seats: bytes(&ids) }), expected);
}

pub(super) fn block(rig: &mut Rig, random: &mut Random, ids: &[String]) {
    let ids = some_ids(random, ids);
    let block = random.chance(60);
    let name = random.chance(60).then(|| random.pick(&BLOCKS));
    let until = random.chance(50).then(|| rig.now + random.pick(&[1, 30, 90]));
    let from = if block { State::Free } else { State::Blocked };
    let naive = &mut rig.naive;
    let expected = if ids.iter().all(|id| naive.by_id(id).state == from) {
        let number = (block && (name.is_some() || until.is_some())).then(|| naive.block_for(name, until));
        for id in &ids {
            let seat = naive.by_id(id);
            seat.state = if block { State::Blocked } else { State::Free };
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
        (true, ..) => Request::Block { name, until, seats },
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
