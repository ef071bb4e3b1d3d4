//! How a file is opened.

use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path};

use filch_std::task::consume_budget;
use rustix::{fs::OFlags, io::Errno};

use super::{
    file::File,
    handle,
    operation::{Open, Operation as _, in_ring, opening},
};

/// How a file is opened: [`std::fs::OpenOptions`], by the same names and with the same meaning.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("filch-doc-options-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("log");
/// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
/// use filch_linux::fs::OpenOptions;
/// let log = OpenOptions::new().append(true).create(true).open(&path).await?;
/// let (written, _) = log.write_all_at(b"a line\n".to_vec(), 0).await;
/// written?;
///
/// # let key = folder.join("key");
/// let mut new = OpenOptions::new();
/// new.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
/// new.open(&key).await?;
/// assert!(new.open(&key).await.is_err(), "it exists");
/// OpenOptions::new().write(true).truncate(true).open(&key).await?;
/// # Ok::<_, std::io::Error>(()) }).unwrap();
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    custom: i32,
    mode: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            pub fn $name(&mut self, on: bool) -> &mut Self {
                self.$name = on;
                self
            }
        )*
    };
}

impl OpenOptions {
    /// All off; the mode of a new file is `0o666`.
    pub const fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            custom: 0,
            mode: 0o666,
        }
    }

    switches! {
        /// For reading.
        read;
        /// For writing.
        write;
        /// For writing at the end, wherever the end is at each write.
        append;
        /// A file that exists is emptied; needs `write`.
        truncate;
        /// A file that does not exist is created; needs `write` or `append`.
        create;
        /// The file must not exist, and is created; `create` and `truncate` then mean nothing.
        create_new;
    }

    /// The permissions of a file that is created, before the process's mask.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Flags of `open(2)` besides those of the other options, such as `O_NOFOLLOW`.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.custom = flags;
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// Those of [`std::fs::OpenOptions::open`]; outside of a runtime of this crate, or if it has ended.
    ///
    /// # Cancel safety
    /// If it is dropped, the file may be created or emptied, or not; it is closed in any case.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        // Options and paths may be wrong.
        consume_budget().await;
        let (handle, path) = (handle()?, path.as_ref());
        let opened = match in_ring(handle, self.operation(path)?).await {
            Ok(opened) => opened,
            Err(open) => opening(handle, [path.to_owned()], move || open.block()).await?,
        };
        Ok(File::new(opened?, handle))
    }

    pub(super) fn operation(&self, path: &Path) -> io::Result<Open> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "a path has no byte that is zero")
        })?;
        Ok(Open { path, flags: self.flags()?, mode: self.mode })
    }

    /// As the standard library has them.
    fn flags(&self) -> io::Result<OFlags> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => OFlags::RDONLY,
            (false, true, false) => OFlags::WRONLY,
            (true, true, false) => OFlags::RDWR,
            (false, _, true) => OFlags::WRONLY | OFlags::APPEND,
            (true, _, true) => OFlags::RDWR | OFlags::APPEND,
            (false, false, false) => return Err(Errno::INVAL.into()),
        };
        let allowed = match (self.write, self.append) {
            (true, false) => true,
            (false, false) => !(self.truncate || self.create || self.create_new),
            (_, true) => !self.truncate || self.create_new,
        };
        if !allowed {
            return Err(Errno::INVAL.into());
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (_, _, true) => OFlags::CREATE | OFlags::EXCL,
            (create, truncate, false) => {
                let create = if create { OFlags::CREATE } else { OFlags::empty() };
                create | if truncate { OFlags::TRUNC } else { OFlags::empty() }
            }
        };
        let custom = OFlags::from_bits_retain(self.custom as u32) - OFlags::RWMODE;
        Ok(OFlags::CLOEXEC | access | creation | custom)
    }
}
