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
        let cause = self.pool.causes().0.iter().find(|cause| cause.word.0[..] == *word.as_bytes());
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
        self.pool.number_record(n("1"), self.now).unwrap().suspension.and_then(|suspension| suspension.until)
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
    assert_eq!(record.cool_until, None, "a quarantine is no cool-down");
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
