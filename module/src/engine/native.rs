//! A family's values as the server sees them.

use redis_module::raw::RedisModuleType;
use std::ffi::CStr;
use std::sync::atomic::AtomicPtr;

use super::deadlines::{self, NEVER};
use super::family::Family;
use super::step::{snapshot_payload, watch};
use super::value::Value;
use super::waiting;
use crate::ffi::context::clock;
use crate::ffi::value::Native;

impl<F: Family> Native for Value<F> {
    const TYPE: &'static CStr = F::TYPE;
    const ENCODING: i32 = F::ENCODING;
    const REWRITE: &'static CStr = F::APPLY;

    fn handle() -> &'static AtomicPtr<RedisModuleType> {
        &F::statics().handle
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        F::decode(bytes).map(Self::new).map_err(|damaged| damaged.to_string())
    }

    fn save(&self) -> Vec<u8> {
        self.state.encode()
    }

    fn rewrite(&self, name: &[u8]) -> Vec<u8> {
        snapshot_payload(name, &self.state)
    }

    fn allocated(&self) -> usize {
        // What a state allocates includes the state itself, which is in the value's own block.
        self.state.allocated().saturating_sub(size_of::<F>())
    }

    fn free_effort(&self) -> usize {
        self.state.free_effort()
    }

    fn duplicate(&self) -> Self {
        Self::new(self.state.clone())
    }

    fn placed(&mut self, db: i32, name: &[u8]) {
        self.watched = NEVER;
        self.state.forget_waiters(None);
        let clock = clock();
        let now = self.now(clock);
        watch(self, || (db, name), now, clock);
    }

    fn displaced(&self, db: i32, name: &[u8]) {
        deadlines::forget(self.watched, db, name, F::NUMBER);
        waiting::key_gone(db, name);
    }
}
