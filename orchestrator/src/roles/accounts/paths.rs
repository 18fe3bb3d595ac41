//! Where everything stands in the tree of accounts.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// What cannot observed in a part of a path. All beyond ASCII is written as its codes, too.
const CODED: &AsciiSet = &CONTROLS.add(b'/').add(b'%').add(b' ').add(b'"').add(b'\\');
/// What follows an instance's name in the name of the node that has its accounts.
const ALLOC: &str = "-alloc";
/// The node whose version is raised by whoever changed the inventory.
const NOTIFY: &str = "notify";

/// The tree's root, and the paths under it.
#[derive(Debug, Clone)]
pub(crate) struct Paths(String);

/// A name as part of a path.
pub(crate) fn encode(name: &str) -> String {
    match name {
        // These two mean something else in a path.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => utf8_percent_encode(name, CODED).to_string(),
    }
}

/// The name that a part of a path was made of.
pub(crate) fn decode(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// The instance whose accounts observed below a node of this name.
pub(crate) fn instance_of(alloc: &str) -> Option<&str> {
    alloc.strip_suffix(ALLOC).filter(|instance| !instance.is_empty())
}

impl Paths {
    /// Under this root, e.g. `/resource`.
    pub(crate) fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    /// The departments, and `notify`.
    pub(crate) fn root(&self) -> &str {
        &self.0
    }

    /// The node that is written to say that the inventory has changed.
    pub(crate) fn notify(&self) -> String {
        format!("{}/{NOTIFY}", self.0)
    }

    /// Whether a child of the root is no department.
    pub(crate) fn is_notify(name: &str) -> bool {
        name == NOTIFY
    }

    /// A module's directory, where its instances come.
    pub(crate) fn module(&self, department: &str, module: &str) -> String {
        let department = if department == NOTIFY { "%6Eotify".to_owned() } else { encode(department) };
        format!("{}/{department}/{}", self.0, encode(module))
    }
}

/// An instance's node, in its module's directory.
pub(crate) fn instance(dir: &str, instance: &str) -> String {
    format!("{dir}/{instance}")
}

/// The node that has its accounts.
pub(crate) fn alloc(dir: &str, instance: &str) -> String {
    format!("{dir}/{instance}{ALLOC}")
}

/// An account of an instance.
pub(crate) fn account(dir: &str, instance: &str, account: &str) -> String {
    format!("{dir}/{instance}{ALLOC}/{}", encode(account))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_as_it_is_named() {
        let paths = Paths::new("/resource");
        let dir = paths.module("finance", "billing");
        assert_eq!(dir, "/resource/finance/billing");
        assert_eq!(instance(&dir, "web1:8080"), "/resource/finance/billing/web1:8080");
        assert_eq!(alloc(&dir, "web1:8080"), "/resource/finance/billing/web1:8080-alloc");
        assert_eq!(account(&dir, "web1:8080", "p1"), "/resource/finance/billing/web1:8080-alloc/p1");
        assert_eq!(instance_of("web1:8080-alloc"), Some("web1:8080"));
        assert_eq!(instance_of("web1:8080"), None);
        assert_eq!(paths.notify(), "/resource/notify");
        assert_ne!(paths.module("notify", "m"), "/resource/notify/m");
    }

    #[test]
    fn any_name_stands_in_a_path_and_comes_back() {
        for name in ["a/b", "100%", ".", "..", "zoë", "a b", "%2F", "\u{1}", "x@y.z"] {
            let part = encode(name);
            assert!(part.is_ascii() && !part.contains('/') && part != "." && part != "..", "{part}");
            assert_eq!(decode(&part), name);
        }
    }
}
