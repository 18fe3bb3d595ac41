//! The files of the page, which are part of the program.

use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::Embed;

/// All files of the page. A debug build reads them from the folder at each request.
#[derive(Embed)]
#[folder = "assets/"]
struct Assets;

/// A file of the page; for the address of a page, the page itself.
pub(crate) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let name = if path.is_empty() || !path.contains('.') { "index.html" } else { path };
    let Some(file) = Assets::get(name) else {
        return (StatusCode::NOT_FOUND, "no such file\n").into_response();
    };
    // The files of another version have the same names: a browser asks each time, and gets what has changed.
    let digest = file
        .metadata
        .sha256_hash()
        .iter()
        .take(16)
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let tag = format!("\"{digest}\"");
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    let is_known =
        known.flat_map(|list| list.split(',')).any(|one| one.trim().trim_start_matches("W/") == tag);
    let headers = [(header::ETAG, tag), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    ([(header::CONTENT_TYPE, content_type(name))], headers, file.data.into_owned()).into_response()
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}
