//! Dispatch: the queued jobs that a change of the state lets run.
//!
//! After a dispatch no queued job can be granted. So the next one looks only at the jobs that a
//! change since then may let run ([`DispatchTriggers`]): a job that was queued, the jobs that a worker with free
//! room could run, the jobs of a concurrency group that became free. The cost of an input does
//! not depend on the number of other queued jobs, nor on workers that are busy or take no job of this
//! submitter.

use crate::input::Now;
use crate::placement::Obstacle;
use crate::pool::{Pool, Timer};
use crate::queue::{ClassId, Head, Place};
use crate::reserve::Reserved;
use crate::roster::Worker;
use crate::share::ShareOrder;
use buildpool_protocol::ids::{JobId, WorkerId};
use buildpool_protocol::spec::JobSpec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

/// Changes since the last dispatch that may let a queued job run.
#[derive(Default, Debug)]
pub(crate) struct DispatchTriggers {
    /// Anything may have changed.
    is_any: bool,
    /// Lanes with another first job, or with a job behind it.
    lanes: BTreeSet<(ClassId, String)>,
    /// Workers that may have room.
    workers: BTreeSet<WorkerId>,
    /// Concurrency groups without a running job.
    groups: BTreeSet<String>,
    /// Submitters with a running job less, whose number is limited.
    submitters: BTreeSet<String>,
    /// Units of a resource may be free, or reserved for no job.
    resources: bool,
    /// A wait for a certain worker may be over.
    waits: bool,
}

impl DispatchTriggers {
    fn is_empty(&self) -> bool {
        let Self { is_any, lanes, workers, groups, submitters, resources, waits } = self;
        let is_none = lanes.is_empty() && workers.is_empty() && groups.is_empty() && submitters.is_empty();
        is_none && !is_any && !resources && !waits
    }

    /// Anything may have changed.
    pub(crate) fn any(&mut self) {
        self.is_any = true;
    }

    pub(crate) fn lane(&mut self, class: ClassId, submitter: &str) {
        self.lanes.insert((class, submitter.to_owned()));
    }

    /// A worker may have room, or may be the reason why jobs waited for it no longer.
    pub(crate) fn worker(&mut self, worker: WorkerId) {
        self.workers.insert(worker);
        self.waits = true;
    }

    pub(crate) fn group(&mut self, group: &str) {
        self.groups.insert(group.to_owned());
    }

    pub(crate) fn submitter(&mut self, submitter: &str) {
        self.submitters.insert(submitter.to_owned());
    }

    pub(crate) fn resources(&mut self) {
        self.resources = true;
    }

    /// A wait for a certain worker may be over.
    pub(crate) fn waits(&mut self) {
        self.waits = true;
    }
}

/// A job's rank among the jobs that can be granted: the smallest goes first.
type Rank = (ShareOrder, Place);

/// Jobs by rank, the smallest first.
type Ranked = BinaryHeap<Reverse<(Rank, JobId)>>;

/// First jobs of lanes.
struct Heads {
    heads: Ranked,
    /// True if all jobs that need units of resources are among them, so that reservations are made anew.
    with_resources: bool,
}

impl Pool {
    /// Returns true if [`Pool::dispatch`] may grant a job: a job was queued, or room may have become
    /// free since the last call.
    pub fn is_dispatch_due(&self) -> bool {
        !self.triggers.is_empty()
    }

    /// Grants queued jobs until no more fit. Drain [`Pool::poll_effect`] afterwards.
    ///
    /// The submitter's turn decides first, then priority and submission. A submitter with one job
    /// therefore waits for at most one slot to become free, independent of other queues.
    /// During a series of short jobs, it also waits for the early grants already sent.
    pub fn dispatch(&mut self, now: Now) {
        if self.triggers.is_empty() {
            return;
        }
        let triggers = std::mem::take(&mut self.triggers);
        let Heads { mut heads, with_resources } = self.heads_of(&triggers);
        let mut reserved = Reserved::default();
        // Jobs that units were reserved for.
        let mut reserving = Vec::new();
        let mut has_granted = false;
        let mut wake: Option<Duration> = None;
        while let Some(Reverse(((turn, place), id))) = heads.pop() {
            let Some(job) = self.jobs.get(&id) else { continue };
            debug_assert!(job.granted().is_none(), "a head is queued");
            let present = self.share(&job.record.submitter).order();
            if present != turn {
                // A job of the same submitter was granted in between.
                heads.push(Reverse(((present, place), id)));
                continue;
            }
            if has_granted && !self.competes(&job.record.spec, None) {
                continue;
            }
            self.waits.remove(&id);
            match self.placement(job, &reserved, now.clock) {
                Some(Obstacle::None(worker)) => {
                    heads.extend(self.behind(id));
                    self.grant(now, id, worker);
                    has_granted = true;
                    if !reserving.is_empty() {
                        // The grant changed the order of the submitters.
                        reserved = Reserved::default();
                        heads.extend(std::mem::take(&mut reserving));
                    }
                }
                Some(Obstacle::Warm { until }) => {
                    wake = Some(wake.map_or(until, |wake| wake.min(until)));
                    self.waits.insert(id);
                }
                Some(Obstacle::Elsewhere { until }) => {
                    wake = Some(wake.map_or(until, |wake| wake.min(until)));
                    // This obstacle does not apply to the jobs behind this one.
                    heads.extend(self.behind(id));
                    self.waits.insert(id);
                }
                None if !job.record.spec.resources.is_empty() => {
                    self.reserve(&job.record.spec, &mut reserved);
                    reserving.push(Reverse(((turn, place), id)));
                }
                None
                | Some(
                    Obstacle::PoolDraining
                    | Obstacle::Group(_)
                    | Obstacle::Quota { .. }
                    | Obstacle::Secrets(_)
                    | Obstacle::Unsatisfiable(_)
                    | Obstacle::Workers(_),
                ) => {}
            }
        }
        if with_resources {
            self.reserved = reserved;
        }
        if let Some(at) = wake {
            self.timers.insert((at, Timer::Dispatch));
        }
        // The grants changed the lanes, which were looked at.
        self.triggers = DispatchTriggers::default();
    }

