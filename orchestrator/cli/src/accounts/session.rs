//! The connection of the commands on a book.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::sources::BookSource;
use allot_client::BookStore;
use allot_coordination::{Coordinator, Error, Kind};
use allotd::config::Config;
use allotd::coordination;
use allotd::roles::accounts::paths::Paths;

/// Time limit for a command to notify the leader through ZooKeeper.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection to the book's master.
pub(super) async fn open(source: &BookSource) -> Result<(Config, BookStore)> {
    let config = source.config()?.for_book();
    let session = config.servers.session().await?;
    let book = BookStore::new(session.connection, &config.accounts.book);
    Ok((config, book))
}

/// Notifies the leader that the inventory has changed. Without the notification the leader notices some seconds
/// later.
pub(super) async fn notify(config: &Config) -> Result<()> {
    if config.zookeeper.is_none() {
        return Ok(());
    }
    let coordinator = coordination::coordinator(config);
    let notified = notify_by(&coordinator, config, PATIENCE).await;
    coordinator.close().await;
    notified
}

/// Notifies the leader by a session that is open already, within this time.
pub(super) async fn notify_by(coordinator: &Coordinator, config: &Config, limit: Duration) -> Result<()> {
    let Some(zookeeper) = &config.zookeeper else { return Ok(()) };
    let raised = async {
        coordinator.up().await?;
        let (tree, path) = (coordinator.tree(), Paths::new(&config.accounts.root).notify());
        loop {
            let raised = if let Some(node) = tree.get(&path).await? {
                tree.set(&path, &node.data, node.version).await.map(drop)
            } else {
                tree.ensure(&config.accounts.root).await?;
                tree.create(&path, b"", Kind::Persistent).await
            };
            match raised {
                // Another process has changed the node at the same time.
                Err(Error::BadVersion(_) | Error::Exists(_) | Error::NoNode(_)) => {}
                raised => return raised,
            }
        }
    };
    let raised = tokio::time::timeout(limit, raised).await.unwrap_or(Err(Error::Offline));
    raised.with_context(|| {
        format!(
            "the book is changed, but ZooKeeper at {} could not be notified; the leader notices the change within some seconds",
            zookeeper.servers
        )
    })
}
