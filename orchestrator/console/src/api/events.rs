//! Event streams, by Server-Sent Events. A stream has any number of topics: a browser opens one for all its windows, since
//! it opens only six connections to a server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use allot_runtime::time::now_ms;
use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use futures_util::{Stream, stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use utoipa::IntoParams;

use crate::channel::Message;
use crate::feed::{LATE, Trouble};
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;

/// Interval of the event `beat`, by which a browser knows that the console is there.
const BEAT: Duration = Duration::from_secs(1);
/// Most topics of a stream.
const TOPICS: usize = 64;
/// Messages that wait for a client that reads slowly, before those of the feeds are lost.
const AHEAD: usize = 16;
/// Pause before a topic that cannot be found is looked for again.
const RETRY: Duration = Duration::from_secs(1);

/// Which events.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// A JSON list of topics, at most 64. A topic is a key, `overview`, `compaction` or `keys`. Keys of these three names
    /// are named with a `key:` in front.
    topics: String,
}

/// The data of an event.
#[derive(Serialize)]
struct Of<'a> {
    topic: &'a str,
    data: &'a RawValue,
}

/// Live events of the topics.
pub(super) async fn events(
    State(console): State<Arc<Console>>,
    Extension(caller): Extension<Caller>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let topics: Vec<String> = serde_json::from_str(&which?.topics)
        .map_err(|error| Problem::bad(format!("topics is no list of keys: {error}")))?;
    if topics.is_empty() || topics.len() > TOPICS {
        return Err(Problem::bad(format!("{} topics; a stream has 1 to {TOPICS}", topics.len())));
    }
    let Some(place) = console.streams.take(caller.address) else {
        let why = format!("{} event streams of one address are open already", console.streams.each);
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-streams", why));
    };
    let (sender, receiver) = mpsc::channel(AHEAD);
    for topic in topics {
        let (console, sender) = (Arc::clone(&console), sender.clone());
        tokio::spawn(async move {
            let closed = sender.clone();
            tokio::select! {
                () = follow(&console, &topic, sender) => {}
                () = closed.closed() => {}
            }
        });
    }
    let guard = Arc::clone(&console.guard);
    let ended = move || caller.session.as_ref().is_some_and(|id| guard.sessions.of_session(id).is_none());
    Ok(Sse::new(stream(receiver, place, ended)))
}

/// The events of a stream, until its session has ended. The stream holds its place.
fn stream(
    receiver: mpsc::Receiver<Event>,
    place: OwnedSemaphorePermit,
    ended: impl Fn() -> bool,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold((receiver, beats, place, ended), |(mut receiver, mut beats, place, ended)| async move {
        let event = tokio::select! {
            event = receiver.recv() => event?,
            _ = beats.tick() => Event::default().event("beat").data(now_ms().to_string()),
        };
        if ended() {
            return None;
        }
        Some((Ok(event), (receiver, beats, place, ended)))
    })
}

/// Sends the messages of a topic, until the stream has ended: the latest state, then everything as it comes.
async fn follow(console: &Arc<Console>, topic: &str, sender: mpsc::Sender<Event>) {
    let send = async |message: Message| {
        let data = serde_json::from_str(&message.data).map(|data| Of { topic, data });
        let event = Event::default().event(message.event);
        let Ok(event) = data.map_err(axum::Error::new).and_then(|of| event.json_data(of)) else { return };
        // A stream that has ended drops this future.
        let _ = sender.send(event).await;
    };
    let subject = loop {
        let found = timeout(LATE, console.subject(topic)).await.unwrap_or_else(|_| Err(Problem::late()));
        match found {
            Ok(subject) => break subject,
            Err(problem) => send(Trouble::message(problem, None)).await,
        }
        sleep(RETRY).await;
    };
    // Held, so that its reader goes on.
    let feed = console.feed(&subject);
    let (first, mut receiver) = feed.listen();
    send(Message::new(Message::TROUBLE, &())).await;
    for message in first {
        send(message).await;
    }
    loop {
        match receiver.recv().await {
            Ok(message) => send(message).await,
            Err(RecvError::Lagged(lost)) => send(Message::new("resync", &lost)).await,
            Err(RecvError::Closed) => return,
        }
    }
}
