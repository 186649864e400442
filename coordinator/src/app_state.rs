//! State that all connections share.

use crate::auth::{Actor, AuthError, Principal, Tokens};
use crate::config::Config;
use crate::connections::Connections;
use crate::leader::{Leadership, lost};
use crate::logtext::LineIndexes;
use crate::metrics::Metrics;
use crate::net::inbound::InboundBytes;
use crate::net::links::Links;
use crate::net::load::Loads;
use crate::net::outbox::AnswerBytes;
use crate::net::rate::{Rates, Volumes};
use crate::net::request_limits::RequestLimits;
use crate::net::sign_in::SignIns;
use crate::recent_jobs::{FinishedJob, RecentJobs};
use crate::runtime::{Command, Handle};
use crate::stdin::Inputs;
use crate::store::{
    HistoryKey, LogError, Logs, Lookup, PassingRun, Reader, ResolveError, StoreError, TokenUse,
};
use crate::test_history::TestHistory;
use crate::tls::Tls;
use crate::transfer::TransferStore;
use crate::trust::Trust;
use crate::webhooks::Webhooks;
use buildpool_pool::Input;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{JobId, TokenId};
use buildpool_protocol::spec::{JobSpec, Reads};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};

pub(crate) struct AppState {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
    pub(crate) connections: Arc<Connections>,
    pub(crate) runtime: Handle,
    pub(crate) reader: Reader,
    pub(crate) logs: Logs,
    pub(crate) finished: Arc<RecentJobs>,
    pub(crate) tokens: Tokens,
    pub(crate) webhooks: Webhooks,
    pub(crate) tests: TestHistory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) transfers: TransferStore,
    pub(crate) inputs: Arc<Inputs>,
    /// The listener's TLS settings. `None` if connections are plain.
    pub(crate) tls: Option<Arc<Tls>>,
    /// `None` if this coordinator shares its records with no other one.
    pub(crate) leadership: Option<Leadership>,
    /// Time of the last audit line about a refused connection.
    pub(crate) refusal_noted: Mutex<Option<Instant>>,
    /// Time of the last audit line about a forbidden request.
    pub(crate) forbidden_noted: Mutex<Option<Instant>>,
    /// Addresses of tokens that the records have since the start.
    pub(crate) addresses: Mutex<HashSet<(TokenId, IpAddr)>>,
    pub(crate) rates: Rates,
    pub(crate) volumes: Volumes,
    pub(crate) links: Links,
    pub(crate) answer_bytes: AnswerBytes,
    pub(crate) inbound_bytes: InboundBytes,
    /// Logs that are copied to the shared objects at a time. Each takes a thread, and parts of the log in memory.
    pub(crate) publishing: Semaphore,
    pub(crate) request_limits: RequestLimits,
    pub(crate) line_indexes: LineIndexes,
    pub(crate) loads: Loads,
    pub(crate) sign_ins: SignIns,
    /// Dropped with this state, when the last task that uses it has ended.
    pub(crate) in_use: watch::Sender<()>,
}

/// Minimum time between audit lines about refused connections: a peer without a token must not be
/// able to fill the log.
const REFUSAL_NOTED_EVERY: Duration = Duration::from_secs(10);

/// Interval at which a connection checks that its token is still valid.
const TOKEN_CHECK_EVERY: Duration = Duration::from_secs(1);

/// Version of this software.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Limit on the addresses of tokens that are remembered since the start. Above it, the records are read again.
const ADDRESSES_MAX: usize = 10_000;

/// Returns the address, or the network of an IPv6 address: a machine changes its address inside of it.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
        address => address,
    }
}

