//! Tasks in memory of the global allocator: size classes that grow by quarters of a doubling and are reused for ever.

use alloc::boxed::Box;
use core::{alloc::Layout, fmt};

use super::{
    chunks::{ALIGN, Chunks},
    slab::{Slab, Slabs},
};
use crate::task::spawn::Memory;

/// Memory for tasks of any size, up to 2^28 of each size class; needs feature `alloc`.
///
/// Tasks of similar size share chunks, which are reused and never given back to the allocator. Once a program has
/// reached its largest number of tasks of a size, spawning no longer calls the allocator. Size classes are 64 to 256
/// bytes in steps of 32, then four to a doubling. A future aligned to more than 128 bytes does not fit.
///
/// Each of the first 15 workers has free slots of its own, so that workers seldom contend when they spawn and when
/// tasks end. Where 64-bit atomics are not native, all contexts share the free slots of a size class, and a spawn
/// searches for one past those in use. An empty heap is 200 KB of zeros; a program touches only the pages of the sizes
/// that it uses.
///
/// ```
/// use filch::Heap;
/// static HEAP: Heap = Heap::new();
/// # let _ = &HEAP;
/// ```
pub struct Heap {
    classes: [Slab; CLASSES],
    chunks: [Chunks; CLASSES],
}

const SMALL: usize = 7;
const CLASSES: usize = SMALL + 4 * 22;

/// The size of a class's slots.
#[inline(always)]
const fn class_size(class: usize) -> usize {
    if class < SMALL {
        64 + 32 * class
    } else {
        let (doubling, quarter) = ((class - SMALL) / 4, (class - SMALL) % 4);
        (256 << doubling) + (64 << doubling) * (quarter + 1)
    }
}

/// The first class whose slots hold `size` bytes. With constant arguments the result is a constant.
#[inline(always)]
const fn class_of(size: usize) -> usize {
    if size <= 64 {
        0
    } else if size <= 256 {
        (size - 64).div_ceil(32)
    } else {
        let doubling = ((size - 1) >> 8).ilog2() as usize;
        let above = size - (256 << doubling);
        SMALL + 4 * doubling + above.div_ceil(64 << doubling) - 1
    }
}

impl Heap {
    /// An empty heap.
    pub const fn new() -> Self {
        Self {
            classes: [const { Slab::new() }; CLASSES],
            chunks: [const { Chunks::new() }; CLASSES],
        }
    }
}

impl Heap {
    /// An empty heap in a box. It is not built on the stack, and its pages are only touched when they are used.
    ///
    /// # Panics
    /// If there is no memory, unless the program's handler of allocation errors aborts.
    ///
    /// ```
    /// use std::sync::LazyLock;
    /// use filch::Heap;
    /// static HEAP: LazyLock<Box<Heap>> = LazyLock::new(Heap::boxed);
    /// let heap: &'static Heap = &HEAP;
    /// # let _ = heap;
    /// ```
    pub fn boxed() -> Box<Self> {
        let layout = Layout::new::<Self>();
        // SAFETY: the size is not zero, and the pointer is that of a box of this layout. An empty heap is all zeros:
        // slabs and chunks consist of atomics, each zero or null.
        unsafe {
            let heap = alloc::alloc::alloc_zeroed(layout);
            if heap.is_null() {
                alloc::alloc::handle_alloc_error(layout);
            }
            Box::from_raw(heap.cast())
        }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory for Heap {}

impl Slabs for Heap {
    #[inline]
    fn slab(&'static self, task: Layout) -> Result<&'static Slab, Layout> {
        // A class's size is a multiple of 32; from 512 bytes up of 64, from 1,024 up of 128. If the task's alignment is
        // larger than its class keeps, take the next class that keeps it.
        let mut class = class_of(task.size());
        if task.align() > ALIGN {
            class = CLASSES;
        }
        while class < CLASSES && class_size(class) % task.align() != 0 {
            class += 1;
        }
        let slab = self.classes.get(class).ok_or(LARGEST)?;
        slab.set_chunks(&self.chunks[class], class_size(class));
        Ok(slab)
    }
}

const LARGEST: Layout = match Layout::from_size_align(class_size(CLASSES - 1), ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("the largest class is a valid layout"),
};

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.classes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_every_size_tightly() {
        for class in 1..CLASSES {
            assert!(class_size(class) > class_size(class - 1));
            assert_eq!(class_size(class) % 32, 0);
        }
        for size in 1..100_000 {
            let class = class_of(size);
            assert!(class_size(class) >= size, "{size} in {class}");
            assert!(class == 0 || class_size(class - 1) < size, "{size} in {class}");
        }
    }

    #[test]
    fn alignment_is_kept_or_refused() {
        static HEAP: std::sync::OnceLock<Box<Heap>> = std::sync::OnceLock::new();
        let heap = HEAP.get_or_init(Heap::boxed);
        for align in [1, 8, 32, 64, 128] {
            for size in [1, 65, 300, 1000, 5000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                let slab = heap.slab(layout).unwrap();
                for _ in 0..3 {
                    let slot = slab.take_fresh().unwrap();
                    assert_eq!(slot.as_ptr().addr() % align, 0);
                }
            }
        }
        assert_eq!(heap.slab(Layout::from_size_align(64, 256).unwrap()).unwrap_err(), LARGEST);
    }
}
