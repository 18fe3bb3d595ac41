//! Code that the families share. Imports `ffi` and the shared parts of allot-core, never a family.
//!
//! `command` is the table entry of a command. Its documentation follows from its parameters (`parameter`), and so does
//! the parser (`syntax`, `parse`, `word`) that hands a call's arguments (`argument`) to the handler. `family` is the
//! interface of a family's state machine to the module, `value` is the value of a key, and `step` is the path of every
//! request: find, apply due events, decide, apply, replicate, publish. `replicated` is the path of what a master
//! decided. `deadlines`, `outbox`, `waiting`, `info`, `config`, `token` and `reply` serve both. `entry` is a row of
//! the table of families. `tick` is the work of the timer for a key, `away` knows when this server did not decide. `info`
//! counts, and logs bugs; `lost` records keys that are deleted in use; `warnings` and `replicas` look for settings and
//! servers with which something may be lost.

pub(crate) mod argument;
pub(crate) mod away;
pub(crate) mod command;
pub(crate) mod config;
pub(crate) mod deadlines;
pub(crate) mod entry;
pub(crate) mod family;
pub(crate) mod info;
pub(crate) mod lost;
pub(crate) mod outbox;
pub(crate) mod parameter;
pub(crate) mod parse;
mod replicas;
pub(crate) mod replicated;
pub(crate) mod reply;
pub(crate) mod step;
pub(crate) mod syntax;
pub(crate) mod tick;
pub(crate) mod token;
pub(crate) mod value;
pub(crate) mod waiting;
pub(crate) mod warnings;
pub(crate) mod word;

pub(crate) use command::{Call, Done};
