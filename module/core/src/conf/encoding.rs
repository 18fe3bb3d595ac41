//! Events as bytes (docs/replication.md). The first is the kind, which never changes meaning.

use super::event::{Created, Event, Events};
use super::model::conference::{CalledFrom, Cause};
use super::model::state::{Policy, Settings};
use super::model::unit::{Name, Standing};
use crate::shared::Bytes;
use crate::shared::codec::{Damaged, Reader, Writer};

impl Settings {
    pub(super) fn encode(&self, out: &mut Writer) {
        out.unsigned(self.licences);
        out.signed(self.retry);
        out.signed(self.window);
        out.unsigned(self.policy as u64);
        out.signed(self.create_timeout);
        out.signed(self.release_timeout);
        out.signed(self.wait_timeout);
        out.signed(self.tombstone);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let settings = Self {
            licences: reader.count()?,
            retry: reader.time()?,
            window: reader.time()?,
            policy: match reader.unsigned()? {
                0 => Policy::Earliest,
                1 => Policy::Keep,
                _ => return Err(Damaged("a policy is unknown")),
            },
            create_timeout: reader.time()?,
            release_timeout: reader.time()?,
            wait_timeout: reader.time()?,
            tombstone: reader.time()?,
        };
        if settings.check().is_err() {
            return Err(Damaged("a setting is out of range"));
        }
        Ok(settings)
    }
}

/// The variant with that number.
pub(super) fn numbered<T: Copy>(all: &[T], reader: &mut Reader<'_>) -> Result<T, Damaged> {
    let number = reader.unsigned()?;
    usize::try_from(number).ok().and_then(|at| all.get(at)).copied().ok_or(Damaged("a word is unknown"))
}

pub(super) fn flag(reader: &mut Reader<'_>) -> Result<bool, Damaged> {
    match reader.unsigned()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Damaged("a flag is neither set nor not")),
    }
}

pub(super) fn name(reader: &mut Reader<'_>) -> Result<Name, Damaged> {
    Ok(Name::from(&reader.identifier()?[..]))
}

pub(super) fn optional_name(reader: &mut Reader<'_>) -> Result<Option<Name>, Damaged> {
    Ok(reader.optional_identifier()?.map(|name| Name::from(&name[..])))
}

pub(super) fn optional_number(value: Option<i64>, out: &mut Writer) {
    match value {
        None => out.unsigned(0),
        Some(value) => {
            out.unsigned(1);
            out.signed(value);
        }
    }
}

pub(super) fn priority(reader: &mut Reader<'_>) -> Result<i32, Damaged> {
    i32::try_from(reader.signed()?).map_err(|_| Damaged("a priority is out of range"))
}

fn causes(out: &mut Writer, kind: u64, e164: &[u8], cause: Cause) {
    out.unsigned(kind);
    out.string(e164);
    out.unsigned(cause as u64);
}

