//! What each part of the process lacks, as the probes tell it. A part that waits for a store is not ready; the
//! process is well all the same, and to kill it would help nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The state of all parts. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<&'static str, Option<String>>>>);

impl Health {
    /// A part is ready.
    pub fn ready(&self, part: &'static str) {
        self.set(part, None);
    }

    /// A part is not ready, and why.
    pub fn lacks(&self, part: &'static str, what: impl Into<String>) {
        self.set(part, Some(what.into()));
    }

    fn set(&self, part: &'static str, lacks: Option<String>) {
        let ready = if lacks.is_none() { 1.0 } else { 0.0 };
        metrics::gauge!("allot_ready", "part" => part).set(ready);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(part, lacks);
    }

    /// What the parts lack, one a line; nothing where all are ready.
    pub fn troubles(&self) -> Vec<String> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lacking = parts.iter().filter_map(|(part, lacks)| Some((part, lacks.as_ref()?)));
        lacking.map(|(part, what)| format!("{part}: {what}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_when_no_part_lacks_anything() {
        let health = Health::default();
        assert!(health.troubles().is_empty());
        health.lacks("redis", "not connected");
        health.ready("zookeeper");
        assert_eq!(health.troubles(), ["redis: not connected"]);
        health.clone().ready("redis");
        assert!(health.troubles().is_empty());
    }
}
