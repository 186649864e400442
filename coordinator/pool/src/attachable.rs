//! Jobs that an identical submit attaches to, because their result was not delivered.

use crate::submit::Likeness;
use buildpool_protocol::ids::JobId;
use std::collections::{BTreeMap, BTreeSet};

/// Limit on the remembered jobs.
const JOBS_MAX: usize = 1_000;

/// The jobs, found by submitter and spec, by their id, and by submitter. Each change takes the same
/// time for any number of jobs.
#[derive(Default, Debug)]
pub(crate) struct Attachable {
    jobs: BTreeMap<(String, Likeness), JobId>,
    keys: BTreeMap<JobId, (String, Likeness)>,
    of_submitter: BTreeMap<String, BTreeSet<JobId>>,
}

impl Attachable {
    /// Returns the job of this submitter with this spec.
    pub(crate) fn get(&self, submitter: &str, likeness: Likeness) -> Option<JobId> {
        self.jobs.get(&(submitter.to_owned(), likeness)).copied()
    }

    /// Adds a job. It replaces an earlier one with the same spec.
    pub(crate) fn insert(&mut self, submitter: &str, likeness: Likeness, job: JobId) {
        let key = (submitter.to_owned(), likeness);
        if let Some(earlier) = self.jobs.insert(key.clone(), job) {
            self.forget(earlier);
        }
        self.keys.insert(job, key);
        self.of_submitter.entry(submitter.to_owned()).or_default().insert(job);
    }

    /// Removes a job. Returns false if it was not there.
    pub(crate) fn remove(&mut self, job: JobId) -> bool {
        let Some(key) = self.forget(job) else { return false };
        self.jobs.remove(&key);
        true
    }

    /// Removes the entries by id and by submitter.
    fn forget(&mut self, job: JobId) -> Option<(String, Likeness)> {
        let key = self.keys.remove(&job)?;
        if let Some(jobs) = self.of_submitter.get_mut(&key.0) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.of_submitter.remove(&key.0);
            }
        }
        Some(key)
    }

    /// Returns the job that gives up its place for a new one: the oldest one of the submitter with
    /// the most jobs. `None` while there are free places.
    pub(crate) fn surplus(&self) -> Option<JobId> {
        if self.keys.len() < JOBS_MAX {
            return None;
        }
        let of_most = self.of_submitter.values().max_by_key(|jobs| jobs.len())?;
        // Ids grow with time, so the smallest is the oldest.
        of_most.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Attachable, JOBS_MAX};
    use buildpool_protocol::ids::JobId;

    fn id(number: usize) -> JobId {
        format!("00000000-0000-7000-8000-{number:012x}").parse().expect("a UUID")
    }

    fn likeness(number: usize) -> [u8; 32] {
        let mut likeness = [0; 32];
        likeness[..8].copy_from_slice(&number.to_le_bytes());
        likeness
    }

    #[test]
    fn the_submitter_with_the_most_jobs_gives_up_its_oldest_one() {
        let mut attachable = Attachable::default();
        attachable.insert("ada", likeness(1), id(1));
        (2..=JOBS_MAX).for_each(|number| {
            assert_eq!(attachable.surplus(), None);
            attachable.insert("eve", likeness(number), id(number));
        });
        assert_eq!(attachable.surplus(), Some(id(2)));
        assert!(attachable.remove(id(2)) && !attachable.remove(id(2)));
        assert_eq!((attachable.surplus(), attachable.get("eve", likeness(2))), (None, None));
        assert_eq!(attachable.get("ada", likeness(1)), Some(id(1)));
    }

    #[test]
    fn a_later_job_with_the_same_spec_replaces_the_earlier_one() {
        let mut attachable = Attachable::default();
        attachable.insert("ada", likeness(1), id(1));
        attachable.insert("ada", likeness(1), id(2));
        assert!(!attachable.remove(id(1)));
        assert_eq!(attachable.get("ada", likeness(1)), Some(id(2)));
        assert!(attachable.remove(id(2)));
        assert!(attachable.jobs.is_empty() && attachable.of_submitter.is_empty());
    }
}
