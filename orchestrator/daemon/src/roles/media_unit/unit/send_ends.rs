//! Sending the ends of conferences by people, and the orderly end of a unit.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::{PAUSE, Unit, UnitEnd};
use crate::roles::context::unless_refused;
use allot_client::{Error, RealmStore, Session};

/// How long a unit tries to send ends when the process shuts down. The process gives its roles ten seconds; the unit
/// needs some of them to leave the coordination service.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(7);

impl Unit<'_> {
    /// Sends the ends that were not sent yet.
    pub(super) async fn send_ends(&mut self, store: &RealmStore) -> Result<(), Error> {
        let ends = self.ends.to_send(store);
        for result in store.ask_all(ends).await? {
            unless_refused(result, "the end of a conference")?;
        }
        self.ends.mark_sent();
        Ok(())
    }

    /// Waits until a replica confirms what was written in this session; whether one did in time. Writes without
    /// confirmation stay in effect.
    pub(super) async fn wait_for_replicas(&mut self, session: &mut Session) -> Result<bool, Error> {
        let config = &self.context.config.scheduler;
        // The number of replicas may have changed since the session began.
        session.check_master().await?;
        // The ACL may not permit WAIT.
        let confirmed = session.wait(config.wait_replicas, config.wait).await;
        if unless_refused(confirmed, "a wait for replicas")? == Some(true) {
            self.ends.confirm();
            return Ok(true);
        }
        debug!(unit = self.cmu, "no replica confirmed in time");
        metrics::counter!("allot_unit_unconfirmed_total").increment(1);
        Ok(false)
    }

    /// Ends all media. What people ended until then is handled: the conferences must not restart on another unit.
    pub(super) async fn stop_media(&mut self) {
        let stopped = self.media.stop_all();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                biased;
                Some(event) = self.media_events.recv() => self.handle_media_event(event),
                () = &mut stopped => break,
            }
        }
        // From now on nobody handles events of programs.
        self.media_events.close();
        while let Ok(event) = self.media_events.try_recv() {
            self.handle_media_event(event);
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
            let conferences = self.ends.unsent();
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
