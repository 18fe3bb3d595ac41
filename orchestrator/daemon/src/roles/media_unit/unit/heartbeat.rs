//! The heartbeat of a unit: renews its lease, and reports its load.

use tokio::time::Instant;
use tracing::{info, warn};

use super::{PendingReport, Unit};
use allot_client::{Error, RealmStore, Session, UnitStatus};

impl Unit<'_> {
    pub(super) async fn send_heartbeat(
        &mut self,
        store: &RealmStore,
        session: &mut Session,
    ) -> Result<(), Error> {
        let load = self.load.measure();
        let sent = Instant::now();
        match store.beat(&self.cmu, load).await {
            // The unit was declared down, or is unknown to a server that took over.
            Err(error) if matches!(error.code(), Some("NOTFOUND" | "NOKEY")) => {
                warn!(unit = self.cmu, %error, "Redis does not know this unit; joining again");
                self.join(store).await?;
                self.note_renewal(sent);
                self.pending_report = Some((PendingReport::ListAndDetails, Instant::now()));
                return Ok(());
            }
            result => {
                let status = result?;
                self.show_room(&status);
                self.note_conflict(status.conflict);
            }
        }
        self.note_renewal(sent);
        if self.ends.has_unconfirmed() {
            self.wait_for_replicas(session).await?;
        }
        if std::mem::take(&mut self.details_dirty) {
            self.details.resend_all();
            self.send_details(store).await?;
        }
        metrics::gauge!("allot_unit_conferences").set(self.conferences.len() as f64);
        Ok(())
    }

    /// Shows in the metrics how the realm counts the room and the failures of the unit.
    fn show_room(&self, status: &UnitStatus) {
        metrics::gauge!("allot_unit_capacity").set(f64::from(self.config.capacity));
        metrics::gauge!("allot_unit_used").set(status.used as f64);
        metrics::gauge!("allot_unit_creation_failures").set(status.failures as f64);
        metrics::gauge!("allot_unit_backoff").set(f64::from(u8::from(status.backoff_until.is_some())));
    }

    /// Says that a unit on another machine has the same host by its settings. It is refused while this unit runs.
    fn note_conflict(&mut self, conflict: Option<String>) {
        if conflict == self.conflict {
            return;
        }
        if let Some(machine) = &conflict {
            warn!(
                unit = self.cmu,
                machine,
                "a unit on another machine has the host of this one and was refused; give one of them another \
                 media-unit.host"
            );
        } else {
            info!(unit = self.cmu, "no unit on another machine wants the host of this one any more");
        }
        self.conflict = conflict;
    }
}
