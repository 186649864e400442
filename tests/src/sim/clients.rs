//! Clients of the simulation: they submit, retry until they get an answer, cancel, and sometimes
//! disappear.

use super::clock::Time;
use super::coordinator::{Coordinator, Reply};
use super::truth::{Behaviour, Truth};
use buildpool_pool::{ClientRef, Input, Submit, Submitter};
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::{Command, JobSpec, OnLost, Source};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SUBMITTERS: [&str; 3] = ["ann", "bob", "cem"];

#[derive(Clone, Debug)]
struct Asked {
    submit: Submit,
    answered: bool,
    again_at: Time,
    /// True if it returns with the values of its secrets after a restart.
    is_loyal: bool,
    cancel_at: Option<Time>,
    cancel_answered: bool,
}

#[derive(Debug)]
pub(crate) struct Clients {
    jobs: BTreeMap<JobId, Asked>,
    /// Job of each request, and true for a cancellation.
    requests: BTreeMap<u32, (JobId, bool)>,
    next_request: u32,
    submit_at: Time,
    left: u64,
    every: Duration,
}

impl Clients {
    pub(crate) fn new(jobs: u64, every: Duration) -> Self {
        Self {
            jobs: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            submit_at: Time::ZERO,
            left: jobs,
            every,
        }
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        let submit = (self.left > 0).then_some(self.submit_at);
        let again =
            self.jobs.values().filter(|asked| !asked.answered || asked.is_loyal).map(|it| it.again_at);
        let cancels = self.jobs.values().filter_map(|it| it.cancel_at.filter(|_| !it.cancel_answered));
        submit.into_iter().chain(again).chain(cancels).min()
    }

    /// Returns the accepted jobs.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.iter().filter(|(_, asked)| asked.answered).map(|(id, _)| *id)
    }

    /// Returns true if no request is open.
    pub(crate) fn are_answered(&self) -> bool {
        self.left == 0 && self.jobs.values().all(|asked| asked.answered)
    }

    /// Stops new submits.
    pub(crate) fn stop(&mut self) {
        self.left = 0;
        for asked in self.jobs.values_mut() {
            asked.is_loyal = false;
        }
    }

    /// Removes jobs whose records were lost with a primary server. The promise for asynchronous replication excludes them.
    pub(crate) fn forget(&mut self, is_lost: impl Fn(JobId) -> bool) {
        self.jobs.retain(|job, _| !is_lost(*job));
    }

    pub(crate) fn cancel(&mut self, job: JobId, now: Time) {
        if let Some(asked) = self.jobs.get_mut(&job) {
            asked.cancel_at = Some(now);
            asked.cancel_answered = false;
        }
    }

    pub(crate) fn take_mail(&mut self, client: ClientRef, reply: Reply, truth: &mut Truth) {
        let Some((job, cancels)) = self.requests.get(&client.request).copied() else { return };
        let Some(asked) = self.jobs.get_mut(&job) else { return };
        match reply {
            Reply::Accepted { job: answered } => {
                if answered != job && !self.jobs.contains_key(&answered) {
                    truth.fail(format!("absorbing: {job} is answered with the unknown job {answered}"));
                } else if let Some(asked) = self.jobs.get_mut(&job).filter(|asked| !asked.answered) {
                    asked.answered = true;
                    truth.counts.jobs += u64::from(answered == job);
                    if answered != job {
                        // The id is an alias of an existing job.
                        self.jobs.remove(&job);
                    }
                }
            }
            Reply::Acknowledged => asked.cancel_answered |= cancels,
            Reply::Refused { error } if error.code.is_worth_a_retry() => {}
            Reply::Refused { error } => truth.fail(format!("job {job} is refused: {}", error.message)),
        }
    }

    pub(crate) fn step(&mut self, now: Time, coordinators: &mut [Coordinator], truth: &mut Truth) {
        if self.left > 0 && self.submit_at <= now {
            self.left -= 1;
            self.submit_at = now + truth.dice.around(self.every);
            self.invent(now, truth);
        }
        let due: Vec<JobId> = self.jobs.keys().copied().collect();
        for job in due {
            self.ask(job, now, coordinators, truth);
        }
    }

    fn ask(&mut self, job: JobId, now: Time, coordinators: &mut [Coordinator], truth: &mut Truth) {
        let Some(asked) = self.jobs.get_mut(&job) else { return };
        let wants_submit = !asked.answered || asked.is_loyal;
        if wants_submit && asked.again_at <= now {
            asked.again_at = now + truth.dice.seconds(3, if asked.answered { 120 } else { 20 });
            let submit = Box::new(asked.submit.clone());
            let client = self.request(job, false);
            if let Some(coordinator) = leader(coordinators, now, truth) {
                coordinator.ask(Input::Submit { client, submit });
            }
            return;
        }
        if asked.cancel_at.is_some_and(|at| at <= now) && !asked.cancel_answered {
            asked.cancel_at = Some(now + truth.dice.seconds(3, 20));
            let by = asked.submit.submitter.clone();
            let client = self.request(job, true);
            if let Some(coordinator) = leader(coordinators, now, truth) {
                truth.note(now, || format!("cancels {job}"));
                coordinator.ask(Input::Cancel { client, job, by, reason: "enough".into() });
            }
        }
    }

    fn request(&mut self, job: JobId, cancels: bool) -> ClientRef {
        self.next_request += 1;
        self.requests.insert(self.next_request, (job, cancels));
        ClientRef { connection: 1, request: self.next_request }
    }

    fn invent(&mut self, now: Time, truth: &mut Truth) {
        let number = u128::from(self.left + 1) | 0x8000_0000_0000_0000;
        let job = JobId::from_uuid(uuid::Uuid::from_u128(
            0x0193_0000_7000_u128 << 64 | now.as_millis() << 80 | number,
        ));
        let behaviour = behaviour(truth);
        let submit = submit(job, truth);
        truth.note(now, || format!("job {job} by {}: {behaviour:?}", submit.submitter.name));
        truth.behaviours.insert(job, behaviour);
        let cancel_at = truth.dice.percent(15).then(|| now + truth.dice.around(Duration::from_secs(60)));
        let is_loyal = !submit.spec.secrets.is_empty() && truth.dice.percent(70);
        let asked =
            Asked { submit, answered: false, again_at: now, is_loyal, cancel_at, cancel_answered: false };
        self.jobs.insert(job, asked);
    }
}

