//! The offer of a unit whose slots are all taken while further subtasks wait there: an ephemeral node `Offers/<unit>`. Units
//! that are free take such subtasks.

use allot_coordination::{Error, Kind, Op};
use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::paths::encode;
use crate::task::write;
use crate::task_store::{Fault, TaskStore};

/// How much the mean run time may differ from the one that was offered.
const PACE_CHANGE: f64 = 1.5;

/// What an offer says of its unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Offered {
    /// The mean time of a run, in milliseconds; 0 if none has ended.
    pub(super) pace: u64,
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
        Self { store: store.clone(), path: format!("{}/{}", store.paths.offers(), encode(unit)), made: None }
    }

    /// Makes, changes or withdraws the offer. `pace` is the mean time of a run, in milliseconds.
    pub(super) async fn update(&mut self, is_wanted: bool, pace: u64) -> Result<(), Fault> {
        let path = self.path.clone();
        let (op, made) = match (self.made, is_wanted) {
            (None, true) => {
                let offered = Offered { pace };
                (Op::Create { path, data: write(&offered), kind: Kind::Ephemeral }, Some(offered))
            }
            (Some(_), false) => (Op::Delete { path, version: None }, None),
            (Some(made), true) if differs(made.pace, pace) => {
                // As a new node, since those who follow the offers watch their names only.
                self.made = None;
                (Op::Delete { path, version: None }, None)
            }
            _ => return Ok(()),
        };
        match self.store.tree.multi(vec![op]).await {
            Ok(()) => self.made = made,
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
}
