//! An event from elsewhere that `decide` would never have let through is refused.

use allot_core::numpool::event::{Cause, Numbers, Suspension};
use allot_core::numpool::request::{Call, Cap, Request};
use allot_core::numpool::{Event, Number, Pool, Settings, decide};
use allot_core::shared::token::TokenChoice;

fn numbers(texts: &[&str]) -> Numbers {
    texts.iter().map(|text| Number::parse(text.as_bytes()).unwrap()).collect()
}

fn ask(pool: &mut Pool, request: &Request<'_>) {
    for event in decide(pool, 1, request).unwrap().events {
        assert_eq!(pool.admits(&event), Ok(()));
        pool.apply(1, &event);
    }
}

/// `1` waits; `2` carries a call that does not end by itself; `3` carries one and goes after it; `4` is down.
fn sample_pool() -> Pool {
    let mut pool = Pool::new(Settings::default(), 0);
    ask(&mut pool, &Request::Add(&numbers(&["1", "2", "3", "4"])));
    ask(
        &mut pool,
        &Request::Reg { missing: false, numbers: &numbers(&["1", "2", "3"]), ttl: None, switch: None },
    );
    for text in ["2", "3"] {
        let lease = TokenChoice { token: text.as_bytes(), chosen: true };
        let (number, switch) = (numbers(&[text]).first().copied(), Some(&b"sw"[..]));
        let (ttl, peer, pick) = (None, None, None);
        ask(
            &mut pool,
            &Request::Call(Call {
                number,
                ttl,
                endless: false,
                holder: None,
                lease,
                switch,
                peer,
                prefixes: &[],
                pick,
                random: 0,
            }),
        );
    }
    ask(&mut pool, &Request::Del { numbers: &numbers(&["3"]), drain: true });
    pool
}

fn is_refused(event: &Event) -> bool {
    sample_pool().admits(event).is_err()
}

#[test]
fn registration_of_a_number_twice_is_refused() {
    let event =
        |texts: &[&str]| Event::Registered { numbers: numbers(texts), until: None, switch: None, uses: 0 };
    assert!(is_refused(&event(&["1", "1"])));
    assert!(!is_refused(&event(&["1", "4"])));
}

#[test]
fn draining_of_a_number_that_drains_is_refused() {
    assert!(is_refused(&Event::Draining(numbers(&["3"]))));
    assert!(!is_refused(&Event::Draining(numbers(&["2"]))));
}

#[test]
fn lapse_of_a_registration_without_end_is_refused() {
    assert!(is_refused(&Event::Lapsed(numbers(&["1"]))));
    assert!(!is_refused(&Event::Unregistered { numbers: numbers(&["1"]), switch: None }));
}

#[test]
fn expiry_of_a_lease_without_end_is_refused() {
    let event = |cause| Event::Ended {
        numbers: numbers(&["2"]),
        cool_until: None,
        cause,
        word: None,
        quarantine: None,
    };
    assert!(is_refused(&event(Cause::Expired)));
    assert!(!is_refused(&event(Cause::HungUp)));
}

#[test]
fn caps_of_an_unknown_number_are_refused() {
    let caps = |count| vec![Cap { window: 5, count }];
    assert!(is_refused(&Event::Capped { number: numbers(&["9"])[0], caps: caps(1) }));
    assert!(is_refused(&Event::Capped { number: numbers(&["4"])[0], caps: caps(0) }));
    assert!(!is_refused(&Event::Capped { number: numbers(&["4"])[0], caps: caps(1) }));
}

#[test]
fn end_of_a_suspension_that_is_not_there_is_refused() {
    let suspension = Suspension { cause: None, until: None };
    assert!(is_refused(&Event::Suspended { numbers: numbers(&["1", "9"]), suspension: suspension.clone() }));
    let resumed = |texts| Event::Resumed { numbers: numbers(texts), uses: 0 };
    let mut pool = sample_pool();
    pool.apply(1, &Event::Suspended { numbers: numbers(&["1"]), suspension });
    assert!(pool.admits(&resumed(&["1"])).is_ok());
    assert!(pool.admits(&resumed(&["1", "2"])).is_err());
}
