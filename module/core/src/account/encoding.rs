//! Encoding of fields that several events share (docs/replication.md).

use super::model::place::Policy;
use super::model::state::{BookPolicy, Settings};
use super::model::tariff::{Amount, Step, Tariff};
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::field::Field;

pub(super) fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Damaged> {
    if holds { Ok(()) } else { Err(Damaged(otherwise)) }
}

impl Field for Settings {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.cap);
        out.signed(self.dwell);
        out.unsigned(self.max_moves.into());
        out.unsigned(self.turns.len() as u64);
        self.turns.iter().for_each(|&turn| out.signed(turn));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
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

impl Field for Policy {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.min.into());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let policy = Self { min: reader.number()? };
        ensure(policy.is_sound(), "a setting of a module is out of range")?;
        Ok(policy)
    }
}

impl Field for BookPolicy {
    fn encode(&self, out: &mut Writer) {
        out.field(&self.margin);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self { margin: reader.field()? })
    }
}

impl Field for Amount {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(u64::try_from(self.0).unwrap_or(u64::MAX));
    }

    /// A price: less than a billion.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let amount = Self(reader.unsigned()?.into());
        ensure(amount <= Self::MAX_PRICE, "a price is out of range")?;
        Ok(amount)
    }
}

impl Field for Tariff {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.quota);
        out.unsigned(self.steps.len() as u64);
        for step in &self.steps {
            out.unsigned(step.upto);
            out.unsigned(u64::try_from(step.price.0).unwrap_or(u64::MAX));
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let quota = reader.unsigned()?;
        let mut steps = Vec::new();
        for _ in 0..reader.unsigned()? {
            steps.push(Step { upto: reader.unsigned()?, price: Amount(reader.unsigned()?.into()) });
        }
        let tariff = Self { quota, steps };
        match tariff.fault() {
            None => Ok(tariff),
            Some(_) => Err(Damaged("a tariff is not valid")),
        }
    }
}
