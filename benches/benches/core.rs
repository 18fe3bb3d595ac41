//! The core alone, without a server: the time of a decision and its event in shows of three sizes that are 95 %
//! sold and fragmented, and the time of a hangup that serves a waiting call.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "a bench stops where it finds something wrong"
)]

use allot_core::numpool::{self, Number, Pool, Settings};
use allot_core::seat::decide::several::{At, Several, decide_in_all};
use allot_core::seat::plan::{Limits, Plan, PlanArea, PlanRow, PlanSeat, PlanSeats, Rule};
use allot_core::seat::request::{Adjacent, Hold, Orphans, Pick, Request, Wait, Wish};
use allot_core::seat::state::SeatState;
use allot_core::seat::{Reply, Show, decide};
use allot_core::shared::machine::FollowUp;
use allot_core::shared::token::TokenChoice;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::{Duration, Instant};

fn plan(seats: usize) -> Plan {
    let rows = seats / 50;
    let areas = rows.div_ceil(500).max(2);
    let area = |number: usize| PlanArea {
        standing: None,
        tier: None,
        id: format!("a{number}"),
        name: None,
        priority: number as i32,
        rule: Rule::Center,
        focus: None,
        rows: (0..rows / areas)
            .map(|row| PlanRow {
                label: row.to_string(),
                rank: row as i32,
                tier: Some(if number < areas / 2 { "gold" } else { "silver" }.into()),
                at: None,
                step: None,
                points: None,
                seats: PlanSeats::Short("1-50".into()),
            })
            .collect(),
    };
    let limits = Limits { holds_per_user: 0, ..Limits::default() };
    Plan { areas: (0..areas).map(area).collect(), limits, events: 0, focus: None }
}

/// The same plan with its rows behind each other.
fn with_places(mut plan: Plan) -> Plan {
    for row in plan.areas.iter_mut().flat_map(|area| &mut area.rows) {
        (row.at, row.step) = (Some([0.0, 2.0 * row.rank as f32]), Some([1.0, 0.0]));
    }
    plan
}

/// The same plan with its rows behind each other, and seats taken by nearness to a point before the first.
fn with_focus(plan: Plan) -> Plan {
    let mut plan = with_places(plan);
    plan.focus = Some([24.5, -10.0]);
    plan.areas.iter_mut().for_each(|area| area.rule = Rule::Focus);
    plan
}

/// Decides a request and applies its events.
fn ask(show: &mut Show, request: &Request<'_>) -> Reply {
    let decision = decide(show, 1, request).expect("the request is granted");
    for event in &decision.events {
        show.apply(1, event);
    }
    decision.reply
}

/// Sells all seats except scattered groups of one to four seats, 5 % in all. The seat after a group is sold.
fn sell_most(show: &mut Show) {
    let mut random = 88_172_645_463_325_252_u64;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    for row in show.venue().rows() {
        let ids: Vec<String> = show.venue().seats_of(row).map(|seat| show.venue().id(seat)).collect();
        let mut left = 0;
        for id in &ids {
            if left == 0 && below(50) == 0 {
                left = 2 + below(4);
            }
            left = left.saturating_sub(1);
            if left == 0 {
                sell(show, id);
            }
        }
    }
}

fn sell(show: &mut Show, id: &str) {
    let token = TokenChoice { token: id.as_bytes(), chosen: false };
    let seats = vec![id.as_bytes()];
    ask(
        show,
        &Request::Pick(Pick {
            user: b"house",
            ttl: 1000,
            token,
            orphans: None,
            from: None,
            seats,
            exchange: vec![],
        }),
    );
    ask(show, &Request::Confirm { token: id.as_bytes(), user: None, order: None });
}

