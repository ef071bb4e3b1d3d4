//! What a program begins with: each form of the attributes, and each way to a runtime.

use core::time::Duration;
use std::rc::Rc;

use filch_linux::{
    Builder, LocalRuntime, Runtime,
    runtime::{PausableLocalRuntime, PausableRuntime},
    spawn, spawn_local,
    time::{self, sleep},
};

/// Something of each kind: a task, a timer, a socket.
async fn works() -> std::io::Result<u32> {
    let listener = filch_linux::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let client = spawn(async move { filch_linux::net::TcpStream::connect(addr).await.is_ok() });
    listener.accept().await?;
    assert!(client.await.unwrap());
    sleep(Duration::from_millis(1)).await;
    Ok(7)
}

async fn works_alone() -> std::io::Result<u32> {
    let three = Rc::new(3);
    let local = spawn_local(async move { *three + 4 });
    assert_eq!(local.unwrap().await.unwrap(), 7);
    works().await
}

#[test]
fn every_main_compiles_and_runs() {
    #[filch_linux::main(crate = filch_linux)]
    async fn plain() -> std::io::Result<u32> {
        works().await
    }
    #[filch_linux::main(workers = 2, crate = filch_linux)]
    async fn with_workers() -> std::io::Result<u32> {
        works().await
    }
    #[filch_linux::main(shutdown = Duration::from_secs(1), crate = filch_linux)]
    async fn with_patience() -> std::io::Result<u32> {
        works().await
    }
    #[filch_linux::main(local, crate = filch_linux)]
    async fn local() -> std::io::Result<u32> {
        works_alone().await
    }
    #[filch_linux::main(local, shutdown = Duration::MAX, crate = filch_linux)]
    async fn local_with_patience() -> std::io::Result<u32> {
        works_alone().await
    }
    for main in [plain, with_workers, with_patience, local, local_with_patience] {
        assert_eq!(main().unwrap(), 7);
    }
}

#[filch_linux::test(crate = filch_linux)]
async fn a_test() {
    assert_eq!(works().await.unwrap(), 7);
}

#[filch_linux::test(workers = 2, crate = filch_linux)]
async fn a_test_with_workers() {
    assert_eq!(works().await.unwrap(), 7);
}

#[filch_linux::test(local, crate = filch_linux)]
async fn a_test_of_one_thread() {
    assert_eq!(works_alone().await.unwrap(), 7);
}

#[filch_linux::test(paused, crate = filch_linux)]
async fn a_test_on_a_clock_that_stands() {
    let begin = time::now();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(time::now() - begin, Duration::from_secs(3_600));
}

#[filch_linux::test(local, paused, crate = filch_linux)]
async fn a_test_of_one_thread_on_a_clock_that_stands() {
    let begin = time::now();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(time::now() - begin, Duration::from_secs(3_600));
}

#[test]
fn every_way_leads_to_a_runtime_with_io() {
    let runtimes: [Runtime; 5] = [
        Runtime::new().unwrap(),
        Runtime::builder().workers(1).build().unwrap(),
        Builder::new().workers(1).build().unwrap(),
        Builder::default().workers(1).build().unwrap(),
        LocalRuntime::builder().workers(1).build().unwrap(),
    ];
    for runtime in runtimes {
        assert_eq!(runtime.block_on(works()).unwrap(), 7);
    }
    let locals: [LocalRuntime; 4] = [
        LocalRuntime::new().unwrap(),
        LocalRuntime::builder().build_local().unwrap(),
        Runtime::builder().build_local().unwrap(),
        Builder::new().build_local().unwrap(),
    ];
    for local in locals {
        assert_eq!(local.block_on(works_alone()).unwrap(), 7);
    }
    let hour = async {
        time::pause();
        sleep(Duration::from_secs(3_600)).await;
    };
    let stopped: [PausableRuntime; 2] =
        [PausableRuntime::new().unwrap(), PausableRuntime::builder().build_pausable().unwrap()];
    for runtime in stopped {
        runtime.block_on(works()).unwrap();
    }
    let stopped: [PausableLocalRuntime; 2] = [
        PausableLocalRuntime::new().unwrap(),
        PausableLocalRuntime::builder().build_local_pausable().unwrap(),
    ];
    for runtime in &stopped {
        runtime.block_on(works_alone()).unwrap();
    }
    stopped[0].block_on(hour);
}
