//! Sentences of docs/numbers.md, one test each.

use allot_core::numpool::outcome::Listed;
use allot_core::numpool::read::Totals;
use allot_core::numpool::request::{Call, Changes, OfSwitch, Policy, Request};
use allot_core::numpool::{Number, Pool, Reply, Settings, decide, decide_due};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;

pub(super) struct Bench {
    pub(super) pool: Pool,
    pub(super) now: i64,
}

pub(super) fn n(text: &str) -> Number {
    Number::parse(text.as_bytes()).unwrap()
}

pub(super) fn any(token: &str) -> Call<'_> {
    Call {
        number: None,
        ttl: None,
        endless: false,
        holder: None,
        lease: TokenChoice { token: token.as_bytes(), chosen: true },
        switch: None,
        peer: None,
        prefixes: &[],
        pick: None,
        random: 0,
    }
}

impl Bench {
    /// A pool of these numbers, all registered by `sw`, in this order.
    pub(super) fn of(numbers: &[&str]) -> Self {
        let mut bench = Self { pool: Pool::new(Settings::default(), 0), now: 1000 };
        let numbers: Vec<Number> = numbers.iter().map(|number| n(number)).collect();
        bench.ok(&Request::Add(&numbers));
        bench.ok(&Request::Reg { missing: false, numbers: &numbers, ttl: None, switch: Some(b"sw") });
        bench
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Code> {
        let decision = decide(&self.pool, self.now, request).map_err(|refusal| refusal.code)?;
        decision.events.iter().for_each(|event| self.pool.apply(self.now, event));
        Ok(decision.reply)
    }

    pub(super) fn ok(&mut self, request: &Request<'_>) -> Reply {
        self.ask(request).unwrap()
    }

    fn call(&mut self, call: Call<'_>) -> Result<String, Code> {
        self.pool.sort_at_once(call.pick, !call.prefixes.is_empty());
        Ok(match self.ask(&Request::Call(call))? {
            Reply::Lease(record) => record.number.to_string(),
            Reply::None => "none".into(),
            other => panic!("{other:?}"),
        })
    }

    fn hangup(&mut self, number: &str, lease: Option<&str>) -> Result<i64, Code> {
        let lease = lease.map(str::as_bytes);
        match self.ask(&Request::HangUp { number: n(number), lease, cooldown: None, cause: None })? {
            Reply::Integer(value) => Ok(value),
            other => panic!("{other:?}"),
        }
    }

    fn configure(&mut self, changes: Changes) {
        self.ok(&Request::Configure(changes));
    }

    pub(super) fn at(&mut self, now: i64) -> &mut Self {
        self.now = now;
        for event in decide_due(&self.pool, now, usize::MAX) {
            self.pool.apply(now, &event);
        }
        self
    }

    fn waiting(&self) -> Vec<String> {
        self.pool.waiting().map(|number| number.to_string()).collect()
    }

    fn state(&self, number: &str) -> &'static str {
        self.pool.state_of(n(number)).word()
    }
}

#[test]
fn call_without_a_number_takes_the_head_of_the_queue() {
    let mut bench = Bench::of(&["1", "2"]);
    assert_eq!(bench.call(any("a")).unwrap(), "1");
    assert_eq!(bench.call(any("b")).unwrap(), "2");
    assert_eq!(bench.call(any("c")).unwrap(), "none");
    bench.hangup("2", None).unwrap();
    bench.hangup("1", None).unwrap();
    assert_eq!(bench.waiting(), ["2", "1"]);
}

#[test]
fn a_live_lease_gets_the_same_record_again_deadline_unchanged() {
    let mut bench = Bench::of(&["1", "2"]);
    let call = Call { ttl: Some(50), ..any("a") };
    let first = bench.ok(&Request::Call(call));
    bench.at(1010);
    assert_eq!(bench.ok(&Request::Call(Call { ttl: Some(90), ..call })), first);
    assert_eq!(bench.call(Call { number: Some(n("2")), ..any("a") }), Err(Code::Exists));
    assert_eq!(bench.call(Call { number: Some(n("1")), ..any("a") }).unwrap(), "1");
}

