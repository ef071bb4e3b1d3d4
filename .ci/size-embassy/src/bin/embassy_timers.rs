//! As `one`, and the task sleeps between two looks at the flag.
#![no_std]
#![no_main]

use core::{
    cell::RefCell,
    future::Future,
    mem::MaybeUninit,
    pin::Pin,
    sync::atomic::{AtomicU32, Ordering},
    task::{Context, Poll, Waker},
};

use critical_section::Mutex;
use embassy_executor::raw::{Executor, TaskStorage};
use embassy_time::{Duration, Timer};
use embassy_time_driver::Driver;
use embassy_time_queue_utils::Queue;
use size_embassy::{Flag, SIGNAL};

static mut EXECUTOR: MaybeUninit<Executor> = MaybeUninit::uninit();
static TASK: TaskStorage<Blink> = TaskStorage::new();
static FLAG: Flag = Flag::new();
static CLOCK: AtomicU32 = AtomicU32::new(0);
static ALARM: AtomicU32 = AtomicU32::new(0);

struct Board {
    queue: Mutex<RefCell<Queue>>,
}

impl Board {
    /// Sets the alarm for the next timer, until that is in the future.
    fn set_alarm(&self, queue: &mut Queue) {
        let mut next = queue.next_expiration(self.now());
        while next < self.now() {
            next = queue.next_expiration(self.now());
        }
        ALARM.store(next as u32, Ordering::Relaxed);
    }
}

impl Driver for Board {
    fn now(&self) -> u64 {
        // SAFETY: never run.
        unsafe { CLOCK.as_ptr().read_volatile() }.into()
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|cs| {
            let mut queue = self.queue.borrow(cs).borrow_mut();
            if queue.schedule_wake(at, waker) {
                self.set_alarm(&mut queue);
            }
        });
    }
}

embassy_time_driver::time_driver_impl!(
    static BOARD: Board = Board { queue: Mutex::new(RefCell::new(Queue::new())) }
);

#[unsafe(no_mangle)]
extern "C" fn alarm() {
    critical_section::with(|cs| BOARD.set_alarm(&mut BOARD.queue.borrow(cs).borrow_mut()));
}

#[unsafe(no_mangle)]
extern "C" fn handler() {
    FLAG.raise();
}

struct Blink(Timer);

impl Future for Blink {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while Pin::new(&mut self.0).poll(cx).is_ready() {
            FLAG.raise();
            self.0 = Timer::after(Duration::from_millis(500));
        }
        Poll::Pending
    }
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // The vector table's.
    core::hint::black_box(handler as extern "C" fn());
    core::hint::black_box(alarm as extern "C" fn());
    // SAFETY: once.
    let executor: &'static Executor =
        unsafe { (*(&raw mut EXECUTOR)).write(Executor::new(core::ptr::null_mut())) };
    if let Ok(token) = TASK.spawn(|| Blink(Timer::after(Duration::from_ticks(0)))) {
        executor.spawner().spawn(token);
    }
    loop {
        // SAFETY: one context polls.
        unsafe { executor.poll() };
        while !SIGNAL.load(Ordering::Acquire) {
            core::hint::spin_loop();
        }
        SIGNAL.store(false, Ordering::Release);
    }
}
