//! What the daemon hears.

use super::arrange::Arranged;
use super::keepers::KeeperLink;
use crate::keeper::messages::FromKeeper;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::outcome::{Outcome, StartFailure};
use buildpool_protocol::worker_link::{FromWorker, ToWorker};
use std::io;
use tokio::sync::mpsc;

pub(super) enum Event {
    /// A connection is open; this is where its control messages go.
    Connected(mpsc::Sender<FromWorker>),
    /// From the coordinator.
    Incoming(ToWorker),
    /// The connection is gone.
    Disconnected,
    /// From a keeper.
    Keeper { link: KeeperLink, message: FromKeeper },
    /// A connection to a keeper is gone, and perhaps the keeper.
    KeeperGone { link: KeeperLink },
    /// The files of an attempt are laid out, or not.
    Prepared { attempt: AttemptId, result: Result<Arranged, StartFailure> },
    /// An attempt is over, with everything that is known of it.
    Concluded { attempt: AttemptId, outcome: io::Result<Box<Outcome>> },
    /// Its directory is gone.
    Deleted,
    /// Space was looked after.
    Tidied,
}
