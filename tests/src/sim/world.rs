//! One simulation run: a coordinator, machines, clients, faults, and time that jumps to the next
//! event.

use super::clients::Clients;
use super::clock::{Clock, Time, earlier};
use super::coordinator::Coordinator;
use super::dice::Dice;
use super::faults::{self, Fault};
use super::host::{Host, Power};
use super::keeper::Clocks;
use super::network::Arrival;
use super::shared::{self, SharedStore};
use super::truth::{Counts, Truth};
use buildpool_pool::{ClientRef, Config, Input};
use buildpool_protocol::ids::JobId;
use std::collections::BTreeMap;
use std::time::Duration;

const STEPS_MAX: u64 = 3_000_000;

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The seed. It determines everything.
    pub seed: u64,
    /// Boundary between two effects at which the coordinator crashes, in addition to other faults.
    pub crash_at: Option<u64>,
    /// True for no faults except `crash_at`.
    pub is_calm: bool,
    /// Number of coordinators. With 0 or 1, it has its records on its own disk.
    pub coordinators: usize,
    /// True to accept transactions of any leader, so that a test sees the invariants fail.
    pub without_fence: bool,
    /// Number of jobs. Random if absent.
    pub jobs: Option<u64>,
    /// True to keep a trace.
    pub traces: bool,
}

/// A violated invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Name of the invariant in ARCHITECTURE.md, and the violation.
    pub what: String,
    /// Simulated time in seconds.
    pub at_secs: f64,
    /// The trace, if it was kept.
    pub trace: Vec<String>,
}

pub(crate) struct World {
    now: Time,
    truth: Truth,
    coordinators: Vec<Coordinator>,
    hosts: Vec<Host>,
    clients: Clients,
    faults: Vec<(Time, Fault)>,
    poisoned: BTreeMap<u64, Time>,
    heal_at: Time,
}

impl World {
    pub(crate) fn new(options: &Options) -> Self {
        let mut dice = Dice::new(options.seed);
        let lost_after = Duration::from_secs([120, 180, 300, 900][dice.index(4)]);
        // In half of the runs every job counts as short: workers then get grants before a slot is free.
        let short_job_max = if options.seed.is_multiple_of(2) {
            Duration::from_secs(3_600)
        } else {
            Config::default().short_job_max
        };
        let config = Config { lost_after, short_job_max, series_min: 1, ..Config::default() };
        let count = 1 + dice.index(4);
        let mut hosts = Vec::new();
        for index in 0..count {
            let rate = 995_000 + dice.below(10_000);
            let continuous = Clock::new(Time::ZERO, dice.seconds(1_000, 1_000_000), rate);
            let slots = 1 + u32::try_from(dice.below(3)).unwrap_or(0);
            let mut host = Host::new(index, slots, Clocks { continuous, slept: Duration::ZERO });
            host.resources.insert("simulator".into(), 1);
            hosts.push(host);
        }
        let heal_at = lost_after * 3 + Duration::from_secs(600);
        let mut faults = faults::plan(&mut dice, count, heal_at, lost_after);
        faults.extend(faults::plan_more(options.seed, count, heal_at));
        faults.sort_by_key(|(at, _)| *at);
        if options.is_calm {
            faults.clear();
        }
        let jobs = options.jobs.unwrap_or_else(|| 1 + dice.below(40));
        let clients = Clients::new(jobs, heal_at / u32::try_from(jobs + 1).unwrap_or(1));
        let mut truth = Truth::new(dice, options.traces);
        truth.is_calm = options.is_calm;
        truth.network.latency_max = truth.dice.millis(1, 400);
        truth.shared = SharedStore::new(!options.without_fence);
        let is_shared = options.coordinators > 1;
        let mut coordinators: Vec<Coordinator> = (0..options.coordinators.max(1))
            .map(|index| Coordinator::new(config.clone(), index, is_shared))
            .collect();
        if is_shared && !options.is_calm {
            // A shared store has no disk of its own that fills.
            faults.retain(|(_, fault)| !matches!(fault, Fault::FullStore { .. } | Fault::SlowStore { .. }));
            faults.extend(faults::plan_shared(options.seed, heal_at));
            faults.sort_by_key(|(at, _)| *at);
        }
        for coordinator in coordinators.iter_mut().skip(1) {
            // Clocks of the machines differ.
            coordinator.wall_offset_ms += i64::try_from(truth.dice.below(10_000)).unwrap_or(0) - 5_000;
        }
        coordinators[0].crash_at = options.crash_at.map(|at| (at, Duration::from_secs(2)));
        Self {
            now: Time::ZERO,
            truth,
            coordinators,
            hosts,
            clients,
            faults,
            poisoned: BTreeMap::new(),
            heal_at,
        }
    }

