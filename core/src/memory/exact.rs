//! Static tasks: slots that are exactly as large as one `async fn`'s task, and the token by which it is spawned.
//!
//! `#[filch::task]` (crate `filch-macros`) writes the `static`. A future's type has no name, so the slots are bytes, whose
//! number and alignment a constant takes from the function: embassy-executor's way to do it on stable Rust.

use core::{
    alloc::Layout,
    cell::UnsafeCell,
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    ptr::NonNull,
};

use super::slab::{Slab, Slabs};
#[cfg(feature = "classes")]
use crate::class::Class;
use crate::{
    atomic::{array_of, maybe_const},
    platform::WorkerId,
    task::{
        cell::{Meta, Pinned, Task},
        error::SpawnError,
        header::{Header, Tag},
        join::JoinHandle,
        spawn::{Given, Memory, Spawner},
        state::Snapshot,
    },
};

/// A task of an `async fn` with `#[filch::task]`, called and not spawned: the future, and the static slots for it.
///
/// It holds no slot: [`spawn`](Self::spawn) takes one. Dropping a token drops the future, and with it the arguments of the
/// call; awaiting it runs the future inside the caller, without a slot.
///
/// The slots have exactly the task's size, so a spawn never fails with
/// [`TooLarge`](crate::SpawnErrorKind::TooLarge). A task that is spawned by a token has its function's path as its name
/// ([`TaskInfo::name`](crate::TaskInfo::name)), which takes no memory in the slot.
///
/// The methods take a [`Spawner`], or what becomes one: a `&'static` executor. They may be called in any context but NMI.
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{Executor, WorkerId};
/// static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
///
/// #[filch::task]
/// async fn add(a: u32, b: u32) -> u32 {
///     a + b
/// }
///
/// let mut handle = add(2, 3).spawn(&EXECUTOR)?;
/// // The one slot is in use: the token comes back, with the arguments in it.
/// let error = add(4, 5).spawn(&EXECUTOR).unwrap_err();
/// assert_eq!(error.kind, filch::SpawnErrorKind::Full);
/// assert!(error.future.slot().size() < 100, "bytes");
///
/// let worker = EXECUTOR.worker(WorkerId::new(0))?;
/// worker.run_for(100);
/// assert_eq!(handle.join()?, 5);
/// let mut handle = error.future.spawn(&EXECUTOR)?;
/// worker.run_for(100);
/// assert_eq!(handle.join()?, 9);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "a task that is not spawned does not run"]
pub struct SpawnToken<F> {
    slots: &'static Slots,
    given: Given,
    future: F,
}