#[test]
fn a_token_may_be_used_again_when_its_lease_is_over() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.call(any("a")).unwrap();
    bench.hangup("1", Some("a")).unwrap();
    assert_eq!(bench.call(any("a")).unwrap(), "2");
    assert_eq!(bench.hangup("1", Some("a")), Ok(0), "it is live, but not on this number");
    assert_eq!(bench.state("2"), "busy+up");
}

#[test]
fn a_late_hangup_of_an_older_call_cannot_touch_the_next_one() {
    let mut bench = Bench::of(&["1"]);
    bench.call(any("a")).unwrap();
    assert_eq!(bench.hangup("1", Some("a")), Ok(1));
    assert_eq!(bench.hangup("1", Some("a")), Ok(0));
    bench.call(any("b")).unwrap();
    assert_eq!(bench.hangup("1", Some("a")), Ok(0));
    assert_eq!(bench.state("1"), "busy+up");
    bench.ok(&Request::Del { numbers: &[n("1")], drain: false });
    assert_eq!(bench.hangup("1", Some("b")), Ok(0), "the number is deleted");
}

#[test]
fn at_its_deadline_a_lease_hangs_up_by_itself() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.configure(Changes { lease: Some(50), ..Changes::default() });
    bench.call(any("a")).unwrap();
    bench.call(Call { ttl: Some(20), ..any("b") }).unwrap();
    assert_eq!(bench.at(1019).state("2"), "busy+up");
    assert_eq!(bench.at(1020).state("2"), "idle+up");
    assert_eq!(bench.at(1050).waiting(), ["2", "1"]);
    assert_eq!(bench.pool.number_record(n("1"), 1050).unwrap().idle_since, Some(1050));
}

#[test]
fn renew_gives_the_live_lease_another_deadline() {
    let mut bench = Bench::of(&["1"]);
    bench.call(Call { ttl: Some(50), ..any("a") }).unwrap();
    let renew = |lease| Request::Renew { number: n("1"), lease, ttl: 100 };
    assert_eq!(bench.at(1040).ask(&renew(b"a")), Ok(Reply::Integer(1140)));
    assert_eq!(bench.ask(&renew(b"b")), Err(Code::NotOwner));
    assert_eq!(bench.ask(&Request::Renew { number: n("9"), lease: b"a", ttl: 1 }), Err(Code::NotFound));
    assert_eq!(bench.at(1139).state("1"), "busy+up");
    assert_eq!(bench.at(1140).state("1"), "idle+up");
    assert_eq!(bench.ask(&renew(b"a")), Err(Code::NotOwner));
}

#[test]
fn a_registration_that_is_not_renewed_lapses() {
    let mut bench = Bench::of(&["1", "2", "3"]);
    bench.configure(Changes { regttl: Some(100), ..Changes::default() });
    let reg = |numbers, ttl| Request::Reg { missing: false, numbers, ttl, switch: None };
    let (one, two) = ([n("1")], [n("2")]);
    bench.ok(&reg(&one, None));
    bench.ok(&reg(&two, Some(30)));
    assert_eq!(bench.at(1030).state("2"), "idle+down");
    bench.ok(&reg(&one, None));
    assert_eq!(bench.at(1129).waiting(), ["1", "3"]);
    assert_eq!(bench.at(1130).waiting(), ["3"], "the third was registered when the pool had no time-out");
}

#[test]
fn reg_clears_the_deadline_where_the_pool_has_none() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Reg { missing: false, numbers: &[n("1")], ttl: Some(30), switch: None });
    bench.ok(&Request::Reg { missing: false, numbers: &[n("1")], ttl: None, switch: None });
    assert_eq!(bench.at(5000).state("1"), "idle+up");
}

#[test]
fn a_reg_by_another_switch_takes_the_number_over() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.ok(&Request::Reg { missing: false, numbers: &[n("1")], ttl: None, switch: Some(b"new") });
    assert_eq!(bench.ok(&Request::OfSwitch(OfSwitch::Unreg(b"sw"))), Reply::Integer(1));
    assert_eq!(bench.waiting(), ["1"]);
    assert_eq!(bench.ok(&Request::OfSwitch(OfSwitch::Unreg(b"new"))), Reply::Integer(1));
    assert_eq!(bench.ok(&Request::OfSwitch(OfSwitch::Unreg(b"new"))), Reply::Integer(0));
}

