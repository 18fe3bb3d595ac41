//! Caps against a list of all calls: a number begins a call exactly when its caps allow one, to the millisecond.

use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Cap, Changes, DAY, Days, Request};
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
    for list in
        [&[(-1, 1)][..], &[(-5, 1)], &[(DAY, 0)], &[(10, 0)], &[(10, 10_001)], &[(i64::MAX, 1)], &[(1, 1); 5]]
    {
        let refusal = decide(&bench.pool, bench.now, &Request::Configure(caps(list))).unwrap_err();
        assert_eq!(refusal.code, Code::Err, "{list:?}");
        let own = Request::Caps { number: n("1"), caps: &caps(list).caps.unwrap() };
        assert_eq!(decide(&bench.pool, bench.now, &own).unwrap_err().code, Code::Err, "{list:?}");
    }
    for days in [(-1, 5), (i64::MAX, 5), (0, 0), (0, -5), (0, i64::MAX)] {
        let days = Some(Days { start: days.0, length: days.1 });
        let changes = Request::Configure(Changes { days, ..Changes::default() });
        assert_eq!(decide(&bench.pool, bench.now, &changes).unwrap_err().code, Code::Err, "{days:?}");
    }
    let unknown = Request::Caps { number: n("2"), caps: &[] };
    assert_eq!(decide(&bench.pool, bench.now, &unknown).unwrap_err().code, Code::NotFound);
}

/// How many calls a number may begin in a row.
fn begun_in_a_row(bench: &mut Bench, number: &str) -> u32 {
    let (mut count, number) = (0, n(number));
    while ask(&mut bench.pool, bench.now, &Request::Call(Call { number: Some(number), ..any("row") })).is_ok()
    {
        count += 1;
        bench.ok(&Request::HangUp { number, lease: None, cooldown: None, cause: None });
        assert!(count < 100, "nothing ends the calls of {number}");
    }
    assert_eq!(bench.pool.check(), Ok(()));
    count
}

fn own_caps(bench: &mut Bench, number: &str, list: &[(i64, u32)]) {
    bench.ok(&Request::Caps { number: n(number), caps: &caps(list).caps.unwrap() });
}

#[test]
fn caps_of_a_number_hold_instead_of_those_of_the_pool() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.ok(&Request::Configure(caps(&[(1000, 4)])));
    own_caps(&mut bench, "1", &[(100, 1), (5000, 2)]);
    assert_eq!((begun_in_a_row(&mut bench, "1"), begun_in_a_row(&mut bench, "2")), (1, 4));
    bench.now += 100;
    assert_eq!((begun_in_a_row(&mut bench, "1"), begun_in_a_row(&mut bench, "2")), (1, 0));
    let record = bench.pool.number_record(n("1"), bench.now).unwrap();
    assert_eq!((record.limit_until, record.caps.len()), (Some(6000), 2));
    // With more calls allowed, the number is free at once; its earlier calls count.
    own_caps(&mut bench, "1", &[(5000, 5)]);
    assert_eq!(begun_in_a_row(&mut bench, "1"), 3);
    own_caps(&mut bench, "1", &[]);
    bench.now += 999;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 0, "the caps of the pool count four of its calls");
    bench.now += 1;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 4);
    // Deleted with its number.
    own_caps(&mut bench, "2", &[(100, 1)]);
    bench.ok(&Request::Del { numbers: &[n("2")], drain: false });
    bench.ok(&Request::Add(&[n("2")]));
    assert_eq!(bench.pool.number_record(n("2"), bench.now).unwrap().caps, []);
}

#[test]
fn only_numbers_with_caps_of_their_own_are_counted_in_a_pool_without_caps() {
    let mut bench = Bench::of(&["1", "2"]);
    own_caps(&mut bench, "1", &[(100, 2)]);
    assert_eq!(begun_in_a_row(&mut bench, "1"), 2);
    for _ in 0..5 {
        bench.ok(&Request::Call(Call { number: Some(n("2")), ..any("other") }));
        bench.ok(&Request::HangUp { number: n("2"), lease: None, cooldown: None, cause: None });
    }
    bench.ok(&Request::Configure(caps(&[(100, 1)])));
    assert_eq!((begun_in_a_row(&mut bench, "1"), begun_in_a_row(&mut bench, "2")), (0, 1));
    bench.ok(&Request::Configure(caps(&[])));
    assert_eq!(begun_in_a_row(&mut bench, "1"), 0, "its own caps go on");
    own_caps(&mut bench, "1", &[]);
    own_caps(&mut bench, "1", &[(100, 1)]);
    assert_eq!(begun_in_a_row(&mut bench, "1"), 1, "without caps nothing is counted");
}

#[test]
fn cap_of_the_day_counts_from_midnight_to_midnight() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Configure(Changes {
        days: Some(Days { start: 250, length: 1000 }),
        ..caps(&[(DAY, 2)])
    }));
    bench.now = 1200;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 2);
    assert_eq!(bench.pool.number_record(n("1"), 1200).unwrap().limit_until, Some(1250));
    bench.now = 1249;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 0);
    bench.now = 1250;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 2, "a day later the calls of the evening do not count");
    // The day begins 100 ms earlier, at 1150: the calls of the evening before are of the same day.
    bench.ok(&Request::Configure(Changes {
        days: Some(Days { start: 150, length: 1000 }),
        ..caps(&[(DAY, 3)])
    }));
    assert_eq!(begun_in_a_row(&mut bench, "1"), 0);
    // It begins later, at 1230.
    bench.ok(&Request::Configure(Changes {
        days: Some(Days { start: 5230, length: 1000 }),
        ..Changes::default()
    }));
    assert_eq!(begun_in_a_row(&mut bench, "1"), 1);
    assert_eq!(bench.pool.number_record(n("1"), 1250).unwrap().limit_until, Some(2230));
}

#[test]
fn caps_of_the_day_are_exact_on_a_day_of_25_hours() {
    let mut bench = Bench::of(&["1"]);
    let days = |start, length| {
        Request::Configure(Changes { days: Some(Days { start, length }), ..Changes::default() })
    };
    bench.ok(&days(0, 2400));
    bench.ok(&Request::Configure(caps(&[(DAY, 2)])));
    bench.now = 2400;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 2);
    bench.ok(&days(2400, 2500));
    bench.now = 4899;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 0, "in the last hour");
    assert_eq!(bench.pool.number_record(n("1"), 4899).unwrap().limit_until, Some(4900));
    bench.now = 4900;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 2);
    bench.now = 5900;
    bench.ok(&days(4900, 2400));
    assert_eq!(begun_in_a_row(&mut bench, "1"), 0);
    bench.now = 7300;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 2);
    // Only the next midnight is set: calls of the first hour of this day count no longer.
    bench.now = 7399;
    bench.ok(&days(9800, 2400));
    assert_eq!(begun_in_a_row(&mut bench, "1"), 0);
    bench.now = 7400;
    assert_eq!(begun_in_a_row(&mut bench, "1"), 2);
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
