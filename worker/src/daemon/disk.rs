//! Ends jobs that fill the disk. A job may change files of its workspace up to a limit: the size of each file that changed
//! since the start counts, whole.

use super::agent::Agent;
use super::attempt::Stage;
use super::event::Event;
use crate::limits::{DISK_LOOK_EVERY, DISK_LOOK_PART};
use crate::records::DiskLimit;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::outcome::EndReason;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;

/// The limit of an attempt, and when it is checked next.
pub(super) struct DiskWatch {
    limit: DiskLimit,
    /// `None` while the files are being measured.
    check_at: Option<Instant>,
}

impl DiskWatch {
    pub(super) fn new(limit: DiskLimit) -> Self {
        Self { limit, check_at: Some(Instant::now() + DISK_LOOK_EVERY) }
    }
}

impl Agent {
    /// Measures the files of running attempts. A measurement takes at most a small part of the time.
    pub(super) fn check_job_disks(&mut self, now: Instant) {
        for (id, attempt) in &mut self.attempts {
            let is_running = matches!(attempt.stage, Stage::InKeeper { is_ending: false, .. });
            let (Some(watch), Some(started_at_ms)) = (&mut attempt.disk, attempt.started_at_ms) else {
                continue;
            };
            if !is_running || attempt.end_reason.is_some() || watch.check_at.is_none_or(|at| now < at) {
                continue;
            }
            watch.check_at = None;
            let (id, limit) = (*id, watch.limit.clone());
            self.work.spawn_blocking(move || {
                let began = std::time::Instant::now();
                let bytes = changed_bytes(&limit.root, started_at_ms, limit.bytes_max);
                Event::Measured { attempt: id, bytes, took: began.elapsed() }
            });
        }
    }

    pub(super) fn on_measured(&mut self, id: AttemptId, bytes: u64, took: Duration) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(watch) = &mut attempt.disk else { return };
        watch.check_at = Some(Instant::now() + DISK_LOOK_EVERY.max(took * DISK_LOOK_PART));
        let limit_bytes = watch.limit.bytes_max;
        if bytes > limit_bytes {
            warn!(job = %id.job, attempt = id.number, bytes, limit_bytes, "an attempt is ended, because it uses too much disk space");
            self.end_attempt(id, EndReason::DiskLimit { used_bytes: bytes, limit_bytes });
        }
    }
}

/// Returns the size of the files that changed since a time, in bytes. It stops above `enough`.
fn changed_bytes(root: &Path, since_ms: i64, enough: u64) -> u64 {
    let files = walkdir::WalkDir::new(root).follow_links(false).same_file_system(true);
    let mut bytes = 0;
    // Files of other users and files that are being removed can't be read.
    for metadata in files.into_iter().flatten().filter_map(|entry| entry.metadata().ok()) {
        let changed_ms = metadata.ctime() * 1000 + metadata.ctime_nsec() / 1_000_000;
        if metadata.is_file() && changed_ms >= since_ms {
            bytes += metadata.blocks() * 512;
        }
        if bytes > enough {
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::changed_bytes;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_that_changed_since_the_start_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let (old, new) = (directory.path().join("old"), directory.path().join("below/new"));
        fs::create_dir(directory.path().join("below")).expect("made");
        fs::write(&old, vec![1; 1 << 20]).expect("written");
        let changed_ms = |path: &std::path::Path| {
            let metadata = fs::metadata(path).expect("it is there");
            metadata.ctime() * 1000 + metadata.ctime_nsec() / 1_000_000
        };
        // The clock of a file system advances in steps.
        while !new.exists() || changed_ms(&new) <= changed_ms(&old) {
            fs::write(&new, vec![1; 2 << 20]).expect("written");
        }
        let (since_old, since_new) = (changed_ms(&old), changed_ms(&new));
        assert!(changed_bytes(directory.path(), since_old, u64::MAX) >= 3 << 20);
        let newer = changed_bytes(directory.path(), since_new, u64::MAX);
        assert!(((2 << 20)..(3 << 20)).contains(&newer), "{newer}");
        assert_eq!(changed_bytes(directory.path(), since_new + 60_000, u64::MAX), 0);
        // A walk ends where the limit is passed.
        assert!(changed_bytes(directory.path(), since_old, 1) < 3 << 20);
    }
}
