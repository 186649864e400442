//! The input of one job: its bytes in a file, its end in a second file, and the positions that its client and its worker
//! wait for.

use super::copies::Copies;
use super::shares::Share;
use super::{END, Inputs, PRIVATE};
use crate::store::Objects;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::limits::{STDIN_BYTES_MAX, STDIN_WINDOW_BYTES, TEXT_BYTES_MAX};
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::stdin::{StdinEnd, new_part};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The input of one job. It keeps no file open: one submitter can have more inputs than the process may open files.
pub(crate) struct Input {
    path: PathBuf,
    copies: Option<Copies>,
    state: Mutex<StdinState>,
    pub(super) progress: watch::Sender<InputProgress>,
    /// Its part of the space of its submitter, as soon as that is known, until the job is done. Locked for short times only.
    share: Mutex<Option<Share>>,
}

pub(super) struct StdinState {
    hasher: blake3::Hasher,
    /// An end beyond the bytes that are here.
    announced: Option<StdinEnd>,
    pub(super) clients: usize,
    /// Counts departures of clients.
    pub(super) departures: u64,
}

/// Progress of an input. All positions are offsets in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputProgress {
    /// Bytes that are stored.
    pub(crate) stored: u64,
    /// Bytes that some worker had room for.
    pub(crate) wanted: u64,
    /// Its end, on the disk.
    pub(crate) end: Option<StdinEnd>,
    /// The job is done.
    pub(crate) is_over: bool,
}

impl InputProgress {
    /// Returns the position up to which the client may send. One byte beyond the longest input shows that there is more.
    pub(crate) fn until(&self) -> u64 {
        (self.wanted + STDIN_WINDOW_BYTES).min(STDIN_BYTES_MAX + 1)
    }

    /// Returns true if the client does not need to send more.
    pub(crate) fn is_complete(&self) -> bool {
        self.end.is_some() || self.is_over
    }
}

/// Registers a client that sends an input. The input continues while a client is registered.
pub(crate) struct SenderGuard {
    inputs: Arc<Inputs>,
    input: Arc<Input>,
}

impl SenderGuard {
    pub(crate) fn new(inputs: Arc<Inputs>, input: Arc<Input>) -> Self {
        input.lock().clients += 1;
        Self { inputs, input }
    }
}

impl Drop for SenderGuard {
    fn drop(&mut self) {
        {
            let mut state = self.input.lock();
            state.clients -= 1;
            state.departures += 1;
        }
        if !self.input.progress.borrow().is_complete() {
            self.inputs.end_without_client(&self.input);
        }
    }
}

