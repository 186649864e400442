//! A test pool with a clock, a disk and short names, for readable tests.

use buildpool_pool::{
    AttemptRecord, Change, ClientRef, Completed, Config, DesiredState, DoneRecord, Effect, Input, JobRecord,
    LiveJob, Now, Pool, Session, Submit, Submitter, WorkerRecord,
};
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{AttemptId, BootId, JobId, Lease, WorkerId};
use buildpool_protocol::outcome::{EndReason, Ending, Outcome, Seal};
use buildpool_protocol::report::{Cause, KnownFrom, Verdict};
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{Condition, Desired, Held, HeldState, Register, ToWorker};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const LOST_AFTER: Duration = Duration::from_secs(900);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The content of the store.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) jobs: BTreeMap<JobId, Arc<JobRecord>>,
    pub(crate) attempts: BTreeMap<JobId, BTreeMap<u32, AttemptRecord>>,
    pub(crate) cancels: BTreeMap<JobId, (String, String)>,
    pub(crate) done: BTreeMap<JobId, Arc<DoneRecord>>,
    pub(crate) workers: BTreeMap<WorkerId, WorkerRecord>,
    pub(crate) attachable: BTreeSet<JobId>,
}

pub(crate) struct Scene {
    pub(crate) pool: Pool,
    pub(crate) config: Config,
    pub(crate) disk: Disk,
    pub(crate) clock: Duration,
    sessions: u64,
    requests: u32,
}

pub(crate) fn job(number: u64) -> JobId {
    format!("00000000-0000-7000-8000-{number:012x}").parse().expect("a UUID")
}

pub(crate) fn worker(number: u64) -> WorkerId {
    format!("00000000-0000-7000-9000-{number:012x}").parse().expect("a UUID")
}

pub(crate) fn boot(number: u64) -> BootId {
    format!("00000000-0000-7000-a000-{number:012x}").parse().expect("a UUID")
}

pub(crate) fn spec() -> JobSpec {
    JobSpec::new(Command::Shell("true".into()), Source::Empty)
}

pub(crate) fn snapshot(project: &str) -> Source {
    let (id, project, directory) = ("1".repeat(40), project.into(), String::new());
    Source::Snapshot { id, project, directory, head: None, manifest: None }
}

pub(crate) fn by(name: &str) -> Submitter {
    Submitter { name: name.into(), admin: name == "admin", token: None, peer: None }
}

pub(crate) fn submit(number: u64, name: &str, spec: JobSpec) -> Submit {
    Submit {
        job: job(number),
        spec: Arc::new(spec),
        submitter: by(name),
        client_request_id: None,
        attach: false,
        secrets: BTreeMap::new(),
        snapshot: None,
        known: None,
        refused: None,
        usual: None,
        measures: None,
    }
}

pub(crate) fn secret(name: &str) -> BTreeMap<String, Secret> {
    BTreeMap::from([(name.to_owned(), Secret("value".into()))])
}

pub(crate) fn register(number: u64, slots: u32) -> Register {
    Register {
        protocol: VersionRange { min: 1, max: 1 },
        worker: worker(number),
        boot: boot(number),
        earlier: Vec::new(),
        name: format!("mac-{number}"),
        version: "1".into(),
        slots,
        labels: BTreeMap::new(),
        resources: BTreeMap::new(),
        accepts: Vec::new(),
        held: Vec::new(),
        condition: Condition::default(),
    }
}

pub(crate) fn held(lease: Lease, state: HeldState) -> Held {
    let started_at_ms = (state != HeldState::Preparing).then_some(5);
    Held { lease, state, log_length: 0, started_at_ms, output_held: None }
}

