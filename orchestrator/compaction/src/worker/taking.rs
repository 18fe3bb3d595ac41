//! Takes work of units that offer some. A unit with a free slot and nothing that may start takes subtasks of the unit that
//! would finish last. It begins each in the multi that takes the subtask, so no subtask moves without beginning.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use allot_coordination::{Error, Follower, random};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::offer::{Candidate, Offered};
use super::{Worker, with};
use crate::admission::Admission;
use crate::ids::TaskId;
use crate::node::{NodeInfo, Units};
use crate::paths::{decode, status};
use crate::task::SubState;
use crate::task_store::Fault;
use allot_runtime::time::now_ms;

/// Pause before a unit looks again for work that it may take, after it found none or could not begin what it found.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Pause before a unit looks again while nothing is in the inboxes of the others that make offers.
const IDLE_PAUSE: Duration = Duration::from_secs(5);
/// For how long a unit passes over a subtask whose partition is locked.
const PASS_OVER: Duration = Duration::from_secs(30);
/// How many subtasks a look finds, for each free slot.
const FOUND_PER_SLOT: usize = 4;

/// A unit that offers subtasks.
struct Offering {
    name: String,
    slots: u32,
    pace: u64,
    /// Whether it starts none of them itself.
    starts_nothing: bool,
    /// Its subtasks that may start, in the order of their starts. The first ones may run already.
    ids: Vec<TaskId>,
}

impl Offering {
    /// The time in which the unit would begin the last of so many waiting subtasks, in milliseconds. A unit that has not
    /// finished any, or starts no more, is taken for very slow.
    fn time_left(&self, waiting: usize) -> f64 {
        let pace = if self.pace == 0 || self.starts_nothing { 1e12 } else { self.pace as f64 };
        waiting as f64 * pace / f64::from(self.slots.max(1))
    }
}

