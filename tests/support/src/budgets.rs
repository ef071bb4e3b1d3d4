//! What the tests of budgets share: operations that are called again and again, and the async functions of which such a test has a table.

use core::{
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    task::Poll,
    time::Duration,
};
use std::{
    collections::BTreeSet,
    fs,
    panic::catch_unwind,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
};

/// One call of an operation.
pub type Once = Pin<Box<dyn Future<Output = ()> + Send>>;
/// An operation.
pub type Call = Box<dyn Fn() -> Once + Send + Sync>;
/// Prepares an operation, in a runtime.
pub type Setup = fn() -> Pin<Box<dyn Future<Output = Call> + Send>>;

/// What a call returns does not matter.
pub fn ignore<T>(_: T) {}

/// A call by itself, of a method of something that calls share, or of something that they use one after the other.
#[macro_export]
macro_rules! call {
    ($op:expr) => {
        Box::new(|| -> $crate::budgets::Once {
            Box::pin(async { $crate::budgets::ignore($op.await) })
        }) as $crate::budgets::Call
    };
    ($value:ident => $op:expr) => {{
        let value = ::std::sync::Arc::new($value);
        Box::new(move || -> $crate::budgets::Once {
            let $value = ::std::sync::Arc::clone(&value);
            Box::pin(async move { $crate::budgets::ignore($op.await) })
        }) as $crate::budgets::Call
    }};
    (mut $value:ident => $op:expr) => {{
        // Not a lock that spends budget.
        let value = ::std::sync::Arc::new(::std::sync::Mutex::new(Some($value)));
        Box::new(move || -> $crate::budgets::Once {
            let value = ::std::sync::Arc::clone(&value);
            Box::pin(async move {
                let mut taken = $crate::budgets::Taken::new(value);
                let $value = taken.get();
                $crate::budgets::ignore($op.await);
            })
        }) as $crate::budgets::Call
    }};
}

/// Operations by their names.
#[macro_export]
macro_rules! table {
    ($($(#[$cfg:meta])? $name:literal => $setup:expr;)*) => {
        vec![$(
            $(#[$cfg])?
            ($name, (|| Box::pin(async { $setup })) as $crate::budgets::Setup),
        )*]
    };
}

/// Is given back as it is dropped.
#[derive(Debug)]
pub struct Taken<T>(Option<T>, Arc<Mutex<Option<T>>>);

impl<T> Taken<T> {
    /// Takes it from its place.
    pub fn new(place: Arc<Mutex<Option<T>>>) -> Self {
        let value = place.lock().unwrap().take();
        Self(value, place)
    }

    /// What was taken.
    pub fn get(&mut self) -> &mut T {
        self.0.as_mut().unwrap()
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = self.0.take();
    }
}

/// Calls the operation again and again, until it is stopped.
pub struct Calls {
    call: Call,
    stop: AtomicBool,
    done: AtomicUsize,
}

impl core::fmt::Debug for Calls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Calls").field("done", &self.done).finish_non_exhaustive()
    }
}

impl Calls {
    /// None was made yet.
    pub fn new(call: Call) -> Arc<Self> {
        Arc::new(Self { call, stop: AtomicBool::new(false), done: AtomicUsize::new(0) })
    }

    /// Calls it until so many calls are over.
    pub async fn repeat(&self, most: usize) {
        while !self.stop.load(SeqCst) && self.done.load(SeqCst) < most {
            (self.call)().await;
            self.done.fetch_add(1, SeqCst);
        }
    }

    /// As [`repeat`](Self::repeat), but a call that panics is the last one.
    pub async fn repeat_until_panic(&self, most: usize) {
        let mut repeat = pin!(self.repeat(most));
        poll_fn(|cx| {
            let polled = catch_unwind(AssertUnwindSafe(|| repeat.as_mut().poll(cx)));
            polled.unwrap_or(Poll::Ready(()))
        })
        .await;
    }

    /// The largest number of calls that are over in one poll of the future, which repeats them for a while.
    pub async fn most_in_one_poll<T>(&self, repeat: impl Future<Output = T>) -> usize {
        let mut most = 0;
        let mut repeat = pin!(repeat);
        poll_fn(|cx| {
            let before = self.done.load(SeqCst);
            let polled = repeat.as_mut().poll(cx);
            most = most.max(self.done.load(SeqCst) - before);
            polled.map(drop)
        })
        .await;
        most
    }

    /// Whether `f`, which waits for a loop of the calls, ends, on a thread of its own. If it does not, the loop is stopped.
    pub fn ends(&self, f: impl FnOnce() + Send) -> bool {
        /// How long a loop that does not give way is waited for, before it counts as a failure.
        const PATIENCE: Duration = Duration::from_secs(20);
        let (over, end) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                f();
                over.send(())
            });
            let in_time = end.recv_timeout(PATIENCE).is_ok();
            self.stop.store(true, SeqCst);
            in_time
        })
    }
}

/// The names of the functions in the sources below a folder whose lines begin so, followed by the rest of their names.
fn functions(folder: &Path, begin: &[&str], found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, begin, found);
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let line = line.trim_start();
            if begin.iter().any(|begin| line.starts_with(begin)) {
                let name = line.split(['(', '<']).next().unwrap();
                found.extend(name.rsplit(' ').next().map(str::to_owned));
            }
        }
    }
}

/// The names of the functions in the sources below the folders, at least so many, whose lines begin as given, without those of a table.
pub fn not_in_table<'a>(
    folders: impl IntoIterator<Item = impl AsRef<Path>>,
    begin: &[&str],
    at_least: usize,
    table: impl IntoIterator<Item = &'a str>,
) -> BTreeSet<String> {
    let mut missing = BTreeSet::new();
    for folder in folders {
        functions(folder.as_ref(), begin, &mut missing);
    }
    assert!(missing.len() > at_least, "{missing:?}");
    for name in table {
        let function = name.split([' ', ',']).next().unwrap();
        missing.remove(function.rsplit("::").next().unwrap());
    }
    missing
}
