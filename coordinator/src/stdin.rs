//! Standard input of jobs: one file each, below `stdin` in the data directory. A job may run again, so the file stays until
//! the job is done. The newest files of jobs that are done stay for `retry`, up to [`KEPT_BYTES_MAX`].
//! Several coordinators share [`copies`] of the inputs of live jobs.

mod copies;
mod input;
mod removals;
mod shares;

pub(crate) use copies::{export_input, import_input, inputs_in};
pub(crate) use input::{Input, InputProgress, SenderGuard};
pub(crate) use shares::Free;

use crate::app_state::AppState;
use crate::store::{Kind, Objects};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::stdin::StdinEnd;
use copies::Copies;
use dashmap::DashMap;
use removals::{Removal, Removals};
use shares::Shares;
use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Name of the directory.
const DIRECTORY: &str = "stdin";
/// Extension of the file that holds the end of an input.
const END: &str = "end";
/// For this user only.
const PRIVATE: u32 = 0o600;

/// Limit on the inputs of jobs that are done, together, in bytes. Only the newest can be retried.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Limit on their number.
const KEPT_MAX: usize = 1024;

/// All inputs of this coordinator.
pub(crate) struct Inputs {
    directory: PathBuf,
    /// Objects that several coordinators share. If present, the directory is a partial copy of them.
    objects: Option<Objects>,
    /// Held while an input is opened.
    opening: Mutex<()>,
    /// How long an input without its client may still go on.
    patience: Duration,
    open: DashMap<JobId, Arc<Input>>,
    /// Whole inputs of jobs that are done, oldest first, with their lengths.
    kept: Mutex<VecDeque<(JobId, u64)>>,
    shares: Arc<Shares>,
    removals: Removals,
}

impl Inputs {
    /// `free` returns the free space of the disk.
    pub(crate) fn new(data_dir: &Path, objects: Option<Objects>, patience: Duration, free: Free) -> Self {
        Self {
            directory: data_dir.join(DIRECTORY),
            removals: Removals::start(objects.clone()),
            objects,
            opening: Mutex::default(),
            patience,
            open: DashMap::new(),
            kept: Mutex::default(),
            shares: Shares::new(free),
        }
    }

    /// Removes the inputs of jobs that are not live.
    pub(crate) fn remove_stale(&self, is_live: impl Fn(JobId) -> bool) {
        self.remove_stale_copies(&is_live);
        let Ok(listing) = fs::read_dir(&self.directory) else { return };
        for path in listing.filter_map(|entry| Some(entry.ok()?.path())) {
            let job = path.file_stem().and_then(|name| name.to_str()?.parse().ok());
            if !job.is_some_and(&is_live) {
                remove(&path);
            }
        }
    }

    fn remove_stale_copies(&self, is_live: &impl Fn(JobId) -> bool) {
        let Some(objects) = &self.objects else { return };
        match objects.owners(Kind::Stdin) {
            Ok(owners) => {
                let stale = owners.iter().filter(|owner| !owner.name.parse().is_ok_and(is_live));
                stale.for_each(|owner| copies::remove(objects, &owner.name));
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the shared inputs can't be listed");
            }
        }
    }

