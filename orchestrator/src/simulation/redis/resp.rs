//! The wire protocol, version 2: commands in, replies out.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::stream::Fields;

/// How many bytes a server reads at once, so that a connection may break within a pipeline.
const READ_AT_ONCE: usize = 1 << 10;

/// A command: its name and its arguments.
pub(super) type Command = Vec<Word>;

/// A word of a command. Clones share the bytes that the server received.
pub(super) type Word = Bytes;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Ok,
    /// Code and text.
    Error(String),
    Number(i64),
    Text(Word),
    /// The name of a field.
    Name(&'static str),
    /// Fields and values of an entry, by turns.
    Fields(Fields),
    Null,
    NullList,
    List(Vec<Reply>),
}

impl Reply {
    pub(super) fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Text(Word::copy_from_slice(text.as_ref()))
    }

    pub(super) fn texts<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    pub(super) fn number(number: impl TryInto<i64>) -> Self {
        Self::Number(number.try_into().unwrap_or(i64::MAX))
    }

    /// Names and values by turns.
    pub(super) fn record<const N: usize>(fields: [(&'static str, Reply); N]) -> Self {
        Self::List(fields.into_iter().flat_map(|(name, value)| [Self::Name(name), value]).collect())
    }

    /// Appends the reply's bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ok => out.extend_from_slice(b"+OK\r\n"),
            Self::Error(text) => {
                out.push(b'-');
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Self::Number(number) => line(out, b':', *number),
            Self::Text(text) => bulk(out, text),
            Self::Name(name) => bulk(out, name.as_bytes()),
            Self::Fields(fields) => {
                line(out, b'*', 2 * fields.len() as i64);
                fields.iter().for_each(|(name, value)| {
                    bulk(out, name);
                    bulk(out, value);
                });
            }
            Self::Null => out.extend_from_slice(b"$-1\r\n"),
            Self::NullList => out.extend_from_slice(b"*-1\r\n"),
            Self::List(items) => {
                line(out, b'*', items.len() as i64);
                items.iter().for_each(|item| item.write(out));
            }
        }
    }
}

/// A text of any bytes.
fn bulk(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'$', text.len() as i64);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// A line with a number.
fn line(out: &mut Vec<u8>, kind: u8, number: i64) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Takes the complete commands from the front of what was received, as many as a server reads at once.
pub(super) fn take_commands(received: &mut BytesMut) -> Vec<Command> {
    let (mut commands, mut used) = (Vec::new(), 0);
    while used < READ_AT_ONCE
        && let Some((words, length)) = command(received)
    {
        let bytes = received.split_to(length).freeze();
        commands.push(words.into_iter().map(|word| bytes.slice(word)).collect());
        used += length;
    }
    commands
}

/// Where the words of the command at the front are, and its length in bytes; `None` if it is not complete.
fn command(bytes: &[u8]) -> Option<(Vec<Range<usize>>, usize)> {
    let (words, mut at) = header(bytes, b'*')?;
    let mut command = Vec::with_capacity(words);
    for _ in 0..words {
        let (length, begin) = header(bytes.get(at..)?, b'$')?;
        let word = at + begin..at + begin + length;
        at = word.end + 2;
        command.push(word);
    }
    (at <= bytes.len()).then_some((command, at))
}

/// The number in the line at the front, and where the next line begins.
fn header(bytes: &[u8], kind: u8) -> Option<(usize, usize)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    assert_eq!(bytes[0], kind, "a client sends arrays of texts");
    let digits = bytes[1..end - 1].iter();
    let number = digits.fold(0, |number, digit| 10 * number + usize::from(digit - b'0'));
    Some((number, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_when_they_are_complete() {
        let whole = redis::cmd("SET").arg("key").arg("a\r\nb").get_packed_command();
        for cut in 0..whole.len() {
            let mut received = BytesMut::from(&whole[..cut]);
            assert!(take_commands(&mut received).is_empty());
            assert_eq!(received.len(), cut);
        }
        let mut received = BytesMut::from(&[&whole[..], &whole, &whole[..5]].concat()[..]);
        let command: Command = ["SET", "key", "a\r\nb"].map(Word::from).into();
        assert_eq!(take_commands(&mut received), [command.clone(), command]);
        assert_eq!(received, &whole[..5]);
    }
}
