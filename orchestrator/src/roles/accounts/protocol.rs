//! What leader and client systems write to each other: small JSON objects, read with patience and written exactly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a node of an account says. The leader writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccountNode {
    /// Which account.
    pub(super) account: String,
    /// By which deal.
    pub(super) epoch: u64,
    /// `dealt`, or `revoke`: log out, and say so.
    pub(super) state: State,
    /// Since when it is to be given back, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    /// Until when it stays so after its instance went: of a deal that the book does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<u64>,
}

/// How an account stands with its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// The instance may use it.
    Dealt,
    /// The instance is asked to give it back.
    Revoke,
}

impl AccountNode {
    /// The bytes of the node.
    pub(super) fn bytes(&self) -> Vec<u8> {
        // A struct of numbers and texts cannot fail to be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What the bytes of a node say, if they are ours.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// What a client says in the data of its `-alloc` node: all of it each time, not only what is new.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Said {
    /// Accounts that it is logged out of and uses no more, with the epoch of the deal.
    pub(super) released: BTreeMap<String, u64>,
    /// Accounts that it cannot use, the same way.
    pub(super) unusable: BTreeMap<String, u64>,
}

impl Said {
    /// What the bytes of a node say; `Err` with the reason where that is no such object.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// Whether it has let go of an account of this deal.
    pub(super) fn has_released(&self, account: &str, epoch: u64) -> bool {
        self.released.get(account) == Some(&epoch) || self.is_unusable(account, epoch)
    }

    /// Whether it cannot use an account of this deal.
    pub(super) fn is_unusable(&self, account: &str, epoch: u64) -> bool {
        self.unusable.get(account) == Some(&epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_written_as_it_is_documented() {
        let dealt =
            AccountNode { account: "p1".into(), epoch: 7, state: State::Dealt, since: None, until: None };
        assert_eq!(dealt.bytes(), br#"{"account":"p1","epoch":7,"state":"dealt"}"#);
        let revoke = AccountNode { state: State::Revoke, since: Some(9), ..dealt.clone() };
        assert_eq!(revoke.bytes(), br#"{"account":"p1","epoch":7,"state":"revoke","since":9}"#);
        assert_eq!(AccountNode::read(&revoke.bytes()), Some(revoke));
        assert_eq!(AccountNode::read(b"p1"), None);
    }

    #[test]
    fn what_a_client_says_counts_for_the_deal_that_it_names_only() {
        let said = Said::read(br#"{"released": {"p1": 7}, "unusable": {"p2": 8}, "more": 1}"#).unwrap();
        assert!(said.has_released("p1", 7) && said.has_released("p2", 8));
        assert!(said.is_unusable("p2", 8) && !said.is_unusable("p1", 7));
        assert!(!said.has_released("p1", 8) && !said.has_released("p3", 7));
        assert_eq!(Said::read(b" \n"), Ok(Said::default()));
        assert!(Said::read(b"bye").is_err());
    }
}
