//! Errors of objects, and their messages.

use crate::store::error::StoreError;
use std::io;
use std::path::PathBuf;

/// Reason why an object could not be stored, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The object store refused, or did not answer in time.
    #[error("the object store can't {doing} `{name}`")]
    Store {
        /// The attempted operation, as in "can't … NAME".
        doing: &'static str,
        /// Name of the object.
        name: String,
        /// Error of the object store.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file could not be used.
    #[error("can't {doing} {}", .path.display())]
    File {
        /// The attempted operation, as in "can't … PATH".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The object has other bytes than those that were stored.
    #[error(
        "object `{name}` is damaged: its bytes do not match its checksum; restore it from a backup of the object store"
    )]
    Damaged {
        /// Name of the object.
        name: String,
    },
    /// The rows of the objects can't be read or written.
    #[error("the list of objects can't be used")]
    Records(#[from] StoreError),
    /// The environment does not describe access to the bucket.
    #[error("the bucket `{url}` can't be used")]
    Access {
        /// The value of `store.objects`.
        url: String,
        /// Error of the provider's settings.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ObjectError {
    pub(super) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }

    pub(super) fn store<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        doing: &'static str,
        name: &str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Store { doing, name: name.to_owned(), source: source.into() }
    }
}

impl From<ObjectError> for io::Error {
    fn from(error: ObjectError) -> Self {
        Self::other(error)
    }
}
