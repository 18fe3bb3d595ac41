//! The interface of a command, a timer or a callback to the server: replies, keys, replication, time.

use redis_module::raw::{self, RedisModuleCallReply, RedisModuleCtx, RedisModuleString};
use std::cell::RefCell;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::{c_char, c_int, c_long, c_longlong, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::api::api;
use super::string::{KeyName, OwnedString};

/// The server's side of one call.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(super) raw: *mut RedisModuleCtx,
    lent: PhantomData<&'a ()>,
}

/// How a key is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Leaves access time and frequency as they are.
    Read,
    Write,
}

// All that follows rests on the promise of `lent`: `raw` is a context of the server's that lives as long as `'a`, on the
// thread of the server, which is the only one that has contexts.
#[allow(clippy::unused_self, reason = "what the server knows is asked of its context")]
impl<'a> Context<'a> {
    /// # Safety
    /// `raw` is a live context for `'a`.
    pub(super) unsafe fn lent(raw: *mut RedisModuleCtx) -> Self {
        Self { raw, lent: PhantomData }
    }

    /// A context that belongs to no call, for log lines of code that has none.
    pub(crate) fn detached() -> Context<'static> {
        // SAFETY: it lives as long as the module; a null one is fit for the log.
        unsafe { Context::lent(detached_context()) }
    }

    // Replies. The functions of the server always return OK.

    pub(crate) fn reply_string(self, bytes: &[u8]) {
        // SAFETY: the context is live, and the server copies the bytes.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer(self.raw, bytes.as_ptr().cast::<c_char>(), bytes.len()))
        };
    }

    pub(crate) fn reply_integer(self, value: i64) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.raw, value as c_longlong)) };
    }

    pub(crate) fn reply_double(self, value: f64) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithDouble(self.raw, value)) };
    }

    pub(crate) fn reply_null(self) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithNull(self.raw)) };
    }

    /// 'Nothing available': `*-1` in RESP2, `_` in RESP3.
    pub(crate) fn reply_nothing(self) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithNullArray(self.raw)) };
    }

    pub(crate) fn reply_ok(self) {
        // SAFETY: the context is live, and the text is static.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.raw, c"OK".as_ptr())) };
    }

    /// Begins a list; `len` replies follow.
    pub(crate) fn reply_array(self, len: usize) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithArray(self.raw, len as c_long)) };
    }

    /// Begins a map (a flat list in RESP2); `len` pairs of replies follow.
    pub(crate) fn reply_map(self, len: usize) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithMap(self.raw, len as c_long)) };
    }

    /// An error line, its code first.
    pub(crate) fn reply_error(self, line: &str) {
        let line: Vec<u8> = line.bytes().filter(|&byte| byte != 0).chain([0]).collect();
        // SAFETY: the context is live, and the server copies the line, which ends with its only zero.
        unsafe { api!(RedisModule_ReplyWithError(self.raw, line.as_ptr().cast::<c_char>())) };
    }

    // Keys.

    pub(crate) fn selected_db(self) -> i32 {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetSelectedDb(self.raw)) }
    }

    /// Whether the database exists.
    pub(crate) fn select_db(self, db: i32) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_SelectDb(self.raw, db)) == raw::REDISMODULE_OK as c_int }
    }

    pub(crate) fn open(self, name: KeyName<'_>, mode: Mode) -> Key<'a> {
        let flags = match mode {
            Mode::Read => raw::REDISMODULE_READ | raw::REDISMODULE_OPEN_KEY_NOTOUCH,
            Mode::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: the context and the name are live.
        let raw = unsafe { api!(RedisModule_OpenKey(self.raw, name.raw, flags as c_int)) };
        Key { raw: raw.cast(), lends: null_mut(), lent: PhantomData }
    }

    /// Tells `WATCH` and client-side caches that a key changed.
    pub(crate) fn signal_modified(self, name: KeyName<'_>) {
        // SAFETY: the context and the name are live.
        unsafe { api!(RedisModule_SignalModifiedKey(self.raw, name.raw)) };
    }

    /// Publishes a keyspace notification under the class of modules.
    pub(crate) fn notify(self, event: &CStr, name: KeyName<'_>) {
        self.notify_class(raw::REDISMODULE_NOTIFY_MODULE, event, name);
    }

    pub(super) fn notify_class(self, class: c_int, event: &CStr, name: KeyName<'_>) {
        // SAFETY: the context, the event and the name are live.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.raw, class, event.as_ptr(), name.raw)) };
    }

    /// Whether the server asks for the places of the command's keys, and not for the command.
    pub(crate) fn asks_for_keys(self) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.raw)) != 0 }
    }

    /// Tells the server that the argument at that place is a key.
    pub(crate) fn key_is_at(self, place: usize) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_KeyAtPos(self.raw, place as c_int)) }
    }

    // Replication.

    /// Writes `command key payload` into the replication stream and the AOF.
    pub(crate) fn replicate_payload(self, command: &CStr, name: KeyName<'_>, payload: &[u8]) {
        // SAFETY: context, name and payload are live, and of the types that the format names.
        unsafe {
            let payload: (*const c_char, usize) = (payload.as_ptr().cast(), payload.len());
            api!(RedisModule_Replicate(
                self.raw,
                command.as_ptr(),
                c"sb".as_ptr(),
                name.raw,
                payload.0,
                payload.1
            ));
        }
    }

    /// Writes the running command, word by word, into the replication stream and the AOF.
    pub(crate) fn replicate_verbatim(self) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplicateVerbatim(self.raw)) };
    }

    /// Writes `command word ...` into the replication stream and the AOF.
    pub(super) fn replicate_words(self, command: &CStr, words: &mut [*mut RedisModuleString]) {
        // SAFETY: context, command and words are live, and of the types that the format names.
        unsafe {
            let (first, len) = (words.as_mut_ptr(), words.len());
            api!(RedisModule_Replicate(self.raw, command.as_ptr(), c"v".as_ptr(), first, len));
        }
    }

    /// Writes `command key member ...` into the replication stream and the AOF.
    pub(super) fn replicate_members(
        self,
        command: &CStr,
        name: KeyName<'_>,
        members: &mut [*mut RedisModuleString],
    ) {
        // SAFETY: context, name and members are live, and of the types that the format names.
        unsafe {
            let (first, len) = (members.as_mut_ptr(), members.len());
            api!(RedisModule_Replicate(self.raw, command.as_ptr(), c"sv".as_ptr(), name.raw, first, len));
        }
    }

    /// Writes `command key count` into the replication stream and the AOF.
    pub(super) fn replicate_count(self, command: &CStr, name: KeyName<'_>, count: usize) {
        // SAFETY: context, name and count are live, and of the types that the format names.
        unsafe {
            let count = count as c_longlong;
            api!(RedisModule_Replicate(self.raw, command.as_ptr(), c"sl".as_ptr(), name.raw, count));
        }
    }

    /// The context under which other commands run. In a cluster it is the detached one: under the context of a client
    /// that has sent `ASKING`, a command could create streams and pools in a slot that is still being imported, and
    /// those that arrive later would collide with them.
    fn caller(self) -> *mut RedisModuleCtx {
        let detached = detached_context();
        if !self.is_cluster() || detached.is_null() {
            return self.raw;
        }
        // A cluster may have several databases, too.
        // SAFETY: the contexts are live, since the detached one is not null.
        unsafe { api!(RedisModule_SelectDb(detached, api!(RedisModule_GetSelectedDb(self.raw)))) };
        detached
    }

    /// Runs an ordinary command and replicates it. A command of a module replicates its effects itself.
    pub(crate) fn call_and_replicate(self, command: &CStr, arguments: &[&[u8]]) -> Outcome {
        // SAFETY: the reply is live.
        let is_error = |reply| unsafe {
            api!(RedisModule_CallReplyType(reply)) as isize == raw::REDISMODULE_REPLY_ERROR
        };
        match self.call(command, c"!v", arguments, is_error) {
            None => Outcome::NotRun,
            Some(true) => Outcome::Refused,
            Some(false) => Outcome::Done,
        }
    }

    /// Runs an ordinary command that only reads. Returns its reply, as far as it consists of text, numbers and lists.
    pub(crate) fn ask(self, command: &CStr, arguments: &[&[u8]]) -> Answer {
        // SAFETY: the reply is live.
        self.call(command, c"v", arguments, |reply| unsafe { Answer::of(reply) }).unwrap_or(Answer::Nothing)
    }

    /// Runs an ordinary command and reads its reply, which is live until `read` returns. `None` if the server did not run
    /// the command. `format` ends with `v` for the arguments.
    fn call<T>(
        self,
        command: &CStr,
        format: &CStr,
        arguments: &[&[u8]],
        read: impl FnOnce(*mut RedisModuleCallReply) -> T,
    ) -> Option<T> {
        let strings: Vec<OwnedString> = arguments.iter().map(|argument| OwnedString::new(argument)).collect();
        let mut raw: Vec<*mut RedisModuleString> = strings.iter().map(|string| string.name().raw).collect();
        // SAFETY: the context is live, and the strings until the end of this function; `v` names their type. The reply is freed
        // once, and not used after that.
        unsafe {
            let (first, len) = (raw.as_mut_ptr(), raw.len());
            let reply: *mut RedisModuleCallReply =
                api!(RedisModule_Call(self.caller(), command.as_ptr(), format.as_ptr(), first, len));
            if reply.is_null() {
                return None;
            }
            let read = read(reply);
            api!(RedisModule_FreeCallReply(reply));
            Some(read)
        }
    }

    // The server.

    pub(super) fn flags(self) -> u32 {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetContextFlags(self.raw)) as u32 }
    }

    /// Whether this command comes from the master's link or from an AOF file.
    pub(crate) fn is_replicated_or_loading(self) -> bool {
        self.flags() & (raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING) != 0
    }

    /// Whether the server is loading its data.
    pub(crate) fn is_loading(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_LOADING != 0
    }

    pub(crate) fn is_master(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_MASTER != 0
    }

    /// Whether this process is a child of the server, which saves a file.
    pub(super) fn is_child(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_IS_CHILD != 0
    }

    /// Whether keys are spread over slots.
    pub(crate) fn is_cluster(self) -> bool {
        // This does not change while the process runs.
        static IS_CLUSTER: OnceLock<bool> = OnceLock::new();
        *IS_CLUSTER.get_or_init(|| self.flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0)
    }

    /// Milliseconds since the epoch.
    pub(crate) fn clock(self) -> i64 {
        clock()
    }

    /// Whether the module may change keys now without a command of a client: this is a master, nothing keeps its
    /// replication stream still (`CLIENT PAUSE`, a failover), and the server would not refuse the command of a client.
    pub(crate) fn may_change_keys(self) -> bool {
        // SAFETY: the function takes nothing.
        self.is_master() && unsafe { api!(RedisModule_AvoidReplicaTraffic()) == 0 } && !self.refuses_writes()
    }

    /// Whether the server refuses writes of clients now, since too few replicas follow it (`NOREPLICAS`), since it cannot
    /// persist them (`MISCONF`), or since its cluster is down. Only the server knows all reasons, so it is asked for permission to run a
    /// write that changes nothing: `SETRANGE` with an empty text.
    fn refuses_writes(self) -> bool {
        // S asks as a script would be asked, E for the error as a reply, and D not to run the command at all.
        static FORMAT: OnceLock<&CStr> = OnceLock::new();
        let format = FORMAT.get_or_init(|| {
            // SAFETY: the function takes nothing.
            let knows_dry_runs = unsafe { api!(RedisModule_GetServerVersion()) } >= 0x0007_0200;
            if knows_dry_runs { c"SEDccc" } else { c"SEccc" }
        });
        // SAFETY: the context is live, and the texts, of the type that `c` names, are static. The reply is freed once, and not
        // used after that.
        unsafe {
            let (key, place, text) = (c"allot".as_ptr(), c"0".as_ptr(), c"".as_ptr());
            let reply: *mut RedisModuleCallReply =
                api!(RedisModule_Call(self.raw, c"SETRANGE".as_ptr(), format.as_ptr(), key, place, text));
            if reply.is_null() {
                return false;
            }
            let is_error = api!(RedisModule_CallReplyType(reply)) as isize == raw::REDISMODULE_REPLY_ERROR;
            let text = if is_error { text_of(reply) } else { Vec::new() };
            api!(RedisModule_FreeCallReply(reply));
            let is_down = |part: &[u8]| part == b"while the cluster is down";
            text.starts_with(b"NOREPLICAS")
                || text.starts_with(b"MISCONF")
                || text.windows(b"while the cluster is down".len()).any(is_down)
        }
    }

    /// Writes a line to the server's log.
    pub(crate) fn log(self, level: &CStr, line: &str) {
        let line: Vec<u8> = line.bytes().filter(|&byte| byte != 0).chain([0]).collect();
        // SAFETY: the context is live or null, and the line ends with its only zero. It is an argument of the format, never
        // the format.
        unsafe {
            let text: *const c_char = line.as_ptr().cast();
            api!(RedisModule_Log(self.raw, level.as_ptr(), c"%s".as_ptr(), text));
        }
    }
}