pub(crate) fn outcome(ending: Ending, acted: Option<EndReason>) -> Outcome {
    let seal = Seal { length: 0, blake3: String::new() };
    Outcome {
        acted,
        started_at_ms: Some(5),
        duration: SECOND,
        ..Outcome::new(ending, 6, [seal.clone(), seal])
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(Config { lost_after: LOST_AFTER, ..Config::default() })
    }

    pub(crate) fn with(config: Config) -> Self {
        let pool = Pool::new(config.clone(), 0);
        Self { pool, config, disk: Disk::default(), clock: SECOND, sessions: 0, requests: 0 }
    }

    pub(crate) fn now(&self) -> Now {
        Now { clock: self.clock, wall_ms: i64::try_from(self.clock.as_millis()).expect("a short test") }
    }

    /// Handles one input, writes its changes to disk, checks the invariants, and returns its
    /// effects.
    pub(crate) fn step(&mut self, input: Input) -> Vec<Effect> {
        self.pool.handle(self.now(), input);
        let effects: Vec<Effect> = std::iter::from_fn(|| self.pool.poll_effect()).collect();
        for effect in &effects {
            self.write(effect);
        }
        self.pool.audit().expect("the invariants hold");
        effects
    }

    fn write(&mut self, effect: &Effect) {
        let (Effect::Persist(change) | Effect::Note(change)) = effect else { return };
        match change.clone() {
            Change::Submitted(record) => {
                assert!(self.disk.jobs.insert(record.job, record).is_none(), "a job is submitted once");
            }
            Change::Attempt { job, attempt } => {
                assert!(!self.disk.done.contains_key(&job), "nothing changes after the end");
                self.disk.attempts.entry(job).or_default().insert(attempt.number, attempt);
            }
            Change::CancelRequested { job, by, reason } => {
                self.disk.cancels.insert(job, (by, reason));
            }
            Change::Done { job, record } => {
                assert!(self.disk.done.insert(job, record).is_none(), "a job ends once");
            }
            Change::Attachable { job, attachable: true } => drop(self.disk.attachable.insert(job)),
            Change::Attachable { job, attachable: false } => {
                assert!(self.disk.attachable.remove(&job), "it was attachable");
            }
            Change::Worker(record) => {
                self.disk.workers.insert(record.worker, record);
            }
            Change::WorkerForgotten(worker) => {
                assert!(self.disk.workers.remove(&worker).is_some(), "it was known");
            }
        }
    }

    /// Advances the time with a tick at each deadline.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Effect> {
        let until = self.clock + time;
        let mut effects = Vec::new();
        while let Some(at) = self.pool.next_deadline().filter(|at| *at <= until) {
            self.clock = self.clock.max(at);
            effects.extend(self.step(Input::Tick));
        }
        self.clock = until;
        effects.extend(self.step(Input::Tick));
        effects
    }

    /// Restarts the coordinator with the records on disk.
    pub(crate) fn restart(&mut self) {
        self.restart_at(SECOND);
    }

    /// Restarts at another clock value.
    pub(crate) fn restart_at(&mut self, clock: Duration) {
        let newest =
            self.disk.attempts.values().flat_map(BTreeMap::values).map(|attempt| attempt.epoch).max();
        self.pool = Pool::new(self.config.clone(), newest.unwrap_or(0) + 1_000);
        self.clock = clock;
        for record in self.disk.workers.values() {
            self.pool.restore_worker(self.now(), record.clone());
        }
        for (id, record) in &self.disk.jobs {
            if !self.disk.done.contains_key(id) {
                let attempts = self.disk.attempts.get(id).map(|all| all.values().cloned().collect());
                let cancel = self.disk.cancels.get(id).cloned();
                self.pool.restore_job(self.now(), record.clone(), attempts.unwrap_or_default(), cancel);
            }
        }
        for id in &self.disk.attachable {
            let record = &self.disk.jobs[id];
            self.pool.restore_attachable(*id, &record.submitter, &record.spec);
        }
        self.pool.audit().expect("the invariants hold");
    }

    pub(crate) fn client(&mut self) -> ClientRef {
        self.requests += 1;
        ClientRef { connection: 1, request: self.requests }
    }

    pub(crate) fn send(&mut self, submit: Submit) -> Vec<Effect> {
        let client = self.client();
        self.step(Input::Submit { client, submit: Box::new(submit) })
    }

    /// Submits a plain job of submitter `a`.
    pub(crate) fn plain(&mut self, number: u64) -> Vec<Effect> {
        self.send(submit(number, "a", spec()))
    }

    pub(crate) fn cancel(&mut self, number: u64, name: &str) -> Vec<Effect> {
        let client = self.client();
        self.step(Input::Cancel { client, job: job(number), by: by(name), reason: "enough".into() })
    }

    pub(crate) fn join(&mut self, register: Register) -> (Session, Vec<Effect>) {
        self.sessions += 1;
        let session = Session(self.sessions);
        (session, self.step(Self::registered(session, register, "workers")))
    }

    pub(crate) fn registered(session: Session, register: Register, token: &str) -> Input {
        Input::Registered { session, register: Box::new(register), token: token.to_owned() }
    }

    /// Registers a worker with another token than the default one.
    pub(crate) fn join_with(&mut self, register: Register, token: &str) -> Vec<Effect> {
        self.sessions += 1;
        self.step(Self::registered(Session(self.sessions), register, token))
    }

    /// Registers a worker with this number of slots.
    pub(crate) fn mac(&mut self, number: u64, slots: u32) -> Session {
        self.join(register(number, slots)).0
    }

    pub(crate) fn report(&mut self, session: Session, held: Vec<Held>) -> Vec<Effect> {
        self.step(Input::Reported { session, held, condition: Condition::default() })
    }

    pub(crate) fn gone(&mut self, session: Session) -> Vec<Effect> {
        self.step(Input::Gone { session })
    }

    pub(crate) fn complete(&mut self, lease: Lease, ending: Ending, acted: Option<EndReason>) -> Vec<Effect> {
        let outcome = Box::new(outcome(ending, acted));
        let completed =
            Completed { lease, outcome, verdict: Verdict::Passed, cause: None, infrastructure: false };
        self.step(Input::Completed(Box::new(completed)))
    }

    /// Completes an attempt with an infrastructure failure.
    pub(crate) fn fail_for_infrastructure(&mut self, lease: Lease) -> Vec<Effect> {
        let outcome = Box::new(outcome(Ending::Exited { code: 70 }, None));
        let cause = Some(Cause { text: "Exit code 70: no simulator".into(), known_from: KnownFrom::Marker });
        let completed = Completed { lease, outcome, verdict: Verdict::Failed, cause, infrastructure: true };
        self.step(Input::Completed(Box::new(completed)))
    }

    pub(crate) fn pass_job(&mut self, lease: Lease) -> Vec<Effect> {
        self.complete(lease, Ending::Exited { code: 0 }, None)
    }

    pub(crate) fn drain(&mut self, name: &str, draining: bool, deadline: Option<Duration>) -> Vec<Effect> {
        let client = self.client();
        self.step(Input::Drain { client, worker: name.into(), draining, deadline })
    }

    pub(crate) fn live(&self, number: u64) -> Option<LiveJob> {
        self.pool.live_job(self.now(), job(number))
    }

    /// Returns the reason why a job waits.
    pub(crate) fn reason(&self, number: u64) -> String {
        self.live(number).and_then(|live| live.waiting).map(|waits| waits.reason).unwrap_or_default()
    }

    pub(crate) fn verdict(&self, number: u64) -> Option<Verdict> {
        self.disk.done.get(&job(number)).map(|done| done.verdict)
    }

    pub(crate) fn cause(&self, number: u64) -> String {
        let cause = self.disk.done.get(&job(number)).and_then(|done| done.cause.clone());
        cause.map(|cause| cause.text).unwrap_or_default()
    }

    /// Returns the current lease of a job.
    pub(crate) fn lease(&self, number: u64) -> Lease {
        let id = job(number);
        let last = self.disk.attempts[&id].values().next_back().expect("granted before");
        Lease { attempt: AttemptId { job: id, number: last.number }, epoch: last.epoch }
    }
}

