//! `allot node`: the nodes of compaction.

use std::time::Duration;

use allot_compaction::TaskClient;
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};

use crate::complete;
use crate::context::Context;
use crate::failure::Result;
use crate::output::columns;
use crate::time;

/// The verbs of nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the nodes that are present, and those that are drained
    #[command(alias = "ls")]
    List,
    /// Drain a node, also over restarts: it takes no subtasks, finishes those that run, and others take those that wait
    Drain(Drain),
    /// Let a drained node take subtasks again
    Undrain(One),
}

/// One node.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The node
    #[arg(add = ArgValueCompleter::new(complete::nodes))]
    node: String,
}

/// Arguments of `node drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    one: One,
    /// After this time, end what still runs; it runs at other nodes, and uses up no retry
    #[arg(long, value_name = "TIME", value_parser = time::span)]
    deadline: Option<Duration>,
}

columns! {
    NODES = node Text, state Text, pc Text, slots Number, subtasks Number, monitor Flag, deadline Time,
        started Time, version Text;
    DRAINED = node Text, state Text, subtasks Number;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: &Verb) -> Result {
    let client = context.tasks().await?;
    let done = run_with(context, &client, verb).await;
    client.coordinator.close().await;
    done
}

async fn run_with(context: &Context, client: &TaskClient, verb: &Verb) -> Result {
    match verb {
        Verb::List => list(context, client).await,
        Verb::Drain(Drain { one: One { node }, deadline }) => {
            client.known(node).await?;
            match deadline.map(humantime::format_duration) {
                None => context.proceed(&format!("drain node {node}"))?,
                Some(after) => {
                    context
                        .confirm(&format!("drain node {node}, and end what still runs there in {after}"))
                        .await?;
                }
            }
            let subtasks = client.drain(node, *deadline).await?;
            let line = format!("node {node} takes no more subtasks; {subtasks} run or wait there");
            context.out.done(&line, DRAINED, &json!({"node": node, "state": "drained", "subtasks": subtasks}))
        }
        Verb::Undrain(One { node }) => {
            if !client.units().await?.drained.contains_key(node) {
                client.known(node).await?;
            }
            context.proceed(&format!("let node {node} take subtasks again"))?;
            let was_drained = client.undrain(node).await?;
            let subtasks = client.store.at(node, None).await?.len();
            let line = if was_drained {
                format!("node {node} takes subtasks again")
            } else {
                format!("node {node} was not drained")
            };
            context.out.done(&line, DRAINED, &json!({"node": node, "state": "present", "subtasks": subtasks}))
        }
    }
}

async fn list(context: &Context, client: &TaskClient) -> Result {
    let (units, monitor) = (client.units().await?, client.monitor().await?);
    let mut rows: Vec<Value> = Vec::new();
    for (name, info) in &units.live {
        let subtasks = client.store.at(name, None).await?.len();
        let drained = units.drained.get(name);
        rows.push(json!({
            "node": name, "state": if drained.is_some() { "drained" } else { "present" },
            "pc": info.pc, "slots": info.slots, "subtasks": subtasks,
            "monitor": monitor.as_deref() == Some(name),
            "deadline": drained.map(|drained| drained.deadline).filter(|deadline| *deadline > 0),
            "started": info.started, "version": info.version,
        }));
    }
    for name in units.drained.keys().filter(|name| !units.live.contains_key(*name)) {
        rows.push(json!({"node": name, "state": "drained, away"}));
    }
    context.out.list(NODES, &rows, "no node of compaction is present")
}
