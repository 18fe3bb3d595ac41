//! Why no session could be opened. The client library reports nearly every cause as a timeout or as "no hosts", so each
//! server is looked at with a connection of its own.

use std::io;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::connect_string::Server;
use crate::coordinator::too_slow;

/// The most bytes of an answer that are read.
const MAX_ANSWER: u64 = 4096;

/// The state of each server, for people. `error` is what the client library reported; `session` is the session timeout.
pub(super) async fn diagnose(servers: &[Server], tls: bool, session: Duration, error: &str) -> String {
    let looks = servers.iter().map(|server| async move { (server, look(server, tls, session, error).await) });
    let mut found: Vec<(String, String)> = Vec::new();
    for (server, state) in join_all(looks).await {
        match found.iter_mut().find(|(_, known)| *known == state) {
            Some((servers, _)) => *servers = format!("{servers}, {server}"),
            None => found.push((server.to_string(), state)),
        }
    }
    let states: Vec<String> =
        found.into_iter().map(|(servers, state)| format!("{servers}: {state}")).collect();
    states.join("; ")
}

async fn look(server: &Server, tls: bool, session: Duration, error: &str) -> String {
    let connecting = TcpStream::connect((server.host.as_str(), server.port));
    let mut stream = match timeout(session, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return refusal(&error),
        Err(_) => {
            return format!("connecting takes more than {session:?}; check the network and its firewalls");
        }
    };
    if tls {
        return format!("the server accepts connections, but no session by TLS: {error}");
    }
    let (asked, mut answer) = (Instant::now(), String::new());
    let asking = async {
        stream.write_all(b"srvr").await?;
        stream.take(MAX_ANSWER).read_to_string(&mut answer).await
    };
    let answered = timeout(session, asking).await;
    match answered {
        Ok(Ok(1..)) => too_slow(asked.elapsed(), session).unwrap_or_else(|| state(&answer, error)),
        Ok(Ok(0)) => "the server closes the connection: it expects TLS (zookeeper.ca-file), or has too many connections \
                      from this host (maxClientCnxns)"
            .to_owned(),
        Ok(Err(error)) => format!("the connection breaks: {error}"),
        Err(_) => "the server accepts connections and does not answer: it hangs, or expects TLS (zookeeper.ca-file)"
            .to_owned(),
    }
}

/// What the answer of a server to the word `srvr` means.
fn state(answer: &str, error: &str) -> String {
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
    if answer.contains("not currently serving requests") {
        "the server has no quorum: too few servers of its ensemble can be reached".to_owned()
    } else if mode == Some("read-only") {
        "the server is read-only: it cannot reach the other servers of its ensemble".to_owned()
    } else if mode.is_some() || answer.contains("whitelist") {
        format!("the server answers, but opens no session: {error}")
    } else {
        "the server is no ZooKeeper".to_owned()
    }
}

fn refusal(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused: no server listens on this port".to_owned(),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => format!("no route: {error}"),
        // The resolver's errors have no kind of their own.
        _ => error.to_string(),
    }
}
