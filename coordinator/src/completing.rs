//! Completes an attempt: seals the log, finishes the digest, and passes the result to the pool.

use crate::app_state::{AppState, wall_ms};
use crate::attempt::LiveAttempt;
use crate::connections::WorkerOut;
use crate::digesting;
use crate::runtime::{Command, Ending};
use crate::store::{LogError, SealError, Sealed};
use buildpool_digest::Digester;
use buildpool_pool::{Completed, Input, Session};
use buildpool_protocol::error::chain;
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::worker_link::ToWorker;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Delay before the seal of a log is retried after a disk error.
const SEAL_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum delay before the copy of a sealed log is retried. The delay doubles after each error.
const PUBLISH_AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);
/// Number of times that a worker may declare another log than it sent, before the log counts as a gap. The log is sent
/// again each time.
const MISMATCHES_MAX: u32 = 3;
/// Time for the digest of a sealed log if the pool ended the job. The end explains such a job, so its submitter does not
/// wait for the digest of a log of any length.
const DIGEST_WITHIN: Duration = Duration::from_secs(30);

/// Seals and digests an attempt, or requests missing output from its worker. A log that can't be
/// stored becomes a counted gap after `log_wait`.
pub(crate) async fn complete(
    shared: Arc<AppState>,
    session: Session,
    attempt: Arc<LiveAttempt>,
    mut outcome: Box<Outcome>,
) {
    let lease = attempt.lease;
    let sealed = match seal(&shared, session, &attempt, &mut outcome).await {
        Ok(sealed) => sealed,
        Err(error) => {
            let position = send_again_from(&shared, &attempt, error);
            attempt.completing_failed();
            let message = Box::new(ToWorker::Position { lease, position });
            return shared.connections.to_worker(session, WorkerOut::Message(message));
        }
    };
    if let Some(shortened) = &sealed.shortened {
        // The record describes the stored log.
        outcome.log_length = sealed.state.position;
        outcome.seals.clone_from(&shortened.seals);
        outcome.gaps.extend(shortened.gaps.iter().cloned());
    }
    // An empty log has no bytes to find.
    if sealed.inline.is_none() && sealed.state.position > 0 {
        let published = publish(&shared, session, &attempt).await;
        if !published {
            // Its next connection completes it.
            return attempt.completing_failed();
        }
    }
    let (sealed_at, sealed_at_ms) = (Instant::now(), wall_ms());
    attempt.begin_last_part(sealed.state.position);
    // The digest of a short log ends at once. For a log in memory, the move of the thread's other tasks to another thread
    // would cost more than the digest.
    let is_short = sealed.inline.is_some() || sealed.state.position == 0;
    if !is_short {
        shared.runtime.input(Input::LogArrived { lease }).await;
    }
    let digester = match digester(&attempt, outcome.acted.is_some(), DIGEST_WITHIN).await {
        Ok(digester) => Ok(digester),
        Err(error) => {
            tracing::warn!(attempt = %lease.attempt, error = &error as &dyn std::error::Error, "the digest lost its log; reading it again");
            let again = || digesting::from_log(&shared.logs, &attempt).map_err(|error| chain(&error));
            tokio::task::block_in_place(|| caught(again).flatten())
        }
    };
    if outcome.acted.is_none() && attempt.is_digest_cut() {
        // The part that was left out may have a failure.
        not_all_read(&mut outcome, "the job was cancelled before the digest had read all of it");
    }
    let digester = digester.unwrap_or_else(|reason| without_log(&attempt, &mut outcome, &reason));
    let finish = |digester, outcome: &Outcome| {
        let finish = || {
            let history = shared.history(&attempt.spec);
            let mut digest = Digester::finish(digester, &digesting::facts(outcome, history));
            let tests = shared.tests.annotate(&attempt.spec, &mut digest);
            (digest, tests)
        };
        caught(|| if is_short { finish() } else { tokio::task::block_in_place(finish) })
    };
    let finished = finish(digester, &outcome).or_else(|reason| {
        let digester = without_log(&attempt, &mut outcome, &reason);
        finish(digester, &outcome)
    });
    let Ok((digest, tests)) = finished else {
        // The worker sends the result again after its next connection.
        return attempt.completing_failed();
    };
    for report in &mut outcome.evidence.test_reports {
        // The history has them. A record would keep them for each job.
        report.passed_tests = Vec::new();
    }
    shared.metrics.digested(sealed_at.elapsed());
    let completed = Completed {
        lease,
        verdict: digest.verdict,
        cause: digest.cause.clone(),
        infrastructure: digest.is_infrastructure(),
        outcome,
    };
    let ending = Ending { completed, sealed, sealed_at_ms, digest: Arc::new(digest), tests, attempt };
    shared.runtime.send(Command::Completed(Box::new(ending))).await;
}

