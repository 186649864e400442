//! Builds answers about jobs from records, the pool's state and digests.

use crate::app_state::{rfc3339, wall_ms};
use crate::connections::Connections;
use crate::recent_jobs::FinishedJob;
use crate::store::JobRecord;
use buildpool_digest::limits::NEXT_MAX;
use buildpool_digest::{Digest, missed};
use buildpool_pool::LiveJob;
use buildpool_protocol::client_link::{JobSummary, Progress, View};
use buildpool_protocol::ids::{AttemptId, BuildId};
use buildpool_protocol::limits::SETUP_LOG_BYTES_MAX;
use buildpool_protocol::outcome::{Ending, Outcome, ProcessState, SetupOutcome};
use buildpool_protocol::report::{
    Cause, EarlierAttempt, JobResult, JobState, KnownFrom, SetupResult, Verdict, Waiting,
};
use buildpool_protocol::shell::quoted;
use buildpool_protocol::spec::{JobSpec, Source, Verbosity};

/// Bytes of the log of a failed setup that `minimal` shows.
const SETUP_LOG_MINIMAL_BYTES: usize = 3_000;

/// Characters of a result as JSON that are added later: the short id and the names of artifacts.
const JSON_MARGIN_CHARS: usize = 100;

/// Returns the result of a finished job. The digest adds details; the verdict is always that of the
/// record.
pub(crate) fn of_finished(finished: &FinishedJob, digest: Option<&Digest>, view: &View) -> JobResult {
    let result = of_record(finished, digest, view, 0);
    if !view.for_json || digest.is_none() {
        return result;
    }
    let (_, most) = view.verbosity.unwrap_or(finished.record.spec.verbosity).budget();
    let most = most.min(view.characters_max.unwrap_or(usize::MAX));
    match result.to_json().to_string().chars().count().saturating_sub(most) {
        0 => result,
        excess => of_record(finished, digest, view, excess + JSON_MARGIN_CHARS),
    }
}

/// Returns the fields of a result that follow from the job's spec alone.
fn of_spec(spec: &JobSpec) -> JobResult {
    JobResult {
        command: spec.command.to_string(),
        directory: spec.source.directory_inside().to_owned(),
        labels: spec.selectors.iter().map(ToString::to_string).collect(),
        fallback: spec.fallback.clone(),
        request_id: spec.build.map(BuildId::request_id),
        verbosity: Some(spec.verbosity),
        ..JobResult::default()
    }
}

/// `reserved`: characters of the budget that a result as JSON leaves for fields of the record.
fn of_record(finished: &FinishedJob, digest: Option<&Digest>, view: &View, reserved: usize) -> JobResult {
    let record = &finished.record;
    let spec = &record.spec;
    let mut result = JobResult {
        job_id: record.job.to_string(),
        state: JobState::Done,
        connected: true,
        created_at: Some(rfc3339(record.created_at_ms)),
        submitter: Some(record.submitter.clone()),
        snapshot: record.snapshot.clone(),
        ..of_spec(spec)
    };
    if let Some(digest) = digest {
        let (verbosity, template) = (view.verbosity.unwrap_or(spec.verbosity), view.template.as_ref());
        if view.for_json {
            digest.render_json(verbosity, template, view.characters_max, reserved, &mut result);
        } else {
            digest.render(verbosity, template, view.characters_max, &mut result);
        }
    }
    let Some(done) = &record.done else { return result };
    result.finished_at = Some(rfc3339(done.finished_at_ms));
    result.verdict = Some(done.verdict);
    result.success = done.verdict == Verdict::Passed;
    if done.cause.is_some() {
        result.cause.clone_from(&done.cause);
    }
    if digest.is_none() {
        result.exit_code = done.exit_code;
        result.crash_type = done.crash_type;
        result.tests.clone_from(&done.tests);
        result.next = next_without_result(record, done.verdict);
        // The digest has these gaps, and those that it made itself.
        if let Some(outcome) = &done.outcome {
            result.gaps.clone_from(&outcome.gaps);
        }
    }
    if let Some(outcome) = &done.outcome {
        let has_run = outcome.setup.as_ref().is_none_or(SetupOutcome::passed);
        result.duration_secs = Some(outcome.duration.as_secs_f64()).filter(|_| has_run);
        result.started_at = outcome.started_at_ms.map(rfc3339);
        if has_run {
            result.process_state = ProcessState::from(&outcome.ending);
            result.process_crashed = result.process_state.signaled && outcome.acted.is_none();
        } else {
            // The ending is that of the setup, and the field `setup` has it.
            result.exit_code = None;
            result.process_state = ProcessState::default();
        }
        result.usage = Some(outcome.usage);
        result.survivors.clone_from(&outcome.survivors);
        result.artifacts.clone_from(&outcome.artifacts);
    }
    result.setup = setup(spec, done.outcome.as_deref(), view.verbosity.unwrap_or(spec.verbosity));
    explain_missing(&mut result);
    let attempt = match done.attempt {
        Some(number) => record.attempts.iter().find(|attempt| attempt.number == number),
        None => record.attempts.last(),
    };
    if let Some(attempt) = attempt {
        result.attempt = attempt.number;
        result.worker = Some(attempt.worker_name.clone());
        result.queued_secs = secs_between(record.created_at_ms, attempt.granted_at_ms);
        result.started_at = result.started_at.or_else(|| attempt.started_at_ms.map(rfc3339));
    } else {
        result.queued_secs = secs_between(record.created_at_ms, done.finished_at_ms);
    }
    result.earlier_attempts = record
        .attempts
        .iter()
        .filter(|earlier| earlier.number != result.attempt)
        .filter_map(|earlier| {
            let reason = earlier.ended.as_ref()?.how.reason()?;
            Some(EarlierAttempt { attempt: earlier.number, worker: earlier.worker_name.clone(), reason })
        })
        .collect();
    result
}

