//! The queue of jobs, with an order that is cheap to compute for any length.
//!
//! Jobs with the same requirements form a *class*. Inside a class each submitter has a lane,
//! ordered by priority and then by submission. Only the heads of lanes can be next, so a dispatch
//! checks one job per lane. Classes are found by the events that may let them run: an offer of a worker, a
//! concurrency group, a submitter.

use crate::effect::JobRecord;
use crate::offers::OfferKey;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::{JobSpec, Selector, Source};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Requirements that decide which workers are suitable. All jobs of one class have the same
/// suitable workers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Class {
    selectors: Vec<Selector>,
    resources: BTreeMap<String, u32>,
    /// The workers to which the token is restricted.
    workers: Vec<String>,
    group: Option<String>,
    /// Warm workspaces belong to a project. A job that waits for its own project must not block
    /// other projects.
    project: Option<String>,
}

impl Class {
    pub(crate) fn from_spec(spec: &JobSpec) -> Self {
        let mut selectors: Vec<Selector> =
            spec.selectors.iter().chain(&spec.access.labels).cloned().collect();
        selectors.sort();
        selectors.dedup();
        let project = match &spec.source {
            Source::Snapshot { project, .. } => Some(project.clone()),
            Source::InPlace { .. } | Source::Empty => None,
        };
        Self {
            selectors,
            resources: spec.resources.clone(),
            workers: spec.access.workers.clone(),
            group: spec.concurrency_group.clone(),
            project,
        }
    }
}

/// Order in a lane: by priority, then by submission.
pub(crate) type Place = (Reverse<i32>, u64);

/// The head of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) job: JobId,
    pub(crate) submitter: &'a str,
    pub(crate) place: Place,
}

/// Number of orders that share one counter of [`Lane::blocks`].
const BLOCK: u64 = 512;

/// Jobs of one submitter and class in their order, and the sum of their usual run times.
#[derive(Default, Debug)]
pub(crate) struct Lane {
    jobs: BTreeMap<Place, JobId>,
    /// Counters per block, so that a position is not counted job by job. Only one block is counted
    /// individually.
    blocks: BTreeMap<(Reverse<i32>, u64), u64>,
    /// Number of jobs with a usual run time, and the sum of these times.
    known: u64,
    time: Duration,
}

impl Lane {
    /// Returns the position of a job.
    pub(crate) fn place(priority: i32, order: u64) -> Place {
        (Reverse(priority), order)
    }

    /// Returns the first job and its position.
    pub(crate) fn first(&self) -> Option<(Place, JobId)> {
        self.jobs.first_key_value().map(|(place, job)| (*place, *job))
    }

    pub(crate) fn len(&self) -> u64 {
        self.jobs.len() as u64
    }

    /// Returns the number of jobs before this position.
    pub(crate) fn before(&self, place: Place) -> u64 {
        let block = block_of(place);
        let whole: u64 = self.blocks.range(..block).map(|(_, count)| count).sum();
        let start = (block.0, block.1 * BLOCK);
        whole + self.jobs.range(start..place).count() as u64
    }

    /// Returns the number of jobs with a usual run time, and the mean of these times.
    pub(crate) fn usual(&self) -> (u64, Duration) {
        let known = u32::try_from(self.known).unwrap_or(u32::MAX);
        (self.known, self.time.checked_div(known).unwrap_or_default())
    }

    /// Returns true if the job was not in the lane before.
    fn insert(&mut self, place: Place, record: &JobRecord) -> bool {
        let is_new = self.jobs.insert(place, record.job).is_none();
        if is_new {
            self.known += u64::from(record.usual.is_some());
            self.time += record.usual.unwrap_or_default();
            *self.blocks.entry(block_of(place)).or_default() += 1;
        }
        is_new
    }

    /// Returns true if the job was in the lane.
    fn remove(&mut self, place: Place, record: &JobRecord) -> bool {
        let was_there = self.jobs.remove(&place).is_some();
        if was_there {
            self.known -= u64::from(record.usual.is_some());
            self.time -= record.usual.unwrap_or_default();
            if let Some(count) = self.blocks.get_mut(&block_of(place)) {
                *count -= 1;
                if *count == 0 {
                    self.blocks.remove(&block_of(place));
                }
            }
        }
        was_there
    }
}

/// Number of a class, while it has a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ClassId(u64);

/// The jobs of a class, by submitter.
#[derive(Debug)]
struct Entry {
    class: Class,
    /// The key of [`Queue::by_offer`] under which the class is found.
    offer: Option<OfferKey>,
    lanes: BTreeMap<String, Lane>,
}

