//! Permits limit how many subtasks run at once: ephemeral nodes `Permits/<scope>.<number>`, one for each running
//! subtask. A worker creates them in the multi that starts a subtask, so two workers can never take the same permit.
//! Permits disappear with the worker's session.

use std::collections::BTreeSet;

use super::paths::encode;
use super::task::MainTask;
use super::task_store::{Fault, TaskStore};
use allot_coordination::random;

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

/// A free permit of each scope, as paths; `None` if a scope has no free permit.
pub fn free(store: &TaskStore, taken: &[String], needed: &[(String, u32)]) -> Option<Vec<String>> {
    let choose = |(scope, limit): &(String, u32)| {
        let number = choose(taken, scope, *limit)?;
        Some(store.paths.permit(&format!("{scope}.{number}")))
    };
    needed.iter().map(choose).collect()
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
}
