//! Alerts: the console checks the rules of its settings every few seconds, whether somebody looks or not. Without rules it
//! reads nothing.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use allot_client::{Error, NumberStore, RealmStore, Record, SeatStore};
use allot_runtime::time::now_ms;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::history::{Sample, done};
use crate::recorder::sample;
use crate::rule::{Measure, Rate, Rule, Share};
use crate::shared::Alert;
use crate::state::Console;
use crate::webhook::{self, Body};

/// Interval of the checks.
const PAUSE: Duration = Duration::from_secs(2);
/// Time limit of an answer of Redis, which is away after it.
const LIMIT: Duration = Duration::from_secs(3);

/// What is known of a rule.
#[derive(Default)]
struct State {
    /// Whether there is an alert.
    fires: bool,
    /// When it began to be otherwise, met without an alert or not met with one: by a clock that never goes back, and in
    /// milliseconds since 1970.
    turned: Option<(Instant, u64)>,
    /// When the rule began to be met or not met, which the alert follows; in milliseconds since 1970.
    since: u64,
    value: f64,
}

impl State {
    /// Goes on with what was measured; nothing is concluded where nothing is known. Returns whether an alert begins or
    /// ends: both take the time of the rule, so that a value that swings around the limit tells nobody again and again.
    fn measure(&mut self, rule: &Rule, value: Option<f64>, now: u64) -> bool {
        let Some(value) = value else { return false };
        self.value = value;
        let is_met = if rule.above { value > rule.limit } else { value < rule.limit };
        if is_met == self.fires {
            self.turned = None;
            return false;
        }
        let (turned, at) = *self.turned.get_or_insert((Instant::now(), now));
        if turned.elapsed() < rule.time {
            return false;
        }
        (self.fires, self.since, self.turned) = (is_met, at, None);
        true
    }
}

/// Checks all rules again and again.
pub(crate) async fn watch(console: Arc<Console>) {
    let rules = console.guard.settings.alerts.clone();
    if rules.is_empty() {
        return std::future::pending().await;
    }
    let webhook = console.guard.settings.webhook.clone().map(webhook::start);
    let mut states: Vec<State> = rules.iter().map(|_| State::default()).collect();
    let mut last: Option<Sample> = None;
    loop {
        let now = in_time(&console, &console.keys.realm, sample(&console)).await.and_then(Result::ok);
        for (rule, state) in rules.iter().zip(&mut states) {
            let value = measure(&console, rule, last.as_ref(), now.as_ref()).await;
            if state.measure(rule, value, now_ms()) {
                tell(&console, webhook.as_ref(), rule, state);
            }
        }
        let alerts = rules.iter().zip(&states).filter(|(_, state)| state.fires).map(|(rule, state)| Alert {
            rule: rule.text.clone(),
            since: state.since,
            value: state.value,
        });
        *console.alerts.0.lock().unwrap_or_else(PoisonError::into_inner) = alerts.collect();
        last = now.or(last);
        sleep(PAUSE).await;
    }
}

/// Logs that an alert begins or ends, and posts it.
fn tell(console: &Console, webhook: Option<&mpsc::Sender<Body>>, rule: &Rule, state: &State) {
    let (rule, value, fires) = (rule.text.clone(), state.value, state.fires);
    if fires {
        warn!(rule, value, "an alert begins");
    } else {
        info!(rule, value, "an alert ends");
    }
    let Some(webhook) = webhook else { return };
    let console = console.guard.settings.address();
    let text = format!("Allot: {rule}{} (now {value:.1})", if fires { "" } else { ", ended" });
    if webhook.try_send(Body { text, rule, fires, value, at: now_ms(), console }).is_err() {
        warn!("too many alerts wait for the webhook: one is not posted");
    }
}

/// The answer of a request on a key; `None` if there is none in time.
async fn in_time<T>(console: &Console, key: &str, request: impl Future<Output = T>) -> Option<T> {
    let answer = timeout(LIMIT, request).await;
    if answer.is_err() {
        console.viewer.forget(key);
    }
    answer.ok()
}