/// Returns a coordinator that serves clients. During a change, two may do so for a moment.
fn leader<'c>(
    coordinators: &'c mut [Coordinator],
    now: Time,
    truth: &mut Truth,
) -> Option<&'c mut Coordinator> {
    let mut serving: Vec<_> =
        coordinators.iter_mut().filter(|coordinator| coordinator.listens(now)).collect();
    let chosen = if serving.len() > 1 { truth.dice.index(serving.len()) } else { 0 };
    (!serving.is_empty()).then(|| serving.swap_remove(chosen))
}

fn behaviour(truth: &mut Truth) -> Behaviour {
    let dice = &mut truth.dice;
    Behaviour {
        prepares: if dice.percent(15) { dice.around(Duration::from_secs(60)) } else { dice.millis(0, 3_000) },
        runs: dice.around(Duration::from_secs(40)),
        code: i32::from(dice.percent(30)),
        ignores_term: dice.percent(8),
        term_takes: dice.millis(1, 5_000),
        kill_takes: dice.millis(1, 300),
        bytes_per_second: dice.below(100_000),
        is_poison: dice.percent(2) && !truth.is_calm,
    }
}

fn submit(job: JobId, truth: &mut Truth) -> Submit {
    let dice = &mut truth.dice;
    let mut spec = JobSpec::new(Command::Shell("build".into()), Source::Empty);
    spec.on_lost = match dice.below(10) {
        0 => OnLost::Wait,
        1 => OnLost::Fail,
        _ => OnLost::Rerun,
    };
    spec.priority = i32::try_from(dice.below(3)).unwrap_or(0);
    spec.concurrency_group = dice.percent(20).then(|| format!("group-{}", dice.below(3)));
    spec.timeout = dice.percent(20).then(|| dice.seconds(5, 90));
    spec.grace = dice.percent(30).then(|| dice.seconds(0, 400));
    spec.retries = u32::try_from(dice.below(3)).unwrap_or(0);
    if dice.percent(20) {
        spec.resources.insert("simulator".into(), 1);
    }
    let mut secrets = BTreeMap::new();
    if dice.percent(10) {
        spec.secrets.push("KEY".into());
        secrets.insert("KEY".into(), Secret("value".into()));
    }
    let name = SUBMITTERS[dice.index(SUBMITTERS.len())];
    let request = dice.percent(30).then(|| format!("request-{job}"));
    Submit {
        job,
        spec: Arc::new(spec),
        submitter: Submitter { name: name.into(), admin: false, token: None, peer: None },
        client_request_id: request,
        attach: false,
        secrets,
        snapshot: None,
        known: None,
        refused: None,
        usual: None,
        measures: None,
    }
}
