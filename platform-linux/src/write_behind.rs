//! Write-behind: a write copies its bytes and says that it is done; a thread writes them afterwards.

use core::task::{Context, Poll, Waker};
use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use filch_std::{
    Handle,
    internal::{Threads, contain},
};
use rustix::event::{PollFd, PollFlags, poll};

/// The most bytes of one write.
pub(crate) const PIECE: usize = 65_536;

/// The write of a file that has been accepted and may not have ended: one at a time.
///
/// INV-BEHIND: from its acceptance on it is written, whatever is dropped: by a job of the pool that the end of the runtime waits for, or
/// before that by an operation which is to come after it. The operation calls [`settle`](Self::settle) first, on a thread that may block.
#[derive(Clone, Default)]
pub(crate) struct WriteBehind(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Held while the bytes are being written.
    order: Mutex<()>,
    /// Never held for long.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stage: Stage,
    /// The error of the last write, until a caller gets it.
    failed: Option<io::Error>,
    /// Who waits for the end.
    waker: Option<Waker>,
    /// Kept for its memory.
    spare: Vec<u8>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Idle,
    Accepted(Arc<File>, Vec<u8>),
    Writing,
}

impl WriteBehind {
    /// Whether nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state().stage, Stage::Idle)
    }

    /// Takes a piece of these bytes, which one of these threads writes; returns its length. Called while nothing is being written.
    pub(crate) fn accept(
        &self,
        handle: Handle,
        threads: Threads,
        file: &Arc<File>,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        let mut state = self.state();
        let mut buffer = core::mem::take(&mut state.spare);
        buffer.extend_from_slice(piece);
        state.stage = Stage::Accepted(Arc::clone(file), buffer);
        drop(state);
        let this = self.clone();
        match handle.accept(threads, move || this.settle()) {
            Ok(()) => Ok(piece.len()),
            Err(refused) => {
                let mut state = self.state();
                if !matches!(state.stage, Stage::Accepted(..)) {
                    // Another thread that settles has taken it, and writes it.
                    return Ok(piece.len());
                }
                let before = core::mem::take(&mut state.stage);
                drop(state);
                drop(before);
                Err(io::Error::other(refused))
            }
        }
    }

    /// Writes what has been accepted, or waits until another thread has. Blocks.
    pub(crate) fn settle(&self) {
        if self.is_idle() {
            return;
        }
        let order = lock(&self.0.order);
        let mut state = self.state();
        let (file, mut bytes) = match core::mem::replace(&mut state.stage, Stage::Writing) {
            Stage::Accepted(file, bytes) => (file, bytes),
            other => {
                state.stage = other;
                return;
            }
        };
        drop(state);
        let result = write_all(&file, &bytes);
        // Before the end is seen: whoever sees it has the file alone.
        drop(file);
        bytes.clear();
        let mut state = self.state();
        state.stage = Stage::Idle;
        state.failed = result.err();
        state.spare = bytes;
        let mut waker = state.waker.take();
        drop(state);
        drop(order);
        // A waker that panics keeps nothing else from its end; its panic has been printed.
        drop(contain(&mut || waker.take().into_iter().for_each(Waker::wake)));
    }

    /// Waits until nothing is being written. The error is that of the last write, once.
    pub(crate) fn poll_settled(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        if let Stage::Idle = state.stage {
            return Poll::Ready(state.failed.take().map_or(Ok(()), Err));
        }
        let before = match &state.waker {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            _ => state.waker.replace(cx.waker().clone()),
        };
        drop(state);
        // A waker may be the last owner of anything.
        drop(before);
        #[cfg(feature = "observe")]
        filch::dump::waits(cx.waker(), || filch::dump::Wait::Other("for a write to a file"));
        Poll::Pending
    }

    /// Whether there is something to wait for, or an error to return.
    pub(crate) fn has_news(&self) -> bool {
        let state = self.state();
        !matches!(state.stage, Stage::Idle) || state.failed.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

/// Both locks guard what stays valid if a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes all of it, also to a file that another process has made non-blocking.
fn write_all(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match retry(file, PollFlags::OUT, || file.write(bytes))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

/// Tries until it does not block, as another process may have made the file non-blocking.
pub(crate) fn retry<R>(
    file: &File,
    event: PollFlags,
    mut op: impl FnMut() -> io::Result<R>,
) -> io::Result<R> {
    loop {
        match op() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut files = [PollFd::from_borrowed_fd(file.as_fd(), event)];
                rustix::io::retry_on_intr(|| poll(&mut files, None))?;
            }
            result => return result,
        }
    }
}
