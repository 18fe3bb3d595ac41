//! Encodes a book as bytes, for RDB files, `DUMP`, AOF rewrites and digests; and decodes them.
//!
//! The encoding is canonical: equal books have equal bytes. Decoding trusts nothing: every name, count and reference
//! is checked before it is used. Indexes are not encoded, but computed.

use super::encoding::ensure;
use super::model::place::{HOUR, Instance, MAX_OFFSET, MAX_PLACES, Module, Pace, Presence, WINDOW};
use super::model::record::{Account, Epoch, Goal, LAST_MONTH, Login, MAX_HISTORY, MONTHS, Name, Stay};
use super::model::reports::{MAX_REPORTS, Reports};
use super::model::state::Book;
use super::model::tariff::{MAX_COUNT, Tariff};
use crate::invariant;
use crate::shared::Millis;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::list::NONE;

/// Version of the encoding. A payload of a later version is refused.
pub const VERSION: u64 = 2;
/// The oldest version that is read: it has no further settings and no use that instances reported, and knows of an
/// instance only the use of the last day.
const OLDEST: u64 = 1;
/// The greatest hour, counted from 1970, that a snapshot may have.
const MAX_HOUR: i64 = (1 << 53) / HOUR;

impl Book {
    /// Encodes the book. O(accounts log accounts).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.unsigned(VERSION);
        out.signed(self.applied);
        out.field(&self.settings);
        out.field(&self.policy);
        out.unsigned(self.term);
        out.optional(self.leader.as_deref());
        out.unsigned(self.last_epoch);
        out.unsigned(self.month.into());
        out.unsigned(self.month_starts.len() as u64);
        self.month_starts.iter().for_each(|&start| out.signed(start));
        out.unsigned(self.arrivals);
        out.unsigned(self.modules.len() as u64);
        for module in self.modules() {
            out.string(&module.name);
            out.string(&module.department);
            for number in [module.places, module.weight, module.reserve] {
                out.unsigned(number.into());
            }
            out.field(&module.policy);
            out.unsigned(module.instances.len() as u64);
            for instance in module.instances().filter_map(|id| self.instances.get(id)) {
                encode_instance(instance, &mut out);
            }
        }
        let tariffs: Vec<&Tariff> = self.tariffs_in_use();
        out.unsigned(tariffs.len() as u64);
        tariffs.iter().for_each(|&tariff| out.field(tariff));
        let mut accounts: Vec<&Account> = self.accounts.iter().map(|(_, account)| account).collect();
        accounts.sort_unstable_by(|account, other| account.name.cmp(&other.name));
        out.unsigned(accounts.len() as u64);
        for account in accounts {
            let tariff = tariffs.binary_search(&&*account.tariff);
            invariant!(tariff.is_ok(), "the tariff of an account is among those in use");
            self.encode_account(account, tariff.unwrap_or(0), &mut out);
        }
        out.bytes
    }

    /// The tariffs of all accounts, in order.
    fn tariffs_in_use(&self) -> Vec<&Tariff> {
        self.tariffs.keys().map(|tariff| &**tariff).collect()
    }

    fn encode_place(&self, instance: u32, out: &mut Writer) {
        let instance = if instance == NONE { None } else { self.indexed_instance(instance) };
        out.unsigned(instance.is_some().into());
        if let Some(instance) = instance {
            out.string(&self.module_name(instance.module));
            out.string(&instance.name);
        }
    }

    fn encode_account(&self, account: &Account, tariff: usize, out: &mut Writer) {
        out.string(&account.name);
        out.string(&self.module_name(account.module));
        out.unsigned(tariff as u64);
        out.field(&account.state);
        self.encode_place(account.instance, out);
        match account.goal {
            None => out.unsigned(0),
            Some(Goal::Reassign) => out.unsigned(1),
            Some(Goal::Place(place)) => {
                out.unsigned(2);
                self.encode_place(place, out);
            }
            Some(Goal::Module(module)) => {
                out.unsigned(3);
                out.string(&self.module_name(module));
            }
            Some(Goal::Delete) => out.unsigned(4),
        }
        out.unsigned(account.epoch);
        out.signed(account.since);
        match &account.login {
            None => out.unsigned(0),
            Some(login) => {
                out.unsigned(1);
                out.string(&login.terminal);
                out.unsigned(login.epoch);
                out.signed(login.until);
            }
        }
        out.unsigned(account.month.into());
        out.unsigned(account.used);
        out.unsigned(account.past.len() as u64);
        for &(month, used) in &account.past {
            out.unsigned(month.into());
            out.unsigned(used);
        }
        let reports = account.reports.as_ref().map_or(&[][..], |reports| &reports.totals);
        out.unsigned(reports.len() as u64);
        for &(epoch, total) in reports {
            out.unsigned(epoch);
            out.unsigned(total);
        }
        out.signed(account.moved.0.into());
        out.unsigned(account.moved.1.into());
        out.unsigned(account.history.len() as u64);
        for stay in &account.history {
            out.unsigned(stay.epoch);
            out.string(&stay.module);
            out.string(&stay.instance);
            out.signed(stay.from);
            out.unsigned(stay.to.is_some().into());
            stay.to.into_iter().for_each(|to| out.signed(to));
        }
    }

    /// Decodes a book.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        let version = reader.unsigned()?;
        ensure((OLDEST..=VERSION).contains(&version), "the version of the encoding is unknown")?;
        let applied = reader.reached()?;
        let mut book = Self::open(reader.field()?, applied);
        if version > OLDEST {
            book.policy = reader.field()?;
        }
        book.term = reader.count()?;
        book.leader = reader.optional_identifier()?;
        ensure(book.term == 0 || book.leader.is_some(), "a claimed term has no leader")?;
        book.last_epoch = reader.count()?;
        book.month = reader.number()?;
        ensure(book.month <= LAST_MONTH, "a month is out of range")?;
        let starts = reader.unsigned()?;
        let fits = starts <= (MONTHS + 1) as u64 && starts <= u64::from(book.month) + 1;
        ensure(starts > 0 && fits, "there are too many months, or none")?;
        book.month_starts.clear();
        for _ in 0..starts {
            book.month_starts.push(reader.time()?);
        }
        book.arrivals = reader.count()?;
        for _ in 0..reader.unsigned()? {
            book.decode_module(&mut reader, version)?;
        }
        let mut tariffs: Vec<Tariff> = Vec::new();
        for _ in 0..reader.unsigned()? {
            let tariff = reader.field()?;
            ensure(tariffs.last().is_none_or(|last| *last < tariff), "the tariffs are not in order")?;
            tariffs.push(tariff);
        }
        let mut last: Option<Vec<u8>> = None;
        for _ in 0..reader.unsigned()? {
            let account = book.decode_account(&mut reader, &tariffs, version)?;
            ensure(last.is_none_or(|last| *last < account.name[..]), "the accounts are not in order")?;
            last = Some(account.name.to_vec());
            let login = account.login.as_ref().map(|login| login.until);
            let id = book.enter(account);
            login.into_iter().for_each(|until| book.logins.set(id, until));
        }
        reader.finish()?;
        for id in book.module_names.values().copied().collect::<Vec<_>>() {
            book.look_at(id);
        }
        ensure(book.tariffs.len() == tariffs.len(), "no account has a tariff of the list")?;
        let empty = |instance: &Instance| {
            instance.presence == Presence::Leaving && instance.accounts.is_empty() && instance.incoming == 0
        };
        ensure(
            !book.instances.iter().any(|(_, instance)| empty(instance)),
            "an instance that is leaving has no accounts",
        )?;
        Ok(book)
    }

    fn decode_module(&mut self, reader: &mut Reader<'_>, version: u64) -> Result<(), Damaged> {
        let (module, department) = (reader.field::<Name>()?, reader.field::<Name>()?);
        let rises = self.module_names.last_key_value().is_none_or(|(last, _)| *last < module);
        ensure(rises, "the modules are not in order")?;
        let department = self.department_name(&department);
        let mut known = Module::new(module.clone(), department);
        (known.places, known.weight, known.reserve) = (reader.number()?, reader.number()?, reader.number()?);
        let fits =
            [known.places, known.weight, known.reserve].into_iter().all(|n| i64::from(n) <= MAX_PLACES);
        ensure(fits, "a module's number is out of range")?;
        if version > OLDEST {
            known.policy = reader.field()?;
        }
        let id = self.modules.insert(known);
        self.module_names.insert(module, id);
        let mut last = 0;
        for _ in 0..reader.unsigned()? {
            let instance = decode_instance(reader, id, version)?;
            let rises = instance.arrived > last && instance.arrived <= self.arrivals;
            ensure(rises, "the instances are not in order")?;
            last = instance.arrived;
            ensure(self.find_instance(id, &instance.name).is_none(), "an instance is listed twice")?;
            let until = instance.away_until;
            let instance = self.enter_instance(instance);
            until.into_iter().for_each(|until| self.away.set(instance, until));
        }
        Ok(())
    }

    fn decode_place(&self, reader: &mut Reader<'_>) -> Result<u32, Damaged> {
        if reader.unsigned()? == 0 {
            return Ok(NONE);
        }
        let (module, instance) = (reader.identifier()?, reader.identifier()?);
        self.find_place(&module, &instance).ok_or(Damaged("an instance is not there"))
    }

    fn decode_known_module(&self, reader: &mut Reader<'_>) -> Result<u32, Damaged> {
        self.find_module(&reader.identifier()?).ok_or(Damaged("a module is not there"))
    }

    fn decode_account(
        &mut self,
        reader: &mut Reader<'_>,
        tariffs: &[Tariff],
        version: u64,
    ) -> Result<Account, Damaged> {
        let account = reader.identifier()?;
        let module = self.decode_known_module(reader)?;
        let tariff = tariffs.get(reader.unsigned()? as usize).ok_or(Damaged("a tariff is not there"))?;
        let tariff = self.shared_tariff(tariff);
        let mut account = Account::new(account, module, tariff, self.month, 0);
        account.state = reader.field()?;
        account.instance = self.decode_place(reader)?;
        account.goal = match reader.unsigned()? {
            0 => None,
            1 => Some(Goal::Reassign),
            2 => Some(Goal::Place(self.decode_place(reader)?)),
            3 => Some(Goal::Module(self.decode_known_module(reader)?)),
            4 => Some(Goal::Delete),
            _ => return Err(Damaged("a goal is unknown")),
        };
        account.epoch = reader.count()?;
        account.since = reader.time()?;
        if reader.unsigned()? != 0 {
            let terminal = reader.identifier()?;
            let login = Login { terminal, epoch: reader.count()?, until: reader.time()? };
            ensure(login.epoch <= self.last_epoch, "an epoch was not given out")?;
            account.login = Some(Box::new(login));
        }
        self.decode_use(reader, &mut account)?;
        if version > OLDEST {
            account.reports = decode_reports(reader)?;
        }
        account.moved =
            (reader.signed()?.try_into().map_err(|_| Damaged("a day is out of range"))?, reader.number()?);
        self.decode_history(reader, &mut account)?;
        self.check_account(&account)?;
        Ok(account)
    }

    fn decode_use(&self, reader: &mut Reader<'_>, account: &mut Account) -> Result<(), Damaged> {
        account.month = reader.number()?;
        account.used = reader.unsigned()?;
        let past = reader.unsigned()?;
        ensure(
            account.month <= self.month && past <= MONTHS as u64,
            "the month of an account is after that of the book",
        )?;
        for _ in 0..past {
            let (month, used) = (reader.number()?, reader.unsigned()?);
            let rises = account.past.last().is_none_or(|&(last, _)| last < month) && month < account.month;
            ensure(rises && used <= MAX_COUNT, "the months of an account are not in order")?;
            account.past.push((month, used));
        }
        ensure(account.used <= MAX_COUNT, "a count is out of range")
    }

    fn decode_history(&self, reader: &mut Reader<'_>, account: &mut Account) -> Result<(), Damaged> {
        let stays = reader.unsigned()?;
        ensure(stays <= MAX_HISTORY as u64, "an account has too long a history")?;
        for place in 0..stays {
            let epoch = reader.count()?;
            let known = |name: Name, same: Option<Name>| same.filter(|same| *same == name).unwrap_or(name);
            let module = reader.field::<Name>()?;
            let module_id = self.find_module(&module);
            let module = known(module, module_id.map(|id| self.module_name(id)));
            let instance = reader.field::<Name>()?;
            let shared = module_id.and_then(|id| self.find_instance(id, &instance));
            let instance = known(instance, shared.map(|id| self.instance_name(id)));
            let from = reader.time()?;
            let to = if reader.unsigned()? == 0 { None } else { Some(reader.time()?) };
            let rises =
                account.history.last().is_none_or(|last| last.epoch < epoch) && epoch <= self.last_epoch;
            ensure(rises, "the epochs of a history do not increase")?;
            ensure(to.is_some() || place + 1 == stays, "a stay before the last one has not ended")?;
            account.history.push(Stay { epoch, module, instance, from, to });
        }
        Ok(())
    }
}

