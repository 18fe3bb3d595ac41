//! Replaces the network: a simulation connects programs to its own servers through [`Dial`]. Dialed connections work only
//! within a Tokio runtime.

use std::fmt::{self, Debug};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Opens connections to servers.
pub trait Dial: Debug + Send + Sync + 'static {
    /// A new connection to the server at this address.
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Arc<dyn Transport>>>;

    /// A random factor of a waiting time, from 0.8 to 1.2.
    fn jitter(&self) -> f64;
}

/// Carries commands to the server at the other end of one connection, and their replies back.
pub trait Transport: Send + Sync + 'static {
    /// Sends commands together. The future returns one reply for each command; a reply may be an error of the server
    /// ([`Value::ServerError`]). The future returns an error if the connection breaks. Requests are carried out in the
    /// order in which their futures are first polled. If the program drops the future, the client polls it in a task of
    /// its own, because a server carries out what it has received. A request makes progress only while its future is
    /// polled, and later requests on the same connection wait for it.
    fn send(&self, commands: &mut dyn Iterator<Item = &Cmd>) -> BoxFuture<'static, io::Result<Vec<Value>>>;
}

/// A connection that was dialed. Clones share it.
#[derive(Clone)]
pub(crate) struct Dialed {
    transport: Arc<dyn Transport>,
    response_timeout: Duration,
}

impl Debug for Dialed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialed").field("response_timeout", &self.response_timeout).finish_non_exhaustive()
    }
}

impl Dialed {
    /// Connects to the server at this address.
    pub(crate) async fn connect(
        dial: &dyn Dial,
        (host, port): (&str, u16),
        (connection_timeout, response_timeout): (Duration, Duration),
    ) -> io::Result<Self> {
        let transport = timeout(connection_timeout, dial.dial(host, port)).await??;
        Ok(Self { transport, response_timeout })
    }

    /// Sends commands, and waits for their replies.
    pub(crate) fn send(
        &self,
        commands: &mut dyn Iterator<Item = &Cmd>,
    ) -> impl Future<Output = io::Result<Vec<Value>>> + use<> {
        let mut count = 0;
        let mut counted = commands.inspect(|_| count += 1);
        let sent = self.transport.send(&mut counted);
        counted.for_each(drop);
        let replies = timeout(self.response_timeout, Sent(Some(sent)));
        async move {
            let replies = replies.await??;
            if replies.len() == count { Ok(replies) } else { Err(io::ErrorKind::InvalidData.into()) }
        }
    }
}

