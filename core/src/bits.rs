//! Bit fields of a [`Word`](crate::atomic::Word), checked at compile time.

use crate::atomic::Word;

/// A run of `width` bits from `shift` up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    shift: u32,
    width: u32,
}

impl Field {
    /// The lowest `width` bits.
    pub(crate) const fn first(width: u32) -> Self {
        Self { shift: 0, width }
    }

    /// The next `width` bits above `self`.
    pub(crate) const fn then(self, width: u32) -> Self {
        assert!(self.shift + self.width + width <= Word::BITS);
        Self { shift: self.shift + self.width, width }
    }

    /// The largest value that fits.
    #[inline(always)]
    pub(crate) const fn max(self) -> Word {
        // A field may have no bits.
        if self.width == 0 { 0 } else { Word::MAX >> (Word::BITS - self.width) }
    }

    /// The field's value in `word`.
    #[inline(always)]
    pub(crate) const fn get(self, word: Word) -> Word {
        (word >> self.shift) & self.max()
    }

    /// `word` with the field set to `value`, which must fit.
    #[inline(always)]
    pub(crate) const fn set(self, word: Word, value: Word) -> Word {
        (word & !(self.max() << self.shift)) | (value << self.shift)
    }

    /// `word` with the field one higher; it must not be at its maximum.
    #[inline(always)]
    pub(crate) const fn inc(self, word: Word) -> Word {
        word + (1 << self.shift)
    }

    /// `word` with the field one lower; it must not be 0.
    #[inline(always)]
    pub(crate) const fn dec(self, word: Word) -> Word {
        word - (1 << self.shift)
    }

    /// All bits of the field, in place.
    pub(crate) const fn mask(self) -> Word {
        self.max() << self.shift
    }

    /// The highest bit of the field, in place: set in values above half of the maximum.
    pub(crate) const fn top(self) -> Word {
        self.bit(self.width - 1)
    }

    /// One bit of the field, in place.
    pub(crate) const fn bit(self, index: u32) -> Word {
        assert!(index < self.width);
        1 << (self.shift + index)
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let low = Field::first(3);
        let high = low.then(5);
        let word = high.set(low.set(0, 5), 21);
        assert_eq!((low.get(word), high.get(word)), (5, 21));
        assert_eq!(low.get(high.set(word, high.max())), 5);
        assert_eq!((high.bit(0), high.top(), high.mask()), (8, 128, 248));
        assert_eq!(high.inc(word), high.set(word, 22));
        assert_eq!(low.dec(word), low.set(word, 4));
    }
}
