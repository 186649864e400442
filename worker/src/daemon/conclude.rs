//! Puts together what is known of an attempt's end: the keeper's account and the evidence that files give. Blocking.

use super::account::{self, wall_clock_ms};
use super::home::Home;
use crate::config::Config;
use crate::limits::EVIDENCE_POLL;
use crate::records::{self, AttemptRecord, Durability, StateRecord};
use buildpool_evidence::{Collection, Context, Progress};
use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::outcome::Outcome;
use std::io;
use std::thread;

/// The outcome of an attempt whose keeper is done with it or dead, on the disk. No evidence is looked for where nobody
/// will read it.
///
/// # Errors
/// When the disk does not give or take it.
pub(super) fn conclude(
    home: &Home,
    config: &Config,
    attempt: AttemptId,
    is_fenced: bool,
) -> io::Result<Outcome> {
    let directory = home.attempt(attempt);
    if let Some(result) = records::read(&directory, records::RESULT)? {
        return Ok(result);
    }
    let mut outcome = account::of_dead_keeper(home, attempt)?;
    let record: Option<AttemptRecord> = records::read(&directory, records::ATTEMPT)?;
    if let Some(record) = record.filter(|_| !is_fenced && outcome.started_at_ms.is_some()) {
        // A record that a crash cut short costs evidence, not the outcome.
        let state = records::read(&directory, records::STATE).unwrap_or(None);
        outcome.evidence = evidence(config, &record, state, &outcome);
    }
    if outcome.evidence != Evidence::default() {
        records::write(&directory, records::RESULT, &outcome, Durability::Power)?;
    }
    Ok(outcome)
}

fn evidence(
    config: &Config,
    record: &AttemptRecord,
    state: Option<StateRecord>,
    outcome: &Outcome,
) -> Evidence {
    let command = record.spec.command.argv();
    let home = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok().flatten().map(|user| user.dir);
    let mut crash_directories = buildpool_evidence::default_crash_directories(home.as_deref());
    crash_directories.extend(config.crash_directories.iter().cloned());
    let context = Context {
        report_patterns: &record.spec.reports,
        result_bundle: record.result_bundle.clone(),
        started_at_ms: outcome.started_at_ms.unwrap_or(0),
        finished_at_ms: outcome.finished_at_ms,
        pids: state.map(|state| state.pids).unwrap_or_default(),
        ended_by_pool: outcome.acted.is_some(),
        crash_directories,
        started_since_boot_secs: Some(record.since_boot_secs),
        ..Context::new(&record.directory, &command, &outcome.ending)
    };
    let mut collection = Collection::begin(&context, wall_clock_ms());
    while let Progress::Waiting { .. } = collection.poll(wall_clock_ms()) {
        thread::sleep(EVIDENCE_POLL);
    }
    collection.finish()
}
