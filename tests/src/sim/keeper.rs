//! A keeper: the real supervisor with a simulated process. It outlives the daemon.

use super::clock::{Clock, Time, earlier};
use super::truth::Behaviour;
use buildpool_protocol::ids::Lease;
use buildpool_protocol::outcome::{EndReason, Ending, Outcome, Seal};
use buildpool_worker::platform::Now;
use buildpool_worker::supervisor::{Effect, Input, Plan, Supervisor};
use std::time::Duration;

/// The clocks of one machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) continuous: Clock,
    pub(crate) slept: Duration,
}

impl Clocks {
    pub(crate) fn at(&self, now: Time) -> Now {
        let continuous = self.continuous.at(now);
        Now { running: continuous.saturating_sub(self.slept), continuous }
    }

    pub(crate) fn when_running(&self, at: Duration) -> Time {
        self.continuous.when(at + self.slept)
    }
}

#[derive(Debug)]
struct Process {
    alive: bool,
    /// Start time by the running clock.
    began: Duration,
    exits_at: Duration,
    /// Time and signal of its coming end.
    dies_at: Option<(Duration, i32)>,
    is_being_killed: bool,
    ending: Option<Ending>,
}

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) lease: Lease,
    pub(crate) execution: u64,
    pub(crate) started_at_ms: i64,
    supervisor: Supervisor,
    behaviour: Behaviour,
    process: Process,
    acted: Option<EndReason>,
    outcome: Option<Outcome>,
}

impl Keeper {
    pub(crate) fn start(
        lease: Lease,
        execution: u64,
        plan: Plan,
        behaviour: Behaviour,
        contact_age: Duration,
        now: Now,
    ) -> Self {
        let mut supervisor = Supervisor::new(plan, now);
        supervisor.handle(now, Input::Contact { age: contact_age, cut_off_after: None });
        supervisor.handle(now, Input::Started);
        let process = Process {
            alive: true,
            began: now.running,
            exits_at: now.running + behaviour.runs,
            dies_at: None,
            is_being_killed: false,
            ending: None,
        };
        let started_at_ms = i64::try_from(now.continuous.as_millis()).unwrap_or(i64::MAX);
        let mut keeper = Self {
            lease,
            execution,
            started_at_ms,
            supervisor,
            behaviour,
            process,
            acted: None,
            outcome: None,
        };
        keeper.carry_out(now);
        keeper
    }

    /// Returns true if its process counts as running. A process with a pending SIGKILL does not.
    pub(crate) fn runs(&self) -> bool {
        self.process.alive && !self.process.is_being_killed
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.process.alive
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.supervisor.is_ending()
    }

    /// Returns the number of bytes written.
    pub(crate) fn log_length(&self, now: Now) -> u64 {
        let until = if self.process.alive { now.running } else { self.process.exits_at };
        let millis = u64::try_from(until.saturating_sub(self.process.began).as_millis()).unwrap_or(0);
        millis * self.behaviour.bytes_per_second / 1000
    }

    pub(crate) fn take_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    pub(crate) fn contact(&mut self, now: Now, age: Duration, cut_off_after: Option<Duration>) {
        self.give(now, Input::Contact { age, cut_off_after });
    }

    pub(crate) fn act(&mut self, now: Now, acted: EndReason) {
        self.give(now, Input::End(acted));
    }

    pub(crate) fn skip_grace(&mut self, now: Now) {
        self.give(now, Input::SkipGrace);
    }

    /// Performs all due actions, and the end of the attempt after its process.
    pub(crate) fn step(&mut self, now: Now) {
        if self.process.alive {
            if let Some((_, signal)) = self.process.dies_at.filter(|(at, _)| *at <= now.running) {
                let name = if signal == 9 { "SIGKILL" } else { "SIGTERM" };
                self.exit(now, Ending::Signaled { signal, name: name.into(), core_dump: false });
            } else if self.process.exits_at <= now.running {
                self.exit(now, Ending::Exited { code: self.behaviour.code });
            }
        }
        self.give(now, Input::Tick);
    }

    fn exit(&mut self, now: Now, ending: Ending) {
        self.process.alive = false;
        self.process.exits_at = now.running.min(self.process.exits_at);
        self.process.ending = Some(ending);
        self.give(now, Input::Exited);
        self.give(now, Input::PipesClosed);
    }

    fn give(&mut self, now: Now, input: Input) {
        self.supervisor.handle(now, input);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Now) {
        while let Some(effect) = self.supervisor.poll_effect() {
            match effect {
                Effect::Record(acted) => self.acted = Some(acted),
                Effect::NoteLeaked => {}
                Effect::RequestStacks => {
                    self.supervisor.handle(now, Input::StacksRequested { processes: 0, has_debugger: false });
                }
                Effect::Terminate if self.behaviour.ignores_term => {}
                Effect::Terminate => self.signal(now.running + self.behaviour.term_takes, 15),
                Effect::Kill => {
                    self.process.is_being_killed = true;
                    self.signal(now.running + self.behaviour.kill_takes, 9);
                }
                Effect::CountTree => {
                    let left = usize::from(self.process.alive);
                    self.supervisor.handle(now, Input::TreeCounted { left });
                }
                Effect::ClosePipes => self.supervisor.handle(now, Input::PipesClosed),
                Effect::Finish { .. } => self.outcome = Some(self.account(now)),
            }
        }
    }

    fn signal(&mut self, at: Duration, signal: i32) {
        if self.process.dies_at.is_none_or(|(before, _)| at < before) {
            self.process.dies_at = Some((at, signal));
        }
    }

    fn account(&self, now: Now) -> Outcome {
        let ending = self.process.ending.clone();
        outcome(
            ending.unwrap_or(Ending::Unobserved { reason: "its process can't be ended".into() }),
            self.acted.clone(),
            Some(self.started_at_ms),
            self.log_length(now),
        )
    }

    pub(crate) fn wake(&self, clocks: &Clocks) -> Option<Time> {
        let deadlines = self.supervisor.next_deadline();
        let mut at = deadlines.running.map(|at| clocks.when_running(at));
        at = earlier(at, deadlines.continuous.map(|at| clocks.continuous.when(at)));
        if self.process.alive {
            at = earlier(at, Some(clocks.when_running(self.process.exits_at)));
            at = earlier(at, self.process.dies_at.map(|(at, _)| clocks.when_running(at)));
        }
        at
    }
}

pub(crate) fn outcome(
    ending: Ending,
    acted: Option<EndReason>,
    started_at_ms: Option<i64>,
    log_length: u64,
) -> Outcome {
    let seal = Seal { length: log_length, blake3: String::new() };
    Outcome {
        acted,
        started_at_ms,
        log_length,
        ..Outcome::new(ending, 0, [seal, Seal { length: 0, blake3: String::new() }])
    }
}