impl<F: Future + 'static> SpawnToken<F> {
    /// The largest task of this future.
    const TASK: Layout = Layout::new::<Task<F, Typed<F, Pinned>>>();

    /// The size of each of the task's static slots in bytes, and its alignment: the header, the joining side, the larger of the
    /// future and its output, and the worker of a pinned task.
    pub const fn slot(&self) -> Layout {
        Self::TASK
    }

    /// The task's class, which takes no memory in the slot. A spawn then fails with `NoClasses` on an executor without the part
    /// [`Classes`](crate::parts::Classes). A token has no deadline: give such a task
    /// [`TaskOptions`](crate::TaskOptions).
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Executor, WorkerId};
    /// use filch::{Class, Spawner};
    /// static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    ///
    /// #[filch::task]
    /// async fn control() -> Option<Class> {
    ///     Spawner::from(&EXECUTOR).class()
    /// }
    ///
    /// let mut handle = control().class(Class::Urgent).spawn(&EXECUTOR)?;
    /// EXECUTOR.worker(WorkerId::new(0))?.run_for(1);
    /// assert_eq!(handle.join()?, Some(Class::Urgent));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[cfg(feature = "classes")]
    pub fn class(mut self, class: Class) -> Self {
        self.given.class = Some(class);
        self
    }

    /// Spawns the task; it runs on whatever worker comes first. Otherwise as [`Spawner::spawn`].
    ///
    /// # Errors
    /// [`SpawnError`] with the token, unchanged: [`Full`](crate::SpawnErrorKind::Full) while as many tasks as there are slots
    /// live or have handles or wakers, and [`ForeignMemory`](crate::SpawnErrorKind::ForeignMemory) if another executor has
    /// spawned this function's tasks.
    pub fn spawn(self, on: impl Into<Spawner>) -> Result<JoinHandle<F::Output>, SpawnError<Self>>
    where
        F: Send,
        F::Output: Send,
    {
        let Self { slots, given, future } = self;
        let spawned = on.into().launch(slots, future, Typed::<F, _>::new(()), given);
        spawned.map_err(|error| Self::refused(slots, given, error))
    }

    /// Spawns the task on one worker only. It waits while that worker is offline.
    ///
    /// # Errors
    /// [`SpawnError`] with the token, unchanged: also [`NoSuchWorker`](crate::SpawnErrorKind::NoSuchWorker), if there is no such worker.
    pub fn spawn_pinned(
        self,
        on: impl Into<Spawner>,
        worker: WorkerId,
    ) -> Result<JoinHandle<F::Output>, SpawnError<Self>>
    where
        F: Send,
        F::Output: Send,
    {
        let Self { slots, given, future } = self;
        let meta = Typed::<F, _>::new(Pinned { worker, local: false });
        let spawned = on.into().launch_pinned(slots, worker, future, meta, given);
        spawned.map_err(|error| Self::refused(slots, given, error))
    }

    /// Spawns the task, which need not be `Send`, from a pinned or a local task. It runs on that task's worker, and is
    /// cancelled when the worker goes offline.
    ///
    /// # Errors
    /// [`SpawnError`] with the token, unchanged: also [`NotPinned`](crate::SpawnErrorKind::NotPinned), if the caller is none of those.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use std::{cell::Cell, rc::Rc};
    /// # use filch::{Executor, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// #[filch::task(local)]
    /// async fn count(hits: Rc<Cell<u32>>) -> u32 {
    ///     hits.replace(hits.get() + 1)
    /// }
    ///
    /// /// It begins what runs on its worker.
    /// #[filch::task]
    /// async fn core_main() -> u32 {
    ///     let counting = count(Rc::new(Cell::new(7))).spawn_local(&EXECUTOR);
    ///     counting.expect("a slot is free").await.unwrap_or(0)
    /// }
    ///
    /// let mut handle = core_main().spawn_pinned(&EXECUTOR, WorkerId::new(0))?;
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// assert_eq!(handle.join()?, 7);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn spawn_local(
        self,
        on: impl Into<Spawner>,
    ) -> Result<JoinHandle<F::Output>, SpawnError<Self>> {
        let Self { slots, given, future } = self;
        let spawned = on.into().launch_local(slots, future, Typed::<F, _>::new, given);
        spawned.map_err(|error| Self::refused(slots, given, error))
    }

    #[cold]
    fn refused(slots: &'static Slots, given: Given, error: SpawnError<F>) -> SpawnError<Self> {
        SpawnError { kind: error.kind, future: Self { slots, given, future: error.future } }
    }
}

impl<F: Future> IntoFuture for SpawnToken<F> {
    type Output = F::Output;
    type IntoFuture = F;
    fn into_future(self) -> F {
        self.future
    }
}

impl<F> fmt::Debug for SpawnToken<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnToken").field("task", &function::<F>()).finish_non_exhaustive()
    }
}

/// What a token's spawn says of its task. The name is that of the future's type, and takes no memory.
struct Typed<F, P>(P, PhantomData<fn() -> F>);

impl<F, P> Typed<F, P> {
    fn new(place: P) -> Self {
        Self(place, PhantomData)
    }
}

impl<F: 'static, P: Meta> Meta for Typed<F, P> {
    fn first_state(&self) -> Snapshot {
        self.0.first_state()
    }
    fn tag(&self) -> Tag {
        Tag { name: Some(function::<F>()), ..self.0.tag() }
    }
}

