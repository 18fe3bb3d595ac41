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
        /// For a choice by use: the least count of calls of the numbers that were free.
        pub least_uses: Option<u32>,
    }
}

impl Links for Table<Lease> {
    fn links(&self, id: u32) -> [u32; 2] {
        #[cfg(test)]
        tests::LINKS_READ.set(tests::LINKS_READ.get() + 1);
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
    /// Each lease is in one list: that of its holder, or else of its switch, or else of those that have neither.
    by_holder: Column<List>,
    by_switch: Column<List>,
    unswitched: List,
    deadlines: Deadlines,
    /// Of the leases that a switch carries, those without a deadline of their own: they end with the deadline of their
    /// switch. These lists have links of their own, by lease.
    undated: Column<List>,
    undated_links: Column<[u32; 2]>,
}

impl Links for Column<[u32; 2]> {
    fn links(&self, id: u32) -> [u32; 2] {
        #[cfg(test)]
        tests::LINKS_READ.set(tests::LINKS_READ.get() + 1);
        self.get(id)
    }

    fn set_links(&mut self, id: u32, links: [u32; 2]) {
        self.set(id, links);
    }
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

    /// The leases that a switch carries and that have no deadline of their own, the last granted last.
    pub fn undated_of(&self, switch: u32) -> impl Iterator<Item = u32> + '_ {
        self.undated.find(switch).unwrap_or_default().iter(&self.undated_links)
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
        self.enter(id, until);
        id
    }

    /// Gives a lease another deadline. O(log n).
    pub fn renew(&mut self, id: u32, until: Millis) {
        if invariant!(self.table.get(id).is_some(), "a lease that is renewed is live") {
            if self.until(id).is_none() {
                self.change_undated(id, List::leave);
            }
            self.deadlines.set(id, until);
        }
    }

    /// Takes a lease out; its switch and holder are to be released. O(1), O(log n) with a deadline.
    pub fn end(&mut self, id: u32) -> Option<Lease> {
        let Lease { holder, switch, .. } = *self.table.get(id)?;
        let mut list = *self.list_mut(holder, switch);
        list.leave(&mut self.table, id);
        *self.list_mut(holder, switch) = list;
        match self.until(id) {
            Some(_) => self.deadlines.remove(id),
            None => self.change_undated(id, List::leave),
        }
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
            leases.enter(id, lease.until);
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
        self.check_undated()
    }

    /// Checks the lists of leases without a deadline of their own. O(leases + switches).
    fn check_undated(&self) -> Checked {
        self.undated.check()?;
        self.undated_links.check()?;
        let switch_of = |id: u32, lease: &Lease| {
            (lease.holder == NONE && self.until(id).is_none()).then_some(lease.switch)
        };
        let mut listed = 0;
        for (switch, list) in self.undated.iter() {
            list.check(&self.undated_links)?;
            listed += list.len() as usize;
            let is_its = |id: u32| self.table.get(id).and_then(|lease| switch_of(id, lease)) == Some(switch);
            let stray = list.iter(&self.undated_links).find(|&id| !is_its(id));
            ensure!(stray.is_none(), "lease {stray:?} is not one without a deadline of switch {switch}");
        }
        let undated = self.table.iter().filter_map(|(id, lease)| switch_of(id, lease));
        let undated = undated.filter(|&switch| switch != NONE).count();
        ensure!(listed == undated, "{listed} of {undated} leases without a deadline are in a list");
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.table.allocated()
            + self.table.iter().map(|(_, lease)| lease.token.allocated()).sum::<usize>()
            + self.by_token.allocated()
            + self.by_holder.allocated()
            + self.by_switch.allocated()
            + self.deadlines.allocated()
            + self.undated.allocated()
            + self.undated_links.allocated()
    }

    /// Lists a lease without a deadline with its switch, or takes it off that list.
    fn change_undated(&mut self, id: u32, change: fn(&mut List, &mut Column<[u32; 2]>, u32)) {
        if let Some(&Lease { holder: NONE, switch, .. }) = self.table.get(id)
            && switch != NONE
        {
            change(self.undated.at(switch), &mut self.undated_links, id);
        }
    }

    fn enter(&mut self, id: u32, until: Option<Millis>) {
        let Some(lease) = self.table.get(id).expected("a lease that is entered is in the table") else {
            return;
        };
        let (holder, switch) = (lease.holder, lease.switch);
        self.by_token.insert(&lease.token, id);
        let mut list = *self.list_mut(holder, switch);
        list.join(&mut self.table, id);
        *self.list_mut(holder, switch) = list;
        match until {
            Some(until) => self.deadlines.set(id, until),
            None => self.change_undated(id, List::join),
        }
    }
}

#[cfg(test)]
pub(in crate::numpool) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// How often the links of a lease were read.
        pub(in crate::numpool) static LINKS_READ: Cell<usize> = const { Cell::new(0) };
    }

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
        let (token, links) = (Bytes::from_slice(b"undated"), [NONE; 2]);
        let undated = Lease { token, number: 14, switch: 2, holder: NONE, since: 5, has_peer: false, links };
        sound.grant(undated, None);
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Leases); 9] = [
            |leases| leases.deadlines.set(4, 50),
            |leases| leases.deadlines.remove(0),
            |leases| *leases.undated.at(2) = List::default(),
            |leases| leases.table[0].switch = 2,
            |leases| leases.table[1].links = [NONE; 2],
            |leases| leases.table[3].switch = 0,
            |leases| leases.table[2].token = Bytes::from_slice(b"other"),
            |leases| leases.deadlines.set(5, 1),
            |leases| *leases.by_switch.at(2) = List::default(),
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut leases = sound.clone();
            damage(&mut leases);
            assert!(leases.check().is_err(), "damage {number} is not found");
        }
    }
}
