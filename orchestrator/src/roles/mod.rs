//! The roles that a process can run. No role imports another; what two roles share is in `context` and `info_stream`.

pub(crate) mod accounts;
pub(crate) mod context;
pub(crate) mod data_proxy;
mod info_stream;
pub(crate) mod media_unit;
pub(crate) mod scheduler;
