//! The keys of a server that hold values of Allot.

use allot_client::{Connection, Error, query};
use redis::cmd;
use serde::Serialize;
use utoipa::ToSchema;

/// The types of values, by the name that `TYPE` gives and the name of the family's page.
const TYPES: [(&str, &str); 4] =
    [("allotseat", "show"), ("allotconf", "realm"), ("allotpool", "pool"), ("allotacct", "book")];
/// Keys that one step of a scan looks at.
const STEP: u32 = 1000;
/// Most steps for one type: a server with more than a million other keys is not searched to its end.
const STEPS: u32 = 1000;
/// Most keys of one type.
const MOST: usize = 200;

/// A key that holds a value of Allot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub(crate) struct Key {
    /// `show`, `realm`, `pool` or `book`.
    pub(crate) kind: &'static str,
    /// The key.
    pub(crate) key: String,
}

/// The keys of this server that hold values of Allot, at most [`MOST`] of each type, sorted.
pub(crate) async fn keys(connection: &mut Connection) -> Result<Vec<Key>, Error> {
    let mut all = Vec::new();
    for (name, kind) in TYPES {
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
        all.extend(found.into_iter().map(|key| Key { kind, key }));
    }
    all.sort();
    all.dedup();
    Ok(all)
}
