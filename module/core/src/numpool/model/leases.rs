//! Leases: live calls by token and by switch, with their deadlines.

use super::number::Number;
use crate::shared::column::Column;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Checked;
use crate::shared::invariant::Expected;
use crate::shared::list::{Links, List, NONE};
use crate::shared::names::NameIndex;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis};
use crate::{ensure, fields, invariant};

/// The right to a number for the time of one call.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The name under which its holder knows it.
    pub token: Bytes,
    /// Id of its number.
    pub number: u32,
    /// The switch that carries the call, or `NONE`.
    pub switch: u32,
    /// When it was granted.
    pub since: Millis,
    /// Whether the caller named the peer; it is the number's then.
    pub has_peer: bool,
    links: [u32; 2],
}

fields! {
    /// A lease as a snapshot has it.
    #[derive(Clone, Debug)]
    pub(in crate::numpool) struct SavedLease {
        pub(in crate::numpool) token: Bytes,
        pub(in crate::numpool) number: u32,
        pub(in crate::numpool) switch: Option<u32>,
        pub(in crate::numpool) since: Millis,
        pub(in crate::numpool) until: Option<Millis>,
        pub(in crate::numpool) has_peer: bool,
    }

    /// A number was given for a call.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Called {
        /// Which.
        pub number: Number,
        /// Name of the lease.
        pub token: Bytes,
        /// When it ends by itself.
        pub until: Option<Millis>,
        /// Who carries the call.
        pub switch: Option<Bytes>,
        /// Who is called.
        pub peer: Option<Bytes>,
    }
}

impl Links for Table<Lease> {
    fn links(&self, id: u32) -> [u32; 2] {
        let lease = self.get(id);
        invariant!(lease.is_some(), "a lease in a list is in the table");
        lease.map_or([NONE; 2], |lease| lease.links)
    }

    fn set_links(&mut self, id: u32, links: [u32; 2]) {
        match self.get_mut(id) {
            Some(lease) => lease.links = links,
            None => invariant!("a lease in a list is in the table"),
        }
    }
}

/// All live leases of a pool. Their ids are part of the state, as those of numbers are.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    table: Table<Lease>,
    by_token: NameIndex,
    by_switch: Column<List>,
    deadlines: Deadlines,
}

impl Leases {
    /// The lease of that token. O(1).
    pub fn find(&self, token: &[u8]) -> Option<u32> {
        self.by_token.find(token, |id| self.table.get(id).is_some_and(|lease| lease.token[..] == *token))
    }

    /// The lease of that id.
    pub fn get(&self, id: u32) -> Option<&Lease> {
        self.table.get(id)
    }

