//! `INFO allot`.

use redis_module::raw::{self, RedisModuleInfoCtx};
use std::ffi::CStr;
use std::os::raw::c_int;

use super::api::api;

/// Writes the sections and fields of `INFO`.
pub(crate) struct InfoWriter {
    pub(super) raw: *mut RedisModuleInfoCtx,
}

// `raw` is the server's for the time of the callback, and so is the writer.
impl InfoWriter {
    /// Begins a section. Returns whether the client asked for it.
    pub(crate) fn section(&self, name: &CStr) -> bool {
        // SAFETY: the writer and the name are live.
        unsafe { api!(RedisModule_InfoAddSection(self.raw, name.as_ptr())) == raw::REDISMODULE_OK as c_int }
    }

    pub(crate) fn unsigned(&self, name: &CStr, value: u64) {
        // SAFETY: the writer and the name are live.
        unsafe { api!(RedisModule_InfoAddFieldULongLong(self.raw, name.as_ptr(), value)) };
    }

    pub(crate) fn signed(&self, name: &CStr, value: i64) {
        // SAFETY: the writer and the name are live.
        unsafe { api!(RedisModule_InfoAddFieldLongLong(self.raw, name.as_ptr(), value)) };
    }
}
