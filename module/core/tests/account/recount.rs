//! What rebalancing says of its moves, recounted from the accounts, their tariffs and what each instance sent. The
//! needs and forecasts of the book are not used.

use std::collections::BTreeMap;

use super::rig::{HOUR, Rig};
use allot_core::account::place::Module;
use allot_core::account::rebalance::{Reason, Shift};
use allot_core::account::record::{Account, AccountState, Goal, Name};
use allot_core::account::tariff::{Amount, Tariff};

/// A module and an instance of it. The name of the instance is empty for the free accounts of the module.
type Place = (Name, Name);

fn place_of(rig: &Rig, instance: u32) -> Place {
    let module = rig.book.modules().find(|module| module.instances().any(|id| id == instance)).unwrap();
    (module.name.clone(), rig.book.instance_name(instance))
}

/// Who has which account before rebalancing.
pub(crate) struct Holdings {
    /// The accounts of each place by name: those that it has, and those in transit to it.
    accounts: BTreeMap<Place, BTreeMap<Vec<u8>, Account>>,
    /// The minimum of each module.
    minima: BTreeMap<Name, usize>,
}

impl Holdings {
    /// The holdings of a book of few accounts. The names are the book's own: damaged bytes may have changed one.
    pub(crate) fn of(rig: &Rig) -> Self {
        let minimum = |module: &Module| (module.name.clone(), module.policy.min as usize);
        let minima = rig.book.modules().map(minimum).collect();
        let mut holdings = Self { accounts: BTreeMap::new(), minima };
        let names: BTreeMap<u32, &Name> = rig
            .book
            .modules()
            .map(|module| (rig.book.find_module(&module.name).unwrap(), &module.name))
            .collect();
        for account in rig.book.list(None, None, None, 0, usize::MAX).0 {
            let place = match (account.state, account.goal.and_then(Goal::place)) {
                (AccountState::Assigned, _) => place_of(rig, account.instance),
                (AccountState::Revoking, Some(instance)) => place_of(rig, instance),
                (AccountState::Free, _) => (names[&account.module].clone(), Name::default()),
                _ => continue,
            };
            holdings.accounts.entry(place).or_default().insert(account.name.to_vec(), account.clone());
        }
        holdings
    }

    /// Moves the account of a shift. An instance that gets it because it has too few has fewer than its minimum.
    pub(crate) fn follow(&mut self, shift: &Shift) {
        let account = self.accounts.get_mut(&shift.from).and_then(|from| from.remove(&shift.account[..]));
        let account = account.unwrap_or_else(|| panic!("{shift:?}: the account is elsewhere"));
        let to = self.accounts.entry(shift.to.clone()).or_default();
        let (had, min) = (to.len(), self.minima[&shift.to.0]);
        assert!(shift.reason == Reason::Cost || had < min, "{shift:?}: the instance had {had} accounts");
        to.insert(shift.account.to_vec(), account);
    }

    /// The cost of so many more instructions at a place, the cheapest first. Free accounts send none.
    fn cost(&self, place: &Place, mut count: u64) -> i128 {
        // The months of the book do not end.
        let month = 0;
        let accounts = self.accounts.get(place).into_iter().flat_map(BTreeMap::values);
        let mut prices: Vec<(i128, u64)> =
            accounts.flat_map(|account| prices(&account.tariff, account.used_in(month))).collect();
        prices.sort_unstable();
        let mut cost = 0;
        for (price, room) in prices {
            let here = count.min(room);
            cost += price * i128::from(here);
            count -= here;
        }
        cost
    }
}

/// The prices of the instructions after so many, and how many instructions have each. The last price has no end.
fn prices(tariff: &Tariff, mut used: u64) -> Vec<(i128, u64)> {
    let flat = std::iter::once((tariff.quota, 0));
    let steps = tariff.steps.iter().map(|step| (step.upto, step.price.0));
    let mut prices = Vec::new();
    for (upto, price) in flat.chain(steps) {
        prices.push((price, upto.saturating_sub(used)));
        used = used.max(upto);
    }
    if let Some(last) = prices.last_mut() {
        last.1 = u64::MAX;
    }
    prices
}

