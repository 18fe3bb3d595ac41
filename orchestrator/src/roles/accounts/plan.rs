//! What is to be done, by comparing the book with the tree. No clock, no I/O: state in, steps out.
//!
//! The tree follows the book, and never shows an account to two instances: an account is shown to nobody before it is
//! shown to nobody else. It is taken from an instance that is there by its own word only, and from one that is gone, or
//! was replaced by another process of its name, without: whoever has lost its session has logged out before.

use std::collections::{BTreeMap, BTreeSet};

use super::stuck::Stuck;
use super::view::{Book, Place, Shown, Stand, View};
use allot_client::AccountRow;

/// A change of the book.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    /// An instance is there no more.
    Detach { module: String, instance: String },
    /// An instance is there.
    Attach { module: String, place: Place, created: i64 },
    /// An instance gives an account back that is to go elsewhere.
    Logout { account: String, epoch: u64 },
    /// An instance gives an account back that it was to keep.
    GiveBack { account: String, epoch: u64 },
    /// An instance cannot use an account.
    Freeze { account: String },
}

/// A change of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// An account is to be given back; by an instance that is gone, at a time.
    Revoke { place: Place, account: String, until: Option<u64> },
    /// An account is shown no more.
    Hide { place: Place, account: String },
    /// What is shown is of another deal, to the same instance.
    Redeal { place: Place, account: String, epoch: u64 },
    /// The node of an instance's accounts goes.
    Clear { place: Place },
    /// An instance is told where its accounts are.
    Introduce { place: Place },
    /// An account is shown.
    Show { place: Place, account: String, epoch: u64 },
}

impl Step {
    /// The instance that it is about.
    pub(super) fn place(&self) -> &Place {
        match self {
            Self::Revoke { place, .. }
            | Self::Hide { place, .. }
            | Self::Redeal { place, .. }
            | Self::Clear { place }
            | Self::Introduce { place }
            | Self::Show { place, .. } => place,
        }
    }
}

/// What is known besides book and tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    /// Milliseconds since 1970.
    pub(super) now: u64,
    /// Nodes of instances for which the book was told that they are there, by this leader.
    pub(super) attached: &'a BTreeMap<Place, i64>,
    /// Deals that the book does not know, of those that `suspects` named.
    pub(super) unknown: &'a BTreeSet<(String, u64)>,
    /// How long an account of an unknown deal stays revoked after its instance went, in milliseconds.
    pub(super) longest: u64,
    /// While a take-over has not got past its deletes: how long an instance is waited for, in milliseconds.
    pub(super) barrier: Option<u64>,
    /// When this leader began to compare. The barrier ends by this, since other times are of other clocks.
    pub(super) began: u64,
    /// Instances in whose part of the tree something could not be written.
    pub(super) stuck: &'a Stuck,
}

impl Moment<'_> {
    /// Until when an account of a deal that the book has forgotten must wait: somebody may be logged in whom it has
    /// forgotten, too.
    fn until(&self, account: &str, shown: &Shown) -> Option<u64> {
        let is_unknown = self.unknown.contains(&(account.to_owned(), shown.epoch));
        is_unknown.then(|| shown.until.unwrap_or_else(|| self.now.saturating_add(self.longest)))
    }
}

/// What is to be done now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// In the book; the book has to be read again then.
    pub(super) changes: Vec<Change>,
    /// In the tree, where accounts are taken back or hidden.
    pub(super) takes: Vec<Step>,
    /// In the tree, where nodes of instances come and go.
    pub(super) places: Vec<Step>,
    /// In the tree, where accounts are shown.
    pub(super) shows: Vec<Step>,
    /// Accounts that instances are asked for and have not given back.
    pub(super) pending: usize,
    /// Whether the barrier stands.
    pub(super) held_up: bool,
    /// How many of the steps nobody waits for any more, since they have failed for long.
    pub(super) given_up: usize,
    /// When there may be something to do although nothing has happened, in milliseconds since 1970.
    pub(super) next: Option<u64>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.takes.is_empty() && self.places.is_empty() && self.shows.is_empty()
    }

    /// All steps, in their order.
    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.takes.iter().chain(&self.places).chain(&self.shows)
    }

    /// Whether nothing is left but what has failed for long.
    pub(super) fn is_done(&self) -> bool {
        self.changes.is_empty() && self.steps().count() == self.given_up && !self.held_up
    }

    /// There may be something to do at this time.
    pub(super) fn wake(&mut self, at: u64) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Whether the book says that this account is this instance's.
