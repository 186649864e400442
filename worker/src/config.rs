//! What a worker is told: by a file, by flags over it.

use crate::isolation::Isolation;
use crate::isolation::hidden::directory_of;
use crate::isolation::users::{self, JobUser, barrier};
use crate::limits::CONFIG_BYTES_MAX;
use crate::workspace::SpaceLimits;
use buildpool_protocol::limits::{NAME_BYTES_MAX, SLOTS_MAX};
use buildpool_protocol::spec::check_name;
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

/// Everything that a worker is told.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// `ws://host:port` or `wss://host:port`.
    pub coordinator: String,
    /// For people; unique in the pool.
    pub name: String,
    /// Jobs at a time.
    pub slots: u32,
    /// Labels beside `os`, `arch` and `name`.
    pub labels: BTreeMap<String, String>,
    /// Labels of tools that were found on the machine; configured ones go before them.
    pub found: BTreeMap<String, String>,
    /// Counted resources.
    pub resources: BTreeMap<String, u32>,
    /// Identity, attempts and workspaces live here.
    pub data_dir: PathBuf,
    /// As the coordinator gave it; may carry the fingerprint of its certificate.
    pub token: Option<String>,
    /// The file that `token` was read from. It is read again before each connection attempt.
    pub token_file: Option<PathBuf>,
    /// Certificates that the coordinator's may be signed by, in PEM.
    pub ca_file: Option<PathBuf>,
    /// BLAKE3 of the coordinator's own certificate in hexadecimal, where the token does not carry it.
    pub fingerprint: Option<String>,
    /// Whether the token may travel unencrypted beyond this machine: said in as many words.
    pub insecure_plain_text: bool,
    /// Variables of every job that does not run in place.
    pub env: BTreeMap<String, String>,
    /// Where crash files are looked for, besides the system's own places.
    pub crash_directories: Vec<PathBuf>,
    /// Largest core file of a job, in bytes; the system's own setting if absent.
    pub core_bytes_max: Option<u64>,
    /// How much space workspaces may take.
    pub space: SpaceLimits,
    /// After how long a drain on SIGTERM ends what still runs; never if absent.
    pub drain_deadline: Option<Duration>,
    /// What keeps jobs from the worker's files and each other's.
    pub isolation: Isolation,
    /// With [`Isolation::User`], the users that jobs run as: one a slot.
    pub job_users: Vec<String>,
    /// Files that may hold the token, the one that does first: the token's own and the configuration. Isolated jobs don't see
    /// their directories.
    pub secret_files: Vec<PathBuf>,
    /// Other files and directories beside the data directory that isolated jobs don't see.
    pub hidden: Vec<PathBuf>,
    /// Those of them that someone else may make anew while the worker runs: directories of the worker's user, made again where they
    /// are gone.
    pub renewed: Vec<PathBuf>,
    /// What starts a keeper: a program and its first arguments.
    pub keeper_command: Vec<OsString>,
    /// The protocol versions that it speaks: this build's. Another range is for tests of mixed versions.
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

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    coordinator: String,
    name: Option<String>,
    slots: u32,
    labels: BTreeMap<String, String>,
    resources: BTreeMap<String, u32>,
    data_dir: Option<PathBuf>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    fingerprint: Option<String>,
    insecure_plain_text: bool,
    env: BTreeMap<String, String>,
    crash_directories: Vec<PathBuf>,
    core_bytes_max: Option<u64>,
    keep_free_bytes: Option<u64>,
    workspaces_bytes_max: Option<u64>,
    drain_deadline_secs: Option<u64>,
    isolation: Isolation,
    job_users: Vec<String>,
    hidden: Vec<PathBuf>,
}

