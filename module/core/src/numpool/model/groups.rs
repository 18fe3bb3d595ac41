//! Names that numbers belong to: the switch that registered a number, the peer it called last.

#![allow(clippy::indexing_slicing, reason = "ids of groups come from the table itself")]

use crate::shared::Bytes;
use crate::shared::codec::{Damaged, Reader, Writer, ensure};
use crate::shared::column::Column;
use crate::shared::field::Field;
use crate::shared::invariant::Expected;
use crate::shared::invariant::{Checked, Contradiction};
use crate::shared::list::{Links, List, NONE};
use crate::shared::names::NameIndex;
use crate::shared::table::Table;
use crate::{ensure, invariant};

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

/// Of a group a snapshot has the name; the references follow from what refers to the group.
impl Field for Group {
    fn encode(&self, out: &mut Writer) {
        out.field(&self.name);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self { name: reader.field()?, references: 0, members: List::default() })
    }
}

/// The groups by their ids, without their members.
impl Field for Groups {
    fn encode(&self, out: &mut Writer) {
        out.field(&self.table);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut groups = Self { table: reader.field()?, ..Self::default() };
        for (id, group) in groups.table.iter() {
            let is = |other| groups.table.get(other).is_some_and(|other| other.name == group.name);
            ensure(groups.by_name.find(&group.name, is).is_none(), "a group is there twice")?;
            groups.by_name.insert(&group.name, id);
        }
        Ok(groups)
    }
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

    /// Ids of groups given out so far, free or not: all are below this.
    pub fn slots(&self) -> u32 {
        self.table.slots()
    }

    /// The name of a group, if there is one.
    pub fn name(&self, group: u32) -> Option<&[u8]> {
        self.table.get(group).map(|group| &group.name[..])
    }

    /// The group that a number belongs to, or `NONE`. O(1).
    pub fn of(&self, number: u32) -> u32 {
        self.members.find(number).map_or(NONE, |member| member.group)
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

    /// One reference more to a group of a snapshot; `None` if there is no such group.
    pub fn refer_again(&mut self, group: u32) -> Option<()> {
        self.table.get_mut(group)?.references += 1;
        Some(())
    }

    /// Has a number of a snapshot belong to a group; `None` if there is no such group.
    pub fn assign_again(&mut self, number: u32, group: u32) -> Option<()> {
        self.members.at(number).group = group;
        self.refer_again(group)
    }

    /// Whether something refers to each group. O(groups).
    pub fn are_referred_to(&self) -> bool {
        self.table.iter().all(|(_, group)| group.references > 0)
    }

    /// One reference less; a group that nothing refers to is gone. `NONE` is no group. O(1).
    pub fn release(&mut self, group: u32) {
        if group == NONE {
            return;
        }
        let Some(entry) = self.table.get_mut(group).expected("a group that is referred to is in the table")
        else {
            return;
        };
        entry.references -= 1;
        if entry.references == 0 {
            invariant!(entry.members.is_empty(), "a group that nothing refers to lists no number");
            self.by_name.remove(&entry.name, group);
            self.table.remove(group);
        }
    }

    /// Has a number that is not listed belong to another group, or to none. O(1).
    pub fn assign(&mut self, number: u32, name: Option<&[u8]>) {
        let before = self.of(number);
        // Referred to before it is released, so that a group that stays is not made again.
        let group = name.map_or(NONE, |name| self.refer(name));
        if group != before {
            self.members.at(number).group = group;
        }
        self.release(before);
    }

    /// Lists a number, which is not listed, with its group, if it has one. O(1).
    pub fn list(&mut self, number: u32) {
        if let Some(group) = self.table.get_mut(self.of(number)) {
            group.members.join(&mut self.members, number);
        }
    }

    /// Takes a number, which is listed if it has a group, off its list. O(1).
    pub fn unlist(&mut self, number: u32) {
        if let Some(group) = self.table.get_mut(self.of(number)) {
            group.members.leave(&mut self.members, number);
        }
    }

    /// The listed numbers of a group, the first listed first.
    pub fn listed(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let members = self.table.get(group).map(|group| group.members).unwrap_or_default();
        members.iter(&self.members)
    }

    /// The numbers before and after a number on the list of its group.
    pub fn neighbours(&self, number: u32) -> [u32; 2] {
        self.members.links(number)
    }

    /// Whether nothing refers to any group.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Checks names, members, lists and references against one another, for ids of numbers below `numbers`.
    /// `is_listed` says which numbers are to be listed if they have a group, and `others` are the groups that something
    /// refers to that is no number. O(groups + numbers).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(
        &self,
        numbers: u32,
        is_listed: impl Fn(u32) -> bool,
        others: impl Iterator<Item = u32>,
    ) -> Checked {
        self.table.check()?;
        self.members.check()?;
        self.by_name.check(self.table.iter().map(|(id, group)| (id, &group.name[..])))?;
        let (mut references, mut listed) = (vec![0u32; self.table.slots() as usize], 0);
        for number in self.members.iter().map(|(number, _)| number) {
            let group = self.of(number);
            ensure!(
                group == NONE || number < numbers,
                "id {number}, which is no number, is in group {group}"
            );
            listed += u32::from(group != NONE && is_listed(number));
        }
        let members = self.members.iter().map(|(_, member)| member.group);
        for group in members.chain(others).filter(|&group| group != NONE) {
            let count = references.get_mut(group as usize).filter(|_| self.table.get(group).is_some());
            let Some(count) = count else { return Err(Contradiction(format!("there is no group {group}"))) };
            *count += 1;
        }
        for (id, group) in self.table.iter() {
            let found = references.get(id as usize).copied().unwrap_or(0);
            let counted = group.references;
            ensure!(found == counted && found > 0, "group {id} counts {counted} references and has {found}");
            group.members.check(&self.members)?;
            let stray = self.listed(id).find(|&number| self.of(number) != id || !is_listed(number));
            ensure!(stray.is_none(), "number {stray:?} is listed with group {id} and does not belong there");
            listed = listed.wrapping_sub(group.members.len());
        }
        ensure!(listed == 0, "not all numbers are listed with their groups");
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.table.allocated()
            + self.table.iter().map(|(_, group)| group.name.allocated()).sum::<usize>()
            + self.by_name.allocated()
            + self.members.allocated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_finds_damaged_groups() {
        let mut sound = Groups::default();
        for number in [4, 1, 3] {
            sound.assign(number, Some(b"one"));
        }
        sound.list(4);
        sound.list(3);
        sound.assign(0, Some(b"two"));
        let other = sound.refer(b"two");
        let check = |groups: &Groups| groups.check(5, |number| number > 2, [other].into_iter());
        assert_eq!(check(&sound), Ok(()));
        assert!(sound.check(4, |number| number > 2, [other].into_iter()).is_err());
        assert!(sound.check(5, |number| number > 0, [other].into_iter()).is_err());
        assert!(sound.check(5, |number| number > 2, [].into_iter()).is_err());
        let damages: [fn(&mut Groups); 6] = [
            |groups| groups.table[0].references += 1,
            |groups| groups.table[0].members = List::default(),
            |groups| groups.members.at(3).group = 1,
            |groups| groups.members.at(1).group = 7,
            |groups| groups.members.at(4).links = [NONE; 2],
            |groups| groups.by_name.remove(b"two", 1),
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut groups = sound.clone();
            damage(&mut groups);
            assert!(check(&groups).is_err(), "damage {number} is not found");
        }
    }
}
