//! Admission of submits. An already accepted job is always accepted again; a new one only while
//! there is room for its records.

use super::client_conn::Submitted;
use super::request_context::RequestContext;
use super::requests::submitter;
use crate::app_state::{AppState, internal};
use crate::runtime::Command;
use crate::store::limits::JOBS_ROOM_BYTES;
use crate::store::{HistoryKey, Lookup, StoreError};
use buildpool_pool::{ClientRef, Input, LiveJob, Submit};
use buildpool_protocol::client_link::{Role, SubmitMessage, View};
use buildpool_protocol::error::{ErrorCode, LinkError, chain};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::{
    Access, Command as SpecCommand, JobSpec, NAME_LABEL, Network, Restriction, Selector, Source,
};
use buildpool_protocol::stdin::Stdin;
use buildpool_protocol::transfer::SnapshotName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Label of the workers that can run a job without a network.
const NO_NETWORK_LABEL: (&str, &str) = ("isolation", "bubblewrap");

impl AppState {
    /// Returns the error for new jobs if they are refused now. The readiness check returns the
    /// same.
    pub(crate) fn refuses_jobs(&self) -> Option<LinkError> {
        if let Some(why) = self.connections.degraded() {
            return Some(without_records(&why));
        }
        let free = self.logs.free_bytes().filter(|free| *free < JOBS_ROOM_BYTES)?;
        let text = format!(
            "no new job is accepted while the coordinator's disk has only {free} bytes free; {JOBS_ROOM_BYTES} are reserved for running jobs"
        );
        Some(LinkError::new(ErrorCode::Unavailable, text))
    }
}

/// Maximum time that a submit waits for the PostgreSQL server.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);
/// Delay before the next question.
const SERVER_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Returns the error for new jobs while records can't be written.
pub(crate) fn without_records(why: &str) -> LinkError {
    let text =
        format!("no new job is accepted while the coordinator can't write its records ({why}); try again");
    LinkError::new(ErrorCode::Unavailable, text)
}

/// Passes a submit to the pool, with every reason to refuse a new job: only the pool can decide
/// whether the job is new. The watch starts before that, so that no end is missed.
pub(crate) async fn submit(
    context: &RequestContext,
    request: u32,
    mut message: SubmitMessage,
) -> Result<Submitted, LinkError> {
    // Overrides the value from the client.
    message.spec.access = access(context, &message.spec);
    admit(context, request, message).await
}

/// Returns the workers that the configuration, the token and the kind of the job permit.
fn access(context: &RequestContext, spec: &JobSpec) -> Access {
    let Restriction { workers, mut labels, projects: _, reads: _ } = context.principal.only.clone();
    if spec.network == Network::None {
        let (key, value) = NO_NETWORK_LABEL;
        labels.push(Selector { key: key.to_owned(), value: Some(value.to_owned()) });
    }
    Access { workers, labels, ..context.shared.trust.access_of(&context.principal) }
}

/// Passes a submit with known access rights to the pool.
async fn admit(
    context: &RequestContext,
    request: u32,
    message: SubmitMessage,
) -> Result<Submitted, LinkError> {
    let shared = &context.shared;
    let bytes = text_bytes(&message);
    let permit = shared.request_limits.submit(&context.principal.name, bytes).await;
    let known = known(context, &message).await?;
    let refused = match shared.refuses_jobs() {
        None if known.is_none() => match context.principal.only.excludes(&message.spec) {
            Some(reason) => Some(LinkError::new(ErrorCode::Forbidden, reason)),
            None => match shared.volumes.within(&context.principal.name, bytes, Instant::now()) {
                Ok(()) => has_its_snapshot(shared, &message).await.err(),
                Err(error) => Some(error),
            },
        },
        refused => refused,
    };
    let usual = shared.reader.usual_duration(HistoryKey::from_spec(&message.spec)).map_err(internal)?;
    let submitted = Submitted {
        job: message.job,
        reattached: false,
        wait: message.wait,
        follow: message.follow,
        progress: message.progress,
        stdin: message.spec.stdin.is_some(),
        view: View::default(),
        watch: shared.connections.watch(message.job),
    };
    let mut submit = Submit {
        job: message.job,
        spec: Arc::new(message.spec),
        submitter: submitter(context),
        client_request_id: message.client_request_id,
        attach: message.attach,
        secrets: message.secrets,
        snapshot: message.snapshot,
        known,
        refused,
        usual,
        measures: None,
    };
    // Here, because it reads all texts, and the pool's thread serves all clients.
    submit.measure();
    let client = ClientRef { connection: context.connection, request };
    let input = Input::Submit { client, submit: Box::new(submit) };
    shared.runtime.send(Command::Limited { input, permit }).await;
    Ok(submitted)
}