/// The value that a rule measures; `None` if it is not known.
async fn measure(console: &Console, rule: &Rule, last: Option<&Sample>, now: Option<&Sample>) -> Option<f64> {
    match &rule.measure {
        Measure::Away => Some(if now.is_some() { 0.0 } else { 1.0 }),
        Measure::Rate(rate) => {
            let of: fn(&Sample) -> u64 = match rate {
                Rate::Holds => |sample| sample.holds,
                Rate::Calls => |sample| sample.calls,
                Rate::Recoveries => |sample| sample.recoveries,
                Rate::Refusals => |sample| sample.refusals,
            };
            let (last, now) = (last?, now?);
            Some(done(last, now, of)? as f64 * 1000.0 / (now.at - last.at) as f64)
        }
        Measure::Unrecovered => {
            let (last, now) = (last?, now?);
            let is_stuck = done(last, now, |sample| sample.recoveries)? == 0;
            Some(if is_stuck { now.waiting as f64 } else { 0.0 })
        }
        Measure::Share(share, key) => {
            // While Redis is away, each question would take its time.
            now?;
            match in_time(console, key, share_of(console, *share, key)).await? {
                Ok((part, all)) if all > 0 => Some(100.0 * part as f64 / all as f64),
                // Nothing is there of which a share could be too large or too small.
                Ok(_) => Some(if rule.above { 0.0 } else { 100.0 }),
                Err(error) if error.code() == Some("NOKEY") => Some(if rule.above { 0.0 } else { 100.0 }),
                Err(_) => None,
            }
        }
    }
}

/// A part, and the whole of which it is.
async fn share_of(console: &Console, share: Share, key: &str) -> Result<(u64, u64), Error> {
    match share {
        Share::Sold => {
            let buckets = async |show: SeatStore| show.stat(None, None).await;
            let buckets = console.viewer.ask(SeatStore::new, key, buckets).await?;
            Ok(buckets.iter().fold((0, 0), |(sold, all), bucket| {
                (sold + bucket.sold, all + bucket.free + bucket.held + bucket.sold + bucket.blocked)
            }))
        }
        Share::Busy => {
            let info = async |pool: NumberStore| pool.info().await;
            let info = console.viewer.ask(NumberStore::new, key, info).await?;
            Ok((info.busy_up + info.busy_down, info.total))
        }
        Share::Used => {
            let stat = async |realm: RealmStore| realm.stat().await;
            let stat: Record = console.viewer.ask(RealmStore::new, key, stat).await?;
            Ok((stat.get("used")?, stat.get("capacity")?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn alert_begins_and_ends_when_the_rule_says_so_for_its_time() {
        let rule: Rule = "refusals > 5/s for 10s".parse().unwrap();
        let mut state = State::default();
        let mut told = Vec::new();
        for value in [6.0, 6.0, 5.0, 6.0, 7.0, 7.0, 7.0, 1.0, 6.0, 1.0, 1.0, 1.0, 6.0] {
            // What is not known neither begins nor ends anything.
            assert!(!state.measure(&rule, None, 0));
            let second = told.len() as u64 * 5;
            told.push(state.measure(&rule, Some(value), second));
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        let changes: Vec<usize> = (0..told.len()).filter(|at| told[*at]).collect();
        // Met for 10 s after 25 s; then not met, met once more, and not met for 10 s after 55 s.
        assert_eq!(changes, [5, 11]);
        assert_eq!((state.fires, state.since), (false, 45));
    }

    #[tokio::test(start_paused = true)]
    async fn value_that_swings_around_the_limit_begins_one_alert() {
        let rule: Rule = "busy {p} > 90%".parse().unwrap();
        let mut state = State::default();
        let mut changes = 0;
        for round in 0..100 {
            let value = if round < 6 || round % 3 == 0 { 91.0 } else { 89.0 };
            changes += u32::from(state.measure(&rule, Some(value), 0));
            tokio::time::advance(PAUSE).await;
        }
        assert_eq!((changes, state.fires), (1, true));
    }
}
