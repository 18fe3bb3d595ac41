//! The state of a book: its records, and the indexes over them.

mod check;
mod indexes;
pub mod place;
pub mod record;
pub mod state;
pub mod tariff;
pub mod usage;
