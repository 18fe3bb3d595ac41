//! One connection to one server.

use std::io;
use std::time::Duration;

use futures_util::FutureExt as _;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisFuture, RedisResult, Value};
use tokio::time::sleep;

use crate::address::without_password;
use crate::dial::Dialed;
use crate::error::Error;

/// A large plan takes the server seconds to build.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to one server, over the network or dialed by a [`Dial`](crate::Dial). Clones share it. Commands and
/// pipelines of the crate [`redis`] can be sent on a connection. Only a network connection supports transactions
/// (`MULTI`).
#[derive(Debug, Clone)]
pub struct Connection(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Network(MultiplexedConnection),
    Dialed(Dialed),
}

impl From<MultiplexedConnection> for Connection {
    fn from(connection: MultiplexedConnection) -> Self {
        Self(Kind::Network(connection))
    }
}

impl From<Dialed> for Connection {
    fn from(connection: Dialed) -> Self {
        Self(Kind::Dialed(connection))
    }
}

impl Connection {
    async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match &mut self.0 {
            Kind::Network(connection) => connection.send_packed_command(command).await,
            Kind::Dialed(connection) => {
                let replies = connection.send(&mut std::iter::once(command));
                replies
                    .await?
                    .into_iter()
                    .next()
                    .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData).into())
            }
        }
    }

    /// Sends a pipeline, and leaves out the first replies.
    async fn send_all(
        &mut self,
        pipeline: &Pipeline,
        left_out: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        match &mut self.0 {
            Kind::Network(connection) => connection.send_packed_commands(pipeline, left_out, count).await,
            Kind::Dialed(_) if pipeline.is_transaction() => {
                // Not an error of the connection: a new session would not help.
                Err((redis::ErrorKind::UnexpectedReturnType, "transactions need a network connection").into())
            }
            Kind::Dialed(connection) => {
                let replies = connection.send(&mut pipeline.cmd_iter());
                Ok(replies.await?.into_iter().skip(left_out).take(count).collect())
            }
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.send(command).boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.send_all(pipeline, offset, count).boxed()
    }

    fn get_db(&self) -> i64 {
        match &self.0 {
            Kind::Network(connection) => connection.get_db(),
            Kind::Dialed(_) => 0,
        }
    }
}

/// Connects to the server at `url`, which may have a user and a password in it. Replies are understood in RESP2 and in RESP3
/// (`?protocol=resp3`).
///
/// # Errors
/// [`Error::Link`] if `url` is no address, or the server is out of reach or refuses the login.
pub async fn connect(url: &str) -> Result<Connection, Error> {
    let link = |source| Error::Link { what: format!("cannot connect to {}", without_password(url)), source };
    let client = redis::Client::open(url).map_err(link)?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTION_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    let connected = client.get_multiplexed_async_connection_with_config(&config).await;
    connected.map(Connection::from).map_err(link)
}

/// Words and bytes of a usual command.
const WORDS: usize = 16;
const BYTES: usize = 256;

/// A command; the caller adds its arguments. It has room for most commands, so arguments do not move while they are
/// added.
pub(crate) fn command(name: &str) -> Cmd {
    let mut begun = Cmd::with_capacity(WORDS, BYTES);
    begun.arg(name);
    begun
}

/// How long to wait before each repetition of a request that was answered `TRYAGAIN`, in milliseconds; 6 s in all. The
/// server carries out some 100,000 deadlines in a second, and with each request some of its own.
const REPEATED_AFTER_MS: [u64; 12] = [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1500];