/// The context that belongs to no call; made at load.
static DETACHED: AtomicPtr<RedisModuleCtx> = AtomicPtr::new(null_mut());

/// A context that belongs to no call, and is valid as long as the process runs: for timers that are set outside of a
/// call, for the log, and for commands that no client sent.
pub(super) fn detached_context() -> *mut RedisModuleCtx {
    DETACHED.load(Ordering::Relaxed)
}

/// # Safety
/// Called at load, with the module's context.
pub(super) unsafe fn make_detached_context(ctx: *mut RedisModuleCtx) {
    // SAFETY: the context is that of the load.
    DETACHED.store(unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx)) }, Ordering::Relaxed);
}

/// Milliseconds since the epoch.
pub(crate) fn clock() -> i64 {
    // SAFETY: the function takes nothing.
    unsafe { api!(RedisModule_Milliseconds()) }
}

/// The result of a command that the module called.
pub(crate) enum Outcome {
    Done,
    /// The command was run, and replied an error.
    Refused,
    /// The server did not run the command, for example because the slot of its key is migrating.
    NotRun,
}

/// The reply of an ordinary command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    Number(i64),
    Text(Vec<u8>),
    List(Vec<Answer>),
}

/// The text of a string or an error.
///
/// # Safety
/// `reply` is a live reply of a call.
unsafe fn text_of(reply: *mut RedisModuleCallReply) -> Vec<u8> {
    let mut len = 0;
    // SAFETY: the caller's promise; the text belongs to the reply.
    unsafe {
        let text = api!(RedisModule_CallReplyStringPtr(reply, &raw mut len));
        if text.is_null() || len == 0 {
            return Vec::new();
        }
        std::slice::from_raw_parts(text.cast::<u8>(), len).to_vec()
    }
}

