//! A book, its clock, and a replica that gets every event as bytes.

use allot_core::account::Decision;
use allot_core::account::decide::MAX_BATCH;
use allot_core::account::place::{Instance, Module, Presence, Share};
use allot_core::account::record::{Account, AccountState};
use allot_core::account::request::{InstanceRequest, ManagerRequest, ModuleSettings, Request};
use allot_core::account::tariff::{Amount, Step, Tariff};
use allot_core::account::{Book, Event, Reply, Settings, decide, decide_due};
use allot_core::shared::codec::Writer;
use allot_core::shared::machine::MachineEvent;
use allot_core::shared::refusal::Refusal;

pub(crate) const HOUR: i64 = 3_600_000;

pub(crate) struct Rig {
    pub(crate) book: Book,
    pub(crate) replica: Book,
    pub(crate) now: i64,
    /// Events applied since it was last looked at.
    pub(crate) seen: Vec<Event>,
}

impl Rig {
    pub(crate) fn new(settings: Settings) -> Self {
        let book = Book::open(settings, 1000);
        Self { replica: book.clone(), book, now: 1000, seen: Vec::new() }
    }

    /// A book with one module of so many places and accounts, everything assigned that can be.
    pub(crate) fn with(places: i64, accounts: usize, instances: &[&str]) -> Self {
        let mut rig = Self::new(Settings::default());
        rig.module("m", places, 0);
        for instance in instances {
            rig.attach("m", instance);
        }
        rig.add("m", 0..accounts);
        rig.settle();
        rig
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        self.book.admits(event).unwrap_or_else(|damaged| panic!("{event:?}: {damaged}"));
        self.book.apply(self.now, event);
        let mut bytes = Writer::default();
        event.encode(&mut bytes);
        for event in Event::decode_all(&bytes.bytes).unwrap() {
            self.replica.admits(&event).unwrap();
            self.replica.apply(self.now, &event);
        }
        self.seen.push(event.clone());
    }

    /// Asks, as the server does: what is due first.
    pub(crate) fn ask<'a>(&mut self, request: impl Into<Request<'a>>) -> Result<Reply, Refusal> {
        for event in decide_due(&self.book, self.now, usize::MAX) {
            self.apply(&event);
        }
        let Decision { events, reply } = decide(&self.book, self.now, &request.into())?;
        events.iter().for_each(|event| self.apply(event));
        Ok(reply)
    }

    /// As `ask`; the code of the refusal, or `OK`.
    pub(crate) fn code<'a>(&mut self, request: impl Into<Request<'a>>) -> &'static str {
        self.ask(request).map_or_else(|refusal| refusal.code.word(), |_| "OK")
    }

    /// Does what is due until nothing is.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            let due = decide_due(&self.book, self.now, usize::MAX);
            if due.is_empty() {
                return;
            }
            due.iter().for_each(|event| self.apply(event));
        }
        panic!("there is no end of what is due");
    }

    pub(crate) fn pass(&mut self, by: i64) {
        self.now += by;
        self.settle();
    }

    pub(crate) fn module(&mut self, module: &str, instances: i64, reserve: i64) {
        let wish = ModuleSettings {
            module: module.as_bytes(),
            department: b"d",
            instances,
            weight: None,
            reserve: Some(reserve),
            share: Some(Share::Present),
            ..ModuleSettings::default()
        };
        self.ask(ManagerRequest::Module(wish)).unwrap();
    }

    pub(crate) fn add(&mut self, module: &str, numbers: std::ops::Range<usize>) {
        let names: Vec<String> = numbers.map(name).collect();
        for some in names.chunks(MAX_BATCH) {
            let accounts = some.iter().map(String::as_bytes).collect();
            let request = ManagerRequest::add(Some(module.as_bytes()), tariff(), accounts);
            self.ask(request).unwrap();
        }
    }

    pub(crate) fn attach(&mut self, module: &str, instance: &str) {
        let (module, instance) = (module.as_bytes(), instance.as_bytes());
        self.ask(ManagerRequest::Attach { module, instance }).unwrap();
        self.settle();
    }

    pub(crate) fn detach(&mut self, module: &str, instance: &str, grace: i64) {
        let (module, instance) = (module.as_bytes(), instance.as_bytes());
        self.ask(ManagerRequest::Detach { module, instance, grace }).unwrap();
        self.settle();
    }

    pub(crate) fn login(&mut self, account: &str, instance: &str, ttl: i64) -> u64 {
        self.ask(login(account, instance, "t", ttl)).unwrap();
        self.account(account).login.as_ref().unwrap().epoch
    }

    pub(crate) fn logout(&mut self, account: &str, epoch: u64) -> Reply {
        let reply = self.ask(logout(account, epoch, false)).unwrap();
        self.settle();
        reply
    }

    pub(crate) fn account(&self, account: &str) -> &Account {
        self.book.account_called(account.as_bytes()).unwrap()
    }

    pub(crate) fn standing(&self, account: &str) -> AccountState {
        self.account(account).state
    }

    /// The instance that has an account; empty for none.
    pub(crate) fn holder(&self, account: &str) -> String {
        String::from_utf8_lossy(&self.book.instance_name(self.account(account).instance)).into_owned()
    }

    /// How many accounts are assigned to each instance of a module, in the order of their arrival.
    pub(crate) fn shares(&self, module: &str) -> Vec<usize> {
        let module = self.book.find_module(module.as_bytes()).unwrap();
        let instances = self.book.module(module).unwrap().instances();
        instances.map(|id| self.book.instance(id).unwrap().assigned as usize).collect()
    }

    /// What an instance is told to use, in that order.
    pub(crate) fn picked(&self, module: &str, instance: &str) -> Vec<String> {
        let module = self.book.find_module(module.as_bytes()).unwrap();
        let instance = self.book.find_instance(module, instance.as_bytes()).unwrap();
        let picked = self.book.pick(self.book.instance(instance).unwrap(), usize::MAX);
        picked.iter().map(|one| String::from_utf8_lossy(&one.name).into_owned()).collect()
    }

    pub(crate) fn presence(&self, module: &str, instance: &str) -> Option<Presence> {
        let module = self.book.find_module(module.as_bytes())?;
        let id = self.book.find_instance(module, instance.as_bytes())?;
        Some(self.book.instance(id)?.presence)
    }

    /// Replica and snapshot are equal to the book, and nothing in any of them contradicts anything else.
    pub(crate) fn check(&self) {
        let bytes = self.book.encode();
        assert_eq!(self.replica.encode(), bytes, "the replica differs");
        let restored = Book::decode(&bytes).unwrap();
        assert_eq!(restored.encode(), bytes, "the snapshot differs");
        for book in [&self.book, &self.replica, &restored] {
            assert_eq!(book.check(), Ok(()));
        }
        assert_eq!(restored.next_due(), self.book.next_due());
    }
}