#[test]
fn list_with_a_missing_number_registers_the_others() {
    let mut bench = Bench::of(&["1"]);
    bench.ok(&Request::Add(&[n("2")]));
    let numbers = [n("8"), n("2"), n("1"), n("8"), n("9")];
    let register = |missing| Request::Reg { numbers: &numbers, ttl: None, switch: Some(b"sw"), missing };
    assert_eq!(bench.ok(&register(false)), Reply::Integer(1));
    assert_eq!(bench.waiting(), ["1", "2"]);
    let listed = |done| Reply::Listed(Listed { done, missing: [n("8"), n("9")].as_slice().into() });
    assert_eq!(bench.ok(&register(true)), listed(0));
    assert_eq!(bench.ok(&Request::Unreg { numbers: &numbers, missing: true }), listed(2));
    assert!(bench.waiting().is_empty());
}

#[test]
fn list_of_only_missing_numbers_is_refused_or_named() {
    let mut bench = Bench::of(&["1"]);
    let numbers = [n("8"), n("7"), n("9")];
    let refusal =
        |numbers, missing| decide(&Bench::of(&["1"]).pool, 1000, &Request::Unreg { numbers, missing });
    assert_eq!(
        refusal(&numbers, false).unwrap_err().to_string(),
        "NOTFOUND none of the numbers 8 to 9 is in the pool"
    );
    assert_eq!(
        refusal(&numbers[..1], false).unwrap_err().to_string(),
        "NOTFOUND number 8 is not in the pool"
    );
    let all = Request::Reg { numbers: &numbers, ttl: None, switch: None, missing: true };
    assert_eq!(bench.ok(&all), Reply::Listed(Listed { done: 0, missing: numbers.as_slice().into() }));
}

#[test]
fn after_a_call_a_number_rests() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.configure(Changes { cooldown: Some(100), ..Changes::default() });
    bench.call(any("a")).unwrap();
    bench.hangup("1", None).unwrap();
    assert_eq!(bench.state("1"), "idle+up");
    assert_eq!(bench.waiting(), ["2"]);
    assert_eq!(bench.call(Call { number: Some(n("1")), ..any("b") }), Err(Code::BadState));
    // Neither UNREG nor REG shortens it.
    bench.ok(&Request::Unreg { numbers: &[n("1")], missing: false });
    bench.ok(&Request::Reg { missing: false, numbers: &[n("1")], ttl: None, switch: None });
    assert_eq!(bench.at(1099).waiting(), ["2"]);
    assert_eq!(bench.at(1100).waiting(), ["2", "1"]);
}

#[test]
fn a_hangup_may_name_its_own_rest() {
    let mut bench = Bench::of(&["1"]);
    bench.configure(Changes { cooldown: Some(100), ..Changes::default() });
    bench.call(any("a")).unwrap();
    bench.ok(&Request::HangUp { number: n("1"), lease: None, cooldown: Some(0), cause: None });
    assert_eq!(bench.waiting(), ["1"]);
    bench.call(any("b")).unwrap();
    bench.ok(&Request::HangUp { number: n("1"), lease: None, cooldown: Some(7), cause: None });
    assert_eq!(bench.at(1007).waiting(), ["1"]);
}

#[test]
fn the_rest_after_an_expired_lease_begins_at_its_deadline() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.configure(Changes { cooldown: Some(100), ..Changes::default() });
    bench.call(Call { ttl: Some(50), ..any("a") }).unwrap();
    assert_eq!(bench.at(1070).pool.number_record(n("1"), 1070).unwrap().cool_until, Some(1150));
    assert_eq!(bench.at(1150).waiting(), ["2", "1"]);
}

#[test]
fn drain_lets_a_call_end_first() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.call(any("a")).unwrap();
    let both = [n("1"), n("2"), n("9")];
    assert_eq!(bench.ok(&Request::Del { numbers: &both, drain: true }), Reply::Integer(2));
    assert_eq!(bench.ok(&Request::Del { numbers: &both, drain: true }), Reply::Integer(0), "counted already");
    assert_eq!((bench.state("1"), bench.state("2")), ("busy+up", "nodata"));
    bench.hangup("1", None).unwrap();
    assert_eq!(bench.state("1"), "nodata");
}

