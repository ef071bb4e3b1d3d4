//! Tasks in slabs from the global allocator: size classes that grow by quarters and are recycled for ever.

use core::{alloc::Layout, fmt, ptr::NonNull};

use super::{
    free::Stacks,
    header::Header,
    memory::{Home, Memory, Sealed},
};
use crate::atomic::{AtomicPtr, Ordering, Word};

/// Chunks have at least this alignment; a task may ask for no more.
const ALIGN: usize = 128;
/// About as large as a class's first four chunks together.
const FIRST_CHUNKS: usize = 4096;
/// Chunks in a doubling of a class, as a power of two: no more than a fifth of a class is ever idle for its growth.
const PARTS: u32 = 2;
const CHUNKS: usize = 26 << PARTS;
const _: () = assert!(CHUNKS <= Home::PARTS, "INV-HOME-PART");
/// Whether a name has room for a chunk and an offset of so many bits.
const WIDE: bool = Word::BITS == 64;
const OFFSET: u32 = 25;

/// Memory for any number of tasks of any size, by feature `alloc`.
///
/// Tasks of like size share slabs, which are recycled and never given back to the allocator: once a program has reached
/// its largest number of tasks of a size, spawning no longer calls the allocator. Sizes are 64 to 256 bytes in
/// steps of 32, then four to a doubling. A future aligned to more than 128 bytes does not fit.
///
/// ```
/// use filch::Heap;
/// static HEAP: Heap = Heap::new();
/// # let _ = &HEAP;
/// ```
pub struct Heap {
    classes: [Home; CLASSES],
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
        let mut classes = [const { Home::grown(0, Chunks::new(0, 1)) }; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            let size = class_size(class);
            let first = if size > FIRST_CHUNKS >> PARTS {
                0
            } else {
                (FIRST_CHUNKS / size).ilog2() - PARTS
            };
            classes[class] = Home::grown(size, Chunks::new(first, size));
            class += 1;
        }
        Self { classes }
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
        self.classes.get(class).ok_or(LARGEST)
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

/// The chunks of one class: the first four have `2^first` slots each, the next four twice as many, and so on.
///
/// INV-CHUNK: a chunk pointer that is not null points to that many slots for ever; their bytes began as zeros, which is
/// what a vacant header is.
pub(crate) struct Chunks {
    first: u32,
    stride: Divisor,
    chunks: [AtomicPtr<Header>; CHUNKS],
    free: Stacks,
}

impl Chunks {
    const fn new(first: u32, stride: usize) -> Self {
        let chunks = [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS];
        Self { first, stride: Divisor::new(stride), chunks, free: Stacks::new() }
    }

    /// In which chunk slot `index` is.
    pub(crate) fn chunk(&self, index: u32) -> usize {
        self.locate(index).0
    }

    /// Which chunk, and where in it.
    #[inline]
    fn locate(&self, index: u32) -> (usize, usize) {
        // Counted so that a doubling begins at each power of two.
        let shifted = u64::from(index) + (1 << (self.first + PARTS));
        let parts = shifted.ilog2() - PARTS;
        let part = (shifted >> parts) as usize & ((1 << PARTS) - 1);
        let chunk = ((parts - self.first) as usize) << PARTS | part;
        (chunk, (shifted & ((1 << parts) - 1)) as usize)
    }

    /// How many slots a chunk has.
    #[inline]
    fn slots(&self, chunk: usize) -> usize {
        1 << (self.first as usize + (chunk >> PARTS))
    }

    /// The index of a chunk's first slot.
    #[inline]
    fn begin(&self, chunk: usize) -> usize {
        let slots = self.slots(chunk);
        let part = chunk & ((1 << PARTS) - 1);
        ((slots - (1 << self.first)) << PARTS) + part * slots
    }