    /// Creates a run with only these faults.
    #[cfg(test)]
    pub(crate) fn with_faults(
        options: &Options,
        faults: impl FnOnce(Duration) -> Vec<(Time, Fault)>,
    ) -> Self {
        let mut world = Self::new(&Options { is_calm: true, ..options.clone() });
        world.faults = faults(world.coordinators[0].config.lost_after);
        world
    }

    pub(crate) fn run(mut self) -> Result<Counts, Box<Failure>> {
        let lost_after = self.coordinators[0].config.lost_after;
        self.advance(self.heal_at, false);
        self.heal();
        self.advance(self.heal_at + lost_after * 6 + Duration::from_secs(7_200), true);
        self.cancel_what_waits_for_ever();
        self.advance(self.now + lost_after * 3 + Duration::from_secs(4_000), true);
        self.check_end();
        match self.truth.violation() {
            None => {
                self.truth.counts.boundaries = self.coordinators.iter().map(Coordinator::boundaries).sum();
                self.truth.counts.seconds = self.now.as_secs();
                Ok(self.truth.counts)
            }
            Some(what) => Err(Box::new(Failure {
                what: what.to_owned(),
                at_secs: self.now.as_secs_f64(),
                trace: self.truth.trace.take().unwrap_or_default(),
            })),
        }
    }

    fn next(&self) -> Option<Time> {
        let listens = |index: usize| self.hosts.get(index).is_some_and(|host| host.listens(self.now));
        let mut at = self.faults.first().map(|(at, _)| *at);
        let serves = |index: usize| self.coordinators.get(index).is_some_and(|it| it.listens(self.now));
        at = earlier(at, self.truth.network.next(listens, serves));
        at = earlier(at, self.truth.shared.wake());
        for coordinator in &self.coordinators {
            at = earlier(at, coordinator.wake(self.now, &self.truth.shared));
            at = earlier(at, coordinator.mail.iter().map(|(at, ..)| *at).min());
        }
        at = earlier(at, self.clients.wake());
        at = earlier(at, self.poisoned.values().copied().min());
        self.hosts.iter().map(|host| host.wake(self.now)).fold(at, earlier)
    }

    /// Runs until `until`, or until all work is done.
    fn advance(&mut self, until: Time, ends_early: bool) {
        while self.truth.violation().is_none() {
            if ends_early && self.truth.counts.steps.is_multiple_of(64) && self.is_quiet() {
                return;
            }
            let Some(at) = self.next().filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.step();
            self.truth.counts.steps += 1;
            if self.truth.counts.steps > STEPS_MAX {
                self.truth.fail(format!("liveness: {STEPS_MAX} steps and no end"));
            }
        }
        self.now = self.now.max(until.min(self.next().unwrap_or(until)));
    }

