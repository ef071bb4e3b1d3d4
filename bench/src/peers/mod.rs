//! The executors, behind one trait, so that all run the same programs.
//!
//! An adapter uses what its executor's documentation shows to users, and nothing else.

pub(crate) mod edge;
pub(crate) mod embassy;
pub(crate) mod filch;
pub(crate) mod nexosim;
pub(crate) mod observed;
pub(crate) mod smol;
pub(crate) mod tokio;

use core::{future::Future, pin::Pin, time::Duration};

/// An executor that is given tasks.
pub(crate) trait Peer: Sized + 'static {
    /// What a program spawns with, inside a task; empty if the thread finds the executor, or if it
    /// is a static.
    type Here;

    /// Starts the executor with so many workers.
    fn start(workers: usize) -> Self;

    /// Spawns a detached task, from inside a task.
    fn detach(here: &Self::Here, future: impl Future<Output = ()> + Send + 'static);

    /// Spawns a detached task, from a thread outside of the executor.
    fn submit(&self, future: impl Future<Output = ()> + Send + 'static);

    /// Runs `job` in a task, at once or soon.
    fn within(&mut self, job: impl FnOnce(&Self::Here) + Send + 'static);

    /// Runs an executor that works only when it is driven.
    fn drive(&mut self) {}
}

/// An executor whose tasks can spawn others and wait for them.
pub(crate) trait Join: Peer<Here = ()> + Sync {
    /// Waits for a task. Ends with its output only, not with other events.
    type Task<T: Send + 'static>: Future<Output = T> + Send + 'static;

    /// Spawns from inside a task.
    fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Self::Task<T>;

    /// Spawns from a thread outside of the executor.
    fn spawn_from_outside<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self::Task<T>;

    /// Waits for a future on a thread outside of the executor.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T;
}

/// An executor with timers.
pub(crate) trait Timers: Join {
    type Sleep: Future + Send + 'static;

    /// A sleep that begins now. Called in a task.
    fn sleep(duration: Duration) -> Self::Sleep;

    /// Moves its end to that long from now.
    fn reset(sleep: Pin<&mut Self::Sleep>, duration: Duration);
}

/// An action on a peer whose type is known.
pub(crate) trait Visit {
    type Output;
    fn peer<P: Peer>(self) -> Self::Output;
    fn join<P: Join>(self) -> Self::Output;
    fn timers<P: Timers>(self) -> Self::Output;
}

pub(crate) const FILCH: &str = "filch";
/// filch without I/O.
pub(crate) const FILCH_STD: &str = "filch-std";

/// filch in a program that is built with the flight recorder, which is off; and on.
pub(crate) const FILCH_OFF: &str = "filch-off";
pub(crate) const FILCH_RECORDER: &str = "filch-recorder";
/// tokio with dial9's flight recorder, and with tokio-console's.
pub(crate) const TOKIO_DIAL9: &str = "tokio-dial9";
pub(crate) const TOKIO_CONSOLE: &str = "tokio-console";
/// What is written for tokio, on filch-tokio.
pub(crate) const FILCH_TOKIO: &str = "filch-tokio";
pub(crate) const FILCH_TOKIO_CT: &str = "filch-tokio-ct";
/// The peers that are not in every build of this program: `--program` says in which.
pub(crate) const ELSEWHERE: &[&str] =
    &[FILCH_OFF, FILCH_RECORDER, TOKIO_DIAL9, TOKIO_CONSOLE, FILCH_TOKIO, FILCH_TOKIO_CT];

/// The names of the executors that support so many workers.
pub(crate) fn names(workers: usize) -> Vec<&'static str> {
    let mut names = vec![FILCH, FILCH_STD, "tokio", "smol", "smol-static", "nexosim"];
    if workers == 1 {
        names.extend(["tokio-ct", "edge", "embassy"]);
    }
    names
}

/// Finds a peer by its name.
pub(crate) fn visit<V: Visit>(name: &str, visitor: V) -> Option<V::Output> {
    Some(match name {
        FILCH => visitor.timers::<filch::Filch>(),
        FILCH_STD => visitor.timers::<filch::FilchStd>(),
        #[cfg(feature = "recorder")]
        FILCH_OFF => visitor.timers::<filch::Filch>(),
        #[cfg(feature = "recorder")]
        FILCH_RECORDER => visitor.timers::<filch::Recorded>(),
        #[cfg(feature = "dial9")]
        TOKIO_DIAL9 => visitor.timers::<tokio::Dial9>(),
        #[cfg(feature = "console")]
        TOKIO_CONSOLE => visitor.timers::<tokio::Console>(),
        #[cfg(feature = "filch-tokio")]
        FILCH_TOKIO => visitor.timers::<tokio::MultiThread>(),
        #[cfg(feature = "filch-tokio")]
        FILCH_TOKIO_CT => visitor.timers::<tokio::CurrentThread>(),
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