/// Returns the setup of a job for its result. The log is included after a failure and in `full`.
fn setup(spec: &JobSpec, outcome: Option<&Outcome>, verbosity: Verbosity) -> Option<SetupResult> {
    let setup = spec.setup.as_ref().filter(|_| matches!(spec.source, Source::Snapshot { .. }))?;
    let nothing = SetupResult { command: setup.command.clone(), ..SetupResult::default() };
    let Some(ran) = outcome?.setup.as_ref() else { return Some(nothing) };
    let most = match verbosity {
        Verbosity::Minimal => SETUP_LOG_MINIMAL_BYTES,
        Verbosity::Normal | Verbosity::Full => SETUP_LOG_BYTES_MAX,
    };
    let from = ran.log.ceil_char_boundary(ran.log.len().saturating_sub(most));
    let is_shown = !ran.passed() || verbosity == Verbosity::Full;
    Some(SetupResult {
        ran: true,
        exit_code: match ran.ending {
            Ending::Exited { code } => Some(code),
            Ending::Signaled { .. } | Ending::NotStarted(_) | Ending::Unobserved { .. } => None,
        },
        duration_secs: Some(ran.duration.as_secs_f64()),
        log: is_shown.then(|| ran.log[from..].to_owned()),
        log_bytes: ran.log_bytes,
        ..nothing
    })
}

/// Adds the missing files to the cause of a failure, and the command that installs them to `next`.
fn explain_missing(result: &mut JobResult) {
    let Some(missed) = missed(result) else { return };
    let sentence = missed.sentence();
    match &mut result.cause {
        Some(cause) => cause.text = format!("{} {sentence}", cause.text.trim_end()),
        None => result.cause = Some(Cause { text: sentence, known_from: KnownFrom::Pool }),
    }
    if let Some(install) = &missed.install {
        let both = quoted(&format!("{install} && {}", result.command));
        result.next.insert(0, format!("buildpool run -- sh -c {both}"));
        result.next.truncate(NEXT_MAX);
    }
}

/// Commands that return something that the answer lacks. A job without an attempt has no log.
fn next_without_result(record: &JobRecord, verdict: Verdict) -> Vec<String> {
    let logs = (!record.attempts.is_empty()).then(|| format!("buildpool logs {}", record.job));
    let workers = "buildpool workers".to_owned();
    match verdict {
        Verdict::Rejected => vec![workers],
        Verdict::Lost => logs.into_iter().chain([workers]).collect(),
        Verdict::Cancelled => logs.into_iter().collect(),
        Verdict::Passed | Verdict::Failed | Verdict::Crashed | Verdict::TimedOut | Verdict::Inconclusive => {
            Vec::new()
        }
    }
}

