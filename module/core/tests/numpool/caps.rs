//! Caps against a list of all calls: a number begins a call exactly when its caps allow one, to the millisecond.

use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Cap, Changes, Request};
use allot_core::numpool::{Number, Pool, Reply, decide, decide_due};
use allot_core::shared::refusal::Code;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

fn caps(list: &[(i64, u32)]) -> Changes {
    let list: Vec<Cap> = list.iter().map(|&(window, count)| Cap { window, count }).collect();
    Changes { caps: Some(list), ..Changes::default() }
}

/// Decides a request after all deadlines that have passed.
fn ask(pool: &mut Pool, now: i64, request: &Request<'_>) -> Result<Reply, Code> {
    loop {
        let events = decide_due(pool, now, usize::MAX);
        if events.is_empty() {
            break;
        }
        events.iter().for_each(|event| pool.apply(now, event));
    }
    let decision = decide(pool, now, request).map_err(|refusal| refusal.code)?;
    decision.events.iter().for_each(|event| pool.apply(now, event));
    Ok(decision.reply)
}

/// How many random calls: a million in a soak.
fn calls() -> u32 {
    if std::env::var_os("ALLOT_SOAK").is_some() || std::env::var_os("ALLOT_MODEL_CASES").is_some() {
        1_000_000
    } else {
        100_000
    }
}

#[test]
fn caps_are_exact_to_the_millisecond() {
    let list = [(1_000, 3), (60_000, 40), (3_600_000, 900), (7, 1)];
    let texts: Vec<String> = (0..8).map(|number| format!("100{number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut bench = Bench::of(&texts);
    bench.ok(&Request::Configure(caps(&list)));
    let numbers: Vec<Number> = texts.iter().map(|text| n(text)).collect();
    let (mut pool, mut now) = (bench.pool, 1000);
    let mut starts: Vec<Vec<i64>> = vec![Vec::new(); numbers.len()];
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let (mut granted, mut refused) = (0, 0);
    for round in 0..calls() {
        now += [0, 0, 1, 2, 5, 100, 400][random.next_u32() as usize % 7];
        let at = random.next_u32() as usize % numbers.len();
        let allowed = |starts: &Vec<i64>| {
            list.iter().all(|&(window, count)| {
                starts.iter().rev().take_while(|&&start| now < start + window).count() < count as usize
            })
        };
        let token = round.to_string();
        let named = random.next_u32().is_multiple_of(2);
        let call = Call { number: named.then(|| numbers[at]), ..any(&token) };
        let got = ask(&mut pool, now, &Request::Call(call));
        let at = match got {
            Ok(Reply::Lease(record)) => {
                let at = numbers.iter().position(|number| *number == record.number).unwrap();
                assert!(allowed(&starts[at]), "{} was called at {now} in spite of its caps", record.number);
                at
            }
            Ok(Reply::None) => {
                assert!(!starts.iter().any(allowed), "a number could be called at {now}");
                refused += 1;
                continue;
            }
            Err(Code::Limit) => {
                assert!(!allowed(&starts[at]), "{} could be called at {now}", numbers[at]);
                refused += 1;
                continue;
            }
            other => panic!("{other:?}"),
        };
        granted += 1;
        starts[at].push(now);
        if starts[at].len() > 2000 {
            starts[at].drain(..1000);
        }
        ask(
            &mut pool,
            now,
            &Request::HangUp { number: numbers[at], lease: None, cooldown: None, cause: None },
        )
        .unwrap();
        if round % 1000 == 0 {
            assert_eq!(pool.check(), Ok(()));
        }
    }
    assert!(granted > calls() / 10 && refused > calls() / 10, "{granted} granted, {refused} refused");
}

#[test]
fn number_is_passed_over_until_its_oldest_call_leaves_the_window() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.ok(&Request::Configure(caps(&[(100, 1)])));
    let call = |bench: &mut Bench, token: &str, number: Option<&str>| {
        ask(&mut bench.pool, bench.now, &Request::Call(Call { number: number.map(n), ..any(token) }))
    };
    let hang_up = |bench: &mut Bench, number: &str| {
        bench.ok(&Request::HangUp { number: n(number), lease: None, cooldown: None, cause: None });
    };
    assert!(matches!(call(&mut bench, "a", Some("1")), Ok(Reply::Lease(_))));
    hang_up(&mut bench, "1");
    assert_eq!(bench.pool.totals().limited, 1);
    assert_eq!(bench.pool.number_record(n("1"), bench.now).unwrap().limit_until, Some(1100));
    assert_eq!(call(&mut bench, "b", Some("1")), Err(Code::Limit));
    bench.now = 1099;
    assert_eq!(call(&mut bench, "b", Some("1")), Err(Code::Limit));
    bench.now = 1100;
    assert!(matches!(call(&mut bench, "b", Some("1")), Ok(Reply::Lease(_))));
    hang_up(&mut bench, "1");
    bench.ok(&Request::Configure(caps(&[])));
    assert_eq!(bench.pool.totals().limited, 0, "without caps it is free at once");
    assert!(matches!(call(&mut bench, "c", Some("1")), Ok(Reply::Lease(_))));
}

#[test]
fn caps_out_of_range_are_refused() {
    let bench = Bench::of(&["1"]);
    for list in [&[(0, 1)][..], &[(-5, 1)], &[(10, 0)], &[(10, 10_001)], &[(i64::MAX, 1)], &[(1, 1); 5]] {
        let refusal = decide(&bench.pool, bench.now, &Request::Configure(caps(list))).unwrap_err();
        assert_eq!(refusal.code, Code::Err, "{list:?}");
    }
}

#[test]
fn memory_of_caps_follows_the_traffic() {
    let texts: Vec<String> = (0..20_000).map(|number| format!("138{number:05}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut bench = Bench::of(&texts);
    let before = bench.pool.allocated();
    bench.ok(&Request::Configure(caps(&[(10, 5)])));
    assert_eq!(bench.pool.allocated(), before, "numbers without calls cost nothing");
    for (round, text) in texts.iter().enumerate() {
        bench.now = 1000 + round as i64;
        bench.ok(&Request::Call(Call { number: Some(n(text)), ..any(text) }));
        bench.ok(&Request::HangUp { number: n(text), lease: None, cooldown: None, cause: None });
    }
    let grown = bench.pool.allocated() - before;
    assert!(grown < 400_000, "20,000 numbers with old calls take {grown} bytes");
    assert_eq!(bench.pool.check(), Ok(()));
}
