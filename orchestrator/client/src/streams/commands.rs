//! The commands of one unit as they come, read in order by a task of their own: the wait for them takes a connection
//! for itself.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::entry::{Entry, read_reply};
use crate::{Error, query};

/// How long they are waited for before they are asked for again.
pub const BLOCK: Duration = Duration::from_millis(500);
/// Commands taken at once.
const BATCH: usize = 256;

/// A unit's commands, in one session. Dropping it ends the reading.
pub struct Commands {
    entries: mpsc::Receiver<Result<Vec<Entry>, Error>>,
    task: AbortHandle,
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Commands {
    /// From the stream's first entry on, in each session anew: the ids of a server that took over may begin below
    /// what was read from the one before, and what was handled already is handled no second time.
    pub fn read(mut connection: MultiplexedConnection, stream: String) -> Self {
        let (sender, entries) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let mut position = "0-0".to_owned();
            loop {
                let read = take(&mut connection, &stream, &position).await;
                if let Ok(entries) = &read {
                    let Some(last) = entries.last() else { continue };
                    position.clone_from(&last.id);
                }
                let failed = read.is_err();
                if sender.send(read).await.is_err() || failed {
                    return;
                }
            }
        });
        Self { entries, task: task.abort_handle() }
    }

    /// The next ones, some at least.
    pub async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        let next = self.entries.recv().await;
        next.unwrap_or_else(|| Err(Error::Stopped("the commands are read no more".to_owned())))
    }
}

async fn take(
    connection: &mut MultiplexedConnection,
    stream: &str,
    position: &str,
) -> Result<Vec<Entry>, Error> {
    let mut command = cmd("XREAD");
    command.arg("COUNT").arg(BATCH).arg("BLOCK").arg(BLOCK.as_millis() as u64);
    command.arg("STREAMS").arg(stream).arg(position);
    read_reply(query::<Value>(connection, &command).await?)
}
