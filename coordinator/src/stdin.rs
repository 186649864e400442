//! Standard input of jobs: one file each, below `stdin` in the data directory. A job may run again, so the file stays until
//! the job is done. The newest files of jobs that are done stay for `retry`, up to [`KEPT_BYTES_MAX`].
//! Several coordinators share [`copies`] of the inputs of live jobs.

mod copies;
mod shares;

pub(crate) use copies::{export_input, import_input, inputs_in};
pub(crate) use shares::Free;

use crate::app_state::AppState;
use crate::store::{Kind, Objects};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::limits::{STDIN_BYTES_MAX, STDIN_WINDOW_BYTES, TEXT_BYTES_MAX};
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::stdin::{StdinEnd, new_part};
use copies::Copies;
use dashmap::DashMap;
use shares::{Share, Shares};
use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

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
}

/// The input of one job. It keeps no file open: one submitter can have more inputs than the process may open files.
pub(crate) struct Input {
    path: PathBuf,
    copies: Option<Copies>,
    state: Mutex<StdinState>,
    reach: watch::Sender<Reach>,
    /// Its part of the space of its submitter, once that is known, until the job is done. Locked for short times only.
    share: Mutex<Option<Share>>,
}

struct StdinState {
    hasher: blake3::Hasher,
    /// An end beyond the bytes that are here.
    announced: Option<StdinEnd>,
    clients: usize,
    /// Counts departures of clients.
    departures: u64,
}

/// How far an input is. All positions are offsets in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// Bytes that are stored.
    pub(crate) stored: u64,
    /// Bytes that some worker had room for.
    pub(crate) wanted: u64,
    /// Its end, on the disk.
    pub(crate) end: Option<StdinEnd>,
    /// The job is done.
    pub(crate) is_over: bool,
}

impl Reach {
    /// Up to where the client may send. One byte beyond the longest input shows that there is more.
    pub(crate) fn until(&self) -> u64 {
        (self.wanted + STDIN_WINDOW_BYTES).min(STDIN_BYTES_MAX + 1)
    }

    /// Whether the client need not send any more.
    pub(crate) fn is_complete(&self) -> bool {
        self.end.is_some() || self.is_over
    }
}

