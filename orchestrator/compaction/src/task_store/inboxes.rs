//! The units' inboxes, `TaskAssigned/<unit>`. The monitor records in each since when its unit is away, for people who
//! ask.

use std::collections::BTreeMap;

use super::{Fault, TaskStore};
use crate::paths;
use allot_coordination::{Error, Version};

/// A unit's inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inbox {
    /// Since when the unit has been away at least, as the monitor recorded it, in milliseconds since 1970; `None` if
    /// it is present.
    pub away: Option<u64>,
    version: Version,
}

impl TaskStore {
    /// All inboxes, by their units.
    pub async fn inboxes(&self) -> Result<BTreeMap<String, Inbox>, Fault> {
        let names = self.children(&self.paths.assigned()).await?;
        let nodes = self.tree.get_many(&self.paths.assigned(), names).await?.into_iter();
        Ok(nodes
            .map(|(name, node)| {
                let away = std::str::from_utf8(&node.data).ok().and_then(|text| text.parse().ok());
                (paths::decode(&name), Inbox { away, version: node.version })
            })
            .collect())
    }

    /// Records since when a unit is away, or that it is present. If the inbox has changed or disappeared meanwhile,
    /// nothing is written; the monitor's next check repeats it.
    pub async fn note_away(&self, unit: &str, inbox: Inbox, away: Option<u64>) -> Result<(), Fault> {
        let data = away.map(|at| at.to_string()).unwrap_or_default();
        match self.tree.set(&self.paths.inbox(unit), data.as_bytes(), inbox.version).await {
            Ok(_) | Err(Error::NoNode(_) | Error::BadVersion(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an inbox, if it is empty and unchanged since it was read.
    pub async fn remove_inbox(&self, unit: &str, inbox: Inbox) -> Result<(), Fault> {
        match self.tree.delete(&self.paths.inbox(unit), inbox.version).await {
            Ok(()) | Err(Error::NotEmpty(_) | Error::NoNode(_) | Error::BadVersion(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