/// Returns the state of an unfinished job.
pub(crate) fn of_live(live: &LiveJob, now_ms: i64) -> JobResult {
    let record = &live.record;
    let spec: &JobSpec = &record.spec;
    let attempt = live.attempts.last().filter(|_| live.state != JobState::Queued);
    let started = attempt.and_then(|attempt| attempt.started_at_ms);
    let id = record.job;
    let mut next = vec![
        format!("buildpool wait {id}"),
        format!("buildpool logs {id} -f"),
        format!("buildpool cancel {id}"),
    ];
    if live.cancelling {
        next.pop();
    }
    JobResult {
        job_id: id.to_string(),
        earlier_attempts: live
            .attempts
            .iter()
            .filter_map(|earlier| {
                let reason = earlier.lost.clone()?;
                Some(EarlierAttempt { attempt: earlier.number, worker: earlier.worker_name.clone(), reason })
            })
            .collect(),
        attempt: attempt.map_or(0, |attempt| attempt.number),
        worker: attempt.map(|attempt| attempt.worker_name.clone()),
        duration_secs: started.and_then(|started| secs_between(started, now_ms)),
        queued_secs: secs_between(
            record.created_at_ms,
            attempt.map_or(now_ms, |attempt| attempt.granted_at_ms),
        ),
        state: live.state,
        connected: live.connected,
        waiting: waiting(live),
        created_at: Some(rfc3339(record.created_at_ms)),
        started_at: started.map(rfc3339),
        submitter: Some(record.submitter.clone()),
        snapshot: record.snapshot.clone(),
        next,
        ..of_spec(spec)
    }
}

fn waiting(live: &LiveJob) -> Option<Waiting> {
    live.waiting.as_ref().map(|waits| Waiting {
        reason: waits.reason.clone(),
        position: waits.position,
        since: rfc3339(waits.since_ms),
        // Rounded up to whole seconds: the estimate is not more precise.
        estimate_secs: waits.estimate.map(|wait| wait.as_secs_f64().ceil()),
    })
}

/// Returns the list entry of a live job.
pub(crate) fn summary_of_live(live: &LiveJob, now_ms: i64) -> JobSummary {
    let result = of_live(live, now_ms);
    JobSummary {
        job_id: result.job_id,
        command: result.command,
        state: result.state,
        verdict: None,
        exit_code: None,
        worker: result.worker,
        submitter: live.record.submitter.clone(),
        created_at: rfc3339(live.record.created_at_ms),
        duration_secs: result.duration_secs,
        waiting: result.waiting,
        project: project(&live.record.spec),
        started_at: result.started_at,
        request_id: result.request_id,
        headline: None,
        labels: result.labels,
    }
}

/// Returns the list entry of a finished job.
pub(crate) fn summary_of_record(record: &JobRecord) -> JobSummary {
    let done = record.done.as_ref();
    JobSummary {
        job_id: record.job.to_string(),
        command: record.spec.command.to_string(),
        state: JobState::Done,
        verdict: done.map(|done| done.verdict),
        exit_code: done.and_then(|done| done.exit_code),
        worker: record.attempts.last().map(|attempt| attempt.worker_name.clone()),
        submitter: record.submitter.clone(),
        created_at: rfc3339(record.created_at_ms),
        duration_secs: done
            .and_then(|done| done.duration_ms)
            .map(|ms| std::time::Duration::from_millis(ms).as_secs_f64()),
        waiting: None,
        project: project(&record.spec),
        started_at: record.attempts.last().and_then(|attempt| attempt.started_at_ms).map(rfc3339),
        request_id: record.spec.build.map(BuildId::request_id),
        headline: done.and_then(|done| done.headline.clone()),
        labels: record.spec.selectors.iter().map(ToString::to_string).collect(),
    }
}

fn project(spec: &JobSpec) -> Option<String> {
    Some(spec.project.clone()).filter(|project| !project.is_empty())
}

