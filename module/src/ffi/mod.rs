//! All unsafe code: Redis' C interface behind types that the rest of the module cannot misuse. Imports no other part of
//! the module.
//!
//! `alloc` is the allocator, `context` the interface of a command or a timer to the server, `string` the server's
//! strings, `stream` and `zset` its ordinary types, `timer` its timers, `blocking` clients that wait, `info` the output of `INFO`. `value` keeps
//! values of the module in the keyspace, `freeing` frees them, `command` registers, documents and calls commands, and `register` registers
//! everything else at load. `guard` is the boundary for panics with the hooks, `fault` has panics for tests, and `api` the access to the function
//! pointers.
#![allow(unsafe_code)]

pub(crate) mod alloc;
pub(crate) mod api;
pub(crate) mod blocking;
pub(crate) mod command;
pub(crate) mod context;
pub(crate) mod fault;
mod freeing;
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
