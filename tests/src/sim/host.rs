//! A worker's machine: power, sleep, a disk, keepers, and a daemon that starts and stops.

use super::clock::{Time, earlier};
use super::daemon::Daemon;
use super::keeper::{Clocks, Keeper, outcome};
use super::truth::Truth;
use buildpool_protocol::ids::{AttemptId, BootId, Lease, WorkerId};
use buildpool_protocol::outcome::{Ending, Outcome};
use buildpool_protocol::spec::JobSpec;
use buildpool_worker::platform::Now;
use std::collections::BTreeMap;
use std::time::Duration;

/// The directory of an attempt. It survives everything except a disk wipe.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) lease: Lease,
    pub(crate) spec: JobSpec,
    pub(crate) execution: u64,
    pub(crate) started_at_ms: Option<i64>,
    pub(crate) log_length: u64,
    pub(crate) outcome: Option<Outcome>,
    /// True if its keeper died and the daemon has not noticed yet.
    pub(crate) is_unwatched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    On,
    Asleep { since: Time, until: Time },
    Off { until: Time },
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) index: usize,
    pub(crate) identity: WorkerId,
    pub(crate) name: String,
    pub(crate) slots: u32,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) resources: BTreeMap<String, u32>,
    pub(crate) clocks: Clocks,
    pub(crate) power: Power,
    pub(crate) spool: BTreeMap<AttemptId, Entry>,
    pub(crate) keepers: BTreeMap<AttemptId, Keeper>,
    pub(crate) daemon: Option<Daemon>,
    pub(crate) daemon_at: Time,
    /// Process trees of dead keepers that have not been ended yet.
    pub(crate) orphans: BTreeMap<AttemptId, Orphan>,
    /// Time until which its disk is full.
    pub(crate) full_until: Time,
    /// Time until which the daemon is stopped by SIGSTOP. Its keepers continue.
    pub(crate) stopped_until: Time,
    boots: u128,
    /// Number of boots before the last power-on.
    boots_before_power: u128,
}

/// A process tree with a dead keeper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orphan {
    pub(crate) execution: u64,
    /// Time when its guardian has ended it.
    pub(crate) until: Time,
}

/// Maximum time of a guardian to end a tree: scheduling delay plus kernel time.
const GUARDIAN_TAKES_MILLIS_MAX: u64 = 10_000;

impl Host {
    pub(crate) fn new(index: usize, slots: u32, clocks: Clocks) -> Self {
        Self {
            index,
            identity: identity(index, 0),
            name: format!("mac-{index}"),
            slots,
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
            clocks,
            power: Power::On,
            spool: BTreeMap::new(),
            keepers: BTreeMap::new(),
            daemon: None,
            daemon_at: Time::ZERO,
            orphans: BTreeMap::new(),
            full_until: Time::ZERO,
            stopped_until: Time::ZERO,
            boots: 0,
            boots_before_power: 0,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.power == Power::On
    }

    /// Returns true if its daemon receives messages.
    pub(crate) fn listens(&self, now: Time) -> bool {
        self.is_on() && self.daemon.is_some() && self.stopped_until <= now
    }

    pub(crate) fn local(&self, now: Time) -> Now {
        self.clocks.at(now)
    }

    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        match self.power {
            Power::Off { until } | Power::Asleep { until, .. } => return Some(until),
            Power::On => {}
        }
        let mut at = self.keepers.values().map(|keeper| keeper.wake(&self.clocks)).fold(None, earlier);
        let daemon = match &self.daemon {
            None => Some(self.daemon_at),
            Some(daemon) => daemon.wake(self),
        };
        at = earlier(at, daemon.map(|at| at.max(self.stopped_until)));
        at.map(|at| at.max(now))
    }

    pub(crate) fn step(&mut self, now: Time, truth: &mut Truth) {
        self.change_power(now, truth);
        if !self.is_on() {
            return;
        }
        // Keepers act first: after a sleep they must not wait for the daemon.
        self.step_keepers(now);
        if self.daemon.is_none() && self.daemon_at <= now {
            self.start_daemon(now, truth);
        }
        if self.listens(now)
            && let Some(mut daemon) = self.daemon.take()
        {
            daemon.step(self, now, truth);
            if daemon.is_over(self) {
                daemon.leave(now, truth);
                self.daemon_at = now + truth.dice.seconds(1, 30);
                truth.note(now, || format!("{} left after its drain", self.name));
            } else {
                self.daemon = Some(daemon);
            }
        }
    }

    fn change_power(&mut self, now: Time, truth: &mut Truth) {
        match self.power {
            Power::Asleep { since, until } if until <= now => {
                self.clocks.slept += self.clocks.continuous.at(now) - self.clocks.continuous.at(since);
                self.power = Power::On;
                truth.note(now, || format!("{} woke", self.name));
            }
            Power::Off { until } if until <= now => {
                self.power = Power::On;
                self.daemon_at = now + truth.dice.millis(0, 5_000);
                truth.note(now, || format!("{} has power again", self.name));
            }
            Power::On | Power::Asleep { .. } | Power::Off { .. } => {}
        }
    }

