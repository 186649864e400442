//! Messages from the coordinator, and messages to it.

use super::agent::{Agent, Link};
use super::attempt::{Attempt, ENDED_BEFORE_START, Stage};
use super::event::Event;
use super::keepers::KeeperLink;
use super::lease::cut_off;
use super::masking::Masking;
use super::message_size;
use crate::isolation::users::JobUser;
use crate::keeper::messages::ToKeeper;
use crate::limits::REPORT_SETTLE;
use crate::platform::Now;
use crate::records;
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::limits::GRACE;
use buildpool_protocol::outcome::EndReason;
use buildpool_protocol::version;
use buildpool_protocol::worker_link::{Desired, FromWorker, Grant, Register, ToWorker};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::info;

impl Agent {
    pub(super) fn register(&mut self, control: mpsc::Sender<FromWorker>) {
        let register = Register {
            protocol: self.config.protocol,
            worker: self.data_directory.worker,
            boot: self.boot,
            earlier: self.ended_boots.clone(),
            name: self.config.name.clone(),
            version: version::program().to_owned(),
            slots: self.config.slots,
            labels: self.config.all_labels(),
            accepts: self.config.accepts.clone(),
            resources: self.config.all_resources(),
            held: self.held(),
            condition: self.condition(),
        };
        self.link = Some(Link {
            control,
            is_registered: false,
            has_contact: false,
            request_times: VecDeque::new(),
            report_at: Instant::now() + self.report_every,
            settle_at: None,
            // The registration has these facts.
            reported: self.reportable_state(),
            must_report: false,
            log_progress: BTreeMap::new(),
        });
        self.send_request(FromWorker::Register(Box::new(register)));
    }

    /// Sends a message that requires an answer, and records the time.
    pub(super) fn send_request(&mut self, mut message: FromWorker) {
        message_size::shorten(&mut message);
        let now = Now::read().continuous;
        if let Some(link) = &mut self.link {
            // A full queue means that the link is stalled. State is repeated later.
            if link.control.try_send(message).is_ok() {
                link.request_times.push_back(now);
            }
        }
    }

    pub(super) fn send(&self, mut message: FromWorker) {
        message_size::shorten(&mut message);
        if let Some(link) = &self.link {
            let _ = link.control.try_send(message);
        }
    }

    pub(super) fn handle_message(&mut self, message: ToWorker) {
        match message {
            ToWorker::Registered { report_every, lost_after, desired, .. } => {
                info!("registered as `{}`", self.config.name);
                self.has_passed_trial = self.config.trial.is_some();
                self.report_every = report_every.max(REPORT_SETTLE);
                self.lost_after = Some(lost_after);
                let mut had_contact = false;
                if let Some(link) = &mut self.link {
                    link.is_registered = true;
                    link.report_at = Instant::now() + self.report_every;
                    had_contact = link.has_contact;
                }
                // An earlier answer to this registration was already counted.
                if !had_contact {
                    self.on_answer();
                }
                for desired in desired {
                    self.apply_desired(desired, true);
                }
                self.request_stdin(true);
                // A change since the registration was sent could not be reported earlier.
                self.report_soon();
            }
            ToWorker::Desired { desired } => {
                if let Some(link) = self.link.as_mut().filter(|link| !link.is_registered && !link.has_contact)
                {
                    info!("the coordinator is in contact but can't register this worker yet");
                    link.has_contact = true;
                }
                self.on_answer();
                for desired in desired {
                    self.apply_desired(desired, false);
                }
            }
            ToWorker::Act(desired) => self.apply_desired(desired, false),
            ToWorker::Grant(grant) => self.on_grant(grant),
            ToWorker::Position { lease, position } => self.on_position(lease, position),
            ToWorker::StdinEnd { lease, end } => self.on_stdin_end(lease, end),
            // Ignore an un-drain during shutdown.
            ToWorker::Drain { draining: false, .. } if self.phase.is_shutdown() => {}
            ToWorker::Drain { draining, deadline } => self.drain(draining, deadline),
            ToWorker::Upgrade(order) => self.on_upgrade(order),
            // The connection task handles both messages.
            ToWorker::Redirect { .. } | ToWorker::Refused { .. } | ToWorker::Transfer(_) => {}
        }
    }

    pub(super) fn on_answer(&mut self) {
        let Some(sent_at) = self.link.as_mut().and_then(|link| link.request_times.pop_front()) else {
            return;
        };
        self.contact_at = Some(sent_at);
        for (keeper, attempt) in self.keepers.busy().collect::<Vec<_>>() {
            self.send_contact(keeper, attempt);
        }
    }

    /// Sends a keeper the age of the last contact, and the time without contact after which it must
    /// end its process tree.
    pub(super) fn send_contact(&self, keeper: KeeperLink, attempt: AttemptId) {
        let Some(at) = self.contact_at else { return };
        let spec = self.attempts.get(&attempt).map(|attempt| &attempt.spec);
        let cut_off_after = self
            .lost_after
            .zip(spec)
            .and_then(|(lost_after, spec)| cut_off(lost_after, spec.on_lost, spec.grace.unwrap_or(GRACE)).0);
        let age = Now::read().continuous.saturating_sub(at);
        // An error is ignored: a keeper that cannot be reached is about to be detected as ended.
        let _ = self.keepers.send(keeper, &ToKeeper::Contact { age, cut_off_after });
    }

