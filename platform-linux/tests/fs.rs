//! Files: every function beside that of the standard library, on the pool and in a ring.

mod fs_common;
mod os_common;

use core::{future::Future, pin::pin, time::Duration};
use std::{
    collections::BTreeSet,
    fs as std_fs,
    io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt},
    path::Path,
};

use filch_linux::fs::{self, File, OpenOptions};
use fs_common::both;
use futures::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use os_common::{once, rng, until};

/// The error's number, or its kind where it is not the kernel's.
fn kind<T>(result: io::Result<T>) -> Result<T, (ErrorKind, Option<i32>)> {
    result.map_err(|error| (error.kind(), error.raw_os_error()))
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 / 3) as u8).collect()
}

/// A file of so many bytes.
fn filled(dir: &Path, len: usize) -> (std::path::PathBuf, Vec<u8>) {
    let (path, data) = (dir.join(format!("filled-{len}")), bytes(len));
    std_fs::write(&path, &data).unwrap();
    (path, data)
}

async fn whole_files(dir: &Path) {
    for len in [0, 1, 4_095, 4_096, 4_097, 65_537, 262_144, 1_048_579] {
        let (path, data) = filled(dir, len);
        assert!(fs::read(&path).await.unwrap() == data, "{len}");
        let copy = dir.join("copy");
        fs::write(&copy, data.clone()).await.unwrap();
        assert!(std_fs::read(&copy).unwrap() == data, "{len}");
    }
    // Without a size.
    assert!(!fs::read("/proc/self/maps").await.unwrap().is_empty());
    let text = dir.join("text");
    fs::write(&text, "text").await.unwrap();
    assert_eq!(fs::read_to_string(&text).await.unwrap(), "text");
    fs::write(&text, [0xff]).await.unwrap();
    let theirs = std_fs::read_to_string(&text);
    assert_eq!(kind(fs::read_to_string(&text).await), kind(theirs));
}

async fn options(dir: &Path) {
    for bits in 0..64_u32 {
        for exists in [false, true] {
            let on = |bit: u32| bits >> bit & 1 == 1;
            let prepare = |name: &str| {
                let path = dir.join(name);
                let _ = std_fs::remove_file(&path);
                if exists {
                    std_fs::write(&path, "before").unwrap();
                }
                path
            };
            let (ours, theirs) = (prepare("ours"), prepare("theirs"));
            let mut options = OpenOptions::new();
            options.read(on(0)).write(on(1)).append(on(2)).truncate(on(3)).create(on(4));
            let opened = options.create_new(on(5)).mode(0o640).open(&ours).await;
            let mut options = std_fs::OpenOptions::new();
            options.read(on(0)).write(on(1)).append(on(2)).truncate(on(3)).create(on(4));
            let expected = options.create_new(on(5)).mode(0o640).open(&theirs);
            let what = format!("{bits:06b}, {exists}");
            assert_eq!(
                opened.as_ref().map_err(io::Error::kind).err(),
                expected.as_ref().map_err(io::Error::kind).err(),
                "{what}"
            );
            if let (Ok(opened), Ok(expected)) = (opened, expected) {
                let (read, got) = opened.read_at(vec![0; 3], 1).await;
                let mut buf = vec![0; 3];
                assert_eq!(kind(read), kind(expected.read_at(&mut buf, 1)), "{what}");
                assert_eq!(got, buf, "{what}");
                let (written, _) = opened.write_at(b"xy".to_vec(), 1).await;
                assert_eq!(kind(written), kind(expected.write_at(b"xy", 1)), "{what}");
            }
            assert_eq!(std_fs::read(&ours).ok(), std_fs::read(&theirs).ok(), "{what}");
            let mode = |path| std_fs::metadata(path).ok().map(|found| found.mode());
            assert_eq!(mode(&ours), mode(&theirs), "{what}");
        }
    }
    // A custom flag, and one that it may not change.
    let (link, (path, _)) = (dir.join("link"), filled(dir, 1));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_RDWR)
        .open(&link)
        .await;
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::ELOOP));
    let opened =
        OpenOptions::new().read(true).custom_flags(libc::O_RDWR).open(&path).await.unwrap();
    assert!(opened.write_at(vec![0], 0).await.0.is_err());
}