impl Inputs {
    /// `free` returns the free space of the disk.
    pub(crate) fn new(data_dir: &Path, objects: Option<Objects>, patience: Duration, free: Free) -> Self {
        Self {
            directory: data_dir.join(DIRECTORY),
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
            input.reach.send_modify(|reach| reach.is_over = true);
            // Tasks may keep the input for a while.
            input.share().take();
            let end = input.reach.borrow().end.clone()?;
            (end.reason.is_none() && end.seal.length <= KEPT_BYTES_MAX).then_some(end.seal.length)
        });
        let Some(length) = whole else { return self.remove_files(job) };
        self.remove_copies(job);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
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
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.iter().any(|(job, _)| *job == from) {
            return Ok(None);
        }
        let new = to;
        let (from, to) = (self.path(from), self.path(to));
        let end: StdinEnd = serde_json::from_slice(&fs::read(from.with_extension(END))?)?;
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
        let stored = input.reach.borrow().stored;
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
        let path = self.path(job);
        // Freeing a long file takes the disk a while, and the caller decides about all jobs.
        std::thread::spawn(move || {
            remove(&path.with_extension(END));
            remove(&path);
        });
        self.remove_copies(job);
    }

    fn remove_copies(&self, job: JobId) {
        if let Some(objects) = self.objects.clone() {
            std::thread::spawn(move || copies::remove(&objects, &job.to_string()));
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

/// A client that sends an input. While one is there, the input goes on.
pub(crate) struct Presence {
    inputs: Arc<Inputs>,
    input: Arc<Input>,
}

impl Presence {
    pub(crate) fn new(inputs: Arc<Inputs>, input: Arc<Input>) -> Self {
        input.lock().clients += 1;
        Self { inputs, input }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        {
            let mut state = self.input.lock();
            state.clients -= 1;
            state.departures += 1;
        }
        if !self.input.reach.borrow().is_complete() {
            self.inputs.end_without_client(&self.input);
        }
    }
}

impl Input {
    fn open(path: PathBuf, shared: Option<(&Objects, JobId)>) -> io::Result<Self> {
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
            reach: watch::Sender::default(),
            share: Mutex::default(),
        };
        if let Some(end) = restored_end {
            input.reach.send_modify(|reach| (reach.stored, reach.end) = (stored, end));
            return Ok(input);
        }
        let end = match File::open(input.end_path()) {
            Ok(file) => Some(serde_json::from_reader(file.take(1 << 16))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        input.reach.send_modify(|reach| (reach.stored, reach.end) = (stored, end));
        Ok(input)
    }

    fn end_path(&self) -> PathBuf {
        self.path.with_extension(END)
    }

    /// Opens the file. `None` if the job is done, because then the file may be removed.
    fn file(&self) -> io::Result<Option<File>> {
        match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.reach.borrow().is_over => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn share(&self) -> MutexGuard<'_, Option<Share>> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, StdinState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is, and when that changes.
    pub(crate) fn reach(&self) -> watch::Receiver<Reach> {
        self.reach.subscribe()
    }

    /// A worker has room up to a position.
    pub(crate) fn want(&self, until: u64) {
        self.reach.send_if_modified(|reach| {
            let grows = until > reach.wanted;
            reach.wanted = reach.wanted.max(until);
            grows
        });
    }

    /// Appends what is new of some bytes. They count for workers at once, and for the client after [`Input::sync`].
    ///
    /// # Errors
    /// When the disk refuses; nothing is appended then.
    pub(crate) fn append(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let Reach { stored, end: None, .. } = *self.reach.borrow() else { return Ok(()) };
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
        self.reach.send_modify(|reach| reach.stored += grown);
        if fitting.len() < new.len() {
            self.cut(state, &format!("at most {STDIN_BYTES_MAX} bytes are taken"));
            return Ok(());
        }
        self.end_if_whole(state)
    }

    /// Makes what was appended last.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn sync(&self) -> io::Result<u64> {
        let stored = self.reach.borrow().stored;
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
        let Reach { stored, end: None, .. } = *self.reach.borrow() else { return Ok(()) };
        match &state.announced {
            Some(end) if end.seal.length <= stored => self.seal(end.clone()),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends it before its client does.
    fn cut(&self, state: MutexGuard<'_, StdinState>, reason: &str) {
        let reach = self.reach.borrow().clone();
        if reach.is_complete() {
            return;
        }
        let blake3 = state.hasher.finalize().to_hex().to_string();
        let reason = reason[..reason.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        let end = StdinEnd { seal: Seal { length: reach.stored, blake3 }, reason: Some(reason) };
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
        self.reach.send_modify(|reach| reach.end = Some(end));
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

impl AppState {
    /// The input of a job; none for a job that is done.
    ///
    /// # Errors
    /// When the disk refuses its file.
    pub(crate) async fn input(&self, job: JobId) -> io::Result<Option<Arc<Input>>> {
        let input = tokio::task::block_in_place(|| self.inputs.open(job))?;
        // Asked after the file was made: it is removed by the end of the job, or here.
        if let Some(live) = self.runtime.live(job).await {
            self.inputs.belongs_to(&input, &live.record.submitter);
            return Ok(Some(input));
        }
        self.inputs.finish(job);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::{Free, Input, Inputs, Presence, Reach};
    use buildpool_protocol::ids::JobId;
    use buildpool_protocol::outcome::Seal;
    use buildpool_protocol::stdin::StdinEnd;
    use std::sync::Arc;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(3600);

    fn job() -> JobId {
        JobId::from_uuid(uuid::Uuid::from_u128(7))
    }

    /// A disk without an end.
    fn all() -> Free {
        Box::new(|| None)
    }

    /// Descriptors of this process on files below a directory.
    #[cfg(target_os = "linux")]
    fn descriptors(directory: &std::path::Path) -> usize {
        let of = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
        let all = std::fs::read_dir("/proc/self/fd").expect("listed");
        all.filter_map(of).filter(|path| path.starts_with(directory)).count()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "multi_thread")]
    async fn inputs_that_wait_keep_no_file_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let inputs = Arc::new(Inputs::new(directory.path(), None, LONG, all()));
        for number in 0..100 {
            let input = inputs.open(JobId::from_uuid(uuid::Uuid::from_u128(number))).expect("opened");
            input.append(0, b"abc").expect("stored");
            input.sync().expect("synced");
        }
        assert_eq!(descriptors(&directory.path().canonicalize().expect("there")), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_submitter_stores_as_much_as_stays_free_and_its_next_input_ends_with_the_reason() {
        let directory = tempfile::tempdir().expect("a directory");
        let inputs = Arc::new(Inputs::new(directory.path(), None, LONG, Box::new(|| Some(100))));
        let open = |number, submitter| {
            let job = JobId::from_uuid(uuid::Uuid::from_u128(number));
            let input = inputs.open(job).expect("opened");
            inputs.belongs_to(&input, submitter);
            (job, input)
        };
        let ((first, one), (_, two)) = (open(1, "eve"), open(2, "eve"));
        one.append(0, &[0; 40]).expect("stored");
        two.append(0, &[0; 40]).expect("cut");
        let end = end_of(&two).await;
        assert_eq!(end.seal.length, 0);
        assert!(end.reason.is_some_and(|reason| reason.contains("`eve` have 40 bytes")));
        assert!(inputs.has_room("eve", 40).is_err() && inputs.has_room("ada", 40).is_ok());
        let (_, other) = open(3, "ada");
        other.append(0, &[0; 40]).expect("stored");
        assert_eq!(other.reach().borrow().stored, 40);
        drop(one);
        inputs.discard(first);
        assert!(inputs.has_room("eve", 40).is_ok(), "the bytes of a job that is over are given back");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn bytes_for_a_job_that_is_over_are_dropped() {
        let directory = tempfile::tempdir().expect("a directory");
        let inputs = Arc::new(Inputs::new(directory.path(), None, LONG, all()));
        let input = inputs.open(job()).expect("opened");
        std::fs::remove_file(directory.path().join("stdin").join(job().to_string())).expect("removed");
        assert!(input.append(0, b"abc").is_err(), "a live job's file must be there");
        inputs.finish(job());
        input.append(0, b"abc").expect("dropped");
        assert_eq!((input.sync().expect("nothing to do"), input.read(0, 3).expect("over")), (0, None));
    }

    async fn end_of(input: &Input) -> StdinEnd {
        let mut reach = input.reach();
        let ended = reach.wait_for(Reach::is_complete);
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ends");
        ended.expect("it is open").end.clone().expect("an end")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_input_is_the_same_after_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Arc::new(Inputs::new(directory.path(), None, LONG, all()));
        let first = open().open(job()).expect("opened");
        first.append(0, b"abc").expect("stored");
        first.append(2, b"cde").expect("stored");
        first.append(9, b"after a hole").expect("dropped");
        assert_eq!(first.sync().expect("synced"), 5);
        let second = open().open(job()).expect("opened");
        assert_eq!(second.reach().borrow().stored, 5);
        let seal = Seal { length: 7, blake3: blake3::hash(b"abcdefg").to_hex().to_string() };
        let end = StdinEnd { seal, reason: None };
        second.end(end.clone()).expect("noted");
        assert!(second.reach().borrow().end.is_none(), "bytes before the end are missing");
        second.append(5, b"fg").expect("stored");
        let third = open().open(job()).expect("opened");
        assert_eq!(third.reach().borrow().end, Some(end));
        third.append(7, b"after the end").expect("dropped");
        assert_eq!(third.read(0, 7).expect("read").expect("live"), b"abcdefg");
        assert_eq!(third.reach().borrow().stored, 7);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_input_ends_with_a_reason_when_its_client_stays_away() {
        let directory = tempfile::tempdir().expect("a directory");
        let inputs = Arc::new(Inputs::new(directory.path(), None, Duration::from_millis(50), all()));
        let input = inputs.open(job()).expect("opened");
        let first = Presence::new(inputs.clone(), input.clone());
        input.append(0, b"abc").expect("stored");
        let second = Presence::new(inputs.clone(), input.clone());
        drop(first);
        // The second client is there, so the end does not come of the first one's departure.
        let early = tokio::time::timeout(Duration::from_millis(200), end_of(&input)).await;
        assert!(early.is_err(), "{early:?}");
        drop(second);
        let end = end_of(&input).await;
        assert_eq!(end.seal.length, 3);
        assert_eq!(end.seal.blake3, blake3::hash(b"abc").to_hex().as_str());
        assert!(end.reason.is_some_and(|reason| reason.contains("has been away")));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn inputs_of_jobs_that_are_over_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Arc::new(Inputs::new(directory.path(), None, LONG, all()));
        let input = open().open(job()).expect("opened");
        input.append(0, b"abc").expect("stored");
        input.end(StdinEnd { seal: Seal { length: 3, blake3: String::new() }, reason: None }).expect("ended");
        let count = || std::fs::read_dir(directory.path().join("stdin")).expect("listed").count();
        open().remove_stale(|_| true);
        assert_eq!(count(), 2);
        open().remove_stale(|_| false);
        assert_eq!(count(), 0);
    }
}