/// Returns the bytes of the long texts of a submit.
fn text_bytes(SubmitMessage { spec, secrets, .. }: &SubmitMessage) -> usize {
    let command: usize = match &spec.command {
        SpecCommand::Argv(argv) => argv.iter().map(String::len).sum(),
        SpecCommand::Shell(text) => text.len(),
    };
    let env: usize = spec.env.iter().map(|(name, value)| name.len() + value.len()).sum();
    let secrets: usize = secrets.iter().map(|(name, value)| name.len() + value.0.len()).sum();
    command + env + secrets
}

/// A job that repeats an earlier one.
pub(crate) struct Again {
    pub(crate) new: JobId,
    pub(crate) client_request_id: Option<String>,
    /// The worker that must run it.
    pub(crate) worker: Option<String>,
}

/// Submits the spec and the snapshot of a job again. Only its submitter and an admin may do this,
/// because the job may contain uncommitted files and variables.
pub(crate) async fn retry(
    context: &RequestContext,
    request: u32,
    text: &str,
    Again { new, client_request_id, worker }: Again,
) -> Result<Submitted, LinkError> {
    let shared = &context.shared;
    let job = shared.resolve(&context.principal, text)?;
    let (spec, submitter, snapshot) = match shared.runtime.live(job).await {
        Some(LiveJob { record, .. }) => {
            (record.spec.clone(), record.submitter.clone(), record.snapshot.clone())
        }
        None => {
            let record = &shared.finished(job)?.record;
            (record.spec.clone(), record.principal.clone(), record.snapshot.clone())
        }
    };
    if context.principal.role != Role::Admin && submitter != context.principal.name {
        let text = format!("job {job} belongs to `{submitter}`; only its submitter or an admin can retry it");
        shared.note_forbidden(context.actor(), "another's job", &text);
        return Err(LinkError::new(ErrorCode::Forbidden, text));
    }
    if !spec.secrets.is_empty() {
        let names = spec.secrets.join(", ");
        let text = format!(
            "job {job} uses secrets ({names}), and the pool does not keep their values; submit it again with `buildpool run`"
        );
        return Err(LinkError::new(ErrorCode::Invalid, text));
    }
    let mut access = access(context, &spec);
    if submitter != context.principal.name {
        // The tree is the original submitter's.
        access.class = shared.trust.class_again(&submitter, &spec.access.class);
        access.reads_own |= spec.access.reads_own;
    }
    let mut selectors = spec.selectors.clone();
    if let Some(name) = worker {
        selectors.retain(|selector| selector.key != NAME_LABEL);
        selectors.push(Selector { key: NAME_LABEL.to_owned(), value: Some(name) });
    }
    let message = SubmitMessage {
        job: new,
        // A build ends with its jobs; a later job is not part of it.
        spec: JobSpec { build: None, access, selectors, ..JobSpec::clone(&spec) },
        client_request_id,
        attach: false,
        secrets: BTreeMap::new(),
        snapshot,
        wait: false,
        follow: false,
        progress: false,
    };
    if known(context, &message).await?.is_some() {
        // The request that this one repeats gave the job its input.
        return Ok(Submitted { stdin: false, ..admit(context, request, message).await? });
    }
    has_its_snapshot(shared, &message).await.map_err(|error| match error.code {
        ErrorCode::NotFound => {
            let text = format!(
                "the snapshot of job {job} is not kept any more; submit it again with `buildpool run`"
            );
            LinkError::new(ErrorCode::NotFound, text)
        }
        _ => error,
    })?;
    if message.spec.stdin.is_none() {
        return admit(context, request, message).await;
    }
    with_input_of(context, request, job, message).await
}