#[test]
fn a_later_add_takes_a_draining_number_back() {
    let mut bench = Bench::of(&["1"]);
    bench.call(any("a")).unwrap();
    bench.ok(&Request::Del { numbers: &[n("1")], drain: true });
    assert_eq!(bench.ok(&Request::Add(&[n("1")])), Reply::Integer(1));
    bench.hangup("1", None).unwrap();
    assert_eq!(bench.waiting(), ["1"]);
}

#[test]
fn reconcile_frees_what_the_switch_does_not_carry() {
    let mut bench = Bench::of(&["1", "2", "3", "4"]);
    bench.call(any("a")).unwrap();
    bench.call(any("b")).unwrap();
    bench.call(Call { switch: Some(b"other"), ..any("c") }).unwrap();
    bench.at(1010).call(any("d")).unwrap();
    let reconcile =
        |before, leases| Request::OfSwitch(OfSwitch::Reconcile { switch: Some(b"sw"), before, leases });
    let Reply::Reconciled(outcome) = bench.ok(&reconcile(Some(1010), &[b"a", b"c", b"x"])) else { panic!() };
    assert_eq!((outcome.kept, outcome.freed), (2, 1), "a was named, d is too young");
    assert_eq!(outcome.unknown.iter().map(|token| &token[..]).collect::<Vec<_>>(), [&b"c"[..], b"x"]);
    assert_eq!(bench.waiting(), ["2"]);
    let Reply::Reconciled(outcome) = bench.ok(&reconcile(None, &[])) else { panic!() };
    assert_eq!((outcome.kept, outcome.freed), (0, 2));
    assert_eq!(bench.state("3"), "busy+up", "the other switch's call goes on");
}

#[test]
fn by_default_the_registrar_carries_the_call() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.call(any("a")).unwrap();
    bench.call(Call { switch: Some(b"other"), ..any("b") }).unwrap();
    let carrier = |number| bench.pool.number_record(n(number), 1000).unwrap().call_switch.unwrap().to_vec();
    assert_eq!((carrier("1"), carrier("2")), (b"sw".to_vec(), b"other".to_vec()));
}

#[test]
fn sticky_takes_the_number_whose_last_peer_this_is() {
    let mut bench = Bench::of(&["1", "2", "3"]);
    bench.configure(Changes { pick: Some(Policy::Sticky), ..Changes::default() });
    let to = |peer: &'static str, token| Call { peer: Some(peer.as_bytes()), ..any(token) };
    assert_eq!(bench.call(to("bob", "a")).unwrap(), "1");
    assert_eq!(bench.call(to("eve", "b")).unwrap(), "2");
    bench.hangup("2", None).unwrap();
    bench.hangup("1", None).unwrap();
    assert_eq!(bench.waiting(), ["3", "2", "1"]);
    assert_eq!(bench.call(to("bob", "c")).unwrap(), "1");
    assert_eq!(bench.call(to("bob", "d")).unwrap(), "3", "the one is busy, so the head of the queue");
    // A call to nobody named leaves the last peer.
    bench.hangup("1", None).unwrap();
    bench.call(Call { number: Some(n("1")), ..any("e") }).unwrap();
    bench.hangup("1", None).unwrap();
    assert_eq!(bench.call(to("bob", "f")).unwrap(), "1");
}

#[test]
fn prefix_filters_and_then_the_policy_picks() {
    let mut bench = Bench::of(&["21", "11", "12", "22"]);
    let (one, two) = ([n("1")], [n("2")]);
    let prefixed = |prefixes, token, pick| Call { prefixes, pick: Some(pick), ..any(token) };
    assert_eq!(bench.call(prefixed(&one, "a", Policy::Longest)).unwrap(), "11");
    bench.hangup("11", None).unwrap();
    assert_eq!(bench.call(prefixed(&one, "b", Policy::LeastUsed)).unwrap(), "12");
    assert_eq!(bench.call(prefixed(&two, "c", Policy::Sticky)).unwrap(), "21");
    assert_eq!(bench.call(prefixed(&two, "d", Policy::Random)).unwrap(), "22");
    assert_eq!(bench.call(prefixed(&two, "e", Policy::Random)).unwrap(), "none");
}

