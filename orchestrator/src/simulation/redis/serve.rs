//! A connection of a program to a server or to a Sentinel. The server works whenever the program's end is polled, in the
//! task of the program: a task for each connection would take longer than all that servers do.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, select};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::resp::{Command, Reply, take_commands};
use super::{Answer, Redis, host};
use crate::simulation::network::{End, Fate, Link};

/// What a connection leads to.
#[derive(Debug, Clone)]
pub(in crate::simulation) enum Peer {
    Server(Redis, usize),
    Sentinel(Redis),
}

/// The program's end of a connection, and what the server does with it.
pub(in crate::simulation) struct Connection {
    peer: Peer,
    link: Link,
    /// What the program has written, and the server has not read.
    sent: BytesMut,
    /// The commands that are on their way to the server or being carried out: their replies; `None` if they break the
    /// connection. The server reads the next ones after that.
    answering: Option<BoxFuture<'static, Option<Vec<u8>>>>,
    /// What the program has not read of the replies.
    replies: Vec<u8>,
    /// What ends the connection from outside, and the task that is woken then; `None` when the connection is closed.
    end: Option<(End, Option<Waker>)>,
}

impl Connection {
    /// A connection on this link. A server that is not up closes it at once.
    pub(in crate::simulation) fn open(peer: Peer, link: Link) -> Self {
        let closed = match &peer {
            Peer::Server(redis, server) => redis.accept(*server).map(Some),
            Peer::Sentinel(_) => Some(None),
        };
        let end = closed.map(|closed| (link.end(closed), None));
        Self { peer, link, sent: BytesMut::new(), answering: None, replies: Vec::new(), end }
    }

    /// Whether the connection is closed by now. The task is woken when it is.
    fn is_closed(&mut self, context: &mut Context<'_>) -> bool {
        let Some((end, task)) = &mut self.end else { return true };
        let is_known = task.as_ref().is_some_and(|task| task.will_wake(context.waker()));
        if is_known && !end.may_have_come() {
            return false;
        }
        *task = Some(context.waker().clone());
        if end.poll_unpin(context).is_ready() {
            self.close();
        }
        self.end.is_none()
    }

    fn close(&mut self) {
        (self.end, self.answering) = (None, None);
    }

    /// Whether there is something to read: replies, or the end of the connection.
    fn is_readable(&self) -> bool {
        !self.replies.is_empty() || self.end.is_none()
    }

    /// The server goes on with what the program has sent, as far as it can now.
    fn work(&mut self, context: &mut Context<'_>) {
        while !self.is_closed(context) {
            if let Some(answering) = &mut self.answering {
                match answering.poll_unpin(context) {
                    Poll::Pending => return,
                    Poll::Ready(None) => return self.close(),
                    Poll::Ready(Some(replies)) if self.replies.is_empty() => self.replies = replies,
                    Poll::Ready(Some(replies)) => self.replies.extend_from_slice(&replies),
                }
                self.answering = None;
            }
            if self.sent.is_empty() {
                return;
            }
            let commands = take_commands(&mut self.sent);
            if commands.is_empty() {
                return;
            }
            // The memory of earlier replies is used again.
            let empty = if self.replies.is_empty() { std::mem::take(&mut self.replies) } else { Vec::new() };
            self.answering = Some(self.peer.clone().answer_all(commands, self.link.clone(), empty).boxed());
        }
    }
}

/// A server carries out what it was sent, even if the program does not wait for the answer.
impl Drop for Connection {
    fn drop(&mut self) {
        if let (Some((end, _)), Some(answering)) = (self.end.take(), self.answering.take())
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(select(end, answering).map(drop));
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.replies.is_empty() {
            self.work(context);
        }
        if !self.is_readable() {
            return Poll::Pending;
        }
        let count = self.replies.len().min(buffer.remaining());
        buffer.put_slice(&self.replies[..count]);
        self.replies.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_closed(context) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.sent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.answering.is_none() {
            self.work(context);
            if self.is_readable() {
                context.waker().wake_by_ref();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Peer {
    /// Carries out commands in their order, and adds their replies to `replies`; `None` if the connection breaks.
    async fn answer_all(self, commands: Vec<Command>, link: Link, mut replies: Vec<u8>) -> Option<Vec<u8>> {
        link.pass().await;
        let fate = link.fate();
        if fate == Fate::BreakBefore {
            return None;
        }
        for command in commands {
            let reply = match &self {
                // Boxed, because few commands wait: otherwise the future of every command would be as large.
                Self::Server(redis, server) if may_wait(&command) => {
                    answer_in_time(redis.clone(), *server, command).boxed().await
                }
                Self::Server(redis, server) => redis.answer_at_once(*server, &command),
                Self::Sentinel(redis) => sentinel(redis, &command),
            };
            reply.write(&mut replies);
        }
        if fate == Fate::BreakAfter {
            return None;
        }
        link.is_open().await;
        Some(replies)
    }
}

/// Carries out a command that may wait: for replicas, or for entries of a stream.
async fn answer_in_time(redis: Redis, server: usize, command: Command) -> Reply {
    if command.name() == b"WAIT" {
        return Reply::number(redis.wait(milliseconds(command.get(2).unwrap())).await);
    }
    let block = (0..command.len()).find(|at| command.get(*at) == Some(b"BLOCK"));
    let block = block.and_then(|at| command.get(at + 1)).map(milliseconds);
    let deadline = Instant::now() + block.unwrap_or_default();
    loop {
        let waiting = match redis.with(|state| state.answer(server, &command)) {
            Answer::Reply(reply) => return reply,
            Answer::Wait(_) if block.is_none() => return Reply::NullList,
            Answer::Wait(waiting) => waiting,
        };
        // Nothing can be written between the attempt and this wait: there is one thread.
        if timeout_at(deadline, waiting.notified()).await.is_err() {
            return Reply::NullList;
        }
    }
}

/// Whether a command waits for something, unless it is there already.
fn may_wait(command: &Command) -> bool {
    matches!(command.name(), b"WAIT" | b"XREAD" | b"XREADGROUP")
}

fn milliseconds(word: &[u8]) -> Duration {
    Duration::from_millis(std::str::from_utf8(word).unwrap().parse().unwrap())
}

fn sentinel(redis: &Redis, command: &Command) -> Reply {
    let (master, failovers) = redis.with(|state| (state.master, state.failovers));
    match command.get(1) {
        Some(b"GET-MASTER-ADDR-BY-NAME") => Reply::texts([host(master).as_str(), "6379"]),
        Some(b"MASTER") => Reply::record([("config-epoch", Reply::text(failovers.to_string()))]),
        _ => Reply::Ok,
    }
}
