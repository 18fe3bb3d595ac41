//! The outbox: messages that a change of the state causes, kept in the state until they are in their streams.
//!
//! A message enters the outbox by the event that causes it, so it is replicated and persisted with this event. If
//! possible, the server writes it to its stream in the same step. If the stream cannot be written (its slot is
//! migrating, or its key has another type), the message stays in the outbox, and the server tries again.

use super::codec::{Damaged, Reader, Writer, ensure, pairs};
use super::invariant::Checked;
use super::invariant::Expected;
use super::text::written;
use crate::{ensure, invariant};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;

/// The fields of an entry and their values, in order, in one block of memory. An entry without fields means that the
/// stream ends: the caller that flushes the outbox deletes the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Names and values alternately.
    pairs: Writer,
    len: u32,
}

impl Fields {
    /// Room for the fields of most messages.
    const USUAL: usize = 192;

    fn push(&mut self, name: &[u8], value: &[u8]) {
        if self.len == 0 {
            self.pairs.bytes.reserve(Self::USUAL);
        }
        self.pairs.string(name);
        self.pairs.string(value);
        self.len += 1;
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        pairs(&self.pairs.bytes)
    }

    /// The value of a field. O(fields).
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of lost messages, if this message is a RESYNC that replaces them; otherwise `None`.
    fn stands_for(&self) -> u64 {
        let is_mark = self.iter().next() == Some((RESYNC_FIELD, RESYNC));
        let lost = self.get(LOST).filter(|_| is_mark);
        lost.and_then(|lost| std::str::from_utf8(lost).ok()?.parse().ok()).unwrap_or(0)
    }
}

/// One entry of a stream, on its way into the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The part of the stream's name after the key's name, for example `evt`.
    pub stream: Vec<u8>,
    /// The fields of the entry.
    pub fields: Fields,
}

impl Message {
    /// A message without fields.
    pub fn new(stream: &str) -> Self {
        Self::to(stream.as_bytes())
    }

    /// A message without fields, to a stream whose name may be any bytes.
    pub fn to(stream: &[u8]) -> Self {
        Self { stream: stream.to_vec(), fields: Fields::default() }
    }

    /// The message with one more field.
    #[must_use]
    pub fn with(mut self, name: &str, value: &[u8]) -> Self {
        self.fields.push(name.as_bytes(), value);
        self
    }

    /// The message with one more field, which is a number.
    #[must_use]
    pub fn with_number(self, name: &str, value: impl Display) -> Self {
        self.with(name, &written(value))
    }

    /// The message with one more field, if there is a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<&[u8]>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

/// How many unsent messages are kept for a stream. Beyond this number the oldest message is dropped, because memory is
/// limited. One step causes fewer.
pub const CAPACITY: usize = 65_536;

/// How many messages one step sends; the timer sends the others. When a unit goes down, thousands of messages are sent,
/// and each takes some microseconds.
pub const SENT_AT_ONCE: usize = 512;

/// The first field of a message that replaces lost messages, and its value.
const RESYNC_FIELD: &[u8] = b"event";
const RESYNC: &[u8] = b"RESYNC";
/// The field with the number of lost messages.
const LOST: &[u8] = b"lost";

/// The most fields of a message.
const MAX_FIELDS: u64 = 32;

/// Messages that a step has put into their streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// How many of each stream.
    pub streams: Vec<(Vec<u8>, u32)>,
    /// The greatest entry id given out.
    pub last_id: (u64, u64),
}

impl Sent {
    /// How many of all streams.
    pub fn count(&self) -> u32 {
        self.streams.iter().map(|(_, count)| count).sum()
    }
}

/// The unsent messages of one key, oldest first for each stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    /// Messages by stream; no list is empty. A stream that cannot be written does not delay other streams.
    lanes: BTreeMap<Vec<u8>, VecDeque<Fields>>,
    len: usize,
    /// Messages dropped because there was no room, since the key was made.
    pub dropped: u64,
    /// Greatest entry id given out so far (milliseconds, sequence).
    pub last_id: (u64, u64),
}