async fn offsets(dir: &Path) {
    let (path, mut model) = filled(dir, 100_000);
    let file = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
    let mut rng = rng();
    for _ in 0..200 {
        let (at, len) = (rng.usize(..120_000), rng.usize(..20_000));
        if rng.bool() {
            let (n, buf) = file.read_at(vec![0xaa; len], at as u64).await;
            let n = n.unwrap();
            let there = &model[at.min(model.len())..(at + len).min(model.len())];
            assert_eq!((n, buf.len()), (there.len(), len));
            assert!(buf[..n] == *there && buf[n..].iter().all(|byte| *byte == 0xaa));
        } else {
            let data = vec![rng.u8(..); len];
            let address = data.as_ptr();
            let (n, data) = file.write_at(data, at as u64).await;
            assert_eq!(n.unwrap(), len);
            assert_eq!(data.as_ptr(), address, "the buffer comes back");
            if len > 0 {
                model.resize(model.len().max(at + len), 0);
            }
            let end = model.len();
            model[at.min(end)..][..len].copy_from_slice(&data);
        }
    }
    assert!(std_fs::read(&path).unwrap() == model);
    let last = model.len() as u64 - 5;
    assert!(file.read_exact_at(vec![0; 5], last).await.0.is_ok());
    let (error, buf) = file.read_exact_at(vec![0; 6], last).await;
    assert_eq!((error.unwrap_err().kind(), buf.len()), (ErrorKind::UnexpectedEof, 6));
    assert!(file.read_exact_at(Vec::new(), last + 50).await.0.is_ok());
    // Longer than what a worker copies itself.
    let (path, data) = filled(dir, 3_000_000);
    let large = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
    let (read, got) = large.read_exact_at(vec![0; 3_000_000], 0).await;
    read.unwrap();
    assert!(got == data);
    large.write_all_at(vec![9; 2_000_000], 500_000).await.0.unwrap();
    assert!(std_fs::read(&path).unwrap()[500_000..2_500_000].iter().all(|byte| *byte == 9));
    // Negative for the kernel: the file's position is minus one in a ring.
    let theirs = std_fs::File::open(&path).unwrap();
    for at in [u64::MAX, u64::MAX - 1, 1 << 63] {
        let (ours, buf) = large.read_at(vec![0; 4], at).await;
        assert_eq!(kind(ours), kind(theirs.read_at(&mut [0; 4], at)), "{at}");
        assert_eq!(buf.len(), 4);
        assert!(large.write_at(vec![0; 4], at).await.0.is_err(), "{at}");
    }
}