    /// Makes sure that there is memory for slot `index`.
    pub(crate) fn reach(&self, index: u32, stride: usize) -> bool {
        let (chunk, _) = self.locate(index);
        let Some(pointer) = self.chunks.get(chunk).filter(|_| self.slots(chunk) <= 1 << OFFSET)
        else {
            return false;
        };
        // Ordering: Acquire pairs with the Release below: the bytes are zeros.
        !pointer.load(Ordering::Acquire).is_null() || self.grow(pointer, chunk, stride)
    }

    #[cold]
    fn grow(&self, pointer: &AtomicPtr<Header>, chunk: usize, stride: usize) -> bool {
        let Some(size) = self.slots(chunk).checked_mul(stride) else { return false };
        let Ok(layout) = Layout::from_size_align(size, ALIGN) else { return false };
        // SAFETY: the size is not zero: strides and slot counts are at least one.
        let fresh = unsafe { alloc::alloc::alloc_zeroed(layout) };
        if fresh.is_null() {
            return false;
        }
        // Ordering: Release pairs with the Acquire in `reach` and `slot`; of two who grow at once, one wins.
        let won = pointer.compare_exchange(
            core::ptr::null_mut(),
            fresh.cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if won.is_err() {
            // SAFETY: ours, of this layout, and seen by nobody.
            unsafe { alloc::alloc::dealloc(fresh, layout) };
        }
        true
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32, stride: usize) -> NonNull<Header> {
        let (chunk, offset) = self.locate(index);
        // SAFETY: indices below `fresh` have been reached (INV-CHUNK).
        unsafe { self.at(chunk, offset, stride) }
    }

    /// # Safety
    /// The chunk exists, and has so many slots.
    #[inline]
    unsafe fn at(&self, chunk: usize, offset: usize, stride: usize) -> NonNull<Header> {
        // SAFETY: the caller's; INV-CHUNK.
        unsafe {
            // Ordering: Acquire pairs with the Release in `grow`.
            let base = self.chunks.get_unchecked(chunk).load(Ordering::Acquire);
            NonNull::new_unchecked(base.byte_add(offset * stride))
        }
    }

    /// Takes a free slot, for the context of this number.
    #[inline]
    pub(crate) fn take(&self, near: usize, stride: usize) -> Option<NonNull<Header>> {
        self.free.take(near, |name| self.named(name, stride))
    }

    /// Gives a slot back, in the context of this number.
    ///
    /// # Safety
    /// The slot is of this class, has been settled, and belongs to the caller.
    #[inline]
    pub(crate) unsafe fn give(&self, near: usize, slot: NonNull<Header>) {
        // SAFETY: the caller's.
        let chunk = unsafe { slot.as_ref().part() };
        // SAFETY: the caller's.
        unsafe { self.free.near(near).push(slot, self.name(chunk, slot)) };
    }

    /// What a slot is called while it is free: its chunk and where it is in there, if a word has the bits for it, else
    /// its index.
    #[inline]
    fn name(&self, chunk: usize, slot: NonNull<Header>) -> u32 {
        // Ordering: as in `slot`.
        let base = self.chunks.get(chunk).map_or(0, |c| c.load(Ordering::Acquire).addr());
        let offset = self.stride.divide(slot.as_ptr().addr().wrapping_sub(base));
        (if WIDE { chunk << OFFSET | offset } else { self.begin(chunk) + offset }) as u32
    }

    #[inline]
    fn named(&self, name: u32, stride: usize) -> NonNull<Header> {
        if !WIDE {
            return self.slot(name, stride);
        }
        // SAFETY: a slot that has a name has been reached (INV-CHUNK).
        unsafe { self.at(name as usize >> OFFSET, name as usize & ((1 << OFFSET) - 1), stride) }
    }
}

/// Divides what is known to be a multiple, without a division: a shift and the inverse of the odd rest, modulo 2^BITS
/// (Granlund and Montgomery 1994).
struct Divisor {
    shift: u32,
    inverse: usize,
}

impl Divisor {
    const fn new(by: usize) -> Self {
        let shift = by.trailing_zeros();
        let odd = by >> shift;
        // Newton: right in three bits, then in twice as many each time.
        let mut inverse = odd;
        let mut bits = 3;
        while bits < usize::BITS {
            inverse = inverse.wrapping_mul(2_usize.wrapping_sub(odd.wrapping_mul(inverse)));
            bits *= 2;
        }
        Self { shift, inverse }
    }