/// Sends a command and reads its reply. A command that is answered `TRYAGAIN` is sent again, a bounded number of times.
///
/// # Errors
/// Any [`Error`] of a request.
pub async fn query<T: redis::FromRedisValue>(connection: &mut Connection, command: &Cmd) -> Result<T, Error> {
    let mut pauses = REPEATED_AFTER_MS.into_iter();
    loop {
        // Not `query_async`, which allocates memory for the future of each request.
        let reply = connection.send(command).await;
        // `extract_error` builds the whole reply again.
        let reply = reply.and_then(|reply| if has_error(&reply) { reply.extract_error() } else { Ok(reply) });
        let reply = reply.and_then(|reply| Ok(redis::from_redis_value(reply)?));
        match reply.map_err(|source| Error::of(command, source)) {
            Err(error) if error.is_try_again() => match pauses.next() {
                Some(pause) => sleep(Duration::from_millis(pause)).await,
                None => return Err(error),
            },
            reply => return reply,
        }
    }
}

/// Sends commands in one round trip; each has its own result. Those that are answered `TRYAGAIN` are sent again, a
/// bounded number of times.
///
/// # Errors
/// [`Error::Link`] if the connection broke; a refusal is the result of its own command.
pub async fn query_all(
    connection: &mut Connection,
    commands: Vec<Cmd>,
) -> Result<Vec<Result<Value, Error>>, Error> {
    let pipe = pipeline_of(commands);
    let mut results = query_once(connection, &pipe).await?;
    for pause in REPEATED_AFTER_MS {
        let refused = |result: &Result<Value, Error>| result.as_ref().is_err_and(Error::is_try_again);
        let again = results.iter_mut().zip(pipe.cmd_iter()).filter(|(result, _)| refused(result));
        let (places, again): (Vec<_>, Vec<_>) =
            again.map(|(result, command)| (result, command.clone())).unzip();
        if again.is_empty() {
            break;
        }
        sleep(Duration::from_millis(pause)).await;
        for (place, result) in places.into_iter().zip(query_once(connection, &pipeline_of(again)).await?) {
            *place = result;
        }
    }
    Ok(results)
}

fn pipeline_of(commands: Vec<Cmd>) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(commands.len());
    for command in commands {
        pipe.add_command(command);
    }
    pipe
}

/// Sends commands in one round trip; each has its own result.
///
/// # Errors
/// [`Error::Link`] if the connection broke; a refusal is the result of its own command.
async fn query_once(
    connection: &mut Connection,
    pipe: &Pipeline,
) -> Result<Vec<Result<Value, Error>>, Error> {
    if pipe.is_empty() {
        return Ok(Vec::new());
    }
    // Not `query_async`, which allocates memory for the future of each pipeline.
    let replies = connection.send_all(pipe, 0, pipe.len()).await;
    let replies =
        replies.map_err(|source| Error::Link { what: "the requests got no answer".to_owned(), source })?;
    let results = replies.into_iter().zip(pipe.cmd_iter()).map(|(reply, command)| match reply {
        Value::ServerError(error) => Err(Error::of(command, error.into())),
        reply => Ok(reply),
    });
    Ok(results.collect())
}

/// A reply as a value of Rust.
pub(crate) fn read<T: redis::FromRedisValue>(reply: Value) -> Result<T, Error> {
    redis::from_redis_value(reply).map_err(|error| Error::Shape(error.to_string()))
}

/// Whether a reply is an error, or may have one in it.
fn has_error(reply: &Value) -> bool {
    match reply {
        Value::ServerError(_) | Value::Attribute { .. } | Value::Push { .. } => true,
        Value::Array(items) | Value::Set(items) => items.iter().any(has_error),
        Value::Map(pairs) => pairs.iter().any(|(name, value)| has_error(name) || has_error(value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_anywhere_in_a_reply_is_found() {
        let replies: [&[u8]; 7] = [
            b"-ERR no\r\n",
            b"*2\r\n:1\r\n*1\r\n-ERR no\r\n",
            b"%1\r\n+a\r\n-ERR no\r\n",
            b"~1\r\n-ERR no\r\n",
            b"+OK\r\n",
            b"*3\r\n:1\r\n$1\r\na\r\n*-1\r\n",
            b"%1\r\n+a\r\n_\r\n",
        ];
        for reply in replies {
            let reply = redis::parse_redis_value(reply).unwrap();
            assert_eq!(has_error(&reply), reply.clone().extract_error().is_err(), "{reply:?}");
        }
    }
}
