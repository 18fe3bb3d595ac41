//! Events as bytes: what `ACCOUNT.APPLY` carries to replicas and the AOF.

use super::event::{Event, Events};
use super::model::record::Name;
use super::model::state::Settings;
use super::model::tariff::{Amount, Step, Tariff};
use crate::shared::Bytes;
use crate::shared::codec::{Damaged, Reader, Writer};

pub(super) fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Damaged> {
    if holds { Ok(()) } else { Err(Damaged(otherwise)) }
}

pub(super) fn name(reader: &mut Reader<'_>) -> Result<Name, Damaged> {
    Ok(Name::from(&reader.identifier()?[..]))
}

pub(super) fn flag(reader: &mut Reader<'_>) -> Result<bool, Damaged> {
    match reader.unsigned()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Damaged("a flag is neither set nor not")),
    }
}

impl Settings {
    pub(super) fn encode(&self, out: &mut Writer) {
        out.unsigned(self.cap);
        out.signed(self.dwell);
        out.unsigned(self.max_moves.into());
        out.unsigned(self.turns.len() as u64);
        self.turns.iter().for_each(|&turn| out.signed(turn));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (cap, dwell, max_moves) = (reader.unsigned()?, reader.time()?, reader.number()?);
        let mut turns = Vec::new();
        for _ in 0..reader.unsigned()? {
            turns.push(reader.time()?);
        }
        let settings = Self { cap, dwell, max_moves, turns };
        ensure(settings.is_sound(), "a setting is out of range")?;
        Ok(settings)
    }
}

