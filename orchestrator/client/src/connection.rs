//! One connection to one server.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Value};

use crate::address::without_password;
use crate::error::Error;

/// A large plan takes the server seconds to build.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the server at `url`, which may have a user and a password in it. Replies are understood in RESP2 and in RESP3
/// (`?protocol=resp3`).
///
/// # Errors
/// [`Error::Link`] if `url` is no address, or the server is out of reach or refuses the login.
pub async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let link = |source| Error::Link { what: format!("cannot connect to {}", without_password(url)), source };
    let client = redis::Client::open(url).map_err(link)?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTION_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(link)
}

/// Sends a command and reads its reply.
///
/// # Errors
/// Any [`Error`] of a request.
pub async fn query<T: redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &redis::Cmd,
) -> Result<T, Error> {
    // Not `query_async`, which allocates memory for the future of each request.
    let reply = connection.send_packed_command(command).await.and_then(Value::extract_error);
    let reply = reply.and_then(|reply| Ok(redis::from_redis_value(reply)?));
    reply.map_err(|source| Error::of(command, source))
}
