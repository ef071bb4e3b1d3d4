//! The memory of a guest, and the tables that map it: Sv39x4.

use core::{cell::UnsafeCell, ptr::copy_nonoverlapping, slice};

use filch::atomic::{AtomicBool, Ordering};

use crate::mode;

/// Where guests have their memory, in guest-physical addresses: where they are linked for, as a kernel under firmware is.
pub const START: u64 = mode::ORIGIN as u64;
pub const SIZE: usize = 256 * 1024;

const PAGE: usize = 4096;
/// Valid, readable, writable, executable, for user mode (as which all accesses of a guest are checked), accessed, dirty.
const LEAF: u64 = 0b1101_1111;
const BRANCH: u64 = 1;

const _: () = assert!(
    (START as usize).is_multiple_of(512 * PAGE) && SIZE <= 512 * PAGE,
    "one table of leaves"
);

/// INV-OWN-GUEST: the context that has set `taken` writes to it, up to `map`; afterwards the guest alone, and the task that runs it,
/// while it does not run.
#[repr(C, align(16384))]
pub struct Memory {
    /// Sv39x4's first table is of four pages.
    root: UnsafeCell<[u64; 4 * 512]>,
    middle: UnsafeCell<[u64; 512]>,
    leaves: UnsafeCell<[u64; 512]>,
    bytes: UnsafeCell<[u8; SIZE]>,
    taken: AtomicBool,
}

// SAFETY: INV-OWN-GUEST.
unsafe impl Sync for Memory {}

/// What a guest has: its own memory, and nothing else.
pub struct Space {
    memory: &'static Memory,
}

impl Memory {
    pub const fn new() -> Self {
        Self {
            root: UnsafeCell::new([0; 4 * 512]),
            middle: UnsafeCell::new([0; 512]),
            leaves: UnsafeCell::new([0; 512]),
            bytes: UnsafeCell::new([0; SIZE]),
            taken: AtomicBool::new(false),
        }
    }

    /// Maps the memory, with this image at its beginning. `None` if the image is too long, or another guest has the memory.
    pub fn take(&'static self, image: &[u8]) -> Option<Space> {
        // Ordering: Relaxed; a flag only, as nothing is given back.
        if image.len() > SIZE || self.taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: INV-OWN-GUEST; the image fits.
        unsafe {
            copy_nonoverlapping(image.as_ptr(), self.bytes.get().cast(), image.len());
            let index = |shift: u32| (START >> shift) as usize % 512;
            (*self.root.get())[(START >> 30) as usize] = entry(self.middle.get() as usize, BRANCH);
            (*self.middle.get())[index(21)] = entry(self.leaves.get() as usize, BRANCH);
            for page in 0..SIZE / PAGE {
                (*self.leaves.get())[page] = entry(self.bytes.get() as usize + page * PAGE, LEAF);
            }
        }
        Some(Space { memory: self })
    }
}

fn entry(at: usize, bits: u64) -> u64 {
    (at as u64 >> 12) << 10 | bits
}

impl Space {
    /// The physical address of the first table.
    pub fn tables(&self) -> usize {
        self.memory.root.get() as usize
    }

    /// The bytes at a guest-physical address, if the guest has them all. It must not run before they are read.
    pub fn bytes(&mut self, at: u64, len: u64) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(START)?).ok()?;
        let to = from.checked_add(usize::try_from(len).ok()?)?;
        if to > SIZE {
            return None;
        }
        // SAFETY: INV-OWN-GUEST: the caller's task runs the guest, and not while it has the slice. It is within the memory.
        Some(unsafe {
            slice::from_raw_parts(self.memory.bytes.get().cast::<u8>().add(from), to - from)
        })
    }
}