    pub(super) fn apply_desired(&mut self, desired: Desired, is_first: bool) {
        let lease = desired.lease();
        if !matches!(desired, Desired::Continue { .. }) && self.early_grants.remove(lease) {
            return self.decline(lease, ENDED_BEFORE_START);
        }
        let Some(attempt) = self.attempts.get_mut(&lease.attempt).filter(|held| held.lease == lease) else {
            return;
        };
        match desired {
            Desired::Continue { position, .. } if is_first => {
                self.outbox.start_sending(lease.attempt, position)
            }
            Desired::Continue { position, .. } => {
                self.on_stored(lease.attempt, position);
                self.outbox.resend_complete(lease.attempt, Instant::now().into_std());
            }
            Desired::Cancel { by, reason, .. } => {
                self.end_attempt(lease.attempt, EndReason::Cancelled { by, reason });
                self.outbox.resend_complete(lease.attempt, Instant::now().into_std());
            }
            Desired::Fenced { .. } | Desired::Forget { .. } => {
                attempt.is_fenced = true;
                self.fence(lease.attempt);
            }
        }
    }

    pub(super) fn on_grant(&mut self, grant: Box<Grant>) {
        let lease = grant.lease;
        if let Some(held) = self.attempts.get(&lease.attempt) {
            if held.lease != lease {
                self.decline(lease, "this worker holds the attempt by another lease");
            }
            return;
        }
        if let Some(reason) = self.reason_to_decline() {
            return self.decline(lease, &reason);
        }
        // An earlier grant comes first.
        if self.early_grants.is_empty() && self.has_free_slot() {
            return self.begin(*grant);
        }
        if self.early_grants.keep(Instant::now(), self.config.slots, grant).is_err() {
            self.decline(lease, "the worker has no free slot");
        }
    }

    fn reason_to_decline(&mut self) -> Option<String> {
        if !self.phase.accepts_jobs() {
            return Some("the worker is draining".to_owned());
        }
        let reason = self.quarantine()?;
        self.report_soon();
        Some(reason)
    }

    /// Returns true if another attempt can start: a slot is free and, if jobs run as users of their own, so is a user.
    fn has_free_slot(&self) -> bool {
        let live = self.attempts.values().filter(|attempt| attempt.is_live()).count();
        live < self.config.slots as usize && (self.users.is_empty() || self.free_user().is_some())
    }

    /// Starts waiting grants while slots are free. Declines overdue ones, and all if the worker is draining or quarantined.
    pub(super) fn start_early_grants(&mut self, now: Instant) {
        if self.early_grants.is_empty() {
            return;
        }
        let is_due = self.early_grants.deadline().is_some_and(|at| at <= now);
        if !is_due && self.phase.accepts_jobs() && !self.has_free_slot() {
            return;
        }
        if let Some(reason) = self.reason_to_decline() {
            while let Some(grant) = self.early_grants.next() {
                self.decline(grant.lease, &reason);
            }
        }
        while self.has_free_slot()
            && let Some(grant) = self.early_grants.next()
        {
            self.begin(*grant);
        }
        while let Some(grant) = self.early_grants.next_overdue(now) {
            self.decline(grant.lease, "the worker had no free slot in time");
            self.report_soon();
        }
    }

    /// Begins an attempt: prepares its files in the background.
    fn begin(&mut self, grant: Grant) {
        let lease = grant.lease;
        let user = self.free_user().cloned();
        self.outbox.add(lease.attempt, self.data_directory.attempt(lease.attempt).join(records::LOG), 0);
        self.outbox.start_sending(lease.attempt, 0);
        let (stop, stopped) = watch::channel(false);
        let stage = Stage::Preparing { secrets: grant.secrets.clone(), stop };
        let mut attempt = Attempt::new(lease, grant.spec.clone(), stage);
        attempt.user.clone_from(&user);
        attempt.masking = Masking::of_secrets(&grant.secrets);
        self.attempts.insert(lease.attempt, attempt);
        self.report_soon();
        let users = user.map(|user| (user, Arc::clone(&self.users)));
        let (data_directory, config) = (Arc::clone(&self.data_directory), Arc::clone(&self.config));
        let files = self.files.clone();
        self.work.spawn(async move {
            let result = files.lay_out(data_directory, config, grant, users, stopped).await;
            Event::Prepared { attempt: lease.attempt, result }
        });
    }

    /// Returns a user without processes. An attempt has its own user until its process tree has
    /// ended.
    fn free_user(&self) -> Option<&JobUser> {
        let release = |user: &&JobUser| {
            let mut live = self.attempts.values().filter(|attempt| attempt.is_live());
            live.all(|attempt| attempt.user.as_ref() != Some(*user))
        };
        self.users.iter().find(release)
    }

    pub(super) fn decline(&mut self, lease: Lease, reason: &str) {
        self.send(FromWorker::Decline { lease, reason: reason.to_owned() });
        // No report now: the coordinator would grant the same again.
        if let Some(link) = &mut self.link {
            link.must_report = true;
        }
    }

    /// Handles a position from the coordinator. A position that does not advance requests a resend.
    pub(super) fn on_position(&mut self, lease: Lease, position: u64) {
        if self.attempts.get(&lease.attempt).is_none_or(|held| held.lease != lease) {
            return;
        }
        if self.on_stored(lease.attempt, position).is_some_and(|before| position <= before) {
            self.outbox.start_sending(lease.attempt, position);
        }
    }

    pub(super) fn on_stored(&mut self, attempt: AttemptId, position: u64) -> Option<u64> {
        let before = self.outbox.note_stored(attempt, position)?;
        if position > before
            && let Some(keeper) = self.keepers.of_attempt(attempt)
        {
            // An error is ignored: the next position replaces a lost one.
            let _ = self.keepers.send(keeper, &ToKeeper::Stored { attempt, position });
        }
        Some(before)
    }
}
