//! Bytes of events and snapshots. Small numbers take few bytes, and every value is checked when it is read.

use super::Bytes;

/// The highest value of every counter of 64 bits; snapshots and events with a higher one are refused.
pub const LAST_COUNT: u64 = (1 << 53) - 1;

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(
    /// The expected value or form.
    pub &'static str,
);

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "damaged payload: {}", self.0)
    }
}

impl std::error::Error for Damaged {}

/// Refuses what bytes or an event say, unless the condition holds.
///
/// # Errors
/// The condition does not hold.
#[inline]
pub fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Damaged> {
    if holds { Ok(()) } else { Err(Damaged(otherwise)) }
}

/// Appends unsigned numbers (LEB128), signed ones (zigzag) and byte strings (length first).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// The bytes written so far.
    pub bytes: Vec<u8>,
}

impl Writer {
    /// An unsigned number, 1 to 10 bytes.
    #[inline]
    pub fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// A signed number, 1 to 10 bytes.
    pub fn signed(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)) as u64);
    }

    /// A byte string.
    #[inline]
    pub fn string(&mut self, value: &[u8]) {
        self.unsigned(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A byte string or none.
    pub fn optional(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.unsigned(0),
            Some(value) => {
                self.unsigned(1);
                self.string(value);
            }
        }
    }

    /// A rising list of numbers, as differences.
    #[inline]
    pub fn rising(&mut self, values: &[u32]) {
        self.unsigned(values.len() as u64);
        let mut last = 0;
        for &value in values {
            self.unsigned(u64::from(value - last));
            last = value;
        }
    }
}

/// Every time and count is below this bound, so that sums of them never overflow.
const LATEST: i64 = 1 << 53;

/// The last time that a state may have reached: every deadline counted from it still is a time.
pub const LAST_REACHED: i64 = LATEST / 2 - 1;

/// Reads the bytes of a `Writer`, or reports that they are damaged. A length is compared with the bytes that are left.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, Damaged> {
        let (&first, rest) = self.rest.split_first().ok_or(Damaged("it ends too early"))?;
        self.rest = rest;
        Ok(first)
    }

    /// An unsigned number.
    pub fn unsigned(&mut self) -> Result<u64, Damaged> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            ensure(shift < 63 || bits <= 1, "a number is too large")?;
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged("a number is too long"))
    }

    /// An unsigned number that fits 32 bits.
    pub fn number(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.unsigned()?).map_err(|_| Damaged("a number is out of range"))
    }

    /// A signed number.
    pub fn signed(&mut self) -> Result<i64, Damaged> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A time: milliseconds since the epoch, below 2^53.
    pub fn time(&mut self) -> Result<i64, Damaged> {
        let time = self.signed()?;
        if (0..LATEST).contains(&time) { Ok(time) } else { Err(Damaged("a time is out of range")) }
    }

    /// A time that a state has reached: early enough that every deadline counted from it still is a time.
    pub fn reached(&mut self) -> Result<i64, Damaged> {
        let time = self.time()?;
        if time <= LAST_REACHED { Ok(time) } else { Err(Damaged("a time is out of range")) }
    }

    /// A count that only grows, up to `LAST_COUNT`.
    pub fn count(&mut self) -> Result<u64, Damaged> {
        let count = self.unsigned()?;
        if count <= LAST_COUNT { Ok(count) } else { Err(Damaged("a count is out of range")) }
    }

    /// A byte string.
    pub fn string(&mut self) -> Result<&'a [u8], Damaged> {
        let len = usize::try_from(self.unsigned()?).map_err(|_| Damaged("a length is out of range"))?;
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Damaged("a string ends too early"))?;
        self.rest = rest;
        Ok(head)
    }

    /// An identifier: 1 to 256 bytes.
    pub fn identifier(&mut self) -> Result<Bytes, Damaged> {
        let bytes = self.string()?;
        ensure((1..=super::MAX_IDENTIFIER).contains(&bytes.len()), "an identifier has not 1 to 256 bytes")?;
        Ok(Bytes::from_slice(bytes))
    }

    /// A strictly rising list of numbers (the first may be 0) that has at most `limit` entries.
    pub fn rising(&mut self, limit: usize) -> Result<Vec<u32>, Damaged> {
        let len = self.unsigned()? as usize;
        // Each entry takes at least one byte, so a length greater than the number of bytes left is damaged.
        ensure(len <= limit && len <= self.rest.len(), "a list is too long")?;
        let mut values = Vec::with_capacity(len);
        let mut last = 0u32;
        for place in 0..len {
            let step = self.number()?;
            ensure(place == 0 || step > 0, "a list does not rise")?;
            last = last.checked_add(step).ok_or(Damaged("a number is out of range"))?;
            values.push(last);
        }
        Ok(values)
    }

    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Refuses bytes left over.
    pub fn finish(self) -> Result<(), Damaged> {
        if self.rest.is_empty() { Ok(()) } else { Err(Damaged("there are bytes left over")) }
    }
}

/// Byte strings that were written in pairs, as far as they can be read.
pub fn pairs(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || Some((reader.string().ok()?, reader.string().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(a in any::<u64>(), b in any::<i64>(), c in any::<Vec<u8>>(), mut d in any::<Vec<u32>>()) {
            d.sort_unstable();
            d.dedup();
            let mut writer = Writer::default();
            writer.unsigned(a);
            writer.signed(b);
            writer.string(&c);
            writer.rising(&d);
            let mut reader = Reader::new(&writer.bytes);
            prop_assert_eq!(reader.unsigned(), Ok(a));
            prop_assert_eq!(reader.signed(), Ok(b));
            prop_assert_eq!(reader.string(), Ok(&c[..]));
            prop_assert_eq!(reader.rising(usize::MAX), Ok(d));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn garbage_is_refused_or_read_but_never_harmful(bytes in any::<Vec<u8>>()) {
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() {
                if reader.rising(100).is_err() || reader.field::<Option<Bytes>>().is_err() {
                    break;
                }
            }
        }
    }
}
