//! Notifications: a client system that has changed the inventory writes the notify node. The leader reads the book
//! again, and writes the version that it has handled into a node below.

use tracing::{info, warn};

use super::fault_injection;
use super::paths::Paths;
use allot_coordination::{Error, Kind, Tree, Version};

/// The versions of the notify node that one leader has seen.
#[derive(Default)]
pub(super) struct Notifications {
    /// The latest version.
    pub(super) latest: Option<Version>,
    /// The version that was last recorded as handled.
    recorded: Option<Version>,
}

impl Notifications {
    /// Reads the version that was last recorded, by any leader.
    pub(super) async fn read(&mut self, tree: &Tree, paths: &Paths) -> Result<(), Error> {
        let node = tree.get(&paths.processed()).await?;
        self.recorded = node.and_then(|node| String::from_utf8(node.data).ok()?.parse().ok()).map(Version);
        Ok(())
    }

    /// Records the version that was handled, unless it is on record.
    ///
    /// # Errors
    /// [`Error::NotLeading`]. Another error is logged, and the version is recorded with the next change.
    pub(super) async fn record(
        &mut self,
        tree: &Tree,
        paths: &Paths,
        handled: Option<Version>,
    ) -> Result<(), Error> {
        let Some(version) = handled.filter(|version| Some(*version) != self.recorded) else { return Ok(()) };
        let (path, data) = (paths.processed(), version.0.to_string());
        let written = match tree.get(&path).await {
            Ok(Some(node)) => tree.set(&path, data.as_bytes(), node.version).await.map(drop),
            Ok(None) => tree.create(&path, data.as_bytes(), Kind::Persistent).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => {
                self.recorded = Some(version);
                info!(version = version.0, "handled a notification");
                fault_injection::point("recorded");
            }
            Err(Error::NotLeading) => return Err(Error::NotLeading),
            Err(error) => warn!(path, %error, "cannot record that a notification was handled"),
        }
        Ok(())
    }
}
