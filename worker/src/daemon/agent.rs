//! The agent: the only place with the daemon's state, and the events that change it.

use super::WorkerExit;
use super::attempt::Attempt;
use super::class_home;
use super::data_directory::DataDirectory;
use super::drain::DaemonPhase;
use super::early_grants::EarlyGrants;
use super::event::Event;
use super::files::Files;
use super::keepers::Keepers;
use super::shutdown::Shutdown;
use super::survivors::Survivors;
use super::undeletable;
use super::upgrading::Upgrading;
use crate::config::Config;
use crate::environment;
use crate::isolation::hidden::Hidden;
use crate::isolation::users::JobUser;
use crate::limits::{LAST_WORDS, REPORT_SETTLE, STALLED_AFTER, TIDY_EVERY};
use crate::link::outbox::Outbox;
use crate::platform;
use buildpool_protocol::ids::{AttemptId, BootId, Lease};
use buildpool_protocol::limits::REPORT_EVERY;
use buildpool_protocol::upgrade::UpgradeState;
use buildpool_protocol::worker_link::{Condition, FromWorker, Held, HeldState};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{error, warn};

/// The daemon's state.
pub(super) struct Agent {
    pub(super) config: Arc<Config>,
    pub(super) data_directory: Arc<DataDirectory>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) files: Files,
    pub(super) keepers: Keepers,
    pub(super) attempts: BTreeMap<AttemptId, Attempt>,
    pub(super) early_grants: EarlyGrants,
    pub(super) boot: BootId,
    /// Starts of the daemon that have certainly ended.
    pub(super) ended_boots: Vec<BootId>,
    pub(super) environment: BTreeMap<String, String>,
    /// The program that isolates jobs.
    pub(super) sandbox: PathBuf,
    /// Paths hidden from jobs. They must stay at their place.
    pub(super) hidden: Hidden,
    /// Users that jobs run as, each for one job at a time. Empty if jobs run as the worker's user.
    pub(super) users: Arc<[JobUser]>,
    pub(super) work: JoinSet<Event>,
    pub(super) link: Option<Link>,
    /// Time of the last message that the coordinator answered, by the continuous clock.
    pub(super) contact_at: Option<Duration>,
    pub(super) report_every: Duration,
    /// Value from the coordinator. `None` while this daemon is not registered.
    pub(super) lost_after: Option<Duration>,
    pub(super) is_tidying: bool,
    pub(super) tidied_at: Option<Instant>,
    pub(super) phase: DaemonPhase,
    /// Time when the attempts end, during a drain with a deadline.
    pub(super) drain_at: Option<Instant>,
    /// Processes that could not be ended.
    pub(super) survivors: Survivors,
    /// Reason why an attempt could not be prepared, and the time of the next check.
    pub(super) shortage: Option<(String, Instant)>,
    /// Time of the next check for low disk space.
    pub(super) disk_check_at: Instant,
    pub(super) last_end_at: Instant,
    pub(super) upgrade: Upgrading,
    /// True after the registration of a program in its trial.
    pub(super) has_passed_trial: bool,
}

/// An open connection.
pub(super) struct Link {
    pub(super) control: mpsc::Sender<FromWorker>,
    pub(super) is_registered: bool,
    /// True if the coordinator cannot register the worker now but answers its reports. This counts
    /// as contact, and the worker sends reports.
    pub(super) has_contact: bool,
    /// Times of the messages without an answer, by the continuous clock.
    pub(super) request_times: VecDeque<Duration>,
    pub(super) report_at: Instant,
    /// Time of an early report after a change.
    pub(super) settle_at: Option<Instant>,
    pub(super) reported: ReportedState,
    /// True after a declined grant: the coordinator grants nothing more until a report. The next change
    /// is reported even if the facts are those of the last report again.
    pub(super) must_report: bool,
    /// Position of each log, and the time when it last advanced.
    pub(super) log_progress: BTreeMap<AttemptId, (u64, Instant)>,
}

/// The reported facts. A difference triggers a report.
#[derive(PartialEq, Eq)]
pub(super) struct ReportedState {
    states: Vec<(Lease, HeldState, Option<i64>)>,
    is_draining: bool,
    quarantine: Option<String>,
    upgrade: Option<UpgradeState>,
}

