//! The attempt of a keeper: feeds system events to the supervisor and carries out its effects.

mod effects;
mod events;
mod outcome;

use super::capture::Capture;
use super::disk_block::DiskBlock;
use super::keeper_directory;
use super::mask::Masker;
use super::messages::{HeldAttempt, Run};
use super::spawn::{Spawned, spawn};
use super::spool::{LogLimits, Spool};
use super::stdin::Stdin;
use super::tree::Tree;
use crate::limits::{OBSERVE_EVERY, WRITE_STATE_AFTER};
use crate::platform::Now;
use crate::records;
use crate::supervisor::{Input, Plan, Supervisor};
use crate::workspace::setup::SetupPlan;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::limits::SETUP_LOG_BYTES_MAX;
use buildpool_protocol::outcome::{EndReason, Ending, Outcome, OutputHeld, SetupOutcome};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{Survivor, Usage};
use buildpool_protocol::spec::OutputPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// An attempt from its start to its outcome.
pub(super) struct RunningAttempt {
    lease: Lease,
    /// Secrets for the next daemon, which must mask them too. Empty if jobs can connect to the socket.
    secrets: BTreeMap<String, Secret>,
    directory: PathBuf,
    /// Where its outcome goes.
    outcome_directory: PathBuf,
    /// Set while this is the setup that runs before the job's command.
    setup: Option<SetupPlan>,
    /// How the setup before this ended.
    setup_outcome: Option<SetupOutcome>,
    supervisor: Supervisor,
    process: Option<JobProcess>,
    spool: Spool,
    captures: Vec<Capture>,
    /// Running programs that print the stacks of other processes.
    debuggers: BTreeSet<i32>,
    masker: Option<Masker>,
    /// True if the job runs as the keeper's user, so that examining it gives it no rights.
    may_attach_debugger: bool,
    /// Absent for an attempt with an empty standard input.
    stdin: Option<Stdin>,
    began: Now,
    started_at_ms: Option<i64>,
    ending: Option<Ending>,
    acted: Option<EndReason>,
    usage: Usage,
    leaked: Vec<Survivor>,
    is_blocked: bool,
    disk_full_since: Option<Duration>,
    disk_block: DiskBlock,
    retry_at: Option<Duration>,
    has_survivors: bool,
    outcome: Option<Outcome>,
    observe_at: Duration,
    /// When the record of the process must be written, if it is not.
    state_at: Option<Duration>,
    /// True if processes were observed that the record does not contain.
    has_new_processes: bool,
    /// True if there may be unreaped statuses.
    has_unread_statuses: bool,
    /// The last progress sent to the worker.
    sent_progress: Progress,
}

/// Progress of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Length of the log, chunk headers included.
    pub(super) log_length: u64,
    pub(super) is_ending: bool,
    /// True if the disk refuses its output.
    is_disk_blocked: bool,
}

struct JobProcess {
    /// Directory of its control group, if it has one of its own.
    group: Option<PathBuf>,
    pid: i32,
    /// Start time of the process, from the first record on.
    started: Option<u64>,
    tree: Tree,
}

impl RunningAttempt {
    /// Starts an attempt in the keeper's own directory, currently named `home`. A command that
    /// cannot be started is an attempt that ends immediately.
    ///
    /// # Errors
    /// Fails if the log cannot be created. Then there is no attempt.
    pub(super) fn start(run: &Run, home: &Path, adopts: bool, now: Now) -> io::Result<Self> {
        let directory = keeper_directory::relative_to(home, &run.attempt_directory);
        let Some(setup) = &run.setup else { return Self::start_in(directory, run, adopts, now) };
        let outcome_directory = directory.clone();
        let directory = directory.join(records::SETUP);
        fs::create_dir(&directory)?;
        let run = Run {
            argv: setup.argv.clone(),
            directory: setup.plan.directory.clone(),
            // Nothing sends this log on, so nothing could make room for more of it.
            output_policy: OutputPolicy::KeepEnds,
            log_bytes_max: Some(0),
            ..run.clone()
        };
        let mut started = Self::start_in(directory, &run, adopts, now)?;
        started.setup = Some(setup.plan.clone());
        started.outcome_directory = outcome_directory;
        Ok(started)
    }

