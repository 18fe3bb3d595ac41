//! Replicas that do not load the module. Redis tells a master nothing of the modules of its replicas, and a replica without
//! the module acknowledges what it cannot apply. So a thread asks each new replica whether it knows a command of the
//! module, without a password: of a replica that answers nobody without one, nothing is known.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ffi::Context;
use crate::ffi::context::Answer;

/// How long a replica may take to accept, and to answer.
const PATIENCE: Duration = Duration::from_secs(1);

const QUESTION: &[u8] = b"*3\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n$10\r\nSEAT.APPLY\r\n";
/// The answers of servers that do not know the command.
const UNKNOWN: [&[u8; 9]; 2] = [b"*1\r\n$-1\r\n", b"*1\r\n*-1\r\n"];

/// Whether a replica has said that it does not know the command.
static LACKING: AtomicBool = AtomicBool::new(false);
/// Whether a thread asks replicas now.
static ASKING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The replicas that were asked last.
    static ASKED: RefCell<Vec<(String, u16)>> = const { RefCell::new(Vec::new()) };
}

/// Whether a replica is known to have no module. Asks again if there are other replicas than before, or if one lacks it.
pub(super) fn some_lack_the_module(ctx: Context<'_>) -> bool {
    let replicas = if ctx.is_master() { replicas(ctx) } else { Vec::new() };
    if replicas.is_empty() {
        LACKING.store(false, Ordering::Relaxed);
    }
    let is_new = ASKED.replace(replicas.clone()) != replicas;
    let lacking = LACKING.load(Ordering::Relaxed);
    if !replicas.is_empty() && (is_new || lacking) && !ASKING.swap(true, Ordering::Relaxed) {
        let ask = move || {
            let lacks = replicas.iter().any(|replica| lacks_the_module(replica) == Some(true));
            LACKING.store(lacks, Ordering::Relaxed);
            ASKING.store(false, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("allot-replicas".into()).spawn(ask).is_err() {
            ASKING.store(false, Ordering::Relaxed);
        }
    }
    lacking
}

/// The addresses of the replicas.
fn replicas(ctx: Context<'_>) -> Vec<(String, u16)> {
    let role = ctx.ask(c"ROLE", &[]);
    let address = |replica: &Answer| match replica.list() {
        [Answer::Text(host), Answer::Text(port), ..] => {
            let port = std::str::from_utf8(port).ok()?.parse().ok()?;
            Some((String::from_utf8(host.clone()).ok()?, port))
        }
        _ => None,
    };
    role.list()
        .get(2)
        .map(|replicas| replicas.list().iter().filter_map(address).collect())
        .unwrap_or_default()
}

/// Whether a replica does not know a command of the module; `None` if it does not say.
fn lacks_the_module((host, port): &(String, u16)) -> Option<bool> {
    let address = (host.as_str(), *port).to_socket_addrs().ok()?.next()?;
    let mut replica = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    replica.set_read_timeout(Some(PATIENCE)).ok()?;
    replica.set_write_timeout(Some(PATIENCE)).ok()?;
    replica.write_all(QUESTION).ok()?;
    let mut answer = [0; 9];
    replica.read_exact(&mut answer).ok()?;
    Some(UNKNOWN.contains(&&answer))
}
