//! Requests of clients. Each is answered in its own task.

use super::client_conn::{Back, Submitted};
use super::outbox::{ANSWER_BYTES_MAX, Room, text_of};
use super::queries::{self, Page};
use crate::app_state::{AppState, internal};
use crate::auth::{JobsAfter, LOCAL, LOCAL_WORKER, Note, Principal};
use crate::connections::JobEvent;
use crate::logtext;
use crate::result;
use crate::runtime::{Command, Wanted};
use axum::extract::ws::Utf8Bytes;
use buildpool_digest::Digest;
use buildpool_pool::{ClientRef, Input, Submitter};
use buildpool_protocol::TokenId;
use buildpool_protocol::client_link::{
    AuditEntry, FromClient, LogAnswer, LogQuery, Role, ToClient, TokenCreated, TokenSummary, View,
};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::limits::{
    CONTROL_MESSAGE_BYTES_MAX, JOBS_PAGE_MAX, LOG_ANSWER_CHARS, TEXT_BYTES_MAX, TOKEN_LASTS_MAX,
};
use buildpool_protocol::report::{JobResult, JobState};
use buildpool_protocol::spec::Restriction;
use buildpool_protocol::transfer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between progress messages to a waiting client.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Delay of a progress message after a change. It is too short to notice, but longer than many jobs
/// take, so that a short job sends no progress.
const PROGRESS_AFTER: Duration = Duration::from_millis(20);

/// Room for a part of a log: the text of two streams, in which JSON may escape each character. Many
/// clients search logs at the same time.
const LOGS_BYTES_MAX: usize = 2 * 6 * LOG_ANSWER_CHARS;

/// Returns true if role `read` may send this message. Each kind is listed here, so that a new kind
/// needs a decision.
pub(crate) fn only_reads(message: &FromClient) -> bool {
    match message {
        FromClient::Register { .. }
        | FromClient::Job { .. }
        | FromClient::Follow { .. }
        | FromClient::Taken { .. }
        | FromClient::Unfollow { .. }
        | FromClient::Logs { .. }
        | FromClient::Finding { .. }
        | FromClient::Explain { .. }
        | FromClient::Jobs { .. }
        | FromClient::Workers { .. } => true,
        // A snapshot transfer begins with an offer. The other steps belong to a transfer that was
        // allowed.
        FromClient::Transfer(step) => !matches!(step, transfer::Message::Offer { .. }),
        FromClient::Submit { .. }
        | FromClient::StdinEnd { .. }
        | FromClient::Retry { .. }
        | FromClient::Cancel { .. }
        | FromClient::Drain { .. }
        | FromClient::TokenCreate { .. }
        | FromClient::TokenList { .. }
        | FromClient::TokenRevoke { .. }
        | FromClient::TokenRotate { .. }
        | FromClient::Approve { .. }
        | FromClient::Forget { .. }
        | FromClient::Audit { .. } => false,
    }
}

/// Refuses a message that role `read` may not send, on its transfer channel or request.
pub(crate) async fn refuse_reader(back: &Back, message: &FromClient) {
    let name = &back.principal.name;
    let text = format!(
        "the token `{name}` has role read, which may not submit jobs, send snapshots or change anything; \
         use a token with role submit or admin"
    );
    back.shared.note_forbidden(back.actor(), "a change", "its role does not allow it");
    let error = LinkError::new(ErrorCode::Forbidden, text);
    let answer = match message {
        FromClient::Transfer(step) => {
            ToClient::Transfer(transfer::Message::Failed { channel: step.channel(), error })
        }
        message => ToClient::Error { request: message.request(), error },
    };
    back.say(answer).await;
}

/// Returns the largest size of the answer to a request. The pool answers some requests itself.
const fn answer_bytes(message: &FromClient) -> usize {
    match message {
        FromClient::Cancel { .. }
        | FromClient::Drain { .. }
        | FromClient::Approve { .. }
        | FromClient::Forget { .. } => 0,
        FromClient::Logs { .. } => LOGS_BYTES_MAX,
        _ => ANSWER_BYTES_MAX,
    }
}

/// Serves all requests that do not use the state of the connection.
pub(crate) async fn serve(back: Back, message: FromClient) {
    let Some(request) = message.request() else { return };
    if let FromClient::Job { job, view, wait, progress, .. } = message {
        let watching = progress.then_some(request);
        return match Box::pin(job_after(&back, &job, &view, wait, watching)).await {
            Ok(answered) => Box::pin(answer_job(&back, request, answered)).await,
            Err(error) => back.refuse(request, error).await,
        };
    }
    // A small answer gives the rest of this room back.
    let Some(room) = back.room(answer_bytes(&message)).await else { return };
    // A connection may have many requests that wait for room, so these are small.
    Box::pin(serve_in(back, request, message, room)).await;
}

