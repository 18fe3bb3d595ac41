//! Values of the module in the keyspace: loading, saving, copying, measuring and freeing them.
//!
//! The key refers to the value in a box. `UNLINK` frees it on a background thread, so `Native` requires values that are
//! not bound to the server's thread.

use allot_core::invariant;

use redis_module::raw::{
    self, RedisModuleCtx, RedisModuleDefragCtx, RedisModuleDigest, RedisModuleEvent, RedisModuleIO,
    RedisModuleKeyOptCtx, RedisModuleString, RedisModuleType, RedisModuleTypeMethods,
};
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::alloc::usable_size;
use super::api::api;
use super::context::{Context, Key, Mode, is_lent, lend};
use super::fault;
use super::freeing;
use super::guard::guard;
use super::string::{KeyName, bytes_of};

/// A value of the module, in the form that the server needs.
pub(crate) trait Native: Send + Sized + 'static {
    /// Name of the type, nine characters.
    const TYPE: &'static CStr;
    /// Version of the encoding.
    const ENCODING: c_int;
    /// The command that creates a value from a payload, in a rewritten AOF.
    const REWRITE: &'static CStr;

    /// The place of the server's handle of the type.
    fn handle() -> &'static AtomicPtr<RedisModuleType>;
    /// Reads a value from a dump, or returns why the dump is refused.
    fn load(bytes: &[u8]) -> Result<Self, String>;
    /// The bytes of the value for a dump.
    fn save(&self) -> Vec<u8>;
    /// The payload of the command `REWRITE` for a key of this name.
    fn rewrite(&self, name: &[u8]) -> Vec<u8>;
    /// Bytes allocated beyond the value's own block.
    fn allocated(&self) -> usize;
    /// How many allocations freeing it takes.
    fn free_effort(&self) -> usize;
    /// A copy of the value, for `COPY`.
    fn duplicate(&self) -> Self;
    /// Called when the value gets this name: it was loaded, copied, renamed or moved.
    fn placed(&mut self, db: i32, name: &[u8]);
    /// Called when the value loses this name: it is deleted, overwritten, renamed or moved.
    fn displaced(&self, db: i32, name: &[u8]);
}

/// The value found under a name.
pub(crate) enum Found<'k, N: Native> {
    Nothing,
    OtherType,
    Value(&'k mut N),
}

impl Key<'_> {
    /// The value of this type under the key. If a name is open twice, only one key lends the value.
    pub(crate) fn value<N: Native>(&mut self) -> Found<'_, N> {
        if self.raw.is_null() {
            return Found::Nothing;
        }
        // SAFETY: the key is open.
        let kind = unsafe { api!(RedisModule_ModuleTypeGetType(self.raw)) };
        if kind != N::handle().load(Ordering::Relaxed) || kind.is_null() {
            return if self.exists() { Found::OtherType } else { Found::Nothing };
        }
        // SAFETY: the key is open.
        let value = unsafe { api!(RedisModule_ModuleTypeGetValue(self.raw)) };
        if self.lends != value {
            if !lend(value) {
                invariant!("a value is lent by one open key");
                return Found::Nothing;
            }
            self.lends = value;
        }
        // SAFETY: `store`, `rdb_load` or `copy` made the value from a box of `N`. No other key lends it, and this key is
        // borrowed as long as the value.
        unsafe { value.cast::<N>().as_mut() }.map_or(Found::Nothing, Found::Value)
    }

    /// Whether another key has lent out the value under this key.
    fn is_lent_elsewhere(&self) -> bool {
        // SAFETY: the key is open or null. The function returns null for the latter, and for other types.
        let value = unsafe { api!(RedisModule_ModuleTypeGetValue(self.raw)) };
        value != self.lends && is_lent(value)
    }

    /// Puts a value under the key, which is open for writing.
    pub(crate) fn store<N: Native>(self, value: N) -> bool {
        if !invariant!(!self.is_lent_elsewhere(), "no value is replaced that a key has lent") {
            return false;
        }
        let kind = N::handle().load(Ordering::Relaxed);
        let value = Box::into_raw(Box::new(value));
        // SAFETY: the key is open, and the box goes to the server, or comes back if the server does not take it.
        unsafe {
            let stored = api!(RedisModule_ModuleTypeSetValue(self.raw, kind, value.cast()));
            if stored != raw::REDISMODULE_OK as c_int {
                drop(Box::from_raw(value));
                return false;
            }
        }
        true
    }

    /// Removes the value under the key, which is open for writing.
    pub(crate) fn delete(self) {
        if invariant!(!self.is_lent_elsewhere(), "no value is deleted that a key has lent") {
            // SAFETY: the key is open, and nobody borrows its value.
            unsafe { api!(RedisModule_DeleteKey(self.raw)) };
        }
    }
}

