//! Clients that wait for a command's answer, as those of `BLPOP` do.
//!
//! A client waits on its key, so that the server redirects it when the slot of the key moves. The server never finds
//! the key ready: the module decides who is answered. A client that the module unblocks gets its answer in the callback
//! for the end of the wait, at once.

use redis_module::raw::{
    self, RedisModuleBlockedClient, RedisModuleCtx, RedisModuleEvent, RedisModuleString,
};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::cell::Cell;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::raw::{c_int, c_void};
use std::ptr::null_mut;

use super::api::api;
use super::context::{Answer, Context};
use super::guard::with_hooks;
use super::string::KeyName;

/// A client that waits. The server frees it after it was unblocked, which consumes it.
pub(crate) struct BlockedClient {
    raw: *mut RedisModuleBlockedClient,
}

impl BlockedClient {
    /// Answers the client: calls the hook `wait_ended` for it, before this function returns.
    pub(crate) fn unblock(self) {
        // SAFETY: the server has freed no client that was not unblocked. This one was not, since it is consumed here.
        unsafe { api!(RedisModule_UnblockClient(self.raw, null_mut())) };
    }
}

impl Context<'_> {
    /// Whether this call may wait: not in a transaction, a script, or another context that needs an answer at once.
    pub(crate) fn may_block(self) -> bool {
        let busy = raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
        self.flags() & busy == 0
    }

    /// Has the server call the hook `before_sleep` from now on, which answers clients that wait. Servers on which no client
    /// ever waits do not call it. False if the server does not offer this event.
    pub(crate) fn watch_event_loop(self) -> bool {
        if WATCHED.get() {
            return true;
        }
        let event = RedisModuleEvent { id: raw::REDISMODULE_EVENT_EVENTLOOP, dataver: 1 };
        // SAFETY: the context is that of a call.
        let status = unsafe { api!(RedisModule_SubscribeToServerEvent(self.raw, event, Some(before_sleep))) };
        WATCHED.set(status == raw::REDISMODULE_OK as c_int);
        WATCHED.get()
    }

    /// Blocks the client of this call for `wait` milliseconds, 0 without an end; `id` names it to the hooks. The
    /// command replies nothing then. The event loop is watched.
    pub(crate) fn block(self, name: KeyName<'_>, id: u64, wait: i64) -> BlockedClient {
        let (mut key, id) = (name.raw, id as usize as *mut c_void);
        // SAFETY: the server copies the list of keys. The id is a number, which nothing frees.
        unsafe {
            let raw: *mut RedisModuleBlockedClient = api!(RedisModule_BlockClientOnKeys(
                self.raw,
                Some(key_is_ready),
                Some(wait_ended),
                None,
                wait,
                &raw mut key,
                1,
                id
            ));
            api!(RedisModule_SetDisconnectCallback(raw, Some(disconnected)));
            BlockedClient { raw }
        }
    }

    /// The connection of the client of this call.
    pub(crate) fn connection(self) -> Connection {
        // SAFETY: the context belongs to a call.
        let client = unsafe { api!(RedisModule_GetClientId(self.raw)) };
        let listed = self.ask(c"CLIENT", &[b"LIST", b"ID", client.to_string().as_bytes()]);
        let Answer::Text(line) = listed else { return Connection { client, socket: None } };
        let field = line.split(|&byte| byte == b' ').find_map(|field| field.strip_prefix(b"fd="));
        let socket = field.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        Connection { client, socket: socket.filter(|&socket| socket >= 0) }
    }
}

/// The connection of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    /// The server's id of the client.
    client: u64,
    /// The descriptor of its socket, which is open as long as the client exists.
    socket: Option<RawFd>,
}

impl Connection {
    /// Whether the client exists and its peer has not closed the connection. The server notices a closed connection
    /// only when it next reads from it, and a client that was killed reads no answer.
    pub(crate) fn is_open(self) -> bool {
        // SAFETY: the function takes a null pointer if only the existence of the client is asked for.
        let exists = unsafe { api!(RedisModule_GetClientInfoById(null_mut(), self.client)) };
        exists == raw::REDISMODULE_OK as c_int
            && self.socket.is_none_or(|socket| {
                // SAFETY: the client exists, so the server has its socket open, and closes it only after this call.
                has_peer(unsafe { BorrowedFd::borrow_raw(socket) })
            })
    }
}

/// Whether the peer of a socket may still read: false once it has closed the connection.
fn has_peer(socket: BorrowedFd<'_>) -> bool {
    match recv(socket, &mut [0u8], RecvFlags::PEEK) {
        Ok((bytes, _)) => bytes > 0,
        // The sockets of the server do not block: there is nothing to read yet.
        Err(error) => matches!(error, Errno::WOULDBLOCK | Errno::INTR),
    }
}

thread_local! {
    /// Whether the server calls `before_sleep`.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" fn before_sleep(ctx: *mut RedisModuleCtx, _: RedisModuleEvent, part: u64, _: *mut c_void) {
    if part != raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP {
        return;
    }
    // SAFETY: the server lends its context for this call.
    with_hooks(|hooks| (hooks.before_sleep)(unsafe { Context::lent(ctx) }));
}

/// The key was created, or signalled by another module: that answers nobody.
unsafe extern "C" fn key_is_ready(_: *mut RedisModuleCtx, _: *mut *mut RedisModuleString, _: c_int) -> c_int {
    raw::REDISMODULE_ERR as c_int
}

unsafe extern "C" fn wait_ended(ctx: *mut RedisModuleCtx, _: *mut *mut RedisModuleString, _: c_int) -> c_int {
    // SAFETY: the server lends its context for this call, which is about a client that waits.
    with_hooks(|hooks| unsafe { (hooks.wait_ended)(Context::lent(ctx), id_of(ctx)) });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn disconnected(ctx: *mut RedisModuleCtx, _: *mut RedisModuleBlockedClient) {
    // SAFETY: as in `wait_ended`.
    with_hooks(|hooks| unsafe { (hooks.disconnected)(Context::lent(ctx), id_of(ctx)) });
}

/// The id under which the client of a callback waits.
///
/// # Safety
/// The context is that of a callback about a client that waits.
unsafe fn id_of(ctx: *mut RedisModuleCtx) -> u64 {
    // SAFETY: the caller's promise. The private data is the number that `block` gave.
    unsafe { api!(RedisModule_GetBlockedClientPrivateData(ctx)) as usize as u64 }
}
