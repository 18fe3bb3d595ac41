//! The connection of the commands on a book.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::sources::BookSource;
use allot_client::BookStore;
use allot_tools::accounts::import;
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
    let Some(zookeeper) = &config.zookeeper else { return Ok(()) };
    let coordinator = coordination::coordinator(config, false);
    let node = Paths::new(&config.accounts.root).notify();
    let notified = import::notify(&coordinator, &node, PATIENCE).await;
    coordinator.close().await;
    notified.with_context(|| {
        format!(
            "the book is changed, but ZooKeeper at {} could not be notified; the leader notices the change within some seconds",
            zookeeper.servers
        )
    })
}
