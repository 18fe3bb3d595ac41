//! Arbitrary names as names of nodes.

/// A name as one component of a path: `%` and `/` are percent-encoded.
pub fn node_name(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}

/// The name of which [`node_name`] made this node name.
pub fn name_of_node(node: &str) -> String {
    // Schedulers ask for the names of all units all the time, and few names are encoded.
    if !node.contains('%') {
        return node.to_owned();
    }
    node.replace("%2F", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_survives_the_encoding_as_a_node_name() {
        for name in ["10.0.0.1/b:1:2", "100%", "%2F", "a/%25/b", "{r}:conf"] {
            assert!(!node_name(name).contains('/'), "{name}");
            assert_eq!(name_of_node(&node_name(name)), name);
        }
    }
}
