//! Spans and events of the crate `tracing`, in tokio's schema: what `console-subscriber` reads, so that tokio-console shows the runtime.
//!
//! Each task, root future and blocking closure has a span `runtime.spawn`, which is entered for each poll and closes as the future is
//! dropped. What is done with wakers is events of the target `tokio::task::waker`. Those of tasks come from the core, and the wakers stay
//! its own, so that joins, shields and budgets know them. A root future's waker is wrapped.
//!
//! Only what a subscriber wants: a future whose span nobody wants is polled as if it had none.

use core::{
    any::type_name,
    fmt,
    future::Future,
    mem::ManuallyDrop,
    num::NonZeroUsize,
    ops::Deref,
    panic::Location,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, RawWaker, RawWakerVTable, Waker},
};
use std::sync::Arc;

use ::tracing::{Span, span::Id, trace, trace_span};
use filch::{
    Heap, JoinHandle, SpawnError, TaskInfo, TaskOptions,
    waker_events::{self, Sink, WakerEvent},
};
use pin_project_lite::pin_project;

static SINK: Sink = Sink::new(|mark, event| tell(mark.get() as u64, event));

/// The names are those that tokio-console counts by. It takes an event in the task's own span for a self-wake.
fn tell(span: u64, event: WakerEvent) {
    let op = match event {
        WakerEvent::Clone => "waker.clone",
        WakerEvent::Wake => "waker.wake",
        WakerEvent::WakeByRef => "waker.wake_by_ref",
        WakerEvent::Drop => "waker.drop",
        _ => return,
    };
    trace!(target: "tokio::task::waker", op, task.id = span);
}

/// The number of a task in the fields of its span. The core's own ids are used again.
fn next_number() -> u64 {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    // Ordering: Relaxed: a number alone.
    NEXT.fetch_add(1, Ordering::Relaxed) as u64
}

/// Without a parent: a task may outlive the one that spawns it, which its span would keep open.
fn span(kind: &str, name: Option<&str>, at: &Location<'_>, bytes: usize) -> Span {
    trace_span!(
        target: "tokio::task",
        parent: None,
        "runtime.spawn",
        %kind,
        task.name = %name.unwrap_or_default(),
        task.id = next_number(),
        size.bytes = bytes as u64,
        loc.file = at.file(),
        loc.line = at.line(),
        loc.col = at.column(),
    )
}

/// The span of a closure of this type on the blocking pool.
pub(crate) fn blocking<F>(options: &TaskOptions) -> Span {
    let at = options.location().unwrap_or(Location::caller());
    trace_span!(
        target: "tokio::task::blocking",
        parent: None,
        "runtime.spawn",
        kind = %"blocking",
        task.name = %options.given_name().unwrap_or_default(),
        task.id = next_number(),
        "fn" = %type_name::<F>(),
        size.bytes = size_of::<F>() as u64,
        loc.file = at.file(),
        loc.line = at.line(),
        loc.col = at.column(),
    )
}

/// The core's spawner, for tasks with spans.
#[derive(Clone, Copy)]
pub(crate) struct Spawner(filch::Spawner);

/// For what it does beside spawns.
impl Deref for Spawner {
    type Target = filch::Spawner;

    fn deref(&self) -> &filch::Spawner {
        &self.0
    }
}

/// As the core's methods of these names.
impl Spawner {
    pub(crate) fn new(core: filch::Spawner) -> Self {
        waker_events::watch(Some(&SINK));
        Self(core)
    }

    pub(crate) fn task(self) -> Option<TaskInfo> {
        self.0.task()
    }

    /// For tasks without spans.
    pub(crate) fn plain(self) -> filch::Spawner {
        self.0
    }

    #[track_caller]
    pub(crate) fn spawn<F>(
        self,
        heap: &'static Heap,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let traced = Traced::new("task", None, Location::caller(), future);
        self.0.spawn(heap, traced).map_err(Traced::refused)
    }

