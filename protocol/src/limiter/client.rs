//! Limits of the messages between a client and the coordinator.

use super::{Limited, Limiter};
use crate::client_link::{FromClient, JobQuery, LogQuery, SubmitMessage, ToClient, View};
use crate::error::{ErrorCode, LinkError};
use crate::limits::{
    ENVIRONMENT_BYTES_MAX, LIST_MAX, LOG_LENGTH_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, PROGRAM_BYTES_MAX,
    REGISTER_TRIAL_MAX, SNAPSHOT_NOTES_MAX, TEXT_BYTES_MAX,
};
use crate::report::SnapshotInfo;
use crate::spec::TemplateSpec;
use crate::stdin::StdinEnd;
use crate::upgrade::UpgradeOrder;

impl Limited for FromClient {
    fn limit(&mut self, limiter: &mut Limiter) {
        match self {
            Self::Register { protocol: _, client } => limiter.text("client", client, TEXT_BYTES_MAX),
            Self::Submit { request: _, submit } => submit.limit(limiter),
            Self::Job { request: _, job, view, wait: _, progress: _ } => {
                limiter.name("job", job, NAME_BYTES_MAX);
                view.limit(limiter);
            }
            Self::Logs { request: _, query } => query.limit(limiter),
            Self::Finding { request: _, job, finding } => {
                limiter.name("job", job, NAME_BYTES_MAX);
                limiter.name("finding", finding, NAME_BYTES_MAX);
            }
            // A cursor and a tail are limited by the log itself.
            Self::Follow { request: _, job, cursor: _, attempt: _, to_end: _, tail: _, stream: _ }
            | Self::Explain { request: _, job } => limiter.name("job", job, NAME_BYTES_MAX),
            Self::Retry { request: _, job, new: _, client_request_id, worker } => {
                limiter.name("job", job, NAME_BYTES_MAX);
                if let Some(text) = client_request_id {
                    limiter.text("client_request_id", text, TEXT_BYTES_MAX);
                }
                if let Some(name) = worker {
                    limiter.name("worker", name, TEXT_BYTES_MAX);
                }
            }
            Self::Cancel { request: _, job, reason } => {
                limiter.name("job", job, NAME_BYTES_MAX);
                limiter.text("cancel reason", reason, TEXT_BYTES_MAX);
            }
            Self::Drain { request: _, worker, draining: _, deadline: _ }
            | Self::Approve { request: _, worker }
            | Self::Forget { request: _, worker } => limiter.name("worker", worker, TEXT_BYTES_MAX),
            Self::Upgrade { request: _, worker, order } => {
                limiter.name("worker", worker, TEXT_BYTES_MAX);
                order.limit(limiter);
            }
            Self::TokenCreate { request: _, role: _, name, expires: _, only } => {
                limiter.name("token", name, NAME_BYTES_MAX);
                limiter.result(
                    only.check().map_err(|error| LinkError::new(ErrorCode::Invalid, error.to_string())),
                );
            }
            Self::TokenRevoke { request: _, token, keep_jobs: _ }
            | Self::TokenRotate { request: _, token, grace: _, expires: _ } => {
                limiter.name("token", token, NAME_BYTES_MAX);
            }
            Self::Jobs { request: _, query, limit: _ } => {
                let JobQuery { submitter, label, worker, command, project, .. } = query;
                for text in [submitter, label, worker, command, project].into_iter().flatten() {
                    limiter.text("jobs filter", text, TEXT_BYTES_MAX);
                }
            }
            Self::StdinEnd { request: _, end } => end.limit(limiter),
            // The coordinator lowers each `limit` to the maximum size of its answer.
            Self::Taken { request: _, position: _ }
            | Self::Unfollow { request: _ }
            | Self::Workers { request: _, offset: _ }
            | Self::TokenList { request: _ }
            | Self::Audit { request: _, limit: _, before: _ } => {}
            Self::Transfer(step) => step.limit(limiter),
        }
    }
}

impl Limited for StdinEnd {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { seal, reason } = self;
        limiter.number("stdin", &mut seal.length, LOG_LENGTH_MAX);
        limiter.name("stdin checksum", &seal.blake3, NAME_BYTES_MAX);
        limiter.optional("stdin", reason, TEXT_BYTES_MAX);
    }
}

impl Limited for UpgradeOrder {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { id: _, version, blake3: _, length, register_within } = self;
        limiter.name("version", version, NAME_BYTES_MAX);
        limiter.number("program", length, PROGRAM_BYTES_MAX);
        if *register_within > REGISTER_TRIAL_MAX {
            let (given, most) = (register_within.as_secs(), REGISTER_TRIAL_MAX.as_secs());
            limiter.refuse("register_within", &format!("{given} s; at most {most} s are valid"));
        }
    }
}

impl Limited for SubmitMessage {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self {
            job: _,
            spec,
            client_request_id,
            attach: _,
            secrets,
            snapshot,
            wait: _,
            follow: _,
            progress: _,
        } = self;
        limiter.result(spec.check().map_err(|error| LinkError::new(ErrorCode::Invalid, error.to_string())));
        if let Some(id) = client_request_id {
            limiter.name("client_request_id", id, TEXT_BYTES_MAX);
        }
        limiter.count("secrets", secrets.len(), LIST_MAX);
        for (name, value) in secrets {
            limiter.name("secret", name, TEXT_BYTES_MAX);
            limiter.name("value of a secret", &value.0, ENVIRONMENT_BYTES_MAX);
        }
        if let Some(snapshot) = snapshot {
            snapshot.limit(limiter);
        }
    }
}

impl Limited for SnapshotInfo {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { id, files: _, kept_back, left_behind, setup_suggestion, changed_meanwhile, notes } = self;
        limiter.name("snapshot", id, NAME_BYTES_MAX);
        limiter.optional("setup_suggestion", setup_suggestion, TEXT_BYTES_MAX);
        for list in [kept_back, left_behind, changed_meanwhile, notes] {
            limiter.texts("snapshot", list, SNAPSHOT_NOTES_MAX, PATH_BYTES_MAX);
        }
    }
}

impl Limited for View {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { verbosity: _, template, characters_max: _, for_json: _ } = self;
        limiter.result(
            template
                .as_ref()
                .map_or(Ok(()), TemplateSpec::check)
                .map_err(|error| LinkError::new(ErrorCode::Invalid, error.to_string())),
        );
    }
}

impl Limited for LogQuery {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self {
            job,
            attempt: _,
            stream: _,
            // Positions are limited by the log itself. The coordinator lowers the others to the
            // maximum size of its answer.
            tail: _,
            cursor: _,
            offset: _,
            limit: _,
            grep,
            context: _,
            characters_max: _,
            characters_together: _,
        } = self;
        limiter.name("job", job, NAME_BYTES_MAX);
        if let Some(pattern) = grep {
            limiter.name("grep", pattern, PATH_BYTES_MAX);
        }
    }
}

/// No field limits: a client trusts the pool that its user configured. The size of the message and
/// each duration are limited by the parser.
impl Limited for ToClient {
    fn limit(&mut self, _limiter: &mut Limiter) {}
}
