//! Limits on how many subtasks run at once: ephemeral nodes `Permits/<scope>.<number>`, one for each that runs. A worker
//! creates them in the multi that begins a subtask, so two can never take the same, and they go with its session.

use std::collections::BTreeSet;

use super::paths::encode;
use super::task::MainTask;
use super::task_store::{Fault, TaskStore};
use allot_coordination::random;

/// The scope of all tasks together.
pub const ALL: &str = "all";

/// How many free numbers to choose from, where there are as many: not the same as all others try.
const CHOICE: u32 = 1000;

/// The permits that a subtask of a task needs: scope and limit.
pub fn needed(task: &MainTask, cluster: u32) -> Vec<(String, u32)> {
    let table = task.table().map(encode).join(".");
    let limits = [(format!("table.{table}"), task.limit), (ALL.to_owned(), cluster)];
    limits.into_iter().filter(|(_, limit)| *limit > 0).collect()
}

/// A free permit of each scope, as paths; or none where one of them has no free one.
pub fn free(store: &TaskStore, taken: &[String], needed: &[(String, u32)]) -> Option<Vec<String>> {
    let choose = |(scope, limit): &(String, u32)| {
        let number = choose(taken, scope, *limit)?;
        Some(store.paths.permit(&format!("{scope}.{number}")))
    };
    needed.iter().map(choose).collect()
}

/// A free number of a scope. However many there may be, no more are looked at than the taken ones and some.
fn choose(taken: &[String], scope: &str, limit: u32) -> Option<u32> {
    let number = |name: &String| name.strip_prefix(scope)?.strip_prefix('.')?.parse::<u32>().ok();
    let taken: BTreeSet<u32> = taken.iter().filter_map(number).collect();
    let last = limit.min((taken.len() as u32).saturating_add(CHOICE));
    let free: Vec<u32> = (0..last).filter(|number| !taken.contains(number)).collect();
    free.get(random::within(0..free.len().max(1))).copied()
}

/// Those that are taken, in order.
pub async fn taken(store: &TaskStore) -> Result<Vec<String>, Fault> {
    let mut names = store.children(&store.paths.permits()).await?;
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_number_is_found_at_once_however_large_the_limit() {
        let names = |numbers: &[u32]| -> Vec<String> {
            let names = numbers.iter().map(|number| format!("all.{number}"));
            names.chain(["table.all.0".to_owned()]).collect()
        };
        assert_eq!(choose(&names(&[0, 1, 3]), ALL, 4), Some(2));
        assert_eq!(choose(&names(&[0, 1]), ALL, 2), None);
        // A limit that was lowered: more are taken than may be.
        assert_eq!(choose(&names(&[0, 1, 2, 9]), ALL, 2), None);
        let most: Vec<u32> = (0..5000).collect();
        assert!(choose(&names(&most), ALL, u32::MAX).is_some_and(|number| number >= 5000));
    }
}
