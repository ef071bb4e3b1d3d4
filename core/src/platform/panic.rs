//! Panics, as far as the core sees them: a payload of the platform's own.

use core::{fmt, ptr::NonNull};

/// The payload of a contained panic. Opaque to the core: the platform that caught it knows how to open it.
///
/// Two words. Dropping it drops the payload.
///
/// ```
/// use core::{any::Any, ptr::NonNull};
/// use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
/// use filch::{Panic, PanicVtable};
///
/// type Payload = Box<dyn Any + Send>;
///
/// /// The method of a platform.
/// fn guard(poll: &mut dyn FnMut()) -> Result<(), Panic> {
///     catch_unwind(AssertUnwindSafe(poll)).map_err(|payload| {
///         let payload = NonNull::from(Box::leak(Box::new(payload))).cast();
///         // SAFETY: `VTABLE` is for such payloads, of which no more than a static message is shared.
///         unsafe { Panic::from_raw(payload, &VTABLE) }
///     })
/// }
///
/// // SAFETY: each of these gets a payload that `guard` has made, and takes it at most once.
/// static VTABLE: PanicVtable = PanicVtable {
///     drop: |payload| drop(unsafe { take(payload) }),
///     message: |payload| unsafe { payload.cast::<Payload>().as_ref() }.downcast_ref().copied(),
///     resume: |payload| resume_unwind(*unsafe { take(payload) }),
/// };
///
/// /// # Safety
/// /// `guard` has made the payload, and it is taken once.
/// unsafe fn take(payload: NonNull<()>) -> Box<Payload> {
///     // SAFETY: as the caller promises.
///     unsafe { Box::from_raw(payload.cast::<Payload>().as_ptr()) }
/// }
///
/// let mut panic = guard(&mut || panic!("no water")).err();
/// let again = guard(&mut || panic.take().unwrap().resume()).unwrap_err();
/// assert_eq!(again.message(), Some("no water"));
/// // SAFETY: `guard` has made it; `into_raw` gives it away.
/// let payload: Box<Payload> = unsafe { take(again.into_raw(&VTABLE).unwrap()) };
/// assert!(payload.is::<&'static str>());
/// ```
pub struct Panic {
    payload: NonNull<()>,
    vtable: &'static PanicVtable,
}

/// The operations of a platform on its panic payload.
#[derive(Debug)]
pub struct PanicVtable {
    /// Frees the payload. Must not unwind.
    pub drop: unsafe fn(NonNull<()>),
    /// The panic's message, if it has one.
    pub message: unsafe fn(NonNull<()>) -> Option<&'static str>,
    /// Continues the panic in the calling context, and frees the payload. It unwinds, or ends the program.
    pub resume: unsafe fn(NonNull<()>) -> !,
}

// SAFETY: `from_raw` requires a payload that may be sent and shared.
unsafe impl Send for Panic {}
// SAFETY: as above.
unsafe impl Sync for Panic {}

impl Panic {
    /// Wraps a payload of the platform.
    ///
    /// # Safety
    /// The functions of `vtable` must be sound for `payload` on any thread; one of `drop` and `resume`, once. A
    /// message that `message` returns must live as long as the payload.
    pub const unsafe fn from_raw(payload: NonNull<()>, vtable: &'static PanicVtable) -> Self {
        Self { payload, vtable }
    }

    /// The payload, if it was wrapped with this `vtable`. Otherwise the panic itself, as an error.
    pub fn into_raw(self, vtable: &'static PanicVtable) -> Result<NonNull<()>, Self> {
        if core::ptr::eq(self.vtable, vtable) {
            let this = core::mem::ManuallyDrop::new(self);
            Ok(this.payload)
        } else {
            Err(self)
        }
    }

    /// Continues the panic in the calling context. The core does so where a fork-join run or a broadcast ends by the panic
    /// of a closure.
    #[cold]
    pub fn resume(self) -> ! {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: contract of `from_raw`; `self` is consumed, and not dropped.
        unsafe { (this.vtable.resume)(this.payload) }
    }

    /// The panic's message, if it has one.
    pub fn message(&self) -> Option<&str> {
        // SAFETY: contract of `from_raw`; the result borrows `self`, which keeps the payload.
        unsafe { (self.vtable.message)(self.payload) }
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        // SAFETY: contract of `from_raw`; a `Panic` owns its payload.
        unsafe { (self.vtable.drop)(self.payload) }
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Panic {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Panic({=str})", self.message().unwrap_or("no message"));
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not escaped: a task that unwraps the error of a task that unwraps another would double the escapes at each
        // level.
        write!(f, "Panic({})", self.message().unwrap_or("no message"))
    }
}
