//! Lays out an attempt on the disk before it runs. Blocking.

use super::home::Home;
use super::memory;
use crate::config::Config;
use crate::platform::Now;
use crate::records::{self, AttemptRecord, Durability};
use crate::workspace::Workspaces;
use buildpool_protocol::outcome::StartFailure;
use buildpool_protocol::worker_link::Grant;
use std::fs;
use std::io;
use std::path::PathBuf;

/// What is executed, and where.
pub(super) struct Arranged {
    pub(super) argv: Vec<String>,
    pub(super) directory: PathBuf,
    /// What of the worker's directories is the job's.
    pub(super) own: Vec<PathBuf>,
    /// What of them it may read.
    pub(super) readable: Vec<PathBuf>,
}

/// Makes the attempt's directory with its record, and the files that the command sees.
///
/// # Errors
/// When the disk refuses, or the files can't be laid out.
pub(super) fn arrange(
    home: &Home,
    config: &Config,
    workspaces: &Workspaces,
    grant: &Grant,
) -> Result<Arranged, StartFailure> {
    let failed = |error: io::Error| StartFailure::Workspace { reason: error.to_string() };
    let attempt_directory = home.attempt(grant.lease.attempt);
    match fs::create_dir(&attempt_directory) {
        // Left by a daemon that died here, before anyone was asked to run it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir_all(&attempt_directory)
                .and_then(|()| fs::create_dir(&attempt_directory))
                .map_err(failed)?;
        }
        other => other.map_err(failed)?,
    }
    let (attempt, spec) = (grant.lease.attempt, &grant.spec);
    let prepared = workspaces.prepare(attempt, &spec.source, spec.clean, &attempt_directory)?;
    let argv = prepared.argv(grant.spec.command.argv());
    // xcodebuild refuses a bundle that is there, so each attempt has its own.
    let bundle = attempt_directory.join("result.xcresult");
    let with_bundle = buildpool_evidence::with_result_bundle(&argv, &bundle);
    let mut own = vec![prepared.directory.clone(), prepared.root.clone()];
    own.extend(prepared.derived_data.clone());
    own.extend(with_bundle.is_some().then(|| bundle.clone()));
    let readable = prepared.objects.into_iter().collect();
    let mut spec = grant.spec.clone();
    spec.env.clear();
    let record = AttemptRecord {
        lease: grant.lease,
        spec,
        directory: prepared.directory.clone(),
        // In place the coordinator knows it.
        root: prepared.derived_data.is_some().then_some(prepared.root),
        result_bundle: with_bundle.is_some().then_some(bundle),
        derived_data: prepared.derived_data,
        memory: memory::group(config.slots),
        since_boot_secs: Now::read().continuous.as_secs_f64(),
    };
    records::write(&attempt_directory, records::ATTEMPT, &record, Durability::Process).map_err(failed)?;
    Ok(Arranged { argv: with_bundle.unwrap_or(argv), directory: prepared.directory, own, readable })
}
