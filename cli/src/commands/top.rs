//! `buildpool top`: the terminal, the requests and the clock around the state in [`crate::top`].

use crate::arguments::TopArguments;
use crate::failure::{Failure, POOL, TERMINATED, USAGE};
use crate::settings;
use crate::top::{Action, Key, Link, Lists, Top, view};
use buildpool_client::{Client, ClientError, FollowQuery, JobEvent, LinkStatus, chain};
use buildpool_protocol::client_link::{JobQuery, JobSummary, LogQuery, StreamChoice};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobState;
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Interval between two requests for the lists.
const REFRESH_EVERY: Duration = Duration::from_secs(2);
/// Interval at which times on the screen change without news.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which the thread of the keys checks whether the program ends.
const KEYS_WITHIN: Duration = Duration::from_millis(250);
/// Maximum number of listed jobs of each kind.
const JOBS_MAX: u32 = 200;
/// Maximum number of running jobs whose last line is read at each refresh. More jobs take turns.
const LAST_LINES_MAX: usize = 10;
/// Number of lines read to find the last one that is not empty.
const LAST_LINES: u64 = 3;
/// Limit on the characters of an answer about last lines.
const LAST_CHARACTERS: usize = 1_000;
/// Number of lines before the end at which a log opens.
const LOG_TAIL: u64 = 1_000;
/// Capacity of the queue of news. A full queue delays the sender.
const UPDATES_MAX: usize = 16;
/// Maximum number of news handled before the screen is drawn again.
const NEWS_PER_DRAW: usize = 64;

/// A message to the main loop.
enum Update {
    Lists(Box<Lists>),
    /// The lists could not be read.
    Lost(String),
    /// Result of an action, or an error.
    Notice(String),
    Log {
        job: String,
        part: LogPart,
    },
}

enum LogPart {
    Output(Stream, Vec<u8>),
    Note(String),
    End(String),
}

pub(crate) fn run(arguments: &TopArguments) -> Result<ExitCode, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let text =
            "top needs a terminal; for a script, use `buildpool jobs --json` and `buildpool workers --json`";
        return Err(Failure::new(USAGE, text));
    }
    super::block_on(async {
        let client = settings::connect_to_running(&arguments.pool).await?;
        let pool = settings::choose(&arguments.pool)?.name();
        let fail = |error: io::Error| Failure::while_doing(POOL, "the terminal can't be used", &error);
        let mut screen = AlternateScreen::enter().map_err(fail)?;
        Session::new(client, &pool).run(&mut screen).await.map_err(fail)
    })
}

/// The terminal in raw mode with the alternate screen. It is restored on drop, and before the
/// message of a panic.
struct AlternateScreen(DefaultTerminal);

impl AlternateScreen {
    fn enter() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        // An error means that the terminal is gone.
        let _ = self.0.show_cursor();
        // After a panic, the hook has restored the terminal. A second change of the screen would
        // move the cursor into the message.
        if !std::thread::panicking() {
            let _ = ratatui::try_restore();
        }
    }
}

struct Session {
    client: Client,
    top: Top,
    sender: mpsc::Sender<Update>,
    updates: mpsc::Receiver<Update>,
    /// Follows the opened log.
    following: Option<JoinHandle<()>>,
    /// Time of the first request that failed since the last answer, and the newest error.
    lost: Option<(Instant, String)>,
}

impl Session {
    fn new(client: Client, pool: &str) -> Self {
        let (sender, updates) = mpsc::channel(UPDATES_MAX);
        Self { client, top: Top::new(pool, Timestamp::now()), sender, updates, following: None, lost: None }
    }

