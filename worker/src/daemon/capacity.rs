//! Checks if this worker has the resources to prepare an attempt. Missing resources are never the
//! fault of the job, because another worker or a later time may succeed. Until then the worker
//! accepts no jobs.

use super::agent::Agent;
use super::data_directory::DataDirectory;
use super::event::Event;
use crate::limits::{ROOM_BYTES_MIN, ROOM_LOOK_EVERY};
use crate::platform::disk_room;
use buildpool_objects::removal;
use buildpool_protocol::outcome::StartFailure;
use nix::errno::Errno;
use std::fs;
use std::io;
use tokio::time::Instant;
use tracing::{info, warn};

/// System errors that mean a lack of resources.
const SHORTAGE_ERRORS: [Errno; 8] = [
    Errno::ENOSPC,
    Errno::EDQUOT,
    Errno::EROFS,
    Errno::EIO,
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::ENOMEM,
    Errno::EAGAIN,
];

/// Converts a workspace failure caused by missing resources. If a tool such as git failed, the
/// system's error text is the only indication.
pub(super) fn classify(failure: StartFailure) -> StartFailure {
    match failure {
        StartFailure::Workspace { reason } if is_shortage(&reason) => StartFailure::Resources { reason },
        other => other,
    }
}

fn is_shortage(reason: &str) -> bool {
    SHORTAGE_ERRORS.iter().any(|shortage| {
        let text = io::Error::from(*shortage).to_string();
        let words = text.split(" (os error").next().unwrap_or(&text);
        reason.contains(words)
    })
}

/// Tests if an attempt can be prepared: creates a directory and writes some bytes.
fn probe_disk(data_directory: &DataDirectory) -> io::Result<()> {
    let place = data_directory.path().join("room");
    let tried =
        fs::create_dir_all(&place).and_then(|()| fs::write(place.join("probe"), vec![0x5a; ROOM_BYTES_MIN]));
    let removed = removal::remove(&place);
    tried.and(removed)
}

impl Agent {
    /// Stops accepting jobs after an attempt could not be prepared because of missing resources.
    pub(super) fn note_shortage(&mut self, failure: &StartFailure) {
        if let StartFailure::Resources { reason } = failure
            && is_shortage(reason)
            && self.shortage.is_none()
        {
            warn!("no jobs are taken for now: {reason}");
            self.shortage = Some((reason.clone(), Instant::now() + ROOM_LOOK_EVERY));
            self.disk_check_at = Instant::now();
            self.report_soon();
        }
    }

    /// Removes idle workspaces when free disk space is low, also while jobs run.
    pub(super) fn check_disk_space(&mut self, now: Instant) {
        if now < self.disk_check_at {
            return;
        }
        self.disk_check_at = now + ROOM_LOOK_EVERY;
        let Ok(room) = disk_room(self.data_directory.path()) else { return };
        if self.is_tidying || !self.files.space.is_short(room) {
            return;
        }
        self.is_tidying = true;
        let files = self.files.clone();
        self.work.spawn_blocking(move || {
            files.make_room();
            Event::Tidied
        });
    }

    /// Schedules an immediate check after space was freed.
    pub(super) fn recheck_shortage(&mut self) {
        if let Some((_, check_at)) = &mut self.shortage {
            *check_at = Instant::now();
        }
    }

    /// Accepts jobs again when the resources are available.
    pub(super) fn check_shortage_over(&mut self, now: Instant) {
        if let Some((_, check_at)) = self.shortage.as_mut().filter(|(_, check_at)| now >= *check_at) {
            *check_at = now + ROOM_LOOK_EVERY;
            if probe_disk(&self.data_directory).is_ok() {
                info!("jobs are taken again");
                self.shortage = None;
                self.report_soon();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::classify;
    use buildpool_protocol::outcome::StartFailure;

    #[test]
    fn what_the_worker_lacks_is_told_from_what_is_wrong_with_the_files() {
        let own = |reason: &str| {
            matches!(
                classify(StartFailure::Workspace { reason: reason.into() }),
                StartFailure::Resources { .. }
            )
        };
        for shortage in [
            "the snapshot did not come: writing /w/x.part: No space left on device (os error 28)",
            "the workspace could not be laid out: git index-pack: fatal: write error: No space left on device",
            "making /w/attempts: Read-only file system (os error 30)",
            "git: error: unable to create thread: Resource temporarily unavailable",
            "opening /w/lease: Too many open files (os error 24)",
        ] {
            assert!(own(shortage), "{shortage}");
        }
        for other in ["the snapshot abc is not on this worker", "it was ended before it started"] {
            assert!(!own(other), "{other}");
        }
    }
}
