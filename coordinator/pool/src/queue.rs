//! Jobs that wait, in an order that is cheap to ask for whatever their number.
//!
//! Jobs with the same wishes form a *class*; inside it each submitter has a lane, ordered by priority and then by
//! submission. Only the heads of lanes can be next, so a dispatch looks at as many jobs as there are lanes.

use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::{JobSpec, Selector, Source};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

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

/// Jobs of one submitter with the same wishes, in their order.
type Lane = BTreeMap<Place, JobId>;

/// Orders that share one counter of [`Queue::blocks`].
const BLOCK: u64 = 512;

#[derive(Default, Debug)]
pub(crate) struct Queue {
    classes: BTreeMap<Class, BTreeMap<String, Lane>>,
    /// All places, so that a position is not counted job by job: whole blocks by their counters, and one block by hand.
    places: BTreeSet<Place>,
    blocks: BTreeMap<(Reverse<i32>, u64), u64>,
}

impl Queue {
    pub(crate) fn insert(&mut self, spec: &JobSpec, submitter: &str, order: u64, job: JobId) {
        let lane = self.classes.entry(Class::of(spec)).or_default().entry(submitter.to_owned()).or_default();
        let place = (Reverse(spec.priority), order);
        if lane.insert(place, job).is_none() {
            self.places.insert(place);
            *self.blocks.entry(block_of(place)).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, spec: &JobSpec, submitter: &str, order: u64) {
        let class = Class::of(spec);
        let Some(lanes) = self.classes.get_mut(&class) else { return };
        let Some(lane) = lanes.get_mut(submitter) else { return };
        let place = (Reverse(spec.priority), order);
        if lane.remove(&place).is_some() {
            self.places.remove(&place);
            if let Some(count) = self.blocks.get_mut(&block_of(place)) {
                *count -= 1;
                if *count == 0 {
                    self.blocks.remove(&block_of(place));
                }
            }
        }
        if lane.is_empty() {
            lanes.remove(submitter);
        }
        if lanes.is_empty() {
            self.classes.remove(&class);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Class by class, the first job of each lane.
    pub(crate) fn heads(&self) -> impl Iterator<Item = impl Iterator<Item = Head<'_>>> {
        self.classes.values().map(|lanes| {
            lanes.iter().filter_map(|(submitter, lane)| {
                lane.first_key_value().map(|(place, job)| Head { job: *job, submitter, place: *place })
            })
        })
    }

    /// Jobs that go before this one, by priority and submission, over all lanes.
    pub(crate) fn ahead_of(&self, priority: i32, order: u64) -> u64 {
        let place = (Reverse(priority), order);
        let block = block_of(place);
        let whole: u64 = self.blocks.range(..block).map(|(_, count)| count).sum();
        let start = (block.0, block.1 * BLOCK);
        whole + self.places.range(start..place).count() as u64
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.classes.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values).copied()
    }
}

fn block_of((priority, order): Place) -> (Reverse<i32>, u64) {
    (priority, order / BLOCK)
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
        let heads: Vec<_> = queue.heads().flatten().map(|head| head.job).collect();
        assert_eq!(heads, [id(2), id(3)]);
        assert_eq!(queue.ahead_of(0, 3), 2);
        queue.remove(&urgent, "a", 2);
        queue.remove(&urgent, "a", 2);
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.heads().flatten().next().map(|head| head.job), Some(id(1)));
    }

    #[test]
    fn a_position_counts_every_job_ahead_over_priorities_and_blocks() {
        let mut queue = Queue::default();
        let spec =
            |priority| JobSpec { priority, ..JobSpec::new(Command::Shell("true".into()), Source::Empty) };
        for order in 1..=1_500 {
            let job = format!("00000000-0000-7000-8000-{order:012x}").parse().expect("a UUID");
            queue.insert(
                &spec(i32::from(order % 3 == 0)),
                if order % 2 == 0 { "a" } else { "b" },
                order,
                job,
            );
        }
        assert_eq!(queue.ahead_of(1, 3), 0);
        assert_eq!(queue.ahead_of(1, 1_500), 499);
        assert_eq!(queue.ahead_of(0, 1), 500);
        assert_eq!(queue.ahead_of(0, 1_024), 500 + 1_023 - 341);
        queue.remove(&spec(1), "b", 3);
        assert_eq!(queue.ahead_of(0, 1_024), 499 + 1_023 - 341);
    }
}