    async fn run(mut self, screen: &mut AlternateScreen) -> io::Result<ExitCode> {
        let mut events = events()?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut status = self.client.status();
        let refreshing = tokio::spawn(refresh(self.client.clone(), self.sender.clone()));
        let mut tick = tokio::time::interval(TICK);
        let size = screen.0.size()?;
        self.top.resize(size.width, size.height);
        let code = loop {
            self.top.tick(Timestamp::now());
            self.top.connect(self.link(&status.borrow()));
            screen.0.draw(|frame| view::draw(&self.top, frame))?;
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => if self.handle(event) == Some(Action::Quit) {
                        break ExitCode::SUCCESS;
                    },
                    // The terminal is closed.
                    None => break ExitCode::SUCCESS,
                },
                Some(update) = self.updates.recv() => self.take(update),
                _ = status.changed() => {}
                _ = tick.tick() => {}
                _ = interrupt.recv() => break ExitCode::SUCCESS,
                _ = terminate.recv() => break ExitCode::from(TERMINATED),
                _ = hangup.recv() => break ExitCode::SUCCESS,
            }
        };
        refreshing.abort();
        self.close_log();
        Ok(code)
    }

    /// Returns the state of the connection. A broken connection without a request is idle, and its
    /// next request fails.
    fn link(&self, status: &LinkStatus) -> Link {
        let lost = match (status, &self.lost) {
            (LinkStatus::Reconnecting { since, error }, _) => Some((*since, chain(error))),
            (LinkStatus::Connected | LinkStatus::Idle, lost) => lost.clone(),
        };
        lost.map_or(Link::Live, |(since, reason)| Link::Lost { secs: since.elapsed().as_secs(), reason })
    }

    /// Handles an event of the terminal. Returns the action if it is for the caller.
    fn handle(&mut self, event: Event) -> Option<Action> {
        match event {
            Event::Resize(columns, rows) => {
                self.top.resize(columns, rows);
                None
            }
            Event::Key(event) => {
                let action = self.top.key(key(event)?)?;
                self.act(action)
            }
            _ => None,
        }
    }

    fn act(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::Quit => return Some(action),
            Action::CloseLog => self.close_log(),
            Action::OpenLog { job } => {
                self.close_log();
                self.following = Some(tokio::spawn(follow(self.client.clone(), job, self.sender.clone())));
            }
            Action::Cancel { job } => {
                let client = self.client.clone();
                self.request(
                    async move { client.cancel(&job, "buildpool top").await.map(drop) },
                    "the job is being cancelled",
                );
            }
            Action::Drain { worker, draining } => {
                let client = self.client.clone();
                let done = if draining { "the worker is draining" } else { "the worker resumes" };
                self.request(async move { client.drain(&worker, draining, None).await.map(drop) }, done);
            }
        }
        None
    }

    /// Sends a request, and shows its result.
    fn request(
        &self,
        request: impl Future<Output = Result<(), ClientError>> + Send + 'static,
        done: &'static str,
    ) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let text = request.await.map_or_else(|error| chain(&error), |()| done.to_owned());
            // The receiver is closed only at the end of the program.
            let _ = sender.send(Update::Notice(text)).await;
        });
    }

    fn close_log(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
        }
    }

    /// Takes one of the news, and those that have arrived since.
    fn take(&mut self, first: Update) {
        self.apply(first);
        for _ in 1..NEWS_PER_DRAW {
            let Ok(update) = self.updates.try_recv() else { return };
            self.apply(update);
        }
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Lists(lists) => {
                self.lost = None;
                self.top.update(*lists);
            }
            Update::Lost(reason) => {
                let since = self.lost.take().map_or_else(Instant::now, |(since, _)| since);
                self.lost = Some((since, reason));
            }
            Update::Notice(text) => self.top.notify(&text),
            Update::Log { job, part } => {
                // Output of a log that was closed meanwhile is dropped.
                let Some(log) = self.top.log().filter(|log| log.job() == job) else { return };
                match part {
                    LogPart::Output(stream, bytes) => log.push(stream, &bytes),
                    LogPart::Note(text) => log.note(&text),
                    LogPart::End(reason) => log.end(&reason),
                }
            }
        }
    }
}

