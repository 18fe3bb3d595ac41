//! The data of one server. A master decides what a command writes; the writes change its data and, later, those of its
//! replica. Of a realm or a book, a replica gets the encoded events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use allot_core::account::Book;
use allot_core::conf::messages::{EVENTS, HANG_UPS, INFO, command_stream};
use allot_core::conf::{Event, Realm};
use allot_core::shared::codec::Writer;
use allot_core::shared::machine::{Machine, MachineEvent as _};
use allot_core::shared::outbox::{Outbox, SENT_AT_ONCE, Sent};
use allot_core::shared::payload::{self, Payload};
use allot_core::shared::refusal::{Code, Refusal};

use super::command::{Fields, Word};
use super::stream::{Id, Stream};
use crate::invariants::Touched;

/// The most elements of one slice of the timer, as in the module.
const TIMER_SLICE: usize = 500;
/// Interval of trimming, age of entries, longest age of unread entries, and how long ago a live reader was seen; in
/// milliseconds, as in the module.
const TRIM_EVERY_MS: i64 = 5_000;
const TRIM_AGE_MS: i64 = 600_000;
const TRIM_LONGEST_MS: i64 = 3_600_000;
const TRIM_LIVE_MS: i64 = 300_000;

/// Bytes of the events of a usual step.
const USUAL_PAYLOAD: usize = 128;

type Key = Word;

/// The families of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Realm,
    Book,
}

/// A family whose values the servers have.
pub(super) trait Family: Machine {
    const KIND: Kind;

    /// The values of a server.
    fn values(database: &mut Database) -> &mut BTreeMap<Key, Self> {
        Self::parts(database).0
    }

    /// The values of a server, and its streams.
    fn parts(database: &mut Database) -> (&mut BTreeMap<Key, Self>, &mut HashMap<Key, Stream>);

    /// Notes what an event changes.
    fn note(_touched: &mut Touched, _event: &Self::Event) {}
}

impl Family for Realm {
    const KIND: Kind = Kind::Realm;

    fn parts(database: &mut Database) -> (&mut BTreeMap<Key, Self>, &mut HashMap<Key, Stream>) {
        (&mut database.realms, &mut database.streams)
    }

    fn note(touched: &mut Touched, event: &Event) {
        touched.add(event);
    }
}

impl Family for Book {
    const KIND: Kind = Kind::Book;

    fn parts(database: &mut Database) -> (&mut BTreeMap<Key, Self>, &mut HashMap<Key, Stream>) {
        (&mut database.books, &mut database.streams)
    }
}

/// A change of one key.
#[derive(Debug, Clone)]
pub(super) enum Write {
    /// Events of a value, encoded as the module replicates them.
    Events {
        key: Key,
        kind: Kind,
        payload: Arc<[u8]>,
        touched: Touched,
    },
    Add {
        key: Key,
        id: Id,
        fields: Fields,
    },
    Trim {
        key: Key,
        before: Id,
    },
    CreateGroup {
        key: Key,
        group: Word,
        from: Id,
    },
    RemoveConsumer {
        key: Key,
        group: Word,
        consumer: Word,
    },
    Deliver {
        key: Key,
        group: Word,
        consumer: Word,
        ids: Vec<Id>,
        now: i64,
    },
    Acknowledge {
        key: Key,
        group: Word,
        ids: Vec<Id>,
    },
    SetHash {
        key: Key,
        fields: Vec<(Word, Word)>,
    },
    ExpireHash {
        key: Key,
        at: i64,
    },
    DeleteHash {
        key: Key,
    },
}

#[derive(Debug, Clone, Default)]
pub(super) struct Hash {
    pub(super) fields: BTreeMap<Word, Word>,
    /// In milliseconds since 1970.
    expires: Option<i64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Database {
    pub(super) realms: BTreeMap<Key, Realm>,
    pub(super) books: BTreeMap<Key, Book>,
    pub(super) streams: HashMap<Key, Stream>,
    hashes: BTreeMap<Key, Hash>,
    /// When the streams of the realms are trimmed next.
    trim_at: i64,
}

impl Database {
    /// Carries out a write, as a master does with a write of its own, and a replica with one of its master.
    pub(super) fn apply(&mut self, write: &Write) {
        match write {
            Write::Events { key, kind: Kind::Realm, payload, .. } => {
                self.apply_events::<Realm>(key, payload);
            }
            Write::Events { key, kind: Kind::Book, payload, .. } => self.apply_events::<Book>(key, payload),
            Write::Add { key, id, fields } => {
                self.streams.entry(key.clone()).or_default().add(*id, fields.clone());
            }
            Write::Trim { key, before } => self.streams.entry(key.clone()).or_default().trim(*before),
            Write::CreateGroup { key, group, from } => {
                let stream = self.streams.entry(key.clone()).or_default();
                stream.groups.entry(group.clone()).or_default().delivered = *from;
            }
            Write::RemoveConsumer { key, group, consumer } => {
                if let Some(group) = self.streams.entry(key.clone()).or_default().groups.get_mut(group) {
                    group.consumers.remove(consumer);
                    group.pending.retain(|_, pending| pending.consumer != *consumer);
                }
            }
            Write::Deliver { key, group, consumer, ids, now } => {
                if let Some(group) = self.streams.entry(key.clone()).or_default().groups.get_mut(group) {
                    group.deliver(consumer, ids, *now);
                }
            }
            Write::Acknowledge { key, group, ids } => {
                if let Some(group) = self.streams.entry(key.clone()).or_default().groups.get_mut(group) {
                    ids.iter().for_each(|id| drop(group.pending.remove(id)));
                }
            }
            Write::SetHash { key, fields } => {
                self.hashes.entry(key.clone()).or_default().fields.extend(fields.iter().cloned());
            }
            Write::ExpireHash { key, at } => {
                if let Some(hash) = self.hashes.get_mut(key) {
                    hash.expires = Some(*at);
                }
            }
            Write::DeleteHash { key } => {
                self.hashes.remove(key);
            }
        }
    }

