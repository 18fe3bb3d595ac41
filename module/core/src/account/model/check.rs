//! Checks a whole book: all records, indexes and sums against each other.

use std::collections::{BTreeMap, BTreeSet};

use super::place::{Instance, Module, Presence};

use super::record::{Account, AccountState, Goal, MONTHS, Name, Rank};
use super::state::Book;
use super::supply::Supply;
use super::usage::Usage;
use crate::ensure;
use crate::shared::codec::{Damaged, ensure as agrees};
use crate::shared::invariant::{Checked, checks_of};
use crate::shared::list::NONE;

/// The indexes of a module, computed from its accounts.
#[derive(Default)]
struct Home {
    accounts: BTreeSet<u32>,
    free: BTreeSet<u32>,
    free_of: BTreeMap<Name, BTreeSet<u32>>,
    barred: usize,
    returning: usize,
    expected: usize,
    sums: Usage,
}

/// The indexes of an instance, computed from its accounts.
#[derive(Default)]
struct Share {
    accounts: BTreeSet<u32>,
    assigned: u32,
    incoming: u32,
    ready: BTreeSet<(Rank, u32)>,
    supply: Supply,
}

impl Book {
    /// Checks records, shares, levels, the order in which accounts are picked, deadlines, totals, use and cost
    /// against each other. O(size of the book), for tests and debugging.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Checked {
        self.check_accounts()?;
        let (mut homes, mut shares) = (BTreeMap::<u32, Home>::new(), BTreeMap::<u32, Share>::new());
        for (id, account) in self.accounts.iter() {
            self.count_in(id, account, &mut homes, &mut shares);
        }
        for (id, instance) in self.instances.iter() {
            self.check_instance(id, instance, &shares.remove(&id).unwrap_or_default())?;
        }
        ensure!(shares.is_empty(), "an account is with an unknown instance, or goes to one");
        for (id, module) in self.modules.iter() {
            self.check_module(id, module, &homes.remove(&id).unwrap_or_default())?;
        }
        ensure!(homes.is_empty(), "an account is of an unknown module");
        ensure!(self.module_names.len() == self.modules.len(), "there are more names than modules");
        let instances: usize = self.modules.iter().map(|(_, module)| module.names.len()).sum();
        ensure!(
            instances == self.instances.len(),
            "{instances} of {} instances have a module",
            self.instances.len()
        );
        self.check_sets()
    }

    fn check_accounts(&self) -> Checked {
        let (mut totals, mut tariffs, mut logins, mut thaws) = ([0; 4], BTreeMap::new(), 0, 0);
        for (id, account) in self.accounts.iter() {
            let check = checks_of(|| format!("account {}", account.name.escape_ascii()));
            self.check_account(account).or_else(|damaged| check(false, damaged.0))?;
            check(self.find(&account.name) == Some(id), "is not found by its name")?;
            let until = account.login.as_ref().map(|login| login.until);
            check(self.logins.get(id) == until, "has a login with another deadline")?;
            check(self.thaws.get(id) == account.frozen_until, "thaws at another time")?;
            logins += usize::from(until.is_some());
            thaws += usize::from(account.frozen_until.is_some());
            *tariffs.entry(account.tariff.clone()).or_insert(0) += 1;
            if let Some(total) = totals.get_mut(account.state as usize) {
                *total += 1;
            }
        }
        ensure!(self.totals == totals, "there are {totals:?} accounts by state, not {:?}", self.totals);
        ensure!(self.tariffs == tariffs, "the tariffs differ from those of the accounts");
        ensure!(self.logins.len() == logins, "a deadline belongs to no login");
        ensure!(self.thaws.len() == thaws, "an account thaws that is not frozen");
        Ok(())
    }

    /// Checks that the fields of an account agree with each other and with the instances.
    pub(in crate::account) fn check_account(&self, account: &Account) -> Result<(), Damaged> {
        let placed = account.instance != NONE;
        let fits = match account.state {
            AccountState::Assigned => placed,
            // An account that was frozen in use has no instance while it waits to be deleted.
            AccountState::Revoking => placed || account.goal == Some(Goal::Delete),
            AccountState::Free | AccountState::Frozen => !placed,
        };
        agrees(fits, "the state and the instance of an account disagree")?;
        agrees(
            (account.state == AccountState::Revoking) == account.goal.is_some(),
            "an account goes nowhere",
        )?;
        agrees(
            account.login.is_some() || account.state != AccountState::Revoking,
            "an account is revoking without a login",
        )?;
        let ours = self.instances.get(account.instance).is_none_or(|place| place.module == account.module);
        agrees(ours, "an account is with an instance of another module")?;
        let to = account.goal.and_then(Goal::place);
        agrees(to.is_none_or(|to| self.instances.get(to).is_some()), "an account goes nowhere")?;
        let login = account.login.as_ref().map(|login| login.epoch);
        let last = account.history.last().map(|stay| stay.epoch);
        let given =
            [Some(account.epoch), login, last].into_iter().flatten().all(|one| one <= self.last_epoch);
        agrees(given, "an epoch was not given out")?;
        agrees(account.tally.month() <= self.month, "the month of an account is after that of the book")?;
        let lasts = account.history.last().is_some_and(|stay| stay.to.is_none());
        let stays = account.history.last().is_some_and(|stay| stay.epoch == account.epoch);
        agrees(lasts == placed && (!placed || stays), "an account's stay and its instance disagree")
    }

    /// Checks that the modules have spent this month what the accounts have, with the deleted ones. O(accounts).
    pub(in crate::account) fn check_ledger(&self) -> Result<(), Damaged> {
        let tallies = self.accounts.iter().map(|(_, account)| &account.tally).chain(self.deleted.values());
        let (mut counted, mut spent) = (Usage::default(), Usage::default());
        for tally in tallies {
            let month = tally.of(self.month);
            counted.spend(month.used.into(), month.cost);
        }
        self.ledger_of(self.month).for_each(|line| spent.spend(line.usage.used, line.usage.cost));
        let same = (counted.used, counted.cost) == (spent.used, spent.cost);
        agrees(same, "the modules have spent something else than the accounts")?;
        let oldest = self.month.saturating_sub(MONTHS as u32);
        let kept = self.ledger.keys().all(|key| (oldest..=self.month).contains(&key.month));
        agrees(kept, "the ledger has a month that is not kept")?;
        let deleted = self.deleted.iter().all(|(name, tally)| {
            self.find(name).is_none() && !tally.is_empty() && tally.month() <= self.month
        });
        agrees(deleted, "the use of an account is kept that was not deleted, or has none")
    }

    fn count_in(
        &self,
        id: u32,
        account: &Account,
        homes: &mut BTreeMap<u32, Home>,
        shares: &mut BTreeMap<u32, Share>,
    ) {
        let frozen = account.state == AccountState::Frozen;
        if let Some(destination) = self.destination(account).filter(|_| !frozen) {
            homes.entry(destination).or_default().expected += 1;
        }
        let home = homes.entry(account.module).or_default();
        home.accounts.insert(id);
        home.sums.hold(account, self.month, true);
        home.returning += usize::from(account.goal == Some(Goal::Reassign));
        if account.state == AccountState::Free && account.login.is_some() {
            home.barred += 1;
        } else if account.state == AccountState::Free {
            home.free.insert(id);
            if let Some(holder) = account.last_holder() {
                home.free_of.entry(holder.clone()).or_default().insert(id);
            }
        }
        if account.instance != NONE {
            let share = shares.entry(account.instance).or_default();
            share.accounts.insert(id);
            share.assigned += u32::from(account.state == AccountState::Assigned);
            if account.is_ready() {
                let (month, limit) = self.order();
                share.ready.insert((account.rank(month, limit), id));
            }
        }
        if let Some(instance) = account.supplied() {
            shares.entry(instance).or_default().supply.set(account, self.order(), true);
        }
        if let Some(Goal::Place(place)) = account.goal {
            shares.entry(place).or_default().incoming += 1;
        }
    }

    fn check_instance(&self, id: u32, instance: &Instance, share: &Share) -> Checked {
        let check = checks_of(|| format!("instance {}", instance.name.escape_ascii()));
        check(instance.accounts == share.accounts, "lists other accounts than it has")?;
        check(instance.assigned == share.assigned, "counts another number of accounts than it has")?;
        check(instance.incoming == share.incoming, "counts another number of accounts in transit to it")?;
        // The supply is that of an earlier limit until an account of the instance comes, goes or sends.
        let mut supply = share.supply.clone();
        supply.follow(instance.supply.limit());
        check(instance.supply == supply, "has accounts of other tariffs, or they have sent something else")?;
        if instance.ready_order == self.order() {
            check(instance.ready == share.ready, "picks accounts in another order")?;
        } else {
            // The order is of an earlier month or limit, until the next login or use.
            let ids = |ready: &BTreeSet<(Rank, u32)>| -> BTreeSet<u32> {
                ready.iter().map(|&(_, id)| id).collect()
            };
            check(ids(&instance.ready) == ids(&share.ready), "picks other accounts")?;
        }
        let module = self.modules.get(instance.module);
        let found = module.is_some_and(|module| {
            module.names.get(&instance.name) == Some(&id)
                && module.instances.contains(&(instance.arrived, id))
        });
        check(found, "is not found by its name")?;
        check(instance.arrived <= self.arrivals, "has an arrival that was not counted")?;
        check(self.away.get(id) == instance.away_until, "has a place that is kept until another time")?;
        let away = instance.presence == Presence::Away;
        check(away == instance.away_until.is_some(), "is away without an end, or has one")?;
        check(instance.has_place() || instance.offset == 0, "has an offset and no place")?;
        let drains = !instance.has_place() && instance.assigned > 0;
        check(self.draining.contains(&id) == drains, "is wrong in the set of draining instances")?;
        let empty = share.accounts.is_empty() && share.incoming == 0;
        check(instance.presence != Presence::Leaving || !empty, "is leaving and has no accounts")
    }

    fn check_module(&self, id: u32, module: &Module, home: &Home) -> Checked {
        let check = checks_of(|| format!("module {}", module.name.escape_ascii()));
        check(self.module_names.get(&module.name) == Some(&id), "is not found by its name")?;
        check(module.accounts == home.accounts, "lists other accounts than it has")?;
        check(module.free == home.free, "lists other free accounts than it has")?;
        check(module.free_of == home.free_of, "has other holders of its free accounts")?;
        check(module.barred == home.barred, "counts another number of barred accounts")?;
        check(module.returning == home.returning, "counts another number of returning accounts")?;
        let sums = Usage { used: module.sums.used, cost: module.sums.cost, ..home.sums.clone() };
        check(module.sums == sums, "has other sums than its accounts")?;
        check(module.elsewhere == self.used_elsewhere(&module.name), "spent something else elsewhere")?;
        check(module.names.len() == module.instances.len(), "has more names than instances")?;
        let (mut levels, mut givers) = (BTreeSet::new(), BTreeSet::new());
        let (mut taken, mut offsets) = (BTreeSet::new(), 0);
        for id in module.instances() {
            let Some(instance) = self.instances.get(id) else {
                return check(false, "has an unknown instance");
            };
            check(instance.place.is_some() == instance.has_place(), "has an instance without its number")?;
            taken.extend(instance.place);
            offsets += i64::from(instance.offset);
            if instance.presence == Presence::Active {
                levels.insert((instance.level(), instance.place.unwrap_or(u32::MAX), id));
                if instance.assigned > module.floor {
                    givers.insert((instance.level(), id));
                }
            }
        }
        check(module.taken == taken, "has other places that are taken")?;
        check(module.offsets == offsets, "has another sum of offsets")?;
        check(module.expected == home.expected, "expects another number of accounts")?;
        check(module.floor == module.computed_floor(), "has instances that keep another number")?;
        check(module.levels == levels, "has other levels than its instances")?;
        check(module.givers == givers, "has other instances with accounts to give")?;
        check(self.uneven.contains(&id) == self.is_uneven(id), "is wrong in the set of uneven modules")
    }

    /// Checks that the sets have no unknown members. That all members are in them is checked above.
    fn check_sets(&self) -> Checked {
        let away = self.instances.iter().filter(|(_, instance)| instance.presence == Presence::Away).count();
        ensure!(self.away.len() == away, "a place is kept for an instance that is not away");
        for (department, budget) in &self.departments {
            let check = checks_of(|| format!("department {}", department.escape_ascii()));
            let used = self.used_by_department(department);
            check(budget.used == used && budget.cap > 0, "has a budget without limit, or of another use")?;
        }
        self.check_ledger().or_else(|damaged| checks_of(|| "the ledger".to_owned())(false, damaged.0))?;
        self.outbox.check()?;
        let drains = self.draining.iter().all(|&id| self.instances.get(id).is_some());
        ensure!(drains, "an unknown instance is draining");
        let uneven = self.uneven.iter().all(|&id| self.modules.get(id).is_some());
        ensure!(uneven, "an unknown module is uneven");
        ensure!(!self.month_starts.is_empty(), "the running month has not begun");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::request::{InstanceRequest, ManagerRequest, ModuleSettings, Request};
    use super::super::super::{Settings, decide, decide_due};
    use super::super::place::Share;
    use super::super::record::Tally;
    use super::super::state::Budget;
    use super::super::tariff::{Amount, Step, Tariff};
    use super::super::usage::LedgerKey;
    use super::*;
    use crate::shared::Bytes;

    const NOW: i64 = 1000;

    /// The name of a damaged part, and the code that damages it.
    type Damage = (&'static str, fn(&mut Book));

    fn ask<'a>(book: &mut Book, request: impl Into<Request<'a>>) {
        let decision = decide(book, NOW, &request.into()).unwrap();
        decision.events.iter().for_each(|event| book.apply(NOW, event));
        loop {
            let due = decide_due(book, NOW, 100);
            if due.is_empty() {
                return;
            }
            due.iter().for_each(|event| book.apply(NOW, event));
        }
    }

    /// Six accounts of a module: one is in transit from instance a to c, which has a place; b is on standby; one is
    /// frozen and thawed during a login; one is in the reserve.
    fn book() -> Book {
        let mut book = Book::open(Settings::default(), NOW);
        let (module, department) = (&b"m"[..], &b"d"[..]);
        let wanted = ModuleSettings {
            module,
            department,
            instances: 2,
            weight: None,
            reserve: Some(1),
            share: Some(Share::Present),
            ..ModuleSettings::default()
        };
        ask(&mut book, ManagerRequest::Module(wanted));
        let tariff = Tariff { quota: 10, steps: vec![Step { upto: 20, price: Amount(5) }] };
        let accounts: Vec<&[u8]> = vec![b"1", b"2", b"3", b"4", b"5", b"6"];
        ask(&mut book, ManagerRequest::Attach { module, instance: b"a" });
        ask(&mut book, ManagerRequest::Add { module: Some(module), tariff, accounts: accounts.clone() });
        for &account in &accounts {
            let login = InstanceRequest::Login { account, instance: b"a", terminal: b"t", ttl: 500_000 };
            if decide(&book, NOW, &login.clone().into()).is_ok() {
                ask(&mut book, login);
            }
        }
        ask(&mut book, ManagerRequest::Attach { module, instance: b"c" });
        ask(&mut book, ManagerRequest::Attach { module, instance: b"b" });
        let login = |account: &[u8]| {
            book.account_called(account).unwrap().login.as_ref().map(|account| account.epoch)
        };
        let assigned =
            |account: &&&[u8]| book.account_called(account).unwrap().state == AccountState::Assigned;
        let working: Vec<&[u8]> =
            accounts.iter().filter(assigned).copied().filter(|account| login(account).is_some()).collect();
        let epoch = login(working[0]).unwrap();
        ask(&mut book, InstanceRequest::Use { account: working[0], epoch, count: 12 });
        ask(&mut book, InstanceRequest::Logout { account: working[0], epoch, back: false, term: None });
        ask(&mut book, ManagerRequest::Freeze { account: working[1], on: true, until: None });
        ask(&mut book, ManagerRequest::Freeze { account: working[1], on: false, until: None });
        book
    }

    fn module(book: &mut Book) -> &mut Module {
        book.modules.get_mut(0).unwrap()
    }

    fn instance<'a>(book: &'a mut Book, name: &[u8]) -> &'a mut Instance {
        let id = book.find_instance(0, name).unwrap();
        book.instances.get_mut(id).unwrap()
    }

    fn account(book: &mut Book, state: AccountState) -> &mut Account {
        let id = book.accounts.iter().find(|(_, account)| account.state == state).unwrap().0;
        book.accounts.get_mut(id).unwrap()
    }

    #[test]
    fn check_finds_damage_in_each_structure() {
        let sound = book();
        assert_eq!(sound.check(), Ok(()));
        assert!(
            sound.instances.iter().any(|(_, instance)| instance.incoming > 0),
            "an account is on its way"
        );
        assert!(sound.modules.iter().all(|(_, module)| module.barred > 0), "an account is barred");
        let damages: [Damage; 41] = [
            ("totals", |book| book.totals.swap(0, 1)),
            ("tariffs", |book| book.tariffs.values_mut().for_each(|count| *count += 1)),
            ("logins", |book| book.logins.set(77, 5)),
            ("end of a login", |book| {
                account(book, AccountState::Revoking).login.as_mut().unwrap().until = 5;
            }),
            ("ends of freezes", |book| book.thaws.set(77, 5)),
            ("places kept", |book| book.away.set(77, 5)),
            ("draining", |book| {
                let _ = book.draining.insert(0);
            }),
            ("draining of nobody", |book| {
                let _ = book.draining.insert(77);
            }),
            ("uneven", |book| {
                let _ = book.uneven.insert(0);
            }),
            ("uneven of nobody", |book| {
                let _ = book.uneven.insert(77);
            }),
            ("names", |book| book.names.remove(b"1", 0)),
            ("module names", |book| {
                let _ = book.module_names.insert(b"x"[..].into(), 0);
            }),
            ("accounts of a module", |book| module(book).accounts.clear()),
            ("free accounts", |book| module(book).free.extend([77])),
            ("barred accounts", |book| module(book).barred += 1),
            ("returning accounts", |book| module(book).returning += 1),
            ("sum of use", |book| module(book).sums.used += 1),
            ("sum of cost", |book| module(book).sums.cost.0 += 1),
            ("sum of quotas", |book| module(book).sums.quota += 1),
            ("use elsewhere", |book| module(book).elsewhere += 1),
            ("use of a deleted account", |book| {
                book.deleted.insert(Bytes::from_slice(b"gone"), Tally::since(0));
            }),
            ("a month that is not kept", |book| {
                let (department, module) = (b"d"[..].into(), b"m"[..].into());
                book.ledger.insert(LedgerKey { month: 7, department, module }, Usage::default());
            }),
            ("expected accounts", |book| module(book).expected += 1),
            ("free accounts by holder", |book| {
                module(book).free_of.entry(b"a"[..].into()).or_default().insert(77);
            }),
            ("budget", |book| {
                let _ = book.departments.insert(b"d"[..].into(), Budget { cap: 5, used: 1 });
            }),
            ("places taken", |book| module(book).taken.clear()),
            ("sum of offsets", |book| module(book).offsets += 1),
            ("floor", |book| module(book).floor += 1),
            ("levels", |book| module(book).levels.clear()),
            ("givers", |book| module(book).givers.clear()),
            ("names of instances", |book| {
                let _ = module(book).names.pop_first();
            }),
            ("accounts of an instance", |book| instance(book, b"a").accounts.clear()),
            ("accounts assigned", |book| instance(book, b"a").assigned += 1),
            ("accounts on their way", |book| instance(book, b"c").incoming = 0),
            ("supply", |book| instance(book, b"a").supply = Supply::default()),
            ("pick order", |book| instance(book, b"a").ready.clear()),
            ("offset", |book| instance(book, b"a").offset = 4),
            ("offset without a place", |book| instance(book, b"b").offset = 4),
            ("state", |book| account(book, AccountState::Free).state = AccountState::Frozen),
            ("goal", |book| account(book, AccountState::Revoking).goal = None),
            ("history", |book| account(book, AccountState::Assigned).history.clear()),
        ];
        for (what, damage) in damages {
            let mut book = sound.clone();
            damage(&mut book);
            assert!(book.check().is_err(), "damage is not found: {what}");
        }
    }

    #[test]
    fn tariff_of_a_copied_book_is_forgotten_with_its_last_account() {
        let mut book = book();
        let copy = book.clone();
        let names: Vec<_> = book.accounts.iter().map(|(_, account)| account.name.clone()).collect();
        for (_, account) in
            book.accounts.iter().map(|(id, account)| (id, account.clone())).collect::<Vec<_>>()
        {
            if let Some(login) = &account.login {
                let (account, epoch) = (&account.name[..], login.epoch);
                ask(&mut book, InstanceRequest::Logout { account, epoch, back: false, term: None });
            }
        }
        let accounts = names.iter().map(|name| &name[..]).collect();
        ask(&mut book, ManagerRequest::Del { accounts });
        assert_eq!((book.accounts.len(), book.tariffs.len(), copy.tariffs.len()), (0, 0, 1));
    }
}
