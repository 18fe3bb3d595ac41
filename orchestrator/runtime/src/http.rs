//! The HTTP port: metrics for Prometheus, and liveness and readiness probes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tracing::{info, warn};

use super::health::Health;

/// Interval at which the metrics recorder discards old samples.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(5);

/// Installs the metrics recorder, and serves metrics and probes at this address until the process ends.
///
/// # Errors
/// A recorder is installed already, or the address cannot be listened on.
pub async fn serve(address: SocketAddr, health: Health) -> Result<()> {
    let metrics = PrometheusBuilder::new().install_recorder().context("metrics")?;
    describe();
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
    let router = Router::new()
        .route("/metrics", get(|State((metrics, _)): Shared| async move { metrics.render() }))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(|State((_, health)): Shared| async move { ready(&health) }))
        .with_state((metrics, health));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            warn!(%error, "the HTTP server ended; metrics and probes are not served any more");
        }
    });
    Ok(())
}

type Shared = State<(PrometheusHandle, Health)>;

fn ready(health: &Health) -> (StatusCode, String) {
    let troubles = health.problems();
    if troubles.is_empty() {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", troubles.join("\n")))
    }
}

fn describe() {
    use metrics::{describe_counter, describe_gauge};
    describe_gauge!("allot_ready", "1 where a part of the process has what it needs");
    describe_gauge!("allot_scheduler_leading", "1 in the scheduler that leads");
    describe_gauge!("allot_scheduler_term", "Term of the leading scheduler");
    describe_gauge!("allot_scheduler_brake", "1 while the brake (mass-failure guard) holds");
    describe_gauge!("allot_scheduler_units", "Units by state");
    describe_gauge!("allot_scheduler_conferences", "Conferences by state");
    describe_counter!("allot_scheduler_downs_total", "Units declared down");
    describe_counter!("allot_scheduler_grants_total", "Conferences recovered: assigned to another unit");
    describe_counter!(
        "allot_scheduler_unconfirmed_total",
        "Changes of owner that no replica confirmed in time"
    );
    describe_counter!("allot_store_faults_total", "Sessions with Redis that failed");
    describe_counter!(
        "allot_proxy_messages_total",
        "Messages by outcome: written, refused, odd (of unknown form)"
    );
    describe_counter!("allot_proxy_claimed_total", "Messages taken over from other consumers");
    describe_gauge!("allot_compaction_running", "Subtasks that this unit runs");
    describe_gauge!("allot_compaction_monitor", "1 in the unit that is the monitor");
    describe_gauge!("allot_unit_conferences", "Conferences of this unit");
    describe_counter!("allot_unit_commands_total", "Commands to this unit by event");
    describe_counter!("allot_unit_reports_total", "Reports of this unit");
    describe_counter!("allot_unit_untold_total", "Batches of details of this unit that Redis refused");
    describe_counter!(
        "allot_unit_unconfirmed_total",
        "Writes of this unit that no replica confirmed in time"
    );
}
