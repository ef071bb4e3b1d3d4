//! The memory of the sources' cells. It is never freed while the slab lives, so that a late event
//! at worst reaches another source.

use core::ptr;
use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use filch::{
    atomic::{AtomicPtr, AtomicU32, Ordering},
    io::{Readiness, Ready},
};
use filch_std::internal::contain;

/// Entries in one chunk.
const CHUNK: usize = 512;
/// The largest number of chunks. Together two million sources, more than the default limit of open
/// files.
const CHUNKS: usize = 4_096;
const NONE: u32 = u32::MAX;

/// The place of a source. One cache line, so that neighbouring sources do not share one.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) readiness: Readiness,
    /// Counts the sources that used this entry before.
    generation: AtomicU32,
    /// The next free entry. Under the slab's lock.
    next: AtomicU32,
}

/// 50,000 sources must be cheap.
const _: () = assert!(size_of::<Entry>() <= 64);

/// Identifies a source: the generation in the high half, the index in the low one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The key as one number, never `u64::MAX`.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The key that [`to_bits`](Self::to_bits) gave. Any other number is that of a source that is gone, or of another one.
    #[inline]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    fn new(generation: u32, index: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The place of the source in its host: below two million, and used again when the source has gone.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

type Chunk = [Entry; CHUNK];

/// Entries in chunks that are never moved nor freed while the slab lives.
///
/// INV-SLAB: a chunk's pointer is null, or that of a boxed chunk which goes with the slab.
pub(crate) struct Slab {
    chunks: Box<[AtomicPtr<Chunk>]>,
    free: Mutex<Free>,
}

struct Free {
    head: u32,
    /// The number of entries that have ever been in use.
    used: u32,
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self {
            chunks: (0..CHUNKS).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            free: Mutex::new(Free { head: NONE, used: 0 }),
        }
    }

    /// An entry for a new source. It begins as ready for both directions: the first operation is
    /// always tried.
    ///
    /// # Errors
    /// If there are too many; if there is no memory for more.
    pub(crate) fn insert(&self) -> io::Result<(Key, &Entry)> {
        let (index, entry) = self.take_free()?;
        // Events of the source before may have come in until now.
        entry.readiness.reset();
        entry.readiness.set(Ready::READABLE | Ready::WRITABLE);
        // Ordering: Relaxed; it was written under the lock that `take_free` took.
        Ok((Key::new(entry.generation.load(Ordering::Relaxed), index), entry))
    }

    fn take_free(&self) -> io::Result<(u32, &Entry)> {
        let mut free = self.lock();
        if free.head != NONE {
            let index = free.head;
            let entry = self.get(index as usize).ok_or_else(exhausted)?;
            // Ordering: Relaxed; under the lock.
            free.head = entry.next.load(Ordering::Relaxed);
            return Ok((index, entry));
        }
        let index = free.used as usize;
        let slot = self.chunks.get(index / CHUNK).ok_or_else(exhausted)?;
        if index % CHUNK == 0 {
            // Ordering: Release pairs with the Acquire in `get`.
            slot.store(Box::into_raw(new_chunk()?), Ordering::Release);
        }
        free.used += 1;
        Ok((index as u32, self.get(index).ok_or_else(exhausted)?))
    }

    /// Removes the source: its events are dropped from now on, and the tasks that wait for it are
    /// woken.
    ///
    /// The caller has the key from `insert`, and does not use it again.
    pub(crate) fn remove(&self, key: Key, entry: &Entry) {
        // Ordering: Release pairs with the Acquire in `deliver`; later keys are made under the
        // lock.
        entry.generation.store(key.generation().wrapping_add(1), Ordering::Release);
        // The wakers may panic.
        let _given_back = Back { slab: self, key, entry };
        entry.readiness.set(Ready::READABLE | Ready::WRITABLE);
    }

    fn give_back(&self, key: Key, entry: &Entry) {
        let mut free = self.lock();
        // Ordering: Relaxed; under the lock.
        entry.next.store(free.head, Ordering::Relaxed);
        free.head = key.index() as u32;
    }

    /// Tells a source what it is ready for; false if it is gone.
    ///
    /// If the source goes at this moment, and another takes its place, the event may reach that
    /// one. Readiness is a hint: an operation finds out.
    #[inline]
    pub(crate) fn deliver(&self, key: Key, ready: Ready) -> bool {
        // Ordering: Acquire pairs with the Release in `remove`.
        let entry = self
            .get(key.index())
            .filter(|entry| entry.generation.load(Ordering::Acquire) == key.generation());
        if let Some(entry) = entry {
            entry.readiness.set(ready);
        }
        entry.is_some()
    }

    /// Tells the source at this index what it is ready for; false if there has never been one.
    #[inline]
    pub(crate) fn deliver_at(&self, index: usize, ready: Ready) -> bool {
        let entry = self.get(index);
        if let Some(entry) = entry {
            entry.readiness.set(ready);
        }
        entry.is_some()
    }

    /// Wakes every task that waits for any source. A waker that panics keeps no other from being woken; its panic has been printed.
    pub(crate) fn wake_all(&self) {
        let used = self.lock().used as usize;
        for entry in (0..used).filter_map(|index| self.get(index)) {
            drop(contain(&mut || entry.readiness.set(Ready::READABLE | Ready::WRITABLE)));
        }
    }

    #[inline]
    fn get(&self, index: usize) -> Option<&Entry> {
        // Ordering: Acquire pairs with the Release in `take_free`.
        let chunk = self.chunks.get(index / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: INV-SLAB.
        unsafe { chunk.as_ref() }.map(|chunk| &chunk[index % CHUNK])
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        // The code under the lock does not panic.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the entry of a removed source back when it is dropped.
struct Back<'a> {
    slab: &'a Slab,
    key: Key,
    entry: &'a Entry,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.slab.give_back(self.key, self.entry);
    }
}

