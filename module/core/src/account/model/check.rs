//! Checks a whole book: a book that is made again from its records must have the same indexes and sums.

use super::place::{Instance, Module};
use super::record::{Account, AccountState, Goal, MONTHS, Rank};
use super::state::Book;
use super::usage::Usage;
use crate::ensure;
use crate::shared::codec::{Damaged, ensure as agrees};
use crate::shared::invariant::{Checked, Contradiction, checks_of};
use crate::shared::list::NONE;

impl Book {
    /// Checks that the records agree with each other, and that all that is computed from them (shares, levels, the order
    /// in which accounts are picked, deadlines, totals, use and cost) is what they say. O(size of the book), for tests
    /// and debugging.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Checked {
        self.modules.check()?;
        self.instances.check()?;
        self.accounts.check()?;
        let sound = self.made_again().map_err(|damaged| Contradiction(damaged.0.to_owned()))?;
        for (id, module) in self.modules.iter() {
            let check = checks_of(|| format!("module {}", module.name.escape_ascii()));
            let same = sound.modules.get(id) == Some(module);
            check(same, "has other indexes or sums than its accounts and instances say")?;
        }
        for (id, instance) in self.instances.iter() {
            let check = checks_of(|| format!("instance {}", instance.name.escape_ascii()));
            let same =
                sound.instances.get(id).map(|same| sound.current(same)) == Some(self.current(instance));
            check(same, "has other indexes than its accounts say")?;
        }
        self.names.check(self.accounts.iter().map(|(id, account)| (id, &account.name[..])))?;
        for (what, same) in [
            ("the accounts", self.accounts == sound.accounts),
            ("the names of modules", self.module_names == sound.module_names),
            ("the tariffs", self.tariffs == sound.tariffs),
            ("the ends of logins", self.logins == sound.logins),
            ("the ends of freezes", self.thaws == sound.thaws),
            ("the turns of accounts", self.cycles == sound.cycles),
            ("the ends of kept places", self.away == sound.away),
            ("the draining instances", self.draining == sound.draining),
            ("the uneven modules", self.uneven == sound.uneven),
            ("the numbers of accounts by state", self.totals == sound.totals),
            ("the use of budgets", self.departments == sound.departments),
        ] {
            ensure!(same, "{what} are not those that the records say");
        }
        self.outbox.check()
    }

    /// The book decoded from its own snapshot, in which all records have the same numbers.
    fn made_again(&self) -> Result<Self, Damaged> {
        let modules: Vec<u32> = self.module_names.values().copied().collect();
        let known = modules.iter().filter_map(|&id| self.modules.get(id));
        let instances: Vec<u32> = known.flat_map(Module::instances).collect();
        let mut accounts: Vec<(&[u8], u32)> =
            self.accounts.iter().map(|(id, account)| (&account.name[..], id)).collect();
        accounts.sort_unstable();
        let accounts: Vec<u32> = accounts.into_iter().map(|(_, id)| id).collect();
        let empty = Self {
            modules: self.modules.emptied(&modules)?,
            instances: self.instances.emptied(&instances)?,
            accounts: self.accounts.emptied(&accounts)?,
            ..Self::default()
        };
        Self::decode_into(empty, &self.encode())
    }

    /// An instance with its supply and its order of ready accounts as they are for the present month and limit. Both
    /// are made again only when an account of the instance changes.
    fn current(&self, instance: &Instance) -> Instance {
        let (order @ (month, limit), mut current) = (self.order(), instance.clone());
        current.supply.follow(limit);
        if std::mem::replace(&mut current.ready_order, order) != order {
            let rank = |&(rank, id): &(Rank, u32)| {
                (self.accounts.get(id).map_or(rank, |account| account.rank(month, limit)), id)
            };
            current.ready = instance.ready.iter().map(rank).collect();
        }
        current
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
        let frozen = !account.was_frozen || !placed && account.goal == Some(Goal::Delete);
        agrees(frozen, "an account that was frozen is not being deleted")?;
        self.check_numbers(account)?;
        let lasts = account.history.last().is_some_and(|stay| stay.to.is_none());
        let stays = account.history.last().is_some_and(|stay| stay.epoch == account.epoch);
        agrees(lasts == placed && (!placed || stays), "an account's stay and its instance disagree")
    }

    /// Checks that the epochs and the month of an account have been.
    fn check_numbers(&self, account: &Account) -> Result<(), Damaged> {
        let login = account.login.as_ref().map(|login| login.epoch);
        let last = account.history.last().map(|stay| stay.epoch);
        let given =
            [Some(account.epoch), login, last].into_iter().flatten().all(|one| one <= self.last_epoch);
        agrees(given, "an epoch was not given out")?;
        agrees(account.tally.month() <= self.month, "the month of an account is after that of the book")
    }

    /// Checks that the modules have spent this month what the accounts have, with the deleted ones. O(accounts).
    pub(in crate::account) fn check_ledger(&self) -> Result<(), Damaged> {
        let accounts = self.accounts.iter().map(|(_, account)| account).chain(self.deleted.values());
        let (mut counted, mut spent) = (Usage::default(), Usage::default());
        for account in accounts {
            let month = account.tally.of(self.month);
            counted.spend(month.used.into(), month.cost);
        }
        self.ledger_of(self.month).for_each(|line| spent.spend(line.usage.used, line.usage.cost));
        let same = (counted.used, counted.cost) == (spent.used, spent.cost);
        agrees(same, "the modules have spent something else than the accounts")?;
        let oldest = self.month.saturating_sub(MONTHS as u32);
        let kept = self.ledger.keys().all(|key| (oldest..=self.month).contains(&key.month));
        agrees(kept, "the ledger has a month that is not kept")?;
        self.deleted.values().try_for_each(|account| {
            let stays = account.history.last().is_some_and(|stay| stay.to.is_none());
            let waits = stays
                || account.login.is_some()
                || !matches!(account.state, AccountState::Free | AccountState::Frozen);
            let gone = self.find(&account.name).is_none() && account.is_worth_keeping();
            agrees(gone && !waits, "an account is kept that was not deleted, or has nothing to keep")?;
            self.check_numbers(account)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::request::{InstanceRequest, ManagerRequest, ModuleSettings, Request};
    use super::super::super::{Settings, decide, decide_due};
    use super::super::place::Share;
    use super::super::state::Budget;
    use super::super::supply::Supply;
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
        ask(&mut book, ManagerRequest::add(Some(module), tariff, accounts.clone()));
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
        let damages: [Damage; 46] = [
            ("totals", |book| book.totals.swap(0, 1)),
            ("tariffs", |book| book.tariffs.values_mut().for_each(|count| *count += 1)),
            ("logins", |book| book.logins.set(77, 5)),
            ("end of a login", |book| {
                account(book, AccountState::Revoking).login.as_mut().unwrap().until = 5;
            }),
            ("ends of freezes", |book| book.thaws.set(77, 5)),
            ("turns of accounts", |book| book.cycles.set(77, 5)),
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
            ("free accounts", |book| module(book).free.set(10, 77, true)),
            ("barred accounts", |book| module(book).barred += 1),
            ("returning accounts", |book| module(book).returning += 1),
            ("sum of use", |book| module(book).sums.used += 1),
            ("sum of cost", |book| module(book).sums.cost.0 += 1),
            ("sum of quotas", |book| module(book).sums.quota += 1),
            ("use elsewhere", |book| module(book).elsewhere += 1),
            ("use of a deleted account", |book| {
                let gone = Bytes::from_slice(b"gone");
                book.deleted.insert(gone.clone(), Account::new(gone, 0));
            }),
            ("a month that is not kept", |book| {
                let (department, module) = (b"d"[..].into(), b"m"[..].into());
                book.ledger.insert(LedgerKey { month: 7, department, module }, Usage::default());
            }),
            ("expected accounts", |book| module(book).expected += 1),
            ("worth of a module", |book| module(book).worth += 1),
            ("accounts of a module by worth", |book| module(book).quotas.count(10, true)),
            ("free accounts by holder", |book| {
                module(book).free_of.entry(b"a"[..].into()).or_default().set(10, 77, true);
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
            ("worth of an instance", |book| instance(book, b"a").worth += 1),
            ("accounts by worth", |book| instance(book, b"a").quotas.count(10, true)),
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
