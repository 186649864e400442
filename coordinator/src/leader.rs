//! One leader among the coordinators that share a PostgreSQL server.
//!
//! [`election`] decides. This module sends the questions to the server and reads the clock. A coordinator that has led once starts over
//! with a new [`Candidate`]: its fence never changes.

pub mod election;
mod outage;
#[cfg(test)]
mod simulation;

use crate::store::sql::server::{Fence, Session};
use crate::store::sql::{Error, Result, Value};
use crate::store::{RECORDS, Server, StoreError};
use election::{Action, Answer, Election, Question};
use outage::Outage;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot, watch};
use uuid::Uuid;

/// The part of a coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// It does not lead.
    Standby {
        /// URL of the leader, if known.
        leader: Option<String>,
        /// The leader has not renewed its lease for so long that it may be lost.
        is_overdue: bool,
    },
    /// It leads.
    Leader,
    /// It has led.
    Replaced,
}

/// Facts about a candidacy. The [`Candidate`] writes them, and each [`Leadership`] reads them.
struct Facts {
    /// URL at which others reach this coordinator.
    url: String,
    started: Instant,
    /// Nanoseconds after `started` until which it may act as the leader.
    until: AtomicU64,
    resigned: Notify,
    /// Whether the server answered the last question. `None` before the end of the first one.
    answered: Mutex<Option<bool>>,
    epoch: AtomicI64,
    /// Nanoseconds after `started` at which the lease was claimed or renewed last.
    renewed: AtomicU64,
}

impl Facts {
    fn new(url: String, gate: &Gate) -> Self {
        Self {
            url,
            started: Instant::now(),
            until: AtomicU64::default(),
            resigned: Notify::default(),
            // The server is the probable reason for the end of the earlier run. Until it answers, peers must not wait for it.
            answered: Mutex::new(gate.has_ended.is_some().then_some(false)),
            epoch: AtomicI64::default(),
            renewed: AtomicU64::default(),
        }
    }
}

/// The part of this coordinator, kept up to date by a task. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Leadership {
    part: watch::Receiver<Part>,
    facts: Arc<Facts>,
}

impl Leadership {
    /// Returns the URL at which others reach this coordinator.
    pub(crate) fn url(&self) -> &str {
        &self.facts.url
    }

    /// Returns the number of this leadership. 0 if it does not lead.
    pub(crate) fn epoch(&self) -> i64 {
        self.facts.epoch.load(Ordering::Relaxed)
    }

    /// Returns the time since the lease was claimed or renewed.
    pub(crate) fn lease_age(&self) -> Duration {
        self.facts
            .started
            .elapsed()
            .saturating_sub(Duration::from_nanos(self.facts.renewed.load(Ordering::Relaxed)))
    }

    /// Returns true if the PostgreSQL server answered the last question about the lease.
    pub(crate) fn server_answers(&self) -> bool {
        self.answered() == Some(true)
    }

    /// Returns true if the PostgreSQL server did not answer the last question about the lease.
    pub(crate) fn server_fails(&self) -> bool {
        self.answered() == Some(false)
    }

    fn answered(&self) -> Option<bool> {
        *self.facts.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if this coordinator may act as the leader now.
    pub(crate) fn holds(&self) -> bool {
        self.facts.started.elapsed() < Duration::from_nanos(self.facts.until.load(Ordering::Acquire))
    }

    /// Returns a receiver of the part.
    pub(crate) fn part(&self) -> watch::Receiver<Part> {
        self.part.clone()
    }

    /// Waits until this coordinator leads.
    pub(crate) async fn won(&self) {
        self.becomes(&Part::Leader).await;
    }

    /// Waits until this coordinator does not lead any more.
    pub(crate) async fn lost(&self) {
        self.becomes(&Part::Replaced).await;
    }

    async fn becomes(&self, wanted: &Part) {
        let mut part = self.part.clone();
        // An error means that the task has ended with its runtime.
        let _ended = part.wait_for(|part| part == wanted).await;
    }

    /// Gives the lease back, so that another coordinator can lead at once.
    pub(crate) async fn resign(&self) {
        self.abandon();
        self.lost().await;
    }

    /// As [`Leadership::resign`], without waiting for the end.
    pub(crate) fn abandon(&self) {
        self.facts.resigned.notify_one();
    }
}

/// Waits until a coordinator that shares its records is not the leader any more.
pub(crate) async fn lost(leadership: Option<&Leadership>) {
    match leadership {
        Some(leadership) => leadership.lost().await,
        None => std::future::pending().await,
    }
}

/// Conditions for a coordinator to claim the lease. Before they are met, it only looks for the leader.
#[derive(Clone, Default, Debug)]
pub(crate) struct Gate {
    /// True when the earlier run of this process has ended. `None` without an earlier run.
    pub(crate) has_ended: Option<Arc<AtomicBool>>,
    pub(crate) not_before: Option<Instant>,
}

impl Gate {
    fn is_open(&self) -> bool {
        self.has_ended.as_ref().is_none_or(|ended| ended.load(Ordering::Acquire))
            && self.not_before.is_none_or(|at| at <= Instant::now())
    }
}

/// A coordinator that may become the leader.
pub(crate) struct Candidate {
    server: Server,
    gate: Gate,
    tasks: mpsc::Sender<Task>,
    holder: String,
    lease: Duration,
    election: Election,
    part: watch::Sender<Part>,
    facts: Arc<Facts>,
    outage: Arc<Mutex<Outage>>,
}

impl Candidate {
    /// Starts the thread that competes for the lease, and then renews it. It also waits for a server that can't be reached.
    /// It ends with the last [`Leadership`].
    ///
    /// # Errors
    /// If the thread can't be started.
    pub(crate) fn start(
        server: &Server,
        url: String,
        lease: Duration,
        gate: Gate,
    ) -> std::io::Result<Leadership> {
        let candidate = Self {
            server: server.clone(),
            facts: Arc::new(Facts::new(url, &gate)),
            gate,
            tasks: lease_thread(server.session())?,
            holder: Uuid::now_v7().to_string(),
            lease,
            election: Election::new(lease),
            part: watch::Sender::new(Part::Standby { leader: None, is_overdue: false }),
            outage: Arc::default(),
        };
        let leadership = Leadership { part: candidate.part.subscribe(), facts: candidate.facts.clone() };
        // Busy threads of the caller's runtime must not delay the end of a leadership.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new().name("leader".into()).spawn(move || runtime.block_on(candidate.run()))?;
        Ok(leadership)
    }

