//! `allot node`: the nodes of compaction.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Result;
use crate::output::columns;

/// The verbs of nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the nodes that are present
    #[command(alias = "ls")]
    List,
}

columns! {
    NODES = node Text, pc Text, slots Number, subtasks Number, monitor Flag, started Time, version Text;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: &Verb) -> Result {
    match verb {
        Verb::List => {
            let client = context.tasks().await?;
            let (units, monitor) = (client.units().await?, client.monitor().await?);
            let mut rows: Vec<Value> = Vec::new();
            for (name, info) in &units.live {
                let subtasks = client.store.at(name, None).await?.len();
                rows.push(json!({
                    "node": name, "pc": info.pc, "slots": info.slots, "subtasks": subtasks,
                    "monitor": monitor.as_deref() == Some(name), "started": info.started, "version": info.version,
                }));
            }
            client.coordinator.close().await;
            context.out.list(NODES, &rows, "no node of compaction is present")
        }
    }
}
