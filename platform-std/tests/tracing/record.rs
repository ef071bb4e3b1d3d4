//! A subscriber that keeps what it is told of tasks, and takes a wake inside of the task's span for a self-wake, as consoles do.

use core::{cell::RefCell, fmt};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry::{LookupSpan, Registry},
};

/// What was told of one span.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) fields: HashMap<&'static str, String>,
    pub(crate) has_parent: bool,
    /// How often it was entered, and left.
    pub(crate) polls: usize,
    pub(crate) exits: usize,
    pub(crate) closed: bool,
    pub(crate) clones: usize,
    pub(crate) drops: usize,
    pub(crate) wakes: usize,
    pub(crate) wakes_by_ref: usize,
    /// Of both kinds of wakes.
    pub(crate) self_wakes: usize,
}

impl Task {
    pub(crate) fn field(&self, name: &str) -> &str {
        &self.fields[name]
    }

    /// File, line and column.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}:{}", self.field("loc.file"), self.field("loc.line"), self.field("loc.col"))
    }

    /// Clones, drops, wakes by value, by reference, and of these two, self-wakes.
    pub(crate) fn wakers(&self) -> [usize; 5] {
        [self.clones, self.drops, self.wakes, self.wakes_by_ref, self.self_wakes]
    }
}

/// By the id of the span, those that are closed too.
static TASKS: Mutex<Vec<(Id, Task)>> = Mutex::new(Vec::new());

fn tasks() -> MutexGuard<'static, Vec<(Id, Task)>> {
    TASKS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

struct Recorder;

/// From now on, for the whole program.
pub(crate) fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Registry::default().with(Recorder)).unwrap();
    });
}

/// The one task of that name.
pub(crate) fn named(name: &str) -> Task {
    find(|task| task.field("task.name") == name)
}

/// The one task that was spawned there.
pub(crate) fn spawned_at(line: u32) -> Task {
    let at = format!("{}:{line}:", file!().replace("record.rs", "main.rs"));
    find(|task| task.place().starts_with(&at))
}

fn find(is_it: impl Fn(&Task) -> bool) -> Task {
    let tasks = tasks();
    let mut found = tasks.iter().filter(|(_, task)| is_it(task));
    let (_, task) = found.next().expect("there is such a task");
    assert!(found.next().is_none(), "there is one");
    task.clone()
}

fn change(id: &Id, f: impl FnOnce(&mut Task)) {
    let mut tasks = tasks();
    // The last one: an id may be used again.
    if let Some((_, task)) = tasks.iter_mut().rev().find(|(other, _)| other == id) {
        f(task);
    }
}

#[derive(Default)]
struct Fields(HashMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        if attributes.metadata().name() == "runtime.spawn" {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            let has_parent = cx.span(id).unwrap().parent().is_some();
            tasks().push((id.clone(), Task { fields: fields.0, has_parent, ..Task::default() }));
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.clone()));
        change(id, |task| task.polls += 1);
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        assert_eq!(ENTERED.with_borrow_mut(Vec::pop), Some(id.clone()), "spans nest");
        change(id, |task| task.exits += 1);
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        if event.metadata().target() != "tokio::task::waker" {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let id = Id::from_u64(fields.0["task.id"].parse().unwrap());
        if cx.span(&id).is_none() {
            return;
        }
        let is_own = ENTERED.with_borrow(|entered| entered.contains(&id));
        change(&id, |task| {
            let count = match &*fields.0["op"] {
                "waker.clone" => &mut task.clones,
                "waker.drop" => &mut task.drops,
                "waker.wake" => &mut task.wakes,
                "waker.wake_by_ref" => &mut task.wakes_by_ref,
                other => panic!("{other}"),
            };
            *count += 1;
            task.self_wakes += usize::from(is_own && fields.0["op"].starts_with("waker.wake"));
        });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        change(&id, |task| task.closed = true);
    }
}
