//! The wire protocol, version 2: commands in, replies out.

use bytes::{Bytes, BytesMut};

use super::stream::{Fields, Id};

/// How many bytes a server reads at once, so that a connection may break within a pipeline.
const READ_AT_ONCE: usize = 1 << 10;

/// A word of a command. Clones share the bytes that the server received.
pub(super) type Word = Bytes;

/// A command: its name and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// The bytes that the server received.
    pub(super) bytes: Bytes,
    /// Where each word begins and ends.
    words: Vec<(u32, u32)>,
}

impl Command {
    /// A command with these words.
    pub(super) fn new(words: &[&str]) -> Self {
        let sent = redis::cmd(words[0]).arg(&words[1..]).get_packed_command();
        take_commands(&mut BytesMut::from(&sent[..])).remove(0)
    }

    pub(super) fn name(&self) -> &[u8] {
        self.get(0).unwrap_or_default()
    }

    /// How many words it has, with its name.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let &(begin, end) = self.words.get(at)?;
        Some(&self.bytes[begin as usize..end as usize])
    }

    /// A word that outlives the command.
    pub(super) fn word(&self, at: usize) -> Option<Word> {
        let &(begin, end) = self.words.get(at)?;
        Some(self.bytes.slice(begin as usize..end as usize))
    }

    /// The words from `at` on, which is not the first, as fields and values of an entry.
    pub(super) fn fields(&self, at: usize) -> Fields {
        let (_, before) = self.words[at - 1];
        Fields { words: self.len() - at, bytes: self.bytes.slice(before as usize + 2..) }
    }
}

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
    /// The id of an entry.
    Id(Id),
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
            Self::Id((ms, number)) => {
                let (mut before, mut behind) = (itoa::Buffer::new(), itoa::Buffer::new());
                let (ms, number) = (before.format(*ms).as_bytes(), behind.format(*number).as_bytes());
                line(out, b'$', (ms.len() + 1 + number.len()) as i64);
                [ms, b"-", number, b"\r\n"].into_iter().for_each(|part| out.extend_from_slice(part));
            }
            Self::Fields(fields) => {
                line(out, b'*', fields.words as i64);
                out.extend_from_slice(&fields.bytes);
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
pub(super) fn bulk(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'$', text.len() as i64);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// A line with a number. Most are lengths of one or two digits.
fn line(out: &mut Vec<u8>, kind: u8, number: i64) {
    let digit = |number: i64| b'0' + number as u8;
    match number {
        0..10 => out.extend_from_slice(&[kind, digit(number), b'\r', b'\n']),
        10..100 => {
            out.extend_from_slice(&[kind, digit(number / 10), digit(number % 10), b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Takes the complete commands from the front of what was received, as many as a server reads at once.
pub(super) fn take_commands(received: &mut BytesMut) -> Vec<Command> {
    let (mut commands, mut used) = (Vec::with_capacity(1), 0);
    while used < READ_AT_ONCE
        && let Some((words, length)) = find_words(received)
    {
        commands.push(Command { bytes: received.split_to(length).freeze(), words });
        used += length;
    }
    commands
}

/// Where the words of the command at the front are, and its length in bytes; `None` if it is not complete.
fn find_words(bytes: &[u8]) -> Option<(Vec<(u32, u32)>, usize)> {
    let (count, mut at) = header(bytes, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, begin) = header(bytes.get(at..)?, b'$')?;
        let end = at + begin + length;
        words.push(((at + begin) as u32, end as u32));
        at = end + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// The number in the line at the front, and where the next line begins.
fn header(bytes: &[u8], kind: u8) -> Option<(usize, usize)> {
    let (&first, line) = bytes.split_first()?;
    assert_eq!(first, kind, "a client sends arrays of texts");
    let mut number = 0;
    for (at, &byte) in line.iter().enumerate() {
        if byte == b'\n' {
            return Some((number, at + 2));
        }
        if byte != b'\r' {
            number = 10 * number + usize::from(byte - b'0');
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_all_their_digits() {
        for number in [-100, -10, -1, 0, 9, 10, 19, 99, 100, 12345, i64::MIN, i64::MAX] {
            let mut written = Vec::new();
            Reply::Number(number).write(&mut written);
            assert_eq!(String::from_utf8(written).unwrap(), format!(":{number}\r\n"));
        }
    }

    #[test]
    fn id_of_an_entry_is_written_as_a_text() {
        let mut written = Vec::new();
        Reply::Id((1_800_000_000_000, 12)).write(&mut written);
        assert_eq!(written, b"$16\r\n1800000000000-12\r\n");
    }

    #[test]
    fn commands_are_taken_when_they_are_complete() {
        let whole = redis::cmd("SET").arg("key").arg("a\r\nb").get_packed_command();
        for cut in 0..whole.len() {
            let mut received = BytesMut::from(&whole[..cut]);
            assert!(take_commands(&mut received).is_empty());
            assert_eq!(received.len(), cut);
        }
        let mut received = BytesMut::from(&[&whole[..], &whole, &whole[..5]].concat()[..]);
        let taken = take_commands(&mut received);
        assert_eq!(taken, [Command::new(&["SET", "key", "a\r\nb"]), taken[0].clone()]);
        assert_eq!(taken[0].len(), 3);
        for (at, word) in ["SET", "key", "a\r\nb"].into_iter().enumerate() {
            assert_eq!(taken[0].get(at), Some(word.as_bytes()));
            assert_eq!(taken[0].word(at), Some(Word::from(word)));
        }
        let mut written = Vec::new();
        Reply::Fields(taken[0].fields(1)).write(&mut written);
        assert_eq!(written, b"*2\r\n$3\r\nkey\r\n$4\r\na\r\nb\r\n");
        assert_eq!(received, &whole[..5]);
    }
}
