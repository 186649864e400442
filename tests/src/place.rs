//! A home of its own for the commands of a test, with a local pool of its own.

use crate::{Finished, binary, wait_until};
use buildpool_gateway::local::{DIRECTORY_VARIABLE, IDLE_VARIABLE, LocalPool, Lock};
use buildpool_objects::removal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A user's home directory, a directory to work in, and a local pool that nobody else knows. It ends with the value.
#[derive(Debug)]
pub struct Place {
    directory: Directory,
    binary: PathBuf,
    /// Set for every command.
    variables: Vec<(String, String)>,
}

/// A temporary directory that is removed however deep it is: hostile jobs leave such trees.
#[derive(Debug)]
struct Directory(TempDir);

impl Drop for Directory {
    fn drop(&mut self) {
        // What can't be removed here, the inner value tries again.
        removal::remove(self.0.path()).ok();
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// An empty one.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("bp").tempdir().unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory: Directory(directory), binary: binary(), variables: Vec::new() }
    }

    /// Sets a variable for every command from here on.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// Runs this binary for every command from here on.
    pub fn use_binary(&mut self, path: &Path) {
        path.clone_into(&mut self.binary);
    }

    /// The user's home.
    pub fn home(&self) -> PathBuf {
        self.directory.0.path().join("home")
    }

    /// Where commands are started.
    pub fn work(&self) -> PathBuf {
        self.directory.0.path().join("work")
    }

    /// Where the local pool lies.
    pub fn local_pool(&self) -> LocalPool {
        LocalPool::at(self.directory.0.path().join("local"), binary())
    }

    /// The process of the local pool, while one is published.
    pub fn local_pool_pid(&self) -> Option<u32> {
        Some(self.local_pool().published().unwrap()?.pid)
    }

    /// A `buildpool` command, ready to be started: of this home, with no word of the outside's pools.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(self.work()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BUILDPOOL_") {
                command.env_remove(name);
            }
        }
        let home = self.home();
        command
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env(DIRECTORY_VARIABLE, self.local_pool().directory())
            .env(IDLE_VARIABLE, "600")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a `buildpool` command to its end.
    pub fn buildpool(&self, arguments: &[&str]) -> Finished {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs a shell text as a job.
    pub fn shell(&self, text: &str) -> Finished {
        self.buildpool(&["run", "--", "sh", "-c", text])
    }

    /// A file in the directory to work in.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.work().join(name)
    }

    /// Ends the jobs that still run, so that nothing of them outlives the test.
    pub(crate) fn cancel_all(&self) {
        let live = || -> Vec<String> {
            let listed = self.buildpool(&["jobs", "--limit", "1000", "--json"]);
            let jobs: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            let jobs = jobs.as_array().cloned().unwrap_or_default();
            let live = jobs.iter().filter(|job| job["state"] != "done");
            live.filter_map(|job| Some(job["job_id"].as_str()?.to_owned())).collect()
        };
        let jobs = live();
        for job in &jobs {
            self.buildpool(&["cancel", job]);
        }
        for job in &jobs {
            self.buildpool(&["job", job, "--wait", "30s"]);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let pool = self.local_pool();
        // The lock is free: no pool runs, whatever a stale file says.
        let has_ended = || !pool.directory().exists() || matches!(Lock::take(&pool), Ok(Some(_)));
        if has_ended() {
            return;
        }
        if let Ok(Some(published)) = pool.published() {
            // By its address, so that no other pool is started for the question.
            self.set("BUILDPOOL_URL", published.url.to_string());
            self.set("BUILDPOOL_TOKEN", published.token.expose());
            self.cancel_all();
        }
        let mut asked = None;
        let mut ended = || {
            let published = pool.published().ok().flatten();
            if let Some(published) = published.filter(|published| asked != Some(published.pid)) {
                asked = Some(published.pid);
                let _ = kill(Pid::from_raw(published.pid.cast_signed()), Signal::SIGTERM);
            }
            has_ended()
        };
        if std::thread::panicking() {
            ended();
        } else {
            wait_until("the local pool ends", ended);
        }
    }
}
