//! Each error of the runtime passes by `?` into `io::Error` and into `Box<dyn Error>`, as itself.

mod common;

use core::{error::Error, future::pending, time::Duration};
use std::io::{self, ErrorKind};

use common::runtime;
use filch_std::{
    Handle, JoinError, Runtime, TaskOptions,
    runtime::{BuildError, ConfigError, NoRuntime, ResizeError},
    task::{SpawnError, SpawnErrorKind},
};

/// What a `main` says of the error, and its kind.
fn by_io<E>(error: E) -> (String, ErrorKind)
where
    io::Error: From<E>,
{
    let main = || -> io::Result<()> { Err(error)? };
    let error = main().unwrap_err();
    (error.to_string(), error.kind())
}

fn by_box<E: Error + 'static>(error: E) -> String {
    let main = || -> Result<(), Box<dyn Error>> { Err(error)? };
    main().unwrap_err().to_string()
}

/// Both, of errors that are made anew.
fn check<E: Error + 'static>(make: impl Fn() -> E, kind: ErrorKind)
where
    io::Error: From<E>,
{
    let text = make().to_string();
    assert!(!text.is_empty());
    assert_eq!(by_io(make()), (text.clone(), kind));
    assert_eq!(by_box(make()), text);
}

#[test]
fn every_error_is_an_io_error_and_a_boxed_one() {
    let other = ErrorKind::Other;
    check(|| NoRuntime, other);
    check(|| Handle::current().unwrap_err(), other);
    for kind in [
        SpawnErrorKind::NoRuntime,
        SpawnErrorKind::Forked,
        SpawnErrorKind::Shutdown,
        SpawnErrorKind::NoWorker,
        SpawnErrorKind::NotPinned,
    ] {
        check(|| kind, other);
        check(|| SpawnError { kind, future: pending::<()>() }, other);
    }
    check(|| filch_std::spawn_with(TaskOptions::new(), async {}).unwrap_err(), other);
    check(|| filch_std::spawn_with(TaskOptions::new(), async {}).unwrap_err(), other);

    let denied = || io::Error::from(ErrorKind::PermissionDenied);
    let wrong = ErrorKind::InvalidInput;
    check(|| BuildError::Config(ConfigError::ZeroWorkers), wrong);
    check(|| BuildError::Config(ConfigError::TooManyWorkers(7)), wrong);
    check(|| BuildError::Variable("x".into()), wrong);
    check(|| BuildError::Config(ConfigError::WatchdogNeverSleeps), wrong);
    check(|| BuildError::Config(ConfigError::ZeroBudget), wrong);
    check(|| BuildError::Core(7), wrong);
    check(|| BuildError::Thread(denied()), ErrorKind::PermissionDenied);
    check(|| BuildError::Host(denied()), ErrorKind::PermissionDenied);
    check(|| ResizeError::Config(ConfigError::ZeroWorkers), wrong);
    check(|| ResizeError::Config(ConfigError::TooManyWorkers(7)), wrong);
    check(|| ResizeError::Forked, other);
    check(|| ResizeError::Shutdown, other);
    check(|| ResizeError::NotOurs, other);
    check(|| ResizeError::Thread(denied()), ErrorKind::PermissionDenied);

    check(|| JoinError::Cancelled, other);
    let rt = runtime(1);
    check(
        || {
            let late = rt.handle().timers().timeout(Duration::from_millis(1), pending::<()>());
            rt.block_on(late).unwrap_err()
        },
        ErrorKind::TimedOut,
    );

    // Those of the core.
    check(|| filch::SpawnErrorKind::Full, other);
    check(|| filch::SpawnError { kind: filch::SpawnErrorKind::Full, future: () }, other);
    check(|| filch::BuildError::ZeroBudget, wrong);
    check(|| filch::ResizeError::ZeroWorkers, wrong);
    check(|| filch::RunError::Stopped, other);
    check(|| filch::StartError::Unsupported, ErrorKind::Unsupported);
    check(|| filch::StartError::Refused(7), other);
    check(|| filch::ShutdownError::OnWorker, other);
    check(|| filch::RefLimit, other);
}

/// As a newcomer writes it.
#[test]
fn question_marks_in_a_main_of_io_results() {
    fn program() -> io::Result<u32> {
        let runtime = Runtime::builder().workers(1).max_workers(2).build()?;
        runtime.handle().resize(2)?;
        runtime.block_on(async {
            let a = filch_std::spawn_with(TaskOptions::new().name("a"), async { 1 })?;
            let b = filch_std::spawn_with(TaskOptions::new(), async { 2 })?;
            let c = Handle::current()?.spawn_blocking_with(TaskOptions::new(), || 4)?;
            Ok(a.await? + b.await? + c.await?)
        })
    }
    assert_eq!(program().unwrap(), 7);
}

/// What the core says of a configuration is said by the runtime too.
#[test]
fn errors_of_the_core_stay_what_they_are() {
    for error in [
        filch::BuildError::ZeroWorkers,
        filch::BuildError::TooManyWorkers(7),
        filch::BuildError::WatchdogNeverSleeps,
        filch::BuildError::ZeroBudget,
    ] {
        let own = BuildError::from(error);
        assert!(matches!(own, BuildError::Config(same) if same == error), "{own:?}");
        assert_eq!(own.to_string(), error.to_string());
        assert!(own.source().is_some());
    }
}