/// Returns the result, or the text of a panic: a defect that a log brings to light must not hold its job for ever.
fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("the digest failed, which is a defect of buildpool: {text}")
    })
}

/// Returns a digester without the log. Its job does not pass.
fn without_log(attempt: &LiveAttempt, outcome: &mut Outcome, reason: &str) -> Digester {
    tracing::error!(attempt = %attempt.lease.attempt, reason, "a sealed log can't be digested; the verdict is made without it");
    not_all_read(outcome, reason);
    digesting::without_log(attempt, outcome, reason)
}

/// Notes that the verdict is not of all of the log.
fn not_all_read(outcome: &mut Outcome, reason: &str) {
    let text = || format!("the log was not read to its end: {reason}");
    outcome.evidence.unread.get_or_insert_with(text);
}

/// Returns the digester after the whole log. If the pool ended the job, the digest leaves out what it has not read within
/// this time.
async fn digester(attempt: &LiveAttempt, is_limited: bool, within: Duration) -> Result<Digester, LogError> {
    let mut digesting = pin!(attempt.digester());
    if is_limited {
        match tokio::time::timeout(within, &mut digesting).await {
            Ok(digester) => return digester,
            Err(_late) => attempt.cut_digest(),
        }
    }
    digesting.await
}

/// Seals the log, or the part that the disk accepts. A log that a worker declares wrongly is not stored, and the outcome
/// then has unread evidence, so that the job does not pass.
async fn seal(
    shared: &AppState,
    session: Session,
    attempt: &LiveAttempt,
    outcome: &mut Outcome,
) -> Result<Sealed, SealError> {
    loop {
        let error = match attempt.seal(&shared.logs, outcome) {
            Err(SealError::Log(error)) if attempt.is_of(session) => error,
            Err(error @ (SealError::Longer { .. } | SealError::Mismatch { .. }))
                if attempt.note_mismatch() >= MISMATCHES_MAX =>
            {
                let reason = format!("its worker declared another log than it sent, {MISMATCHES_MAX} times");
                tracing::error!(attempt = %attempt.lease.attempt, error = &error as &dyn std::error::Error, "a log that does not match its declaration becomes a gap");
                outcome
                    .evidence
                    .unread
                    .get_or_insert_with(|| format!("the log was not stored, because {reason}"));
                return tokio::task::block_in_place(|| attempt.seal_unstored(&shared.logs, outcome, &reason));
            }
            sealed => return sealed,
        };
        tracing::error!(attempt = %attempt.lease.attempt, error = &error as &dyn std::error::Error, "a log can't be sealed");
        let reason = format!("the coordinator's disk refused it: {}", chain(&error));
        if attempt.seal_refused(reason.clone()) >= shared.config.log_wait {
            return tokio::task::block_in_place(|| attempt.seal_unstored(&shared.logs, outcome, &reason));
        }
        if error.needs_restart() {
            return Err(error.into());
        }
        // The system does not report when a disk has room again, so retry on a timer.
        tokio::time::sleep(SEAL_AGAIN_AFTER).await;
    }
}

/// Copies the sealed log to the objects that all coordinators share. A job is done only after that: the next leader
/// must find its log. Returns false if the worker has connected again meanwhile.
async fn publish(shared: &AppState, session: Session, attempt: &LiveAttempt) -> bool {
    let log = attempt.lease.attempt;
    let mut again_after = SEAL_AGAIN_AFTER;
    loop {
        let published = limited(&shared.publishing, || shared.logs.publish(log)).await;
        let Err(error) = published else { return true };
        tracing::error!(attempt = %log, error = &error as &dyn std::error::Error, "a log can't be copied to the shared objects; trying again");
        // A job in state `sealing` shows this reason.
        let _since = attempt.seal_refused(format!("the shared objects refused it: {}", chain(&error)));
        if !attempt.is_of(session) {
            return false;
        }
        // No event reports when the objects can be written again.
        tokio::time::sleep(again_after).await;
        again_after = (again_after * 2).min(PUBLISH_AGAIN_AFTER_MAX);
    }
}

/// Acts when fewer tasks than the limit do. Blocks while it acts.
async fn limited<T>(limit: &Semaphore, act: impl FnOnce() -> T) -> T {
    // The semaphore is never closed.
    let permit = limit.acquire().await;
    let result = tokio::task::block_in_place(act);
    drop(permit);
    result
}

