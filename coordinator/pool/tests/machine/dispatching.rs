//! A dispatch looks only at the jobs that an input may let run. These tests compare its grants with
//! those of a pool that looks at all jobs after each input.

use crate::scene::{by, job, outcome, register, snapshot, spec, submit};
use buildpool_pool::{ClientRef, Completed, Config, Effect, Input, Now, Pool, Quota, Quotas, Session};
use buildpool_protocol::ids::Lease;
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::{Condition, Held, HeldState, Register};
use std::collections::BTreeMap;
use std::time::Duration;

/// Inputs of one run.
const INPUTS: usize = 2_500;
/// Runs, each with other inputs.
const RUNS: u64 = 12;
const WORKERS: u64 = 5;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Numbers that are the same in each test run (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}

/// A worker as its daemon sees it.
#[derive(Default)]
struct Daemon {
    session: Option<Session>,
    held: Vec<Lease>,
}

struct Twins {
    triggered: Pool,
    all: Pool,
    dice: Dice,
    clock: Duration,
    jobs: u64,
    /// Limit on the live jobs: workers have free slots in some runs, and long queues in others.
    live_max: usize,
    sessions: u64,
    daemons: BTreeMap<u64, Daemon>,
    grants: usize,
}

impl Twins {
    fn new(seed: u64) -> Self {
        let limited = Quota { running_jobs: Some(2), ..Quota::default() };
        let quotas = Quotas { submitters: BTreeMap::from([("d".to_owned(), limited)]), ..Quotas::default() };
        let short_job_max = Duration::from_secs(if seed.is_multiple_of(2) { 3_600 } else { 0 });
        let config = Config { quotas, short_job_max, series_min: 1 + (seed % 3) as u32, ..Config::default() };
        Self {
            triggered: Pool::new(config.clone(), 0),
            all: Pool::new(config, 0),
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            clock: Duration::from_secs(1),
            jobs: 0,
            live_max: [4, 8, 16, 1_000][(seed % 4) as usize],
            sessions: 0,
            daemons: (1..=WORKERS).map(|number| (number, Daemon::default())).collect(),
            grants: 0,
        }
    }

    /// Gives both pools an input. The second one then looks at all jobs.
    fn step(&mut self, input: Input) {
        let now = Now { clock: self.clock, wall_ms: 0 };
        let drain = |pool: &mut Pool| std::iter::from_fn(|| pool.poll_effect()).collect::<Vec<_>>();
        self.triggered.take(now, input.clone());
        self.triggered.dispatch(now);
        let effects = drain(&mut self.triggered);
        self.all.take(now, input.clone());
        self.all.take(now, Input::DrainPool { draining: false });
        self.all.dispatch(now);
        assert_eq!(effects, drain(&mut self.all), "after {input:?}");
        self.triggered.audit().expect("the invariants hold");
        for effect in effects {
            match effect {
                Effect::Grant { session, grant } => {
                    self.grants += 1;
                    let daemon = self.daemons.values_mut().find(|daemon| daemon.session == Some(session));
                    daemon.expect("it is connected").held.push(grant.lease);
                }
                Effect::Close { session, .. } => {
                    let daemon = self.daemons.values_mut().find(|daemon| daemon.session == Some(session));
                    daemon.into_iter().for_each(|daemon| daemon.session = None);
                }
                _ => {}
            }
        }
    }

    fn spec(&mut self) -> JobSpec {
        let mut spec = spec();
        for (key, values) in [("os", 2), ("nowhere", 20)] {
            if self.dice.one_in(4) {
                let text = format!("{key}={}", self.dice.below(values));
                spec.selectors.push(text.parse().expect("a selector"));
            }
        }
        if self.dice.one_in(4) {
            spec.resources.insert("gpu".into(), 1 + self.dice.below(3) as u32);
        }
        if self.dice.one_in(3) {
            spec.concurrency_group = Some(format!("group-{}", self.dice.below(3)));
        }
        if self.dice.one_in(3) {
            spec.source = snapshot(&format!("project-{}", self.dice.below(3)));
        }
        if self.dice.one_in(6) {
            spec.access.workers.push(format!("mac-{}", 1 + self.dice.below(WORKERS)));
        }
        spec.priority = self.dice.below(3) as i32;
        spec.retries = self.dice.below(2) as u32;
        spec.wait_for_worker = Some(Duration::from_secs(3_600));
        spec
    }

