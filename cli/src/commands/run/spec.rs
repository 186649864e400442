//! Converts the command line into a job spec.

use crate::arguments::RunArguments;
use crate::failure::{Failure, USAGE};
use crate::terminal;
use buildpool_client::project::Configuration;
use buildpool_client::snapshot::{Options, Snapshot};
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::spec::{CPUS, Command, JobSpec, MEMORY_MIB, OWN_VARIABLES, Source, TemplateSpec};
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

/// Variable in the environment of each job.
const JOB_VARIABLE: &str = "BUILDPOOL_JOB_ID";

/// The parts of the spec that do not depend on the pool.
pub(super) struct RunRequest {
    /// Absolute path.
    directory: String,
    project: String,
    secrets: BTreeMap<String, Secret>,
    template: Option<TemplateSpec>,
    quarantine: bool,
    /// The argument's, otherwise that of the project's configuration.
    concurrency_group: Option<String>,
    /// Problems of the project's configuration.
    pub(super) configuration_notes: Vec<String>,
}

impl RunRequest {
    /// Reads the directory, the secrets, the template and the project's configuration.
    ///
    /// # Errors
    /// If the directory does not exist, a secret has no value, or the configured concurrency group is invalid.
    pub(super) fn from_arguments(arguments: &RunArguments) -> Result<Self, Failure> {
        let directory = directory(arguments.cwd.as_deref())?;
        let secrets = arguments.secrets.iter().map(|name| match env::var(name) {
            Ok(value) => Ok((name.clone(), Secret(value))),
            Err(_) => Err(Failure::new(
                USAGE,
                format!("--secret {name}: this variable is not set here, or is not text; set it to the secret's value"),
            )),
        });
        let template = arguments
            .template
            .as_deref()
            .map(|name| crate::commands::template(name, &directory))
            .transpose()?;
        let configuration = Configuration::load(&directory);
        let project = project_of(&directory);
        let concurrency_group = match &arguments.concurrency_group {
            Some(group) => Some(group.clone()),
            // A job of the group that calls `run` would wait for itself.
            None if env::var_os(JOB_VARIABLE).is_some() => None,
            None => {
                let group = configuration.concurrency_group_of(&project);
                group.map_err(|problem| Failure::from_error(USAGE, &problem))?.map(str::to_owned)
            }
        };
        Ok(Self {
            template,
            concurrency_group,
            quarantine: configuration.quarantine(),
            configuration_notes: configuration.notes().collect(),
            project: text(project)?,
            secrets: secrets.collect::<Result<_, _>>()?,
            directory: text(directory)?,
        })
    }

    /// Returns the options of the snapshot, if one is needed: a job on the local pool runs in place
    /// by default.
    pub(super) fn snapshot(&self, arguments: &RunArguments, local: bool) -> Option<Options> {
        let is_wanted = arguments.snapshot || arguments.commit.is_some() || !local;
        (is_wanted && !arguments.no_snapshot).then(|| Options {
            commit: arguments.commit.clone(),
            allow_secrets: arguments.allow_secrets,
            guard_bytes: arguments.max_snapshot_mb.saturating_mul(1_000_000),
            ..Options::new(&self.directory)
        })
    }

    /// Returns the spec: on this snapshot, else in place or in an empty directory.
    ///
    /// # Errors
    /// If the spec is invalid.
    pub(super) fn into_spec(
        self,
        arguments: &RunArguments,
        snapshot: Option<&Snapshot>,
    ) -> Result<(JobSpec, BTreeMap<String, Secret>), Failure> {
        let mut environment = BTreeMap::new();
        let (source, project) = match snapshot {
            Some(snapshot) => (snapshot.source(), snapshot.manifest.project.clone()),
            None if arguments.no_snapshot => (Source::Empty, self.project),
            None => {
                environment = own_environment(&self.directory, arguments.cwd.is_some());
                (Source::InPlace { directory: self.directory }, self.project)
            }
        };
        environment.retain(|name, _| !self.secrets.contains_key(name));
        environment.extend(arguments.env.iter().cloned());
        let spec = JobSpec {
            project,
            env: environment,
            secrets: arguments.secrets.clone(),
            selectors: arguments.labels.clone(),
            network: arguments.network,
            resources: resources(arguments),
            priority: arguments.priority,
            concurrency_group: self.concurrency_group,
            timeout: arguments.timeout,
            idle_timeout: arguments.idle_timeout,
            grace: arguments.grace,
            on_lost: arguments.on_lost,
            wait_for_worker: arguments.wait_for_worker,
            retries: arguments.retries,
            verbosity: arguments.verbosity,
            template: self.template,
            quarantine: self.quarantine,
            reports: arguments.reports.clone(),
            artifacts: arguments.artifacts.clone(),
            clean: arguments.clean,
            trace_env: arguments.trace_env,
            setup: snapshot.and_then(|snapshot| snapshot.setup.clone()),
            ..JobSpec::new(Command::Argv(arguments.command.clone()), source)
        };
        spec.check().map_err(|error| Failure::from_error(USAGE, &error))?;
        Ok((spec, self.secrets))
    }
}

/// Returns the resources that the job takes.
fn resources(arguments: &RunArguments) -> BTreeMap<String, u32> {
    let own = [(CPUS, arguments.cpus), (MEMORY_MIB, arguments.memory)];
    let own = own.into_iter().filter_map(|(name, units)| Some((name.to_owned(), units?)));
    arguments.resources.iter().cloned().chain(own).collect()
}

/// Returns the absolute directory of the command.
fn directory(requested: Option<&Path>) -> Result<PathBuf, Failure> {
    let here = env::current_dir()
        .map_err(|error| Failure::while_doing(USAGE, "the present directory can't be read", &error))?;
    let Some(requested) = requested else { return Ok(here) };
    let directory = here.join(requested);
    let shown = directory.display();
    match std::fs::canonicalize(&directory) {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(Failure::new(USAGE, format!("--cwd: `{shown}` is not a directory"))),
        Err(error) => Err(Failure::while_doing(USAGE, format!("--cwd: `{shown}` can't be entered"), &error)),
    }
}

/// Returns the project of a directory, which selects the history: the work tree of the directory,
/// or the directory.
fn project_of(directory: &Path) -> PathBuf {
    let root = directory.ancestors().find(|ancestor| ancestor.join(".git").exists());
    root.unwrap_or(directory).to_owned()
}

/// Returns the environment without the pool's own variables. Prints a warning for each variable
/// that is not UTF-8, and omits it.
fn own_environment(directory: &str, elsewhere: bool) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    for (name, value) in env::vars_os() {
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(value)) => {
                if !name.starts_with(OWN_VARIABLES) {
                    environment.insert(name.to_owned(), value.to_owned());
                }
            }
            _ => terminal::warn(&format!("{} is not text (UTF-8) and was not passed on", name.display())),
        }
    }
    if elsewhere {
        environment.insert("PWD".to_owned(), directory.to_owned());
    }
    environment
}

fn text(path: PathBuf) -> Result<String, Failure> {
    path.into_os_string().into_string().map_err(|path| {
        Failure::new(
            USAGE,
            format!("the directory `{}` has a name that is not text (UTF-8)", path.to_string_lossy()),
        )
    })
}
