//! Jobs that record their own actions, and checks of the pool's results against the records.

use crate::process::processes_of;
use crate::{Pool, wait_for, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The job's program, in Python, which tests need anyway.
const SCRIBE: &str = include_str!("scribe.py");

/// A job of a [`Workload`].
#[derive(Clone, Debug)]
pub struct Scribe {
    /// Its id.
    pub id: String,
    /// Directory of its records.
    pub notes: PathBuf,
}

/// Jobs with known output.
#[derive(Debug)]
pub struct Workload {
    directory: PathBuf,
    jobs: Vec<Scribe>,
}

impl Workload {
    /// Creates an empty workload. The records are in the pool's working directory.
    pub fn new(pool: &Pool) -> Self {
        let directory = pool.place().file("scribes");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("scribe.py"), SCRIBE).unwrap();
        Self { directory, jobs: Vec::new() }
    }

    /// Returns the arguments of a job that writes this many bytes over this time, and the directory
    /// of its records.
    pub fn command(&self, seed: u64, bytes: u64, duration: Duration) -> (Vec<String>, PathBuf) {
        let notes = self.directory.join(seed.to_string());
        std::fs::create_dir_all(&notes).unwrap();
        let script = self.directory.join("scribe.py");
        let words = [
            "python3".to_owned(),
            script.to_str().unwrap().to_owned(),
            notes.to_str().unwrap().to_owned(),
            seed.to_string(),
            bytes.to_string(),
            duration.as_secs_f64().to_string(),
        ];
        (words.to_vec(), notes)
    }

    /// Submits a job. Its number is its seed.
    pub fn submit(&mut self, pool: &Pool, bytes: u64, duration: Duration, options: &[&str]) -> Scribe {
        let (command, notes) = self.command(self.jobs.len() as u64, bytes, duration);
        let mut words = vec!["run", "--no-snapshot", "--detach"];
        words.extend(options);
        words.push("--");
        words.extend(command.iter().map(String::as_str));
        let id = pool.buildpool(&words).expect(0).out().trim().to_owned();
        let scribe = Scribe { id, notes };
        self.jobs.push(scribe.clone());
        scribe
    }

    /// Returns all jobs.
    pub fn jobs(&self) -> &[Scribe] {
        &self.jobs
    }

    /// Returns the jobs that run now, according to their records.
    pub fn running(&self) -> Vec<&Scribe> {
        self.jobs.iter().filter(|job| job.has_started() && !job.has_finished()).collect()
    }

    /// Makes later jobs pause half way, so that a test can act before they end on a slow machine.
    pub fn hold(&self) {
        std::fs::write(self.directory.join("hold"), "").unwrap();
    }

    /// Continues jobs that pause half way.
    pub fn release(&self) {
        // The jobs may not be paused.
        let _ = std::fs::remove_file(self.directory.join("hold"));
    }

    /// Continues all jobs and waits until they are done.
    pub fn wait(&self, pool: &Pool) {
        self.release();
        for job in &self.jobs {
            job.wait(pool);
        }
    }

    /// Checks the guarantees for passed jobs: no job is lost or runs twice at once, all bytes are
    /// present, each job has one end, and there are no leftovers.
    pub fn check(&self, pool: &Pool) {
        // A list has at most 1,000 jobs, the newest.
        let newest = &self.jobs[self.jobs.len().saturating_sub(1_000)..];
        let listed = pool.buildpool(&["jobs", "--limit", "1000", "--json"]).expect(0).json();
        let ids: Vec<_> =
            listed.as_array().unwrap().iter().filter_map(|job| job["job_id"].as_str()).collect();
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), distinct.len(), "a job is listed twice");
        for job in newest {
            assert!(distinct.contains(&job.id.as_str()), "job {} is lost", job.id);
        }
        for job in &self.jobs {
            job.check(pool);
        }
    }
}

impl Scribe {
    /// Returns a line for each attempt that started.
    pub fn starts(&self) -> Vec<String> {
        lines(&self.notes.join("started"))
    }

    /// Returns true if it started at least once.
    pub fn has_started(&self) -> bool {
        !self.starts().is_empty()
    }

    /// Returns true if it wrote all its output.
    pub fn has_finished(&self) -> bool {
        self.notes.join("finished").exists()
    }

    /// Waits until it has started.
    pub fn wait_for_start(&self) {
        wait_until("the job starts", || self.has_started());
    }

    /// Waits until it has written this many bytes.
    pub fn wait_for_bytes(&self, bytes: u64) {
        let length = |fd: u8| {
            let path = self.notes.join(format!("{}.{fd}", self.starts().last().map_or("0", String::as_str)));
            std::fs::metadata(path).map_or(0, |metadata| metadata.len())
        };
        wait_until("the job has written", || length(1) + length(2) >= bytes);
    }

    /// Waits until it is done, and returns the job as JSON.
    pub fn wait(&self, pool: &Pool) -> Value {
        wait_for(&format!("job {} is done", self.id), || {
            let asked = pool.buildpool(&["job", &self.id, "--wait", "20s", "--json"]);
            let job: Value = serde_json::from_slice(&asked.stdout).ok()?;
            (job["state"] == "done").then_some(job)
        })
    }

    /// Checks the guarantees for a passed job and returns its result.
    pub fn check(&self, pool: &Pool) -> Value {
        let job = pool.job(&self.id);
        assert_eq!((&job["state"], &job["verdict"]), (&"done".into(), &"passed".into()), "{job:#}");
        assert_eq!(job["exit_code"], 0, "{job:#}");
        assert!(is_empty(&job["gaps"]) && is_empty(&job["survivors"]), "{job:#}");
        assert_eq!(lines(&self.notes.join("overlap")), [] as [String; 0], "ran twice at once: {job:#}");
        let starts = self.starts();
        let distinct: BTreeSet<_> = starts.iter().collect();
        assert_eq!(starts.len(), distinct.len(), "an attempt began twice: {starts:?}");
        let attempt = job["attempt"].to_string();
        assert_eq!(starts.last(), Some(&attempt), "the result is not the last attempt's: {starts:?}");
        assert!(lines(&self.notes.join("finished")).contains(&attempt), "{job:#}");
        let logs = pool.buildpool(&["logs", &self.id]).expect(0);
        for (fd, got) in [(1, &logs.stdout), (2, &logs.stderr)] {
            let truth = std::fs::read(self.notes.join(format!("{attempt}.{fd}"))).unwrap();
            let (kept, written) = (blake3::hash(got), blake3::hash(&truth));
            assert_eq!(
                kept,
                written,
                "job {}, descriptor {fd}: {} of {} bytes",
                self.id,
                got.len(),
                truth.len()
            );
        }
        assert_eq!(processes_of(&self.id), [], "left running by job {}", self.id);
        job
    }
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
