//! The link between a worker and the coordinator. The worker dials.
//!
//! State is repeated, not messages: `register` and every `report` carry all that the worker holds, and the answer says
//! what should be. A message that was lost is made up for by the next report, so nothing is acknowledged one by one.
//! Output travels beside this as binary frames ([`crate::frame::BinaryKind::Output`]).

use crate::duration;
use crate::error::LinkError;
use crate::ids::{BootId, Lease, WorkerId};
use crate::outcome::{Outcome, OutputHeld};
use crate::spec::JobSpec;
use crate::version::VersionRange;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Path of the link on the coordinator.
pub const PATH: &str = "/v1/worker";

/// What a worker says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromWorker {
    /// The first message of a connection.
    Register(Box<Register>),
    /// All that the worker holds; each [`crate::limits::REPORT_EVERY`], and at once when something changed.
    Report {
        /// Every attempt whose end is not yet recorded by the coordinator.
        held: Vec<Held>,
        /// How the worker is.
        condition: Condition,
    },
    /// An attempt has ended and all of its log is sent. Repeated after a reconnect until `forget` comes.
    Complete {
        /// Which.
        lease: Lease,
        /// How.
        outcome: Box<Outcome>,
    },
    /// A grant that this worker does not take: it has no free slot, or it drains. The job goes back to its place.
    Decline {
        /// Which.
        lease: Lease,
        /// Why.
        reason: String,
    },
    /// A step of a transfer; see [`crate::transfer`].
    Transfer(crate::transfer::Message),
}

/// Who the worker is and what it offers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Register {
    /// What it speaks.
    pub protocol: VersionRange,
    /// Its lasting identity.
    pub worker: WorkerId,
    /// This start of the daemon.
    pub boot: BootId,
    /// Earlier starts that are certain to be over, the newest first: on this machine, since it was last switched on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<BootId>,
    /// For people; unique in the pool.
    pub name: String,
    /// Of the software.
    pub version: String,
    /// Jobs at a time.
    pub slots: u32,
    /// `os`, `arch`, `name` and what was configured or found.
    pub labels: BTreeMap<String, String>,
    /// Counted resources.
    pub resources: BTreeMap<String, u32>,
    /// Every attempt whose end is not yet recorded by the coordinator.
    pub held: Vec<Held>,
    /// How the worker is.
    pub condition: Condition,
}

/// An attempt on a worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Held {
    /// Which, and by which grant.
    pub lease: Lease,
    /// How far it is.
    pub state: HeldState,
    /// Length of its log in the spool, chunk headers included.
    pub log_length: u64,
    /// When its process started, in milliseconds since 1970 by the worker's clock.
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    /// Its output waits because the worker's disk refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_held: Option<OutputHeld>,
}

/// How far an attempt is on its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldState {
    /// Files are laid out.
    Preparing,
    /// The process runs.
    Running,
    /// The process is being ended.
    Ending,
    /// Its tree is gone; log or result are still on their way.
    Ended,
}

/// How a worker is, beyond its attempts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// It takes no more jobs, by its own decision.
    pub draining: bool,
    /// Why it takes no jobs: processes that it could not end, or files of its own that are not where they were.
    pub quarantined: Option<String>,
    /// Free space where spools and workspaces are, in bytes.
    pub disk_free_bytes: Option<u64>,
    /// Projects with a warm workspace.
    pub warm_projects: Vec<String>,
}

/// What the coordinator says to a worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToWorker {
    /// Answers `register`.
    Registered {
        /// The version that is spoken from here on.
        protocol: u16,
        /// Grows with each connection of any worker; the newest of a worker wins.
        session: u64,
        /// How often to report.
        #[serde(with = "duration")]
        report_every: Duration,
        /// After how long without contact an attempt may be granted again.
        #[serde(with = "duration")]
        lost_after: Duration,
        /// What should be, for everything that was held.
        desired: Vec<Desired>,
    },
    /// Answers `report`: what should be, for everything that was held.
    Desired {
        /// One for each attempt that was held.
        desired: Vec<Desired>,
    },
    /// Run this. Repeated until a report holds it; a worker that holds it already does nothing.
    Grant(Box<Grant>),
    /// Something to do for one attempt, ahead of the next report.
    Act(Desired),
    /// The coordinator has this much of the log. One that does not go beyond the one before it on this connection asks for
    /// everything from there again.
    Position {
        /// Of which log.
        lease: Lease,
        /// Bytes, chunk headers included.
        position: u64,
    },
    /// Take no more jobs, or take them again.
    Drain {
        /// Whether to drain.
        draining: bool,
        /// After how long what still runs is ended; never if absent.
        #[serde(default, with = "duration::option")]
        deadline: Option<Duration>,
    },
    /// The connection ends; why, and whether it is worth coming back.
    Refused {
        /// Why.
        error: LinkError,
    },
    /// A step of a transfer; see [`crate::transfer`].
    Transfer(crate::transfer::Message),
}

/// What should become of an attempt that a worker holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Desired {
    /// Go on; the coordinator has this much of its log. In the answer to `register` this is from where to send; later it
    /// acknowledges, and never asks for anything again.
    Continue {
        /// Which.
        lease: Lease,
        /// Bytes, chunk headers included.
        position: u64,
    },
    /// End it: somebody asked.
    Cancel {
        /// Which.
        lease: Lease,
        /// Who asked.
        by: String,
        /// In their words.
        reason: String,
    },
    /// A newer grant exists or the job is over: end it, and keep what it wrote to yourself.
    Fenced {
        /// Which.
        lease: Lease,
    },
    /// Log and result are recorded: its spool may go.
    Forget {
        /// Which.
        lease: Lease,
    },
}

impl Desired {
    /// Which attempt this is about.
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
    /// By which lease.
    pub lease: Lease,
    /// What.
    pub spec: JobSpec,
    /// Values of the secrets that the spec names. Never written to a disk.
    #[serde(default)]
    pub secrets: BTreeMap<String, crate::client_link::Secret>,
}
