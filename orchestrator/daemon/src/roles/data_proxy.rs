//! The data proxy: writes the details of conferences that units send. Redis accepts or refuses each write by owner and
//! epoch; a refused write is not retried. A message is acknowledged after that. If the proxy dies before the
//! acknowledgement, another proxy writes the message, at worst a second time; the sequence number of the message makes
//! that harmless.

use std::time::Duration;

use anyhow::Result;
use redis::Cmd;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::roles::context::{RoleContext as Context, unless_refused};
use crate::roles::info_stream::{Message, read};
use allot_client::streams::{self, Entry, Group};
use allot_client::{Error, Node, RealmStore, Session};

/// The name of this role in logs and probes.
const ROLE: &str = "data-proxy";
/// Interval at which consumers that are gone are removed from the group.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
/// After how long without a message a consumer is removed that has nothing left to acknowledge.
const FORGET_AFTER: Duration = Duration::from_secs(3600);
/// Pause before the group is joined again after a request was refused.
const REJOIN_PAUSE: Duration = Duration::from_millis(500);

/// Writes details until the process shuts down.
pub(crate) async fn run(context: Context) -> Result<()> {
    let mut batch = context.config.data_proxy.batch;
    let mut details_requested_from = None;
    while let Some(session) = context.connect(ROLE).await {
        let mut proxy = Proxy {
            store: RealmStore::new(session.connection.clone(), &context.config.realm),
            context: &context,
            batch,
            details_requested_from,
            messages: ["written", "refused", "malformed"]
                .map(|outcome| metrics::counter!("allot_proxy_messages_total", "outcome" => outcome)),
        };
        let began = Instant::now();
        match proxy.serve(session).await {
            Ok(()) => break,
            Err(error) => {
                batch = (proxy.batch / 2).max(1);
                details_requested_from = proxy.details_requested_from;
                context.session_failed(ROLE, &error, began).await;
                if !error.ends_session() {
                    // A group that was deleted is created again by the next session.
                    tokio::time::sleep(REJOIN_PAUSE).await;
                }
            }
        }
    }
    Ok(())
}

struct Proxy<'a> {
    store: RealmStore,
    context: &'a Context,
    /// Number of messages that one request takes. Halved after a failed session, since the answer may have been too
    /// large for the time limit. Doubled after each batch that was written, up to the configured size.
    batch: u32,
    /// The server on which all units were last asked for all their details.
    details_requested_from: Option<Node>,
    /// The metrics that count messages: written, refused, and malformed. They are looked up only once.
    messages: [metrics::Counter; 3],
}

impl Proxy<'_> {
    /// One session with Redis; `Ok` only if the process shuts down.
    async fn serve(&mut self, mut session: Session) -> Result<(), Error> {
        let config = &self.context.config.data_proxy;
        let reader = session.another(streams::BLOCK).await?;
        let names = (self.store.stream("info"), config.group.clone(), self.context.name.clone());
        let mut group = Group::join(session.connection.clone(), reader, names).await?;
        self.write_own_pending(&mut group).await?;
        // Details may be lost that were sent while no proxy ran, or to another server, or to a stream that was deleted.
        if group.made || self.details_requested_from.as_ref() != Some(&session.node) {
            match self.store.ask_units(None, "DETAILS").await {
                // The realm does not exist yet: no unit has sent details.
                Err(error) if error.code() == Some("NOKEY") => {}
                result => result?,
            }
            self.details_requested_from = Some(session.node.clone());
        }
        self.context.health.ready(ROLE);
        info!(server = %session.node, group = config.group, consumer = self.context.name, "writing details");
        let (mut claimed, mut tidied) = (Instant::now(), Instant::now());
        let mut shutdown = self.context.shutdown.clone();
        let mut ends = false;
        while !ends {
            let entries = {
                let fresh = group.fresh(self.batch, streams::BLOCK);
                tokio::pin!(fresh);
                tokio::select! {
                    biased;
                    () = shutdown.requested() => {
                        // The server may give messages to the request for as long as the request is not answered.
                        ends = true;
                        fresh.await?
                    }
                    () = session.until_deposed() => return session.is_named(),
                    entries = &mut fresh => entries?,
                }
            };
            self.write(&mut group, &entries).await?;
            if claimed.elapsed() >= config.claim_after / 2 {
                claimed = Instant::now();
                self.take_over(&mut group).await?;
                // A server that is no longer the master would never deliver messages.
                session.check_master().await?;
            }
            if tidied.elapsed() >= TIDY_INTERVAL {
                tidied = Instant::now();
                group.tidy(FORGET_AFTER).await?;
            }
        }
        Ok(())
    }

    /// Writes the messages that this consumer took and did not acknowledge, in an earlier session or in this one.
    async fn write_own_pending(&mut self, group: &mut Group) -> Result<(), Error> {
        let mut after = "0".to_owned();
        loop {
            let entries = group.own(self.batch, &after).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after.clone_from(&last.id);
            self.write(group, &entries).await?;
        }
    }

    /// Writes the messages that other consumers took and did not acknowledge in time.
    async fn take_over(&mut self, group: &mut Group) -> Result<(), Error> {
        let config = &self.context.config.data_proxy;
        let mut cursor = "0-0".to_owned();
        loop {
            let (next, entries) = group.claim(config.claim_after, &cursor, self.batch).await?;
            if !entries.is_empty() {
                info!(count = entries.len(), "took over messages that another proxy left");
                metrics::counter!("allot_proxy_claimed_total").increment(entries.len() as u64);
            }
            self.write(group, &entries).await?;
            if next == "0-0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Writes the details of these messages, then acknowledges the messages.
    async fn write(&mut self, group: &mut Group, entries: &[Entry]) -> Result<(), Error> {
        let (mut writes, mut unknown, mut resync) = (Vec::<Cmd>::with_capacity(entries.len()), 0, false);
        for entry in entries {
            match read(entry) {
                Message::Set { head, details } => {
                    let mut command = self.store.begin("CONF.SET");
                    head.iter().for_each(|argument| {
                        command.arg(*argument);
                    });
                    for (field, value) in details {
                        command.arg(field).arg(value);
                    }
                    writes.push(command);
                }
                Message::Resync => resync = true,
                Message::Unknown => unknown += 1,
            }
        }
        let (mut written, mut refused) = (0, 0);
        for result in self.store.ask_all(writes).await? {
            match unless_refused(result, "a write of details")? {
                Some(_) => written += 1,
                None => refused += 1,
            }
        }
        if resync {
            warn!("messages of units were lost before a proxy could read them; requesting all details");
            self.store.ask_units(None, "DETAILS").await?;
        }
        for (counter, count) in self.messages.iter().zip([written, refused, unknown]) {
            counter.increment(count);
        }
        group.acknowledge(entries).await?;
        if !entries.is_empty() {
            self.batch = self.batch.saturating_mul(2).min(self.context.config.data_proxy.batch);
        }
        Ok(())
    }
}
