//! Clients that wait until a key can answer them.
//!
//! A family keeps its waiters by their ids, in its state or next to it, and decides who is served; the module answers
//! them at the end of the step that serves them, so that no other command comes between. Here is what the server knows
//! of a waiter: its client and the key for which it waits. A waiter that is not here any more is not alive.

use allot_core::invariant;
use allot_core::shared::Bytes;
use allot_core::shared::refusal::{Code, Refusal};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};

use super::info::Counter;
use crate::ffi::blocking::{BlockedClient, Connection};
use crate::ffi::{Context, KeyName, OwnedString, guard};

/// Takes a waiter, whose client no longer waits, out of the state of its key.
pub(crate) type Forget = fn(Context<'_>, KeyName<'_>, u64);

/// Writes an answer to a client.
pub(crate) type Answer = Box<dyn FnOnce(Context<'_>)>;

/// Takes back what a client was granted whose connection ended before the answer was sent.
pub(crate) type Undo = Box<dyn FnOnce(Context<'_>, KeyName<'_>)>;

/// A decision to answer a waiter.
pub(crate) struct Grant<E> {
    pub(crate) waiter: u64,
    pub(crate) events: E,
    pub(crate) answer: Answer,
    /// The name of what the answer grants, if it grants something.
    pub(crate) granted: Option<Bytes>,
    /// `None` if there is nothing to take back.
    pub(crate) undo: Option<Undo>,
}

/// The name of a key, with its database.
type Place = (i32, Box<[u8]>);

struct Waiter {
    /// `None` once the client was unblocked.
    client: Option<BlockedClient>,
    connection: Connection,
    place: Place,
    forget: Forget,
    /// Counts waits that ended with null.
    unserved: Option<&'static Counter>,
    /// Set from the time at which the waiter is answered until the answer is written.
    answer: Option<Answer>,
}

/// A grant whose answer is not sent yet.
struct Granted {
    waiter: u64,
    /// Whether the server has answered the client itself, so that the client knows of no grant.
    is_lost: bool,
    connection: Connection,
    place: Place,
    name: Bytes,
    undo: Undo,
}

#[derive(Default)]
struct Registry {
    last_id: u64,
    waiters: HashMap<u64, Waiter>,
    by_place: HashMap<Place, BTreeSet<u64>>,
    granted: Vec<Granted>,
    /// Waiters whose answer is decided, and is sent before the server sleeps. Until then the server holds that they
    /// wait, so that it answers none of them a second time.
    answered: Vec<u64>,
}

/// How often this server has become a replica. A count that wraps around still tells two times apart.
static DEMOTIONS: AtomicU32 = AtomicU32::new(0);

/// The server has become a replica. It has answered all clients that waited.
pub(crate) fn demoted() {
    DEMOTIONS.fetch_add(1, Ordering::Relaxed);
}

/// How often this server has become a replica.
pub(super) fn demotions() -> u32 {
    DEMOTIONS.load(Ordering::Relaxed)
}

thread_local! {
    // Only the server's thread uses it. It is never borrowed while a function of the server or of a family runs.
    static REGISTRY: RefCell<Registry> = RefCell::default();
}

impl Registry {
    fn put(&mut self, id: u64, waiter: Waiter) {
        self.by_place.entry(waiter.place.clone()).or_default().insert(id);
        self.waiters.insert(id, waiter);
    }

    fn remove(&mut self, id: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        if let Some(ids) = self.by_place.get_mut(&waiter.place) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_place.remove(&waiter.place);
            }
        }
        Some(waiter)
    }
}

/// Whether a call may wait: not in a transaction or a script. A server that cannot answer clients that wait refuses it.
pub(crate) fn may_block(ctx: Context<'_>) -> Result<bool, Refusal> {
    if !ctx.may_block() {
        return Ok(false);
    }
    if !ctx.watch_event_loop() {
        let text = "this server does not tell modules when it has run all commands, so no call can wait; call without WAIT";
        return Err(Refusal::new(Code::Err, text));
    }
    Ok(true)
}

