//! Quotas of submitters, and their current use.

use super::document::Refused;
use super::problem::Problem;
use super::{Caller, require_admin};
use axum::Json;
use buildpool_pool::Quota;
use buildpool_protocol::client_link::Role;
use buildpool_protocol::error::{ErrorCode, LinkError};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use utoipa::ToSchema;

/// Quotas of all submitters.
#[derive(Serialize, ToSchema)]
pub(super) struct QuotaList {
    /// The quota of a submitter without one of its own.
    default: Limits,
    /// Submitters with a token, a quota of their own, or live jobs, sorted by name.
    submitters: Vec<SubmitterQuota>,
}

/// Limits of a submitter, named as in the coordinator's configuration. There is no limit where one is absent.
#[derive(Serialize, ToSchema)]
pub(super) struct Limits {
    /// Waiting jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_jobs: Option<usize>,
    /// Running jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    running_jobs: Option<usize>,
    /// Run time of a job, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_secs: Option<u64>,
    /// Bytes of the log of an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_bytes: Option<u64>,
    /// Bytes that one snapshot transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_bytes: Option<u64>,
    /// Bytes of all stored snapshots of the submitter, or of the team that shares them.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_snapshot_bytes: Option<u64>,
}

/// The current use of a submitter.
#[derive(Serialize, ToSchema)]
pub(super) struct InUse {
    /// Waiting jobs.
    queued_jobs: usize,
    /// Running jobs.
    running_jobs: usize,
    /// Bytes of all stored snapshots of the submitter, or of the team that shares them.
    stored_snapshot_bytes: u64,
}

/// The quota of a submitter.
#[derive(Serialize, ToSchema)]
pub(super) struct SubmitterQuota {
    /// Name of the token.
    submitter: String,
    limits: Limits,
    in_use: InUse,
}

impl From<Quota> for Limits {
    fn from(quota: Quota) -> Self {
        let Quota { queued_jobs, running_jobs, job_time, log_bytes, snapshot_bytes, stored_snapshot_bytes } =
            quota;
        let job_secs = job_time.map(|time| time.as_secs());
        Self { queued_jobs, running_jobs, job_secs, log_bytes, snapshot_bytes, stored_snapshot_bytes }
    }
}

/// Lists the quotas of submitters, and their current use. Only for admins.
#[utoipa::path(get, operation_id = "list_quotas", path = "/quotas", tag = "tokens",
    responses((status = 200, body = QuotaList), Refused))]
pub(super) async fn list(caller: Caller) -> Result<Json<QuotaList>, Problem> {
    require_admin(&caller, "quotas")?;
    let shared = &caller.shared;
    shared.rates.within(&caller.principal.name, Instant::now())?;
    let _turn = shared.request_limits.list(&caller.principal.name).await;
    let quotas = &shared.config.quotas;
    let live = shared.runtime.live_by_submitter().await;
    let tokens = shared.tokens.list().map_err(crate::app_state::internal)?;
    let submits = |role| matches!(role, Role::Submit | Role::Admin);
    let with_token = tokens.iter().filter(|token| token.revoked_at.is_none() && submits(token.role));
    let mut names: BTreeSet<&str> = with_token.map(|token| token.name.as_str()).collect();
    names.extend(quotas.submitters.keys().map(String::as_str));
    names.extend(live.keys().map(String::as_str));
    let classes = names.iter().map(|name| shared.trust.class_of(name)).collect();
    let stored = stored(&caller, classes).await?;
    let submitters = names.into_iter().map(|name| {
        let jobs = live.get(name).copied().unwrap_or_default();
        let stored_snapshot_bytes = stored.get(&shared.trust.class_of(name)).copied().unwrap_or_default();
        SubmitterQuota {
            submitter: name.to_owned(),
            limits: quotas.of(name).into(),
            in_use: InUse { queued_jobs: jobs.queued, running_jobs: jobs.running, stored_snapshot_bytes },
        }
    });
    Ok(Json(QuotaList { default: quotas.everybody.into(), submitters: submitters.collect() }))
}

/// Returns the bytes of the stored snapshots of each class.
async fn stored(caller: &Caller, classes: BTreeSet<String>) -> Result<BTreeMap<String, u64>, LinkError> {
    let store = caller.shared.transfers.clone();
    let counted = tokio::task::spawn_blocking(move || store.bytes_by_class(classes)).await;
    counted.map_err(|error| {
        LinkError::new(ErrorCode::Internal, format!("the stored snapshots can't be counted: {error}"))
    })
}
