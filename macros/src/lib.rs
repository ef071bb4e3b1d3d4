//! `#[filch::task]`: static tasks whose memory has exactly the right size. `main` and `test` of the runtimes.
//!
//! The attributes are re-exported under the features `macros`, by `filch`, `filch-std`, `filch-io` and `filch-linux`; a program needs no dependency on this
//! crate.
//!
//! # Tasks
//!
//! A task needs memory for its future, but the future of an `async fn` has a type without a name, whose size only the compiler
//! knows. The other ways to get memory are a guess, [`TaskPool<256, 32>`](https://docs.rs/filch/latest/filch/struct.TaskPool.html),
//! and an allocator. This attribute has the compiler fill in the number:
//!
//! ```
//! # use filch::{Executor, Instant, Platform, WorkerId, atomic::AtomicU32};
//! # struct Board;
//! # // SAFETY: there is one thread.
//! # unsafe impl Platform for Board {
//! #     fn now(&self) -> Instant { Instant::ZERO }
//! #     fn current_worker(&self) -> Option<WorkerId> { Some(WorkerId::new(0)) }
//! #     unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
//! #     fn wake(&self, _: WorkerId, _: &AtomicU32) {}
//! # }
//! # struct Led;
//! # impl Led { fn toggle(&mut self) {} }
//! static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
//!
//! #[filch::task]
//! async fn blink(mut led: Led, times: u32) -> u32 {
//!     for _ in 0..times {
//!         led.toggle();
//!         filch::yield_now().await;
//!     }
//!     times
//! }
//!
//! let mut handle = blink(Led, 5).spawn(&EXECUTOR)?;
//! # let worker = EXECUTOR.worker(WorkerId::new(0))?;
//! # worker.run_for(100);
//! assert_eq!(handle.join()?, 5);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! `blink` itself is no longer `async`: a call returns a
//! [`SpawnToken`](https://docs.rs/filch/latest/filch/struct.SpawnToken.html), which is the future with its memory. It is spawned
//! by the token's `spawn`, `spawn_pinned` or `spawn_local`, or is awaited like the future of any `async fn`. If it cannot be
//! spawned, it comes back in the error, with the arguments in it.
//!
//! # What it costs
//!
//! A `static` of zeros (`.bss`) for each function: a slab of 56 bytes on 64-bit targets (128 with the feature `alloc`) and at most
//! 32 on 32-bit ones, and `pool_size` slots. A slot is the task: four words of header, two of the joining side, the larger of the
//! future and its output, and four bytes for the worker of a pinned task, rounded up to its alignment. A spawn moves the future into
//! the slot. The name of the task, the path of its function, is a string in read-only memory.
//!
//! # Where the idea comes from
//!
//! From embassy-executor, whose `#[task]` does the same: a constant function infers the future's type from the function, and its
//! size is a parameter of a static's type. The code was written here. What differs for users:
//!
//! - A token holds no slot, so it may be dropped. If all slots are in use, the spawn fails, and the call does not.
//! - A task has an output, which its `JoinHandle` returns.
//! - The future must be `Send`, since another core may steal the task; `local` lifts that.

mod entry;
mod expand;
mod function;
mod options;

use proc_macro::TokenStream;

/// Gives an `async fn` static slots of exactly its task's size.
///
/// `async fn name(arguments) -> Output` becomes `fn name(arguments) -> SpawnToken<impl Future<Output = Output> + Send>`, which
/// may be called in any context: it does nothing but make the future.
///
/// # Options
///
/// | option | |
/// |---|---|
/// | `pool_size = N` | how many of the tasks can live at the same time: an integer, or a constant expression of type `usize`, from 1 to 2^32 - 3. Without it, one |
/// | `local` | the future need not be `Send`. It can then be spawned by `SpawnToken::spawn_local` only, from a pinned or another local task |
/// | `crate = path` | where `filch` is, if its name in `Cargo.toml` is another one |
///
/// ```
/// const SENSORS: usize = 3;
///
/// /// One for each sensor.
/// #[filch::task(pool_size = 2 * SENSORS)]
/// async fn sample(sensor: u8) -> u16 {
///     filch::yield_now().await;
///     u16::from(sensor)
/// }
///
/// #[filch::task(local)]
/// async fn count(counter: std::rc::Rc<core::cell::Cell<u32>>) {
///     filch::yield_now().await;
///     counter.set(counter.get() + 1);
/// }
///
/// // The bytes that each task takes.
/// assert!(sample(0).slot().size() < 100);
/// # drop(count(Default::default()));
/// ```
///
/// A crate that has `filch` under another name:
///
/// ```
/// # mod dependencies { pub use filch as executor; }
/// # use dependencies::executor;
/// #[executor::task(crate = executor)]
/// async fn blink() {}
/// # drop(blink());
/// ```
///
/// # The function
///
/// - Arguments may be patterns. What they borrow, they borrow for `'static`.
/// - It cannot be generic, take `impl Trait` or `self`, nor be `const`, `unsafe`, `extern` or variadic. A generic task needs a
///   `TaskPool`, or one task function for each type, that calls it.
/// - It may spawn itself, within its slots. To await a token of its own it must box it, like any `async fn`.
/// - Attributes on lints, documentation and conditions (`allow`, `expect`, `doc`, `cfg`, `deprecated`, `must_use`) are those of
///   the function that makes tokens; any other goes to the `async fn`.
///
/// # Errors
/// At compile time, at the token that is wrong. If the future is not `Send`, the compiler says which value is held across which
/// `await`: drop it before, or make the task `local`.
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::task(options.into(), item.into()).into()
}

