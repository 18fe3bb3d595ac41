//! All that is unsafe: Redis' C interface behind types that cannot be misused from the rest of the module.
//!
//! `alloc` is the allocator, `context` what a command or a timer may ask of the server, `string` its strings,
//! `stream` and `zset` its ordinary types,
//! `value` how a family's state lives in the keyspace, `register` what is told to the server at load, `api` the
//! one way to the function pointers.
#![allow(unsafe_code)]

pub(crate) mod alloc;
pub(crate) mod api;
pub(crate) mod context;
pub(crate) mod register;
pub(crate) mod stream;
pub(crate) mod string;
pub(crate) mod value;
pub(crate) mod zset;

pub(crate) use context::Context;
pub(crate) use string::{KeyName, OwnedString};