impl Answer {
    /// # Safety
    /// `reply` is a live reply of a call.
    unsafe fn of(reply: *mut RedisModuleCallReply) -> Self {
        // SAFETY: the caller's promise; a part of a live reply is live, and was checked not to be null.
        unsafe {
            match api!(RedisModule_CallReplyType(reply)) as isize {
                raw::REDISMODULE_REPLY_STRING => Self::Text(text_of(reply)),
                raw::REDISMODULE_REPLY_INTEGER => Self::Number(api!(RedisModule_CallReplyInteger(reply))),
                raw::REDISMODULE_REPLY_ARRAY => {
                    let len = api!(RedisModule_CallReplyLength(reply));
                    let part = |at| {
                        let part = api!(RedisModule_CallReplyArrayElement(reply, at));
                        if part.is_null() { Self::Nothing } else { Self::of(part) }
                    };
                    Self::List((0..len).map(part).collect())
                }
                _ => Self::Nothing,
            }
        }
    }

    /// The parts of a list; none of anything else.
    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Self::List(parts) => parts,
            _ => &[],
        }
    }

    /// A field of a flat list of names and values.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&Self> {
        self.list().chunks_exact(2).find_map(|pair| match pair {
            [Self::Text(field), value] if field == name => Some(value),
            _ => None,
        })
    }
}

