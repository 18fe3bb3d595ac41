//! `allotd conference` and `allotd units`: what managers and operators ask of a realm by hand or by script.

mod conference;
pub(crate) mod table;
mod units;

pub(crate) use conference::{Command as ConferenceCommand, run as conference};
pub(crate) use units::{Arguments as UnitsArguments, run as units};

use anyhow::Result;

use crate::cli::Global;
use crate::config::RealmSource;
use crate::store::RealmStore;

/// A connection to the realm's master.
async fn connect(global: &Global, source: &RealmSource) -> Result<RealmStore> {
    let config = source.config(global)?;
    let session = config.servers.session().await?;
    Ok(RealmStore::new(session.connection, &config.realm))
}