/// Blocks the client of this call for `wait` milliseconds, 0 without an end. `unserved` counts the wait if it ends
/// with null. Returns the id of the waiter. The command replies nothing.
pub(crate) fn block(
    ctx: Context<'_>,
    name: KeyName<'_>,
    wait: i64,
    forget: Forget,
    unserved: Option<&'static Counter>,
) -> u64 {
    let connection = ctx.connection();
    let place: Place = (ctx.selected_db(), name.as_bytes().into());
    let id = REGISTRY.with_borrow_mut(|registry| {
        registry.last_id += 1;
        registry.last_id
    });
    let client = ctx.block(name, id, wait);
    REGISTRY.with_borrow_mut(|registry| {
        registry.put(id, Waiter { client: Some(client), connection, place, forget, unserved, answer: None });
    });
    id
}

/// Whether a waiter still waits and can read an answer.
pub(crate) fn is_alive(id: u64) -> bool {
    let connection = REGISTRY.with_borrow(|registry| {
        registry.waiters.get(&id).filter(|waiter| waiter.answer.is_none()).map(|waiter| waiter.connection)
    });
    connection.is_some_and(Connection::is_open)
}

/// Answers a waiter before the server sleeps, unless it has been answered.
pub(crate) fn answer(id: u64, answer: Answer) {
    REGISTRY.with_borrow_mut(|registry| {
        if let Some(waiter) = registry.waiters.get_mut(&id).filter(|waiter| waiter.answer.is_none()) {
            waiter.answer = Some(answer);
            registry.answered.push(id);
        }
    });
}

/// A client has been told of what was granted under this name, so the same grant to a client that is gone is not taken
/// back.
pub(crate) fn cancel_undo(db: i32, key: KeyName<'_>, name: &[u8]) {
    REGISTRY.with_borrow_mut(|registry| {
        if !registry.granted.is_empty() {
            registry
                .granted
                .retain(|grant| (grant.place.0, &*grant.place.1, &*grant.name) != (db, key.as_bytes(), name));
        }
    });
}

/// Answers waiters of a key whom a step has served, after its events were replicated.
pub(crate) fn deliver<E>(ctx: Context<'_>, name: KeyName<'_>, grants: Vec<Grant<E>>) {
    let db = ctx.selected_db();
    for Grant { waiter, answer: reply, granted, undo, .. } in grants {
        match (granted, undo) {
            (Some(granted), None) => cancel_undo(db, name, &granted),
            (Some(granted), Some(undo)) => REGISTRY.with_borrow_mut(|registry| {
                if let Some(Waiter { connection, .. }) = registry.waiters.get(&waiter) {
                    let (connection, place) = (*connection, (db, name.as_bytes().into()));
                    registry.granted.push(Granted {
                        waiter,
                        is_lost: false,
                        connection,
                        place,
                        name: granted,
                        undo,
                    });
                }
            }),
            (None, _) => {}
        }
        answer(waiter, reply);
    }
}

/// The wait of a client has ended: it is answered, its time is over, or another client has unblocked it.
pub(crate) fn wait_ended(ctx: Context<'_>, id: u64) {
    match REGISTRY.with_borrow_mut(|registry| registry.remove(id)) {
        Some(Waiter { answer: Some(answer), .. }) => answer(ctx),
        Some(waiter) => {
            forget(ctx, id, &waiter, waiter.place.0);
            if let Some(unserved) = waiter.unserved {
                unserved.add(1);
            }
            ctx.reply_nothing();
        }
        None => {
            invariant!("a client whose wait ends is known");
            ctx.reply_nothing();
        }
    }
}

/// The connection of a client that waits has ended, or the server has answered it itself.
pub(crate) fn disconnected(ctx: Context<'_>, id: u64) {
    let waiter = REGISTRY.with_borrow_mut(|registry| {
        registry.granted.iter_mut().filter(|grant| grant.waiter == id).for_each(|grant| grant.is_lost = true);
        registry.remove(id)
    });
    if let Some(waiter) = waiter {
        forget(ctx, id, &waiter, waiter.place.0);
    }
}

