//! The state of a book: records and indexes.

mod check;
mod indexes;
pub mod place;
pub mod record;
pub mod reports;
pub mod state;
pub mod tariff;
pub mod usage;
