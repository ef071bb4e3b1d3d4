//! Files in the page cache: what it costs to read them without blocking a worker.

mod filch;
mod tokio;

use core::future::Future;
use std::{
    fs,
    io::Result,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    meter::{Figure, passes},
    peers::{FILCH, FILCH_TOKIO},
    workloads::{BARE_THREAD, Gate, Run},
};

/// The numbers are operations in flight.
pub(crate) const NAMES: &[&str] =
    &["file_read_1", "file_read_64", "file_write_1", "file_whole", "file_small"];

/// filch without io_uring.
pub(crate) const POOL: &str = "filch-pool";

/// The file whose parts are read at random.
const LARGE: u64 = 64 << 20;
/// Such a part.
const BLOCK: usize = 4_096;
/// The file that is read as a whole.
const WHOLE: usize = 1 << 20;
/// Files that are opened, read and closed, and the size of each.
const SMALL: (usize, usize) = (64, 1_024);

pub(crate) fn peers(_: &str, workers: usize) -> Vec<&'static str> {
    let mut peers = vec![FILCH, POOL, "tokio"];
    if workers == 1 {
        peers.push(BARE_THREAD);
    }
    peers
}

/// An executor with files, behind one trait, so that all run the same programs.
trait Files: Send + Sync + 'static {
    type File: Send + Sync + 'static;

    /// Runs a task to its end.
    fn submit(&self, task: impl Future<Output = ()> + Send + 'static);
    /// Spawns from inside a task.
    fn spawn(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send;
    fn file(&self, file: fs::File) -> Self::File;
    fn read_at(
        file: &Self::File,
        buf: Vec<u8>,
        at: u64,
    ) -> impl Future<Output = (Result<()>, Vec<u8>)> + Send;
    fn write_at(
        file: &Self::File,
        buf: Vec<u8>,
        at: u64,
    ) -> impl Future<Output = (Result<()>, Vec<u8>)> + Send;
    fn read(path: PathBuf) -> impl Future<Output = Result<Vec<u8>>> + Send;
}

pub(crate) fn run(workload: &str, peer: &str, run: Run) -> Option<Vec<Figure>> {
    let folder = std::env::temp_dir().join(format!("filch-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("there is room");
    let figures = match peer {
        FILCH => Some(measure(workload, run, &folder, filch::Filch::new(run.workers, true))),
        POOL => Some(measure(workload, run, &folder, filch::Filch::new(run.workers, false))),
        "tokio" | FILCH_TOKIO => {
            Some(measure(workload, run, &folder, tokio::Tokio::new(run.workers)))
        }
        BARE_THREAD => bare(workload, run, &folder),
        _ => None,
    };
    fs::remove_dir_all(folder).expect("it is ours");
    figures
}

fn large(folder: &Path) -> fs::File {
    let path = folder.join("large");
    fs::write(&path, vec![7; LARGE as usize]).expect("there is room");
    fs::File::options().read(true).write(true).open(path).expect("it is there")
}

fn whole(folder: &Path) -> PathBuf {
    let path = folder.join("whole");
    fs::write(&path, vec![7; WHOLE]).expect("there is room");
    path
}

fn small(folder: &Path) -> Vec<PathBuf> {
    let paths = (0..SMALL.0).map(|n| folder.join(format!("small-{n}")));
    paths.inspect(|path| fs::write(path, [7; SMALL.1]).expect("there is room")).collect()
}

/// Offsets of blocks, as if at random.
fn offsets(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed * 2 + 1;
    core::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % (LARGE / BLOCK as u64) * BLOCK as u64
    })
}

fn measure<F: Files>(workload: &str, run: Run, folder: &Path, files: F) -> Vec<Figure> {
    match workload {
        "file_whole" => {
            let path = whole(folder);
            each(&files, run, 32, move |_| {
                let path = path.clone();
                async move { assert_eq!(F::read(path).await.expect("it is there").len(), WHOLE) }
            })
        }
        "file_small" => {
            let paths = small(folder);
            each(&files, run, 1_024, move |n| {
                let path = paths[n % paths.len()].clone();
                async move { assert_eq!(F::read(path).await.expect("it is there").len(), SMALL.1) }
            })
        }
        _ => {
            let in_flight = workload.rsplit('_').next().and_then(|n| n.parse().ok()).unwrap_or(1);
            blocks(&files, run, in_flight, workload.starts_with("file_write"), large(folder))
        }
    }
}

/// One after the other, in a task.
fn each<F: Files, T: Future<Output = ()> + Send>(
    files: &F,
    run: Run,
    times: usize,
    one: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Vec<Figure> {
    let one = Arc::new(one);
    passes(run.effort, times, || {
        let (gate, one) = (Gate::new(1), Arc::clone(&one));
        let end = gate.clone();
        files.submit(async move {
            for n in 0..times {
                one(n).await;
            }
            end.done();
        });
        gate.wait();
    })
}

/// Blocks of a large file, by so many tasks.
fn blocks<F: Files>(files: &F, run: Run, tasks: usize, write: bool, file: fs::File) -> Vec<Figure> {
    const TIMES: usize = 2_048;
    let file = Arc::new(files.file(file));
    passes(run.effort, TIMES, || {
        let (gate, file) = (Gate::new(1), Arc::clone(&file));
        let end = gate.clone();
        files.submit(async move {
            let tasks: Vec<_> = (0..tasks as u64)
                .map(|seed| {
                    let file = Arc::clone(&file);
                    F::spawn(async move {
                        let mut buf = vec![7; BLOCK];
                        for at in offsets(seed).take(TIMES / tasks) {
                            let result;
                            (result, buf) = if write {
                                F::write_at(&file, buf, at).await
                            } else {
                                F::read_at(&file, buf, at).await
                            };
                            result.expect("the file is as large as that");
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            end.done();
        });
        gate.wait();
    })
}

/// No executor: the plain calls, one after the other.
fn bare(workload: &str, run: Run, folder: &Path) -> Option<Vec<Figure>> {
    const TIMES: usize = 2_048;
    let (mut buf, file) = (vec![7; BLOCK], large(folder));
    let read = |path: &Path| drop(fs::read(path).expect("it is there"));
    Some(match workload {
        "file_whole" => {
            let path = whole(folder);
            passes(run.effort, 32, || (0..32).for_each(|_| read(&path)))
        }
        "file_small" => {
            let paths = small(folder);
            passes(run.effort, paths.len(), || paths.iter().for_each(|path| read(path)))
        }
        "file_write_1" => passes(run.effort, TIMES, || {
            offsets(0).take(TIMES).for_each(|at| file.write_all_at(&buf, at).expect("it is there"));
        }),
        "file_read_1" => passes(run.effort, TIMES, || {
            let mut read = |at| file.read_exact_at(&mut buf, at).expect("it is there");
            offsets(0).take(TIMES).for_each(&mut read);
        }),
        _ => return None,
    })
}
