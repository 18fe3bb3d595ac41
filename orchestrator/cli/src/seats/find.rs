//! `allot seats find`: the seats that a hold would get now.

use anyhow::Result;
use clap::Args;

use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::table;
use allot_client::{FindRequest, SeatChoice, SeatStore};

/// Arguments of `allot seats find`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the show.
    key: String,
    /// Number of seats, 1 to 100.
    count: u32,
    /// Only this tier.
    #[arg(long)]
    tier: Option<String>,
    /// Only this area; may be given several times.
    #[arg(long = "area")]
    areas: Vec<String>,
    /// How much sitting together matters: PREFER, REQUIRE, AREA or IGNORE.
    #[arg(long)]
    adjacent: Option<String>,
    /// Whether a single seat may remain: AVOID, ALLOW or FORBID.
    #[arg(long)]
    orphans: Option<String>,
    /// Also seats with this flag; may be given several times.
    #[arg(long = "flag")]
    flags: Vec<String>,
    /// So many seats of the party have this flag, as FLAG=N; may be given several times.
    #[arg(long = "need", value_name = "FLAG=N", value_parser = need)]
    needs: Vec<(u32, String)>,
    /// Only seats of the block of this name.
    #[arg(long)]
    from: Option<String>,
    /// The most offers, 1 to 20.
    #[arg(long, default_value_t = 1)]
    best: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let show = SeatStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    let choice = SeatChoice {
        tier: arguments.tier.as_deref(),
        areas: &arguments.areas,
        adjacent: arguments.adjacent.as_deref(),
        orphans: arguments.orphans.as_deref(),
        flags: &arguments.flags,
        needs: &arguments.needs,
        from: arguments.from.as_deref(),
    };
    let request = FindRequest { count: arguments.count, choice, best: arguments.best };
    let offers = show.find(&request).await?;
    let columns = ["seats", "area", "adjacent", "groups", "areas"].map(|name| (name, name));
    table::print(&offers, &columns, arguments.json).map(|()| Outcome::Done)
}

/// Reads `FLAG=N`. A flag may contain a `=`.
fn need(text: &str) -> Result<(u32, String), String> {
    let parts = text.rsplit_once('=').and_then(|(flag, count)| Some((count.parse().ok()?, flag.to_owned())));
    parts.ok_or_else(|| format!("'{text}' is not FLAG=N, for example wheelchair=1"))
}
