//! Measures the dispatch of the next job with many jobs in the queue: `cargo bench -p
//! buildpool-pool`.
//!
//! One cycle is the end of a job and the grant of the next one, effects included. The scenes
//! alternate, so that background load affects all of them. The last scene has a short queue, and
//! beside it jobs and workers of others: jobs that each need another label, which no worker has, and
//! workers with room that no job of the queue may use.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use buildpool_pool::{ClientRef, Completed, Config, Effect, Input, Now, Pool, Session, Submit, Submitter};
use buildpool_protocol::ids::{BootId, JobId, Lease, WorkerId};
use buildpool_protocol::outcome::{Ending, Outcome, Seal};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Command, JobSpec, Selector, Source};
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{Condition, Register};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

const SUBMITTERS: [&str; 8] = ["ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"];
const WORKERS: u128 = 8;
/// Jobs of others, each with another label.
const KINDS: usize = 6_000;
/// Workers of others.
const OTHER_WORKERS: u128 = 2_000;
const ROUNDS: usize = 20;
const CYCLES: usize = 250;

struct Scene {
    pool: Pool,
    running: Vec<Lease>,
    jobs: u128,
    clock: Duration,
}

fn register(number: u128) -> Register {
    Register {
        protocol: VersionRange::ours(),
        worker: WorkerId::from_uuid(Uuid::from_u128(number)),
        boot: BootId::from_uuid(Uuid::from_u128(number)),
        earlier: Vec::new(),
        name: format!("mini-{number}"),
        version: String::new(),
        slots: 4,
        labels: BTreeMap::from([("os".into(), "macos".into())]),
        resources: BTreeMap::new(),
        accepts: Vec::new(),
        held: Vec::new(),
        condition: Condition::default(),
    }
}

impl Scene {
    /// Creates a pool with `queued` jobs behind eight busy workers of four slots.
    fn new(queued: usize) -> Self {
        let pool = Pool::new(Config::default(), 0);
        let mut scene = Self { pool, running: Vec::new(), jobs: 0, clock: Duration::ZERO };
        for number in 1..=WORKERS {
            let register = register(number);
            let session = Session(u64::try_from(number).unwrap_or_default());
            scene.handle(Input::Registered {
                session,
                register: Box::new(register),
                token: "workers".into(),
            });
        }
        while scene.pool.load().queued < queued {
            scene.submit();
        }
        scene
    }

    /// Adds jobs and workers of others.
    fn crowd(mut self) -> Self {
        for number in 0..KINDS {
            let mut spec = JobSpec::new(Command::Shell("make".into()), Source::Empty);
            spec.wait_for_worker = Some(Duration::from_secs(3_600));
            let selector = Selector { key: "nowhere".into(), value: Some(number.to_string()) };
            spec.selectors.push(selector);
            self.submit_as(&format!("other-{}", number % 16), spec);
        }
        for number in 1_000..1_000 + OTHER_WORKERS {
            let mut register = register(number);
            register.accepts = vec!["other".into()];
            let token = format!("other-{}", number % 8);
            let session = Session(u64::try_from(number).unwrap_or_default());
            self.handle(Input::Registered { session, register: Box::new(register), token });
        }
        self
    }

    fn submit(&mut self) {
        let mut spec = JobSpec::new(Command::Shell("make".into()), Source::Empty);
        spec.priority = i32::try_from(self.jobs % 3).unwrap_or_default();
        let index = usize::try_from(self.jobs).unwrap_or_default();
        self.submit_as(SUBMITTERS[index % SUBMITTERS.len()], spec);
    }

    fn submit_as(&mut self, name: &str, spec: JobSpec) {
        self.jobs += 1;
        let submit = Submit {
            job: JobId::from_uuid(Uuid::from_u128(self.jobs)),
            spec: Arc::new(spec),
            submitter: Submitter { name: name.into(), admin: false, token: None, peer: None },
            client_request_id: None,
            attach: false,
            secrets: BTreeMap::new(),
            snapshot: None,
            known: None,
            refused: None,
            usual: None,
            measures: None,
        };
        let client = ClientRef { connection: 1, request: 1 };
        self.handle(Input::Submit { client, submit: Box::new(submit) });
    }

    fn handle(&mut self, input: Input) {
        self.clock += Duration::from_millis(1);
        self.pool.handle(Now { clock: self.clock, wall_ms: 0 }, input);
        while let Some(effect) = self.pool.poll_effect() {
            if let Effect::Grant { grant, .. } = effect {
                self.running.push(grant.lease);
            }
        }
    }

    /// Ends one job, grants the next, and returns the time taken.
    fn cycle(&mut self) -> Duration {
        self.submit();
        let lease = self.running.remove(0);
        let seal = Seal { length: 0, blake3: String::new() };
        let outcome = Box::new(Outcome {
            started_at_ms: Some(1),
            duration: Duration::from_millis(1),
            ..Outcome::new(Ending::Exited { code: 0 }, 2, [seal.clone(), seal])
        });
        let completed =
            Completed { lease, outcome, verdict: Verdict::Passed, cause: None, infrastructure: false };
        let running = self.running.len();
        let began = Instant::now();
        self.handle(Input::Completed(Box::new(completed)));
        let took = began.elapsed();
        assert_eq!(self.running.len(), running + 1, "the next job was granted");
        took
    }
}

fn main() {
    let scenes = [
        ("behind 100 jobs", Scene::new(100)),
        ("behind 100,000 jobs", Scene::new(100_000)),
        ("beside others", Scene::new(100).crowd()),
    ];
    let mut scenes = scenes.map(|(name, scene)| (name, scene, Vec::new()));
    for _ in 0..ROUNDS {
        for (_, scene, times) in &mut scenes {
            times.extend((0..CYCLES).map(|_| scene.cycle()));
        }
    }
    let mut base = None;
    for (name, _, mut times) in scenes {
        times.sort_unstable();
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        let ratio = p50.as_secs_f64() / base.get_or_insert(p50).as_secs_f64();
        println!("dispatch  {name:<20} p50 {p50:>9.2?}  p99 {p99:>9.2?}  ratio {ratio:.2} x");
    }
}
