//! Answers with the state of a job: when it has ended, after a wait, or at once.

use super::going;
use crate::auth::Principal;
use crate::connections::JobEvent;
use crate::net::client_conn::Submitted;
use crate::net::outbox::{ANSWER_BYTES_MAX, Room};
use crate::net::queries;
use crate::net::request_context::RequestContext;
use crate::result;
use buildpool_pool::Input;
use buildpool_protocol::TokenId;
use buildpool_protocol::client_link::{Role, ToClient, View};
use buildpool_protocol::error::LinkError;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::report::{JobResult, JobState};
use std::time::{Duration, Instant};

/// Interval between progress messages to a waiting client.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Delay of a progress message after a change. It is too short to notice, but longer than many jobs
/// take, so that a short job sends no progress.
const PROGRESS_AFTER: Duration = Duration::from_millis(20);

/// Waits for the end of a job and sends `complete`, with progress messages before it.
pub(crate) async fn wait(context: RequestContext, request: u32, mut submitted: Submitted) {
    let job = submitted.job;
    let is_over = submitted.reattached && context.shared.runtime.live(job).await.is_none();
    let outcome = loop {
        if is_over {
            break context.shared.finished(job);
        }
        let event = submitted.watch.borrow_and_update().clone();
        if let JobEvent::Done(finished) = event {
            break Ok(finished);
        }
        if submitted.progress {
            let done = submitted.watch.wait_for(|event| matches!(event, JobEvent::Done(_)));
            match tokio::time::timeout(PROGRESS_AFTER, done).await.map(|done| done.is_ok()) {
                Ok(true) => continue,
                Ok(false) => break context.shared.finished(job),
                Err(_) if send_progress(&context, request, job).await.is_none() => {
                    break context.shared.finished(job);
                }
                Err(_) => {}
            }
        }
        let changed = if submitted.progress {
            tokio::time::timeout(PROGRESS_EVERY, submitted.watch.changed()).await.unwrap_or(Ok(()))
        } else {
            submitted.watch.changed().await
        };
        if changed.is_err() {
            break context.shared.finished(job);
        }
    };
    match outcome {
        Ok(finished) => {
            let Some(room) = context.room(ANSWER_BYTES_MAX).await else { return };
            let result =
                queries::rendered(&context.shared, &context.principal.name, &finished, &submitted.view).await;
            deliver(&context, job, room, ToClient::Complete { request, result: Box::new(result) }).await;
        }
        Err(error) => context.send_error(request, error).await,
    }
}

/// Sends the state of a job. If its submitter polls the final result, the job is marked as
/// delivered, so that an equal submit starts a new job. A read by others does not mark it.
pub(super) async fn answer_job(
    context: &RequestContext,
    request: u32,
    Answered { result, token, room }: Answered,
) {
    let is_end = context.delivers && result.state == JobState::Done && is_submitter(context, &result, token);
    let done = if is_end { result.job_id.parse().ok() } else { None };
    let answer = ToClient::Job { request, result: Box::new(result) };
    match done {
        Some(job) => deliver(context, job, room, answer).await,
        None => drop(context.answer(room, answer).await),
    }
}

/// Returns true if this is the token that submitted the job. If that token is no longer valid, or the
/// job's record is older than the ids of tokens in records, its successor is a token of the same
/// name, for example after a rotation.
fn is_submitter(context: &RequestContext, result: &JobResult, token: Option<TokenId>) -> bool {
    let Principal { token: own, name, role, .. } = &context.principal;
    let is_replaced = || token.is_none_or(|token| context.shared.tokens.check(token).is_err());
    token == Some(*own) || *role != Role::Read && result.submitter.as_ref() == Some(name) && is_replaced()
}

/// Sends the result of a job and then records the delivery. After a crash between the two, the
/// result is sent again. The reverse order could lose it.
async fn deliver(context: &RequestContext, job: JobId, room: Room, answer: ToClient) {
    if context.answer(room, answer).await {
        // Without waiting: the connection may end as soon as the client has its answer.
        context.shared.runtime.offer(Input::Delivered { job });
    }
}

async fn send_progress(context: &RequestContext, request: u32, job: JobId) -> Option<()> {
    let live = context.shared.runtime.live(job).await?;
    let progress = result::progress(&live, &context.shared.connections);
    context.send(ToClient::Progress { request, progress }).await;
    Some(())
}

/// Sends the current state of a job.
pub(crate) async fn job_now(context: &RequestContext, request: u32, job: JobId) {
    match job_after(context, &job.to_string(), &View::default(), Duration::ZERO, None).await {
        Ok(Answered { result, room, .. }) => {
            let _gone = context.answer(room, ToClient::Job { request, result: Box::new(result) }).await;
        }
        Err(error) => context.send_error(request, error).await,
    }
}

/// The state of a job, to be sent.
pub(super) struct Answered {
    result: JobResult,
    /// Token that submitted the job.
    token: Option<TokenId>,
    room: Room,
}

/// Returns the state of a job when it has ended or `wait` has passed. Until then, the request
/// `watching` receives progress messages.
pub(super) async fn job_after(
    context: &RequestContext,
    text: &str,
    view: &View,
    wait: Duration,
    watching: Option<u32>,
) -> Result<Answered, LinkError> {
    let shared = &context.shared;
    let job = shared.resolve(&context.principal, text)?;
    let until = Instant::now() + wait;
    let mut watch = shared.connections.watch(job);
    let answered = loop {
        let permit = shared.request_limits.query(&context.principal.name).await;
        let found = shared.runtime.live(job).await;
        drop(permit);
        let Some(live) = found else {
            let finished = shared.finished(job)?;
            let room = context.room(ANSWER_BYTES_MAX).await.ok_or_else(going)?;
            let result = queries::rendered(&context.shared, &context.principal.name, &finished, view).await;
            break Answered { result, token: finished.record.token, room };
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let room = context.room(ANSWER_BYTES_MAX).await.ok_or_else(going)?;
            break Answered {
                result: queries::live(shared, &context.principal.name, &live).await,
                token: live.record.token,
                room,
            };
        }
        let left = match watching {
            Some(request) => {
                context
                    .send(ToClient::Progress {
                        request,
                        progress: result::progress(&live, &shared.connections),
                    })
                    .await;
                left.min(PROGRESS_EVERY)
            }
            None => left,
        };
        // The loop reads the job's state again, so the result of the wait does not matter.
        let _ended =
            tokio::time::timeout(left, watch.wait_for(|event| matches!(event, JobEvent::Done(_)))).await;
    };
    drop(watch);
    shared.connections.unwatch(job);
    Ok(answered)
}
