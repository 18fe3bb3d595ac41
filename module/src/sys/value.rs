//! How a family's state lives in the keyspace: loading, saving, copying, measuring and freeing it.
//!
//! The state stands in a box behind the key. It is freed on a background thread by `UNLINK`, so nothing in it
//! may be tied to the server's thread; `Family` asks for that.

use redis_module::raw::{
    self, RedisModuleCtx, RedisModuleDefragCtx, RedisModuleDigest, RedisModuleIO, RedisModuleKeyOptCtx,
    RedisModuleString, RedisModuleType, RedisModuleTypeMethods,
};
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use super::alloc::usable_size;
use super::api::api;
use super::context::{Context, Key, Mode, clock};
use super::register::guard;
use super::string::{KeyName, bytes_of};
use crate::deadlines;
use crate::family::{Family, NEVER};

/// What stands behind a key: the state, and what this process knows about it.
pub(crate) struct Value<F: Family> {
    pub(crate) state: F,
    /// The deadline for which the timer knows this key; `NEVER` where it does not.
    pub(crate) watched: i64,
    /// Whether there is more to send than one step may.
    pub(crate) unsent: bool,
    /// When the master sees to the key beside its deadlines, and how far it came the last time.
    pub(crate) upkeep_at: i64,
    pub(crate) upkeep_place: usize,
    /// What of it is counted in the family's gauge.
    gauge: i64,
}

impl<F: Family> Value<F> {
    pub(crate) fn new(state: F) -> Self {
        let mut value = Self {
            state,
            watched: NEVER,
            unsent: false,
            upkeep_at: F::UPKEEP_FROM,
            upkeep_place: 0,
            gauge: 0,
        };
        value.recount();
        value
    }

    /// Brings the family's gauge up to this state.
    pub(crate) fn recount(&mut self) {
        let gauge = self.state.gauge();
        if gauge != self.gauge {
            F::gauge_sum().fetch_add(gauge - self.gauge, Ordering::Relaxed);
            self.gauge = gauge;
        }
    }
}

impl<F: Family> Drop for Value<F> {
    fn drop(&mut self) {
        F::gauge_sum().fetch_sub(self.gauge, Ordering::Relaxed);
    }
}

/// What was found under a name.
pub(crate) enum Found<'k, F: Family> {
    Nothing,
    OtherType,
    Value(&'k mut Value<F>),
}

// SAFETY of what follows: a value of our type was made by `store` or `rdb_load` from a box of `Value<F>`; the
// server calls back on its own thread and hands over what it was given.
impl Key<'_> {
    /// The value of this family under the key.
    pub(crate) fn value<F: Family>(&mut self) -> Found<'_, F> {
        if self.raw.is_null() {
            return Found::Nothing;
        }
        unsafe {
            let kind = api!(RedisModule_ModuleTypeGetType(self.raw));
            if kind == F::type_slot().load(Ordering::Relaxed) && !kind.is_null() {
                let value = api!(RedisModule_ModuleTypeGetValue(self.raw)).cast::<Value<F>>();
                return value.as_mut().map_or(Found::Nothing, Found::Value);
            }
        }
        if self.exists() { Found::OtherType } else { Found::Nothing }
    }

    /// Puts a value under the key, which is open for writing.
    pub(crate) fn store<F: Family>(&self, value: Value<F>) -> bool {
        let kind = F::type_slot().load(Ordering::Relaxed);
        let value = Box::into_raw(Box::new(value));
        unsafe {
            let stored = api!(RedisModule_ModuleTypeSetValue(self.raw, kind, value.cast()));
            if stored != raw::REDISMODULE_OK as c_int {
                drop(Box::from_raw(value));
                return false;
            }
        }
        true
    }
}

/// Registers the family's type.
pub(super) unsafe fn register_type<F: Family>(ctx: *mut RedisModuleCtx) -> bool {
    let mut methods = RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load::<F>),
        rdb_save: Some(rdb_save::<F>),
        aof_rewrite: Some(aof_rewrite::<F>),
        mem_usage: Some(mem_usage::<F>),
        digest: Some(digest::<F>),
        free: Some(free::<F>),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort::<F>),
        unlink: None,
        copy: None,
        defrag: Some(defrag::<F>),
        mem_usage2: None,
        free_effort2: None,
        unlink2: Some(unlink::<F>),
        copy2: Some(copy::<F>),
        aux_save2: None,
    };
    let kind: *mut RedisModuleType =
        unsafe { api!(RedisModule_CreateDataType(ctx, F::TYPE.as_ptr(), F::ENCODING, &raw mut methods)) };
    F::type_slot().store(kind, Ordering::Relaxed);
    !kind.is_null()
}

