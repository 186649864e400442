//! A home directory for the commands of a test, with its own local pool.

use crate::{Finished, binary, wait_until};
use buildpool_client::local::{DIRECTORY_VARIABLE, IDLE_VARIABLE, LocalPool, Lock};
use buildpool_objects::removal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A user's home directory, a working directory, and a separate local pool. The pool ends on drop.
#[derive(Debug)]
pub struct Place {
    directory: Directory,
    binary: PathBuf,
    /// Variables set for every command.
    variables: Vec<(String, String)>,
}

/// A temporary directory that is removed at any depth: hostile jobs leave such trees.
#[derive(Debug)]
struct Directory(TempDir);

impl Drop for Directory {
    fn drop(&mut self) {
        // The drop of the inner value retries on an error.
        removal::remove(self.0.path()).ok();
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// Creates an empty place.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("bp").tempdir().unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory: Directory(directory), binary: binary(), variables: Vec::new() }
    }

    /// Sets a variable for all later commands.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// Selects the binary for all later commands.
    pub fn use_binary(&mut self, path: &Path) {
        path.clone_into(&mut self.binary);
    }

    /// Returns the user's home.
    pub fn home(&self) -> PathBuf {
        self.directory.0.path().join("home")
    }

    /// Returns the directory where commands are started.
    pub fn work(&self) -> PathBuf {
        self.directory.0.path().join("work")
    }

    /// Returns the location of the local pool.
    pub fn local_pool(&self) -> LocalPool {
        LocalPool::at(self.directory.0.path().join("local"), binary())
    }

    /// Returns the process id of the local pool while it is published.
    pub fn local_pool_pid(&self) -> Option<u32> {
        Some(self.local_pool().published().unwrap()?.pid)
    }

    /// Returns a `buildpool` command ready to start. It uses this home and no variables of other
    /// pools.
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

    /// Runs a shell script as a job.
    pub fn shell(&self, text: &str) -> Finished {
        self.buildpool(&["run", "--", "sh", "-c", text])
    }

    /// Returns a path in the working directory.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.work().join(name)
    }

    /// Cancels the running jobs, so that all their processes end before the test.
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
        // A free lock means that no pool runs, even if a stale file exists.
        let has_ended = || !pool.directory().exists() || matches!(Lock::take(&pool), Ok(Some(_)));
        if has_ended() {
            return;
        }
        if let Ok(Some(published)) = pool.published() {
            // Use its address, so that the command starts no other pool.
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