    fn step_keepers(&mut self, now: Time) {
        let local = self.local(now);
        for keeper in self.keepers.values_mut() {
            keeper.step(local);
        }
        self.collect_ended(local);
    }

    /// Writes the outcomes of ended keepers to the disk.
    pub(crate) fn collect_ended(&mut self, local: Now) {
        let spool = &mut self.spool;
        self.keepers.retain(|id, keeper| {
            let Some(entry) = spool.get_mut(id) else { return keeper.is_alive() };
            entry.log_length = keeper.log_length(local);
            match keeper.take_outcome() {
                Some(outcome) => {
                    entry.outcome = Some(outcome);
                    false
                }
                None => true,
            }
        });
    }

    fn start_daemon(&mut self, now: Time, truth: &mut Truth) {
        self.boots += 1;
        let boot = self.boot(self.boots);
        truth.note(now, || {
            format!("{} starts its daemon, {} attempts in its spool", self.name, self.spool.len())
        });
        let mut daemon = Daemon::new(boot, now);
        daemon.take_up(self);
        self.daemon = Some(daemon);
    }

    fn boot(&self, number: u128) -> BootId {
        let uuid = (self.index as u128) << 64 | 0x8000_0000_0000_0000 | number;
        BootId::from_uuid(uuid::Uuid::from_u128(uuid))
    }

    /// Returns the earlier starts of its daemon since power-on.
    pub(crate) fn earlier(&self) -> Vec<BootId> {
        (self.boots_before_power + 1..self.boots).rev().map(|number| self.boot(number)).collect()
    }

    /// Crashes the daemon. Its keepers continue.
    pub(crate) fn crash_daemon(&mut self, now: Time, truth: &mut Truth, down: Duration) {
        if let Some(daemon) = self.daemon.take() {
            daemon.leave(now, truth);
        }
        self.daemon_at = now + down;
    }

    /// Kills a keeper. Its tree lives until its guardian or its daemon has ended it.
    pub(crate) fn kill_keeper(&mut self, now: Time, truth: &mut Truth) -> bool {
        let Some(id) = self.keepers.keys().next().copied() else { return false };
        let local = self.local(now);
        if let Some(keeper) = self.keepers.remove(&id)
            && let Some(entry) = self.spool.get_mut(&id)
        {
            entry.log_length = keeper.log_length(local);
            entry.is_unwatched = true;
            if keeper.runs() {
                let until = now + truth.dice.millis(0, GUARDIAN_TAKES_MILLIS_MAX);
                self.orphans.insert(id, Orphan { execution: keeper.execution, until });
            }
        }
        truth.note(now, || format!("{} lost the keeper of {id}", self.name));
        true
    }

    pub(crate) fn lose_power(&mut self, now: Time, truth: &mut Truth, down: Duration) {
        if let Some(daemon) = self.daemon.take() {
            daemon.vanish(now, truth);
        }
        let local = self.local(now);
        for (id, keeper) in std::mem::take(&mut self.keepers) {
            if let Some(entry) = self.spool.get_mut(&id) {
                entry.log_length = keeper.log_length(local);
                entry.is_unwatched = true;
            }
        }
        self.orphans.clear();
        self.boots_before_power = self.boots;
        self.power = Power::Off { until: now + down };
    }

    /// Replaces the disk: everything is lost, even the worker's identity.
    pub(crate) fn wipe(&mut self) {
        self.spool.clear();
        self.identity = identity(self.index, self.boots + 1);
    }

    pub(crate) fn sleep(&mut self, now: Time, time: Duration) {
        if self.is_on() {
            self.power = Power::Asleep { since: now, until: now + time };
        }
    }

    pub(crate) fn wake_up(&mut self, now: Time) {
        self.power = match self.power {
            Power::On => Power::On,
            Power::Asleep { since, until } => Power::Asleep { since, until: until.min(now) },
            Power::Off { until } => Power::Off { until: until.min(now) },
        };
    }

    /// Concludes an attempt without a keeper. The daemon has ended its processes, and the outcome
    /// is unknown.
    pub(crate) fn conclude(&mut self, id: AttemptId) {
        self.orphans.remove(&id);
        if let Some(entry) = self.spool.get_mut(&id) {
            entry.is_unwatched = false;
            let ending =
                Ending::Unobserved { reason: "the process that watched it died before it ended".into() };
            entry.outcome.get_or_insert_with(|| outcome(ending, None, entry.started_at_ms, entry.log_length));
        }
    }
}

fn identity(index: usize, generation: u128) -> WorkerId {
    let uuid = 0x7000_u128 << 64 | 0x9000_0000_0000_0000 | (index as u128) << 32 | generation;
    WorkerId::from_uuid(uuid::Uuid::from_u128(uuid))
}
