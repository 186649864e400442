//! State of `buildpool top`, without I/O and clock: the lists, the selected rows, and the action of
//! each key.

mod lists;
mod log;
#[cfg(test)]
mod tests;
pub(crate) mod view;

pub(crate) use log::Log;

use crate::terminal::one_line;
use buildpool_protocol::client_link::{JobSummary, WorkerSummary};
use buildpool_protocol::report::JobState;
use jiff::Timestamp;
use lists::{Row, Selection};
use std::collections::BTreeMap;

/// Maximum length of a filter, in characters.
const FILTER_MAX: usize = 100;

/// A key, independent of the terminal library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Next,
    Previous,
    Enter,
    Escape,
    Backspace,
    Char(char),
    /// Ctrl-C.
    Interrupt,
}

/// A request to the shell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Quit,
    Cancel {
        job: String,
    },
    /// Drains a worker, or resumes it.
    Drain {
        worker: String,
        draining: bool,
    },
    /// Follows the log of a job, until the log is closed.
    OpenLog {
        job: String,
    },
    CloseLog,
}

/// A list on the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Panel {
    Workers,
    Running,
    Queue,
    Failed,
}

impl Panel {
    pub(crate) const ALL: [Self; 4] = [Self::Workers, Self::Running, Self::Queue, Self::Failed];

    const fn index(self) -> usize {
        self as usize
    }
}

/// State of the pool at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    pub(crate) jobs: Vec<JobSummary>,
    pub(crate) workers: Vec<WorkerSummary>,
    /// Last line of the output of running jobs, by job id.
    pub(crate) last_lines: BTreeMap<String, String>,
    /// True if the pool has more jobs than it lists.
    pub(crate) is_cut: bool,
}

/// Connection to the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// The first lists have not arrived.
    Loading,
    Live,
    Lost {
        secs: u64,
        reason: String,
    },
}

/// Interpretation of keys.
#[derive(Debug)]
enum Mode {
    Lists,
    Filter,
    Help,
    /// Waits for the confirmation of an action.
    Confirm {
        action: Action,
        question: String,
    },
    Log(Log),
}

/// State of the program.
#[derive(Debug)]
pub(crate) struct Top {
    pool: String,
    lists: Lists,
    link: Link,
    now: Timestamp,
    focus: Panel,
    selected: [Selection; 4],
    filter: String,
    mode: Mode,
    /// One line about the last action, until the next key.
    notice: Option<String>,
    columns: u16,
    rows: u16,
}

impl Top {
    /// Returns the state before the first lists. `pool` names the pool.
    pub(crate) fn new(pool: &str, now: Timestamp) -> Self {
        Self {
            pool: one_line(pool),
            lists: Lists::default(),
            link: Link::Loading,
            now,
            focus: Panel::Running,
            selected: Default::default(),
            filter: String::new(),
            mode: Mode::Lists,
            notice: None,
            columns: 80,
            rows: 24,
        }
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        (self.columns, self.rows) = (columns, rows);
    }

