//! The servers of an ensemble as people write them: `HOST:PORT` with commas between, and perhaps a directory after the
//! last one, below which all paths are.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// ZooKeeper's usual port.
const DEFAULT_PORT: u16 = 2181;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// The servers of an ensemble, and the directory below which all paths are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectString {
    /// At least one.
    pub(super) servers: Vec<Server>,
    /// A path without `/` at the end.
    pub(super) directory: Option<String>,
}

impl ConnectString {
    /// A server that is named by its address; certificates have names.
    pub fn address(&self) -> Option<IpAddr> {
        self.servers.iter().find_map(|server| server.host.parse().ok())
    }

    /// The servers as the client library must read them.
    ///
    /// The library tries again without a pause, and ignores its own deadline, if connecting to an address fails at once,
    /// for example because there is no route. A thread then spins for ever, and no timeout of the caller helps. A name is
    /// resolved on another thread meanwhile, so the library looks at its deadline. Every C library resolves these forms of
    /// an address as well, and the client library takes them for names.
    pub(super) fn for_library(&self) -> String {
        let servers: Vec<String> = self
            .servers
            .iter()
            .map(|Server { host, port }| {
                if let Ok(address) = host.parse::<Ipv4Addr>() {
                    format!("{:#010x}:{port}", u32::from(address))
                } else if host.parse::<Ipv6Addr>().is_ok() {
                    // Scope 0 is no scope.
                    format!("[{host}%0]:{port}")
                } else {
                    format!("{host}:{port}")
                }
            })
            .collect();
        servers.join(",")
    }
}

impl FromStr for ConnectString {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(format!(
                "'{text}': write HOST:PORT without '{scheme}://'; zookeeper.ca-file switches TLS on"
            ));
        }
        let (servers, directory) = text.split_at(text.find('/').unwrap_or(text.len()));
        if directory.contains(',') {
            return Err(format!("'{text}': write the directory once, after the last server"));
        }
        let servers: Result<Vec<Server>, String> =
            servers.split(',').map(|server| server.trim().parse()).collect();
        Ok(Self { servers: servers?, directory: checked_directory(directory)? })
    }
}

fn checked_directory(directory: &str) -> Result<Option<String>, String> {
    let Some(below) = directory.strip_prefix('/') else { return Ok(None) };
    if below.split('/').any(|name| matches!(name, "" | "." | "..") || name.chars().any(char::is_control)) {
        return Err(format!(
            "the directory '{directory}' after the servers is no path such as /allot: it has no '/' at its end, no empty \
             name, no '.' and no '..'"
        ));
    }
    Ok(Some(directory.to_owned()))
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("'{text}' is no ZooKeeper server of the form HOST:PORT: {why}"));
        let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
            let Some((host, port)) = bracketed.split_once(']') else { return wrong("']' is missing") };
            if host.parse::<Ipv6Addr>().is_err() {
                return wrong("no IPv6 address is in the brackets");
            }
            (host, port)
        } else {
            text.split_at(text.find(':').unwrap_or(text.len()))
        };
        let is_name =
            |host: &str| host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
        let is_number = host.chars().all(|c| c.is_ascii_digit() || c == '.');
        match port.strip_prefix(':') {
            None if port.is_empty() => {}
            Some(digits) if digits.contains(':') => {
                return wrong("write an IPv6 address in brackets, as in [::1]:2181");
            }
            Some(digits) if digits.parse::<u16>().is_ok_and(|port| port > 0) => {}
            _ => return wrong("the port is a number from 1 to 65535"),
        }
        if host.is_empty() {
            return wrong("the host is missing");
        }
        if !text.starts_with('[') && !is_name(host) {
            return wrong("a host has letters, digits, '.', '-' and '_'; commas separate servers");
        }
        if is_number && host.parse::<Ipv4Addr>().is_err() {
            return wrong("an IPv4 address has four numbers from 0 to 255");
        }
        let port = port.strip_prefix(':').and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_PORT);
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        write!(f, "{}{}", servers.join(","), self.directory.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::net::ToSocketAddrs as _;

    use super::*;

    #[test]
    fn servers_and_directory_are_read_as_they_are_written() {
        for (text, shown) in [
            ("a", "a:2181"),
            (" a:1 , b-2.example_x:2 ", "a:1,b-2.example_x:2"),
            ("10.0.0.1:2181,[::1]:2182,[fe80::1]/allot/x", "10.0.0.1:2181,[::1]:2182,[fe80::1]:2181/allot/x"),
        ] {
            assert_eq!(text.parse::<ConnectString>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn wrong_connect_string_is_refused_with_its_reason() {
        for (text, why) in [
            ("", "the host is missing"),
            ("127.0.0.1:99999", "the port"),
            ("a:0", "the port"),
            ("a:", "the port"),
            ("a:1,", "the host is missing"),
            (":1", "the host is missing"),
            ("a;b", "commas"),
            ("zk://a:1/app", "without 'zk://'"),
            ("tcp+tls://a:1", "zookeeper.ca-file"),
            ("a:1/app/", "no '/' at its end"),
            ("a:1/", "no '/' at its end"),
            ("a:1/x/../y", "no '..'"),
            ("a:1/app,b:1/app", "once, after the last server"),
            ("[::1", "']' is missing"),
            ("[a]:1", "no IPv6 address"),
            ("[::1]x", "the port"),
            ("::1:2181", "in brackets"),
            ("1.2.3.4.5:1", "four numbers"),
            ("10.0.0.256:1", "four numbers"),
        ] {
            let refused = text.parse::<ConnectString>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn address_for_the_library_resolves_and_is_no_address_to_it() {
        for host in ["10.1.2.3", "127.0.0.1", "::1", "2001:db8::7"] {
            let server = Server { host: host.to_owned(), port: 7 };
            let given = ConnectString { servers: vec![server.clone()], directory: None }.for_library();
            let name = given.strip_suffix(":7").unwrap().trim_matches(['[', ']']);
            assert!(name.parse::<IpAddr>().is_err(), "{name}");
            let resolved: Vec<_> = (name, 7).to_socket_addrs().unwrap().map(|address| address.ip()).collect();
            assert_eq!(resolved, [host.parse::<IpAddr>().unwrap()]);
        }
    }
}
