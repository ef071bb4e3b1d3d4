//! Tasks in slabs from the global allocator: size classes that grow by quarters and are recycled for ever.

use core::{alloc::Layout, fmt};

use super::{
    chunks::{ALIGN, Chunks},
    memory::{Home, Memory, Sealed},
};

/// Memory for any number of tasks of any size, by feature `alloc`.
///
/// Tasks of like size share slabs, which are recycled and never given back to the allocator: once a program has reached
/// its largest number of tasks of a size, spawning no longer calls the allocator. Workers have free slots of their own, so
/// that they do not meet in spawns: those of up to 15, while a pool's slots come from one list for all. Sizes are 64 to 256 bytes in
/// steps of 32, then four to a doubling. A future aligned to more than 128 bytes does not fit.
///
/// ```
/// use filch::Heap;
/// static HEAP: Heap = Heap::new();
/// # let _ = &HEAP;
/// ```
pub struct Heap {
    classes: [Home; CLASSES],
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

/// The first class whose slots hold `size` bytes. Called with constants, it is one.
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
        let mut chunks = [const { Chunks::new(ALIGN) }; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            chunks[class] = Chunks::new(class_size(class));
            class += 1;
        }
        Self { classes: [const { Home::grown() }; CLASSES], chunks }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory for Heap {}

impl Sealed for Heap {
    #[inline]
    fn home(&'static self, task: Layout) -> Result<&'static Home, Layout> {
        // A class's size is a multiple of 32, and of 64 and 128 from 512 and 1,024 up; where the task wants more
        // alignment than its class keeps, look for the next that keeps it.
        let mut class = class_of(task.size());
        if task.align() > ALIGN {
            class = CLASSES;
        }
        while class < CLASSES && class_size(class) % task.align() != 0 {
            class += 1;
        }
        let home = self.classes.get(class).ok_or(LARGEST)?;
        home.found(&self.chunks[class]);
        Ok(home)
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
        static HEAP: Heap = Heap::new();
        for align in [1, 8, 32, 64, 128] {
            for size in [1, 65, 300, 1000, 5000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                let home = HEAP.home(layout).unwrap();
                for _ in 0..3 {
                    let slot = home.take_fresh().unwrap();
                    assert_eq!(slot.as_ptr().addr() % align, 0);
                }
            }
        }
        assert_eq!(HEAP.home(Layout::from_size_align(64, 256).unwrap()).unwrap_err(), LARGEST);
    }
}
