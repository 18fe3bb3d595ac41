//! File operations on threads of their own. Storage such as NFS may not answer, and a thread that waits for it cannot be
//! ended: it must neither be one of the runtime's threads, on which leases depend, nor one of very many.

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The most operations at once. Further ones wait without a thread.
const MAX_THREADS: usize = 64;

static PLACES: Semaphore = Semaphore::const_new(MAX_THREADS);

/// Runs an operation that may block, and waits for its result. The caller limits the time; an operation for which nobody
/// waits any more keeps its thread until it ends.
pub async fn run<T: Send + 'static>(operation: impl FnOnce() -> T + Send + 'static) -> T {
    let place = PLACES.acquire().await;
    let ended = spawn_blocking(move || {
        let result = operation();
        drop(place);
        result
    });
    match ended.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn hanging_operations_take_a_limited_number_of_threads_and_none_of_the_runtime() {
        const SHORT: Duration = Duration::from_millis(20);
        let mut hanging = Vec::new();
        for _ in 0..MAX_THREADS {
            let (end, ends): (_, Receiver<()>) = channel();
            assert!(timeout(SHORT, run(move || ends.recv().is_err())).await.is_err());
            hanging.push(end);
        }
        assert!(timeout(SHORT, run(|| ())).await.is_err(), "no thread is left for it");
        hanging.pop();
        timeout(Duration::from_secs(20), run(|| ())).await.expect("a thread is free");
    }
}
