//! The link between a worker and the coordinator. The worker opens the connection.
//!
//! The protocol repeats state, not messages. `register` and every `report` contain all attempts
//! that the worker holds, and the answer contains the desired state. The next report makes up for a
//! lost message, so single messages are not acknowledged. Output is sent separately, as binary
//! frames ([`crate::frame::BinaryKind::Output`]).

use crate::duration;
use crate::error::LinkError;
use crate::ids::{BootId, Lease, WorkerId};
use crate::outcome::{Outcome, OutputHeld};
use crate::spec::JobSpec;
use crate::stdin::StdinEnd;
use crate::upgrade::{UpgradeOrder, UpgradeState};
use crate::version::VersionRange;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Path of the link on the coordinator.
pub const PATH: &str = "/v1/worker";

/// A message from a worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromWorker {
    /// The first message of a connection.
    Register(Box<Register>),
    /// The full state of the worker. Sent each [`crate::limits::REPORT_EVERY`], and immediately
    /// after a change.
    Report {
        /// All attempts that the coordinator has not yet recorded as ended.
        held: Vec<Held>,
        /// Condition of the worker.
        condition: Condition,
    },
    /// An attempt has ended and its log is fully sent. Repeated after a reconnect until `forget`
    /// arrives.
    Complete {
        /// Lease of the attempt.
        lease: Lease,
        /// Outcome of the attempt.
        outcome: Box<Outcome>,
    },
    /// The worker declines a grant: it has no free slot, or it drains. The job returns to its queue
    /// position.
    Decline {
        /// Lease of the attempt.
        lease: Lease,
        /// The reason.
        reason: String,
    },
    /// Room for the standard input of an attempt.
    Stdin {
        /// Which.
        lease: Lease,
        /// Send again from this position; if absent, go on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        /// Up to this position.
        until: u64,
    },
    /// A step of a transfer; see [`crate::transfer`].
    Transfer(crate::transfer::Message),
}

/// Identity and capacity of a worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Register {
    /// Supported protocol versions.
    pub protocol: VersionRange,
    /// Its permanent identity.
    pub worker: WorkerId,
    /// Id of this start of the daemon.
    pub boot: BootId,
    /// Earlier starts that have certainly ended, newest first: on this machine, since its last
    /// boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<BootId>,
    /// Name for users, unique in the pool.
    pub name: String,
    /// Version of the software.
    pub version: String,
    /// Number of concurrent jobs.
    pub slots: u32,
    /// `os`, `arch`, `name`, and configured or detected labels.
    pub labels: BTreeMap<String, String>,
    /// Units of counted resources.
    pub resources: BTreeMap<String, u32>,
    /// Submitters and teams whose jobs it takes; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
    /// All attempts that the coordinator has not yet recorded as ended.
    pub held: Vec<Held>,
    /// Condition of the worker.
    pub condition: Condition,
}

/// An attempt on a worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Held {
    /// Lease of the attempt.
    pub lease: Lease,
    /// State of the attempt.
    pub state: HeldState,
    /// Length of its log in the spool, chunk headers included.
    pub log_length: u64,
    /// Start of its process, in milliseconds since 1970 by the worker's clock.
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    /// Set while its output is blocked because the worker's disk refuses writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_held: Option<OutputHeld>,
}

/// State of an attempt on its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldState {
    /// The workspace is being prepared.
    Preparing,
    /// The process runs.
    Running,
    /// The process is being ended.
    Ending,
    /// Its process tree has ended. Log or result are still being transferred.
    Ended,
}

/// Condition of a worker, apart from its attempts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// True if the worker itself decided to accept no more jobs.
    pub draining: bool,
    /// Reason why it accepts no jobs: processes that it could not end, or missing files of its own.
    pub quarantined: Option<String>,
    /// Free disk space for spools and workspaces, in bytes.
    pub disk_free_bytes: Option<u64>,
    /// Size of that disk, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_total_bytes: Option<u64>,
    /// Warm workspaces, as [`crate::spec::workspace_key`] names them.
    pub warm_projects: Vec<String>,
    /// It passes standard input on to jobs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stdin: bool,
    /// Number of grants beyond its slots that the worker accepts. Each waits at most
    /// [`crate::limits::EARLY_GRANT_WAIT_MAX`] for a slot, then the worker declines it.
    #[serde(skip_serializing_if = "is_zero")]
    pub early_grants: u32,
    /// Target of the programs that may replace its own, as in the names of a release's files. Absent
    /// if it accepts no programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_target: Option<String>,
    /// The order to replace its program that it carries out, or that failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeState>,
}

