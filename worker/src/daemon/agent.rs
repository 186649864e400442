//! The one place where the daemon's state is, and the events that change it.

use super::account;
use super::attempt::{Attempt, Stage};
use super::event::Event;
use super::home::Home;
use super::keepers::{KeeperLink, Keepers, Work};
use super::lease::cut_off;
use super::shutdown::{Shutdown, Wish};
use crate::config::Config;
use crate::environment;
use crate::keeper::messages::{FromKeeper, Kept, Run, ToKeeper};
use crate::limits::{LAST_WORDS, REPORT_SETTLE, STALLED_AFTER};
use crate::link::outbox::Outbox;
use crate::platform::{self, Now};
use crate::records::{self, AttemptRecord, Durability};
use crate::workspace::{self, Prepared};
use buildpool_protocol::ids::{AttemptId, BootId, Lease};
use buildpool_protocol::limits::{GRACE, LOST_AFTER, REPORT_EVERY};
use buildpool_protocol::outcome::{Acted, Outcome, StartFailure};
use buildpool_protocol::report::Survivor;
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{
    Condition, Desired, FromWorker, Grant, Held, HeldState, Register, ToWorker,
};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

/// The daemon's state.
pub(super) struct Agent {
    config: Arc<Config>,
    pub(super) home: Arc<Home>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) keepers: Keepers,
    pub(super) attempts: BTreeMap<AttemptId, Attempt>,
    boot: BootId,
    environment: BTreeMap<String, String>,
    work: JoinSet<Event>,
    link: Option<Link>,
    /// When the message was sent that the coordinator answered last, by the continuous clock.
    contact_at: Option<Duration>,
    report_every: Duration,
    lost_after: Duration,
    is_draining: bool,
    drain_at: Option<Instant>,
    /// Processes that could not be ended, with their starts.
    survivors: Vec<(Survivor, u64)>,
    leave_at: Option<Instant>,
    must_leave: bool,
}

/// An open connection.
struct Link {
    control: mpsc::Sender<FromWorker>,
    is_registered: bool,
    /// When messages were sent that await an answer, by the continuous clock.
    asked_at: VecDeque<Duration>,
    report_at: Instant,
    /// Something has changed: report earlier.
    settle_at: Option<Instant>,
    reported: Vec<(Lease, HeldState)>,
    /// What each log was at when it last moved.
    moved: BTreeMap<AttemptId, (u64, Instant)>,
}

impl Agent {
    pub(super) fn new(config: Config, home: Home, outbox: Arc<Outbox>, events: mpsc::Sender<Event>) -> Self {
        let keepers = Keepers::new(config.keeper_command.clone(), events);
        Self {
            environment: environment::of_worker(&config.env),
            config: Arc::new(config),
            home: Arc::new(home),
            outbox,
            keepers,
            attempts: BTreeMap::new(),
            boot: BootId::from_uuid(uuid::Uuid::now_v7()),
            work: JoinSet::new(),
            link: None,
            contact_at: None,
            report_every: REPORT_EVERY,
            lost_after: LOST_AFTER,
            is_draining: false,
            drain_at: None,
            survivors: Vec::new(),
            leave_at: None,
            must_leave: false,
        }
    }

    /// Serves until it is asked to end and nothing is left to wait for.
    pub(super) async fn run(mut self, mut events: mpsc::Receiver<Event>, mut shutdown: Shutdown) {
        while !self.is_over() {
            let wake_at = self.wake_at();
            tokio::select! {
                Some(event) = events.recv() => self.on_event(event),
                Some(done) = self.work.join_next() => match done {
                    Ok(event) => self.on_event(event),
                    Err(error) => error!("work on the disk failed: {error}"),
                },
                wish = shutdown.wish() => self.on_wish(wish),
                () = sleep_until(wake_at) => {}
            }
            self.on_time();
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected(control) => self.register(control),
            Event::Incoming(message) => self.obey(message),
            Event::Disconnected => self.link = None,
            Event::Keeper { link, message } => self.on_keeper(link, message),
            Event::KeeperGone { link } => self.on_keeper_gone(link),
            Event::Prepared { attempt, result } => self.on_prepared(attempt, result),
            Event::Concluded { attempt, outcome } => self.on_concluded(attempt, outcome),
            Event::Deleted => {}
        }
    }

    // ---- the coordinator

