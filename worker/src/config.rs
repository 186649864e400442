//! Configuration of a worker, from a file and from flags. Flags have priority.

use crate::isolation::Isolation;
use crate::limits::CONFIG_BYTES_MAX;
use crate::upgrade::Restart;
use crate::workspace::SpaceLimits;
use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::limits::{NAME_BYTES_MAX, UNITS_MAX};
use buildpool_protocol::spec::{CPUS, MEMORY_MIB, NAME_LABEL};
use buildpool_protocol::version::VersionRange;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod check;
mod error;

pub use error::ConfigError;

/// Default limit on the processes of a job for each processor, and its minimum. Threads count too.
const PROCESSES_PER_CPU: u64 = 256;
const PROCESSES_MIN: u64 = 2048;

/// Configuration of a worker.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// URL of the coordinator: `ws://host:port` or `wss://host:port`.
    pub coordinator: String,
    /// Name for users, unique in the pool.
    pub name: String,
    /// Number of concurrent jobs.
    pub slots: u32,
    /// Labels in addition to `os`, `arch` and `name`.
    pub labels: BTreeMap<String, String>,
    /// Labels of tools detected on the machine. Configured labels have priority.
    pub found: BTreeMap<String, String>,
    /// Units of counted resources.
    pub resources: BTreeMap<String, u32>,
    /// Submitters and teams whose jobs it takes; all if empty.
    pub accepts: Vec<String>,
    /// Directory for identity, attempts and workspaces.
    pub data_dir: PathBuf,
    /// Token from the coordinator. May contain the fingerprint of its certificate.
    pub token: Option<String>,
    /// The file that `token` was read from. It is read again before each connection attempt.
    pub token_file: Option<PathBuf>,
    /// PEM file with the authorities that may have signed the coordinator's certificate.
    pub ca_file: Option<PathBuf>,
    /// BLAKE3 of the coordinator's own certificate in hexadecimal, if the token does not contain
    /// it.
    pub fingerprint: Option<String>,
    /// True if `ca_file` or `fingerprint` count before the fingerprint in the token, because the command line names them.
    pub trust_before_token: bool,
    /// True if the user explicitly permits sending the token unencrypted beyond this machine.
    pub insecure_plain_text: bool,
    /// Variables for every job that does not run in place.
    pub env: BTreeMap<String, String>,
    /// Directories of crash files, in addition to the system's own.
    pub crash_directories: Vec<PathBuf>,
    /// Limit on the core file of a job, in bytes. The system's own limit if absent.
    pub core_bytes_max: Option<u64>,
    /// Limit on the processes of a job's user. The system's own limit if absent.
    pub processes_max: Option<u64>,
    /// Limit on the size of the files that a job changes in its workspace, in bytes. If absent, a slot's share of the free
    /// space.
    pub disk_bytes_max: Option<u64>,
    /// Disk space limits of workspaces.
    pub space: SpaceLimits,
    /// Time after which a drain on SIGTERM ends running jobs. Never if absent.
    pub drain_deadline: Option<Duration>,
    /// Isolation of jobs from the worker's files and from each other.
    pub isolation: Isolation,
    /// With [`Isolation::User`], the users that jobs run as: one per slot.
    pub job_users: Vec<String>,
    /// Files that may contain the token: first the token's own file, then the configuration. Their
    /// directories are hidden from isolated jobs.
    pub secret_files: Vec<PathBuf>,
    /// Files and directories hidden from isolated jobs, in addition to the data directory.
    pub hidden: Vec<PathBuf>,
    /// The hidden directories of the worker's user that another process may recreate while the
    /// worker runs. The worker creates missing ones.
    pub renewed: Vec<PathBuf>,
    /// True if the coordinator may replace the program of the worker.
    pub upgrades: bool,
    /// How this process was started. `None` if it can't be started again by itself.
    pub restart: Option<Restart>,
    /// The order, in the trial of a new program.
    pub trial: Option<UpgradeId>,
    /// Command that starts a keeper: a program and its first arguments.
    pub keeper_command: Vec<OsString>,
    /// Supported protocol versions. Another range than this build's is for tests of mixed versions.
    pub protocol: VersionRange,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("coordinator", &self.coordinator)
            .field("name", &self.name)
            .field("slots", &self.slots)
            .field("labels", &self.labels)
            .field("resources", &self.resources)
            .field("data_dir", &self.data_dir)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