    /// Returns the job behind this one in its lane.
    fn behind(&self, id: JobId) -> Option<Reverse<(Rank, JobId)>> {
        let record = &self.jobs.get(&id)?.record;
        let (place, behind) = self.queue.after(record)?;
        Some(Reverse(((self.share(&record.submitter).order(), place), behind)))
    }

    /// Returns the first jobs of the lanes that these triggers are about, if a worker has room for them or
    /// if they lack only units of a resource.
    fn heads_of(&self, triggers: &DispatchTriggers) -> Heads {
        if self.queue.len() == 0 || self.draining || !self.roster.has_open() {
            return Heads { heads: Ranked::new(), with_resources: true };
        }
        let mut ranks: BTreeMap<JobId, Rank> = BTreeMap::new();
        let mut classes: BTreeSet<ClassId> = BTreeSet::new();
        if triggers.is_any {
            classes.extend(self.queue.all());
        }
        for group in &triggers.groups {
            classes.extend(self.queue.of_group(group));
        }
        for submitter in &triggers.submitters {
            classes.extend(self.queue.of_submitter(submitter));
        }
        let is_open = |id: &&WorkerId| self.roster.get(**id).is_some_and(Worker::is_open);
        let fresh: Vec<WorkerId> = triggers.workers.iter().filter(is_open).copied().collect();
        let mut of_fresh: BTreeSet<ClassId> = BTreeSet::new();
        if !fresh.is_empty() {
            of_fresh.extend(self.queue.with_offer(None));
        }
        for worker in fresh.iter().filter_map(|id| self.roster.get(*id)) {
            for offer in worker.offers() {
                of_fresh.extend(self.queue.with_offer(Some(*offer)));
            }
        }
        let mut lanes: BTreeSet<(ClassId, &str)> =
            triggers.lanes.iter().map(|(class, submitter)| (*class, submitter.as_str())).collect();
        if triggers.waits {
            let waiting = self.waits.iter().filter_map(|id| self.jobs.get(id));
            lanes.extend(
                waiting.filter_map(|job| {
                    Some((self.queue.class_of(&job.record)?, job.record.submitter.as_str()))
                }),
            );
        }
        // A reservation depends on all jobs that need units, in their order.
        let of_resources: BTreeSet<ClassId> = self.queue.with_resources().collect();
        let is_about = |class: &ClassId| of_resources.contains(class);
        let with_resources = triggers.resources
            || classes.iter().chain(&of_fresh).any(is_about)
            || lanes.iter().any(|(class, _)| is_about(class));
        if with_resources {
            classes.extend(&of_resources);
        }
        let mut add = |head: Head<'_>, among: Option<&[WorkerId]>| {
            let Some(job) = self.jobs.get(&head.job) else { return };
            let share = self.share(head.submitter);
            if self.running_quota_reached(head.submitter, share).is_none()
                && self.competes(&job.record.spec, among)
            {
                ranks.insert(head.job, (share.order(), head.place));
            }
        };
        for class in &classes {
            self.queue.heads(*class).for_each(|head| add(head, None));
        }
        for class in of_fresh.difference(&classes) {
            self.queue.heads(*class).for_each(|head| add(head, Some(&fresh)));
        }
        for (class, submitter) in lanes {
            // The other ones were compared with all open workers.
            if !classes.contains(&class) {
                self.queue.head(class, submitter).into_iter().for_each(|head| add(head, None));
            }
        }
        let heads = ranks.into_iter().map(|(job, rank)| Reverse((rank, job))).collect();
        Heads { heads, with_resources }
    }

    /// Returns the heap of all first jobs of lanes. A check of the invariants needs it.
    pub(crate) fn candidates(&self) -> Ranked {
        let mut triggers = DispatchTriggers::default();
        triggers.any();
        self.heads_of(&triggers).heads
    }

    /// Returns true if a worker has room for such a job, or lacks only units of a resource. `among` has
    /// the workers to look at; `None` means all that accept jobs now.
    fn competes(&self, spec: &JobSpec, among: Option<&[WorkerId]>) -> bool {
        let nothing = Reserved::default();
        if spec.concurrency_group.as_ref().is_some_and(|group| self.groups.contains_key(group)) {
            return false;
        }
        let has_room = |worker: &Worker| worker.has_room(spec, &nothing);
        if !spec.resources.is_empty() {
            return self.roster.fitting(spec).any(|(_, worker)| worker.is_in_service());
        }
        match among {
            Some(few) => few.iter().filter_map(|id| self.roster.get(*id)).any(has_room),
            None => self.roster.open_for(spec).any(|(_, worker)| has_room(worker)),
        }
    }
}
