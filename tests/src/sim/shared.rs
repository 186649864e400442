//! The PostgreSQL server that several simulated coordinators share: the lease, and transactions that are slow, late or
//! lost. The checks are those of the real statements. A bucket is reached through it too, because an object counts only
//! with its row.

use super::clock::{Time, earlier};
use super::dice::Dice;
use super::disk::{Disk, Sealed};
use super::truth::Truth;
use buildpool_coordinator::election::{Answer as LeaseAnswer, Question};
use buildpool_pool::Change;
use buildpool_protocol::ids::{AttemptId, JobId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time after which a coordinator gives up a statement.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time after which the server ends an idle transaction.
const IDLE_TRANSACTION: Duration = Duration::from_secs(2);
/// The lease of the simulated coordinators.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// Identity of a leadership. Each candidacy has another holder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Fence {
    pub(crate) epoch: i64,
    pub(crate) holder: u64,
}

/// Number of a request.
pub(crate) type Ticket = u64;

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Lease {
        question: Question,
        holder: u64,
        url: String,
    },
    /// Counts the start of a leader and reads all records.
    Open {
        fence: Fence,
        wall_secs: u64,
    },
    /// Writes changes. `before` is the number of changes that this leader has written.
    Commit {
        fence: Fence,
        before: usize,
        changes: Vec<Change>,
    },
    /// Ends the lease of this holder.
    GiveBack {
        holder: u64,
    },
    /// Writes the row of an object, after the upload of its bytes.
    Publish {
        fence: Fence,
        attempt: AttemptId,
        sealed: Sealed,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Lease(LeaseAnswer),
    Opened { disk: Box<Disk> },
    Written,
    Fenced,
    Failed,
}

#[derive(Debug)]
struct Operation {
    coordinator: usize,
    ticket: Ticket,
    request: Request,
    /// Time at which its transaction began.
    begun: Option<Time>,
}

/// The row of the lease, and rows of `meta`.
#[derive(Clone, Debug, Default)]
struct Rows {
    fence: Fence,
    url: String,
    expires: Time,
    start: u64,
    written: usize,
}

#[derive(Debug, Default)]
pub(crate) struct SharedStore {
    rows: Rows,
    /// By the time of the next step, and a number that keeps the order.
    operations: BTreeMap<(Time, u64), Operation>,
    answers: BTreeMap<(Time, u64), (usize, Ticket, Answer)>,
    /// Transactions that hold a lock on the lease, and the end of each.
    locks: BTreeMap<Ticket, Time>,
    /// Requests without an answer, and when their coordinator gives up.
    waiting: BTreeMap<Ticket, (usize, Time)>,
    /// Each coordinator's partition from the server ends then.
    blocked_until: BTreeMap<usize, Time>,
    slow_until: Time,
    away_until: Time,
    objects_away_until: Time,
    /// State of an asynchronous standby server that stopped following.
    copy: Option<(Rows, Disk)>,
    next: u64,
    /// False to accept the transactions of any leader, so that a test sees the invariants fail.
    pub(crate) has_fence: bool,
    /// Newest leadership with an accepted transaction, to check the order.
    newest: Fence,
    /// A promoted standby server may have lost renewals too. Until then, two coordinators may act as the leader, and one
    /// of them can commit.
    pub(crate) overlaps_until: Time,
    /// Jobs of which the records were lost with a primary server.
    pub(crate) forgotten: BTreeSet<JobId>,
}

