//! The paths of all nodes in the tree of accounts, and the encoding of names in them.

use allot_coordination::node_name;

use crate::config::Config;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Characters that are percent-encoded in a part of a path. Everything beyond ASCII is encoded, too.
const CODED: &AsciiSet = &CONTROLS.add(b'/').add(b'%').add(b' ').add(b'"').add(b'\\');
/// The suffix that turns an instance's name into the name of the node that holds its accounts.
const ALLOC: &str = "-alloc";
/// The node that a client system writes after it has changed the inventory; each write raises its version.
const NOTIFY: &str = "notify";

/// The tree's root, and the paths under it.
#[derive(Debug, Clone)]
pub struct Paths(String);

/// Encodes a name as one part of a path.
pub fn encode(name: &str) -> String {
    match name {
        // ZooKeeper gives these two a meaning of their own.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => utf8_percent_encode(name, CODED).to_string(),
    }
}

/// Decodes the name that [`encode`] encoded.
pub fn decode(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// The instance whose accounts are below a node of this name; `None` if the node holds no accounts.
pub fn instance_of(alloc: &str) -> Option<&str> {
    alloc.strip_suffix(ALLOC).filter(|instance| !instance.is_empty())
}

impl Paths {
    /// The paths below this root, e.g. `/resource`.
    pub fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    /// The root: its children are the departments and `notify`.
    pub fn root(&self) -> &str {
        &self.0
    }

    /// The node that a client system writes to announce a change of the inventory.
    pub fn notify(&self) -> String {
        format!("{}/{NOTIFY}", self.0)
    }

    /// The node with the version of the notify node that the leader has handled.
    pub fn processed(&self) -> String {
        format!("{}/processed", self.notify())
    }

    /// Whether a child of the root is the notify node instead of a department.
    pub fn is_notify(name: &str) -> bool {
        name == NOTIFY
    }

    /// A module's directory, where its instances register.
    pub fn module(&self, department: &str, module: &str) -> String {
        let department = if department == NOTIFY { "%6Eotify".to_owned() } else { encode(department) };
        format!("{}/{department}/{}", self.0, encode(module))
    }
}

/// The node that an instance creates in its module's directory.
pub fn instance(dir: &str, instance: &str) -> String {
    format!("{dir}/{instance}")
}

/// The node that holds an instance's accounts.
pub fn alloc(dir: &str, instance: &str) -> String {
    format!("{dir}/{instance}{ALLOC}")
}

/// The node of one account below its instance's `-alloc` node.
pub fn account(dir: &str, instance: &str, account: &str) -> String {
    format!("{dir}/{instance}{ALLOC}/{}", encode(account))
}

/// The directory of the role's own nodes: the election.
pub fn own_dir(config: &Config) -> String {
    format!("{}/{}", config.root, node_name(&config.accounts.book))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_documented_layout() {
        let paths = Paths::new("/resource");
        let dir = paths.module("finance", "billing");
        assert_eq!(dir, "/resource/finance/billing");
        assert_eq!(instance(&dir, "web1:8080"), "/resource/finance/billing/web1:8080");
        assert_eq!(alloc(&dir, "web1:8080"), "/resource/finance/billing/web1:8080-alloc");
        assert_eq!(account(&dir, "web1:8080", "p1"), "/resource/finance/billing/web1:8080-alloc/p1");
        assert_eq!(instance_of("web1:8080-alloc"), Some("web1:8080"));
        assert_eq!(instance_of("web1:8080"), None);
        assert_eq!(paths.notify(), "/resource/notify");
        assert_eq!(paths.processed(), "/resource/notify/processed");
        assert_ne!(paths.module("notify", "m"), "/resource/notify/m");
    }

    #[test]
    fn every_name_survives_encoding_and_decoding() {
        for name in ["a/b", "100%", ".", "..", "zoë", "a b", "%2F", "\u{1}", "x@y.z"] {
            let part = encode(name);
            assert!(part.is_ascii() && !part.contains('/') && part != "." && part != "..", "{part}");
            assert_eq!(decode(&part), name);
        }
    }
}
