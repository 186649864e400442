//! From a submit to an exit code: output as it comes, a progress line for a person, Ctrl-C.

use crate::arguments::OutputForm;
use crate::commands::logs::gaps;
use crate::commands::waiting::Waiting;
use crate::exit;
use crate::failure::{self, BROKEN_PIPE, Failure, INTERRUPTED, POOL, TERMINATED};
use crate::terminal;
use crate::terminal::progress::ProgressLine;
use crate::terminal::screen::{Item, Screen};
use buildpool_client::{Client, ClientError, JobEvent, JobEvents, LinkStatus, chain};
use buildpool_digest::TextForm;
use buildpool_protocol::client_link::{StreamChoice, SubmitMessage, View};
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_telemetry::{OpenSpan, SpanKind};
use std::collections::VecDeque;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How often the progress line changes.
const REDRAW_EVERY: Duration = Duration::from_millis(200);
/// Time without the coordinator after which `run` prints a warning.
const MENTION_ABSENCE_AFTER: Duration = Duration::from_secs(3);
/// How long a second Ctrl-C waits for the coordinator to know of the first.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// How long `--output json` waits for the result that fits the budget.
const FIT_WITHIN: Duration = Duration::from_secs(5);

/// A submitted job that is waited for.
pub(super) struct Watch {
    client: Client,
    events: JobEvents,
    job: String,
    /// The pool has accepted the job, so it goes on without this client.
    is_accepted: bool,
    form: OutputForm,
    on_terminal: bool,
    screen: Screen,
    interrupt: Signal,
    terminate: Signal,
    status: watch::Receiver<LinkStatus>,
    /// True after the message that the coordinator is away.
    mentioned: bool,
    /// Waits for room on the screen; no event is taken meanwhile.
    pending: VecDeque<Item>,
    progress: ProgressLine,
    waiting: Waiting,
    cancelling: JoinSet<Result<(), ClientError>>,
    is_cancelled: bool,
    traced: Traced,
}

/// The trace of the call.
pub(super) struct Traced {
    /// Open until the pool accepts the job.
    pub(super) submitting: Option<OpenSpan>,
    /// W3C `traceparent` of the call.
    pub(super) trace: Option<String>,
}

/// How watching ended.
enum Ended {
    Done(Box<JobResult>),
    /// The output can't be written: its reader is gone, or the disk is full.
    Unwritten,
    /// A second Ctrl-C.
    Left,
    /// SIGTERM, as `timeout` and CI runners send it. SIGHUP is not handled: the terminal is gone, and `nohup` ignores it.
    Terminated,
}

impl Watch {
    /// Submits.
    ///
    /// # Errors
    /// When stdout is no open file.
    pub(super) async fn start(
        client: Client,
        submit: SubmitMessage,
        traced: Traced,
        form: OutputForm,
        on_terminal: bool,
    ) -> Result<Self, Failure> {
        let interrupt = signal(SignalKind::interrupt())
            .map_err(|error| Failure::while_doing(POOL, "Ctrl-C can't be listened for", &error))?;
        let terminate = signal(SignalKind::terminate())
            .map_err(|error| Failure::while_doing(POOL, "SIGTERM can't be listened for", &error))?;
        let screen = Screen::start(StreamChoice::Both).map_err(|error| failure::of_stdout(&error))?;
        let job = submit.job.to_string();
        let (events, _feeding) = super::start(&client, submit).await?;
        Ok(Self {
            status: client.status(),
            client,
            events,
            job,
            is_accepted: false,
            form,
            on_terminal,
            screen,
            interrupt,
            terminate,
            mentioned: false,
            pending: VecDeque::new(),
            progress: ProgressLine::new(Instant::now()),
            waiting: Waiting::default(),
            cancelling: JoinSet::new(),
            is_cancelled: false,
            traced,
        })
    }

    /// Waits for the end and gives its exit code.
    ///
    /// # Errors
    /// When the pool refused the job or can't be reached any more.
    pub(super) async fn finish(mut self) -> Result<ExitCode, Failure> {
        let ended = match self.watch().await {
            Ok(ended) => ended,
            Err(failure) if self.is_accepted => return Err(failure.and(&goes_on(&self.job))),
            Err(failure) => return Err(failure),
        };
        match ended {
            Ended::Left => Err(self.leave().await),
            Ended::Terminated => Err(terminated(&goes_on(&self.job))),
            Ended::Unwritten => Err(self.stop_writing().await),
            Ended::Done(result) => self.conclude(&result).await,
        }
    }