    /// The events of a master, as `CONF.APPLY` carries them.
    fn apply_events<F: Family>(&mut self, key: &Key, payload: &[u8]) {
        let Payload::Events { at, events } = Payload::read(key, payload).unwrap() else {
            unreachable!("a master sends a whole state only to a new replica")
        };
        let mut events = F::Event::decode_all(events).unwrap().into_iter();
        let values = F::values(self);
        if !values.contains_key(key) {
            let opened = F::open(&events.next().unwrap(), at).unwrap().unwrap();
            values.insert(key.clone(), opened);
        }
        let value = values.get_mut(key).unwrap();
        for event in events {
            value.admits(&event).unwrap();
            value.apply(at, &event);
        }
    }

    /// A hash that has not expired.
    pub(super) fn hash(&self, key: &[u8], now: i64) -> Option<&Hash> {
        self.hashes.get(key).filter(|hash| hash.expires.is_none_or(|at| at > now))
    }

    /// Creates a value by its first event.
    pub(super) fn open<F: Family>(&mut self, key: &Key, event: &F::Event, clock: i64, log: &mut Vec<Write>) {
        let mut payload = payload_at(clock);
        event.encode(&mut payload);
        let write = write_of::<F>(key, payload, Touched::default());
        self.apply(&write);
        log.push(write);
    }

    /// Answers a request, as the module's engine does. What was due stays done if the request is refused.
    pub(super) fn answer<F: Family, T>(
        &mut self,
        key: &Key,
        clock: i64,
        log: &mut Vec<Write>,
        request: &F::Request<'_>,
        render: impl FnOnce(&F, i64, &F::Reply) -> T,
    ) -> Result<T, Refusal> {
        let mut step = self.step::<F>(key, clock)?;
        step.apply_due(F::DUE_AT_ONCE);
        let work = step.state.work_with(request);
        step.state.prepare(request);
        let decided = step.state.decide_or_try_again(step.now, request).map(|decision| {
            decision.events.iter().for_each(|event| step.apply(event));
            if work > 0 {
                step.continue_work(work);
            }
            render(step.state, step.now, &decision.reply)
        });
        step.finish(log);
        decided
    }

    /// What the module's timer does for all values.
    pub(super) fn tick(&mut self, clock: i64, log: &mut Vec<Write>) {
        let books: Vec<Key> = self.books.keys().cloned().collect();
        books.iter().for_each(|key| self.tick_one::<Book>(key, clock, log));
        let realms: Vec<Key> = self.realms.keys().cloned().collect();
        realms.iter().for_each(|key| self.tick_one::<Realm>(key, clock, log));
        if clock >= self.trim_at {
            self.trim_at = clock + TRIM_EVERY_MS;
            realms.iter().for_each(|key| self.trim(key, clock, log));
        }
    }

    fn tick_one<F: Family>(&mut self, key: &Key, clock: i64, log: &mut Vec<Write>) {
        let Ok(mut step) = self.step::<F>(key, clock) else { return };
        step.apply_due(TIMER_SLICE);
        step.continue_work(TIMER_SLICE);
        step.finish(log);
    }

    /// When the timer must look at the values next.
    pub(super) fn wake_at(&self) -> Option<i64> {
        fn next<F: Family>(value: &F) -> Option<i64> {
            let unsent = (!value.outbox().is_empty()).then_some(0);
            [value.next_due(), unsent].into_iter().flatten().min()
        }
        let trim = (!self.realms.is_empty()).then_some(self.trim_at);
        self.realms.values().filter_map(next).chain(self.books.values().filter_map(next)).chain(trim).min()
    }

