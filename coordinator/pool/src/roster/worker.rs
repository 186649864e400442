//! A known worker: its record, its contact, and the jobs that it has.

use crate::effect::WorkerRecord;
use crate::input::Session;
use crate::offers::{OfferKey, Offers, offers};
use crate::reserve::Reserved;
use crate::roster::short_jobs::ShortJobSeries;
use buildpool_protocol::ids::{BootId, JobId};
use buildpool_protocol::limits::EARLY_GRANTS_MAX;
use buildpool_protocol::spec::{Access, JobSpec, OnLost};
use buildpool_protocol::worker_link::Condition;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Connection state of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contact {
    Connected { session: Session, boot: BootId },
    Absent { since: Duration },
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Worker {
    /// Shared with views, because a record may have many labels.
    pub(crate) record: Arc<WorkerRecord>,
    /// The keys of its offers, from its record.
    offers: Box<[OfferKey]>,
    pub(crate) contact: Contact,
    pub(crate) condition: Condition,
    /// Cancelled jobs without confirmation. While there are any, the pool sends no more jobs.
    pub(crate) unconfirmed_ends: BTreeSet<JobId>,
    /// Number of attempts that it still runs or ends under older leases. Each takes a slot.
    pub(crate) foreign_attempts: u32,
    /// Earlier starts of its daemon that have certainly ended, as reported by the current one.
    pub(crate) ended_boots: Vec<BootId>,
    /// True if a timer for its loss is set.
    pub(crate) is_loss_timed: bool,
    /// True if it declined a grant and has not reported since.
    pub(crate) declined: bool,
    pub(crate) series: ShortJobSeries,
    pub(crate) drain_deadline: Option<Duration>,
    /// False if it never got a job since it was first seen, in this run of the coordinator.
    pub(crate) has_run: bool,
    /// Jobs granted to it, with the units that they take.
    pub(crate) jobs: BTreeMap<JobId, BTreeMap<String, u32>>,
}

impl Worker {
    pub(crate) fn absent(record: WorkerRecord, since: Duration) -> Self {
        Self {
            offers: offers(&record),
            record: Arc::new(record),
            contact: Contact::Absent { since },
            condition: Condition::default(),
            unconfirmed_ends: BTreeSet::new(),
            foreign_attempts: 0,
            ended_boots: Vec::new(),
            is_loss_timed: false,
            declined: false,
            series: ShortJobSeries::default(),
            drain_deadline: None,
            has_run: false,
            jobs: BTreeMap::new(),
        }
    }

    /// Replaces the record, and returns the previous one.
    pub(super) fn set_record(&mut self, record: Arc<WorkerRecord>) -> Arc<WorkerRecord> {
        self.offers = offers(&record);
        std::mem::replace(&mut self.record, record)
    }

    /// Returns the keys of everything that it offers.
    pub(crate) fn offers(&self) -> &[OfferKey] {
        &self.offers
    }

    pub(crate) fn boot(&self) -> Option<BootId> {
        match self.contact {
            Contact::Connected { boot, .. } => Some(boot),
            Contact::Absent { .. } => None,
        }
    }

    /// Returns true if the worker can vouch for this start of its daemon: attempts that it does not
    /// hold, that start does not hold either.
    pub(crate) fn covers_boot(&self, boot: BootId) -> bool {
        self.boot() == Some(boot) || self.session().is_some() && self.ended_boots.contains(&boot)
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        !self.unconfirmed_ends.is_empty() || self.condition.quarantined.is_some()
    }

    /// Returns the reason why it accepts no jobs although it is connected.
    pub(crate) fn quarantine(&self) -> Option<String> {
        let unconfirmed = self
            .unconfirmed_ends
            .first()
            .map(|job| format!("it received the order to end job {job} and has not confirmed it"));
        let unapproved = (!self.record.approved).then(|| {
            let WorkerRecord { name, worker, token, .. } = &*self.record;
            let token = token.as_deref().unwrap_or_default();
            format!(
                "it waits for approval: `buildpool workers approve {name}` (it came with the token `{token}`, worker id {worker})"
            )
        });
        unconfirmed.or_else(|| self.condition.quarantined.clone()).or(unapproved)
    }

    /// Returns true if an operator approved it under this name.
    pub(crate) fn is_approved_as(&self, name: &str) -> bool {
        self.record.approved && self.record.name == name
    }

    pub(crate) fn session(&self) -> Option<Session> {
        match self.contact {
            Contact::Connected { session, .. } => Some(session),
            Contact::Absent { .. } => None,
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.record.draining || self.condition.draining
    }

    pub(crate) fn free_slots(&self) -> u32 {
        self.record.slots.saturating_sub(self.attempts())
    }

    /// Returns the number of grants that it gets beyond its free slots. It starts them when jobs end, without a
    /// round trip between two jobs. A job must not wait for the end of a long one while another worker is free, so it gets
    /// them only during a series of short jobs, and declines one that it can't start soon.
    fn early_grants(&self) -> u32 {
        if self.series.is_long_enough() { self.condition.early_grants.min(EARLY_GRANTS_MAX) } else { 0 }
    }

    /// Returns the number of grants beyond its slots.
    pub(crate) fn beyond_slots(&self) -> u32 {
        self.attempts().saturating_sub(self.record.slots)
    }

    fn attempts(&self) -> u32 {
        u32::try_from(self.jobs.len()).unwrap_or(u32::MAX).saturating_add(self.foreign_attempts)
    }

    pub(crate) fn used(&self, resource: &str) -> u32 {
        self.jobs.values().filter_map(|taken| taken.get(resource)).sum()
    }

    /// Returns true if it accepts jobs now.
    pub(crate) fn is_open(&self) -> bool {
        self.session().is_some()
            && !self.is_draining()
            && !self.declined
            && !self.is_quarantined()
            && self.record.approved
            && (self.free_slots() > 0 || self.beyond_slots() < self.early_grants())
    }

    /// Returns true if it could run the job when idle.
    pub(crate) fn could_run(&self, spec: &JobSpec) -> bool {
        self.admits(&spec.access) && self.offers_all_of(spec)
    }

    /// Returns true if it has all labels and resources that the job requires, when idle.
    pub(super) fn offers_all_of(&self, spec: &JobSpec) -> bool {
        self.record.slots > 0
            && spec.selectors.iter().all(|selector| selector.matches(&self.record.labels))
            && spec
                .resources
                .iter()
                .all(|(name, count)| self.record.resources.get(name).unwrap_or(&0) >= count)
    }

    /// Returns true if neither its own restriction nor that of the submitter's token excludes a job.
    pub(crate) fn admits(&self, access: &Access) -> bool {
        let WorkerRecord { name, labels, .. } = &*self.record;
        self.accepts(&access.names)
            && (access.workers.is_empty() || access.workers.contains(name))
            && access.labels.iter().all(|selector| selector.matches(labels))
    }

    /// Returns true if it takes jobs of a submitter with these names.
    pub(super) fn accepts(&self, names: &[String]) -> bool {
        let accepts = &self.record.accepts;
        accepts.is_empty() || names.iter().any(|name| accepts.contains(name))
    }

    /// Returns true if it can run the job now, without the units reserved for other jobs.
    pub(crate) fn has_room(&self, spec: &JobSpec, reserved: &Reserved) -> bool {
        self.is_open()
            // If a worker disappears, the pool can't tell if an early grant had started. A job with `on_lost: wait` or
            // `fail` might not run again, so it needs a free slot.
            && (self.free_slots() > 0 || spec.on_lost == OnLost::Rerun)
            && (spec.stdin.is_none() || self.condition.stdin)
            && self.could_run(spec)
            && self.shortage(spec, reserved) == 0
    }

    /// Returns true if it gets new jobs after its running ones.
    pub(crate) fn is_in_service(&self) -> bool {
        self.session().is_some() && !self.is_draining() && !self.is_quarantined() && self.record.approved
    }

    /// Returns the units of a resource that are neither in use nor reserved.
    pub(crate) fn free_units(&self, resource: &str, reserved: &Reserved) -> u32 {
        let have = self.record.resources.get(resource).copied().unwrap_or(0);
        have.saturating_sub(self.used(resource)).saturating_sub(reserved.units(self.record.worker, resource))
    }

    /// Returns the number of units that a job lacks now.
    pub(crate) fn shortage(&self, spec: &JobSpec, reserved: &Reserved) -> u64 {
        let missing = |(name, count): (&String, &u32)| count.saturating_sub(self.free_units(name, reserved));
        spec.resources.iter().map(|resource| u64::from(missing(resource))).sum()
    }

    /// Whether it has a warm workspace of this key.
    pub(crate) fn is_warm(&self, key: &str) -> bool {
        self.condition.warm_projects.iter().any(|warm| warm == key)
    }
}

/// A worker that may be changed. The index of open workers follows when the change is over.
pub(crate) struct WorkerMut<'a> {
    worker: &'a mut Worker,
    open: &'a mut Offers,
}

impl<'a> WorkerMut<'a> {
    pub(super) fn new(worker: &'a mut Worker, open: &'a mut Offers) -> Self {
        Self { worker, open }
    }
}

impl Deref for WorkerMut<'_> {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        self.worker
    }
}

impl DerefMut for WorkerMut<'_> {
    fn deref_mut(&mut self) -> &mut Worker {
        self.worker
    }
}

impl Drop for WorkerMut<'_> {
    fn drop(&mut self) {
        let id = self.worker.record.worker;
        match (self.worker.is_open(), self.open.contains(id)) {
            (true, false) => self.open.insert(id, self.worker.offers()),
            (false, true) => self.open.remove(id, self.worker.offers()),
            (true, true) | (false, false) => {}
        }
    }
}
