//! What people ended on a unit, which is said until a replica has it: where that word is lost with a master or with the
//! unit, the conference begins anew elsewhere.

use std::mem::take;
use std::time::Duration;

use redis::Cmd;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::{End, REST, Unit};
use allot_client::{Error, RealmStore, Session};

/// How long it tries to say what people ended when the process shall end, which gives its roles ten seconds and us some
/// of them to leave the coordination service.
const GOODBYE: Duration = Duration::from_secs(7);
/// How much that no replica confirms is kept to be said again.
const KEPT: usize = 10_000;

/// The words of it.
#[derive(Debug, Default)]
pub(in crate::roles::media_unit) struct Ends {
    /// Not said yet.
    unsaid: Vec<Cmd>,
    /// Said in this session, and confirmed by no replica yet.
    unconfirmed: Vec<Cmd>,
}

impl Ends {
    /// People ended one more.
    pub(super) fn push(&mut self, word: Cmd) {
        self.unsaid.push(word);
    }

    /// Whether all was said.
    pub(super) fn are_said(&self) -> bool {
        self.unsaid.is_empty()
    }

    /// Whether some were said that no replica has confirmed.
    pub(super) fn are_doubtful(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// Another session, with a master that may not have heard what was said to the last.
    pub(super) fn say_again(&mut self) {
        let mut all = take(&mut self.unconfirmed);
        all.append(&mut self.unsaid);
        self.unsaid = all;
    }

    /// All was said.
    fn said(&mut self) {
        self.unconfirmed.append(&mut self.unsaid);
        let excess = self.unconfirmed.len().saturating_sub(KEPT);
        self.unconfirmed.drain(..excess);
    }

    /// A replica has what was said in this session.
    pub(super) fn confirmed(&mut self) {
        self.unconfirmed.clear();
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.unsaid.len(), self.unconfirmed.len())
    }
}

impl Unit<'_> {
    /// Says what people ended.
    pub(super) async fn say_ends(&mut self, store: &RealmStore) -> Result<(), Error> {
        if !self.ends.are_said() {
            self.say(store, &self.ends.unsaid).await?;
            self.ends.said();
        }
        Ok(())
    }

    /// Asks whether a replica has what was written in this session. What none confirms stands all the same.
    pub(super) async fn ask_replicas(&mut self, session: &mut Session) -> Result<bool, Error> {
        let config = &self.context.config.conference;
        // How many replicas there were when the session began may be long out of date.
        session.look().await?;
        match session.wait(config.wait_replicas, config.wait).await {
            Ok(true) => {
                self.ends.confirmed();
                Ok(true)
            }
            Err(error) if error.ends_session() => Err(error),
            // Also where its rules do not let it ask.
            outcome => {
                debug!(cmu = self.cmu, ?outcome, "no replica confirmed in time");
                metrics::counter!("allot_unit_unconfirmed_total").increment(1);
                Ok(false)
            }
        }
    }

    /// It goes, and says what is left to say, which is tried again; also that it goes, unless another took its place:
    /// what it had need not wait until its lease is over.
    pub(super) async fn say_goodbye(&mut self, end: End) {
        self.ends.say_again();
        if end == End::Replaced && self.ends.are_said() {
            return;
        }
        let said = async {
            while let Err(error) = self.try_goodbye(end).await {
                debug!(%error, "nobody heard that the unit goes");
                if self.ends.are_said() {
                    break;
                }
                sleep(REST).await;
            }
        };
        if timeout(GOODBYE, said).await.is_err() && !self.ends.are_said() {
            let conferences = self.ends.unsaid.len();
            warn!(
                cmu = self.cmu,
                conferences, "Redis was not told which conferences people ended; they begin anew"
            );
        }
    }

    async fn try_goodbye(&mut self, end: End) -> Result<(), Error> {
        let mut session = self.context.config.servers.session().await?;
        let store = RealmStore::new(session.connection.clone(), &self.context.config.realm);
        self.say_ends(&store).await?;
        if self.ends.are_doubtful() {
            self.ask_replicas(&mut session).await?;
        }
        if end == End::Asked { store.down(&self.cmu, None).await } else { Ok(()) }
    }
}
