//! Copies of an input in the objects that several coordinators share: its parts, each named by its position, and its end.
//! The next leader goes on with them, so a part is copied before it is acknowledged to the client.

use super::{DIRECTORY, END, PRIVATE};
use crate::store::{Key, Kind, Objects};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::stdin::StdinEnd;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Maximum length of a part, in bytes.
const PART_BYTES_MAX: u64 = 4 << 20;

/// The copies of one input.
pub(super) struct Copies {
    objects: Objects,
    owner: String,
    /// Length that is copied, in bytes.
    copied: Mutex<u64>,
}

impl Copies {
    /// Returns the copies of a new input.
    pub(super) fn new(objects: &Objects, job: JobId) -> Self {
        Self { objects: objects.clone(), owner: job.to_string(), copied: Mutex::default() }
    }

    /// Writes the copied parts to a new file, in place of one that an earlier leadership of this coordinator left.
    /// Returns the copies and the end of the input. Blocks.
    pub(super) fn restore(
        objects: &Objects,
        job: JobId,
        path: &Path,
    ) -> io::Result<(Self, Option<StdinEnd>)> {
        let owner = job.to_string();
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(PRIVATE).open(path)?;
        let (mut copied, mut end) = (0, None);
        for item in objects.items(Kind::Stdin, &owner)? {
            if item.item == END {
                let text = path.with_extension("restored");
                let key = Key { kind: Kind::Stdin, owner: &owner, item: END };
                std::fs::remove_file(&text).or_else(missing)?;
                objects.get_file(key, &text)?;
                end = Some(serde_json::from_slice(&std::fs::read(&text)?)?);
                std::fs::remove_file(&text)?;
            } else if item.item == position(copied) {
                file = objects.read(&item, file)?;
                copied += item.bytes;
            }
        }
        Ok((Self { copied: Mutex::new(copied), ..Self::new(objects, job) }, end))
    }

    /// Copies the bytes of the file up to a length. Blocks.
    pub(super) fn extend(&self, file: &File, length: u64) -> io::Result<()> {
        let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        while *copied < length {
            let part = (length - *copied).min(PART_BYTES_MAX);
            let mut bytes = vec![0; usize::try_from(part).unwrap_or(usize::MAX)];
            file.read_exact_at(&mut bytes, *copied)?;
            self.put(&position(*copied), &bytes)?;
            *copied += part;
        }
        Ok(())
    }

    /// Copies the end. Blocks.
    pub(super) fn end(&self, end: &StdinEnd) -> io::Result<()> {
        self.put(END, &serde_json::to_vec(end)?)
    }

    fn put(&self, item: &str, bytes: &[u8]) -> io::Result<()> {
        Ok(self.objects.put(Key { kind: Kind::Stdin, owner: &self.owner, item }, bytes)?)
    }
}

fn missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Name of the part that begins at a position. Names sort as positions do, and before the end.
fn position(position: u64) -> String {
    format!("{position:020}")
}

/// Removes the copies of a job's input. Blocks.
pub(super) fn remove(objects: &Objects, owner: &str) {
    if let Err(error) = objects.remove(Kind::Stdin, owner, |_| true) {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(
            job = owner,
            error,
            "the shared input of a job that is done can't be removed; the next start tries again"
        );
    }
}

/// Returns the jobs whose inputs are in a data directory.
pub(crate) fn inputs_in(data_directory: &Path) -> Vec<JobId> {
    let listing = std::fs::read_dir(data_directory.join(DIRECTORY)).into_iter().flatten().flatten();
    let mut jobs: Vec<JobId> =
        listing.filter_map(|entry| entry.path().file_stem()?.to_str()?.parse().ok()).collect();
    jobs.sort();
    jobs.dedup();
    jobs
}

/// Copies an input from a data directory that no coordinator uses to shared objects. Blocks.
///
/// # Errors
/// If the disk or the object store fails.
pub(crate) fn export_input(data_directory: &Path, objects: &Objects, job: JobId) -> io::Result<()> {
    let path = data_directory.join(DIRECTORY).join(job.to_string());
    let copies = Copies::new(objects, job);
    let file = File::open(&path)?;
    copies.extend(&file, file.metadata()?.len())?;
    match std::fs::read(path.with_extension(END)) {
        Ok(end) => copies.put(END, &end),
        Err(error) => missing(error),
    }
}

/// Copies an input from shared objects to a data directory that no coordinator uses. Blocks.
///
/// # Errors
/// If the disk or the object store fails.
pub(crate) fn import_input(data_directory: &Path, objects: &Objects, owner: &str) -> io::Result<()> {
    let Ok(job) = owner.parse() else { return Ok(()) };
    let directory = data_directory.join(DIRECTORY);
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(owner);
    let (_, end) = Copies::restore(objects, job, &path)?;
    match end {
        Some(end) => std::fs::write(path.with_extension(END), serde_json::to_vec(&end)?),
        None => Ok(()),
    }
}