impl Agent {
    pub(super) fn new(
        config: Config,
        data_directory: DataDirectory,
        outbox: Arc<Outbox>,
        files: Files,
        users: Vec<JobUser>,
        hidden: Hidden,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let keepers = Keepers::new(config.keeper_command.clone(), events);
        Self {
            environment: environment::of_worker(&config.env),
            // The configuration check has verified that it exists. An empty path would start
            // nothing.
            sandbox: config.isolation.program(std::env::var_os("PATH").as_deref()).unwrap_or_default(),
            users: users.into(),
            survivors: Survivors::open(data_directory.path()),
            upgrade: Self::upgrade_before(&config, &data_directory.worker.to_string()),
            has_passed_trial: false,
            // A program in its trial takes no jobs.
            phase: if config.trial.is_some() { DaemonPhase::Draining } else { DaemonPhase::Accepting },
            hidden,
            config: Arc::new(config),
            data_directory: Arc::new(data_directory),
            outbox,
            files,
            keepers,
            attempts: BTreeMap::new(),
            early_grants: EarlyGrants::default(),
            boot: BootId::from_uuid(uuid::Uuid::now_v7()),
            ended_boots: Vec::new(),
            work: JoinSet::new(),
            link: None,
            contact_at: None,
            report_every: REPORT_EVERY,
            lost_after: None,
            is_tidying: false,
            tidied_at: None,
            drain_at: None,
            shortage: None,
            disk_check_at: Instant::now(),
            last_end_at: Instant::now(),
        }
    }

    /// Runs until shutdown is requested and all work is done, or another program should run.
    pub(super) async fn run(
        mut self,
        mut events: mpsc::Receiver<Event>,
        mut shutdown: Shutdown,
    ) -> WorkerExit {
        while !self.can_exit() && !self.has_passed_trial && !self.is_ready_for_upgrade() {
            let wake_at = self.wake_at();
            tokio::select! {
                Some(event) = events.recv() => self.on_event(event),
                Some(done) = self.work.join_next() => match done {
                    Ok(event) => self.on_event(event),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => error!("work on the disk failed: {error}"),
                },
                request = shutdown.next_request() => self.on_shutdown_request(request),
                () = sleep_until(wake_at) => {}
            }
            self.run_due_tasks();
        }
        if self.has_passed_trial {
            return WorkerExit::Registered;
        }
        // Work on the disk uses the data directory, which the next program locks.
        while self.is_ready_for_upgrade() && !self.phase.is_shutdown() {
            tokio::select! {
                done = self.work.join_next() => if done.is_none() { break },
                request = shutdown.next_request() => self.on_shutdown_request(request),
            }
        }
        match self.upgrade {
            Upgrading::Ready(staged) if !self.phase.is_shutdown() => WorkerExit::Replace(staged),
            _ => WorkerExit::Shutdown,
        }
    }

