//! What the server is told at load: types, commands with their documentation, settings, counters, events. And
//! the guard through which every call from the server comes: no panic passes it.

use redis_module::raw::{
    self, RedisModuleCommandArg, RedisModuleCommandArgType, RedisModuleCommandInfo,
    RedisModuleCommandInfoVersion, RedisModuleCommandKeySpec, RedisModuleCtx, RedisModuleEvent,
    RedisModuleInfoCtx, RedisModuleString, RedisModuleTimerID,
};
use smallvec::SmallVec;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_longlong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::api::api;
use super::context::Context;
use super::string::{Names, bytes_of};
use crate::command::{Arg, Call, Command, Keys, Kind, Occurs};
use crate::config::SETTINGS;
use crate::family::Family;
use crate::{command, config, deadlines, info};

/// A context that is of no call: for timers that are set outside of any, and for what nobody has called.
static MODULE: AtomicPtr<RedisModuleCtx> = AtomicPtr::new(null_mut());

/// The context that is of no call, for as long as the process lives.
pub(super) fn nobody() -> *mut RedisModuleCtx {
    MODULE.load(Ordering::Relaxed)
}

/// The longest time for which a timer is set.
const LONGEST_WAIT_MS: i64 = 3_600_000;

/// Runs what the server called; a panic ends here, is counted, and gives `otherwise`.
pub(super) fn guard<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        info::INTERNAL_ERRORS.add(1);
        otherwise
    })
}

/// A one-shot timer of the server's.
pub(crate) struct Timer {
    id: RedisModuleTimerID,
}

impl Timer {
    /// Calls `deadlines::run` at that time, or as soon as possible after it.
    pub(crate) fn at(due: i64) -> Self {
        let ctx = MODULE.load(Ordering::Relaxed);
        // SAFETY: the module's context lives as long as the module.
        unsafe {
            // The server counts in ints; a ring that comes early does no harm.
            let wait = due.saturating_sub(api!(RedisModule_Milliseconds())).clamp(1, LONGEST_WAIT_MS);
            Self { id: api!(RedisModule_CreateTimer(ctx, wait, Some(ring), null_mut())) }
        }
    }
}

impl Timer {
    /// Forgets the timer that is ringing: the server frees it when its callback is over, and one that is
    /// stopped meanwhile would be freed twice.
    pub(crate) fn rang(self) {
        std::mem::forget(self);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let ctx = MODULE.load(Ordering::Relaxed);
        unsafe { api!(RedisModule_StopTimer(ctx, self.id, null_mut())) };
    }
}

unsafe extern "C" fn ring(ctx: *mut RedisModuleCtx, _: *mut c_void) {
    guard((), || deadlines::run(unsafe { Context::lent(ctx) }));
}

/// Runs a command's handler: arguments in, an error reply for a refusal.
///
/// # Safety
/// Called by the server with its context and arguments.
pub(crate) unsafe fn run_command(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
    handler: command::Handler,
) -> c_int {
    let ctx = unsafe { Context::lent(ctx) };
    let strings: &[*mut RedisModuleString] =
        unsafe { std::slice::from_raw_parts(argv, argc.max(0) as usize) };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let arguments: SmallVec<[&[u8]; 16]> =
            strings.iter().map(|&string| unsafe { bytes_of(string) }).collect();

        handler(&Call::new(ctx, &arguments, unsafe { Names::lent(strings) }))
    }));
    match outcome {
        Ok(Ok(())) => {}
        // Whoever asks for keys only takes no reply; without keys the call is refused.
        Ok(Err(_)) if ctx.asks_for_keys() => {}
        Ok(Err(refusal)) => ctx.reply_error(&refusal.to_string()),
        Err(_) => {
            info::INTERNAL_ERRORS.add(1);
            ctx.reply_error("ERR internal error in allot; please report it with the server's log");
        }
    }
    raw::REDISMODULE_OK as c_int
}

