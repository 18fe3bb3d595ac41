//! Permits limit how many subtasks run at once: ephemeral nodes `Permits/<scope>.<number>`, one for each running
//! subtask. A worker creates them in the multi that starts a subtask, so two workers can never take the same permit.
//! Permits disappear with the worker's session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::ids::TaskId;
use super::paths::encode;
use super::task::MainTask;
use super::task_store::{Fault, TaskStore};
use allot_coordination::{Error, Follower, Kind, Op, random};

/// The scope of the limit over all tasks.
pub const ALL: &str = "all";

/// From how many free numbers a worker chooses at random, so that workers seldom try the same one.
const CHOICE: u32 = 1000;

/// The permits that a subtask of a task needs, as scope and limit. `cluster` is the limit over all tasks; 0 means no
/// limit.
pub fn needed(task: &MainTask, cluster: u32) -> Vec<(String, u32)> {
    let table = task.table().map(encode).join(".");
    let limits = [(format!("table.{table}"), task.limit), (ALL.to_owned(), cluster)];
    limits.into_iter().filter(|(_, limit)| *limit > 0).collect()
}

/// What a subtask found that reached a limit.
#[derive(Debug, Clone)]
pub(crate) struct Limited {
    /// The names below `Permits` that kept it from a permit, sorted.
    seen: Vec<String>,
    /// The scope of the limit.
    scope: String,
    /// The priority of the subtask.
    priority: i32,
}

impl Limited {
    fn new(taken: &[String], scope: &str, priority: i32) -> Self {
        let mut limited = Self { seen: Vec::new(), scope: scope.to_owned(), priority };
        limited.seen = limited.concerning(taken);
        limited
    }

    /// Of these names below `Permits`, sorted, those that may keep the subtask from a permit.
    fn concerning(&self, names: &[String]) -> Vec<String> {
        let is_permit = |name: &str| name.strip_prefix(&self.scope).is_some_and(|rest| rest.starts_with('.'));
        let is_before = |name: &str| announced(name).is_some_and(|waiting| waiting > self.priority);
        let concerns = |name: &&String| is_permit(name) || self.is_by_cluster() && is_before(name);
        names.iter().filter(concerns).cloned().collect()
    }

    /// Whether these names below `Permits`, sorted, keep the subtask from a permit as they did before.
    pub(crate) fn holds(&self, names: &[String]) -> bool {
        self.concerning(names) == self.seen
    }

    /// Whether the limit is that of the whole cluster, for whose permits all tasks compete.
    pub(crate) fn is_by_cluster(&self) -> bool {
        self.scope == ALL
    }
}

/// A free permit of each scope, as paths, for a subtask of this priority. `taken` are the names below `Permits`. While
/// a unit announces that a subtask of a higher priority waits for a permit of the cluster, none of those is free.
pub(crate) fn free(
    store: &TaskStore,
    taken: &[String],
    needed: &[(String, u32)],
    priority: i32,
) -> Result<Vec<String>, Limited> {
    let mut permits = Vec::new();
    let is_behind = taken.iter().filter_map(|name| announced(name)).any(|waiting| waiting > priority);
    for (scope, limit) in needed {
        match choose(taken, scope, *limit) {
            Some(number) if scope != ALL || !is_behind => {
                permits.push(store.paths.permit(&format!("{scope}.{number}")));
            }
            _ => return Err(Limited::new(taken, scope, priority)),
        }
    }
    Ok(permits)
}

/// Returns when one of these tasks may get the permit that it lacked, and forgets its limit; never, if none is limited.
/// `follower` is that of the permits.
pub(crate) async fn freed(
    store: &TaskStore,
    follower: &mut Follower,
    limited: &Mutex<BTreeMap<TaskId, Limited>>,
) {
    let with = || limited.lock().unwrap_or_else(PoisonError::into_inner);
    let is_limited = || !with().is_empty();
    let (tree, dir) = (&store.tree, &store.paths.permits());
    while is_limited() {
        let Ok(mut names) = follower.read(|| tree.watch(dir)).await else { break };
        names.sort_unstable();
        let is_freed = {
            let mut limited = with();
            let before = limited.len();
            limited.retain(|_, limit| limit.holds(&names));
            limited.len() < before
        };
        if is_freed {
            return;
        }
        follower.changed().await;
    }
    follower.rest();
    std::future::pending::<()>().await;
}

/// The start of the name of an announcement, `waiting.<priority>.<unit>`.
const WAITING: &str = "waiting.";

/// The priority that an announcement names.
fn announced(name: &str) -> Option<i32> {
    name.strip_prefix(WAITING)?.split_once('.')?.0.parse().ok()
}

