//! Registers everything except commands at load: value types, settings, `INFO`, and the events that move keys.

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent, RedisModuleInfoCtx, RedisModuleString};
use std::cell::RefCell;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicI64, Ordering};

use super::alloc::is_aligned;
use super::api::api;
use super::context::{Context, make_detached_context};
use super::freeing;
use super::guard::{Hooks, guard, set_hooks, with_hooks};
use super::info::InfoWriter;
use super::string::bytes_of;
use super::value::{self, Native};

/// The oldest version of Redis that the tests run: major, minor and patch, a byte each. Versions before 7.0.3 crash when a
/// timer asks whether a write would be refused.
const OLDEST_SERVER: c_int = 0x0007_000f;

/// Everything that is done at load, in its order.
pub(crate) struct Registration {
    pub(super) ctx: *mut RedisModuleCtx,
}

/// The description for the server of a number that the operator may set.
pub(crate) struct NumericSetting {
    /// The name after `allot.`.
    pub(crate) name: &'static CStr,
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) value: &'static AtomicI64,
}

impl Registration {
    /// Introduces the module to the server; `None` if this fails.
    ///
    /// # Safety
    /// Called once, from `RedisModule_OnLoad`, with its context.
    pub(crate) unsafe fn begin(
        ctx: *mut RedisModuleCtx,
        name: &CStr,
        version: c_int,
        hooks: &'static Hooks,
    ) -> Option<Self> {
        // SAFETY: the context is that of the load, and what the server is handed is static.
        unsafe {
            let api_version = raw::REDISMODULE_APIVER_1 as c_int;
            if raw::Export_RedisModule_Init(ctx, name.as_ptr(), version, api_version)
                != raw::REDISMODULE_OK as c_int
            {
                say_if_loaded_twice(ctx, name);
                return None;
            }
            let version = raw::RedisModule_GetServerVersion.map_or(0, |version| version());
            if version < OLDEST_SERVER {
                let line = "allot needs Redis 7.0.15 or newer, or Valkey, and this server is older";
                Context::lent(ctx).log(c"warning", line);
                return None;
            }
            if !is_aligned() {
                let line = "allot: the allocator of this server does not align its blocks to 16 bytes; build the server with \
                            jemalloc or the allocator of the C library";
                Context::lent(ctx).log(c"warning", line);
                return None;
            }
            set_hooks(hooks);
            freeing::is_server_thread();
            make_detached_context(ctx);
            let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
                | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
            api!(RedisModule_SetModuleOptions(ctx, options as c_int));
            api!(RedisModule_RegisterInfoFunc(ctx, Some(write_info)));
        }
        Some(Self { ctx })
    }

    /// Writes a line to the server's log.
    pub(crate) fn log(&self, level: &CStr, line: &str) {
        // SAFETY: the context is that of the load, during which this value lives.
        unsafe { Context::lent(self.ctx) }.log(level, line);
    }

    /// Registers a value type, whose values are told when their keys get another name.
    pub(crate) fn value_type<N: Native>(&self) -> Option<()> {
        MOVED.with_borrow_mut(|types| types.push(value::moved::<N>));
        // SAFETY: the context is that of the load.
        unsafe { value::register_type::<N>(self.ctx).then_some(()) }
    }

    /// Registers events that concern all keys of a database, the server's role, and its regular work.
    pub(crate) fn server_events(&self) -> Option<()> {
        let swap = RedisModuleEvent { id: raw::REDISMODULE_EVENT_SWAPDB, dataver: 1 };
        let flush = RedisModuleEvent { id: raw::REDISMODULE_EVENT_FLUSHDB, dataver: 1 };
        let role = RedisModuleEvent { id: raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, dataver: 1 };
        let saving = RedisModuleEvent { id: raw::REDISMODULE_EVENT_PERSISTENCE, dataver: 1 };
        let class = raw::REDISMODULE_NOTIFY_GENERIC
            | raw::REDISMODULE_NOTIFY_EXPIRED
            | raw::REDISMODULE_NOTIFY_EVICTED;
        let cron = RedisModuleEvent { id: raw::REDISMODULE_EVENT_CRON_LOOP, dataver: 1 };
        // SAFETY: the context is that of the load, and the functions are of the types that the events have.
        unsafe {
            done(api!(RedisModule_SubscribeToKeyspaceEvents(self.ctx, class, Some(key_event))))?;
            done(api!(RedisModule_SubscribeToServerEvent(self.ctx, cron, Some(cron_loop))))?;
            done(api!(RedisModule_SubscribeToServerEvent(self.ctx, role, Some(role_changed))))?;
            done(api!(RedisModule_SubscribeToServerEvent(self.ctx, saving, Some(value::persistence))))?;
            done(api!(RedisModule_SubscribeToServerEvent(self.ctx, swap, Some(swapped))))?;
            done(api!(RedisModule_SubscribeToServerEvent(self.ctx, flush, Some(flushed))))
        }
    }

