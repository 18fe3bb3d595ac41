//! The ways to find a master: addresses of servers, and the secrets for them.

use std::fmt;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion};

use crate::address::without_password;
use crate::error::Error;

/// A secret. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret in plain text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The way in which the master is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// The master has this address.
    Address(Node),
    /// Sentinels are asked for the master of this name.
    Sentinels {
        /// Addresses of the Sentinels, `host:port`.
        sentinels: Vec<String>,
        /// Name of the master.
        master: String,
        /// Whether the Sentinels and the master use TLS.
        tls: bool,
    },
    /// Nodes of a cluster are asked for the master of the key's slot.
    Cluster {
        /// Addresses of some nodes, `host:port`.
        nodes: Vec<String>,
        /// Whether the nodes use TLS.
        tls: bool,
    },
}

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    pub(crate) database: i64,
    pub(crate) protocol: ProtocolVersion,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)?;
        if self.database == 0 { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

impl Endpoint {
    /// The server at `redis://host:port[/database]` or `rediss://...`, and the user that the address names, if any.
    ///
    /// # Errors
    /// [`Error::Address`] if `url` is no such address, or has a password in it: others could read the password in a list of processes.
    pub fn url(url: &str) -> Result<(Self, Option<String>), Error> {
        let (endpoint, user, password) = Self::url_with_password(url)?;
        if password.is_some() {
            return Err(Error::Address(format!(
                "'{}' has a password in it, which others could see; name a file by redis.password-file, or set \
                 ALLOT_REDIS_PASSWORD",
                without_password(url)
            )));
        }
        Ok((endpoint, user))
    }

    /// Like [`url`](Self::url), for an address that other users cannot read: the server, its user, and its password.
    ///
    /// # Errors
    /// [`Error::Address`] if `url` is no such address.
    pub fn url_with_password(url: &str) -> Result<(Self, Option<String>, Option<Secret>), Error> {
        let info = match url.into_connection_info() {
            Ok(info) => info,
            Err(error) => return Err(Error::Address(format!("'{}': {error}", without_password(url)))),
        };
        let (host, port, tls) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host.clone(), *port, false),
            ConnectionAddr::TcpTls { host, port, .. } => (host.clone(), *port, true),
            _ => {
                return Err(Error::Address(format!(
                    "'{}' is no address of the form redis://HOST:PORT or rediss://HOST:PORT; a password can be named by \
                 redis.password-file",
                    without_password(url)
                )));
            }
        };
        let settings = info.redis_settings();
        let (database, protocol) = (settings.db(), settings.protocol());
        let user = settings.username().map(str::to_owned);
        let password = settings.password().map(|password| Secret::new(password.to_owned()));
        Ok((Self::Address(Node { host, port, tls, database, protocol }), user, password))
    }
}

impl Node {
    /// The server at `host:port`.
    ///
    /// # Errors
    /// [`Error::Address`] if `address` has another form.
    pub(crate) fn at(address: &str, tls: bool) -> Result<Self, Error> {
        let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts
            .filter(|(host, _)| !host.is_empty())
            .ok_or_else(|| Error::Address(format!("'{address}' is no address of the form HOST:PORT")))?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self { host, port, tls, database: 0, protocol: ProtocolVersion::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_a_host_and_a_port() {
        assert_eq!(Node::at("h:26379", true).unwrap().to_string(), "rediss://h:26379");
        assert_eq!(Node::at("[::1]:1", false).unwrap().host, "::1");
        for odd in ["h", "h:x", ":1"] {
            assert!(Node::at(odd, false).is_err(), "{odd}");
        }
        let Ok((Endpoint::Address(node), None)) = Endpoint::url("redis://h:7/3") else {
            panic!("an address")
        };
        assert_eq!(node.to_string(), "redis://h:7/3");
        for url in ["redis://:secret@h", "unix:///s?pass=secret"] {
            let refused = Endpoint::url(url).unwrap_err().to_string();
            assert!(!refused.contains("secret") && refused.contains("password-file"), "{refused}");
        }
        let (_, user, password) = Endpoint::url_with_password("redis://me:secret@h:7").unwrap();
        assert_eq!((user.as_deref(), password), (Some("me"), Some(Secret::new("secret".to_owned()))));
        let refused = Endpoint::url("user:secret@host:6379").unwrap_err().to_string();
        assert!(!refused.contains("secret"), "{refused}");
    }
}