impl Default for File {
    fn default() -> Self {
        Self {
            coordinator: String::new(),
            name: None,
            slots: 1,
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
            data_dir: None,
            token: None,
            token_file: None,
            ca_file: None,
            fingerprint: None,
            insecure_plain_text: false,
            env: BTreeMap::new(),
            crash_directories: Vec::new(),
            core_bytes_max: None,
            keep_free_bytes: None,
            workspaces_bytes_max: None,
            drain_deadline_secs: None,
            isolation: Isolation::default(),
            job_users: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

impl Config {
    /// A worker of one slot with nothing special about it, named after its machine.
    pub fn new(coordinator: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            coordinator: coordinator.into(),
            name: host_name(),
            slots: 1,
            labels: BTreeMap::new(),
            found: BTreeMap::new(),
            resources: BTreeMap::new(),
            data_dir: data_dir.into(),
            token: None,
            token_file: None,
            ca_file: None,
            fingerprint: None,
            insecure_plain_text: false,
            env: BTreeMap::new(),
            crash_directories: Vec::new(),
            core_bytes_max: None,
            space: SpaceLimits::default(),
            drain_deadline: None,
            isolation: Isolation::default(),
            job_users: Vec::new(),
            secret_files: Vec::new(),
            hidden: Vec::new(),
            renewed: Vec::new(),
            keeper_command: Vec::new(),
            protocol: VersionRange::ours(),
        }
    }

    /// Reads a configuration file. What it leaves out has the defaults of [`Config::new`]; `coordinator` and `data_dir`
    /// may be left out where flags give them. Paths in it are relative to the directory of the file.
    ///
    /// # Errors
    /// When it can't be read, does not parse, names a token file that can't be read or hides what is not there.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        let length = fs::metadata(path).map_err(unreadable)?.len();
        if length > CONFIG_BYTES_MAX {
            return Err(ConfigError::TooLarge { path: path.to_owned(), length });
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        // Isolation hides the files themselves, whatever links lead there.
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

    /// Reads a configuration whose paths are relative to this directory.
    ///
    /// # Errors
    /// When it does not parse, names a token file that can't be read or hides what is not there.
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
            token,
            token_file,
            ca_file: file.ca_file.map(|path| directory.join(path)),
            fingerprint: file.fingerprint,
            insecure_plain_text: file.insecure_plain_text,
            env: file.env,
            crash_directories: file.crash_directories.iter().map(|path| directory.join(path)).collect(),
            core_bytes_max: file.core_bytes_max,
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
            renewed: Vec::new(),
            ..Self::new(file.coordinator, file.data_dir.map(|path| directory.join(path)).unwrap_or_default())
        })
    }

    /// Checks what a type cannot.
    ///
    /// # Errors
    /// The first field that is wrong, and what would be valid.
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
        for name in self.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                return invalid("env", format!("`{}` is no valid variable name", name.escape_debug()));
            }
        }
        Ok(())
    }

    /// Where jobs run as other users: whether that is possible and keeps from them what it should.
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
                "other users can't pass {}, so no job would reach its files; `chmod o+x` it or name another place",
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
        // Whoever could put another program in its place would be root at the next start.
        let program = std::env::current_exe().ok();
        let kept = self.secret_files.iter().chain(&self.hidden).chain([&self.data_dir]).chain(&program);
        if let Some((place, name)) = kept.into_iter().find_map(|path| users::changeable(path, &users)) {
            let reason = format!(
                "`{name}` could change {0}, and with it what jobs are kept from; `chown root: {0} && chmod go-w {0}`, or name another place",
                place.display()
            );
            return invalid("job_users", reason);
        }
        Ok(())
    }

    /// What isolated jobs don't see beside the data directory.
    ///
    /// # Errors
    /// When a file that may hold the token lies in a directory that jobs need.
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

    /// The users that jobs run as; none where they run as the worker's.
    ///
    /// # Errors
    /// When one of them is of no use for it.
    pub fn users(&self) -> Result<Vec<JobUser>, ConfigError> {
        if self.isolation != Isolation::User {
            return Ok(Vec::new());
        }
        let invalid = |reason| ConfigError::Invalid { field: "job_users", reason };
        users::find(&self.job_users, self.slots).map_err(invalid)
    }

    /// All labels: those that a worker finds by itself, and the configured ones over them.
    pub fn all_labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            ("os".to_owned(), crate::platform::os().to_owned()),
            ("arch".to_owned(), crate::platform::arch().to_owned()),
            ("name".to_owned(), self.name.clone()),
        ]);
        labels.extend(self.found.clone());
        labels.extend(self.labels.iter().map(|(name, value)| (name.clone(), value.clone())));
        labels
    }
}

/// The file or directory itself, behind all links: what can't be found can't be kept from a job.
fn resolved(path: &Path) -> Result<PathBuf, ConfigError> {
    path.canonicalize().map_err(|source| ConfigError::Unresolvable { path: path.to_owned(), source })
}

/// The machine's name up to its first dot, as far as it is a valid name.
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
