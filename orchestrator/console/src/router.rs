//! All routes of the console, under the checks and limits that every request passes.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tower::limit::ConcurrencyLimitLayer;
use tower_http::compression::CompressionLayer;
use tower_http::limit::RequestBodyLimitLayer;

use crate::state::Console;
use crate::{api, assets, security};

/// Requests in flight; further ones wait. Event streams do not count: their answer has begun.
const REQUESTS: usize = 256;
/// Longest body of a request, in bytes: some thousand seats.
const BODY: usize = 256 * 1024;

/// The router of the console.
pub(crate) fn router(console: Console) -> Router {
    Router::new()
        .nest("/api/v1", api::routes())
        .fallback(assets::serve)
        .layer(from_fn_with_state(Arc::clone(&console.guard), security::check_caller))
        .layer(from_fn(security::answer_headers))
        .layer(RequestBodyLimitLayer::new(BODY))
        .layer(CompressionLayer::new())
        .layer(ConcurrencyLimitLayer::new(REQUESTS))
        .with_state(console)
}