#[test]
fn prefixes_are_tried_in_their_order_under_each_policy() {
    for pick in Policy::ALL {
        let mut bench = Bench::of(&["21", "11", "31", "22"]);
        let prefixes = [n("9"), n("2"), n("1"), n("2")];
        let call = |token| Call { prefixes: &prefixes, pick: Some(pick), peer: Some(b"bob"), ..any(token) };
        let mut called: Vec<String> = ["a", "b"].map(|token| bench.call(call(token)).unwrap()).into();
        called.sort();
        assert_eq!(called, ["21", "22"], "{pick:?}");
        assert_eq!(bench.call(call("c")).unwrap(), "11", "{pick:?}");
        assert_eq!(bench.call(call("d")).unwrap(), "none", "{pick:?}");
        bench.hangup("11", None).unwrap();
        bench.hangup("21", None).unwrap();
        assert_eq!(bench.call(call("e")).unwrap(), "21", "{pick:?}: the first prefix has one again");
    }
}

#[test]
fn call_names_at_most_sixteen_prefixes() {
    let mut bench = Bench::of(&["1"]);
    let prefixes = [n("1"); 17];
    assert_eq!(bench.call(Call { prefixes: &prefixes, ..any("a") }), Err(Code::Err));
    assert_eq!(bench.call(Call { prefixes: &prefixes[1..], ..any("a") }).unwrap(), "1");
}

#[test]
fn least_used_takes_the_fewest_calls_then_the_longest_idle() {
    let mut bench = Bench::of(&["1", "2", "3"]);
    let least = |token| Call { pick: Some(Policy::LeastUsed), ..any(token) };
    for token in ["a", "b"] {
        bench.call(Call { number: Some(n("1")), ..any(token) }).unwrap();
        bench.hangup("1", None).unwrap();
    }
    bench.call(Call { number: Some(n("2")), ..any("c") }).unwrap();
    bench.hangup("2", None).unwrap();
    assert_eq!(bench.waiting(), ["3", "1", "2"]);
    assert_eq!(["d", "e", "f"].map(|token| bench.call(least(token)).unwrap()), ["3", "2", "1"]);
}

#[test]
fn random_takes_every_free_number_as_often() {
    let numbers: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let mut bench = Bench::of(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
    for used in 0..40 {
        bench.call(Call { number: Some(n(&used.to_string())), ..any(&format!("busy-{used}")) }).unwrap();
    }
    let mut counts = std::collections::BTreeMap::new();
    let mut random = 1u64;
    for _ in 0..10_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let got = bench.call(Call { pick: Some(Policy::Random), random, ..any("r") }).unwrap();
        bench.hangup(&got, None).unwrap();
        *counts.entry(got).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 10);
    // Some 1,000 each; 6 standard deviations are 180.
    assert!(counts.values().all(|count| (820..1180).contains(count)), "{counts:?}");
}

