//! What a unit is told: it does that, and answers.

use std::time::Instant;

use futures_util::future::join_all;
use redis::Cmd;
use tracing::{debug, warn};

use super::Unit;
use crate::cmu::copies::{Act, Command};
use crate::store::{Error, RealmStore, Session};
use crate::transport::Entry;

impl Unit<'_> {
    /// Does what it is told, then answers.
    pub(super) async fn obey(
        &mut self,
        store: &RealmStore,
        session: &mut Session,
        entries: Vec<Entry>,
    ) -> Result<(), Error> {
        for entry in &entries {
            metrics::counter!("allot_unit_commands_total", "event" => entry.text("event")).increment(1);
        }
        let commands: Vec<Command> = entries.iter().map(Command::read).collect();
        if self.copies.end_by(&commands) {
            self.secure(store, session).await?;
        }
        let (mut words, mut starts) = (Vec::new(), Vec::new());
        let mut report = false;
        for command in commands {
            for act in self.copies.handle(command) {
                match act {
                    Act::Report => report = true,
                    Act::Start { e164, epoch, facts } => {
                        let begins = self.media.start(&self.cmu, &e164, epoch, &facts);
                        starts.push(async move {
                            let begun = match begins {
                                Ok(begins) => begins.await,
                                Err(reason) => Err(reason),
                            };
                            (e164, epoch, begun)
                        });
                    }
                    act => words.extend(self.act(store, act)),
                }
            }
        }
        for (e164, epoch, begun) in join_all(starts).await {
            words.extend(self.begun(store, &e164, epoch, begun));
        }
        self.say(store, &words).await?;
        if report {
            self.report(store, session).await?;
        }
        self.tell(store).await
    }

    /// What ends a copy may be lost with its master. The next one would still have the conference here, miss it in our
    /// report, and end it for good. Servers replicate in order, so where a later write of ours is confirmed, what was
    /// before it is as well. What replicas do not confirm for a lease's length is done all the same; the next time they
    /// are asked once.
    async fn secure(&mut self, store: &RealmStore, session: &mut Session) -> Result<(), Error> {
        let context = self.context;
        let config = &context.config.conference;
        if config.wait_replicas == 0 {
            return Ok(());
        }
        let since = Instant::now();
        session.look().await?;
        loop {
            let sent = Instant::now();
            match store.beat(&self.cmu, self.copies.len()).await {
                // Taken for dead: the next beat of its own sees to that.
                Err(error) if matches!(error.code(), Some("NOTFOUND" | "NOKEY")) => return Ok(()),
                result => result?,
            }
            self.heard(sent);
            match session.wait(config.wait_replicas, config.wait).await {
                Ok(true) => {
                    self.doubting = false;
                    return Ok(());
                }
                Ok(false) => {}
                Err(error) if error.ends_session() => return Err(error),
                // Its rules do not let it ask.
                Err(_) => return Ok(()),
            }
            if self.doubting || since.elapsed() >= self.config.lease {
                warn!(
                    cmu = self.cmu,
                    "no replica confirmed in time that copies are to end; they end all the same"
                );
                metrics::counter!("allot_unit_unconfirmed_total").increment(1);
                self.doubting = true;
                return Ok(());
            }
        }
    }

    /// Carries out an act; the answer that belongs to it.
    fn act(&mut self, store: &RealmStore, act: Act) -> Option<Cmd> {
        match act {
            Act::Stop { e164 } => {
                self.media.stop(&e164);
                self.details.forget(&e164);
                None
            }
            Act::Ended { e164, epoch } => Some(self.word(store, "CONF.ENDED", &e164, epoch)),
            Act::Tell { e164 } => {
                self.details.renew(&e164);
                None
            }
            Act::TellAll => {
                self.details.renew_all();
                None
            }
            Act::Start { .. } | Act::Report => None,
        }
    }

    /// The answer to a command to create: whether the media of the conference, if it is still ours, has begun.
    fn begun(
        &mut self,
        store: &RealmStore,
        e164: &str,
        epoch: u64,
        begun: Result<(), String>,
    ) -> Option<Cmd> {
        if self.copies.epoch(e164) != Some(epoch) {
            return None;
        }
        let Err(reason) = begun else {
            debug!(e164, epoch, "open");
            return Some(self.word(store, "CONF.ACK", e164, epoch));
        };
        warn!(e164, epoch, reason, "a conference cannot be created");
        self.media.stop(e164);
        self.details.forget(e164);
        self.copies.forget(e164);
        let mut word = self.word(store, "CONF.NACK", e164, epoch);
        word.arg(reason.chars().take(100).collect::<String>());
        Some(word)
    }

    fn word(&self, store: &RealmStore, command: &str, e164: &str, epoch: u64) -> Cmd {
        let mut word = store.begin(command);
        word.arg(e164).arg(&self.cmu).arg(epoch);
        word
    }

    /// Sends words; what the realm has against one of them comes as a command.
    pub(super) async fn say(&self, store: &RealmStore, words: &[Cmd]) -> Result<(), Error> {
        for result in store.ask_all(words).await? {
            match result {
                Err(error) if error.ends_session() => return Err(error),
                Err(error) => debug!(%error, "a word was refused"),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}
