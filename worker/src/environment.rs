//! The environment that a job gets.
//!
//! In place: the submitter's own, less what is the pool's. Elsewhere: what a login of the worker's user would have, what
//! the worker's configuration gives over it, and what the job asks for over that. Always the two ids of the attempt.

use crate::isolation::users::barrier;
use crate::keeper::tree::{ATTEMPT_VARIABLE, JOB_VARIABLE};
use crate::platform;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::spec::{JobSpec, OWN_VARIABLES, Source};
use nix::unistd::{Uid, User};
use std::collections::BTreeMap;
use std::path::Path;

/// Variables of the daemon that say how its user writes and where, not what it is.
const PASSED_ON: &[&str] = &["LANG", "TZ", "TMPDIR"];

/// The environment of an attempt; `base` is that of the worker.
pub fn of_attempt(
    spec: &JobSpec,
    attempt: AttemptId,
    base: &BTreeMap<String, String>,
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
    environment.insert(JOB_VARIABLE.to_owned(), attempt.job.to_string());
    environment.insert(ATTEMPT_VARIABLE.to_owned(), attempt.number.to_string());
    environment
}

/// What a worker's jobs have without asking: a login's variables, and the configured ones over them.
pub fn of_worker(configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    with_path(configured, std::env::var("PATH").ok().as_deref())
}

/// The same of a worker that the machine starts: what the `PATH` of this process has besides is not in it.
pub fn of_service(configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    with_path(configured, None)
}

fn with_path(configured: &BTreeMap<String, String>, own: Option<&str>) -> BTreeMap<String, String> {
    let mut environment = login(User::from_uid(Uid::effective()).ok().flatten().as_ref());
    // What is no text can't be passed on, and is no reason to have no worker.
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

/// What jobs have that run as another user than the worker: that user's login in place of the worker's.
pub fn of_user(
    worker: &BTreeMap<String, String>,
    configured: &BTreeMap<String, String>,
    user: &User,
) -> BTreeMap<String, String> {
    let mut environment = worker.clone();
    // The worker's own need not be open to others.
    environment.remove("TMPDIR");
    environment.extend(login(Some(user)));
    if let Some(path) = environment.get_mut("PATH") {
        // What is looked for where this user may not look counts as there and not executable.
        let open =
            path.split(':').filter(|directory| barrier(&Path::new(directory).join("program")).is_none());
        *path = open.collect::<Vec<_>>().join(":");
    }
    environment.extend(configured.iter().map(|(name, value)| (name.clone(), value.clone())));
    environment.retain(|name, _| !name.starts_with(OWN_VARIABLES));
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

/// The daemon's own path, for whoever started it knows where the tools are, and a login's directories after it.
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
            of_attempt(&spec, attempt, &base),
            map(&[("A", "1"), ("HOME", "/home/me"), ("PATH", "/bin"), job, number])
        );
        spec.source = Source::InPlace { directory: "/".into() };
        assert_eq!(of_attempt(&spec, attempt, &base), map(&[("A", "1"), ("HOME", "/home/me"), job, number]));
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
