//! Serves one client on standard input and output. Only protocol messages are written to standard
//! output.

use super::line_transport::Lines;
use super::{ServeError, shutdown_signal};
use crate::config::GatewayConfig;
use crate::gateway::Shared;
use crate::handler::Handler;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::{StdioReader, StdioWriter, stdio_pipes};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

/// Time after the end of input during which pending answers are still sent.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Serves one client until it closes standard input or the process receives a termination signal.
/// Running jobs continue. A client that disconnects without a call is not an error. The caller must
/// end the process: a read of standard input may still block a thread of the runtime.
///
/// # Errors
/// If signal handlers can't be installed, or the project's directory can't be used.
pub async fn serve_stdio(config: GatewayConfig) -> Result<(), ServeError> {
    let mut config = config;
    config.directory = super::http::real_directory(&config.directory)?;
    let shared = Shared::new(config, false);
    let project = shared.project.clone();
    let handler = Handler { shared: shared.clone(), project };
    let (input, output) = stdio_pipes();
    let end = Arc::new(Notify::new());
    let input = UntilEnd { input, end: end.clone() };
    let client_is_gone = async {
        end.notified().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = serve(handler, input, output) => Ok(()),
        () = client_is_gone => Ok(()),
        () = shared.watch() => Ok(()),
        ended = shutdown_signal() => ended,
    }
}

async fn serve(handler: Handler, input: UntilEnd, output: StdioWriter) {
    match handler.serve(Lines::new(input, output)).await {
        Ok(running) => {
            if let Err(error) = running.waiting().await {
                tracing::error!(%error, "the service ended badly");
            }
        }
        // A client that only lists tools, or sends nothing, may disconnect.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {}
        Err(error) => tracing::warn!(%error, "the client did not begin as a client does"),
    }
}

/// Standard input that signals its end. Otherwise the service would wait for calls that have no
/// client any more.
struct UntilEnd {
    input: StdioReader,
    end: Arc<Notify>,
}

impl AsyncRead for UntilEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_over = match &polled {
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_over {
            self.end.notify_one();
        }
        polled
    }
}
