//! Builds the final outcome of an attempt from the keeper's account and evidence files. Blocking.

use super::data_directory::DataDirectory;
use super::fallback_outcome::{self, wall_clock_ms};
use super::masking::Masking;
use crate::config::Config;
use crate::keeper::log_tail::tail;
use crate::keeper::messages::EndAccount;
use crate::limits::{EVIDENCE_POLL, SUSPECT_TAIL_BYTES};
use crate::platform;
use crate::records::{self, AttemptRecord, StateRecord};
use crate::workspace::{Prepared, Workspaces};
use buildpool_evidence::memory::OfProcess;
use buildpool_evidence::{Collection, Context, Progress, suggests_crash};
use buildpool_objects::removal;
use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::limits::ARTIFACTS_BYTES_MAX;
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::spec::Source;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use tracing::warn;

/// Directory in an attempt's directory for the content of artifacts.
pub(super) const ARTIFACTS: &str = "artifacts";

/// The daemon's facts about an attempt that is being concluded.
pub(super) struct OutcomeContext {
    pub(super) is_fenced: bool,
    pub(super) has_lost_power: bool,
    pub(super) masking: Masking,
    pub(super) holds_workspace: bool,
    /// The worker's record, unless it must be read.
    pub(super) record: Option<Arc<AttemptRecord>>,
    /// The keeper's account, unless it must be read.
    pub(super) account: Option<Arc<EndAccount>>,
}

/// A complete outcome.
pub(super) struct BuiltOutcome {
    pub(super) outcome: Outcome,
    /// True if every later build gives the same outcome.
    pub(super) is_settled: bool,
    /// The lease, unless the worker's record was damaged.
    pub(super) lease: Option<Lease>,
}

/// Returns the outcome of an attempt if no file can add anything to it. Reads nothing.
pub(super) fn without_files(config: &Config, context: &OutcomeContext) -> Option<Outcome> {
    let (account, record) = (context.account.as_ref()?, context.record.as_ref()?);
    let has_files = context.holds_workspace || record.root.is_some() || !record.spec.artifacts.is_empty();
    // A note may replace evidence that can't be masked.
    if has_files || !matches!(context.masking, Masking::Nothing) {
        return None;
    }
    let (outcome, command) = (&account.outcome, record.spec.command.argv());
    let sources = Context {
        report_patterns: &record.spec.reports,
        result_bundle: record.result_bundle.clone(),
        crash_directories: crash_directories(config),
        memory_exclusive: record.memory.as_ref().is_some_and(|group| group.is_exclusive),
        ..Context::new(&record.directory, &command, &outcome.ending)
    };
    sources.has_no_sources().then(|| outcome.clone())
}

/// Returns the outcome of an attempt with a finished or dead keeper, and stores it if the disk
/// permits. A fenced attempt gets no evidence, because its outcome is not sent.
///
/// # Errors
/// Fails if the source data cannot be read.
pub(super) fn build_outcome(
    data_directory: &DataDirectory,
    config: &Config,
    workspaces: &Workspaces,
    attempt: AttemptId,
    context: &OutcomeContext,
) -> io::Result<BuiltOutcome> {
    let directory = data_directory.attempt(attempt);
    // Without isolation, a job can damage its record.
    let record = match &context.record {
        Some(record) => Some(Arc::clone(record)),
        None => records::read_if_whole(&directory, records::ATTEMPT)?
            .map(|record: AttemptRecord| Arc::new(record.found_in(data_directory.path()))),
    };
    let lease = record.as_ref().map(|record| record.lease);
    let mut outcome = match &context.account {
        Some(account) => account.outcome.clone(),
        None => {
            if let Some(outcome) = records::read_outcome(&directory, records::RESULT, attempt)? {
                return Ok(BuiltOutcome { outcome, is_settled: true, lease });
            }
            fallback_outcome::of_dead_keeper(data_directory, attempt, context.has_lost_power)?
        }
    };
    if record.is_none() && outcome.started_at_ms.is_some() {
        let note = "reports and artifacts were not collected: the worker's record of the attempt was damaged";
        outcome.evidence.notes.push(note.to_owned());
    }
    let mut own_bundle = None;
    if let Some(record) = record.filter(|_| !context.is_fenced && outcome.started_at_ms.is_some()) {
        let pids = match &context.account {
            Some(account) => account.pids.clone(),
            // An unreadable record costs only evidence, not the outcome.
            None => records::read_if_whole(&directory, records::STATE)
                .unwrap_or(None)
                .map(|state: StateRecord| state.pids)
                .unwrap_or_default(),
        };
        let of_keeper = std::mem::take(&mut outcome.evidence.notes);
        outcome.evidence = context.masking.evidence(|| evidence(config, &directory, &record, pids, &outcome));
        outcome.evidence.notes.splice(..0, of_keeper);
        outcome.root = record.root.as_ref().map(|root| root.to_string_lossy().into_owned());
        collect_artifacts(workspaces, &record, &directory, &context.masking, &mut outcome);
        own_bundle = record.result_bundle.clone();
    }
    let adds =
        outcome.evidence != Evidence::default() || !outcome.artifacts.is_empty() || outcome.root.is_some();
    let is_settled = !adds || fallback_outcome::write_down(&directory, records::RESULT, attempt, &outcome);
    if let Some(bundle) = own_bundle.filter(|_| is_settled) {
        remove_bundle(&bundle);
    }
    Ok(BuiltOutcome { outcome, is_settled, lease })
}

