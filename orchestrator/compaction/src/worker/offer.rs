//! The offer of a unit whose slots are all taken while further subtasks wait there, or that cannot run runners: an ephemeral
//! node `Offers/<unit>`. Units that are free take such subtasks.

use allot_coordination::{Error, Kind, Op};
use serde::{Deserialize, Serialize};

use super::unit_fault::Refusal;
use crate::ids::TaskId;
use crate::task::write;
use crate::task_store::{Fault, TaskStore};

/// How much the mean run time may differ from the one that was offered.
const PACE_CHANGE: f64 = 1.5;

/// What an offer says of its unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Offered {
    /// The mean time of a run, in milliseconds; 0 if none has ended.
    pub(super) pace: u64,
    /// Why the unit starts nothing now, if it cannot run runners.
    pub(crate) refusal: Option<Refusal>,
}

impl Offered {
    /// Whether others should learn of the change from this to `now`.
    fn differs(&self, now: &Self) -> bool {
        self.refusal != now.refusal || differs(self.pace, now.pace)
    }
}

/// The offer of this unit.
pub(super) struct Offer {
    store: TaskStore,
    path: String,
    made: Option<Offered>,
}

impl Offer {
    /// No offer.
    pub(super) fn new(store: &TaskStore, unit: &str) -> Self {
        Self { store: store.clone(), path: store.paths.offer_of(unit), made: None }
    }

    /// Makes, changes or withdraws the offer.
    pub(super) async fn update(&mut self, wanted: Option<Offered>) -> Result<(), Fault> {
        let path = || self.path.clone();
        let delete = || Op::Delete { path: path(), version: None };
        let create =
            |offered: &Offered| Op::Create { path: path(), data: write(offered), kind: Kind::Ephemeral };
        let ops = match (&self.made, &wanted) {
            (None, Some(offered)) => vec![create(offered)],
            (Some(_), None) => vec![delete()],
            // As a new node, since those who follow the offers watch their names only.
            (Some(made), Some(offered)) if made.differs(offered) => vec![delete(), create(offered)],
            (None, None) | (Some(_), Some(_)) => return Ok(()),
        };
        match self.store.tree.multi(ops).await {
            Ok(()) => self.made = wanted,
            // It went with a former session.
            Err(Error::NoNode(_)) => self.made = None,
            // It is that of a former session, and goes with it.
            Err(Error::Exists(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn differs(before: u64, now: u64) -> bool {
    let (before, now) = (before as f64, now as f64);
    now > before * PACE_CHANGE || now * PACE_CHANGE < before
}

/// A subtask that waits at another unit and may begin here.
pub(super) struct Candidate {
    pub(super) id: TaskId,
    /// The unit where the subtask waits.
    pub(super) from: String,
    /// Whether no other unit than this one can run it now: the others are drained or cannot run runners.
    pub(super) is_alone: bool,
}
