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
        let host = &self.host;
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{}", self.port)?;
        } else {
            write!(f, "{scheme}://{host}:{}", self.port)?;
        }
        if self.database == 0 { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

/// What an address may be, for errors.
const FORMS: &str = "redis://HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or \
                     redis+cluster://HOST:PORT,HOST:PORT, each with rediss for TLS";
const SENTINEL_PORT: u16 = 26379;
const CLUSTER_PORT: u16 = 6379;

/// User and password.
type Login = (Option<String>, Option<Secret>);

impl Endpoint {
    /// The way to the master at an address, and the user that the address names, if any: `redis://HOST:PORT/DATABASE`,
    /// `redis+sentinel://HOST:PORT,HOST:PORT/MASTER` or `redis+cluster://HOST:PORT,HOST:PORT`, each with `rediss` for
    /// TLS. A port may be missing; the user is in front of the first host, as `USER@`.
    ///
    /// # Errors
    /// [`Error::Address`] if `url` is no such address, or has a password in it: others could read the password in a list of
    /// processes.
    pub fn url(url: &str) -> Result<(Self, Option<String>), Error> {
        let (endpoint, user, password) = Self::url_with_password(url)?;
        if password.is_some() {
            return Err(refused(
                url,
                "has a password in it, which others could see; write the address without the password, and name a file \
                 with the password by the setting password-file",
            ));
        }
        Ok((endpoint, user))
    }

    /// Like [`url`](Self::url), for an address that other users cannot read: the way to the master, the user and the
    /// password.
    ///
    /// # Errors
    /// [`Error::Address`] if `url` is no such address.
    pub fn url_with_password(url: &str) -> Result<(Self, Option<String>, Option<Secret>), Error> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (protocol, way) =
            scheme.split_once('+').map_or((scheme, None), |(protocol, way)| (protocol, Some(way)));
        let tls = protocol == "rediss";
        let (endpoint, (user, password)) = match (protocol, way) {
            ("redis" | "rediss", None) => {
                let (node, login) = one_node(url, url)?;
                (Self::Address(node), login)
            }
            ("redis" | "rediss", Some("sentinel")) => {
                let (login, servers) = split_login(url, rest)?;
                let form = format!("{scheme}://HOST:PORT,HOST:PORT/MASTER");
                let (servers, master) = servers.split_once('/').unwrap_or((servers, ""));
                if master.is_empty() || master.contains(['/', '?', '#']) {
                    let why = format!(
                        "does not end with the name that the Sentinels have for the master; write {form}"
                    );
                    return Err(refused(url, &why));
                }
                let sentinels = nodes(url, servers, SENTINEL_PORT, &form)?;
                (Self::Sentinels { sentinels, master: master.to_owned(), tls }, login)
            }
            ("redis" | "rediss", Some("cluster")) => {
                let (login, servers) = split_login(url, rest)?;
                let form = format!("{scheme}://HOST:PORT,HOST:PORT");
                let servers = servers.strip_suffix('/').unwrap_or(servers);
                (Self::Cluster { nodes: nodes(url, servers, CLUSTER_PORT, &form)?, tls }, login)
            }
            _ => return Err(no_address(url)),
        };
        Ok((endpoint, user, password))
    }
}

fn no_address(url: &str) -> Error {
    refused(url, &format!("is no address of Redis; write {FORMS}"))
}

fn refused(url: &str, why: &str) -> Error {
    Error::Address(format!("'{}' {why}", without_password(url)))
}

/// The server, user and password of an address of one server; `url` is the address in errors.
fn one_node(url: &str, address: &str) -> Result<(Node, Login), Error> {
    let info = address.into_connection_info().map_err(|_| no_address(url))?;
    let (host, port, tls) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (host.clone(), *port, false),
        ConnectionAddr::TcpTls { host, port, .. } => (host.clone(), *port, true),
        _ => return Err(no_address(url)),
    };
    let settings = info.redis_settings();
    let (database, protocol) = (settings.db(), settings.protocol());
    let user = settings.username().map(str::to_owned);
    let password = settings.password().map(|password| Secret::new(password.to_owned()));
    Ok((Node { host, port, tls, database, protocol }, (user, password)))
}

/// User and password in front of a list of servers, and the list.
fn split_login<'a>(url: &str, rest: &'a str) -> Result<(Login, &'a str), Error> {
    let Some((login, servers)) = rest.rsplit_once('@') else { return Ok(((None, None), rest)) };
    if login.contains(',') {
        return Err(refused(
            url,
            "has a comma before its user; write the user once, before the first server, and %2C for a comma in a \
             password",
        ));
    }
    let (_, login) = one_node(url, &format!("redis://{login}@host"))?;
    Ok((login, servers))
}

/// The servers of a list as `host:port`; `form` is what to write instead.
fn nodes(url: &str, list: &str, port: u16, form: &str) -> Result<Vec<String>, Error> {
    let node = |text: &str| {
        let behind_host = text.rsplit_once(']').map_or(text, |(_, behind)| behind);
        let address = if behind_host.contains(':') { text.to_owned() } else { format!("{text}:{port}") };
        match Node::at(&address, false) {
            Ok(_) => Ok(address),
            Err(_) => Err(refused(url, &format!("has a server that is not HOST:PORT; write {form}"))),
        }
    };
    list.split(',').map(node).collect()
}

