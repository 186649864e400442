//! When the pending records are written: at once, or together with later ones.

use buildpool_pool::Change;
use std::time::Duration;

/// Maximum delay of a record that no reply depends on. Within it, the record shares the transaction
/// of an urgent one.
const WRITE_NOTES_WITHIN: Duration = Duration::from_millis(50);
/// Maximum delay of the record of a submit that can't be granted now. Within it, the record shares the transaction of
/// the end of another job, whose slot then does not wait for a transaction of the submit.
const WRITE_SUBMITS_WITHIN: Duration = Duration::from_millis(2);
/// Number of pending records above which those of submits are written at once.
const GROUPED_RECORDS_MAX: usize = 512;

/// The next step with the pending records and effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Write the records, then carry out the effects.
    Write,
    /// Carry out the effects, which depend on no pending record.
    Perform,
    /// Wait for more records. All effects wait too, so that their order stays.
    Wait,
}

/// The pending records. Times are those of the runtime's clock.
#[derive(Default, Debug)]
pub(super) struct WriteTiming {
    /// True if a message to a worker or the reply to a request depends on a record.
    is_urgent: bool,
    /// Time of the oldest pending record that no reply depends on.
    noted_at: Option<Duration>,
    /// Time of the oldest pending submit that waits in the queue.
    submitted_at: Option<Duration>,
}

impl WriteTiming {
    /// Records a change that must be on disk before the later effects are carried out.
    pub(super) fn persist(&mut self, now: Duration, change: &Change) {
        match change {
            Change::Submitted(_) | Change::Attachable { .. } => {
                self.submitted_at.get_or_insert(now);
            }
            Change::Attempt { .. }
            | Change::CancelRequested { .. }
            | Change::Done { .. }
            | Change::Worker(_)
            | Change::WorkerForgotten(_) => self.is_urgent = true,
        }
    }

    /// Records a change that no reply depends on.
    pub(super) fn note(&mut self, now: Duration) {
        self.noted_at.get_or_insert(now);
    }

    /// Returns the time at which the pending records must be written.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let notes = self.noted_at.map(|at| at + WRITE_NOTES_WITHIN);
        notes.into_iter().chain(self.submitted_at.map(|at| at + WRITE_SUBMITS_WITHIN)).min()
    }

    /// Returns the next step with this number of pending records.
    pub(super) fn step(&self, now: Duration, records: usize) -> Step {
        if records == 0 {
            return Step::Perform;
        }
        let is_late = self.next_deadline().is_none_or(|at| at <= now);
        match self.submitted_at {
            _ if self.is_urgent || is_late => Step::Write,
            Some(_) if records >= GROUPED_RECORDS_MAX => Step::Write,
            Some(_) => Step::Wait,
            None => Step::Perform,
        }
    }

    /// The records are on disk.
    pub(super) fn written(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Duration, GROUPED_RECORDS_MAX, Step, WriteTiming};
    use buildpool_protocol::ids::{JobId, WorkerId};

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn submit() -> Change {
        Change::Attachable { job: JobId::from_uuid(uuid::Uuid::nil()), attachable: true }
    }

    fn urgent() -> Change {
        Change::WorkerForgotten(WorkerId::from_uuid(uuid::Uuid::nil()))
    }

    #[test]
    fn a_waiting_submit_is_written_with_the_next_urgent_record_or_soon() {
        let mut timing = WriteTiming::default();
        assert_eq!((timing.step(at(0), 0), timing.next_deadline()), (Step::Perform, None));
        timing.persist(at(10), &submit());
        timing.persist(at(11), &submit());
        assert_eq!(timing.next_deadline(), Some(at(12)), "the oldest one decides");
        assert_eq!(timing.step(at(11), 2), Step::Wait);
        assert_eq!(timing.step(at(12), 2), Step::Write);
        assert_eq!(timing.step(at(11), GROUPED_RECORDS_MAX), Step::Write);
        timing.persist(at(11), &urgent());
        assert_eq!(timing.step(at(11), 3), Step::Write);
        timing.written();
        assert_eq!((timing.step(at(11), 0), timing.next_deadline()), (Step::Perform, None));
    }

    #[test]
    fn a_note_delays_no_effect_and_is_written_in_time() {
        let mut timing = WriteTiming::default();
        timing.note(at(10));
        assert_eq!(timing.step(at(11), 1), Step::Perform);
        assert_eq!(timing.step(at(60), 1), Step::Write);
        timing.persist(at(59), &submit());
        assert_eq!(timing.step(at(59), 2), Step::Wait);
        assert_eq!(timing.next_deadline(), Some(at(60)), "the note was there first");
    }
}
