//! The HTTP port: metrics for Prometheus, liveness and readiness probes, and pages of the roles of this process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use allot_client::Servers;
use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

use super::health::Health;
use super::redis_metrics;

/// Interval at which the metrics recorder discards old samples.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(5);
/// The buckets of the duration of a compaction subtask, in seconds: from one second to four hours.
const SUBTASK_SECONDS: [f64; 9] = [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0];
/// What the log says while no connection can be accepted.
const FAILED: &str = "the HTTP port accepts no connection; metrics and probes are not served";
/// Pause after a connection that could not be accepted.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// What a client asks for.
pub struct Question {
    /// Whether the client only reads: the method is GET.
    pub is_read: bool,
    /// The path, as it was sent.
    pub path: String,
    /// The part behind the question mark; empty if there is none.
    pub query: String,
}

/// The answer to a client.
pub struct Page {
    status: StatusCode,
    is_json: bool,
    text: String,
}

impl Page {
    fn plain(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, is_json: false, text: text.into() }
    }

    /// What was asked for.
    pub fn json(value: &serde_json::Value) -> Self {
        Self { status: StatusCode::OK, is_json: true, text: format!("{value}\n") }
    }

    /// There is no such thing.
    pub fn absent(why: &str) -> Self {
        Self::plain(StatusCode::NOT_FOUND, format!("{why}\n"))
    }

    /// Pages are only read. `instead` says who changes what they show.
    pub fn read_only(instead: &str) -> Self {
        Self::plain(StatusCode::METHOD_NOT_ALLOWED, format!("{instead}\n"))
    }

    /// A server that this process needs for the answer has failed.
    pub fn unavailable(why: &str) -> Self {
        Self::plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
    }
}

/// The answers to questions about other paths than those of this file.
pub type Pages = Arc<dyn Fn(Question) -> Pin<Box<dyn Future<Output = Page> + Send>> + Send + Sync>;

/// The pages of a role, below a path of its own. The role sets them when it starts.
#[derive(Clone, Default)]
pub struct RolePages(Arc<OnceLock<(&'static str, Pages)>>);

impl RolePages {
    /// Serves this path, and the paths below it. Of one process, only one role has pages.
    pub fn set(&self, path: &'static str, pages: Pages) {
        let is_first = self.0.set((path, pages)).is_ok();
        crate::invariant(is_first, "one role of a process has pages");
    }

    fn at(&self, path: &str) -> Option<&Pages> {
        let (own, pages) = self.0.get()?;
        path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')).then_some(pages)
    }
}

/// Installs the metrics recorder, and serves probes, metrics of this process, those of the module at these servers, and
/// the pages of a role, at this address until the process ends.
///
/// # Errors
/// A recorder is installed already, or the address cannot be listened on.
pub async fn serve(address: SocketAddr, health: Health, servers: Servers, of_role: RolePages) -> Result<()> {
    let seconds = Matcher::Full("allot_compaction_subtask_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &SUBTASK_SECONDS);
    let metrics = builder.context("metrics")?.install_recorder().context("metrics")?;
    crate::metrics::describe();
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("http.listen {address} cannot be listened on"))?;
    info!(address = %listener.local_addr().unwrap_or(address), "metrics and probes by HTTP");
    let recorder = metrics.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(MAINTENANCE_INTERVAL).await;
            recorder.run_upkeep();
        }
    });
    let pages: Pages = Arc::new(move |question| {
        let (metrics, health, servers) = (metrics.clone(), health.clone(), servers.clone());
        if let Some(pages) = of_role.at(&question.path) {
            return pages(question);
        }
        Box::pin(async move {
            match question.path.as_str() {
                "/metrics" => Page::plain(StatusCode::OK, metrics.render()),
                "/metrics/redis" => Page::plain(StatusCode::OK, redis_metrics::text(&servers).await),
                "/healthz" => Page::plain(StatusCode::OK, "alive\n"),
                "/readyz" => ready(&health),
                _ => Page::plain(StatusCode::NOT_FOUND, ""),
            }
        })
    });
    tokio::spawn(accept_connections(listener, pages, Limits::USUAL));
    Ok(())
}

/// What all clients together may take.
#[derive(Clone, Copy)]
struct Limits {
    /// The most connections at once; further ones wait in the listener's queue.
    connections: usize,
    /// The longest that a connection may last. A client that sends nothing, or reads nothing, is cut off then.
    time: Duration,
}

impl Limits {
    const USUAL: Self = Self { connections: 64, time: Duration::from_secs(10) };
}

/// Serves each connection for one request, until the process ends.
async fn accept_connections(listener: TcpListener, pages: Pages, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let (stream, _) = accept(&listener, FAILED).await;
        let pages = pages.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (is_read, uri) = (request.method() == Method::GET, request.uri());
            let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
            let page = pages(Question { is_read, path, query });
            async {
                let Page { status, is_json, text } = page.await;
                let mut response = Response::new(text);
                *response.status_mut() = status;
                let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
                }
                Ok::<_, Infallible>(response)
            }
        });
        tokio::spawn(async move {
            let connection =
                http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(limits.time, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "an HTTP connection failed"),
                Err(_) => debug!("an HTTP connection took too long"),
            }
            drop(place);
        });
    }
}

/// Accepts the next connection. If that fails, the process is out of files most likely: `failed` is logged once, and
/// this function tries again until it succeeds.
pub async fn accept(listener: &TcpListener, failed: &str) -> (TcpStream, SocketAddr) {
    let mut fails = false;
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if !fails => warn!(%error, "{failed}"),
            Err(_) => {}
        }
        fails = true;
        tokio::time::sleep(ACCEPT_RETRY).await;
    }
}

fn ready(health: &Health) -> Page {
    let troubles = health.problems();
    if troubles.is_empty() {
        Page::plain(StatusCode::OK, "ready\n")
    } else {
        Page::unavailable(&troubles.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: allot\r\n\r\n";

    async fn server(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pages: Pages = Arc::new(|_| Box::pin(async { Page::plain(StatusCode::OK, "alive\n") }));
        tokio::spawn(accept_connections(listener, pages, limits));
        address
    }

    async fn answer(mut client: TcpStream) -> String {
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn connection_serves_one_request() {
        let mut client = TcpStream::connect(server(Limits::USUAL).await).await.unwrap();
        client.write_all(REQUEST).await.unwrap();
        let answer = answer(client).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\nalive\n"), "{answer}");
    }

    #[tokio::test]
    async fn silent_client_is_cut_off_and_its_place_goes_to_the_next() {
        let limits = Limits { connections: 1, time: Duration::from_millis(200) };
        let address = server(limits).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.unwrap();
        let mut next = TcpStream::connect(address).await.unwrap();
        next.write_all(REQUEST).await.unwrap();
        let mut next = pin!(answer(next));
        let mut byte = [0];
        tokio::select! {
            biased;
            read = silent.read(&mut byte) => assert!(!matches!(read, Ok(1..))),
            answer = &mut next => panic!("served beside the silent client: {answer}"),
        }
        assert!(next.await.ends_with("alive\n"));
    }
}
