//! All routes of the console, under the checks and limits that every request passes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use crate::state::Console;
use crate::{api, assets, security};

/// Requests in flight; further ones wait. Event streams do not count: their answer has begun.
const REQUESTS: usize = 256;
/// How long a client may send nothing of a body that it has announced.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The router of the console.
pub(crate) fn router(console: Console) -> Router {
    Router::new()
        .nest("/api/v1", api::routes())
        .fallback(assets::serve)
        .layer(from_fn_with_state(Arc::clone(&console.guard), security::check_caller))
        .layer(from_fn(security::answer_headers))
        .layer(RequestBodyTimeoutLayer::new(BODY_TIMEOUT))
        .layer(CompressionLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(REQUESTS))
        .with_state(console)
}
