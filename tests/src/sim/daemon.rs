//! A model of the worker daemon's side of the link. It reports all held attempts, obeys the
//! answers, and has no state other than its machine's disk and keepers.

mod orders;

use super::clock::{Time, earlier};
use super::host::{Entry, Host};
use super::keeper::{Keeper, outcome};
use super::network::{ConnectionId, Up};
use super::truth::{Presence, Truth};
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::ids::{AttemptId, BootId, Lease};
use buildpool_protocol::limits::{GRACE, LOST_AFTER, REPORT_EVERY, SELF_FENCE_MARGIN, SILENCE_MAX};
use buildpool_protocol::outcome::{EndReason, Ending, StartFailure};
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::version::VersionRange;
use buildpool_protocol::worker_link::{Condition, FromWorker, Grant, Held, HeldState, Register};
use buildpool_worker::limits::CUT_OFF_GRACE_MAX;
use buildpool_worker::supervisor::Plan;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Delay that combines several changes into one report.
const SETTLE: Duration = Duration::from_millis(50);
/// Grants that it keeps until a slot is free, and the time that it keeps each: longer than the real one, so that jobs of the
/// simulation end meanwhile.
const EARLY_GRANTS: u32 = 3;
const EARLY_GRANT_WAIT_MAX: Duration = Duration::from_secs(20);
const STREAM_EVERY: Duration = Duration::from_secs(5);
pub(crate) const BACKOFF_MAX_MILLIS: u64 = 30_000;
/// Redirects that it follows in a row, and the time for each.
const REDIRECTS_MAX: u32 = 4;
const REDIRECT_TAKES: Duration = Duration::from_millis(2);
const LAST_WORDS: Duration = Duration::from_secs(30);

/// An attempt with a workspace in preparation. It is lost with the daemon.
#[derive(Debug)]
struct Preparing {
    lease: Lease,
    spec: JobSpec,
    ready_at: Duration,
    act: Option<EndReason>,
    is_fenced: bool,
    _secrets: BTreeMap<String, Secret>,
}

/// An open connection. Times are of the machine's continuous clock.
#[derive(Debug)]
struct Link {
    id: ConnectionId,
    is_registered: bool,
    is_heard: bool,
    asked_at: VecDeque<Duration>,
    heard_at: Duration,
    report_at: Duration,
    stream_at: Duration,
    /// Positions of each log: sent, acknowledged, and acknowledged at the last report.
    sent: BTreeMap<AttemptId, (u64, u64, u64)>,
    completed: BTreeSet<AttemptId>,
    reported: Vec<(Lease, HeldState)>,
}

#[derive(Debug)]
pub(crate) struct Daemon {
    boot: BootId,
    preparing: BTreeMap<AttemptId, Preparing>,
    fenced: BTreeSet<AttemptId>,
    /// Grants that wait for a slot, with the time when each came.
    early: VecDeque<(Duration, Grant)>,
    link: Option<Link>,
    connect_at: Time,
    backoff_millis: u64,
    /// The coordinator to dial next, and the failures and redirects since the last connection.
    coordinator: usize,
    failures: usize,
    redirects: u32,
    contact_at: Option<Duration>,
    /// The value from the coordinator.
    lost_after: Option<Duration>,
    is_draining: bool,
    drain_at: Option<Duration>,
    leave_since: Option<Duration>,
    is_moody: bool,
    /// True if a workspace could not be prepared and the disk is still full.
    lacks_room: bool,
}

impl Daemon {
    pub(crate) fn new(boot: BootId, now: Time) -> Self {
        Self {
            boot,
            preparing: BTreeMap::new(),
            fenced: BTreeSet::new(),
            early: VecDeque::new(),
            link: None,
            connect_at: now,
            backoff_millis: 200,
            coordinator: 0,
            failures: 0,
            redirects: 0,
            contact_at: None,
            lost_after: None,
            is_draining: false,
            drain_at: None,
            leave_since: None,
            is_moody: false,
            lacks_room: false,
        }
    }

    /// Records the unknown ends of attempts that an earlier daemon left.
    pub(crate) fn take_up(&mut self, host: &mut Host) {
        let unclaimed: Vec<_> = host
            .spool
            .iter()
            .filter(|(id, entry)| entry.outcome.is_none() && !host.keepers.contains_key(id))
            .map(|(id, _)| *id)
            .collect();
        for id in unclaimed {
            host.conclude(id);
        }
    }