async fn serve_in(back: Back, request: u32, message: FromClient, room: Room) {
    let answer = match message {
        FromClient::Jobs { query, limit, .. } => {
            let wanted = Wanted { query, limit: limit as usize };
            return list(&back, request, room, Listed::Jobs(Box::new(wanted))).await;
        }
        FromClient::Workers { offset, .. } => {
            return list(&back, request, room, Listed::Workers { offset }).await;
        }
        FromClient::Logs { query, .. } => {
            logs(&back, &query).await.map(|logs| Some(ToClient::Logs { request, logs: Box::new(logs) }))
        }
        FromClient::Finding { job, finding, .. } => finding_of(&back, &job, &finding)
            .await
            .map(|finding| Some(ToClient::Finding { request, finding: Box::new(finding) })),
        FromClient::Explain { job, .. } => {
            explain(&back, &job).await.map(|text| Some(ToClient::Explain { request, text }))
        }
        FromClient::Cancel { job, reason, .. } => cancel(&back, request, &job, reason).await.map(|()| None),
        FromClient::Drain { worker, draining, deadline, .. } => {
            let action = if draining { "drain" } else { "resume" };
            let decide = |client, worker| Input::Drain { client, worker, draining, deadline };
            on_worker(&back, request, ("draining a worker", action), &worker, decide).await.map(|()| None)
        }
        FromClient::Approve { worker, .. } => {
            let decide = |client, worker| Input::Approve { client, worker };
            on_worker(&back, request, ("approving a worker", "approve"), &worker, decide).await.map(|()| None)
        }
        FromClient::Forget { worker, .. } => {
            let decide = |client, worker| Input::Forget { client, worker };
            on_worker(&back, request, ("forgetting a worker", "forget"), &worker, decide).await.map(|()| None)
        }
        FromClient::Audit { limit, before, .. } => {
            audit(&back, before, limit).map(|entries| Some(ToClient::Audit { request, entries }))
        }
        FromClient::TokenRotate { token, grace, expires, .. } => token_rotate(&back, &token, grace, expires)
            .map(|created| Some(ToClient::Token { request, created })),
        FromClient::TokenCreate { role, name, expires, only, .. } => {
            token_create(&back, (role, &only), &name, expires)
                .map(|created| Some(ToClient::Token { request, created }))
        }
        FromClient::TokenList { .. } => {
            token_list(&back).map(|tokens| Some(ToClient::Tokens { request, tokens }))
        }
        FromClient::TokenRevoke { token, keep_jobs, .. } => {
            let jobs = if keep_jobs { JobsAfter::Continue } else { JobsAfter::End };
            token_revoke(&back, &token, jobs).map(|tokens| Some(ToClient::Tokens { request, tokens }))
        }
        FromClient::Register { .. }
        | FromClient::Job { .. }
        | FromClient::Submit { .. }
        | FromClient::Retry { .. }
        | FromClient::Follow { .. }
        | FromClient::Taken { .. }
        | FromClient::Unfollow { .. }
        | FromClient::StdinEnd { .. }
        | FromClient::Transfer(_) => Ok(None),
    };
    match answer {
        Ok(Some(message)) => {
            let _gone = back.answer(room, message).await;
        }
        Ok(None) => {}
        Err(error) => back.refuse(request, error).await,
    }
}

pub(crate) fn submitter(back: &Back) -> Submitter {
    Submitter {
        name: back.principal.name.clone(),
        admin: back.principal.role == Role::Admin,
        token: Some(back.principal.token),
        peer: Some(back.peer),
    }
}

