//! Messages between worker and keeper: JSON after a length of four bytes, little-endian.
//!
//! A newer worker may connect to a keeper that an older one started. Therefore fields are only
//! added, with defaults.

use crate::limits::{ACCOUNT_BYTES_MAX, KEEPER_MESSAGE_BYTES_MAX};
use crate::platform::cgroup::AttemptGroup;
use crate::workspace::setup::SetupPlan;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::duration;
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::outcome::{EndReason, Outcome, OutputHeld};
use buildpool_protocol::spec::OutputPolicy;
use buildpool_protocol::stdin::StdinEnd;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Version of [`Run`] that this build's keepers support. It is raised with every field that must
/// not be ignored. A keeper of another generation gets no work and is released when it is idle.
pub const GENERATION: u32 = 5;

/// A message from the worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToKeeper {
    /// Runs an attempt. Refused while another attempt runs.
    Run(Box<Run>),
    /// Ends the attempt.
    #[serde(rename = "act")]
    End {
        /// Id of the attempt.
        attempt: AttemptId,
        /// The reason.
        acted: EndReason,
    },
    /// Skips the remaining grace period of an attempt that is being ended.
    #[serde(rename = "hurry")]
    SkipGrace {
        /// Id of the attempt.
        attempt: AttemptId,
    },
    /// The coordinator answered a message.
    Contact {
        /// Age of the answered message.
        #[serde(with = "duration")]
        age: Duration,
        /// The current value of [`Run::cut_off_after`]. Only a longer value counts, because the
        /// coordinator keeps the longest value sent for this attempt.
        #[serde(default, with = "duration::option")]
        cut_off_after: Option<Duration>,
    },
    /// Bytes of the command's standard input.
    Stdin {
        /// Of which attempt.
        attempt: AttemptId,
        /// Offset of the first one.
        position: u64,
        /// The bytes.
        #[serde(with = "as_base64")]
        bytes: Vec<u8>,
    },
    /// The command's standard input ends.
    StdinEnd {
        /// Of which attempt.
        attempt: AttemptId,
        /// Where, and its checksum.
        end: StdinEnd,
    },
    /// Position of the log that the coordinator has stored.
    #[serde(rename = "taken")]
    Stored {
        /// Id of the attempt.
        attempt: AttemptId,
        /// Bytes, chunk headers included.
        position: u64,
    },
}

/// An attempt to run. Its directory contains only the worker's record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Lease of the grant.
    pub lease: Lease,
    /// Directory for log and records.
    pub attempt_directory: PathBuf,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Working directory.
    pub directory: PathBuf,
    /// Runs before it, with the same environment and limits.
    #[serde(default)]
    pub setup: Option<SetupRun>,
    /// Its whole environment, except secrets.
    pub environment: BTreeMap<String, String>,
    /// Secrets: added to the environment, and masked in every stream.
    pub secrets: BTreeMap<String, Secret>,
    /// Limit on the run time.
    #[serde(default, with = "duration::option")]
    pub timeout: Option<Duration>,
    /// Limit on the time without output.
    #[serde(default, with = "duration::option")]
    pub idle_timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL.
    #[serde(with = "duration")]
    pub grace: Duration,
    /// Limit on the time without contact. `None` if the job waits for its worker.
    #[serde(default, with = "duration::option")]
    pub cut_off_after: Option<Duration>,
    /// Time from SIGTERM to SIGKILL after that limit.
    #[serde(default, with = "duration")]
    pub cut_off_grace: Duration,
    /// Age of the last contact with the coordinator.
    #[serde(with = "duration")]
    pub contact_age: Duration,
    /// Action if output arrives too fast.
    pub output_policy: OutputPolicy,
    /// Limit on the log in bytes, if lower than the default.
    #[serde(default)]
    pub log_bytes_max: Option<u64>,
    /// Limit on the core file in bytes. The system's own limit if absent.
    #[serde(default)]
    pub core_bytes_max: Option<u64>,
    /// The command reads bytes that [`ToKeeper::Stdin`] brings; otherwise its standard input is empty.
    #[serde(default)]
    pub stdin: bool,
    /// Limit on the processes of the job's user. The system's own limit if absent.
    #[serde(default)]
    pub processes_max: Option<u64>,
    /// Limit on the data of each process in bytes. The system's own limit if absent.
    #[serde(default)]
    pub memory_bytes_max: Option<u64>,
    /// Control group to make for the job. Its limits then hold in place of `memory_bytes_max`.
    #[serde(default)]
    pub group: Option<AttemptGroup>,
    /// True if jobs run as the keeper's user and can connect to its socket. Then no connection gets the
    /// secrets from the socket.
    #[serde(default)]
    pub jobs_reach_socket: bool,
    /// True if the variables are sent through a descriptor to the sandbox in `argv`, which sets
    /// them inside.
    #[serde(default)]
    pub hands_variables_inside: bool,
}

/// The setup of a workspace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetupRun {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its working directory, and the record to write when it has passed.
    pub plan: SetupPlan,
}

