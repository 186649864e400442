//! What a client says.

use super::{Cursor, LogQuery, Role, StreamChoice, SubmitMessage, ToClient, View};
use crate::duration;
use crate::frame;
use crate::ids::{BuildId, JobId};
use crate::limiter;
use crate::report::JobState;
use crate::transfer;
use crate::version::VersionRange;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a client says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromClient {
    /// The first message of a connection.
    Register {
        /// What it speaks.
        protocol: VersionRange,
        /// Name and version of the software.
        client: String,
    },
    /// Run this.
    Submit {
        /// Repeated in the answers.
        request: u32,
        /// What, and what to send back.
        submit: Box<SubmitMessage>,
    },
    /// How is this job?
    Job {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// How much to show.
        #[serde(default)]
        view: View,
        /// Answer when the job is done, or after this long.
        #[serde(default, with = "duration")]
        wait: Duration,
        /// Send `progress` until then.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        progress: bool,
    },
    /// Send the log of a job from a position on, and go on while it grows.
    Follow {
        /// Names the channel; repeated in the answers.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// From here; the start of the newest attempt if absent.
        #[serde(default)]
        cursor: Option<Cursor>,
        /// Which attempt, without a cursor.
        #[serde(default)]
        attempt: Option<u32>,
        /// Stop at the present end instead of waiting for more.
        #[serde(default)]
        to_end: bool,
        /// Begin so that about this many of the last lines come, of the stream where it is one.
        #[serde(default)]
        tail: Option<u64>,
        /// Where a stretch of the log has nothing of the one stream that is asked for, it may be left out: what comes
        /// after begins at a later position.
        #[serde(default)]
        stream: StreamChoice,
    },
    /// Output up to this position has been taken; lets more come.
    Taken {
        /// The channel.
        request: u32,
        /// Bytes of the log, chunk headers included.
        position: u64,
    },
    /// Stop sending to this channel: the log that is followed on it, else the end that is waited for, be it by `submit` or by `job`. The job goes on, and
    /// its result does not count as delivered.
    Unfollow {
        /// The channel.
        request: u32,
    },
    /// A part of a log as text.
    Logs {
        /// Repeated in the answer.
        request: u32,
        /// Which part.
        query: LogQuery,
    },
    /// One finding, whole and uncompressed.
    Finding {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// As listed.
        finding: String,
    },
    /// Why this verdict.
    Explain {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
    },
    /// Which jobs are there?
    Jobs {
        /// Repeated in the answer.
        request: u32,
        /// Only those in this state.
        #[serde(default)]
        state: Option<JobState>,
        /// Only those of this build.
        #[serde(default)]
        build: Option<BuildId>,
        /// At most this many, newest first.
        limit: u32,
    },
    /// Submit the spec and the snapshot of a job again, as a new job. Answered by `accepted`.
    Retry {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// Id of the new job, minted by the client: sending it twice is one job.
        new: JobId,
    },
    /// End a job.
    Cancel {
        /// Repeated in the answer.
        request: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// In the asker's words.
        #[serde(default)]
        reason: String,
    },
    /// Which workers are there?
    Workers {
        /// Repeated in the answer.
        request: u32,
    },
    /// Empty a worker, or let it take jobs again.
    Drain {
        /// Repeated in the answer.
        request: u32,
        /// Its name.
        worker: String,
        /// Whether to drain.
        draining: bool,
        /// After how long what still runs is ended; never if absent.
        #[serde(default, with = "duration::option")]
        deadline: Option<Duration>,
    },
    /// Make a token.
    TokenCreate {
        /// Repeated in the answer.
        request: u32,
        /// For what.
        role: Role,
        /// For whom.
        name: String,
        /// Until when; for ever if absent.
        #[serde(default, with = "duration::option")]
        expires: Option<Duration>,
    },
    /// Which tokens are there?
    TokenList {
        /// Repeated in the answer.
        request: u32,
    },
    /// Let a token end, and the connections that were opened with it.
    TokenRevoke {
        /// Repeated in the answer.
        request: u32,
        /// Its id or its name.
        token: String,
    },
    /// Replace a token by a new one of the same name and role.
    TokenRotate {
        /// Repeated in the answer.
        request: u32,
        /// Its id or its name.
        token: String,
        /// How long the old one still counts.
        #[serde(with = "duration")]
        grace: Duration,
        /// Until when the new one counts; for ever if absent.
        #[serde(default, with = "duration::option")]
        expires: Option<Duration>,
    },
    /// Let a worker take jobs that waits for an operator's word.
    Approve {
        /// Repeated in the answer.
        request: u32,
        /// Its name or id.
        worker: String,
    },
    /// A worker is gone for good: it is not listed any more, and another may have its name.
    Forget {
        /// Repeated in the answer.
        request: u32,
        /// Its name or id.
        worker: String,
    },
    /// Who did what?
    Audit {
        /// Repeated in the answer.
        request: u32,
        /// At most this many, newest first.
        limit: u32,
        /// Only those whose place in the log is before this one: the next page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<u64>,
    },
    /// A step of a transfer; see [`crate::transfer`].
    Transfer(crate::transfer::Message),
}

impl FromClient {
    /// Reads a message and checks the limits of its fields.
    ///
    /// # Errors
    /// A message that answers the request or ends the transfer, or one that ends the connection when the text does not
    /// parse (as [`crate::frame::decode_control`]).
    pub fn decode(text: &str) -> Result<Self, Box<ToClient>> {
        let ends_connection = |error| Box::new(ToClient::Error { request: None, error });
        let mut message: Self = frame::parse_control(text).map_err(ends_connection)?;
        limiter::check(&mut message).map_err(|error| {
            Box::new(match &message {
                Self::Transfer(step) => {
                    ToClient::Transfer(transfer::Message::Failed { channel: step.channel(), error })
                }
                _ => ToClient::Error { request: message.request(), error },
            })
        })?;
        Ok(message)
    }

    /// The number of the request, where the message is one.
    pub const fn request(&self) -> Option<u32> {
        match self {
            Self::Register { .. } | Self::Transfer(_) => None,
            Self::Submit { request, .. }
            | Self::Job { request, .. }
            | Self::Follow { request, .. }
            | Self::Taken { request, .. }
            | Self::Unfollow { request }
            | Self::Logs { request, .. }
            | Self::Finding { request, .. }
            | Self::Explain { request, .. }
            | Self::Jobs { request, .. }
            | Self::Retry { request, .. }
            | Self::Cancel { request, .. }
            | Self::Workers { request }
            | Self::Drain { request, .. }
            | Self::TokenCreate { request, .. }
            | Self::TokenList { request }
            | Self::TokenRevoke { request, .. }
            | Self::TokenRotate { request, .. }
            | Self::Approve { request, .. }
            | Self::Forget { request, .. }
            | Self::Audit { request, .. } => Some(*request),
        }
    }
}
