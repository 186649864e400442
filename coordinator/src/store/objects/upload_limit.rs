//! Limits the uploads of files of one kind: each takes a connection for each part and up to 32 MiB.

use super::Kind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Uploads of snapshots, of artifacts and of input at a time. Logs have a limit of their own, so that a job is not delayed
/// by the uploads of others.
const UPLOADS_MAX: usize = 4;

/// Uploads that run, and threads that wait to begin one.
#[derive(Default, Debug)]
pub(super) struct UploadLimit {
    uploads: Mutex<Uploads>,
    ended: Condvar,
}

#[derive(Clone, Copy, Default, Debug)]
struct Uploads {
    running: usize,
    waiting: usize,
}

/// The right to upload a file.
pub(super) struct UploadPermit<'l>(Option<&'l UploadLimit>);

impl UploadLimit {
    /// Waits until fewer than [`UPLOADS_MAX`] uploads run. Blocks.
    pub(super) fn acquire(&self, kind: Kind) -> UploadPermit<'_> {
        if kind == Kind::Log {
            return UploadPermit(None);
        }
        let mut uploads = self.uploads();
        uploads.waiting += 1;
        let waited = self.ended.wait_while(uploads, |uploads| uploads.running >= UPLOADS_MAX);
        let mut uploads = waited.unwrap_or_else(PoisonError::into_inner);
        uploads.waiting -= 1;
        uploads.running += 1;
        UploadPermit(Some(self))
    }

    fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UploadPermit<'_> {
    fn drop(&mut self) {
        if let Some(limit) = self.0 {
            limit.uploads().running -= 1;
            limit.ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, UPLOADS_MAX, UploadLimit, Uploads};
    use std::thread::{self, yield_now};
    use std::time::{Duration, Instant};

    #[test]
    fn an_upload_over_the_limit_waits_for_the_end_of_another_and_logs_do_not() {
        let limit = UploadLimit::default();
        let mut permits: Vec<_> = (0..UPLOADS_MAX).map(|_| limit.acquire(Kind::Artifact)).collect();
        let _log = limit.acquire(Kind::Log);
        thread::scope(|scope| {
            let upload = scope.spawn(|| drop(limit.acquire(Kind::Snapshot)));
            let deadline = Instant::now() + Duration::from_secs(60);
            while limit.uploads().waiting == 0 && !upload.is_finished() {
                assert!(Instant::now() < deadline, "the thread neither waits nor ends");
                yield_now();
            }
            let Uploads { running, waiting } = *limit.uploads();
            // Let the thread end before a failed assertion: the scope waits for it.
            permits.pop();
            upload.join().expect("no panic");
            assert_eq!((running, waiting), (UPLOADS_MAX, 1));
        });
        assert_eq!(limit.uploads().running, UPLOADS_MAX - 1);
    }
}
