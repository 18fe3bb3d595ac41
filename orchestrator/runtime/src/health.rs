//! The readiness of the parts of the process, for the readiness probe. A part that waits for a store is not ready,
//! but the process is alive: restarting it would not help.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use allot_coordination::Coordinator;

/// The name of the session with the coordination service in probes.
pub const COORDINATION: &str = "coordination";
/// The most problems that a probe names.
const MAX_PROBLEMS: usize = 10;

/// The state of all parts of a process. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<&'static str, Option<String>>>>);

impl Health {
    /// Marks a part as ready.
    pub fn ready(&self, part: &'static str) {
        self.set(part, None);
    }

    /// Marks a part as not ready, with the reason.
    pub fn not_ready(&self, part: &'static str, reason: impl Into<String>) {
        self.set(part, Some(reason.into()));
    }

    /// Reports the state of the session with the coordination service, and all that keeps loops from their work until a
    /// person helps, as the part `coordination`. Returns when the coordinator is gone.
    pub async fn follow(&self, coordinator: &Coordinator) {
        let (mut status, mut problems) = (coordinator.subscribe(), coordinator.problems());
        loop {
            let is_up = status.borrow_and_update().is_up();
            let mut found: Vec<String> = problems.borrow_and_update().values().cloned().collect();
            if !is_up && found.is_empty() {
                found.push("no session with ZooKeeper".to_owned());
            }
            let (shown, rest) = found.split_at(found.len().min(MAX_PROBLEMS));
            match rest.len() {
                0 if found.is_empty() => self.ready(COORDINATION),
                0 => self.not_ready(COORDINATION, shown.join("; ")),
                more => self.not_ready(COORDINATION, format!("{}; and {more} more", shown.join("; "))),
            }
            tokio::select! {
                changed = status.changed() => if changed.is_err() { return },
                changed = problems.changed() => if changed.is_err() { return },
            }
        }
    }

    fn set(&self, part: &'static str, problem: Option<String>) {
        let ready = if problem.is_none() { 1.0 } else { 0.0 };
        metrics::gauge!("allot_ready", "part" => part).set(ready);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(part, problem);
    }

    /// One line for each part that is not ready; empty if all parts are ready.
    pub fn problems(&self) -> Vec<String> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let problems = parts.iter().filter_map(|(part, problem)| Some((part, problem.as_ref()?)));
        problems.map(|(part, problem)| format!("{part}: {problem}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_ready_when_every_part_is() {
        let health = Health::default();
        assert!(health.problems().is_empty());
        health.not_ready("redis", "not connected");
        health.ready("zookeeper");
        assert_eq!(health.problems(), ["redis: not connected"]);
        health.clone().ready("redis");
        assert!(health.problems().is_empty());
    }
}
