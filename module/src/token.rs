//! Tokens of our making, for holds and leases whose caller chose none, and other choices of the master's.

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::cell::RefCell;

/// Characters of a token; 20 of 32 are 100 bits, which nobody guesses and which never meet twice.
const ALPHABET: [u8; 32] = *b"0123456789abcdefghjkmnpqrstvwxyz";

thread_local! {
    // Seeded by the system once; the generator is cryptographic, so that one token tells nothing of the next.
    static RANDOM: RefCell<StdRng> = RefCell::new(StdRng::from_os_rng());
}

/// A random number.
pub(crate) fn random() -> u64 {
    RANDOM.with_borrow_mut(RngCore::next_u64)
}

/// A new token.
pub(crate) fn make() -> [u8; 20] {
    let mut bits = [0; 20];
    RANDOM.with_borrow_mut(|random| random.fill_bytes(&mut bits));
    bits.map(|bits| ALPHABET.get(usize::from(bits % 32)).copied().unwrap_or(b'0'))
}
