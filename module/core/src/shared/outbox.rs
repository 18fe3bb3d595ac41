//! Messages that a state change owes to others, kept in the state until they are in their stream.
//!
//! A message enters the outbox by the event that causes it, so it is replicated and persisted with it. The
//! server flushes it to its stream in the same step where that is possible; what could not be flushed (the
//! stream's key is away during a slot migration, or of another type) stays and is tried again.

use super::codec::{Damaged, Reader, Writer};
use std::collections::VecDeque;

/// One entry of a stream, its fields in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What comes behind the key's name in the name of the stream, e.g. `evt`.
    pub stream: Vec<u8>,
    /// Field and value pairs.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Message {
    /// A message without fields.
    pub fn new(stream: &str) -> Self {
        Self { stream: stream.into(), fields: Vec::new() }
    }

    /// The message with one field more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &[u8]) -> Self {
        self.fields.push((name.into(), value.to_vec()));
        self
    }

    /// The message with one field more, if there is a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<&[u8]>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

/// How many unsent messages are kept; beyond that the oldest goes. A stream that cannot be written for so long
/// has readers who must read the state anew anyway, and memory has an end.
pub const CAPACITY: usize = 1024;

/// The most fields of a message.
const MAX_FIELDS: u64 = 32;

/// The unsent messages of one key, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    messages: VecDeque<Message>,
    /// Messages dropped because the outbox was full, since the key was made.
    pub dropped: u64,
    /// Greatest entry id given out so far (milliseconds, sequence).
    pub last_id: (u64, u64),
}

impl Outbox {
    /// Adds a message; drops the oldest where there is no room.
    pub fn push(&mut self, message: Message) {
        if self.messages.len() == CAPACITY {
            self.messages.pop_front();
            self.dropped += 1;
        }
        self.messages.push_back(message);
    }

    /// Unsent messages, oldest first.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.messages.iter()
    }

    /// Whether everything was sent.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The id of the next entry at `now`: `max(last + 1, now)`, so that ids grow over failovers and clocks.
    pub fn next_id(last: (u64, u64), now: i64) -> (u64, u64) {
        let now = now.max(0) as u64;
        if now > last.0 { (now, 0) } else { (last.0, last.1.saturating_add(1)) }
    }

    /// The `sent` oldest messages are in their streams, the last of them under `last_id`.
    pub fn sent(&mut self, sent: usize, last_id: (u64, u64)) {
        self.messages.drain(..sent.min(self.messages.len()));
        self.last_id = self.last_id.max(last_id);
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        let text = |message: &Message| {
            message.stream.capacity()
                + message
                    .fields
                    .iter()
                    .map(|(name, value)| name.capacity() + value.capacity() + 48)
                    .sum::<usize>()
        };
        self.messages.capacity() * size_of::<Message>() + self.messages.iter().map(text).sum::<usize>()
    }

    /// Appends the outbox to a snapshot.
    pub fn encode(&self, writer: &mut Writer) {
        writer.unsigned(self.dropped);
        writer.unsigned(self.last_id.0);
        writer.unsigned(self.last_id.1);
        writer.unsigned(self.messages.len() as u64);
        for message in &self.messages {
            writer.string(&message.stream);
            writer.unsigned(message.fields.len() as u64);
            for (name, value) in &message.fields {
                writer.string(name);
                writer.string(value);
            }
        }
    }

    /// Reads an outbox from a snapshot, whose messages must be for one of these streams.
    pub fn decode(reader: &mut Reader<'_>, streams: &[&[u8]]) -> Result<Self, Damaged> {
        let dropped = reader.count()?;
        let last_id = (reader.count()?, reader.count()?);
        let len = reader.unsigned()? as usize;
        if len > CAPACITY {
            return Err(Damaged("the outbox is too long"));
        }
        let mut messages = VecDeque::new();
        for _ in 0..len {
            let stream = reader.string()?.to_vec();
            if !streams.contains(&&stream[..]) {
                return Err(Damaged("a message is for a stream that the family has not"));
            }
            let mut fields = Vec::new();
            let count = reader.unsigned()?;
            if !(1..=MAX_FIELDS).contains(&count) {
                return Err(Damaged("a message has no fields, or too many"));
            }
            for _ in 0..count {
                fields.push((reader.string()?.to_vec(), reader.string()?.to_vec()));
            }
            messages.push_back(Message { stream, fields });
        }
        Ok(Self { messages, dropped, last_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message { stream: b"evt".to_vec(), fields: vec![(b"event".to_vec(), text.into())] }
    }

    #[test]
    fn a_full_outbox_drops_its_oldest() {
        let mut outbox = Outbox::default();
        for number in 0..=CAPACITY {
            outbox.push(message(&number.to_string()));
        }
        assert_eq!(outbox.messages().len(), CAPACITY);
        assert_eq!(outbox.messages().next(), Some(&message("1")));
        assert_eq!(outbox.dropped, 1);
    }

    #[test]
    fn ids_grow_though_the_clock_steps_back() {
        assert_eq!(Outbox::next_id((100, 3), 200), (200, 0));
        assert_eq!(Outbox::next_id((100, 3), 100), (100, 4));
        assert_eq!(Outbox::next_id((100, 3), 50), (100, 4));
    }

    #[test]
    fn it_survives_a_snapshot() {
        let mut outbox = Outbox::default();
        outbox.push(message("a"));
        outbox.push(message("b"));
        outbox.sent(1, (7, 1));
        let mut writer = Writer::default();
        outbox.encode(&mut writer);
        assert_eq!(Outbox::decode(&mut Reader::new(&writer.bytes), &[b"evt"]), Ok(outbox));
    }
}
