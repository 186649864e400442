//! Events of the daemon.

use super::keepers::KeeperLink;
use super::preparation::PreparedAttempt;
use super::upgrading::NotStaged;
use crate::keeper::messages::FromKeeper;
use crate::upgrade::Staged;
use buildpool_protocol::ids::{AttemptId, UpgradeId};
use buildpool_protocol::outcome::{Outcome, StartFailure};
use buildpool_protocol::worker_link::{FromWorker, ToWorker};
use bytes::Bytes;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;

pub(super) enum Event {
    /// A connection is open. Control messages go to this sender.
    Connected(mpsc::Sender<FromWorker>),
    /// A message from the coordinator.
    Incoming(ToWorker),
    /// Standard input from the coordinator: the content of a frame.
    Stdin { position: u64, content: Bytes },
    /// The connection has ended.
    Disconnected,
    /// A message from a keeper.
    Keeper { link: KeeperLink, message: FromKeeper },
    /// A connection to a keeper has ended. The keeper may have ended as well.
    KeeperGone { link: KeeperLink },
    /// The preparation of an attempt has succeeded or failed.
    Prepared { attempt: AttemptId, result: Result<PreparedAttempt, StartFailure> },
    /// The outcome of an attempt is complete.
    OutcomeBuilt { attempt: AttemptId, outcome: io::Result<Box<Outcome>> },
    /// The files of an attempt were measured.
    Measured { attempt: AttemptId, bytes: u64, took: Duration },
    /// A new program is next to the present one, or the reason why not.
    Staged { id: UpgradeId, result: Result<Staged, NotStaged> },
    /// The directory of an attempt is deleted.
    Deleted,
    /// A cleanup of workspaces has finished.
    Tidied,
}
