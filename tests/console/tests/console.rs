//! The tasks of a runtime as tokio-console sees them: by console-subscriber, its server and its protocol, all unchanged.

use core::{
    future::{Future, poll_fn},
    task::Poll,
    time::Duration,
};
use std::{collections::HashMap, env, process};

use console_api::{
    field::{Name, Value},
    instrument::{InstrumentRequest, Update, instrument_client::InstrumentClient},
    tasks::{Stats, Task},
};
use console_subscriber::{ConsoleLayer, ServerAddr};
use filch_linux::{Runtime, TaskOptions, task::yield_now};
use filch_test_support::{Flag, watchdog};
use tracing_subscriber::{layer::SubscriberExt, registry::Registry, util::SubscriberInitExt};

/// What a console knows: tasks by their ids, and their last counts.
#[derive(Default)]
struct Console {
    tasks: HashMap<u64, Task>,
    stats: HashMap<u64, Stats>,
}

impl Console {
    fn update(&mut self, update: Update) {
        let Some(update) = update.task_update else { return };
        assert_eq!(update.dropped_events, 0);
        for task in update.new_tasks {
            self.tasks.insert(task.id.expect("a task has an id").id, task);
        }
        self.stats.extend(update.stats_update);
    }

    /// The task whose field has this value, and its counts.
    fn find(&self, field: &str, value: &str) -> Option<(&Task, &Stats)> {
        let (id, task) = self.tasks.iter().find(|(_, task)| field_of(task, field) == value)?;
        Some((task, self.stats.get(id)?))
    }

    fn has_been_polled(&self, name: &str) -> bool {
        let ended = |stats: &Stats| {
            stats.poll_stats.as_ref().is_some_and(|all| all.last_poll_ended.is_some())
        };
        self.find("task.name", name).is_some_and(|(_, stats)| ended(stats))
    }

    fn is_over(&self, field: &str, value: &str) -> bool {
        self.find(field, value).is_some_and(|(_, stats)| stats.dropped_at.is_some())
    }
}

fn field_of(task: &Task, name: &str) -> String {
    let is_it = |field: &&console_api::Field| match &field.name {
        Some(Name::StrName(other)) => other == name,
        _ => false,
    };
    match task.fields.iter().find(is_it).and_then(|field| field.value.as_ref()) {
        Some(Value::DebugVal(value) | Value::StrVal(value)) => value.clone(),
        Some(value) => format!("{value:?}"),
        None => String::new(),
    }
}

/// Polls, clones, drops, wakes, self-wakes.
fn counts(stats: &Stats) -> [u64; 5] {
    let polls = stats.poll_stats.as_ref().map_or(0, |polls| polls.polls);
    [polls, stats.waker_clones, stats.waker_drops, stats.wakes, stats.self_wakes]
}

/// Connects as tokio-console does, and reads until `enough`.
fn watch(address: &str, enough: impl Fn(&Console) -> bool) -> Console {
    let client = async {
        let mut client = loop {
            // The server's thread may not listen yet.
            match InstrumentClient::connect(address.to_owned()).await {
                Ok(client) => break client,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let mut updates = client.watch_updates(InstrumentRequest {}).await.unwrap().into_inner();
        let mut console = Console::default();
        while !enough(&console) {
            console.update(updates.message().await.unwrap().expect("the server goes on"));
        }
        console
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(client)
}

/// Waits for a wake, and has given its waker away.
fn loses_its_waker() -> impl Future<Output = ()> + Send {
    poll_fn(|cx| {
        drop(cx.waker().clone());
        Poll::Pending
    })
}

#[test]
fn a_console_sees_tasks_polls_wakes_and_lost_wakers() {
    let _watchdog = watchdog();
    // No port that another program might take.
    let socket = env::temp_dir().join(format!("filch-console-{}", process::id()));
    let layer = ConsoleLayer::builder()
        .server_addr(ServerAddr::Unix(socket.clone()))
        .publish_interval(Duration::from_millis(20))
        .spawn();
    Registry::default().with(layer).init();

    let runtime: Runtime = filch_linux::Builder::new().workers(2).build().unwrap();
    let handle = *runtime.handle();
    let flag = Flag::new();
    let named = |name| TaskOptions::new().name(name);
    let yields = async {
        for _ in 0..10 {
            yield_now().await;
        }
    };
    let yields = handle.spawn_with(named("yields"), yields).unwrap();
    let line = line!() + 1;
    let waiting = handle.spawn_with(TaskOptions::new().name("waits"), flag.wait()).unwrap();
    let lost = handle.spawn_with(named("loses"), loses_its_waker()).unwrap();
    let sleeps = handle.spawn_with(named("sleeps"), async {
        filch_linux::time::sleep(Duration::from_millis(1)).await
    });
    let computes = handle.spawn_blocking_with(named("computes"), || 7).unwrap();
    runtime.block_on(async {
        yields.await.unwrap();
        sleeps.unwrap().await.unwrap();
        assert_eq!(computes.await.unwrap(), 7);
    });

    let address = format!("unix://{}", socket.display());
    let console = watch(&address, |console| {
        let ended = ["yields", "sleeps", "computes"];
        ended.iter().all(|name| console.is_over("task.name", name))
            && console.is_over("kind", "block_on")
            && ["waits", "loses"].iter().all(|name| console.has_been_polled(name))
    });
    let find = |name| console.find("task.name", name).unwrap();
    assert_eq!(counts(find("yields").1), [11, 0, 0, 10, 10]);
    assert_eq!(counts(find("sleeps").1), [2, 1, 1, 1, 0]);
    // A console warns of the task that has lost its waker: it has none, and waits. The other one has one.
    assert_eq!(counts(find("loses").1), [1, 1, 1, 0, 0]);
    assert_eq!(counts(find("waits").1), [1, 1, 0, 0, 0]);
    let (computes, counted) = find("computes");
    assert_eq!(counts(counted), [1, 0, 0, 0, 0]);
    assert_eq!(field_of(computes, "kind"), "blocking");
    assert!(field_of(computes, "fn").contains("a_console_sees"));
    let (root, counted) = console.find("kind", "block_on").unwrap();
    let [polls, clones, drops, wakes, self_wakes] = counts(counted);
    assert!(polls > 0 && clones == drops && self_wakes == 0 && wakes < polls, "{counted:?}");
    let at = root.location.as_ref().unwrap();
    assert!(at.line() > line && at.file().ends_with("console.rs"), "{at:?}");
    let (waits, _) = find("waits");
    assert_eq!(
        (field_of(waits, "kind"), waits.location.as_ref().unwrap().line()),
        ("task".to_owned(), line)
    );

    // A second look, by a console that connects later.
    flag.set();
    runtime.block_on(waiting).unwrap();
    lost.abort();
    let console = watch(&address, |console| {
        ["waits", "loses"].iter().all(|name| console.is_over("task.name", name))
    });
    let find = |name| console.find("task.name", name).unwrap();
    assert_eq!(counts(find("waits").1), [2, 1, 1, 1, 0]);
    assert_eq!(counts(find("loses").1), [1, 1, 1, 0, 0]);
    let _ = std::fs::remove_file(socket);
}