    async fn watch(&mut self) -> Result<Ended, Failure> {
        let mut redraw = tokio::time::interval(REDRAW_EVERY);
        redraw.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let started = Instant::now();
        loop {
            tokio::select! {
                biased;
                _ = self.interrupt.recv() => {
                    if self.is_cancelled {
                        return Ok(Ended::Left);
                    }
                    self.cancel();
                }
                _ = self.terminate.recv() => return Ok(Ended::Terminated),
                room = self.screen.room(), if !self.pending.is_empty() => match room {
                    Ok(room) => {
                        if let Some(item) = self.pending.pop_front() {
                            drop(room.send(item));
                        }
                    }
                    Err(_) => return Ok(Ended::Unwritten),
                },
                event = self.events.next(), if self.pending.is_empty() => match event {
                    Some(event) => if let Some(result) = self.take(event)? {
                        return Ok(Ended::Done(result));
                    },
                    None => return Err(ClientError::Closed.into()),
                },
                Some(cancelled) = self.cancelling.join_next() => {
                    if let Ok(Err(error)) = cancelled {
                        self.note(format!("the job can't be cancelled: {}", chain(&error)));
                    }
                }
                _ = self.status.changed() => self.mention_absence(),
                // The first tick comes at once: a short job needs no line.
                _ = redraw.tick(), if self.on_terminal => {
                    if self.pending.is_empty() && started.elapsed() >= REDRAW_EVERY {
                        self.pending.push_back(Item::Progress(self.progress.text(Instant::now())));
                    }
                }
            }
        }
    }

    /// Takes an event; gives the result when it is the last one.
    fn take(&mut self, event: JobEvent) -> Result<Option<Box<JobResult>>, Failure> {
        match event {
            JobEvent::Accepted { job, .. } => {
                self.job = job.to_string();
                self.is_accepted = true;
                if let Some(mut submitting) = self.traced.submitting.take() {
                    submitting.set("cicd.pipeline.run.id", self.job.clone());
                }
            }
            JobEvent::Progress(progress) => {
                let now = Instant::now();
                if !self.on_terminal
                    && let Some(text) = self.waiting.note(&progress, now)
                {
                    self.note(text);
                }
                self.progress.update(progress, now);
            }
            JobEvent::Attempt(attempt) => {
                self.note(format!(
                    "attempt {attempt} begins; `buildpool job {}` has the reason why the previous attempt did not count",
                    self.job
                ));
            }
            JobEvent::Output(output) => {
                let notes = gaps(&output);
                self.pending.push_back(Item::Output(output));
                self.pending.extend(notes.into_iter().map(Item::Note));
            }
            JobEvent::OutputLost(error) => {
                self.note(format!("the rest of the output can't be shown: {error}"));
            }
            JobEvent::End(_) => {}
            JobEvent::Complete(result) => return Ok(Some(result)),
            JobEvent::Failed(error) => return Err(error.into()),
        }
        Ok(None)
    }

    fn cancel(&mut self) {
        self.note(format!("cancelling job {}; Ctrl-C again leaves without waiting for its end", self.job));
        self.send_cancel("Ctrl-C");
    }

    fn send_cancel(&mut self, reason: &'static str) {
        self.is_cancelled = true;
        let (client, job) = (self.client.clone(), self.job.clone());
        self.cancelling.spawn(async move { client.cancel(&job, reason).await.map(drop) });
    }

    /// Returns the state of the job after the coordinator has received the cancel.
    async fn cancelled(&mut self) -> String {
        let cancelled = async {
            while let Some(cancelled) = self.cancelling.join_next().await {
                if !matches!(cancelled, Ok(Ok(()))) {
                    return false;
                }
            }
            true
        };
        let job = &self.job;
        match tokio::time::timeout(LEAVE_WITHIN, cancelled).await {
            Ok(true) => format!("job {job} is being cancelled"),
            Ok(false) | Err(_) => {
                format!("the coordinator does not answer, so job {job} may go on: `buildpool cancel {job}`")
            }
        }
    }