/// Returns the progress of a live job for a waiting client.
pub(crate) fn progress(live: &LiveJob, connections: &Connections) -> Progress {
    let attempt = live.attempts.last().filter(|_| live.state != JobState::Queued);
    let kept = attempt
        .and_then(|attempt| connections.attempt(AttemptId { job: live.record.job, number: attempt.number }));
    let seen = kept.as_ref().map(|kept| kept.live()).unwrap_or_default();
    let is_running = live.state == JobState::Running;
    let started = attempt.and_then(|attempt| attempt.started_at_ms);
    let silence = kept.and_then(|kept| kept.silence()).map(|silence| silence.as_secs());
    let since_start = || started.and_then(|at| u64::try_from((wall_ms() - at) / 1_000).ok());
    Progress {
        state: live.state,
        waiting: waiting(live),
        connected: live.connected,
        worker: attempt.map(|attempt| attempt.worker_name.clone()),
        lines: seen.lines,
        errors: seen.errors,
        tests_done: seen.tests_done,
        tests_total: seen.tests_total,
        text: seen.last_line,
        running_test: seen.running_test.filter(|_| is_running),
        silent_secs: silence.or_else(since_start).filter(|_| is_running),
    }
}

fn secs_between(from_ms: i64, to_ms: i64) -> Option<f64> {
    u64::try_from(to_ms.saturating_sub(from_ms))
        .ok()
        .map(|ms| std::time::Duration::from_millis(ms).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::of_finished;
    use crate::recent_jobs::FinishedJob;
    use crate::store::tests::support::{done, granted, job};
    use buildpool_digest::{Digest, Digester, Facts, Options};
    use buildpool_protocol::client_link::View;
    use buildpool_protocol::outcome::{Ending, Outcome, ProcessState, Seal, SetupOutcome};
    use buildpool_protocol::output::Stream;
    use buildpool_protocol::report::{GapEntry, Verdict};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_setup_that_failed_is_not_the_process_of_the_command() {
        let seal = Seal { length: 0, blake3: String::new() };
        for (code, expected) in [(5, None), (0, Some(0))] {
            let setup = SetupOutcome {
                command: "exit 5".into(),
                ending: Ending::Exited { code },
                duration: Duration::from_secs(1),
                log: String::new(),
                log_bytes: 0,
            };
            let outcome = Outcome {
                setup: Some(setup),
                ..Outcome::new(Ending::Exited { code }, 6, [seal.clone(), seal.clone()])
            };
            let digest = Digester::new(Options::default())
                .finish(&Facts::of_outcome(&outcome, buildpool_digest::History::default()));
            let mut record = done(granted(job(1)), Verdict::Failed, 0);
            record.done.as_mut().expect("it is done").outcome = Some(Box::new(outcome));
            let digest = Arc::new(digest);
            let finished = FinishedJob { record: Arc::new(record), digest: Some(digest.clone()) };
            let result = of_finished(&finished, Some(&digest), &View::default());
            assert_eq!(result.exit_code, expected, "the code of a setup is not the command's");
            assert_eq!(result.process_state != ProcessState::default(), expected.is_some());
        }
    }

    #[test]
    fn a_result_names_the_gaps_of_its_worker_and_of_its_digest() {
        let gap = |offset, bytes, reason: &str| GapEntry {
            stream: Stream::Stdout,
            offset,
            bytes,
            reason: reason.to_owned(),
        };
        let (worker, cut) = (gap(0, 5, "its disk was full"), gap(5, 7, "the digest left it out"));
        let seal = Seal { length: 12, blake3: String::new() };
        let outcome = Outcome {
            gaps: vec![worker.clone()],
            ..Outcome::new(Ending::Exited { code: 1 }, 6, [seal.clone(), seal])
        };
        let mut digester = Digester::new(Options::default());
        for gap in [&worker, &cut] {
            digester.gap(gap.stream, gap.bytes, &gap.reason);
        }
        let facts = Facts::of_outcome(&outcome, buildpool_digest::History::default());
        let digest = Arc::new(digester.finish(&facts));
        let mut record = done(granted(job(1)), Verdict::Failed, 0);
        record.done.as_mut().expect("it is done").outcome = Some(Box::new(outcome));
        let finished = FinishedJob { record: Arc::new(record), digest: Some(digest.clone()) };
        let gaps = |digest: Option<&Digest>| of_finished(&finished, digest, &View::default()).gaps;
        assert_eq!(gaps(Some(&digest)), [worker.clone(), cut]);
        assert_eq!(gaps(None), [worker], "those of the digest are gone with it");
    }
}
