//! Requests of clients. Each is answered in its own task.

mod tokens;
mod waiting;

pub(crate) use waiting::{job_now, wait};

use super::outbox::{ANSWER_BYTES_MAX, Room, text_of};
use super::queries::{self, Page};
use super::request_context::RequestContext;
use super::upgrades;
use crate::app_state::AppState;
use crate::auth::{JobsAfter, Note, Principal};
use crate::logtext;
use crate::runtime::{Command, ListQuery};
use buildpool_digest::Digest;
use buildpool_pool::{ClientRef, Input, Submitter};
use buildpool_protocol::client_link::{FromClient, LogAnswer, LogQuery, Role, ToClient, View};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::limits::{LOG_ANSWER_CHARS, TEXT_BYTES_MAX};
use buildpool_protocol::transfer;
use std::sync::Arc;
use tokens::{audit, token_create, token_list, token_revoke, token_rotate};
use waiting::{answer_job, job_after};

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
        | FromClient::Upgrade { .. }
        | FromClient::Audit { .. } => false,
    }
}

/// Refuses a message that role `read` may not send, on its transfer channel or request.
pub(crate) async fn refuse_reader(context: &RequestContext, message: &FromClient) {
    let name = &context.principal.name;
    let text = format!(
        "the token `{name}` has role read, which may not submit jobs, send snapshots or change anything; \
         use a token with role submit or admin"
    );
    context.shared.note_forbidden(context.actor(), "a change", "its role does not allow it");
    let error = LinkError::new(ErrorCode::Forbidden, text);
    let answer = match message {
        FromClient::Transfer(step) => {
            ToClient::Transfer(transfer::Message::Failed { channel: step.channel(), error })
        }
        message => ToClient::Error { request: message.request(), error },
    };
    context.send(answer).await;
}

/// Returns the largest size of the answer to a request. The pool answers some requests itself.
const fn answer_bytes(message: &FromClient) -> usize {
    match message {
        FromClient::Cancel { .. }
        | FromClient::Drain { .. }
        | FromClient::Approve { .. }
        | FromClient::Forget { .. }
        | FromClient::Upgrade { .. } => 0,
        FromClient::Logs { .. } => LOGS_BYTES_MAX,
        _ => ANSWER_BYTES_MAX,
    }
}

/// Serves all requests that do not use the state of the connection.
pub(crate) async fn serve(context: RequestContext, message: FromClient) {
    let Some(request) = message.request() else { return };
    if let FromClient::Job { job, view, wait, progress, .. } = message {
        let watching = progress.then_some(request);
        return match Box::pin(job_after(&context, &job, &view, wait, watching)).await {
            Ok(answered) => Box::pin(answer_job(&context, request, answered)).await,
            Err(error) => context.send_error(request, error).await,
        };
    }
    // A small answer gives the rest of this room back.
    let Some(room) = context.room(answer_bytes(&message)).await else { return };
    // A connection may have many requests that wait for room, so these are small.
    Box::pin(serve_in(context, request, message, room)).await;
}

async fn serve_in(context: RequestContext, request: u32, message: FromClient, room: Room) {
    let answer = match message {
        FromClient::Jobs { query, limit, .. } => {
            let wanted = ListQuery { query, limit: limit as usize };
            return list(&context, request, room, Listed::Jobs(Box::new(wanted))).await;
        }
        FromClient::Workers { offset, .. } => {
            return list(&context, request, room, Listed::Workers { offset }).await;
        }
        FromClient::Logs { query, .. } => {
            logs(&context, &query).await.map(|logs| Some(ToClient::Logs { request, logs: Box::new(logs) }))
        }
        FromClient::Finding { job, finding, .. } => finding_of(&context, &job, &finding)
            .await
            .map(|finding| Some(ToClient::Finding { request, finding: Box::new(finding) })),
        FromClient::Explain { job, .. } => {
            explain(&context, &job).await.map(|text| Some(ToClient::Explain { request, text }))
        }
        FromClient::Cancel { job, reason, .. } => {
            cancel(&context, request, &job, reason).await.map(|()| None)
        }
        FromClient::Drain { worker, draining, deadline, .. } => {
            let (doing, action) =
                if draining { ("draining a worker", "drain") } else { ("resuming a worker", "resume") };
            let decide = |client, worker| Input::Drain { client, worker, draining, deadline };
            on_worker(&context, request, (doing, action), &worker, decide).await.map(|()| None)
        }
        FromClient::Approve { worker, .. } => {
            let decide = |client, worker| Input::Approve { client, worker };
            on_worker(&context, request, ("approving a worker", "approve"), &worker, decide)
                .await
                .map(|()| None)
        }
        FromClient::Forget { worker, .. } => {
            let decide = |client, worker| Input::Forget { client, worker };
            on_worker(&context, request, ("forgetting a worker", "forget"), &worker, decide)
                .await
                .map(|()| None)
        }
        FromClient::Upgrade { worker, order, .. } => {
            upgrades::order(&context, request, &worker, order).await.map(|()| None)
        }
        FromClient::Audit { limit, before, .. } => {
            audit(&context, before, limit).map(|entries| Some(ToClient::Audit { request, entries }))
        }
        FromClient::TokenRotate { token, grace, expires, .. } => {
            token_rotate(&context, &token, grace, expires)
                .map(|created| Some(ToClient::Token { request, created }))
        }
        FromClient::TokenCreate { role, name, expires, only, .. } => {
            token_create(&context, (role, &only), &name, expires)
                .map(|created| Some(ToClient::Token { request, created }))
        }
        FromClient::TokenList { .. } => {
            token_list(&context).map(|tokens| Some(ToClient::Tokens { request, tokens, revoked: Vec::new() }))
        }
        FromClient::TokenRevoke { token, keep_jobs, .. } => {
            let jobs = if keep_jobs { JobsAfter::Continue } else { JobsAfter::End };
            token_revoke(&context, &token, jobs)
                .map(|(tokens, revoked)| Some(ToClient::Tokens { request, tokens, revoked }))
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
            let _gone = context.answer(room, message).await;
        }
        Ok(None) => {}
        Err(error) => context.send_error(request, error).await,
    }
}

