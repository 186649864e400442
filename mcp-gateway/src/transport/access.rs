//! Access control over HTTP: requests need a token of the pool.
//!
//! The gateway is an OAuth resource server. `buildpool token create` creates the tokens. The
//! gateway stores no tokens: it connects to the coordinator with the caller's own token. The
//! coordinator then authorizes each call.

use crate::gateway::Shared;
use crate::handler::Caller;
use crate::pool::{CLIENT, Pool};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use buildpool_client::{AccessToken, Client, ClientError, Endpoint, Target};
use buildpool_protocol::ErrorCode;
use buildpool_protocol::client_link::Role;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Path prefix of the metadata of a resource (RFC 9728).
pub(super) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Scope that a token needs.
const SCOPE: &str = "submit";
/// Limit on cached callers.
const CALLERS_MAX: usize = 256;
/// Limit on sessions with a stored owner.
const SESSIONS_MAX: usize = 4_096;
/// Header with the session id.
const SESSION: &str = "mcp-session-id";
/// Maximum time that a verified token is cached while its connection is open.
const CALLER_KEPT: Duration = Duration::from_secs(600);
/// Limit on tokens that are verified at the same time.
const QUESTIONS_MAX: usize = 16;

/// Cached callers and sessions.
pub(super) struct Access {
    shared: Arc<Shared>,
    /// Keyed by the hash of the token.
    callers: Mutex<BTreeMap<[u8; 32], Known>>,
    questions: tokio::sync::Semaphore,
    sessions: Sessions,
}

/// Sessions with the hash of the token that started them. A caller with another token can't use the
/// session.
#[derive(Default)]
struct Sessions(Mutex<VecDeque<(HeaderValue, Holder)>>);

/// Hash of a token.
type Holder = [u8; 32];

impl Sessions {
    fn add(&self, session: &HeaderValue, holder: Holder) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().any(|(known, _)| known == session) {
            return;
        }
        if all.len() >= SESSIONS_MAX {
            all.pop_front();
        }
        all.push_back((session.clone(), holder));
    }

    /// Returns true if the session belongs to this token. An evicted session belongs to no token;
    /// its client starts another one, as after a restart of the gateway.
    fn is_of(&self, session: &HeaderValue, holder: &Holder) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|(known, of)| known == session && of == holder)
    }
}

struct Known {
    pool: Arc<Pool>,
    since: Instant,
}

/// Reason why a request is refused.
enum Refusal {
    NoToken,
    BadToken,
    WrongRole,
    PoolAway(ClientError),
    Busy,
}