#[test]
fn a_scan_shows_every_number_that_stays() {
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let mut bench = Bench::of(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
    let (mut cursor, mut seen) = (0, std::collections::BTreeSet::new());
    loop {
        let (next, found) = bench.pool.scan(cursor, 10, None, 1000);
        seen.extend(found);
        // Numbers come and go, and the pool moves to another server.
        let (gone, new) = (n(&(cursor % 100).to_string()), n(&format!("9{cursor:05}")));
        bench.ok(&Request::Del { numbers: &[gone], drain: false });
        bench.ok(&Request::Add(&[new]));
        bench.pool = Pool::decode(&bench.pool.encode()).unwrap();
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert!((100..300).all(|number| seen.contains(&n(&number.to_string()))));
}

#[test]
fn a_million_numbers_take_at_most_64_bytes_each() {
    let mut bench = Bench { pool: Pool::new(Settings::default(), 0), now: 1_700_000_000_000 };
    let numbers: Vec<Number> = (0..1_000_000).map(|number| n(&format!("138{number:08}"))).collect();
    for numbers in numbers.chunks(1000) {
        bench.ok(&Request::Add(numbers));
        let ttl = Some(3_600_000 + numbers.len() as i64);
        bench.ok(&Request::Reg { missing: false, numbers, ttl, switch: Some(b"switch-1") });
    }
    let each = bench.pool.allocated() as f64 / 1e6;
    assert!(each <= 64.0, "{each} bytes a number, with a switch and a time-out each");
    let before = bench.pool.allocated();
    bench.pool.sort_at_once(Some(Policy::LeastUsed), false);
    let order = (bench.pool.allocated() - before) as f64 / 1e6;
    assert!(order <= 25.0, "{order} bytes a number for the order by digits");
    let bytes = bench.pool.encode();
    let again = Pool::decode(&bytes).unwrap();
    assert!(again.allocated() as f64 / 1e6 <= 64.0, "after a reload");
    assert_eq!(again.encode(), bytes);
}

#[test]
fn an_empty_pool_takes_no_more_room_than_a_new_one() {
    let numbers: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    let mut bench = Bench::of(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
    bench.pool.sort_at_once(Some(Policy::Sticky), true);
    let all: Vec<Number> = numbers.iter().map(|number| n(number)).collect();
    bench.ok(&Request::Reg { missing: false, numbers: &all, ttl: Some(50), switch: Some(b"sw") });
    bench.call(Call { peer: Some(b"bob"), ttl: Some(50), ..any("a") }).unwrap();
    bench.ok(&Request::Del { numbers: &all, drain: false });
    let room = bench.pool.allocated();
    assert!(room < 1000, "{room} bytes");
    assert_eq!(Pool::decode(&bench.pool.encode()).unwrap().encode(), bench.pool.encode());
}

#[test]
fn a_time_that_leaves_no_room_for_deadlines_is_refused() {
    let reached = |at: i64| Pool::decode(&Pool::new(Settings::default(), at).encode()).is_ok();
    assert!(reached(1 << 51));
    assert!(!reached(1 << 52));
}

#[test]
fn request_with_many_messages_is_done_in_parts() {
    let numbers: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let mut bench = Bench::of(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
    for number in 0..2000 {
        bench.call(Call { ttl: Some(50), ..any(&format!("t{number}")) }).unwrap();
    }
    let all: Vec<Number> = numbers.iter().map(|number| n(number)).collect();
    let requests = [
        Request::OfSwitch(OfSwitch::Reconcile { switch: Some(b"sw"), before: None, leases: &[] }),
        Request::Del { numbers: &all, drain: false },
    ];
    for request in &requests {
        let events = decide(&bench.pool, 1000, request).unwrap().events;
        assert!(events.iter().all(|event| bench.pool.messages(event).len() <= 256));
    }
    let events = decide_due(&bench.pool, 1050, usize::MAX);
    assert!(events.iter().all(|event| bench.pool.messages(event).len() <= 256));
    assert_eq!(events.iter().map(|event| bench.pool.messages(event).len()).sum::<usize>(), 2000);
}

#[test]
fn a_damaged_snapshot_is_refused_or_read_but_never_believed() {
    let mut bench = Bench::of(&["1", "2", "3", "+4912345678901234567890"]);
    bench.configure(Changes { cooldown: Some(100), events: Some(10), ..Changes::default() });
    bench.call(Call { ttl: Some(50), peer: Some(b"bob"), ..any("a") }).unwrap();
    bench.call(any("b")).unwrap();
    bench.hangup("2", None).unwrap();
    bench.ok(&Request::Del { numbers: &[n("1")], drain: true });
    bench.ok(&Request::Reg { missing: false, numbers: &[n("3")], ttl: Some(70), switch: Some(b"sw2") });
    let bytes = bench.pool.encode();
    for at in 0..bytes.len() {
        assert!(Pool::decode(&bytes[..at]).is_err(), "cut at {at}");
        for value in 0..=255u8 {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            if let Ok(mut pool) = Pool::decode(&damaged) {
                // What is read is a pool: it can be written, used up and emptied.
                assert_eq!(Pool::decode(&pool.encode()).unwrap().encode(), pool.encode());
                let now = pool.now(i64::MAX / 4);
                for event in decide_due(&pool, now, usize::MAX) {
                    pool.admits(&event).unwrap();
                    pool.apply(now, &event);
                }
                let all: Vec<Number> = pool.scan(0, 100, None, now).1;
                let decision = decide(&pool, now, &Request::Del { numbers: &all, drain: false }).unwrap();
                decision.events.iter().for_each(|event| pool.apply(now, event));
                assert!(pool.is_empty());
                assert_eq!(pool.totals(), Totals::default());
            }
        }
    }
}