    async fn run(mut self) {
        let mut asking: Option<oneshot::Receiver<Answer>> = None;
        loop {
            while let Some(action) = self.election.poll(self.facts.started.elapsed()) {
                match action {
                    Action::Ask(question) => asking = Some(self.ask(question)),
                    Action::Lead { epoch } => {
                        tracing::info!(epoch, "this coordinator is the leader");
                        self.server.set_fence(Fence { epoch, holder: self.holder.clone() });
                        self.part.send_replace(Part::Leader);
                    }
                    Action::StepDown => {
                        tracing::warn!("this coordinator is not the leader any more");
                        return self.end();
                    }
                }
            }
            let until = self.election.until().unwrap_or_default();
            self.facts.until.store(u64::try_from(until.as_nanos()).unwrap_or(0), Ordering::Release);
            let deadline = self.election.next_deadline().map(|at| self.facts.started + at);
            let sleep = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            let answer = async {
                match &mut asking {
                    Some(asking) => asking.await.unwrap_or(Answer::Failed),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => {}
                answer = answer => {
                    asking = None;
                    let answered = Some(!matches!(answer, Answer::Failed));
                    *self.facts.answered.lock().unwrap_or_else(PoisonError::into_inner) = answered;
                    if let Answer::Held { epoch } = answer {
                        let now = u64::try_from(self.facts.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                        self.facts.epoch.store(epoch, Ordering::Relaxed);
                        self.facts.renewed.store(now, Ordering::Relaxed);
                    }
                    self.election.answered(self.facts.started.elapsed(), answer);
                    self.note_leader();
                }
                // The coordinator has ended.
                () = self.part.closed() => return self.end(),
                () = self.facts.resigned.notified() => {
                    if let Some(asking) = asking.take() {
                        // The lease must not be renewed after it was given back.
                        let _answer = asking.await;
                    }
                    if self.election.until().is_some() {
                        let _failed = self.blocking(|session, holder, _, _| give_back(session, holder)).await;
                    }
                    return self.end();
                }
            }
        }
    }

    fn note_leader(&self) {
        // Before the lease of its own earlier start has run out, the row has this coordinator's URL.
        let leader = self.election.leader().filter(|leader| *leader != self.facts.url).map(str::to_owned);
        let new = Part::Standby { leader, is_overdue: self.election.is_overdue() };
        self.part.send_if_modified(|part| {
            let changes = matches!(part, Part::Standby { .. }) && *part != new;
            if changes {
                *part = new;
            }
            changes
        });
    }

    fn end(self) {
        self.facts.until.store(0, Ordering::Release);
        self.part.send_replace(Part::Replaced);
    }

    fn ask(&self, question: Question) -> oneshot::Receiver<Answer> {
        let (server, outage) = (self.server.clone(), self.outage.clone());
        let may_claim = self.gate.is_open();
        self.blocking(move |session, holder, url, lease| {
            let note = |error: &(dyn std::error::Error + 'static)| {
                if outage.lock().unwrap_or_else(PoisonError::into_inner).failed(Instant::now()) {
                    tracing::warn!(error, "the lease in PostgreSQL can't be read or written; trying again");
                }
                Answer::Failed
            };
            let answer = match question {
                Question::Claim if !may_claim => {
                    present(session).map(|(url, left)| Answer::Other { url, left })
                }
                Question::Claim => match free_lease(session, &server) {
                    Ok(None) => claim(session, holder, url, lease),
                    Ok(Some((url, left))) => Ok(Answer::Other { url, left }),
                    Err(error) => return note(&error),
                },
                Question::Renew { epoch } => renew(session, holder, lease).map(|held| match held {
                    true => Answer::Held { epoch },
                    false => Answer::Other { url: String::new(), left: Duration::ZERO },
                }),
            };
            let answer = match answer {
                Err(Error::Fenced) => Answer::Other { url: String::new(), left: Duration::ZERO },
                Err(error) => return note(&error),
                Ok(answer) => answer,
            };
            if let Some(outage) = outage.lock().unwrap_or_else(PoisonError::into_inner).ended(Instant::now())
            {
                tracing::info!(seconds = outage.as_secs(), "PostgreSQL answers again");
            }
            answer
        })
    }

    /// Acts on the thread of the lease.
    fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Session, &str, &str, Duration) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (holder, url, lease) = (self.holder.clone(), self.facts.url.clone(), self.lease);
        let (answer, receiver) = oneshot::channel();
        let task: Task = Box::new(move |session| drop(answer.send(act(session, &holder, &url, lease))));
        // An error means that the thread has ended. The receiver gets an error too.
        drop(self.tasks.send(task));
        receiver
    }
}

type Task = Box<dyn FnOnce(&Session) + Send>;

/// Starts the thread of the lease. Blocking tasks of others must not delay a renewal, so it does not belong to the runtime.
/// It ends when the sender is dropped.
fn lease_thread(session: Session) -> std::io::Result<mpsc::Sender<Task>> {
    let (tasks, queue) = mpsc::channel::<Task>();
    std::thread::Builder::new().name("lease".into()).spawn(move || {
        for task in queue {
            task(&session);
        }
    })?;
    Ok(tasks)
}

/// URL of the leader, and the time until the end of its lease.
type Held = (String, Duration);

/// Milliseconds until the end of the lease, for a list of columns.
const LEFT: &str =
    "CAST(EXTRACT(EPOCH FROM GREATEST(expires_at, clock_timestamp()) - clock_timestamp()) * 1000 AS BIGINT)";

/// Returns the leader, or brings the tables to the newest format if no lease is valid: only the next leader may change
/// them.
fn free_lease(session: &Session, server: &Server) -> std::result::Result<Option<Held>, StoreError> {
    let sql = format!("SELECT url, {LEFT} FROM lease WHERE expires_at >= clock_timestamp()");
    // There is no table before the first start.
    let rows = session.query(&sql, &[]).unwrap_or_default();
    match rows.first().map(held).transpose() {
        Ok(Some(leader)) => Ok(Some(leader)),
        Ok(None) | Err(_) => server.migrate(RECORDS.name, &RECORDS).map(|()| None),
    }
}

fn held(row: &tokio_postgres::Row) -> Result<Held> {
    let left: i64 = row.try_get(1).map_err(Error::Server)?;
    Ok((row.try_get(0).map_err(Error::Server)?, Duration::from_millis(u64::try_from(left).unwrap_or(0))))
}

/// Claims the lease if it has run out by the server's clock.
fn claim(session: &Session, holder: &str, url: &str, lease: Duration) -> Result<Answer> {
    let sql = "UPDATE lease SET epoch = epoch + 1, holder = ?1, url = ?2,
                   expires_at = clock_timestamp() + CAST(?3 AS BIGINT) * interval '1 millisecond'
               WHERE expires_at < clock_timestamp() RETURNING epoch";
    let values = [Value::Text(holder), Value::Text(url), milliseconds(lease)];
    if let Some(row) = session.query(sql, &values)?.first() {
        return Ok(Answer::Held { epoch: row.try_get(0).map_err(Error::Server)? });
    }
    let (url, left) = present(session)?;
    Ok(Answer::Other { url, left })
}

/// Returns the last leader.
fn present(session: &Session) -> Result<Held> {
    let rows = session.query(&format!("SELECT url, {LEFT} FROM lease"), &[])?;
    Ok(rows.first().map(held).transpose()?.unwrap_or_default())
}

/// Renews the lease. The fence of the session makes sure that it still belongs to this leadership.
fn renew(session: &Session, holder: &str, lease: Duration) -> Result<bool> {
    let sql =
        "UPDATE lease SET expires_at = clock_timestamp() + CAST(?2 AS BIGINT) * interval '1 millisecond'
               WHERE holder = ?1";
    session.execute(sql, &[Value::Text(holder), milliseconds(lease)]).map(|changed| changed > 0)
}

fn give_back(session: &Session, holder: &str) -> Result<()> {
    let sql = "UPDATE lease SET expires_at = '-infinity' WHERE holder = ?1";
    session.execute(sql, &[Value::Text(holder)]).map(drop)
}

fn milliseconds(duration: Duration) -> Value<'static> {
    Value::Integer(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
