//! Registers the module with the server: its hooks, the families of the table, their commands, and the settings.

use allot_core::shared::invariant::set_reporter;
use redis_module::raw::{RedisModuleCtx, RedisModuleString};
use std::os::raw::c_int;

use crate::engine::command::Command;
use crate::engine::{away, config, deadlines, info, lost, waiting, warnings};
use crate::families::{self, FAMILIES};
use crate::ffi::guard::Hooks;
use crate::ffi::register::{Registration, load_arguments};

/// Version as the server knows it: major * 10000 + minor * 100 + patch.
const VERSION: c_int = 100;

static HOOKS: Hooks = Hooks {
    timer: |ctx| deadlines::run(ctx, &FAMILIES),
    cron: |ctx| {
        away::returns(ctx.clock());
        deadlines::catch_up(ctx);
        lost::look(ctx);
        warnings::look(ctx);
    },
    flushed: |db| {
        deadlines::flushed(db);
        waiting::flushed(db);
    },
    moved: waiting::moved,
    asks_why: lost::asks_why,
    because: |event, (db, name)| lost::because(event, db, name),
    swapped: |first, second| {
        deadlines::swapped(first, second);
        waiting::swapped(first, second);
    },
    wait_ended: waiting::wait_ended,
    disconnected: waiting::disconnected,
    before_sleep: waiting::before_sleep,
    demoted: waiting::demoted,
    promoted: away::promoted,
    info: |info| info::write(info, &FAMILIES),
    panicked: || info::INTERNAL_ERRORS.add(1),
};

/// Registers everything; `None` if the server refuses any of it.
///
/// # Safety
/// Called once, from `RedisModule_OnLoad`, with its arguments.
#[allow(unsafe_code, reason = "hands on what the server has handed over")]
pub(crate) unsafe fn register(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> Option<()> {
    // SAFETY: the caller's promise.
    let server = unsafe { Registration::begin(ctx, c"allot", VERSION, &HOOKS) }?;
    set_reporter(info::broken_invariant);
    commands(&server, families::COMMANDS)?;
    for family in &FAMILIES {
        (family.register)(&server)?;
        family.commands.iter().try_for_each(|table| commands(&server, table))?;
    }
    server.server_events()?;
    // SAFETY: the caller's promise.
    settings(&server, &unsafe { load_arguments(argv, argc) })
}

fn commands(server: &Registration, table: &[Command]) -> Option<()> {
    table.iter().try_for_each(|command| server.command(&command.info()))
}

/// Registers settings; the arguments of `loadmodule`, name and value in turn, set their defaults.
fn settings(server: &Registration, arguments: &[&[u8]]) -> Option<()> {
    if let Err(what) = config::set_defaults(arguments) {
        server.log(c"warning", &format!("allot: loadmodule arguments: {what}"));
        return None;
    }
    config::SETTINGS.iter().try_for_each(|setting| server.setting(&setting.as_registered()))?;
    server.load_settings()
}
