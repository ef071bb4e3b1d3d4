//! filch's files, on the pool or over io_uring.

use core::future::Future;
use std::{fs, io::Result, path::PathBuf};

use filch_linux::{
    Runtime,
    fs::{File, Way, read, way},
};

use super::Files;

pub(super) struct Filch(Runtime);

impl Filch {
    pub(super) fn new(workers: usize, ring: bool) -> Self {
        let runtime = filch_linux::Builder::new().workers(workers).io_uring(ring).build();
        let runtime = runtime.expect("the runtime starts");
        let used = runtime.block_on(async { way().expect("there is a runtime") });
        assert_eq!(used == Way::Ring, ring, "the kernel has io_uring");
        Self(runtime)
    }
}

impl Files for Filch {
    type File = File;

    fn submit(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task).detach();
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send {
        let task = filch_linux::spawn(task);
        async move { task.await.expect("it ends by itself") }
    }

    fn file(&self, file: fs::File) -> File {
        self.0.block_on(async { File::from_std(file).expect("there is a runtime") })
    }

    async fn read_at(file: &File, buf: Vec<u8>, at: u64) -> (Result<()>, Vec<u8>) {
        file.read_exact_at(buf, at).await
    }

    async fn write_at(file: &File, buf: Vec<u8>, at: u64) -> (Result<()>, Vec<u8>) {
        file.write_all_at(buf, at).await
    }

    async fn read(path: PathBuf) -> Result<Vec<u8>> {
        read(path).await
    }
}
