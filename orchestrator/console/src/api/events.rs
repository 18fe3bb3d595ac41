//! Event streams, by Server-Sent Events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allot_client::query;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::{Extension, Json};
use futures_util::{Stream, StreamExt as _, stream};
use redis::cmd;
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;

use crate::feed::{Feed, Message, Subject};
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;
use crate::values;

/// Event streams of one client address at once.
const STREAMS: usize = 256;
/// Interval of comments on a silent stream, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The open event streams by client address.
static OPEN: Mutex<Option<HashMap<IpAddr, usize>>> = Mutex::new(None);

/// Which events.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// A key, `overview` or `compaction`. Keys of these two names are named with a `key:` in front.
    key: String,
}

/// A place among the open streams of an address.
struct Place(IpAddr);

impl Place {
    fn take(address: IpAddr) -> Option<Self> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.get_or_insert_default().entry(address).or_default();
        if *count >= STREAMS {
            return None;
        }
        *count += 1;
        Some(Self(address))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.get_or_insert_default();
        if let Some(count) = open.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.0);
            }
        }
    }
}

/// The subject of a key: its type decides.
pub(super) async fn subject(console: &Console, key: &str) -> Result<Subject, Problem> {
    match key {
        "overview" => return Ok(Subject::Overview),
        "compaction" => return Ok(Subject::Compaction),
        _ => {}
    }
    let key = key.strip_prefix("key:").unwrap_or(key);
    let mut session = console.sources.viewer.session(key).await?;
    let asked = query::<String>(&mut session.connection, cmd("TYPE").arg(key)).await;
    let key = key.to_owned();
    match console.sources.viewer.checked(&key, asked)?.as_str() {
        "allotseat" => Ok(Subject::Show(key)),
        "allotconf" => Ok(Subject::Realm(key)),
        "allotpool" => Ok(Subject::Pool(key)),
        "allotacct" => Ok(Subject::Book(key)),
        "none" => Err(Problem::new(StatusCode::NOT_FOUND, "NOKEY", format!("there is no key '{key}'"))),
        other => Err(Problem::bad(format!("the key '{key}' holds a {other}, and no value of Allot"))),
    }
}

/// Live events of a key, of the overview or of compaction.
///
/// `state` has the whole state. For a show, `sync` has the number of the latest map, and `changes` the seats that changed
/// since the number before. `trouble` says that the source cannot be read now. `resync` asks to read the page again.
#[utoipa::path(get, path = "/api/v1/events", params(Which),
    responses((status = 200, content_type = "text/event-stream"), (status = 404, body = Problem), (status = 429, body = Problem)))]
pub(super) async fn events(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Query(which): Query<Which>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let subject = subject(&console, &which.key).await?;
    let Some(place) = Place::take(caller.peer.ip()) else {
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
    place: Place,
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

/// The keys that hold values of Allot.
#[utoipa::path(get, path = "/api/v1/keys", responses((status = 200, body = [values::Key]), (status = 503, body = Problem)))]
pub(super) async fn keys(State(console): State<Console>) -> Result<Json<Vec<values::Key>>, Problem> {
    let place = &console.sources.places.realm;
    let mut session = console.sources.viewer.session(place).await?;
    let keys = values::keys(&mut session.connection).await;
    Ok(Json(console.sources.viewer.checked(place, keys)?))
}
