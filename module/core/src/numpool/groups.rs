//! Names that numbers belong to: the switch that registered a number, the peer it called last.

#![allow(clippy::indexing_slicing, reason = "ids of groups come from the table itself")]

use crate::shared::Bytes;
use crate::shared::column::Column;
use crate::shared::list::{Links, List, NONE};
use crate::shared::names::NameIndex;
use crate::shared::table::Table;

/// A name that something refers to.
#[derive(Clone, Debug)]
pub struct Group {
    /// As the caller gives it.
    pub name: Bytes,
    /// What refers to it: members, whether listed or not, and leases.
    references: u32,
    /// The members that are listed, in the order in which they were.
    pub members: List,
}

/// Which group a number belongs to.
#[derive(Clone, Copy, Debug)]
struct Member {
    group: u32,
    links: [u32; 2],
}

impl Default for Member {
    fn default() -> Self {
        Self { group: NONE, links: [NONE; 2] }
    }
}

impl Links for Column<Member> {
    fn links(&self, id: u32) -> [u32; 2] {
        self.get(id).links
    }

    fn set_links(&mut self, id: u32, links: [u32; 2]) {
        self.at(id).links = links;
    }
}

/// All groups of a kind. A number costs twelve bytes here from the first time that any number is in a group.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    table: Table<Group>,
    by_name: NameIndex,
    members: Column<Member>,
}

impl Groups {
    /// The group of that name, if anything refers to it. O(1).
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.by_name.find(name, |id| self.table.get(id).is_some_and(|group| group.name[..] == *name))
    }

    /// The group of that id.
    pub fn get(&self, group: u32) -> Option<&Group> {
        self.table.get(group)
    }

    /// The name of a group, if there is one.
    pub fn name(&self, group: u32) -> Option<&[u8]> {
        self.table.get(group).map(|group| &group.name[..])
    }

    /// The group that a number belongs to, or `NONE`. O(1).
    pub fn of(&self, number: u32) -> u32 {
        self.members.get(number).group
    }

    /// All groups with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.table.iter()
    }

    /// The group of that name, with one reference more; it is made where there is none. O(1).
    pub fn refer(&mut self, name: &[u8]) -> u32 {
        let id = self.find(name).unwrap_or_else(|| {
            let name = Bytes::from_slice(name);
            let id = self.table.insert(Group { name, references: 0, members: List::default() });
            self.by_name.insert(&self.table[id].name, id);
            id
        });
        self.table[id].references += 1;
        id
    }

    /// One reference less; a group that nothing refers to is gone. `NONE` is no group. O(1).
    pub fn release(&mut self, group: u32) {
        let Some(entry) = self.table.get_mut(group) else { return };
        entry.references -= 1;
        if entry.references == 0
            && let Some(gone) = self.table.remove(group)
        {
            self.by_name.remove(&gone.name, group);
        }
    }

    /// Has a number that is not listed belong to another group, or to none. O(1).
    pub fn assign(&mut self, number: u32, name: Option<&[u8]>) {
        let before = self.of(number);
        // Referred to before it is released, so that a group that stays is not made anew.
        let group = name.map_or(NONE, |name| self.refer(name));
        if group != before {
            self.members.at(number).group = group;
        }
        self.release(before);
    }

    /// Lists a number, which is not listed, with its group, if it has one. O(1).
    pub fn list(&mut self, number: u32) {
        if let Some(group) = self.table.get_mut(self.members.get(number).group) {
            group.members.join(&mut self.members, number);
        }
    }

    /// Takes a number, which is listed if it has a group, off its list. O(1).
    pub fn unlist(&mut self, number: u32) {
        if let Some(group) = self.table.get_mut(self.members.get(number).group) {
            group.members.leave(&mut self.members, number);
        }
    }

    /// The listed numbers of a group, the first listed first.
    pub fn listed(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let members = self.table.get(group).map(|group| group.members).unwrap_or_default();
        members.iter(&self.members)
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        let spilled = |group: &Group| if group.name.spilled() { group.name.capacity() } else { 0 };
        self.table.allocated()
            + self.table.iter().map(|(_, group)| spilled(group)).sum::<usize>()
            + self.by_name.allocated()
            + self.members.allocated()
    }
}
