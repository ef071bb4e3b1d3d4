//! Random victims: xorshift64+ with the shifts 17, 7, 16 (Marsaglia 2003), after Volt and Tokio.

use core::cell::Cell;

/// A worker's generator. Its state is never zero.
#[derive(Debug)]
pub(crate) struct Rng {
    one: Cell<u32>,
    two: Cell<u32>,
}

impl Rng {
    pub(crate) const fn new() -> Self {
        Self { one: Cell::new(1), two: Cell::new(1) }
    }

    pub(crate) fn seed(&self, seed: u64) {
        self.one.set((seed >> 32) as u32);
        // Zero would stay zero for ever.
        self.two.set((seed as u32).max(1));
    }

    fn next(&self) -> u32 {
        let (mut s1, s0) = (self.one.get(), self.two.get());
        s1 ^= s1 << 17;
        s1 = s1 ^ s0 ^ (s1 >> 7) ^ (s0 >> 16);
        self.one.set(s0);
        self.two.set(s1);
        s0.wrapping_add(s1)
    }

    /// A number below `n`, by multiply and shift. It is biased by at most `n / 2^32`, which a first victim can bear.
    pub(crate) fn below(&self, n: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(n)) >> 32) as u32
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::*;

    #[test]
    fn victims_are_spread_evenly_whatever_the_seed() {
        for seed in [0, 1, u64::MAX, 0x9E37_79B9_7F4A_7C15] {
            let rng = Rng::new();
            rng.seed(seed);
            let mut hits = [0_u32; 7];
            for _ in 0..70_000 {
                hits[rng.below(7) as usize] += 1;
            }
            assert!(hits.iter().all(|h| (9_000..11_000).contains(h)), "seed {seed}: {hits:?}");
        }
    }
}
