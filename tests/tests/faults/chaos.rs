//! Random faults of all kinds at random times, while several jobs write and a reader follows.

use buildpool_tests::{
    Dice, Direction, Pool, Proxy, Stopped, Workload, keeper_of, number_from_env, signal, wait_for, wait_until,
};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

const WORKERS: usize = 2;
const JOBS: u64 = 6;
/// Slots per worker. All jobs except one run at once, paused half way, so that faults have targets.
const SLOTS: &str = "3";
/// Number of faults for one pool.
const FAULTS_OF_A_POOL: u64 = 24;
/// Limit on the killed keepers per job, if only keepers are killed. One more would make the job
/// fail permanently.
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

/// A client that runs a job and follows it.
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
    keeper_kills_max: usize,
    done: BTreeMap<Fault, usize>,
}

impl Chaos {
    fn start(seed: u64, kinds: &[Fault]) -> Self {
        let mut pool = Pool::start(0);
        let proxies: Vec<_> = (0..WORKERS).map(|_| Proxy::start(pool.address())).collect();
        for proxy in &proxies {
            pool.add_worker_through(&proxy.url(), vec!["--slots".into(), SLOTS.into()]);
        }
        pool.wait_for_workers();
        let mut workload = Workload::new(&pool);
        workload.hold();
        let reader = Reader::start(&pool, &workload);
        let mut dice = Dice::new(seed);
        for _ in 0..JOBS {
            let bytes = 20_000 + dice.below(300_000);
            workload.submit(&pool, bytes, Duration::from_millis(500 + dice.below(1_500)), &[]);
        }
        wait_until("a job runs", || !workload.running().is_empty());
        // A daemon that dies while it prepares an attempt also costs one.
        let keeper_kills_max = if kinds == [Fault::KillKeeper] { KEEPER_KILLS_MAX } else { 1 };
        let (keeper_kills, done) = (BTreeMap::new(), BTreeMap::new());
        Self { pool, proxies, workload, dice, reader, keeper_kills, keeper_kills_max, done }
    }

    /// Sleeps for a random time up to this many milliseconds: the delay or the duration of a fault.
    fn moment(&mut self, most: u64) {
        sleep(Duration::from_millis(self.dice.below(most)));
    }

    fn inject(&mut self, fault: Fault) {
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
                let Some((id, keeper)) = self.some_keeper(self.keeper_kills_max) else { return };
                *self.keeper_kills.entry(id).or_default() += 1;
                signal(keeper, Signal::SIGKILL);
            }
            Fault::StopKeeper => {
                let Some((_, keeper)) = self.some_keeper(usize::MAX) else { return };
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

    /// Blocks one direction, then resets the connection.
    fn hold(&mut self, worker: usize, direction: Direction) {
        self.proxies[worker].half_open(direction);
        self.moment(600);
        self.proxies[worker].reset();
    }

    /// Returns a random keeper of a running job that lost fewer than `most` keepers, if there is
    /// one.
    fn some_keeper(&mut self, most: usize) -> Option<(String, i32)> {
        let may = |id: &str| self.keeper_kills.get(id).is_none_or(|kills| *kills < most);
        let running = self.workload.running().into_iter().filter(|job| may(&job.id));
        let kept = running.filter_map(|job| Some((job.id.clone(), keeper_of(&job.id)?)));
        let kept: Vec<_> = kept.collect();
        let last = u64::try_from(kept.len()).unwrap().checked_sub(1)?;
        Some(kept[usize::try_from(self.dice.below(last + 1)).unwrap()].clone())
    }

    /// Checks all guarantees.
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
    /// Submits its own job with `run` and reads its output.
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

    /// Follows the job with a new client, from the start of the log.
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
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the selected faults: all, or those named in a list such as `KillKeeper,StopKeeper`.
fn kinds() -> Vec<Fault> {
    let Ok(text) = std::env::var("BUILDPOOL_FAULT_KINDS") else { return FAULTS.to_vec() };
    let known = |name: &str| FAULTS.into_iter().find(|fault| format!("{fault:?}") == name);
    let kinds =
        text.split(',').map(|name| known(name).unwrap_or_else(|| panic!("`{name}`: valid are {FAULTS:?}")));
    kinds.collect()
}

#[test]
fn faults_at_random_moments_lose_nothing_and_repeat_nothing() {
    let seeds = match number_from_env("BUILDPOOL_FAULT_SEED") {
        Some(seed) => vec![seed],
        None => vec![1, 2],
    };
    let count = number_from_env("BUILDPOOL_FAULT_COUNT").unwrap_or(10);
    let kinds = kinds();
    let mut total = BTreeMap::new();
    let mut jobs = 0;
    for first in seeds {
        let mut drawn = 0;
        // A large count runs several pools, each with its own seed.
        for seed in first.. {
            eprintln!("faults from seed {seed}");
            let mut chaos = Chaos::start(seed, &kinds);
            let of_this = (count - drawn).min(FAULTS_OF_A_POOL);
            for index in 0..of_this {
                chaos.moment(400);
                // Each run kills at least one keeper.
                let is_first = index == 0 && kinds.contains(&Fault::KillKeeper);
                let fault = if is_first { Fault::KillKeeper } else { chaos.dice.pick(&kinds) };
                chaos.inject(fault);
            }
            drawn += of_this;
            for (fault, times) in chaos.check() {
                *total.entry(fault).or_insert(0) += times;
            }
            jobs += JOBS + 1;
            if drawn >= count {
                break;
            }
        }
    }
    eprintln!("{jobs} jobs checked; faults: {total:?}");
    if kinds.contains(&Fault::KillKeeper) {
        assert!(total.contains_key(&Fault::KillKeeper), "no keeper was killed: {total:?}");
    }
}
