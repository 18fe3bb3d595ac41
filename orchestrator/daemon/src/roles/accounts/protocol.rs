//! The messages between leader and client systems in ZooKeeper nodes: small JSON objects, read leniently and written
//! exactly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The data of an account's node, written by the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccountNode {
    /// The account's name.
    pub(super) account: String,
    /// The epoch of the assignment.
    pub(super) epoch: u64,
    /// `assigned`, or `revoke`: the instance must log out and report that.
    pub(super) state: State,
    /// The time at which the account was revoked, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    /// The time until which the node stays after its instance has gone, in milliseconds since 1970. Set only if the
    /// book does not know the assignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<u64>,
}

/// The state of an account at its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// The instance may use the account.
    Assigned,
    /// The instance must release the account.
    Revoke,
}

impl AccountNode {
    /// The node's data as JSON.
    pub(super) fn bytes(&self) -> Vec<u8> {
        // Serialising a struct of numbers and texts cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a node's data; `None` if a leader did not write them.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// The instructions that were sent since each assignment of an account, by epoch.
pub(super) type Totals = BTreeMap<u64, u64>;

/// The report of an instance in the data of its `-alloc` node. Each report is complete and replaces the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ClientReport {
    /// Accounts that the instance has logged out of and no longer uses, each with the epoch of its assignment.
    pub(super) released: BTreeMap<String, u64>,
    /// Accounts that the instance cannot use, each with the epoch of its assignment.
    pub(super) unusable: BTreeMap<String, u64>,
    /// Whether the instance will not come back under its name, so that nothing is kept for it after its node is gone.
    pub(super) leaves: bool,
    /// For each account the instructions that the instance has sent since its last assignments, by their epochs.
    pub(super) used: BTreeMap<String, Totals>,
}

impl ClientReport {
    /// Parses a node's data; empty data are an empty report. `Err` holds the reason if the data are no such JSON
    /// object.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// Whether the instance has released this assignment of an account.
    pub(super) fn has_released(&self, account: &str, epoch: u64) -> bool {
        self.released.get(account) == Some(&epoch) || self.is_unusable(account, epoch)
    }

    /// The latest assignment of an account that the instance reports as released or unusable.
    pub(super) fn last_ended(&self, account: &str) -> Option<u64> {
        self.released.get(account).max(self.unusable.get(account)).copied()
    }

    /// The latest assignment of any account that the instance reports as released or unusable, up to `limit`.
    pub(super) fn latest_epoch(&self, limit: u64) -> u64 {
        let all = self.released.values().chain(self.unusable.values());
        all.copied().filter(|epoch| *epoch <= limit).max().unwrap_or(0)
    }

    /// The instructions since the assignments of an account, up to the published one.
    pub(super) fn use_of(&self, account: &str, shown: u64) -> impl Iterator<Item = (u64, u64)> {
        let totals = self.used.get(account).into_iter().flatten();
        totals.map(|(&epoch, &total)| (epoch, total)).filter(move |&(epoch, _)| epoch <= shown)
    }

    /// Whether the instance cannot use this assignment of an account.
    pub(super) fn is_unusable(&self, account: &str, epoch: u64) -> bool {
        self.unusable.get(account) == Some(&epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_node_has_the_documented_json() {
        let assigned =
            AccountNode { account: "p1".into(), epoch: 7, state: State::Assigned, since: None, until: None };
        assert_eq!(assigned.bytes(), br#"{"account":"p1","epoch":7,"state":"assigned"}"#);
        let revoke = AccountNode { state: State::Revoke, since: Some(9), ..assigned.clone() };
        assert_eq!(revoke.bytes(), br#"{"account":"p1","epoch":7,"state":"revoke","since":9}"#);
        assert_eq!(AccountNode::read(&revoke.bytes()), Some(revoke));
        assert_eq!(AccountNode::read(b"p1"), None);
    }

    #[test]
    fn use_belongs_to_the_assignments_that_the_report_names() {
        let report = ClientReport::read(br#"{"used": {"p1": {"6": 5, "7": 2}}}"#).unwrap();
        let of = |account: &str, shown| report.use_of(account, shown).collect::<Vec<_>>();
        assert_eq!([of("p1", 7), of("p1", 6), of("p2", 7)], [vec![(6, 5), (7, 2)], vec![(6, 5)], vec![]]);
        // A total that names no assignment could be of either of two.
        for refused in [&br#"{"used": {"p1": 5}}"#[..], br#"{"used": {"p1": {"6": -1}}}"#] {
            assert!(ClientReport::read(refused).is_err());
        }
    }

    #[test]
    fn report_applies_only_to_the_epoch_it_names() {
        let report =
            ClientReport::read(br#"{"released": {"p1": 7}, "unusable": {"p2": 8}, "more": 1}"#).unwrap();
        assert!(report.has_released("p1", 7) && report.has_released("p2", 8));
        assert!(report.is_unusable("p2", 8) && !report.is_unusable("p1", 7));
        assert!(!report.has_released("p1", 8) && !report.has_released("p3", 7));
        assert_eq!(ClientReport::read(b" \n"), Ok(ClientReport::default()));
        assert!(ClientReport::read(b"bye").is_err());
    }
}
