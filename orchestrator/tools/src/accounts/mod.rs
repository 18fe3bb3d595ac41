//! Accounts in files, books that become equal to files, and months replayed from files.

pub mod file;
pub mod import;
pub mod module_settings;
pub mod simulate;
