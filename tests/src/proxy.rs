//! A wire with scissors: a port on loopback that leads to a server, until the test cuts it, or leads it elsewhere.
//! While it is cut nothing gets through and nothing is closed, as when a cable is pulled. It can be long: then bytes
//! arrive later, and new ones follow meanwhile.

use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::wait::{TIMEOUT, eventually};

/// Where the wire leads, and whether it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    target: u16,
    cut: bool,
    /// How long bytes take from the server to the client.
    delay: Duration,
}

/// A wire.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: watch::Sender<State>,
    task: AbortHandle,
    /// Each connection has a copy while bytes get through.
    open: Arc<()>,
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    })
}

impl Proxy {
    /// A wire to this port on loopback.
    pub fn to(target: u16) -> Self {
        let (state, watched) = watch::channel(State { target, cut: false, delay: Duration::ZERO });
        let listener =
            runtime().block_on(TcpListener::bind(("127.0.0.1", 0))).expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let open = Arc::new(());
        let task = runtime().spawn(accept(listener, watched, Arc::downgrade(&open))).abort_handle();
        Self { port, state, task, open }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Nothing gets through from now on.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cut = true);
        // A connection may be busy with bytes, and would let those through that come next.
        eventually("no bytes to get through", TIMEOUT, || Arc::strong_count(&self.open) == 1);
    }

    /// New connections get through again; those that were there are gone.
    pub fn heal(&self) {
        self.state.send_modify(|state| state.cut = false);
    }

    /// Bytes from the server take this long; connections that were there are closed.
    pub fn delay(&self, delay: Duration) {
        self.state.send_modify(|state| state.delay = delay);
    }

    /// Leads to another port; connections to the one before are closed.
    pub fn lead_to(&self, target: u16) {
        self.state.send_modify(|state| state.target = target);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: watch::Receiver<State>, open: Weak<()>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        tokio::spawn(carry(client, state.clone(), open.clone()));
    }
}

async fn carry(mut client: TcpStream, mut state: watch::Receiver<State>, open: Weak<()>) {
    let begun = *state.borrow_and_update();
    if !begun.cut {
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", begun.target)).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let is_open = open.upgrade();
        tokio::select! {
            biased;
            changed = state.wait_for(|now| *now != begun) => match changed {
                Ok(now) if now.cut => {}
                _ => return,
            },
            _ = copy_both(&mut client, &mut server, begun.delay) => return,
        }
        drop(is_open);
        // Both ends stay open, and hear nothing.
        let _ = state.wait_for(|now| !now.cut).await;
        return;
    }
    let _ = state.wait_for(|now| !now.cut).await;
}

/// Copies in both directions until one of them ends.
async fn copy_both(client: &mut TcpStream, server: &mut TcpStream, delay: Duration) -> io::Result<()> {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.split(), server.split());
    tokio::select! {
        ended = copy(&mut from_client, &mut to_server, Duration::ZERO) => ended,
        ended = copy(&mut from_server, &mut to_client, delay) => ended,
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    delay: Duration,
) -> io::Result<()> {
    let (sender, mut sent) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    // Ends the channel with the bytes: what is on its way arrives.
    let reading = async move {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut bytes).await?;
            if count == 0 || sender.send((Instant::now() + delay, bytes[..count].to_vec())).is_err() {
                return Ok(());
            }
        }
    };
    let writing = async {
        while let Some((due, bytes)) = sent.recv().await {
            sleep_until(due).await;
            to.write_all(&bytes).await?;
        }
        Ok(())
    };
    tokio::try_join!(reading, writing).map(drop)
}
