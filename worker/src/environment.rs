//! The environment of a job.
//!
//! In place: the submitter's own environment without the pool's variables. Otherwise: the login
//! environment of the worker's user, overridden by the worker's configuration, overridden by the
//! job's variables. The two ids of the attempt are always set. The trace
//! of the job is set only if its submitter requested it.

use crate::isolation::users::barrier;
use crate::keeper::tree::{ATTEMPT_VARIABLE, JOB_VARIABLE};
use crate::platform;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::spec::{JobSpec, OWN_VARIABLES, Source};
use buildpool_telemetry::ENVIRONMENT_VARIABLE;
use nix::unistd::{Uid, User};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Locale and directory variables that jobs inherit from the daemon.
const PASSED_ON: &[&str] = &["LANG", "TZ", "TMPDIR"];

/// Returns the environment of an attempt. `base` is the worker's environment for jobs. `trace` is the trace of the
/// process, if the submitter requested it.
pub fn of_attempt(
    spec: &JobSpec,
    attempt: AttemptId,
    base: &BTreeMap<String, String>,
    trace: Option<String>,
) -> BTreeMap<String, String> {
    let mut environment = match spec.source {
        Source::InPlace { .. } => BTreeMap::new(),
        Source::Snapshot { .. } | Source::Empty => base.clone(),
    };
    environment.extend(
        spec.env
            .iter()
            .filter(|(name, _)| !name.starts_with(OWN_VARIABLES))
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    environment.extend(trace.map(|trace| (ENVIRONMENT_VARIABLE.to_owned(), trace)));
    environment.insert(JOB_VARIABLE.to_owned(), attempt.job.to_string());
    environment.insert(ATTEMPT_VARIABLE.to_owned(), attempt.number.to_string());
    environment
}

/// Returns the default environment of a worker's jobs: login variables, overridden by configured
/// ones.
pub fn of_worker(configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    with_path(configured, std::env::var("PATH").ok().as_deref())
}

/// Returns the same environment for a worker that runs as a service. It does not include the `PATH`
/// of this process.
pub fn of_service(configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    with_path(configured, None)
}

fn with_path(configured: &BTreeMap<String, String>, own: Option<&str>) -> BTreeMap<String, String> {
    let mut environment = login(User::from_uid(Uid::effective()).ok().flatten().as_ref());
    // A value that is not UTF-8 cannot be passed on, but must not prevent the start of the worker.
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    for (name, value) in texts {
        if PASSED_ON.contains(&name.as_str()) || name.starts_with("LC_") {
            environment.insert(name, value);
        }
    }
    environment.insert("PATH".to_owned(), path(own));
    environment.extend(configured.iter().map(|(name, value)| (name.clone(), value.clone())));
    environment.retain(|name, _| !name.starts_with(OWN_VARIABLES));
    environment
}

/// Returns the environment of jobs that run as another user. That user's login variables replace
/// the worker's.
pub fn of_user(
    worker: &BTreeMap<String, String>,
    configured: &BTreeMap<String, String>,
    user: &User,
) -> BTreeMap<String, String> {
    let mut environment = worker.clone();
    // Other users may have no access to the worker's directory.
    environment.remove("TMPDIR");
    environment.extend(login(Some(user)));
    if let Some(path) = environment.get_mut("PATH") {
        // A directory without search permission would count as existing and not executable.
        let open =
            path.split(':').filter(|directory| barrier(&Path::new(directory).join("program")).is_none());
        *path = open.collect::<Vec<_>>().join(":");
    }
    environment.extend(configured.iter().map(|(name, value)| (name.clone(), value.clone())));
    environment.retain(|name, _| !name.starts_with(OWN_VARIABLES));
    environment
}

/// Returns the home directory of the worker's user.
pub fn account_home() -> Option<PathBuf> {
    let home = User::from_uid(Uid::effective()).ok().flatten()?.dir;
    home.parent().is_some().then_some(home)
}

/// Returns the variables of a job whose trust class has this home directory. Toolchains that rustup installed for the
/// worker's user stay usable.
pub fn of_class(base: &BTreeMap<String, String>, home: &Path) -> BTreeMap<String, String> {
    let mut environment = base.clone();
    let account = environment.insert("HOME".to_owned(), home.display().to_string());
    let toolchains = account.map(|account| Path::new(&account).join(".rustup"));
    if let Some(toolchains) = toolchains.filter(|toolchains| toolchains.is_dir()) {
        environment.entry("RUSTUP_HOME".to_owned()).or_insert_with(|| toolchains.display().to_string());
    }
    environment
}

fn login(user: Option<&User>) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    if let Some(user) = user {
        environment.insert("HOME".to_owned(), user.dir.display().to_string());
        environment.insert("USER".to_owned(), user.name.clone());
        environment.insert("LOGNAME".to_owned(), user.name.clone());
        environment.insert("SHELL".to_owned(), user.shell.display().to_string());
    }
    environment
}

/// Returns the daemon's own `PATH`, which usually contains the tools, followed by the login
/// directories.
fn path(own: Option<&str>) -> String {
    let mut directories: Vec<&str> =
        own.unwrap_or_default().split(':').filter(|directory| directory.starts_with('/')).collect();
    for directory in platform::login_path() {
        if !directories.contains(directory) {
            directories.push(directory);
        }
    }
    directories.join(":")
}

#[cfg(test)]
mod tests {
    use super::{of_attempt, of_worker, path};
    use buildpool_protocol::ids::{AttemptId, JobId};
    use buildpool_protocol::spec::{Command, JobSpec, Source};
    use std::collections::BTreeMap;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn in_place_has_the_submitters_environment_and_elsewhere_the_workers() {
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number: 2 };
        let job = ("BUILDPOOL_JOB_ID", "00000000-0000-0000-0000-000000000000");
        let number = ("BUILDPOOL_ATTEMPT", "2");
        let base = map(&[("PATH", "/bin"), ("HOME", "/home/w")]);
        let mut spec = JobSpec::new(Command::Shell("true".into()), Source::Empty);
        spec.env = map(&[("A", "1"), ("HOME", "/home/me"), ("BUILDPOOL_TOKEN", "secret")]);
        assert_eq!(
            of_attempt(&spec, attempt, &base, None),
            map(&[("A", "1"), ("HOME", "/home/me"), ("PATH", "/bin"), job, number])
        );
        spec.source = Source::InPlace { directory: "/".into() };
        assert_eq!(
            of_attempt(&spec, attempt, &base, None),
            map(&[("A", "1"), ("HOME", "/home/me"), job, number])
        );
    }

    #[test]
    fn a_worker_always_has_a_path_and_a_user() {
        let environment = of_worker(&map(&[("CI", "yes"), ("BUILDPOOL_URL", "ws://elsewhere")]));
        for name in ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "CI"] {
            assert!(environment.contains_key(name), "{name} is missing");
        }
        assert!(!environment.contains_key("BUILDPOOL_URL"));
        assert!(path(Some("/opt/tools:relative::/usr/bin")).starts_with("/opt/tools:/usr/bin:"));
        assert!(path(None).contains("/usr/bin"));
    }
}
