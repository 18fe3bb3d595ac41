//! A port on loopback that leads to a server and loses replies: for each of some commands the first reply, with the
//! connection. The server has executed the request, and the client cannot know.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The commands whose first reply is still to be lost.
type Pending = Arc<Mutex<Vec<Vec<u8>>>>;

/// Such a port. Its threads end with their connections, and the last one with the test program.
#[derive(Debug)]
pub struct LostReplies {
    port: u16,
    pending: Pending,
}

impl LostReplies {
    /// A port that leads to this one, and loses the first reply to each of these commands.
    pub fn to(target: u16, commands: &[&str]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let pending = Pending::default();
        *pending.lock().unwrap_or_else(PoisonError::into_inner) =
            commands.iter().map(|name| name.as_bytes().to_vec()).collect();
        let of_threads = Arc::clone(&pending);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", target))) else {
                    return;
                };
                let pending = Arc::clone(&of_threads);
                thread::spawn(move || carry(&client, &server, &pending));
            }
        });
        Self { port, pending }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The commands whose reply was not lost, because they did not come.
    pub fn remaining(&self) -> Vec<String> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

/// Carries bytes both ways until one side closes or a reply is lost; then closes both.
fn carry(client: &TcpStream, server: &TcpStream, pending: &Pending) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    // Set before the server has the request, and so before it can reply.
    let lose = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = relay(client, server, |request| {
                let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(index) = pending.iter().position(|name| contains(request, name)) {
                    pending.remove(index);
                    lose.store(true, Ordering::SeqCst);
                }
                true
            });
            let _ = server.shutdown(Shutdown::Both);
        });
        let _ = relay(server, client, |_| !lose.load(Ordering::SeqCst));
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    });
}

/// Passes on what comes, until an end or until `pass` says no.
fn relay(mut from: &TcpStream, mut to: &TcpStream, pass: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    let mut buffer = [0; 16_384];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 || !pass(&buffer[..count]) {
            return Ok(());
        }
        to.write_all(&buffer[..count])?;
    }
}

/// Whether bytes contain a word. Some clients write commands in lower case.
fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}
