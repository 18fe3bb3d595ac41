//! A client that hides nothing: any bytes as arguments, and replies as they stood on the wire, with the
//! three kinds of null, simple strings and bulk strings told apart.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::wait::TIMEOUT;

/// One reply, RESP2 or RESP3.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+text`
    Simple(String),
    /// `-text`, or the RESP3 form `!length`
    Error(String),
    /// `:number`
    Int(i64),
    /// `$length`
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    /// `*length`
    Array(Vec<Reply>),
    /// `%length`
    Map(Vec<(Reply, Reply)>),
    /// `~length`
    Set(Vec<Reply>),
    /// `>length`
    Push(Vec<Reply>),
    /// `,number`, as written
    Double(String),
    /// `#t` or `#f`
    Bool(bool),
    /// `=length`, with its three letters of format
    Verbatim(Vec<u8>),
    /// `(number`, as written
    BigNumber(String),
}

impl Reply {
    /// A bulk string, for comparing.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(bytes.as_ref().to_vec())
    }

    /// Whether it is one of the three nulls.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::NullArray | Self::NullBulk)
    }

    /// The text of an error.
    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    /// The integer.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("expected an integer, got {other:?}"),
        }
    }

    /// The text of a simple or bulk string.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("expected a string, got {other:?}"),
        }
    }

    /// The elements of an array.
    #[track_caller]
    pub fn array(&self) -> &[Reply] {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items,
            other => panic!("expected an array, got {other:?}"),
        }
    }

    /// The fields of a record in their order: a map of RESP3, or a flat array of RESP2.
    #[track_caller]
    pub fn record(&self) -> Vec<(String, Reply)> {
        match self {
            Self::Map(pairs) => pairs.iter().map(|(key, value)| (key.text(), value.clone())).collect(),
            Self::Array(items) if items.len().is_multiple_of(2) => {
                items.chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
            }
            other => panic!("expected a record, got {other:?}"),
        }
    }

    /// One field of a record.
    #[must_use]
    #[track_caller]
    pub fn field(&self, name: &str) -> Reply {
        self.record()
            .into_iter()
            .find(|(key, _)| key == name)
            .map_or_else(|| panic!("no field {name} in {self:?}"), |(_, value)| value)
    }
}

impl fmt::Debug for Reply {
    /// As a person would write it down; bytes escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::NullBulk => f.write_str("$-1"),
            Self::NullArray => f.write_str("*-1"),
            Self::Null => f.write_str("_"),
            Self::Array(items) => f.debug_list().entries(items).finish(),
            Self::Map(pairs) => f.debug_map().entries(pairs.iter().map(|(key, value)| (key, value))).finish(),
            Self::Set(items) => f.debug_set().entries(items).finish(),
            Self::Push(items) => f.write_str(">").and_then(|()| f.debug_list().entries(items).finish()),
            Self::Double(text) => write!(f, ",{text}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Verbatim(bytes) => write!(f, "=\"{}\"", bytes.escape_ascii()),
            Self::BigNumber(text) => write!(f, "({text}"),
        }
    }
}

/// A connection that sends bytes and reads replies.
#[derive(Debug)]
pub struct RawClient {
    reader: BufReader<TcpStream>,
}

impl RawClient {
    /// Connects to a server on this machine.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port))
            .unwrap_or_else(|error| panic!("no connection to port {port}: {error}"));
        stream.set_nodelay(true).expect("a fresh socket takes options");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a fresh socket takes options");
        Self { reader: BufReader::new(stream) }
    }

    /// Connects, if somebody listens there; replies may take 3 seconds.
    pub fn try_connect(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(3))).ok()?;
        Some(Self { reader: BufReader::new(stream) })
    }

    /// Sends one command and reads its reply, if one comes.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Option<Reply> {
        self.reader.get_mut().write_all(&encode(arguments)).ok()?;
        read_reply(&mut self.reader).ok()
    }

    /// Switches to RESP3 and returns the server's greeting.
    pub fn hello3(&mut self) -> Reply {
        let greeting = self.call(&["HELLO", "3"]);
        assert!(matches!(greeting, Reply::Map(_)), "HELLO 3 was answered {greeting:?}");
        greeting
    }

    /// Sends one command and reads its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Reply {
        self.send(arguments);
        self.read()
    }

    /// One command, given as words between spaces.
    pub fn words(&mut self, line: &str) -> Reply {
        self.call(&line.split_ascii_whitespace().collect::<Vec<_>>())
    }

    /// Sends a command, given as words, again while the answer is `TRYAGAIN`. Returns the final reply, and how often the
    /// answer was `TRYAGAIN`.
    pub fn until_decided(&mut self, line: &str) -> (Reply, usize) {
        for repeated in 0.. {
            let reply = self.words(line);
            if !matches!(&reply, Reply::Error(text) if text.starts_with("TRYAGAIN ")) {
                return (reply, repeated);
            }
            assert!(repeated < 10_000, "{line}: {reply:?} for ever");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        unreachable!("the loop ends above")
    }

    /// Sends these commands at once and reads their replies.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, calls: &[Vec<A>]) -> Vec<Reply> {
        self.send_bytes(&calls.iter().map(|call| encode(call)).collect::<Vec<_>>().concat());
        calls.iter().map(|_| self.read()).collect()
    }

    /// Sends one command and does not wait.
    pub fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) {
        self.send_bytes(&encode(arguments));
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("the server takes what is sent");
    }

    /// Reads the next reply.
    pub fn read(&mut self) -> Reply {
        read_reply(&mut self.reader).unwrap_or_else(|error| panic!("no reply: {error}"))
    }
}

/// A command in the form the server reads: an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Reads one reply from the wire.
pub fn read_reply(reader: &mut impl BufRead) -> std::io::Result<Reply> {
    let line = read_line(reader)?;
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| odd("an empty line"))?;
    Ok(match kind {
        "+" => Reply::Simple(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Int(rest.parse().map_err(|_| odd(&line))?),
        "_" => Reply::Null,
        "," => Reply::Double(rest.to_owned()),
        "(" => Reply::BigNumber(rest.to_owned()),
        "#" => Reply::Bool(rest == "t"),
        "$" if rest == "-1" => Reply::NullBulk,
        "*" if rest == "-1" => Reply::NullArray,
        "$" => Reply::Bulk(read_bytes(reader, length(&line)?)?),
        "=" => Reply::Verbatim(read_bytes(reader, length(&line)?)?),
        "!" => Reply::Error(String::from_utf8_lossy(&read_bytes(reader, length(&line)?)?).into_owned()),
        "*" => Reply::Array(read_items(reader, length(&line)?)?),
        "~" => Reply::Set(read_items(reader, length(&line)?)?),
        ">" => Reply::Push(read_items(reader, length(&line)?)?),
        "%" => {
            let items = read_items(reader, length(&line)? * 2)?;
            Reply::Map(items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
        }
        _ => return Err(odd(&line)),
    })
}

fn read_items(reader: &mut impl BufRead, count: usize) -> std::io::Result<Vec<Reply>> {
    (0..count).map(|_| read_reply(reader)).collect()
}

/// Reads a line without its end.
pub(crate) fn read_line(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn read_bytes(reader: &mut impl Read, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn length(line: &str) -> std::io::Result<usize> {
    line[1..].parse().map_err(|_| odd(line))
}

fn odd(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, format!("not a reply: {what:?}"))
}
