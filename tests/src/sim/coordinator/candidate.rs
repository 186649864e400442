//! One of several coordinators: the real election, and its requests to the shared store.

use super::super::clock::{Clock, Time, earlier};
use super::super::disk::Sealed;
use super::super::shared::{Answer, Fence, LEASE, Request, SharedStore, Ticket};
use super::super::truth::{Presence, Truth};
use super::Coordinator;
use buildpool_coordinator::election::{Action, Answer as LeaseAnswer, Election};
use buildpool_pool::{Completed, Input};
use buildpool_protocol::ids::AttemptId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Delay before a refused write is sent again.
const WRITE_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// A process that wants to lead, or leads.
#[derive(Debug)]
pub(super) struct Candidate {
    clock: Clock,
    election: Election,
    holder: u64,
    asked: Option<Ticket>,
    opening: Option<(Fence, Ticket)>,
}

/// Requests of a leader.
#[derive(Debug)]
pub(super) struct Leading {
    fence: Fence,
    writing: Option<Ticket>,
    write_at: Time,
    /// True if the present batch was refused once.
    has_failed: bool,
    /// Changes that this leader has written.
    written: usize,
    publishing: BTreeMap<AttemptId, Publishing>,
}

#[derive(Debug)]
struct Publishing {
    ticket: Option<Ticket>,
    again_at: Time,
    sealed: Sealed,
    completed: Completed,
}

impl Leading {
    fn new(fence: Fence) -> Self {
        Self {
            fence,
            writing: None,
            write_at: Time::ZERO,
            has_failed: false,
            written: 0,
            publishing: BTreeMap::new(),
        }
    }

    /// Returns true if records wait for the next attempt to write them.
    pub(super) fn is_refused(&self) -> bool {
        self.has_failed && self.writing.is_none()
    }

    pub(super) fn publish(&mut self, sealed: Sealed, completed: Completed) {
        let publishing = Publishing { ticket: None, again_at: Time::ZERO, sealed, completed };
        self.publishing.insert(publishing.completed.lease.attempt, publishing);
    }
}

impl Coordinator {
    /// Returns true if it may act as the leader, by its own clock.
    pub(crate) fn leads(&self, now: Time) -> bool {
        let until = self.candidate.as_ref().and_then(|it| Some((it.election.until()?, it.clock.at(now))));
        self.running.is_some() && self.stopped_until <= now && until.is_some_and(|(until, at)| at < until)
    }

    pub(crate) fn presence(&self, now: Time) -> Presence {
        let Some(candidate) = self.candidate.as_ref().filter(|_| self.stopped_until <= now) else {
            return if self.listens(now) { Presence::Leading } else { Presence::Away };
        };
        if self.running.is_some() {
            return Presence::Leading;
        }
        let number = |url: &str| url.strip_prefix('c').and_then(|number| number.parse().ok());
        Presence::Standby(candidate.election.leader().and_then(number))
    }

    pub(super) fn wake_shared(&self, now: Time, shared: &SharedStore) -> Option<Time> {
        let Some(candidate) = &self.candidate else { return Some(self.restart_at.max(self.stopped_until)) };
        let mut at = shared.answers_at(self.index);
        at = earlier(at, candidate.election.next_deadline().map(|at| candidate.clock.when(at)));
        if let Some(running) = &self.running
            && let Some(leading) = &running.leading
        {
            at = earlier(
                at,
                match &running.batch {
                    Some(_) => leading.writing.is_none().then_some(leading.write_at),
                    None if !running.inbox.is_empty() => Some(now),
                    None => running.pool.next_deadline().map(|at| running.clock.when(at)),
                },
            );
            let publishing = leading.publishing.values().filter(|it| it.ticket.is_none());
            at = earlier(at, publishing.map(|it| it.again_at).min());
            at = earlier(at, running.sync_at);
            at = earlier(at, Self::silent_at(running));
        }
        at.map(|at| at.max(self.stopped_until))
    }

    pub(super) fn step_shared(&mut self, now: Time, truth: &mut Truth) {
        if self.stopped_until > now {
            return;
        }
        if self.candidate.is_none() && self.restart_at <= now {
            self.candidate = Some(self.new_candidate(now, truth));
        }
        while let Some((ticket, answer)) = truth.shared.take_answer(now, self.index) {
            self.answered(ticket, answer, now, truth);
        }
        self.elect(now, truth);
        if self.running.is_none() {
            return;
        }
        if !self.leads(now) {
            return self.replaced(now, truth);
        }
        self.sync(now, truth);
        self.close_silent(now, truth);
        self.publish(now, truth);
        self.write(now, truth);
    }

    fn new_candidate(&mut self, now: Time, truth: &mut Truth) -> Candidate {
        self.holders += 1;
        let holder = self.holders << 8 | self.index as u64;
        // Up to 5 % slower or faster than the server's clock, far beyond real ones.
        let rate = 950_000 + truth.dice.below(100_000);
        let clock = Clock::new(now, truth.dice.seconds(0, 100_000), rate);
        Candidate { clock, election: Election::new(LEASE), holder, asked: None, opening: None }
    }

