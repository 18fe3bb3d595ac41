//! The listener of the console, plain or with TLS, and the checks and limits that every request passes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use allot_runtime::http;
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use tower_http::compression::CompressionLayer;
use tracing::debug;

use crate::problem::Problem;
use crate::settings::Settings;
use crate::shared::Places;
use crate::state::Console;
use crate::{api, assets, security};

/// The most connections at once; further ones wait in the listener's queue. A browser needs up to six.
const CONNECTIONS: usize = 2048;
/// The most connections of one address that is no named proxy; further ones are closed.
const CONNECTIONS_EACH: usize = 256;
/// Time within which a request must be read and its answer begun.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a client has for the head of a request, and for the TLS handshake.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The bound address of the console.
pub(crate) struct Listener {
    socket: TcpListener,
    /// The address with the port that was really bound, if the settings leave the port to the system.
    pub(crate) address: SocketAddr,
    tls: Option<TlsAcceptor>,
    proxies: Vec<IpAddr>,
}

impl Listener {
    /// Binds the address.
    ///
    /// # Errors
    /// The address cannot be listened on, or the certificate or its key cannot be read.
    pub(crate) async fn bind(settings: &Settings) -> Result<Self> {
        let tls = settings.tls.as_ref().map(|(cert, key)| acceptor(cert, key)).transpose()?;
        let socket = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("console.listen {} cannot be listened on", settings.listen))?;
        let address = socket.local_addr().context("console.listen")?;
        Ok(Self { socket, address, tls, proxies: settings.proxies.clone() })
    }

    /// Serves every connection, until the future is dropped.
    pub(crate) async fn serve(self, console: Arc<Console>) {
        let router = router(console);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let by_address = Places::new(CONNECTIONS_EACH);
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let (stream, peer) = http::accept(&self.socket, "the console accepts no connection").await;
            let own = by_address.take(peer.ip());
            if own.is_none() && !self.proxies.contains(&peer.ip()) {
                debug!(%peer, "closed a connection: its address has {CONNECTIONS_EACH} already");
                continue;
            }
            let _ = stream.set_nodelay(true);
            let (router, tls) = (router.clone(), self.tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => connection(stream, peer, router).await,
                    Some(tls) => match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
                        Ok(Ok(stream)) => connection(stream, peer, router).await,
                        Ok(Err(error)) => debug!(%peer, %error, "a TLS handshake failed"),
                        Err(_) => debug!(%peer, "a TLS handshake took too long"),
                    },
                }
                drop((place, own));
            });
        }
    }
}

fn router(console: Arc<Console>) -> Router {
    Router::new()
        .nest("/api/v1", api::routes())
        .route("/api", any(api::unknown))
        .route("/api/{*path}", any(api::unknown))
        .fallback(assets::serve)
        .layer(from_fn_with_state(Arc::clone(&console.guard), security::check_caller))
        .layer(from_fn(security::answer_headers))
        .layer(from_fn(within_time))
        .layer(CompressionLayer::new())
        .with_state(console)
}

/// Refuses a request that takes too long, also if its body comes slowly.
async fn within_time(request: Request, next: Next) -> Response {
    tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await.unwrap_or_else(|_| {
        let why = format!("the request took more than {} s", REQUEST_TIMEOUT.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", why).into_response()
    })
}

/// Serves the requests of one connection.
async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr, router: Router) {
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%peer, %error, "a connection failed");
    }
}

fn acceptor(cert: &std::path::Path, key: &std::path::Path) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("console.tls-cert {}", cert.display()))?;
    let key =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("console.tls-key {}", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("console.tls-cert and console.tls-key")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
