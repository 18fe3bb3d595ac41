//! The messages of the realm to a unit: the unit acts on each, and replies when that is done.

use redis::{Cmd, Value};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{Completed, PendingReport, Unit};
use crate::roles::context::unless_refused;
use crate::roles::media_unit::conferences::{Action, Message};
use crate::roles::media_unit::name;
use allot_client::streams::Entry;
use allot_client::{Error, RealmStore, Session};

impl Unit<'_> {
    /// Acts on messages. Replies are sent when the actions are completed.
    pub(super) async fn handle_messages(
        &mut self,
        store: &RealmStore,
        session: &mut Session,
        entries: Vec<Entry>,
    ) -> Result<(), Error> {
        for entry in &entries {
            metrics::counter!("allot_unit_commands_total", "event" => entry.text("event")).increment(1);
        }
        let messages: Vec<Message> = entries.iter().map(Message::read).collect();
        if self.conferences.any_release_applies(&messages) {
            self.confirm_releases(store, session).await?;
        }
        for message in messages {
            self.handle_message(message);
        }
        self.send_ends(store).await?;
        self.send_details(store).await
    }

    fn handle_message(&mut self, message: Message) {
        for action in self.conferences.handle(message) {
            self.perform(action);
        }
    }

    /// Replies to everything that is completed by now.
    pub(super) async fn complete(&mut self, store: &RealmStore, completed: Completed) -> Result<(), Error> {
        let mut replies: Vec<Reply> = self.reply_to(store, completed).into_iter().collect();
        while let Some(Ok(completed)) = self.tasks.try_join_next() {
            replies.extend(self.reply_to(store, completed));
        }
        // The pending report lists the conferences that were opened. An ACK before it may be one about an assignment that
        // the realm takes for lost: the realm would release a conference that the report would have the unit adopt.
        if matches!(self.pending_report, Some((PendingReport::ListAndDetails, _))) {
            replies.retain(|reply| reply.opened.is_none());
        }
        self.send_replies(store, replies).await?;
        self.send_ends(store).await
    }

    /// Makes sure that the release of a conference survives a failover: a master without it would still assign the
    /// conference to this unit, miss it in the unit's report, and interrupt it by a recovery. Redis replicates in order,
    /// so once replicas confirm a later write of this unit, they have the release as well. The unit sends a heartbeat
    /// and waits until replicas confirm it, for at most one lease; then it stops the conference even without
    /// confirmation. After a wait in vain, the next release waits for one answer only.
    async fn confirm_releases(&mut self, store: &RealmStore, session: &mut Session) -> Result<(), Error> {
        let context = self.context;
        let config = &context.config.scheduler;
        if config.wait_replicas == 0 {
            return Ok(());
        }
        let since = Instant::now();
        session.check_master().await?;
        loop {
            let sent = Instant::now();
            match store.beat(&self.cmu, None).await {
                // The unit was declared down: its next regular heartbeat joins again.
                Err(error) if matches!(error.code(), Some("NOTFOUND" | "NOKEY")) => return Ok(()),
                result => drop(result?),
            }
            self.note_renewal(sent);
            let confirmed = session.wait(config.wait_replicas, config.wait).await;
            match unless_refused(confirmed, "a wait for replicas")? {
                Some(true) => {
                    self.replication_unconfirmed = false;
                    self.ends.confirm();
                    return Ok(());
                }
                Some(false) => {}
                // The ACL does not permit WAIT: the conferences are released at once.
                None => return Ok(()),
            }
            if self.replication_unconfirmed || since.elapsed() >= self.config.lease {
                warn!(
                    unit = self.cmu,
                    "no replica confirmed the release of conferences in time; releasing them"
                );
                metrics::counter!("allot_unit_unconfirmed_total").increment(1);
                self.replication_unconfirmed = true;
                return Ok(());
            }
        }
    }

    /// Performs an action, or starts a task for it.
    fn perform(&mut self, action: Action) {
        match action {
            Action::Stop { e164 } => {
                self.media.stop(&e164);
                self.details.remove(&e164);
            }
            Action::Start { e164, epoch, params } => {
                let (start, started) = self.media.start(&self.cmu, &e164, epoch, &params);
                self.tasks.spawn(async move { Completed::Start { e164, start, result: started.await } });
            }
            Action::ReplyUnknownEpoch { e164, epoch, old } if self.ends.contains(&e164, &self.cmu, old) => {
                self.ends.push(&e164, &self.cmu, epoch);
            }
            Action::ReplyReleased { e164, epochs, over } => self.reply_stopped(e164, epochs, over),
            Action::ReplyUnknownEpoch { e164, epoch, .. } => self.reply_stopped(e164, vec![epoch], false),
            Action::Update { e164, update } => self.media.update(&e164, &update),
            Action::SendDetails { e164 } => self.details.resend(&e164),
            Action::SendAllDetails => self.details.resend_all(),
            Action::ReportList => {
                self.pending_report =
                    self.pending_report.or_else(|| Some((PendingReport::List, Instant::now())));
            }
        }
    }

    /// Replies that a copy with these epochs has ended, once its program has.
    fn reply_stopped(&mut self, e164: String, epochs: Vec<u64>, over: bool) {
        let end = self.media.stopping(&e164);
        self.stopping += 1;
        self.tasks.spawn(async move {
            // After the reply the number may be used again, on any unit.
            if let Some(end) = end {
                end.wait().await;
            }
            Completed::Stop { e164, epochs, over }
        });
    }

    fn reply_to(&mut self, store: &RealmStore, completed: Completed) -> Option<Reply> {
        match completed {
            Completed::Start { e164, start, result } => self.reply_to_create(store, &e164, start, result),
            Completed::Stop { e164, epochs, over } => {
                self.stopping = self.stopping.saturating_sub(1);
                if over {
                    // A realm that loses its data may forget the end, and must be told again.
                    epochs.into_iter().for_each(|epoch| self.ends.push(&e164, &self.cmu, epoch));
                    return None;
                }
                let epoch = epochs.first().copied()?;
                let mut ended = self.reply(store, "CONF.ENDED", &e164, epoch);
                ended.arg("RELEASED");
                Some(Reply { command: ended, opened: None })
            }
        }
    }

    /// The reply to `CREATE`, if the unit still has the conference: whether the media has started.
    fn reply_to_create(
        &mut self,
        store: &RealmStore,
        e164: &str,
        start: u64,
        result: Result<(), String>,
    ) -> Option<Reply> {
        let epoch = self.conferences.epoch(e164).filter(|_| self.media.is_current(e164, start))?;
        let Err(reason) = result else {
            debug!(e164, epoch, "conference open");
            self.conferences.opened(e164);
            let command = self.reply(store, "CONF.ACK", e164, epoch);
            return Some(Reply { command, opened: Some((e164.to_owned(), epoch)) });
        };
        warn!(e164, epoch, reason, "the conference's media cannot start; refusing the conference");
        self.media.stop(e164);
        self.details.remove(e164);
        self.conferences.remove(e164);
        let mut refusal = self.reply(store, "CONF.NACK", e164, epoch);
        refusal.arg(short(&reason));
        Some(Reply { command: refusal, opened: None })
    }

    /// Gives back the conferences whose programs failed for good. If the session ends before, the next report lacks them.
    pub(super) async fn send_failures(&mut self, store: &RealmStore) -> Result<(), Error> {
        let failures = std::mem::take(&mut self.failures).into_iter();
        let replies = failures.map(|(e164, epoch, reason)| {
            let mut failed = self.reply(store, "CONF.FAILED", &e164, epoch);
            failed.arg(short(&reason));
            Reply { command: failed, opened: None }
        });
        let replies = replies.collect();
        self.send_replies(store, replies).await
    }

    fn reply(&self, store: &RealmStore, command: &str, e164: &str, epoch: u64) -> Cmd {
        let mut reply = store.begin(command);
        reply.arg(name::bytes(e164)).arg(&self.cmu).arg(epoch);
        reply
    }

    /// Sends replies. If the realm refuses one, it also sends a message that tells the unit what to do instead. An ACK
    /// that is answered with RELEASE ends the copy at once: a report that lists the copy would claim a conference that
    /// the unit is about to end.
    async fn send_replies(&mut self, store: &RealmStore, replies: Vec<Reply>) -> Result<(), Error> {
        let (commands, opened): (Vec<Cmd>, Vec<_>) =
            replies.into_iter().map(|reply| (reply.command, reply.opened)).unzip();
        for (result, opened) in store.ask_all(commands).await?.into_iter().zip(opened) {
            match (unless_refused(result, "a reply")?, opened) {
                (Some(Value::BulkString(answer)), Some((e164, epoch))) if answer == b"RELEASE" => {
                    debug!(
                        unit = self.cmu,
                        e164, epoch, "the conference is no longer this unit's; ending it"
                    );
                    self.handle_message(Message::Release { e164, epoch, over: false });
                }
                (_, Some((e164, _))) => self.details.resend(&e164),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The beginning of a reason, for the event stream.
fn short(reason: &str) -> String {
    reason.chars().take(100).collect()
}

/// A reply to a message.
struct Reply {
    command: Cmd,
    /// Number and epoch of the conference that an ACK says is open; `None` for any other reply.
    opened: Option<(String, u64)>,
}