    fn elect(&mut self, now: Time, truth: &mut Truth) {
        loop {
            let Some(candidate) = &mut self.candidate else { return };
            let Some(action) = candidate.election.poll(candidate.clock.at(now)) else { return };
            match action {
                Action::Ask(question) => {
                    let url = format!("c{}", self.index);
                    let request = Request::Lease { question, holder: candidate.holder, url };
                    candidate.asked = Some(truth.shared.send(now, &mut truth.dice, self.index, request));
                }
                Action::Lead { epoch } => {
                    let fence = Fence { epoch, holder: candidate.holder };
                    let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX) + self.wall_offset_ms;
                    let wall_secs = u64::try_from(millis / 1_000).unwrap_or(0);
                    let request = Request::Open { fence, wall_secs };
                    let ticket = truth.shared.send(now, &mut truth.dice, self.index, request);
                    candidate.opening = Some((fence, ticket));
                }
                Action::StepDown => {
                    truth.note(now, || format!("c{} steps down", self.index));
                    self.start_over(now, truth);
                }
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, answer: Answer, now: Time, truth: &mut Truth) {
        let leads = self.leads(now);
        let Some(candidate) = &mut self.candidate else { return };
        if candidate.asked == Some(ticket) {
            candidate.asked = None;
            let answer = match answer {
                Answer::Lease(answer) => answer,
                _ => LeaseAnswer::Failed,
            };
            return candidate.election.answered(candidate.clock.at(now), answer);
        }
        if let Some((fence, _)) = candidate.opening.filter(|(_, opening)| *opening == ticket) {
            candidate.opening = None;
            let Answer::Opened { disk } = answer else {
                // The process ends with an error, and its supervisor starts it again.
                let down = truth.dice.millis(100, 5_000);
                return self.crash(now, truth, down, true);
            };
            let clock = candidate.clock;
            truth.counts.leaderships += 1;
            truth.note(now, || format!("c{} leads as {fence:?}", self.index));
            truth.network.close_earlier(now, self.index);
            let running = self.restore(&disk, clock, now);
            self.running = Some(running);
            if let Some(running) = &mut self.running {
                running.leading = Some(Leading::new(fence));
                truth.check(running.pool.audit());
            }
            return;
        }
        let Some(running) = &mut self.running else { return };
        let Some(leading) = &mut running.leading else { return };
        if leading.writing == Some(ticket) {
            leading.writing = None;
            match answer {
                Answer::Written => {
                    let Some(batch) = running.batch.take() else { return };
                    leading.has_failed = false;
                    leading.written += batch.changes.len();
                    if leads && !self.dies_here(now, truth) {
                        self.carry_out_written(batch, now, truth);
                    }
                }
                Answer::Fenced => self.replaced(now, truth),
                _ => {
                    leading.has_failed = true;
                    leading.write_at = now + WRITE_AGAIN_AFTER;
                }
            }
            return;
        }
        let published = leading.publishing.iter().find(|(_, it)| it.ticket == Some(ticket));
        let Some(attempt) = published.map(|(attempt, _)| *attempt) else { return };
        if matches!(answer, Answer::Written) {
            if let Some(publishing) = leading.publishing.remove(&attempt) {
                running.inbox.push_back(Input::LogArrived { lease: publishing.completed.lease });
                running.inbox.push_back(Input::Completed(Box::new(publishing.completed)));
            }
        } else if let Some(publishing) = leading.publishing.get_mut(&attempt) {
            publishing.ticket = None;
            publishing.again_at = now + truth.dice.millis(1_000, 30_000);
        }
    }

    /// Uploads logs, also again after a failure.
    fn publish(&mut self, now: Time, truth: &mut Truth) {
        let Some(leading) = self.running.as_mut().and_then(|running| running.leading.as_mut()) else {
            return;
        };
        for (attempt, publishing) in &mut leading.publishing {
            if publishing.ticket.is_none() && publishing.again_at <= now {
                let (fence, sealed) = (leading.fence, publishing.sealed.clone());
                let request = Request::Publish { fence, attempt: *attempt, sealed };
                publishing.ticket = Some(truth.shared.send(now, &mut truth.dice, self.index, request));
            }
        }
    }

    fn write(&mut self, now: Time, truth: &mut Truth) {
        let has_batch = self.running.as_ref().is_some_and(|running| running.batch.is_some());
        if !has_batch {
            let batch = self.take_batch(now, truth);
            if let Some(running) = &mut self.running {
                running.batch = batch;
            }
        }
        let Some(running) = &mut self.running else { return };
        let (Some(batch), Some(leading)) = (&running.batch, &mut running.leading) else { return };
        if leading.writing.is_none() && (!leading.has_failed || leading.write_at <= now) {
            let changes = batch.changes.clone();
            let request = Request::Commit { fence: leading.fence, before: leading.written, changes };
            leading.writing = Some(truth.shared.send(now, &mut truth.dice, self.index, request));
        }
    }

    /// Ends a leadership that another coordinator has replaced, or may have.
    fn replaced(&mut self, now: Time, truth: &mut Truth) {
        truth.note(now, || format!("c{} is replaced", self.index));
        if let Some(candidate) = &self.candidate {
            let request = Request::GiveBack { holder: candidate.holder };
            truth.shared.send(now, &mut truth.dice, self.index, request);
        }
        self.start_over(now, truth);
    }

    fn start_over(&mut self, now: Time, truth: &mut Truth) {
        if let Some(running) = self.running.take() {
            for id in running.connections.keys() {
                truth.network.close_coordinator(now, *id, true);
            }
        }
        truth.shared.forget(self.index);
        self.candidate = Some(self.new_candidate(now, truth));
    }
}
