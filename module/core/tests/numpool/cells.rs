//! All thirty cells of the table, each by name: what the state becomes, what is replied, who waits, who has a lease.

use allot_core::numpool::cells::State::{self, BusyDown, BusyUp, IdleDown, IdleUp, NoData};
use allot_core::numpool::request::{Call, Request};
use allot_core::numpool::{Number, Pool, Reply, Settings, decide};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;

type Outcome = Result<Reply, Code>;

fn number() -> Number {
    Number::parse(b"13800138000").unwrap()
}

fn ask(pool: &mut Pool, request: &Request<'_>) -> Outcome {
    let decision = decide(pool, 1, request).map_err(|refusal| refusal.code)?;
    decision.events.iter().for_each(|event| pool.apply(1, event));
    Ok(decision.reply)
}

fn add(pool: &mut Pool) -> Outcome {
    ask(pool, &Request::Add(&[number()]))
}

fn del(pool: &mut Pool) -> Outcome {
    ask(pool, &Request::Del { numbers: &[number()], drain: false })
}

fn reg(pool: &mut Pool) -> Outcome {
    ask(pool, &Request::Reg { missing: false, numbers: &[number()], ttl: None, switch: None })
}

fn unreg(pool: &mut Pool) -> Outcome {
    ask(pool, &Request::Unreg { numbers: &[number()], missing: false })
}

fn call(pool: &mut Pool) -> Outcome {
    let token = format!("call-{}", pool.live_leases());
    let lease = TokenChoice { token: token.as_bytes(), chosen: true };
    let (number, ttl, switch, peer, pick) = (Some(number()), None, None, None, None);
    let outcome = ask(
        pool,
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
    )?;
    // What matters here is that there is one.
    assert!(matches!(outcome, Reply::Lease(_)));
    Ok(Reply::Ok)
}

fn hangup(pool: &mut Pool) -> Outcome {
    ask(pool, &Request::HangUp { number: number(), lease: None, cooldown: None, cause: None })
}

fn pool_in(state: State) -> Pool {
    let mut pool = Pool::new(Settings::default(), 0);
    let way: &[fn(&mut Pool) -> Outcome] = match state {
        NoData => &[],
        IdleDown => &[add],
        IdleUp => &[add, reg],
        BusyUp => &[add, reg, call],
        BusyDown => &[add, reg, call, unreg],
    };
    for step in way {
        step(&mut pool).unwrap();
    }
    assert_eq!(pool.state_of(number()), state);
    pool
}

fn cell(state: State, event: fn(&mut Pool) -> Outcome, next: State, reply: &Outcome) {
    let mut pool = pool_in(state);
    let before = pool.encode();
    assert_eq!(event(&mut pool), *reply);
    assert_eq!(pool.state_of(number()), next);
    assert_eq!(pool.waiting().count(), usize::from(next == IdleUp), "who waits");
    assert_eq!(pool.live_leases(), usize::from(next.is_busy()), "live leases");
    assert_eq!(pool.encode() == before, state == next, "a cell that changes nothing changes nothing");
}

macro_rules! cells {
    ($($name:ident: $state:ident, $event:ident => $next:ident, $reply:expr;)*) => {
        $(#[test] fn $name() { cell($state, $event, $next, &$reply); })*
    };
}

const ONE: Outcome = Ok(Reply::Integer(1));
const ZERO: Outcome = Ok(Reply::Integer(0));
const GRANTED: Outcome = Ok(Reply::Ok);
const NOT_FOUND: Outcome = Err(Code::NotFound);
const BAD_STATE: Outcome = Err(Code::BadState);

cells! {
    nodata_and_add: NoData, add => IdleDown, ONE;
    nodata_and_del: NoData, del => NoData, ZERO;
    nodata_and_reg: NoData, reg => NoData, NOT_FOUND;
    nodata_and_unreg: NoData, unreg => NoData, NOT_FOUND;
    nodata_and_call: NoData, call => NoData, NOT_FOUND;
    nodata_and_hangup: NoData, hangup => NoData, NOT_FOUND;

    idle_up_and_add: IdleUp, add => IdleUp, ZERO;
    idle_up_and_del: IdleUp, del => NoData, ONE;
    idle_up_and_reg: IdleUp, reg => IdleUp, ZERO;
    idle_up_and_unreg: IdleUp, unreg => IdleDown, ONE;
    idle_up_and_call: IdleUp, call => BusyUp, GRANTED;
    idle_up_and_hangup: IdleUp, hangup => IdleUp, BAD_STATE;

    idle_down_and_add: IdleDown, add => IdleDown, ZERO;
    idle_down_and_del: IdleDown, del => NoData, ONE;
    idle_down_and_reg: IdleDown, reg => IdleUp, ONE;
    idle_down_and_unreg: IdleDown, unreg => IdleDown, ZERO;
    idle_down_and_call: IdleDown, call => IdleDown, BAD_STATE;
    idle_down_and_hangup: IdleDown, hangup => IdleDown, BAD_STATE;

    busy_up_and_add: BusyUp, add => BusyUp, ZERO;
    busy_up_and_del: BusyUp, del => NoData, ONE;
    busy_up_and_reg: BusyUp, reg => BusyUp, ZERO;
    busy_up_and_unreg: BusyUp, unreg => BusyDown, ONE;
    busy_up_and_call: BusyUp, call => BusyUp, BAD_STATE;
    busy_up_and_hangup: BusyUp, hangup => IdleUp, ONE;

    busy_down_and_add: BusyDown, add => BusyDown, ZERO;
    busy_down_and_del: BusyDown, del => NoData, ONE;
    busy_down_and_reg: BusyDown, reg => BusyUp, ONE;
    busy_down_and_unreg: BusyDown, unreg => BusyDown, ZERO;
    busy_down_and_call: BusyDown, call => BusyDown, BAD_STATE;
    busy_down_and_hangup: BusyDown, hangup => IdleDown, ONE;
}
