//! Requests in slices: they end what one step would have ended, although other requests come between.

use super::spec::{Bench, any, n};
use allot_core::numpool::outcome::Reconciled;
use allot_core::numpool::request::{Call, Changes, OfSwitch, Request};
use allot_core::numpool::{Event, Number, Reply};
use allot_core::shared::refusal::Code;
use std::collections::BTreeSet;

/// How many numbers, and how many calls before the request.
const NUMBERS: usize = 3000;
const CALLS: usize = 2000;
/// How many calls a slice ends.
const SLICE: usize = 70;

fn number(place: usize) -> String {
    format!("138{place:05}")
}

fn token(place: usize) -> String {
    format!("call-{place}")
}

/// A pool whose numbers carry calls: every third for the switch `other`, and every fifth with a deadline.
fn with_calls() -> Bench {
    let names: Vec<String> = (0..NUMBERS).map(number).collect();
    let mut bench = Bench::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for place in 0..CALLS {
        bench.now = 1000 + place as i64 / 10;
        call(&mut bench, place, if place.is_multiple_of(3) { b"other" } else { b"sw" });
    }
    bench
}

fn call(bench: &mut Bench, place: usize, switch: &[u8]) {
    let ttl = place.is_multiple_of(5).then_some(500);
    let token = token(place);
    bench.ok(&Request::Call(Call {
        number: Some(n(&number(place % NUMBERS))),
        ttl,
        switch: Some(switch),
        ..any(&token)
    }));
}

fn hang_up(bench: &mut Bench, place: usize) {
    let request = Request::HangUp { number: n(&number(place)), lease: None, cooldown: None, cause: None };
    bench.ok(&request);
}

fn reconcile<'a>(switch: &'a [u8], before: Option<i64>, leases: &'a [&'a [u8]]) -> OfSwitch<'a> {
    OfSwitch::Reconcile { switch: Some(switch), before, leases }
}

impl Bench {
    fn begin(&mut self, waiter: u64, before: Option<i64>, carried: &[&[u8]]) -> Result<(), Code> {
        let begun = self.pool.begin_in_slices(self.now, &reconcile(b"sw", before, carried), || waiter);
        begun.map_err(|refusal| refusal.code)
    }

    /// Applies the next slice. Returns the numbers whose calls it ended.
    fn slice(&mut self) -> Vec<String> {
        let mut ended = Vec::new();
        for event in self.pool.continue_sliced(self.now, SLICE) {
            let (Event::Ended { numbers, .. } | Event::Unregistered { numbers, .. }) = &event else {
                panic!("{event:?} ends nothing")
            };
            ended.extend(numbers.iter().map(ToString::to_string));
            self.pool.apply(self.now, &event);
        }
        assert!(ended.len() <= SLICE);
        assert_eq!(self.pool.check(), Ok(()));
        ended
    }

    fn take_reconciled(&mut self) -> Option<(u64, Reconciled)> {
        let (waiter, reply) = self.pool.take_sliced()?;
        let Reply::Reconciled(outcome) = reply else { panic!("{reply:?}") };
        Some((waiter, outcome))
    }

    fn is_live(&self, place: usize) -> bool {
        self.pool.has_lease(token(place).as_bytes(), self.now)
    }
}

