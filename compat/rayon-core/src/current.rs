//! The registry that the calling thread uses: its pool's, its runtime's, or the global one.

use core::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock};

use filch_std::{Handle, runtime::WorkerId};

use crate::{
    builder::{Handlers, ThreadPoolBuilder},
    error::ThreadPoolBuildError,
    registry::{Registry, RegistryRef, lock},
    thread::Owner,
};

/// A thread's place in a pool.
#[derive(Clone, Copy)]
pub(crate) struct Seat {
    /// INV-REGISTRY: a pool's thread owns a part of it while this is set.
    pub(crate) registry: RegistryRef,
    pub(crate) index: usize,
}

thread_local! {
    static SEAT: Cell<Option<Seat>> = const { Cell::new(None) };
    /// The runtime that the thread used last, and its registry.
    static USED: Cell<Option<(Identity, &'static Registry)>> = const { Cell::new(None) };
}

type Identity = (usize, u32);

static GLOBAL: OnceLock<Arc<Owner>> = OnceLock::new();
/// Held while the global registry is made.
static MAKING: Mutex<()> = Mutex::new(());
/// Registries of runtimes: as many as there is memory for runtimes, which is kept too.
static OF_RUNTIMES: Mutex<Vec<(Identity, &'static Registry)>> = Mutex::new(Vec::new());

/// The calling thread is in a pool from now on, or in none.
pub(crate) fn sit(seat: Option<Seat>) {
    SEAT.set(seat);
}

/// Whether the calling thread is in a pool, or a runtime's worker.
pub(crate) fn is_seated() -> bool {
    SEAT.get().is_some() || Handle::current().is_ok_and(|handle| handle.current_worker().is_some())
}

pub(crate) fn index() -> Option<usize> {
    match Handle::current() {
        Ok(handle) => {
            handle.current_worker().map(WorkerId::index).filter(|index| *index < handle.workers())
        }
        // A pool's thread before and after its life as a worker.
        Err(_) => SEAT.get().map(|seat| seat.index),
    }
}

/// Calls `f` with the current registry.
pub(crate) fn with<R>(f: impl FnOnce(&Registry) -> R) -> R {
    match (Handle::current(), SEAT.get()) {
        (Ok(handle), Some(seat)) if seat.registry.handle.identity() == handle.identity() => {
            f(&seat.registry)
        }
        (Ok(handle), _) => f(of_runtime(handle)),
        (Err(_), Some(seat)) => f(&seat.registry),
        (Err(_), None) => f(global()),
    }
}

/// Calls `f` with the current registry, if the thread is in a runtime that has one.
pub(crate) fn known<R>(f: impl FnOnce(&Registry) -> R) -> Option<R> {
    let handle = Handle::current().ok()?;
    let identity = handle.identity();
    if let Some(seat) = SEAT.get().filter(|seat| seat.registry.handle.identity() == identity) {
        return Some(f(&seat.registry));
    }
    let all = lock(&OF_RUNTIMES);
    let found = all.iter().find(|(other, _)| *other == identity).map(|(_, registry)| *registry);
    drop(all);
    found.map(f)
}

/// The registry of a runtime that was not made for a pool.
fn of_runtime(handle: Handle) -> &'static Registry {
    let identity = handle.identity();
    match USED.get() {
        Some((used, registry)) if used == identity => registry,
        _ => {
            let mut all = lock(&OF_RUNTIMES);
            let found = all.iter().find(|(other, _)| *other == identity);
            let registry = match found {
                Some((_, registry)) => *registry,
                None => {
                    let registry = Registry::new(handle, Handlers::default());
                    let registry: &'static Registry = Box::leak(Box::new(registry));
                    all.push((identity, registry));
                    registry
                }
            };
            USED.set(Some((identity, registry)));
            registry
        }
    }
}

fn global() -> &'static Registry {
    if let Some(owner) = GLOBAL.get() {
        return owner.registry();
    }
    match make_global(|| ThreadPoolBuilder::new().make()) {
        Ok(registry) => registry,
        Err(error) => match GLOBAL.get() {
            Some(owner) => owner.registry(),
            None => panic!("the global thread pool could not be made: {error}"),
        },
    }
}

/// Makes the global registry.
///
/// # Errors
/// That there is one, or why it was not made.
pub(crate) fn make_global(
    make: impl FnOnce() -> Result<Arc<Owner>, ThreadPoolBuildError>,
) -> Result<&'static Registry, ThreadPoolBuildError> {
    let _making = lock(&MAKING);
    if GLOBAL.get().is_some() {
        return Err(ThreadPoolBuildError::GLOBAL_EXISTS);
    }
    let owner = make()?;
    Ok(GLOBAL.get_or_init(|| owner).registry())
}
