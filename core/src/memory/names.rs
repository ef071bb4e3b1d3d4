//! The names of free slots in chunks, and the shards that keep the slots, for targets whose word has room for a tag beside
//! a name.

use super::shards::Shards;
use crate::atomic::{AtomicUsize, Ordering, maybe_const};

/// What a class needs to name its slots, and to keep the free ones.
pub(crate) struct Names {
    /// The inverse of the stride, for `divide`.
    inverse: AtomicUsize,
    pub(super) free: Shards,
}

impl Names {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { inverse: AtomicUsize::new(0), free: Shards::new() }
        }
    }

    pub(crate) fn set_stride(&self, stride: usize) {
        // Ordering: Relaxed; the Release in `Slab::set_chunks` publishes it.
        self.inverse.store(inverse(stride), Ordering::Relaxed);
    }

    /// The offset of a slot in its chunk, from the bytes before it.
    #[inline(always)]
    pub(super) fn offset(&self, bytes: usize, stride: usize) -> usize {
        // Ordering: see `set_stride`.
        divide(bytes, stride, self.inverse.load(Ordering::Relaxed))
    }
}

/// The inverse for [`divide`]: that of the odd part of `by`, modulo 2^BITS.
const fn inverse(by: usize) -> usize {
    let odd = by >> by.trailing_zeros();
    // Newton's iteration: three correct bits at first, twice as many after each step.
    let (mut inverse, mut bits) = (odd, 3);
    while bits < usize::BITS {
        inverse = inverse.wrapping_mul(2_usize.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

/// Divides a multiple of `by` without a division instruction (Granlund and Montgomery 1994).
#[inline(always)]
const fn divide(multiple: usize, by: usize, inverse: usize) -> usize {
    (multiple >> by.trailing_zeros()).wrapping_mul(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_are_divided_exactly() {
        for size in (32..2048).step_by(32).chain([usize::MAX / 7, 1 << 40, 5 << 30]) {
            for n in (0..1000).chain([usize::MAX / size - 1, usize::MAX / size]) {
                let Some(multiple) = n.checked_mul(size) else { continue };
                assert_eq!(divide(multiple, size, inverse(size)), n, "{n} times {size}");
            }
        }
    }
}