    /// Prints the state of the job of a client that leaves.
    async fn leave(&mut self) -> Failure {
        let cancelled = self.cancelled().await;
        Failure::new(INTERRUPTED, format!("leaving; {cancelled}"))
    }

    /// Cancels the job because its output can't be written, as for `| head`: a local command ends then too.
    async fn stop_writing(mut self) -> Failure {
        self.send_cancel("its output can't be written any more");
        let cancelled = self.cancelled().await;
        match self.screen.finish().await {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                failure::of_stdout(&error).and(&cancelled)
            }
            Ok(()) | Err(_) => {
                Failure::new(BROKEN_PIPE, format!("the reader of the output is gone; {cancelled}"))
            }
        }
    }

    fn mention_absence(&mut self) {
        let text = match &*self.status.borrow_and_update() {
            LinkStatus::Reconnecting { since, error }
                if !self.mentioned && since.elapsed() > MENTION_ABSENCE_AFTER =>
            {
                self.mentioned = true;
                format!("{}; trying again, the job is not affected", chain(error))
            }
            LinkStatus::Connected if self.mentioned => {
                self.mentioned = false;
                "the coordinator can be reached again".to_owned()
            }
            LinkStatus::Reconnecting { .. } | LinkStatus::Connected | LinkStatus::Idle => return,
        };
        self.note(text);
    }

    fn note(&mut self, text: String) {
        self.pending.push_back(Item::Note(format!("buildpool: {text}")));
    }

    /// Writes the rest of the output, then the digest or the result if the form includes one.
    async fn conclude(mut self, result: &JobResult) -> Result<ExitCode, Failure> {
        let mut answer = OpenSpan::begin("answer", SpanKind::Internal, self.traced.trace.as_deref());
        answer.set("buildpool.verdict", result.verdict.map_or("", Verdict::name));
        answer.set("process.exit.code", i64::from(exit::code(result)));
        if self.form == OutputForm::Stream {
            if self.on_terminal {
                // The output is on the terminal already.
                let form = TextForm { output: false, ..TextForm::default() };
                let text = buildpool_digest::text_as(result, &form);
                let is_colourful = terminal::is_colourful(&std::io::stderr());
                let text = terminal::paint_verdict(text.trim_end(), result.verdict, is_colourful);
                self.pending.push_back(Item::Note(text));
            } else {
                for text in exit::warnings(result) {
                    self.note(text);
                }
            }
        }
        let mut items = std::mem::take(&mut self.pending);
        let finished = async {
            while let Some(item) = items.pop_front() {
                if !self.screen.write(item).await {
                    break;
                }
            }
            self.screen.finish().await
        };
        // A client that does not read the output can still leave.
        let finished = tokio::select! {
            finished = finished => finished,
            _ = self.interrupt.recv() => return Ok(ExitCode::from(exit::code(result))),
            _ = self.terminate.recv() => return Ok(ExitCode::from(exit::code(result))),
        };
        finished.map_err(|error| failure::of_stdout(&error))?;
        match self.form {
            OutputForm::Stream => {}
            OutputForm::Digest => terminal::print(&buildpool_digest::text(result))?,
            OutputForm::Json => {
                let view = View { for_json: true, ..View::default() };
                let fitted = self.client.job(&result.job_id, view, Duration::ZERO);
                // The result at hand is longer, and as good.
                let fitted = tokio::time::timeout(FIT_WITHIN, fitted).await.ok().and_then(Result::ok);
                terminal::print_json(&fitted.as_ref().unwrap_or(result).to_json())?;
            }
        }
        Ok(ExitCode::from(exit::code(result)))
    }
}

/// Exit of a client that received a signal. Its jobs go on.
pub(super) fn terminated(goes_on: &str) -> Failure {
    Failure::new(TERMINATED, format!("ended by SIGTERM; {goes_on}"))
}

/// Returns the note for a client that can't continue: the job's state and the command that finds it.
fn goes_on(job: &str) -> String {
    format!(
        "job {job} is not affected unless its token was revoked: `buildpool logs -f {job}` attaches to its output again, `buildpool wait {job}` to its end"
    )
}