impl Node {
    /// The server at `host:port`; an IPv6 address is in brackets.
    ///
    /// # Errors
    /// [`Error::Address`] if `address` has another form.
    pub(crate) fn at(address: &str, tls: bool) -> Result<Self, Error> {
        let wrong = || Error::Address(format!("'{address}' is no address of the form HOST:PORT"));
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let odd = |char: char| char.is_whitespace() || "[]/?#@".contains(char);
        let host = bracketed.unwrap_or(host);
        if host.is_empty() || host.contains(odd) || (host.contains(':') && bracketed.is_none()) {
            return Err(wrong());
        }
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Self { host: host.to_owned(), port, tls, database: 0, protocol: ProtocolVersion::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(url: &str) -> Endpoint {
        Endpoint::url(url).unwrap().0
    }

    fn refusal(url: &str) -> String {
        let shown = Endpoint::url(url).unwrap_err().to_string();
        assert!(!shown.contains("cret"), "{shown}");
        shown
    }

    #[test]
    fn nodes_are_of_a_host_and_a_port() {
        assert_eq!(Node::at("h:26379", true).unwrap().to_string(), "rediss://h:26379");
        assert_eq!(Node::at("[::1]:1", false).unwrap().host, "::1");
        for odd in ["h", "h:x", ":1", "::1", "[]:1", "a b:1", "h/1:1"] {
            assert!(Node::at(odd, false).is_err(), "{odd}");
        }
    }

    #[test]
    fn one_server_has_an_address() {
        let shown = |url: &str| match way(url) {
            Endpoint::Address(node) => node.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown("redis://h:7/3"), "redis://h:7/3");
        assert_eq!(shown("rediss://h"), "rediss://h:6379");
        assert_eq!(shown("redis://[::1]"), "redis://[::1]:6379");
    }

    #[test]
    fn sentinels_and_a_cluster_have_one_address() {
        let texts = |some: &[&str]| some.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let sentinels = |some: &[&str], tls| Endpoint::Sentinels {
            sentinels: texts(some),
            master: "main".to_owned(),
            tls,
        };
        assert_eq!(way("redis+sentinel://a:1,b:2/main"), sentinels(&["a:1", "b:2"], false));
        assert_eq!(way("rediss+sentinel://a,[::1]/main"), sentinels(&["a:26379", "[::1]:26379"], true));
        let cluster = |some: &[&str], tls| Endpoint::Cluster { nodes: texts(some), tls };
        assert_eq!(way("redis+cluster://a:1,[::1]:2"), cluster(&["a:1", "[::1]:2"], false));
        assert_eq!(way("rediss+cluster://a,b/"), cluster(&["a:6379", "b:6379"], true));
    }

    #[test]
    fn user_is_before_the_first_server_and_a_password_only_where_it_is_hidden() {
        for (form, password) in
            [("redis://", "se/cret"), ("rediss+sentinel://", "se,@cret"), ("redis+cluster://", "secret")]
        {
            let encoded = password.replace('/', "%2F").replace(',', "%2C").replace('@', "%40");
            let rest = "h:7/main".split('/').take(1 + usize::from(form.contains("sentinel")));
            let rest = rest.collect::<Vec<_>>().join("/");
            let (_, user) = Endpoint::url(&format!("{form}me@{rest}")).unwrap();
            assert_eq!(user.as_deref(), Some("me"), "{form}");
            let url = format!("{form}me:{encoded}@{rest}");
            let (_, user, found) = Endpoint::url_with_password(&url).unwrap();
            assert_eq!(
                (user.as_deref(), found),
                (Some("me"), Some(Secret::new(password.to_owned()))),
                "{form}"
            );
            let shown = refusal(&url);
            assert!(shown.contains("password-file") && shown.contains(&format!("{form}***@h:7")), "{shown}");
        }
        let several = refusal("redis+cluster://me:secret@a:1,me:secret@b:2");
        assert!(several.contains("%2C"), "{several}");
    }

    #[test]
    fn other_addresses_are_refused_with_what_to_write() {
        for (url, part) in [
            ("http://h", "redis+sentinel://HOST"),
            ("redis+ring://h:1", "redis+cluster://HOST"),
            ("user:secret@host:6379", "redis://HOST:PORT"),
            ("unix:///s?pass=secret", "redis://HOST:PORT"),
            ("", "redis://HOST:PORT"),
            ("redis://", "redis://HOST:PORT"),
            ("rediss+sentinel://h:1", "write rediss+sentinel://HOST:PORT,HOST:PORT/MASTER"),
            ("redis+sentinel://h:1/", "/MASTER"),
            ("redis+sentinel://me:secret@h:1/", "/MASTER"),
            ("redis+sentinel://h:1/main/3", "/MASTER"),
            ("redis+sentinel:///main", "/MASTER"),
            ("redis+cluster://h:1,,h:2", "write redis+cluster://HOST:PORT,HOST:PORT"),
            ("redis+cluster://h:1/3", "write redis+cluster://"),
            ("redis+cluster://::1", "not HOST:PORT"),
            ("redis+cluster://h:70000", "not HOST:PORT"),
        ] {
            let shown = refusal(url);
            assert!(shown.contains(part), "{url}: {shown}");
        }
    }
}
