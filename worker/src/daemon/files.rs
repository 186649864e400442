//! File transfer before and after an attempt: work that needs both the disk and the link.

use super::attempt::ENDED_BEFORE_START;
use super::capacity::classify;
use super::data_directory::DataDirectory;
use super::fallback_outcome;
use super::final_outcome::{ARTIFACTS, BuiltOutcome, OutcomeContext, build_outcome};
use super::preparation::{PreparedAttempt, Users, prepare};
use crate::config::Config;
use crate::link::transfers::Transfers;
use crate::platform::cgroup::DelegatedGroups;
use crate::records;
use crate::workspace::{MissingSnapshot, SpaceLimits, Workspaces, transfer};
use buildpool_objects::Stop;
use buildpool_protocol::error::chain;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::outcome::{Outcome, StartFailure};
use buildpool_protocol::spec::Source;
use buildpool_protocol::worker_link::Grant;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::warn;

/// Workspaces, and transfers to and from them.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) workspaces: Workspaces,
    pub(super) space: SpaceLimits,
    pub(super) transfers: Arc<Transfers>,
    /// The control groups of attempts, where systemd delegates them.
    pub(super) groups: Option<DelegatedGroups>,
}

impl Files {
    /// Frees the workspaces of attempts that are no longer held. Called at the start of a daemon.
    pub(super) fn begin(&self, held: &[AttemptId]) {
        if let Err(error) = self.workspaces.keep_only(held) {
            warn!("workspaces of earlier attempts stay taken: {error}");
        }
    }

