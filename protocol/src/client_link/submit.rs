//! What to run, and how much of its result to show.

use crate::error::{ErrorCode, LinkError};
use crate::frame::encoded_length;
use crate::ids::JobId;
use crate::limits::CONTROL_MESSAGE_BYTES_MAX;
use crate::spec::{JobSpec, TemplateSpec, Verbosity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What to run and what to send back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SubmitMessage {
    /// Minted by the client: sending it twice is one job.
    pub job: JobId,
    /// What.
    pub spec: JobSpec,
    /// The same text by the same principal is the same job.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// Without a request id: attach to an earlier equal submit whose answer was not delivered.
    #[serde(default)]
    pub attach: bool,
    /// Values of the secrets that the spec names.
    #[serde(default)]
    pub secrets: BTreeMap<String, Secret>,
    /// What the snapshot left out or noticed, to be shown with the result.
    #[serde(default)]
    pub snapshot: Option<crate::report::SnapshotInfo>,
    /// Send `complete` when the job is done.
    #[serde(default)]
    pub wait: bool,
    /// Send the output while it runs, on the channel of the request.
    #[serde(default)]
    pub follow: bool,
    /// Send `progress` while it waits and runs.
    #[serde(default)]
    pub progress: bool,
}

/// The value of a secret. Shows itself to serializers only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a grant says beside what to run and the secrets, in bytes: a lease, and what a quota changes.
const GRANT_ROOM_BYTES: usize = 4 << 10;

/// Checks that a job can be asked for, and granted, in one message.
///
/// # Errors
/// `too_large` with what takes how much of it.
pub fn check_length(spec: &JobSpec, secrets: &BTreeMap<String, Secret>) -> Result<(), LinkError> {
    let most = CONTROL_MESSAGE_BYTES_MAX - GRANT_ROOM_BYTES;
    let (whole, hidden) = (encoded_length(spec), encoded_length(secrets));
    if whole + hidden <= most {
        return Ok(());
    }
    let (command, env) = (encoded_length(&spec.command), encoded_length(&spec.env));
    Err(LinkError::new(
        ErrorCode::TooLarge,
        format!(
            "the job takes {} bytes of a message, in which a control character takes six: command {command}, env {env}, \
             secrets {hidden}; at most {most} are valid",
            whole + hidden
        ),
    ))
}

/// How much of a result to show.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct View {
    /// What the job asked for if absent.
    pub verbosity: Option<Verbosity>,
    /// What the job asked for if absent.
    pub template: Option<TemplateSpec>,
    /// Fewer characters of text than the verbosity gives, for a client that takes no more.
    pub characters_max: Option<usize>,
}
