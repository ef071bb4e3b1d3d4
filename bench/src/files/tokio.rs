//! Tokio's files. They have no reads with an offset: there, the closure that its users write.

use core::future::Future;
use std::{fs, io::Result, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use tokio::{
    runtime::{Builder, Handle},
    task::spawn_blocking,
};

use super::Files;
use crate::peers::tokio::forever;

pub(super) struct Tokio(Handle);

impl Tokio {
    pub(super) fn new(workers: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
        Self(forever(runtime.expect("the runtime starts")))
    }
}

impl Files for Tokio {
    type File = Arc<fs::File>;

    fn submit(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(task));
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send {
        let task = tokio::spawn(task);
        async move { task.await.expect("it ends by itself") }
    }

    fn file(&self, file: fs::File) -> Self::File {
        Arc::new(file)
    }

    async fn read_at(file: &Self::File, mut buf: Vec<u8>, at: u64) -> (Result<()>, Vec<u8>) {
        let file = Arc::clone(file);
        let read = move || (file.read_exact_at(&mut buf, at), buf);
        spawn_blocking(read).await.expect("it ends by itself")
    }

    async fn write_at(file: &Self::File, buf: Vec<u8>, at: u64) -> (Result<()>, Vec<u8>) {
        let file = Arc::clone(file);
        let write = move || (file.write_all_at(&buf, at), buf);
        spawn_blocking(write).await.expect("it ends by itself")
    }

    async fn read(path: PathBuf) -> Result<Vec<u8>> {
        tokio::fs::read(path).await
    }
}