/// Everything that is done at load, in its order. Whether it all went well.
pub(crate) struct Registration {
    ctx: *mut RedisModuleCtx,
}

impl Registration {
    /// Introduces the module to the server; `None` where that fails.
    ///
    /// # Safety
    /// Called once, from `RedisModule_OnLoad`, with its context.
    pub(crate) unsafe fn begin(ctx: *mut RedisModuleCtx, name: &CStr, version: c_int) -> Option<Self> {
        unsafe {
            let api_version = raw::REDISMODULE_APIVER_1 as c_int;
            if raw::Export_RedisModule_Init(ctx, name.as_ptr(), version, api_version)
                != raw::REDISMODULE_OK as c_int
            {
                return None;
            }
            let (maps, documentation) = (raw::RedisModule_ReplyWithMap, raw::RedisModule_SetCommandInfo);
            if maps.is_none() || documentation.is_none() {
                Context::lent(ctx).log(c"warning", "allot needs Redis 7.0 or newer, or Valkey");
                return None;
            }
            MODULE.store(api!(RedisModule_GetDetachedThreadSafeContext(ctx)), Ordering::Relaxed);
            let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
                | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
            api!(RedisModule_SetModuleOptions(ctx, options as c_int));
            api!(RedisModule_RegisterInfoFunc(ctx, Some(write_info)));
        }
        Some(Self { ctx })
    }

    /// Registers a family's type and the events that move its keys.
    pub(crate) fn family<F: Family>(&self) -> Option<()> {
        const { assert!(super::value::is_type_name(F::TYPE)) };
        unsafe {
            super::value::register_type::<F>(self.ctx).then_some(())?;
            let class = raw::REDISMODULE_NOTIFY_GENERIC;
            done(api!(RedisModule_SubscribeToKeyspaceEvents(self.ctx, class, Some(moved::<F>))))
        }
    }

    /// Registers what follows keys about.
    pub(crate) fn server_events(&self) -> Option<()> {
        let swap = RedisModuleEvent { id: raw::REDISMODULE_EVENT_SWAPDB, dataver: 1 };
        let flush = RedisModuleEvent { id: raw::REDISMODULE_EVENT_FLUSHDB, dataver: 1 };
        unsafe {
            done(api!(RedisModule_SubscribeToServerEvent(self.ctx, swap, Some(swapped))))?;
            done(api!(RedisModule_SubscribeToServerEvent(self.ctx, flush, Some(flushed))))
        }
    }

    /// Registers settings; `arguments` of `loadmodule`, name and value by turns, set their defaults.
    ///
    /// # Safety
    /// `argv` are the arguments of `RedisModule_OnLoad`.
    pub(crate) unsafe fn settings(&self, argv: *mut *mut RedisModuleString, argc: c_int) -> Option<()> {
        let ctx = unsafe { Context::lent(self.ctx) };
        let strings: &[*mut RedisModuleString] =
            if argc > 0 { unsafe { std::slice::from_raw_parts(argv, argc as usize) } } else { &[] };
        let arguments: Vec<&[u8]> = strings.iter().map(|&string| unsafe { bytes_of(string) }).collect();
        if let Err(what) = config::set_defaults(&arguments) {
            ctx.log(c"warning", &format!("allot: loadmodule arguments: {what}"));
            return None;
        }
        for (number, setting) in SETTINGS.iter().enumerate() {
            unsafe {
                let place = number as *mut c_void;
                let (get, set): (raw::RedisModuleConfigGetNumericFunc, raw::RedisModuleConfigSetNumericFunc) =
                    (Some(get_setting), Some(set_setting));
                done(api!(RedisModule_RegisterNumericConfig(
                    self.ctx,
                    setting.name.as_ptr(),
                    setting.get(),
                    raw::REDISMODULE_CONFIG_DEFAULT,
                    setting.min,
                    setting.max,
                    get,
                    set,
                    None,
                    place
                )))?;
            }
        }
        done(unsafe { api!(RedisModule_LoadConfigs(self.ctx)) })
    }