impl Outbox {
    /// Adds a message. If there is no room, the oldest message of its stream is dropped. O(log streams).
    pub fn push(&mut self, message: Message) {
        let lane = self.lanes.entry(message.stream).or_default();
        if lane.len() >= CAPACITY {
            lane.pop_front();
            self.dropped = self.dropped.saturating_add(1);
            self.len -= 1;
        }
        lane.push_back(message.fields);
        self.len += 1;
    }

    /// Adds a message to a stream whose readers must learn that they missed messages. If there is no room, one `RESYNC`
    /// replaces the oldest messages; `mark` makes it for the stream, and it has their number. O(log streams).
    pub fn push_or_resync(&mut self, message: Message, mark: impl FnOnce(&[u8]) -> Message) {
        let entry = self.lanes.entry(message.stream);
        let mark = match &entry {
            Entry::Occupied(lane) if lane.get().len() >= CAPACITY => Some(mark(lane.key())),
            _ => None,
        };
        let lane = entry.or_default();
        if let Some(mark) = mark {
            let mut lost = 0u64;
            // The first message is dropped. If it is the RESYNC, the message behind it is dropped as well.
            for _ in 0..2 {
                let Some(fields) = lane.pop_front().expected("a full stream of the outbox has messages")
                else {
                    break;
                };
                lost = lost.saturating_add(fields.stands_for().max(1));
                self.len -= 1;
            }
            lane.push_front(mark.with_number("lost", lost).fields);
            self.dropped = self.dropped.saturating_add(1);
            self.len += 1;
        }
        lane.push_back(message.fields);
        self.len += 1;
    }

    /// Adds a message that is never dropped, because its task must be done exactly once. There are never more such
    /// messages than objects that they are about. O(log streams).
    pub fn push_always(&mut self, message: Message) {
        self.lanes.entry(message.stream).or_default().push_back(message.fields);
        self.len += 1;
    }

    /// Drops the messages that wait for a stream.
    pub fn forget(&mut self, stream: &[u8]) {
        self.len -= self.lanes.remove(stream).map_or(0, |lane| lane.len());
    }

    /// Unsent messages, oldest first for each stream.
    pub fn messages(&self) -> impl Iterator<Item = &Fields> {
        self.lanes.values().flatten()
    }

    /// Unsent messages, stream by stream.
    pub fn lanes(
        &self,
    ) -> impl ExactSizeIterator<Item = (&[u8], impl ExactSizeIterator<Item = &Fields>)> + Clone {
        self.lanes.iter().map(|(stream, lane)| (&stream[..], lane.iter()))
    }

    /// How many messages are unsent.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many messages to that stream are unsent.
    pub fn len_of(&self, stream: &[u8]) -> usize {
        self.lanes.get(stream).map_or(0, VecDeque::len)
    }

    /// The latest unsent message to that stream.
    pub fn last_of(&self, stream: &[u8]) -> Option<&Fields> {
        self.lanes.get(stream).and_then(VecDeque::back)
    }

    /// Whether everything was sent.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id of the next entry at `now`: `max(last + 1, now)`, so that ids grow over failovers and clocks.
    pub fn next_id(last: (u64, u64), now: i64) -> (u64, u64) {
        let now = now.max(0) as u64;
        match last.1.checked_add(1) {
            _ if now > last.0 => (now, 0),
            Some(next) => (last.0, next),
            None => (last.0.saturating_add(1), 0),
        }
    }

    /// Removes the `sent` oldest messages of a family with one stream. They are in the stream, the last of them with
    /// the id `last_id`.
    pub fn sent(&mut self, sent: usize, last_id: (u64, u64)) {
        // If the outbox has no stream, no message waits, and none can have been sent.
        let stream = self.lanes.keys().next().cloned().unwrap_or_default();
        self.sent_to(&stream, sent, last_id);
    }

