//! Progress of an upload in parts, in a file of the data directory. So an upload goes on after a restart.

use super::error::ObjectError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;

/// Where the progress of an upload is kept, and the bytes that it is about.
pub(super) struct Upload {
    pub(super) path: PathBuf,
    /// Checksum of the whole file.
    pub(super) blake3: String,
    pub(super) bytes: u64,
}

/// Parts that the object store has.
#[derive(Serialize, Deserialize)]
pub(super) struct Progress {
    /// Name of the object.
    pub(super) name: String,
    /// Checksum of the whole file.
    blake3: String,
    bytes: u64,
    /// Id of the upload at the object store.
    pub(super) id: String,
    /// Ids of the parts, from the first on.
    pub(super) parts: Vec<String>,
}

impl Upload {
    /// Returns the progress of an earlier upload of the same bytes.
    pub(super) fn known(&self) -> Option<Progress> {
        let known: Progress = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        Some(known).filter(|known| known.blake3 == self.blake3 && known.bytes == self.bytes)
    }

    pub(super) fn begun(&self, name: String, id: String) -> Progress {
        Progress { name, blake3: self.blake3.clone(), bytes: self.bytes, id, parts: Vec::new() }
    }

    /// Writes the progress. After a loss of power, the file can be damaged: then the upload begins again.
    pub(super) fn note(&self, progress: &Progress) -> Result<(), ObjectError> {
        let written = self.path.with_extension("new");
        let text = serde_json::to_vec(progress).expect("it has string keys only");
        fs::write(&written, text)
            .and_then(|()| fs::rename(&written, &self.path))
            .map_err(ObjectError::file("write", &self.path))
    }

    /// Removes the progress.
    pub(super) fn forget(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "the progress of an upload can't be removed");
        }
    }
}
