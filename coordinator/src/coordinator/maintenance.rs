//! Periodic work of a coordinator: retention, removal of old snapshots and artifacts, renewed certificates.

use crate::app_state::{AppState, wall_ms};
use crate::store::{Logs, Lookup, Retention};
use crate::tls::Tls;
use crate::transfer::Limits;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between retention passes.
const RETAIN_EVERY: Duration = Duration::from_secs(600);
/// Interval between checks of the free space.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Delay after a pass that freed no space on a disk that is short of it. Each pass lists all logs,
/// so it is expensive.
const RETAIN_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Interval between checks of the certificate files.
const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// Runs retention at the start, then periodically and whenever the disk is short of space.
pub(super) async fn retain(logs: Logs, retention: Retention) {
    loop {
        let pass = {
            let logs = logs.clone();
            move || make_room(&logs, &retention)
        };
        let freed = tokio::task::spawn_blocking(pass).await.unwrap_or_default();
        let passed = Instant::now();
        let again = if freed { LOOK_EVERY } else { RETAIN_AGAIN_AFTER };
        loop {
            // No event reports that a disk fills up or that logs grow old.
            tokio::time::sleep(LOOK_EVERY).await;
            let (short, since) = (logs.is_short(&retention), passed.elapsed());
            if since >= RETAIN_EVERY || (short && since >= again) {
                break;
            }
        }
    }
}

/// Removes old logs. Returns true if a log was removed or the disk has enough free space.
pub(super) fn make_room(logs: &Logs, retention: &Retention) -> bool {
    match logs.make_room(retention, wall_ms()) {
        Ok(retained) => retained.logs_evicted > 0 || !logs.is_short(retention),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "old logs can't be removed");
            false
        }
    }
}

/// Periodically removes snapshots and artifacts that no job needs.
pub(super) async fn tidy_transfers(shared: Arc<AppState>) {
    loop {
        // No event reports that snapshots and artifacts grow old.
        tokio::time::sleep(RETAIN_EVERY).await;
        let pinned = shared.runtime.live_snapshots().await;
        let shared = shared.clone();
        // An error means that the coordinator ends.
        let _ended = tokio::task::spawn_blocking(move || {
            let limits = Limits {
                artifact_bytes: shared.config.artifact_bytes,
                class_bytes: shared.config.quotas.everybody.stored_snapshot_bytes.unwrap_or(u64::MAX),
            };
            shared.transfers.tidy(&pinned, limits, |job| {
                !matches!(shared.reader.job(job), Ok(Lookup::Evicted | Lookup::Unknown))
            });
        })
        .await;
    }
}

/// Reloads a renewed certificate without a restart.
pub(super) async fn reload(tls: Arc<Tls>) {
    loop {
        // No event reports a renewal, and checking two files is cheap.
        tokio::time::sleep(RELOAD_EVERY).await;
        match tls.reload() {
            Ok(true) => tracing::info!("the TLS certificate was renewed"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the renewed TLS certificate can't be used; the old one stays"
                );
            }
        }
    }
}
