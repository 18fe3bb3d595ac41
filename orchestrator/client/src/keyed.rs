//! The common part of the clients of all keys: sends commands whose first argument is the key, one at a time or many
//! at once.

use redis::{Cmd, Value};

use crate::connection::{Connection, command, query, query_all};
use crate::error::Error;

/// A connection, and the key that its commands name. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Keyed {
    pub(crate) connection: Connection,
    pub(crate) key: String,
}

impl Keyed {
    /// The client of the value at `key`.
    pub(crate) fn new(connection: impl Into<Connection>, key: &str) -> Self {
        Self { connection: connection.into(), key: key.to_owned() }
    }

    /// A command and the key; the caller adds further arguments.
    pub fn begin(&self, name: &str) -> Cmd {
        let mut begun = command(name);
        begun.arg(&self.key);
        begun
    }

    /// Sends a command and reads its reply.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn ask<T: redis::FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        // A clone is a handle to the same connection.
        query(&mut self.connection.clone(), command).await
    }

    /// Sends many commands in one round trip, and in one step if the pipeline is atomic. The first refusal is the result of
    /// all.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn ask_pipe<T: redis::FromRedisValue>(&self, pipe: &redis::Pipeline) -> Result<T, Error> {
        let name = pipe.cmd_iter().next().cloned().unwrap_or_default();
        pipe.query_async(&mut self.connection.clone()).await.map_err(|source| Error::of(&name, source))
    }

    /// Sends many commands in one round trip; each has its own result.
    ///
    /// # Errors
    /// [`Error::Link`] if the connection broke; a refusal is the result of its own command.
    pub async fn ask_all(&self, commands: Vec<Cmd>) -> Result<Vec<Result<Value, Error>>, Error> {
        query_all(&mut self.connection.clone(), commands).await
    }
}