fn decode_reports(reader: &mut Reader<'_>) -> Result<Option<Box<Reports>>, Damaged> {
    let count = reader.unsigned()?;
    ensure(count <= MAX_REPORTS as u64, "an account has too many reports")?;
    let mut totals: Vec<(Epoch, u64)> = Vec::new();
    for _ in 0..count {
        let (epoch, total) = (reader.count()?, reader.unsigned()?);
        let rises = totals.last().is_none_or(|&(last, _)| last < epoch);
        ensure(rises && total <= MAX_COUNT, "the reports of an account are not in order")?;
        totals.push((epoch, total));
    }
    Ok((!totals.is_empty()).then(|| Box::new(Reports { totals })))
}

fn encode_instance(instance: &Instance, out: &mut Writer) {
    out.unsigned(instance.arrived);
    out.string(&instance.name);
    out.field(&instance.presence);
    if let Some(until) = instance.away_until {
        out.signed(until);
    }
    out.signed(instance.since);
    out.signed(instance.offset);
    out.signed(instance.pace.hour);
    out.signed(instance.pace.begun);
    instance.pace.buckets.iter().for_each(|&count| out.unsigned(count));
    out.unsigned(instance.pace.month);
    out.unsigned(instance.pace.last_month.is_some().into());
    if let Some((used, span)) = instance.pace.last_month {
        out.unsigned(used);
        out.signed(span);
    }
}