macro_rules! entries {
    ($main:ident $test:ident $krate:literal) => {
        /// Makes an `async fn main` the program's: on a runtime of its own, whose workers help while it waits.
        ///
        /// ```
        #[doc = concat!("#[", $krate, "::main]")]
        /// async fn main() -> std::io::Result<()> {
        #[doc = concat!("    Ok(", $krate, "::spawn(async { println!(\"hello\") }).await?)")]
        /// }
        /// ```
        ///
        /// # Options
        ///
        /// | option | |
        /// |---|---|
        /// | `workers = N` | how many workers: an expression of type `usize`. Without it, one for each processor that the process may use |
        /// | `local` | a `LocalRuntime`: all tasks run on this thread, and need not be `Send` |
        /// | `shutdown = T` | how long the end waits for closures of `spawn_blocking` that have begun: an expression of type `Duration`. Without it, five seconds; `Duration::ZERO` does not wait, `Duration::MAX` waits for all |
        /// | `crate = path` | where the runtime's crate is, if its name in `Cargo.toml` is another one |
        ///
        /// When the function has returned, or has panicked, its tasks are cancelled, and closures of `spawn_blocking` that wait for a thread are
        /// dropped. One that has begun cannot be cancelled, and the end of the process would cut it, perhaps in the middle of a file: the
        /// attribute waits for it. A line on the standard error says how many still run at the end of that time.
        ///
        /// All else is said by `Builder`, in a `fn main` that calls `block_on`. Other attributes stay with the function, which may have any name.
        ///
        /// Idea: tokio's attribute of the same name.
        ///
        /// # Panics
        /// If the runtime cannot be built; with the function's own panics.
        #[proc_macro_attribute]
        pub fn $main(options: TokenStream, item: TokenStream) -> TokenStream {
            entry::entry(entry::Kind::Main, $krate, options.into(), item.into()).into()
        }

        /// Makes an `async fn` a test, on a runtime of its own.
        ///
        /// ```
        #[doc = concat!("#[", $krate, "::test(workers = 2)]")]
        /// async fn sums_are_right() {
        #[doc = concat!("    assert_eq!(", $krate, "::spawn(async { 1 + 1 }).await.unwrap(), 2);")]
        /// }
        ///
        #[doc = concat!("#[", $krate, "::test(paused)]")]
        /// #[should_panic(expected = "the next day")]
        /// async fn a_day_passes() {
        #[doc = concat!("    ", $krate, "::time::sleep(core::time::Duration::from_secs(86_400)).await;")]
        ///     panic!("the next day");
        /// }
        /// ```
        ///
        /// # Options
        ///
        /// | option | |
        /// |---|---|
        /// | `workers = N` | how many workers: an expression of type `usize`. Without it, one for each processor that the process may use |
        /// | `local` | a `LocalRuntime`: all tasks run on this thread, and need not be `Send` |
        /// | `paused` | the clock stands still, and goes to the next deadline when nothing is runnable: see `time::pause` |
        /// | `crate = path` | where the runtime's crate is, if its name in `Cargo.toml` is another one |
        ///
        /// `#[should_panic]` and `#[ignore]` are as in any test, and so is a `Result` as output.
        #[proc_macro_attribute]
        pub fn $test(options: TokenStream, item: TokenStream) -> TokenStream {
            entry::entry(entry::Kind::Test, $krate, options.into(), item.into()).into()
        }
    };
}

entries!(std_main std_test "filch_std");
entries!(io_main io_test "filch_io");
entries!(linux_main linux_test "filch_linux");