    /// Returns true if every accepted job has ended and no machine holds an attempt.
    fn is_quiet(&self) -> bool {
        let done = &self.truth.disk.done;
        self.clients.are_answered()
            && self.clients.accepted().all(|job| done.contains_key(&job))
            && self.hosts.iter().all(|host| host.is_on() && host.spool.is_empty())
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some((_, fault)) = self.faults.first().filter(|(at, _)| *at <= now).cloned() {
            self.faults.remove(0);
            self.strike(&fault);
        }
        // Machines first: a machine that wakes up acts before it receives messages.
        for host in self.hosts.iter_mut().filter(|host| host.wake(now).is_some_and(|at| at <= now)) {
            host.step(now, &mut self.truth);
        }
        self.deliver();
        shared::step(now, &mut self.truth);
        self.note_presence();
        for coordinator in &mut self.coordinators {
            coordinator.step(now, &mut self.truth);
        }
        self.note_presence();
        for coordinator in &mut self.coordinators {
            while let Some(due) = coordinator.mail.iter().position(|(at, ..)| *at <= now) {
                let (_, client, reply) = coordinator.mail.remove(due);
                self.clients.take_mail(client, reply, &mut self.truth);
            }
        }
        if self.clients.wake().is_some_and(|at| at <= now) {
            self.clients.step(now, &mut self.coordinators, &mut self.truth);
        }
        self.poison();
        self.check();
    }

    fn note_presence(&mut self) {
        self.truth.presence.clear();
        self.truth
            .presence
            .extend(self.coordinators.iter().map(|coordinator| coordinator.presence(self.now)));
    }

    fn deliver(&mut self) {
        let now = self.now;
        loop {
            let hosts = &self.hosts;
            let listens = |index: usize| hosts.get(index).is_some_and(|host: &Host| host.listens(now));
            let coordinators = &self.coordinators;
            let serves = |index: usize| coordinators.get(index).is_some_and(|it| it.listens(now));
            let arrival = self.truth.network.arrive(now, listens, serves);
            let Some((id, (index, to), arrival)) = arrival else { return };
            match arrival {
                Arrival::Up(message) => self.coordinators[to].receive(id, message, now, &mut self.truth),
                Arrival::ClosedUp => self.coordinators[to].closed(id, now, &mut self.truth),
                Arrival::Down(message) => self.with_daemon(index, |daemon, host, truth| {
                    daemon.obey(host, id, *message, now, truth);
                }),
                Arrival::ClosedDown => {
                    self.with_daemon(index, |daemon, _, truth| daemon.closed(id, now, truth));
                }
            }
        }
    }