    fn register(&mut self, control: mpsc::Sender<FromWorker>) {
        let register = Register {
            protocol: VersionRange::ours(),
            worker: self.home.worker,
            boot: self.boot,
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            slots: self.config.slots,
            labels: self.config.all_labels(),
            resources: self.config.resources.clone(),
            held: self.held(),
            condition: self.condition(),
        };
        self.link = Some(Link {
            control,
            is_registered: false,
            asked_at: VecDeque::new(),
            report_at: Instant::now() + self.report_every,
            settle_at: None,
            reported: Vec::new(),
            moved: BTreeMap::new(),
        });
        self.ask(FromWorker::Register(Box::new(register)));
    }

    /// Says what will be answered, and notes when.
    fn ask(&mut self, message: FromWorker) {
        let now = Now::read().continuous;
        if let Some(link) = &mut self.link {
            // A queue that is full is that of a link that does not move, and state is repeated.
            if link.control.try_send(message).is_ok() {
                link.asked_at.push_back(now);
            }
        }
    }

    fn say(&self, message: FromWorker) {
        if let Some(link) = &self.link {
            let _ = link.control.try_send(message);
        }
    }

    fn obey(&mut self, message: ToWorker) {
        match message {
            ToWorker::Registered { report_every, lost_after, desired, .. } => {
                info!("registered as `{}`", self.config.name);
                self.report_every = report_every.max(REPORT_SETTLE);
                self.lost_after = lost_after;
                if let Some(link) = &mut self.link {
                    link.is_registered = true;
                    link.report_at = Instant::now() + self.report_every;
                }
                self.answered();
                for desired in desired {
                    self.want(desired, true);
                }
            }
            ToWorker::Desired { desired } => {
                self.answered();
                for desired in desired {
                    self.want(desired, false);
                }
            }
            ToWorker::Act(desired) => self.want(desired, false),
            ToWorker::Grant(grant) => self.on_grant(*grant),
            ToWorker::Position { lease, position } => self.on_position(lease, position),
            ToWorker::Drain { draining, deadline } => self.drain(draining, deadline),
            // Both were told of where the connection is served.
            ToWorker::Refused { .. } | ToWorker::Transfer(_) => {}
        }
    }

    fn answered(&mut self) {
        let Some(asked_at) = self.link.as_mut().and_then(|link| link.asked_at.pop_front()) else { return };
        self.contact_at = Some(asked_at);
        let age = Now::read().continuous.saturating_sub(asked_at);
        for keeper in self.keepers.busy().collect::<Vec<_>>() {
            // A keeper that cannot be told is one whose end is about to be noticed.
            let _ = self.keepers.say(keeper, &ToKeeper::Contact { age });
        }
    }

    fn want(&mut self, desired: Desired, is_first: bool) {
        let lease = desired.lease();
        let Some(attempt) = self.attempts.get_mut(&lease.attempt).filter(|held| held.lease == lease) else {
            return;
        };
        match desired {
            Desired::Continue { position, .. } if is_first => self.outbox.begin(lease.attempt, position),
            Desired::Continue { position, .. } => {
                self.on_taken(lease.attempt, position);
            }
            Desired::Cancel { by, reason, .. } => self.act(lease.attempt, Acted::Cancelled { by, reason }),
            Desired::Fenced { .. } => {
                attempt.is_fenced = true;
                self.fence(lease.attempt);
            }
            Desired::Forget { .. } => {
                attempt.is_fenced = true;
                self.fence(lease.attempt);
            }
        }
    }

    fn on_grant(&mut self, grant: Grant) {
        let lease = grant.lease;
        if let Some(held) = self.attempts.get(&lease.attempt) {
            if held.lease != lease {
                self.decline(lease, "this worker holds the attempt by another lease");
            }
            return;
        }
        let live = self.attempts.values().filter(|attempt| attempt.is_live()).count();
        if self.is_draining {
            return self.decline(lease, "the worker is draining");
        }
        if !self.survivors.is_empty() {
            return self.decline(lease, "the worker has processes that it could not end");
        }
        if live >= self.config.slots as usize {
            return self.decline(lease, "the worker has no free slot");
        }
        self.outbox.add(lease.attempt, self.home.attempt(lease.attempt).join(records::LOG), 0);
        self.outbox.begin(lease.attempt, 0);
        let stage = Stage::Preparing { secrets: grant.secrets.clone() };
        self.attempts.insert(lease.attempt, Attempt::new(lease, grant.spec.clone(), stage));
        self.changed();
        let home = Arc::clone(&self.home);
        self.work.spawn_blocking(move || Event::Prepared {
            attempt: lease.attempt,
            result: prepare(&home, &grant),
        });
    }