impl Event {
    /// Appends the event's bytes.
    pub fn encode(&self, out: &mut Writer) {
        let named = |out: &mut Writer, kind: u64, name: &[u8]| {
            out.unsigned(kind);
            out.string(name);
        };
        match self {
            Self::Opened { settings } => {
                out.unsigned(1);
                settings.encode(out);
            }
            Self::Configured { settings } => {
                out.unsigned(2);
                settings.encode(out);
            }
            Self::Claimed { term, leader } => {
                named(out, 3, leader);
                out.unsigned(*term);
            }
            Self::Joined { cmu, capacity, zone, lease } => {
                named(out, 4, cmu);
                out.unsigned((*capacity).into());
                out.optional(zone.as_deref());
                out.signed(*lease);
            }
            Self::Beat { cmu, load } => {
                named(out, 5, cmu);
                optional_number(*load, out);
            }
            Self::Lapsed { cmu, to } => {
                named(out, 6, cmu);
                out.unsigned(*to as u64);
            }
            Self::Reported { cmu, highest } => {
                named(out, 7, cmu);
                out.unsigned(*highest);
            }
            Self::Asked { cmu, details } => {
                out.unsigned(8);
                out.optional(cmu.as_deref());
                out.unsigned((*details).into());
            }
            Self::Drained { cmu, on } => {
                named(out, 9, cmu);
                out.unsigned((*on).into());
            }
            Self::Down { cmu } => named(out, 10, cmu),
            Self::Forgotten { cmu } => named(out, 11, cmu),
            Self::Restarted { gone } => {
                out.unsigned(12);
                out.unsigned(gone.len() as u64);
                gone.iter().for_each(|cmu| out.string(cmu));
            }
            Self::Created(created) => {
                named(out, 13, &created.e164);
                out.string(&created.cmu);
                out.unsigned(created.epoch);
                optional_number(created.end, out);
                out.unsigned(created.size.into());
                out.unsigned(created.licences.into());
                out.signed(created.priority.into());
                out.optional(created.zone.as_deref());
                out.unsigned(created.recoverable.into());
                out.optional(created.request.as_deref());
                encode_called_from(created.called_from.as_ref(), out);
            }
            Self::Granted { e164, cmu, epoch } => {
                named(out, 14, e164);
                out.string(cmu);
                out.unsigned(*epoch);
            }
            Self::Acked { e164 } => named(out, 15, e164),
            Self::Failed { e164, cause, release, next_retry } => {
                causes(out, 16, e164, *cause);
                out.unsigned((*release).into());
                out.signed(*next_retry);
            }
            Self::Pending { e164, cause } => causes(out, 17, e164, *cause),
            Self::Ending { e164, cause } => causes(out, 18, e164, *cause),
            Self::Ended { e164, cause, release } => {
                causes(out, 19, e164, *cause);
                out.unsigned((*release).into());
            }
            Self::Adopted { e164, cmu, old, epoch } => {
                named(out, 20, e164);
                out.string(cmu);
                out.unsigned(*old);
                out.unsigned(*epoch);
            }
            Self::Moving { e164, to, epoch } => {
                named(out, 21, e164);
                out.string(to);
                out.unsigned(*epoch);
            }
            Self::Moved { e164 } => named(out, 22, e164),
            Self::MoveFailed { e164, cause, release } => {
                causes(out, 23, e164, *cause);
                out.unsigned((*release).into());
            }
            Self::EpochAgain { e164, old } => {
                named(out, 24, e164);
                out.unsigned(*old);
            }
            Self::Disowned { e164, cmu, epoch } => {
                named(out, 25, e164);
                out.string(cmu);
                out.unsigned(*epoch);
            }
            Self::AskedAgain { e164 } => named(out, 26, e164),
            Self::Extended { e164, end } => {
                named(out, 27, e164);
                out.signed(*end);
            }
            Self::Set { e164, seq, fields } => {
                named(out, 28, e164);
                out.unsigned(*seq);
                out.string(fields);
            }
            Self::Removed { e164 } => named(out, 29, e164),
            Self::Refused { e164, cmu, epoch, reason } => {
                named(out, 31, e164);
                out.string(cmu);
                out.unsigned(*epoch);
                out.string(reason);
            }
            Self::Missed { stream } => named(out, 32, stream),
            Self::Flushed { sent, last_id } => {
                out.unsigned(30);
                out.unsigned(sent.len() as u64);
                for (stream, count) in sent {
                    out.string(stream);
                    out.unsigned((*count).into());
                }
                out.unsigned(last_id.0);
                out.unsigned(last_id.1);
            }
        }
    }

