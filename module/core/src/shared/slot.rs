//! Slots of a cluster. Redis tells a module the slot of a key only since 7.4, so they are counted here.

/// Number of slots.
const SLOTS: u16 = 16_384;

/// Slot of a key: CRC-16 of its hash tag, what stands between the first `{` and the next `}` where that is
/// something, or of its whole name.
pub fn slot_of(name: &[u8]) -> u16 {
    let tag = || {
        let open = name.iter().position(|&byte| byte == b'{')?;
        let rest = name.get(open + 1..)?;
        let close = rest.iter().position(|&byte| byte == b'}').filter(|&close| close > 0)?;
        rest.get(..close)
    };
    crc16(tag().unwrap_or(name)) % SLOTS
}

/// CRC-16 as in XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(
            crc ^ u16::from(byte) << 8,
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_redis_counts() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{foo}:evt"), slot_of(b"foo"));
        assert_eq!(slot_of(b"a{foo}{bar}"), slot_of(b"foo"));
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{bar"), crc16(b"foo{bar") % SLOTS);
    }
}