impl AppState {
    /// Runs a task until it ends, or until this coordinator is not the leader any more: then another one does its work.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let leadership = self.leadership.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = lost(leadership.as_ref()) => {}
                () = task => {}
            }
        });
    }

    /// Records from where a token is used.
    pub(crate) fn note_use(&self, principal: &Principal, peer: IpAddr) {
        let address = network(peer);
        let mut known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&(principal.token, address)) {
            return;
        }
        let (token, name, address_text) = (principal.token, principal.name.clone(), address.to_string());
        let used = TokenUse { token, name, address: address_text, at_ms: wall_ms() };
        if self.runtime.token_used(used) {
            if known.len() >= ADDRESSES_MAX {
                known.clear();
            }
            known.insert((token, address));
        }
    }

    /// Passes an input of this token's name to the pool within the limit of the name: the inputs of one name must not fill the
    /// queue of the pool's thread.
    pub(crate) async fn send_limited_input(&self, name: &str, input: Input) {
        let permit = self.request_limits.input(name).await;
        self.runtime.send(Command::Limited { input, permit }).await;
    }

    /// Returns the fingerprint for new tokens, if the certificate is self-signed.
    pub(crate) fn token_fingerprint(&self) -> Option<String> {
        self.tls.as_ref().and_then(|tls| tls.token_fingerprint())
    }

    /// Resolves a job id, or a unique prefix of one, for a principal that may read the job. For a
    /// principal that reads only its own jobs, those of others are the same as unknown ids.
    pub(crate) fn resolve(&self, principal: &Principal, text: &str) -> Result<JobId, LinkError> {
        let found = self.resolve_any(text);
        if principal.only.reads == Reads::All {
            return found;
        }
        match found {
            Ok(job) if self.may_read(principal, job)? => Ok(job),
            Err(error) if matches!(error.code, ErrorCode::Invalid | ErrorCode::Internal) => Err(error),
            // The error for an ambiguous prefix lists ids, so it is not passed on either.
            Ok(_) | Err(_) => {
                let text = format!(
                    "job `{text}`: no single job of `{name}` has this id, and the token reads its own jobs only (`reads own`); `buildpool jobs` lists them",
                    name = principal.name
                );
                Err(LinkError::new(ErrorCode::UnknownJob, text))
            }
        }
    }

    /// Returns true if this principal may read this job.
    pub(crate) fn may_read(&self, principal: &Principal, job: JobId) -> Result<bool, LinkError> {
        match principal.only.reads {
            Reads::All => Ok(true),
            Reads::Own => {
                let submitter = self.reader.principal_of(job).map_err(internal)?;
                Ok(submitter.is_some_and(|submitter| submitter == principal.name))
            }
        }
    }

    fn resolve_any(&self, text: &str) -> Result<JobId, LinkError> {
        if let Ok(job) = text.parse() {
            return Ok(job);
        }
        self.reader.resolve_prefix(text).map_err(|error| {
            let code = match &error {
                ResolveError::Unknown => ErrorCode::UnknownJob,
                ResolveError::NotAnId | ResolveError::Build(_) => ErrorCode::Invalid,
                ResolveError::Ambiguous(_) => ErrorCode::Ambiguous,
                ResolveError::Store(_) => ErrorCode::Internal,
            };
            LinkError::new(code, format!("job `{text}`: {error}"))
        })
    }

    /// Returns a finished job.
    pub(crate) fn finished(&self, job: JobId) -> Result<Arc<FinishedJob>, LinkError> {
        if let Some(finished) = self.finished.get(job) {
            return Ok(finished);
        }
        match self.reader.job(job).map_err(internal)? {
            Lookup::Found(record) => Ok(Arc::new(FinishedJob { record: Arc::new(*record), digest: None })),
            Lookup::Evicted => Err(LinkError::new(
                ErrorCode::Evicted,
                format!("job {job} was here; its record and log were removed by retention"),
            )),
            Lookup::Unknown => Err(LinkError::new(
                ErrorCode::UnknownJob,
                format!("no job {job} is known here; `buildpool jobs` lists the known jobs"),
            )),
        }
    }

    /// Writes an audit line about a refused connection, unless another one was written within
    /// [`REFUSAL_NOTED_EVERY`].
    pub(crate) fn note_refused(&self, actor: Actor<'_>, why: &str) {
        self.note_seldom(&self.refusal_noted, actor, ("connection", why));
    }

    /// Writes an audit line about a request that the role forbids, unless another one was written
    /// within [`REFUSAL_NOTED_EVERY`]. The limit is separate from that of refused connections, so
    /// that peers without a token can't suppress these lines.
    pub(crate) fn note_forbidden(&self, actor: Actor<'_>, operation: &str, why: &str) {
        self.note_seldom(&self.forbidden_noted, actor, (operation, why));
    }

    fn note_seldom(&self, last: &Mutex<Option<Instant>>, actor: Actor<'_>, (subject, why): (&str, &str)) {
        {
            let mut noted = last.lock().unwrap_or_else(PoisonError::into_inner);
            if noted.is_some_and(|at| at.elapsed() < REFUSAL_NOTED_EVERY) {
                return;
            }
            *noted = Some(Instant::now());
        }
        if let Err(error) = self.tokens.audit_refused(actor, subject, why) {
            tracing::warn!(error = &error as &dyn std::error::Error, "the audit log can't be written");
        }
    }

    /// Waits until the token is no longer valid. Returns the reason.
    pub(crate) async fn revoked(&self, principal: &Principal) -> LinkError {
        loop {
            // Subscribe before the check, so that no change is missed between the two.
            let changed = self.tokens.changed();
            match self.tokens.check(principal.token) {
                // Tokens that can't be read are checked again.
                Ok(_) | Err(AuthError::Store(_)) => {}
                Err(error) => return LinkError::new(ErrorCode::Unauthorized, error.to_string()),
            }
            // Expiry and changes by other processes cause no notification, so check periodically.
            let _ = tokio::time::timeout(TOKEN_CHECK_EVERY, changed).await;
        }
    }

    /// Returns earlier passing runs of the same command and project, as far as the submitter may read them.
    pub(crate) fn history(&self, spec: &JobSpec) -> Vec<PassingRun> {
        let runs = self.reader.history(HistoryKey::from_spec(spec)).and_then(|mut runs| {
            let Some(only) = spec.access.only_submitter() else { return Ok(runs) };
            let mut own = Vec::new();
            for run in runs.drain(..) {
                if self.reader.principal_of(run.job)?.is_some_and(|submitter| submitter == only) {
                    own.push(run);
                }
            }
            Ok(own)
        });
        runs.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the history of a command can't be read"
            );
            Vec::new()
        })
    }
}