    /// Starts the job's command after its setup, which has passed.
    ///
    /// # Errors
    /// As for [`RunningAttempt::start`].
    pub(super) fn start_after(setup: Self, run: &Run, home: &Path, adopts: bool) -> io::Result<Self> {
        let now = Now::read();
        let directory = keeper_directory::relative_to(home, &run.attempt_directory);
        let mut started = Self::start_in(directory, run, adopts, now)?;
        started.handle(now, setup.supervisor.contact(now));
        started.setup_outcome = setup.setup_outcome;
        Ok(started)
    }

    fn start_in(directory: PathBuf, run: &Run, adopts: bool, now: Now) -> io::Result<Self> {
        let attempt = run.lease.attempt;
        let spool = Spool::create(
            &directory.join(records::LOG),
            attempt,
            run.output_policy,
            LogLimits::default().with_log_limit(run.log_bytes_max),
        )?;
        let plan = Plan {
            timeout: run.timeout,
            idle_timeout: run.idle_timeout,
            grace: run.grace,
            cut_off_grace: run.cut_off_grace,
            cut_off_after: run.cut_off_after,
        };
        let mut supervisor = Supervisor::new(plan, now);
        supervisor.handle(now, Input::Contact { age: run.contact_age, cut_off_after: None });
        let mut started = Self {
            lease: run.lease,
            secrets: if run.jobs_reach_socket { BTreeMap::new() } else { run.secrets.clone() },
            outcome_directory: directory.clone(),
            directory,
            setup: None,
            setup_outcome: None,
            supervisor,
            process: None,
            spool,
            captures: Vec::new(),
            debuggers: BTreeSet::new(),
            masker: None,
            may_attach_debugger: run.jobs_reach_socket,
            stdin: None,
            began: now,
            started_at_ms: None,
            ending: None,
            acted: None,
            usage: Usage::default(),
            leaked: Vec::new(),
            is_blocked: false,
            disk_full_since: None,
            disk_block: DiskBlock::default(),
            retry_at: None,
            has_survivors: false,
            outcome: None,
            observe_at: now.running + OBSERVE_EVERY,
            state_at: None,
            has_new_processes: false,
            has_unread_statuses: false,
            sent_progress: Progress::default(),
        };
        // Read the clock before the spawn, so that all actions of the command are later, even if
        // this process is slow.
        let started_at_ms = wall_clock_ms();
        match spawn(run) {
            Ok(spawned) => started.on_spawned(run, spawned, started_at_ms, adopts, now),
            Err(failure) => {
                started.ending = Some(Ending::NotStarted(failure));
                started.handle(now, Input::NotStarted);
            }
        }
        Ok(started)
    }

    fn on_spawned(&mut self, run: &Run, spawned: Spawned, started_at_ms: i64, adopts: bool, now: Now) {
        let masker = Masker::new(run.secrets.values().map(|secret| secret.0.as_str()));
        self.captures = vec![
            Capture::new(Stream::Stdout, spawned.stdout, masker.clone()),
            Capture::new(Stream::Stderr, spawned.stderr, masker.clone()),
        ];
        self.masker = masker;
        self.stdin = spawned.stdin.map(Stdin::new);
        self.process = Some(JobProcess {
            group: run.group.as_ref().map(|group| group.directory.clone()),
            pid: spawned.pid,
            started: None,
            tree: Tree::of_child(run.lease.attempt, spawned.pid, adopts),
        });
        self.started_at_ms = Some(started_at_ms);
        // A guardian ends the tree of a dead keeper without the record.
        self.state_at = Some(if adopts { now.running + WRITE_STATE_AFTER } else { now.running });
        self.write_due_state(now);
        self.handle(now, Input::Started);
    }

    pub(super) fn id(&self) -> AttemptId {
        self.lease.attempt
    }

    /// When the job's command started.
    pub(super) fn started_at_ms(&self) -> Option<i64> {
        self.started_at_ms.filter(|_| !self.is_setup())
    }

