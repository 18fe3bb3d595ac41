//! The data proxy: writes what units tell of their conferences. Redis decides on each write by owner and epoch; what
//! it refuses is never tried again. A message is acknowledged when that is decided, so that one whose proxy died in
//! between is written by another, at worst twice, which `seq` makes harmless.

mod message;

use std::time::{Duration, Instant};

use anyhow::Result;
use redis::Cmd;
use tracing::{debug, info, warn};

use crate::daemon::RoleContext as Context;
use allot_client::streams::{BLOCK, Entry, Group};
use allot_client::{Error, Node, RealmStore, Session};

pub(crate) use message::SET;
use message::{Message, read};

const PART: &str = "data-proxy";
/// How often consumers that are gone are forgotten.
const TIDY: Duration = Duration::from_secs(60);

/// Writes until the process shall end.
pub(crate) async fn run(context: Context) -> Result<()> {
    let mut batch = context.config.data_proxy.batch;
    let mut asked = None;
    while let Some(session) = context.connect(PART).await {
        let mut proxy = Proxy {
            store: RealmStore::new(session.connection.clone(), &context.config.realm),
            context: &context,
            batch,
            asked,
        };
        let began = Instant::now();
        match proxy.serve(session).await {
            Ok(()) => break,
            Err(error) => {
                batch = (proxy.batch / 2).max(1);
                asked = proxy.asked;
                context.session_failed(PART, &error, began).await;
                if !error.ends_session() {
                    // A group that is gone is made anew at the next begin.
                    tokio::time::sleep(BLOCK).await;
                }
            }
        }
    }
    Ok(())
}

struct Proxy<'a> {
    store: RealmStore,
    context: &'a Context,
    /// How many messages are taken at once. Half as many after a session that ended, since it may have been the answer
    /// to so many that took too long, and the same ones come again; twice as many after each batch that was written.
    batch: u32,
    /// The server on which all units were asked for their details.
    asked: Option<Node>,
}

impl Proxy<'_> {
    /// One session; ends well only when the process shall end.
    async fn serve(&mut self, mut session: Session) -> Result<(), Error> {
        let config = &self.context.config.data_proxy;
        let taking = session.another(BLOCK).await?;
        let names = (self.store.stream("info"), config.group.clone(), self.context.name.clone());
        let mut group = Group::join(session.connection.clone(), taking, names).await?;
        self.finish_own(&mut group).await?;
        // Nobody knows what was told while no proxy was there, or to a server before this one; or what went with the
        // stream, if it was deleted.
        if group.made || self.asked.as_ref() != Some(&session.node) {
            match self.store.ask_units(None, "DETAILS").await {
                // No realm yet: nothing was told.
                Err(error) if error.code() == Some("NOKEY") => {}
                result => result?,
            }
            self.asked = Some(session.node.clone());
        }
        self.context.health.ready(PART);
        info!(server = %session.node, group = config.group, consumer = self.context.name, "writing details");
        let (mut claimed, mut tidied) = (Instant::now(), Instant::now());
        while !self.context.shutdown.is_requested() {
            session.is_named()?;
            let entries = group.fresh(self.batch, BLOCK).await?;
            self.write(&mut group, &entries).await?;
            if claimed.elapsed() >= config.claim_after / 2 {
                claimed = Instant::now();
                self.take_over(&mut group).await?;
                // A group that nobody knows of any more would be waited on for ever.
                session.look().await?;
            }
            if tidied.elapsed() >= TIDY {
                tidied = Instant::now();
                group.tidy().await?;
            }
        }
        Ok(())
    }

    /// What this consumer took in an earlier session, and never acknowledged.
    async fn finish_own(&mut self, group: &mut Group) -> Result<(), Error> {
        let mut after = "0".to_owned();
        loop {
            let entries = group.own(self.batch, &after).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after.clone_from(&last.id);
            self.write(group, &entries).await?;
        }
    }

    /// What others took and left.
    async fn take_over(&mut self, group: &mut Group) -> Result<(), Error> {
        let config = &self.context.config.data_proxy;
        let mut cursor = "0-0".to_owned();
        loop {
            let (next, entries) = group.claim(config.claim_after, &cursor, self.batch).await?;
            if !entries.is_empty() {
                info!(count = entries.len(), "messages that another proxy left are taken over");
                metrics::counter!("allot_proxy_claimed_total").increment(entries.len() as u64);
            }
            self.write(group, &entries).await?;
            if next == "0-0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Writes what they say, then acknowledges them.
    async fn write(&mut self, group: &mut Group, entries: &[Entry]) -> Result<(), Error> {
        let (mut writes, mut odd, mut resync) = (Vec::<Cmd>::with_capacity(entries.len()), 0, false);
        for entry in entries {
            match read(entry) {
                Message::Set { head, details } => {
                    let mut command = self.store.begin("CONF.SET");
                    head.iter().for_each(|word| {
                        command.arg(*word);
                    });
                    for (field, value) in details {
                        command.arg(field).arg(value);
                    }
                    writes.push(command);
                }
                Message::Resync => resync = true,
                Message::Odd => odd += 1,
            }
        }
        let (mut written, mut refused) = (0, 0);
        for result in self.store.ask_all(&writes).await? {
            match result {
                Ok(_) => written += 1,
                Err(error) if error.ends_session() => return Err(error),
                Err(error) => {
                    refused += 1;
                    debug!(%error, "a write was refused");
                }
            }
        }
        if resync {
            warn!("messages of units were lost before they could be read; asking for all details");
            self.store.ask_units(None, "DETAILS").await?;
        }
        for (outcome, count) in [("written", written), ("refused", refused), ("odd", odd)] {
            metrics::counter!("allot_proxy_messages_total", "outcome" => outcome).increment(count);
        }
        group.acknowledge(entries).await?;
        if !entries.is_empty() {
            self.batch = self.batch.saturating_mul(2).min(self.context.config.data_proxy.batch);
        }
        Ok(())
    }
}
