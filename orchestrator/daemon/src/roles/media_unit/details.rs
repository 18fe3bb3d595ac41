//! The details of a unit's conferences. All are kept, because all are sent again after an `EPOCH` message, after a
//! reconnect, and on request.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use tracing::warn;

use allot_client::RESERVED_DETAILS;
use allot_runtime::invariant;
use allot_runtime::time::now_ms;

/// The most details of a conference: as many fields as one `CONF.SET` takes.
const MAX_FIELDS: usize = 256;
/// Bytes sent in one batch. A server must accept a batch within the time that one answer may take, and between two
/// batches the unit sends heartbeats and handles messages.
const BATCH_BYTES: usize = 1 << 20;
/// Approximate bytes of a message without its details.
const MESSAGE_OVERHEAD: usize = 256;

/// New details of one conference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetailUpdate {
    /// Number of the conference.
    pub(crate) e164: String,
    /// Increases with each update, over restarts of the process as well.
    pub(crate) seq: u64,
    /// Fields and values.
    pub(crate) fields: Vec<(String, String)>,
}

/// All details of all conferences of a unit, and which of them still have to be sent.
#[derive(Debug, Default)]
pub(crate) struct Details {
    all: BTreeMap<String, BTreeMap<String, String>>,
    pending: BTreeMap<String, BTreeSet<String>>,
    /// The conference whose details were sent last: the next batch starts behind it, so that every conference has its
    /// turn.
    last_sent: String,
    last_seq: u64,
}

impl Details {
    /// Sets the value of a detail.
    pub(crate) fn set(&mut self, e164: &str, field: &str, value: String) {
        if RESERVED_DETAILS.contains(&field) {
            warn!(e164, field, "detail ignored: entries of streams begin with a field of this name");
            return;
        }
        // Most details have earlier values, so names are rarely copied.
        let all = match self.all.get_mut(e164) {
            Some(all) => all,
            None => self.all.entry(e164.to_owned()).or_default(),
        };
        let is_full = all.len() >= MAX_FIELDS;
        match all.get_mut(field) {
            Some(detail) => *detail = value,
            None if is_full => {
                warn!(e164, field, "detail ignored: a conference has at most {MAX_FIELDS}");
                return;
            }
            None => drop(all.insert(field.to_owned(), value)),
        }
        self.pending.entry(e164.to_owned()).or_default().insert(field.to_owned());
    }

    /// Sends all details of a conference again.
    pub(crate) fn resend(&mut self, e164: &str) {
        if let Some(fields) = self.all.get(e164) {
            self.pending.insert(e164.to_owned(), fields.keys().cloned().collect());
        }
    }

    /// Sends all details of all conferences again.
    pub(crate) fn resend_all(&mut self) {
        let all: Vec<String> = self.all.keys().cloned().collect();
        all.iter().for_each(|e164| self.resend(e164));
    }

    /// Removes a conference that has ended.
    pub(crate) fn remove(&mut self, e164: &str) {
        self.all.remove(e164);
        self.pending.remove(e164);
    }

    /// Whether details still have to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The next batch of details to send, of about [`BATCH_BYTES`]. They count as sent; the rest is for the next batch.
    pub(crate) fn take_batch(&mut self) -> Vec<DetailUpdate> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES {
            let behind = self.pending.range::<str, _>((Excluded(self.last_sent.as_str()), Unbounded)).next();
            let Some((e164, _)) = behind.or_else(|| self.pending.iter().next()) else { break };
            let Some((e164, mut names)) = self.pending.remove_entry(&e164.clone()) else { break };
            self.last_sent.clone_from(&e164);
            let Some(all) = self.all.get(&e164) else {
                invariant(false, "a conference with pending details has details");
                continue;
            };
            bytes += MESSAGE_OVERHEAD;
            let mut fields = Vec::new();
            while let Some(name) = names.pop_first() {
                let Some(value) = all.get(&name) else {
                    invariant(false, "a pending detail was set");
                    continue;
                };
                bytes += name.len() + value.len();
                fields.push((name, value.clone()));
                if bytes >= BATCH_BYTES {
                    break;
                }
            }
            if !names.is_empty() {
                self.pending.insert(e164.clone(), names);
            }
            self.last_seq = (now_ms() * 1000).max(self.last_seq + 1);
            taken.push(DetailUpdate { e164, seq: self.last_seq, fields });
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_details_are_sent_once_and_all_details_on_request() {
        let mut details = Details::default();
        details.set("1", "members", "2".into());
        details.set("1", "speaker", "ann".into());
        let first = details.take_batch();
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].fields.len(), 2);
        assert!(details.take_batch().is_empty());
        details.set("1", "members", "3".into());
        let second = details.take_batch();
        assert_eq!(second[0].fields, [("members".to_owned(), "3".to_owned())]);
        assert!(second[0].seq > first[0].seq);
        details.resend_all();
        assert_eq!(details.take_batch()[0].fields.len(), 2);
        details.set("1", "members", "4".into());
        details.remove("1");
        details.resend_all();
        assert!(details.take_batch().is_empty());
    }

    #[test]
    fn detail_with_a_reserved_name_is_ignored() {
        let mut details = Details::default();
        details.set("1", "epoch", "7".into());
        assert!(details.take_batch().is_empty());
        details.set("1", "epochs", "7".into());
        assert_eq!(details.take_batch()[0].fields, [("epochs".to_owned(), "7".to_owned())]);
    }

    #[test]
    fn busy_conference_does_not_starve_the_others() {
        let mut details = Details::default();
        let value = "x".repeat(BATCH_BYTES);
        let mut sent = BTreeSet::new();
        details.set("3", "f", value.clone());
        for _ in 0..3 {
            details.set("1", "f", value.clone());
            details.set("2", "f", value.clone());
            sent.extend(details.take_batch().into_iter().map(|update| update.e164));
        }
        assert_eq!(sent.len(), 3);
    }

    #[test]
    fn many_details_are_sent_in_batches() {
        let mut details = Details::default();
        let value = "x".repeat(65_536);
        for (e164, fields) in [("1", 100), ("2", 3), ("3", 20)] {
            (0..fields).for_each(|field| details.set(e164, &field.to_string(), value.clone()));
        }
        let (mut batches, mut seq) = (0, 0);
        let mut sent = BTreeMap::<String, BTreeSet<String>>::new();
        while details.has_pending() {
            let batch = details.take_batch();
            let fields = batch.iter().flat_map(|update| &update.fields);
            let bytes: usize = fields.map(|(name, value)| name.len() + value.len()).sum();
            assert!((1..=BATCH_BYTES + value.len() + 2).contains(&bytes), "{bytes} bytes in a batch");
            for update in batch {
                assert!(update.seq > seq && !update.fields.is_empty());
                seq = update.seq;
                let names = update.fields.into_iter().map(|(name, _)| name);
                sent.entry(update.e164).or_default().extend(names);
            }
            batches += 1;
        }
        assert!(batches >= 7, "{batches} batches");
        assert_eq!(sent.values().map(BTreeSet::len).collect::<Vec<_>>(), [100, 3, 20]);
        assert!(details.take_batch().is_empty());
    }
}
