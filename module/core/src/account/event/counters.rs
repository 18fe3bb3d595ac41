//! Counters of the events of books.

use crate::words;

words! {
    /// Counters of books in `INFO`.
    pub enum Counter {
        /// Accounts assigned to instances.
        Assigned => "account_assigned",
        /// Moves by rebalancing.
        Shifted => "account_shifted",
        /// Logins granted.
        Logins => "account_logins",
        /// Logins that ended at their deadlines.
        Lapsed => "account_lapsed",
        /// Instructions counted.
        Used => "account_used",
    }
}