#[derive(Default, Debug)]
pub(crate) struct Queue {
    ids: BTreeMap<Class, ClassId>,
    entries: BTreeMap<ClassId, Entry>,
    /// The classes by one of their requirements, the rarest when their first job came. `None`: without a requirement.
    by_offer: BTreeMap<Option<OfferKey>, BTreeSet<ClassId>>,
    by_group: BTreeMap<String, BTreeSet<ClassId>>,
    with_resources: BTreeSet<ClassId>,
    by_submitter: BTreeMap<String, BTreeSet<ClassId>>,
    next_class: u64,
    len: usize,
}

impl Queue {
    /// Adds a job. `offer` is its rarest requirement. Returns its class.
    pub(crate) fn insert(&mut self, record: &JobRecord, offer: Option<OfferKey>) -> ClassId {
        let class = Class::from_spec(&record.spec);
        let id = match self.ids.get(&class) {
            Some(id) => *id,
            None => self.add(class, offer),
        };
        if let Some(entry) = self.entries.get_mut(&id) {
            let lane = entry.lanes.entry(record.submitter.clone()).or_default();
            let place = Lane::place(record.spec.priority, record.order);
            self.len += usize::from(lane.insert(place, record));
            self.by_submitter.entry(record.submitter.clone()).or_default().insert(id);
        }
        id
    }

    fn add(&mut self, class: Class, offer: Option<OfferKey>) -> ClassId {
        let id = ClassId(self.next_class);
        self.next_class += 1;
        self.by_offer.entry(offer).or_default().insert(id);
        if let Some(group) = &class.group {
            self.by_group.entry(group.clone()).or_default().insert(id);
        }
        if !class.resources.is_empty() {
            self.with_resources.insert(id);
        }
        self.ids.insert(class.clone(), id);
        self.entries.insert(id, Entry { class, offer, lanes: BTreeMap::new() });
        id
    }

    /// Removes a job. Returns its class if it still has jobs of this submitter.
    pub(crate) fn remove(&mut self, record: &JobRecord) -> Option<ClassId> {
        let id = self.class_of(record)?;
        let entry = self.entries.get_mut(&id)?;
        let lane = entry.lanes.get_mut(&record.submitter)?;
        let place = Lane::place(record.spec.priority, record.order);
        self.len -= usize::from(lane.remove(place, record));
        if !lane.jobs.is_empty() {
            return Some(id);
        }
        entry.lanes.remove(&record.submitter);
        let is_over = entry.lanes.is_empty();
        take_out(&mut self.by_submitter, &record.submitter, id);
        if is_over && let Some(Entry { class, offer, .. }) = self.entries.remove(&id) {
            take_out(&mut self.by_offer, &offer, id);
            if let Some(group) = &class.group {
                take_out(&mut self.by_group, group, id);
            }
            self.with_resources.remove(&id);
            self.ids.remove(&class);
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the class of a job, if the queue has the class.
    pub(crate) fn class_of(&self, record: &JobRecord) -> Option<ClassId> {
        self.ids.get(&Class::from_spec(&record.spec)).copied()
    }

    /// Returns the number of different sets of requirements of a submitter's jobs.
    pub(crate) fn kinds_of(&self, submitter: &str) -> usize {
        self.by_submitter.get(submitter).map_or(0, BTreeSet::len)
    }

    /// Returns true if a job of this submitter has these requirements.
    pub(crate) fn has_kind(&self, class: &Class, submitter: &str) -> bool {
        let entry = self.ids.get(class).and_then(|id| self.entries.get(id));
        entry.is_some_and(|entry| entry.lanes.contains_key(submitter))
    }

    /// Returns all classes.
    pub(crate) fn all(&self) -> impl Iterator<Item = ClassId> {
        self.entries.keys().copied()
    }

    /// Returns the classes that are found under this requirement.
    pub(crate) fn with_offer(&self, offer: Option<OfferKey>) -> impl Iterator<Item = ClassId> {
        self.by_offer.get(&offer).into_iter().flatten().copied()
    }

    /// Returns the classes of a concurrency group.
    pub(crate) fn of_group(&self, group: &str) -> impl Iterator<Item = ClassId> {
        self.by_group.get(group).into_iter().flatten().copied()
    }

    /// Returns the classes with jobs of a submitter.
    pub(crate) fn of_submitter(&self, submitter: &str) -> impl Iterator<Item = ClassId> {
        self.by_submitter.get(submitter).into_iter().flatten().copied()
    }

    /// Returns the classes that need units of resources.
    pub(crate) fn with_resources(&self) -> impl Iterator<Item = ClassId> {
        self.with_resources.iter().copied()
    }

    /// Returns the first job of each lane of a class.
    pub(crate) fn heads(&self, class: ClassId) -> impl Iterator<Item = Head<'_>> {
        let lanes = self.entries.get(&class).into_iter().flat_map(|entry| &entry.lanes);
        lanes.filter_map(|(submitter, lane)| lane.first().map(|(place, job)| Head { job, submitter, place }))
    }

    /// Returns the first job of a lane.
    pub(crate) fn head<'a>(&self, class: ClassId, submitter: &'a str) -> Option<Head<'a>> {
        let (place, job) = self.entries.get(&class)?.lanes.get(submitter)?.first()?;
        Some(Head { job, submitter, place })
    }

    /// Returns the job behind this one in its lane.
    pub(crate) fn after(&self, record: &JobRecord) -> Option<(Place, JobId)> {
        let lane = self.entries.get(&self.class_of(record)?)?.lanes.get(&record.submitter)?;
        let place = Lane::place(record.spec.priority, record.order);
        let mut behind = lane.jobs.range((Bound::Excluded(place), Bound::Unbounded));
        behind.next().map(|(place, job)| (*place, *job))
    }

    /// Returns the lanes by submitter, class by class.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &BTreeMap<String, Lane>> {
        self.entries.values().map(|entry| &entry.lanes)
    }

    /// Returns the lanes of a submitter.
    pub(crate) fn lanes_of(&self, submitter: &str) -> impl Iterator<Item = &Lane> {
        let entries = self.of_submitter(submitter).filter_map(|class| self.entries.get(&class));
        entries.filter_map(move |entry| entry.lanes.get(submitter))
    }

    /// Returns the number of classes.
    pub(crate) fn classes(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.lanes().flat_map(BTreeMap::values).flat_map(|lane| lane.jobs.values()).copied()
    }
}

