//! What one context leaves for another, ordered only by the executor: in cells whose races are found, and in relaxed
//! atomics whose old values may be read.

use core::{
    future::{Future, poll_fn},
    task::{Poll, Waker},
    time::Duration,
};

use filch::{
    Config, Executor, Fork, Instant, TaskPool, WorkerId,
    atomic::{AtomicU32, Ordering::Relaxed, UnsafeCell},
    io::{Direction, Readiness, Ready},
};
use filch_weakmem::futex;

use super::{Pool, Small, start, start_with};
use crate::model::{Arc, Board, Mutex, leak, thread};

/// A number that is written once. A context reads it only once it knows that it was written.
#[derive(Default)]
pub(crate) struct Note(UnsafeCell<u32>);

// SAFETY: the checker reports every race.
unsafe impl Sync for Note {}

impl Note {
    pub(crate) fn write(&self) {
        // SAFETY: no other context touches it, or the checker reports a race.
        self.0.with_mut(|note| unsafe { *note += 7 });
    }

    pub(crate) fn read(&self) {
        // SAFETY: as above.
        assert_eq!(self.0.with(|note| unsafe { *note }), 7);
    }
}

/// A count that only rises. It orders nothing.
#[derive(Default)]
pub(crate) struct Event(AtomicU32);

impl Event {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Relaxed);
        futex::wake_all(&self.0);
    }

    fn is_past(&self, n: u32) -> bool {
        self.0.load(Relaxed) >= n
    }

    /// Blocks the thread.
    pub(crate) fn wait_for(&self, n: u32) {
        loop {
            let now = self.0.fetch_or(0, Relaxed);
            if now >= n {
                return;
            }
            futex::wait(&self.0, now);
        }
    }
}

/// A task that waits for a letter.
#[derive(Default)]
struct Mailbox {
    waker: Mutex<Option<Waker>>,
    letter: Note,
    reply: Note,
}

