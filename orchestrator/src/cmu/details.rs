//! What a unit tells of its conferences, kept to be told anew: after an EPOCH, after a reconnect, when asked.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use crate::daemon::now_ms;

/// Fields of a conference: what one CONF.SET takes.
const MOST: usize = 256;

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

    /// What has to be told. It counts as told.
    pub(crate) fn take(&mut self) -> Vec<Told> {
        let mut taken = Vec::with_capacity(self.news.len());
        for (e164, names) in std::mem::take(&mut self.news) {
            let Some(all) = self.all.get(&e164) else { continue };
            let fields = names.into_iter().filter_map(|name| Some((name.clone(), all.get(&name)?.clone())));
            let fields: Vec<_> = fields.collect();
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
}
