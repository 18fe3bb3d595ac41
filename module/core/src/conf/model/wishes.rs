//! The wishes of a conference for its unit: zone, host, and tags that the unit must or should have.

use super::unit::{Name, Unit, check_tags, host_of};
use crate::fields;
use crate::shared::Millis;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::token::MAX_TTL;

fields! {
    /// Which units may take a conference, and which it prefers.
    #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Wishes {
        /// Zone of the unit; any zone if `None`.
        pub zone: Option<Name>,
        /// How long the conference waits for its zone and host before it may go elsewhere, in milliseconds; for ever if
        /// `None`.
        pub zone_fall: Option<Millis>,
        /// Host of the unit; any host if `None`.
        pub host: Option<Name>,
        /// Tags that the unit must have, in ascending order.
        pub require: Vec<Name>,
        /// Tags of which the unit should have as many as possible, in ascending order.
        pub prefer: Vec<Name>,
    } checked by Wishes::is_sound;
}

impl Wishes {
    fn is_sound(&self) -> Result<(), Damaged> {
        let in_range = self.zone_fall.is_none_or(|fall| (1..=MAX_TTL).contains(&fall));
        ensure(in_range, "the wait for a zone is out of range")?;
        check_tags(&self.require)?;
        check_tags(&self.prefer)
    }

    /// A required tag that is not among these, which are in ascending order.
    pub(in crate::conf) fn missing(&self, tags: &[Name]) -> Option<&Name> {
        self.require.iter().find(|tag| tags.binary_search(tag).is_err())
    }

    /// How many of the preferred tags are among these, which are in ascending order.
    pub(in crate::conf) fn preferred(&self, tags: &[Name]) -> usize {
        self.prefer.iter().filter(|tag| tags.binary_search(tag).is_ok()).count()
    }

    /// Whether a unit meets the wishes, and has as many of the preferred tags as another.
    pub(in crate::conf) fn are_met_as_well(&self, by: &Unit, as_by: &Unit) -> bool {
        self.zone.as_ref().is_none_or(|zone| by.zone.as_ref() == Some(zone))
            && self.host.as_ref().is_none_or(|host| **host == *host_of(&by.cmu))
            && self.missing(&by.tags).is_none()
            && self.preferred(&by.tags) >= self.preferred(&as_by.tags)
    }
}

/// What a unit must have to take a conference now, and what the conference prefers.
#[derive(Clone, Copy, Debug)]
pub struct Need<'a> {
    pub(in crate::conf) size: u32,
    pub(in crate::conf) wishes: &'a Wishes,
    /// Whether zone and host do not matter, because the conference has waited for them for too long.
    pub(in crate::conf) elsewhere: bool,
}

impl<'a> Need<'a> {
    /// The zone in which the unit must be.
    pub(in crate::conf) fn zone(&self) -> Option<&'a Name> {
        self.wishes.zone.as_ref().filter(|_| !self.elsewhere)
    }

    /// The host on which the unit must run.
    pub(in crate::conf) fn host(&self) -> Option<&'a Name> {
        self.wishes.host.as_ref().filter(|_| !self.elsewhere)
    }

    /// Whether a unit of this name runs on the host.
    pub(in crate::conf) fn is_on_host(&self, cmu: &Name) -> bool {
        self.host().is_none_or(|host| **host == *host_of(cmu))
    }
}
