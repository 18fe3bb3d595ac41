//! The keys of the server that hold values of Allot, and whether the server answers: what every page shows.

use std::time::Duration;

use allot_client::{Connection, Error, query};
use redis::cmd;
use serde::Serialize;

use super::reader::Reader;
use crate::channel::{Feed, Message, Subject};
use crate::problem::Problem;
use crate::shared::FoundKey;
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
/// Most keys of one type.
const MOST: usize = 200;
/// Interval at which the server is asked whether it answers.
const PAUSE: Duration = Duration::from_secs(1);

impl Console {
    /// The keys that hold values of Allot, at most [`MOST`] of each type, sorted.
    pub(crate) async fn key_list(&self) -> Result<Vec<FoundKey>, Error> {
        let scan = async {
            let mut session = self.viewer.session(&self.keys.realm).await?;
            let keys = scan(&mut session.connection).await;
            self.viewer.checked(&self.keys.realm, keys)
        };
        self.key_list.answer((), scan).await
    }
}

async fn scan(connection: &mut Connection) -> Result<Vec<FoundKey>, Error> {
    let mut all = Vec::new();
    for (name, kind, _) in TYPES {
        let (mut cursor, mut found) = (0_u64, Vec::new());
        for _ in 0..STEPS {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(STEP).arg("TYPE").arg(name);
            let (next, page): (u64, Vec<Vec<u8>>) = query(connection, &scan).await?;
            // The page's address names a key as text.
            found.extend(page.into_iter().filter_map(|key| String::from_utf8(key).ok()));
            cursor = next;
            if cursor == 0 || found.len() >= MOST {
                break;
            }
        }
        found.truncate(MOST);
        all.extend(found.into_iter().map(|key| FoundKey { kind, key }));
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// The list, as every page gets it.
#[derive(Serialize)]
struct State {
    keys: Vec<FoundKey>,
}

pub(super) struct Keys;

impl Reader for Keys {
    async fn read(&mut self, console: &Console, _: &str, feed: &Feed) -> Result<Duration, Problem> {
        console.viewer.send(&console.keys.realm, &cmd("TIME")).await?;
        feed.send_state(Message::new("state", &State { keys: console.key_list().await? }));
        Ok(PAUSE)
    }
}
