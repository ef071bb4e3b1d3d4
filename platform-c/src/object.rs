//! Rust values in memory of the C program, each behind a cookie that says that it is there.

use core::{cell::UnsafeCell, mem::MaybeUninit};

use filch::atomic::{AtomicUsize, Ordering};

use crate::filch_status::{self, *};

/// A kind of opaque struct.
///
/// # Safety
/// `Self` is as large as `Object<Self>`, or larger, and as aligned.
pub(crate) unsafe trait Kind: Sized {
    /// The Rust value inside.
    type Value;
    /// Tells the kinds apart.
    const NUMBER: usize;
    /// Whether the struct may be copied to another place, and used there in place of the old one.
    const MOVES: bool;
}

/// Says that `$kind` holds a `$value`, and checks sizes.
macro_rules! kind {
    ($kind:ty, $value:ty, $number:literal, moves: $moves:literal) => {
        // SAFETY: checked below.
        unsafe impl crate::object::Kind for $kind {
            type Value = $value;
            const NUMBER: usize = $number;
            const MOVES: bool = $moves;
        }
        const _: () = assert!(
            size_of::<crate::object::Object<$kind>>() <= size_of::<$kind>()
                && align_of::<crate::object::Object<$kind>>() <= align_of::<$kind>(),
            "the opaque struct is as large and as aligned as what it holds"
        );
    };
}
pub(crate) use kind;

/// What an opaque struct holds.
///
/// INV-OBJECT: while the cookie is that of the kind (and of the place, if the kind does not move), `value` is initialised. Only
/// `make` writes that cookie, after the value; `drop` takes it away, before the value.
#[repr(C)]
pub(crate) struct Object<K: Kind> {
    cookie: AtomicUsize,
    value: UnsafeCell<MaybeUninit<K::Value>>,
}

impl<K: Kind> Object<K> {
    /// An arbitrary number, so that memory that was never initialised does not have it by chance.
    fn cookie(at: *const K) -> usize {
        let kind = 0x5F11_C4A1_0000_0000_u64 as usize ^ K::NUMBER.wrapping_mul(0x9E37_79B9);
        if K::MOVES { kind } else { kind ^ at.addr() }
    }

    fn check(at: *const K) -> Result<*const Self, filch_status> {
        if at.is_null() {
            return Err(FILCH_ENULL);
        }
        if !at.is_aligned() {
            return Err(FILCH_EALIGN);
        }
        Ok(at.cast())
    }

    /// The value at `at`, which was made. The caller uses the pointer as the value's own rules allow.
    ///
    /// # Safety
    /// `at` is null, or points to memory of a `K`.
    pub(crate) unsafe fn find(at: *const K) -> Result<*mut K::Value, filch_status> {
        let this = Self::check(at)?;
        // Ordering: Acquire pairs with the Release in `make`.
        // SAFETY: the caller's contract; every value of memory is a `usize`.
        let cookie = unsafe { (*this).cookie.load(Ordering::Acquire) };
        if cookie != Self::cookie(at) {
            return Err(FILCH_EINIT);
        }
        // SAFETY: the caller's contract.
        Ok(unsafe { UnsafeCell::raw_get(&raw const (*this).value) }.cast())
    }

    /// Fails where a value was made and not ended.
    ///
    /// # Safety
    /// As `find`.
    pub(crate) unsafe fn vacant(at: *const K) -> Result<(), filch_status> {
        // SAFETY: the caller's.
        match unsafe { Self::find(at) } {
            Ok(_) => Err(FILCH_EALREADY),
            Err(FILCH_EINIT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts a value to `at`. Of two contexts that do so at once, one gets an error, and so does one that finds a value there.
    ///
    /// # Safety
    /// As `find`, and the memory may be written.
    pub(crate) unsafe fn claim(
        at: *mut K,
        value: impl FnOnce() -> Result<K::Value, filch_status>,
    ) -> Result<(), filch_status> {
        // SAFETY: the caller's.
        unsafe { Self::vacant(at)? };
        let this = at.cast::<Self>();
        // SAFETY: as in `find`.
        let cookie = unsafe { &(*this).cookie };
        // Ordering: Relaxed: a claim publishes nothing; Release in `make` publishes the value.
        let (found, claimed) = (cookie.load(Ordering::Relaxed), !Self::cookie(at));
        let (set, load) = (Ordering::Relaxed, Ordering::Relaxed);
        if found == claimed || cookie.compare_exchange(found, claimed, set, load).is_err() {
            return Err(FILCH_EALREADY);
        }
        match value() {
            Ok(value) => {
                // SAFETY: the caller's, and the claim keeps others away.
                unsafe { Self::make(at, value) };
                Ok(())
            }
            Err(error) => {
                cookie.store(0, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Puts a value to `at`, whatever was there.
    ///
    /// # Safety
    /// `at` points to memory of a `K`, is aligned, and no other context uses it.
    pub(crate) unsafe fn make(at: *mut K, value: K::Value) {
        let this = at.cast::<Self>();
        // SAFETY: the caller's contract.
        unsafe {
            UnsafeCell::raw_get(&raw const (*this).value).cast::<K::Value>().write(value);
            // Ordering: Release pairs with the Acquire in `find`.
            (*this).cookie.store(Self::cookie(at), Ordering::Release);
        }
    }

    /// Where a value can be made: fails for a bad pointer.
    pub(crate) fn place(at: *mut K) -> Result<*mut K, filch_status> {
        Self::check(at).map(|_| at)
    }

    /// Drops the value at `at`, in its place.
    ///
    /// # Safety
    /// As `find`; no other context uses the object.
    pub(crate) unsafe fn drop(at: *mut K) -> Result<(), filch_status> {
        // SAFETY: the caller's contract; INV-OBJECT: the cookie goes first, and with it every other use.
        unsafe {
            let value = Self::find(at)?;
            (*at.cast::<Self>()).cookie.store(0, Ordering::Relaxed);
            value.drop_in_place();
        }
        Ok(())
    }

    /// Moves the value at `at` out.
    ///
    /// # Safety
    /// As `drop`; and the value may move.
    pub(crate) unsafe fn take(at: *mut K) -> Result<K::Value, filch_status> {
        // SAFETY: the caller's contract; INV-OBJECT: the cookie goes first, and with it every other use.
        unsafe {
            let value = Self::find(at)?;
            (*at.cast::<Self>()).cookie.store(0, Ordering::Relaxed);
            Ok(value.read())
        }
    }
}