impl Mailbox {
    /// Needs two polls: it waits for one wake.
    async fn read(mail: Arc<Self>) {
        let mut polled = false;
        poll_fn(|cx| {
            if polled {
                return Poll::Ready(());
            }
            polled = true;
            *mail.waker.lock().expect("is never poisoned") = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        mail.letter.read();
        mail.reply.write();
    }

    fn send(&self, by_ref: bool) {
        let waker = loop {
            match self.waker.lock().expect("is never poisoned").take() {
                Some(waker) => break waker,
                None => thread::yield_now(),
            }
        };
        self.letter.write();
        if by_ref { waker.wake_by_ref() } else { waker.wake() }
    }
}

pub(crate) fn what_wakers_did_is_seen_by_polls_and_what_tasks_did_by_joiners() {
    let system = start::<2>();
    let mails: [Arc<Mailbox>; 2] = Default::default();
    let mut tasks = mails.each_ref().map(|mail| system.spawn(Mailbox::read(mail.clone())));
    let [first, second] = mails.clone();
    let other = thread::spawn(move || second.send(true));
    first.send(false);
    for (task, mail) in tasks.iter_mut().zip(&mails) {
        task.join().expect("completes");
        mail.reply.read();
    }
    other.join().expect("does not panic");
    system.end();
}

/// Two wakers, one of which may find the task already scheduled.
pub(crate) fn no_wake_goes_unseen() {
    let system = start::<2>();
    let (events, wakers) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut task = system.spawn({
        let (events, wakers) = (events.clone(), wakers.clone());
        poll_fn(move |cx| {
            if events.load(Relaxed) == 2 {
                return Poll::Ready(());
            }
            let mut wakers = wakers.lock().expect("is never poisoned");
            if wakers.is_empty() {
                wakers.extend([cx.waker().clone(), cx.waker().clone()]);
            }
            Poll::Pending
        })
    });
    let clones: Vec<Waker> = loop {
        let clones = wakers.lock().expect("is never poisoned").clone();
        if !clones.is_empty() {
            break clones;
        }
        thread::yield_now();
    };
    let threads: Vec<_> = clones
        .into_iter()
        .map(|waker| {
            let events = events.clone();
            thread::spawn(move || {
                events.fetch_add(1, Relaxed);
                waker.wake();
            })
        })
        .collect();
    task.join().expect("completes");
    threads.into_iter().for_each(|t| t.join().expect("does not panic"));
    system.end();
}

/// Tasks await each other, and handles are dropped meanwhile.
pub(crate) fn outputs_go_to_tasks_that_await_them() {
    let system = start::<3>();
    let notes: Arc<[Note; 3]> = Arc::default();
    let (executor, pool) = (system.executor, system.pool);
    let mut outer = system.spawn({
        let notes = notes.clone();
        async move {
            let inner = |i: usize| {
                let notes = notes.clone();
                let inner = async move {
                    filch::yield_now().await;
                    notes[i].write();
                    i
                };
                executor.spawn(pool, inner).unwrap_or_else(|error| panic!("{error}"))
            };
            let (first, second, mut third) = (inner(0), inner(1), inner(2));
            // A handle that has been polled is dropped.
            poll_fn(|cx| {
                let _ = core::pin::Pin::new(&mut third).poll(cx);
                Poll::Ready(())
            })
            .await;
            drop(third);
            for (i, handle) in [first, second].into_iter().enumerate() {
                assert_eq!(handle.await.expect("completes"), i);
                notes[i].read();
            }
        }
    });
    outer.join().expect("completes");
    system.end();
    notes[2].read();
}

/// As many tasks as workers. Each blocks its worker until all of them run, so a worker that sleeps while a task waits
/// is a deadlock. `chained` of them are spawned by the one before.
fn rendezvous<const N: usize>(chained: u32) {
    // Without LIFO slots, whose tasks wait for the end of a poll by design.
    let system = start_with::<N>(Config::new().watchdog(None).spin_rounds(0).lifo_cap(0));
    let met = Arc::new(Event::default());
    let (executor, pool) = (system.executor, system.pool);
    fn spawn<const N: usize>(
        executor: &'static Small<N>,
        pool: &'static Pool,
        met: Arc<Event>,
        chained: u32,
    ) -> filch::JoinHandle<()> {
        let task = async move {
            if chained > 0 {
                spawn(executor, pool, met.clone(), chained - 1).detach();
            }
            met.count();
            met.wait_for(N as u32);
        };
        executor.spawn(pool, task).unwrap_or_else(|error| panic!("{error}"))
    }
    let alone = N as u32 - chained - 1;
    let tasks: Vec<_> = (0..=alone)
        .map(|i| spawn(executor, pool, met.clone(), if i == 0 { chained } else { 0 }))
        .collect();
    met.wait_for(N as u32);
    // This thread must not help, because it could take a task that blocks.
    for task in tasks {
        while !task.is_finished() {
            thread::yield_now();
        }
    }
    system.end();
}

pub(crate) fn nobody_sleeps_while_tasks_from_outside_wait() {
    rendezvous::<3>(0);
}

pub(crate) fn nobody_sleeps_while_tasks_of_tasks_wait() {
    rendezvous::<2>(1);
    rendezvous::<3>(1);
}

pub(crate) fn nobody_sleeps_while_a_chain_of_tasks_waits() {
    rendezvous::<4>(3);
}

/// More tasks than slots, from two threads with up to two each: slots are reused out of order.
pub(crate) fn slots_go_from_hand_to_hand() {
    let system = start::<2>();
    let (executor, pool) = (system.executor, leak(TaskPool::<1024, 3>::new()));
    let spawn = move || {
        let note = Arc::new(Note::default());
        loop {
            let own = note.clone();
            match executor.spawn(pool, async move { own.write() }) {
                Ok(task) => return (task, note),
                Err(_) => thread::yield_now(),
            }
        }
    };
    let join = |(mut task, note): (filch::JoinHandle<()>, Arc<Note>)| {
        task.join().expect("completes");
        note.read();
    };
    let spawner = move || {
        for _ in 0..2 {
            let (first, second) = (spawn(), spawn());
            join(first);
            let third = spawn();
            join(second);
            join(third);
        }
    };
    let other = thread::spawn(spawner);
    spawner();
    other.join().expect("does not panic");
    system.end();
}

/// One leaf for each note. On the way down and up other workers may take the rest.
fn fill(fork: Fork<'_>, notes: &[Note]) {
    match notes {
        [] => {}
        [note] => note.write(),
        _ => {
            thread::yield_now();
            let (a, b) = notes.split_at(notes.len() / 2);
            fork.join(|fork| fill(fork, a), |fork| fill(fork, b));
            notes.iter().for_each(Note::read);
        }
    }
}

pub(crate) fn forks_see_what_their_jobs_did() {
    let system = start::<3>();
    let executor = system.executor;
    let mut tasks = [12, 4].map(|n| {
        system.spawn(async move {
            let notes: Vec<_> = (0..n).map(|_| Note::default()).collect();
            let forked = executor.fork(|fork| fill(fork, &notes));
            assert!(forked.is_ok(), "a task runs on a worker");
        })
    });
    for task in &mut tasks {
        task.join().expect("completes");
    }
    system.end();
}

/// The first side forks on until another worker has run the second.
pub(crate) fn a_sleeper_comes_for_a_job() {
    let system = start::<2>();
    let executor = system.executor;
    let task = system.spawn(async move {
        let (ran, note) = (Event::default(), Note::default());
        let forked = executor.fork(|fork| {
            let forks = |fork: Fork<'_>| {
                while !ran.is_past(1) {
                    fork.join(|_| thread::yield_now(), |_| {});
                }
            };
            let runs = |_: Fork<'_>| {
                note.write();
                ran.count();
            };
            fork.join(forks, runs);
            note.read();
        });
        assert!(forked.is_ok(), "a task runs on a worker");
    });
    while !task.is_finished() {
        thread::yield_now();
    }
    system.end();
}

