//! Everything that can happen to the pool.

use buildpool_protocol::client_link::Secret;
use buildpool_protocol::error::LinkError;
use buildpool_protocol::ids::{JobId, Lease};
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::report::{Cause, SnapshotInfo, Verdict};
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::{Condition, Held, Register};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The present, as the owner sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// By a clock that only goes forward, since the owner started. All deadlines are by this one.
    pub clock: Duration,
    /// Milliseconds since 1970; for records only.
    pub wall_ms: i64,
}

/// One connection of one worker; grows with each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session(pub u64);

/// Whom to answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientRef {
    /// Which connection.
    pub connection: u64,
    /// Which of its requests.
    pub request: u32,
}

/// On whose behalf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submitter {
    /// The token's name.
    pub name: String,
    /// May touch what others submitted.
    pub admin: bool,
}

/// A job that somebody wants.
#[derive(Clone, PartialEq, Debug)]
pub struct Submit {
    /// Minted by the client.
    pub job: JobId,
    /// What.
    pub spec: Arc<JobSpec>,
    /// For whom.
    pub submitter: Submitter,
    /// The same text by the same submitter is the same job.
    pub client_request_id: Option<String>,
    /// Attach to an earlier equal job whose answer was not delivered.
    pub attach: bool,
    /// Values of the secrets.
    pub secrets: BTreeMap<String, Secret>,
    /// Shown with the result.
    pub snapshot: Option<SnapshotInfo>,
    /// A job on record, over or not, that this submit repeats, by id or by request id.
    pub known: Option<JobId>,
    /// What speaks against a new job now. A job that was accepted before is attached to all the same.
    pub refused: Option<LinkError>,
    /// How long this command usually runs, as history knows.
    pub usual: Option<Duration>,
}

/// An attempt whose log is sealed and digested.
#[derive(Clone, PartialEq, Debug)]
pub struct Completed {
    /// Which.
    pub lease: Lease,
    /// The worker's facts.
    pub outcome: Box<Outcome>,
    /// What the digest makes of them.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub cause: Option<Cause>,
    /// It failed for what is not the command's fault, so that another attempt may do better.
    pub infrastructure: bool,
}

/// Everything that can happen.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// A client submits.
    Submit {
        /// Whom to answer.
        client: ClientRef,
        /// What.
        submit: Box<Submit>,
    },
    /// A client cancels.
    Cancel {
        /// Whom to answer.
        client: ClientRef,
        /// Which job.
        job: JobId,
        /// Who asks.
        by: Submitter,
        /// In their words.
        reason: String,
    },
    /// The answer of a done job has reached its submitter.
    Delivered {
        /// Which job.
        job: JobId,
    },
    /// A worker has connected and said who it is.
    Registered {
        /// Its connection.
        session: Session,
        /// What it said.
        register: Box<Register>,
        /// The name of the token that it came with.
        token: String,
    },
    /// A worker said all that it holds.
    Reported {
        /// Its connection.
        session: Session,
        /// Its attempts.
        held: Vec<Held>,
        /// How it is.
        condition: Condition,
    },
    /// A worker does not take a grant.
    Declined {
        /// Its connection.
        session: Session,
        /// Which grant.
        lease: Lease,
        /// Why.
        reason: String,
    },
    /// A worker's connection is gone.
    Gone {
        /// Its connection.
        session: Session,
    },
    /// An attempt is over: log sealed, digest made.
    Completed(Box<Completed>),
    /// Empty a worker, or let it take jobs again.
    Drain {
        /// Whom to answer.
        client: ClientRef,
        /// The worker's name or id.
        worker: String,
        /// Whether to drain.
        draining: bool,
        /// After how long what still runs is ended.
        deadline: Option<Duration>,
    },
    /// Let a worker take jobs that waits for an operator's word.
    Approve {
        /// Whom to answer.
        client: ClientRef,
        /// The worker's name or id.
        worker: String,
    },
    /// A worker is gone for good: its name is free.
    Forget {
        /// Whom to answer.
        client: ClientRef,
        /// The worker's name or id.
        worker: String,
    },
    /// The whole pool takes no more jobs and grants nothing, or does again.
    DrainPool {
        /// Whether to drain.
        draining: bool,
    },
    /// Time has passed.
    Tick,
}

impl Input {
    /// Which request of a client waits for an answer to this.
    pub fn client(&self) -> Option<ClientRef> {
        match self {
            Self::Submit { client, .. }
            | Self::Cancel { client, .. }
            | Self::Drain { client, .. }
            | Self::Approve { client, .. }
            | Self::Forget { client, .. } => Some(*client),
            Self::Delivered { .. }
            | Self::Registered { .. }
            | Self::Reported { .. }
            | Self::Declined { .. }
            | Self::Gone { .. }
            | Self::Completed(_)
            | Self::DrainPool { .. }
            | Self::Tick => None,
        }
    }
}