    /// Closes its connection and exits.
    pub(crate) fn leave(self, now: Time, truth: &mut Truth) {
        if let Some(link) = self.link {
            truth.network.close_worker(now, link.id, true);
        }
    }

    /// Disappears without closing its connection.
    pub(crate) fn vanish(self, now: Time, truth: &mut Truth) {
        if let Some(link) = self.link {
            truth.network.close_worker(now, link.id, false);
        }
    }

    /// Handles SIGTERM: accepts no new jobs, finishes, exits.
    pub(crate) fn drain_and_leave(&mut self, local: Duration, deadline: Duration) {
        self.is_draining = true;
        self.drain_at = Some(local + deadline);
        self.leave_since = Some(local);
        self.changed(local);
    }

    /// Sets if it declines some grants for its own reasons.
    pub(crate) fn be_moody(&mut self, is_moody: bool) {
        self.is_moody = is_moody;
    }

    pub(crate) fn is_over(&self, host: &Host) -> bool {
        let Some(since) = self.leave_since else { return false };
        let is_busy = !self.preparing.is_empty() || host.spool.values().any(|entry| entry.outcome.is_none());
        let waited = self.link.as_ref().is_none_or(|link| link.heard_at > since + LAST_WORDS);
        !is_busy && (host.spool.is_empty() || waited)
    }

    pub(crate) fn wake(&self, host: &Host) -> Option<Time> {
        let when = |at: Duration| host.clocks.continuous.when(at);
        let mut at = self.preparing.values().map(|attempt| Some(when(attempt.ready_at))).fold(None, earlier);
        at = earlier(at, self.drain_at.map(when));
        at = earlier(at, self.early.front().map(|(came_at, _)| when(*came_at + EARLY_GRANT_WAIT_MAX)));
        at = earlier(at, self.lacks_room.then_some(host.full_until));
        if let Some((id, _)) = host.spool.iter().find(|(_, entry)| entry.is_unwatched) {
            let _ = id;
            at = earlier(at, Some(Time::ZERO));
        }
        let link = match &self.link {
            None => Some(self.connect_at),
            Some(link) => {
                let stream = (link.is_registered && !host.spool.is_empty()).then(|| when(link.stream_at));
                let talk = Some(when(link.report_at.min(link.heard_at + SILENCE_MAX)));
                earlier(stream, talk)
            }
        };
        earlier(at, link)
    }

    pub(crate) fn step(&mut self, host: &mut Host, now: Time, truth: &mut Truth) {
        let local = host.local(now).continuous;
        let unwatched: Vec<_> =
            host.spool.iter().filter(|(_, entry)| entry.is_unwatched).map(|(id, _)| *id).collect();
        for id in unwatched {
            host.conclude(id);
            self.changed(local);
        }
        if self.lacks_room && host.full_until <= now {
            self.lacks_room = false;
            self.changed(local);
        }
        self.start_early(host, now, truth);
        self.start_what_is_ready(host, now, truth);
        if self.drain_at.is_some_and(|at| at <= local) {
            self.drain_at = None;
            self.end_all(host, now);
        }
        self.keep_link(host, now, truth);
        self.stream(host, now, truth);
        self.report_if_due(host, now, truth);
    }

    // ---- the link

    fn keep_link(&mut self, host: &mut Host, now: Time, truth: &mut Truth) {
        let local = host.local(now).continuous;
        if let Some(link) = &self.link
            && link.heard_at + SILENCE_MAX <= local
        {
            let id = link.id;
            truth.note(now, || format!("{} gives up a silent link", host.name));
            truth.network.close_worker(now, id, true);
            self.disconnected(now, truth);
        }
        if self.link.is_some() || self.connect_at > now {
            return;
        }
        if !self.finds_leader(host, now, truth) {
            return;
        }
        let id = truth.network.connect(host.index, self.coordinator);
        self.link = Some(Link {
            id,
            is_registered: false,
            is_heard: false,
            asked_at: VecDeque::from([local]),
            heard_at: local,
            report_at: local + SILENCE_MAX,
            stream_at: local,
            sent: BTreeMap::new(),
            completed: BTreeSet::new(),
            reported: Vec::new(),
        });
        let register = Register {
            protocol: VersionRange::ours(),
            worker: host.identity,
            boot: self.boot,
            earlier: host.earlier(),
            name: host.name.clone(),
            version: "simulated".into(),
            slots: host.slots,
            labels: host.labels.clone(),
            resources: host.resources.clone(),
            accepts: Vec::new(),
            held: self.held(host),
            condition: self.condition(),
        };
        truth.note(now, || {
            let held: Vec<_> =
                register.held.iter().map(|held| format!("{} {:?}", held.lease.attempt, held.state)).collect();
            format!("{} registers with {held:?}", host.name)
        });
        self.send(now, truth, Up::Message(Box::new(FromWorker::Register(Box::new(register)))));
    }