/// What each instance has sent since it came, in the first month of a book.
#[derive(Default)]
pub(crate) struct Sent {
    /// When each instance came.
    begun: BTreeMap<Place, i64>,
    counts: Vec<(Place, i64, u64)>,
}

impl Sent {
    /// Notes which instances there are.
    pub(crate) fn observe(&mut self, rig: &Rig) {
        let instances = rig.book.modules().flat_map(|module| {
            module.instances().map(|id| (module.name.clone(), rig.book.instance_name(id)))
        });
        let known = std::mem::take(&mut self.begun);
        let begun = |place: Place| {
            let at = *known.get(&place).unwrap_or(&rig.now);
            (place, at)
        };
        self.begun = instances.map(begun).collect();
        self.counts.retain(|(place, ..)| self.begun.contains_key(place));
    }

    /// Notes instructions of an instance.
    pub(crate) fn count(&mut self, rig: &Rig, instance: u32, count: u64) {
        self.counts.push((place_of(rig, instance), rig.now, count));
    }

    /// How many instructions each instance will send until the end of the month, if it continues as in the last 24
    /// hours. Instances of which neither an hour nor 1 % of the flat price was seen are left out.
    fn forecasts(&self, rig: &Rig) -> BTreeMap<Place, u64> {
        let (now, ahead) = (rig.now, rig.book.month_end(rig.now) - rig.now);
        let forecast = |(place, begun): (&Place, &i64)| {
            let own = self.counts.iter().filter(|(of, ..)| of == place);
            let used: u64 = own.clone().map(|(.., count)| count).sum();
            let module = rig.book.find_module(&place.0)?;
            let instance = rig.book.instance(rig.book.find_instance(module, &place.1)?)?;
            let quotas = instance.accounts.iter().filter_map(|&id| rig.book.account(id));
            let quota: u64 = quotas.map(|account| account.tariff.quota).sum();
            let is_known = now - begun >= HOUR || used > 0 && used * 100 >= quota;
            let recent = own.filter(|(_, at, _)| at / HOUR > now / HOUR - 24);
            let recent: u64 = recent.map(|(.., count)| count).sum();
            let seen = (now - begun).clamp(HOUR, 23 * HOUR + (now % HOUR).max(1));
            let more = u128::from(recent) * ahead as u128 / seen as u128;
            is_known.then(|| (place.clone(), more as u64))
        };
        self.begun.iter().filter_map(forecast).collect()
    }

    /// A check of moves that are about to be made: each avoids as much as it says, and at least `margin`, or it fills
    /// a minimum.
    pub(crate) fn checker(
        &self,
        rig: &Rig,
        mut holdings: Holdings,
        margin: Amount,
    ) -> impl FnOnce(&[Shift]) + use<> {
        let forecasts = self.forecasts(rig);
        move |shifts| {
            for shift in shifts {
                let pays = |holdings: &Holdings| -> i128 {
                    let places = [&shift.from, &shift.to].into_iter().filter(|place| !place.1.is_empty());
                    let forecast = |place| {
                        *forecasts.get(place).unwrap_or_else(|| panic!("{shift:?}: {place:?} is unknown"))
                    };
                    places.map(|place| holdings.cost(place, forecast(place))).sum()
                };
                if shift.reason == Reason::Min {
                    holdings.follow(shift);
                    assert_eq!(shift.avoided, Amount(0), "{shift:?}");
                    continue;
                }
                let before = pays(&holdings);
                holdings.follow(shift);
                let avoided = Amount(before - pays(&holdings));
                assert_eq!(avoided, shift.avoided, "{shift:?}: it avoids {avoided}");
                assert!(avoided.0 > 0 && avoided >= margin, "{shift:?}: it avoids {avoided}");
            }
        }
    }
}
