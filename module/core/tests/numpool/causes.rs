//! Causes of hangups, and the quarantine that they lead to; and snapshots of the version before them.

use super::spec::{Bench, any, n};
use allot_core::numpool::read::Shown;
use allot_core::numpool::request::{Call, Request, Rule};
use allot_core::numpool::{Pool, Reply, decide, decide_due};
use allot_core::shared::refusal::Code;

impl Bench {
    fn rule(&mut self, word: &str, cooldown: i64, after: u32, within: i64) {
        let rule = Rule { cooldown, after, within };
        self.ok(&Request::Cause { word: word.as_bytes(), rule });
    }

    /// Lets time pass, with everything that is due.
    fn at_time(&mut self, now: i64) {
        self.now = now;
        for event in decide_due(&self.pool, now, usize::MAX) {
            self.pool.apply(now, &event);
        }
    }

    /// How many calls ended with a cause.
    fn call_count(&self, word: &str) -> u64 {
        let cause = self.pool.causes().0.iter().find(|cause| cause.word[..] == *word.as_bytes());
        cause.map_or(0, |cause| cause.count)
    }

    /// A call of number 1 that ends with a cause. Returns until when the number is in quarantine.
    fn call_for(&mut self, cause: &str) -> Option<i64> {
        let token = self.now.to_string();
        self.ok(&Request::Call(Call { number: Some(n("1")), ..any(&token) }));
        let cause = Some(cause.as_bytes());
        let hang_up = Request::HangUp { number: n("1"), lease: None, cooldown: None, cause };
        assert_eq!(self.ok(&hang_up), Reply::Integer(1));
        assert_eq!(self.pool.check(), Ok(()));
        self.pool.number_record(n("1"), self.now).unwrap().quarantine_until
    }
}

#[test]
fn cause_sends_a_number_into_quarantine_at_once() {
    let mut bench = Bench::of(&["1", "2"]);
    bench.rule("spam", 86_400_000, 1, 0);
    assert_eq!(bench.call_for("normal"), None);
    assert_eq!(bench.call_for("spam"), Some(86_401_000));
    let record = bench.pool.number_record(n("1"), bench.now).unwrap();
    assert_eq!(record.cause.as_deref(), Some(&b"spam"[..]));
    assert_eq!(record.cool_until, Some(86_401_000));
    let call = Request::Call(Call { number: Some(n("1")), ..any("x") });
    let refusal = decide(&bench.pool, bench.now, &call).unwrap_err();
    assert_eq!(refusal.code, Code::BadState);
    assert!(refusal.text.contains("quarantine until 86401000"), "{}", refusal.text);
    assert_eq!(bench.pool.scan(0, 10, Some(Shown::Quarantined), bench.now).1, [n("1")]);
    assert_eq!(bench.pool.totals().quarantined, 1);
    bench.at_time(86_401_000);
    assert_eq!(bench.pool.totals().quarantined, 0);
    assert_eq!(bench.pool.scan(0, 10, Some(Shown::Quarantined), bench.now).1, []);
    assert_eq!(bench.call_for("normal"), None);
}

#[test]
fn cause_counts_within_an_exact_window() {
    let mut bench = Bench::of(&["1"]);
    bench.rule("busy", 50, 3, 600);
    assert_eq!(bench.call_for("busy"), None);
    bench.at_time(1200);
    assert_eq!(bench.call_for("busy"), None);
    bench.at_time(1600);
    assert_eq!(bench.call_for("busy"), None, "the first one left the window in this millisecond");
    bench.at_time(1799);
    assert_eq!(bench.call_for("busy"), Some(1849));
    assert_eq!(bench.call_count("busy"), 4);
}

#[test]
fn causes_of_callers_are_bounded_and_leave_room_for_rules() {
    let mut bench = Bench::of(&["1"]);
    for at in 0..100 {
        bench.call_for(&format!("c{at}"));
    }
    let (causes, others) = bench.pool.causes();
    assert_eq!((causes.len(), others), (32, 68));
    let record = bench.pool.number_record(n("1"), bench.now).unwrap();
    assert_eq!(record.cause.as_deref(), Some(&b"other"[..]));
    for at in 0..32 {
        bench.rule(&format!("r{at}"), 10, 1, 0);
    }
    let rule = Rule { cooldown: 10, after: 1, within: 0 };
    let refusal = decide(&bench.pool, bench.now, &Request::Cause { word: b"more", rule }).unwrap_err();
    assert_eq!(refusal.code, Code::Limit);
    assert_eq!(Pool::decode(&bench.pool.encode()).unwrap().encode(), bench.pool.encode());
}

