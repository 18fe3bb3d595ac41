//! Doubly linked lists of numbered entries. Each entry stores its own links, so joining, leaving from any place, and
//! finding the first entry take O(1).

use super::invariant::Checked;
use crate::{ensure, invariant};

/// No number.
pub const NONE: u32 = u32::MAX;

/// The storage of the links. An entry is in at most one list of a kind.
pub trait Links {
    /// The entries before and after this one.
    fn links(&self, id: u32) -> [u32; 2];
    /// Sets both.
    fn set_links(&mut self, id: u32, links: [u32; 2]);
}

/// Has the records of a table be in lists by their field `links`.
macro_rules! links_in_table {
    ($Record:ty) => {
        impl $crate::shared::list::Links for $crate::shared::table::Table<$Record> {
            fn links(&self, id: u32) -> [u32; 2] {
                let record = self.get(id);
                $crate::invariant!(record.is_some(), "a record in a list is in the table");
                record.map_or([$crate::shared::list::NONE; 2], |record| record.links)
            }

            fn set_links(&mut self, id: u32, links: [u32; 2]) {
                match self.get_mut(id) {
                    Some(record) => record.links = links,
                    None => $crate::invariant!("a record in a list is in the table"),
                }
            }
        }
    };
}
pub(crate) use links_in_table;

/// One list, in the order in which its things joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// The entry that joined first, or `NONE`.
    pub head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The entry that joined last, or `NONE`.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `id`, which is in no list of these links, joins at the tail. O(1).
    pub fn join(&mut self, links: &mut impl Links, id: u32) {
        links.set_links(id, [self.tail, NONE]);
        if self.tail == NONE {
            self.head = id;
        } else {
            let [before, _] = links.links(self.tail);
            links.set_links(self.tail, [before, id]);
        }
        self.tail = id;
        self.len += 1;
    }

    /// `id`, which is in this list, leaves it. O(1).
    pub fn leave(&mut self, links: &mut impl Links, id: u32) {
        let [before, behind] = links.links(id);
        // The links to `id` are in its neighbours, or in the list itself if `id` is at an end.
        let behind_before = if before == NONE { self.head } else { links.links(before)[1] };
        let before_behind = if behind == NONE { self.tail } else { links.links(behind)[0] };
        if !invariant!(
            behind_before == id && before_behind == id && self.len > 0,
            "what leaves a list is in it"
        ) {
            return;
        }
        if before == NONE {
            self.head = behind;
        } else {
            let [first, _] = links.links(before);
            links.set_links(before, [first, behind]);
        }
        if behind == NONE {
            self.tail = before;
        } else {
            let [_, last] = links.links(behind);
            links.set_links(behind, [before, last]);
        }
        links.set_links(id, [NONE, NONE]);
        self.len -= 1;
    }

    /// Checks that the links lead from the head to the tail and back, over as many things as the list counts. O(n).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(self, links: &impl Links) -> Checked {
        let (mut at, mut before, mut count) = (self.head, NONE, 0);
        while at != NONE {
            ensure!(count < self.len, "a list is longer than the {} things that it counts", self.len);
            let [back, behind] = links.links(at);
            ensure!(back == before, "{at} of a list follows {before} and says {back}");
            (before, at, count) = (at, behind, count + 1);
        }
        ensure!(before == self.tail, "a list ends with {before} and says {}", self.tail);
        ensure!(count == self.len, "a list has {count} things and counts {}", self.len);
        Ok(())
    }

    /// All of them, from the head on.
    pub fn iter<L: Links>(self, links: &L) -> impl Iterator<Item = u32> + Clone {
        std::iter::successors((self.head != NONE).then_some(self.head), |&id| {
            let [_, behind] = links.links(id);
            (behind != NONE).then_some(behind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Links for Vec<[u32; 2]> {
        fn links(&self, id: u32) -> [u32; 2] {
            self[id as usize]
        }

        fn set_links(&mut self, id: u32, links: [u32; 2]) {
            self[id as usize] = links;
        }
    }

    #[test]
    fn check_finds_a_damaged_list() {
        let mut links = vec![[NONE; 2]; 5];
        let mut list = List::default();
        [3, 0, 4].into_iter().for_each(|id| list.join(&mut links, id));
        assert_eq!(list.check(&links), Ok(()));
        for damaged in [
            List { len: 4, ..list },
            List { len: 2, ..list },
            List { tail: 0, ..list },
            List { head: 0, ..list },
        ] {
            assert!(damaged.check(&links).is_err(), "{damaged:?}");
        }
        // The check must also end if the links form a circle.
        links[4] = [0, 3];
        assert!(list.check(&links).is_err());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "what leaves a list is in it")]
    fn leaving_a_list_of_others_is_a_broken_invariant() {
        let mut links = vec![[NONE; 2]; 5];
        let mut list = List::default();
        list.join(&mut links, 3);
        list.leave(&mut links, 4);
    }

    proptest! {
        #[test]
        fn it_equals_a_vector(steps in prop::collection::vec(0u32..20, 0..200)) {
            let mut links = vec![[NONE; 2]; 20];
            let (mut list, mut model) = (List::default(), Vec::new());
            for id in steps {
                if let Some(at) = model.iter().position(|&other| other == id) {
                    model.remove(at);
                    list.leave(&mut links, id);
                } else {
                    model.push(id);
                    list.join(&mut links, id);
                }
                prop_assert_eq!(list.iter(&links).collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(list.len() as usize, model.len());
                prop_assert_eq!(list.check(&links), Ok(()));
            }
        }
    }
}
