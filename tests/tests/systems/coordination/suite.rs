//! What must hold of every implementation: each test of the lists runs in one process and on a real ZooKeeper server.

use std::time::Duration;

use allot_coordination::Error;

macro_rules! suite {
    ($($name:ident)*) => {
        mod in_process { $(#[test] fn $name() { super::$name(&crate::coordination::participants::Local::new()); })* }
        mod zookeeper { $(#[test] fn $name() { super::$name(&crate::coordination::participants::Real::new()); })* }
    };
}

mod leadership;
mod nodes;

/// Asks until there is an answer: who waits for the machine may be cut off meanwhile, and some calls have a short limit
/// for the sake of others that are to have no answer.
async fn answered<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(10)).await,
            answer => return answer.unwrap(),
        }
    }
}
