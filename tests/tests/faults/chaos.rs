//! Faults of all kinds at random moments, while several jobs write and somebody reads along.

use buildpool_tests::{Dice, Direction, Pool, Proxy, Stopped, Workload, keeper_of, signal, wait_for};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

const WORKERS: usize = 2;
const JOBS: u64 = 6;
/// Attempts of one job that may be taken from it: with one more it would rightly be given up.
const KEEPER_KILLS_MAX: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fault {
    KillCoordinator,
    StopCoordinator,
    KillWorker,
    StopWorker,
    KillKeeper,
    StopKeeper,
    ResetLink,
    HoldUp,
    HoldDown,
    CutLink,
    KillReader,
}

const FAULTS: [Fault; 11] = [
    Fault::KillCoordinator,
    Fault::StopCoordinator,
    Fault::KillWorker,
    Fault::StopWorker,
    Fault::KillKeeper,
    Fault::StopKeeper,
    Fault::ResetLink,
    Fault::HoldUp,
    Fault::HoldDown,
    Fault::CutLink,
    Fault::KillReader,
];

/// Somebody who runs a job and reads along.
struct Reader {
    child: Child,
    notes: std::path::PathBuf,
    out: std::path::PathBuf,
}

struct Chaos {
    pool: Pool,
    proxies: Vec<Proxy>,
    workload: Workload,
    dice: Dice,
    reader: Reader,
    keeper_kills: BTreeMap<String, usize>,
    done: BTreeMap<Fault, usize>,
}

impl Chaos {
    fn start(seed: u64) -> Self {
        let mut pool = Pool::start(0);
        let proxies: Vec<_> = (0..WORKERS).map(|_| Proxy::start(pool.address())).collect();
        for proxy in &proxies {
            pool.add_worker_through(&proxy.url(), vec!["--slots".into(), "2".into()]);
        }
        pool.wait_for_workers();
        let mut workload = Workload::new(&pool);
        let mut dice = Dice::new(seed);
        for _ in 0..JOBS {
            let bytes = 20_000 + dice.below(300_000);
            workload.submit(&pool, bytes, Duration::from_millis(500 + dice.below(1_500)), &[]);
        }
        let reader = Reader::start(&pool, &workload);
        Self { pool, proxies, workload, dice, reader, keeper_kills: BTreeMap::new(), done: BTreeMap::new() }
    }

    /// A moment of up to this many milliseconds: the time that a fault waits for or lasts.
    fn moment(&mut self, most: u64) {
        sleep(Duration::from_millis(self.dice.below(most)));
    }

    fn inject(&mut self) {
        let fault = self.dice.pick(&FAULTS);
        let worker = usize::try_from(self.dice.below(WORKERS as u64)).unwrap();
        match fault {
            Fault::KillCoordinator => {
                self.pool.kill_coordinator();
                self.moment(300);
                self.pool.start_coordinator_again();
            }
            Fault::StopCoordinator => self.stop(self.pool.coordinator_pid().cast_signed()),
            Fault::KillWorker => {
                self.pool.kill_worker(worker);
                self.moment(300);
                self.pool.start_worker(worker);
            }
            Fault::StopWorker => self.stop(self.pool.worker_pid(worker).cast_signed()),
            Fault::KillKeeper => {
                let Some((id, keeper)) = self.some_keeper() else { return };
                let kills = self.keeper_kills.entry(id).or_default();
                if *kills == KEEPER_KILLS_MAX {
                    return;
                }
                *kills += 1;
                signal(keeper, Signal::SIGKILL);
            }
            Fault::StopKeeper => {
                let Some((_, keeper)) = self.some_keeper() else { return };
                self.stop(keeper);
            }
            Fault::ResetLink => self.proxies[worker].reset(),
            Fault::HoldUp => self.hold(worker, Direction::Up),
            Fault::HoldDown => self.hold(worker, Direction::Down),
            Fault::CutLink => {
                self.proxies[worker].refuse();
                self.moment(300);
                self.proxies[worker].heal();
            }
            Fault::KillReader => {
                signal(self.reader.child.id().cast_signed(), Signal::SIGKILL);
                self.reader.child.wait().unwrap();
                self.reader.follow(&self.pool);
            }
        }
        *self.done.entry(fault).or_default() += 1;
    }

