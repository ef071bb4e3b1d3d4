//! Files after the end of their runtime. Apart from other tests: a runtime that begins may have the memory of one that has ended, and then it
//! serves what was opened there.

mod fs_common;
mod os_common;

use std::{fs as std_fs, path::Path};

use filch_linux::fs::{self, File};
use filch_test_support::Flag;
use fs_common::{builder, ways};
use futures::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use os_common::{scratch, watchdog};

/// No other test of this file has a runtime meanwhile.
fn alone() -> impl Drop {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn after_the_end_of_the_runtime_nothing_is_accepted() {
    let _alone = alone();
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-order-after");
        let path = scratch.0.join("file");
        let runtime = builder(way).build().unwrap();
        let mut file = runtime.block_on(File::create(&path)).unwrap();
        drop(runtime);
        // Under an executor of another kind.
        futures::executor::block_on(async {
            file.write(b"some bytes").await.unwrap_err();
            // That was the error of this write, and of no other.
            file.flush().await.unwrap();
            file.write(b"some bytes").await.unwrap_err();
        });
        assert_eq!(std_fs::read(&path).unwrap(), b"");
    }
}

/// None waits for what will not come. Under an executor of another kind, in the ended runtime itself, and on a thread of its pool that goes on.
#[test]
fn after_the_end_of_the_runtime_every_call_is_an_error() {
    /// Each operation of what the runtime has opened, and each function.
    async fn all(file: &mut File, entry: &fs::DirEntry, folder: &Path) {
        let file_type = || std_fs::metadata("/").unwrap().permissions();
        let path = folder.join("file");
        let errors = [
            file.read_at(vec![0; 4], 0).await.0.map(drop),
            file.read_at(vec![0; 1 << 20], 0).await.0.map(drop),
            file.read_exact_at(vec![0; 4], 0).await.0,
            file.write_at(vec![0; 4], 0).await.0.map(drop),
            file.write_all_at(vec![0; 4], 0).await.0,
            file.sync_all().await,
            file.sync_data().await,
            file.set_len(0).await,
            file.metadata().await.map(drop),
            file.set_permissions(file_type()).await,
            file.try_clone().await.map(drop),
            file.read(&mut [0]).await.map(drop),
            file.read_to_end(&mut Vec::new()).await.map(drop),
            file.write(b"x").await.map(drop),
            file.write_all(b"x").await,
            file.seek(std::io::SeekFrom::Start(0)).await.map(drop),
            entry.metadata().await.map(drop),
            fs::read(&path).await.map(drop),
            fs::read_to_string(&path).await.map(drop),
            fs::write(&path, "x").await,
            fs::copy(&path, folder.join("other")).await.map(drop),
            fs::rename(&path, folder.join("other")).await,
            fs::hard_link(&path, folder.join("other")).await,
            fs::symlink(&path, folder.join("other")).await,
            fs::metadata(&path).await.map(drop),
            fs::symlink_metadata(&path).await.map(drop),
            fs::canonicalize(&path).await.map(drop),
            fs::read_link(&path).await.map(drop),
            fs::create_dir(folder.join("new")).await,
            fs::create_dir_all(folder.join("new")).await,
            fs::remove_file(&path).await,
            fs::remove_dir(folder).await,
            fs::remove_dir_all(folder).await,
            fs::set_permissions(&path, file_type()).await,
            fs::try_exists(&path).await.map(drop),
            fs::read_dir(folder).await.map(drop),
            File::open(&path).await.map(drop),
            File::create(&path).await.map(drop),
        ];
        for (n, error) in errors.into_iter().enumerate() {
            assert!(error.is_err(), "call {n}");
        }
        // Nothing was written, so there is nothing to wait for.
        file.flush().await.unwrap();
        file.close().await.unwrap();
        assert_eq!(std_fs::read(path).unwrap(), b"bytes");
    }

    let _alone = alone();
    let _watchdog = watchdog();
    for way in ways() {
        let scratch = scratch("fs-order-ended");
        let folder = scratch.0.clone();
        std_fs::write(folder.join("file"), "bytes").unwrap();
        let runtime = builder(way).build().unwrap();
        let (mut file, entry) = runtime.block_on(async {
            let mut options = File::options();
            let file = options.read(true).write(true).open(folder.join("file")).await.unwrap();
            let mut entries = fs::read_dir(&folder).await.unwrap();
            (file, entries.next_entry().await.unwrap().unwrap())
        });
        let handle = *runtime.handle();
        let (begun, go) = (Flag::new(), Flag::new());
        let (begins, gate) = (begun.clone(), go.clone());
        let (send, receive) = std::sync::mpsc::channel();
        let (to, in_pool) = (send.clone(), folder.clone());
        handle
            .spawn_blocking(move || {
                begins.set();
                gate.block();
                let read = filch_linux::block_on(fs::read(in_pool.join("file")));
                to.send(read.is_err()).unwrap();
            })
            .detach();
        begun.block();
        drop(runtime);
        go.set();
        assert_eq!(receive.recv(), Ok(true), "{way:?}");
        futures::executor::block_on(all(&mut file, &entry, &folder));
        handle.block_on(all(&mut file, &entry, &folder));
    }
}