pub(crate) fn submitter(context: &RequestContext) -> Submitter {
    Submitter {
        name: context.principal.name.clone(),
        admin: context.principal.role == Role::Admin,
        token: Some(context.principal.token),
        peer: Some(context.peer),
    }
}

/// Returns the error for an answer whose connection ends.
fn going() -> LinkError {
    LinkError::new(ErrorCode::Unavailable, "the connection ends")
}

async fn logs(context: &RequestContext, query: &LogQuery) -> Result<LogAnswer, LinkError> {
    let job = context.shared.resolve(&context.principal, &query.job)?;
    logtext::answer(&context.shared, &context.principal.name, job, query).await
}

async fn with_digest<T>(
    context: &RequestContext,
    text: &str,
    read: impl FnOnce(&Digest) -> T,
) -> Result<T, LinkError> {
    let shared = &context.shared;
    let job = shared.resolve(&context.principal, text)?;
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
    let digest = queries::digest_of(shared, &context.principal.name, &finished, &View::default()).await?;
    let none = || {
        LinkError::new(
            ErrorCode::NotFound,
            format!("job {job} never ran to an end, so there is nothing to digest"),
        )
    };
    digest.as_ref().map(read).ok_or_else(none)
}

async fn finding_of(
    context: &RequestContext,
    job: &str,
    finding: &str,
) -> Result<buildpool_protocol::Finding, LinkError> {
    with_digest(context, job, |digest| digest.finding(finding)).await?.ok_or_else(|| {
        LinkError::new(
            ErrorCode::NotFound,
            format!("job {job} has no finding `{finding}`; `buildpool job ID` lists its findings"),
        )
    })
}

async fn explain(context: &RequestContext, job: &str) -> Result<String, LinkError> {
    with_digest(context, job, Digest::explain).await
}

/// Sends the first page of the workers.
pub(crate) async fn workers(context: &RequestContext, request: u32) {
    let Some(room) = context.room(ANSWER_BYTES_MAX).await else { return };
    list(context, request, room, Listed::Workers { offset: 0 }).await;
}

/// A requested list.
enum Listed {
    Jobs(Box<ListQuery>),
    /// The workers after the first ones, as many as fit into a message.
    Workers {
        offset: u32,
    },
}

/// Makes a list and sends it.
async fn list(context: &RequestContext, request: u32, room: Room, listed: Listed) {
    let (shared, principal) = (context.shared.clone(), context.principal.clone());
    let permit = shared.request_limits.list(&principal.name).await;
    let made = tokio::spawn(async move {
        // The work goes on if its request is given up.
        let _permit = permit;
        encoded(&shared, &principal, request, listed).await
    });
    match made.await.unwrap_or_else(|_| Err(going())) {
        Ok(text) => drop(context.answer_text(room, text).await),
        Err(error) => context.send_error(request, error).await,
    }
}

/// Makes a list and encodes it, away from the connections: both take long.
async fn encoded(
    shared: &Arc<AppState>,
    principal: &Principal,
    request: u32,
    listed: Listed,
) -> Result<String, LinkError> {
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
    queries::run_blocking(move || text_of(&message)).await
}

/// Applies an admin's decision to a worker. The decision uses the worker id in the audit log, even
/// if another worker takes the name later.
pub(super) async fn on_worker(
    context: &RequestContext,
    request: u32,
    (operation, action): (&str, &'static str),
    text: &str,
    decide: impl FnOnce(ClientRef, String) -> Input,
) -> Result<(), LinkError> {
    require_admin(context, operation)?;
    let workers = context.shared.runtime.workers().await;
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
        actor: context.principal.name.clone(),
        peer: Some(context.peer),
        action,
        subject: subject[..subject.floor_char_boundary(TEXT_BYTES_MAX)].to_owned(),
        detail,
    };
    let client = ClientRef { connection: context.connection, request };
    context.shared.runtime.send(Command::Noted { input: decide(client, worker), note }).await;
    Ok(())
}

async fn cancel(context: &RequestContext, request: u32, text: &str, reason: String) -> Result<(), LinkError> {
    let job = context.shared.resolve(&context.principal, text)?;
    let client = ClientRef { connection: context.connection, request };
    let cancel = Input::Cancel { client, job, by: submitter(context), reason };
    context.shared.send_limited_input(&context.principal.name, cancel).await;
    Ok(())
}

pub(super) fn require_admin(context: &RequestContext, operation: &str) -> Result<(), LinkError> {
    if context.principal.role == Role::Admin {
        return Ok(());
    }
    let text = format!(
        "{operation} needs an admin token; `{}` has role {}",
        context.principal.name,
        context.principal.role.name()
    );
    context.shared.note_forbidden(context.actor(), operation, "its role does not allow it");
    Err(LinkError::new(ErrorCode::Forbidden, text))
}
