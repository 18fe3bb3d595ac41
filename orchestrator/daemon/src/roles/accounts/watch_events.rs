//! Applies watch events to the observed tree. Each watch loop reports changes in their order, but the leader's own
//! session may have read newer states. An event that is older than the observed state changes nothing.

use std::collections::BTreeMap;

use super::node_reader;
use super::observed_tree::{InstanceId, ObservedTree, Presence};
use super::paths;
use super::watcher::WatchEvent;

/// Applies an event, and returns the instances that are gone.
pub(super) fn apply(tree: &mut ObservedTree, event: WatchEvent) -> Vec<InstanceId> {
    match event {
        WatchEvent::Notified(_) => {}
        WatchEvent::AllocChanged { alloc, node } => {
            let Some((dir, name)) = alloc.rsplit_once('/') else { return Vec::new() };
            let Some(instance) = paths::instance_of(name) else { return Vec::new() };
            let id = InstanceId { dir: dir.to_owned(), instance: instance.to_owned() };
            if let Some(known) = tree.instances.get_mut(&id).and_then(|observed| observed.alloc.as_mut())
                && known.created == node.created
                && node.version.0 > known.version.0
            {
                *known = node_reader::alloc(&id, &node);
            }
        }
        WatchEvent::Missing { dir } => {
            return apply(tree, WatchEvent::Instances { dir, nodes: BTreeMap::new() });
        }
        WatchEvent::Instances { dir, nodes } => {
            for (instance, node) in &nodes {
                let id = InstanceId { dir: dir.clone(), instance: instance.clone() };
                let Some(present) = node_reader::presence(&id, node) else { continue };
                let observed = tree.at(&id);
                observed.set_present(newer(observed.present, present));
            }
            let here = |id: &&InstanceId| id.dir == dir && !nodes.contains_key(&id.instance);
            let gone: Vec<InstanceId> = tree.instances.keys().filter(here).cloned().collect();
            for id in &gone {
                let observed = tree.at(id);
                observed.present = None;
                if observed.is_empty() {
                    tree.instances.remove(id);
                }
            }
            return gone;
        }
    }
    Vec::new()
}

/// Merges two reads of an instance's node, and keeps the newer one. An instance that has once learnt the path of its
/// accounts stays introduced, even if it has overwritten the node's data since.
fn newer(known: Option<Presence>, seen: Presence) -> Presence {
    match known {
        Some(known) if known.created > seen.created => known,
        Some(known) if known.created == seen.created => {
            let introduced = known.introduced || seen.introduced;
            let version = if known.version.0 > seen.version.0 { known.version } else { seen.version };
            Presence { version, introduced, ..seen }
        }
        _ => seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allot_coordination::{Node, Version};

    fn node(created: i64, version: i32, data: &str) -> Node {
        Node { data: data.into(), version: Version(version), owner: Some(7), created }
    }

    fn apply_instances(tree: &mut ObservedTree, nodes: &[(&str, Node)]) -> Vec<InstanceId> {
        let nodes: BTreeMap<String, Node> =
            nodes.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect();
        apply(tree, WatchEvent::Instances { dir: "/r/d/m".into(), nodes })
    }

    fn id() -> InstanceId {
        InstanceId { dir: "/r/d/m".into(), instance: "a:1".into() }
    }

    #[test]
    fn older_read_is_ignored_and_newer_node_is_a_new_process() {
        let mut tree = ObservedTree::default();
        apply_instances(&mut tree, &[("a:1", node(5, 1, "/r/d/m/a:1-alloc"))]);
        assert!(tree.at(&id()).is_introduced());
        // A read from before the introduction; then data that the instance itself wrote.
        apply_instances(&mut tree, &[("a:1", node(5, 0, ""))]);
        assert!(tree.at(&id()).is_introduced());
        assert_eq!(tree.at(&id()).present.unwrap().version, Version(1));
        apply_instances(&mut tree, &[("a:1", node(5, 2, "hello"))]);
        assert!(tree.at(&id()).is_introduced());
        apply_instances(&mut tree, &[("a:1", node(9, 0, ""))]);
        assert!(!tree.at(&id()).is_introduced());
        apply_instances(&mut tree, &[("a:1", node(5, 1, "/r/d/m/a:1-alloc"))]);
        assert_eq!(tree.at(&id()).present.unwrap().created, 9);
        assert_eq!(apply_instances(&mut tree, &[]), [id()]);
        assert!(tree.instances.is_empty());
    }

    #[test]
    fn node_without_a_session_is_no_instance() {
        let mut tree = ObservedTree::default();
        apply_instances(&mut tree, &[("a:1", Node { owner: None, ..node(5, 0, "") })]);
        assert!(tree.instances.is_empty());
    }

    #[test]
    fn report_applies_only_to_the_known_node_and_newer_versions() {
        let mut tree = ObservedTree::default();
        let alloc_changed = |released: &str, created, version| WatchEvent::AllocChanged {
            alloc: "/r/d/m/a:1-alloc".into(),
            node: Node {
                owner: None,
                ..node(created, version, &format!("{{\"released\":{{\"{released}\":1}}}}"))
            },
        };
        tree.at(&id()).alloc = Some(node_reader::alloc(&id(), &Node { owner: None, ..node(3, 4, "") }));
        let mut has_released = |event, account: &str| {
            apply(&mut tree, event);
            tree.at(&id()).alloc.as_ref().unwrap().report.has_released(account, 1)
        };
        assert!(!has_released(alloc_changed("p", 3, 4), "p"), "this version was read before");
        assert!(has_released(alloc_changed("p", 3, 5), "p"));
        assert!(!has_released(alloc_changed("q", 3, 4), "q"));
        assert!(!has_released(alloc_changed("q", 2, 9), "q"), "another node of the same name");
    }
}
