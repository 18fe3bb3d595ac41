//! Creates a show on the server, with seats that were sold before.

use std::collections::BTreeMap;

use allot_client::{Connection, PickRequest, SeatStore, query};
use allot_core::seat::plan::Limits;
use anyhow::{Result, bail};
use redis::cmd;

use super::draft::Draft;
use crate::Progress;

/// A hold has at most this many seats.
const MAX_COUNT: usize = 100;
/// Seconds until a half-prepared show expires, in case this process is killed.
const PREPARATION_S: u64 = 3600;

/// Creates the show of a draft, whose plan in JSON is given.
pub async fn create(
    connection: Connection,
    key: &str,
    plan: &str,
    draft: &Draft,
    progress: Progress<'_>,
) -> Result<()> {
    let sold = draft.sold();
    if sold.is_empty() {
        return Ok(SeatStore::new(connection, key).create(plan).await?);
    }
    open_with_sold(connection, key, plan, &sold, draft.limits, progress).await
}

/// The most seats of a hold under the show's own limits.
fn seats_per_hold(limits: Limits) -> usize {
    let limit = limits.seats_per_user as usize;
    if limit == 0 { MAX_COUNT } else { limit.min(MAX_COUNT) }
}

/// The longest time to live of a hold under the show's own limits.
fn hold_ms(limits: Limits) -> u64 {
    if limits.max_hold_ms == 0 { 60_000 } else { limits.max_hold_ms.min(60_000) }
}

/// Creates a show in which some seats are sold before any client can see it: the show is prepared under another
/// name in the same slot, and renamed when all these seats are sold.
async fn open_with_sold(
    mut connection: Connection,
    key: &str,
    plan: &str,
    sold: &BTreeMap<&str, Vec<String>>,
    limits: Limits,
    progress: Progress<'_>,
) -> Result<()> {
    let exists: bool = query(&mut connection, cmd("EXISTS").arg(key)).await?;
    if exists {
        return Err(exists_already(key).into());
    }
    let draft_key = format!("{{{}}}:load:{:016x}", hash_tag(key), rand::random::<u64>());
    let show = SeatStore::new(connection.clone(), &draft_key);
    let prepared = prepare(&mut connection, &show, &draft_key, plan, sold, limits, progress).await;
    let renamed = match prepared {
        Ok(()) => {
            // In one step, so that the finished show cannot keep the expiry of the one in preparation.
            let mut step = redis::pipe();
            step.atomic().cmd("PERSIST").arg(&draft_key).ignore();
            step.cmd("RENAMENX").arg(&draft_key).arg(key);
            let outcome: redis::RedisResult<(bool,)> = step.query_async(&mut connection).await;
            outcome
                .map(|(renamed,)| renamed)
                .map_err(|error| allot_client::Error::of(&cmd("RENAMENX"), error).into())
        }
        Err(error) => Err(error),
    };
    if !matches!(renamed, Ok(true)) {
        let removed: Result<u64, allot_client::Error> =
            query(&mut connection, cmd("UNLINK").arg(&draft_key)).await;
        if let Err(error) = removed {
            tracing::warn!(%error, key = draft_key, "the half-prepared show could not be removed");
        }
    }
    if renamed? { Ok(()) } else { Err(exists_already(key).into()) }
}

async fn prepare(
    connection: &mut Connection,
    show: &SeatStore,
    key: &str,
    plan: &str,
    sold: &BTreeMap<&str, Vec<String>>,
    limits: Limits,
    progress: Progress<'_>,
) -> Result<()> {
    show.create(plan).await?;
    let _: u64 = query(connection, cmd("EXPIRE").arg(key).arg(PREPARATION_S)).await?;
    let most = seats_per_hold(limits).max(1);
    let parts = sold.iter().flat_map(|(order, seats)| seats.chunks(most).map(move |part| (order, part)));
    let (all, mut done) = (sold.values().map(Vec::len).sum::<usize>() as u64, 0);
    for ((order, seats), number) in parts.zip(1..) {
        // Each hold has a user of its own, so that limits per user do not apply.
        let user = format!("imported-{number}");
        let orphans = Some("ALLOW");
        let request =
            PickRequest { user: &user, ttl_ms: hold_ms(limits), seats, orphans, ..PickRequest::default() };
        let hold = show.pick(&request).await?;
        show.confirm(&hold.token, Some(order)).await?;
        done += seats.len() as u64;
        progress(done, all);
    }
    let counted: u64 = show.stat(None, None).await?.iter().map(|bucket| bucket.sold).sum();
    if counted != all {
        bail!("{all} seats were to be sold and {counted} are; nothing was opened");
    }
    Ok(())
}

/// A show whose seats are sold beforehand is made as a whole: there must be no other.
fn exists_already(key: &str) -> allot_client::Error {
    allot_client::Error::Refused {
        command: "SEAT.CREATE".to_owned(),
        code: "EXISTS".to_owned(),
        message: format!("'{key}' exists already, and nothing was changed; create the show at another key"),
    }
}

/// The part of a key that determines its slot.
pub fn hash_tag(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_show_in_preparation_lives_in_the_slot_of_its_key() {
        assert_eq!(hash_tag("show"), "show");
        assert_eq!(hash_tag("{tour}:7"), "tour");
        assert_eq!(hash_tag("{}:7"), "{}:7");
        assert_eq!(hash_tag("a{b"), "a{b");
    }

    #[test]
    fn holds_for_import_keep_the_limits_of_the_show() {
        let free = Limits::default();
        assert_eq!((seats_per_hold(free), hold_ms(free)), (100, 60_000));
        let tight = Limits { seats_per_user: 6, max_hold_ms: 500, ..free };
        assert_eq!((seats_per_hold(tight), hold_ms(tight)), (6, 500));
    }
}
