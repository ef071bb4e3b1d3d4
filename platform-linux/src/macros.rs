//! `main` and `test`, without a procedural macro.

/// An `async fn main` on a runtime of its own.
///
/// ```
/// filch_linux::main! {
///     async fn main() -> Result<(), filch_linux::JoinError> {
///         filch_linux::spawn(async { println!("hello") }).await
///     }
/// }
/// ```
///
/// `#[workers(N)]` before it sets the number of workers:
///
/// ```
/// filch_linux::main! {
///     #[workers(2)]
///     async fn main() {}
/// }
/// ```
///
/// # Panics
/// If the runtime cannot be built.
#[macro_export]
macro_rules! main {
    ($(#[workers($n:expr)])? $vis:vis async fn $name:ident() $(-> $out:ty)? $body:block) => {
        $vis fn $name() $(-> $out)? {
            $crate::__run!([$($n)?] $body)
        }
    };
}

/// An `async` test on a runtime of its own.
///
/// ```
/// filch_linux::test! {
///     #[workers(2)]
///     async fn sums_are_right() {
///         assert_eq!(filch_linux::spawn(async { 1 + 1 }).await.unwrap(), 2);
///     }
/// }
/// ```
///
/// `#[clock(paused)]`, after `#[workers(N)]`, stops the clock before the test: see
/// [`time::pause`](crate::time::pause).
///
/// ```
/// filch_linux::test! {
///     #[clock(paused)]
///     async fn a_day_passes() {
///         filch_linux::sleep(core::time::Duration::from_secs(86_400)).await;
///     }
/// }
/// ```
#[macro_export]
macro_rules! test {
    ($(#[workers($n:expr)])? $(#[clock($clock:ident)])? $(#[should_panic $($how:tt)*])? async fn $name:ident() $(-> $out:ty)? $body:block) => {
        #[test]
        $(#[should_panic $($how)*])?
        fn $name() $(-> $out)? {
            $crate::__run!([$($n)?] $($clock)? $body)
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __run {
    ([$($n:expr)?] $body:block) => {
        $crate::__run!(build [$($n)?] $body)
    };
    ([$($n:expr)?] paused $body:block) => {
        $crate::__run!(build_pausable [$($n)?] {
            $crate::time::pause();
            $body
        })
    };
    ($build:ident [$($n:expr)?] $body:block) => {
        match $crate::builder()$(.workers($n))?.$build() {
            Ok(runtime) => runtime.block_on(async move $body),
            Err(error) => panic!("the runtime could not be built: {error}"),
        }
    };
}
