//! What worker and keeper say to each other: JSON behind a length of four bytes, little-endian.
//!
//! A worker of a newer version may meet a keeper that an older one started: fields are only added, with defaults.

use crate::limits::KEEPER_MESSAGE_BYTES_MAX;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::duration;
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::outcome::{Acted, OutputHeld};
use buildpool_protocol::spec::OutputPolicy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What this build's keepers understand of a [`Run`]. Raised with every field that must not be passed over, because a keeper of
/// another generation is let go as soon as it is free and never given work.
pub const GENERATION: u32 = 1;

/// What the worker says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToKeeper {
    /// Run this. Refused while another attempt is kept.
    Run(Box<Run>),
    /// End the attempt.
    Act {
        /// Which.
        attempt: AttemptId,
        /// Why.
        acted: Acted,
    },
    /// Do not wait any longer where the end is decided.
    Hurry {
        /// Which.
        attempt: AttemptId,
    },
    /// The coordinator was heard from.
    Contact {
        /// How long ago the message was sent that it has answered.
        #[serde(with = "duration")]
        age: Duration,
        /// [`Run::cut_off_after`] as the coordinator has it now: only a longer one counts, because what it said before is what it
        /// goes by for this attempt.
        #[serde(default, with = "duration::option")]
        cut_off_after: Option<Duration>,
    },
    /// The coordinator has this much of the log.
    Taken {
        /// Of which attempt.
        attempt: AttemptId,
        /// Bytes, chunk headers included.
        position: u64,
    },
}

/// An attempt to run. Its directory exists, empty but for the worker's record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// By which grant.
    pub lease: Lease,
    /// Where log and records go.
    pub attempt_directory: PathBuf,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its whole environment, secrets apart.
    pub environment: BTreeMap<String, String>,
    /// Added to the environment, and masked in every stream.
    pub secrets: BTreeMap<String, Secret>,
    /// Longest run.
    #[serde(default, with = "duration::option")]
    pub timeout: Option<Duration>,
    /// Longest silence.
    #[serde(default, with = "duration::option")]
    pub idle_timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    #[serde(with = "duration")]
    pub grace: Duration,
    /// Longest time without contact; none if the job waits for its worker.
    #[serde(default, with = "duration::option")]
    pub cut_off_after: Option<Duration>,
    /// From SIGTERM to SIGKILL when that time is over.
    #[serde(default, with = "duration")]
    pub cut_off_grace: Duration,
    /// How long ago the coordinator was heard from.
    #[serde(with = "duration")]
    pub contact_age: Duration,
    /// When output comes too fast.
    pub output_policy: OutputPolicy,
    /// Longest log in bytes, when it is less than the usual one.
    #[serde(default)]
    pub log_bytes_max: Option<u64>,
    /// Largest core file in bytes; the system's own setting if absent.
    #[serde(default)]
    pub core_bytes_max: Option<u64>,
    /// The variables go by a descriptor to the sandbox that `argv` starts, which sets them inside.
    #[serde(default)]
    pub hands_variables_inside: bool,
}

/// What the keeper says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromKeeper {
    /// The first message of each connection.
    Hello {
        /// Its number in the worker's directory.
        keeper: u32,
        /// Its process.
        pid: i32,
        /// What it keeps.
        kept: Option<Kept>,
        /// Its [`GENERATION`].
        #[serde(default)]
        generation: u32,
    },
    /// The process exists.
    Started {
        /// Of which attempt.
        attempt: AttemptId,
        /// Milliseconds since 1970.
        started_at_ms: i64,
    },
    /// There is more log.
    Progress {
        /// Of which attempt.
        attempt: AttemptId,
        /// Bytes, chunk headers included.
        log_length: u64,
        /// The process is being ended.
        ending: bool,
        /// Its output waits because the disk refuses it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<OutputHeld>,
    },
    /// The outcome lies in the attempt's directory, and the keeper is free.
    Ended {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// The attempt cannot be taken, or its outcome cannot be written down.
    Refused {
        /// Which attempt.
        attempt: AttemptId,
        /// Why.
        reason: String,
    },
}

/// An attempt that a keeper keeps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// By which grant.
    pub lease: Lease,
    /// Length of its log so far.
    pub log_length: u64,
    /// The process is being ended.
    pub ending: bool,
    /// Milliseconds since 1970.
    pub started_at_ms: Option<i64>,
    /// Its output waits because the disk refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<OutputHeld>,
    /// Values to mask in what files say of it.
    #[serde(default)]
    pub secrets: BTreeMap<String, Secret>,
}

/// Bytes of a message.
///
/// # Errors
/// When it is over the limit.
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

/// Takes the first whole message off a buffer; none if it has not come whole yet.
///
/// # Errors
/// When it is over the limit or does not parse: the connection is of no more use.
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
    use super::{ToKeeper, encode, take};
    use std::time::Duration;

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
