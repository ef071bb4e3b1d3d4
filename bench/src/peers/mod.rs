//! The executors, behind one trait, so that each runs the very same programs.
//!
//! An adapter uses what its executor's documentation shows to users, and nothing else.

pub(crate) mod edge;
pub(crate) mod embassy;
pub(crate) mod filch;
pub(crate) mod nexosim;
pub(crate) mod smol;
pub(crate) mod tokio;

use core::{future::Future, pin::Pin, time::Duration};

/// An executor that is given tasks.
pub(crate) trait Peer: Sized + 'static {
    /// What a program spawns with from where it runs; empty if the executor is found by the thread or is a static.
    type Here;

    /// Starts the executor with so many workers.
    fn start(workers: usize) -> Self;

    /// Spawns a task that nobody waits for, from inside a task.
    fn detach(here: &Self::Here, future: impl Future<Output = ()> + Send + 'static);

    /// Spawns a task that nobody waits for, from a thread that is none of the executor's.
    fn submit(&self, future: impl Future<Output = ()> + Send + 'static);

    /// Runs `job` in a task. It has run, or will do so soon.
    fn within(&mut self, job: impl FnOnce(&Self::Here) + Send + 'static);

    /// Executors that work only when they are told to, do now.
    fn drive(&mut self) {}
}

/// An executor whose tasks can spawn others and wait for them.
pub(crate) trait Join: Peer<Here = ()> + Sync {
    /// Waits for a task. Ends with its output, and not with what else may have happened.
    type Task<T: Send + 'static>: Future<Output = T> + Send + 'static;

    /// Spawns from inside a task.
    fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Self::Task<T>;

    /// Spawns from a thread that is none of the executor's.
    fn spawn_from_outside<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self::Task<T>;

    /// Waits for a future on a thread that is none of the executor's.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T;
}

/// An executor with timers.
pub(crate) trait Timers: Join {
    type Sleep: Future + Send + 'static;

    /// A sleep that begins now. Called in a task.
    fn sleep(duration: Duration) -> Self::Sleep;

    /// Has it end that long from now on.
    fn reset(sleep: Pin<&mut Self::Sleep>, duration: Duration);
}

/// What is done with a peer whose type is known.
pub(crate) trait Visit {
    type Output;
    fn peer<P: Peer>(self) -> Self::Output;
    fn join<P: Join>(self) -> Self::Output;
    fn timers<P: Timers>(self) -> Self::Output;
}

pub(crate) const FILCH: &str = "filch";

/// The names of the executors that can have so many workers.
pub(crate) fn names(workers: usize) -> Vec<&'static str> {
    let mut names = vec![FILCH, "tokio", "smol", "smol-static", "nexosim"];
    if workers == 1 {
        names.extend(["tokio-ct", "edge", "embassy"]);
    }
    names
}

/// Finds a peer by its name.
pub(crate) fn visit<V: Visit>(name: &str, visitor: V) -> Option<V::Output> {
    Some(match name {
        FILCH => visitor.timers::<filch::Filch>(),
        "tokio" => visitor.timers::<tokio::MultiThread>(),
        "tokio-ct" => visitor.timers::<tokio::CurrentThread>(),
        "smol" => visitor.timers::<smol::Smol>(),
        "smol-static" => visitor.timers::<smol::Static>(),
        "nexosim" => visitor.peer::<nexosim::Nexosim>(),
        "edge" => visitor.join::<edge::Edge>(),
        "embassy" => visitor.peer::<embassy::Embassy>(),
        _ => return None,
    })
}
