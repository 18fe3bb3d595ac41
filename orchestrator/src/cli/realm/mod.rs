//! `allotd conference` and `allotd units`: what managers and operators ask of a realm by hand or by script; and how
//! results and progress are shown, here and elsewhere.

mod conference;
mod units;

pub(crate) use conference::{Command as ConferenceCommand, run as conference};
pub(crate) use units::{Arguments as UnitsArguments, run as units};

use std::time::Duration;

use anyhow::Result;

use crate::config::{Confirm, RealmSource};
use allot_client::{RealmStore, Session};

/// A connection to the realm's master.
async fn connect(source: &RealmSource) -> Result<RealmStore> {
    let config = source.config()?;
    let session = config.servers.session().await?;
    Ok(RealmStore::new(session.connection, &config.realm))
}

/// A connection over which conferences get another owner, or end.
struct Changing {
    store: RealmStore,
    session: Session,
    /// Replicas that must confirm it.
    replicas: u32,
    /// How long they are waited for.
    limit: Duration,
}

impl Changing {
    async fn connect(source: &RealmSource, confirm: &Confirm) -> Result<Self> {
        let config = source.config_with(confirm)?;
        let session = config.servers.session().await?;
        let store = RealmStore::new(session.connection.clone(), &config.realm);
        let (replicas, limit) = (config.conference.wait_replicas, config.conference.wait);
        Ok(Self { store, session, replicas, limit })
    }

    /// Has replicas confirm what was changed. What they do not confirm stands all the same, so that is only said.
    async fn confirm(&mut self) {
        let why = match self.session.wait(self.replicas, self.limit).await {
            Ok(true) => return,
            Ok(false) => format!("within {:?}", self.limit),
            Err(error) => error.to_string(),
        };
        eprintln!(
            "allotd: not enough replicas confirmed this ({why}); it is done, and a failover now may undo it"
        );
    }
}
