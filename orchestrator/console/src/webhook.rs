//! Posts alerts to the address of the settings.

use std::sync::Arc;
use std::time::Duration;

use allot_client::Secret;
use allot_runtime::blocking;
use anyhow::{Context as _, Result, anyhow, ensure};
use axum::body::Body as Content;
use axum::http::{Request, Uri, header};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tracing::warn;

/// Time limit of an attempt.
const LIMIT: Duration = Duration::from_secs(10);
/// Pauses before further attempts.
const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(30)];

/// Alerts that wait to be posted.
const WAITING: usize = 100;

/// What is posted.
#[derive(Serialize)]
pub(crate) struct Body {
    /// The alert in words, where chats look for it.
    pub(crate) text: String,
    pub(crate) rule: String,
    /// Whether the alert begins; else it ends.
    pub(crate) fires: bool,
    pub(crate) value: f64,
    /// In milliseconds since 1970.
    pub(crate) at: u64,
    /// The address of the console.
    pub(crate) console: String,
}

/// Whether this can be the address of a webhook.
pub(crate) fn check(address: &Secret) -> Result<()> {
    let uri: Option<Uri> = address.reveal().parse().ok();
    let is_known =
        uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    let has_user = address.reveal().split('/').nth(2).is_some_and(|authority| authority.contains('@'));
    ensure!(!has_user, "the address of console.webhook-file has a user in it, which is not supported");
    // The address is a secret: everybody who has it can post. It is not printed.
    ensure!(is_known, "the address of console.webhook-file is no address as https://hooks.example.com/allot");
    Ok(())
}

/// Starts to post alerts, one after the other.
pub(crate) fn start(address: Secret) -> mpsc::Sender<Body> {
    let (queue, mut waiting) = mpsc::channel::<Body>(WAITING);
    tokio::spawn(async move {
        while let Some(body) = waiting.recv().await {
            if let Err(error) = post(&address, &body).await {
                warn!(rule = body.rule, %error, "the alert could not be posted to the webhook");
            }
        }
    });
    queue
}

/// Posts, with some attempts.
///
/// # Errors
/// The reason that the last attempt failed.
async fn post(address: &Secret, body: &Body) -> Result<()> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let outcome = timeout(LIMIT, post_once(address, body)).await;
        match (
            outcome.unwrap_or_else(|_| Err(anyhow!("it took more than {} s", LIMIT.as_secs()))),
            pauses.next(),
        ) {
            (Err(_), Some(pause)) => sleep(pause).await,
            (outcome, _) => return outcome,
        }
    }
}

async fn post_once(address: &Secret, body: &Body) -> Result<()> {
    let uri: Uri = address.reveal().parse()?;
    let host = uri.host().context("the address has no host")?.trim_matches(['[', ']']).to_owned();
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((&host[..], port)).await?;
    if !is_tls {
        return send(stream, &uri, body).await;
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(blocking::run(|| rustls_native_certs::load_native_certs().certs).await);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host)?;
    send(TlsConnector::from(Arc::new(config)).connect(name, stream).await?, &uri, body).await
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    uri: &Uri,
    body: &Body,
) -> Result<()> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Content::from(serde_json::to_vec(body)?))?;
    let status = sender.send_request(request).await?.status();
    ensure!(status.is_success(), "it answered {status}");
    Ok(())
}