/// Registers the type.
///
/// # Safety
/// The context is that of the load.
pub(super) unsafe fn register_type<N: Native>(ctx: *mut RedisModuleCtx) -> bool {
    const { assert!(N::TYPE.count_bytes() == 9, "the name of a type has nine characters") };
    let mut methods = RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load::<N>),
        rdb_save: Some(rdb_save::<N>),
        aof_rewrite: Some(aof_rewrite::<N>),
        mem_usage: Some(mem_usage::<N>),
        digest: Some(digest::<N>),
        free: Some(free::<N>),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort::<N>),
        unlink: None,
        copy: None,
        defrag: Some(defrag::<N>),
        mem_usage2: None,
        free_effort2: None,
        unlink2: Some(unlink::<N>),
        copy2: Some(copy::<N>),
        aux_save2: None,
    };
    // SAFETY: the context is that of the load, and the server copies the methods.
    let kind: *mut RedisModuleType =
        unsafe { api!(RedisModule_CreateDataType(ctx, N::TYPE.as_ptr(), N::ENCODING, &raw mut methods)) };
    N::handle().store(kind, Ordering::Relaxed);
    !kind.is_null()
}

unsafe extern "C" fn rdb_load<N: Native>(io: *mut RedisModuleIO, encoding: c_int) -> *mut c_void {
    // SAFETY: the server lends the file for this call. The bytes that it hands over are freed once, after they were read.
    guard(null_mut(), || unsafe {
        let refuse = |why: &str| {
            let line: Vec<u8> = why.bytes().chain([0]).collect();
            let text: *const c_char = line.as_ptr().cast();
            api!(RedisModule_LogIOError(io, c"warning".as_ptr(), c"allot: %s".as_ptr(), text));
            null_mut()
        };
        if encoding != N::ENCODING {
            return refuse("the value was written by a version that this one does not know");
        }
        let mut len = 0;
        let bytes = api!(RedisModule_LoadStringBuffer(io, &raw mut len));
        if bytes.is_null() || api!(RedisModule_IsIOError(io)) != 0 {
            return refuse("the value ends too early");
        }
        fault::here("load");
        let loaded = N::load(std::slice::from_raw_parts(bytes.cast::<u8>(), len));
        api!(RedisModule_Free(bytes.cast()));
        match loaded {
            Err(why) => refuse(&why),
            Ok(value) => {
                let mut value = Box::new(value);
                let name = api!(RedisModule_GetKeyNameFromIO(io));
                if !name.is_null() {
                    let db = api!(RedisModule_GetDbIdFromIO(io));
                    value.placed(db, bytes_of(name));
                }
                Box::into_raw(value).cast()
            }
        }
    })
}

unsafe extern "C" fn rdb_save<N: Native>(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server lends the file and the value for this call.
    let saved = guard(false, || unsafe {
        fault::here("save");
        let bytes = (*value.cast::<N>()).save();
        api!(RedisModule_SaveStringBuffer(io, bytes.as_ptr().cast::<c_char>(), bytes.len()));
        true
    });
    if !saved {
        fail_saving();
    }
}

/// Ends the process that saves a file, so that no file claims to be whole: usually a child of the server. A dump for
/// `DUMP` or `MIGRATE` has no value then, and the server that is to restore it refuses it.
fn fail_saving() {
    if !SAVING.load(Ordering::Relaxed) {
        return;
    }
    let ctx = Context::detached();
    ctx.log(c"warning", "allot: a bug struck while a value was being saved; the file is given up");
    if ctx.is_child() {
        unsafe extern "C" {
            fn _exit(status: c_int) -> !;
        }
        // SAFETY: the function ends the process. No buffer of the parent may be written, as `exit` would do.
        unsafe { _exit(1) }
    }
    std::process::abort()
}

/// Whether this process, the server or its child, saves a file.
static SAVING: AtomicBool = AtomicBool::new(false);

