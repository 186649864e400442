//! Who may ask over HTTP: holders of a token of the pool. The gateway is an OAuth resource server whose tokens are made by
//! `buildpool token create`; it knows none itself and asks the coordinator, with the caller's own token, which then also
//! decides about each call.

use crate::client::{AccessToken, Client, ClientError, Endpoint, Target};
use crate::gateway::Shared;
use crate::handler::Caller;
use crate::pool::{CLIENT, Pool};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use buildpool_protocol::ErrorCode;
use buildpool_protocol::client_link::Role;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Where the metadata of a resource is, before the path of the resource itself (RFC 9728).
pub(super) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// What a token has to allow.
const SCOPE: &str = "submit";
/// Callers that are remembered.
const CALLERS_MAX: usize = 256;
/// Sessions whose holders are remembered.
const SESSIONS_MAX: usize = 4_096;
/// Names a session.
const SESSION: &str = "mcp-session-id";
/// For how long the coordinator's word on a token is good at most, while its connection stands.
const CALLER_KEPT: Duration = Duration::from_secs(600);
/// Tokens that are being asked about at once.
const QUESTIONS_MAX: usize = 16;

/// The callers that are known.
pub(super) struct Access {
    shared: Arc<Shared>,
    /// By the hash of the token.
    callers: Mutex<BTreeMap<[u8; 32], Known>>,
    questions: tokio::sync::Semaphore,
    sessions: Sessions,
}

/// Whose sessions there are, by the hash of the token that began them: who knows the name of another's has no use of it.
#[derive(Default)]
struct Sessions(Mutex<VecDeque<(HeaderValue, Holder)>>);

/// A token's hash.
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

    /// One that is forgotten is nobody's: its client begins another, as it does when a gateway was started anew.
    fn is_of(&self, session: &HeaderValue, holder: &Holder) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|(known, of)| known == session && of == holder)
    }
}

struct Known {
    pool: Arc<Pool>,
    since: Instant,
}

/// Why a request is turned away.
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
            // Nothing but the token could have vouched for the coordinator: it is of another pool, or cut short.
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

    /// Whether the gateway's own configuration says which coordinator is the right one.
    fn knows_its_coordinator(&self) -> bool {
        match &self.shared.config.target {
            Target::Named(endpoint) => endpoint.ca_file.is_some() || endpoint.fingerprint().is_some(),
            Target::Local(_) => true,
        }
    }

    /// The gateway's pool, with the caller's token. Who vouches for the coordinator to the gateway does so here: a token
    /// that says nothing of it, or something else, can be asked about and turned down all the same.
    async fn target(&self, token: AccessToken) -> Result<Target, ClientError> {
        match &self.shared.config.target {
            Target::Named(endpoint) => {
                let certificate = endpoint.fingerprint();
                Ok(Target::Named(Endpoint { token: Some(token), certificate, ..endpoint.clone() }))
            }
            Target::Local(_) => {
                // Our own connection starts it, if need be, and knows where it is.
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

/// Lets holders of tokens through, with the pool that is asked in their name.
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

/// The metadata of a resource (RFC 9728). No authorization server is named: a person makes the tokens.
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

/// As who asks reaches us; a proxy in front says so.
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
                let text = format!("the token can't be checked: {}", crate::client::chain(error));
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