    /// Dials the next coordinator. Returns true if it serves links. If not, it sets the time of the next attempt.
    fn finds_leader(&mut self, host: &Host, now: Time, truth: &mut Truth) -> bool {
        let count = truth.presence.len();
        let is_blocked = truth.network.is_blocked(host.index, now);
        match truth.presence.get(self.coordinator).filter(|_| !is_blocked) {
            Some(Presence::Leading) => {
                (self.failures, self.redirects) = (0, 0);
                return true;
            }
            Some(Presence::Standby(Some(leader))) if self.redirects < REDIRECTS_MAX => {
                self.coordinator = *leader;
                self.redirects += 1;
                self.connect_at = now + REDIRECT_TAKES;
                return false;
            }
            _ => {}
        }
        (self.coordinator, self.redirects) = ((self.coordinator + 1) % count, 0);
        self.failures += 1;
        if self.failures.is_multiple_of(count) {
            self.connect_at = now + truth.dice.millis(self.backoff_millis / 2, self.backoff_millis);
            self.backoff_millis = (self.backoff_millis * 2).min(BACKOFF_MAX_MILLIS);
        } else {
            self.connect_at = now + REDIRECT_TAKES;
        }
        false
    }

    pub(crate) fn closed(&mut self, id: ConnectionId, now: Time, truth: &mut Truth) {
        if self.link.as_ref().is_some_and(|link| link.id == id) {
            truth.network.close_worker(now, id, true);
            self.disconnected(now, truth);
        }
    }

    fn disconnected(&mut self, now: Time, truth: &mut Truth) {
        self.link = None;
        self.early.clear();
        self.connect_at = now + truth.dice.millis(0, self.backoff_millis);
        self.backoff_millis = (self.backoff_millis * 2).min(BACKOFF_MAX_MILLIS);
    }

    fn send(&self, now: Time, truth: &mut Truth, message: Up) {
        if let Some(link) = &self.link {
            truth.network.send_up(now, &mut truth.dice, link.id, message);
        }
    }

    fn changed(&mut self, local: Duration) {
        if let Some(link) = self.link.as_mut().filter(|link| link.is_registered) {
            link.report_at = link.report_at.min(local + SETTLE);
            link.stream_at = link.stream_at.min(local + SETTLE);
        }
    }

    fn report_if_due(&mut self, host: &Host, now: Time, truth: &mut Truth) {
        let local = host.local(now).continuous;
        let (held, condition) = (self.held(host), self.condition());
        let Some(link) = &mut self.link else { return };
        if !link.is_registered && !link.is_heard || link.report_at > local {
            return;
        }
        link.report_at = local + REPORT_EVERY;
        link.asked_at.push_back(local);
        link.reported = held.iter().map(|held| (held.lease, held.state)).collect();
        for (id, (sent, taken, before)) in &mut link.sent {
            // Bytes without progress since the last report are sent again.
            if *taken == *before && *taken < *sent {
                *sent = *taken;
                link.completed.remove(id);
            }
            *before = *taken;
        }
        self.send(now, truth, Up::Message(Box::new(FromWorker::Report { held, condition })));
    }

    /// Sends log bytes, and the outcome after all bytes.
    fn stream(&mut self, host: &Host, now: Time, truth: &mut Truth) {
        let local = host.local(now);
        let Some(link) = &mut self.link else { return };
        if !link.is_registered || link.stream_at > local.continuous {
            return;
        }
        link.stream_at = local.continuous + STREAM_EVERY;
        let mut messages = Vec::new();
        for (id, entry) in host.spool.iter().filter(|(id, _)| !self.fenced.contains(id)) {
            let Some((sent, ..)) = link.sent.get_mut(id) else { continue };
            let length = host.keepers.get(id).map_or(entry.log_length, |keeper| keeper.log_length(local));
            if length > *sent {
                messages.push(Up::Output {
                    lease: entry.lease,
                    from: *sent,
                    to: length,
                    execution: entry.execution,
                });
                *sent = length;
            }
            if let Some(outcome) = &entry.outcome
                && link.completed.insert(*id)
            {
                let outcome = Box::new(outcome.clone());
                messages.push(Up::Complete { lease: entry.lease, outcome, execution: entry.execution });
            }
        }
        for message in messages {
            self.send(now, truth, message);
        }
    }

