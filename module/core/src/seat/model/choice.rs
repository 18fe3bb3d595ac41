//! How the seats of a request are chosen.

use crate::words;

words! {
    /// `ADJACENT PREFER|REQUIRE|AREA|IGNORE`. The numbers are part of a hold's fingerprint and never change.
    #[derive(Default)]
    pub enum Adjacent {
        /// Together if an area of any priority allows it, otherwise scattered.
        #[default]
        Prefer = 0 => "PREFER",
        /// Together or not at all.
        Require = 1 => "REQUIRE",
        /// The best area first, together if that area allows it.
        Area = 2 => "AREA",
        /// The first free seats.
        Ignore = 3 => "IGNORE",
    }
}

words! {
    /// `ORPHANS AVOID|ALLOW|FORBID`. The numbers are part of a hold's fingerprint and never change.
    #[derive(Default)]
    pub enum Orphans {
        /// Strand a single seat only if the area has no other way.
        #[default]
        Avoid = 0 => "AVOID",
        /// Ignore stranded seats.
        Allow = 1 => "ALLOW",
        /// Never strand a seat, never scatter the group.
        Forbid = 2 => "FORBID",
    }
}
