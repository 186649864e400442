//! The state machine.

use super::{Deadlines, Effect, Input, Plan};
use crate::limits::{
    DEBUGGER_QUIET, KILL_FOR, LEAK_GRACE, ROUND_PAUSE_MAX, ROUND_PAUSE_MIN, SETTLE, STACKS_FOR, STACKS_QUIET,
};
use crate::platform::Now;
use buildpool_protocol::limits::PIPE_DRAIN;
use buildpool_protocol::outcome::EndReason;
use std::collections::VecDeque;
use std::time::Duration;

/// Phase of an attempt. Times are of the running clock.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    Starting,
    Running {
        since: Duration,
    },
    /// A limit has passed. Processes print their stacks before they get SIGTERM.
    PrintingStacks {
        since: Duration,
    },
    /// The tree got SIGTERM.
    Terminating {
        kill_at: Duration,
        checks: CheckSchedule,
    },
    /// The tree is being killed, until it is empty or `until` has passed.
    Killing {
        until: Duration,
        checks: CheckSchedule,
    },
    /// The command has exited by itself, or the tree was ended.
    Settling {
        since: Duration,
        checks: CheckSchedule,
    },
    Done,
}

/// Checks of the tree at growing intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CheckSchedule {
    next_at: Duration,
    pause: Duration,
}

impl CheckSchedule {
    fn starting(now: Duration) -> Self {
        Self { next_at: now + ROUND_PAUSE_MIN, pause: ROUND_PAUSE_MIN }
    }

    /// Returns true if a round is due, and schedules the next one.
    fn is_due(&mut self, now: Duration) -> bool {
        if now < self.next_at {
            return false;
        }
        self.pause = (self.pause * 2).min(ROUND_PAUSE_MAX);
        self.next_at = now + self.pause;
        true
    }
}

/// Supervises one attempt. The module documentation contains a diagram.
#[derive(Debug)]
pub struct Supervisor {
    plan: Plan,
    phase: Phase,
    effects: VecDeque<Effect>,
    /// A decision made before the process existed.
    early_reason: Option<EndReason>,
    acted: bool,
    leak_noted: bool,
    /// True if the command's own process has ended.
    exited: bool,
    pipes_closed_at: Option<Duration>,
    /// The last count. `None` while it may have changed.
    left: Option<usize>,
    output_at: Duration,
    /// Time without output after which the stacks are complete.
    stacks_quiet: Duration,
    blocked: bool,
    contact_at: Duration,
}

impl Supervisor {
    /// Creates the supervisor of an attempt that is about to start. Contact counts from now.
    pub fn new(plan: Plan, now: Now) -> Self {
        Self {
            plan,
            phase: Phase::Starting,
            effects: VecDeque::new(),
            early_reason: None,
            acted: false,
            leak_noted: false,
            exited: false,
            pipes_closed_at: None,
            left: None,
            output_at: now.running,
            stacks_quiet: STACKS_QUIET,
            blocked: false,
            contact_at: now.continuous,
        }
    }

    /// Handles an event.
    pub fn handle(&mut self, now: Now, input: Input) {
        if self.is_done() {
            return;
        }
        match input {
            Input::Started => self.started(now),
            Input::NotStarted => self.finish(false),
            Input::Output => self.output_at = now.running,
            Input::Blocked => self.blocked = true,
            Input::Unblocked => {
                self.blocked = false;
                self.output_at = now.running;
            }
            Input::Exited => self.exited(now),
            Input::PipesClosed => self.pipes_closed_at = self.pipes_closed_at.or(Some(now.running)),
            Input::TreeCounted { left } => self.on_tree_counted(now, left),
            Input::StacksRequested { processes, has_debugger } => {
                self.stacks_quiet = if has_debugger { DEBUGGER_QUIET } else { STACKS_QUIET };
                self.stacks_requested(now, processes);
            }
            Input::Contact { age, cut_off_after } => {
                if let (Some(own), Some(new)) = (&mut self.plan.cut_off_after, cut_off_after) {
                    *own = new.max(*own);
                }
                let at = now.continuous.saturating_sub(age);
                // An attempt may start long after the last contact.
                let is_first = self.phase == Phase::Starting;
                self.contact_at = if is_first { at } else { self.contact_at.max(at) };
            }
            Input::End(acted) => self.end_for(now, acted),
            Input::SkipGrace => self.skip_grace(now),
            Input::Tick => {}
        }
        self.check_limits(now);
        self.advance(now);
    }

