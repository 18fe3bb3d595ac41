//! A stream read in order from its first entry on, by a task of its own: waiting for entries occupies a connection.

use std::time::Duration;

use redis::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::entry::{Entry, read_reply};
use crate::connection::{Connection, command, query};
use crate::error::Error;

/// Longest time that one request waits for entries. The server answers earlier when there are entries, so a longer wait
/// delays none and saves requests. A connection that died without a sign is noticed after this time and the time limit
/// of answers, which together are shorter than the default lease of a unit.
pub const BLOCK: Duration = Duration::from_secs(2);
/// Entries taken at once.
const BATCH: usize = 256;

/// The entries of one stream, in one session: the commands of a unit, or the events of a show. Dropping the value ends
/// the reading.
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
    /// Reads `stream` from its first entry on. A new session has to start there, too: the ids of a server that took over
    /// may be lower than those read before, so a program must recognise entries that it has handled already. The
    /// connection's answers must be allowed to take [`BLOCK`] longer.
    pub fn read(connection: impl Into<Connection>, stream: String) -> Self {
        Self::read_after(connection, stream, "0-0".to_owned())
    }

    /// As [`Commands::read`], from the first entry after this id.
    pub fn read_after(connection: impl Into<Connection>, stream: String, mut position: String) -> Self {
        let mut connection = connection.into();
        let (sender, entries) = mpsc::channel(1);
        let task = tokio::spawn(async move {
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

    /// The next entries, at least one. Waits for them without limit.
    ///
    /// # Errors
    /// The error that ended the reading; further calls return no entries.
    pub async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        let next = self.entries.recv().await;
        next.unwrap_or_else(|| Err(Error::Stopped("the reader of the stream has stopped".to_owned())))
    }
}

async fn take(connection: &mut Connection, stream: &str, position: &str) -> Result<Vec<Entry>, Error> {
    let mut command = command("XREAD");
    command.arg("COUNT").arg(BATCH).arg("BLOCK").arg(BLOCK.as_millis() as u64);
    command.arg("STREAMS").arg(stream).arg(position);
    read_reply(query::<Value>(connection, &command).await?)
}
