//! A row of the table of families: what the module does for keys of any family.

use allot_core::shared::invariant::Checked;

use super::command::Command;
use crate::ffi::info::InfoWriter;
use crate::ffi::register::Registration;
use crate::ffi::{Context, KeyName};

/// What the module does for keys of one family.
pub(crate) struct FamilyEntry {
    /// The tables of its commands.
    pub(crate) commands: &'static [&'static [Command]],
    /// Registers its value type.
    pub(crate) register: fn(&Registration) -> Option<()>,
    /// The work of the timer for a key at the time for which it was watched. Takes this time, and how many events may be
    /// applied. Returns the next time to look at the key, if there is one.
    pub(crate) tick: fn(Context<'_>, KeyName<'_>, i64, usize) -> Option<i64>,
    pub(crate) write_counters: fn(&InfoWriter),
    pub(crate) write_gauges: fn(&InfoWriter),
    /// Checks a key; `None` if the key does not hold a value of the family.
    pub(crate) check: fn(Context<'_>, KeyName<'_>) -> Option<Checked>,
    /// Returns the time of a key and of the clock. If the argument is true, the key follows the clock again. `None` if
    /// the key does not hold a value of the family.
    pub(crate) clock: fn(Context<'_>, KeyName<'_>, bool) -> Option<(i64, i64)>,
}
