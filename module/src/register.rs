//! The members of the module: one line for each value type, and one for each command table.

use allot_core::account::Book;
use allot_core::conf::Realm;
use allot_core::numpool::Pool;
use allot_core::seat::Show;
use redis_module::raw::{RedisModuleCtx, RedisModuleString};
use std::os::raw::c_int;

use crate::engine::command::Command;
use crate::engine::family::Family;
use crate::engine::value::Value;
use crate::engine::{check, config, deadlines, family, faults, info, number_source, waiting};
use crate::ffi::guard::Hooks;
use crate::ffi::register::{Registration, load_arguments};
use crate::{account, conf, numpool, seat};

/// Version as the server knows it: major * 10000 + minor * 100 + patch.
const VERSION: c_int = 100;

static HOOKS: Hooks = Hooks {
    timer: deadlines::run,
    cron: deadlines::catch_up,
    flushed: |db| {
        deadlines::flushed(db);
        waiting::flushed(db);
    },
    moved: waiting::moved,
    swapped: |first, second| {
        deadlines::swapped(first, second);
        waiting::swapped(first, second);
    },
    wait_ended: waiting::wait_ended,
    disconnected: waiting::disconnected,
    before_sleep: waiting::before_sleep,
    demoted: waiting::demoted,
    info: info::write,
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
    let server = unsafe { Registration::begin(ctx, c"allot", VERSION, &HOOKS) }?;
    faults::receive();
    family::<Show>(&server)?;
    family::<Pool>(&server)?;
    family::<Realm>(&server)?;
    family::<Book>(&server)?;
    number_source::provide(numpool::call_number);
    commands(&server, check::COMMANDS)?;
    commands(&server, seat::COMMANDS)?;
    commands(&server, numpool::COMMANDS)?;
    commands(&server, conf::CONF_COMMANDS)?;
    commands(&server, conf::CMU_COMMANDS)?;
    commands(&server, account::COMMANDS)?;
    server.server_events()?;
    settings(&server, &unsafe { load_arguments(argv, argc) })
}

fn family<F: Family>(server: &Registration) -> Option<()> {
    server.value_type::<Value<F>>()?;
    family::add_to_info::<F>();
    check::add_family::<F>();
    Some(())
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