    /// Removes the `sent` oldest messages to this stream, which has at least so many. They are in the stream, and no id
    /// is above `last_id`.
    pub fn sent_to(&mut self, stream: &[u8], sent: usize, last_id: (u64, u64)) {
        self.last_id = self.last_id.max(last_id);
        invariant!(sent <= self.len_of(stream), "only messages that wait in the outbox are sent");
        let Some(lane) = self.lanes.get_mut(stream) else { return };
        let sent = sent.min(lane.len());
        lane.drain(..sent);
        self.len -= sent;
        if lane.is_empty() {
            self.lanes.remove(stream);
        }
    }

    /// Checks the number of messages, and each message against its own count of fields. O(messages).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        let messages = self.messages().count();
        ensure!(messages == self.len, "the outbox has {messages} messages and counts {}", self.len);
        ensure!(self.lanes.values().all(|lane| !lane.is_empty()), "a stream of the outbox has no message");
        for fields in self.messages() {
            let read = fields.iter().count();
            ensure!(read == fields.len as usize, "a message has {read} fields and counts {}", fields.len);
        }
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        let lane = |(stream, lane): (&Vec<u8>, &VecDeque<Fields>)| {
            let fields: usize = lane.iter().map(|fields| fields.pairs.bytes.capacity()).sum();
            stream.capacity() + lane.capacity() * size_of::<Fields>() + fields
        };
        self.lanes.iter().map(lane).sum()
    }

    /// Appends the outbox to a snapshot.
    pub fn encode(&self, writer: &mut Writer) {
        writer.unsigned(self.dropped);
        writer.unsigned(self.last_id.0);
        writer.unsigned(self.last_id.1);
        writer.unsigned(self.len as u64);
        for (stream, lane) in &self.lanes {
            for fields in lane {
                writer.string(stream);
                writer.unsigned(fields.len.into());
                writer.bytes.extend_from_slice(&fields.pairs.bytes);
            }
        }
    }

    /// Reads an outbox from a snapshot, whose messages must be for one of these streams.
    pub fn decode(reader: &mut Reader<'_>, streams: &[&[u8]]) -> Result<Self, Damaged> {
        let capacity = |stream: &[u8]| streams.contains(&stream).then_some(CAPACITY);
        let outbox = Self::decode_lanes(reader, capacity)?;
        let whole = outbox.messages().all(|fields| !fields.is_empty());
        if whole { Ok(outbox) } else { Err(Damaged("a message has no fields")) }
    }

    /// Reads an outbox from a snapshot. `capacity_of` returns how many messages may wait for a stream; `None` for a
    /// stream that the family does not have.
    pub fn decode_lanes(
        reader: &mut Reader<'_>,
        capacity_of: impl Fn(&[u8]) -> Option<usize>,
    ) -> Result<Self, Damaged> {
        let dropped = reader.unsigned()?;
        let last_id = (reader.unsigned()?, reader.unsigned()?);
        let len = reader.unsigned()?;
        let mut outbox = Self { dropped, last_id, ..Self::default() };
        let mut last = Vec::new();
        for _ in 0..len {
            let stream = reader.string()?.to_vec();
            ensure(stream >= last, "the streams of the outbox are not in order")?;
            let Some(capacity) = capacity_of(&stream) else {
                return Err(Damaged("a message is for a stream that the family has not"));
            };
            let mut fields = Fields::default();
            let count = reader.unsigned()?;
            ensure(count <= MAX_FIELDS, "a message has too many fields")?;
            for _ in 0..count {
                fields.push(reader.string()?, reader.string()?);
            }
            last.clone_from(&stream);
            let lane = outbox.lanes.entry(stream).or_default();
            ensure(lane.len() < capacity, "the outbox is too long")?;
            lane.push_back(fields);
            outbox.len += 1;
        }
        Ok(outbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::new("evt").with("event", text.as_bytes())
    }

    #[test]
    fn check_finds_a_damaged_outbox() {
        let mut sound = Outbox::default();
        sound.push(message("a"));
        sound.push(message("b"));
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Outbox); 4] = [
            |outbox| outbox.len = 1,
            |outbox| _ = outbox.lanes.insert(b"other".to_vec(), VecDeque::new()),
            |outbox| outbox.lanes.values_mut().next().unwrap()[0].len = 2,
            |outbox| _ = outbox.lanes.values_mut().next().unwrap()[1].pairs.bytes.pop(),
        ];
        for damage in damages {
            let mut outbox = sound.clone();
            damage(&mut outbox);
            assert!(outbox.check().is_err());
        }
    }

    #[test]
    fn a_full_outbox_drops_its_oldest() {
        let mut outbox = Outbox::default();
        for number in 0..=CAPACITY {
            outbox.push(message(&number.to_string()));
        }
        assert_eq!((outbox.len(), outbox.messages().count()), (CAPACITY, CAPACITY));
        assert_eq!(outbox.messages().next(), Some(&message("1").fields));
        assert_eq!(outbox.dropped, 1);
    }

    #[test]
    fn fields_are_read_as_they_were_written() {
        let message = Message::new("evt").with("event", b"x").with_number("epoch", u64::MAX);
        let message = message.with_number("priority", i64::MIN).with("long", &[7; 300]);
        let fields: Vec<_> = message.fields.iter().map(|(name, value)| (name, value.len())).collect();
        assert_eq!(fields, [(&b"event"[..], 1), (b"epoch", 20), (b"priority", 20), (b"long", 300)]);
        assert_eq!(message.fields.get(b"epoch"), Some(u64::MAX.to_string().as_bytes()));
        assert_eq!(message.fields.get(b"priority"), Some(i64::MIN.to_string().as_bytes()));
        assert_eq!(message.fields.get(b"none"), None);
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

    #[test]
    fn what_a_snapshot_may_hold_it_may_still_hold_after_it_has_grown() {
        for last_id in [(7, (1 << 53) - 1), ((1 << 53) - 1, u64::MAX), (u64::MAX, u64::MAX)] {
            let mut outbox = Outbox { dropped: u64::MAX, last_id, ..Outbox::default() };
            for number in 0..=CAPACITY {
                outbox.push(message(&number.to_string()));
            }
            outbox.sent(1, Outbox::next_id(last_id, 5));
            let mut writer = Writer::default();
            outbox.encode(&mut writer);
            assert_eq!(Outbox::decode(&mut Reader::new(&writer.bytes), &[b"evt"]), Ok(outbox));
        }
    }

    #[test]
    fn where_messages_are_lost_a_resync_says_how_many() {
        let mut outbox = Outbox::default();
        for number in 0..CAPACITY + 3 {
            outbox.push_or_resync(message(&number.to_string()), |_| message("RESYNC"));
        }
        assert_eq!((outbox.len(), outbox.messages().count()), (CAPACITY, CAPACITY));
        let first: Vec<_> = outbox.messages().take(2).cloned().collect();
        let mark = Message::new("evt").with("event", b"RESYNC").with("lost", b"4");
        assert_eq!(first, [mark.fields, message("4").fields]);
    }

    #[test]
    fn a_stream_that_cannot_be_written_keeps_no_other_waiting() {
        let mut outbox = Outbox::default();
        for stream in ["a", "b", "a", "c"] {
            outbox.push(Message::new(stream).with("event", b"x"));
        }
        let lanes = |outbox: &Outbox| -> Vec<(Vec<u8>, usize)> {
            outbox.lanes().map(|(stream, lane)| (stream.to_vec(), lane.len())).collect()
        };
        outbox.sent_to(b"b", 1, (5, 0));
        assert_eq!(lanes(&outbox), [(b"a".to_vec(), 2), (b"c".to_vec(), 1)]);
        outbox.forget(b"a");
        assert_eq!((lanes(&outbox), outbox.len()), (vec![(b"c".to_vec(), 1)], 1));
    }
}
