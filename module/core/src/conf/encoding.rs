//! Encoding of fields that several events share (docs/replication.md).

use super::model::conference::CalledFrom;
use super::model::state::{Placement, Settings};
use crate::shared::Bytes;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::field::Field;

impl Field for Settings {
    fn encode(&self, out: &mut Writer) {
        out.unsigned(self.licences);
        out.signed(self.retry);
        out.signed(self.window);
        out.field(&self.policy);
        out.signed(self.create_timeout);
        out.signed(self.release_timeout);
        out.signed(self.wait_timeout);
        out.signed(self.tombstone);
        out.field(&self.placement);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let settings = Self::decode_first(reader)?;
        Ok(Self { placement: reader.field()?, ..settings })
    }
}

impl Settings {
    /// Decodes the settings that every version of the encoding has; the others get their defaults.
    ///
    /// # Errors
    /// Bytes that are no settings.
    pub(super) fn decode_first(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let settings = Self {
            licences: reader.count()?,
            retry: reader.time()?,
            window: reader.time()?,
            policy: reader.field()?,
            create_timeout: reader.time()?,
            release_timeout: reader.time()?,
            wait_timeout: reader.time()?,
            tombstone: reader.time()?,
            placement: Placement::default(),
        };
        if settings.check().is_err() {
            return Err(Damaged("a setting is out of range"));
        }
        Ok(settings)
    }
}

/// Checks that bytes are pairs of a field and a value, each within its limit of length.
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

impl Field for CalledFrom {
    fn encode(&self, out: &mut Writer) {
        out.field(&self.pool);
        out.field(&self.lease);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Self { pool: reader.field()?, lease: reader.field()? })
    }
}
