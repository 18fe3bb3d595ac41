//! Names of any bytes as names of nodes.

/// A name as it may stand in a path of the coordination service: `%` and `/` are written as their codes.
pub fn node_name(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}

/// The name that a node was made of.
pub fn name_of_node(node: &str) -> String {
    node.replace("%2F", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_stands_in_a_path_and_comes_back() {
        for name in ["10.0.0.1/b:1:2", "100%", "%2F", "a/%25/b", "{r}:conf"] {
            assert!(!node_name(name).contains('/'), "{name}");
            assert_eq!(name_of_node(&node_name(name)), name);
        }
    }
}