/// Removes the result bundle that the worker added to the command. It can be large, and the user
/// did not request it.
fn remove_bundle(bundle: &Path) {
    if let Err(error) = removal::remove(bundle) {
        warn!("{} stays until the result is recorded: {error}", bundle.display());
    }
}

/// Copies the artifacts aside and lists them in the outcome. Missing ones become notes.
fn collect_artifacts(
    workspaces: &Workspaces,
    record: &AttemptRecord,
    directory: &Path,
    masking: &Masking,
    outcome: &mut Outcome,
) {
    let prepared = Prepared {
        directory: record.directory.clone(),
        root: record.root.clone().unwrap_or_else(|| record.directory.clone()),
        derived_data: None,
        objects: None,
        is_in_place: matches!(record.spec.source, Source::InPlace { .. }),
    };
    let target = directory.join(ARTIFACTS);
    let (artifacts, owner) = (&record.spec.artifacts, owner_of(record));
    match workspaces.collect_artifacts(&prepared, artifacts, &target, owner, ARTIFACTS_BYTES_MAX) {
        Ok(collected) => {
            outcome.artifacts = collected.entries;
            outcome.evidence.notes.extend(masking.paths(&mut outcome.artifacts, artifacts));
            outcome.evidence.notes.extend(masking.notes(collected.notes));
        }
        Err(error) => outcome.evidence.notes.push(format!("no artifacts could be collected: {error}")),
    }
}

/// Returns the user id of the attempt, if it ran as another user. Returns an unused id for a user
/// that no longer exists.
fn owner_of(record: &AttemptRecord) -> Option<u32> {
    let name = record.user.as_ref()?;
    let user = nix::unistd::User::from_name(name).ok().flatten();
    Some(user.map_or(u32::MAX, |user| user.uid.as_raw()))
}

fn evidence(
    config: &Config,
    attempt_directory: &Path,
    record: &AttemptRecord,
    pids: Vec<i32>,
    outcome: &Outcome,
) -> Evidence {
    let command = record.spec.command.argv();
    let crash_directories = crash_directories(config);
    let memory = record.memory.as_ref();
    let context = Context {
        report_patterns: &record.spec.reports,
        result_bundle: record.result_bundle.clone(),
        started_at_ms: outcome.started_at_ms.unwrap_or(0),
        finished_at_ms: outcome.finished_at_ms,
        pids,
        ended_by_pool: outcome.acted.is_some(),
        crash_suspected: !crash_directories.is_empty() && is_crash_suspected(attempt_directory, record),
        crash_directories,
        program_directories: record.derived_data.iter().cloned().collect(),
        memory_cgroup: memory.map(|group| group.path.clone()),
        // Records of older versions have no counters of shared groups.
        memory_before: memory
            .filter(|group| group.is_exclusive || record.machine_kills.is_some())
            .and_then(|group| group.before),
        memory_exclusive: memory.is_some_and(|group| group.is_exclusive),
        memory_of_process: OfProcess {
            limit: platform::MEMORY_LIMIT.and(record.spec.memory_bytes()),
            peak: Some(outcome.usage.max_rss_bytes),
        },
        machine_kills_before: record.machine_kills,
        started_since_boot_secs: Some(record.since_boot_secs),
        is_of_another_user: record.user.is_some(),
        owner: owner_of(record),
        ..Context::new(&record.directory, &command, &outcome.ending)
    };
    let mut collection = Collection::begin(&context, wall_clock_ms());
    while let Progress::Waiting { .. } = collection.poll(wall_clock_ms()) {
        thread::sleep(EVIDENCE_POLL);
    }
    collection.finish()
}

/// Returns the directories with crash files: those of the system and those of the configuration.
fn crash_directories(config: &Config) -> Vec<PathBuf> {
    let user_home = || nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok()?.map(|user| user.dir);
    let mut directories = buildpool_evidence::default_crash_directories(user_home);
    directories.extend(config.crash_directories.iter().cloned());
    directories
}

/// Returns true if the end of a stream contains a sign of a crash. An unreadable log returns false.
fn is_crash_suspected(attempt_directory: &Path, record: &AttemptRecord) -> bool {
    let log = attempt_directory.join(records::LOG);
    tail(&log, record.lease.attempt, SUSPECT_TAIL_BYTES)
        .is_ok_and(|streams| streams.iter().any(|stream| suggests_crash(stream)))
}
