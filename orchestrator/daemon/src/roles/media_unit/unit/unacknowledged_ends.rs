//! Ends of conferences by people, managers and time. If an end were lost with a master or with the unit, the conference
//! would start again elsewhere: no list of a unit says why a conference is missing.

use std::collections::VecDeque;
use std::time::Duration;

use redis::Cmd;
use tokio::time::Instant;
use tracing::warn;

use crate::roles::media_unit::name;
use allot_client::RealmStore;

/// How long an end is kept after replicas confirmed it. A failover may choose a replica that did not, and an operator may
/// restore an older file.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// The most ends that are kept.
const MAX_ENDS: usize = 10_000;

/// A conference that ended on an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownEnd {
    e164: String,
    /// The incarnation that had the conference.
    cmu: String,
    epoch: u64,
    /// Whether it was sent in this session.
    is_sent: bool,
    /// When replicas first confirmed it.
    confirmed: Option<Instant>,
}

/// Ends that the realm does not know, or that a failover may make it forget; of earlier incarnations as well.
#[derive(Debug, Default)]
pub(in crate::roles::media_unit) struct UnacknowledgedEnds {
    /// Oldest first.
    ends: VecDeque<KnownEnd>,
}

impl UnacknowledgedEnds {
    /// A conference ended that this incarnation had at this epoch.
    pub(super) fn push(&mut self, e164: &str, cmu: &str, epoch: u64) {
        if self.ends.len() >= MAX_ENDS {
            self.make_room();
        }
        let (e164, cmu) = (e164.to_owned(), cmu.to_owned());
        self.ends.push_back(KnownEnd { e164, cmu, epoch, is_sent: false, confirmed: None });
    }

    /// Drops the oldest end, if possible one that replicas confirmed.
    fn make_room(&mut self) {
        let at = self.ends.iter().position(|end| end.confirmed.is_some());
        let Some(end) = self.ends.remove(at.unwrap_or(0)) else { return };
        if end.confirmed.is_none() {
            warn!(
                e164 = end.e164,
                epoch = end.epoch,
                "{MAX_ENDS} ends of conferences are unconfirmed; the oldest is not repeated any more: the conference may \
                 start again after a failover",
            );
        }
    }

    /// Drops what was kept for long enough.
    fn expire(&mut self) {
        self.ends.retain(|end| end.confirmed.is_none_or(|confirmed| confirmed.elapsed() < KEPT));
    }

    /// Whether a conference ended whose copy this incarnation had at this epoch.
    pub(super) fn contains(&self, e164: &str, cmu: &str, epoch: u64) -> bool {
        self.ends.iter().any(|end| end.e164 == e164 && end.cmu == cmu && end.epoch == epoch)
    }

    /// The ends of this incarnation, for its report: numbers and epochs.
    pub(super) fn of(&mut self, cmu: &str) -> Vec<(String, u64)> {
        self.expire();
        let own = self.ends.iter().filter(|end| end.cmu == cmu);
        own.map(|end| (end.e164.clone(), end.epoch)).collect()
    }

    /// How many were never sent, or were sent in an earlier session and not confirmed.
    pub(super) fn unsent(&self) -> usize {
        self.ends.iter().filter(|end| !end.is_sent && end.confirmed.is_none()).count()
    }

    /// Whether all ends were sent in this session, or are confirmed.
    pub(super) fn all_sent(&self) -> bool {
        self.unsent() == 0
    }

    /// Whether ends were sent that no replica has confirmed.
    pub(super) fn has_unconfirmed(&self) -> bool {
        self.ends.iter().any(|end| end.is_sent && end.confirmed.is_none())
    }

    /// A new session started: its master may know none of the ends, not even those that replicas confirmed.
    pub(super) fn resend_all(&mut self) {
        self.expire();
        self.ends.iter_mut().for_each(|end| end.is_sent = false);
    }

    /// The commands that send what was not sent in this session.
    pub(super) fn to_send(&self, store: &RealmStore) -> Vec<Cmd> {
        let unsent = self.ends.iter().filter(|end| !end.is_sent);
        let command = |end: &KnownEnd| {
            let mut ended = store.begin("CONF.ENDED");
            ended.arg(name::bytes(&end.e164)).arg(&end.cmu).arg(end.epoch);
            ended
        };
        unsent.map(command).collect()
    }

    /// All ends were sent.
    pub(super) fn mark_sent(&mut self) {
        self.ends.iter_mut().for_each(|end| end.is_sent = true);
    }

    /// A replica has everything that was sent in this session.
    pub(super) fn confirm(&mut self) {
        let now = Instant::now();
        for end in self.ends.iter_mut().filter(|end| end.is_sent) {
            end.confirmed.get_or_insert(now);
        }
    }

    /// How many ends are not sent, and how many are sent and not confirmed.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let unconfirmed = |end: &&KnownEnd| end.is_sent && end.confirmed.is_none();
        (self.unsent(), self.ends.iter().filter(unconfirmed).count())
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, MAX_ENDS, UnacknowledgedEnds};
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn confirmed_ends_make_room_first_and_expire_in_a_session() {
        let mut ends = UnacknowledgedEnds::default();
        ends.push("1", "a:1:1", 1);
        ends.push("2", "a:1:1", 2);
        ends.mark_sent();
        ends.confirm();
        ends.ends[0].confirmed = None;
        for epoch in 3..=MAX_ENDS as u64 + 1 {
            ends.push("3", "a:1:1", epoch);
        }
        assert!(ends.contains("1", "a:1:1", 1) && !ends.contains("2", "a:1:1", 2));
        ends.push("3", "a:1:1", 0);
        assert!(!ends.contains("1", "a:1:1", 1), "the oldest goes if none is confirmed");
        ends.mark_sent();
        ends.confirm();
        advance(KEPT).await;
        assert_eq!(ends.of("a:1:1"), []);
    }
}
