//! `allot seats list`: seats, live holds or sales of a show.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::table;
use allot_client::{ListFilter, Listed, Record, SeatStore};

/// The places that the server examines for one part of a list.
const COUNT: u32 = 4000;

/// Arguments of `allot seats list`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the show.
    key: String,
    /// The things to list.
    #[arg(value_enum, default_value_t = What::Seats)]
    what: What,
    /// Only seats in this state: free, held, sold or blocked.
    #[arg(long)]
    state: Option<String>,
    /// Only this tier.
    #[arg(long)]
    tier: Option<String>,
    /// Only this area.
    #[arg(long)]
    area: Option<String>,
    /// Only this user.
    #[arg(long)]
    user: Option<String>,
    /// Only seats of this block, also those held or sold from it.
    #[arg(long)]
    block: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    redis: RedisSource,
}

/// The things that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Every seat.
    Seats,
    /// Live holds.
    Holds,
    /// Sales: an order that several holds were sold under has a line for each.
    Orders,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let show = SeatStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    let filter = ListFilter {
        state: arguments.state.as_deref(),
        tier: arguments.tier.as_deref(),
        area: arguments.area.as_deref(),
        user: arguments.user.as_deref(),
        block: arguments.block.as_deref(),
    };
    let (what, columns): (_, &[(&str, &str)]) = match arguments.what {
        What::Seats => (
            Listed::Seats,
            &[
                ("id", "id"),
                ("tier", "tier"),
                ("state", "state"),
                ("user", "user"),
                ("until", "until"),
                ("order", "order"),
                ("block", "block"),
            ],
        ),
        What::Holds => {
            (Listed::Holds, &[("token", "token"), ("user", "user"), ("until", "until"), ("seats", "seats")])
        }
        What::Orders => {
            (Listed::Orders, &[("order", "order"), ("token", "token"), ("user", "user"), ("seats", "seats")])
        }
    };
    let records = all(&show, what, &filter).await?;
    table::print(&records, columns, arguments.json).map(|()| Outcome::Done)
}

/// All parts of a list.
pub(crate) async fn all(show: &SeatStore, what: Listed, filter: &ListFilter<'_>) -> Result<Vec<Record>> {
    let (mut records, mut cursor) = show.list(what, filter, 0, COUNT).await?;
    while cursor != 0 {
        let (part, next) = show.list(what, filter, cursor, COUNT).await?;
        records.extend(part);
        cursor = next;
    }
    Ok(records)
}
