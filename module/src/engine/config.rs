//! `CONFIG GET/SET allot.*`: limits and defaults of this server, also taken as `loadmodule` arguments.

use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::MAX_TTL;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::ffi::register::NumericSetting;

/// One number that the operator may set.
pub(crate) struct Setting {
    /// The name of the setting after `allot.`.
    name: &'static CStr,
    min: i64,
    max: i64,
    value: AtomicI64,
}

impl Setting {
    const fn new(name: &'static CStr, default: i64, min: i64, max: i64) -> Self {
        Self { name, min, max, value: AtomicI64::new(default) }
    }

    pub(crate) fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    fn set(&self, value: i64) {
        self.value.store(value.clamp(self.min, self.max), Ordering::Relaxed);
    }

    /// The description of the setting for the server.
    pub(crate) fn as_registered(&'static self) -> NumericSetting {
        NumericSetting { name: self.name, min: self.min, max: self.max, value: &self.value }
    }
}

/// The most seats that one `SEAT.HOLD` or `SEAT.PICK` may ask for.
pub(crate) static SEAT_MAX_COUNT: Setting = Setting::new(c"seat-max-count", 500, 1, 500);
/// The longest time in milliseconds that a `TTL` of `SEAT.*` may name, even if the show allows more. The default is ten
/// years.
pub(crate) static SEAT_MAX_TTL: Setting = Setting::new(c"seat-max-ttl", MAX_TTL, 1, MAX_TTL);
/// The longest time in milliseconds that a `TTL` of `NUMPOOL.CALL`, `NUMPOOL.RENEW`, `NUMPOOL.BEAT` or `NUMPOOL.REG`
/// may name. The default is ten years.
pub(crate) static NUMPOOL_MAX_TTL: Setting = Setting::new(c"numpool-max-ttl", MAX_TTL, 1, MAX_TTL);
/// The longest time in milliseconds that a `TTL` of `ACCOUNT.LOGIN` or `ACCOUNT.RENEW` may name. The default is ten
/// years.
pub(crate) static ACCOUNT_MAX_TTL: Setting = Setting::new(c"account-max-ttl", MAX_TTL, 1, MAX_TTL);
/// How many expired holds, leases, registrations and cool-downs of one key the timer ends before the server serves its
/// clients again.
pub(crate) static TIMER_SLICE: Setting = Setting::new(c"timer-slice", 500, 1, 100_000);

/// The age in milliseconds after which entries of a realm's streams are deleted, unless a live consumer group still has
/// to read them.
pub(crate) static CONF_STREAM_AGE: Setting = Setting::new(c"conf-stream-age", 600_000, 1000, 3_600_000);

/// How far, in milliseconds, the time of a key may be ahead of the server's clock. Up to this lead, the key's time stands
/// still until the clock has caught up. Beyond it, the key's time advances with the time that elapses
/// ([clocks](operate.md#clocks)).
pub(crate) static MAX_CLOCK_LEAD: Setting = Setting::new(c"max-clock-lead", 5000, 0, 3_600_000);

/// All settings, in the order of `CONFIG GET allot.*`.
pub(crate) static SETTINGS: [&Setting; 7] = [
    &SEAT_MAX_COUNT,
    &SEAT_MAX_TTL,
    &NUMPOOL_MAX_TTL,
    &ACCOUNT_MAX_TTL,
    &CONF_STREAM_AGE,
    &MAX_CLOCK_LEAD,
    &TIMER_SLICE,
];

/// Checks a time to live against the operator's limit. The state machine refuses a value below 1.
pub(crate) fn check_ttl(longest: &Setting, what: &str, ttl: i64) -> Result<i64, Refusal> {
    if ttl <= longest.get() {
        return Ok(ttl);
    }
    let (longest, name) = (longest.get(), longest.name.to_string_lossy());
    Err(Refusal::new(Code::Err, format!("{what} must be 1 to {longest} ms (allot.{name}), not {ttl}")))
}

/// Reads the arguments of `loadmodule`: names and values alternately.
pub(crate) fn set_defaults(arguments: &[&[u8]]) -> Result<(), String> {
    for pair in arguments.chunks(2) {
        let (name, value) = match *pair {
            [name, value] => (String::from_utf8_lossy(name), value),
            _ => return Err("names and values come by turns, and the last value is missing".into()),
        };
        let bare = name.strip_prefix("allot.").unwrap_or(&name);
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name.to_bytes() == bare.as_bytes()) else {
            let known: Vec<_> = SETTINGS.iter().map(|setting| setting.name.to_string_lossy()).collect();
            return Err(format!("there is no setting '{bare}'; there are: {}", known.join(", ")));
        };
        let value = std::str::from_utf8(value).ok().and_then(|value| value.parse::<i64>().ok());
        match value.filter(|value| (setting.min..=setting.max).contains(value)) {
            Some(value) => setting.set(value),
            None => {
                return Err(format!("'{bare}' takes a whole number from {} to {}", setting.min, setting.max));
            }
        }
    }
    Ok(())
}
