//! The keys of the server that hold values of Allot, and whether the server answers: what every page shows.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{Connection, Error, query};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use redis::cmd;
use tokio::time::timeout;

use super::reader::Reader;
use crate::channel::{Feed, Message, Subject};
use crate::problem::Problem;
use crate::shared::{FoundKey, KeyList};
use crate::state::Console;

/// A type of values: the name that `TYPE` gives, the name of the family's page, and the subject of a key of this type.
type KeyType = (&'static str, &'static str, fn(String) -> Subject);

pub(super) const TYPES: [KeyType; 4] = [
    ("allotseat", "show", Subject::Show),
    ("allotconf", "realm", Subject::Realm),
    ("allotpool", "pool", Subject::Pool),
    ("allotacct", "book", Subject::Book),
];
/// Keys that one step of a scan looks at.
const STEP: u32 = 1000;
/// Most steps for one type: a server with more than a million other keys is not searched to its end.
const STEPS: u32 = 1000;
/// Most keys of one type: the list goes to every page.
const MOST: usize = 5000;
/// Interval at which the server is asked whether it answers.
const PAUSE: Duration = Duration::from_secs(1);

impl Console {
    /// The keys that hold values of Allot, at most [`MOST`] of each type, sorted.
    pub(crate) async fn key_list(&self) -> Result<KeyList, Error> {
        let scan = async {
            let mut session = self.viewer.session(&self.keys.realm).await?;
            let keys = scan(&mut session.connection).await;
            self.viewer.checked(&self.keys.realm, keys)
        };
        self.key_list.answer((), scan).await
    }
}

async fn scan(connection: &mut Connection) -> Result<KeyList, Error> {
    let (mut all, mut more) = (Vec::new(), Vec::new());
    for (name, kind, _) in TYPES {
        let (mut cursor, mut found) = (0_u64, Vec::new());
        for _ in 0..STEPS {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(STEP).arg("TYPE").arg(name);
            let (next, page): (u64, Vec<Vec<u8>>) = query(connection, &scan).await?;
            found.extend(page.into_iter().map(|key| FoundKey::new(kind, key)));
            cursor = next;
            if cursor == 0 || found.len() >= MOST {
                break;
            }
        }
        if cursor != 0 {
            more.push(kind);
        }
        found.truncate(MOST);
        all.extend(found);
    }
    all.sort();
    all.dedup();
    Ok(KeyList { keys: all, more })
}

#[derive(Default)]
pub(super) struct Keys {
    /// The search for keys that goes on: on a large server it takes longer than people may wait to hear that a server is
    /// away.
    search: Option<BoxFuture<'static, Result<KeyList, Error>>>,
}

impl Reader for Keys {
    async fn read(&mut self, console: &Arc<Console>, _: &str, feed: &Feed) -> Result<Duration, Problem> {
        // Also while Redis is away.
        feed.send_kept(Message::new("alerts", &console.alerts.now()));
        console.viewer.send(&console.keys.realm, &cmd("TIME")).await?;
        let search = self.search.get_or_insert_with(|| {
            let console = Arc::clone(console);
            async move { console.key_list().await }.boxed()
        });
        if let Ok(found) = timeout(PAUSE, search).await {
            self.search = None;
            feed.send_state(Message::new("state", &found?));
            return Ok(PAUSE);
        }
        Ok(Duration::ZERO)
    }
}