    /// Returns the last contact as an input for another supervisor.
    pub fn contact(&self, now: Now) -> Input {
        Input::Contact {
            age: now.continuous.saturating_sub(self.contact_at),
            cut_off_after: self.plan.cut_off_after,
        }
    }

    /// Returns the next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the next time when [`Input::Tick`] is needed.
    pub fn next_deadline(&self) -> Deadlines {
        match &self.phase {
            Phase::Starting | Phase::Done => Deadlines::default(),
            Phase::Running { since } => {
                let timeout = self.plan.timeout.map(|after| *since + after);
                let idle =
                    self.plan.idle_timeout.filter(|_| !self.blocked).map(|after| self.output_at + after);
                let running = match (timeout, idle) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
                Deadlines {
                    running,
                    continuous: self.plan.cut_off_after.map(|after| self.contact_at + after),
                }
            }
            Phase::PrintingStacks { since } => {
                Deadlines { continuous: self.disconnected_kill_at(), ..at(self.stacks_until(*since)) }
            }
            Phase::Terminating { kill_at, checks } => {
                Deadlines { continuous: self.disconnected_kill_at(), ..at((*kill_at).min(checks.next_at)) }
            }
            Phase::Killing { until, checks } => at((*until).min(checks.next_at)),
            Phase::Settling { since, checks } => {
                if self.left == Some(0) {
                    at(*since + PIPE_DRAIN)
                } else {
                    at(self.leaked_from(*since).max(checks.next_at))
                }
            }
        }
    }

    /// Returns the time when long work must stop: a decision is due then, not only a check or a
    /// retry.
    pub fn work_deadline(&self) -> Deadlines {
        match &self.phase {
            Phase::Starting | Phase::Running { .. } | Phase::PrintingStacks { .. } | Phase::Done => {
                self.next_deadline()
            }
            Phase::Terminating { kill_at, .. } => {
                Deadlines { continuous: self.disconnected_kill_at(), ..at(*kill_at) }
            }
            Phase::Killing { until, .. } => at(*until),
            Phase::Settling { since, .. } if self.left == Some(0) => at(*since + PIPE_DRAIN),
            Phase::Settling { since, .. } => at(self.leaked_from(*since)),
        }
    }

    /// Returns true if the grace period of a tree is over. Unread events cannot change that.
    pub fn is_kill_due(&self, now: Now) -> bool {
        matches!(self.phase, Phase::Terminating { .. })
            && self.work_deadline().until(now).is_some_and(|left| left.is_zero())
    }

    /// Returns true after the end. No effects follow after the last one is taken.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Returns true if the tree is being ended.
    pub fn is_ending(&self) -> bool {
        !matches!(self.phase, Phase::Starting | Phase::Running { .. } | Phase::Done)
    }

    fn started(&mut self, now: Now) {
        if self.phase == Phase::Starting {
            self.output_at = now.running;
            self.phase = Phase::Running { since: now.running };
            if let Some(acted) = self.early_reason.take() {
                self.end_for(now, acted);
            }
        }
    }

    fn exited(&mut self, now: Now) {
        self.exited = true;
        self.left = None;
        match self.phase {
            Phase::Running { .. } => self.settle(now),
            // Its stacks are printed. The rest of its tree gets SIGTERM.
            Phase::PrintingStacks { .. } => self.end(now, self.plan.grace),
            _ => {}
        }
        self.effects.push_back(Effect::CountTree);
    }

    fn stacks_requested(&mut self, now: Now, processes: usize) {
        if processes == 0 && matches!(self.phase, Phase::PrintingStacks { .. }) {
            self.end(now, self.plan.grace);
        }
    }

