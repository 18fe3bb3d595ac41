//! The roles that a process can run. No role imports another; what two roles share is in `context` and `info_stream`.

pub mod accounts;
pub mod context;
pub(crate) mod data_proxy;
mod info_stream;
pub mod media_unit;
pub(crate) mod scheduler;
