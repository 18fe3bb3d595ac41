//! `liballot.so`: the Redis module.
//!
//! This file is registration only. `sys` holds all that is unsafe; `command` what a command is and how its
//! arguments are read; `family` the steps that every family shares (find, apply what is due, decide, apply,
//! replicate, publish); `deadlines`, `outbox`, `info` and `config` what they need for it. Each family is a
//! folder: `mod.rs` ties its state machine (crate allot-core) to `family`, `writes.rs` and `reads.rs` are its commands,
//! `records.rs` their replies, `docs.rs` what `COMMAND DOCS` says.

mod account;
mod command;
mod conf;
mod config;
mod deadlines;
mod family;
mod info;
mod numbers;
mod numpool;
mod outbox;
mod record;
mod seat;
mod sys;
mod token;

use redis_module::raw::{RedisModuleCtx, RedisModuleString};
use std::os::raw::c_int;
use sys::register::Registration;

/// Version as the server knows it: major * 10000 + minor * 100 + patch.
const VERSION: c_int = 100;

/// Called by the server at load.
///
/// # Safety
/// The server hands over its context and the arguments of `loadmodule`.
#[allow(unsafe_code, non_snake_case, reason = "the name and shape that the server looks for")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    let Some(server) = (unsafe { Registration::begin(ctx, c"allot", VERSION) }) else { return 1 };
    let register = || {
        server.family::<seat::Show>()?;
        server.family::<numpool::Pool>()?;
        server.family::<conf::Realm>()?;
        server.family::<account::Book>()?;
        let commands = [seat::COMMANDS, numpool::COMMANDS, account::COMMANDS];
        commands
            .into_iter()
            .flatten()
            .chain(conf::commands())
            .try_for_each(|command| server.command(command))?;
        server.server_events()?;
        unsafe { server.settings(argv, argc) }
    };
    c_int::from(register().is_none())
}
