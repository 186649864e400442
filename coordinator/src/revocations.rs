//! Ends the jobs of revoked tokens. Another process may revoke a token, so the tokens are also
//! checked on a timer.

use crate::app_state::{AppState, wall_ms};
use buildpool_pool::Input;
use buildpool_protocol::ids::TokenId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two checks of the tokens.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time after a revocation in which jobs of the token are searched: a late submit with the token
/// may still arrive.
const REPEAT_FOR: Duration = Duration::from_secs(60);

/// Sends each revocation that ends jobs to the pool, until the coordinator ends. The pool ignores repeats.
pub(crate) async fn end_jobs(shared: Arc<AppState>) {
    let mut sent = BTreeSet::new();
    loop {
        // Subscribe before the check, so that no change is missed.
        let changed = shared.tokens.changed();
        match shared.tokens.ending_jobs() {
            Ok(ending) => {
                let recent = wall_ms() - i64::try_from(REPEAT_FOR.as_millis()).unwrap_or(i64::MAX);
                let is_due = |token: &TokenId, at_ms: i64| at_ms >= recent || !sent.contains(token);
                let due = ending.into_iter().filter(|ends| is_due(&ends.token, ends.revoked_at_ms));
                let tokens: BTreeSet<TokenId> = due.map(|ends| ends.token).collect();
                if !tokens.is_empty() {
                    sent.extend(tokens.iter().copied());
                    shared.runtime.input(Input::Revoked { tokens }).await;
                }
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "revoked tokens can't be read; trying again"
                );
            }
        }
        // A timeout is the usual case.
        let _ = tokio::time::timeout(LOOK_EVERY, changed).await;
    }
}