    /// Returns when the tree gets SIGTERM, if nothing more is printed.
    fn stacks_until(&self, since: Duration) -> Duration {
        let latest = since + STACKS_FOR;
        if self.output_at > since { latest.min(self.output_at + self.stacks_quiet) } else { latest }
    }

    fn settle(&mut self, now: Now) {
        self.phase = Phase::Settling { since: now.running, checks: CheckSchedule::starting(now.running) };
    }

    fn on_tree_counted(&mut self, now: Now, left: usize) {
        self.left = Some(left);
        let Phase::Settling { since, .. } = self.phase else { return };
        if left > 0 && now.running >= self.leaked_from(since) {
            self.end_leaked(now, LEAK_GRACE.min(self.plan.grace));
        }
    }

    /// Returns the time from which a remaining process counts as leaked, if the command ended at
    /// `since`. A process that has just closed the pipes may still be exiting, at any time.
    fn leaked_from(&self, since: Duration) -> Duration {
        self.pipes_closed_at.map_or(since + PIPE_DRAIN, |closed_at| since.max(closed_at) + SETTLE)
    }

    /// Ends processes that outlived the command.
    fn end_leaked(&mut self, now: Now, grace: Duration) {
        if !self.leak_noted && !self.acted {
            self.leak_noted = true;
            self.effects.push_back(Effect::NoteLeaked);
        }
        self.end(now, grace);
    }

    fn end_for(&mut self, now: Now, acted: EndReason) {
        match self.phase {
            Phase::Running { .. } => {
                let grace = match acted {
                    EndReason::Fenced => Duration::ZERO,
                    EndReason::CutOff => self.cut_off_grace(now),
                    EndReason::Timeout { .. }
                    | EndReason::IdleTimeout { .. }
                    | EndReason::Cancelled { .. }
                    | EndReason::Drained
                    | EndReason::DiskLimit { .. }
                    | EndReason::OutputLimit { .. } => self.plan.grace,
                };
                let is_timeout = matches!(acted, EndReason::Timeout { .. } | EndReason::IdleTimeout { .. });
                self.acted = true;
                self.effects.push_back(Effect::Record(acted));
                if is_timeout && !grace.is_zero() {
                    self.effects.push_back(Effect::RequestStacks);
                    self.phase = Phase::PrintingStacks { since: now.running };
                } else {
                    self.end(now, grace);
                }
            }
            // The command has ended by itself, and that result stays. Only its leftover processes
            // are ended sooner.
            Phase::Settling { .. } if self.left != Some(0) => self.end_leaked(now, Duration::ZERO),
            // The first reason stays. A fence leaves no grace period.
            Phase::PrintingStacks { .. } | Phase::Terminating { .. } if acted == EndReason::Fenced => {
                self.skip_grace(now);
            }
            Phase::Starting => self.early_reason = self.early_reason.take().or(Some(acted)),
            Phase::Settling { .. }
            | Phase::PrintingStacks { .. }
            | Phase::Terminating { .. }
            | Phase::Killing { .. }
            | Phase::Done => {}
        }
    }

    /// Returns the time, by the continuous clock, when a disconnected tree is killed with any
    /// remaining grace. After it the job may run on another worker.
    fn disconnected_kill_at(&self) -> Option<Duration> {
        let after = self.plan.cut_off_after?;
        Some(self.contact_at.saturating_add(after).saturating_add(self.plan.cut_off_grace))
    }

    /// Returns the grace period of a disconnected tree. After a sleep of the machine it may be
    /// shorter, or zero.
    fn cut_off_grace(&self, now: Now) -> Duration {
        let left = self.disconnected_kill_at().map(|at| at.saturating_sub(now.continuous));
        left.map_or(self.plan.cut_off_grace, |left| left.min(self.plan.cut_off_grace))
    }

    fn skip_grace(&mut self, now: Now) {
        if matches!(self.phase, Phase::PrintingStacks { .. } | Phase::Terminating { .. }) {
            self.kill(now);
        }
    }