    #[track_caller]
    pub(crate) fn spawn_local<F>(
        self,
        heap: &'static Heap,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let traced = Traced::new("local", None, Location::caller(), future);
        self.0.spawn_local(heap, traced).map_err(Traced::refused)
    }

    #[track_caller]
    pub(crate) fn spawn_with<F>(
        self,
        options: TaskOptions,
        heap: &'static Heap,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let at = options.location().unwrap_or(Location::caller());
        let traced = Traced::new("task", options.given_name(), at, future);
        self.0.spawn_with(options, heap, traced).map_err(Traced::refused)
    }
}

pin_project! {
    /// A task's future in its span, which closes after the future was dropped.
    struct Traced<F> {
        #[pin]
        future: F,
        span: Span,
    }
}

impl<F> Traced<F> {
    fn new(kind: &str, name: Option<&str>, at: &Location<'_>, future: F) -> Self {
        Self { span: span(kind, name, at, size_of::<F>()), future }
    }

    fn refused(error: SpawnError<Self>) -> SpawnError<F> {
        SpawnError { kind: error.kind, future: error.future.future }
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(id) = this.span.id() else { return this.future.poll(cx) };
        // In each poll, for want of a place to remember it; it is a store to a line that a poll writes anyway.
        let mark = usize::try_from(id.into_u64()).ok().and_then(NonZeroUsize::new);
        waker_events::mark(cx.waker(), mark);
        let _entered = this.span.enter();
        this.future.poll(cx)
    }
}

/// The future of a `block_on`, in its span.
#[track_caller]
pub(crate) fn root<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let span = span("block_on", None, Location::caller(), size_of::<F>());
    Root { future, span, waker: None }
}

pin_project! {
    struct Root<F> {
        #[pin]
        future: F,
        span: Span,
        waker: Option<Arc<Told>>,
    }
}

impl<F: Future> Future for Root<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(id) = this.span.id() else { return this.future.poll(cx) };
        // `block_on` has one waker for all polls.
        let told =
            this.waker.get_or_insert_with(|| Arc::new(Told { waker: cx.waker().clone(), id }));
        let waker = told.lend();
        let _entered = this.span.enter();
        this.future.poll(&mut Context::from_waker(&waker))
    }
}

/// A waker of which events tell.
struct Told {
    waker: Waker,
    id: Id,
}

// INV-TOLD: the data of a waker with `VTABLE` is a pointer from `Arc<Told>`, of which the waker holds a count. If the waker is borrowed,
// its lender holds the count for as long as it lends the waker.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

impl Told {
    /// A waker on the caller's count. Of such a one events tell neither the birth nor the end.
    fn lend(self: &Arc<Self>) -> ManuallyDrop<Waker> {
        // SAFETY: INV-TOLD: the caller keeps its count; `Told` is `Send` and `Sync`, as a `Waker` is. It is never dropped.
        ManuallyDrop::new(unsafe { Waker::new(Arc::as_ptr(self).cast(), &VTABLE) })
    }

    fn tell(&self, event: WakerEvent) {
        tell(self.id.into_u64(), event);
    }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    let told = data.cast::<Told>();
    // SAFETY: INV-TOLD: there is a count; the new waker has the new one.
    unsafe {
        (*told).tell(WakerEvent::Clone);
        Arc::increment_strong_count(told);
    }
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: INV-TOLD: the waker gives up its count.
    let told = unsafe { Arc::from_raw(data.cast::<Told>()) };
    told.tell(WakerEvent::Wake);
    told.waker.wake_by_ref();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: INV-TOLD: the caller keeps the waker meanwhile.
    let told = unsafe { &*data.cast::<Told>() };
    told.tell(WakerEvent::WakeByRef);
    told.waker.wake_by_ref();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: INV-TOLD: the waker gives up its count.
    let told = unsafe { Arc::from_raw(data.cast::<Told>()) };
    told.tell(WakerEvent::Drop);
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