async fn the_rest_of_a_file(dir: &Path) {
    let (path, data) = filled(dir, 10_000);
    let file = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
    file.sync_all().await.unwrap();
    file.sync_data().await.unwrap();
    assert_eq!(file.metadata().await.unwrap().len(), 10_000);
    file.set_len(12_000).await.unwrap();
    assert_eq!(fs::metadata(&path).await.unwrap().len(), 12_000);
    file.set_len(10_000).await.unwrap();
    file.set_permissions(PermissionsExt::from_mode(0o600)).await.unwrap();
    assert_eq!(std_fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    // A pipe has no disk below it.
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let theirs = std_fs::File::from(reader);
    let expected = kind(theirs.sync_all());
    assert!(expected.is_err());
    assert_eq!(kind(File::from_std(theirs).unwrap().sync_all().await), expected);

    // One position for both.
    let mut file = File::open(&path).await.unwrap();
    let mut clone = file.try_clone().await.unwrap();
    let mut buf = [0; 100];
    file.read_exact(&mut buf).await.unwrap();
    assert!(buf == data[..100]);
    clone.read_exact(&mut buf).await.unwrap();
    assert!(buf == data[100..200]);
    let mut std = file.into_std().await.unwrap();
    std.read_exact(&mut buf).unwrap();
    assert!(buf == data[200..300]);
    let mut file = File::from_std(std).unwrap();
    assert_eq!(file.stream_position().await.unwrap(), 300);
    assert!(File::create(dir.join("no/such")).await.is_err());
}

async fn paths(dir: &Path) {
    let at = |name: &str| dir.join(name);
    fs::create_dir(at("a")).await.unwrap();
    fs::create_dir_all(at("b/c/d")).await.unwrap();
    assert!(at("a").is_dir() && at("b/c/d").is_dir());
    fs::write(at("a/file"), "contents").await.unwrap();
    fs::hard_link(at("a/file"), at("hard")).await.unwrap();
    fs::symlink("a/file", at("soft")).await.unwrap();
    assert_eq!(std_fs::metadata(at("hard")).unwrap().nlink(), 2);
    assert_eq!(fs::read_link(at("soft")).await.unwrap(), Path::new("a/file"));
    let ino = |found: std_fs::Metadata| (found.ino(), found.len(), found.mode());
    let (ours, theirs) = (fs::metadata(at("soft")).await.unwrap(), std_fs::metadata(at("soft")));
    assert_eq!(ino(ours), ino(theirs.unwrap()));
    let ours = fs::symlink_metadata(at("soft")).await.unwrap();
    assert_eq!(ino(ours), ino(std_fs::symlink_metadata(at("soft")).unwrap()));
    let real = fs::canonicalize(at("b/../soft")).await.unwrap();
    assert_eq!(real, std_fs::canonicalize(at("a/file")).unwrap());
    fs::set_permissions(at("hard"), PermissionsExt::from_mode(0o604)).await.unwrap();
    assert_eq!(std_fs::metadata(at("a/file")).unwrap().mode() & 0o777, 0o604);
    assert_eq!(fs::copy(at("soft"), at("copy")).await.unwrap(), 8);
    assert_eq!(std_fs::metadata(at("copy")).unwrap().mode() & 0o777, 0o604);
    fs::rename(at("copy"), at("hard")).await.unwrap();
    assert!(
        !fs::try_exists(at("copy")).await.unwrap() && fs::try_exists(at("hard")).await.unwrap()
    );
    fs::remove_file(at("soft")).await.unwrap();
    assert!(at("a/file").exists() && !at("soft").exists());
    fs::remove_dir(at("b/c/d")).await.unwrap();
    fs::remove_dir_all(at("b")).await.unwrap();
    assert!(!at("b").exists());
}

async fn errors(dir: &Path) {
    let (no, file, at) = (dir.join("no"), dir.join("file"), |name: &str| dir.join(name));
    std_fs::write(&file, "x").unwrap();
    std_fs::create_dir_all(at("full/inner")).unwrap();
    macro_rules! same {
        ($($name:ident($($arg:expr),*);)*) => {
            $(
                let theirs = kind(std_fs::$name($($arg),*).map(drop));
                assert!(theirs.is_err(), stringify!($name($($arg),*)));
                assert_eq!(kind(fs::$name($($arg),*).await.map(drop)), theirs, stringify!($name));
            )*
        };
    }
    same! {
        read(&no); read_to_string(&no); metadata(&no); symlink_metadata(&no); canonicalize(&no);
        read_link(&no); remove_file(&no); remove_dir(&no); remove_dir_all(&no); read_dir(&no);
        rename(&no, at("to")); copy(&no, at("to")); hard_link(&no, at("to"));
        set_permissions(&no, PermissionsExt::from_mode(0o600)); write(at("no/such"), "x");
        create_dir(at("no/such"));
        // It is a folder, or none; it is there; it is not empty.
        read(dir); read_to_string(dir); write(dir, "x"); remove_file(dir); read_dir(&file);
        remove_dir(&file); read_link(&file); create_dir(dir); create_dir_all(&file);
        hard_link(&file, &file); remove_dir(at("full")); rename(&file, at("full"));
        metadata(at("file/below"));
    }
    let nul = Path::new("a\0b");
    same! { read(nul); metadata(nul); write(nul, "x"); rename(nul, &no); read_dir(nul); }
    assert_eq!(File::open(nul).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(File::open(&no).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(File::create(dir).await.unwrap_err().kind(), ErrorKind::IsADirectory);
    // A folder can be opened, and not read.
    let mut folder = File::open(dir).await.unwrap();
    let (error, buf) = folder.read_at(vec![1; 9], 0).await;
    assert_eq!((error.unwrap_err().kind(), buf), (ErrorKind::IsADirectory, vec![1; 9]));
    let error = folder.read(&mut [0; 9]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsADirectory);
    // Opened for the other direction.
    let written = File::open(&file).await.unwrap().write_at(vec![1], 0).await;
    assert_eq!(written.0.unwrap_err().raw_os_error(), Some(libc::EBADF));
    // The error of a write is that of the next call, and then it is over.
    let mut full = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
    assert_eq!(full.write(b"xyz").await.unwrap(), 3);
    assert_eq!(full.flush().await.unwrap_err().kind(), ErrorKind::StorageFull);
    full.flush().await.unwrap();
    assert_eq!(full.write(b"xyz").await.unwrap(), 3);
    assert_eq!(full.write(b"xyz").await.unwrap_err().kind(), ErrorKind::StorageFull);
    full.write_all(b"xyz").await.unwrap();
    assert_eq!(full.into_std().await.unwrap_err().kind(), ErrorKind::StorageFull);
}

/// Random steps, each on two files that must stay the same. Each operation may be dropped after a poll, and then asked for again.
async fn at_the_position(dir: &Path) {
    let mut rng = rng();
    let (path, data) = filled(dir, 300_000);
    let theirs = dir.join("theirs");
    std_fs::write(&theirs, &data).unwrap();
    let mut ours = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
    let mut theirs = std_fs::File::options().read(true).write(true).open(&theirs).unwrap();
    for step in 0..300 {
        match rng.u8(..4) {
            0 | 1 => {
                let mut buf = vec![0; rng.usize(..100_000)];
                if rng.bool() {
                    drop(once(pin!(ours.read(&mut buf[..]))).await);
                    // What it has returned, if it was ready, is gone.
                    let at = ours.stream_position().await.unwrap();
                    theirs.seek(SeekFrom::Start(at)).unwrap();
                }
                let shorter = rng.usize(..=buf.len());
                let n = ours.read(&mut buf[..shorter]).await.unwrap();
                let mut expected = vec![0; n];
                theirs.read_exact(&mut expected).unwrap();
                assert!(buf[..n] == expected, "step {step}");
                let at = theirs.stream_position().unwrap();
                assert!(n > 0 || shorter == 0 || at >= theirs.metadata().unwrap().len());
            }
            2 => {
                let data = vec![rng.u8(..); rng.usize(..100_000)];
                ours.write_all(&data).await.unwrap();
                theirs.write_all(&data).unwrap();
                if rng.bool() {
                    ours.flush().await.unwrap();
                }
            }
            _ => {
                let to = match rng.u8(..3) {
                    0 => SeekFrom::Start(rng.u64(..400_000)),
                    1 => SeekFrom::End(-rng.i64(0..300_000)),
                    _ => SeekFrom::Current(rng.i64(-1_000..100_000)),
                };
                if !matches!(to, SeekFrom::Current(_)) && rng.bool() {
                    drop(once(pin!(ours.seek(to))).await);
                }
                let expected = kind(theirs.seek(to));
                assert_eq!(kind(ours.seek(to).await), expected, "step {step}: {to:?}");
            }
        }
        if rng.u8(..8) == 0 {
            let at = ours.stream_position().await.unwrap();
            assert_eq!(at, theirs.stream_position().unwrap(), "step {step}");
        }
    }
    ours.flush().await.unwrap();
    assert!(std_fs::read(&path).unwrap() == std_fs::read(dir.join("theirs")).unwrap());
}

async fn what_a_dropped_file_was_writing_is_written(dir: &Path) {
    for round in 0..20 {
        let path = dir.join(format!("{round}"));
        let mut file = File::create(&path).await.unwrap();
        file.write_all(&bytes(50_000)).await.unwrap();
        drop(file);
        until(|| std_fs::read(&path).unwrap() == bytes(50_000)).await;
    }
}

async fn folders(dir: &Path) {
    for n in [0, 1, 63, 64, 65, 200] {
        let folder = dir.join(format!("{n}"));
        std_fs::create_dir(&folder).unwrap();
        for i in 0..n {
            std_fs::write(folder.join(format!("{i}")), "").unwrap();
        }
        let mut entries = fs::read_dir(&folder).await.unwrap();
        let mut names = BTreeSet::new();
        loop {
            if names.len() % 3 == 0 {
                // One that is dropped loses no entry; one that was ready has returned it.
                if let core::task::Poll::Ready(entry) = once(pin!(entries.next_entry())).await {
                    let Some(entry) = entry.unwrap() else { break };
                    assert!(names.insert(entry.path()));
                }
            }
            let Some(entry) = entries.next_entry().await.unwrap() else { break };
            assert!(entry.file_type().await.unwrap().is_file());
            assert_eq!(entry.metadata().await.unwrap().ino(), entry.ino());
            assert_eq!(folder.join(entry.file_name()), entry.path());
            assert!(names.insert(entry.path()));
        }
        assert!(entries.next_entry().await.unwrap().is_none());
        let theirs = std_fs::read_dir(&folder).unwrap();
        assert_eq!(names, theirs.map(|entry| entry.unwrap().path()).collect());
    }
    let all: Vec<_> = futures::StreamExt::collect(fs::read_dir(dir).await.unwrap()).await;
    assert_eq!(all.iter().filter(|entry| entry.is_ok()).count(), 6);
}

async fn many_at_once(dir: &Path) {
    let (path, data) = filled(dir, 1 << 20);
    let file = std::sync::Arc::new(File::open(&path).await.unwrap());
    let data = std::sync::Arc::new(data);
    // More than a ring takes.
    let tasks: Vec<_> = (0..3_000_usize)
        .map(|i| {
            let (file, data) = (std::sync::Arc::clone(&file), std::sync::Arc::clone(&data));
            filch_linux::spawn(async move {
                let at = i * 347 % 700_000;
                // Some in the kernel's own threads, which are slower than we are.
                let len = if i % 3 == 0 { 300_000 } else { 4_096 };
                let (read, buf) = file.read_exact_at(vec![0; len], at as u64).await;
                read.unwrap();
                assert!(buf == data[at..at + len], "{i}");
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn operations_that_are_dropped_leave_nothing_behind(dir: &Path) {
    let (path, data) = filled(dir, 1 << 20);
    let file = File::open(&path).await.unwrap();
    for _ in 0..100 {
        // It may be under way, in a thread, when it is dropped.
        drop(once(pin!(file.read_at(vec![0; 1 << 20], 0))).await);
        drop(once(pin!(File::open(&path))).await);
        drop(once(pin!(fs::read(&path))).await);
    }
    let open = || {
        let files = std_fs::read_dir("/proc/self/fd").unwrap();
        let links = files.filter_map(|fd| std_fs::read_link(fd.unwrap().path()).ok());
        links.filter(|link| *link == path).count()
    };
    until(|| open() == 1).await;
    assert!(file.read_at(vec![0; 1 << 20], 0).await.1 == data);
}

/// The clock stands, and moves to the next deadline when nothing is to be done: a file that is read is something.
async fn a_stopped_clock_waits_for_files(dir: &Path) {
    let (path, data) = filled(dir, 4 << 20);
    filch_linux::time::pause();
    let file = File::open(&path).await.unwrap();
    for _ in 0..20 {
        let read = file.read_exact_at(vec![0; 4 << 20], 0);
        let read = filch_linux::time::timeout(Duration::from_secs(3_600), read).await;
        assert!(read.expect("no time has passed").1 == data);
    }
}

both! {
    whole_files,
    options,
    offsets,
    the_rest_of_a_file,
    paths,
    errors,
    at_the_position,
    what_a_dropped_file_was_writing_is_written,
    folders,
    many_at_once,
    operations_that_are_dropped_leave_nothing_behind,
    a_stopped_clock_waits_for_files,
}

fn is_refused(future: impl Future<Output = io::Result<()>>) -> bool {
    futures::executor::block_on(future).unwrap_err().to_string().contains("runtime")
}

#[test]
fn outside_a_runtime_there_is_an_error() {
    assert!(is_refused(async { fs::read("/").await.map(drop) }));
    assert!(is_refused(async { File::open("/").await.map(drop) }));
    assert!(is_refused(async { fs::read_dir("/").await.map(drop) }));
    assert!(is_refused(async { fs::rename("/no", "/no").await.map(drop) }));
    assert!(is_refused(async { File::from_std(std_fs::File::open("/").unwrap()).map(drop) }));
    assert!(is_refused(async { fs::way().map(drop) }));
}