/// The content of the configuration file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    coordinator: String,
    name: Option<String>,
    slots: u32,
    labels: BTreeMap<String, String>,
    resources: BTreeMap<String, u32>,
    accepts: Vec<String>,
    data_dir: Option<PathBuf>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    fingerprint: Option<String>,
    insecure_plain_text: bool,
    env: BTreeMap<String, String>,
    crash_directories: Vec<PathBuf>,
    core_bytes_max: Option<u64>,
    processes_max: Option<u64>,
    disk_bytes_max: Option<u64>,
    keep_free_bytes: Option<u64>,
    workspaces_bytes_max: Option<u64>,
    drain_deadline_secs: Option<u64>,
    isolation: Isolation,
    job_users: Vec<String>,
    hidden: Vec<PathBuf>,
    upgrades: bool,
}

impl Default for File {
    fn default() -> Self {
        Self {
            coordinator: String::new(),
            name: None,
            slots: 1,
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
            accepts: Vec::new(),
            data_dir: None,
            token: None,
            token_file: None,
            ca_file: None,
            fingerprint: None,
            insecure_plain_text: false,
            env: BTreeMap::new(),
            crash_directories: Vec::new(),
            core_bytes_max: None,
            processes_max: None,
            disk_bytes_max: None,
            keep_free_bytes: None,
            workspaces_bytes_max: None,
            drain_deadline_secs: None,
            isolation: Isolation::default(),
            job_users: Vec::new(),
            hidden: Vec::new(),
            upgrades: false,
        }
    }
}