/// The announcement of a unit that it has subtasks which wait for a permit of the cluster: an ephemeral node beside the
/// permits. So a freed permit goes to the highest priority that waits, on whichever unit it waits.
pub(crate) struct Announcement {
    store: TaskStore,
    unit: String,
    /// The priority that is announced now.
    announced: Option<i32>,
}

impl Announcement {
    /// No announcement.
    pub(crate) fn new(store: &TaskStore, unit: &str) -> Self {
        Self { store: store.clone(), unit: encode(unit), announced: None }
    }

    /// Withdraws the announcements of this unit's earlier lifetimes. The last one may have made one on this session, if it
    /// began while the request was on its way.
    pub(crate) async fn withdraw_earlier(&self) -> Result<(), Fault> {
        let is_own = |name: &String| {
            name.strip_prefix(WAITING)
                .and_then(|rest| rest.split_once('.'))
                .is_some_and(|(_, unit)| unit == self.unit)
        };
        for name in taken(&self.store).await?.into_iter().filter(is_own) {
            let path = self.store.paths.permit(&name);
            match self.store.tree.multi(vec![Op::Delete { path, version: None }]).await {
                Ok(()) | Err(Error::NoNode(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Announces the highest priority that waits, from the time on when the limit is reached until none waits.
    pub(crate) async fn update(&mut self, waiting: Option<i32>, is_limited: bool) -> Result<(), Fault> {
        if waiting == self.announced || waiting.is_some() && self.announced.is_none() && !is_limited {
            return Ok(());
        }
        let path = |priority: i32| self.store.paths.permit(&format!("{WAITING}{priority}.{}", self.unit));
        // Both in one step: between two steps, a lower priority elsewhere would get the next permit.
        let before = self.announced.map(|priority| Op::Delete { path: path(priority), version: None });
        let now = waiting.map(|priority| Op::Create {
            path: path(priority),
            data: Vec::new(),
            kind: Kind::Ephemeral,
        });
        match self.store.tree.multi(before.into_iter().chain(now).collect()).await {
            Ok(()) => self.announced = waiting,
            // It went with a former session; the caller tries again.
            Err(error @ Error::NoNode(_)) => {
                self.announced = None;
                return Err(error.into());
            }
            // It is that of this unit's former session, and goes with it.
            Err(Error::Exists(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// A random free number of a scope. However large the limit is, only as many numbers are considered as are taken,
/// plus `CHOICE`.
fn choose(taken: &[String], scope: &str, limit: u32) -> Option<u32> {
    let number = |name: &String| name.strip_prefix(scope)?.strip_prefix('.')?.parse::<u32>().ok();
    let taken: BTreeSet<u32> = taken.iter().filter_map(number).collect();
    let last = limit.min((taken.len() as u32).saturating_add(CHOICE));
    let free: Vec<u32> = (0..last).filter(|number| !taken.contains(number)).collect();
    free.get(random::within(0..free.len().max(1))).copied()
}

/// The names of all taken permits, sorted.
pub async fn taken(store: &TaskStore) -> Result<Vec<String>, Fault> {
    let mut names = store.children(&store.paths.permits()).await?;
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_number_is_found_quickly_for_any_limit() {
        let names = |numbers: &[u32]| -> Vec<String> {
            let names = numbers.iter().map(|number| format!("all.{number}"));
            names.chain(["table.all.0".to_owned()]).collect()
        };
        assert_eq!(choose(&names(&[0, 1, 3]), ALL, 4), Some(2));
        assert_eq!(choose(&names(&[0, 1]), ALL, 2), None);
        // The limit was lowered: more permits are taken than it allows.
        assert_eq!(choose(&names(&[0, 1, 2, 9]), ALL, 2), None);
        let most: Vec<u32> = (0..5000).collect();
        assert!(choose(&names(&most), ALL, u32::MAX).is_some_and(|number| number >= 5000));
    }

    #[test]
    fn limited_task_waits_for_its_own_scope_and_for_higher_priorities() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let by_cluster = Limited::new(&names(&["all.0", "table.d.s.t.0", "waiting.7.u"]), ALL, 5);
        assert!(by_cluster.holds(&names(&["all.0", "waiting.5.v", "waiting.7.u"])));
        assert!(!by_cluster.holds(&names(&["all.1", "waiting.7.u"])));
        assert!(!by_cluster.holds(&names(&["all.0"])));
        let by_table = Limited::new(&names(&["all.0", "table.d.s.t.0"]), "table.d.s.t", 5);
        assert!(by_table.holds(&names(&["table.d.s.t.0", "table.d.s.t2.0", "waiting.7.u"])));
        assert!(!by_table.holds(&names(&["all.0"])));
    }
}
