//! The whole book as bytes, for RDB files, `DUMP`, AOF rewrites and digests.
//!
//! The encoding is canonical: equal books have equal bytes. The records are encoded as they define it; only the
//! references of accounts to other records are written by names, here. Indexes are not encoded, but computed. Decoding
//! trusts nothing: every name, count and reference is checked before it is used.

use super::messages::STREAM;
use super::model::place::{Instance, Module, Presence};
use super::model::record::{Account, Goal, LAST_MONTH, MONTHS, Name};
use super::model::state::Book;
use super::model::tariff::Tariff;
use crate::shared::codec::{Damaged, Reader, Writer, ensure};
use crate::shared::invariant::Expected;
use crate::shared::list::NONE;
use crate::shared::outbox::{CAPACITY, Outbox};
use std::sync::Arc;

/// Version of the encoding. A payload of another version is refused.
pub const VERSION: u64 = 1;

impl Book {
    /// Encodes the book. O(accounts log accounts).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.unsigned(VERSION);
        out.signed(self.applied);
        out.field(&self.settings);
        out.field(&self.departments);
        out.field(&self.term);
        out.field(&self.leader);
        out.field(&self.last_epoch);
        out.field(&self.month);
        out.field(&self.month_starts);
        out.field(&self.arrivals);
        out.field(&self.ledger);
        out.unsigned(self.deleted.len() as u64);
        for account in self.deleted.values() {
            out.field(account);
            out.field(&*account.tariff);
        }
        out.unsigned(self.modules.len() as u64);
        for module in self.modules() {
            out.field(module);
            out.field(&module.sums.used);
            out.field(&module.sums.cost);
            out.unsigned(module.instances.len() as u64);
            module.instances().filter_map(|id| self.indexed_instance(id)).for_each(|one| out.field(one));
        }
        let tariffs: Vec<&Tariff> = self.tariffs.keys().map(|tariff| &**tariff).collect();
        out.unsigned(tariffs.len() as u64);
        tariffs.iter().for_each(|&tariff| out.field(tariff));
        let mut accounts: Vec<&Account> = self.accounts.iter().map(|(_, account)| account).collect();
        accounts.sort_unstable_by(|account, other| account.name.cmp(&other.name));
        out.unsigned(accounts.len() as u64);
        for account in accounts {
            out.field(account);
            let tariff = tariffs.binary_search(&&*account.tariff).ok();
            out.unsigned(
                tariff.expected("the tariff of an account is among those in use").unwrap_or(0) as u64
            );
            self.encode_references(account, &mut out);
        }
        self.outbox.encode(&mut out);
        out.bytes
    }

    fn encode_references(&self, account: &Account, out: &mut Writer) {
        out.field(&self.module_name(account.module));
        let placed = account.instance != NONE;
        out.field(&placed.then(|| self.instance_name(account.instance)));
        match account.goal {
            None => out.unsigned(0),
            Some(Goal::Reassign) => out.unsigned(1),
            Some(Goal::Place(place)) => {
                out.unsigned(2);
                let module = self.indexed_instance(place).map(|place| self.module_name(place.module));
                out.field(&module.unwrap_or_default());
                out.field(&self.instance_name(place));
            }
            Some(Goal::Module(module)) => {
                out.unsigned(3);
                out.field(&self.module_name(module));
            }
            Some(Goal::Delete) => out.unsigned(4),
        }
    }

    /// Decodes a book.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        Self::decode_into(Self::default(), bytes)
    }

    /// Decodes a book into an empty one, whose tables number the records.
    pub(in crate::account) fn decode_into(empty: Self, bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        ensure(reader.unsigned()? == VERSION, "the version of the encoding is unknown")?;
        let applied = reader.reached()?;
        let mut book = Self { settings: reader.field()?, applied, ..empty };
        book.departments = reader.field()?;
        (book.term, book.leader) = (reader.field()?, reader.field()?);
        ensure(book.term == 0 || book.leader.is_some(), "a claimed term has no leader")?;
        (book.last_epoch, book.month) = (reader.field()?, reader.field()?);
        ensure(book.month <= LAST_MONTH, "a month is out of range")?;
        book.month_starts = reader.field()?;
        let most = (MONTHS + 1).min(book.month as usize + 1);
        ensure((1..=most).contains(&book.month_starts.len()), "there are too many months, or none")?;
        (book.arrivals, book.ledger) = (reader.field()?, reader.field()?);
        for _ in 0..reader.unsigned()? {
            let account: Account = reader.field()?;
            let tariff = Arc::new(reader.field()?);
            let account = Account { tariff, module: NONE, instance: NONE, ..account };
            let last = book.deleted.last_key_value();
            ensure(last.is_none_or(|(last, _)| *last < account.name), "deleted accounts are not in order")?;
            book.deleted.insert(account.name.clone(), account);
        }
        for _ in 0..reader.unsigned()? {
            book.decode_module(&mut reader)?;
        }
        let tariffs: Vec<Tariff> = reader.field()?;
        ensure(tariffs.is_sorted_by(|tariff, next| tariff < next), "the tariffs are not in order")?;
        let tariffs: Vec<Arc<Tariff>> = tariffs.into_iter().map(Arc::new).collect();
        let mut last = None;
        for _ in 0..reader.unsigned()? {
            let account = book.decode_account(&mut reader, &tariffs)?;
            ensure(last.is_none_or(|last| last < account.name), "the accounts are not in order")?;
            last = Some(account.name.clone());
            book.enter(account);
        }
        let capacity = |stream: &[u8]| (stream == STREAM.as_bytes()).then_some(CAPACITY);
        book.outbox = Outbox::decode_lanes(&mut reader, capacity)?;
        reader.finish()?;
        for id in book.module_names.values().copied().collect::<Vec<_>>() {
            book.look_at(id);
        }
        ensure(book.tariffs.len() == tariffs.len(), "no account has a tariff of the list")?;
        let empty = |instance: &Instance| {
            instance.presence == Presence::Leaving && instance.accounts.is_empty() && instance.incoming == 0
        };
        let is_empty = book.instances.iter().any(|(_, instance)| empty(instance));
        ensure(!is_empty, "an instance that is leaving has no accounts")?;
        book.check_ledger()?;
        let used = book.departments.keys().map(|department| book.used_by_department(department));
        let used: Vec<u128> = used.collect();
        book.departments.values_mut().zip(used).for_each(|(budget, used)| budget.used = used);
        Ok(book)
    }

    fn decode_module(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let mut module: Module = reader.field()?;
        (module.sums.used, module.sums.cost) = (reader.field()?, reader.field()?);
        let last = self.module_names.last_key_value();
        ensure(last.is_none_or(|(last, _)| *last < module.name), "the modules are not in order")?;
        module.department = self.department_name(&module.department);
        let id = self.enter_module(module);
        let mut last = 0;
        for _ in 0..reader.unsigned()? {
            let instance = Instance { module: id, ..reader.field()? };
            let rises = instance.arrived > last && instance.arrived <= self.arrivals;
            ensure(rises, "the instances are not in order")?;
            last = instance.arrived;
            ensure(self.find_instance(id, &instance.name).is_none(), "an instance is listed twice")?;
            let taken = |place| self.modules.get(id).is_some_and(|module| module.taken.contains(place));
            ensure(!instance.place.as_ref().is_some_and(taken), "two instances have the same place")?;
            let until = instance.away_until;
            let instance = self.enter_instance(instance);
            until.into_iter().for_each(|until| self.away.set(instance, until));
        }
        Ok(())
    }

    fn decode_account(&self, reader: &mut Reader<'_>, tariffs: &[Arc<Tariff>]) -> Result<Account, Damaged> {
        let mut account: Account = reader.field()?;
        let tariff = tariffs.get(reader.unsigned()? as usize);
        account.tariff = tariff.ok_or(Damaged("a tariff is not there"))?.clone();
        account.module = self.decode_known_module(reader)?;
        let instance: Option<Name> = reader.field()?;
        account.instance = match instance {
            None => NONE,
            Some(name) => self.known_instance(account.module, &name)?,
        };
        account.goal = match reader.unsigned()? {
            0 => None,
            1 => Some(Goal::Reassign),
            2 => {
                let module = self.decode_known_module(reader)?;
                Some(Goal::Place(self.known_instance(module, &reader.identifier()?)?))
            }
            3 => Some(Goal::Module(self.decode_known_module(reader)?)),
            4 => Some(Goal::Delete),
            _ => return Err(Damaged("a goal is unknown")),
        };
        // Names are shared with the module and the instance, if there still are such.
        for stay in &mut account.history {
            let Some(id) = self.find_module(&stay.module) else { continue };
            stay.module = self.module_name(id);
            if let Some(id) = self.find_instance(id, &stay.instance) {
                stay.instance = self.instance_name(id);
            }
        }
        self.check_account(&account)?;
        Ok(account)
    }

    fn decode_known_module(&self, reader: &mut Reader<'_>) -> Result<u32, Damaged> {
        self.find_module(&reader.identifier()?).ok_or(Damaged("a module is not there"))
    }

    fn known_instance(&self, module: u32, name: &[u8]) -> Result<u32, Damaged> {
        self.find_instance(module, name).ok_or(Damaged("an instance is not there"))
    }
}
