//! `allot accounts simulate`: replays a month of use, with and without rebalancing.

use allot_tools::accounts::simulate::{self, Options, Outcomes};
use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::outcome::Outcome;
use crate::terminal::outln;

/// The options of a simulation.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs a simulation.
pub(super) fn run(arguments: &Arguments) -> Result<Outcome> {
    let Arguments { options, json } = arguments;
    let found = simulate::run(options)?;
    if *json {
        let of = |month: &Outcomes| json!({ "cost": month.cost.to_string(), "moves": month.moves, "refused": month.refused });
        let all = json!({
            "instructions": found.instructions, "accounts": found.accounts, "fixed": of(&found.fixed),
            "rebalanced": of(&found.rebalanced), "least": found.least.to_string(),
        });
        outln!("{all}");
        return Ok(Outcome::Done);
    }
    let (fixed, rebalanced) = (&found.fixed, &found.rebalanced);
    outln!("{} instructions on {} accounts", found.instructions, found.accounts);
    outln!("static even assignment:   {} beyond the flat price", fixed.cost);
    outln!("evened out every {}:  {}, by {} moves", options.rebalance, rebalanced.cost, rebalanced.moves);
    outln!("at best, in hindsight:    {}", found.least);
    for (month, name) in [(fixed, "static even assignment"), (rebalanced, "evened out")] {
        if month.refused > 0 {
            outln!("{name}: {} instructions had no account", month.refused);
        }
    }
    Ok(Outcome::Done)
}
