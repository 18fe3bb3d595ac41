//! The HTTP port: metrics for Prometheus, and probes for a supervisor.

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

/// How often what was measured is put in order.
const UPKEEP: Duration = Duration::from_secs(5);

/// Measures from now on, and serves what is measured at this address until the process ends.
pub async fn serve(address: SocketAddr, health: Health) -> Result<()> {
    let metrics = PrometheusBuilder::new().install_recorder().context("metrics")?;
    describe();
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("http.listen {address} cannot be listened on"))?;
    info!(address = %listener.local_addr().unwrap_or(address), "metrics and probes by HTTP");
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    let router = Router::new()
        .route("/metrics", get(|State((metrics, _)): Shared| async move { metrics.render() }))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(|State((_, health)): Shared| async move { ready(&health) }))
        .with_state((metrics, health));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            warn!(%error, "the HTTP port is closed");
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
    describe_gauge!("allot_scheduler_brake", "1 while the brake holds");
    describe_gauge!("allot_scheduler_units", "Units by state");
    describe_gauge!("allot_scheduler_conferences", "Conferences by state");
    describe_counter!("allot_scheduler_downs_total", "Units declared down");
    describe_counter!("allot_scheduler_grants_total", "Conferences placed anew");
    describe_counter!(
        "allot_scheduler_unconfirmed_total",
        "Changes of owner that no replica confirmed in time"
    );
    describe_counter!("allot_store_faults_total", "Sessions with Redis that ended by a fault");
    describe_counter!("allot_proxy_messages_total", "Messages by outcome: written, refused, odd");
    describe_counter!("allot_proxy_claimed_total", "Messages taken over from other consumers");
    describe_gauge!("allot_compaction_running", "Subtasks that this unit runs");
    describe_gauge!("allot_compaction_monitor", "1 in the unit that is the monitor");
    describe_gauge!("allot_unit_conferences", "Conferences of this unit");
    describe_counter!("allot_unit_commands_total", "Commands to this unit by event");
    describe_counter!("allot_unit_reports_total", "Reports of this unit");
    describe_counter!("allot_unit_untold_total", "Times that details of this unit could not be told");
    describe_counter!(
        "allot_unit_unconfirmed_total",
        "Adoptions of this unit that no replica confirmed in time"
    );
}
