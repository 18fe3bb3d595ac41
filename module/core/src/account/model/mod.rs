//! The state of a book: records and indexes.

mod check;
mod indexes;
pub mod pace;
pub mod place;
pub mod record;
pub mod state;
mod sums;
pub mod supply;
pub mod tariff;
pub mod usage;
pub(in crate::account) mod worth;