/// Returns the position from which the worker should send again.
fn send_again_from(shared: &AppState, attempt: &LiveAttempt, error: SealError) -> u64 {
    if let SealError::Missing { position } = error {
        return position;
    }
    tracing::error!(attempt = %attempt.lease.attempt, error = &error as &dyn std::error::Error, "a log is not as its worker declares it; it is sent again");
    tokio::task::block_in_place(|| {
        attempt.restart(&shared.logs).and_then(|()| attempt.position(&shared.logs)).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::{caught, digester, limited, without_log};
    use crate::attempt::LiveAttempt;
    use crate::digesting::Amounts;
    use crate::store::Store;
    use crate::store::tests::support::{Produced, first, granted, job, scratch};
    use buildpool_digest::Facts;
    use buildpool_protocol::ids::Lease;
    use buildpool_protocol::outcome::{Ending, Outcome};
    use buildpool_protocol::output::Stream;
    use buildpool_protocol::report::{JobResult, Verdict};
    use buildpool_protocol::spec::Verbosity;
    use futures_util::FutureExt;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_copy_over_the_limit_waits_for_the_end_of_another() {
        let limit = Arc::new(Semaphore::new(1));
        let (began, has_begun) = channel();
        let (end, may_end) = channel::<()>();
        let copying = tokio::spawn({
            let limit = limit.clone();
            async move {
                let copy = move || {
                    began.send(()).expect("the test waits");
                    may_end.recv()
                };
                limited(&limit, copy).await
            }
        });
        tokio::task::block_in_place(|| has_begun.recv()).expect("it begins");
        let mut second = Box::pin(limited(&limit, || "copied"));
        assert_eq!(second.as_mut().now_or_never(), None);
        end.send(()).expect("the copy waits");
        copying.await.expect("no panic").expect("it may end");
        assert_eq!(second.await, "copied");
    }

    #[test]
    fn a_panic_of_the_digest_is_a_reason() {
        let reason = caught::<()>(|| panic!("line {}", 7)).expect_err("it panics");
        assert!(reason.ends_with("a defect of buildpool: line 7"), "{reason}");
        assert_eq!(caught(|| 7), Ok(7));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_digest_out_of_time_leaves_out_the_rest_except_its_end() {
        let directory = scratch();
        let store = Store::open(directory.path()).expect("a store");
        let job = granted(job(1));
        let mut log = Produced::lines(first(&job), 24 << 20, 30_000);
        log.write(Stream::Stdout, b"\nthe last line\n");
        let attempt = LiveAttempt::new(Lease { attempt: log.attempt, epoch: 7 }, job.spec.clone());
        attempt.append(&store.logs(), 0, &log.bytes.clone().into()).expect("stored");
        let outcome =
            Outcome { log_length: log.length(), ..Outcome::new(Ending::Exited { code: 1 }, 6, log.seals()) };
        attempt.note_ended(log.length());
        assert_eq!(attempt.amounts(), Amounts::Arrived { bytes: log.length(), of: log.length() });
        attempt.seal(&store.logs(), &outcome).expect("all has arrived");
        attempt.begin_last_part(log.length());
        let digester = digester(&attempt, true, Duration::ZERO).await.expect("a digest");
        assert_eq!(attempt.amounts(), Amounts::Digested { bytes: log.length(), of: log.length() });
        assert!(attempt.is_digest_cut());
        let digest = digester.finish(&Facts::of_outcome(&outcome, Default::default()));
        assert!(digest.gaps[0].reason.contains("before the digest had read all"), "{:?}", digest.gaps);
        let stream = &digest.gaps[0].stream;
        assert!(digest.gaps[0].bytes < outcome.seals[stream.index()].length);
        let mut result = JobResult::default();
        digest.render(Verbosity::Normal, None, None, &mut result);
        let stdout = result.stdout.unwrap_or_default();
        assert!(stdout.contains("the last line"), "the end of the log is digested: {stdout}");
        let mut passing = Outcome { ending: Ending::Exited { code: 0 }, ..outcome };
        let unread = without_log(&attempt, &mut passing, "a reason");
        let digest = unread.finish(&Facts::of_outcome(&passing, Default::default()));
        assert_eq!(digest.verdict, Verdict::Inconclusive, "its log may have a failure");
        assert!(digest.cause.is_some_and(|cause| cause.text.contains("was not read to its end: a reason")));
        // A second digest would read the whole log again.
        attempt.append(&store.logs(), 0, &log.bytes[..30_048].to_vec().into()).expect("a repeat is no error");
        assert!(attempt.digester().await.is_err(), "no other digest has begun");
    }
}