/// Sells all seats of an area but one, and returns that one.
fn sell_all_but_one(show: &mut Show, area: &str) -> String {
    let venue = show.venue();
    let rows = venue.area(venue.area_called(area.as_bytes()).expect("the area is there")).rows.clone();
    let seats = rows.flat_map(|row| venue.seats_of(row)).filter(|&seat| show.state(seat) == SeatState::Free);
    let mut free: Vec<String> = seats.map(|seat| venue.id(seat)).collect();
    let kept = free.pop().expect("a seat is free");
    free.iter().for_each(|id| sell(show, id));
    kept
}

/// A wish with the defaults of `SEAT.HOLD`.
fn wish_of<'a>(user: &'a [u8], count: u32, token: TokenChoice<'a>) -> Hold<'a> {
    Hold {
        user,
        ttl: 3_600_000,
        replace: None,
        exchange: vec![],
        token,
        wish: Wish {
            count,
            tier: None,
            areas: vec![],
            adjacent: Adjacent::Prefer,
            orphans: Orphans::Avoid,
            flags: vec![],
            needs: vec![],
            preferred: vec![],
            from: None,
        },
    }
}

fn hold<'a>(user: &'a [u8], token: &'a [u8]) -> Request<'a> {
    hold_of(2, Adjacent::Prefer, user, token)
}

fn hold_of<'a>(count: u32, adjacent: Adjacent, user: &'a [u8], token: &'a [u8]) -> Request<'a> {
    let token = TokenChoice { token, chosen: false };
    Request::Hold(Hold {
        wish: Wish { tier: Some(b"gold"), adjacent, ..wish_of(user, count, token).wish },
        ..wish_of(user, count, token)
    })
}

fn seats(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("seat");
    for size in [1000, 100_000, 1_000_000] {
        let mut show = Show::new(&plan(size), 0).expect("a plan");
        sell_most(&mut show);
        group.bench_with_input(BenchmarkId::new("decide hold of 2", size), &(), |bench, ()| {
            bench.iter(|| decide(black_box(&show), 1, &hold(b"user", b"token")));
        });
        let mut by_focus = Show::new(&with_focus(plan(size)), 0).expect("a plan");
        sell_most(&mut by_focus);
        group.bench_with_input(BenchmarkId::new("decide hold of 2 by focus", size), &(), |bench, ()| {
            bench.iter(|| decide(black_box(&by_focus), 1, &hold(b"user", b"token")));
        });
        let mut placed = Show::new(&with_places(plan(size)), 0).expect("a plan");
        sell_most(&mut placed);
        for (hall, show) in [("", &show), (" with places", &placed), (" by focus", &by_focus)] {
            let together = hold_of(10, Adjacent::Require, b"user", b"token");
            assert!(decide(show, 1, &together).is_err(), "the party does not split");
            let party = hold_of(10, Adjacent::Prefer, b"user", b"token");
            let name = format!("decide hold of 10 that splits{hall}");
            group.bench_with_input(BenchmarkId::new(name, size), &(), |bench, ()| {
                bench.iter(|| decide(black_box(show), 1, &party));
            });
        }
        group.bench_with_input(BenchmarkId::new("hold 2 and release", size), &(), |bench, ()| {
            bench.iter(|| {
                ask(&mut show, &hold(b"user", b"token"));
                ask(&mut show, &Request::Release { token: b"token", seats: None, into: None });
            });
        });
    }
    let show = Show::new(&plan(1_000_000), 0).expect("a plan");
    group.sample_size(10);
    group.bench_function("encode 1000000 seats", |bench| bench.iter(|| black_box(&show).encode()));
    let bytes = show.encode();
    group.bench_function("decode 1000000 seats", |bench| bench.iter(|| Show::decode(black_box(&bytes))));
    group.finish();
}

