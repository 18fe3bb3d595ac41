//! Rust's global allocator on top of Redis' allocator, so that `used_memory`, `maxmemory` and defragmentation include
//! the memory of the module.

use std::alloc::{GlobalAlloc, Layout};

use super::api::api;

struct RedisAllocator;

#[global_allocator]
static ALLOCATOR: RedisAllocator = RedisAllocator;

/// The alignment of every allocation of the server.
const NATURAL: usize = 16;

/// The size to ask for, so that the block has the alignment: jemalloc aligns a power of two to itself.
fn size(layout: Layout) -> usize {
    if layout.align() <= NATURAL {
        layout.size()
    } else {
        layout.size().max(layout.align()).next_power_of_two()
    }
}

// SAFETY: blocks come from RedisModule_Alloc and its kin, which behave as malloc; `size` sees to alignment.
unsafe impl GlobalAlloc for RedisAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { api!(RedisModule_Alloc(size(layout))).cast() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { api!(RedisModule_Calloc(1, size(layout))).cast() }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        unsafe { api!(RedisModule_Realloc(block.cast(), size(new))).cast() }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        unsafe { api!(RedisModule_Free(block.cast())) }
    }
}

/// Bytes that the server's allocator set aside for a block.
pub(crate) fn usable_size<T>(block: *const T) -> usize {
    unsafe { api!(RedisModule_MallocSize(block.cast_mut().cast())) }
}