    /// Reads one event.
    ///
    /// # Errors
    /// Bytes that no version up to this one writes.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let cause = |reader: &mut Reader<'_>| numbered(&Cause::ALL, reader);
        Ok(match reader.unsigned()? {
            1 => Self::Opened { settings: Settings::decode(reader)? },
            2 => Self::Configured { settings: Settings::decode(reader)? },
            3 => {
                let leader = reader.identifier()?;
                Self::Claimed { term: reader.count()?, leader }
            }
            4 => Self::Joined {
                cmu: name(reader)?,
                capacity: reader.number()?,
                zone: optional_name(reader)?,
                lease: reader.time()?,
            },
            5 => Self::Beat { cmu: name(reader)?, load: optional_signed(reader)? },
            6 => Self::Lapsed { cmu: name(reader)?, to: numbered(&Standing::ALL, reader)? },
            7 => Self::Reported { cmu: name(reader)?, highest: reader.count()? },
            8 => Self::Asked { cmu: optional_name(reader)?, details: flag(reader)? },
            9 => Self::Drained { cmu: name(reader)?, on: flag(reader)? },
            10 => Self::Down { cmu: name(reader)? },
            11 => Self::Forgotten { cmu: name(reader)? },
            12 => {
                let count = reader.unsigned()?;
                let mut gone = Vec::new();
                for _ in 0..count {
                    gone.push(name(reader)?);
                }
                Self::Restarted { gone }
            }
            13 => Self::Created(Box::new(Created {
                e164: reader.identifier()?,
                cmu: name(reader)?,
                epoch: reader.count()?,
                end: optional_time(reader)?,
                size: reader.number()?,
                licences: reader.number()?,
                priority: priority(reader)?,
                zone: optional_name(reader)?,
                recoverable: flag(reader)?,
                request: reader.optional_identifier()?,
                called_from: decode_called_from(reader)?,
            })),
            14 => Self::Granted { e164: reader.identifier()?, cmu: name(reader)?, epoch: reader.count()? },
            15 => Self::Acked { e164: reader.identifier()? },
            16 => Self::Failed {
                e164: reader.identifier()?,
                cause: cause(reader)?,
                release: flag(reader)?,
                next_retry: reader.time()?,
            },
            17 => Self::Pending { e164: reader.identifier()?, cause: cause(reader)? },
            18 => Self::Ending { e164: reader.identifier()?, cause: cause(reader)? },
            19 => Self::Ended { e164: reader.identifier()?, cause: cause(reader)?, release: flag(reader)? },
            20 => Self::Adopted {
                e164: reader.identifier()?,
                cmu: name(reader)?,
                old: reader.count()?,
                epoch: reader.count()?,
            },
            21 => Self::Moving { e164: reader.identifier()?, to: name(reader)?, epoch: reader.count()? },
            22 => Self::Moved { e164: reader.identifier()? },
            23 => {
                Self::MoveFailed { e164: reader.identifier()?, cause: cause(reader)?, release: flag(reader)? }
            }
            24 => Self::EpochAgain { e164: reader.identifier()?, old: reader.count()? },
            25 => Self::Disowned { e164: reader.identifier()?, cmu: name(reader)?, epoch: reader.count()? },
            26 => Self::AskedAgain { e164: reader.identifier()? },
            27 => Self::Extended { e164: reader.identifier()?, end: reader.time()? },
            28 => Self::Set {
                e164: reader.identifier()?,
                seq: reader.count()?,
                fields: reader.string()?.to_vec(),
            },
            29 => Self::Removed { e164: reader.identifier()? },
            30 => {
                let count = reader.unsigned()?;
                let mut sent: Vec<(Vec<u8>, u32)> = Vec::new();
                for _ in 0..count {
                    sent.push((reader.string()?.to_vec(), reader.number()?));
                }
                Self::Flushed { sent, last_id: (reader.unsigned()?, reader.unsigned()?) }
            }
            31 => Self::Refused {
                e164: reader.identifier()?,
                cmu: name(reader)?,
                epoch: reader.count()?,
                reason: reader.identifier()?,
            },
            32 => Self::Missed { stream: reader.string()?.to_vec() },
            _ => return Err(Damaged("the kind of event is unknown; was it written by a newer version?")),
        })
    }

    /// Reads the payload of `CONF.APPLY`.
    ///
    /// # Errors
    /// As `decode`.
    pub fn decode_all(payload: &[u8]) -> Result<Events, Damaged> {
        let mut reader = Reader::new(payload);
        let mut events = Events::new();
        while !reader.is_empty() {
            events.push(Self::decode(&mut reader)?);
        }
        Ok(events)
    }
}

pub(super) fn optional_signed(reader: &mut Reader<'_>) -> Result<Option<i64>, Damaged> {
    if flag(reader)? { Ok(Some(reader.signed()?)) } else { Ok(None) }
}

pub(super) fn optional_time(reader: &mut Reader<'_>) -> Result<Option<i64>, Damaged> {
    if flag(reader)? { Ok(Some(reader.time()?)) } else { Ok(None) }
}

/// Whether these bytes are fields and values, each of a size that may be.
pub(super) fn check_fields(bytes: &[u8]) -> Result<(), Damaged> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let _: Bytes = reader.identifier()?;
        if reader.string()?.len() > super::model::conference::MAX_VALUE {
            return Err(Damaged("a detail is too long"));
        }
    }
    Ok(())
}

/// Appends where a number was called.
pub(super) fn encode_called_from(from: Option<&CalledFrom>, out: &mut Writer) {
    out.optional(from.map(|from| &from.pool[..]));
    if let Some(from) = from {
        out.string(&from.lease);
    }
}

/// Reads where a number was called.
pub(super) fn decode_called_from(reader: &mut Reader<'_>) -> Result<Option<CalledFrom>, Damaged> {
    let Some(pool) = reader.optional_identifier()? else { return Ok(None) };
    Ok(Some(CalledFrom { pool, lease: reader.identifier()? }))
}
