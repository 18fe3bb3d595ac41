//! The last numbers of peers: who gets which number again, and what that costs.

use super::spec::{Bench, any, n};
use allot_core::numpool::request::{Call, Changes, Policy, Request};
use allot_core::numpool::{Pool, Reply, Settings, decide};
use allot_core::shared::machine::Machine;
use allot_core::shared::refusal::Code;

fn peers(peers: i64, peerttl: i64) -> Changes {
    let pick = Some(Policy::Sticky);
    Changes { peers: Some(peers), peerttl: Some(peerttl), pick, ..Changes::default() }
}

/// A pool that remembers so many peers.
fn bench(numbers: &[&str], room: i64, ttl: i64) -> Bench {
    let mut bench = Bench::of(numbers);
    bench.ok(&Request::Configure(peers(room, ttl)));
    bench
}

/// Calls a peer, and hangs up. Returns the number.
fn call(bench: &mut Bench, peer: &str) -> String {
    let call = Call { peer: Some(peer.as_bytes()), ..any("t") };
    let Reply::Lease(record) = bench.ok(&Request::Call(call)) else { panic!("no number is free") };
    let (number, lease, cooldown, cause) = (record.number, None, None, None);
    bench.ok(&Request::HangUp { number, lease, cooldown, cause });
    assert_eq!(bench.pool.check(), Ok(()));
    number.to_string()
}

fn calls(bench: &mut Bench, peers: &str) -> String {
    let numbers: Vec<String> = peers.chars().map(|peer| call(bench, &peer.to_string())).collect();
    numbers.join("")
}

#[test]
fn peers_see_their_number_again_each_time_it_is_free() {
    let mut bench = bench(&["1", "2"], 10, 0);
    assert_eq!(calls(&mut bench, "ABCABCCBA"), "121121121");
    // A number that is not free is replaced by another, which is then the last one.
    bench.ok(&Request::Call(Call { number: Some(n("1")), ..any("busy") }));
    assert_eq!(calls(&mut bench, "A"), "2");
    bench.ok(&Request::HangUp { number: n("1"), lease: None, cooldown: None, cause: None });
    assert_eq!(calls(&mut bench, "ACB"), "212");
}

#[test]
fn without_peers_each_number_remembers_its_last_peer_only() {
    let mut bench = bench(&["1", "2"], 0, 0);
    assert_eq!(calls(&mut bench, "ABCABC"), "121212");
    assert_eq!(bench.pool.known_peers(), 0);
}

#[test]
fn oldest_peer_is_forgotten_first() {
    let mut bench = bench(&["1", "2", "3"], 2, 0);
    assert_eq!(calls(&mut bench, "ABA"), "121");
    assert_eq!(calls(&mut bench, "C"), "3", "B is forgotten, whose last call is the oldest");
    assert_eq!(calls(&mut bench, "AC"), "13");
    assert_eq!(bench.pool.known_peers(), 2);
    // Less room is made by the calls that follow.
    bench.ok(&Request::Configure(peers(1, 0)));
    assert_eq!(bench.pool.known_peers(), 2);
    assert_eq!(calls(&mut bench, "C"), "3");
    assert_eq!(bench.pool.known_peers(), 1);
    bench.ok(&Request::Configure(peers(0, 0)));
    assert_eq!(bench.pool.known_peers(), 0);
}

#[test]
fn peer_is_forgotten_when_its_time_has_passed() {
    let mut bench = bench(&["1", "2"], 10, 100);
    assert_eq!(calls(&mut bench, "A"), "1");
    bench.now += 99;
    assert_eq!(calls(&mut bench, "AB"), "12");
    bench.now += 100;
    assert_eq!(calls(&mut bench, "A"), "1", "the longest waiting, which is that of A by chance");
    assert_eq!(calls(&mut bench, "B"), "2");
    bench.now += 100;
    assert_eq!(calls(&mut bench, "B"), "1", "the longest waiting");
    assert_eq!(bench.pool.known_peers(), 1, "A is forgotten as well");
}

#[test]
fn last_number_of_a_peer_is_chosen_only_within_the_prefix() {
    let mut bench = bench(&["11", "12", "21"], 10, 0);
    let mut of = |prefixes: &[_]| {
        let call = Call { peer: Some(b"A"), prefixes, ..any("t") };
        Machine::prepare(&mut bench.pool, &Request::Call(call));
        let Reply::Lease(record) = bench.ok(&Request::Call(call)) else { panic!("no number is free") };
        let (number, lease, cooldown, cause) = (record.number, None, None, None);
        bench.ok(&Request::HangUp { number, lease, cooldown, cause });
        number.to_string()
    };
    let (one, two) = ([n("1")], [n("2")]);
    assert_eq!(
        [of(&one), of(&one), of(&two), of(&one), of(&[]), of(&two)],
        ["11", "11", "21", "12", "12", "21"]
    );
}