    fn with_daemon(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut super::daemon::Daemon, &mut Host, &mut Truth),
    ) {
        let Some(host) = self.hosts.get_mut(index) else { return };
        if let Some(mut daemon) = host.daemon.take() {
            act(&mut daemon, host, &mut self.truth);
            host.daemon = Some(daemon);
        }
    }

    /// Crashes machines some time after the start of a poison job.
    fn poison(&mut self) {
        let now = self.now;
        for host in &mut self.hosts {
            let is_poison =
                |job: &JobId, truth: &Truth| truth.behaviours.get(job).is_some_and(|it| it.is_poison);
            let keeper =
                host.keepers.values().find(|keeper| is_poison(&keeper.lease.attempt.job, &self.truth));
            let Some(execution) = keeper.map(|keeper| keeper.execution) else { continue };
            let at = *self.poisoned.entry(execution).or_insert(now + Duration::from_secs(3));
            if at <= now && host.is_on() {
                self.truth.note(now, || format!("{} goes down by its job", host.name));
                host.lose_power(now, &mut self.truth, Duration::from_secs(20));
            }
        }
        self.poisoned.retain(|_, at| *at > now);
    }

    fn strike(&mut self, fault: &Fault) {
        let now = self.now;
        self.truth.counts.faults += 1;
        self.truth.note(now, || format!("FAULT {fault:?}"));
        let struck = self.struck_coordinator();
        let truth = &mut self.truth;
        let coordinator = &mut self.coordinators[struck];
        match *fault {
            Fault::Cut { host } => truth.network.cut(now, &mut truth.dice, host),
            Fault::Stall { host, up, down } => truth.network.stall(host, now + up, now + down),
            Fault::DaemonCrash { host, down } => self.hosts[host].crash_daemon(now, truth, down),
            Fault::DaemonStop { host, time } => self.hosts[host].stopped_until = now + time,
            Fault::DaemonDrain { host, deadline } => {
                let local = self.hosts[host].local(now).continuous;
                if let Some(daemon) = &mut self.hosts[host].daemon {
                    daemon.drain_and_leave(local, deadline);
                }
            }
            Fault::KeeperKill { host } => {
                let _struck = self.hosts[host].is_on() && self.hosts[host].kill_keeper(now, truth);
            }
            Fault::PowerLoss { host, down } => self.hosts[host].lose_power(now, truth, down),
            Fault::Wipe { host, down } => {
                self.hosts[host].lose_power(now, truth, down);
                self.hosts[host].wipe();
            }
            Fault::Sleep { host, time } => self.hosts[host].sleep(now, time),
            Fault::Mood { host } => {
                if let Some(daemon) = &mut self.hosts[host].daemon {
                    daemon.be_moody(true);
                }
            }
            Fault::CoordinatorCrash { down, says_so } | Fault::LeaderCrash { down, says_so } => {
                coordinator.crash(now, truth, down, says_so);
            }
            Fault::StoreCut { time } => truth.shared.block(struck, now + time),
            Fault::SharedSlow { time } => truth.shared.slow_down(now + time),
            Fault::SharedAway { time } => truth.shared.stop(now + time),
            Fault::ObjectsAway { time } => truth.shared.lose_objects(now + time),
            Fault::StandbyLags => truth.shared.keep_copy(&truth.disk),
            Fault::StandbyPromoted { takes } => {
                shared::promote(now, truth, takes);
                let (jobs, shared) = (&truth.disk.jobs, &truth.shared);
                self.clients.forget(|job| shared.forgotten.contains(&job) && !jobs.contains_key(&job));
            }
            Fault::CoordinatorCrashAt { boundaries, down } => {
                coordinator.crash_at = Some((coordinator.boundaries() + boundaries, down));
            }
            Fault::CoordinatorStop { time } | Fault::LeaderStop { time } => {
                coordinator.stopped_until = now + time;
            }
            Fault::SlowStore { time } => coordinator.slow_until = now + time,
            Fault::FullStore { time } => coordinator.full_until = now + time,
            Fault::WallJump { millis } => coordinator.wall_offset_ms += millis,
            Fault::Drain { host, deadline } => self.drain(host, true, deadline),
            Fault::Resume { host } => self.drain(host, false, None),
            Fault::LostAfter { lost_after } => {
                for coordinator in &mut self.coordinators {
                    coordinator.config.lost_after = lost_after;
                    coordinator.crash(now, truth, Duration::from_secs(1), true);
                }
            }
            Fault::FullDisk { host, time } => self.hosts[host].full_until = now + time,
        }
    }

    /// Returns the coordinator that a fault strikes: mostly the leader.
    fn struck_coordinator(&mut self) -> usize {
        let count = self.coordinators.len();
        if count == 1 {
            return 0;
        }
        let leader = self.coordinators.iter().position(|coordinator| coordinator.listens(self.now));
        match leader {
            Some(leader) if self.truth.dice.percent(75) => leader,
            _ => self.truth.dice.index(count),
        }
    }

    fn drain(&mut self, host: usize, draining: bool, deadline: Option<Duration>) {
        let client = ClientRef { connection: 0, request: 0 };
        let worker = self.hosts[host].name.clone();
        let now = self.now;
        for coordinator in self.coordinators.iter_mut().filter(|coordinator| coordinator.listens(now)) {
            coordinator.ask(Input::Drain { client, worker: worker.clone(), draining, deadline });
        }
    }

    /// Ends all faults.
    fn heal(&mut self) {
        let now = self.now;
        self.truth.note(now, || "HEALED".to_owned());
        self.faults.clear();
        self.truth.network.heal(now);
        self.truth.shared.heal(now);
        for coordinator in &mut self.coordinators {
            coordinator.crash_at = None;
            coordinator.stopped_until = now;
            coordinator.slow_until = now;
            coordinator.full_until = now;
        }
        for host in &mut self.hosts {
            host.wake_up(now);
            host.stopped_until = now;
            host.full_until = now;
            host.daemon_at = host.daemon_at.min(now);
            if let Some(daemon) = &mut host.daemon {
                daemon.be_moody(false);
            }
        }
        // The coordinator may be down for a moment longer, so the operator retries.
        self.advance(now + Duration::from_secs(120), false);
        for host in 0..self.hosts.len() {
            self.drain(host, false, None);
        }
    }

    /// Cancels jobs that wait forever for a wiped worker. They must report that.
    fn cancel_what_waits_for_ever(&mut self) {
        self.clients.stop();
        let live: Vec<_> = self.coordinators.iter().flat_map(|it| it.live_jobs(self.now)).collect();
        for live in live {
            let job = live.record.job;
            let waits_for_ever =
                live.record.spec.on_lost == buildpool_protocol::spec::OnLost::Wait && !live.connected;
            // Jobs of the same concurrency group wait forever as well.
            let waits_behind =
                live.waiting.as_ref().is_some_and(|waits| waits.reason.contains("concurrency group"));
            if waits_behind {
                continue;
            }
            if !waits_for_ever {
                self.truth.fail(format!(
                    "liveness: long after everything healed job {job} is {:?}, waiting {:?}, attempts {:?}",
                    live.state, live.waiting, live.attempts
                ));
            }
            self.clients.cancel(job, self.now);
        }
    }

    // ---- invariants

    fn check(&mut self) {
        let leading: Vec<_> =
            (0..self.coordinators.len()).filter(|index| self.coordinators[*index].leads(self.now)).collect();
        if leading.len() > 1 && self.truth.shared.overlaps_until <= self.now {
            self.truth.fail(format!("single_leader: the coordinators {leading:?} act as the leader at once"));
        }
        let mut running: BTreeMap<JobId, (usize, u64)> = BTreeMap::new();
        let orphans = self.hosts.iter().filter(|host| host.is_on()).flat_map(|host| {
            let living = host.orphans.iter().filter(|(_, orphan)| orphan.until > self.now);
            living.map(|(id, orphan)| (id.job, (host.index, orphan.execution)))
        });
        running.extend(orphans);
        for host in self.hosts.iter().filter(|host| host.is_on()) {
            let mut used = BTreeMap::new();
            for keeper in host.keepers.values() {
                let Some(entry) = host.spool.get(&keeper.lease.attempt) else { continue };
                for (name, count) in &entry.spec.resources {
                    *used.entry(name.as_str()).or_insert(0) += count;
                }
                // An attempt whose grant was lost with a primary server runs until its worker connects.
                if keeper.runs()
                    && !self.truth.is_forgotten(keeper.lease.attempt.job)
                    && let Some((other, execution)) =
                        running.insert(keeper.lease.attempt.job, (host.index, keeper.execution))
                {
                    self.truth.fail(format!(
                        "self_fence: job {} runs on mac-{other} (execution {execution}) and on {} (execution {}) at once",
                        keeper.lease.attempt.job, host.name, keeper.execution
                    ));
                }
            }
            let is_over =
                used.iter().any(|(name, used)| host.resources.get(*name).is_none_or(|have| used > have));
            if is_over || host.keepers.len() > host.slots as usize {
                self.truth.fail(format!("capacity: {} runs {} attempts", host.name, host.keepers.len()));
            }
        }
    }

    fn check_end(&mut self) {
        let unfinished: Vec<JobId> =
            self.clients.accepted().filter(|job| !self.truth.disk.done.contains_key(job)).collect();
        if let Some(job) = unfinished.first() {
            self.truth.fail(format!("liveness: {} accepted jobs have no end, {job} first", unfinished.len()));
        }
        for host in &self.hosts {
            if host.keepers.values().any(super::keeper::Keeper::is_alive) {
                self.truth.fail(format!("liveness: {} still runs something", host.name));
            }
            if let Some(id) = host.spool.keys().next() {
                self.truth.fail(format!("liveness: {} still holds {id}", host.name));
            }
            if host.power != Power::On {
                self.truth.fail(format!("the simulation ended with {} away", host.name));
            }
        }
    }
}