/// Removes a class from an index.
fn take_out<K: Ord>(index: &mut BTreeMap<K, BTreeSet<ClassId>>, key: &K, class: ClassId) {
    if let Some(classes) = index.get_mut(key) {
        classes.remove(&class);
        if classes.is_empty() {
            index.remove(key);
        }
    }
}

fn block_of((priority, order): Place) -> (Reverse<i32>, u64) {
    (priority, order / BLOCK)
}

#[cfg(test)]
mod tests {
    use super::{Lane, Queue};
    use crate::effect::JobRecord;
    use buildpool_protocol::ids::JobId;
    use buildpool_protocol::spec::{Command, JobSpec, Source};
    use std::sync::Arc;
    use std::time::Duration;

    fn id(number: u64) -> JobId {
        format!("00000000-0000-7000-8000-{number:012x}").parse().expect("a UUID")
    }

    fn record(submitter: &str, priority: i32, order: u64) -> JobRecord {
        let spec = JobSpec { priority, ..JobSpec::new(Command::Shell("true".into()), Source::Empty) };
        JobRecord {
            job: id(order),
            spec: Arc::new(spec),
            submitter: submitter.to_owned(),
            token: None,
            created_at_ms: 0,
            order,
            client_request_id: None,
            snapshot: None,
            usual: Some(Duration::from_secs(order)),
        }
    }

    #[test]
    fn lanes_give_their_first_by_priority_then_by_submission() {
        let mut queue = Queue::default();
        queue.insert(&record("a", 0, 1), None);
        queue.insert(&record("a", 5, 2), None);
        queue.insert(&record("b", 0, 3), None);
        let heads: Vec<_> = queue.all().flat_map(|class| queue.heads(class)).map(|head| head.job).collect();
        assert_eq!(heads, [id(2), id(3)]);
        queue.remove(&record("a", 5, 2));
        queue.remove(&record("a", 5, 2));
        assert_eq!(queue.len(), 2);
        let mut heads = queue.all().flat_map(|class| queue.heads(class));
        assert_eq!(heads.next().map(|head| head.job), Some(id(1)));
    }

    #[test]
    fn a_lane_counts_every_job_before_a_place_over_priorities_and_blocks() {
        let mut queue = Queue::default();
        for order in 1..=1_500 {
            queue.insert(&record("a", i32::from(order % 3 == 0), order), None);
        }
        let before = |queue: &Queue, priority, order| {
            queue
                .lanes()
                .next()
                .and_then(|lanes| lanes.get("a"))
                .expect("a lane")
                .before(Lane::place(priority, order))
        };
        assert_eq!(before(&queue, 1, 3), 0);
        assert_eq!(before(&queue, 1, 1_500), 499);
        assert_eq!(before(&queue, 0, 1), 500);
        assert_eq!(before(&queue, 0, 1_024), 500 + 1_023 - 341);
        queue.remove(&record("a", 1, 3));
        assert_eq!(before(&queue, 0, 1_024), 499 + 1_023 - 341);
        assert_eq!(queue.len(), 1_499);
    }

    #[test]
    fn a_lane_knows_its_usual_time() {
        let mut queue = Queue::default();
        for order in 1..=10 {
            queue.insert(&record("a", i32::from(order > 8), order), None);
        }
        queue.remove(&record("a", 0, 1));
        let lane = queue.lanes().next().and_then(|lanes| lanes.get("a")).expect("a lane");
        assert_eq!((lane.len(), lane.usual()), (9, (9, Duration::from_secs(6))));
        assert_eq!(lane.first(), Some((Lane::place(1, 9), id(9))));
    }
}
