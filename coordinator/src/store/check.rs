//! Check of a data directory. It works while a coordinator runs, and changes nothing.

use super::database;
use super::error::StoreError;
use super::logs::{LogCheck, examine};
use super::open::records_path;
use super::reader::{Lookup, Reader};
use super::records::JobRecord;
use buildpool_protocol::error::chain;
use buildpool_protocol::shown::counted;
use buildpool_protocol::{AttemptId, JobId};
use rusqlite::Connection;
use std::collections::HashSet;
use std::error::Error;
use std::fs::TryLockError;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Depth of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Depth {
    /// Checks the databases, the permissions, and that each log exists in its full length.
    Quick,
    /// Also checks every index of the databases, and every byte of each log against its checksum.
    Full,
}

/// Severity of a remark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Weight {
    /// Information only.
    Note,
    /// Should be corrected.
    Warning,
    /// Data is lost, or will be.
    Error,
}

/// A remark of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// Severity.
    pub weight: Weight,
    /// The affected file or directory.
    pub path: PathBuf,
    /// Description of the problem, in one sentence.
    pub text: String,
    /// How to correct it; empty if no action is needed.
    pub remedy: String,
}

/// Checks a data directory. Returns the remarks, errors first. `has_server`: records and tokens are on a PostgreSQL
/// server, so their files may be missing.
pub fn check(directory: &Path, depth: Depth, has_server: bool) -> Vec<Remark> {
    let mut check = Check { directory, depth, has_server, remarks: Vec::new(), whole_logs: (0, 0) };
    if directory.is_dir() {
        check.permissions(directory, 0);
        check.lock();
        check.databases();
        check.certificate();
        check.confirm();
    } else {
        check.add(
            Weight::Error,
            directory,
            "there is no such directory",
            "start a coordinator on it, or name another",
        );
    }
    check.remarks.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.path.cmp(&b.path)));
    check.remarks
}

struct Check<'a> {
    directory: &'a Path,
    depth: Depth,
    has_server: bool,
    remarks: Vec<Remark>,
    /// Number and bytes of the logs that agree with their records.
    whole_logs: (u64, u64),
}