#[test]
fn slices_end_the_leases_of_the_time_of_the_request() {
    let mut bench = with_calls();
    bench.ok(&Request::Configure(Changes { cooldown: Some(50), ..Changes::default() }));
    let of_switch = |place: &usize| !place.is_multiple_of(3);
    // The switch carries some calls, one of which is another switch's and one of which is none.
    let carried: Vec<usize> = (0..CALLS).filter(|place| place.is_multiple_of(7)).collect();
    let words: Vec<String> = carried.iter().map(|&place| token(place)).chain(["x".to_owned()]).collect();
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    let before = 1000 + CALLS as i64 / 10 - 10;
    bench.begin(9, Some(before), &words).unwrap();
    let young = |place: &usize| 1000 + *place as i64 / 10 >= before;
    let mut expected: BTreeSet<usize> =
        (0..CALLS).filter(|place| of_switch(place) && !place.is_multiple_of(7) && !young(place)).collect();
    let continued =
        (0..CALLS).filter(|place| of_switch(place) && (place.is_multiple_of(7) || young(place))).count();
    let all_expected = expected.clone();

    let (mut ended, mut round) = (BTreeSet::new(), 0);
    while !bench.pool.has_sliced() {
        assert_eq!(bench.pool.next_due(), Some(bench.now), "the timer goes on at once");
        ended.extend(bench.slice());
        // Calls end and begin between the slices: the new ones get the ids of leases that have ended, at the time of
        // the request, for the same switch.
        for place in [1990 - round, 1000 - round] {
            if expected.contains(&place) && bench.is_live(place) {
                hang_up(&mut bench, place);
                expected.remove(&place);
            }
        }
        call(&mut bench, CALLS + round, b"sw");
        call(&mut bench, CALLS + 500 + round, b"other");
        round += 1;
    }
    assert!(round > 10, "{round} slices");
    let numbers =
        |places: &BTreeSet<usize>| places.iter().map(|&place| number(place)).collect::<BTreeSet<_>>();
    assert_eq!(ended, numbers(&expected));
    assert!(all_expected.iter().all(|&place| !bench.is_live(place)));
    let newer = (CALLS..CALLS + round).chain(CALLS + 500..CALLS + 500 + round);
    let others = (0..CALLS).filter(|place| !all_expected.contains(place));
    assert!(newer.chain(others).all(|place| bench.is_live(place)));

    let (waiter, outcome) = bench.take_reconciled().unwrap();
    assert_eq!((waiter, outcome.kept, outcome.freed), (9, continued as u64, expected.len() as u64));
    let unknown = carried.iter().filter(|&place| !of_switch(place)).count() + 1;
    assert_eq!(outcome.unknown.len(), unknown);
    assert_eq!(bench.take_reconciled().map(|(waiter, _)| waiter), None);
    assert_ne!(bench.pool.next_due(), Some(bench.now));
}

#[test]
fn slices_have_the_outcome_of_one_step() {
    let outcome_at_once = |bench: &mut Bench, before, carried: &[&[u8]]| {
        let request = Request::OfSwitch(OfSwitch::Reconcile { switch: Some(b"sw"), before, leases: carried });
        let Reply::Reconciled(outcome) = bench.ok(&request) else { panic!("it was refused") };
        outcome
    };
    for (before, carried) in
        [(None, vec![]), (Some(1100), vec![]), (None, vec![&b"call-1"[..], b"call-3", b"call-1", b"y"])]
    {
        let (mut whole, mut sliced) = (with_calls(), with_calls());
        sliced.begin(1, before, &carried).unwrap();
        while !sliced.pool.has_sliced() {
            sliced.slice();
        }
        let (_, outcome) = sliced.take_reconciled().unwrap();
        assert_eq!(outcome, outcome_at_once(&mut whole, before, &carried));
        assert!((0..CALLS).all(|place| whole.is_live(place) == sliced.is_live(place)));
    }
}

#[test]
fn expired_leases_are_left_to_their_deadline() {
    let mut bench = with_calls();
    let live = bench.pool.live_leases();
    bench.now = 9000;
    // A call that has expired is no live one.
    bench.begin(1, None, &[b"call-5", b"call-1"]).unwrap();
    let mut ended = 0;
    while !bench.pool.has_sliced() {
        ended += bench.slice().len();
    }
    let (_, outcome) = bench.take_reconciled().unwrap();
    let expired = (0..CALLS).filter(|place| place.is_multiple_of(5) && !place.is_multiple_of(3)).count();
    let carried = (0..CALLS).filter(|place| !place.is_multiple_of(3)).count();
    assert_eq!((outcome.kept, outcome.unknown.len()), (1, 1));
    assert_eq!(ended, carried - expired - 1);
    assert_eq!(bench.pool.live_leases(), live - ended);
}

