//! The roles that a process can play.

pub(crate) mod accounts;
pub(crate) mod data_proxy;
pub(crate) mod media_unit;
pub(crate) mod scheduler;
