//! Rust's global allocator on top of Redis' allocator, so that `used_memory`, `maxmemory` and defragmentation include
//! the memory of the module.

use std::alloc::{GlobalAlloc, Layout, System};

use super::api::api;

struct RedisAllocator;

#[global_allocator]
static ALLOCATOR: RedisAllocator = RedisAllocator;

/// The alignment of all blocks of the server's allocator.
const LEAST: usize = 8;
/// The alignment of its blocks whose size is a multiple of this. A block of 24 or 40 bytes may have less: the jemalloc
/// that Redis brings along is built with a quantum of 8 bytes. Blocks that need more come from the system: they are few.
const NATURAL: usize = 16;

/// The size to ask for, so that the block has the alignment.
fn size(layout: Layout) -> usize {
    if layout.align() <= LEAST { layout.size() } else { layout.size().next_multiple_of(NATURAL) }
}

// SAFETY: blocks come from RedisModule_Alloc and its kin, which behave as malloc and align blocks as `is_aligned` has found
// at load, or from the system. The layout, which is the same when a block is freed, says which.
unsafe impl GlobalAlloc for RedisAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > NATURAL {
            // SAFETY: the caller keeps the contract of this trait.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: the server's function takes any size.
        unsafe { api!(RedisModule_Alloc(size(layout))).cast() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() > NATURAL {
            // SAFETY: as in `alloc`.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the server's function takes any size.
        unsafe { api!(RedisModule_Calloc(1, size(layout))).cast() }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() > NATURAL {
            // SAFETY: as in `alloc`; the block comes from the system, since its layout says so.
            return unsafe { System.realloc(block, layout, new_size) };
        }
        // SAFETY: the caller promises that the new size is one of a layout with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: the block comes from the server.
        unsafe { api!(RedisModule_Realloc(block.cast(), size(new))).cast() }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() > NATURAL {
            // SAFETY: as in `realloc`.
            return unsafe { System.dealloc(block, layout) };
        }
        // SAFETY: the block comes from the server.
        unsafe { api!(RedisModule_Free(block.cast())) }
    }
}

/// Whether the server's allocator aligns blocks as this file needs.
pub(super) fn is_aligned() -> bool {
    let aligns = |size: usize, align: usize| {
        // The first block of a run may be aligned by chance.
        // SAFETY: the server's function takes any size.
        let blocks = [(); 4].map(|()| unsafe { api!(RedisModule_Alloc(size)) });
        let aligned = blocks.iter().all(|block| block.addr().is_multiple_of(align));
        for block in blocks {
            // SAFETY: the block comes from the server, and nothing uses it.
            unsafe { api!(RedisModule_Free(block)) };
        }
        aligned
    };
    (1..=16).all(|words| aligns(words * LEAST, LEAST))
        && (1..=64).all(|lines| aligns(lines * NATURAL, NATURAL))
}

/// Bytes that the server's allocator set aside for a block.
///
/// # Safety
/// The block is a live box.
pub(crate) unsafe fn usable_size<T>(block: *const T) -> usize {
    const { assert!(align_of::<T>() <= NATURAL) };
    // SAFETY: because of its alignment, the block comes from the server.
    unsafe { api!(RedisModule_MallocSize(block.cast_mut().cast())) }
}