/// Submits a job that reads the input of an earlier one, as far as that is kept.
async fn with_input_of(
    context: &RequestContext,
    request: u32,
    job: JobId,
    mut message: SubmitMessage,
) -> Result<Submitted, LinkError> {
    let (inputs, new) = (&context.shared.inputs, message.job);
    let copied = tokio::task::block_in_place(|| inputs.copy(job, new)).map_err(|error| {
        tracing::error!(%job, %error, "a kept standard input can't be used again");
        LinkError::new(ErrorCode::Internal, format!("the standard input of job {job} can't be read: {error}"))
    })?;
    let Some(seal) = copied else {
        let text = format!(
            "job {job} read a standard input, which the pool does not keep any more (it keeps the newest 64 MiB of inputs of ended jobs until its next start); submit it again with `buildpool run`"
        );
        return Err(LinkError::new(ErrorCode::Invalid, text));
    };
    message.spec.stdin = Some(Stdin { seal: Some(seal) });
    match admit(context, request, message).await {
        // The input is complete, so the client sends no input.
        Ok(submitted) => Ok(Submitted { stdin: false, ..submitted }),
        Err(error) => {
            inputs.discard(new);
            Err(error)
        }
    }
}

/// Checks that the snapshot of a job is stored. A job waits for workers, not for files, so the
/// snapshot must be here before the job is accepted.
async fn has_its_snapshot(shared: &Arc<AppState>, message: &SubmitMessage) -> Result<(), LinkError> {
    let Source::Snapshot { id, project, .. } = &message.spec.source else { return Ok(()) };
    let invalid = |_| {
        LinkError::new(ErrorCode::Invalid, format!("source: `{}` is not a snapshot id", id.escape_debug()))
    };
    let Some(name) = SnapshotName::from_source(&message.spec.source).map_err(invalid)? else { return Ok(()) };
    // A snapshot from a submitter of another class does not count.
    let (store, project) = (shared.transfers.of_class(&message.spec.access.class), project.clone());
    let kept = tokio::task::spawn_blocking(move || store.keep_for_job(&project, &name)).await;
    let unavailable = |reason: &str| {
        let text = format!("source: the snapshot {id} can't be kept for the job ({reason}); try again");
        LinkError::new(ErrorCode::Unavailable, text)
    };
    match kept.map_err(|error| unavailable(&chain(&error)))? {
        Ok(true) => Ok(()),
        Ok(false) => {
            let text = format!("source: the snapshot {id} is not here; send it first");
            Err(LinkError::new(ErrorCode::NotFound, text))
        }
        Err(error) => Err(unavailable(&chain(&error))),
    }
}

/// Returns the stored job that this submit repeats, live or finished. While the PostgreSQL server does not answer, this waits:
/// either it answers again, or another coordinator leads and gets the submit.
async fn known(context: &RequestContext, message: &SubmitMessage) -> Result<Option<JobId>, LinkError> {
    let since = Instant::now();
    loop {
        match known_now(context, message) {
            Err(Unknown::Store(error)) if error.is_server_away() && since.elapsed() < SERVER_PATIENCE => {
                // No event reports that the server answers again.
                tokio::time::sleep(SERVER_AGAIN_AFTER).await;
            }
            Err(Unknown::Store(error)) => return Err(internal(error)),
            Err(Unknown::Refused(error)) => return Err(error),
            Ok(job) => return Ok(job),
        }
    }
}

/// Reason why it is not known whether a job is stored.
enum Unknown {
    Store(StoreError),
    Refused(LinkError),
}

impl From<StoreError> for Unknown {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn known_now(context: &RequestContext, message: &SubmitMessage) -> Result<Option<JobId>, Unknown> {
    let reader = &context.shared.reader;
    if let Lookup::Found(record) = reader.job(message.job)? {
        if record.principal != context.principal.name {
            let text = format!("job id {} is in use", message.job);
            return Err(Unknown::Refused(LinkError::new(ErrorCode::Conflict, text)));
        }
        return Ok(Some(message.job));
    }
    let Some(text) = &message.client_request_id else { return Ok(None) };
    let Some(job) = reader.by_client_request(&context.principal.name, text)? else {
        return Ok(None);
    };
    match reader.job(job)? {
        Lookup::Found(_) => Ok(Some(job)),
        Lookup::Evicted | Lookup::Unknown => Ok(None),
    }
}
