//! Bytes by name: in a directory or in a bucket. A name is written once, so a reader never sees a part.

use super::error::ObjectError;
use super::remote::Remote;
use super::upload::Upload;
use super::url::ObjectsUrl;
use crate::store::disk::Disk;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Extension of a file in the directory that is not complete.
const UNFINISHED: &str = "unfinished";

/// An object as a listing shows it.
pub(super) struct Listed {
    pub(super) name: String,
    /// Milliseconds since 1970, by the clock of the store.
    pub(super) changed_ms: i64,
}

/// A place for objects.
#[derive(Debug)]
pub(super) enum Bucket {
    Directory(Directory),
    Remote(Remote),
}

impl Bucket {
    /// Ends each request that waits for an answer, and each later one. A directory answers at once.
    pub(super) fn close(&self) {
        match self {
            Self::Directory(_) => {}
            Self::Remote(remote) => remote.close(),
        }
    }

    pub(super) fn open(
        url: &ObjectsUrl,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ObjectError> {
        match url {
            ObjectsUrl::Directory(root) => {
                crate::store::make_directory(root)?;
                Ok(Self::Directory(Directory { root: root.clone(), disk: Disk::default() }))
            }
            ObjectsUrl::Bucket { .. } => Remote::open(url, environment).map(Self::Remote),
        }
    }

    /// Stores a file. When this returns, the object is durable. Returns its name, which can be that of an earlier call
    /// that was interrupted.
    pub(super) fn put_file(&self, name: String, path: &Path, upload: &Upload) -> Result<String, ObjectError> {
        match self {
            Self::Directory(directory) => {
                let mut file = File::open(path).map_err(ObjectError::file("open", path))?;
                directory.put(&name, &mut file).map(|()| name)
            }
            Self::Remote(remote) => remote.put_file(name, path, upload),
        }
    }

    /// Stores bytes. When this returns, the object is durable.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), ObjectError> {
        match self {
            Self::Directory(directory) => directory.put(name, &mut &*bytes),
            Self::Remote(remote) => remote.put(name, bytes),
        }
    }

    /// Copies the bytes of an object of this length.
    pub(super) fn read(
        &self,
        name: &str,
        length: u64,
        to: &mut (dyn Write + Send),
    ) -> Result<(), ObjectError> {
        match self {
            Self::Directory(directory) => {
                let path = directory.root.join(name);
                let copied = File::open(&path).and_then(|mut file| io::copy(&mut file, to));
                copied.map(drop).map_err(ObjectError::file("read", path))
            }
            Self::Remote(remote) => remote.read(name, length, to),
        }
    }

    /// Removes an object, if it exists.
    pub(super) fn remove(&self, name: &str) -> Result<(), ObjectError> {
        match self {
            Self::Directory(directory) => match fs::remove_file(directory.root.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(ObjectError::file("remove", directory.root.join(name))(error))
                }
                _ => Ok(()),
            },
            Self::Remote(remote) => remote.remove(name),
        }
    }

    /// Passes each object, also one that is not complete, to `each`.
    pub(super) fn list(&self, each: &mut (dyn FnMut(Listed) + Send)) -> Result<(), ObjectError> {
        match self {
            Self::Directory(directory) => directory.list(Path::new(""), each),
            Self::Remote(remote) => remote.list(each),
        }
    }
}

/// A directory that all coordinators share.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    disk: Disk,
}

impl Directory {
    fn put(&self, name: &str, from: &mut dyn io::Read) -> Result<(), ObjectError> {
        let path = self.root.join(name);
        let directory = path.parent().unwrap_or(&self.root).to_owned();
        self.make(&directory)?;
        // The name begins with its start, so that the sweep of a later start removes leftover files.
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let written = directory.join(format!("{file}.{}.{UNFINISHED}", Uuid::now_v7()));
        let copied = self.disk.create(&written).and_then(|mut file| {
            io::copy(from, &mut file)?;
            self.disk.sync(&file, &written)?;
            fs::rename(&written, &path)?;
            self.disk.sync_directory(&directory)
        });
        if copied.is_err() {
            // The sweep removes one that stays.
            fs::remove_file(&written).ok();
        }
        copied.map_err(ObjectError::file("write", path))
    }

    /// Makes a directory and its parents durable. Only their first object waits for that.
    fn make(&self, directory: &Path) -> Result<(), ObjectError> {
        if directory.is_dir() {
            return Ok(());
        }
        crate::store::make_directory(directory)?;
        for above in directory.ancestors().skip(1).take_while(|above| above.starts_with(&self.root)) {
            self.disk.sync_directory(above).map_err(ObjectError::file("sync", above))?;
        }
        Ok(())
    }

    fn list(&self, below: &Path, each: &mut (dyn FnMut(Listed) + Send)) -> Result<(), ObjectError> {
        let directory = self.root.join(below);
        for entry in fs::read_dir(&directory).map_err(ObjectError::file("list", &directory))?.flatten() {
            let name = below.join(entry.file_name());
            // It may be removed meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                self.list(&name, each)?;
            } else if let Some(name) = name.to_str() {
                each(Listed { name: name.to_owned(), changed_ms: metadata.mtime() * 1000 });
            }
        }
        Ok(())
    }
}