#[test]
fn number_of_a_peer_is_chosen_before_those_of_an_earlier_prefix() {
    for room in [10, 0] {
        let mut bench = bench(&["301", "302", "401", "402"], room, 0);
        let mut of = |peer: &'static [u8], prefixes: &[_]| {
            let call = Call { peer: Some(peer), prefixes, ..any("t") };
            Machine::prepare(&mut bench.pool, &Request::Call(call));
            let Reply::Lease(record) = bench.ok(&Request::Call(call)) else { panic!("no number is free") };
            let (number, lease, cooldown, cause) = (record.number, None, None, None);
            bench.ok(&Request::HangUp { number, lease, cooldown, cause });
            number.to_string()
        };
        let (three, four) = (n("3"), n("4"));
        assert_eq!(of(b"ann", &[four]), "401");
        assert_eq!(of(b"ann", &[three, four]), "401", "{room}");
        assert_eq!(of(b"bob", &[three, four]), "301", "{room}");
        assert_eq!(of(b"ann", &[three]), "302", "{room}");
    }
}

#[test]
fn number_that_is_deleted_and_added_again_is_found_again() {
    let mut bench = bench(&["1", "2"], 10, 0);
    assert_eq!(calls(&mut bench, "AB"), "12");
    bench.ok(&Request::Del { numbers: &[n("1")], drain: false });
    assert_eq!(calls(&mut bench, "B"), "2");
    for number in ["3", "1"] {
        bench.ok(&Request::Add(&[n(number)]));
        bench.ok(&Request::Reg { numbers: &[n(number)], ttl: None, switch: None, missing: false });
    }
    assert_eq!(calls(&mut bench, "A"), "1");
}

#[test]
fn call_that_is_taken_back_is_forgotten_unless_another_followed() {
    let mut bench = bench(&["1", "2", "3"], 10, 0);
    let mut begin = |token: &'static str| {
        bench.ok(&Request::Call(Call { peer: Some(b"A"), ..any(token) }));
    };
    begin("first");
    begin("second");
    bench.ok(&Request::TakeBack { number: n("1"), lease: b"first" });
    assert_eq!(bench.pool.known_peers(), 1, "the second call has another number");
    bench.ok(&Request::TakeBack { number: n("2"), lease: b"second" });
    assert_eq!(bench.pool.known_peers(), 0);
}

#[test]
fn last_numbers_survive_a_snapshot_and_a_clock_that_is_set_back() {
    let mut bench = bench(&["1", "2"], 10, 100);
    assert_eq!(calls(&mut bench, "AB"), "12");
    let mut pool = Pool::decode(&bench.pool.encode()).unwrap();
    Machine::set_back(&mut pool, 500);
    let mut bench = Bench { pool, now: 599 };
    assert_eq!(calls(&mut bench, "BA"), "21");
}

#[test]
fn peer_takes_at_most_48_bytes() {
    const ROOM: usize = 200_000;
    let mut bench = bench(&["138"], ROOM as i64, 0);
    let before = bench.pool.allocated();
    for count in 1..=2 * ROOM {
        let peer = format!("+49170{count:07}");
        let call = Call { peer: Some(peer.as_bytes()), ..any("t") };
        for request in [
            Request::Call(call),
            Request::HangUp { number: n("138"), lease: None, cooldown: None, cause: None },
        ] {
            let decision = decide(&bench.pool, bench.now, &request).unwrap();
            decision.events.iter().for_each(|event| bench.pool.apply(bench.now, event));
        }
        if count.is_multiple_of(ROOM / 8) {
            let known = bench.pool.known_peers();
            assert_eq!(known, count.min(ROOM));
            let each = (bench.pool.allocated() - before) / known;
            assert!(each <= 48, "one of {known} peers takes {each} bytes");
        }
    }
    assert_eq!(bench.pool.check(), Ok(()));
}

#[test]
fn peers_out_of_range_are_refused() {
    let bench = Bench { pool: Pool::new(Settings::default(), 0), now: 1 };
    for (count, ttl) in [(-1, 0), (10_000_001, 0), (i64::MAX, 0), (5, -1), (5, i64::MAX)] {
        let refusal = decide(&bench.pool, bench.now, &Request::Configure(peers(count, ttl))).unwrap_err();
        assert_eq!(refusal.code, Code::Err, "{count}, {ttl}");
    }
}
