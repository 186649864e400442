//! One client, on standard input and output. Nothing but protocol goes to standard output.

use super::{ServeError, asked_to_end};
use crate::config::GatewayConfig;
use crate::gateway::Shared;
use crate::handler::Handler;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;

/// Serves one client until it closes our standard input or somebody ends us; jobs go on. A client that only looks and goes
/// is no error. The caller ends the process: a read of standard input may still be under way on a thread of the runtime.
///
/// # Errors
/// When signals can't be heard, or the project's directory can't be used.
pub async fn serve_stdio(config: GatewayConfig) -> Result<(), ServeError> {
    let mut config = config;
    config.directory = super::http::real_directory(&config.directory)?;
    let shared = Shared::new(config, false);
    let project = shared.project.clone();
    let handler = Handler { shared: shared.clone(), project };
    tokio::select! {
        () = serve(handler) => Ok(()),
        () = shared.watch() => Ok(()),
        ended = asked_to_end() => ended,
    }
}

async fn serve(handler: Handler) {
    match handler.serve(stdio_pipes()).await {
        Ok(running) => {
            if let Err(error) = running.waiting().await {
                tracing::error!(%error, "the service ended badly");
            }
        }
        // Whoever only asked what there is, or nothing at all, may go.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {}
        Err(error) => tracing::warn!(%error, "the client did not begin as a client does"),
    }
}
