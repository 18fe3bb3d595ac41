//! The payload of an internal command (`SEAT.APPLY` and the like): the events of one step, or a whole state, under a
//! checksum.
//!
//! One damaged bit of an append-only file can make another event that fits. The checksum finds it. It covers the key's
//! name as well, because the same events may fit another key.

use super::Millis;
use super::codec::{Damaged, Reader, Writer, ensure};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// First number of a payload that is a state.
const SNAPSHOT: u64 = 0;
/// First number of a payload that is a time and events.
const EVENTS: u64 = 1;

/// Bytes of the checksum, at the end.
const SUM: usize = 8;

/// What a payload carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A whole state.
    Snapshot(&'a [u8]),
    /// The events of one step.
    Events {
        /// The time of the step.
        at: Millis,
        /// The events, one after the other.
        events: &'a [u8],
    },
}

/// Begins a payload of events; they are appended to it.
pub fn begin_events(at: Millis, out: &mut Writer) {
    out.unsigned(EVENTS);
    out.signed(at);
}

/// Begins a payload of a state, which is appended to it.
pub fn begin_snapshot(out: &mut Writer) {
    out.unsigned(SNAPSHOT);
}

/// Ends a payload for a key: appends its checksum.
pub fn seal(key: &[u8], out: &mut Writer) {
    let sum = checksum(key, &out.bytes);
    out.bytes.extend_from_slice(&sum);
}

/// XXH3 of the bytes, whose seed is XXH3 of the key's name.
fn checksum(key: &[u8], bytes: &[u8]) -> [u8; SUM] {
    xxh3_64_with_seed(bytes, xxh3_64(key)).to_le_bytes()
}

impl<'a> Payload<'a> {
    /// Reads a payload for a key.
    ///
    /// # Errors
    /// A payload that was damaged, was written for another key, or has a version that this one does not know.
    pub fn read(key: &[u8], payload: &'a [u8]) -> Result<Self, Damaged> {
        let (bytes, sum) = payload.split_last_chunk::<SUM>().ok_or(Damaged("there is no checksum"))?;
        ensure(*sum == checksum(key, bytes), "the checksum is wrong")?;
        let mut reader = Reader::new(bytes);
        match reader.unsigned()? {
            SNAPSHOT => Ok(Self::Snapshot(reader.rest())),
            EVENTS => Ok(Self::Events { at: reader.reached()?, events: reader.rest() }),
            _ => Err(Damaged("the version of the payload is unknown; was it written by a newer version?")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut out = Writer::default();
        begin_events(1000, &mut out);
        out.string(b"an event");
        seal(b"key", &mut out);
        out.bytes
    }

    #[test]
    fn payload_is_read_as_it_was_written() {
        let events = b"\x08an event";
        assert_eq!(Payload::read(b"key", &sample()), Ok(Payload::Events { at: 1000, events }));
        let mut out = Writer::default();
        begin_snapshot(&mut out);
        out.string(b"state");
        seal(b"key", &mut out);
        assert_eq!(Payload::read(b"key", &out.bytes), Ok(Payload::Snapshot(b"\x05state")));
    }

    #[test]
    fn payload_with_a_flipped_bit_is_refused() {
        let sample = sample();
        for bit in 0..sample.len() * 8 {
            let mut damaged = sample.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Payload::read(b"key", &damaged).is_err(), "bit {bit}");
        }
        for len in 0..sample.len() {
            assert!(Payload::read(b"key", &sample[..len]).is_err(), "{len} bytes");
        }
        assert!(Payload::read(b"kez", &sample).is_err(), "of another key");
    }
}
