//! Writes ordinary streams without running a command of the server.
//!
//! Running `XADD` costs several times as much as adding the entry: the server borrows a client, parses arguments, reads
//! clocks, and writes a reply that is read again. This file leaves these steps out, but nothing that others rely on:
//! clients that wait for the stream are woken, `WATCH` and client-side caches learn that the key changed, and the
//! notification and the replicated command are those of `XADD`.

use allot_core::shared::text::written;
use redis_module::raw::{self, RedisModuleStreamID, RedisModuleString};
use smallvec::SmallVec;
use std::os::raw::{c_int, c_long, c_longlong};
use std::sync::OnceLock;

use super::api::api;
use super::context::{Context, Mode};
use super::string::{KeyName, OwnedString};

/// Strings of one entry.
type Strings = SmallVec<[OwnedString; 32]>;

impl Context<'_> {
    /// Whether entries may be added in this way. They may not in a cluster, where only a command checks whether this
    /// node has the stream's slot, and not if the operator renamed or removed `XADD`, which could then not be
    /// replicated.
    pub(crate) fn appends_to_streams(self) -> bool {
        static KNOWS_XADD: OnceLock<bool> = OnceLock::new();
        !self.is_cluster() && *KNOWS_XADD.get_or_init(|| self.knows_xadd())
    }

    fn knows_xadd(self) -> bool {
        let words = ["XADD", "key", "1-1", "field", "value"].map(|word| OwnedString::new(word.as_bytes()));
        let mut raw = words.each_ref().map(|word| word.name().raw);
        let mut keys: c_int = 0;
        // SAFETY: the context is live, and so are the words until the end of this function. The list of places is freed once.
        unsafe {
            let (first, len) = (raw.as_mut_ptr(), raw.len() as c_int);
            let places = api!(RedisModule_GetCommandKeys(self.raw, first, len, &raw mut keys));
            if !places.is_null() {
                api!(RedisModule_Free(places.cast()));
            }
            !places.is_null()
        }
    }

    /// Appends an entry to a stream, which is created if the key does not exist. Trims the stream to this length (0: no
    /// limit), and replicates both as `XADD`. Returns whether this was done.
    pub(crate) fn append<'f>(
        self,
        stream: &[u8],
        (ms, seq): (u64, u64),
        keep: u32,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        let mut words = Strings::new();
        words.push(OwnedString::shared(stream));
        if keep > 0 {
            words.extend([&b"MAXLEN"[..], b"="].map(OwnedString::shared));
            words.push(OwnedString::shared(&written(format_args!("{keep}"))));
        }
        words.push(OwnedString::new(&written(format_args!("{ms}-{seq}"))));
        let head = words.len();
        words.extend(fields.flat_map(|(field, value)| [field, value]).map(OwnedString::shared));
        let mut raw: SmallVec<[*mut RedisModuleString; 32]> =
            words.iter().map(|word| word.name().raw).collect();
        let (Some(name), Some(fields)) = (words.first(), raw.get_mut(head..)) else { return false };
        let name = name.name();
        let mut id = RedisModuleStreamID { ms, seq };
        let key = self.open(name, Mode::Write);
        let (first, pairs) = (fields.as_mut_ptr(), fields.len() / 2);
        // SAFETY: the key is open for writing; the fields live until the end of this function, and there are two for each pair.
        let added = unsafe { api!(RedisModule_StreamAdd(key.raw, 0, &raw mut id, first, pairs as c_long)) };
        if added != raw::REDISMODULE_OK as c_int {
            return false;
        }
        let trimmed = match keep {
            0 => 0,
            // SAFETY: the key is open for writing.
            keep => unsafe { api!(RedisModule_StreamTrimByLength(key.raw, 0, c_longlong::from(keep))) },
        };
        // The key is closed before anybody hears of the entry.
        drop(key);
        self.replicate_words(c"XADD", &mut raw);
        self.tell_of_entry(name, trimmed > 0);
        true
    }

    fn tell_of_entry(self, name: KeyName<'_>, trimmed: bool) {
        self.signal_modified(name);
        self.notify_class(raw::REDISMODULE_NOTIFY_STREAM, c"xadd", name);
        if trimmed {
            self.notify_class(raw::REDISMODULE_NOTIFY_STREAM, c"xtrim", name);
        }
    }
}
