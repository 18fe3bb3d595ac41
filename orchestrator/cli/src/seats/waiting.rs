//! `allot seats waiting`: the waiting list of a show.

use anyhow::Result;
use clap::Args;

use super::list;
use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::table;
use allot_client::{ListFilter, Listed, SeatStore};

/// Arguments of `allot seats waiting`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the show.
    key: String,
    /// Only this user.
    #[arg(long)]
    user: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let show = SeatStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    let filter = ListFilter { user: arguments.user.as_deref(), ..ListFilter::default() };
    let waiters = list::all(&show, Listed::Waiting, &filter).await?;
    let columns = ["token", "user", "count", "tier", "from", "priority", "since", "until"];
    let columns = columns.map(|name| (name, name));
    table::print(&waiters, &columns, arguments.json).map(|()| Outcome::Done)
}
