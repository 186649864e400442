//! The calls of a client that administer a pool: workers, tokens and the audit log.

use super::client::Client;
use super::error::ClientError;
use super::request::{
    ApproveWorker, CreateToken, Drain, ForgetWorker, ListTokens, ListWorkers, ReadAudit, RevokeToken,
    RevokedTokens, RotateToken, UpgradeWorker,
};
use buildpool_protocol::client_link::{AuditEntry, Role, TokenCreated, TokenSummary, WorkerSummary};
use buildpool_protocol::spec::Restriction;
use buildpool_protocol::upgrade::UpgradeOrder;
use std::time::Duration;

impl Client {
    /// Returns the workers, sorted by name.
    ///
    /// # Errors
    /// Errors of the link.
    pub async fn workers(&self) -> Result<Vec<WorkerSummary>, ClientError> {
        let mut all: Vec<WorkerSummary> = Vec::new();
        loop {
            let offset = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let page = self.call(ListWorkers { offset }).await?;
            // An answer without progress would repeat for ever.
            let is_last = !page.more || page.workers.is_empty();
            all.extend(page.workers);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Drains a worker, or resumes it.
    ///
    /// # Errors
    /// `not_found`, `forbidden`, and errors of the link.
    pub async fn drain(
        &self,
        worker: &str,
        draining: bool,
        deadline: Option<Duration>,
    ) -> Result<Vec<WorkerSummary>, ClientError> {
        Ok(self.call(Drain { worker: worker.to_owned(), draining, deadline }).await?.workers)
    }

    /// Creates a token. The request is sent at most once: after [`ClientError::Interrupted`], check
    /// the list.
    ///
    /// # Errors
    /// `forbidden`, `conflict`, `invalid`, and errors of the link.
    pub async fn token_create(
        &self,
        role: Role,
        name: &str,
        expires: Option<Duration>,
    ) -> Result<TokenCreated, ClientError> {
        self.token_create_restricted(role, name, expires, Restriction::default()).await
    }

    /// As [`Client::token_create`], with limits on where the jobs of the token may run.
    ///
    /// # Errors
    /// As [`Client::token_create`].
    pub async fn token_create_restricted(
        &self,
        role: Role,
        name: &str,
        expires: Option<Duration>,
        only: Restriction,
    ) -> Result<TokenCreated, ClientError> {
        self.call(CreateToken { role, name: name.to_owned(), expires, only }).await
    }

    /// Returns the tokens, in the order of their creation.
    ///
    /// # Errors
    /// `forbidden`, and errors of the link.
    pub async fn tokens(&self) -> Result<Vec<TokenSummary>, ClientError> {
        self.call(ListTokens {}).await
    }

    /// Revokes a token, or all tokens of a name. The jobs that were submitted with it end, unless
    /// `keep_jobs`.
    ///
    /// # Errors
    /// `not_found`, `forbidden`, and errors of the link.
    pub async fn token_revoke(&self, token: &str, keep_jobs: bool) -> Result<RevokedTokens, ClientError> {
        self.call(RevokeToken { token: token.to_owned(), keep_jobs }).await
    }

    /// Rotates a token: replaces it by a new one with the same name and role. The request is sent
    /// at most once: after [`ClientError::Interrupted`], check the list.
    ///
    /// # Errors
    /// `not_found`, `ambiguous`, `forbidden`, and errors of the link.
    pub async fn token_rotate(
        &self,
        token: &str,
        grace: Duration,
        expires: Option<Duration>,
    ) -> Result<TokenCreated, ClientError> {
        self.call(RotateToken { token: token.to_owned(), grace, expires }).await
    }

    /// Approves a worker that waits for an operator's approval.
    ///
    /// # Errors
    /// `not_found`, `forbidden`, and errors of the link.
    pub async fn approve(&self, worker: &str) -> Result<Vec<WorkerSummary>, ClientError> {
        Ok(self.call(ApproveWorker { worker: worker.to_owned() }).await?.workers)
    }

    /// Frees the name of a worker that will not return.
    ///
    /// # Errors
    /// `not_found`, `conflict` while the worker may return to jobs, `forbidden`, and errors of the
    /// link.
    pub async fn forget_worker(&self, worker: &str) -> Result<Vec<WorkerSummary>, ClientError> {
        Ok(self.call(ForgetWorker { worker: worker.to_owned() }).await?.workers)
    }

    /// Passes an order to replace its program to a drained worker. The program was sent by [`crate::programs::send`].
    ///
    /// # Errors
    /// `not_found`, `conflict` for a worker that is not drained, `forbidden`, and errors of the link.
    pub async fn upgrade(
        &self,
        worker: &str,
        order: UpgradeOrder,
    ) -> Result<Vec<WorkerSummary>, ClientError> {
        Ok(self.call(UpgradeWorker { worker: worker.to_owned(), order }).await?.workers)
    }

    /// Returns the last lines of the audit log, newest first. Reads as many pages as necessary.
    ///
    /// # Errors
    /// `forbidden`, and errors of the link.
    pub async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, ClientError> {
        let mut entries: Vec<AuditEntry> = Vec::new();
        loop {
            let left = limit.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
            let before = entries.last().map(|entry| entry.seq);
            // A coordinator that sends no sequence numbers has no further page.
            if left == 0 || before == Some(0) {
                return Ok(entries);
            }
            let page = self.call(ReadAudit { limit: left, before }).await?;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }
}