    /// When a lease ends by itself, if it does. O(1).
    pub fn until(&self, id: u32) -> Option<Millis> {
        self.deadlines.get(id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Their table, whose numbers are their ids.
    pub fn table(&self) -> &Table<Lease> {
        &self.table
    }

    /// Their deadlines.
    pub fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// The leases that a switch carries, in no order. O(1).
    pub fn list_of(&self, switch: u32) -> List {
        self.by_switch.find(switch).unwrap_or_default()
    }

    /// Adds a lease under a token that is not in use; `switch` was referred to for it. O(1), O(log n) with a
    /// deadline.
    pub fn grant(
        &mut self,
        token: Bytes,
        number: u32,
        switch: u32,
        since: Millis,
        until: Option<Millis>,
        has_peer: bool,
    ) -> u32 {
        let id = self.table.insert(Lease { token, number, switch, since, has_peer, links: [NONE; 2] });
        self.enter(id);
        if let Some(until) = until {
            self.deadlines.set(id, until);
        }
        id
    }

    /// Gives a lease another deadline. O(log n).
    pub fn renew(&mut self, id: u32, until: Millis) {
        if invariant!(self.table.get(id).is_some(), "a lease that is renewed is live") {
            self.deadlines.set(id, until);
        }
    }

    /// Takes a lease out; its switch is to be released. O(1), O(log n) with a deadline.
    pub fn end(&mut self, id: u32) -> Option<Lease> {
        let switch = self.table.get(id)?.switch;
        if switch != NONE {
            self.by_switch.at(switch).leave(&mut self.table, id);
        }
        self.deadlines.remove(id);
        let lease = self.table.remove(id)?;
        self.by_token.remove(&lease.token, id);
        Some(lease)
    }

    /// The leases as a snapshot has them.
    pub(in crate::numpool) fn saved(&self) -> Table<SavedLease> {
        self.table.map(|id, lease| SavedLease {
            token: lease.token.clone(),
            number: lease.number,
            switch: Some(lease.switch).filter(|&switch| switch != NONE),
            since: lease.since,
            until: self.until(id),
            has_peer: lease.has_peer,
        })
    }

    /// The leases of a snapshot; `None` if a token is there twice. Switches are to be referred to.
    pub(in crate::numpool) fn restore(saved: &Table<SavedLease>) -> Option<Self> {
        let table = saved.map(|_, lease| Lease {
            token: lease.token.clone(),
            number: lease.number,
            switch: lease.switch.unwrap_or(NONE),
            since: lease.since,
            has_peer: lease.has_peer,
            links: [NONE; 2],
        });
        let mut leases = Self { table, ..Self::default() };
        for (id, lease) in saved.iter() {
            if leases.find(&lease.token).is_some() {
                return None;
            }
            leases.enter(id);
            lease.until.into_iter().for_each(|until| leases.deadlines.set(id, until));
        }
        Some(leases)
    }

    /// Checks tokens, deadlines, and the lists of the switches against the leases. O(leases + switches).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.table.check()?;
        self.by_switch.check()?;
        self.deadlines.check()?;
        self.by_token.check(self.table.iter().map(|(id, lease)| (id, &lease.token[..])))?;
        let stray = self.deadlines.ids().find(|&id| self.table.get(id).is_none());
        ensure!(stray.is_none(), "lease {stray:?} has a deadline and is not live");
        let mut carried = 0;
        for (switch, list) in self.by_switch.iter() {
            list.check(&self.table)?;
            carried += list.len() as usize;
            let stray = list.iter(&self.table).find(|&id| self.switch_of(id) != switch);
            ensure!(
                stray.is_none(),
                "lease {stray:?} is listed with switch {switch}, which does not carry it"
            );
        }
        let with_switch = self.table.iter().filter(|(_, lease)| lease.switch != NONE).count();
        ensure!(carried == with_switch, "{carried} of {with_switch} leases are listed with their switch");
        Ok(())
    }

    fn switch_of(&self, id: u32) -> u32 {
        self.table.get(id).map_or(NONE, |lease| lease.switch)
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        let spilled = |lease: &Lease| if lease.token.spilled() { lease.token.capacity() } else { 0 };
        self.table.allocated()
            + self.table.iter().map(|(_, lease)| spilled(lease)).sum::<usize>()
            + self.by_token.allocated()
            + self.by_switch.allocated()
            + self.deadlines.allocated()
    }

    fn enter(&mut self, id: u32) {
        let Some(lease) = self.table.get(id).expected("a lease that is entered is in the table") else {
            return;
        };
        let switch = lease.switch;
        self.by_token.insert(&lease.token, id);
        if switch != NONE {
            self.by_switch.at(switch).join(&mut self.table, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_finds_damaged_leases() {
        let mut sound = Leases::default();
        for (number, switch) in [(10u32, 0), (11, 0), (12, 2), (13, NONE)] {
            let token = Bytes::from_slice(&number.to_be_bytes());
            sound.grant(token, number, switch, 5, (number < 13).then_some(50), false);
        }
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Leases); 6] = [
            |leases| leases.table[0].switch = 2,
            |leases| leases.table[1].links = [NONE; 2],
            |leases| leases.table[3].switch = 0,
            |leases| leases.table[2].token.reverse(),
            |leases| leases.deadlines.set(4, 1),
            |leases| *leases.by_switch.at(2) = List::default(),
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut leases = sound.clone();
            damage(&mut leases);
            assert!(leases.check().is_err(), "damage {number} is not found");
        }
    }
}
