//! Streamable HTTP at `/mcp`, and further projects at `/mcp/p/NAME`. Protocol revisions with
//! sessions get sessions; the others are served stateless.

use super::access::{self, Access};
use super::origins::{self, AllowedOrigins};
use super::{ServeError, message, request_body, shutdown_signal};
use crate::config::{GatewayConfig, HttpAuth, HttpConfig, WaitBudgets};
use crate::gateway::{Project, Shared};
use crate::handler::Handler;
use crate::tools::answered_within;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use rmcp::ServerHandler;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Maximum size of a request.
const BODY_BYTES_MAX: usize = 4 << 20;
/// A session outlives the longest silent call by this time.
const SESSION_SLACK: Duration = Duration::from_secs(130);

/// A gateway that listens.
pub struct HttpServer {
    listener: TcpListener,
    router: Router,
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// Serves over HTTP until the process receives a termination signal. Running jobs continue.
///
/// # Errors
/// [`ServeError`] if the gateway can't listen or can't continue.
pub async fn serve_http(config: GatewayConfig, http: HttpConfig) -> Result<(), ServeError> {
    let auth = http.auth;
    let server = HttpServer::bind(config, http).await?;
    if auth == HttpAuth::None {
        tracing::warn!(
            address = %server.address(),
            "--http-auth none: every local user can run commands as this user; use --http-auth token on a shared machine"
        );
    }
    tracing::info!(address = %server.address(), "listening");
    server.serve(shutdown_signal()).await
}

impl HttpServer {
    /// Listens. Requests are served only after [`HttpServer::serve`].
    ///
    /// # Errors
    /// [`ServeError`] if the gateway can't listen there.
    pub async fn bind(config: GatewayConfig, http: HttpConfig) -> Result<Self, ServeError> {
        Self::bind_with(config, http, |handler| handler).await
    }

    /// As [`HttpServer::bind`], with a service around the handler of each session or request, which answers in its
    /// place: for a program that adds tools or prompts of its own.
    ///
    /// # Errors
    /// [`ServeError`] if the gateway can't listen there.
    pub async fn bind_with<S: ServerHandler>(
        mut config: GatewayConfig,
        http: HttpConfig,
        wrap: impl Fn(Handler) -> S + Clone + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let address = http.listen;
        if !address.ip().is_loopback() {
            if http.auth == HttpAuth::None {
                return Err(ServeError::OpenBeyondLoopback { address });
            }
            if !http.allow_plain {
                return Err(ServeError::PlainBeyondLoopback { address });
            }
        }
        config.directory = real_directory(&config.directory)?;
        for directory in config.projects.values_mut() {
            *directory = real_directory(directory)?;
        }
        let listener =
            TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
        let address = listener.local_addr().map_err(|source| ServeError::Listen { address, source })?;
        let is_confined = http.auth == HttpAuth::Token;
        let shared = Shared::new(config, is_confined);
        let router = router(&shared, &http, address, &wrap);
        Ok(Self { listener, router, shared, address })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `end` completes.
    ///
    /// # Errors
    /// The error of `end`, or the reason why the server can't continue.
    pub async fn serve(self, end: impl Future<Output = Result<(), ServeError>>) -> Result<(), ServeError> {
        let serving = axum::serve(self.listener, self.router);
        tokio::select! {
            served = async { serving.await } => served.map_err(ServeError::Serve),
            () = self.shared.watch() => Ok(()),
            ended = end => ended,
        }
    }
}

/// Returns the canonical path of a directory. Commands may be confined to it.
pub(super) fn real_directory(path: &Path) -> Result<PathBuf, ServeError> {
    path.canonicalize().map_err(|source| ServeError::Project { path: path.to_owned(), source })
}

fn router<S: ServerHandler>(
    shared: &Arc<Shared>,
    http: &HttpConfig,
    address: SocketAddr,
    wrap: &(impl Fn(Handler) -> S + Clone + Send + Sync + 'static),
) -> Router {
    let allowed = AllowedOrigins::new(http, address);
    let mut router = Router::new();
    // Exact paths only: a project has no paths below its own, so an unknown name must not match a
    // known project.
    let named = shared.projects.iter().map(|(name, project)| (format!("/mcp/p/{name}"), project));
    for (path, project) in named.chain([("/mcp".to_owned(), &shared.project)]) {
        let service = service(shared, project, &allowed, wrap.clone());
        router = router.route_service(&path, service.clone()).route_service(&format!("{path}/"), service);
    }
    let router = router.layer(middleware::from_fn(explain));
    let router = match http.auth {
        HttpAuth::None => router,
        HttpAuth::Token => {
            let access = Access::new(shared.clone());
            router
                .layer(middleware::from_fn_with_state(access, access::check))
                .route(access::METADATA, get(access::metadata))
                .route(&format!("{}/{{*resource}}", access::METADATA), get(access::metadata))
        }
    };
    // The layer that is added last sees a request first.
    router
        .layer(middleware::from_fn_with_state(allowed, origins::check))
        .layer(middleware::from_fn(request_body::read))
}

/// Answers an invalid body with a JSON-RPC error, before the method is looked up.
async fn explain(request: Request, next: Next) -> Response {
    if request.method() != Method::POST || !is_json(request.headers()) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        let text = format!("the request has more than {BODY_BYTES_MAX} bytes, or was cut");
        return (StatusCode::PAYLOAD_TOO_LARGE, text).into_response();
    };
    match message::read(&bytes) {
        Ok(_) => next.run(Request::from_parts(head, bytes.into())).await,
        Err(broken) => (StatusCode::BAD_REQUEST, Json(broken.answer())).into_response(),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// Returns the maximum silent time of a session. When the session ends, a later answer is lost.
fn keep_alive(waits: &WaitBudgets) -> Duration {
    answered_within(waits.longest()) + SESSION_SLACK
}

/// Returns the service of one project. Its data is behind an `Arc`, because a handler is created
/// for each session or request.
fn service<S: ServerHandler>(
    shared: &Arc<Shared>,
    project: &Arc<Project>,
    allowed: &AllowedOrigins,
    wrap: impl Fn(Handler) -> S + Send + Sync + 'static,
) -> StreamableHttpService<S, LocalSessionManager> {
    let handler = Handler { shared: shared.clone(), project: project.clone() };
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(keep_alive(&shared.config.waits));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(allowed.hosts.clone())
        .with_allowed_origins(allowed.origins())
        .enforce_origin_validation()
        .with_max_request_body_bytes(BODY_BYTES_MAX);
    StreamableHttpService::new(move || Ok(wrap(handler.clone())), Arc::new(sessions), config)
}

#[cfg(test)]
mod tests {
    use super::keep_alive;
    use crate::config::WaitBudgets;
    use crate::tools::answered_within;
    use std::time::Duration;

    #[test]
    fn a_session_outlives_the_longest_silent_call() {
        let mut waits = WaitBudgets::default();
        for longest in [1, 170, 3_600] {
            waits.by_client.insert("patient".into(), Duration::from_secs(longest));
            for client in ["patient", "claude-code", "nobody"] {
                assert!(keep_alive(&waits) > answered_within(waits.of(client)) + Duration::from_secs(60));
            }
        }
    }
}
