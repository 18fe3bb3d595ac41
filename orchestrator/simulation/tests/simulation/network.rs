//! The connections of a process to Redis and its Sentinel.

use std::fmt;
use std::io;
use std::sync::Arc;

use allot_client::{Dial, Transport};
use allot_coordination::random;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::link::Link;
use super::redis::serve::{Connection, Peer};
use super::redis::{Redis, SERVERS, host};

/// The host name of the Sentinel.
pub(super) const SENTINEL: &str = "sentinel";

/// The connections of one process to Redis.
pub(super) struct Network {
    pub(super) redis: Redis,
    pub(super) link: Link,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated network")
    }
}

impl Dial for Network {
    fn dial(&self, to: &str, _port: u16) -> BoxFuture<'static, io::Result<Arc<dyn Transport>>> {
        let (redis, link, to) = (self.redis.clone(), self.link.clone(), to.to_owned());
        async move {
            let server = (0..SERVERS).find(|server| host(*server) == to);
            let peer = match server {
                Some(server) => Peer::Server(redis, server),
                None if to == SENTINEL => Peer::Sentinel(redis),
                None => return Err(io::ErrorKind::NotFound.into()),
            };
            let opened = Connection::open(peer, link).await.ok_or(io::ErrorKind::ConnectionRefused)?;
            Ok(Arc::new(opened) as Arc<dyn Transport>)
        }
        .boxed()
    }

    fn jitter(&self) -> f64 {
        random::within(0.8..1.2)
    }
}