impl Config {
    /// Creates the configuration of a worker with one slot and defaults, named after its machine.
    pub fn new(coordinator: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            coordinator: coordinator.into(),
            name: host_name(),
            slots: 1,
            labels: BTreeMap::new(),
            found: BTreeMap::new(),
            resources: BTreeMap::new(),
            accepts: Vec::new(),
            data_dir: data_dir.into(),
            token: None,
            token_file: None,
            ca_file: None,
            fingerprint: None,
            trust_before_token: false,
            insecure_plain_text: false,
            env: BTreeMap::new(),
            crash_directories: Vec::new(),
            core_bytes_max: None,
            processes_max: None,
            disk_bytes_max: None,
            space: SpaceLimits::default(),
            drain_deadline: None,
            isolation: Isolation::default(),
            job_users: Vec::new(),
            secret_files: Vec::new(),
            hidden: Vec::new(),
            renewed: Vec::new(),
            upgrades: false,
            restart: None,
            trial: None,
            keeper_command: Vec::new(),
            protocol: VersionRange::ours(),
        }
    }

    /// Reads a configuration file. Missing fields have the defaults of [`Config::new`].
    /// `coordinator` and `data_dir` may be missing if flags provide them. Paths are relative to the
    /// directory of the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or parsed, the token file cannot be read, or a hidden path
    /// does not exist.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        let length = fs::metadata(path).map_err(unreadable)?.len();
        if length > CONFIG_BYTES_MAX {
            return Err(ConfigError::TooLarge { path: path.to_owned(), length });
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        // Isolation hides the files themselves, so resolve symbolic links.
        let place = path.canonicalize().map_err(unreadable)?;
        let directory = place.parent().unwrap_or(Path::new("/"));
        let mut config = Self::from_toml(&text, directory).map_err(|error| match error {
            ConfigError::Malformed { reason, .. } => {
                ConfigError::Malformed { path: Some(path.to_owned()), reason }
            }
            other => other,
        })?;
        config.secret_files.push(place);
        Ok(config)
    }

    /// Parses a configuration with paths relative to this directory.
    ///
    /// # Errors
    /// Fails if the text does not parse, the token file cannot be read, or a hidden path does not
    /// exist.
    pub fn from_toml(text: &str, directory: &Path) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text)
            .map_err(|error| ConfigError::Malformed { path: None, reason: error.to_string() })?;
        let token_file = file.token_file.map(|path| directory.join(path));
        let (mut hidden, mut secret_files) = (Vec::new(), Vec::new());
        for path in file.hidden {
            hidden.push(resolved(&directory.join(path))?);
        }
        let token = match (file.token, token_file.clone()) {
            (Some(_), Some(_)) => {
                return Err(ConfigError::Malformed {
                    path: None,
                    reason: "`token` and `token_file` are both given; one is valid".to_owned(),
                });
            }
            (Some(token), None) => Some(token),
            (None, Some(path)) => {
                let place = path.canonicalize();
                let unreadable = |source| ConfigError::Unreadable { path: path.clone(), source };
                secret_files.push(place.map_err(unreadable)?);
                let token =
                    fs::read_to_string(&path).map_err(|source| ConfigError::Unreadable { path, source })?;
                Some(token.trim().to_owned())
            }
            (None, None) => None,
        };
        Ok(Self {
            name: file.name.unwrap_or_else(host_name),
            slots: file.slots,
            labels: file.labels,
            resources: file.resources,
            accepts: file.accepts,
            token,
            token_file,
            ca_file: file.ca_file.map(|path| directory.join(path)),
            fingerprint: file.fingerprint,
            trust_before_token: false,
            insecure_plain_text: file.insecure_plain_text,
            env: file.env,
            crash_directories: file.crash_directories.iter().map(|path| directory.join(path)).collect(),
            core_bytes_max: file.core_bytes_max,
            processes_max: file.processes_max,
            disk_bytes_max: file.disk_bytes_max,
            space: SpaceLimits {
                bytes_max: file.workspaces_bytes_max,
                free_min_bytes: file.keep_free_bytes,
                ..SpaceLimits::default()
            },
            drain_deadline: file.drain_deadline_secs.map(Duration::from_secs),
            isolation: file.isolation,
            job_users: file.job_users,
            secret_files,
            hidden,
            upgrades: file.upgrades,
            ..Self::new(file.coordinator, file.data_dir.map(|path| directory.join(path)).unwrap_or_default())
        })
    }

    /// Returns all resources: the processors and the memory of the machine, and the configured ones,
    /// which have priority.
    pub fn all_resources(&self) -> BTreeMap<String, u32> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        let memory = crate::platform::memory_bytes().map(|bytes| bytes >> 20);
        let units = |units: u64| u32::try_from(units).unwrap_or(u32::MAX).min(UNITS_MAX);
        let mut resources = BTreeMap::from([(CPUS.to_owned(), units(cpus))]);
        resources.extend(memory.map(|mib| (MEMORY_MIB.to_owned(), units(mib))));
        resources.extend(self.resources.iter().map(|(name, units)| (name.clone(), *units)));
        resources
    }

    /// Returns the limit on the processes of a job's user. The default applies only if each job has
    /// a user of its own: other processes of the user count too.
    pub fn processes_of_job(&self) -> Option<u64> {
        let has_user = self.isolation == Isolation::User;
        if has_user { Some(self.processes_of_group()) } else { self.processes_max }
    }

    /// Returns the limit on the processes of a job in a control group of its own.
    pub fn processes_of_group(&self) -> u64 {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        self.processes_max.unwrap_or((PROCESSES_PER_CPU * cpus).max(PROCESSES_MIN))
    }

    /// Returns all labels: detected ones, overridden by configured ones.
    pub fn all_labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            ("os".to_owned(), crate::platform::os().to_owned()),
            ("arch".to_owned(), crate::platform::arch().to_owned()),
            (NAME_LABEL.to_owned(), self.name.clone()),
        ]);
        if self.isolation != Isolation::None {
            labels.insert("isolation".to_owned(), self.isolation.name().to_owned());
        }
        labels.extend(self.found.clone());
        labels.extend(self.labels.iter().map(|(name, value)| (name.clone(), value.clone())));
        labels
    }
}

/// Returns the path without symbolic links. A path that does not exist cannot be hidden.
fn resolved(path: &Path) -> Result<PathBuf, ConfigError> {
    path.canonicalize().map_err(|source| ConfigError::Unresolvable { path: path.to_owned(), source })
}

/// Returns the machine's name up to its first dot, with invalid characters replaced.
fn host_name() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let name: String = name
        .split('.')
        .next()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' })
        .take(NAME_BYTES_MAX / 4)
        .collect();
    if name.is_empty() { "worker".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