    pub(super) fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected(control) => self.register(control),
            Event::Incoming(message) => self.handle_message(message),
            Event::Stdin { position, content } => self.on_stdin(position, &content),
            Event::Disconnected => {
                self.link = None;
                // The coordinator grants them again to the next connection.
                self.early_grants.clear();
            }
            Event::Keeper { link, message } => self.on_keeper(link, message),
            Event::KeeperGone { link } => self.on_keeper_gone(link),
            Event::Prepared { attempt, result } => self.on_prepared(attempt, result),
            Event::OutcomeBuilt { attempt, outcome } => self.on_outcome(attempt, outcome),
            Event::Measured { attempt, bytes, took } => self.on_measured(attempt, bytes, took),
            Event::Staged { id, result } => self.on_staged(id, result),
            Event::Deleted => {}
            Event::Tidied => {
                self.is_tidying = false;
                self.recheck_shortage();
            }
        }
    }

    pub(super) fn held(&self) -> Vec<Held> {
        self.attempts.values().map(Attempt::held).collect()
    }

    pub(super) fn condition(&self) -> Condition {
        let room = platform::disk_room(self.data_directory.path()).ok();
        Condition {
            draining: !self.phase.accepts_jobs(),
            quarantined: self.quarantine(),
            disk_free_bytes: room.as_ref().map(|room| room.free),
            disk_total_bytes: room.as_ref().map(|room| room.total),
            warm_projects: self.files.workspaces.warm_projects(),
            stdin: true,
            early_grants: EarlyGrants::limit(self.config.slots),
            upgrade_target: self.config.upgrades.then(platform::release_target),
            upgrade: self.upgrade_state(),
        }
    }

    /// Returns the reason why the worker accepts no jobs, if there is one.
    pub(super) fn quarantine(&self) -> Option<String> {
        let shortage =
            self.shortage.as_ref().map(|(reason, _)| format!("it could not lay out a job: {reason}"));
        self.survivors.reason().or(shortage).or_else(|| self.hidden.check().err())
    }

    pub(super) fn report_soon(&mut self) {
        if let Some(link) = &mut self.link {
            link.settle_at.get_or_insert_with(|| Instant::now() + REPORT_SETTLE);
        }
    }

    pub(super) fn wake_at(&self) -> Instant {
        let mut wake_at = Instant::now() + self.report_every;
        let link = self.link.iter().flat_map(|link| [Some(link.report_at), link.settle_at]);
        let leave = self.phase.is_shutdown().then(|| Instant::now() + LAST_WORDS / 10);
        let shortage = self.shortage.as_ref().map(|(_, check_at)| *check_at);
        for at in link
            .chain([self.drain_at, leave, shortage, Some(self.disk_check_at), self.early_grants.deadline()])
            .flatten()
        {
            wake_at = wake_at.min(at);
        }
        wake_at
    }

    pub(super) fn run_due_tasks(&mut self) {
        let now = Instant::now();
        self.start_early_grants(now);
        if self.drain_at.is_some_and(|at| now >= at) {
            self.drain_at = None;
            self.end_all();
        }
        self.check_shortage_over(now);
        self.check_disk_space(now);
        self.check_job_disks(now);
        let Some(link) = &self.link else { return };
        if now >= link.report_at {
            self.survivors.remove_ended();
            self.outbox.retry_unreadable();
            self.resend_stalled_logs(now);
            self.report();
        } else if link.settle_at.is_some_and(|at| now >= at) {
            let state = self.reportable_state();
            if self.link.as_ref().is_some_and(|link| link.must_report || link.reported != state) {
                self.report();
            } else if let Some(link) = &mut self.link {
                link.settle_at = None;
            }
        }
    }

    /// Cleans up workspaces periodically, in the background.
    pub(super) fn tidy(&mut self) {
        let is_recent = self.tidied_at.is_some_and(|at| at.elapsed() < TIDY_EVERY);
        if self.is_tidying || is_recent {
            return;
        }
        (self.is_tidying, self.tidied_at) = (true, Some(Instant::now()));
        let (files, data_directory) = (self.files.clone(), Arc::clone(&self.data_directory));
        let held = self.attempts.values().map(|attempt| attempt.spec.access.class.clone()).collect();
        self.work.spawn_blocking(move || {
            undeletable::clear(data_directory.path());
            class_home::remove_idle(data_directory.path(), &held, SystemTime::now());
            files.collect_space();
            Event::Tidied
        });
    }

    /// Returns the facts of a report. Ended attempts are left out, because `complete` reports them.
    pub(super) fn reportable_state(&self) -> ReportedState {
        let live = self.attempts.iter().filter(|(id, _)| !self.outbox.is_complete(**id));
        ReportedState {
            states: live
                .map(|(_, attempt)| (attempt.lease, attempt.state(), attempt.started_at_ms))
                .collect(),
            is_draining: !self.phase.accepts_jobs(),
            quarantine: self.quarantine(),
            upgrade: self.upgrade_state(),
        }
    }

    fn report(&mut self) {
        let Some(link) = &mut self.link else { return };
        if !link.is_registered && !link.has_contact {
            // There is nothing to report yet.
            link.report_at = Instant::now() + self.report_every;
            link.settle_at = None;
            return;
        }
        self.send_request(FromWorker::Report { held: self.held(), condition: self.condition() });
        self.request_stdin(false);
        let reported = self.reportable_state();
        if let Some(link) = &mut self.link {
            link.reported = reported;
            link.must_report = false;
            link.settle_at = None;
            link.report_at = Instant::now() + self.report_every;
        }
    }

    fn resend_stalled_logs(&mut self, now: Instant) {
        let Some(link) = &mut self.link else { return };
        let open: BTreeMap<_, _> = self.outbox.in_flight().into_iter().collect();
        link.log_progress.retain(|attempt, _| open.contains_key(attempt));
        for (attempt, stored) in open {
            let last_progress = link.log_progress.entry(attempt).or_insert((stored, now));
            if last_progress.0 != stored {
                *last_progress = (stored, now);
            } else if now >= last_progress.1 + STALLED_AFTER {
                warn!(job = %attempt.job, attempt = attempt.number, "nothing of a log was taken for a while; it is sent again");
                *last_progress = (stored, now);
                self.outbox.start_sending(attempt, stored);
            }
        }
    }
}
