//! Files in before an attempt runs, and out after it: what needs both the disk and the link.

use super::account;
use super::arrange::{Arranged, Users, arrange};
use super::conclude::{ARTIFACTS, About, Concluded, conclude};
use super::home::Home;
use super::room::judged;
use crate::config::Config;
use crate::link::transfers::Transfers;
use crate::records;
use crate::workspace::{SpaceLimits, Workspaces, carry};
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::outcome::{Outcome, StartFailure};
use buildpool_protocol::worker_link::Grant;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::warn;

/// Workspaces and the way to and from them.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) workspaces: Workspaces,
    pub(super) transfers: Arc<Transfers>,
}

impl Files {
    /// At the start of a daemon: frees the workspaces of attempts that nobody holds any more.
    pub(super) fn begin(&self, held: &[AttemptId]) {
        if let Err(error) = self.workspaces.keep_only(held) {
            warn!("workspaces of earlier attempts stay taken: {error}");
        }
    }

    /// Fetches what is missing of a snapshot and lays the attempt out, unless it is stopped before.
    pub(super) async fn lay_out(
        self,
        home: Arc<Home>,
        config: Arc<Config>,
        grant: Grant,
        users: Users,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<Arranged, StartFailure> {
        tokio::select! {
            fetched = self.fetch(&grant) => fetched.map_err(judged)?,
            // The sender lives as long as the attempt is being prepared.
            _ = stopped.wait_for(|stopped| *stopped) => {
                return Err(StartFailure::Workspace { reason: "it was ended before it started".into() });
            }
        }
        let work =
            tokio::task::spawn_blocking(move || arrange(&home, &config, &self.workspaces, &grant, &users));
        let arranged = work.await;
        arranged
            .unwrap_or_else(|_| Err(StartFailure::Workspace { reason: "the worker is ending".into() }))
            .map_err(judged)
    }

    async fn fetch(&self, grant: &Grant) -> Result<(), StartFailure> {
        let (workspaces, source) = (self.workspaces.clone(), grant.spec.source.clone());
        let lacking = tokio::task::spawn_blocking(move || workspaces.lacking(&source)).await;
        let lacking =
            lacking.map_err(|_| StartFailure::Workspace { reason: "the worker is ending".into() })??;
        let Some(lacking) = lacking else { return Ok(()) };
        carry::fetch(&self.transfers, &self.workspaces, &lacking).await.map_err(|error| {
            StartFailure::Workspace { reason: with_causes("the snapshot did not come", &error) }
        })
    }

    /// Puts together what is known of an end, lets the workspace go, and sends artifacts ahead of the outcome that names
    /// them.
    pub(super) async fn conclude(
        self,
        home: Arc<Home>,
        config: Arc<Config>,
        attempt: AttemptId,
        about: About,
    ) -> io::Result<Box<Outcome>> {
        let (files, is_fenced) = (self.clone(), about.is_fenced);
        let directory = home.attempt(attempt);
        let concluded = tokio::task::spawn_blocking(move || {
            let Concluded { outcome, is_settled } =
                conclude(&home, &config, &files.workspaces, attempt, &about)?;
            // What the next daemon may have to look into again is not given to another job meanwhile.
            if is_settled {
                files.release(attempt);
            }
            Ok::<_, io::Error>(outcome)
        });
        let mut outcome = concluded.await.map_err(io::Error::other)??;
        let lease =
            records::read::<records::AttemptRecord>(&directory, records::ATTEMPT)?.map(|record| record.lease);
        let Some(lease) = lease.filter(|_| !is_fenced && !outcome.artifacts.is_empty()) else {
            return Ok(Box::new(outcome));
        };
        let mut arrived = Vec::new();
        let mut has_lost = false;
        for entry in std::mem::take(&mut outcome.artifacts) {
            let path = directory.join(ARTIFACTS).join(&entry.blake3);
            match carry::upload(&self.transfers, lease, &entry, &path).await {
                Ok(()) => arrived.push(entry),
                Err(error) => {
                    has_lost = true;
                    let what = format!("artifact `{}` could not be stored", entry.path);
                    outcome.evidence.notes.push(with_causes(&what, &error));
                }
            }
        }
        outcome.artifacts = arrived;
        if has_lost {
            account::write_down(&directory, records::RESULT, &outcome);
        }
        Ok(Box::new(outcome))
    }

    /// The workspace of an attempt may go to the next one. Blocking.
    pub(super) fn release(&self, attempt: AttemptId) {
        if let Err(error) = self.workspaces.release(attempt) {
            warn!(job = %attempt.job, attempt = attempt.number, %error, "a workspace stays taken until the worker restarts");
        }
    }

    /// Keeps the disk from filling up with workspaces. Blocking, and may take long.
    pub(super) fn collect_space(&self) {
        if let Err(error) = self.workspaces.collect_space(&SpaceLimits::default()) {
            warn!("the space of workspaces can't be looked after: {error}");
        }
    }
}

fn with_causes(what: &str, error: &dyn std::error::Error) -> String {
    let mut text = format!("{what}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