/// The path of the function whose future this is. `filch-macros` puts the future's own function, whose name is the one that
/// is cut off here, into it. A compiler that names types in another way shows that name too.
fn function<F>() -> &'static str {
    let name = core::any::type_name::<F>();
    name.strip_suffix("::__filch_task::{{closure}}").unwrap_or(name)
}

/// The static slots of one function, by a type that does not depend on their size: the function that makes the tokens names
/// no other. The size is that of a future, which may hold tokens of this very function: to the compiler, a cycle.
#[doc(hidden)]
pub struct Slots {
    slab: &'static Slab,
    /// INV-STATIC-SLOTS: `count` slots, each as large and as aligned as `slot` says, `slot.size()` apart, and valid
    /// headers for ever. They are the slots of `slab`, and of no other.
    at: NonNull<Header>,
    slot: Layout,
    count: u32,
}

// SAFETY: INV-SLAB-SLOT: the context that took a slot owns its bytes, except for the header, which is made to be shared,
// like all of a slab.
unsafe impl Sync for Slots {}
// SAFETY: as above.
unsafe impl Send for Slots {}

impl Slots {
    #[inline]
    pub fn token<F: Future + 'static>(&'static self, future: F) -> SpawnToken<F> {
        SpawnToken { slots: self, given: Given::default(), future }
    }
}

impl Memory for Slots {}

impl Slabs for Slots {
    #[inline]
    fn slab(&'static self, task: Layout) -> Result<&'static Slab, Layout> {
        if task.size() > self.slot.size() || task.align() > self.slot.align() {
            return Err(self.slot);
        }
        // SAFETY: INV-STATIC-SLOTS.
        unsafe { self.slab.set_storage(self.at, self.slot.size(), self.count) };
        Ok(self.slab)
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("slot", &self.slot)
            .field("slots", &self.count)
            .field("slab", self.slab)
            .finish()
    }
}

/// `N` slots of `SIZE` bytes, aligned to `ALIGN`, in the `static` that `#[filch::task]` writes.
#[doc(hidden)]
#[repr(C)]
pub struct StaticTasks<const SIZE: usize, const ALIGN: usize, const N: usize>
where
    Align<ALIGN>: Alignment,
{
    slab: Slab,
    slots: [Slot<SIZE, ALIGN>; N],
}

/// A pointer to it is one to the header.
#[repr(transparent)]
struct Slot<const SIZE: usize, const ALIGN: usize>(UnsafeCell<Bytes<SIZE, ALIGN>>)
where
    Align<ALIGN>: Alignment;

/// Memory that begins with a header. It is all zeros at first, so that a `static` of slots takes no room in an image.
#[repr(C)]
union Bytes<const SIZE: usize, const ALIGN: usize>
where
    Align<ALIGN>: Alignment,
{
    header: ManuallyDrop<Header>,
    bytes: [MaybeUninit<u8>; SIZE],
    align: ManuallyDrop<[<Align<ALIGN> as Alignment>::Unit; 0]>,
}

// SAFETY: as for `Slots`; a token's spawn decides which futures may go to another context.
unsafe impl<const SIZE: usize, const ALIGN: usize, const N: usize> Sync
    for StaticTasks<SIZE, ALIGN, N>
where
    Align<ALIGN>: Alignment,
{
}

impl<const SIZE: usize, const ALIGN: usize, const N: usize> StaticTasks<SIZE, ALIGN, N>
where
    Align<ALIGN>: Alignment,
{
    maybe_const! {
        pub fn vacant() -> Self {
            assert!(N > 0 && N < Slab::MOST, "a task has at least one slot, and fewer than 2^32 - 2");
            Self { slab: Slab::new(), slots: array_of!(Slot::vacant(); N) }
        }
    }

    pub const fn slots(&'static self) -> Slots {
        // INV-STATIC-SLOTS: these slots are vacant at first, and all share one slab.
        let at = (&raw const self.slots).cast_mut().cast();
        // SAFETY: a reference is not null.
        let at = unsafe { NonNull::new_unchecked(at) };
        Slots { slab: &self.slab, at, slot: Layout::new::<Slot<SIZE, ALIGN>>(), count: N as u32 }
    }
}

impl<const SIZE: usize, const ALIGN: usize> Slot<SIZE, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    maybe_const! {
        fn vacant() -> Self {
            Self(UnsafeCell::new(Bytes { header: ManuallyDrop::new(Header::vacant()) }))
        }
    }
}