impl Worker {
    /// Waits for subtasks of other units that may begin here, and returns some for so many free slots. `offers` follows the
    /// offers.
    pub(super) async fn look_for_work(
        &self,
        offers: &mut Follower,
        units: &watch::Receiver<Units>,
        free: usize,
    ) -> Vec<Candidate> {
        loop {
            if self.has_missed.swap(false, Ordering::Relaxed) {
                sleep(LOOK_PAUSE.mul_f64(random::within(0.5..1.0))).await;
            }
            let (tree, dir) = (&self.store.tree, self.store.paths.offers());
            let Ok(names) = offers.read(|| tree.watch(&dir)).await else {
                return std::future::pending().await;
            };
            let units = units.borrow().clone();
            let others: BTreeMap<String, NodeInfo> = names
                .iter()
                .map(|name| decode(name))
                .filter(|name| *name != self.node_context.name)
                .filter_map(|name| Some((name.clone(), units.live.get(&name)?.clone())))
                .filter(|(_, info)| info.pc == self.node_context.config.pc)
                .collect();
            if others.is_empty() {
                offers.changed().await;
                continue;
            }
            let mut pause = LOOK_PAUSE;
            let looked = async {
                let offering = self.offering(&others, &units).await?;
                if offering.iter().all(|unit| unit.ids.is_empty()) {
                    pause = IDLE_PAUSE;
                }
                self.find(offering, &units, free).await
            };
            match looked.await {
                Ok(found) if !found.is_empty() => return found,
                Ok(_) => {}
                Err(fault) => tracing::debug!(%fault, "cannot look for work at other units"),
            }
            tokio::select! {
                () = offers.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Passes over a subtask of another unit when it looks for work, so that it finds others: for a while if its partition
    /// is locked, else as long as another unit can run it.
    pub(super) fn pass_over(&self, id: TaskId, is_locked: bool) {
        with(&self.passed_over, |passed| passed.insert(id, is_locked.then(Instant::now)));
    }

    /// Subtasks that wait at these units and may begin here: those of the unit first that would finish last.
    async fn find(
        &self,
        mut offering: Vec<Offering>,
        units: &Units,
        free: usize,
    ) -> Result<Vec<Candidate>, Fault> {
        let store = &self.store;
        let mut bins = units.bins(&self.node_context.config.pc);
        bins.retain(|bin| !offering.iter().any(|unit| unit.starts_nothing && unit.name == bin.name));
        let is_alone = bins.iter().all(|bin| bin.name == self.node_context.name);
        let units = units.live.len();
        let mains: BTreeSet<TaskId> =
            offering.iter().flat_map(|unit| unit.ids.iter().map(|id| id.of_main())).collect();
        let mains = store.mains_of(&mains.into_iter().collect::<Vec<_>>()).await?;
        let now = now_ms();
        let limited = with(&self.limited, |limited| limited.keys().copied().collect::<BTreeSet<_>>());
        let priorities: BTreeMap<TaskId, i32> = mains
            .iter()
            .filter(|main| !limited.contains(&main.id))
            .filter_map(|main| match Admission::of(&main.task, now) {
                Admission::Start(priority) => Some((main.id, priority)),
                Admission::ClosedFor(_) | Admission::Wait | Admission::Cancel => None,
            })
            .collect();
        let passed_over: BTreeSet<TaskId> = with(&self.passed_over, |passed| {
            passed.retain(|id, locked| match locked {
                Some(locked) => locked.elapsed() < PASS_OVER,
                None => !is_alone && priorities.contains_key(&id.of_main()),
            });
            passed.keys().copied().collect()
        });
        let mut waiting: Vec<(Offering, Vec<TaskId>, usize)> = Vec::new();
        for mut unit in offering.drain(..) {
            unit.ids.retain(|id| priorities.contains_key(&id.of_main()));
            unit.ids.sort_unstable_by_key(|id| (Reverse(priorities.get(&id.of_main())), *id));
            let count = unit.ids.len().saturating_sub(unit.slots as usize);
            unit.ids.retain(|id| !passed_over.contains(id));
            let first = unit.slots as usize + units + FOUND_PER_SLOT * free;
            let first: Vec<TaskId> = unit.ids.iter().take(first).copied().collect();
            let mut ids = self.waiting_of(&unit.name, &first).await?;
            // Units that look at the same time do not all try to take the same one first.
            let first = random::within(0..units.min(ids.len()).max(1));
            if let Some(until_first) = ids.get_mut(..=first) {
                until_first.rotate_right(1);
            }
            ids.reverse();
            let count = count.max(ids.len());
            waiting.push((unit, ids, count));
        }
        let own = self.pace.load(Ordering::Relaxed) as f64;
        let mut found = Vec::new();
        while found.len() < FOUND_PER_SLOT * free {
            let open = waiting.iter_mut().filter(|(_, ids, _)| !ids.is_empty());
            let last = open.max_by(|a, b| a.0.time_left(a.2).total_cmp(&b.0.time_left(b.2)));
            let Some((unit, ids, count)) = last else { break };
            // A slower unit leaves it where it is: it would end later here.
            if own > unit.time_left(*count) + unit.pace as f64 {
                break;
            }
            *count -= 1;
            found.extend(ids.pop().map(|id| Candidate { id, from: unit.name.clone(), is_alone }));
        }
        Ok(found)
    }

    /// What these units offer, and the subtasks in their inboxes.
    async fn offering(
        &self,
        others: &BTreeMap<String, NodeInfo>,
        present: &Units,
    ) -> Result<Vec<Offering>, Fault> {
        let store = &self.store;
        let inboxes: Vec<String> = others.keys().map(|name| store.paths.inbox(name)).collect();
        let offers: Vec<String> = others.keys().map(|name| store.paths.offer_of(name)).collect();
        let inboxes = store.tree.children_of_each(&inboxes).await?;
        let offers = store.tree.get_each(&offers).await?;
        let both = inboxes.into_iter().zip(offers);
        let units = others.iter().zip(both).filter_map(|((name, info), (names, offer))| {
            let ids = names.ok()?.iter().filter_map(|name| name.parse().ok()).collect::<Vec<TaskId>>();
            let offered: Offered = serde_json::from_slice(&offer.ok()?.data).unwrap_or_default();
            let ids = ids.into_iter().filter(|id| !id.is_main()).collect();
            let starts_nothing = present.is_drained(name) || offered.refusal.is_some();
            Some(Offering { name: name.clone(), slots: info.slots, pace: offered.pace, starts_nothing, ids })
        });
        Ok(units.collect())
    }

    /// Those of these subtasks that wait at this unit, in the same order.
    async fn waiting_of(&self, unit: &str, ids: &[TaskId]) -> Result<Vec<TaskId>, Fault> {
        let dirs: Vec<String> = ids.iter().map(|id| self.store.paths.at(unit, *id)).collect();
        let names = self.store.tree.children_of_each(&dirs).await?;
        let waits = |names: Result<Vec<String>, Error>| {
            names.is_ok_and(|names| names.contains(&status(SubState::Init)))
        };
        Ok(ids.iter().zip(names).filter_map(|(id, names)| waits(names).then_some(*id)).collect())
    }
}