    fn decline(&self, lease: Lease, reason: &str) {
        self.say(FromWorker::Decline { lease, reason: reason.to_owned() });
    }

    /// Anything that does not go beyond what the coordinator had asks for it again.
    fn on_position(&mut self, lease: Lease, position: u64) {
        if self.attempts.get(&lease.attempt).is_none_or(|held| held.lease != lease) {
            return;
        }
        if self.on_taken(lease.attempt, position).is_some_and(|before| position <= before) {
            self.outbox.begin(lease.attempt, position);
        }
    }

    fn on_taken(&mut self, attempt: AttemptId, position: u64) -> Option<u64> {
        let before = self.outbox.taken(attempt, position)?;
        if position > before
            && let Some(keeper) = self.keepers.of_attempt(attempt)
        {
            // The next position makes up for one that a keeper was not told.
            let _ = self.keepers.say(keeper, &ToKeeper::Taken { attempt, position });
        }
        Some(before)
    }

    // ---- ending

    fn act(&mut self, id: AttemptId, acted: Acted) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let acted = attempt.act.get_or_insert(acted).clone();
        match &attempt.stage {
            Stage::Kept { keeper: Some(keeper), .. } => {
                // Repeated with the coordinator's next answer.
                let _ = self.keepers.say(*keeper, &ToKeeper::Act { attempt: id, acted });
            }
            Stage::Waiting { .. } => {
                self.never_start(
                    id,
                    StartFailure::Workspace { reason: "it was ended before it started".into() },
                );
            }
            // Noticed when the files are laid out, when the keeper says hello, or too late.
            Stage::Preparing { .. } | Stage::Kept { keeper: None, .. } | Stage::Concluding | Stage::Ended => {
            }
        }
    }

    fn fence(&mut self, id: AttemptId) {
        self.outbox.remove(id);
        match self.attempts.get(&id).map(|attempt| &attempt.stage) {
            Some(Stage::Ended) => self.delete(id),
            Some(_) => {
                if let Some(attempt) = self.attempts.get_mut(&id) {
                    attempt.act = None;
                }
                self.act(id, Acted::Fenced);
            }
            None => {}
        }
    }

    fn delete(&mut self, id: AttemptId) {
        self.attempts.remove(&id);
        self.outbox.remove(id);
        let directory = self.home.attempt(id);
        self.work.spawn_blocking(move || {
            if let Err(error) = fs::remove_dir_all(&directory) {
                warn!("{} can't be removed: {error}", directory.display());
            }
            Event::Deleted
        });
    }

    fn drain(&mut self, draining: bool, deadline: Option<Duration>) {
        self.is_draining = draining;
        self.drain_at = deadline.filter(|_| draining).map(|deadline| Instant::now() + deadline);
        self.changed();
    }

    fn on_wish(&mut self, wish: Wish) {
        match wish {
            Wish::Stay => {}
            Wish::Drain => {
                info!("draining");
                self.drain(true, self.config.drain_deadline);
                self.leave_at = Some(Instant::now());
            }
            Wish::Hurry => {
                self.drain(true, Some(Duration::ZERO));
                self.leave_at = Some(Instant::now());
            }
            Wish::Leave => self.must_leave = true,
        }
    }

    fn end_all(&mut self) {
        let live: Vec<_> =
            self.attempts.iter().filter(|(_, held)| held.is_live()).map(|(id, _)| *id).collect();
        for id in live {
            let is_known = self.attempts.get(&id).is_some_and(|held| held.act.is_some());
            self.act(id, Acted::Drained);
            if is_known && let Some(keeper) = self.keepers.of_attempt(id) {
                let _ = self.keepers.say(keeper, &ToKeeper::Hurry { attempt: id });
            }
        }
    }

    /// Nothing more is to be waited for: no attempt lives, and all ends are recorded or nobody is there to hear them.
    fn is_over(&self) -> bool {
        if self.must_leave {
            return true;
        }
        let Some(since) = self.leave_at else { return false };
        if self.attempts.values().any(|attempt| !matches!(attempt.stage, Stage::Ended)) {
            return false;
        }
        self.attempts.is_empty() || self.link.is_none() || Instant::now() >= since + LAST_WORDS
    }

    // ---- keepers

    fn on_prepared(&mut self, id: AttemptId, result: Result<Prepared, StartFailure>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Stage::Preparing { secrets } = &mut attempt.stage else { return };
        let secrets = std::mem::take(secrets);
        match result {
            Err(failure) => self.never_start(id, failure),
            Ok(_) if attempt.act.is_some() => {
                self.never_start(
                    id,
                    StartFailure::Workspace { reason: "it was ended before it started".into() },
                );
            }
            Ok(prepared) => {
                let grace = attempt.spec.grace.unwrap_or(GRACE);
                let (cut_off_after, cut_off_grace) = cut_off(self.lost_after, attempt.spec.on_lost, grace);
                let now = Now::read().continuous;
                let run = Run {
                    lease: attempt.lease,
                    attempt_directory: self.home.attempt(id),
                    argv: attempt.spec.command.argv(),
                    directory: prepared.directory,
                    environment: environment::of_attempt(&attempt.spec, id, &self.environment),
                    secrets,
                    timeout: attempt.spec.timeout,
                    idle_timeout: attempt.spec.idle_timeout,
                    grace,
                    cut_off_after,
                    cut_off_grace,
                    contact_age: self.contact_at.map_or(Duration::ZERO, |at| now.saturating_sub(at)),
                    output_policy: attempt.spec.output_policy,
                    core_bytes_max: self.config.core_bytes_max,
                };
                attempt.spec.env.clear();
                attempt.stage = Stage::Waiting { run: Box::new(run) };
                self.give_work();
            }
        }
    }

    /// Gives waiting attempts to idle keepers, and sees that one is idle as long as a slot is.
    fn give_work(&mut self) {
        let waiting: Vec<_> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| matches!(attempt.stage, Stage::Waiting { .. }))
            .map(|(id, _)| *id)
            .collect();
        let mut left = waiting.len();
        for id in waiting {
            let Some(keeper) = self.keepers.idle() else { break };
            let Some(attempt) = self.attempts.get_mut(&id) else { continue };
            let stage = Stage::Kept { keeper: Some(keeper), is_ending: false };
            let Stage::Waiting { run } = std::mem::replace(&mut attempt.stage, stage) else { continue };
            left -= 1;
            self.keepers.set_work(keeper, Work::Keeps(id));
            if let Err(error) = self.keepers.say(keeper, &ToKeeper::Run(run)) {
                self.never_start(
                    id,
                    StartFailure::Resources { reason: format!("no keeper took it: {error}") },
                );
            }
        }
        let live = self.attempts.values().filter(|attempt| attempt.is_live()).count();
        let is_slot_free = live < self.config.slots as usize;
        let wanted = left + usize::from(is_slot_free && !self.is_draining);
        for _ in self.keepers.count_available()..wanted {
            if let Err(error) = self.keepers.start(&self.home) {
                return self.no_keeper(&error.to_string());
            }
        }
    }

    fn no_keeper(&mut self, reason: &str) {
        error!("no keeper can be started: {reason}");
        let waiting: Vec<_> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| matches!(attempt.stage, Stage::Waiting { .. }))
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let reason = format!("no keeper can be started: {reason}");
            self.never_start(id, StartFailure::Resources { reason });
        }
    }

    fn on_keeper(&mut self, link: KeeperLink, message: FromKeeper) {
        match message {
            FromKeeper::Hello { kept, .. } => self.on_hello(link, kept),
            FromKeeper::Started { attempt, started_at_ms } => {
                if let Some(attempt) = self.attempts.get_mut(&attempt) {
                    attempt.started_at_ms = Some(started_at_ms);
                }
                self.changed();
            }
            FromKeeper::Progress { attempt, log_length, ending } => {
                self.outbox.written(attempt, log_length);
                let Some(held) = self.attempts.get_mut(&attempt) else { return };
                held.log_length = held.log_length.max(log_length);
                if let Stage::Kept { is_ending, .. } = &mut held.stage
                    && *is_ending != ending
                {
                    *is_ending = ending;
                    self.changed();
                }
            }
            FromKeeper::Ended { attempt } => {
                self.keepers.set_work(link, Work::Idle);
                self.conclude(attempt);
                self.give_work();
            }
            FromKeeper::Refused { attempt, reason } => {
                self.keepers.set_work(link, Work::Idle);
                self.never_start(attempt, StartFailure::Resources { reason });
            }
        }
    }

    fn on_hello(&mut self, link: KeeperLink, kept: Option<Kept>) {
        let Some(kept) = kept else {
            self.keepers.set_work(link, Work::Idle);
            self.settle_unclaimed();
            return self.give_work();
        };
        let id = kept.lease.attempt;
        self.keepers.set_work(link, Work::Keeps(id));
        let now = Now::read().continuous;
        if let Some(attempt) = self.attempts.get_mut(&id).filter(|attempt| attempt.lease == kept.lease) {
            attempt.stage = Stage::Kept { keeper: Some(link), is_ending: kept.ending };
            attempt.started_at_ms = kept.started_at_ms;
            attempt.log_length = kept.log_length;
            self.outbox.written(id, kept.log_length);
            info!("attempt {id} goes on");
            if let Some(acted) = attempt.act.clone() {
                let _ = self.keepers.say(link, &ToKeeper::Act { attempt: id, acted });
            }
            if let Some(at) = self.contact_at {
                let _ = self.keepers.say(link, &ToKeeper::Contact { age: now.saturating_sub(at) });
            }
        } else {
            // Its directory is not one of ours: nobody could ever hear of it.
            let _ = self.keepers.say(link, &ToKeeper::Act { attempt: id, acted: Acted::Fenced });
        }
        self.settle_unclaimed();
        self.changed();
    }

    fn on_keeper_gone(&mut self, link: KeeperLink) {
        let Some((number, work, is_found)) = self.keepers.remove(link) else { return };
        // What can't be looked at is taken to live, and looked at again.
        let is_alive = self.home.places.is_alive(number).unwrap_or(true);
        match work {
            Work::Keeps(id) if is_alive => {
                if let Some(Attempt { stage: Stage::Kept { keeper, .. }, .. }) = self.attempts.get_mut(&id) {
                    *keeper = None;
                }
                self.keepers.reconnect(&self.home, number);
            }
            Work::Keeps(id) => {
                warn!("the keeper of attempt {id} has died");
                self.conclude(id);
            }
            Work::Silent if is_found && is_alive => self.keepers.reconnect(&self.home, number),
            Work::Silent if !is_found => {
                let reason =
                    format!("a keeper ended before it said hello; see {}", self.home.keeper_log().display());
                self.no_keeper(&reason);
            }
            Work::Silent | Work::Idle => {}
        }
        self.settle_unclaimed();
    }

    // ---- the end of an attempt

    fn never_start(&mut self, id: AttemptId, failure: StartFailure) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.stage = Stage::Concluding;
        let acted = attempt.act.clone();
        let home = Arc::clone(&self.home);
        self.work.spawn_blocking(move || Event::Concluded {
            attempt: id,
            outcome: account::of_unstarted(&home, id, failure, acted).map(Box::new),
        });
        self.changed();
    }

    /// Puts together what is known of the end.
    pub(super) fn conclude(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.stage = Stage::Concluding;
        let home = Arc::clone(&self.home);
        self.work.spawn_blocking(move || Event::Concluded {
            attempt: id,
            outcome: account::of_dead_keeper(&home, id).map(Box::new),
        });
        self.changed();
    }

    fn on_concluded(&mut self, id: AttemptId, outcome: io::Result<Box<Outcome>>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                error!("attempt {id}: its outcome can't be read or written: {error}");
                let home = Arc::clone(&self.home);
                self.work.spawn_blocking(move || {
                    std::thread::sleep(crate::limits::DISK_FULL_RETRY);
                    let outcome = account::of_dead_keeper(&home, id).map(Box::new);
                    Event::Concluded { attempt: id, outcome }
                });
                return;
            }
        };
        attempt.stage = Stage::Ended;
        attempt.started_at_ms = outcome.started_at_ms;
        attempt.log_length = outcome.log_length;
        let (lease, is_fenced) = (attempt.lease, attempt.is_fenced);
        for survivor in &outcome.survivors {
            warn!("process {} ({}) of attempt {id} could not be ended", survivor.pid, survivor.command);
            if let Some(process) = platform::process(survivor.pid) {
                self.survivors.push((survivor.clone(), process.started));
            }
        }
        if is_fenced {
            self.delete(id);
        } else {
            let log_length = outcome.log_length;
            self.outbox.complete(id, log_length, FromWorker::Complete { lease, outcome });
        }
        self.give_work();
        self.changed();
    }

    // ---- time

    fn held(&self) -> Vec<Held> {
        self.attempts.values().map(Attempt::held).collect()
    }

    fn condition(&self) -> Condition {
        let quarantined = (!self.survivors.is_empty()).then(|| {
            let names: Vec<_> = self
                .survivors
                .iter()
                .map(|(survivor, _)| format!("{} ({})", survivor.pid, survivor.command))
                .collect();
            format!("processes that could not be ended: {}", names.join(", "))
        });
        Condition {
            draining: self.is_draining,
            quarantined,
            disk_free_bytes: platform::disk_free_bytes(self.home.directory()),
            warm_projects: Vec::new(),
        }
    }

    pub(super) fn changed(&mut self) {
        if let Some(link) = &mut self.link {
            link.settle_at.get_or_insert_with(|| Instant::now() + REPORT_SETTLE);
        }
    }

    fn wake_at(&self) -> Instant {
        let mut wake_at = Instant::now() + self.report_every;
        let link = self.link.iter().flat_map(|link| [Some(link.report_at), link.settle_at]);
        let leave = self.leave_at.map(|_| Instant::now() + LAST_WORDS / 10);
        for at in link.chain([self.drain_at, leave]).flatten() {
            wake_at = wake_at.min(at);
        }
        wake_at
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        if self.drain_at.is_some_and(|at| now >= at) {
            self.drain_at = None;
            self.end_all();
        }
        let Some(link) = &self.link else { return };
        if now >= link.report_at {
            self.survivors.retain(|(survivor, started)| {
                platform::process(survivor.pid)
                    .is_some_and(|process| process.started == *started && !process.zombie)
            });
            self.send_again_what_stalled(now);
            self.report();
        } else if link.settle_at.is_some_and(|at| now >= at) {
            let states = self.states_worth_telling();
            if self.link.as_ref().is_some_and(|link| link.reported != states) {
                self.report();
            } else if let Some(link) = &mut self.link {
                link.settle_at = None;
            }
        }
    }

    /// Attempts whose end is said by `complete` are left out: they need no report.
    fn states_worth_telling(&self) -> Vec<(Lease, HeldState)> {
        let told = self.attempts.iter().filter(|(id, _)| !self.outbox.is_complete(**id));
        told.map(|(_, attempt)| (attempt.lease, attempt.state())).collect()
    }

    fn report(&mut self) {
        if !self.link.as_ref().is_some_and(|link| link.is_registered) {
            return;
        }
        self.ask(FromWorker::Report { held: self.held(), condition: self.condition() });
        let reported = self.states_worth_telling();
        if let Some(link) = &mut self.link {
            link.reported = reported;
            link.settle_at = None;
            link.report_at = Instant::now() + self.report_every;
        }
    }

    fn send_again_what_stalled(&mut self, now: Instant) {
        let Some(link) = &mut self.link else { return };
        let open: BTreeMap<_, _> = self.outbox.on_the_way().into_iter().collect();
        link.moved.retain(|attempt, _| open.contains_key(attempt));
        for (attempt, taken) in open {
            let moved = link.moved.entry(attempt).or_insert((taken, now));
            if moved.0 != taken {
                *moved = (taken, now);
            } else if now >= moved.1 + STALLED_AFTER {
                warn!("nothing of the log of attempt {attempt} was taken for a while; it is sent again");
                *moved = (taken, now);
                self.outbox.begin(attempt, taken);
            }
        }
    }
}

/// Lays out an attempt on the disk. Blocking.
fn prepare(home: &Home, grant: &Grant) -> Result<Prepared, StartFailure> {
    let failed = |error: io::Error| StartFailure::Workspace { reason: error.to_string() };
    let directory = home.attempt(grant.lease.attempt);
    match fs::create_dir(&directory) {
        // Left by a daemon that died here, before anyone was asked to run it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir_all(&directory).and_then(|()| fs::create_dir(&directory)).map_err(failed)?;
        }
        other => other.map_err(failed)?,
    }
    let prepared = workspace::prepare(grant, &directory)?;
    let mut spec = grant.spec.clone();
    spec.env.clear();
    let record = AttemptRecord { lease: grant.lease, spec, directory: prepared.directory.clone() };
    records::write(&directory, records::ATTEMPT, &record, Durability::Process).map_err(failed)?;
    Ok(prepared)
}