fn decode_instance(reader: &mut Reader<'_>, module: u32, version: u64) -> Result<Instance, Damaged> {
    let arrived = reader.unsigned()?;
    let name = reader.field::<Name>()?;
    let presence: Presence = reader.field()?;
    let away_until: Option<Millis> = if presence == Presence::Away { Some(reader.time()?) } else { None };
    let (since, offset) = (reader.time()?, reader.signed()?);
    ensure((-MAX_OFFSET..=MAX_OFFSET).contains(&offset), "an offset is out of range")?;
    ensure(
        offset == 0 || matches!(presence, Presence::Active | Presence::Away),
        "an instance without a place has an offset",
    )?;
    let hour = reader.time()?;
    // The oldest version has the hour in which counting began.
    let begun = if version > OLDEST { reader.time()? } else { reader.time()?.saturating_mul(HOUR) };
    ensure(begun / HOUR <= hour && hour <= MAX_HOUR, "the hours of an instance are out of range")?;
    let mut buckets = [0; WINDOW];
    for bucket in &mut buckets {
        *bucket = reader.unsigned()?;
    }
    let mut instance = Instance::new(name, module, presence, arrived, since);
    (instance.away_until, instance.offset) = (away_until, offset);
    let (mut month, mut last_month) = (0, None);
    if version > OLDEST {
        month = reader.unsigned()?;
        if reader.unsigned()? != 0 {
            last_month = Some((reader.unsigned()?, reader.time()?));
        }
        let counts = [month, last_month.map_or(0, |(used, _)| used)];
        ensure(counts.iter().all(|&count| count <= MAX_COUNT), "the use of an instance is out of range")?;
    }
    instance.pace = Pace { hour, begun, buckets, month, last_month };
    Ok(instance)
}