/// Decides a hold of 2 in so many shows of a plan, of which most seats are sold, other ones in each.
fn several(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("seat/decide hold of 2");
    for (size, count) in [(1000, 20), (1200, 60), (1_000_000, 2)] {
        let first = Show::new(&plan(size), 0).expect("a plan");
        let mut shows = vec![first; count];
        for (number, show) in shows.iter_mut().enumerate() {
            let ids: Vec<String> = show
                .venue()
                .rows()
                .flat_map(|row| show.venue().seats_of(row))
                .map(|seat| show.venue().id(seat))
                .collect();
            ids.iter().skip(number % 7).step_by(7).for_each(|id| sell(show, id));
        }
        let at: Vec<At<'_>> = shows.iter().map(|show| At { show, now: 1 }).collect();
        let ([first, also @ ..], Some((last, before))) = (&at[..], at.split_last()) else { continue };
        group.bench_function(format!("in one show of {size} seats"), |bench| {
            bench.iter(|| decide(black_box(first.show), 1, &hold(b"user", b"token")));
        });
        let all = Several { first: *first, also, beside: &[] };
        group.bench_function(format!("in {count} shows of {size} seats"), |bench| {
            bench.iter(|| decide_in_all(black_box(&all), &hold(b"user", b"token")));
        });
        let (also, beside) = (before.get(1..).unwrap_or_default(), [last.show]);
        let all = Several { first: *first, also, beside: &beside };
        group.bench_function(format!("in {} shows of {size} seats beside another", count - 1), |bench| {
            bench.iter(|| decide_in_all(black_box(&all), &hold(b"user", b"token")));
        });
    }
    group.finish();
}

/// Prints the memory of ids of six digits that all seats of a show have of their own.
fn print_memory_of_own_ids() {
    const SEATS: usize = 100_000;
    let without = plan(SEATS);
    let mut with = without.clone();
    let mut number = 900_000;
    for row in with.areas.iter_mut().flat_map(|area| &mut area.rows) {
        let seats = (1..=50).map(|label| {
            number += 1;
            let (label, id) = (label.to_string(), Some(number.to_string()));
            Some(PlanSeat { label, id, tier: None, flags: vec![] })
        });
        row.seats = PlanSeats::List(seats.collect());
    }
    let allocated = |plan: &Plan| Show::new(plan, 0).expect("a plan").allocated();
    let bytes = allocated(&with) - allocated(&without);
    println!("{:.1} bytes for each own id of 6 digits", bytes as f64 / SEATS as f64);
}

/// Lets `waiters` users wait for twenty to twenty-nine seats side by side, which no row has: 50 different wishes.
fn fill_waiting_list(show: &mut Show, waiters: usize) {
    for number in 0..waiters {
        let user = format!("user{number}");
        let token = TokenChoice { token: user.as_bytes(), chosen: true };
        let mut hold = wish_of(user.as_bytes(), 20 + (number % 10) as u32, token);
        let wish = &mut hold.wish;
        wish.tier = Some(b"gold");
        wish.adjacent = Adjacent::Require;
        match number / 10 % 5 {
            0 => {}
            1 => wish.tier = Some(b"silver"),
            2 => wish.tier = None,
            3 => wish.areas = vec![b"a0"],
            _ => {
                wish.areas = vec![b"a1", b"a2"];
                wish.tier = None;
            }
        }
        ask(show, &Request::Wait(Wait { hold, offer: 60_000, priority: 0 }));
    }
    assert_eq!(show.waiters().queues(), 50);
    assert_eq!(show.waiters().len(), waiters);
}

/// Frees a seat, and serves the waiting list.
fn free_a_seat(show: &mut Show, seat: &[u8]) {
    ask(show, &Request::Unblock(vec![seat]));
    loop {
        match show.follow_up(1) {
            FollowUp::Event(event) => show.apply(1, &event),
            FollowUp::Continue => {}
            FollowUp::Done => return,
        }
    }
}

