//! A connection of a program to a server or to a Sentinel.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::{Instant, timeout_at};

use super::resp::{Command, Reply, take_commands};
use super::{Answer, Redis, host};
use crate::simulation::network::{Fate, Link};

/// What a connection leads to.
#[derive(Debug, Clone)]
pub(in crate::simulation) enum Peer {
    Server(Redis, usize),
    Sentinel(Redis),
}

/// Serves a connection until one side closes it.
pub(in crate::simulation) async fn serve(peer: Peer, stream: DuplexStream, link: Link) {
    let closed = async {
        match &peer {
            Peer::Server(redis, server) => {
                if let Some(mut closed) = redis.accept(*server) {
                    let _ = closed.changed().await;
                }
            }
            Peer::Sentinel(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = closed => {}
        () = link.broken() => {}
        _ = peer.answer_all(stream, &link) => {}
    }
}

impl Peer {
    /// Answers commands in their order; `None` when the connection is closed.
    async fn answer_all(&self, mut stream: DuplexStream, link: &Link) -> Option<()> {
        let (mut received, mut replies) = (Vec::new(), Vec::new());
        loop {
            if stream.read_buf(&mut received).await.ok()? == 0 {
                return None;
            }
            let commands = take_commands(&mut received);
            if commands.is_empty() {
                continue;
            }
            link.pass().await;
            let fate = link.fate();
            if fate == Fate::BreakBefore {
                return None;
            }
            for command in commands {
                let reply = match self {
                    Self::Server(redis, server) => answer(redis, *server, command).await,
                    Self::Sentinel(redis) => sentinel(redis, &command),
                };
                reply.write(&mut replies);
            }
            if fate == Fate::BreakAfter {
                return None;
            }
            link.is_open().await;
            stream.write_all(&replies).await.ok()?;
            replies.clear();
        }
    }
}

async fn answer(redis: &Redis, server: usize, command: Command) -> Reply {
    if command[0] == b"WAIT" {
        return Reply::number(redis.wait(milliseconds(&command[2])).await);
    }
    let block = command.iter().position(|word| word == b"BLOCK").and_then(|at| command.get(at + 1));
    let deadline = Instant::now() + block.map_or(Duration::ZERO, |limit| milliseconds(limit));
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

fn milliseconds(word: &[u8]) -> Duration {
    Duration::from_millis(std::str::from_utf8(word).unwrap().parse().unwrap())
}

fn sentinel(redis: &Redis, command: &Command) -> Reply {
    let (master, failovers) = redis.with(|state| (state.master, state.failovers));
    match command.get(1).map(Vec::as_slice) {
        Some(b"GET-MASTER-ADDR-BY-NAME") => Reply::texts([host(master).as_str(), "6379"]),
        Some(b"MASTER") => Reply::record([("config-epoch", Reply::text(failovers.to_string()))]),
        _ => Reply::Ok,
    }
}