impl SharedStore {
    pub(crate) fn new(has_fence: bool) -> Self {
        Self { has_fence, ..Self::default() }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Sends a request. Its answer, or [`Answer::Failed`], arrives later.
    pub(crate) fn send(
        &mut self,
        now: Time,
        dice: &mut Dice,
        coordinator: usize,
        request: Request,
    ) -> Ticket {
        let ticket = self.number();
        self.waiting.insert(ticket, (coordinator, now + ANSWER_WITHIN));
        let mut at = now + self.latency(now, dice);
        if matches!(request, Request::Publish { .. }) {
            at = (at + dice.millis(5, 400)).max(self.objects_away_until);
        }
        // The packets of a cut connection arrive after the partition, if the connection still exists.
        at = at.max(self.blocked_until.get(&coordinator).copied().unwrap_or_default());
        if at < self.away_until {
            at = now + dice.millis(0, 200);
            self.answers.insert((at, ticket), (coordinator, ticket, Answer::Failed));
            return ticket;
        }
        self.operations.insert((at, ticket), Operation { coordinator, ticket, request, begun: None });
        ticket
    }

    fn latency(&self, now: Time, dice: &mut Dice) -> Duration {
        let slow =
            if self.slow_until > now && dice.percent(50) { dice.millis(100, 6_000) } else { Duration::ZERO };
        dice.millis(0, 15) + slow
    }

    /// Returns the time of the next event.
    pub(crate) fn wake(&self) -> Option<Time> {
        let operation = self.operations.keys().next().map(|(at, _)| *at);
        earlier(operation, self.waiting.values().map(|(_, until)| *until).min())
    }

    /// Returns the time of the next answer to a coordinator.
    pub(crate) fn answers_at(&self, coordinator: usize) -> Option<Time> {
        let mut own = self.answers.iter().filter(|(_, (to, ..))| *to == coordinator);
        own.next().map(|((at, _), _)| *at)
    }

    /// Takes an answer that has arrived.
    pub(crate) fn take_answer(&mut self, now: Time, coordinator: usize) -> Option<(Ticket, Answer)> {
        let mut own = self.answers.iter().filter(|((at, _), (to, ..))| *at <= now && *to == coordinator);
        let key = own.next().map(|(key, _)| *key)?;
        self.answers.remove(&key).map(|(_, ticket, answer)| (ticket, answer))
    }

    /// Forgets the requests of a coordinator's process that has ended. The server may still execute them.
    pub(crate) fn forget(&mut self, coordinator: usize) {
        self.answers.retain(|_, (to, ..)| *to != coordinator);
        self.waiting.retain(|_, (of, _)| *of != coordinator);
    }

    // ---- faults

    pub(crate) fn block(&mut self, coordinator: usize, until: Time) {
        let blocked = self.blocked_until.entry(coordinator).or_default();
        *blocked = (*blocked).max(until);
        let delayed: Vec<_> = self.operations.extract_if(.., |_, it| it.coordinator == coordinator).collect();
        for ((at, number), operation) in delayed {
            // The server ends a transaction by itself. What it has not received yet arrives later.
            let at = if operation.begun.is_some() { at } else { at.max(until) };
            self.operations.insert((at, number), operation);
        }
        let answers: Vec<_> = self.answers.extract_if(.., |_, (to, ..)| *to == coordinator).collect();
        for ((at, number), answer) in answers {
            self.answers.insert((at.max(until), number), answer);
        }
    }

    pub(crate) fn slow_down(&mut self, until: Time) {
        self.slow_until = self.slow_until.max(until);
    }

    pub(crate) fn lose_objects(&mut self, until: Time) {
        self.objects_away_until = self.objects_away_until.max(until);
    }

    /// Stops the server. Open transactions are rolled back.
    pub(crate) fn stop(&mut self, until: Time) {
        self.away_until = self.away_until.max(until);
        self.operations.clear();
        self.locks.clear();
    }

    /// Stops the replication to the standby server.
    pub(crate) fn keep_copy(&mut self, disk: &Disk) {
        self.copy = Some((self.rows.clone(), disk.clone()));
    }

    pub(crate) fn heal(&mut self, now: Time) {
        self.blocked_until.clear();
        self.slow_until = now;
        self.away_until = now;
        self.objects_away_until = now;
        self.copy = None;
    }

    fn holds(&self, fence: Fence) -> bool {
        !self.has_fence || self.rows.fence == fence
    }

    fn ask(&mut self, now: Time, question: Question, holder: u64, url: String) -> LeaseAnswer {
        let held = match question {
            Question::Claim if self.rows.expires < now => {
                self.rows.fence = Fence { epoch: self.rows.fence.epoch + 1, holder };
                self.rows.url = url;
                true
            }
            Question::Claim => false,
            Question::Renew { epoch } => self.rows.fence == Fence { epoch, holder },
        };
        if !held {
            let left = self.rows.expires.saturating_sub(now);
            return LeaseAnswer::Other { url: self.rows.url.clone(), left };
        }
        self.rows.expires = now + LEASE;
        LeaseAnswer::Held { epoch: self.rows.fence.epoch }
    }
}

/// Executes the operations that are due.
pub(crate) fn step(now: Time, truth: &mut Truth) {
    let late: Vec<_> = truth.shared.waiting.extract_if(.., |_, (_, until)| *until <= now).collect();
    for (ticket, (coordinator, _)) in late {
        let number = truth.shared.number();
        truth.shared.answers.insert((now, number), (coordinator, ticket, Answer::Failed));
    }
    while let Some(entry) = truth.shared.operations.first_entry().filter(|entry| entry.key().0 <= now) {
        let operation = entry.remove();
        execute(operation, now, truth);
    }
}

fn execute(mut operation: Operation, now: Time, truth: &mut Truth) {
    let shared = &mut truth.shared;
    let (ticket, coordinator) = (operation.ticket, operation.coordinator);
    let answer = match (&operation.request, operation.begun) {
        (Request::Lease { question: Question::Claim, .. }, _) if !shared.locks.is_empty() => {
            // The claim waits for the locks of the present leader's transactions.
            let released = shared.locks.values().min().copied().unwrap_or(now);
            let number = shared.number();
            let at = released.max(now) + Duration::from_millis(1);
            shared.operations.insert((at, number), operation);
            return;
        }
        (Request::Lease { question, holder, url }, _) => {
            Answer::Lease(shared.ask(now, *question, *holder, url.clone()))
        }
        (Request::GiveBack { holder }, _) => {
            if shared.rows.fence.holder == *holder {
                shared.rows.expires = Time::ZERO;
            }
            Answer::Written
        }
        (
            Request::Open { fence, .. } | Request::Commit { fence, .. } | Request::Publish { fence, .. },
            None,
        ) => {
            if shared.holds(*fence) {
                // Some round trips until the commit.
                let takes = shared.latency(now, &mut truth.dice) + truth.dice.millis(0, 10);
                shared.locks.insert(ticket, now + takes.min(IDLE_TRANSACTION));
                operation.begun = Some(now);
                let number = shared.number();
                shared.operations.insert((now + takes, number), operation);
                return;
            }
            truth.counts.fenced_commits += 1;
            Answer::Fenced
        }
        (request, Some(begun)) => {
            shared.locks.remove(&ticket);
            if now.saturating_sub(begun) > IDLE_TRANSACTION {
                Answer::Failed
            } else {
                commit(request.clone(), coordinator, now, truth)
            }
        }
    };
    let shared = &mut truth.shared;
    if shared.waiting.remove(&ticket).is_none() {
        // Its coordinator has given it up or has ended. The effect remains.
        return;
    }
    let blocked = shared.blocked_until.get(&coordinator).copied().unwrap_or_default();
    let at = (now + shared.latency(now, &mut truth.dice)).max(blocked);
    let is_lost = shared.slow_until > now && truth.dice.percent(20) || at > now + ANSWER_WITHIN;
    let answer = if is_lost { Answer::Failed } else { answer };
    let number = shared.number();
    shared.answers.insert((at.min(now + ANSWER_WITHIN), number), (coordinator, ticket, answer));
}

/// Commits a transaction that has checked the lease.
fn commit(request: Request, coordinator: usize, now: Time, truth: &mut Truth) -> Answer {
    let fence = match &request {
        Request::Open { fence, .. } | Request::Commit { fence, .. } | Request::Publish { fence, .. } => {
            *fence
        }
        Request::Lease { .. } | Request::GiveBack { .. } => return Answer::Failed,
    };
    if fence < truth.shared.newest {
        let newest = truth.shared.newest;
        truth.fail(format!("single_leader: c{coordinator} commits as {fence:?} after {newest:?}"));
    }
    truth.shared.newest = fence;
    match request {
        Request::Open { wall_secs, .. } => {
            let rows = &mut truth.shared.rows;
            rows.start = (rows.start + 1).max(wall_secs);
            rows.written = 0;
            truth.disk.begin(rows.start);
            Answer::Opened { disk: Box::new(truth.disk.clone()) }
        }
        Request::Commit { before, changes, .. } => {
            let Some(known) = truth.shared.rows.written.checked_sub(before) else {
                // The server is a standby that lost commits of this leader.
                return Answer::Fenced;
            };
            truth.shared.rows.written = before + changes.len();
            for change in changes.iter().skip(known) {
                truth.write(change, now);
            }
            Answer::Written
        }
        Request::Publish { attempt, sealed, .. } => {
            truth.disk.sealed.insert(attempt, sealed);
            Answer::Written
        }
        Request::Lease { .. } | Request::GiveBack { .. } => Answer::Failed,
    }
}

/// Makes the standby server the primary one. The commits that it did not receive are lost.
pub(crate) fn promote(now: Time, truth: &mut Truth, takes: Duration) {
    truth.shared.stop(now + takes);
    let Some((rows, disk)) = truth.shared.copy.take() else { return };
    truth.shared.overlaps_until = now + LEASE + LEASE / 8;
    let old = std::mem::replace(&mut truth.disk, disk);
    truth.shared.rows = rows;
    // The next claim has a number that was perhaps used before, by another holder.
    truth.shared.newest = truth.shared.rows.fence;
    let lost: Vec<JobId> = old.jobs.keys().copied().filter(|job| !truth.disk.is_equal(&old, *job)).collect();
    truth.counts.lost_commits += u64::from(!lost.is_empty());
    truth.shared.forgotten.extend(lost);
}