/// The saving of a file has begun or ended in this process.
pub(super) unsafe extern "C" fn persistence(
    _: *mut RedisModuleCtx,
    _: RedisModuleEvent,
    part: u64,
    _: *mut c_void,
) {
    let ended = [raw::REDISMODULE_SUBEVENT_PERSISTENCE_ENDED, raw::REDISMODULE_SUBEVENT_PERSISTENCE_FAILED];
    SAVING.store(!ended.contains(&part), Ordering::Relaxed);
}

/// Writes the command that creates the value again: the family's internal command, with a snapshot.
unsafe extern "C" fn aof_rewrite<N: Native>(
    io: *mut RedisModuleIO,
    name: *mut RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the server lends file, name and value for this call; the payload is of the type that the format names.
    let saved = guard(false, || unsafe {
        fault::here("rewrite");
        let payload = (*value.cast::<N>()).rewrite(bytes_of(name));
        let (bytes, len): (*const c_char, usize) = (payload.as_ptr().cast(), payload.len());
        api!(RedisModule_EmitAOF(io, N::REWRITE.as_ptr(), c"sb".as_ptr(), name, bytes, len));
        true
    });
    if !saved {
        fail_saving();
    }
}

unsafe extern "C" fn mem_usage<N: Native>(value: *const c_void) -> usize {
    // SAFETY: the server lends the value, which is in a box, for this call.
    guard(0, || unsafe {
        let value = value.cast::<N>();
        usable_size(value) + (*value).allocated()
    })
}

unsafe extern "C" fn digest<N: Native>(digest: *mut RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server lends digest and value for this call, and copies the bytes.
    guard((), || unsafe {
        let bytes = (*value.cast::<N>()).save();
        api!(RedisModule_DigestAddStringBuffer(digest, bytes.as_ptr().cast::<c_char>(), bytes.len()));
        api!(RedisModule_DigestEndSequence(digest));
    });
}

unsafe extern "C" fn free<N: Native>(value: *mut c_void) {
    guard((), || {
        // SAFETY: the server gives back the box that it was given, once, and no key is open any more that lends it.
        let value = unsafe { Box::from_raw(value.cast::<N>()) };
        let effort = value.free_effort();
        freeing::free(value, effort);
    });
}

unsafe extern "C" fn free_effort<N: Native>(_: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server lends the value for this call.
    guard(1, || unsafe { (*value.cast::<N>()).free_effort() })
}

unsafe extern "C" fn unlink<N: Native>(options: *mut RedisModuleKeyOptCtx, value: *const c_void) {
    // SAFETY: the server lends value and name for this call.
    guard((), || unsafe {
        let name = api!(RedisModule_GetKeyNameFromOptCtx(options));
        if !name.is_null() {
            let db = api!(RedisModule_GetDbIdFromOptCtx(options));
            (*value.cast::<N>()).displaced(db, bytes_of(name.cast_mut()));
        }
    });
}

unsafe extern "C" fn copy<N: Native>(
    options: *mut RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server lends value and name for this call.
    guard(null_mut(), || unsafe {
        let mut value = Box::new((*value.cast::<N>()).duplicate());
        let name = api!(RedisModule_GetToKeyNameFromOptCtx(options));
        if !name.is_null() {
            let db = api!(RedisModule_GetToDbIdFromOptCtx(options));
            value.placed(db, bytes_of(name));
        }
        Box::into_raw(value).cast()
    })
}

/// Moves the value's own block. Its other blocks are few and large, and are not defragmented.
unsafe extern "C" fn defrag<N: Native>(
    ctx: *mut RedisModuleDefragCtx,
    _: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: the server lends the place of the value. No key is open that lends it: defragmentation runs between commands.
    guard((), || unsafe {
        let moved = api!(RedisModule_DefragAlloc(ctx, *value));
        if !moved.is_null() {
            *value = moved;
        }
    });
    0
}

/// Informs a value that it got another name.
///
/// # Safety
/// The name is live or null.
pub(super) unsafe fn moved<N: Native>(ctx: Context<'_>, name: *mut RedisModuleString) {
    if name.is_null() {
        return;
    }
    // SAFETY: the name is live, since it is not null.
    let name = unsafe { KeyName::lent(name) };
    let mut key = ctx.open(name, Mode::Read);
    if let Found::Value(value) = key.value::<N>() {
        value.placed(ctx.selected_db(), name.as_bytes());
    }
}