#[test]
fn reconciliations_take_turns_up_to_a_limit_and_copies_have_none() {
    let mut bench = with_calls();
    for waiter in 0..16 {
        bench.begin(waiter, None, &[]).unwrap();
    }
    assert_eq!(bench.begin(16, None, &[]), Err(Code::Limit));
    assert_eq!(bench.begin(17, None, &[&[b'x'; 300]]), Err(Code::Limit));
    assert!(!bench.pool.clone().has_sliced());
    assert_eq!(bench.pool.clone().continue_sliced(bench.now, SLICE).len(), 0);
    let mut done = Vec::new();
    let mut freed = 0;
    for _ in 0..60 {
        bench.slice();
        if let Some((waiter, outcome)) = bench.take_reconciled() {
            done.push(waiter);
            freed += outcome.freed;
        }
    }
    assert_eq!(done, (0..16).collect::<Vec<u64>>());
    assert_eq!(freed, (0..CALLS as u64).filter(|place| !place.is_multiple_of(3)).count() as u64);
    // A switch that carries nothing has nothing to wait for.
    bench.pool.forget_waiters();
    assert!(!bench.pool.needs_slices(&reconcile(b"sw", None, &[])));
    let begun = bench.pool.begin_in_slices(bench.now, &reconcile(b"nobody", None, &[b"a"]), || 1);
    assert!(begun.is_ok() && bench.pool.has_sliced());
    let (_, outcome) = bench.take_reconciled().unwrap();
    assert_eq!((outcome.kept, outcome.freed, outcome.unknown.len()), (0, 0, 1));
}

#[test]
fn slices_end_the_registrations_of_the_time_of_the_request() {
    let mut bench = Bench::of(&[]);
    let numbers: Vec<Number> = (0..NUMBERS).map(|place| n(&number(place))).collect();
    bench.ok(&Request::Add(&numbers));
    for (place, number) in numbers.iter().enumerate() {
        let switch: &[u8] = if place.is_multiple_of(3) { b"other" } else { b"sw" };
        let ttl = place.is_multiple_of(5).then_some(500);
        bench.ok(&Request::Reg { missing: false, numbers: &[*number], ttl, switch: Some(switch) });
    }
    (0..1000).for_each(|place| call(&mut bench, place, b"other"));
    bench.now += 1000;
    let is_up = |bench: &Bench, place: usize| bench.pool.state_of(numbers[place]).is_up();
    let mut expected: BTreeSet<usize> =
        (0..NUMBERS).filter(|place| !place.is_multiple_of(3) && !place.is_multiple_of(5)).collect();
    assert!(!bench.pool.needs_slices(&OfSwitch::Unreg(b"sw")));
    bench.pool.begin_in_slices(bench.now, &OfSwitch::Unreg(b"sw"), || 4).unwrap();
    let (mut ended, mut again, mut round) = (0, Vec::new(), 0);
    while !bench.pool.has_sliced() {
        assert!(bench.pool.next_due() <= Some(bench.now), "the timer goes on at once");
        ended += bench.slice().len();
        // Numbers are registered again in the same way, before and behind the place that was reached; and some leave.
        for place in [NUMBERS - 2 - 3 * round, round * 30 + 1] {
            let at_end = is_up(&bench, place);
            let request =
                Request::Reg { missing: false, numbers: &[numbers[place]], ttl: None, switch: Some(b"sw") };
            bench.ok(&request);
            again.push(place);
            if at_end {
                expected.remove(&place);
            }
        }
        let gone = NUMBERS - 1000 - 3 * round;
        if is_up(&bench, gone) && expected.remove(&gone) {
            bench.ok(&Request::Unreg { numbers: &[numbers[gone]], missing: false });
        }
        round += 1;
    }
    assert!(round > 10, "{round} slices");
    let Some((4, Reply::Integer(count))) = bench.pool.take_sliced() else { panic!("no count") };
    assert_eq!(count, ended as i64);
    assert_eq!(ended, expected.len());
    assert!(expected.iter().all(|place| again.contains(place) || !is_up(&bench, *place)));
    assert!(again.iter().all(|&place| is_up(&bench, place)), "registered after the request");
    let other_or_late = |place: &usize| place.is_multiple_of(3) || place.is_multiple_of(5);
    assert!(
        (0..NUMBERS).filter(other_or_late).all(|place| is_up(&bench, place)),
        "left to others and the timer"
    );
}