pub(crate) fn sleeps_end() {
    let system = start::<2>();
    let executor = system.executor;
    let mut tasks = [1, 2, 2].map(|ms| {
        system.spawn(async move {
            executor.sleep(Duration::from_millis(ms)).await;
        })
    });
    for task in &mut tasks {
        task.join().expect("completes");
    }
    system.end();
}

/// A worker polls tasks that sleep, and leaves; another worker fires their timers.
pub(crate) fn timers_of_a_worker_that_leaves_are_fired() {
    let config = Config::new().watchdog(None).spin_rounds(0);
    let late: &'static Small<2> = leak(Executor::with_config(Board::new(), config));
    let pool: &'static Pool = leak(Pool::new());
    let spawn = |ms| {
        let task = async move { late.sleep(Duration::from_millis(ms)).await };
        late.spawn(pool, task).unwrap_or_else(|error| panic!("{error}"))
    };
    let mut tasks = [spawn(1), spawn(3)];
    let brief = thread::spawn(move || {
        if let Ok(worker) = late.worker(WorkerId::new(0)) {
            worker.run_for(2);
        }
    });
    let stays = thread::spawn(move || {
        let _ = late.run(WorkerId::new(1));
    });
    for task in &mut tasks {
        task.join().expect("completes");
    }
    brief.join().expect("does not panic");
    late.shutdown(Instant::MAX, |_| {}).expect("called from no worker");
    stays.join().expect("does not panic");
}

/// A source: how much there is to read, and its cell. Only the cell's edges order it.
struct Source {
    data: AtomicU32,
    cell: Readiness,
}

impl Source {
    fn leak() -> &'static Self {
        leak(Self { data: AtomicU32::new(0), cell: Readiness::new() })
    }

    fn give(&self) {
        self.data.fetch_add(1, Relaxed);
        self.cell.set(Ready::READABLE);
    }

    /// Takes what there is. If there is nothing, clears the event.
    fn take(&self, event: filch::io::Event) -> u32 {
        let got = self.data.load(Relaxed);
        if got == 0 {
            self.cell.clear(event);
        } else {
            self.data.fetch_sub(got, Relaxed);
        }
        got
    }
}

pub(crate) fn no_edge_is_lost(by_list: bool) {
    let system = start::<2>();
    let source = Source::leak();
    let mut task = system.spawn(async move {
        let mut got = 0;
        while got < 4 {
            let event = if by_list {
                source.cell.ready(Ready::READABLE).await
            } else {
                poll_fn(|cx| source.cell.poll_ready(cx, Direction::Read)).await
            };
            got += source.take(event);
        }
    });
    let giver = || {
        source.give();
        source.give();
    };
    let other = thread::spawn(giver);
    giver();
    task.join().expect("completes");
    other.join().expect("does not panic");
    system.end();
}

/// More waiters than are woken at once, some of which are dropped. The edge comes when all wait, or earlier.
pub(crate) fn all_waiters_hear_of_an_edge(early: bool) {
    let system = start::<2>();
    let (source, waiting) = (Source::leak(), Arc::new(Event::default()));
    let mut tasks: Vec<_> = (0..11)
        .map(|i| {
            let waiting = waiting.clone();
            system.spawn(async move {
                let mut waits = core::pin::pin!(source.cell.ready(Ready::READABLE));
                let is_ready = poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx).is_ready())).await;
                waiting.count();
                // Some give up after their first poll.
                if !is_ready && i > 0 {
                    waits.await;
                    assert_ne!(source.data.load(Relaxed), 0);
                }
            })
        })
        .collect();
    if !early {
        waiting.wait_for(11);
    }
    source.give();
    for task in &mut tasks {
        task.join().expect("completes");
    }
    system.end();
}
