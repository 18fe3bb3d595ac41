//! The lock of an old task, which says that the task needs no further step: it was upgraded, or an operator has skipped it.

use serde::{Deserialize, Serialize};

use allot_compaction::task::write;

/// The data of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lock {
    /// The task was upgraded at this time, in milliseconds since 1970; 0 if the lock does not say when.
    Upgraded(u64),
    /// An operator has skipped the task, for this reason.
    Skipped(String),
}

/// The form of a skipped task's lock in ZooKeeper. That of an upgraded task is the time alone.
#[derive(Serialize, Deserialize)]
struct Skipped {
    /// The time, in milliseconds since 1970.
    at: u64,
    skipped: String,
}

impl Lock {
    /// Reads a lock. Data of an unknown form are those of an upgraded task, since its lock was empty at first.
    pub(super) fn read(data: &[u8]) -> Self {
        if let Ok(Skipped { skipped, .. }) = serde_json::from_slice(data) {
            return Self::Skipped(skipped);
        }
        let time = std::str::from_utf8(data).ok().and_then(|text| text.parse().ok());
        Self::Upgraded(time.unwrap_or(0))
    }

    /// The data of the lock, written at `now` (milliseconds since 1970).
    pub(super) fn data(&self, now: u64) -> Vec<u8> {
        match self {
            Self::Upgraded(at) => at.to_string().into_bytes(),
            Self::Skipped(why) => write(&Skipped { at: now, skipped: why.clone() }),
        }
    }
}
