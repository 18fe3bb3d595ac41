//! The settings of a realm.

use std::time::Duration;

use crate::arguments::{milliseconds, option};
use crate::conferences::RealmStore;
use crate::error::Error;
use crate::record::Record;

/// What the placement of conferences compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The used share of each unit's capacity.
    Share,
    /// The greater of this share and the load that the unit reported.
    Load,
}

/// Which copy of a conference continues when an older copy reports again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The copy that was created earliest.
    Earliest,
    /// The copy of the current owner.
    Keep,
}

/// Settings of a realm; `None` keeps a value. docs/conferences.md explains them under `CONF.REALM`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RealmChanges {
    /// The licences of all conferences together; 0 for no limit.
    pub licences: Option<u64>,
    /// The wait before a unit that could not create a conference is tried again.
    pub retry: Option<Duration>,
    /// The longest wait for recovery.
    pub window: Option<Duration>,
    /// Which copy continues when an older copy reports again.
    pub policy: Option<Policy>,
    /// How long a unit may take to answer CREATE.
    pub create_timeout: Option<Duration>,
    /// How long a unit may take to answer RELEASE.
    pub release_timeout: Option<Duration>,
    /// How long a unit may take to report after a new scheduler took over.
    pub wait_timeout: Option<Duration>,
    /// How long an ended conference, or a down unit without conferences, is on record.
    pub tombstone: Option<Duration>,
    /// What the placement of conferences compares.
    pub place: Option<Placement>,
}

impl Placement {
    /// The word of the command.
    fn word(self) -> &'static str {
        match self {
            Self::Share => "SHARE",
            Self::Load => "LOAD",
        }
    }
}

impl Policy {
    /// The word of the command.
    fn word(self) -> &'static str {
        match self {
            Self::Earliest => "EARLIEST",
            Self::Keep => "KEEP",
        }
    }
}

impl RealmStore {
    /// Changes settings of the realm, which is created if it does not exist. Returns its record.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn configure(&self, changes: &RealmChanges) -> Result<Record, Error> {
        let mut command = self.begin("CONF.REALM");
        option(&mut command, "LICENCES", changes.licences);
        option(&mut command, "RETRY", changes.retry.map(milliseconds));
        option(&mut command, "WINDOW", changes.window.map(milliseconds));
        option(&mut command, "POLICY", changes.policy.map(Policy::word));
        option(&mut command, "CREATETIMEOUT", changes.create_timeout.map(milliseconds));
        option(&mut command, "RELEASETIMEOUT", changes.release_timeout.map(milliseconds));
        option(&mut command, "WAITTIMEOUT", changes.wait_timeout.map(milliseconds));
        option(&mut command, "TOMBSTONE", changes.tombstone.map(milliseconds));
        option(&mut command, "PLACE", changes.place.map(Placement::word));
        Record::read(self.ask(&command).await?)
    }
}
