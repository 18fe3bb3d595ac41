//! The state of a book: records and indexes.

mod check;
mod count;
pub(in crate::account) mod forecast;
mod indexes;
pub mod place;
pub mod record;
pub mod reports;
pub(in crate::account) mod rooms;
pub mod state;
mod sums;
pub mod supply;
pub mod tariff;
pub mod usage;
