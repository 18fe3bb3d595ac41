//! Requests that the viewer's user of Redis may not send. The server counts and logs each refusal (`ACL LOG`), so a request
//! that was refused is not sent again with every read.

use std::collections::HashMap;
use std::time::Duration;

use allot_client::Error;
use tokio::time::Instant;

/// Time after which a refused request is sent again: the rules of the user may have changed.
const RETRY: Duration = Duration::from_secs(60);

/// The requests that were refused, by a name, and when.
#[derive(Default)]
pub(super) struct Denied(HashMap<String, Instant>);

impl Denied {
    /// Sends a request, unless it was refused a moment ago. `None` if this user may not send it.
    pub(super) async fn ask<T>(
        &mut self,
        name: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        self.0.retain(|_, refused| refused.elapsed() < RETRY);
        if self.0.contains_key(name) {
            return Ok(None);
        }
        match request.await {
            Err(error) if error.code() == Some("NOPERM") => {
                self.0.insert(name.to_owned(), Instant::now());
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Error {
        Error::Refused { command: String::new(), code: "NOPERM".to_owned(), message: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_request_is_sent_again_after_a_while() {
        let mut denied = Denied::default();
        let mut sent = 0;
        for _ in 0..100 {
            let answer = denied.ask("a", async {
                sent += 1;
                Err::<(), Error>(refused())
            });
            assert_eq!(answer.await.unwrap(), None);
        }
        assert_eq!(sent, 1);
        assert_eq!(denied.ask("b", async { Ok(7) }).await.unwrap(), Some(7));
        tokio::time::advance(RETRY).await;
        assert_eq!(denied.ask("a", async { Ok(8) }).await.unwrap(), Some(8));
    }
}
