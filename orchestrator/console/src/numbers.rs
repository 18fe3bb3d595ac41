//! Numbers of a pool with their records, for the page and the API.

use allot_client::{Error, NumberStore, Record};

/// Numbers from a cursor on, with their records, and the next cursor, 0 at the end: examines `count` numbers of the pool,
/// and takes those in this state of `NUMPOOL.SCAN`.
pub(crate) async fn number_page(
    pool: &NumberStore,
    cursor: u32,
    count: u32,
    state: Option<&str>,
) -> Result<(u32, Vec<Record>), Error> {
    let mut scan = pool.begin("NUMPOOL.SCAN");
    scan.arg(cursor);
    if let Some(state) = state {
        scan.arg("STATE").arg(state);
    }
    let (next, numbers): (u32, Vec<Vec<u8>>) = pool.ask(scan.arg("COUNT").arg(count)).await?;
    let request = |number: Vec<u8>| pool.begin("NUMPOOL.GET").arg(number).clone();
    let mut records = Vec::new();
    for reply in pool.ask_all(numbers.into_iter().map(request).collect()).await? {
        match reply {
            Ok(record) => records.push(Record::read(record)?),
            // The number was deleted after the scan.
            Err(error) if error.code() == Some("NOTFOUND") => {}
            Err(error) => return Err(error),
        }
    }
    Ok((next, records))
}