    fn end(&mut self, now: Now, grace: Duration) {
        if grace.is_zero() {
            return self.kill(now);
        }
        self.effects.push_back(Effect::Terminate);
        self.left = None;
        self.phase =
            Phase::Terminating { kill_at: now.running + grace, checks: CheckSchedule::starting(now.running) };
    }

    fn kill(&mut self, now: Now) {
        self.effects.push_back(Effect::Kill);
        self.left = None;
        self.phase =
            Phase::Killing { until: now.running + KILL_FOR, checks: CheckSchedule::starting(now.running) };
    }

    fn check_limits(&mut self, now: Now) {
        let Phase::Running { since } = self.phase else { return };
        let passed = |limit: Option<Duration>, from: Duration, now: Duration| {
            limit.filter(|after| now >= from + *after)
        };
        if passed(self.plan.cut_off_after, self.contact_at, now.continuous).is_some() {
            self.end_for(now, EndReason::CutOff);
        } else if let Some(after) = passed(self.plan.timeout, since, now.running) {
            self.end_for(now, EndReason::Timeout { after, held: None });
        } else if let Some(after) =
            passed(self.plan.idle_timeout.filter(|_| !self.blocked), self.output_at, now.running)
        {
            self.end_for(now, EndReason::IdleTimeout { after });
        }
    }

    fn advance(&mut self, now: Now) {
        let gone = self.exited && self.left == Some(0);
        let is_overdue = self.disconnected_kill_at().is_some_and(|at| now.continuous >= at);
        let leaked_from = match self.phase {
            Phase::Settling { since, .. } => self.leaked_from(since),
            _ => Duration::MAX,
        };
        let stacks_until = match self.phase {
            Phase::PrintingStacks { since } => self.stacks_until(since),
            _ => Duration::MAX,
        };
        match &mut self.phase {
            Phase::Starting | Phase::Running { .. } | Phase::Done => {}
            Phase::PrintingStacks { .. } if is_overdue => self.kill(now),
            Phase::PrintingStacks { .. } if now.running >= stacks_until => self.end(now, self.plan.grace),
            Phase::PrintingStacks { .. } => {}
            Phase::Terminating { .. } | Phase::Killing { .. } if gone => {
                self.settle(now);
                self.close_when_settled(now);
            }
            Phase::Terminating { kill_at, checks } => {
                if now.running >= *kill_at || is_overdue {
                    self.kill(now);
                } else if checks.is_due(now.running) {
                    self.effects.push_back(Effect::CountTree);
                }
            }
            Phase::Killing { until, checks } => {
                if now.running >= *until {
                    self.give_up();
                } else if checks.is_due(now.running) {
                    self.effects.push_back(Effect::Kill);
                    self.effects.push_back(Effect::CountTree);
                }
            }
            Phase::Settling { checks, .. } => {
                if !gone && now.running >= leaked_from && checks.is_due(now.running) {
                    self.effects.push_back(Effect::CountTree);
                }
                self.close_when_settled(now);
            }
        }
    }

    /// Finishes when the tree is empty and the pipes are closed. Pipes held open by a process
    /// outside the tree are given up.
    fn close_when_settled(&mut self, now: Now) {
        let Phase::Settling { since, .. } = self.phase else { return };
        if self.left != Some(0) {
            return;
        }
        if self.pipes_closed_at.is_some() {
            self.finish(false);
        } else if now.running >= since + PIPE_DRAIN {
            self.effects.push_back(Effect::ClosePipes);
        }
    }

    fn give_up(&mut self) {
        if self.pipes_closed_at.is_none() {
            self.effects.push_back(Effect::ClosePipes);
        }
        self.finish(true);
    }

    fn finish(&mut self, survivors: bool) {
        if self.phase != Phase::Done {
            self.effects.push_back(Effect::Finish { survivors });
            self.phase = Phase::Done;
        }
    }
}

fn at(running: Duration) -> Deadlines {
    Deadlines { running: Some(running), continuous: None }
}