    /// Fetches missing objects of a snapshot and prepares the attempt, unless it is stopped.
    pub(super) async fn lay_out(
        self,
        data_directory: Arc<DataDirectory>,
        config: Arc<Config>,
        grant: Grant,
        users: Users,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<PreparedAttempt, StartFailure> {
        let stop = Stop::default();
        let workspaces = self.workspaces.stopped_by(&stop).of_class(&grant.spec.access.class);
        let files = Self { workspaces, ..self };
        let (mut cancelled, stop_early) = (stopped.clone(), stop.clone());
        let _watching = AbortOnDrop(tokio::spawn(async move {
            if cancelled.wait_for(|stopped| *stopped).await.is_ok() {
                stop_early.stop();
            }
        }));
        let prepared = files.lay_out_with(data_directory, config, grant, users, &mut stopped).await;
        // The task above may not have run yet. A cancelled fetch may leave work on the disk.
        if *stopped.borrow() {
            stop.stop();
        }
        prepared
    }

    async fn lay_out_with(
        self,
        data_directory: Arc<DataDirectory>,
        config: Arc<Config>,
        grant: Grant,
        users: Users,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<PreparedAttempt, StartFailure> {
        self.fetch_unless_stopped(&grant, stopped).await?;
        let work = (data_directory, config, grant, users);
        let prepared = self.prepare(work.clone()).await;
        // Retry once: damaged objects have been removed and are fetched again.
        if prepared.is_err() && matches!(self.missing(&work.2).await, Ok(Some(_))) {
            self.fetch_unless_stopped(&work.2, stopped).await?;
            return self.prepare(work).await.map_err(classify);
        }
        prepared.map_err(classify)
    }

    async fn prepare(
        &self,
        work: (Arc<DataDirectory>, Arc<Config>, Grant, Users),
    ) -> Result<PreparedAttempt, StartFailure> {
        let (workspaces, groups) = (self.workspaces.clone(), self.groups.clone());
        let work = tokio::task::spawn_blocking(move || {
            let (data_directory, config, grant, users) = work;
            prepare(&data_directory, &config, &workspaces, groups.as_ref(), &grant, &users)
        });
        work.await.unwrap_or_else(|_| Err(ending()))
    }

    async fn fetch_unless_stopped(
        &self,
        grant: &Grant,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), StartFailure> {
        tokio::select! {
            fetched = self.fetch(grant) => fetched.map_err(classify),
            // The sender lives as long as the attempt is being prepared.
            _ = stopped.wait_for(|stopped| *stopped) => {
                Err(StartFailure::Workspace { reason: ENDED_BEFORE_START.into() })
            }
        }
    }

    async fn missing(&self, grant: &Grant) -> Result<Option<MissingSnapshot>, StartFailure> {
        // Only a snapshot has parts to fetch, so other sources need no thread for the disk.
        if !matches!(grant.spec.source, Source::Snapshot { .. }) {
            return Ok(None);
        }
        let (workspaces, source) = (self.workspaces.clone(), grant.spec.source.clone());
        let missing = tokio::task::spawn_blocking(move || workspaces.missing(&source)).await;
        Ok(missing.map_err(|_| ending())??)
    }

    async fn fetch(&self, grant: &Grant) -> Result<(), StartFailure> {
        let Some(missing) = self.missing(grant).await? else { return Ok(()) };
        transfer::fetch(&self.transfers, &self.workspaces, &missing).await.map_err(|error| {
            StartFailure::Workspace { reason: with_causes("the snapshot did not come", &error) }
        })
    }

    /// Builds the outcome, releases the workspace, and sends artifacts before the outcome that
    /// lists them.
    pub(super) async fn build_outcome(
        self,
        data_directory: Arc<DataDirectory>,
        config: Arc<Config>,
        attempt: AttemptId,
        context: OutcomeContext,
    ) -> io::Result<Box<Outcome>> {
        let (files, is_fenced) = (self.clone(), context.is_fenced);
        let directory = data_directory.attempt(attempt);
        let concluded = tokio::task::spawn_blocking(move || {
            let BuiltOutcome { outcome, is_settled, lease } =
                build_outcome(&data_directory, &config, &files.workspaces, attempt, &context)?;
            // Keep the workspace if the next daemon may need it to build the outcome again.
            if is_settled && context.holds_workspace {
                files.release(attempt);
            }
            Ok::<_, io::Error>((outcome, lease))
        });
        let (mut outcome, lease) = concluded.await.map_err(io::Error::other)??;
        if is_fenced || outcome.artifacts.is_empty() {
            return Ok(Box::new(outcome));
        }
        let Some(lease) = lease else { return Ok(Box::new(outcome)) };
        let mut arrived = Vec::new();
        let mut has_lost = false;
        for entry in std::mem::take(&mut outcome.artifacts) {
            let path = directory.join(ARTIFACTS).join(&entry.blake3);
            match transfer::upload(&self.transfers, lease, &entry, &path).await {
                Ok(()) => arrived.push(entry),
                Err(error) => {
                    has_lost = true;
                    let operation = format!("artifact `{}` could not be stored", entry.path);
                    outcome.evidence.notes.push(with_causes(&operation, &error));
                }
            }
        }
        outcome.artifacts = arrived;
        if has_lost {
            fallback_outcome::write_down(&directory, records::RESULT, attempt, &outcome);
        }
        Ok(Box::new(outcome))
    }

    /// Releases the workspace of an attempt. Blocking.
    pub(super) fn release(&self, attempt: AttemptId) {
        if let Err(error) = self.workspaces.release(attempt) {
            warn!(job = %attempt.job, attempt = attempt.number, %error, "a workspace stays taken until the worker restarts");
        }
    }

    /// Removes idle workspaces immediately while disk space is low. Blocking.
    pub(super) fn make_room(&self) {
        if let Err(error) = self.workspaces.make_room(&self.space) {
            warn!("no space can be made: {error}");
        }
    }

    /// Cleans up workspaces, so that they do not fill the disk. Blocking, and may take long.
    pub(super) fn collect_space(&self) {
        if let Err(error) = self.workspaces.collect_space(&self.space) {
            warn!("the space of workspaces can't be looked after: {error}");
        }
    }
}

/// A task that is aborted on drop.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn ending() -> StartFailure {
    StartFailure::Workspace { reason: "the worker is ending".into() }
}

fn with_causes(operation: &str, error: &dyn std::error::Error) -> String {
    format!("{operation}: {}", chain(error))
}
