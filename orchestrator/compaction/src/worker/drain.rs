//! The worker of a unit that is drained: it starts nothing, finishes what runs, and offers what waits to other units. An
//! operator drains it (`Drained/<unit>`), or it drains itself before it leaves (`compaction.drain`).

use std::time::Duration;

use allot_coordination::{Error, Kind, Op};
use allot_runtime::Shutdown;
use allot_runtime::time::now_ms;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::{Worker, with};
use crate::node::{Drained, Units};
use crate::node_context::LONGEST_WAIT_BY_CLOCK;
use crate::task::write;
use crate::task_store::Fault;

/// Pause after a unit that leaves could not say so.
const PAUSE: Duration = Duration::from_secs(1);

impl Worker {
    /// Whether this unit starts no subtasks now.
    pub(super) fn starts_nothing(&self) -> bool {
        self.fault.is_present() || self.fault.is_trying() || self.is_held() != (false, false)
    }

    /// The operation that fails if all tasks were paused since this unit looked; `None` if they are paused. So nothing
    /// begins in a pause, however late the watch shows it.
    pub(super) async fn unpaused(&self) -> Result<Option<Op>, Fault> {
        if let Some(known) = with(&self.unpaused, |unpaused| unpaused.clone()) {
            return Ok(Some(known));
        }
        let read = self.store.unpaused().await?;
        with(&self.unpaused, |unpaused| unpaused.clone_from(&read));
        Ok(read)
    }

    /// Whether this unit is drained, and whether all tasks are paused.
    pub(super) fn is_held(&self) -> (bool, bool) {
        self.held_by(&self.units.borrow())
    }

    fn held_by(&self, units: &Units) -> (bool, bool) {
        (units.is_drained(&self.node_context.name), units.are_tasks_paused)
    }

    /// Returns when this is different from `before`.
    pub(super) async fn hold_changed(&self, before: (bool, bool)) {
        let mut units = self.units.clone();
        if units.wait_for(|units| self.held_by(units) != before).await.is_err() {
            // Without a sender nothing changes.
            std::future::pending::<()>().await;
        }
    }

    /// The deadline of the drain of this unit, in milliseconds since 1970.
    fn drain_deadline(&self) -> Option<u64> {
        let drained = self.units.borrow().drained.get(&self.node_context.name).copied();
        drained.map(|drained| drained.deadline).filter(|deadline| *deadline > 0)
    }

    /// Waits for the deadline of a drain, and returns it, unless the runners have been `ended_by` that deadline.
    pub(super) async fn drain_overdue(&self, ended_by: Option<u64>) -> u64 {
        let mut units = self.units.clone();
        loop {
            units.borrow_and_update();
            let deadline = self.drain_deadline().filter(|deadline| Some(*deadline) != ended_by);
            let left = deadline.map(|deadline| Duration::from_millis(deadline.saturating_sub(now_ms())));
            if let (Some(deadline), Some(Duration::ZERO)) = (deadline, left) {
                return deadline;
            }
            tokio::select! {
                () = sleep(left.unwrap_or_default().min(LONGEST_WAIT_BY_CLOCK)), if left.is_some() => {}
                // Without a sender no drain can begin.
                changed = units.changed() => if changed.is_err() { return std::future::pending().await },
            }
        }
    }

    /// Waits until the unit is asked to leave, and then, if its settings say so, until what runs has ended.
    pub(super) async fn asked_to_leave(&self, stop: &mut Shutdown) {
        stop.requested().await;
        let config = &self.node_context.config;
        if !config.drain {
            return;
        }
        info!(limit = ?config.drain_limit, "takes no subtasks any more, and finishes those that run");
        let finishing = async {
            let drained = Drained { since: now_ms(), deadline: 0 };
            let path = self.store.paths.drain_of(&self.node_context.name);
            let op = Op::Create { path, data: write(&drained), kind: Kind::Ephemeral };
            loop {
                match self.store.tree.multi(vec![op.clone()]).await {
                    Ok(()) | Err(Error::Exists(_)) => break,
                    Err(error) => {
                        warn!(%error, "cannot say that this compaction node takes nothing more; retrying");
                    }
                }
                sleep(PAUSE).await;
            }
            // All slots are free when nothing runs.
            let _ = self.slots.acquire_many(config.slots).await;
        };
        if timeout(config.drain_limit, finishing).await.is_err() {
            warn!("not all subtasks have ended in time; ending the others");
        }
    }
}
