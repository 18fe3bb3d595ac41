//! Strings of the server.

use redis_module::raw::{RedisModuleCtx, RedisModuleString};
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::os::raw::c_char;
use std::ptr::null_mut;

use super::api::api;

/// A string that the server lends for the time of a call: an argument, mostly the name of a key.
#[derive(Clone, Copy)]
pub(crate) struct KeyName<'a> {
    pub(super) raw: *mut RedisModuleString,
    bytes: &'a [u8],
}

impl<'a> KeyName<'a> {
    /// # Safety
    /// `raw` is a string that lives as long as `'a`.
    pub(super) unsafe fn lent(raw: *mut RedisModuleString) -> Self {
        // SAFETY: the string outlives 'a, and the server does not change one that is lent.
        Self { raw, bytes: unsafe { bytes_of(raw) } }
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }
}

thread_local! {
    /// The type of the value that this thread works on, and the name of its key.
    static CURRENT: Cell<Option<(&'static CStr, *mut RedisModuleString)>> = const { Cell::new(None) };
}

/// Restores the value that a nested call has replaced, also when a panic unwinds.
struct Restore(Option<(&'static CStr, *mut RedisModuleString)>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl KeyName<'_> {
    /// Runs `work`, during which `current` names this key. Calls may be nested.
    pub(crate) fn during<T>(self, kind: &'static CStr, work: impl FnOnce() -> T) -> T {
        let _restore = Restore(CURRENT.replace(Some((kind, self.raw))));
        work()
    }
}

/// The type and the name of the key that this thread works on.
pub(crate) fn current() -> Option<(&'static CStr, Vec<u8>)> {
    // SAFETY: `during` outlives neither its name nor what it puts here.
    CURRENT.get().map(|(kind, name)| (kind, unsafe { bytes_of(name) }.to_vec()))
}

/// The words of a call, its name included, also as strings of the server's.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    raw: &'a [*mut RedisModuleString],
    bytes: &'a [&'a [u8]],
}

impl<'a> Words<'a> {
    /// # Safety
    /// All of `raw` are strings that live as long as `'a`, and `bytes` are theirs.
    pub(super) unsafe fn lent(raw: &'a [*mut RedisModuleString], bytes: &'a [&'a [u8]]) -> Self {
        Self { raw, bytes }
    }

    /// The words' bytes.
    pub(crate) fn bytes(self) -> &'a [&'a [u8]] {
        self.bytes
    }

    /// The word at that place, as the name of a key.
    pub(crate) fn name(self, place: usize) -> Option<KeyName<'a>> {
        Some(KeyName { raw: *self.raw.get(place)?, bytes: self.bytes.get(place)? })
    }
}

/// # Safety
/// `raw` is a live string, and stays one for `'a`.
pub(super) unsafe fn bytes_of<'a>(raw: *const RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: the caller's promise; the bytes belong to the string.
    unsafe {
        let bytes = api!(RedisModule_StringPtrLen(raw, &raw mut len));
        if bytes.is_null() || len == 0 { &[] } else { std::slice::from_raw_parts(bytes.cast::<u8>(), len) }
    }
}

/// The longest string that is kept. The server allocates strings up to this length in one block.
const LONGEST_KEPT: usize = 44;
/// How many are kept at most; a power of two.
const KEPT_STRINGS: usize = 512;

thread_local! {
    /// Each string at the place that follows from its bytes; a later one takes an earlier one's.
    static KEPT: RefCell<[Option<OwnedString>; KEPT_STRINGS]> = const { RefCell::new([const { None }; KEPT_STRINGS]) };
}

/// The place at which a string is kept. Strings with the same place replace each other, which only costs time.
fn place_of(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let hash = words.iter().chain([&last]).fold(bytes.len() as u64, |hash, word| {
        (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    (hash >> (u64::BITS - KEPT_STRINGS.ilog2())) as usize
}

/// A string that the module created.
pub(crate) struct OwnedString {
    raw: *mut RedisModuleString,
}

impl OwnedString {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // SAFETY: without a context nothing frees the string but our drop.
        let raw = unsafe {
            api!(RedisModule_CreateString(
                null_mut::<RedisModuleCtx>(),
                bytes.as_ptr().cast::<c_char>(),
                bytes.len()
            ))
        };
        Self { raw }
    }

    /// As `new`, for bytes that are used often: names of fields, streams and units, and keywords. The latest strings
    /// are kept, so that most of them need not be created again.
    pub(crate) fn shared(bytes: &[u8]) -> Self {
        if bytes.len() > LONGEST_KEPT {
            return Self::new(bytes);
        }
        KEPT.with_borrow_mut(|kept| {
            let Some(place) = kept.get_mut(place_of(bytes)) else { return Self::new(bytes) };
            match place {
                Some(string) if string.name().as_bytes() == bytes => string.clone(),
                _ => place.insert(Self::new(bytes)).clone(),
            }
        })
    }

    /// # Safety
    /// `raw` is a string whose reference was given to us.
    pub(super) unsafe fn taken(raw: *mut RedisModuleString) -> Self {
        Self { raw }
    }

    pub(crate) fn name(&self) -> KeyName<'_> {
        // SAFETY: lent for as long as self is borrowed.
        unsafe { KeyName::lent(self.raw) }
    }
}

impl Clone for OwnedString {
    /// Another reference to the same string.
    fn clone(&self) -> Self {
        // SAFETY: without a context nothing gives up the new reference but the clone's drop.
        unsafe { api!(RedisModule_RetainString(null_mut::<RedisModuleCtx>(), self.raw)) };
        Self { raw: self.raw }
    }
}

impl Drop for OwnedString {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { api!(RedisModule_FreeString(null_mut::<RedisModuleCtx>(), self.raw)) }
    }
}