    fn held(&self, host: &Host) -> Vec<Held> {
        let preparing = self.preparing.values().map(|attempt| Held {
            lease: attempt.lease,
            state: HeldState::Preparing,
            log_length: 0,
            started_at_ms: None,
            output_held: None,
        });
        let kept = host.spool.iter().map(|(id, entry)| {
            let state = match (&entry.outcome, host.keepers.get(id)) {
                (Some(_), _) | (None, None) => HeldState::Ended,
                (None, Some(keeper)) if keeper.is_ending() => HeldState::Ending,
                (None, Some(_)) => HeldState::Running,
            };
            Held {
                lease: entry.lease,
                state,
                log_length: entry.log_length,
                started_at_ms: entry.started_at_ms,
                output_held: None,
            }
        });
        preparing.chain(kept).collect()
    }

    fn condition(&self) -> Condition {
        let quarantined = self.lacks_room.then(|| "it could not lay out a job".to_owned());
        Condition {
            draining: self.is_draining,
            quarantined,
            early_grants: EARLY_GRANTS,
            ..Condition::default()
        }
    }

    // ---- grants

    fn start_what_is_ready(&mut self, host: &mut Host, now: Time, truth: &mut Truth) {
        let local = host.local(now);
        let ready: Vec<_> = self
            .preparing
            .iter()
            .filter(|(_, attempt)| attempt.ready_at <= local.continuous)
            .map(|(id, _)| *id)
            .collect();
        for id in ready {
            let Some(attempt) = self.preparing.remove(&id) else { continue };
            self.changed(local.continuous);
            if attempt.is_fenced {
                continue;
            }
            let execution = truth.next_execution();
            let mut entry = Entry {
                lease: attempt.lease,
                spec: attempt.spec,
                execution,
                started_at_ms: None,
                log_length: 0,
                outcome: None,
                is_unwatched: false,
            };
            if attempt.act.is_none() && host.full_until > now {
                truth.note(now, || format!("{} has no room for {id}", host.name));
                self.lacks_room = true;
                let failure = StartFailure::Resources { reason: "No space left on device".into() };
                entry.outcome = Some(outcome(Ending::NotStarted(failure), None, None, 0));
            } else if let Some(acted) = attempt.act {
                let failure = StartFailure::Workspace { reason: "it was ended before it started".into() };
                entry.outcome = Some(outcome(Ending::NotStarted(failure), Some(acted), None, 0));
            } else {
                self.start_keeper(host, &mut entry, now, truth);
            }
            host.spool.insert(id, entry);
        }
    }

    fn start_keeper(&self, host: &mut Host, entry: &mut Entry, now: Time, truth: &mut Truth) {
        let local = host.local(now);
        let id = entry.lease.attempt;
        let Some(behaviour) = truth.behaviours.get(&id.job).cloned() else {
            return truth.fail(format!("{id} is nobody's job"));
        };
        let grace = entry.spec.grace.unwrap_or(GRACE);
        let lost_after = self.lost_after.unwrap_or(LOST_AFTER);
        let margin = SELF_FENCE_MARGIN.min(lost_after / 2);
        let plan = Plan {
            timeout: entry.spec.timeout,
            idle_timeout: None,
            grace,
            cut_off_grace: grace.min(CUT_OFF_GRACE_MAX).min(margin / 3),
            cut_off_after: cut_off_after(lost_after, entry.spec.on_lost),
        };
        let age = self.contact_at.map_or(Duration::ZERO, |at| local.continuous.saturating_sub(at));
        let keeper = Keeper::start(entry.lease, entry.execution, plan, behaviour, age, local);
        entry.started_at_ms = Some(keeper.started_at_ms);
        truth.note(now, || format!("{} starts {id} as execution {}", host.name, entry.execution));
        host.keepers.insert(id, keeper);
    }
}

/// Returns the time without contact after which a keeper ends its process tree.
fn cut_off_after(lost_after: Duration, on_lost: OnLost) -> Option<Duration> {
    (on_lost != OnLost::Wait).then(|| lost_after - SELF_FENCE_MARGIN.min(lost_after / 2))
}