    pub(super) fn is_setup(&self) -> bool {
        self.setup.is_some()
    }

    /// The length of the job's log. The output of a setup does not count.
    fn log_length(&self) -> u64 {
        if self.is_setup() { 0 } else { self.spool.length() }
    }

    pub(super) fn kept(&self, now: Now) -> HeldAttempt {
        HeldAttempt {
            lease: self.lease,
            log_length: self.log_length(),
            ending: self.supervisor.is_ending(),
            started_at_ms: self.started_at_ms(),
            held: self.held_output(now),
            stdin: self.stdin.as_ref().map(Stdin::window),
            secrets: self.secrets.clone(),
        }
    }

    pub(super) fn stdin(&self) -> Option<&Stdin> {
        self.stdin.as_ref()
    }

    pub(super) fn stdin_mut(&mut self) -> Option<&mut Stdin> {
        self.stdin.as_mut()
    }

    /// Returns the blocked output, while the disk refuses it.
    pub(super) fn held_output(&self, now: Now) -> Option<OutputHeld> {
        self.disk_block.current(now.running)
    }

    /// Returns progress that was not sent to the worker yet.
    pub(super) fn unsent_progress(&self) -> Option<Progress> {
        let progress = Progress {
            log_length: self.log_length(),
            is_ending: self.supervisor.is_ending(),
            is_disk_blocked: self.disk_block.is_blocked(),
        };
        (progress != self.sent_progress).then_some(progress)
    }

    pub(super) fn set_sent_progress(&mut self, progress: Progress) {
        self.sent_progress = progress;
    }

    /// Returns the pipes that should be read now.
    pub(super) fn captures(&self) -> impl Iterator<Item = &Capture> {
        self.captures.iter().filter(|capture| !capture.is_closed() && self.spool.wants_more())
    }

    /// Returns the time until the next deadline.
    pub(super) fn wake_in(&self, now: Now) -> Option<Duration> {
        let deadline = self.supervisor.next_deadline().until(now);
        let retry = self.retry_at.map(|at| at.saturating_sub(now.running));
        let observe = Some(self.observe_at.saturating_sub(now.running));
        let behind = self.has_unread_statuses.then_some(Duration::ZERO);
        let state = self.state_at.map(|at| at.saturating_sub(now.running));
        [deadline, retry, observe, behind, state].into_iter().flatten().min()
    }

    /// Handles an order of the worker.
    pub(super) fn handle(&mut self, now: Now, input: Input) {
        self.supervisor.handle(now, input);
        self.perform_effects(now);
    }

    /// Records the position that the coordinator has stored.
    pub(super) fn note_stored(&mut self, now: Now, position: u64) {
        if self.is_setup() {
            return;
        }
        self.spool.note_stored(position);
        self.note_blocking(now);
    }

    /// Returns true if its directory exists. A removed directory never comes back.
    pub(super) fn has_directory(&self) -> bool {
        !self.directory.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether it was a setup that passed, so that the job's command is next.
    pub(super) fn is_passed_setup(&self) -> bool {
        self.is_setup() && self.setup_outcome.as_ref().is_some_and(SetupOutcome::passed)
    }

    /// Returns true if no process of it runs any more.
    pub(super) fn is_done(&self) -> bool {
        self.supervisor.is_done()
    }

    /// Returns the remaining tree after the outcome is written, or `None` if no process is left.
    pub(super) fn into_survivors(self) -> Option<Tree> {
        self.process.filter(|_| self.has_survivors).map(|process| process.tree)
    }

    fn elapsed_ms(&self, now: Now) -> u32 {
        u32::try_from(now.running.saturating_sub(self.began.running).as_millis()).unwrap_or(u32::MAX)
    }
}

/// Bytes as text of at most [`SETUP_LOG_BYTES_MAX`] bytes: its end, because invalid UTF-8 makes it longer.
fn shorter_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let from = text.ceil_char_boundary(text.len().saturating_sub(SETUP_LOG_BYTES_MAX));
    text[from..].to_owned()
}

fn wall_clock_ms() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
