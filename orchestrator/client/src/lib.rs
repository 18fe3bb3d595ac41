//! The typed client of the module's commands: one connection, one error, one decoder of records.

mod accounts;
mod conferences;
mod error;
mod keyed;
mod numbers;
mod record;
mod seats;
mod servers;
pub mod streams;

use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

pub use accounts::{AccountRow, BookStore, ModuleRow};
pub use conferences::{Grant, RealmStore, UnitRow};
pub use error::Error;
pub use numbers::{NumberStore, PoolInfo};
pub use record::Record;
pub use seats::{Bucket, Hold, MapRow, SeatStore};
pub use servers::{Endpoint, Node, Secret, Servers, Session};

/// A large plan takes the server seconds to build.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the server at `url`; replies are understood in RESP2 and in RESP3 (`?protocol=resp3`).
pub async fn connect(url: &str) -> Result<MultiplexedConnection, Error> {
    let link = |source| Error::Link { what: format!("cannot connect to {}", without_password(url)), source };
    let client = redis::Client::open(url).map_err(link)?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTION_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(link)
}

/// The address as it may be shown: a password may stand before an `@` or in a query, also in what is no address.
pub fn without_password(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.chars().all(char::is_alphanumeric) => (format!("{scheme}://"), rest),
        _ => (String::new(), url),
    };
    let Some((before, query)) = rest.split_once(['?', '#']) else {
        return match rest.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}***@{host}"),
            None => url.to_owned(),
        };
    };
    // Of which of the two an `@` after the mark is a part nobody can tell.
    if query.contains('@') {
        return format!("{scheme}***");
    }
    let host = before.rsplit_once('@').map_or_else(|| before.to_owned(), |(_, host)| format!("***@{host}"));
    format!("{scheme}{host}?***")
}

/// Sends a command and sorts what can go wrong.
pub async fn query<T: redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &redis::Cmd,
) -> Result<T, Error> {
    command.query_async(connection).await.map_err(|source| Error::of(command, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(without_password("redis://me:se@cret@host:1/0"), "redis://***@host:1/0");
        assert_eq!(without_password("redis://host:1"), "redis://host:1");
        assert_eq!(without_password("unix:///s?pass=secret"), "unix:///s?***");
        assert_eq!(without_password("redis://me:secret@host:1?protocol=resp3"), "redis://***@host:1?***");
        assert_eq!(without_password("me:secret@host:1"), "***@host:1");
        for odd in ["unix:///s?pass=se@cret", "redis://me:se?cret@host", "se://cret@host", "se/://cret@h"] {
            assert!(!without_password(odd).contains("cret"), "{odd}: {}", without_password(odd));
        }
    }
}
