//! What was heard becomes part of what is known of the tree. Each listener tells things in their order, but the leader's own
//! session may have seen more; so what is older than what is known changes nothing.

use std::collections::BTreeMap;

use super::ears::Heard;
use super::hands;
use super::paths;
use super::view::{Place, Presence, View};

/// Notes it; the instances that are gone.
pub(super) fn note(view: &mut View, heard: Heard) -> Vec<Place> {
    match heard {
        Heard::Notified(_) => {}
        Heard::Said { alloc, node } => {
            let Some((dir, name)) = alloc.rsplit_once('/') else { return Vec::new() };
            let Some(instance) = paths::instance_of(name) else { return Vec::new() };
            let place = Place { dir: dir.to_owned(), instance: instance.to_owned() };
            if let Some(known) = view.places.get_mut(&place).and_then(|stand| stand.alloc.as_mut())
                && known.created == node.created
                && node.version.0 > known.version.0
            {
                *known = hands::alloc(&place, &node);
            }
        }
        Heard::Missing { dir } => return note(view, Heard::There { dir, nodes: BTreeMap::new() }),
        Heard::There { dir, nodes } => {
            for (instance, node) in &nodes {
                let place = Place { dir: dir.clone(), instance: instance.clone() };
                let Some(present) = hands::presence(&place, node) else { continue };
                let stand = view.at(&place);
                stand.come(newer(stand.present, present));
            }
            let here = |place: &&Place| place.dir == dir && !nodes.contains_key(&place.instance);
            let gone: Vec<Place> = view.places.keys().filter(here).cloned().collect();
            for place in &gone {
                let stand = view.at(place);
                stand.present = None;
                if stand.is_empty() {
                    view.places.remove(place);
                }
            }
            return gone;
        }
    }
    Vec::new()
}

/// The newer of two looks at an instance's node. Who was told where its accounts are knows it, whatever it wrote since.
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

    fn there(view: &mut View, nodes: &[(&str, Node)]) -> Vec<Place> {
        let nodes: BTreeMap<String, Node> =
            nodes.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect();
        note(view, Heard::There { dir: "/r/d/m".into(), nodes })
    }

    fn place() -> Place {
        Place { dir: "/r/d/m".into(), instance: "a:1".into() }
    }

    #[test]
    fn an_older_look_changes_nothing_and_a_newer_node_is_another_process() {
        let mut view = View::default();
        there(&mut view, &[("a:1", node(5, 1, "/r/d/m/a:1-alloc"))]);
        assert!(view.at(&place()).is_held());
        // A look from before it was introduced, and words of its own.
        there(&mut view, &[("a:1", node(5, 0, ""))]);
        assert!(view.at(&place()).is_held());
        assert_eq!(view.at(&place()).present.unwrap().version, Version(1));
        there(&mut view, &[("a:1", node(5, 2, "hello"))]);
        assert!(view.at(&place()).is_held());
        there(&mut view, &[("a:1", node(9, 0, ""))]);
        assert!(!view.at(&place()).is_held());
        there(&mut view, &[("a:1", node(5, 1, "/r/d/m/a:1-alloc"))]);
        assert_eq!(view.at(&place()).present.unwrap().created, 9);
        assert_eq!(there(&mut view, &[]), [place()]);
        assert!(view.places.is_empty());
    }

    #[test]
    fn a_node_without_a_session_is_no_instance() {
        let mut view = View::default();
        there(&mut view, &[("a:1", Node { owner: None, ..node(5, 0, "") })]);
        assert!(view.places.is_empty());
    }

    #[test]
    fn what_is_said_counts_for_the_node_that_is_known_and_not_backwards() {
        let mut view = View::default();
        let said = |released: &str, created, version| Heard::Said {
            alloc: "/r/d/m/a:1-alloc".into(),
            node: Node {
                owner: None,
                ..node(created, version, &format!("{{\"released\":{{\"{released}\":1}}}}"))
            },
        };
        view.at(&place()).alloc = Some(hands::alloc(&place(), &Node { owner: None, ..node(3, 4, "") }));
        let mut has = |heard, account: &str| {
            note(&mut view, heard);
            view.at(&place()).alloc.as_ref().unwrap().said.has_released(account, 1)
        };
        assert!(!has(said("p", 3, 4), "p"), "it is what is known");
        assert!(has(said("p", 3, 5), "p"));
        assert!(!has(said("q", 3, 4), "q"));
        assert!(!has(said("q", 2, 9), "q"), "another node of the same name");
    }
}
