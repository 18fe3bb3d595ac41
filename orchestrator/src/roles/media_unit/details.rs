//! What a unit tells of its conferences, kept to be told anew: after an EPOCH, after a reconnect, when asked.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use tracing::warn;

use allot_runtime::time::now_ms;

/// Fields of a conference: what one CONF.SET takes.
const MOST: usize = 256;
/// Bytes told at once. A server must take them within the time that one answer may take, and between two such parts a
/// unit beats and does what it is told.
const PART: usize = 1 << 20;
/// What a message takes besides its details, more or less.
const HEAD: usize = 256;

/// What has to be told of one conference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its number.
    pub(crate) e164: String,
    /// Rises with each write.
    pub(crate) seq: u64,
    /// Fields and values.
    pub(crate) fields: Vec<(String, String)>,
}

/// All details of all conferences of a unit, and which of them have still to be told.
#[derive(Debug, Default)]
pub(crate) struct Details {
    all: BTreeMap<String, BTreeMap<String, String>>,
    news: BTreeMap<String, BTreeSet<String>>,
    /// The conference that was told last, so that those behind it have their turn, too.
    turn: String,
    last: u64,
}

impl Details {
    /// A detail has this value now.
    pub(crate) fn set(&mut self, e164: &str, field: &str, value: String) {
        let all = self.all.entry(e164.to_owned()).or_default();
        if all.len() >= MOST && !all.contains_key(field) {
            warn!(e164, field, "a conference has no more than {MOST} details; this one is left out");
            return;
        }
        all.insert(field.to_owned(), value);
        self.news.entry(e164.to_owned()).or_default().insert(field.to_owned());
    }

    /// All of a conference are to be told anew.
    pub(crate) fn renew(&mut self, e164: &str) {
        if let Some(fields) = self.all.get(e164) {
            self.news.insert(e164.to_owned(), fields.keys().cloned().collect());
        }
    }

    /// All of all.
    pub(crate) fn renew_all(&mut self) {
        let all: Vec<String> = self.all.keys().cloned().collect();
        all.iter().for_each(|e164| self.renew(e164));
    }

    /// A conference is over.
    pub(crate) fn forget(&mut self, e164: &str) {
        self.all.remove(e164);
        self.news.remove(e164);
    }

    /// Whether something has to be told.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// A part of what has to be told, as large as can be told at once. It counts as told; the rest is for the next time.
    pub(crate) fn take(&mut self) -> Vec<Told> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < PART {
            let behind = self.news.range::<str, _>((Excluded(self.turn.as_str()), Unbounded)).next();
            let Some((e164, _)) = behind.or_else(|| self.news.iter().next()) else { break };
            let Some((e164, mut names)) = self.news.remove_entry(&e164.clone()) else { break };
            self.turn.clone_from(&e164);
            let Some(all) = self.all.get(&e164) else { continue };
            bytes += HEAD;
            let mut fields = Vec::new();
            while let Some(name) = names.pop_first() {
                let Some(value) = all.get(&name) else { continue };
                bytes += name.len() + value.len();
                fields.push((name, value.clone()));
                if bytes >= PART {
                    break;
                }
            }
            if !names.is_empty() {
                self.news.insert(e164.clone(), names);
            }
            // Rises with each write, also over a restart of the process.
            self.last = (now_ms() * 1000).max(self.last + 1);
            taken.push(Told { e164, seq: self.last, fields });
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_told_once_and_all_when_asked() {
        let mut details = Details::default();
        details.set("1", "members", "2".into());
        details.set("1", "speaker", "ann".into());
        let first = details.take();
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].fields.len(), 2);
        assert!(details.take().is_empty());
        details.set("1", "members", "3".into());
        let second = details.take();
        assert_eq!(second[0].fields, [("members".to_owned(), "3".to_owned())]);
        assert!(second[0].seq > first[0].seq);
        details.renew_all();
        assert_eq!(details.take()[0].fields.len(), 2);
        details.set("1", "members", "4".into());
        details.forget("1");
        details.renew_all();
        assert!(details.take().is_empty());
    }

    #[test]
    fn who_has_news_all_the_time_keeps_nobody_waiting() {
        let mut details = Details::default();
        let value = "x".repeat(PART);
        let mut told = BTreeSet::new();
        details.set("3", "f", value.clone());
        for _ in 0..3 {
            details.set("1", "f", value.clone());
            details.set("2", "f", value.clone());
            told.extend(details.take().into_iter().map(|one| one.e164));
        }
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn many_are_told_in_parts() {
        let mut details = Details::default();
        let value = "x".repeat(65_536);
        for (e164, fields) in [("1", 100), ("2", 3), ("3", 20)] {
            (0..fields).for_each(|field| details.set(e164, &field.to_string(), value.clone()));
        }
        let (mut parts, mut seq) = (0, 0);
        let mut told = BTreeMap::<String, BTreeSet<String>>::new();
        while details.has_news() {
            let part = details.take();
            let fields = part.iter().flat_map(|one| &one.fields);
            let bytes: usize = fields.map(|(name, value)| name.len() + value.len()).sum();
            assert!((1..=PART + value.len() + 2).contains(&bytes), "{bytes} bytes at once");
            for one in part {
                assert!(one.seq > seq && !one.fields.is_empty());
                seq = one.seq;
                let names = one.fields.into_iter().map(|(name, _)| name);
                told.entry(one.e164).or_default().extend(names);
            }
            parts += 1;
        }
        assert!(parts >= 7, "{parts} parts");
        assert_eq!(told.values().map(BTreeSet::len).collect::<Vec<_>>(), [100, 3, 20]);
        assert!(details.take().is_empty());
    }
}