    /// Registers a command, its documentation, and on servers that have them its ACL categories.
    pub(crate) fn command(&self, command: &Command) -> Option<()> {
        unsafe {
            let (first, last, step) = match command.keys {
                Keys::First | Keys::FirstAndBehind(_) => (1, 1, 1),
                Keys::Counted => (0, 0, 0),
            };
            let flags = CString::new(command.flags).ok()?;
            let name = command.name.as_ptr();
            done(api!(RedisModule_CreateCommand(
                self.ctx,
                name,
                Some(command.entry),
                flags.as_ptr(),
                first,
                last,
                step
            )))?;
            let registered = api!(RedisModule_GetCommand(self.ctx, name));
            if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
                let categories = CString::new(command.categories).ok()?;
                done(set_categories(registered, categories.as_ptr()))?;
            }
            let mut texts = Texts::default();
            let mut specs = [key_spec(command), second_key_spec(command), std::mem::zeroed()];
            let version = RedisModuleCommandInfoVersion {
                version: 1,
                sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
                sizeof_keyspec: size_of::<RedisModuleCommandKeySpec>(),
                sizeof_arg: size_of::<RedisModuleCommandArg>(),
            };
            let mut documentation: RedisModuleCommandInfo = std::mem::zeroed();
            documentation.version = &raw const version;
            documentation.summary = texts.text(command.summary);
            documentation.complexity = texts.text(command.complexity);
            documentation.since = texts.text("0.1.0");
            documentation.arity = command.arity;
            documentation.key_specs = specs.as_mut_ptr();
            documentation.args = texts.arguments(command.arguments);
            done(api!(RedisModule_SetCommandInfo(registered, &raw const documentation)))
        }
    }
}

fn done(status: c_int) -> Option<()> {
    (status == raw::REDISMODULE_OK as c_int).then_some(())
}

/// Owns what a command's documentation points to while the server copies it.
#[derive(Default)]
struct Texts {
    texts: Vec<CString>,
    lists: Vec<Box<[RedisModuleCommandArg]>>,
}

impl Texts {
    fn text(&mut self, text: &str) -> *const c_char {
        let text = CString::new(text).unwrap_or_default();
        let pointer = text.as_ptr();
        self.texts.push(text);
        pointer
    }

    /// A list of arguments, ended by one without a name.
    fn arguments(&mut self, arguments: &[Arg]) -> *mut RedisModuleCommandArg {
        let mut list = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            // SAFETY: all zero is an argument without anything.
            let mut raw: RedisModuleCommandArg = unsafe { std::mem::zeroed() };
            raw.name = self.text(argument.name);
            raw.type_ = kind(argument.kind);
            raw.key_spec_index = match argument.kind {
                Kind::Key if argument.token.is_some() => 1,
                Kind::Key => 0,
                _ => -1,
            };
            raw.token = argument.token.map_or(null(), |token| self.text(token));
            raw.flags = match argument.occurs {
                Occurs::Once => raw::REDISMODULE_CMD_ARG_NONE,
                Occurs::Maybe => raw::REDISMODULE_CMD_ARG_OPTIONAL,
                Occurs::Many => raw::REDISMODULE_CMD_ARG_MULTIPLE,
                Occurs::Any => raw::REDISMODULE_CMD_ARG_OPTIONAL | raw::REDISMODULE_CMD_ARG_MULTIPLE,
            } as c_int;
            if let Kind::Block(inner) | Kind::OneOf(inner) = argument.kind {
                raw.subargs = self.arguments(inner);
            }
            list.push(raw);
        }
        // SAFETY: as above.
        list.push(unsafe { std::mem::zeroed() });
        let mut list = list.into_boxed_slice();
        let pointer = list.as_mut_ptr();
        self.lists.push(list);
        pointer
    }
}