    /// Registers a setting, whose default is the value that it has now.
    pub(crate) fn setting(&self, setting: &NumericSetting) -> Option<()> {
        // SAFETY: the context is that of the load. The server copies the name, and hands the value, which is static, to
        // `get_setting` and `set_setting` only.
        unsafe {
            let value = std::ptr::from_ref(setting.value).cast_mut().cast::<c_void>();
            let (get, set): (raw::RedisModuleConfigGetNumericFunc, raw::RedisModuleConfigSetNumericFunc) =
                (Some(get_setting), Some(set_setting));
            done(api!(RedisModule_RegisterNumericConfig(
                self.ctx,
                setting.name.as_ptr(),
                setting.value.load(Ordering::Relaxed),
                raw::REDISMODULE_CONFIG_DEFAULT,
                setting.min,
                setting.max,
                get,
                set,
                None,
                value
            )))
        }
    }

    /// Has the server apply its configuration file to the settings registered so far.
    pub(crate) fn load_settings(&self) -> Option<()> {
        // SAFETY: the context is that of the load.
        done(unsafe { api!(RedisModule_LoadConfigs(self.ctx)) })
    }
}

/// Says which line to remove, if the server did not take the module because it has it already. Some servers give no reason.
///
/// # Safety
/// The server has handed over the functions of its interface and `ctx`.
unsafe fn say_if_loaded_twice(ctx: *mut RedisModuleCtx, name: &CStr) {
    // SAFETY: the caller's promise.
    unsafe {
        if raw::RedisModule_IsModuleNameBusy.is_some_and(|is_busy| is_busy(name.as_ptr()) != 0) {
            let line = "allot: this server has loaded the module already. CONFIG REWRITE and Sentinel write a loadmodule line \
                        into the main configuration file: keep that line, and remove the other one, which is in an included \
                        file or on the command line";
            Context::lent(ctx).log(c"warning", line);
        }
    }
}

pub(super) fn done(status: c_int) -> Option<()> {
    (status == raw::REDISMODULE_OK as c_int).then_some(())
}

/// The arguments of `loadmodule`.
///
/// # Safety
/// `argv` and `argc` are the arguments of `RedisModule_OnLoad`, and live as long as `'a`.
pub(crate) unsafe fn load_arguments<'a>(argv: *mut *mut RedisModuleString, argc: c_int) -> Vec<&'a [u8]> {
    let strings: &[*mut RedisModuleString] = if argc > 0 {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(argv, argc as usize) }
    } else {
        &[]
    };
    // SAFETY: the arguments are live for as long.
    strings.iter().map(|&string| unsafe { bytes_of(string) }).collect()
}

unsafe extern "C" fn get_setting(_: *const c_char, value: *mut c_void) -> c_longlong {
    guard(0, || {
        // SAFETY: the server hands back what `setting` gave it, which is static.
        unsafe { value.cast::<AtomicI64>().as_ref() }.map_or(0, |value| value.load(Ordering::Relaxed))
    })
}

unsafe extern "C" fn set_setting(
    _: *const c_char,
    new: c_longlong,
    value: *mut c_void,
    _: *mut *mut RedisModuleString,
) -> c_int {
    let status = guard(raw::REDISMODULE_ERR, || {
        // SAFETY: as above. The server has checked the range.
        if let Some(value) = unsafe { value.cast::<AtomicI64>().as_ref() } {
            value.store(new, Ordering::Relaxed);
        }
        raw::REDISMODULE_OK
    });
    status as c_int
}

unsafe extern "C" fn write_info(ctx: *mut RedisModuleInfoCtx, _: c_int) {
    with_hooks(|hooks| (hooks.info)(&InfoWriter { raw: ctx }));
}

