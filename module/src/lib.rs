//! `liballot.so`: the Redis module.
//!
//! `ffi` contains all unsafe code and imports nothing else of the module. `engine` is the code that the families share:
//! the command table and its parser, the path of a request (decide, apply, replicate, publish), timer, outbox, settings
//! and counters. Each family is a folder that imports `engine` and no other family, except that a
//! conference may be created on a number that `numpool` calls: `commands` is its table, `writes`
//! and `reads` are the handlers, `replies` writes their replies, and `mod.rs` connects its state machine (crate
//! allot-core) to `engine`. Only `families`, the table of the families, knows
//! all of them, and `register` goes through it.

mod account;
mod conf;
mod engine;
mod families;
mod ffi;
mod numpool;
mod register;
mod seat;

use redis_module::raw::{RedisModuleCtx, RedisModuleString};
use std::os::raw::c_int;

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
    // SAFETY: the server hands over what `register` asks for.
    let registered = ffi::guard::guard(None, || unsafe { register::register(ctx, argv, argc) });
    c_int::from(registered.is_none())
}
