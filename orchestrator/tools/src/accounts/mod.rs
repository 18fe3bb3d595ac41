//! Accounts in files, and months replayed from files.

pub mod file;
pub mod module_settings;
pub mod simulate;
