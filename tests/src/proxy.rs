//! A wire with scissors: a port on loopback that leads to a server, until the test cuts it, or leads it elsewhere.
//! While it is cut nothing gets through and nothing is closed, as when a cable is pulled.

use std::sync::{Arc, OnceLock, Weak};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::wait::{TIMEOUT, eventually};

/// Where the wire leads, and whether it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    target: u16,
    cut: bool,
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
        let (state, watched) = watch::channel(State { target, cut: false });
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
            _ = copy_bidirectional(&mut client, &mut server) => return,
        }
        drop(is_open);
        // Both ends stay open, and hear nothing.
        let _ = state.wait_for(|now| !now.cut).await;
        return;
    }
    let _ = state.wait_for(|now| !now.cut).await;
}