impl Tariff {
    pub(super) fn encode(&self, out: &mut Writer) {
        out.unsigned(self.quota);
        out.unsigned(self.steps.len() as u64);
        for step in &self.steps {
            out.unsigned(step.upto);
            out.unsigned(u64::try_from(step.price.0).unwrap_or(u64::MAX));
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let quota = reader.unsigned()?;
        let mut steps = Vec::new();
        for _ in 0..reader.unsigned()? {
            steps.push(Step { upto: reader.unsigned()?, price: Amount(reader.unsigned()?.into()) });
        }
        let tariff = Self { quota, steps };
        match tariff.fault() {
            None => Ok(tariff),
            Some(_) => Err(Damaged("a tariff does not rise")),
        }
    }
}

fn write_names(names: &[Bytes], out: &mut Writer) {
    out.unsigned(names.len() as u64);
    names.iter().for_each(|name| out.string(name));
}

fn read_names(reader: &mut Reader<'_>) -> Result<Vec<Bytes>, Damaged> {
    let mut names = Vec::new();
    for _ in 0..reader.unsigned()? {
        names.push(reader.identifier()?);
    }
    Ok(names)
}

impl Event {
    /// Appends the event.
    pub fn encode(&self, out: &mut Writer) {
        let start = |out: &mut Writer, kind: u64, names: &[&[u8]]| {
            out.unsigned(kind);
            names.iter().for_each(|name| out.string(name));
        };
        match self {
            Self::Opened(settings) | Self::Configured(settings) => {
                out.unsigned(u64::from(matches!(self, Self::Configured(_))));
                settings.encode(out);
            }
            Self::Claimed { term, leader } => {
                start(out, 2, &[leader]);
                out.unsigned(*term);
            }
            Self::Defined { module, department, places, weight, reserve } => {
                start(out, 3, &[module, department]);
                [places, weight, reserve].into_iter().for_each(|&number| out.unsigned(number.into()));
            }
            Self::Added { module, tariff, accounts } => {
                start(out, 4, &[module]);
                tariff.encode(out);
                write_names(accounts, out);
            }
            Self::Deleted { accounts } => {
                start(out, 5, &[]);
                write_names(accounts, out);
            }
            Self::Rehomed { module, accounts } => {
                start(out, 6, &[module]);
                write_names(accounts, out);
            }
            Self::Frozen { account } => start(out, 7, &[account]),
            Self::Thawed { account } => start(out, 8, &[account]),
            Self::Attached { module, instance, active } => {
                start(out, 9, &[module, instance]);
                out.unsigned((*active).into());
            }
            Self::Placed { module, instance, active } => {
                start(out, 10, &[module, instance]);
                out.unsigned((*active).into());
            }
            Self::Away { module, instance, until } => {
                start(out, 11, &[module, instance]);
                out.signed(*until);
            }
            Self::Detached { module, instance } => start(out, 12, &[module, instance]),
            Self::Withdrawn { accounts } => {
                start(out, 13, &[]);
                write_names(accounts, out);
            }
            Self::Dealt { module, instance, accounts } => {
                start(out, 14, &[module, instance]);
                write_names(accounts, out);
            }
            Self::Recalled { module, instance, accounts } => {
                start(out, 15, &[module, instance]);
                write_names(accounts, out);
            }
            Self::Shifted { account, module, instance } => start(out, 16, &[account, module, instance]),
            Self::LoggedIn { account, terminal, until } => {
                start(out, 17, &[account, terminal]);
                out.signed(*until);
            }
            Self::Renewed { account, until } => {
                start(out, 18, &[account]);
                out.signed(*until);
            }
            Self::LoggedOut { account, lapsed } => {
                start(out, 19, &[account]);
                out.unsigned((*lapsed).into());
            }
            Self::Used { account, count } => {
                start(out, 20, &[account]);
                out.unsigned(*count);
            }
            Self::MonthTurned => start(out, 21, &[]),
            Self::Halted { account } => start(out, 22, &[account]),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(match reader.unsigned()? {
            0 => Self::Opened(Settings::decode(reader)?),
            1 => Self::Configured(Settings::decode(reader)?),
            2 => {
                let leader = reader.identifier()?;
                Self::Claimed { term: reader.count()?, leader }
            }
            3 => Self::Defined {
                module: name(reader)?,
                department: name(reader)?,
                places: reader.number()?,
                weight: reader.number()?,
                reserve: reader.number()?,
            },
            4 => Self::Added {
                module: name(reader)?,
                tariff: Tariff::decode(reader)?,
                accounts: read_names(reader)?,
            },
            5 => Self::Deleted { accounts: read_names(reader)? },
            6 => Self::Rehomed { module: name(reader)?, accounts: read_names(reader)? },
            7 => Self::Frozen { account: reader.identifier()? },
            8 => Self::Thawed { account: reader.identifier()? },
            9 => Self::Attached { module: name(reader)?, instance: name(reader)?, active: flag(reader)? },
            10 => Self::Placed { module: name(reader)?, instance: name(reader)?, active: flag(reader)? },
            11 => Self::Away { module: name(reader)?, instance: name(reader)?, until: reader.time()? },
            12 => Self::Detached { module: name(reader)?, instance: name(reader)? },
            13 => Self::Withdrawn { accounts: read_names(reader)? },
            14 => {
                Self::Dealt { module: name(reader)?, instance: name(reader)?, accounts: read_names(reader)? }
            }
            15 => Self::Recalled {
                module: name(reader)?,
                instance: name(reader)?,
                accounts: read_names(reader)?,
            },
            16 => Self::Shifted {
                account: reader.identifier()?,
                module: name(reader)?,
                instance: name(reader)?,
            },
            17 => Self::LoggedIn {
                account: reader.identifier()?,
                terminal: reader.identifier()?,
                until: reader.time()?,
            },
            18 => Self::Renewed { account: reader.identifier()?, until: reader.time()? },
            19 => Self::LoggedOut { account: reader.identifier()?, lapsed: flag(reader)? },
            20 => Self::Used { account: reader.identifier()?, count: reader.count()? },
            21 => Self::MonthTurned,
            22 => Self::Halted { account: reader.identifier()? },
            _ => return Err(Damaged("the kind of event is unknown; was it written by a newer version?")),
        })
    }

    /// Reads the payload of `ACCOUNT.APPLY`.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode_all(payload: &[u8]) -> Result<Events, Damaged> {
        let mut reader = Reader::new(payload);
        let mut events = Events::new();
        while !reader.is_empty() {
            events.push(Self::decode(&mut reader)?);
        }
        Ok(events)
    }
}
