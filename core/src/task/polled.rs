//! What a task may ask and change while it is polled.

use super::{info::TaskInfo, spawn::Spawner};
use crate::{class::Class, instant::Instant};

/// Classes of this executor's tasks. Each is for the task that the calling context polls.
impl Spawner {
    /// What is known of that task. `None` outside of polls, and without the part [`Classes`](crate::parts::Classes).
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Executor, Spawner, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// async fn name(on: Spawner) {
    ///     let own = on.task().unwrap();
    ///     assert!(own.scheduled && !own.cancelled && own.shields == 0);
    /// }
    /// let mut task = EXECUTOR.spawn(&TASKS, name(EXECUTOR.spawner()))?;
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// # task.join()?;
    /// assert!(EXECUTOR.spawner().task().is_none());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn task(self) -> Option<TaskInfo> {
        self.executor.task()
    }

    /// The class by which the task is queued: its own, or the one that it inherits from a task that waits for it. `None` outside of polls,
    /// and without the part [`Classes`](crate::parts::Classes).
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Class, Executor, Spawner, TaskOptions, TaskPool, WorkerId};
    /// # use core::time::Duration;
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// async fn control(on: Spawner) {
    ///     assert_eq!(on.class(), Some(Class::Urgent));
    ///     // The next poll should begin within a millisecond.
    ///     assert!(on.set_deadline(Some(EXECUTOR.timers().now() + Duration::from_millis(1))));
    ///     filch::yield_now().await;
    ///     // The rest has time.
    ///     assert!(on.set_class(Class::Background));
    ///     assert!(!on.should_yield(), "no urgent task waits");
    /// }
    /// let options = TaskOptions::new().class(Class::Urgent);
    /// let mut task = EXECUTOR.spawner().spawn_with(options, &TASKS, control(EXECUTOR.spawner()))?;
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// # task.join()?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn class(self) -> Option<Class> {
        self.executor.class()
    }

    /// Gives the task another class of its own. It goes by it when it is queued next, and so do the tasks that it spawns from now on.
    /// False outside of polls, and without the part [`Classes`](crate::parts::Classes).
    pub fn set_class(self, class: Class) -> bool {
        self.executor.set_class(class)
    }

    /// Sets when the task should be polled next, at the latest; `None`: no deadline. A deadline holds for one poll: the task sets it before
    /// each wait. It counts while the task is urgent, and stays until an urgent poll. A poll that begins later is counted, and reported as
    /// [`Event::LateDeadline`](crate::Event::LateDeadline).
    ///
    /// False outside of polls, without the part [`Classes`](crate::parts::Classes), and for tasks that were not spawned by
    /// [`spawn_with`](Self::spawn_with), which have no room for it.
    pub fn set_deadline(self, at: Option<Instant>) -> bool {
        self.executor.set_deadline(at)
    }

    /// Whether an urgent task waits, and the task is not urgent: it should give way soon. For loops that spend no budget. Cost: a few
    /// loads.
    pub fn should_yield(self) -> bool {
        self.executor.should_yield()
    }
}