pub(crate) fn internal(error: StoreError) -> LinkError {
    tracing::error!(error = &error as &dyn std::error::Error, "records can't be read");
    if error.is_server_away() {
        let text = "the PostgreSQL server of `store.url` does not answer the coordinator; try again";
        return LinkError::new(ErrorCode::Unavailable, text);
    }
    LinkError::new(ErrorCode::Internal, "the coordinator can't read its records; its log has the reason")
}

/// Returns the milliseconds since 1970.
pub(crate) fn wall_ms() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)
}

/// Formats a time as RFC 3339, in UTC.
pub(crate) fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(
        |_| "1970-01-01T00:00:00+00:00".to_owned(),
        |at| at.display_with_offset(jiff::tz::Offset::UTC).to_string(),
    )
}

/// Converts an error of a log into the error for the reader.
pub(crate) fn internal_log(error: &LogError) -> LinkError {
    match error {
        LogError::Evicted { oldest } => LinkError::new(
            ErrorCode::Evicted,
            format!(
                "the log was here and is not kept any more: its bytes before position {oldest} were removed by retention"
            ),
        ),
        LogError::NotAPosition { .. } => LinkError::new(ErrorCode::Invalid, format!("cursor: {error}")),
        LogError::Unknown => LinkError::new(ErrorCode::NotFound, "the job has no such attempt"),
        LogError::File { .. }
        | LogError::Malformed { .. }
        | LogError::Diverged { .. }
        | LogError::TooLong { .. }
        | LogError::Sealed
        | LogError::Superseded
        | LogError::Broken
        | LogError::Corrupt { .. }
        | LogError::Damaged { .. }
        | LogError::Objects(_)
        | LogError::Store(_) => {
            tracing::error!(error = error as &dyn std::error::Error, "a log can't be read");
            LinkError::new(ErrorCode::Internal, format!("the log can't be read: {error}"))
        }
    }
}
