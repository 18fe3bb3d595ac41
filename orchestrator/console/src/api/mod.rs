//! The HTTP API: reads, actions, event streams, and the OpenAPI document that is generated from them.

mod action;
mod book;
mod events;
mod paging;
mod pool;
mod realm;
mod session;
mod show;
mod tasks;
mod waiting;

use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use axum::{Json, Router};
use tower_http::limit::RequestBodyLimitLayer;
use utoipa::OpenApi;

use crate::state::Console;

/// Longest body of a request, in bytes: some thousand seats.
const BODY: usize = 256 * 1024;
/// Longest table of accounts, in bytes: more than a hundred thousand accounts.
const TABLE: usize = 16 * 1024 * 1024;

/// The API. Its document is at `/api/v1/openapi.json`.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Allot console",
        description = "What the pages of the console show, and what operators do there."
    ),
    paths(
        session::show,
        session::open,
        session::close,
        events::events,
        events::keys,
        show::map,
        show::seats,
        show::find,
        show::hold,
        show::release,
        show::confirm,
        show::refund,
        show::block,
        show::unblock,
        waiting::waiting,
        waiting::wait,
        waiting::unwait,
        realm::conferences,
        realm::conference,
        realm::plan,
        realm::drain,
        realm::undrain,
        realm::move_conference,
        realm::release,
        realm::lift_guard,
        pool::leases,
        pool::numbers,
        pool::hang_up,
        pool::unregister,
        pool::reconcile,
        book::accounts,
        book::proposed,
        book::freeze,
        book::rebalance,
        tasks::history,
        tasks::failures,
        tasks::pause,
        tasks::stop,
        tasks::explain,
        tasks::submit,
        tasks::set,
        tasks::retry,
        tasks::reassign,
        book::import,
    )
)]
struct Document;

async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}

/// All endpoints.
pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/openapi.json", get(document))
        .route("/session", get(session::show).post(session::open).delete(session::close))
        .route("/events", get(events::events))
        .route("/keys", get(events::keys))
        .route("/show/map", get(show::map))
        .route("/show/seats", get(show::seats))
        .route("/show/find", get(show::find))
        .route("/show/hold", post(show::hold))
        .route("/show/release", post(show::release))
        .route("/show/confirm", post(show::confirm))
        .route("/show/refund", post(show::refund))
        .route("/show/block", post(show::block))
        .route("/show/unblock", post(show::unblock))
        .route("/show/waiting", get(waiting::waiting))
        .route("/show/wait", post(waiting::wait))
        .route("/show/unwait", post(waiting::unwait))
        .route("/realm/conferences", get(realm::conferences))
        .route("/realm/conference", get(realm::conference))
        .route("/realm/plan", get(realm::plan))
        .route("/realm/drain", post(realm::drain))
        .route("/realm/undrain", post(realm::undrain))
        .route("/realm/move", post(realm::move_conference))
        .route("/realm/release", post(realm::release))
        .route("/realm/lift-guard", post(realm::lift_guard))
        .route("/pool/leases", get(pool::leases))
        .route("/pool/numbers", get(pool::numbers))
        .route("/pool/hang-up", post(pool::hang_up))
        .route("/pool/unregister", post(pool::unregister))
        .route("/pool/reconcile", post(pool::reconcile))
        .route("/book/accounts", get(book::accounts))
        .route("/book/proposed", get(book::proposed))
        .route("/book/freeze", post(book::freeze))
        .route("/book/rebalance", post(book::rebalance))
        .route("/compaction/history", get(tasks::history))
        .route("/compaction/failures", get(tasks::failures))
        .route("/compaction/pause", post(tasks::pause))
        .route("/compaction/stop", post(tasks::stop))
        .route("/compaction/explain", get(tasks::explain))
        .route("/compaction/submit", post(tasks::submit))
        .route("/compaction/set", post(tasks::set))
        .route("/compaction/retry", post(tasks::retry))
        .route("/compaction/reassign", post(tasks::reassign))
        .layer(RequestBodyLimitLayer::new(BODY))
        .merge(import_routes())
        .fallback(unknown)
}

/// The endpoint whose body is a whole table.
fn import_routes() -> Router<Console> {
    Router::new()
        .route("/book/import", post(book::import))
        .layer((DefaultBodyLimit::disable(), RequestBodyLimitLayer::new(TABLE)))
}

async fn unknown() -> crate::problem::Problem {
    crate::problem::Problem::absent("there is no such endpoint; /api/v1/openapi.json lists all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_names_every_route() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let source = include_str!("mod.rs");
        let routes: Vec<&str> = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix(".route(\"")?.split('"').next())
            .filter(|route| *route != "/openapi.json")
            .collect();
        assert!(routes.len() > 25, "{routes:?}");
        for route in &routes {
            assert!(paths.contains_key(&format!("/api/v1{route}")), "{route} is not in the document");
        }
        assert_eq!(paths.len(), routes.len());
    }
}