    fn stop(&mut self, pid: i32) {
        let _stopped = Stopped::new(pid);
        self.moment(600);
    }

    /// One direction is dead, then the connection is gone.
    fn hold(&mut self, worker: usize, direction: Direction) {
        self.proxies[worker].half_open(direction);
        self.moment(600);
        self.proxies[worker].reset();
    }

    fn some_keeper(&mut self) -> Option<(String, i32)> {
        let running: Vec<_> = self.workload.running().iter().map(|job| job.id.clone()).collect();
        if running.is_empty() {
            return None;
        }
        let id = running[usize::try_from(self.dice.below(running.len() as u64)).unwrap()].clone();
        keeper_of(&id).map(|keeper| (id, keeper))
    }

    /// Everything that was promised.
    fn check(mut self) -> BTreeMap<Fault, usize> {
        self.workload.wait(&self.pool);
        self.workload.check(&self.pool);
        self.reader.check();
        let ends =
            |pool: &Pool| -> Vec<_> { self.workload.jobs().iter().map(|job| pool.job(&job.id)).collect() };
        let before = ends(&self.pool);
        self.pool.restart_coordinator();
        assert_eq!(ends(&self.pool), before, "an end is recorded once and stays");
        self.workload.check(&self.pool);
        self.done
    }
}

impl Reader {
    /// Submits a job of its own by `run` and reads it.
    fn start(pool: &Pool, workload: &Workload) -> Self {
        let (command, notes) = workload.command(1_000_000, 200_000, Duration::from_secs(2));
        let out = pool.place().file("read");
        let mut words = vec!["run", "--no-snapshot", "--"];
        words.extend(command.iter().map(String::as_str));
        let child =
            pool.command(&words).stdout(File::create(&out).unwrap()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the read job starts", || notes.join("started").exists().then_some(()));
        Self { child, notes, out }
    }

    /// Another one takes over, from the start of the log.
    fn follow(&mut self, pool: &Pool) {
        let listed = pool.buildpool(&["jobs", "--limit", "1000", "--json"]).expect(0).json();
        let is_read =
            |job: &&serde_json::Value| job["command"].as_str().is_some_and(|text| text.contains("/1000000 "));
        let id =
            listed.as_array().unwrap().iter().find(is_read).unwrap()["job_id"].as_str().unwrap().to_owned();
        let mut command = pool.command(&["logs", "-f", "--attempt", "1", &id]);
        self.child = command.stdout(File::create(&self.out).unwrap()).stderr(Stdio::null()).spawn().unwrap();
    }

    fn check(&mut self) {
        let status = wait_for("the reader ends", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
        let read = std::fs::read(&self.out).unwrap();
        let truth = std::fs::read(self.notes.join("1.1")).unwrap();
        assert_eq!(blake3::hash(&read), blake3::hash(&truth), "{} of {} bytes", read.len(), truth.len());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn faults_at_random_moments_lose_nothing_and_repeat_nothing() {
    let seeds = match number("BUILDPOOL_FAULT_SEED") {
        Some(seed) => vec![seed],
        None => vec![1, 2],
    };
    let count = number("BUILDPOOL_FAULT_COUNT").unwrap_or(10);
    let mut total = BTreeMap::new();
    let mut jobs = 0;
    for first in seeds {
        let mut injected = 0;
        // Each pool takes a dozen faults; a large count is a row of pools, each from a seed of its own.
        for seed in first.. {
            eprintln!("faults from seed {seed}");
            let mut chaos = Chaos::start(seed);
            for _ in 0..(count - injected).min(12) {
                chaos.moment(400);
                chaos.inject();
                injected += 1;
            }
            for (fault, times) in chaos.check() {
                *total.entry(fault).or_insert(0) += times;
            }
            jobs += JOBS + 1;
            if injected >= count {
                break;
            }
        }
    }
    eprintln!("{jobs} jobs checked; faults: {total:?}");
}
