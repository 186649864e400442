//! Removes the inputs of jobs that are done, on one thread: to free a long file takes the disk a while, a shared copy needs
//! requests, and the caller decides about all jobs.

use super::{END, copies, remove};
use crate::store::Objects;
use buildpool_protocol::ids::JobId;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Inputs that wait for their removal. Beyond it, an input stays until the next start.
const QUEUED_MAX: usize = 4_096;

/// Files or copies to remove.
pub(super) enum Removal {
    /// The file of an input, and its end.
    Files(PathBuf),
    /// The shared copies of a job's input.
    Copies(JobId),
}

/// The queue of the thread, which ends with the last handle.
pub(super) struct Removals(Option<SyncSender<Removal>>);

impl Removals {
    pub(super) fn start(objects: Option<Objects>) -> Self {
        let (queue, removals) = sync_channel(QUEUED_MAX);
        let started = std::thread::Builder::new()
            .name("stdin-removal".to_owned())
            .spawn(move || remove_all(&removals, objects.as_ref()));
        match started {
            Ok(_) => Self(Some(queue)),
            Err(error) => {
                tracing::warn!(%error, "no thread can be started; inputs of jobs that are done stay until the next start");
                Self(None)
            }
        }
    }

    /// Removes it soon. Never blocks.
    pub(super) fn add(&self, removal: Removal) {
        let is_queued = self.0.as_ref().is_some_and(|queue| queue.try_send(removal).is_ok());
        if !is_queued {
            tracing::debug!("an input stays until the next start: too many wait for their removal");
        }
    }
}

fn remove_all(removals: &Receiver<Removal>, objects: Option<&Objects>) {
    for removal in removals {
        match (removal, objects) {
            (Removal::Files(path), _) => {
                remove(&path.with_extension(END));
                remove(&path);
            }
            (Removal::Copies(job), Some(objects)) => copies::remove(objects, &job.to_string()),
            (Removal::Copies(_), None) => {}
        }
    }
}
