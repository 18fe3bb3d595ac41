//! A load generator that needs little processor time in comparison with the server: 50 connections with 16 requests or
//! one in flight, requests encoded before the clock starts, replies counted but not built.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use allot_tests::RedisServer;

/// Connections of a run.
pub(crate) const CONNECTIONS: usize = 50;
/// Requests in flight on each connection by default.
pub(crate) const PIPELINE: usize = 16;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Requests per second.
    pub(crate) per_second: f64,
    /// Processor time of the server per request, in microseconds.
    pub(crate) cpu_us: f64,
    /// Number of error replies, which spoil a run.
    pub(crate) errors: usize,
    /// Number of null replies.
    pub(crate) nulls: usize,
}

/// A connection with the batches that it sends in turn.
struct Client {
    stream: TcpStream,
    batches: Vec<Vec<u8>>,
    next: usize,
    buffer: Vec<u8>,
    filled: usize,
    /// Whether an error reply of this connection was printed.
    complained: bool,
}

/// Runs `requests` requests, `depth` in flight on each connection; `batches(c)` are connection c's, each of `depth`
/// requests, sent by turns.
pub(crate) fn run(
    server: &RedisServer,
    requests: usize,
    depth: usize,
    batches: impl Fn(usize) -> Vec<Vec<u8>>,
) -> Rate {
    let mut clients: Vec<Client> = (0..CONNECTIONS)
        .map(|number| {
            let stream =
                TcpStream::connect(("127.0.0.1", server.port())).expect("the server takes connections");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
            Client {
                stream,
                batches: batches(number),
                next: 0,
                buffer: vec![0; 64 * 1024],
                filled: 0,
                complained: false,
            }
        })
        .collect();
    let rounds = (requests / CONNECTIONS / depth).max(1);
    let (mut errors, mut nulls) = (0, 0);
    let cpu = processor_time(server);
    let start = Instant::now();
    for client in &mut clients {
        client.send();
    }
    for round in 0..rounds {
        for client in &mut clients {
            let (bad, null) = client.receive(depth);
            errors += bad;
            nulls += null;
            if round + 1 < rounds {
                client.send();
            }
        }
    }
    let elapsed = start.elapsed();
    let done = (rounds * CONNECTIONS * depth) as f64;
    let cpu_us = (processor_time(server) - cpu) * 1e6 / done;
    Rate { per_second: done / elapsed.as_secs_f64(), cpu_us, errors, nulls }
}

/// Seconds of processor time that the server has used.
fn processor_time(server: &RedisServer) -> f64 {
    let info = server.info("cpu");
    let seconds = |field: &str| info.get(field).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
    seconds("used_cpu_user") + seconds("used_cpu_sys")
}

impl Client {
    fn send(&mut self) {
        let batch = &self.batches[self.next % self.batches.len()];
        self.next += 1;
        self.stream.write_all(batch).expect("the server reads");
    }

    /// Reads the replies of one batch. Returns the number of errors and of null replies.
    fn receive(&mut self, depth: usize) -> (usize, usize) {
        let (mut at, mut pending, mut errors, mut nulls, mut replies) = (0, 0usize, 0, 0, 0);
        loop {
            while let Some((head, value, next)) = line(&self.buffer[..self.filled], at) {
                let mut end = next;
                match head {
                    b'$' if value >= 0 => {
                        end = next + value as usize + 2;
                        if end > self.filled {
                            break;
                        }
                    }
                    // Inside a record a null is a field without a value.
                    b'*' | b'%' | b'$' if value < 0 => nulls += usize::from(pending == 0),
                    b'*' => pending += value as usize,
                    b'%' => pending += 2 * value as usize,
                    b'_' => nulls += usize::from(pending == 0),
                    b'-' => {
                        if !std::mem::replace(&mut self.complained, true) {
                            eprintln!("{}", String::from_utf8_lossy(&self.buffer[at..next]).trim());
                        }
                        errors += 1;
                    }
                    _ => {}
                }
                at = end;
                if pending > 0 && !(matches!(head, b'*' | b'%') && value > 0) {
                    pending -= 1;
                } else if pending > 0 {
                    // A list inside a list was itself one of the pending values.
                    pending -= usize::from(nested(head, value, pending));
                }
                if pending == 0 {
                    replies += 1;
                    if replies == depth {
                        self.filled = 0;
                        return (errors, nulls);
                    }
                }
            }
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
            at = 0;
            if self.filled == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let read = self.stream.read(&mut self.buffer[self.filled..]).expect("the server replies");
            assert!(read > 0, "the server closed the connection");
            self.filled += read;
        }
    }
}

/// Whether a list that was just opened is inside another list.
fn nested(head: u8, value: i64, pending: usize) -> bool {
    let own = if head == b'%' { 2 * value as usize } else { value as usize };
    pending > own
}

/// The line at `at`: its first byte, its number (0 if it has none), and the start of the next line.
fn line(buffer: &[u8], at: usize) -> Option<(u8, i64, usize)> {
    let rest = buffer.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let number = std::str::from_utf8(&rest[1..end]).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    Some((rest[0], number, at + end + 2))
}

/// Encodes a request in the protocol.
pub(crate) fn encode(arguments: &[&str]) -> Vec<u8> {
    allot_tests::raw::encode(arguments)
}
