//! Ends of conferences by people, which the unit sends until a replica confirms them. If an end were lost with a master
//! or with the unit, the conference would restart elsewhere.

use std::mem::take;
use std::time::Duration;

use redis::Cmd;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::{PAUSE, Unit, UnitEnd};
use allot_client::{Error, RealmStore, Session};

/// How long a unit tries to send ends when the process shuts down. The process gives its roles ten seconds; the unit
/// needs some of them to leave the coordination service.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(7);
/// The most ends without confirmation that are kept to be sent again.
const MAX_UNCONFIRMED: usize = 10_000;

/// Ends that the realm may not know.
#[derive(Debug, Default)]
pub(in crate::roles::media_unit) struct UnacknowledgedEnds {
    /// Not sent yet.
    unsent: Vec<Cmd>,
    /// Sent in this session, and not confirmed by a replica yet.
    unconfirmed: Vec<Cmd>,
}

impl UnacknowledgedEnds {
    pub(super) fn push(&mut self, ended: Cmd) {
        self.unsent.push(ended);
    }

    /// Whether all ends were sent.
    pub(super) fn all_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Whether ends were sent that no replica has confirmed.
    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// A new session started: its master may not know what was sent to the last one.
    pub(super) fn resend_all(&mut self) {
        let mut all = take(&mut self.unconfirmed);
        all.append(&mut self.unsent);
        self.unsent = all;
    }

    /// All ends were sent.
    fn mark_sent(&mut self) {
        self.unconfirmed.append(&mut self.unsent);
        let excess = self.unconfirmed.len().saturating_sub(MAX_UNCONFIRMED);
        self.unconfirmed.drain(..excess);
    }

    /// A replica has everything that was sent in this session.
    pub(super) fn confirm(&mut self) {
        self.unconfirmed.clear();
    }

    /// How many ends are not sent, and how many are not confirmed.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.unsent.len(), self.unconfirmed.len())
    }
}

impl Unit<'_> {
    /// Sends the ends that were not sent yet.
    pub(super) async fn send_ends(&mut self, store: &RealmStore) -> Result<(), Error> {
        if !self.ends.all_sent() {
            self.send_replies(store, &self.ends.unsent).await?;
            self.ends.mark_sent();
        }
        Ok(())
    }

    /// Waits until a replica confirms what was written in this session; whether one did in time. Writes without
    /// confirmation stay in effect.
    pub(super) async fn wait_for_replicas(&mut self, session: &mut Session) -> Result<bool, Error> {
        let config = &self.context.config.conference;
        // The number of replicas may have changed since the session began.
        session.look().await?;
        match session.wait(config.wait_replicas, config.wait).await {
            Ok(true) => {
                self.ends.confirm();
                Ok(true)
            }
            Err(error) if error.ends_session() => Err(error),
            // No confirmation in time, or the ACL does not permit WAIT.
            outcome => {
                debug!(unit = self.cmu, ?outcome, "no replica confirmed in time");
                metrics::counter!("allot_unit_unconfirmed_total").increment(1);
                Ok(false)
            }
        }
    }

    /// Sends the remaining ends, with retries, and then declares the unit down, so that the realm need not wait for the
    /// unit's lease. A unit that was replaced is not declared down.
    pub(super) async fn deregister(&mut self, end: UnitEnd) {
        self.ends.resend_all();
        if end == UnitEnd::Replaced && self.ends.all_sent() {
            return;
        }
        let deregistered = async {
            while let Err(error) = self.try_deregister(end).await {
                debug!(unit = self.cmu, %error, "the unit cannot be deregistered now");
                if self.ends.all_sent() {
                    break;
                }
                sleep(PAUSE).await;
            }
        };
        if timeout(DEREGISTER_TIMEOUT, deregistered).await.is_err() && !self.ends.all_sent() {
            let conferences = self.ends.unsent.len();
            warn!(
                unit = self.cmu,
                conferences, "Redis was not told which conferences people ended; they will restart elsewhere"
            );
        }
    }

    async fn try_deregister(&mut self, end: UnitEnd) -> Result<(), Error> {
        let mut session = self.context.config.servers.session().await?;
        let store = RealmStore::new(session.connection.clone(), &self.context.config.realm);
        self.send_ends(&store).await?;
        if self.ends.has_unconfirmed() {
            self.wait_for_replicas(&mut session).await?;
        }
        if end == UnitEnd::Shutdown { store.down(&self.cmu, None).await } else { Ok(()) }
    }
}
