//! Another way to servers than TCP. A simulation connects programs to servers of its own with it.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// A connection to a server, as a stream of bytes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// Opens connections to servers.
pub trait Dial: Debug + Send + Sync + 'static {
    /// A new connection to the server at this address.
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>>;

    /// A random factor of a waiting time, from 0.8 to 1.2.
    fn jitter(&self) -> f64;
}

/// A connection to the server at this address, which must accept the login within `limit`.
pub(crate) async fn connect(
    dial: &dyn Dial,
    (host, port): (&str, u16),
    login: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
    limit: Duration,
) -> RedisResult<MultiplexedConnection> {
    let opened = timeout(limit, async {
        let stream = dial.dial(host, port).await?;
        MultiplexedConnection::new_with_config(login, stream, config).await
    });
    let (connection, driver) = opened.await.map_err(io::Error::from)??;
    tokio::spawn(driver);
    Ok(connection)
}
