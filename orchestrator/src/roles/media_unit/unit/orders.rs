//! What a unit is told: it does that, and answers.

use std::time::Instant;

use redis::Cmd;
use tracing::{debug, warn};

use super::{Owed, Unit};
use crate::roles::media_unit::copies::{Act, Command};
use allot_client::streams::Entry;
use allot_client::{Error, RealmStore, Session};

/// What was under way and is done.
#[derive(Debug)]
pub(super) enum Done {
    /// The media of a conference has begun, or could not.
    Begun {
        /// Its number.
        e164: String,
        /// Which start of it.
        start: u64,
        /// Why it could not.
        begun: Result<(), String>,
    },
    /// Nothing of a copy runs any more.
    Ended {
        /// Its number.
        e164: String,
        /// The assignment.
        epoch: u64,
    },
}

impl Unit<'_> {
    /// Does what it is told, or begins to; the answers follow when that is done.
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
        for command in commands {
            for act in self.copies.handle(command) {
                self.act(act);
            }
        }
        self.tell(store).await
    }

    /// Answers what is done by now.
    pub(super) async fn finish(&mut self, store: &RealmStore, done: Done) -> Result<(), Error> {
        let mut words: Vec<Cmd> = self.done(store, done).into_iter().collect();
        while let Some(Ok(done)) = self.works.try_join_next() {
            words.extend(self.done(store, done));
        }
        // The report that is to follow says it, and by then the realm knows what is ours: now it might take a word for
        // one about a conference that is lost, and have us end what it would give us back.
        if matches!(self.owed, Some((Owed::All, _))) {
            return Ok(());
        }
        self.say(store, &words).await
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
                    self.ends.confirmed();
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

    /// Carries out an act, or begins to.
    fn act(&mut self, act: Act) {
        match act {
            Act::Stop { e164 } => {
                self.media.stop(&e164);
                self.details.forget(&e164);
            }
            Act::Start { e164, epoch, facts } => {
                let (start, begins) = self.media.start(&self.cmu, &e164, epoch, &facts);
                self.beginning += 1;
                self.works.spawn(async move { Done::Begun { e164, start, begun: begins.await } });
            }
            Act::Ended { e164, epoch } => {
                let ending = self.media.ending(&e164);
                self.works.spawn(async move {
                    // Once this is said the number may be used again, anywhere.
                    if let Some(over) = ending {
                        over.wait().await;
                    }
                    Done::Ended { e164, epoch }
                });
            }
            Act::Tell { e164 } => self.details.renew(&e164),
            Act::TellAll => self.details.renew_all(),
            Act::Report => self.owed = self.owed.or_else(|| Some((Owed::List, Instant::now()))),
        }
    }

    /// The answer to what is done.
    fn done(&mut self, store: &RealmStore, done: Done) -> Option<Cmd> {
        match done {
            Done::Begun { e164, start, begun } => {
                self.beginning = self.beginning.saturating_sub(1);
                self.begun(store, &e164, start, begun)
            }
            Done::Ended { e164, epoch } => Some(self.word(store, "CONF.ENDED", &e164, epoch)),
        }
    }

    /// The answer to a command to create: whether the media of the conference, if it is still ours, has begun.
    fn begun(
        &mut self,
        store: &RealmStore,
        e164: &str,
        start: u64,
        begun: Result<(), String>,
    ) -> Option<Cmd> {
        let epoch = self.copies.epoch(e164).filter(|_| self.media.is_current(e164, start))?;
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
