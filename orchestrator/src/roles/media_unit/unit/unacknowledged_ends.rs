//! Ends of conferences by people, which the unit sends until a replica confirms them. If an end were lost with a master
//! or with the unit, the conference would restart elsewhere.

use std::mem::take;

use redis::Cmd;

/// The most ends without confirmation that are kept to be sent again.
const MAX_UNCONFIRMED: usize = 10_000;

/// Ends that the realm may not know.
#[derive(Debug, Default)]
pub(in crate::roles::media_unit) struct UnacknowledgedEnds {
    /// Not sent yet.
    pub(super) unsent: Vec<Cmd>,
    /// Sent in this session, and not confirmed by a replica yet.
    unconfirmed: Vec<Cmd>,
}

impl UnacknowledgedEnds {
    pub(super) fn push(&mut self, ended: Cmd) {
        self.unsent.push(ended);
    }

    /// Whether all ends were sent.
    pub(super) fn all_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Whether ends were sent that no replica has confirmed.
    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// A new session started: its master may not know what was sent to the last one.
    pub(super) fn resend_all(&mut self) {
        let mut all = take(&mut self.unconfirmed);
        all.append(&mut self.unsent);
        self.unsent = all;
    }

    /// All ends were sent.
    pub(super) fn mark_sent(&mut self) {
        self.unconfirmed.append(&mut self.unsent);
        let excess = self.unconfirmed.len().saturating_sub(MAX_UNCONFIRMED);
        self.unconfirmed.drain(..excess);
    }

    /// A replica has everything that was sent in this session.
    pub(super) fn confirm(&mut self) {
        self.unconfirmed.clear();
    }

    /// How many ends are not sent, and how many are not confirmed.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.unsent.len(), self.unconfirmed.len())
    }
}
