//! Ordinary sorted sets.

use redis_module::raw::{self, RedisModuleString};
use smallvec::SmallVec;
use std::os::raw::c_int;

use super::api::api;
use super::context::{Context, Key};
use super::string::{KeyName, OwnedString};

/// A member and its score.
pub(crate) struct Member {
    pub(crate) name: OwnedString,
    pub(crate) score: f64,
}

/// Members popped together; few, mostly.
pub(crate) type Members = SmallVec<[Member; 4]>;

/// The end from which members are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Min,
    Max,
}

impl Key<'_> {
    /// Whether the key holds a sorted set; `None` if the key does not exist.
    pub(crate) fn is_zset(&self) -> Option<bool> {
        if self.raw.is_null() {
            return None;
        }
        // SAFETY: a key that is not null is open.
        let kind = unsafe { api!(RedisModule_KeyType(self.raw)) };
        (kind != raw::REDISMODULE_KEYTYPE_EMPTY as c_int)
            .then_some(kind == raw::REDISMODULE_KEYTYPE_ZSET as c_int)
    }

    /// Number of members of a sorted set.
    pub(crate) fn zset_len(&self) -> usize {
        // SAFETY: the key is open or null.
        unsafe { api!(RedisModule_ValueLength(self.raw)) }
    }

    /// Passes the members of a sorted set to `visit`, from this end on, until `visit` returns that it has enough.
    pub(crate) fn zset_walk(&self, end: End, mut visit: impl FnMut(Member) -> bool) {
        // SAFETY: the key is open; the functions return nothing for other types. `visit` has no way to the key while the walk
        // goes on, and each member is a string of its own.
        unsafe {
            let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
            match end {
                End::Min => api!(RedisModule_ZsetFirstInScoreRange(self.raw, low, high, 0, 0)),
                End::Max => api!(RedisModule_ZsetLastInScoreRange(self.raw, low, high, 0, 0)),
            };
            loop {
                let mut score = 0.0;
                // Null after the last member.
                let name = api!(RedisModule_ZsetRangeCurrentElement(self.raw, &raw mut score));
                if name.is_null() || !visit(Member { name: OwnedString::taken(name), score }) {
                    break;
                }
                let more = match end {
                    End::Min => api!(RedisModule_ZsetRangeNext(self.raw)),
                    End::Max => api!(RedisModule_ZsetRangePrev(self.raw)),
                };
                if more == 0 {
                    break;
                }
            }
            api!(RedisModule_ZsetRangeStop(self.raw));
        }
    }

    /// Removes members, and the key with the last of them.
    pub(crate) fn zset_remove(&self, members: &[Member]) {
        for member in members {
            let mut removed: c_int = 0;
            // SAFETY: the key is open for writing, no walk goes on, and the member is live.
            unsafe { api!(RedisModule_ZsetRem(self.raw, member.name.name().raw, &raw mut removed)) };
        }
    }
}

impl Context<'_> {
    /// Writes `ZREM key member ...` into the replication stream and the AOF.
    pub(crate) fn replicate_zrem(self, name: KeyName<'_>, members: &[Member]) {
        let mut raw: SmallVec<[*mut RedisModuleString; 8]> =
            members.iter().map(|member| member.name.name().raw).collect();
        self.replicate_members(c"ZREM", name, &mut raw);
    }

    /// Writes `ZPOPMIN|ZPOPMAX key count` into the replication stream and the AOF, as `ZMPOP` does.
    pub(crate) fn replicate_pop(self, end: End, name: KeyName<'_>, count: usize) {
        let command = match end {
            End::Min => c"ZPOPMIN",
            End::Max => c"ZPOPMAX",
        };
        self.replicate_count(command, name, count);
    }

    /// The notifications of members popped from a sorted set, and of the key gone with the last.
    pub(crate) fn notify_popped(self, end: End, name: KeyName<'_>, emptied: bool) {
        let event = match end {
            End::Min => c"zpopmin",
            End::Max => c"zpopmax",
        };
        self.notify_class(raw::REDISMODULE_NOTIFY_ZSET, event, name);
        if emptied {
            self.notify_class(raw::REDISMODULE_NOTIFY_GENERIC, c"del", name);
        }
    }
}