/// Whether no instance could get a free account that is not in reserve, or an account of another so that their levels
/// come closer together. While a place is empty, or the reserve too small, an instance gets at most the share of a
/// place. For a module without logins.
pub(crate) fn is_even(book: &Book, module: &Module) -> bool {
    let (places, reserve) = (i128::from(module.places.max(1)), module.reserve as usize);
    let instances: Vec<&Instance> = module.instances().filter_map(|id| book.instance(id)).collect();
    let active: Vec<&Instance> =
        instances.iter().copied().filter(|one| one.presence == Presence::Active).collect();
    let Some(lowest) = active.iter().map(|one| one.level()).min() else { return true };
    let worths = |is: &dyn Fn(&Account) -> bool| -> Vec<i128> {
        let accounts = book.list(book.find_module(&module.name), None, None, 0, usize::MAX).0;
        let accounts = accounts.into_iter().filter(|account| is(account));
        let mut worths: Vec<i128> = accounts.map(|account| account.tariff.quota.max(1).into()).collect();
        worths.sort_unstable();
        worths
    };
    let free = worths(&|account| account.state == AccountState::Free);
    let all = worths(&|account| account.state != AccountState::Frozen);
    let complete = active.len() as i128 >= places && free.len() >= reserve;
    let offsets: i128 = instances.iter().map(|one| one.offset).sum();
    let shared = all.iter().skip(reserve).sum::<i128>() - offsets;
    let mut room = (shared.max(0) - places * lowest) / places;
    if complete || module.policy.share == Share::Present {
        room = i128::MAX;
    }
    let gives = |giver: &&Instance| {
        let accounts = giver.accounts.iter().filter_map(|&id| book.account(id));
        let least = accounts.map(|account| i128::from(account.tariff.quota.max(1))).min().unwrap();
        giver.assigned > module.floor() && giver.level() - least > lowest && least <= room
    };
    if active.iter().filter(|one| one.assigned > 0).any(gives) {
        return false;
    }
    let spare: Vec<i128> = free.into_iter().skip(reserve).collect();
    let empty = places - instances.iter().filter(|one| one.has_place()).count() as i128;
    if room < i128::MAX && empty > 0 && all.first() != all.last() {
        room = room.min((spare.iter().sum::<i128>() - empty * lowest) / (empty + 1));
    }
    spare.first().is_none_or(|&least| least > room)
}

pub(crate) fn name(number: usize) -> String {
    format!("pid{number:06}")
}

/// 100 at the flat price, 50 at 0.1, more at 0.5.
pub(crate) fn tariff() -> Tariff {
    let step = |upto, price: &str| Step { upto, price: Amount::parse_price(price.as_bytes()).unwrap() };
    Tariff { quota: 100, steps: vec![step(150, "0.1"), step(1000, "0.5")] }
}

pub(crate) fn login<'a>(
    account: &'a str,
    instance: &'a str,
    terminal: &'a str,
    ttl: i64,
) -> InstanceRequest<'a> {
    InstanceRequest::Login {
        account: account.as_bytes(),
        instance: instance.as_bytes(),
        terminal: terminal.as_bytes(),
        ttl,
    }
}

pub(crate) fn usage(account: &str, epoch: u64, count: i64) -> InstanceRequest<'_> {
    InstanceRequest::Use { account: account.as_bytes(), epoch, count }
}

pub(crate) fn logout(account: &str, epoch: u64, back: bool) -> InstanceRequest<'_> {
    InstanceRequest::Logout { account: account.as_bytes(), epoch, back, term: None }
}
