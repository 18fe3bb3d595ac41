//! Frees large values on a thread of its own, so that a `DEL` of a million elements does not keep clients waiting. The
//! server has such a thread as well, but uses it only for `UNLINK` and the like.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};

use super::api::api;

/// From how many allocations on a value is large: as in the server.
const LARGE: usize = 64;

type ToFree = Box<dyn Send>;

/// The way to the thread that frees.
enum Queue {
    /// Threads other than the server's own may take their time: they free values at once.
    OtherThread,
    /// No large value was freed so far.
    NotStarted,
    Started(Sender<ToFree>),
}

thread_local! {
    static QUEUE: RefCell<Queue> = const { RefCell::new(Queue::OtherThread) };
}

/// Notes that the calling thread is the server's own; once, at load.
pub(super) fn is_server_thread() {
    QUEUE.set(Queue::NotStarted);
}

/// Frees a value of so many allocations: a large one in the background, unless the server evicts keys. Eviction
/// continues until memory is free, so it would evict more keys than it must.
pub(super) fn free<V: Send + 'static>(value: Box<V>, effort: usize) {
    QUEUE.with_borrow_mut(|queue| {
        if matches!(queue, Queue::OtherThread) || effort < LARGE || is_full() {
            return;
        }
        if matches!(queue, Queue::NotStarted) {
            *queue = start();
        }
        if let Queue::Started(sender) = queue {
            // If the thread has ended, the value comes back and is freed here.
            drop(sender.send(value));
        }
    });
}

/// Starts the thread that frees. Where it cannot start, values are freed at once.
fn start() -> Queue {
    let (sender, receiver) = channel::<ToFree>();
    let freeing = move || receiver.into_iter().for_each(drop);
    match std::thread::Builder::new().name("allot-free".into()).spawn(freeing) {
        Ok(_) => Queue::Started(sender),
        Err(_) => Queue::NotStarted,
    }
}

/// Whether the server uses more memory than `maxmemory` allows.
fn is_full() -> bool {
    // SAFETY: the function takes nothing.
    unsafe { api!(RedisModule_GetUsedMemoryRatio()) >= 1.0 }
}
