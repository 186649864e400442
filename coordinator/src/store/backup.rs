//! Backup of a data directory. A coordinator can start on the copy. The backup works while a
//! coordinator runs.

use super::check::{Depth, Weight, check};
use super::database;
use super::disk::Disk;
use super::error::StoreError;
use super::logs::{self, LogError};
use super::open::{make_directory, records_path};
use super::reader::Reader;
use super::records::JobRecord;
use buildpool_protocol::AttemptId;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Contents of a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackedUp {
    /// Number of jobs.
    pub jobs: u64,
    /// Number of logs in files.
    pub logs: u64,
    /// Number of logs that are copied only as far as they could be read.
    pub incomplete: u64,
}

/// Reason why a backup failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The target directory is not empty.
    #[error("{} is not empty; a backup needs a directory of its own", directory.display())]
    NotEmpty {
        /// The target directory.
        directory: PathBuf,
    },
    /// The source is not a data directory.
    #[error("{} is neither a data directory of a coordinator nor a backup of one", directory.display())]
    NoData {
        /// The source directory.
        directory: PathBuf,
    },
    /// Records can't be read or written.
    #[error("can't copy the records")]
    Store(#[from] StoreError),
    /// A log can't be read or written.
    #[error("can't copy the logs")]
    Log(#[from] LogError),
    /// The copy was made, but the check found an error in it.
    #[error("the copy is not sound: {text}")]
    Unsound {
        /// The first error of the check.
        text: String,
    },
}

/// Copies the data directory `from` into `to`, which must be empty or missing.
///
/// Unfinished jobs are copied without their logs: their workers send them again. To restore, start
/// a coordinator on the copy.
///
/// # Errors
/// [`BackupError`]. Do not use the contents of `to` after an error.
pub fn backup(from: &Path, to: &Path) -> Result<BackedUp, BackupError> {
    refuse_newer(from)?;
    make_directory(to)?;
    let mut listing = std::fs::read_dir(to).map_err(StoreError::file("list", to))?;
    if listing.next().is_some() {
        return Err(BackupError::NotEmpty { directory: to.to_owned() });
    }
    // Copy the records first. A log is complete before its job is recorded as ended, so each
    // recorded log exists.
    copy_database(&records_path(from), &records_path(to))?;
    for name in [crate::auth::TOKENS_FILE, crate::webhooks::WEBHOOKS_FILE, crate::test_history::TESTS_FILE] {
        if from.join(name).exists() {
            copy_database(&from.join(name), &to.join(name))?;
        }
    }
    for name in crate::tls::OWN_FILES {
        copy_file(&from.join(name), &to.join(name))?;
    }
    let done = copy_logs(from, to)?;
    std::fs::File::open(to)
        .and_then(|directory| directory.sync_all())
        .map_err(StoreError::file("sync", to))?;
    match check(to, Depth::Quick, false).into_iter().find(|remark| remark.weight == Weight::Error) {
        Some(remark) if done.incomplete == 0 => Err(BackupError::Unsound { text: remark.text }),
        _ => Ok(done),
    }
}

/// Refuses a directory that a newer version wrote. This version can't check whether its copy is
/// complete.
fn refuse_newer(from: &Path) -> Result<(), StoreError> {
    for (path, format) in [
        (records_path(from), &database::RECORDS),
        (from.join(crate::auth::TOKENS_FILE), &database::AUTH),
        (from.join(crate::webhooks::WEBHOOKS_FILE), &database::WEBHOOKS),
        (from.join(crate::test_history::TESTS_FILE), &database::TESTS),
    ] {
        if path.exists() {
            let found = database::version(&database::open_reader(&path)?)?;
            let known = format.newest();
            if found > known {
                return Err(StoreError::Newer { path, found, known });
            }
        }
    }
    Ok(())
}

fn copy_database(from: &Path, to: &Path) -> Result<(), StoreError> {
    let source = database::open_reader(from)?;
    let mut target = database::open(to, &Disk::default())?;
    let copy = |source: &Connection, target: &mut Connection| -> rusqlite::Result<()> {
        let backup = Backup::new(source, target)?;
        // Copy all pages in one step: this gives one snapshot, and writers do not wait.
        while backup.step(-1)? != StepResult::Done {
            std::thread::yield_now();
        }
        Ok(())
    };
    copy(&source, &mut target).map_err(StoreError::database("copy the database"))
}

fn copy_file(from: &Path, to: &Path) -> Result<(), StoreError> {
    let mut source = match std::fs::File::open(from) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(StoreError::File { doing: "read", path: from.to_owned(), source }),
    };
    let mut copy = || {
        let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
        std::io::copy(&mut source, &mut target)?;
        target.sync_all()
    };
    copy().map_err(StoreError::file("write", to))
}

fn copy_logs(from: &Path, to: &Path) -> Result<BackedUp, BackupError> {
    let reader = Reader::new(database::Database::File(records_path(to)));
    let (from, to) = (from.join("logs"), to.join("logs"));
    make_directory(&to)?;
    let mut done = BackedUp::default();
    let jobs = reader.all_ids()?;
    done.jobs = jobs.len() as u64;
    for job in jobs {
        let super::reader::Lookup::Found(record) = reader.job(job)? else { continue };
        for (attempt, length) in ended(&record) {
            if length == 0 || reader.inline_log(attempt)?.is_some() || reader.evicted(attempt)?.is_some() {
                continue;
            }
            match logs::copy(&from, &to, attempt, length)? {
                0 => {}
                copied => {
                    done.logs += 1;
                    done.incomplete += u64::from(copied < length);
                }
            }
        }
    }
    Ok(done)
}

/// Returns the ended attempts and the lengths of their logs.
fn ended(job: &JobRecord) -> impl Iterator<Item = (AttemptId, u64)> {
    job.attempts.iter().filter_map(|attempt| {
        let end = attempt.ended.as_ref()?;
        Some((AttemptId { job: job.job, number: attempt.number }, end.log_length))
    })
}