    /// The input of a live job, as far as it is on the disk. Blocks while a file of an earlier start is read.
    ///
    /// # Errors
    /// When the disk refuses the file.
    pub(crate) fn open(self: &Arc<Self>, job: JobId) -> io::Result<Arc<Input>> {
        if let Some(input) = self.open.get(&job) {
            return Ok(input.clone());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        // Not under the map's lock, because a long file takes a while. A file is restored once.
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(input) = self.open.get(&job) {
            return Ok(input.clone());
        }
        let opened =
            Arc::new(Input::open(self.path(job), self.objects.as_ref().map(|objects| (objects, job)))?);
        let input = self.open.entry(job).or_insert_with(|| opened.clone()).clone();
        if Arc::ptr_eq(&input, &opened) {
            self.end_without_client(&input);
        }
        Ok(input)
    }

    /// Closes the input of a job that is done. A whole input stays for `retry`, while there is room for it.
    pub(crate) fn finish(&self, job: JobId) {
        let input = self.open.remove(&job).map(|(_, input)| input);
        let whole = input.and_then(|input| {
            input.progress.send_modify(|progress| progress.is_over = true);
            // Tasks may keep the input for a while.
            input.share().take();
            let end = input.progress.borrow().end.clone()?;
            (end.reason.is_none() && end.seal.length <= KEPT_BYTES_MAX).then_some(end.seal.length)
        });
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(length) = whole else {
            // The end of the job and a late reader may both finish it. The second of them must not remove the files that the first kept.
            if !kept.iter().any(|(known, _)| *known == job) {
                self.remove_files(job);
            }
            return;
        };
        self.remove_copies(job);
        // A late reader may have opened it again.
        kept.retain(|(known, _)| *known != job);
        kept.push_back((job, length));
        while kept.len() > KEPT_MAX || kept.iter().map(|(_, length)| length).sum::<u64>() > KEPT_BYTES_MAX {
            let Some((oldest, _)) = kept.pop_front() else { break };
            self.remove_files(oldest);
        }
    }

    /// Gives a job the input of an earlier one, which is kept. Returns its seal, or `None` if it is not kept. Blocking.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn copy(&self, from: JobId, to: JobId) -> io::Result<Option<Seal>> {
        // The lock prevents a removal meanwhile.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(position) = kept.iter().position(|(job, _)| *job == from) else { return Ok(None) };
        let new = to;
        let (from, to) = (self.path(from), self.path(to));
        let end = match fs::read(from.with_extension(END)) {
            Ok(end) => end,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                kept.remove(position);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let end: StdinEnd = serde_json::from_slice(&end)?;
        // No one writes to a whole input, so both jobs can have the same file.
        fs::hard_link(&from, &to)
            .and_then(|()| fs::hard_link(from.with_extension(END), to.with_extension(END)))?;
        if let Some(objects) = &self.objects {
            let copies = Copies::new(objects, new);
            copies.extend(&File::open(&to)?, end.seal.length)?;
            copies.end(&end)?;
        }
        Ok(Some(end.seal))
    }

    /// Checks that a submitter may store an input of this length.
    ///
    /// # Errors
    /// The reason, for the submitter.
    pub(crate) fn has_room(&self, submitter: &str, length: u64) -> Result<(), String> {
        self.shares.check(submitter, length)
    }

    /// Counts an input among those of its submitter.
    fn belongs_to(&self, input: &Input, submitter: &str) {
        let stored = input.progress.borrow().stored;
        input.share().get_or_insert_with(|| self.shares.begin(submitter, stored));
    }

    /// Stores the whole input of a job that is not submitted yet. Returns its seal. Blocking.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn store(self: &Arc<Self>, job: JobId, submitter: &str, text: &str) -> io::Result<Seal> {
        let blake3 = blake3::hash(text.as_bytes()).to_hex().to_string();
        let seal = Seal { length: text.len() as u64, blake3 };
        let input = self.open(job)?;
        self.belongs_to(&input, submitter);
        input.append(0, text.as_bytes())?;
        input.end(StdinEnd { seal: seal.clone(), reason: None })?;
        Ok(seal)
    }

    /// Removes the files of a job that does not read its input any more.
    fn remove_files(&self, job: JobId) {
        self.removals.add(Removal::Files(self.path(job)));
        self.remove_copies(job);
    }

    fn remove_copies(&self, job: JobId) {
        if self.objects.is_some() {
            self.removals.add(Removal::Copies(job));
        }
    }

    /// Removes the input that [`Inputs::copy`] or [`Inputs::store`] gave to a job that was not accepted.
    pub(crate) fn discard(&self, job: JobId) {
        if let Some((_, input)) = self.open.remove(&job) {
            input.share().take();
        }
        self.remove_files(job);
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.directory.join(job.to_string())
    }

    /// Ends an input whose client stays away, so that its job does not wait for ever.
    fn end_without_client(self: &Arc<Self>, input: &Arc<Input>) {
        let (input, patience) = (input.clone(), self.patience);
        let departures = input.lock().departures;
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            let state = input.lock();
            if state.clients == 0 && state.departures == departures {
                let reason = format!("its client has been away for {} s", patience.as_secs());
                tokio::task::block_in_place(|| input.cut(state, &reason));
            }
        });
    }
}

/// Removes a file that may not exist.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "the input of a job that is done can't be removed");
    }
}

impl AppState {
    /// Returns the input of a job, or `None` for a job that is done.
    ///
    /// # Errors
    /// When the disk refuses its file.
    pub(crate) async fn input(&self, job: JobId) -> io::Result<Option<Arc<Input>>> {
        let input = tokio::task::block_in_place(|| self.inputs.open(job))?;
        // Checked after the file was created: the end of the job removes it, or this function.
        if let Some(live) = self.runtime.live(job).await {
            self.inputs.belongs_to(&input, &live.record.submitter);
            return Ok(Some(input));
        }
        self.inputs.finish(job);
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