/// Returns the grants among the effects: lease and session.
pub(crate) fn grants(effects: &[Effect]) -> Vec<(Lease, Session)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Grant { session, grant } => Some((grant.lease, *session)),
            _ => None,
        })
        .collect()
}

/// Returns the numbers of the granted jobs.
pub(crate) fn granted(effects: &[Effect]) -> Vec<u64> {
    let number = |lease: &Lease| (lease.attempt.job.as_uuid().as_u128() & 0xffff_ffff_ffff) as u64;
    grants(effects).iter().map(|(lease, _)| number(lease)).collect()
}

/// Returns the desired states in the answer to a registration or report.
pub(crate) fn desired(effects: &[Effect]) -> Vec<DesiredState> {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Welcome { desired, .. } | Effect::SendDesired { desired, .. } => Some(desired.clone()),
            _ => None,
        })
        .expect("an answer")
}

pub(crate) fn refusal(effects: &[Effect]) -> LinkError {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Refused { error, .. } | Effect::Close { error, .. } => Some(error.clone()),
            _ => None,
        })
        .expect("a refusal")
}

pub(crate) fn refused_as(effects: &[Effect]) -> ErrorCode {
    refusal(effects).code
}

/// Returns the job in the answer to a submit, and true for an earlier one.
pub(crate) fn accepted(effects: &[Effect]) -> Option<(JobId, bool)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Accepted { job, reattached, .. } => Some((*job, *reattached)),
        _ => None,
    })
}

pub(crate) fn abandoned(effects: &[Effect]) -> Vec<Lease> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Abandon(lost) => Some(lost.lease),
            _ => None,
        })
        .collect()
}

/// Returns the `Act` messages sent to a worker.
pub(crate) fn acts(effects: &[Effect]) -> Vec<Desired> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { message, .. } => match &**message {
                ToWorker::Act(desired) => Some(desired.clone()),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Returns the drain messages: flag and deadline.
pub(crate) fn drains(effects: &[Effect]) -> Vec<(bool, Option<Duration>)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { message, .. } => match &**message {
                ToWorker::Drain { draining, deadline } => Some((*draining, *deadline)),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Returns the position of the first effect that matches.
pub(crate) fn place(effects: &[Effect], fits: impl Fn(&Effect) -> bool) -> usize {
    effects.iter().position(fits).expect("such an effect")
}
