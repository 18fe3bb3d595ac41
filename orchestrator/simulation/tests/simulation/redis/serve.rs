//! A connection of a program to a server or to a Sentinel. The server works in the task of the program that waits for
//! the reply: a task for each connection would take longer than all that servers do. If the program stops waiting, the
//! server goes on in a task of its own.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use allot_client::Transport;
use allot_coordination::random;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, poll_fn};
use redis::Cmd;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::command::Command;
use super::reply::{self, Reply};
use super::{Answer, Redis, host};
use crate::link::{End, Fate, Link};

/// What a connection leads to.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    Server(Redis, usize),
    Sentinel(Redis),
}

/// A connection of a program.
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    peer: Peer,
    link: Link,
    /// Held while a request is carried out: the others follow in the order in which they were sent.
    in_order: tokio::sync::Mutex<()>,
    /// Whether the program has left the connection, so that nobody reads replies.
    is_left: watch::Sender<bool>,
    /// What ends the connection from outside, and the task that is woken then; `None` when the connection is closed.
    end: Mutex<Option<(End, Option<Waker>)>>,
}

impl Connection {
    /// A connection on this link; `None` if the server is not up, or if the connection breaks while it is opened.
    pub(crate) async fn open(peer: Peer, link: Link) -> Option<Self> {
        link.pass().await;
        let closed = match &peer {
            Peer::Server(redis, server) => Some(redis.accept(*server)?),
            Peer::Sentinel(_) => None,
        };
        let end = Mutex::new(Some((link.end(closed), None)));
        let (in_order, is_left) = (tokio::sync::Mutex::default(), watch::Sender::new(false));
        let opened = Self(Arc::new(Shared { peer, link, in_order, is_left, end }));
        opened.0.answer(vec![Command::new(&["PING"])]).await?;
        Some(opened)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.is_left.send_replace(true);
    }
}

impl Transport for Connection {
    fn send(&self, commands: &mut dyn Iterator<Item = &Cmd>) -> BoxFuture<'static, io::Result<Vec<Reply>>> {
        let (shared, commands) = (self.0.clone(), commands.map(Command::of).collect());
        async move { shared.answer(commands).await.ok_or_else(|| io::ErrorKind::BrokenPipe.into()) }.boxed()
    }
}

impl Shared {
    /// Whether the connection is closed by now. The task is woken when it is.
    fn is_closed(&self, context: &mut Context<'_>) -> bool {
        let mut open = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((end, task)) = &mut *open else { return true };
        let is_known = task.as_ref().is_some_and(|task| task.will_wake(context.waker()));
        if is_known && !end.may_have_come() {
            return false;
        }
        *task = Some(context.waker().clone());
        if end.poll_unpin(context).is_ready() {
            *open = None;
        }
        open.is_none()
    }

    /// The replies to commands, after those that were sent before; `None` if the connection is closed before they arrive.
    async fn answer(&self, commands: Vec<Command>) -> Option<Vec<Reply>> {
        let _in_order = self.in_order.lock().await;
        let mut replies = pin!(self.carry_out(commands));
        poll_fn(|context| {
            if self.is_closed(context) {
                return Poll::Ready(None);
            }
            let replies = ready!(replies.as_mut().poll(context));
            if replies.is_none() {
                *self.end.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            Poll::Ready(replies)
        })
        .await
    }

    /// Carries out commands in their order; `None` if the connection breaks. A pipeline arrives in pieces of random sizes,
    /// so that the connection may break within it.
    async fn carry_out(&self, commands: Vec<Command>) -> Option<Vec<Reply>> {
        let mut replies = Vec::with_capacity(commands.len());
        let mut unread = &commands[..];
        while !unread.is_empty() {
            let count = if unread.len() == 1 { 1 } else { random::within(1..unread.len() + 1) };
            let (piece, rest) = unread.split_at(count);
            unread = rest;
            self.link.pass().await;
            let fate = self.link.fate();
            if fate == Fate::BreakBefore {
                return None;
            }
            for command in piece {
                replies.push(match &self.peer {
                    // Boxed, because few commands wait: otherwise the future of every command would be as large.
                    Peer::Server(redis, server) if may_wait(command) => {
                        self.answer_in_time(redis, *server, command).boxed().await?
                    }
                    Peer::Server(redis, server) => redis.answer_at_once(*server, command),
                    Peer::Sentinel(redis) => sentinel(redis, command),
                });
            }
            if fate == Fate::BreakAfter {
                return None;
            }
            self.link.is_open().await;
        }
        Some(replies)
    }

    /// Carries out a command that may wait: for replicas, or for entries of a stream; `None` if the program leaves the
    /// connection meanwhile, for a server forgets a client that waits.
    async fn answer_in_time(&self, redis: &Redis, server: usize, command: &Command) -> Option<Reply> {
        let mut is_left = self.is_left.subscribe();
        if command.name() == b"WAIT" {
            let confirmed = redis.wait(milliseconds(command.get(2).unwrap())).await;
            return (!*is_left.borrow()).then(|| reply::number(confirmed));
        }
        let block = (0..command.len()).find(|at| command.get(*at) == Some(b"BLOCK"));
        let block = block.and_then(|at| command.get(at + 1)).map(milliseconds);
        let deadline = Instant::now() + block.unwrap_or_default();
        loop {
            let waiting = match redis.with(|state| state.answer(server, command)) {
                Answer::Reply(reply) => return Some(reply),
                Answer::Wait(_) if block.is_none() => return Some(Reply::Nil),
                Answer::Wait(waiting) => waiting,
            };
            // A link that stalls also holds back the news that the program has left.
            let left = async {
                let _ = is_left.wait_for(|is_left| *is_left).await;
                self.link.is_open().await;
            };
            // Nothing can be written between the attempt and this wait: there is one thread.
            tokio::select! {
                biased;
                () = left => return None,
                woken = timeout_at(deadline, waiting.notified()) => if woken.is_err() { return Some(Reply::Nil) },
            }
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
        Some(b"GET-MASTER-ADDR-BY-NAME") => reply::texts([host(master).as_str(), "6379"]),
        Some(b"MASTER") => reply::record([("config-epoch", reply::text(failovers.to_string()))]),
        _ if command.name() == b"PING" => Reply::Okay,
        _ => reply::error("ERR unknown subcommand"),
    }
}
