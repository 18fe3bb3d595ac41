//! Damage: `DUMP` payloads taken apart, changed and put together again under a right checksum.

use crate::random::Random;
use crate::raw::{RawClient, Reply};

/// The remainder of each byte, of the polynomial of Jones, reflected.
const REMAINDERS: [u64; 256] = {
    let mut remainders = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x95ac_9329_ac4b_c9b5 } else { crc >> 1 };
            bit += 1;
        }
        remainders[byte] = crc;
        byte += 1;
    }
    remainders
};

/// The checksum of `DUMP` payloads: CRC-64 of Jones, reflected.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, &byte| crc >> 8 ^ REMAINDERS[usize::from(crc as u8 ^ byte)])
}

/// A `DUMP` taken apart: type and module id, the value, and the version of the format.
#[derive(Debug, Clone)]
pub struct Dump {
    head: Vec<u8>,
    /// The value's bytes.
    pub value: Vec<u8>,
    /// The version of the format.
    pub version: Vec<u8>,
}

impl Dump {
    /// The dump of a key.
    #[track_caller]
    pub fn of(client: &mut RawClient, key: &str) -> Self {
        let Reply::Bulk(mut bytes) = client.call(&["DUMP", key]) else { panic!("no dump of {key}") };
        let sum = bytes.split_off(bytes.len() - 8);
        assert_eq!(crc64(&bytes).to_le_bytes(), sum[..], "the checksum of a real dump");
        let version = bytes.split_off(bytes.len() - 2);
        // Type, the module's id in nine bytes, the kind 'string', its length, the string, the end.
        let head = bytes[..11].to_vec();
        assert_eq!((head[0], head[10], bytes.pop()), (7, 5, Some(0)), "{:?}", head.escape_ascii());
        let (len, from) = match (bytes[11] >> 6, bytes[11] & 0x3f) {
            (0, small) => (usize::from(small), 12),
            (1, high) => (usize::from(high) << 8 | usize::from(bytes[12]), 13),
            _ => (u32::from_be_bytes(bytes[12..16].try_into().unwrap()) as usize, 16),
        };
        assert_eq!(bytes.len() - from, len);
        Self { head, value: bytes[from..].to_vec(), version }
    }

    /// A payload of another value, lengths and checksum right.
    pub fn with(&self, value: &[u8]) -> Vec<u8> {
        let len = value.len() as u32;
        let parts = [&self.head[..], &[0x80], &len.to_be_bytes(), value, &[0], &self.version];
        sealed(parts.concat())
    }
}

/// Bytes with their checksum behind them.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc64(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Changes a few bytes.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.within(1, 3) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        let (len, value) = (random.within(1, 8), random.bits() as u8);
        match random.below(9) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = value,
            2 => bytes[at] = *random.of(&[0, 1, 0x7f, 0x80, 0xff]),
            3 => bytes.insert(at, value),
            4 => drop(bytes.remove(at)),
            5 => bytes.truncate(at),
            6 => drop(bytes.splice(at..at, vec![0xff; len])),
            7 => {
                let part = bytes[at..(at + len).min(bytes.len())].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            _ => {
                let with = random.below(bytes.len());
                bytes.swap(at, with);
            }
        }
    }
}