impl<const SIZE: usize, const ALIGN: usize, const N: usize> fmt::Debug
    for StaticTasks<SIZE, ALIGN, N>
where
    Align<ALIGN>: Alignment,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTasks").field("slots", &N).field("slab", &self.slab).finish()
    }
}

/// The size of a slot for the future that the closure would make. It is never called: what it calls gives the type.
#[doc(hidden)]
pub const fn slot_size<F: Future + 'static>(_: &impl Fn() -> F) -> usize {
    SpawnToken::<F>::TASK.size()
}

/// Likewise its alignment.
#[doc(hidden)]
pub const fn slot_align<F: Future + 'static>(_: &impl Fn() -> F) -> usize {
    SpawnToken::<F>::TASK.align()
}

/// In a closure that is never called, an argument of any type.
#[doc(hidden)]
pub fn any<T>() -> T {
    unreachable!("closures of this macro are never called")
}

/// The type `!`, which stable Rust has only as what a function returns.
#[doc(hidden)]
pub type Never = <fn() -> ! as Returns>::Output;

#[doc(hidden)]
pub trait Returns {
    type Output;
}

impl<T> Returns for fn() -> T {
    type Output = T;
}

/// An alignment that slots can have.
#[doc(hidden)]
#[diagnostic::on_unimplemented(message = "a task's future may be aligned to 4,096 bytes at most")]
pub trait Alignment {
    type Unit;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Align<const N: usize>;

macro_rules! alignments {
    ($($n:literal)*) => {$(
        const _: () = {
            #[derive(Debug)]
            #[repr(align($n))]
            pub struct Unit;
            impl Alignment for Align<$n> {
                type Unit = Unit;
            }
        };
    )*};
}
alignments!(1 2 4 8 16 32 64 128 256 512 1024 2048 4096);

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::*;

    /// There is nothing but the slab, the slots, and what their alignment puts between the two.
    #[test]
    fn the_static_is_the_slab_and_the_slots() {
        const { assert!(size_of::<Slab>() <= if cfg!(feature = "alloc") { 128 } else { 56 }) };
        let slab = size_of::<Slab>();
        assert_eq!(
            size_of::<StaticTasks<72, 8, 1>>(),
            (slab + 72).next_multiple_of(align_of::<Slab>())
        );
        assert_eq!(
            size_of::<StaticTasks<72, 8, 1000>>(),
            (slab + 72_000).next_multiple_of(align_of::<Slab>())
        );
        let page = StaticTasks::<8_192, 4_096, 3>::vacant();
        assert_eq!(size_of_val(&page), 4_096 + 3 * 8_192);
        assert_eq!(align_of_val(&page), 4_096);
    }

    /// A task that does not fit is refused, whatever the macro may have written.
    #[test]
    fn slots_for_another_future_refuse() {
        static SMALL: StaticTasks<72, 8, 1> = StaticTasks::vacant();
        static SLOTS: Slots = SMALL.slots();
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        assert!(SLOTS.slab(layout(72, 8)).is_ok());
        assert_eq!(SLOTS.slab(layout(80, 8)).unwrap_err(), layout(72, 8));
        assert_eq!(SLOTS.slab(layout(64, 16)).unwrap_err(), layout(72, 8));
    }

    #[test]
    fn a_name_without_the_macros_own_function_is_left_as_it_is() {
        assert_eq!(function::<u8>(), "u8");
    }
}