impl Check<'_> {
    fn add(&mut self, weight: Weight, path: &Path, text: impl Into<String>, remedy: impl Into<String>) {
        self.remarks.push(Remark { weight, path: path.to_owned(), text: text.into(), remedy: remedy.into() });
    }

    fn failed(&mut self, path: &Path, error: &dyn Error) {
        self.add(
            Weight::Error,
            path,
            chain(error),
            "stop the coordinator and start it on a copy of the last backup",
        );
    }

    /// Stops at level 2, where the log files are: the directories above them are closed to other
    /// users.
    fn permissions(&mut self, path: &Path, level: u32) {
        let Ok(metadata) = std::fs::symlink_metadata(path) else { return };
        if metadata.permissions().mode() & 0o077 != 0 {
            let mode = if metadata.is_dir() { "700" } else { "600" };
            let remedy = format!("chmod {mode} '{}'", path.display());
            self.add(Weight::Warning, path, "others on this machine may read it", remedy);
        }
        if metadata.is_dir()
            && level < 2
            && let Ok(listing) = std::fs::read_dir(path)
        {
            for entry in listing.flatten() {
                self.permissions(&entry.path(), level + 1);
            }
        }
    }

    fn lock(&mut self) {
        let path = self.directory.join("lock");
        let Ok(file) = std::fs::File::open(&path) else { return };
        if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            let pid = std::fs::read_to_string(&path).unwrap_or_default();
            self.add(Weight::Note, &path, format!("a coordinator runs here (process {})", pid.trim()), "");
        }
    }

    /// Adds a remark about the logs that a full check has read, if it found no damage.
    fn confirm(&mut self) {
        let has_error = self.remarks.iter().any(|remark| remark.weight == Weight::Error);
        if self.depth == Depth::Full && !has_error {
            let (logs, bytes) = self.whole_logs;
            let text = format!(
                "read completely: the databases with their indexes, and {} with {}, which agree with their checksums",
                counted(logs, "log"),
                counted(bytes, "byte")
            );
            self.add(Weight::Note, self.directory, text, "");
        }
    }

    fn databases(&mut self) {
        let records = records_path(self.directory);
        match self.database(&records, &database::RECORDS) {
            Ok(Some(_)) => {
                if let Err(error) = self.logs(&records) {
                    self.failed(&records, &error);
                }
            }
            Ok(None) if self.has_server => {}
            Ok(None) => self.add(Weight::Note, &records, "no coordinator has run here yet", ""),
            Err(error) => self.failed(&records, &error),
        }
        let tokens = self.directory.join(crate::auth::TOKENS_FILE);
        match self.database(&tokens, &database::AUTH) {
            Ok(Some(_)) => {}
            Ok(None) if self.has_server => {}
            Ok(None) => {
                let remedy = "buildpool token create --role admin --name NAME --data-dir DIRECTORY";
                self.add(Weight::Note, &tokens, "there is no token yet", remedy);
            }
            Err(error) => self.failed(&tokens, &error),
        }
        for (name, format) in [
            (crate::webhooks::WEBHOOKS_FILE, &database::WEBHOOKS),
            (crate::test_history::TESTS_FILE, &database::TESTS),
        ] {
            let path = self.directory.join(name);
            if let Err(error) = self.database(&path, format) {
                self.failed(&path, &error);
            }
        }
    }

    fn database(&self, path: &Path, format: &database::Format) -> Result<Option<Connection>, StoreError> {
        if !path.exists() {
            return Ok(None);
        }
        let connection = database::open_reader(path)?;
        let (found, known) = (database::version(&connection)?, format.newest());
        if found > known {
            return Err(StoreError::Newer { path: path.to_owned(), found, known });
        }
        match self.depth {
            Depth::Quick => database::quick_check(&connection, path)?,
            Depth::Full => database::full_check(&connection, path)?,
        }
        Ok(Some(connection))
    }

    /// Checks that each ended job has its logs, and that each log has a job.
    fn logs(&mut self, records: &Path) -> Result<(), StoreError> {
        let reader = Reader::new(database::Database::File(records.to_owned()));
        let root = self.directory.join("logs");
        let known: HashSet<JobId> = reader.all_ids()?.into_iter().collect();
        for job in &known {
            match reader.job(*job) {
                Ok(Lookup::Found(record)) => self.job(&reader, &root, &record)?,
                Ok(Lookup::Evicted | Lookup::Unknown) => {}
                Err(error @ StoreError::Record { .. }) => self.failed(records, &error),
                Err(error) => return Err(error),
            }
        }
        let strays = super::logs::stored_attempts(&root)
            .iter()
            .filter(|attempt| !known.contains(&attempt.job))
            .count();
        if strays > 0 {
            let text = format!(
                "{strays} logs belong to jobs that are not known (any more); retention will remove them"
            );
            self.add(Weight::Note, &root, text, "");
        }
        Ok(())
    }

    fn job(&mut self, reader: &Reader, root: &Path, job: &JobRecord) -> Result<(), StoreError> {
        let Some(done) = &job.done else { return Ok(()) };
        let Some((outcome, number)) = done.outcome.as_ref().zip(done.attempt) else { return Ok(()) };
        let attempt = AttemptId { job: job.job, number };
        if reader.evicted(attempt)?.is_some() {
            return Ok(());
        }
        let inline = reader.inline_log(attempt)?;
        let seals = (self.depth == Depth::Full).then_some(&outcome.seals);
        let text = match examine(root, attempt, inline, outcome.log_length, seals) {
            Ok(LogCheck::Whole) => {
                self.whole_logs.0 += 1;
                self.whole_logs.1 += outcome.log_length;
                return Ok(());
            }
            Ok(LogCheck::Length(length)) => format!(
                "the log of attempt {attempt} has {length} bytes of {}: the rest is lost",
                outcome.log_length
            ),
            Ok(LogCheck::Damaged(stream)) => {
                format!("{stream} of attempt {attempt} does not agree with its checksum")
            }
            Err(error) => {
                self.failed(root, &error);
                return Ok(());
            }
        };
        self.add(Weight::Error, root, text, "restore the log from a backup, or do without it");
        Ok(())
    }

    fn certificate(&mut self) {
        if let Some(Err(error)) = crate::tls::Tls::existing(self.directory) {
            let path = self.directory.join("tls-certificate.pem");
            self.failed(&path, &error);
        }
    }
}
