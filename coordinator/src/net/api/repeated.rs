//! A submit with the idempotency key of an earlier one.

use super::Caller;
use super::problem::Problem;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::{JobSpec, Source};

/// Refuses a submit that differs from the one that created the job, so that its sender does not take the job's result for
/// its own.
///
/// # Errors
/// The first field that differs.
pub(super) async fn check(caller: &Caller, key: &str, job: JobId, sent: &JobSpec) -> Result<(), Problem> {
    let earlier = match caller.shared.runtime.live(job).await {
        Some(live) => live.record.spec.clone(),
        None => match caller.shared.finished(job) {
            Ok(finished) => finished.record.spec.clone(),
            // Retention removed it, so there is nothing to compare.
            Err(_) => return Ok(()),
        },
    };
    let Some(field) = difference(sent, &earlier) else { return Ok(()) };
    let text = format!(
        "idempotency-key: `{}` belongs to job {job}, which has another `{field}`, so nothing was submitted; send the same \
         body again, or another key",
        key.escape_debug()
    );
    Err(Problem::unusable(LinkError::new(ErrorCode::Invalid, text)))
}

/// Returns the first field that differs. Fields that the pool may change, such as limits, are not compared.
fn difference(sent: &JobSpec, earlier: &JobSpec) -> Option<&'static str> {
    let tree = |spec: &JobSpec| match &spec.source {
        Source::Snapshot { id, .. } => Some(id.clone()),
        Source::InPlace { directory } => Some(directory.clone()),
        Source::Empty => None,
    };
    let input = |spec: &JobSpec| spec.stdin.as_ref().map(|stdin| stdin.seal.clone());
    [
        ("command", sent.command != earlier.command),
        ("snapshot", tree(sent) != tree(earlier)),
        ("cwd", sent.source.directory_inside() != earlier.source.directory_inside()),
        ("stdin", input(sent) != input(earlier)),
        ("env", sent.env != earlier.env),
        ("secrets", sent.secrets != earlier.secrets),
        ("labels", sent.selectors != earlier.selectors),
        ("resources", sent.resources != earlier.resources),
        ("reports", sent.reports != earlier.reports),
        ("artifacts", sent.artifacts != earlier.artifacts),
    ]
    .into_iter()
    .find_map(|(field, differs)| differs.then_some(field))
}
