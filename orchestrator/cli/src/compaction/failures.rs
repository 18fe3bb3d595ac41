//! `allot compaction failures`: which partitions of a task failed.

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::json;

use crate::outcome::Outcome;
use crate::table::lay;
use crate::terminal::{errln, write, write_data};
use allot_compaction::TaskClient;
use allot_compaction::history;
use allot_compaction::ids::TaskId;
use allot_compaction::task::Failure;

/// The form in which failures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people, without the output of the runners
    Table,
    /// A JSON list
    Json,
    /// Comma-separated values with a header
    Csv,
}

/// The columns of the table; CSV has the output too.
const COLUMNS: [&str; 4] = ["subtask", "partition", "worker", "message"];

fn cells(failure: &Failure) -> [&str; 4] {
    [&failure.id, &failure.partition, &failure.worker, &failure.message]
}

/// Prints all failures of the current or last round; of a packed task, the last ones.
pub(super) async fn list(client: &TaskClient, id: TaskId, format: Format) -> Result<Outcome> {
    let failures = match client.store.main(id).await? {
        Some(main) => client.store.failures(&main).await?,
        None => packed(client, id).await?,
    };
    match format {
        Format::Json => write(&format!("{}\n", json!(failures)))?,
        Format::Table => {
            let rows = [COLUMNS].into_iter().chain(failures.iter().map(cells));
            let rows: Vec<Vec<String>> = rows.map(|row| row.map(str::to_owned).to_vec()).collect();
            write(&lay(&rows))?;
        }
        Format::Csv => {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(COLUMNS.into_iter().chain(["output"]))?;
            for failure in &failures {
                writer.write_record(cells(failure).into_iter().chain([failure.output.as_str()]))?;
            }
            let text = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
            write_data(&String::from_utf8(text).context("a name is no text")?)?;
        }
    }
    Ok(Outcome::Done)
}

/// The failures that the history has of a packed task. A note says how many it no longer has.
async fn packed(client: &TaskClient, id: TaskId) -> Result<Vec<Failure>> {
    let mut tasks = history::all(&client.store).await?.into_iter();
    let Some(task) = tasks.find(|task| task.id == id.to_string()) else {
        return Ok(client.task(id).await?.failures);
    };
    let (kept, all) = (task.failures.len() as u64, task.result.failed_count);
    if kept < all {
        errln!("allot: task {id} is packed into history, which keeps the last {kept} of its {all} failures");
    }
    Ok(task.failures)
}
