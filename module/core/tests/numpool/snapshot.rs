//! The bytes of a snapshot, which are kept for good: all later versions read what this one has written.

use super::hex::lines;
use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Cap, Changes, DAY, Days, Policy, Request, Rule};
use allot_core::numpool::{Number, Pool};

const SNAPSHOT: &str = include_str!("snapshot.hex");

/// A pool in which every part of a snapshot has something.
fn sample_pool() -> Pool {
    let mut bench = Bench::of(&["1001", "1002", "1003", "1004", "1005"]);
    bench.ok(&Request::Configure(Changes {
        lease: Some(60_000),
        cooldown: Some(5000),
        regttl: Some(3_600_000),
        pick: Some(Policy::LeastUsed),
        events: None,
        caps: Some(vec![Cap { window: 1000, count: 2 }, Cap { window: 60_000, count: 9 }]),
        rate: Some(Cap { window: 1000, count: 50 }),
        peers: Some(1000),
        peerttl: Some(60_000),
        days: Some(Days { start: 1_795_215_600_000, length: 86_400_000 }),
    }));
    let rule = Rule { cooldown: 86_400_000, after: 2, within: 3_600_000 };
    bench.ok(&Request::Cause { word: b"spam", rule });
    let long: Number = n("+4930901820901820901820901820");
    bench.ok(&Request::Add(&[long, n("1006")]));
    bench.ok(&Request::Reg { missing: false, numbers: &[long], ttl: None, switch: Some(b"sw2") });
    let call = |bench: &mut Bench, number, token| {
        let number = Some(n(number));
        bench.ok(&Request::Call(Call { number, peer: Some(b"5550100"), ..any(token) }));
    };
    let hang_up = |bench: &mut Bench, number, cause: &'static [u8]| {
        let (lease, cooldown) = (None, Some(0));
        bench.ok(&Request::HangUp { number: n(number), lease, cooldown, cause: Some(cause) });
    };
    for token in ["a", "b"] {
        call(&mut bench, "1001", token);
        hang_up(&mut bench, "1001", b"spam");
        call(&mut bench, "1002", token);
        hang_up(&mut bench, "1002", b"busy");
    }
    for number in ["1003", "1004", "1005"] {
        call(&mut bench, number, number);
    }
    bench.ok(&Request::Call(Call { number: Some(long), holder: Some(b"realm"), ..any("held") }));
    let caps = [Cap { window: DAY, count: 40 }, Cap { window: 5000, count: 1 }];
    bench.ok(&Request::Caps { number: n("1002"), caps: &caps });
    bench.ok(&Request::Beat { switch: b"sw", ttl: 10_000 });
    bench.ok(&Request::Suspend { numbers: &[n("1003")], cause: None, ttl: None, missing: false });
    bench.ok(&Request::Configure(Changes { events: Some(100), ..Changes::default() }));
    bench.ok(&Request::HangUp { number: n("1005"), lease: None, cooldown: None, cause: None });
    bench.ok(&Request::Del { numbers: &[n("1004")], drain: true });
    bench.ok(&Request::Del { numbers: &[n("1006")], drain: false });
    bench.pool
}

#[test]
fn snapshot_is_read_as_it_was_written_and_not_in_part() {
    let mut bytes = sample_pool().encode();
    let pool = Pool::decode(&bytes).unwrap();
    assert_eq!((pool.check(), pool.encode() == bytes), (Ok(()), true));
    for length in 0..bytes.len() {
        assert!(Pool::decode(&bytes[..length]).is_err(), "a snapshot that ends after {length} bytes");
    }
    bytes[0] += 1;
    assert!(Pool::decode(&bytes).is_err(), "a version of the future");
}

#[test]
fn snapshot_keeps_its_bytes() {
    assert_eq!(lines(&sample_pool().encode()), SNAPSHOT);
}