unsafe extern "C" fn rdb_load<F: Family>(io: *mut RedisModuleIO, encoding: c_int) -> *mut c_void {
    guard(null_mut(), || unsafe {
        let refuse = |why: &str| {
            let line: Vec<u8> = why.bytes().chain([0]).collect();
            let text: *const c_char = line.as_ptr().cast();
            api!(RedisModule_LogIOError(io, c"warning".as_ptr(), c"allot: %s".as_ptr(), text));
            null_mut()
        };
        if encoding != F::ENCODING {
            return refuse("the value was written by a version that this one does not know");
        }
        let mut len = 0;
        let bytes = api!(RedisModule_LoadStringBuffer(io, &raw mut len));
        if bytes.is_null() || api!(RedisModule_IsIOError(io)) != 0 {
            return refuse("the value ends too early");
        }
        let decoded = F::decode(std::slice::from_raw_parts(bytes.cast::<u8>(), len));
        api!(RedisModule_Free(bytes.cast()));
        match decoded {
            Err(damaged) => refuse(&damaged.to_string()),
            Ok(state) => {
                let mut value = Box::new(Value::new(state));
                let name = api!(RedisModule_GetKeyNameFromIO(io));
                if !name.is_null() {
                    let db = api!(RedisModule_GetDbIdFromIO(io));
                    deadlines::watch(&mut value, db, bytes_of(name), clock());
                }
                Box::into_raw(value).cast()
            }
        }
    })
}

unsafe extern "C" fn rdb_save<F: Family>(io: *mut RedisModuleIO, value: *mut c_void) {
    guard((), || unsafe {
        let bytes = (*value.cast::<Value<F>>()).state.encode();
        api!(RedisModule_SaveStringBuffer(io, bytes.as_ptr().cast::<c_char>(), bytes.len()));
    });
}

/// Writes the one command that makes the value again: the family's internal one, with a snapshot.
unsafe extern "C" fn aof_rewrite<F: Family>(
    io: *mut RedisModuleIO,
    name: *mut RedisModuleString,
    value: *mut c_void,
) {
    guard((), || unsafe {
        let payload = crate::family::snapshot_payload(&(*value.cast::<Value<F>>()).state);
        let (bytes, len): (*const c_char, usize) = (payload.as_ptr().cast(), payload.len());
        api!(RedisModule_EmitAOF(io, F::APPLY.as_ptr(), c"sb".as_ptr(), name, bytes, len));
    });
}

unsafe extern "C" fn mem_usage<F: Family>(value: *const c_void) -> usize {
    guard(0, || unsafe {
        let value = value.cast::<Value<F>>();
        usable_size(value) - size_of::<F>().min(usable_size(value)) + (*value).state.allocated()
    })
}

unsafe extern "C" fn digest<F: Family>(digest: *mut RedisModuleDigest, value: *mut c_void) {
    guard((), || unsafe {
        let bytes = (*value.cast::<Value<F>>()).state.encode();
        api!(RedisModule_DigestAddStringBuffer(digest, bytes.as_ptr().cast::<c_char>(), bytes.len()));
        api!(RedisModule_DigestEndSequence(digest));
    });
}

unsafe extern "C" fn free<F: Family>(value: *mut c_void) {
    guard((), || unsafe { drop(Box::from_raw(value.cast::<Value<F>>())) });
}

unsafe extern "C" fn free_effort<F: Family>(_: *mut RedisModuleString, value: *const c_void) -> usize {
    guard(1, || unsafe { (*value.cast::<Value<F>>()).state.free_effort() })
}

unsafe extern "C" fn unlink<F: Family>(options: *mut RedisModuleKeyOptCtx, value: *const c_void) {
    guard((), || unsafe {
        let name = api!(RedisModule_GetKeyNameFromOptCtx(options));
        if !name.is_null() {
            let db = api!(RedisModule_GetDbIdFromOptCtx(options));
            deadlines::forget(&*value.cast::<Value<F>>(), db, bytes_of(name.cast_mut()));
        }
    });
}

unsafe extern "C" fn copy<F: Family>(
    options: *mut RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    guard(null_mut(), || unsafe {
        let mut value = Box::new(Value::new((*value.cast::<Value<F>>()).state.clone()));
        let name = api!(RedisModule_GetToKeyNameFromOptCtx(options));
        if !name.is_null() {
            let db = api!(RedisModule_GetToDbIdFromOptCtx(options));
            deadlines::watch(&mut value, db, bytes_of(name), clock());
        }
        Box::into_raw(value).cast()
    })
}

/// Moves the value's own block; what hangs on it are few and large blocks, which defragmentation leaves alone.
unsafe extern "C" fn defrag<F: Family>(
    ctx: *mut RedisModuleDefragCtx,
    _: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    unsafe {
        let moved = api!(RedisModule_DefragAlloc(ctx, *value));
        if !moved.is_null() {
            *value = moved;
        }
    }
    0
}

/// Opens the key of a name that a callback was given.
pub(super) unsafe fn rewatch<F: Family>(ctx: Context<'_>, name: *mut RedisModuleString) {
    if name.is_null() {
        return;
    }
    let name = unsafe { KeyName::lent(name) };
    let mut key = ctx.open(name, Mode::Read);
    if let Found::Value(value) = key.value::<F>() {
        value.watched = NEVER;
        deadlines::watch(value, ctx.selected_db(), name.as_bytes(), clock());
    }
}

/// A type's name has nine characters.
pub(crate) const fn is_type_name(name: &CStr) -> bool {
    name.count_bytes() == 9
}
