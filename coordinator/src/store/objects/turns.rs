//! Limits the uploads of files of one kind: each takes a connection for each part and up to 32 MiB.

use super::Kind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Uploads of snapshots, of artifacts and of input at a time. Logs have a limit of their own, so that a job is not delayed
/// by the uploads of others.
const UPLOADS_MAX: usize = 4;

/// Uploads that are under way.
#[derive(Default, Debug)]
pub(super) struct Turns {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// The right to upload a file.
pub(super) struct Turn<'t>(Option<&'t Turns>);

impl Turns {
    /// Waits for a turn. Blocks.
    pub(super) fn take(&self, kind: Kind) -> Turn<'_> {
        if kind == Kind::Log {
            return Turn(None);
        }
        let waited = self.freed.wait_while(self.taken(), |taken| *taken >= UPLOADS_MAX);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
        Turn(Some(self))
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(turns) = self.0 {
            *turns.taken() -= 1;
            turns.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Turns, UPLOADS_MAX};
    use std::sync::mpsc;

    #[test]
    fn uploads_wait_for_a_turn_and_logs_do_not() {
        let turns = Turns::default();
        let mut taken: Vec<_> = (0..UPLOADS_MAX).map(|_| turns.take(Kind::Artifact)).collect();
        let _log = turns.take(Kind::Log);
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let turns = &turns;
            scope.spawn(move || {
                let _turn = turns.take(Kind::Snapshot);
                sender.send(()).unwrap();
            });
            assert!(receiver.try_recv().is_err());
            taken.pop();
            receiver.recv().unwrap();
        });
    }
}
