//! The small world as bytes: equal worlds have equal bytes.

use super::unit::{Copy, End, Epoch, Report, Told, Unit, WORDS};
use super::world::{Budget, Redis, Small, Truth};
use allot_core::conf::Realm;
use allot_core::shared::codec::{Reader, Writer};
use std::rc::Rc;

impl Redis {
    fn encode(&self, out: &mut Writer) {
        out.string(&self.realm.encode());
        for unit in 0..2 {
            out.unsigned(self.streams[unit].len() as u64);
            for told in &self.streams[unit] {
                let (kind, e164, epoch, more) = match *told {
                    Told::Create { e164, epoch } => (0, e164, epoch, 0),
                    Told::Epoch { e164, epoch, old } => (1, e164, epoch, old),
                    Told::Release { e164, epoch, over } => (2, e164, epoch, over.into()),
                    Told::List => (3, 0, 0, 0),
                };
                write(out, &[kind, e164 as u32, epoch, more]);
            }
            rows(out, &self.disowned[unit]);
            write(out, &[self.over[unit].into(), self.adopted[unit]]);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Self {
        let realm = Realm::decode(reader.string().unwrap()).expect("what was encoded is decoded");
        let (streams, disowned) = (Default::default(), Default::default());
        let mut redis = Self { realm: Rc::new(realm), streams, disowned, over: [false; 2], adopted: [0; 2] };
        for unit in 0..2 {
            for _ in 0..reader.unsigned().unwrap() {
                let [kind, e164, epoch, more] = read(reader);
                let e164 = e164 as usize;
                redis.streams[unit].push(match kind {
                    0 => Told::Create { e164, epoch },
                    1 => Told::Epoch { e164, epoch, old: more },
                    2 => Told::Release { e164, epoch, over: more == 1 },
                    _ => Told::List,
                });
            }
            redis.disowned[unit] = read_rows(reader);
            let [over, adopted] = read(reader);
            (redis.over[unit], redis.adopted[unit]) = (over == 1, adopted);
        }
        redis
    }
}

impl Budget {
    fn all(&mut self) -> [&mut u8; 11] {
        let Self { takeovers, moves, downs, refusals, failures, releases, delays, .. } = self;
        let Self { timeouts, successors, repeats, schedules, .. } = self;
        [
            takeovers, moves, downs, refusals, failures, releases, delays, timeouts, successors, repeats,
            schedules,
        ]
    }
}

fn write(out: &mut Writer, values: &[u32]) {
    values.iter().for_each(|&value| out.unsigned(value.into()));
}

fn read<const N: usize>(reader: &mut Reader<'_>) -> [u32; N] {
    std::array::from_fn(|_| reader.unsigned().unwrap() as u32)
}

fn rows(out: &mut Writer, rows: &[(usize, Epoch)]) {
    write(out, &[rows.len() as u32]);
    rows.iter().for_each(|&(e164, epoch)| write(out, &[e164 as u32, epoch]));
}

fn read_rows(reader: &mut Reader<'_>) -> Vec<(usize, Epoch)> {
    let [count] = read(reader);
    (0..count).map(|_| read(reader)).map(|[e164, epoch]| (e164 as usize, epoch)).collect()
}

impl Unit {
    fn encode(&self, out: &mut Writer) {
        for copy in &self.copies {
            let epochs = copy.as_ref().map_or(&[][..], |copy| &copy.epochs);
            let is_open = copy.as_ref().is_some_and(|copy| copy.open);
            write(out, &[u32::from(is_open), epochs.len() as u32]);
            write(out, epochs);
        }
        write(out, &[self.highest, self.has_session.into(), self.ends.len() as u32]);
        self.ends.iter().for_each(|end| write(out, &[end.e164 as u32, end.epoch, end.created]));
        write(out, &[self.words.len() as u32]);
        for &(word, e164, epoch) in &self.words {
            write(out, &[word as u32, e164 as u32, epoch]);
        }
        write(out, &[self.late.is_some().into()]);
        if let Some(report) = &self.late {
            write(out, &[report.highest]);
            [&report.ended, &report.starting, &report.open].into_iter().for_each(|list| rows(out, list));
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Self {
        let copies = std::array::from_fn(|_| {
            let [is_open, count] = read(reader);
            let epochs: Vec<Epoch> = (0..count).map(|_| read(reader)).map(|[epoch]| epoch).collect();
            (count > 0).then_some(Copy { epochs, open: is_open == 1 })
        });
        let [highest, has_session, count] = read(reader);
        let ends = (0..count).map(|_| read(reader));
        let ends = ends.map(|[e164, epoch, created]| End { e164: e164 as usize, epoch, created }).collect();
        let [count] = read(reader);
        let words = (0..count).map(|_| read(reader));
        let words = words.map(|[word, e164, epoch]| (WORDS[word as usize], e164 as usize, epoch)).collect();
        let [is_late] = read(reader);
        let late = (is_late == 1).then(|| {
            let [highest] = read(reader);
            let (ended, starting, open) = (read_rows(reader), read_rows(reader), read_rows(reader));
            Report { highest, ended, starting, open }
        });
        Self { copies, highest, ends, words, late, has_session: has_session == 1 }
    }
}

impl Small {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut writer = Writer { bytes: std::mem::take(out) };
        let mut budget = self.budget;
        for left in budget.all() {
            writer.unsigned((*left).into());
        }
        write(&mut writer, &[self.era.into(), self.term.into(), self.given, self.replica.is_some().into()]);
        for truth in &self.truths {
            let Truth { created, opened, ended, wrote, released } = *truth;
            write(&mut writer, &[created, opened, ended, wrote, released.into()]);
        }
        self.units.iter().for_each(|unit| unit.encode(&mut writer));
        self.redis.encode(&mut writer);
        self.replica.iter().for_each(|replica| replica.encode(&mut writer));
        *out = writer.bytes;
    }

    pub(crate) fn read_from(bytes: &[u8]) -> Self {
        let mut reader = Reader::new(bytes);
        let mut budget = Budget::default();
        for left in budget.all() {
            *left = reader.unsigned().unwrap() as u8;
        }
        let [era, term, given, lags] = read(&mut reader);
        let truths = std::array::from_fn(|_| {
            let [created, opened, ended, wrote, released] = read(&mut reader);
            Truth { created, opened, ended, wrote, released: released == 1 }
        });
        let units = std::array::from_fn(|_| Unit::decode(&mut reader));
        let redis = Redis::decode(&mut reader);
        let replica = (lags == 1).then(|| Redis::decode(&mut reader));
        let (era, term) = (era as u8, term as u8);
        Self { redis, replica, units, truths, era, term, given, budget, wrong: None }
    }
}