    /// Trims the streams of a realm by age, as the module does.
    fn trim(&mut self, key: &Key, clock: i64, log: &mut Vec<Write>) {
        let Some(realm) = self.realms.get(key) else { return };
        let units = realm.units().map(|unit| command_stream(&unit.cmu));
        let names: Vec<Vec<u8>> = [EVENTS.to_vec(), INFO.to_vec()].into_iter().chain(units).collect();
        let mut missed = Vec::new();
        for name in names {
            let stream_key = Key::from([&key[..], b":", &name].concat());
            let Some(stream) = self.streams.get(&stream_key) else { continue };
            let aged = ((clock - TRIM_AGE_MS) as u64, 0);
            let limit = ((clock - TRIM_LONGEST_MS) as u64, 0);
            if stream.first().is_none_or(|first| first >= aged) {
                continue;
            }
            let keep = stream.needed(clock - TRIM_LIVE_MS).map_or(aged, |needed| needed.min(aged));
            if keep < limit {
                missed.push(name);
            }
            let write = Write::Trim { key: stream_key, before: keep.max(limit) };
            self.apply(&write);
            log.push(write);
        }
        if missed.is_empty() {
            return;
        }
        let Ok(mut step) = self.step::<Realm>(key, clock) else { return };
        missed.into_iter().for_each(|stream| step.apply(&Event::Missed { stream }));
        step.finish(log);
    }

    fn step<F: Family>(&mut self, key: &Key, clock: i64) -> Result<Step<'_, F>, Refusal> {
        let (values, streams) = F::parts(self);
        let Some(state) = values.get_mut(key) else {
            return Err(Refusal::new(Code::NoKey, format!("there is no key '{}'", key.escape_ascii())));
        };
        let now = state.now(clock);
        Ok(Step {
            state,
            streams,
            key: key.clone(),
            now,
            payload: payload_at(now),
            to_send: SENT_AT_ONCE,
            messages: Vec::new(),
            changed: false,
            touched: Touched::default(),
        })
    }
}

/// The beginning of a payload of events of this time.
fn payload_at(now: i64) -> Writer {
    let mut payload = Writer { bytes: Vec::with_capacity(USUAL_PAYLOAD) };
    payload::begin_events(now, &mut payload);
    payload
}

/// The write of the events in a payload.
fn write_of<F: Family>(key: &Key, mut payload: Writer, touched: Touched) -> Write {
    payload::seal(key, &mut payload);
    Write::Events { key: key.clone(), kind: F::KIND, payload: payload.bytes.into(), touched }
}

/// One step of a value, as the module's engine takes it.
pub(super) struct Step<'a, F> {
    pub(super) state: &'a mut F,
    streams: &'a mut HashMap<Key, Stream>,
    key: Key,
    now: i64,
    payload: Writer,
    to_send: usize,
    /// Entries that were added to streams.
    messages: Vec<Write>,
    changed: bool,
    touched: Touched,
}

impl<F: Family> Step<'_, F> {
    pub(super) fn apply(&mut self, event: &F::Event) {
        self.state.apply(self.now, event);
        event.encode(&mut self.payload);
        self.changed = true;
        F::note(&mut self.touched, event);
    }

    fn apply_due(&mut self, limit: usize) {
        for event in self.state.due(self.now, limit) {
            self.apply(&event);
        }
    }

    fn continue_work(&mut self, limit: usize) {
        for event in self.state.continue_work(self.now, limit) {
            self.apply(&event);
        }
    }

    /// Moves messages from the outbox to their streams.
    fn flush(&mut self) {
        let outbox = self.state.outbox();
        let (mut last, mut streams) = (outbox.last_id, Vec::new());
        for (name, waiting) in outbox.lanes() {
            let mut count = 0;
            let key = Key::from([&self.key, &b":"[..], name].concat());
            let stream = self.streams.entry(key.clone()).or_default();
            for message in waiting.take(self.to_send) {
                count += 1;
                // No pools of numbers are simulated.
                if name == HANG_UPS {
                    continue;
                }
                let mut id = Outbox::next_id(last, self.now);
                if id > stream.last {
                    last = id;
                } else {
                    id = Outbox::next_id(stream.last, 0);
                }
                let fields = Fields::new(message.iter());
                stream.add(id, fields.clone());
                self.messages.push(Write::Add { key: key.clone(), id, fields });
            }
            self.to_send -= count as usize;
            if count > 0 {
                streams.push((name.to_vec(), count));
            }
        }
        if streams.is_empty() {
            return;
        }
        let event = F::flushed(Sent { streams, last_id: last });
        self.state.apply(self.now, &event);
        event.encode(&mut self.payload);
        self.changed = true;
    }

    fn finish(mut self, log: &mut Vec<Write>) {
        self.flush();
        log.append(&mut self.messages);
        if self.changed {
            // Most commands write once.
            log.reserve_exact(1);
            log.push(write_of::<F>(&self.key, self.payload, self.touched));
        }
    }
}