/// Waits for the end of a job and sends `complete`, with progress messages before it.
pub(crate) async fn wait(back: Back, request: u32, mut submitted: Submitted) {
    let job = submitted.job;
    let is_over = submitted.reattached && back.shared.runtime.live(job).await.is_none();
    let outcome = loop {
        if is_over {
            break back.shared.finished(job);
        }
        let event = submitted.watch.borrow_and_update().clone();
        if let JobEvent::Done(finished) = event {
            break Ok(finished);
        }
        if submitted.progress {
            let done = submitted.watch.wait_for(|event| matches!(event, JobEvent::Done(_)));
            match tokio::time::timeout(PROGRESS_AFTER, done).await.map(|done| done.is_ok()) {
                Ok(true) => continue,
                Ok(false) => break back.shared.finished(job),
                Err(_) if say_progress(&back, request, job).await.is_none() => {
                    break back.shared.finished(job);
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
            break back.shared.finished(job);
        }
    };
    match outcome {
        Ok(finished) => {
            let Some(room) = back.room(ANSWER_BYTES_MAX).await else { return };
            let result =
                queries::rendered(&back.shared, &back.principal.name, &finished, &submitted.view).await;
            deliver(&back, job, room, ToClient::Complete { request, result: Box::new(result) }).await;
        }
        Err(error) => back.refuse(request, error).await,
    }
}

/// Sends the state of a job. If its submitter polls the final result, the job is marked as
/// delivered, so that an equal submit starts a new job. A read by others does not mark it.
async fn answer_job(back: &Back, request: u32, Answered { result, token, room }: Answered) {
    let is_end = back.delivers && result.state == JobState::Done && is_submitter(back, &result, token);
    let done = if is_end { result.job_id.parse().ok() } else { None };
    let answer = ToClient::Job { request, result: Box::new(result) };
    match done {
        Some(job) => deliver(back, job, room, answer).await,
        None => drop(back.answer(room, answer).await),
    }
}

/// Returns true if this is the token that submitted the job. If that token is no longer valid, or the
/// job's record is older than the ids of tokens in records, its successor is a token of the same
/// name, for example after a rotation.
fn is_submitter(back: &Back, result: &JobResult, token: Option<TokenId>) -> bool {
    let Principal { token: own, name, role, .. } = &back.principal;
    let is_replaced = || token.is_none_or(|token| back.shared.tokens.check(token).is_err());
    token == Some(*own) || *role != Role::Read && result.submitter.as_ref() == Some(name) && is_replaced()
}

/// Sends the result of a job and then records the delivery. After a crash between the two, the
/// result is sent again. The reverse order could lose it.
async fn deliver(back: &Back, job: JobId, room: Room, answer: ToClient) {
    if back.answer(room, answer).await {
        // Without waiting: the connection may end as soon as the client has its answer.
        back.shared.runtime.offer(Input::Delivered { job });
    }
}

async fn say_progress(back: &Back, request: u32, job: JobId) -> Option<()> {
    let live = back.shared.runtime.live(job).await?;
    let progress = result::progress(&live, &back.shared.connections);
    back.say(ToClient::Progress { request, progress }).await;
    Some(())
}

/// Sends the current state of a job.
pub(crate) async fn job_now(back: &Back, request: u32, job: JobId) {
    match job_after(back, &job.to_string(), &View::default(), Duration::ZERO, None).await {
        Ok(Answered { result, room, .. }) => {
            let _gone = back.answer(room, ToClient::Job { request, result: Box::new(result) }).await;
        }
        Err(error) => back.refuse(request, error).await,
    }
}

/// The state of a job, to be sent.
struct Answered {
    result: JobResult,
    /// Token that submitted the job.
    token: Option<TokenId>,
    room: Room,
}

/// Returns the state of a job when it has ended or `wait` has passed. Until then, the request
/// `watching` receives progress messages.
async fn job_after(
    back: &Back,
    text: &str,
    view: &View,
    wait: Duration,
    watching: Option<u32>,
) -> Result<Answered, LinkError> {
    let shared = &back.shared;
    let job = shared.resolve(&back.principal, text)?;
    let until = Instant::now() + wait;
    let mut watch = shared.connections.watch(job);
    let answered = loop {
        let turn = shared.turns.query(&back.principal.name).await;
        let found = shared.runtime.live(job).await;
        drop(turn);
        let Some(live) = found else {
            let finished = shared.finished(job)?;
            let room = back.room(ANSWER_BYTES_MAX).await.ok_or_else(going)?;
            let result = queries::rendered(&back.shared, &back.principal.name, &finished, view).await;
            break Answered { result, token: finished.record.token, room };
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let room = back.room(ANSWER_BYTES_MAX).await.ok_or_else(going)?;
            break Answered {
                result: queries::live(shared, &back.principal.name, &live).await,
                token: live.record.token,
                room,
            };
        }
        let left = match watching {
            Some(request) => {
                back.say(ToClient::Progress {
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

/// Returns the error for an answer whose connection ends.
fn going() -> LinkError {
    LinkError::new(ErrorCode::Unavailable, "the connection ends")
}

async fn logs(back: &Back, query: &LogQuery) -> Result<LogAnswer, LinkError> {
    let job = back.shared.resolve(&back.principal, &query.job)?;
    logtext::answer(&back.shared, &back.principal.name, job, query).await
}

async fn with_digest<T>(back: &Back, text: &str, read: impl FnOnce(&Digest) -> T) -> Result<T, LinkError> {
    let shared = &back.shared;
    let job = shared.resolve(&back.principal, text)?;
    if shared.runtime.live(job).await.is_some() {
        return Err(LinkError::new(
            ErrorCode::NotFound,
            format!("job {job} is not over yet; ask again when it is"),
        ));
    }
    let finished = shared.finished(job)?;
    if let Some(digest) = &finished.digest {
        return Ok(read(digest));
    }
    let digest = queries::digest_of(shared, &back.principal.name, &finished, &View::default()).await?;
    let none = || {
        LinkError::new(
            ErrorCode::NotFound,
            format!("job {job} never ran to an end, so there is nothing to digest"),
        )
    };
    digest.as_ref().map(read).ok_or_else(none)
}

async fn finding_of(back: &Back, job: &str, finding: &str) -> Result<buildpool_protocol::Finding, LinkError> {
    with_digest(back, job, |digest| digest.finding(finding)).await?.ok_or_else(|| {
        LinkError::new(
            ErrorCode::NotFound,
            format!("job {job} has no finding `{finding}`; `buildpool job {job}` lists them"),
        )
    })
}

async fn explain(back: &Back, job: &str) -> Result<String, LinkError> {
    with_digest(back, job, Digest::explain).await
}

/// Sends the first page of the workers.
pub(crate) async fn workers(back: &Back, request: u32) {
    let Some(room) = back.room(ANSWER_BYTES_MAX).await else { return };
    list(back, request, room, Listed::Workers { offset: 0 }).await;
}

/// A list that a client asked for.
enum Listed {
    Jobs(Box<Wanted>),
    /// The workers after the first ones, as many as fit into a message.
    Workers {
        offset: u32,
    },
}

/// Makes a list and sends it.
async fn list(back: &Back, request: u32, room: Room, listed: Listed) {
    let (shared, principal) = (back.shared.clone(), back.principal.clone());
    let turn = shared.turns.list(&principal.name).await;
    let made = tokio::spawn(async move {
        // The work goes on if its request is given up.
        let _turn = turn;
        encoded(&shared, &principal, request, listed).await
    });
    match made.await.unwrap_or_else(|_| Err(going())) {
        Ok(text) => drop(back.answer_text(room, text).await),
        Err(error) => back.refuse(request, error).await,
    }
}

/// Makes a list and encodes it, away from the connections: both take long.
async fn encoded(
    shared: &Arc<AppState>,
    principal: &Principal,
    request: u32,
    listed: Listed,
) -> Result<Utf8Bytes, LinkError> {
    let message = match listed {
        Listed::Jobs(wanted) => {
            let Page { jobs, next_cursor } = queries::jobs(shared, principal, *wanted).await?;
            ToClient::Jobs { request, jobs, next_cursor }
        }
        Listed::Workers { offset } => {
            let (workers, more) = queries::workers(shared, principal, offset as usize).await?;
            ToClient::Workers { request, workers, more }
        }
    };
    queries::aside(move || text_of(&message)).await
}

/// Applies an admin's decision to a worker. The decision uses the worker id in the audit log, even
/// if another worker takes the name later.
async fn on_worker(
    back: &Back,
    request: u32,
    (what, action): (&str, &'static str),
    text: &str,
    decide: impl FnOnce(ClientRef, String) -> Input,
) -> Result<(), LinkError> {
    require_admin(back, what)?;
    let workers = back.shared.runtime.workers().await;
    let by_id = workers.iter().find(|worker| worker.record.worker.to_string() == text);
    let known = by_id.or_else(|| workers.iter().find(|worker| worker.record.name == text));
    let (subject, detail, worker) = match known.map(|worker| &worker.record) {
        Some(record) => {
            let token = record.token.as_deref().unwrap_or_default();
            let detail = format!("worker id {}, of the token {token}", record.worker);
            (record.name.as_str(), detail, record.worker.to_string())
        }
        None => (text, String::new(), text.to_owned()),
    };
    let note = Note {
        actor: back.principal.name.clone(),
        peer: Some(back.peer),
        action,
        subject: subject[..subject.floor_char_boundary(TEXT_BYTES_MAX)].to_owned(),
        detail,
    };
    let client = ClientRef { connection: back.connection, request };
    back.shared.runtime.send(Command::Noted { input: decide(client, worker), note }).await;
    Ok(())
}

async fn cancel(back: &Back, request: u32, text: &str, reason: String) -> Result<(), LinkError> {
    let job = back.shared.resolve(&back.principal, text)?;
    let client = ClientRef { connection: back.connection, request };
    let cancel = Input::Cancel { client, job, by: submitter(back), reason };
    back.shared.runtime.send(Command::Input(cancel)).await;
    Ok(())
}

fn require_admin(back: &Back, what: &str) -> Result<(), LinkError> {
    if back.principal.role == Role::Admin {
        return Ok(());
    }
    let text = format!(
        "{what} needs an admin token; `{}` has role {}",
        back.principal.name,
        back.principal.role.name()
    );
    back.shared.note_forbidden(back.actor(), what, "its role does not allow it");
    Err(LinkError::new(ErrorCode::Forbidden, text))
}

fn token_create(
    back: &Back,
    role: (Role, &Restriction),
    name: &str,
    expires: Option<Duration>,
) -> Result<TokenCreated, LinkError> {
    require_admin(back, "making a token")?;
    lasts(expires)?;
    let shared = &back.shared;
    let fingerprint = shared.token_fingerprint();
    let created = shared.tokens.create_restricted(role, name, expires, fingerprint.as_deref(), back.actor());
    created.map_err(|error| LinkError::from(&error))
}

/// Checks the lifetime of a token: it must be greater than zero and at most [`TOKEN_LASTS_MAX`].
fn lasts(expires: Option<Duration>) -> Result<(), LinkError> {
    if expires.is_some_and(|expires| expires.is_zero()) {
        return Err(LinkError::new(
            ErrorCode::Invalid,
            "expires: 0 s is no time at all; leave it out for a token without end",
        ));
    }
    if expires.is_some_and(|expires| expires > TOKEN_LASTS_MAX) {
        let text = format!(
            "expires: at most {} s are valid; leave it out for a token without end",
            TOKEN_LASTS_MAX.as_secs()
        );
        return Err(LinkError::new(ErrorCode::Invalid, text));
    }
    Ok(())
}

fn token_rotate(
    back: &Back,
    token: &str,
    grace: Duration,
    expires: Option<Duration>,
) -> Result<TokenCreated, LinkError> {
    require_admin(back, "rotating a token")?;
    is_not_the_pools_own(back, token)?;
    lasts(expires)?;
    let fingerprint = back.shared.token_fingerprint();
    let rotated = back.shared.tokens.rotate(token, grace, expires, fingerprint.as_deref(), back.actor());
    rotated.map_err(|error| LinkError::from(&error))
}

fn audit(back: &Back, before: Option<u64>, limit: u32) -> Result<Vec<AuditEntry>, LinkError> {
    require_admin(back, "reading the audit log")?;
    let (before, limit) = (before.unwrap_or(u64::MAX), limit.clamp(1, JOBS_PAGE_MAX as u32));
    let mut entries = back.shared.tokens.audit_before(before, limit).map_err(internal)?;
    let mut bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        bytes += serde_json::to_vec(entry).map_or(0, |text| text.len());
        bytes <= CONTROL_MESSAGE_BYTES_MAX / 2
    });
    let count = fitting.count();
    entries.truncate(count);
    Ok(entries)
}

fn token_list(back: &Back) -> Result<Vec<TokenSummary>, LinkError> {
    require_admin(back, "listing tokens")?;
    back.shared.tokens.list().map_err(internal)
}

/// Refuses changes to the local pool's own tokens. The pool creates them at each start. If one of
/// them is revoked, the user or the worker is locked out until the next start.
fn is_not_the_pools_own(back: &Back, token: &str) -> Result<(), LinkError> {
    let is_own = |principal: &Principal| matches!(&*principal.name, LOCAL | LOCAL_WORKER);
    if !back.shared.config.local || !back.shared.tokens.in_force(token).iter().any(is_own) {
        return Ok(());
    }
    let text = format!(
        "token `{token}` is the local pool's own, without which nobody reaches it; it ends with the pool's process, which \
         `buildpool doctor` names, and each start makes a new one"
    );
    Err(LinkError::new(ErrorCode::Invalid, text))
}

fn token_revoke(back: &Back, token: &str, jobs: JobsAfter) -> Result<Vec<TokenSummary>, LinkError> {
    require_admin(back, "revoking a token")?;
    is_not_the_pools_own(back, token)?;
    let revoked = back.shared.tokens.revoke(token, jobs, back.actor());
    revoked.map_err(|error| LinkError::from(&error))?;
    token_list(back)
}