impl Access {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let questions = tokio::sync::Semaphore::new(QUESTIONS_MAX);
        Arc::new(Self { shared, callers: Mutex::default(), questions, sessions: Sessions::default() })
    }

    async fn caller(&self, headers: &HeaderMap) -> Result<(Caller, Holder), Refusal> {
        let token = bearer(headers).ok_or(Refusal::NoToken)?;
        let token: AccessToken = token.parse().map_err(|_| Refusal::BadToken)?;
        if !token.is_well_formed() {
            return Err(Refusal::BadToken);
        }
        let hash = *blake3::hash(token.expose().as_bytes()).as_bytes();
        if let Some(pool) = self.known(&hash) {
            return Ok((Caller(pool), hash));
        }
        let Ok(_permit) = self.questions.try_acquire() else { return Err(Refusal::Busy) };
        let target = self.target(token).await.map_err(Refusal::PoolAway)?;
        let client = match Client::connect(target.clone(), CLIENT).await {
            Ok(client) => client,
            Err(ClientError::Unauthorized { .. }) => return Err(Refusal::BadToken),
            // Only the token could verify the coordinator. So the token is for another pool, or it
            // was truncated.
            Err(ClientError::Untrusted { .. }) if !self.knows_its_coordinator() => {
                return Err(Refusal::BadToken);
            }
            Err(error) if error.code() == Some(ErrorCode::Forbidden) => return Err(Refusal::WrongRole),
            Err(error) => return Err(Refusal::PoolAway(error)),
        };
        if client.pool().role == Role::Worker {
            return Err(Refusal::WrongRole);
        }
        let pool = Arc::new(Pool::connected(target, client, self.shared.pool.listings.clone()));
        self.remember(hash, pool.clone());
        Ok((Caller(pool), hash))
    }

    fn known(&self, hash: &[u8; 32]) -> Option<Arc<Pool>> {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = |known: &&Known| known.since.elapsed() < CALLER_KEPT && known.pool.is_vouched_for();
        callers.get(hash).filter(is_good).map(|known| known.pool.clone())
    }

    fn remember(&self, hash: [u8; 32], pool: Arc<Pool>) {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.retain(|_, known| known.since.elapsed() < CALLER_KEPT);
        if callers.len() >= CALLERS_MAX
            && let Some(oldest) = callers.iter().min_by_key(|(_, known)| known.since).map(|(hash, _)| *hash)
        {
            callers.remove(&oldest);
        }
        callers.insert(hash, Known { pool, since: Instant::now() });
    }

    /// Returns true if the gateway's own configuration can verify the coordinator.
    fn knows_its_coordinator(&self) -> bool {
        match &self.shared.config.target {
            Target::Named(endpoint) => endpoint.ca_file.is_some() || endpoint.fingerprint().is_some(),
            Target::Local(_) => true,
        }
    }

    /// Returns the gateway's target with the caller's token. The gateway's own configuration
    /// verifies the coordinator. So a token with a wrong or missing fingerprint is still sent to
    /// the right coordinator, which refuses it.
    async fn target(&self, token: AccessToken) -> Result<Target, ClientError> {
        match &self.shared.config.target {
            Target::Named(endpoint) => {
                let certificate = endpoint.fingerprint();
                Ok(Target::Named(Endpoint { token: Some(token), certificate, ..endpoint.clone() }))
            }
            Target::Local(_) => {
                // The gateway's own connection starts the local pool if necessary and has its
                // address.
                let pool = self.shared.pool.client().await?.pool();
                let certificate = pool.certificate;
                Ok(Target::Named(Endpoint { certificate, ..Endpoint::new(pool.url, Some(token)) }))
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Passes requests with a valid token on, with the pool connection of the caller.
pub(super) async fn check(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    match access.caller(request.headers()).await {
        Ok((caller, holder)) => {
            let session = request.headers().get(SESSION);
            if session.is_some_and(|session| !access.sessions.is_of(session, &holder)) {
                return (StatusCode::NOT_FOUND, "there is no such session").into_response();
            }
            request.extensions_mut().insert(caller);
            let response = next.run(request).await;
            if let Some(session) = response.headers().get(SESSION) {
                access.sessions.add(session, holder);
            }
            response
        }
        Err(refusal) => refusal.response(&origin_of(request.headers()), request.uri().path()),
    }
}

/// Returns the metadata of a resource (RFC 9728). It lists no authorization server, because tokens
/// are created manually.
pub(super) async fn metadata(request: Request) -> Response {
    let path = request.uri().path().strip_prefix(METADATA).unwrap_or_default();
    let path = if path.is_empty() { "/mcp" } else { path };
    let body = json!({
        "resource": format!("{}{path}", origin_of(request.headers())),
        "resource_name": "buildpool",
        "bearer_methods_supported": ["header"],
        "scopes_supported": [SCOPE],
        "resource_documentation": "https://github.com/buildpool/buildpool/blob/main/docs/mcp.md",
    });
    Json(body).into_response()
}

/// Returns the origin that the caller used, also behind a proxy that sets `x-forwarded-proto`.
fn origin_of(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = text("x-forwarded-proto").filter(|scheme| *scheme == "https").unwrap_or("http");
    let is_plain = |host: &&str| host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:[]".contains(&b));
    let host = text("host").filter(is_plain).unwrap_or("localhost");
    format!("{scheme}://{host}")
}

impl Refusal {
    fn response(&self, origin: &str, path: &str) -> Response {
        let (status, error, text) = match self {
            Self::NoToken => {
                (StatusCode::UNAUTHORIZED, None, "a token is wanted: Authorization: Bearer TOKEN".to_owned())
            }
            Self::BadToken => (
                StatusCode::UNAUTHORIZED,
                Some("invalid_token"),
                "the token is not of this pool, wrong, expired or revoked".to_owned(),
            ),
            Self::WrongRole => (
                StatusCode::FORBIDDEN,
                Some("insufficient_scope"),
                "the token is a worker's; `buildpool token create --role submit` makes one for this"
                    .to_owned(),
            ),
            Self::PoolAway(error) => {
                let text = format!("the token can't be checked: {}", buildpool_client::chain(error));
                return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], text).into_response();
            }
            Self::Busy => {
                let text = "too many tokens are being checked; try again".to_owned();
                return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")], text).into_response();
            }
        };
        let error = error.map(|error| format!("error=\"{error}\", ")).unwrap_or_default();
        let challenge =
            format!("Bearer {error}resource_metadata=\"{origin}{METADATA}{path}\", scope=\"{SCOPE}\"");
        (status, [(header::WWW_AUTHENTICATE, challenge)], text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::{bearer, origin_of};
    use axum::http::HeaderMap;

    #[test]
    fn only_a_bearer_is_a_token_and_a_host_is_not_believed_blindly() {
        let with = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            headers
        };
        assert_eq!(bearer(&with("authorization", "Bearer abc")), Some("abc"));
        assert_eq!(bearer(&with("authorization", "bearer  abc ")), Some("abc"));
        assert_eq!(bearer(&with("authorization", "Basic abc")), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
        assert_eq!(origin_of(&with("host", "pool.example:8443")), "http://pool.example:8443");
        assert_eq!(origin_of(&with("host", "a\"b")), "http://localhost");
    }
}