/// A message from the keeper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromKeeper {
    /// The first message of each connection.
    Hello {
        /// Its number in the worker's directory.
        keeper: u32,
        /// Its process id.
        pid: i32,
        /// Its attempt.
        kept: Option<HeldAttempt>,
        /// Its [`GENERATION`].
        #[serde(default)]
        generation: u32,
    },
    /// The process exists.
    Started {
        /// Id of the attempt.
        attempt: AttemptId,
        /// Milliseconds since 1970.
        started_at_ms: i64,
    },
    /// The log has grown, or the state has changed.
    Progress {
        /// Id of the attempt.
        attempt: AttemptId,
        /// Bytes, chunk headers included.
        log_length: u64,
        /// True if the process is being ended.
        ending: bool,
        /// Set while its output is blocked because the disk refuses writes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<OutputHeld>,
    },
    /// There is room for more standard input.
    Stdin {
        /// Of which attempt.
        attempt: AttemptId,
        /// How far it is.
        place: StdinWindow,
    },
    /// The outcome is in the attempt's directory, and the keeper is idle.
    Ended {
        /// Id of the attempt.
        attempt: AttemptId,
        /// The content of its records, so that the worker need not read them. Absent if it is too long for a message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<Box<EndAccount>>,
    },
    /// The attempt cannot be run, or its outcome cannot be stored.
    Refused {
        /// Id of the attempt.
        attempt: AttemptId,
        /// The reason.
        reason: String,
    },
}

impl FromKeeper {
    /// Returns the message about the end of an attempt, without a long account.
    pub fn end(attempt: AttemptId, account: Option<Box<EndAccount>>) -> Self {
        let ended = Self::Ended { attempt, account };
        let is_short = encode(&ended).is_ok_and(|message| message.len() <= ACCOUNT_BYTES_MAX);
        if is_short { ended } else { Self::Ended { attempt, account: None } }
    }
}

/// The records of an attempt that has ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EndAccount {
    /// The outcome, as in its record.
    pub outcome: Outcome,
    /// Process ids observed in its tree. Limited.
    pub pids: Vec<i32>,
}

/// The attempt of a keeper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldAttempt {
    /// Lease of the grant.
    pub lease: Lease,
    /// Length of its log so far.
    pub log_length: u64,
    /// True if the process is being ended.
    pub ending: bool,
    /// Milliseconds since 1970.
    pub started_at_ms: Option<i64>,
    /// Set while its output is blocked because the disk refuses writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<OutputHeld>,
    /// How far its standard input is, if it reads one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<StdinWindow>,
    /// Values to mask in its evidence. Empty if jobs can connect to the socket.
    #[serde(default)]
    pub secrets: BTreeMap<String, Secret>,
}

/// How far the standard input of an attempt is. Both are offsets in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StdinWindow {
    /// The keeper has the bytes before this one.
    pub received: u64,
    /// The keeper has room for the bytes before this one.
    pub until: u64,
}

/// Bytes as base64 text.
mod as_base64 {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom)
    }
}

/// Encodes a message.
///
/// # Errors
/// Fails if it exceeds the limit.
pub fn encode<M: Serialize>(message: &M) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    let prefix = u32::try_from(length).ok().filter(|_| length <= KEEPER_MESSAGE_BYTES_MAX).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a message of {length} bytes to or from a keeper is over the limit of {KEEPER_MESSAGE_BYTES_MAX}"),
        )
    })?;
    bytes[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(bytes)
}

/// Removes the first complete message from a buffer. Returns `None` if it is incomplete.
///
/// # Errors
/// Fails if it exceeds the limit or does not parse. The connection is then unusable.
pub fn take<M: DeserializeOwned>(buffer: &mut Vec<u8>) -> io::Result<Option<M>> {
    let Some(prefix) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > KEEPER_MESSAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "a message of {length} bytes to or from a keeper is over the limit of {KEEPER_MESSAGE_BYTES_MAX}"
            ),
        ));
    }
    let Some(body) = buffer.get(4..4 + length) else { return Ok(None) };
    let message = serde_json::from_slice(body)?;
    buffer.drain(..4 + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::{EndAccount, FromKeeper, ToKeeper, encode, take};
    use crate::keeper::spool::Sealed;
    use crate::limits::KEEPER_BACKLOG_BYTES;
    use buildpool_protocol::ids::{AttemptId, JobId};
    use buildpool_protocol::outcome::{Ending, Outcome};
    use std::time::Duration;

    #[test]
    fn an_end_has_its_account_unless_it_is_long() {
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::from_u128(1)), number: 1 };
        let outcome = Outcome::new(Ending::Exited { code: 0 }, 0, Sealed::empty().seals);
        let end = |pids| {
            let account = Box::new(EndAccount { outcome: outcome.clone(), pids });
            let ended = FromKeeper::end(attempt, Some(account));
            let mut message = encode(&ended).expect("short");
            assert!(message.len() <= KEEPER_BACKLOG_BYTES, "it is sent whole");
            assert_eq!(take::<FromKeeper>(&mut message).expect("well formed"), Some(ended.clone()));
            matches!(ended, FromKeeper::Ended { account: Some(_), .. })
        };
        assert!(end(vec![7]));
        assert!(!end(vec![7; KEEPER_BACKLOG_BYTES]));
    }

    #[test]
    fn messages_come_out_whole_however_they_are_cut() {
        let message = ToKeeper::Contact { age: Duration::from_millis(1500), cut_off_after: None };
        let bytes = [encode(&message).expect("small"), encode(&message).expect("small")].concat();
        for step in 1..bytes.len() {
            let mut buffer = Vec::new();
            let mut found = 0;
            for part in bytes.chunks(step) {
                buffer.extend_from_slice(part);
                while let Some(taken) = take::<ToKeeper>(&mut buffer).expect("well formed") {
                    assert_eq!(taken, message);
                    found += 1;
                }
            }
            assert_eq!((found, buffer.len()), (2, 0), "in parts of {step}");
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_it_is_awaited() {
        let mut buffer = u32::MAX.to_le_bytes().to_vec();
        let error = take::<ToKeeper>(&mut buffer).expect_err("too long");
        assert!(error.to_string().contains("over the limit"), "{error}");
    }
}