fn kind(kind: Kind) -> RedisModuleCommandArgType {
    match kind {
        Kind::Key => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
        Kind::String => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
        Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
        Kind::Word => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
        Kind::Block(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
        Kind::OneOf(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
    }
}

fn key_spec(command: &Command) -> RedisModuleCommandKeySpec {
    // SAFETY: all zero is a specification of nothing, and every field that its kind reads is filled below.
    let mut spec: RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    spec.flags = u64::from(command.key_flags);
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index.pos = 1;
    match command.keys {
        Keys::First | Keys::FirstAndBehind(_) => {
            spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
            spec.fk.range.lastkey = 0;
            spec.fk.range.keystep = 1;
            spec.fk.range.limit = 0;
        }
        Keys::Counted => {
            spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            spec.fk.keynum.keynumidx = 0;
            spec.fk.keynum.firstkey = 1;
            spec.fk.keynum.keystep = 1;
        }
    }
    spec
}

/// The key behind a word, if the command has one; all zero ends the list.
fn second_key_spec(command: &Command) -> RedisModuleCommandKeySpec {
    // SAFETY: as above.
    let mut spec: RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    if let Keys::FirstAndBehind(word) = command.keys {
        spec.flags = u64::from(command.key_flags);
        spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
        spec.bs.keyword.keyword = word.as_ptr();
        // Options begin behind the key and what it names.
        spec.bs.keyword.startfrom = 3;
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        spec.fk.range.lastkey = 0;
        spec.fk.range.keystep = 1;
        spec.fk.range.limit = 0;
    }
    spec
}

unsafe extern "C" fn get_setting(_: *const c_char, place: *mut c_void) -> c_longlong {
    SETTINGS.get(place as usize).map_or(0, |setting| setting.get())
}

unsafe extern "C" fn set_setting(
    _: *const c_char,
    value: c_longlong,
    place: *mut c_void,
    _: *mut *mut RedisModuleString,
) -> c_int {
    if let Some(setting) = SETTINGS.get(place as usize) {
        setting.set(value);
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn write_info(ctx: *mut RedisModuleInfoCtx, _: c_int) {
    guard((), || unsafe {
        if api!(RedisModule_InfoAddSection(ctx, c"stats".as_ptr())) == raw::REDISMODULE_OK as c_int {
            for counter in info::COUNTERS {
                api!(RedisModule_InfoAddFieldULongLong(ctx, counter.name.as_ptr(), counter.get()));
            }
        }
        if api!(RedisModule_InfoAddSection(ctx, c"state".as_ptr())) == raw::REDISMODULE_OK as c_int {
            for (name, gauge) in info::gauges() {
                api!(RedisModule_InfoAddFieldLongLong(ctx, name.as_ptr(), gauge));
            }
        }
    });
}

/// Keys that come under another name by `RENAME` or `MOVE`.
unsafe extern "C" fn moved<F: Family>(
    ctx: *mut RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    name: *mut RedisModuleString,
) -> c_int {
    guard((), || unsafe {
        if matches!(CStr::from_ptr(event).to_bytes(), b"rename_to" | b"move_to") {
            super::value::rewatch::<F>(Context::lent(ctx), name);
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn swapped(_: *mut RedisModuleCtx, _: RedisModuleEvent, _: u64, data: *mut c_void) {
    guard((), || unsafe {
        if let Some(swap) = data.cast::<raw::RedisModuleSwapDbInfo>().as_ref() {
            deadlines::swapped(swap.dbnum_first, swap.dbnum_second);
        }
    });
}

unsafe extern "C" fn flushed(_: *mut RedisModuleCtx, _: RedisModuleEvent, part: u64, data: *mut c_void) {
    guard((), || unsafe {
        // Told once before and once after; before, no key is loaded yet that belongs to what comes.
        if part == raw::REDISMODULE_SUBEVENT_FLUSHDB_START
            && let Some(flush) = data.cast::<raw::RedisModuleFlushInfo>().as_ref()
        {
            deadlines::flushed((flush.dbnum >= 0).then_some(flush.dbnum));
        }
    });
}
