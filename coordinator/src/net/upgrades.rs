//! Requests to replace the program of a worker.

use super::request_context::RequestContext;
use super::requests::{on_worker, require_admin};
use buildpool_pool::Input;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::upgrade::UpgradeOrder;

/// Passes an order to a worker. The program must be here, so that the worker does not wait for it.
pub(super) async fn order(
    context: &RequestContext,
    request: u32,
    worker: &str,
    order: UpgradeOrder,
) -> Result<(), LinkError> {
    require_admin(context, "upgrading a worker")?;
    let (transfers, program) = (context.shared.transfers.clone(), order.blake3.clone());
    let found = tokio::task::spawn_blocking(move || transfers.program(&program)).await;
    if found.ok().flatten() != Some(order.length) {
        let text = format!(
            "upgrade: the program {} with {} bytes is not on this coordinator; send it first, as `buildpool workers upgrade` does",
            order.blake3, order.length
        );
        return Err(LinkError::new(ErrorCode::NotFound, text));
    }
    let decide = |client, worker| Input::Upgrade { client, worker, order };
    on_worker(context, request, ("upgrading a worker", "upgrade"), worker, decide).await
}