    #[inline(always)]
    const fn divide(&self, multiple: usize) -> usize {
        (multiple >> self.shift).wrapping_mul(self.inverse)
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
    fn indices_and_slots_are_inverse() {
        static CHUNKS: Chunks = Chunks::new(2, 96);
        let chunks = &CHUNKS;
        for index in 0..1000 {
            assert!(chunks.reach(index, 96));
            let (slot, chunk) = (chunks.slot(index, 96), chunks.chunk(index));
            assert_eq!(chunks.named(chunks.name(chunk, slot), 96), slot);
            if !WIDE {
                assert_eq!(chunks.name(chunk, slot), index);
            }
        }
    }

    /// Takes as many slots as there are given back, and looks which context's stack has them.
    #[test]
    fn slots_are_found_wherever_they_were_given_back() {
        static CHUNKS: Chunks = Chunks::new(2, 64);
        let chunks = &CHUNKS;
        let fresh = |index| {
            assert!(chunks.reach(index, 64));
            chunks.slot(index, 64)
        };
        let give = |near, index: u32| {
            let slot = fresh(index);
            // SAFETY: ours, and of this name.
            unsafe { chunks.free.near(near).push(slot, chunks.name(chunks.chunk(index), slot)) };
            slot
        };
        for (round, (taker, giver)) in [(0, 3), (3, 3), (1, 0), (2, 17)].into_iter().enumerate() {
            let begin = round as u32 * 20;
            let mut given: Vec<_> = (begin..begin + 20).map(|index| give(giver, index)).collect();
            let first = chunks.take(taker, 64);
            // It has taken over the whole stack: what is left is near.
            let near = |_| chunks.free.near(taker).pop(|name| chunks.named(name, 64));
            let mut taken: Vec<_> = first.into_iter().chain((1..20).map_while(near)).collect();
            given.sort_unstable();
            taken.sort_unstable();
            assert_eq!(given, taken);
            assert_eq!(chunks.take(taker, 64), None);
        }
    }

    #[test]
    fn memory_does_not_grow_when_tasks_end_elsewhere() {
        static CHUNKS: Chunks = Chunks::new(2, 64);
        const AT_ONCE: usize = 8;
        let (give, given) = std::sync::mpsc::sync_channel(AT_ONCE);
        let giver = std::thread::spawn(move || {
            for index in given {
                let slot = CHUNKS.slot(index, 64);
                let name = CHUNKS.name(CHUNKS.chunk(index), slot);
                // SAFETY: the taker has given it to us.
                unsafe { CHUNKS.free.near(2).push(slot, name) };
            }
        });
        let mut fresh = 0;
        let mut indices = std::collections::HashMap::new();
        for _ in 0..10_000 {
            let slot = CHUNKS.take(1, 64).unwrap_or_else(|| {
                assert!(CHUNKS.reach(fresh, 64));
                let slot = CHUNKS.slot(fresh, 64);
                indices.insert(slot, fresh);
                fresh += 1;
                slot
            });
            give.send(indices[&slot]).unwrap();
        }
        drop(give);
        giver.join().unwrap();
        // One in the taker's hands, one in the giver's, the others on their way.
        assert!(fresh as usize <= AT_ONCE + 2, "{fresh} slots");
    }

    #[test]
    fn multiples_are_divided_exactly() {
        for class in 0..CLASSES {
            let size = class_size(class);
            let divisor = Divisor::new(size);
            for n in (0..1000).chain([usize::MAX / size - 1, usize::MAX / size]) {
                assert_eq!(divisor.divide(n * size), n, "{n} times {size}");
            }
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
