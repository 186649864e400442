//! Jobs that wait, in an order that is cheap to ask for whatever their number.
//!
//! Jobs with the same wishes form a *class*; inside it each submitter has a lane, ordered by priority and then by
//! submission. Only the heads of lanes can be next, so a dispatch looks at as many jobs as there are lanes.

use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::{JobSpec, Selector, Source};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What decides which workers fit: jobs of one class fit the same ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Class {
    selectors: Vec<Selector>,
    resources: BTreeMap<String, u32>,
    group: Option<String>,
    /// Warm workspaces are a project's; one that waits for its own must not hold up another's.
    project: Option<String>,
}

impl Class {
    pub(crate) fn of(spec: &JobSpec) -> Self {
        let mut selectors = spec.selectors.clone();
        selectors.sort();
        selectors.dedup();
        let project = match &spec.source {
            Source::Snapshot { project, .. } => Some(project.clone()),
            Source::InPlace { .. } | Source::Empty => None,
        };
        Self { selectors, resources: spec.resources.clone(), group: spec.concurrency_group.clone(), project }
    }
}

type Place = (Reverse<i32>, u64);

/// The head of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) job: JobId,
    pub(crate) submitter: &'a str,
    pub(crate) place: Place,
}

#[derive(Default, Debug)]
pub(crate) struct Queue {
    classes: BTreeMap<Class, BTreeMap<String, BTreeMap<Place, JobId>>>,
    length: usize,
}

impl Queue {
    pub(crate) fn insert(&mut self, spec: &JobSpec, submitter: &str, order: u64, job: JobId) {
        let lane = self.classes.entry(Class::of(spec)).or_default().entry(submitter.to_owned()).or_default();
        if lane.insert((Reverse(spec.priority), order), job).is_none() {
            self.length += 1;
        }
    }

    pub(crate) fn remove(&mut self, spec: &JobSpec, submitter: &str, order: u64) {
        let class = Class::of(spec);
        let Some(lanes) = self.classes.get_mut(&class) else { return };
        let Some(lane) = lanes.get_mut(submitter) else { return };
        if lane.remove(&(Reverse(spec.priority), order)).is_some() {
            self.length -= 1;
        }
        if lane.is_empty() {
            lanes.remove(submitter);
        }
        if lanes.is_empty() {
            self.classes.remove(&class);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The first job of each lane.
    pub(crate) fn heads(&self) -> impl Iterator<Item = Head<'_>> {
        self.classes.values().flat_map(|lanes| {
            lanes.iter().filter_map(|(submitter, lane)| {
                lane.first_key_value().map(|(place, job)| Head { job: *job, submitter, place: *place })
            })
        })
    }

    /// Jobs that go before this one, by priority and submission, over all lanes.
    pub(crate) fn ahead_of(&self, priority: i32, order: u64) -> u64 {
        let place = (Reverse(priority), order);
        self.classes.values().flat_map(BTreeMap::values).map(|lane| lane.range(..place).count() as u64).sum()
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.classes.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;
    use buildpool_protocol::ids::JobId;
    use buildpool_protocol::spec::{Command, JobSpec, Source};

    fn id(number: u8) -> JobId {
        format!("00000000-0000-7000-8000-0000000000{number:02x}").parse().expect("a UUID")
    }

    #[test]
    fn lanes_give_their_first_by_priority_then_by_submission() {
        let mut queue = Queue::default();
        let plain = JobSpec::new(Command::Shell("true".into()), Source::Empty);
        let urgent = JobSpec { priority: 5, ..plain.clone() };
        queue.insert(&plain, "a", 1, id(1));
        queue.insert(&urgent, "a", 2, id(2));
        queue.insert(&plain, "b", 3, id(3));
        let heads: Vec<_> = queue.heads().map(|head| head.job).collect();
        assert_eq!(heads, [id(2), id(3)]);
        assert_eq!(queue.ahead_of(0, 3), 2);
        queue.remove(&urgent, "a", 2);
        queue.remove(&urgent, "a", 2);
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.heads().next().map(|head| head.job), Some(id(1)));
    }
}