thread_local! {
    /// The values that open keys have lent out. Only the server's thread opens keys.
    static LENT: RefCell<Vec<*mut c_void>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a value is lent out, unless another key has lent it already.
pub(super) fn lend(value: *mut c_void) -> bool {
    LENT.with_borrow_mut(|lent| {
        let is_free = !lent.contains(&value);
        if is_free {
            lent.push(value);
        }
        is_free
    })
}

/// Notes that a key that is closed no longer lends its value.
fn take_back(value: *mut c_void) {
    LENT.with_borrow_mut(|lent| lent.retain(|other| *other != value));
}

/// Whether an open key has lent a value out.
pub(super) fn is_lent(value: *mut c_void) -> bool {
    LENT.with_borrow(|lent| lent.contains(&value))
}

/// An open key; closed when dropped. `value` has more of it.
pub(crate) struct Key<'a> {
    /// Null if it was opened for reading and there is no such key.
    pub(super) raw: *mut raw::RedisModuleKey,
    /// The value that this key has lent out; null before that.
    pub(super) lends: *mut c_void,
    lent: PhantomData<&'a ()>,
}

impl Key<'_> {
    /// Whether there is a value under the name.
    pub(crate) fn exists(&self) -> bool {
        // SAFETY: a key that is not null is open.
        !self.raw.is_null()
            && unsafe { api!(RedisModule_KeyType(self.raw)) != raw::REDISMODULE_KEYTYPE_EMPTY as c_int }
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        if !self.lends.is_null() {
            take_back(self.lends);
        }
        if !self.raw.is_null() {
            // SAFETY: the key is open, and is not used any more.
            unsafe { api!(RedisModule_CloseKey(self.raw)) };
        }
    }
}
