//! Event streams, by Server-Sent Events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;

use crate::channel::{Feed, Message};
use crate::problem::Problem;
use crate::security::Caller;
use crate::shared::STREAMS;
use crate::state::Console;

/// Interval of comments on a silent stream, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Which events.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// A key, `overview`, `compaction` or `keys`. Keys of these three names are named with a `key:` in front.
    key: String,
}

/// Live events of a key, of the overview, of compaction or of the list of keys.
pub(super) async fn events(
    State(console): State<Arc<Console>>,
    Extension(caller): Extension<Caller>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let subject = console.subject(&which?.key).await?;
    let Some(place) = console.streams.place(caller.peer.ip()) else {
        let why = format!("{STREAMS} event streams of one address are open already");
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-streams", why));
    };
    let feed = console.feed(&subject);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    let guard = Arc::clone(&console.guard);
    let ended = move || caller.session.as_ref().is_some_and(|id| guard.sessions.session_access(id).is_none());
    Ok(Sse::new(messages(feed, place, ended)).keep_alive(keep_alive))
}

/// The messages of a feed for one listener: the latest state, then everything as it comes, until its session has ended.
fn messages(
    feed: Arc<Feed>,
    place: OwnedSemaphorePermit,
    ended: impl Fn() -> bool,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let (first, receiver) = feed.listen();
    // The stream holds the feed, so that its reader goes on, and the place.
    let held = (feed, place, ended);
    let rest = stream::unfold((receiver, held), |(mut receiver, held)| async move {
        let message = match receiver.recv().await {
            Ok(message) => message,
            Err(RecvError::Lagged(lost)) => Message::new("resync", &lost),
            Err(RecvError::Closed) => return None,
        };
        if held.2() {
            return None;
        }
        Some((message, (receiver, held)))
    });
    let event = |message: Message| Ok(Event::default().event(message.event).data(&*message.data));
    stream::iter(first).chain(rest).map(event)
}
