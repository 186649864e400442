//! Configuration of a worker, from a file and from flags. Flags have priority.

use crate::isolation::Isolation;
use crate::isolation::hidden::directory_of;
use crate::isolation::users::{self, JobUser, barrier};
use crate::limits::CONFIG_BYTES_MAX;
use crate::upgrade::Restart;
use crate::workspace::SpaceLimits;
use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::limits::{NAME_BYTES_MAX, SLOTS_MAX, UNITS_MAX};
use buildpool_protocol::spec::{CPUS, MEMORY_MIB, check_name};
use buildpool_protocol::version::VersionRange;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

    /// Checks the values of the fields.
    ///
    /// # Errors
    /// The first invalid field, with its valid values.
    pub fn check(&self) -> Result<(), ConfigError> {
        let invalid = |field, reason: String| Err(ConfigError::Invalid { field, reason });
        if self.coordinator.is_empty() {
            return invalid("coordinator", "is not given; name ws://host:port or wss://host:port".into());
        }
        if self.data_dir.as_os_str().is_empty() {
            return invalid("data_dir", "is not given; name a directory of this worker's own".into());
        }
        if self.slots == 0 || self.slots > SLOTS_MAX {
            return invalid("slots", format!("{} given; valid are 1 to {SLOTS_MAX}", self.slots));
        }
        if let Some(missing) = self.isolation.missing(std::env::var_os("PATH").as_deref()) {
            return invalid("isolation", format!("{} needs {missing}, which is not here", self.isolation));
        }
        self.check_isolation()?;
        check_name("name", &self.name)?;
        for name in self.labels.keys() {
            check_name("label", name)?;
        }
        for name in self.resources.keys() {
            check_name("resource", name)?;
        }
        for name in &self.accepts {
            check_name("accepts", name)?;
        }
        if self.processes_max == Some(0) {
            return invalid(
                "processes_max",
                "0 given; 1 or more is valid, or remove it for the system's limit".into(),
            );
        }
        if self.disk_bytes_max == Some(0) {
            return invalid(
                "disk_bytes_max",
                "0 given; 1 or more is valid, or remove it for a share of the free space".into(),
            );
        }
        for name in self.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                return invalid("env", format!("`{}` is no valid variable name", name.escape_debug()));
            }
        }
        if self.isolation != Isolation::None && self.env.contains_key("HOME") {
            let reason =
                "HOME can't be set with isolation, because each trust class has a home directory; remove it";
            return invalid("env", reason.into());
        }
        Ok(())
    }

    /// Checks if jobs can run as the configured users, and if the isolation is effective.
    fn check_isolation(&self) -> Result<(), ConfigError> {
        let invalid = |field, reason: String| Err(ConfigError::Invalid { field, reason });
        self.covered()?;
        if self.isolation != Isolation::User {
            if self.job_users.is_empty() {
                return Ok(());
            }
            return invalid(
                "job_users",
                "counts with isolation = \"user\" only; set that, or remove it".into(),
            );
        }
        if !nix::unistd::Uid::effective().is_root() {
            return invalid(
                "isolation",
                "`user` needs a worker that runs as root, to become other users".into(),
            );
        }
        let place = std::path::absolute(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone());
        if let Some(barrier) = barrier(&place) {
            let reason = format!(
                "other users can't enter {}, so no job would reach its files; `chmod o+x` it or name another place",
                barrier.display()
            );
            return invalid("data_dir", reason);
        }
        let is_open = |path: &&PathBuf| path.metadata().is_ok_and(|metadata| metadata.mode() & 0o077 != 0);
        if let Some(open) = self.secret_files.iter().chain(&self.hidden).find(is_open) {
            let reason = format!("jobs could read {0}; `chmod go= {0}`", open.display());
            return invalid("hidden", reason);
        }
        let users = self.users()?;
        let writes_own_home = |user: &&JobUser| {
            users::changeable(&user.user.dir, std::slice::from_ref(*user)).is_some() && user.user.dir.is_dir()
        };
        if let Some(user) = users.iter().find(writes_own_home) {
            let reason = format!(
                "`{0}` can write its home directory {1}, where one job could leave programs for the next; \
                 `chown -R root: {1} && chmod -R go-w {1}`: jobs have a home directory for each trust class in the data directory",
                user.name(),
                user.user.dir.display()
            );
            return invalid("job_users", reason);
        }
        // A job that could replace the program would be root at the next start.
        let program = std::env::current_exe().ok();
        let kept = self.secret_files.iter().chain(&self.hidden).chain([&self.data_dir]).chain(&program);
        if let Some((place, name)) = kept.into_iter().find_map(|path| users::changeable(path, &users)) {
            let reason = format!(
                "`{name}` could change {0}, and with it the protection from jobs; `chown root: {0} && chmod go-w {0}`, or name another place",
                place.display()
            );
            return invalid("job_users", reason);
        }
        Ok(())
    }

    /// Returns the paths hidden from isolated jobs, in addition to the data directory.
    ///
    /// # Errors
    /// Fails if a file that may contain the token is in a directory that jobs need.
    pub fn covered(&self) -> Result<Vec<PathBuf>, ConfigError> {
        if !self.isolation.hides_paths() {
            return Ok(Vec::new());
        }
        let mut covered = self.hidden.clone();
        for file in &self.secret_files {
            covered.push(directory_of(file).map_err(|directory| ConfigError::Invalid {
                field: "isolation",
                reason: format!(
                    "{} would hide all of {} from jobs; put it into a directory of its own",
                    file.display(),
                    directory.display()
                ),
            })?);
        }
        Ok(covered)
    }

    /// Returns the users that jobs run as. Empty if they run as the worker's user.
    ///
    /// # Errors
    /// Fails if a user is not suitable.
    pub fn users(&self) -> Result<Vec<JobUser>, ConfigError> {
        if self.isolation != Isolation::User {
            return Ok(Vec::new());
        }
        let invalid = |reason| ConfigError::Invalid { field: "job_users", reason };
        users::find(&self.job_users, self.slots).map_err(invalid)
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
            ("name".to_owned(), self.name.clone()),
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
