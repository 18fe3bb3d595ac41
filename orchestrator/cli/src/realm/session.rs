//! Connections to a realm's master, for commands that read and for commands that change an owner.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::sources::{Confirm, RealmSource};
use crate::terminal::errln;
use allot_client::streams::{self, Commands};
use allot_client::{Error, RealmStore, Session};

/// The realm, and the format of the output.
#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(super) source: RealmSource,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// A connection to the realm's master.
pub(super) async fn connect(source: &RealmSource) -> Result<RealmStore> {
    let config = source.config()?;
    let session = config.servers.session().await?;
    Ok(RealmStore::new(session.connection, &config.realm))
}

/// A session in which conferences get another owner, or end.
pub(super) struct Changing {
    pub(super) store: RealmStore,
    session: Session,
    /// Number of replicas that must confirm the change.
    replicas: u32,
    /// Time limit for the confirmation.
    limit: Duration,
}

impl Changing {
    pub(super) async fn connect(source: &RealmSource, confirm: &Confirm) -> Result<Self> {
        let config = source.config_with(confirm)?;
        let session = config.servers.session().await?;
        let store = RealmStore::new(session.connection.clone(), &config.realm);
        let (replicas, limit) = (config.scheduler.wait_replicas, config.scheduler.wait);
        Ok(Self { store, session, replicas, limit })
    }

    /// The events of the realm after this id.
    pub(super) async fn events_after(&self, id: &str) -> Result<Commands, Error> {
        let connection = self.session.another(streams::BLOCK).await?;
        Ok(Commands::read_after(connection, self.store.stream("evt"), id.to_owned()))
    }

    /// Waits until replicas confirm the change. Without a confirmation the change stays, and a warning is printed.
    pub(super) async fn confirm(&mut self) {
        let why = match self.session.wait(self.replicas, self.limit).await {
            Ok(true) => return,
            Ok(false) => format!("within {:?}", self.limit),
            Err(error) => error.to_string(),
        };
        errln!(
            "allot: not enough replicas confirmed this ({why}); it is done, and a failover now may undo it"
        );
    }
}
