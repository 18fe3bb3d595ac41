//! All that is unsafe: Redis' C interface behind types that cannot be misused from the rest of the module. Imports
//! nothing of ours.
//!
//! `alloc` is the allocator, `context` what a command or a timer may ask of the server, `string` its strings, `stream`
//! and `zset` its ordinary types, `timer` and `info` what their names say, `value` how a value of ours lives in the
//! keyspace, `command` how commands are registered, documented and called, `register` the rest of what is told to the
//! server at load, `guard` the boundary for panics and the hooks behind it, `api` the one way to the function pointers.
#![allow(unsafe_code)]

pub(crate) mod alloc;
pub(crate) mod api;
pub(crate) mod command;
pub(crate) mod context;
pub(crate) mod guard;
pub(crate) mod info;
pub(crate) mod register;
pub(crate) mod stream;
pub(crate) mod string;
pub(crate) mod timer;
pub(crate) mod value;
pub(crate) mod zset;

pub(crate) use context::Context;
pub(crate) use string::{KeyName, OwnedString};
