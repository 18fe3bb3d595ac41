//! Leases: live calls by token and by switch, with their deadlines.

use super::number::Number;
use crate::shared::column::Column;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Checked;
use crate::shared::invariant::Expected;
use crate::shared::list::{List, NONE, links_in_table};
use crate::shared::names::NameIndex;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis, spilled};
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
    /// Who holds the number instead of a switch, such as the realm of a conference; or `NONE`.
    pub holder: u32,
    /// Whether the caller named the peer; it is the number's then.
    pub has_peer: bool,
    pub(in crate::numpool) links: [u32; 2],
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
        pub(in crate::numpool) holder: Option<u32>,
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
        /// Who holds the number instead of a switch.
        pub holder: Option<Bytes>,
    }
}

links_in_table!(Lease);

/// All live leases of a pool. Their ids are part of the state, as those of numbers are.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    table: Table<Lease>,
    by_token: NameIndex,
    /// Each lease is in one list: that of its holder, or else of its switch, or else of those that have neither.
    by_holder: Column<List>,
    by_switch: Column<List>,
    unswitched: List,
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

    /// The leases of a holder, in no order. O(1).
    pub fn list_of_holder(&self, holder: u32) -> List {
        self.by_holder.find(holder).unwrap_or_default()
    }

    /// The leases that have neither a switch nor a holder, in no order. O(1).
    pub fn unswitched(&self) -> List {
        self.unswitched
    }

    /// The list of a lease.
    fn list_mut(&mut self, holder: u32, switch: u32) -> &mut List {
        if holder != NONE {
            self.by_holder.at(holder)
        } else if switch != NONE {
            self.by_switch.at(switch)
        } else {
            &mut self.unswitched
        }
    }

    /// Adds a lease under a token that is not in use; its switch and holder were referred to for it. O(1), O(log n) with
    /// a deadline.
    pub fn grant(&mut self, lease: Lease, until: Option<Millis>) -> u32 {
        let id = self.table.insert(lease);
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

    /// Takes a lease out; its switch and holder are to be released. O(1), O(log n) with a deadline.
    pub fn end(&mut self, id: u32) -> Option<Lease> {
        let Lease { holder, switch, .. } = *self.table.get(id)?;
        let mut list = *self.list_mut(holder, switch);
        list.leave(&mut self.table, id);
        *self.list_mut(holder, switch) = list;
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
            holder: Some(lease.holder).filter(|&holder| holder != NONE),
        })
    }

    /// The leases of a snapshot; `None` if a token is there twice. Switches are to be referred to.
    pub(in crate::numpool) fn restore(saved: &Table<SavedLease>) -> Option<Self> {
        let table = saved.map(|_, lease| Lease {
            token: lease.token.clone(),
            number: lease.number,
            switch: lease.switch.unwrap_or(NONE),
            holder: lease.holder.unwrap_or(NONE),
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
        self.by_holder.check()?;
        let held = self.by_holder.iter().map(|(holder, list)| (list, Some((holder, NONE))));
        let carried = self.by_switch.iter().map(|(switch, list)| (list, Some((NONE, switch))));
        let mut listed = 0;
        for (list, of) in held.chain(carried).chain([(self.unswitched, Some((NONE, NONE)))]) {
            list.check(&self.table)?;
            listed += list.len() as usize;
            let place =
                |lease: &Lease| (lease.holder, if lease.holder == NONE { lease.switch } else { NONE });
            let stray = list.iter(&self.table).find(|&id| self.table.get(id).map(place) != of);
            ensure!(stray.is_none(), "lease {stray:?} is listed with {of:?}, where it does not belong");
        }
        let leases = self.table.len();
        ensure!(listed == leases, "{listed} of {leases} leases are in a list");
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.table.allocated()
            + self.table.iter().map(|(_, lease)| spilled(&lease.token)).sum::<usize>()
            + self.by_token.allocated()
            + self.by_holder.allocated()
            + self.by_switch.allocated()
            + self.deadlines.allocated()
    }

    fn enter(&mut self, id: u32) {
        let Some(lease) = self.table.get(id).expected("a lease that is entered is in the table") else {
            return;
        };
        let (holder, switch) = (lease.holder, lease.switch);
        self.by_token.insert(&lease.token, id);
        let mut list = *self.list_mut(holder, switch);
        list.join(&mut self.table, id);
        *self.list_mut(holder, switch) = list;
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
            let (since, has_peer, links) = (5, false, [NONE; 2]);
            let lease = Lease { token, number, switch, holder: NONE, since, has_peer, links };
            sound.grant(lease, (number < 13).then_some(50));
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
