//! Prepares an attempt on disk before it runs. Blocking.

use super::class_home;
use super::data_directory::DataDirectory;
use super::limits;
use super::memory;
use super::undeletable;
use crate::config::Config;
use crate::isolation::Isolation;
use crate::isolation::permissions;
use crate::isolation::users::JobUser;
use crate::platform::cgroup::DelegatedGroups;
use crate::platform::{Now, disk_room};
use crate::records::{self, AttemptRecord, DiskLimit, Durability};
use crate::workspace::setup::SetupPlan;
use crate::workspace::{WorkspaceError, Workspaces};
use buildpool_protocol::outcome::StartFailure;
use buildpool_protocol::spec::{Network, Source};
use buildpool_protocol::worker_link::Grant;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// The prepared command: arguments and directories.
pub(super) struct PreparedAttempt {
    pub(super) argv: Vec<String>,
    pub(super) directory: PathBuf,
    /// The setup to run before the command.
    pub(super) setup: Option<SetupPlan>,
    /// Directories of the worker that belong to the job.
    pub(super) own: Vec<PathBuf>,
    /// Directories of the worker that the job may read.
    pub(super) readable: Vec<PathBuf>,
    /// The record on the disk.
    pub(super) record: Arc<AttemptRecord>,
    /// The home directory of the job's trust class. Absent if the job has the home directory of its user.
    pub(super) class_home: Option<PathBuf>,
}

/// The user of an attempt, and all users of jobs.
pub(super) type Users = Option<(JobUser, Arc<[JobUser]>)>;

/// Creates the attempt's directory with its record, and the files of the command. A warm workspace
/// that cannot be given to the job's user is set aside, and a new one is created.
///
/// # Errors
/// Fails if the disk fails, or the files cannot be prepared.
pub(super) fn prepare(
    data_directory: &DataDirectory,
    config: &Config,
    workspaces: &Workspaces,
    groups: Option<&DelegatedGroups>,
    grant: &Grant,
    users: &Users,
) -> Result<PreparedAttempt, StartFailure> {
    let first = prepare_once(data_directory, config, workspaces, groups, grant, users);
    let Err(Failed::HandOver(error)) = first else { return first.map_err(Failed::into) };
    if !workspaces.set_aside(grant.lease.attempt) {
        return Err(Failed::HandOver(error).into());
    }
    warn!("a workspace can't be handed over to the user of a job: {error}");
    prepare_once(data_directory, config, workspaces, groups, grant, users).map_err(Failed::into)
}

/// Reason of a failed preparation.
enum Failed {
    Start(StartFailure),
    /// The files exist but cannot be given to the job's user.
    HandOver(io::Error),
}

impl Failed {
    /// Dependencies that can't be removed are files in the way, as those that can't be handed over.
    fn of_setup(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Io { source, .. } => Self::HandOver(source),
            other => Self::Start(other.into()),
        }
    }
}

impl From<StartFailure> for Failed {
    fn from(failure: StartFailure) -> Self {
        Self::Start(failure)
    }
}

impl From<Failed> for StartFailure {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Start(failure) => failure,
            Failed::HandOver(error) => Self::Workspace { reason: error.to_string() },
        }
    }
}