impl Input {
    pub(super) fn open(path: PathBuf, shared: Option<(&Objects, JobId)>) -> io::Result<Self> {
        let restored = shared.map(|(objects, job)| Copies::restore(objects, job, &path)).transpose()?;
        let (copies, restored_end) = restored.map_or((None, None), |(copies, end)| (Some(copies), Some(end)));
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(PRIVATE).open(&path)?;
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut file, &mut hasher)?;
        let stored = hasher.count();
        let state = StdinState { hasher, announced: None, clients: 0, departures: 0 };
        let input = Self {
            path,
            copies,
            state: Mutex::new(state),
            progress: watch::Sender::default(),
            share: Mutex::default(),
        };
        if let Some(end) = restored_end {
            input.progress.send_modify(|progress| (progress.stored, progress.end) = (stored, end));
            return Ok(input);
        }
        let end = match File::open(input.end_path()) {
            Ok(file) => Some(serde_json::from_reader(file.take(1 << 16))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        input.progress.send_modify(|progress| (progress.stored, progress.end) = (stored, end));
        Ok(input)
    }

    fn end_path(&self) -> PathBuf {
        self.path.with_extension(END)
    }

    /// Opens the file. `None` if the job is done, because then the file may be removed.
    fn file(&self) -> io::Result<Option<File>> {
        match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.progress.borrow().is_over => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn share(&self) -> MutexGuard<'_, Option<Share>> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, StdinState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is, and when that changes.
    pub(crate) fn progress(&self) -> watch::Receiver<InputProgress> {
        self.progress.subscribe()
    }

    /// A worker has room up to a position.
    pub(crate) fn want(&self, until: u64) {
        self.progress.send_if_modified(|progress| {
            let grows = until > progress.wanted;
            progress.wanted = progress.wanted.max(until);
            grows
        });
    }

    /// Appends the new part of some bytes. It counts for workers at once, and for the client after [`Input::sync`].
    ///
    /// # Errors
    /// When the disk refuses; nothing is appended then.
    pub(crate) fn append(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let InputProgress { stored, end: None, .. } = *self.progress.borrow() else { return Ok(()) };
        let Some(new) = new_part(bytes, position, stored) else { return Ok(()) };
        let room = usize::try_from(STDIN_BYTES_MAX - stored).unwrap_or(usize::MAX);
        let fitting = &new[..new.len().min(room)];
        let grown = fitting.len() as u64;
        let refused = self.share().as_ref().and_then(|share| share.check(grown).err());
        if let Some(reason) = refused {
            self.cut(state, &reason);
            return Ok(());
        }
        let Some(file) = self.file()? else { return Ok(()) };
        file.write_all_at(fitting, stored)?;
        state.hasher.update(fitting);
        if let Some(share) = self.share().as_mut() {
            share.grow(grown);
        }
        self.progress.send_modify(|progress| progress.stored += grown);
        if fitting.len() < new.len() {
            self.cut(state, &format!("at most {STDIN_BYTES_MAX} bytes are taken"));
            return Ok(());
        }
        self.end_if_whole(state)
    }

    /// Makes the appended bytes durable.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn sync(&self) -> io::Result<u64> {
        let stored = self.progress.borrow().stored;
        if let Some(file) = self.file()? {
            file.sync_data()?;
            if let Some(copies) = &self.copies {
                copies.extend(&file, stored)?;
            }
        }
        Ok(stored)
    }

    /// Takes the end that the client declares, which may come before the last bytes.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn end(&self, end: StdinEnd) -> io::Result<()> {
        let mut state = self.lock();
        state.announced = Some(end);
        self.end_if_whole(state)
    }

    fn end_if_whole(&self, state: MutexGuard<'_, StdinState>) -> io::Result<()> {
        let InputProgress { stored, end: None, .. } = *self.progress.borrow() else { return Ok(()) };
        match &state.announced {
            Some(end) if end.seal.length <= stored => self.seal(end.clone()),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends it before its client does.
    pub(super) fn cut(&self, state: MutexGuard<'_, StdinState>, reason: &str) {
        let progress = self.progress.borrow().clone();
        if progress.is_complete() {
            return;
        }
        let blake3 = state.hasher.finalize().to_hex().to_string();
        let reason = reason[..reason.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        let end = StdinEnd { seal: Seal { length: progress.stored, blake3 }, reason: Some(reason) };
        if let Err(error) = self.seal(end) {
            tracing::error!(path = %self.path.display(), %error, "the end of an input can't be written");
        }
    }

    /// Writes the end down, so that each attempt gets the same bytes.
    fn seal(&self, end: StdinEnd) -> io::Result<()> {
        let Some(file) = self.file()? else { return Ok(()) };
        file.sync_data()?;
        if let Some(copies) = &self.copies {
            copies.extend(&file, end.seal.length)?;
            copies.end(&end)?;
        }
        let path = self.end_path();
        let unfinished = path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(&unfinished)?;
        file.write_all(&serde_json::to_vec(&end)?)?;
        file.sync_data()?;
        fs::rename(&unfinished, &path)?;
        self.progress.send_modify(|progress| progress.end = Some(end));
        Ok(())
    }

    /// Reads stored bytes from a position on. `None` if the job is done.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn read(&self, position: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file()? else { return Ok(None) };
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, position)?;
        Ok(Some(bytes))
    }
}
