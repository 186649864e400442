//! Checks a configuration: the range of each value, and the effect of the isolation.

use super::{Config, ConfigError};
use crate::isolation::Isolation;
use crate::isolation::hidden::directory_of;
use crate::isolation::users::{self, JobUser, barrier};
use buildpool_protocol::limits::SLOTS_MAX;
use buildpool_protocol::spec::{NAME_LABEL, check_name};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

impl Config {
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
        for (name, value) in &self.labels {
            check_name("label", name)?;
            if name == NAME_LABEL {
                let reason = format!(
                    "`{NAME_LABEL} = {value:?}` is given, and this label is always the worker's name: `name` sets it"
                );
                return invalid("labels", reason);
            }
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
                return invalid("env", format!("`{}` is not a valid variable name", name.escape_debug()));
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
        self.hidden_paths()?;
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
    pub fn hidden_paths(&self) -> Result<Vec<PathBuf>, ConfigError> {
        if !self.isolation.hides_paths() {
            return Ok(Vec::new());
        }
        let mut hidden_paths = self.hidden.clone();
        for file in &self.secret_files {
            hidden_paths.push(directory_of(file).map_err(|directory| ConfigError::Invalid {
                field: "isolation",
                reason: format!(
                    "{} would hide all of {} from jobs; put it into a directory of its own",
                    file.display(),
                    directory.display()
                ),
            })?);
        }
        Ok(hidden_paths)
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
}