fn prepare_once(
    data_directory: &DataDirectory,
    config: &Config,
    workspaces: &Workspaces,
    groups: Option<&DelegatedGroups>,
    grant: &Grant,
    users: &Users,
) -> Result<PreparedAttempt, Failed> {
    let failed = |error: io::Error| StartFailure::Workspace { reason: error.to_string() };
    if grant.spec.network == Network::None && config.isolation != Isolation::Bubblewrap {
        let reason = format!(
            "a job without a network needs isolation bubblewrap; this worker has {}",
            config.isolation
        );
        return Err(StartFailure::Workspace { reason }.into());
    }
    let attempt_directory = data_directory.attempt(grant.lease.attempt);
    // No other user may enter it, even one that can pass the directories above.
    let create = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path);
    let created =
        if data_directory.spares.take(&attempt_directory) { Ok(()) } else { create(&attempt_directory) };
    match created {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            data_directory.restore().and_then(|()| create(&attempt_directory)).map_err(failed)?;
        }
        // A daemon died here before it gave the attempt to a keeper.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            undeletable::discard(data_directory.path(), &attempt_directory)
                .and_then(|()| create(&attempt_directory))
                .map_err(failed)?;
        }
        other => other.map_err(failed)?,
    }
    let (attempt, spec) = (grant.lease.attempt, &grant.spec);
    let prepared = workspaces
        .prepare(attempt, &spec.source, spec.clean, &attempt_directory)
        .map_err(StartFailure::from)?;
    let setup =
        workspaces.plan_setup(&spec.source, spec.setup.as_ref(), &prepared).map_err(Failed::of_setup)?;
    let argv = prepared.argv(grant.spec.command.argv());
    // xcodebuild refuses an existing bundle, so each attempt has its own.
    let bundle = attempt_directory.join("result.xcresult");
    let with_bundle = buildpool_evidence::with_result_bundle(&argv, &bundle);
    let mut own = vec![prepared.directory.clone(), prepared.root.clone()];
    own.extend(prepared.derived_data.clone());
    own.extend(with_bundle.is_some().then(|| bundle.clone()));
    let class_home = match &spec.source {
        Source::InPlace { .. } => None,
        Source::Snapshot { .. } | Source::Empty => {
            class_home_of(data_directory, config, grant, users).map_err(failed)?
        }
    };
    own.extend(class_home.clone());
    let readable = prepared.objects.into_iter().collect();
    let files = prepared.root.clone();
    let gates = gates(&grant.spec.source, &attempt_directory, &prepared.root);
    let disk = match &grant.spec.source {
        // The directory belongs to the submitter.
        Source::InPlace { .. } => None,
        Source::Snapshot { .. } | Source::Empty => limits::disk_bytes(config, disk_room(&prepared.root))
            .map(|bytes_max| DiskLimit { root: prepared.root.clone(), bytes_max }),
    };
    let mut spec = grant.spec.clone();
    spec.env.clear();
    let record = AttemptRecord {
        lease: grant.lease,
        spec,
        directory: prepared.directory.clone(),
        // For a job in place, the coordinator already has the path.
        root: prepared.derived_data.is_some().then_some(prepared.root),
        result_bundle: with_bundle.is_some().then_some(bundle),
        derived_data: prepared.derived_data,
        memory: memory::group(config.slots, groups, grant.lease.attempt),
        disk,
        machine_kills: buildpool_evidence::memory::machine_kills(),
        since_boot_secs: Now::read().continuous.as_secs_f64(),
        user: users.as_ref().map(|(user, _)| user.name().to_owned()),
        gates: if users.is_some() { gates.clone() } else { Vec::new() },
        data_dir: Some(data_directory.path().to_owned()),
    };
    records::write(&attempt_directory, records::ATTEMPT, &record, Durability::Process).map_err(failed)?;
    if let Some((user, all)) = users {
        // A directory in place belongs to its submitter and is not changed.
        let own = if gates.is_empty() { &[] } else { std::slice::from_ref(&files) };
        permissions::hand_over(&gates, own, user, all).map_err(Failed::HandOver)?;
    }
    let argv = with_bundle.unwrap_or(argv);
    Ok(PreparedAttempt {
        argv,
        directory: prepared.directory,
        setup,
        own,
        readable,
        record: Arc::new(record),
        class_home,
    })
}

/// Returns the home directory of the job's trust class. Without isolation each job can reach the files of every class, so it
/// has the home directory of the worker's user.
fn class_home_of(
    data_directory: &DataDirectory,
    config: &Config,
    grant: &Grant,
    users: &Users,
) -> io::Result<Option<PathBuf>> {
    let class = &grant.spec.access.class;
    if class.is_empty() || config.isolation == Isolation::None {
        return Ok(None);
    }
    class_home::make(data_directory.path(), class, users.as_ref().map(|(user, _)| user)).map(Some)
}

/// Returns the directories that lead only to the files of an attempt. Empty for directories that do
/// not belong to the worker.
fn gates(source: &Source, attempt_directory: &Path, root: &Path) -> Vec<PathBuf> {
    match source {
        Source::InPlace { .. } => Vec::new(),
        Source::Empty => vec![attempt_directory.to_owned()],
        Source::Snapshot { .. } => {
            // The directory of its checkout.
            [attempt_directory].into_iter().chain(root.parent()).map(Path::to_owned).collect()
        }
    }
}