#[test]
fn cause_that_is_no_word_is_refused() {
    let bench = Bench::of(&["1"]);
    let long = "x".repeat(33);
    for word in ["", "a b", "ü", "a\r", long.as_str()] {
        let rule = Rule { cooldown: 10, after: 1, within: 0 };
        let request = Request::Cause { word: word.as_bytes(), rule };
        assert_eq!(decide(&bench.pool, 1, &request).unwrap_err().code, Code::Err, "{word:?}");
        let cause = Some(word.as_bytes());
        let request = Request::HangUp { number: n("1"), lease: None, cooldown: None, cause };
        assert_eq!(decide(&bench.pool, 1, &request).unwrap_err().code, Code::Err, "{word:?}");
    }
    for rule in [(-1, 1, 0), (10, 0, 5), (10, 2, 0), (10, 10_001, 5), (i64::MAX, 1, 0)] {
        let rule = Rule { cooldown: rule.0, after: rule.1, within: rule.2 };
        let request = Request::Cause { word: b"busy", rule };
        assert_eq!(decide(&bench.pool, 1, &request).unwrap_err().code, Code::Err, "{rule:?}");
    }
}

/// A pool as version 1 of the encoding has written it: a number that waits, two calls of which one is the last of its
/// number, one number that rests, one that is down, and the outbox.
const VERSION_1: &str = "\
    01d00fe0d403f40390bf05030a02027377037377320103626f620651025445d00f00b0d50801d3010254460001b0d5080100\
    4b025447000100410638d74d45c640000000610254490001e05d000202544a00000002000603010663616c6c2d310102d00f\
    0190b90701010663616c6c2d320201d00f0190b90700000104000000070365767404056576656e740a726567697374657265\
    64076e756d626572730f5b2231303031222c2231303032225d067377697463680373773205756e74696c0537313030300365\
    767406056576656e740663616c6c6564066e756d6265720431303032056c656173650663616c6c2d31067377697463680373\
    7732047065657203626f6205756e74696c0536313030300365767405056576656e740663616c6c6564066e756d6265720431\
    303033056c656173650663616c6c2d320673776974636802737705756e74696c0536313030300365767405056576656e7406\
    63616c6c6564066e756d6265720431303035056c656173650663616c6c2d3306737769746368056f7468657205756e74696c\
    0536313030300365767402056576656e7408647261696e696e67076e756d62657273085b2231303033225d03657674050565\
    76656e740668756e677570066e756d6265720431303035056c656173650663616c6c2d3306737769746368056f746865720a\
    636f6f6c5f756e74696c04363030300365767402056576656e740c756e72656769737465726564076e756d62657273085b22\
    31303036225d";

#[test]
fn snapshot_of_version_1_can_be_loaded() {
    let byte = |at: usize| u8::from_str_radix(&VERSION_1[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..VERSION_1.len()).step_by(2).map(byte).collect();
    let pool = Pool::decode(&bytes).unwrap();
    assert_eq!(pool.check(), Ok(()));
    let totals = pool.totals();
    assert_eq!((totals.total, totals.idle_up, totals.idle_down, totals.busy_up), (6, 3, 1, 2));
    assert_eq!((totals.cooling, totals.draining, totals.leases), (1, 1, 2));
    let record = pool.number_record(n("1005"), 1000).unwrap();
    assert_eq!((record.cool_until, record.limit_until, record.quarantine_until), (Some(6000), None, None));
    let again = Pool::decode(&pool.encode()).unwrap();
    assert_eq!(again.encode(), pool.encode());
    for length in 0..bytes.len() {
        assert!(Pool::decode(&bytes[..length]).is_err(), "a snapshot that ends after {length} bytes");
    }
}