const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A message from the coordinator to a worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToWorker {
    /// Answers `register`.
    Registered {
        /// The negotiated protocol version.
        protocol: u16,
        /// Session number. It grows with each connection of any worker. The newest session of a
        /// worker wins.
        session: u64,
        /// Interval of reports.
        #[serde(with = "duration")]
        report_every: Duration,
        /// Time without contact after which an attempt may be granted again.
        #[serde(with = "duration")]
        lost_after: Duration,
        /// Desired state of all held attempts.
        desired: Vec<Desired>,
    },
    /// Answers `register` on a standby: another coordinator is the leader. The link closes.
    Redirect {
        /// URL of the leader, as `wss://HOST:PORT`.
        url: String,
    },
    /// Answers `report`: the desired state of all held attempts.
    Desired {
        /// One entry per held attempt.
        desired: Vec<Desired>,
    },
    /// Runs an attempt. Repeated until a report contains it. A worker that already holds it ignores
    /// the message.
    Grant(Box<Grant>),
    /// An action for one attempt, sent before the next report.
    Act(Desired),
    /// Length of the log that the coordinator has stored. If it is not greater than the previous
    /// one on this connection, the worker must send everything from there again.
    Position {
        /// Lease of the attempt.
        lease: Lease,
        /// Bytes, chunk headers included.
        position: u64,
    },
    /// The standard input of an attempt ends here.
    StdinEnd {
        /// Of which attempt.
        lease: Lease,
        /// Where, and its checksum.
        end: StdinEnd,
    },
    /// Starts or ends draining of the worker.
    Drain {
        /// True to drain.
        draining: bool,
        /// Time after which running jobs are ended. Never if absent.
        #[serde(default, with = "duration::option")]
        deadline: Option<Duration>,
    },
    /// Replaces the worker's program. Sent only to a drained worker whose condition has an
    /// `upgrade_target`.
    Upgrade(UpgradeOrder),
    /// The coordinator closes the connection. The error decides if a retry is useful.
    Refused {
        /// The error.
        error: LinkError,
    },
    /// A step of a transfer; see [`crate::transfer`].
    Transfer(crate::transfer::Message),
}

/// Desired state of an attempt that a worker holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Desired {
    /// Continue the attempt. In the answer to `register`, `position` is the start position for
    /// sending. Later it is an acknowledgement and never requests a resend.
    Continue {
        /// Lease of the attempt.
        lease: Lease,
        /// Stored bytes, chunk headers included.
        position: u64,
    },
    /// End the attempt, because a user cancelled it.
    Cancel {
        /// Lease of the attempt.
        lease: Lease,
        /// Name of the user.
        by: String,
        /// Reason given by the user.
        reason: String,
    },
    /// A newer grant exists or the job is done. End the attempt and do not send its output.
    Fenced {
        /// Lease of the attempt.
        lease: Lease,
    },
    /// Log and result are recorded. The worker may delete its spool.
    Forget {
        /// Lease of the attempt.
        lease: Lease,
    },
}

impl Desired {
    /// Returns the lease of the attempt.
    pub const fn lease(&self) -> Lease {
        match self {
            Self::Continue { lease, .. }
            | Self::Cancel { lease, .. }
            | Self::Fenced { lease }
            | Self::Forget { lease } => *lease,
        }
    }
}

/// An attempt to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// Lease of the attempt.
    pub lease: Lease,
    /// Spec of the job.
    pub spec: JobSpec,
    /// Values of the secrets that the spec names. Never written to disk.
    #[serde(default)]
    pub secrets: BTreeMap<String, crate::client_link::Secret>,
}
