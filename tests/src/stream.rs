//! What a master really tells its replicas: attaches as one, skips the snapshot and reads the commands.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use allot_core::shared::machine::MachineEvent;
use allot_core::shared::payload::Payload;

use crate::raw::{RawClient, Reply, read_line, read_reply};
use crate::redis_server::RedisServer;
use crate::wait::TIMEOUT;

/// A command as it was replicated, argument by argument.
pub type Command = Vec<Vec<u8>>;

/// The stream of a master, from the moment of attaching.
#[derive(Debug)]
pub struct ReplicationStream {
    reader: BufReader<TcpStream>,
    port: u16,
}

impl ReplicationStream {
    /// Attaches to the server. All that is written after this returns is in the stream.
    pub fn attach(server: &RedisServer) -> Self {
        let port = server.port();
        Self::try_attach(port, |_| {}).unwrap_or_else(|error| panic!("no stream of port {port}: {error}"))
    }

    /// The same for a server that may be gone; `link` gets the connection, by which the stream can be ended.
    pub(crate) fn try_attach(port: u16, link: impl FnOnce(&TcpStream)) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        link(&stream);
        let mut reader = BufReader::new(stream);
        // The old handshake: a master neither expects acknowledgements from such a replica nor drops it
        // for their absence.
        reader.get_mut().write_all(b"SYNC\r\n")?;
        skip_snapshot(&mut reader)?;
        Ok(Self { reader, port })
    }

    /// The next command of any kind.
    pub(crate) fn next(&mut self) -> std::io::Result<Command> {
        let odd = |reply| std::io::Error::other(format!("not a command in the stream: {reply:?}"));
        let items = match read_reply(&mut self.reader)? {
            Reply::Array(items) => items,
            other => return Err(odd(other)),
        };
        let part = |item| match item {
            Reply::Bulk(bytes) => Ok(bytes),
            other => Err(odd(other)),
        };
        items.into_iter().map(part).collect()
    }

    /// The commands up to the one whose first argument is `marker`, which the test wrote; that one and
    /// what only keeps the link alive (PING, SELECT, REPLCONF) are left out.
    pub fn commands_until(&mut self, marker: &str) -> Vec<Command> {
        let mut commands = Vec::new();
        loop {
            let command = self.next_command(&commands);
            let name = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
            if command.get(1).is_some_and(|key| key == marker.as_bytes()) {
                return commands;
            }
            if !matches!(name.as_slice(), b"PING" | b"SELECT" | b"REPLCONF") {
                commands.push(command);
            }
        }
    }

    /// The commands of all that the server has been told before this call: writes a marker itself and
    /// reads up to it.
    pub fn drain(&mut self) -> Vec<Command> {
        static MARKERS: AtomicU64 = AtomicU64::new(0);
        let marker = format!("rig:marker:{}", MARKERS.fetch_add(1, Ordering::Relaxed));
        let mut client = RawClient::connect(self.port);
        let reply = client.call(&["SET", marker.as_str(), "1", "PX", "600000"]);
        assert_eq!(reply, Reply::Simple("OK".into()), "the marker could not be written");
        self.commands_until(&marker)
    }

    fn next_command(&mut self, so_far: &[Command]) -> Command {
        self.next().unwrap_or_else(|error| panic!("the stream ended ({error}) after {}", readable(so_far)))
    }
}

/// Commands as text, one to a line, bytes escaped.
pub fn readable(commands: &[Command]) -> String {
    let line = |command: &Command| {
        command.iter().map(|part| part.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
    };
    commands.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Time and events of a replicated `APPLY` command of this name.
#[track_caller]
pub fn events_of<E: MachineEvent>(name: &str, command: &Command) -> (i64, Vec<E>) {
    assert_eq!((command.len(), &command[0][..]), (3, name.as_bytes()), "{command:?}");
    match Payload::read(&command[1], &command[2]) {
        Ok(Payload::Events { at, events }) => (at, E::decode_all(events).expect("events").into_vec()),
        other => panic!("{other:?}"),
    }
}

/// Reads over the snapshot, whose end is told by a length or by a mark of forty bytes.
fn skip_snapshot(reader: &mut BufReader<TcpStream>) -> std::io::Result<()> {
    let header = loop {
        // While it prepares the snapshot, the master sends empty lines.
        let line = read_line(reader)?;
        if !line.is_empty() {
            break line;
        }
    };
    if let Some(mark) = header.strip_prefix("$EOF:") {
        let mut tail = Vec::new();
        for byte in reader.by_ref().bytes() {
            tail.push(byte?);
            if tail.ends_with(mark.as_bytes()) {
                return Ok(());
            }
            if tail.len() > 4096 {
                tail.drain(..tail.len() - mark.len());
            }
        }
        return Err(std::io::Error::other("the snapshot ended without its mark"));
    }
    let length = header.strip_prefix('$').and_then(|digits| digits.parse::<u64>().ok());
    let length = length.ok_or_else(|| std::io::Error::other(format!("SYNC was answered {header}")))?;
    let read = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
    if read == length { Ok(()) } else { Err(std::io::Error::other("the snapshot came short")) }
}