    pub(crate) fn tick(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Sets the state of the connection. Before the first lists, a connection is still loading.
    pub(crate) fn connect(&mut self, link: Link) {
        if link != Link::Live || self.link != Link::Loading {
            self.link = link;
        }
    }

    /// Replaces the lists. The selection stays on the same job or worker.
    pub(crate) fn update(&mut self, mut lists: Lists) {
        lists::sort(&mut lists);
        self.lists = lists;
        if self.link == Link::Loading {
            self.link = Link::Live;
        }
        self.settle();
    }

    /// Shows a line about an action.
    pub(crate) fn notify(&mut self, text: &str) {
        self.notice = Some(one_line(text));
    }

    /// Returns the opened log.
    pub(crate) fn log(&mut self) -> Option<&mut Log> {
        match &mut self.mode {
            Mode::Log(log) => Some(log),
            Mode::Lists | Mode::Filter | Mode::Help | Mode::Confirm { .. } => None,
        }
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: Key) -> Option<Action> {
        self.notice = None;
        if key == Key::Interrupt {
            return Some(Action::Quit);
        }
        match &mut self.mode {
            Mode::Lists => self.key_of_lists(key),
            Mode::Filter => {
                self.key_of_filter(key);
                None
            }
            Mode::Help => {
                self.mode = Mode::Lists;
                None
            }
            Mode::Confirm { action, .. } => {
                let action = action.clone();
                self.mode = Mode::Lists;
                matches!(key, Key::Char('y' | 'Y')).then_some(action)
            }
            Mode::Log(log) => {
                if matches!(key, Key::Escape | Key::Char('q')) {
                    self.mode = Mode::Lists;
                    return Some(Action::CloseLog);
                }
                log.key(key, view::log_rows(self.rows));
                None
            }
        }
    }

    fn key_of_lists(&mut self, key: Key) -> Option<Action> {
        let page = isize::try_from(self.rows / 4).unwrap_or(1).max(1);
        match key {
            Key::Char('q') => return Some(Action::Quit),
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('c') => self.ask_cancel(),
            Key::Char('d') => self.ask_drain(),
            Key::Escape => self.set_filter(String::new()),
            Key::Next | Key::Right | Key::Char('l') => self.turn(1),
            Key::Previous | Key::Left => self.turn(Panel::ALL.len() - 1),
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::PageUp => self.step(-page),
            Key::PageDown => self.step(page),
            Key::Home | Key::Char('g') => self.step(isize::MIN),
            Key::End | Key::Char('G') => self.step(isize::MAX),
            Key::Enter => return self.open_log(),
            Key::Backspace | Key::Char(_) | Key::Interrupt => {}
        }
        None
    }

    fn key_of_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.mode = Mode::Lists,
            Key::Escape => {
                self.mode = Mode::Lists;
                self.set_filter(String::new());
            }
            Key::Backspace => {
                let mut filter = self.filter.clone();
                filter.pop();
                self.set_filter(filter);
            }
            Key::Char(c) if self.filter.chars().count() < FILTER_MAX => {
                self.set_filter(format!("{}{c}", self.filter));
            }
            Key::Up => self.step(-1),
            Key::Down => self.step(1),
            _ => {}
        }
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.settle();
    }

    /// Moves the focus to another list.
    fn turn(&mut self, by: usize) {
        self.focus = Panel::ALL[(self.focus.index() + by) % Panel::ALL.len()];
    }

    fn step(&mut self, by: isize) {
        let rows = self.rows_of(self.focus);
        self.selected[self.focus.index()].step(&rows, by);
    }

    /// Keeps each selection within its list.
    fn settle(&mut self) {
        for panel in Panel::ALL {
            let rows = self.rows_of(panel);
            self.selected[panel.index()].step(&rows, 0);
        }
    }

    fn rows_of(&self, panel: Panel) -> Vec<Row> {
        lists::rows(&self.lists, panel, &self.filter, self.now)
    }

    fn selected_key(&self) -> Option<&str> {
        self.selected[self.focus.index()].key()
    }

    fn selected_worker(&self) -> Option<&WorkerSummary> {
        let id = self.selected_key().filter(|_| self.focus == Panel::Workers)?;
        self.lists.workers.iter().find(|worker| worker.worker_id == id)
    }

    fn selected_job(&self) -> Option<&JobSummary> {
        // A worker stands for its job.
        let id = match self.focus {
            Panel::Workers => self.selected_worker()?.jobs.first()?,
            Panel::Running | Panel::Queue | Panel::Failed => self.selected_key()?,
        };
        self.lists.jobs.iter().find(|job| job.job_id == *id)
    }

    fn open_log(&mut self) -> Option<Action> {
        let Some(job) = self.selected_job() else {
            self.notify("there is no job in this row");
            return None;
        };
        let action = Action::OpenLog { job: job.job_id.clone() };
        self.mode = Mode::Log(Log::new(&job.job_id, &job.command));
        Some(action)
    }

    fn ask_cancel(&mut self) {
        match self.selected_job() {
            Some(job) if job.state != JobState::Done => {
                let question = format!("cancel job {} ({})?", lists::short(job), one_line(&job.command));
                let action = Action::Cancel { job: job.job_id.clone() };
                self.mode = Mode::Confirm { action, question };
            }
            Some(_) => self.notify("this job is done already"),
            None => self.notify("there is no job in this row"),
        }
    }

    fn ask_drain(&mut self) {
        let Some(worker) = self.selected_worker() else {
            self.notify("select a worker: Tab moves to the list of workers");
            return;
        };
        let draining = !worker.draining;
        let name = one_line(&worker.name);
        let question = if draining {
            format!("drain worker {name}, so that it takes no more jobs?")
        } else {
            format!("resume worker {name}?")
        };
        let action = Action::Drain { worker: worker.worker_id.clone(), draining };
        self.mode = Mode::Confirm { action, question };
    }
}
