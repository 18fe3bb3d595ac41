//! The units' inboxes, `TaskAssigned/<unit>`: since when a unit is away is written there by the monitor, for people who ask.

use std::collections::BTreeMap;

use super::{Fault, TaskStore};
use crate::paths;
use allot_coordination::{Error, Version};

/// A unit's inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inbox {
    /// Since when its unit is away by the monitor's word, at least; milliseconds since 1970.
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

    /// Writes since when a unit is away, or that it is there. Where its inbox has changed or gone meanwhile, the next look
    /// sees.
    pub async fn note_away(&self, unit: &str, inbox: Inbox, away: Option<u64>) -> Result<(), Fault> {
        let data = away.map(|at| at.to_string()).unwrap_or_default();
        match self.tree.set(&self.paths.inbox(unit), data.as_bytes(), inbox.version).await {
            Ok(_) | Err(Error::NoNode(_) | Error::BadVersion(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an inbox that is empty and as it was read.
    pub async fn remove_inbox(&self, unit: &str, inbox: Inbox) -> Result<(), Fault> {
        match self.tree.delete(&self.paths.inbox(unit), inbox.version).await {
            Ok(()) | Err(Error::NotEmpty(_) | Error::NoNode(_) | Error::BadVersion(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
