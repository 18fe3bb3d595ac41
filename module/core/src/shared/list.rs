//! Doubly linked lists of numbered things whose links lie with the things: O(1) to join, to leave from anywhere,
//! and to see who came first.

/// No number.
pub const NONE: u32 = u32::MAX;

/// Where the links of things lie. A thing is in one list of a kind at most.
pub trait Links {
    /// The one before and the one behind.
    fn links(&self, id: u32) -> [u32; 2];
    /// Sets both.
    fn set_links(&mut self, id: u32, links: [u32; 2]);
}

/// One list, in the order in which its things joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// Who joined first, or `NONE`.
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
    /// How many there are.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
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

    /// All of them, from the head on.
    pub fn iter<L: Links>(self, links: &L) -> impl Iterator<Item = u32> + Clone {
        let first = (self.head != NONE).then_some(self.head);
        std::iter::successors(first, |&id| {
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
            }
        }
    }
}
