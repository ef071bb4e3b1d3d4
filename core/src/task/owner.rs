//! What a task knows of the memory that it is in: the executor that the memory serves.

use core::ptr::{NonNull, null_mut};

use crate::atomic::{AtomicPtr, Ordering, maybe_const};

/// The part of a slab that its tasks know. Like the whole slab it is all zeros until the first spawn.
///
/// INV-OWNER: it begins a slab (`memory/slab.rs`), for ever, and a pointer to it may reach all of the slab.
///
/// INV-BOUND: `executor` is null until the first `bind`, and then for ever the same executor's.
pub(crate) struct Owner {
    /// An `ExecutorRef`.
    executor: AtomicPtr<()>,
    /// The next in the executor's list.
    next: AtomicPtr<Owner>,
}

impl Owner {
    /// The largest number of a chunk, which a header keeps in the lowest bits of its owner's address. The slots of a
    /// fixed slab have number 0.
    pub(crate) const MAX_CHUNK: usize =
        if cfg!(feature = "alloc") { 127 } else { align_of::<Self>() - 1 };

    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { executor: AtomicPtr::new(null_mut()), next: AtomicPtr::new(null_mut()) }
        }
    }

    /// Binds a slab to an executor, and lists it there. False if it is bound to another.
    ///
    /// # Safety
    /// INV-OWNER. The list is that of the executor.
    #[inline]
    pub(super) unsafe fn bind(this: NonNull<Self>, executor: *mut (), list: &Owners) -> bool {
        // Ordering: Acquire pairs with the Release in `bind_first`.
        // SAFETY: INV-OWNER.
        let bound = unsafe { this.as_ref() }.executor.load(Ordering::Acquire);
        // SAFETY: as the caller promises.
        bound == executor || (bound.is_null() && unsafe { Self::bind_first(this, executor, list) })
    }

    #[cold]
    unsafe fn bind_first(this: NonNull<Self>, executor: *mut (), list: &Owners) -> bool {
        // Ordering: Release pairs with the Acquire in `bind`: a context that finds the slab bound sees its base.
        // Acquire: if another context bound it, this one comes after it.
        let (set, load) = (Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: INV-OWNER.
        let bound =
            unsafe { this.as_ref() }.executor.compare_exchange(null_mut(), executor, set, load);
        match bound {
            // SAFETY: INV-OWNER. Only one exchange succeeds.
            Ok(_) => unsafe { list.add(this) },
            Err(other) => return other == executor,
        }
        true
    }

    /// The executor that the slab serves; null if none.
    #[inline(always)]
    pub(super) fn executor(&self) -> *mut () {
        // Ordering: Relaxed: it was set before any task of this slab was published, and the caller got its task or its
        // slot after that.
        self.executor.load(Ordering::Relaxed)
    }
}

/// The list of the slabs that serve an executor.
pub(crate) struct Owners(AtomicPtr<Owner>);

impl Owners {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicPtr::new(null_mut()))
        }
    }

    /// # Safety
    /// INV-OWNER. The slab is in no list.
    unsafe fn add(&self, owner: NonNull<Owner>) {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: INV-OWNER.
            unsafe { owner.as_ref() }.next.store(head, Ordering::Relaxed);
            // Ordering: Release pairs with the Acquire in `for_each`: a context that finds the slab sees its base and
            // `next`.
            let (set, load) = (Ordering::Release, Ordering::Relaxed);
            match self.0.compare_exchange_weak(head, owner.as_ptr(), set, load) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Calls `f` with each: INV-OWNER.
    pub(crate) fn for_each(&self, mut f: impl FnMut(NonNull<Owner>)) {
        // Ordering: Acquire pairs with the Release in `add`.
        let mut next = self.0.load(Ordering::Acquire);
        while let Some(owner) = NonNull::new(next) {
            f(owner);
            // SAFETY: INV-OWNER.
            next = unsafe { owner.as_ref() }.next.load(Ordering::Relaxed);
        }
    }
}
