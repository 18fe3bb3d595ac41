//! `allot compaction reassign`: another manager for a task, or another worker for a waiting subtask.

use anyhow::Result;

use super::task_client::{TaskClient, gone};
use super::views;
use crate::outcome::Outcome;
use allot_compaction::hashing::choose;
use allot_compaction::ids::TaskId;
use allot_compaction::task_store::Fault;

/// Gives a task or subtask to another unit, and prints its task.
pub(super) async fn run(
    client: &TaskClient,
    (id, subtask): (TaskId, bool),
    to: Option<&str>,
    json: bool,
) -> Result<Outcome> {
    reassign(client, (id, subtask), to).await?;
    views::show(client, id.of_main(), json).await
}

/// Gives a task or subtask to another unit: to `to`, or to one that is chosen by hashing. Returns the unit.
pub(super) async fn reassign(
    client: &TaskClient,
    (id, subtask): (TaskId, bool),
    to: Option<&str>,
) -> Result<String> {
    if subtask == id.is_main() {
        let kind = if subtask { "a task, and no subtask" } else { "a subtask: say --subtask" };
        return Err(Fault::Refused(format!("{id} is {kind}")).into());
    }
    let Some(main) = client.store.main(id.of_main()).await? else { return Err(gone(id.of_main()).into()) };
    let mut bins = client.units().await?.bins(&main.task.pc);
    let has = if subtask {
        client.store.find_sub(id).await?.map(|sub| sub.task.worker)
    } else {
        Some(main.task.manager)
    };
    let to = if let Some(to) = to {
        if !bins.iter().any(|bin| bin.name == to) {
            return Err(Fault::Busy(format!("unit {to} is not there, or not of {}", main.task.pc)).into());
        }
        to.to_owned()
    } else {
        bins.retain(|bin| Some(&bin.name) != has.as_ref());
        let other = choose(&id.to_string(), &bins).map(|bin| bin.name.clone());
        other.ok_or_else(|| Fault::Busy(format!("no other unit of {} is there", main.task.pc)))?
    };
    if subtask {
        client.store.move_subtask(id, &to).await?;
    } else {
        client.store.reassign(id, None, &to).await?;
    }
    Ok(to)
}