/// Starts the thread that reads keys and changes of the size.
fn events() -> io::Result<mpsc::Receiver<Event>> {
    let (sender, receiver) = mpsc::channel(UPDATES_MAX);
    std::thread::Builder::new().name("keys".into()).spawn(move || {
        while !sender.is_closed() {
            let event = match event::poll(KEYS_WITHIN) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            // An error means that the terminal is closed.
            let Ok(event) = event else { return };
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let with_control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char('c') if with_control => Key::Interrupt,
        KeyCode::Char(_) if with_control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Next,
        KeyCode::BackTab => Key::Previous,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

/// Reads the lists at a fixed interval, until the receiver is closed.
async fn refresh(client: Client, sender: mpsc::Sender<Update>) {
    let mut last_lines = BTreeMap::new();
    for turn in 0.. {
        let update = match read(&client, &mut last_lines, turn).await {
            Ok(lists) => Update::Lists(Box::new(lists)),
            Err(error) => Update::Lost(chain(&error)),
        };
        if sender.send(update).await.is_err() {
            return;
        }
        // The client link sends no news of jobs that this command did not submit.
        tokio::time::sleep(REFRESH_EVERY).await;
    }
}

async fn read(
    client: &Client,
    last_lines: &mut BTreeMap<String, String>,
    turn: usize,
) -> Result<Lists, ClientError> {
    let workers = client.workers().await?;
    let (jobs, is_cut) = jobs(client).await?;
    let running: Vec<&JobSummary> = jobs.iter().filter(|job| job.state == JobState::Running).collect();
    last_lines.retain(|id, _| running.iter().any(|job| job.job_id == *id));
    let first = (turn * LAST_LINES_MAX).checked_rem(running.len()).unwrap_or(0);
    for job in running.iter().cycle().skip(first).take(running.len().min(LAST_LINES_MAX)) {
        let query = LogQuery {
            job: job.job_id.clone(),
            stream: StreamChoice::Interleaved,
            tail: Some(LAST_LINES),
            characters_max: Some(LAST_CHARACTERS),
            ..LogQuery::default()
        };
        // The log of a job that has just ended or begun may not be readable.
        let Ok(answer) = client.logs(query).await else { continue };
        let text = answer.interleaved.unwrap_or_default();
        if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            last_lines.insert(job.job_id.clone(), line.to_owned());
        }
    }
    Ok(Lists { jobs, workers, last_lines: last_lines.clone(), is_cut })
}

/// Returns the newest jobs and the live ones, each once, and whether there are more.
async fn jobs(client: &Client) -> Result<(Vec<JobSummary>, bool), ClientError> {
    let mut all: Vec<JobSummary> = Vec::new();
    let mut is_cut = false;
    for state in [None, Some(JobState::Running), Some(JobState::Queued)] {
        let query = JobQuery { state, ..JobQuery::default() };
        let found = client.query_jobs(query, JOBS_MAX).await?.jobs;
        is_cut |= found.len() >= JOBS_MAX as usize;
        for job in found {
            // A later answer has the newer state.
            match all.iter_mut().find(|known| known.job_id == job.job_id) {
                Some(known) => *known = job,
                None => all.push(job),
            }
        }
    }
    Ok((all, is_cut))
}

/// Sends the log of a job: its last lines, then its growth.
async fn follow(client: Client, job: String, sender: mpsc::Sender<Update>) {
    let send = async |part| sender.send(Update::Log { job: job.clone(), part }).await.is_ok();
    let query = FollowQuery {
        job: job.clone(),
        tail: Some(LOG_TAIL),
        stream: StreamChoice::Interleaved,
        ..FollowQuery::default()
    };
    let mut events = match client.follow(query).await {
        Ok(events) => events,
        Err(error) => {
            send(LogPart::End(chain(&error))).await;
            return;
        }
    };
    let mut reason = "complete".to_owned();
    while let Some(event) = events.next().await {
        match event {
            JobEvent::Output(output) => {
                for chunk in &output.chunks {
                    let part = match chunk.gap() {
                        Some(gap) => LogPart::Note(format!(
                            "{} bytes are missing here: {}",
                            gap.missing_bytes, gap.reason
                        )),
                        None => LogPart::Output(chunk.header.stream, chunk.data().to_vec()),
                    };
                    if !send(part).await {
                        return;
                    }
                }
            }
            JobEvent::Attempt(attempt) => {
                send(LogPart::Note(format!("attempt {attempt} begins"))).await;
            }
            JobEvent::OutputLost(error) => reason = error.to_string(),
            JobEvent::Failed(error) => reason = chain(&error),
            JobEvent::Accepted { .. } | JobEvent::Progress(_) | JobEvent::End(_) | JobEvent::Complete(_) => {}
        }
    }
    send(LogPart::End(reason)).await;
}

#[cfg(test)]
mod tests {
    use super::AlternateScreen;
    use nix::pty::openpty;
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// Variable that makes the test below panic with the screen entered.
    const PANIC: &str = "BUILDPOOL_TEST_PANIC";

    #[test]
    fn a_screen_that_is_dropped_by_a_panic() {
        if std::env::var_os(PANIC).is_some() {
            let _screen = AlternateScreen::enter().unwrap();
            panic!("with the screen entered");
        }
    }

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        let pair = openpty(None, None).unwrap();
        let stream = || Stdio::from(pair.slave.try_clone().unwrap());
        let before = rustix::termios::tcgetattr(&pair.slave).unwrap().local_modes;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["commands::top::tests::a_screen_that_is_dropped_by_a_panic", "--exact", "--nocapture"]);
        command.env(PANIC, "1").env("TERM", "xterm").env("RUST_BACKTRACE", "0");
        let mut child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        drop(command);
        let mut master = File::from(pair.master);
        let mut written = String::new();
        let mut buffer = [0; 1024];
        while !written.contains("test result: ") {
            let count = master.read(&mut buffer).unwrap();
            written.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        assert!(!child.wait().unwrap().success());
        let at = |text: &str| written.find(text).unwrap_or_else(|| panic!("no {text:?}: {written:?}"));
        let (entered, left) = (at("\x1b[?1049h"), at("\x1b[?1049l"));
        assert!(entered < left && left < at("with the screen entered"), "{written:?}");
        assert_eq!(written.matches("\x1b[?1049l").count(), 1, "{written:?}");
        let after = rustix::termios::tcgetattr(&pair.slave).unwrap().local_modes;
        assert_eq!(after, before, "raw mode");
    }
}
