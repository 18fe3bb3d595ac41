//! Random numbers that come again: every test names its seed, and `ALLOT_SEED` gives another.

use std::env;

/// SplitMix64: small, fast, good enough to choose what to do next.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Numbers of that seed, or of `ALLOT_SEED` where it is set. The seed is printed, and so shown where the
    /// test fails.
    pub fn new(seed: u64) -> Self {
        let seed = env::var("ALLOT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(seed);
        eprintln!("random numbers of seed {seed}");
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// A number of that range, both ends included.
    pub fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    #[track_caller]
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// So many random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.bits() as u8).collect()
    }
}
