//! Details of conferences, which their units write.

use crate::conf::model::conference::{Conference, Detail, MAX_DETAILS, MAX_VALUE};
use crate::conf::model::state::Realm;
use crate::shared::Bytes;
use crate::shared::codec::{Damaged, Reader, ensure, pairs};
use crate::shared::field::Any;
use crate::shared::invariant::Expected;
use std::collections::BTreeSet;

impl Conference {
    pub(super) fn admits_write(&self, seq: u64, bytes: &[u8]) -> Result<(), Damaged> {
        let mut reader = Reader::new(bytes);
        let mut new = BTreeSet::new();
        while !reader.is_empty() {
            let field: Bytes = reader.field()?;
            ensure(reader.string()?.len() <= MAX_VALUE, "a detail is too long")?;
            match self.place_of(&field).map(|at| self.details.get(at)) {
                Ok(known) => {
                    let newer = known.is_some_and(|detail| detail.seq < seq);
                    ensure(newer, "a write of a detail is not newer than the last one")?;
                }
                Err(_) => ensure(new.insert(field), "a detail is written twice")?,
            }
        }
        ensure(self.details.len() + new.len() <= MAX_DETAILS, "a conference has too many details")
    }
}

impl Realm {
    /// Writes details. This bypasses `change`, because it is the most frequent event and no index depends on details.
    pub(super) fn set_details(&mut self, id: u32, seq: u64, bytes: &[u8]) {
        let conference = self.conferences.get_mut(id);
        let Some(conference) = conference.expected("a conference that changes is there") else { return };
        for (field, value) in pairs(bytes) {
            let at = conference.place_of(field).unwrap_or_else(|at| {
                let detail = Detail { field: Bytes::from_slice(field), seq, value: Any::default() };
                conference.details.insert(at, detail);
                at
            });
            if let Some(detail) = conference.details.get_mut(at).expected("a field has a place") {
                detail.seq = seq;
                detail.value.0 = Bytes::from_slice(value);
            }
        }
    }
}