/// Takes a waiter out of the state of its key, which is in this database.
fn forget(ctx: Context<'_>, id: u64, waiter: &Waiter, db: i32) {
    if ctx.select_db(db) {
        (waiter.forget)(ctx, OwnedString::new(&waiter.place.1).name(), id);
    }
}

/// A key was deleted, overwritten, renamed or moved: its waiters are told to call again.
pub(crate) fn key_gone(db: i32, name: &[u8]) {
    let ids = REGISTRY.with_borrow_mut(|registry| {
        if registry.waiters.is_empty() { None } else { registry.by_place.remove(&(db, name.into())) }
    });
    ids.into_iter().flatten().for_each(tell_to_call_again);
}

fn tell_to_call_again(id: u64) {
    let line = "UNBLOCKED the key was deleted, renamed or moved while the call waited; call again";
    answer(id, Box::new(move |ctx| ctx.reply_error(line)));
}

/// Ids of the waiters of a database.
fn waiters_of(db: i32) -> Vec<u64> {
    REGISTRY.with_borrow(|registry| {
        let places = registry.by_place.iter().filter(|((other, _), _)| *other == db);
        places.flat_map(|(_, ids)| ids.iter().copied()).collect()
    })
}

/// A database was emptied, or all of them.
pub(crate) fn flushed(db: Option<i32>) {
    let ids: Vec<u64> = match db {
        Some(db) => waiters_of(db),
        None => REGISTRY.with_borrow(|registry| registry.waiters.keys().copied().collect()),
    };
    ids.into_iter().for_each(tell_to_call_again);
}

/// A key got another name, or went to another database. What it granted in this turn can be taken back there.
pub(crate) fn moved(from: guard::Place<'_>, to: guard::Place<'_>) {
    REGISTRY.with_borrow_mut(|registry| {
        for Granted { place, .. } in &mut registry.granted {
            if (place.0, &*place.1) == from {
                *place = (to.0, to.1.into());
            }
        }
    });
}

/// Two databases changed places, but their clients did not.
pub(crate) fn swapped(first: i32, second: i32) {
    REGISTRY.with_borrow_mut(|registry| {
        for Granted { place, .. } in &mut registry.granted {
            place.0 = match place.0 {
                db if db == first => second,
                db if db == second => first,
                db => db,
            };
        }
    });
    for (before, now) in [(first, second), (second, first)] {
        for id in waiters_of(before) {
            if let Some(waiter) = REGISTRY.with_borrow_mut(|registry| registry.remove(id)) {
                forget(Context::detached(), id, &waiter, now);
                REGISTRY.with_borrow_mut(|registry| registry.put(id, waiter));
            }
            tell_to_call_again(id);
        }
    }
}

/// Before the server sends its answers: takes back the grants of clients that can no longer read them, and answers the
/// others.
pub(crate) fn before_sleep(ctx: Context<'_>) {
    let mut postponed = Vec::new();
    // Taking a grant back may grant the number to the next waiter, whose answer is sent now, too.
    loop {
        let (granted, answered) = REGISTRY.with_borrow_mut(|registry| {
            (std::mem::take(&mut registry.granted), std::mem::take(&mut registry.answered))
        });
        if granted.is_empty() && answered.is_empty() {
            break;
        }
        for grant in granted {
            if !grant.is_lost && grant.connection.is_open() || !ctx.is_master() {
                continue;
            }
            if !ctx.may_change_keys() {
                postponed.push(grant);
            } else if ctx.select_db(grant.place.0) {
                // A panic must not keep the answers that follow from their clients.
                guard::guard((), || (grant.undo)(ctx, OwnedString::new(&grant.place.1).name()));
            }
        }
        for id in answered {
            let client = REGISTRY.with_borrow_mut(|registry| registry.waiters.get_mut(&id)?.client.take());
            if let Some(client) = client {
                guard::guard((), || client.unblock());
            }
        }
    }
    if !postponed.is_empty() {
        REGISTRY.with_borrow_mut(|registry| registry.granted = postponed);
    }
}