/// Commands that were sent. They are carried out even if nobody waits for their replies any more.
struct Sent(Option<BoxFuture<'static, io::Result<Vec<Value>>>>);

impl Future for Sent {
    type Output = io::Result<Vec<Value>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(replies) = &mut self.0 else { unreachable!("polled after its end") };
        let replies = std::task::ready!(replies.poll_unpin(context));
        self.0 = None;
        Poll::Ready(replies)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let (Some(replies), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(replies);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::{Connection, Endpoint, RealmStore, Servers};

    const ANSWERS_AFTER: Duration = Duration::from_secs(1);

    /// A server that answers each piece with the number of the commands that it has carried out.
    #[derive(Debug, Default, Clone)]
    struct Counter(Arc<AtomicUsize>);

    impl Dial for Counter {
        fn dial(&self, host: &str, _port: u16) -> BoxFuture<'static, io::Result<Arc<dyn Transport>>> {
            let opened = if host == "counter" {
                Ok(Arc::new(self.clone()) as Arc<dyn Transport>)
            } else {
                Err(io::ErrorKind::NotFound.into())
            };
            async move { opened }.boxed()
        }

        fn jitter(&self) -> f64 {
            1.0
        }
    }

    impl Transport for Counter {
        fn send(
            &self,
            commands: &mut dyn Iterator<Item = &Cmd>,
        ) -> BoxFuture<'static, io::Result<Vec<Value>>> {
            let (carried_out, count) = (self.0.clone(), commands.count());
            async move {
                sleep(ANSWERS_AFTER).await;
                let before = carried_out.fetch_add(count, Ordering::Relaxed);
                Ok((1..=count).map(|number| Value::Int((before + number) as i64)).collect())
            }
            .boxed()
        }
    }

    async fn connect(
        counter: &Counter,
        address: &str,
        timeout: Duration,
    ) -> Result<RealmStore, crate::Error> {
        let (endpoint, _) = Endpoint::url(address)?;
        let dial = Some(Arc::new(counter.clone()) as Arc<dyn Dial>);
        let servers = Servers { timeout, dial, ..Servers::new(endpoint, "realm") };
        Ok(RealmStore::new(servers.connection(Duration::ZERO).await?, "realm"))
    }

    #[tokio::test(start_paused = true)]
    async fn each_command_gets_its_reply() {
        let counter = Counter::default();
        let store = connect(&counter, "redis://counter:6379", Servers::TIMEOUT).await.unwrap();
        assert_eq!(store.ask::<i64>(&store.begin("FIRST")).await.unwrap(), 1);
        let replies = store.ask_all(vec![store.begin("SECOND"), store.begin("THIRD")]).await.unwrap();
        let replies: Vec<Value> = replies.into_iter().map(Result::unwrap).collect();
        assert_eq!(replies, [Value::Int(2), Value::Int(3)]);
        let mut pipe = redis::pipe();
        pipe.add_command(store.begin("FOURTH")).ignore().add_command(store.begin("FIFTH"));
        assert_eq!(store.ask_pipe::<Vec<i64>>(&pipe).await.unwrap(), [5]);
        let refused = store.ask_pipe::<Vec<i64>>(pipe.atomic()).await.unwrap_err();
        assert!(!refused.ends_session(), "{refused}");
        assert_eq!(counter.0.load(Ordering::Relaxed), 5);
    }

    /// A server that answers nothing.
    struct Mute;

    impl Transport for Mute {
        fn send(&self, _: &mut dyn Iterator<Item = &Cmd>) -> BoxFuture<'static, io::Result<Vec<Value>>> {
            async { Ok(Vec::new()) }.boxed()
        }
    }

    #[tokio::test]
    async fn missing_reply_ends_the_session() {
        let dialed = Dialed { transport: Arc::new(Mute), response_timeout: Servers::TIMEOUT };
        let store = RealmStore::new(Connection::from(dialed), "realm");
        let (one, two) = (store.begin("ONE"), store.begin("TWO"));
        assert!(store.ask::<i64>(&one).await.unwrap_err().ends_session());
        assert!(store.ask_all(vec![one, two]).await.unwrap_err().ends_session());
    }

    /// A server that carries out deadlines, so many requests long.
    struct Busy(AtomicUsize);

    impl Transport for Busy {
        fn send(
            &self,
            commands: &mut dyn Iterator<Item = &Cmd>,
        ) -> BoxFuture<'static, io::Result<Vec<Value>>> {
            let answer = |_| {
                let before =
                    self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                let line = b"-TRYAGAIN 7 due changes are being carried out: send the request again\r\n";
                before.map_or(Value::Okay, |_| redis::parse_redis_value(line).unwrap())
            };
            let answers = commands.map(answer).collect();
            async { Ok(answers) }.boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_is_to_be_sent_again_is() {
        let store = |busy| {
            let transport = Arc::new(Busy(AtomicUsize::new(busy)));
            RealmStore::new(
                Connection::from(Dialed { transport, response_timeout: Servers::TIMEOUT }),
                "realm",
            )
        };
        let one = store(0).begin("ONE");
        assert_eq!(store(5).ask::<Value>(&one).await.unwrap(), Value::Okay);
        let replies = store(5).ask_all(vec![one.clone(), one.clone(), one.clone()]).await.unwrap();
        assert!(replies.iter().all(Result::is_ok), "{replies:?}");
        let refused = store(usize::MAX).ask::<Value>(&one).await.unwrap_err();
        assert_eq!((refused.code(), refused.ends_session()), (Some("TRYAGAIN"), false));
        let replies = store(usize::MAX).ask_all(vec![one]).await.unwrap();
        assert_eq!(replies[0].as_ref().unwrap_err().code(), Some("TRYAGAIN"));
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_server_is_not_reached() {
        let error = connect(&Counter::default(), "redis://nowhere:6379", Servers::TIMEOUT).await.unwrap_err();
        assert!(error.ends_session(), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn late_reply_ends_the_session_and_the_command_is_carried_out() {
        let counter = Counter::default();
        let timeout = ANSWERS_AFTER / 2;
        let store = connect(&counter, "redis://counter:6379", timeout).await.unwrap();
        let asked = Instant::now();
        let error = store.ask::<i64>(&store.begin("LATE")).await.unwrap_err();
        assert!(error.ends_session(), "{error}");
        assert_eq!((asked.elapsed(), counter.0.load(Ordering::Relaxed)), (timeout, 0));
        sleep(ANSWERS_AFTER).await;
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
    }
}
