//! Tokens of holds and leases whose caller chose none, and other random choices of the master.

use allot_core::shared::token::TokenChoice;

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::cell::RefCell;

use super::parse::Argument;

/// Characters of a token; 20 of 32 are 100 bits, which cannot be guessed and never occur twice.
const ALPHABET: [u8; 32] = *b"0123456789abcdefghjkmnpqrstvwxyz";

thread_local! {
    // Seeded by the system once. The generator is cryptographic, so that no token helps to guess the next.
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

/// A new token, unless the caller has chosen one.
pub(crate) fn make_unless(chosen: bool) -> [u8; 20] {
    if chosen { [0; 20] } else { make() }
}

/// The token that the caller has chosen, or the one made.
pub(crate) fn choice<'a>(chosen: &Argument<'a>, made: &'a [u8; 20]) -> TokenChoice<'a> {
    match chosen.optional_text() {
        Some(token) => TokenChoice { token, chosen: true },
        None => TokenChoice { token: made, chosen: false },
    }
}
