//! The common part of the clients of all keys: sends commands whose first argument is the key, one at a time or many
//! at once.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use crate::connection::query;
use crate::error::Error;

/// Words and bytes of a usual command.
const WORDS: usize = 16;
const BYTES: usize = 256;

/// A connection, and the key that its commands name. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Keyed {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) key: String,
}

impl Keyed {
    /// The client of the value at `key`.
    pub(crate) fn new(connection: MultiplexedConnection, key: &str) -> Self {
        Self { connection, key: key.to_owned() }
    }

    /// A command and the key; the caller adds further arguments.
    pub fn begin(&self, command: &str) -> Cmd {
        // Room for most commands, so that arguments do not move while they are added.
        let mut begun = Cmd::with_capacity(WORDS, BYTES);
        begun.arg(command).arg(&self.key);
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
    pub async fn ask_all(&self, commands: &[Cmd]) -> Result<Vec<Result<Value, Error>>, Error> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for command in commands {
            pipe.add_command(command.clone());
        }
        let results: Vec<redis::RedisResult<Value>> = pipe
            .ignore_errors()
            .query_async(&mut self.connection.clone())
            .await
            .map_err(|source| Error::Link { what: "the requests got no answer".to_owned(), source })?;
        let sorted = results.into_iter().zip(commands);
        Ok(sorted.map(|(result, command)| result.map_err(|error| Error::of(command, error))).collect())
    }
}