fn waiting(criterion: &mut Criterion) {
    const WAITERS: usize = 100_000;
    let mut show = Show::new(&plan(100_000), 0).expect("a plan");
    sell_most(&mut show);
    let seat = sell_all_but_one(&mut show, "a3");
    fill_waiting_list(&mut show, WAITERS);
    println!("{} bytes for each waiter", show.waiters().allocated() / WAITERS);
    print_memory_of_own_ids();
    criterion.bench_function("seat/free a seat with 100000 waiters in 50 queues", |bench| {
        bench.iter_custom(|times| {
            let mut taken = Duration::ZERO;
            for _ in 0..times {
                ask(
                    &mut show,
                    &Request::Block { name: None, until: None, per_user: None, seats: vec![seat.as_bytes()] },
                );
                let start = Instant::now();
                free_a_seat(&mut show, seat.as_bytes());
                taken += start.elapsed();
            }
            taken
        });
    });
    let last = TokenChoice { token: b"last", chosen: true };
    let mut hold = wish_of(b"last", 1, last);
    hold.wish.areas = vec![b"a3"];
    let wait = Request::Wait(Wait { hold, offer: 60_000, priority: 0 });
    criterion.bench_function("seat/offer a freed seat to one of 100001 waiters in 51 queues", |bench| {
        bench.iter_custom(|times| {
            let mut taken = Duration::ZERO;
            for _ in 0..times {
                ask(
                    &mut show,
                    &Request::Block { name: None, until: None, per_user: None, seats: vec![seat.as_bytes()] },
                );
                assert!(matches!(ask(&mut show, &wait), Reply::Wait(record) if !record.offered));
                let start = Instant::now();
                free_a_seat(&mut show, seat.as_bytes());
                taken += start.elapsed();
                assert_eq!(show.waiters().len(), WAITERS);
                ask(&mut show, &Request::Release { token: b"last", seats: None, into: None });
            }
            taken
        });
    });
}

fn ask_pool(pool: &mut Pool, request: &numpool::Request<'_>) {
    let decision = numpool::decide(pool, 1, request).expect("the request is granted");
    decision.events.iter().for_each(|event| pool.apply(1, event));
}

fn call(token: &[u8]) -> numpool::request::Call<'_> {
    numpool::request::Call {
        number: None,
        ttl: None,
        endless: false,
        holder: None,
        lease: TokenChoice { token, chosen: true },
        switch: None,
        peer: None,
        prefixes: &[],
        pick: None,
        random: 0,
    }
}

/// A hangup and the grant that follows from it. Before each, another call begins to wait.
fn hangups(criterion: &mut Criterion) {
    let numbers: Vec<Number> =
        (0..100).filter_map(|number| Number::parse(format!("138{number:08}").as_bytes())).collect();
    for waiting in [1, 10_000] {
        let mut pool = Pool::new(Settings::default(), 0);
        ask_pool(&mut pool, &numpool::Request::Add(&numbers));
        ask_pool(
            &mut pool,
            &numpool::Request::Reg { missing: false, numbers: &numbers, ttl: None, switch: None },
        );
        for number in &numbers {
            ask_pool(&mut pool, &numpool::Request::Call(call(number.to_string().as_bytes())));
        }
        let mut arrived = 0;
        let mut wait = |pool: &mut Pool| {
            arrived += 1;
            pool.wait(arrived, &call(&u64::to_le_bytes(arrived)), (arrived % 3) as i32);
        };
        (1..waiting).for_each(|_| wait(&mut pool));
        let mut hangup = |times: u64| {
            let mut taken = Duration::ZERO;
            for &number in numbers.iter().cycle().take(times as usize) {
                wait(&mut pool);
                let start = Instant::now();
                let request = numpool::Request::HangUp { number, lease: None, cooldown: None, cause: None };
                ask_pool(&mut pool, &request);
                while let Some(grant) = pool.next_grant(1, 0, |_| true) {
                    let events = grant.outcome.expect("a number is free").events;
                    events.iter().for_each(|event| pool.apply(1, event));
                }
                taken += start.elapsed();
                assert_eq!(pool.waiting_calls() as u64, waiting - 1);
            }
            taken
        };
        criterion.bench_function(&format!("numpool/hangup with {waiting} waiting"), |bench| {
            bench.iter_custom(&mut hangup);
        });
    }
}

criterion_group!(benches, seats, several, waiting, hangups);
criterion_main!(benches);