/// Tells a value of one type that its key has another name.
type Moved = unsafe fn(Context<'_>, *mut RedisModuleString);

thread_local! {
    /// For each value type. The server's thread fills it at load, and only this thread uses it.
    static MOVED: RefCell<Vec<Moved>> = const { RefCell::new(Vec::new()) };

    /// The key that is being renamed or moved: the server tells where from, and then where to.
    static MOVED_FROM: RefCell<Option<(i32, Box<[u8]>)>> = const { RefCell::new(None) };
}

/// An event of a key, also of one that is not ours, such as its deletion: most events must cost nothing.
unsafe extern "C" fn key_event(
    ctx: *mut RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    name: *mut RedisModuleString,
) -> c_int {
    // SAFETY: the server names its events.
    let event = unsafe { CStr::from_ptr(event) };
    match event.to_bytes() {
        b"del" | b"expired" | b"evicted" => {
            // SAFETY: the server lends context and name for this call.
            with_hooks(|hooks| unsafe { value_lost(hooks, event, Context::lent(ctx), name) });
        }
        // SAFETY: the server lends context and name for this call.
        b"rename_from" | b"move_from" => with_hooks(|hooks| unsafe {
            value_lost(hooks, event, Context::lent(ctx), name);
            let from = (Context::lent(ctx).selected_db(), bytes_of(name).into());
            MOVED_FROM.set(Some(from));
        }),
        b"rename_to" | b"move_to" => {
            // SAFETY: as above.
            with_hooks(|hooks| unsafe { key_moved(hooks, Context::lent(ctx), name) });
        }
        _ => {}
    }
    raw::REDISMODULE_OK as c_int
}

/// A key has lost its value, by this event.
///
/// # Safety
/// The name is live.
unsafe fn value_lost(hooks: &Hooks, event: &CStr, ctx: Context<'_>, name: *mut RedisModuleString) {
    if (hooks.asks_why)() {
        // SAFETY: the caller's promise.
        let name = unsafe { bytes_of(name) };
        (hooks.because)(event.to_bytes(), (ctx.selected_db(), name));
    }
}

/// A key has another name, by `RENAME` or `MOVE`.
///
/// # Safety
/// The name is live.
unsafe fn key_moved(hooks: &Hooks, ctx: Context<'_>, name: *mut RedisModuleString) {
    MOVED.with_borrow(|types| {
        for moved in types {
            // SAFETY: the caller's promise.
            unsafe { moved(ctx, name) };
        }
    });
    if let Some((db, from)) = MOVED_FROM.take() {
        // SAFETY: the caller's promise.
        let name = unsafe { bytes_of(name) };
        (hooks.moved)((db, &from), (ctx.selected_db(), name));
    }
}

unsafe extern "C" fn swapped(_: *mut RedisModuleCtx, _: RedisModuleEvent, _: u64, data: *mut c_void) {
    // SAFETY: the data of this event, if there are any, are of this type.
    with_hooks(|hooks| unsafe {
        if let Some(swap) = data.cast::<raw::RedisModuleSwapDbInfo>().as_ref() {
            (hooks.swapped)(swap.dbnum_first, swap.dbnum_second);
        }
    });
}

unsafe extern "C" fn cron_loop(ctx: *mut RedisModuleCtx, _: RedisModuleEvent, _: u64, _: *mut c_void) {
    // SAFETY: the server lends its context for this call.
    with_hooks(|hooks| (hooks.cron)(unsafe { Context::lent(ctx) }));
}

unsafe extern "C" fn role_changed(_: *mut RedisModuleCtx, _: RedisModuleEvent, role: u64, _: *mut c_void) {
    with_hooks(|hooks| match role {
        raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA => (hooks.demoted)(),
        raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER => (hooks.promoted)(),
        _ => {}
    });
}

unsafe extern "C" fn flushed(_: *mut RedisModuleCtx, _: RedisModuleEvent, part: u64, data: *mut c_void) {
    // SAFETY: the data of this event, if there are any, are of this type.
    with_hooks(|hooks| unsafe {
        // The server tells before and after. Before, no key of the new contents is loaded yet.
        if part == raw::REDISMODULE_SUBEVENT_FLUSHDB_START
            && let Some(flush) = data.cast::<raw::RedisModuleFlushInfo>().as_ref()
        {
            (hooks.flushed)((flush.dbnum >= 0).then_some(flush.dbnum));
        }
    });
}
