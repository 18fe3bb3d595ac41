//! The state of a book: records and indexes.

mod check;
mod count;
mod indexes;
pub mod place;
pub mod record;
pub mod reports;
pub mod state;
mod sums;
pub mod tariff;
pub mod usage;