#[cold]
fn exhausted() -> io::Error {
    io::Error::other("this runtime has as many sources of I/O as there can be")
}

fn new_chunk() -> io::Result<Box<Chunk>> {
    let entry = || Entry {
        readiness: Readiness::new(),
        generation: AtomicU32::new(0),
        next: AtomicU32::new(NONE),
    };
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(CHUNK).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    chunk.extend((0..CHUNK).map(|_| entry()));
    let chunk = Box::into_raw(chunk.into_boxed_slice()).cast::<Chunk>();
    // SAFETY: a boxed slice of `CHUNK` entries.
    Ok(unsafe { Box::from_raw(chunk) })
}

impl Drop for Slab {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            // Ordering: Relaxed; no other thread uses the slab.
            let chunk = chunk.load(Ordering::Relaxed);
            if !chunk.is_null() {
                // SAFETY: INV-SLAB.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Ready = Ready::READABLE.union(Ready::WRITABLE);

    fn quiet(entry: &Entry) {
        entry.readiness.clear(entry.readiness.get());
        assert!(entry.readiness.get().ready.is_empty());
    }

    #[test]
    fn a_stale_event_is_dropped() {
        let slab = Slab::new();
        let (old, entry) = slab.insert().unwrap();
        quiet(entry);
        assert!(slab.deliver(old, Ready::READABLE));
        assert_eq!(entry.readiness.get().ready, Ready::READABLE);
        slab.remove(old, entry);
        assert!(!slab.deliver(old, Ready::READABLE), "nobody is there");

        let (new, again) = slab.insert().unwrap();
        assert!(core::ptr::eq(entry, again) && new != old);
        assert_eq!(again.readiness.get().ready, BOTH, "it begins as any other");
        quiet(again);
        assert!(!slab.deliver(old, Ready::READABLE));
        assert!(again.readiness.get().ready.is_empty());
        assert!(slab.deliver(new, Ready::WRITABLE));
        assert_eq!(again.readiness.get().ready, Ready::WRITABLE);
    }

    struct Bomb;

    impl std::task::Wake for Bomb {
        fn wake(self: std::sync::Arc<Self>) {
            panic!("on purpose");
        }
    }

    fn bomb() -> core::task::Waker {
        core::task::Waker::from(std::sync::Arc::new(Bomb))
    }

    /// At the end of a runtime.
    #[test]
    fn a_waker_that_panics_leaves_the_others_theirs() {
        let slab = Slab::new();
        let entries = [(); 3].map(|()| slab.insert().unwrap().1);
        for entry in entries {
            quiet(entry);
            let direction = filch::io::Direction::Read;
            let waker = bomb();
            let mut cx = core::task::Context::from_waker(&waker);
            assert!(entry.readiness.poll_ready(&mut cx, direction).is_pending());
        }
        slab.wake_all();
        assert!(entries.iter().all(|entry| entry.readiness.get().ready == BOTH));
    }

    #[test]
    fn a_waker_that_panics_loses_no_entry() {
        let slab = Slab::new();
        for _ in 0..10 {
            let (key, entry) = slab.insert().unwrap();
            quiet(entry);
            let waker = bomb();
            let mut cx = core::task::Context::from_waker(&waker);
            let mut ready = core::pin::pin!(entry.readiness.ready(Ready::READABLE));
            assert!(core::future::Future::poll(ready.as_mut(), &mut cx).is_pending());
            let removed = core::panic::AssertUnwindSafe(|| slab.remove(key, entry));
            std::panic::catch_unwind(removed).unwrap_err();
            assert_eq!(key.index(), 0, "the entry is used again");
        }
    }

    #[test]
    fn generations_wrap() {
        let slab = Slab::new();
        let (key, entry) = slab.insert().unwrap();
        slab.remove(Key::new(u32::MAX, key.index() as u32), entry);
        assert_eq!(slab.insert().unwrap().0, key);
    }

    #[test]
    fn keys_of_nothing_are_dropped() {
        let slab = Slab::new();
        for key in [0, 1, CHUNK as u64, (CHUNK * CHUNKS) as u64, u64::MAX - 1] {
            assert!(!slab.deliver(Key(key), BOTH), "{key}");
        }
    }

    #[test]
    fn entries_are_many_and_are_used_again() {
        let slab = Slab::new();
        let n = 3 * CHUNK + 5;
        let all: Vec<_> = (0..n).map(|_| slab.insert().unwrap()).collect();
        let mut indices: Vec<_> = all.iter().map(|(key, _)| key.index()).collect();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..n));
        for (i, (key, entry)) in all.iter().enumerate() {
            quiet(entry);
            if i % 2 == 0 {
                slab.remove(*key, entry);
            }
        }
        let again: Vec<_> = (0..n.div_ceil(2)).map(|_| slab.insert().unwrap()).collect();
        assert!(again.iter().all(|(key, _)| key.index() < n && key.generation() == 1));
        // The other sources have got no event.
        for (key, entry) in all.iter().skip(1).step_by(2) {
            assert!(entry.readiness.get().ready.is_empty(), "{key:?}");
        }
    }
}