fn is_wanted(book: &Book, row: Option<&AccountRow>, place: &Place) -> bool {
    row.is_some_and(|row| row.state == "dealt" && book.place(row).as_ref() == Some(place))
}

/// Whether the book still waits for this instance's logout.
fn is_leaving(book: &Book, row: Option<&AccountRow>, place: &Place, epoch: u64) -> bool {
    row.is_some_and(|row| {
        row.state == "revoking" && row.epoch == epoch && book.place(row).as_ref() == Some(place)
    })
}

/// Deals of processes that are gone, which the book does not show: whether it knows them must be asked.
pub(super) fn suspects(view: &View, book: &Book) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for stand in view.places.values() {
        for (account, shown) in stand.accounts.iter().filter(|(_, shown)| !stand.is_held() || shown.inherited)
        {
            let row = book.accounts.get(account);
            // What was deleted while its instance was there was taken from it by the book's own word.
            if row.is_none() && stand.is_held() {
                continue;
            }
            if row.is_none_or(|row| row.epoch != shown.epoch) {
                found.insert((account.clone(), shown.epoch));
            }
        }
    }
    found
}

/// Compares.
pub(super) fn plan(view: &View, book: &Book, moment: &Moment<'_>) -> Plan {
    let mut plan = Plan::default();
    // Those that go first, so that their places are free for those that come.
    for (dir, module) in &book.modules {
        for (instance, _) in module.instances.iter().filter(|(_, state)| has_come(Some(*state))) {
            let place = Place { dir: dir.clone(), instance: instance.clone() };
            if view.places.get(&place).is_none_or(|stand| stand.present.is_none()) {
                let module = module.name.clone();
                plan.changes.push(Change::Detach { module, instance: instance.clone() });
            }
        }
    }
    for (place, stand) in &view.places {
        let hides = take(&mut plan, book, moment, place, stand);
        arrange(&mut plan, book, moment, place, stand, hides);
    }
    let shows = shows(view, book);
    let late = |step: &Step| moment.stuck.is_late(step.place(), moment.now);
    let taking = |step: &&Step| !matches!(step, Step::Redeal { .. }) && !late(step);
    let waits = plan.takes.iter().filter(taking).map(Step::place);
    let waits: Vec<Option<u64>> = waits.map(|place| moment.stuck.end(place)).collect();
    if !plan.changes.is_empty() {
        // What the book makes of them may have to be taken first.
        hold_up(&mut plan, moment.barrier.map(|limit| moment.began.saturating_add(limit)), moment.now);
    }
    plan.held_up = moment.barrier.is_some() && (!waits.is_empty() || plan.held_up);
    if plan.held_up {
        waits.into_iter().flatten().for_each(|end| plan.wake(end));
    } else {
        plan.shows = shows;
    }
    plan.given_up = plan.steps().filter(|step| late(step)).count();
    plan
}

/// Whether the book has an instance as being there.
fn has_come(state: Option<&String>) -> bool {
    state.is_some_and(|state| matches!(state.as_str(), "active" | "standby"))
}

