//! The one source of randomness of a run.

/// SplitMix64 (Steele, Lea, Flood): any seed works, also zero.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `n`, which is not zero. The bias of at most `n / 2^32` does not matter for a
    /// scheduler.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }

    /// True `odds` times of 256.
    pub(crate) fn chance(&mut self, odds: u32) -> bool {
        odds != 0 && (self.next() >> 56) < u64::from(odds)
    }
}