    fn registration(&mut self, number: u64, held: &[Lease]) -> Register {
        let mut register = register(number, 1 + self.dice.below(2) as u32);
        register.labels.insert("os".into(), self.dice.below(2).to_string());
        register.resources.insert("gpu".into(), self.dice.below(4) as u32);
        if number == WORKERS {
            register.accepts.push("a".into());
        } else if number > 2 && self.dice.one_in(2) {
            register.accepts.extend(["b".into(), "team".into()]);
        }
        register.held = held.iter().map(|lease| running(*lease)).collect();
        register.condition = self.condition();
        register
    }

    fn condition(&mut self) -> Condition {
        let project = format!("project-{}", self.dice.below(3));
        let warm = JobSpec { source: snapshot(&project), ..spec() }.workspace_key();
        Condition {
            draining: self.dice.one_in(12),
            quarantined: self.dice.one_in(12).then(|| "its disk is full".to_owned()),
            warm_projects: warm.into_iter().collect(),
            early_grants: self.dice.below(3) as u32,
            ..Condition::default()
        }
    }

    fn input(&mut self) -> Option<Input> {
        let number = 1 + self.dice.below(WORKERS);
        let client = ClientRef { connection: 1, request: 1 };
        let Daemon { session, held } = &self.daemons[&number];
        let (session, held) = (*session, held.clone());
        Some(match self.dice.below(10) {
            0..3 if self.triggered.load().live >= self.live_max => return None,
            0..3 => {
                self.jobs += 1;
                let name = NAMES[self.dice.below(4) as usize];
                let mut spec = self.spec();
                spec.access.names = vec![name.to_owned()];
                if name != "a" {
                    spec.access.names.push("team".to_owned());
                }
                Input::Submit { client, submit: Box::new(submit(self.jobs, name, spec)) }
            }
            3 => {
                let job = job(1 + self.dice.below(self.jobs.max(1)));
                Input::Cancel { client, job, by: by("admin"), reason: String::new() }
            }
            4 if session.is_none() => {
                self.sessions += 1;
                let register = Box::new(self.registration(number, &held));
                self.daemons.get_mut(&number)?.session = Some(Session(self.sessions));
                Input::Registered { session: Session(self.sessions), register, token: "workers".into() }
            }
            4 if self.dice.one_in(3) => {
                self.daemons.get_mut(&number)?.session = None;
                Input::Gone { session: session? }
            }
            5 => {
                let held = held.iter().map(|lease| running(*lease)).collect();
                Input::Reported { session: session?, held, condition: self.condition() }
            }
            6 => {
                let lease = *held.first()?;
                self.daemons.get_mut(&number)?.held.remove(0);
                if self.dice.one_in(6) {
                    return Some(Input::Declined { session: session?, lease, reason: "busy".into() });
                }
                let is_failure = self.dice.one_in(4);
                let (verdict, infrastructure) =
                    if is_failure { (Verdict::Failed, true) } else { (Verdict::Passed, false) };
                let outcome = Box::new(outcome(Ending::Exited { code: i32::from(is_failure) }, None));
                let completed = Completed { lease, outcome, verdict, cause: None, infrastructure };
                Input::Completed(Box::new(completed))
            }
            7 => {
                let draining = self.dice.one_in(4);
                Input::Drain { client, worker: format!("mac-{number}"), draining, deadline: None }
            }
            _ => {
                self.clock += Duration::from_millis(self.dice.below(4_000));
                Input::Tick
            }
        })
    }
}

fn running(lease: Lease) -> Held {
    Held { lease, state: HeldState::Running, log_length: 0, started_at_ms: Some(5), output_held: None }
}

#[test]
fn a_dispatch_grants_what_a_look_at_all_jobs_grants() {
    for run in 1..=RUNS {
        let mut twins = Twins::new(run);
        for _ in 0..INPUTS {
            if let Some(input) = twins.input() {
                twins.step(input);
            }
        }
        assert!(twins.grants > 20, "run {run} granted {} jobs", twins.grants);
    }
}