/// What is to be taken from an instance; whether something of it is hidden.
fn take(plan: &mut Plan, book: &Book, moment: &Moment<'_>, place: &Place, stand: &Stand) -> bool {
    let mut hides = false;
    for (account, shown) in &stand.accounts {
        let row = book.accounts.get(account);
        let (wanted, held) = (is_wanted(book, row, place), stand.is_held());
        let said = stand.alloc.as_ref().map(|alloc| &alloc.said).filter(|_| held);
        let released = said.is_some_and(|said| said.has_released(account, shown.epoch));
        let unusable = said.is_some_and(|said| said.is_unusable(account, shown.epoch));
        if unusable && row.is_some_and(|row| row.state != "frozen") {
            plan.changes.push(Change::Freeze { account: account.clone() });
        }
        let of = |row: &AccountRow| row.epoch == shown.epoch;
        let until = moment.until(account, shown).filter(|_| !held || shown.inherited);
        if wanted && shown.revoked.is_none() && until.is_none() {
            match row.filter(|row| !of(row)) {
                Some(row) => {
                    let (place, account, epoch) = (place.clone(), account.clone(), row.epoch);
                    plan.takes.push(Step::Redeal { place, account, epoch });
                }
                // Not one that an earlier process may be logged in with: giving back ends the login.
                None if released && !unusable && !(shown.inherited && row.is_some_and(|row| row.login)) => {
                    plan.changes.push(Change::GiveBack { account: account.clone(), epoch: shown.epoch });
                }
                None => {}
            }
            continue;
        }
        let leaving = is_leaving(book, row, place, shown.epoch);
        // An earlier process may be logged in: who is there now cannot speak for it, and the book waits for the end of that.
        let waits = leaving && (!held || shown.inherited);
        if released && leaving && !unusable && !waits {
            plan.changes.push(Change::Logout { account: account.clone(), epoch: shown.epoch });
        }
        let asks = held && !released;
        if asks && shown.revoked.is_none() || until.is_some() && shown.until.is_none() {
            let (place, account) = (place.clone(), account.clone());
            plan.takes.push(Step::Revoke { place, account, until });
        }
        if asks {
            wait_for(plan, moment, place, shown);
        }
        let forgotten = until.filter(|until| moment.now < *until);
        if let Some(until) = forgotten {
            plan.wake(until);
        }
        if !asks && !waits && forgotten.is_none() {
            hides = true;
            plan.takes.push(Step::Hide { place: place.clone(), account: account.clone() });
        }
    }
    hides
}

/// An instance that is there was asked for an account, and is waited for.
fn wait_for(plan: &mut Plan, moment: &Moment<'_>, place: &Place, shown: &Shown) {
    plan.pending += 1;
    let end = moment.barrier.map(|limit| {
        let end = shown.revoked.map_or(moment.began, |at| at.min(moment.began)).saturating_add(limit);
        // One that cannot be written to is not even asked.
        moment.stuck.end(place).map_or(end, |stuck| stuck.min(end))
    });
    hold_up(plan, end, moment.now);
}

/// The barrier stands until then, if it stands at all.
fn hold_up(plan: &mut Plan, end: Option<u64>, now: u64) {
    if let Some(end) = end.filter(|end| now < *end) {
        plan.held_up = true;
        plan.wake(end);
    }
}

/// Brings instances into the book, and tells them where their accounts are.
fn arrange(plan: &mut Plan, book: &Book, moment: &Moment<'_>, place: &Place, stand: &Stand, hides: bool) {
    let module = book.modules.get(&place.dir);
    let state = module.and_then(|module| module.instances.get(&place.instance));
    let Some(present) = stand.present else {
        // It goes when its accounts have gone on, and the book waits for it no more.
        if stand.alloc.is_some() && stand.is_bare() && state.is_none() {
            plan.places.push(Step::Clear { place: place.clone() });
        }
        return;
    };
    let Some(module) = module else { return };
    let told = moment.attached.get(place) == Some(&present.created);
    let attach =
        Change::Attach { module: module.name.clone(), place: place.clone(), created: present.created };
    if !present.introduced && !told {
        if has_come(state) {
            // Another process of the same name.
            let instance = place.instance.clone();
            plan.changes.push(Change::Detach { module: module.name.clone(), instance });
        }
        plan.changes.push(attach);
    } else if !has_come(state) {
        plan.changes.push(attach);
    } else if (!present.introduced || stand.alloc.is_none()) && !hides {
        plan.places.push(Step::Introduce { place: place.clone() });
    }
}

/// What can be shown: what the book says and nobody sees.
fn shows(view: &View, book: &Book) -> Vec<Step> {
    let shown = view.shown();
    let mut shows = Vec::new();
    for (account, row) in &book.accounts {
        if row.state != "dealt" || shown.contains(account.as_str()) {
            continue;
        }
        let Some(place) = book.place(row) else { continue };
        let Some(stand) = view.places.get(&place).filter(|stand| stand.is_held()) else { continue };
        // What it said of this very deal it said before it saw that the account was taken away; it has to see that first,
        // or it would lose an account that it has just begun to use.
        let said = stand.alloc.as_ref().map(|alloc| &alloc.said);
        match said {
            Some(said) if !said.has_released(account, row.epoch) => {
                shows.push(Step::Show { place, account: account.clone(), epoch: row.epoch });
            }
            _ => {}
        }
    }
    shows
}
