//! The keeper's main loop: one thread, one poll.

use super::attempt::RunningAttempt;
use super::connection::Connection;
use super::keeper_directory::KeeperDirectory;
use super::messages::{FromKeeper, GENERATION, Run, ToKeeper};
use super::signals::ChildSignal;
use super::stdin::Stdin;
use super::tree::Tree;
use crate::limits::{ATTEMPT_GONE_FOR, OBSERVE_EVERY, POLL_MAX, PROGRESS_EVERY};
use crate::platform::Now;
use crate::supervisor::Input;
use buildpool_protocol::ids::AttemptId;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub(super) struct Keeper {
    directory: KeeperDirectory,
    children: ChildSignal,
    /// True if this process adopts orphans of the tree.
    adopts: bool,
    connection: Option<Connection>,
    attempt: Option<RunningAttempt>,
    /// The command to run after the current setup has passed.
    next: Option<Box<Run>>,
    /// The remaining tree of an ended attempt.
    survivors: Option<Tree>,
    buffer: Vec<u8>,
    progress_at: Duration,
    /// Time of the next check for the attempt's directory.
    look_at: Duration,
    /// Time since the directory is missing.
    gone_since: Option<Duration>,
}

/// Result of a poll.
#[derive(Default)]
struct Ready {
    worker: bool,
    new_connection: bool,
}

impl Keeper {
    pub(super) fn new(
        directory: KeeperDirectory,
        children: ChildSignal,
        adopts: bool,
        worker: Option<UnixStream>,
    ) -> Self {
        let mut keeper = Self {
            directory,
            children,
            adopts,
            connection: None,
            attempt: None,
            next: None,
            survivors: None,
            buffer: Vec::new(),
            progress_at: Duration::ZERO,
            look_at: Duration::ZERO,
            gone_since: None,
        };
        if let Some(stream) = worker {
            keeper.send_hello(stream);
        }
        keeper
    }

    /// Runs until there is neither an attempt nor a worker. If processes of an ended attempt could
    /// not be ended, it accepts no other attempt and exits when they have ended.
    pub(super) fn serve(mut self) -> io::Result<()> {
        while self.survivors.is_none() && (self.attempt.is_some() || self.connection.is_some()) {
            let ready = self.wait()?;
            self.children.clear();
            if ready.new_connection {
                self.accept();
            }
            if ready.worker {
                self.receive();
            }
            let now = Now::read();
            if let Some(attempt) = &mut self.attempt {
                attempt.process_events(now, &mut self.buffer);
            }
            self.finish_attempt(now);
            self.check_directory(now);
            self.send_progress(now);
            self.send_stdin_window();
            if self.connection.as_mut().is_some_and(|connection| connection.flush().is_err()) {
                self.connection = None;
            }
        }
        let Some(mut survivors) = self.survivors.take() else { return Ok(()) };
        // Remove its files first: a dead keeper with files would be searched again.
        drop(self.directory);
        drop(self.connection);
        survivors.kill_until_gone();
        Ok(())
    }

    fn wait(&self) -> io::Result<Ready> {
        let mut fds = vec![
            PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.directory.listener().as_fd(), PollFlags::POLLIN),
        ];
        if let Some(connection) = &self.connection {
            let mut wanted = PollFlags::POLLIN;
            wanted.set(PollFlags::POLLOUT, connection.wants_to_write());
            fds.push(PollFd::new(connection.stream().as_fd(), wanted));
        }
        for pipe in
            self.attempt.iter().flat_map(RunningAttempt::captures).filter_map(|capture| capture.pipe())
        {
            fds.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
        }
        let stdin = self.attempt.as_ref().and_then(RunningAttempt::stdin).and_then(Stdin::waits_for);
        fds.extend(stdin.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)));
        match poll(&mut fds, self.timeout()) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |index: usize| fds.get(index).is_some_and(|fd| fd.any().unwrap_or(true));
        Ok(Ready { new_connection: is_ready(1), worker: self.connection.is_some() && is_ready(2) })
    }

    fn timeout(&self) -> PollTimeout {
        let Some(attempt) = &self.attempt else { return PollTimeout::NONE };
        let now = Now::read();
        let progress = (self.connection.is_some() && attempt.unsent_progress().is_some())
            .then(|| (self.progress_at + PROGRESS_EVERY).saturating_sub(now.running));
        let wake = [attempt.wake_in(now), progress, Some(POLL_MAX)].into_iter().flatten().min();
        let wake = wake.unwrap_or(POLL_MAX);
        // Rounded up, so that a deadline has passed when the poll returns.
        let milliseconds = u16::try_from(wake.as_nanos().div_ceil(1_000_000)).unwrap_or(u16::MAX);
        PollTimeout::from(milliseconds)
    }

    fn accept(&mut self) {
        // A newer worker replaces an older one, which is dead or about to exit.
        while let Ok((stream, _)) = self.directory.listener().accept() {
            self.send_hello(stream);
        }
    }

    fn send_hello(&mut self, stream: UnixStream) {
        let hello = FromKeeper::Hello {
            keeper: self.directory.number(),
            pid: nix::unistd::Pid::this().as_raw(),
            kept: self.attempt.as_ref().map(|attempt| attempt.kept(Now::read())),
            generation: GENERATION,
        };
        self.connection = Connection::open(stream, &hello).ok();
    }

    fn receive(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let is_there = connection.read().unwrap_or(false);
        loop {
            match self.connection.as_mut().map(Connection::next) {
                Some(Ok(Some(message))) => self.handle_message(message),
                Some(Ok(None)) => break,
                Some(Err(_)) => {
                    self.connection = None;
                    return;
                }
                None => return,
            }
        }
        if !is_there {
            self.connection = None;
        }
    }

    fn handle_message(&mut self, message: ToKeeper) {
        let now = Now::read();
        match message {
            ToKeeper::Run(run) => self.run(run, now),
            ToKeeper::End { attempt, acted } => self.apply(now, Some(attempt), Input::End(acted)),
            ToKeeper::SkipGrace { attempt } => self.apply(now, Some(attempt), Input::SkipGrace),
            ToKeeper::Contact { age, cut_off_after } => {
                self.apply(now, None, Input::Contact { age, cut_off_after });
            }
            ToKeeper::Stdin { attempt, position, bytes } => {
                if let Some(stdin) = self.stdin_of(attempt) {
                    stdin.push(position, &bytes);
                }
            }
            ToKeeper::StdinEnd { attempt, end } => {
                if let Some(stdin) = self.stdin_of(attempt) {
                    stdin.end(end);
                }
            }
            ToKeeper::Stored { attempt, position } => {
                if let Some(kept) = self.attempt.as_mut().filter(|kept| kept.id() == attempt) {
                    kept.note_stored(now, position);
                }
            }
        }
    }

    fn stdin_of(&mut self, attempt: AttemptId) -> Option<&mut Stdin> {
        self.attempt.as_mut().filter(|kept| kept.id() == attempt).and_then(RunningAttempt::stdin_mut)
    }

    /// Sends the worker the new limit of standard input, if it has grown.
    fn send_stdin_window(&mut self) {
        let Some(attempt) = self.attempt.as_mut().filter(|_| self.connection.is_some()) else { return };
        let id = attempt.id();
        if let Some(place) = attempt.stdin_mut().and_then(Stdin::next_announcement) {
            self.send(&FromKeeper::Stdin { attempt: id, place });
        }
    }

    /// Reaps statuses before a decision: an end that already happened is not attributed to the
    /// pool.
    fn apply(&mut self, now: Now, attempt: Option<AttemptId>, input: Input) {
        let Some(kept) = &mut self.attempt else { return };
        if attempt.is_none_or(|attempt| kept.id() == attempt) {
            kept.process_events(now, &mut self.buffer);
            kept.handle(now, input);
        }
    }

    fn run(&mut self, run: Box<Run>, now: Now) {
        let attempt = run.lease.attempt;
        if let Some(kept) = &self.attempt {
            let reason = format!("keeper {} already runs attempt {}", self.directory.number(), kept.id());
            return self.send(&FromKeeper::Refused { attempt, reason });
        }
        self.directory.reserve();
        match RunningAttempt::start(&run, self.directory.original_path(), self.adopts, now) {
            Ok(started) => {
                self.next = started.is_setup().then_some(run);
                self.set_attempt(started);
            }
            Err(error) => {
                let reason = format!("the log of the attempt can't be created: {error}");
                self.send(&FromKeeper::Refused { attempt, reason });
            }
        }
    }

    fn set_attempt(&mut self, started: RunningAttempt) {
        let (attempt, started_at_ms) = (started.id(), started.started_at_ms());
        self.attempt = Some(started);
        if let Some(started_at_ms) = started_at_ms {
            self.send(&FromKeeper::Started { attempt, started_at_ms });
        }
    }

    /// Runs the job's command after its setup.
    fn run_after_setup(&mut self, setup: RunningAttempt, run: &Run) {
        let attempt = run.lease.attempt;
        match RunningAttempt::start_after(setup, run, self.directory.original_path(), self.adopts) {
            Ok(started) => self.set_attempt(started),
            Err(error) => {
                let reason = format!("the log of the attempt can't be created: {error}");
                self.send(&FromKeeper::Refused { attempt, reason });
            }
        }
    }

    fn finish_attempt(&mut self, now: Now) {
        let Some(attempt) = &mut self.attempt else { return };
        let written = attempt.write_outcome(now).or_else(|_| {
            self.directory.release();
            attempt.write_outcome(now)
        });
        if written.unwrap_or(false) {
            let (is_passed_setup, attempt) = (attempt.is_passed_setup(), attempt.id());
            let next = self.next.take();
            if let (true, Some(run)) = (is_passed_setup, next)
                && let Some(setup) = self.attempt.take()
            {
                return self.run_after_setup(setup, &run);
            }
            let account = self.attempt.as_ref().and_then(RunningAttempt::account);
            self.survivors = self.attempt.take().and_then(RunningAttempt::into_survivors);
            // An idle keeper would get the next attempt.
            if self.survivors.is_none() {
                self.send(&FromKeeper::end(attempt, account));
            }
        }
    }

    /// Ends an attempt with a removed directory, and the keeper, because the outcome cannot be
    /// reported. A connected worker handles it like any keeper's death.
    fn check_directory(&mut self, now: Now) {
        let Some(attempt) = self.attempt.as_mut().filter(|_| now.running >= self.look_at) else { return };
        self.look_at = now.running + OBSERVE_EVERY;
        if attempt.has_directory() {
            self.gone_since = None;
            return;
        }
        if now.running < *self.gone_since.get_or_insert(now.running) + ATTEMPT_GONE_FOR {
            return;
        }
        if !attempt.is_done() {
            return attempt.give_up(now);
        }
        eprintln!(
            "buildpool keeper: the directory of attempt {} was removed, so its result can't be reported",
            attempt.id()
        );
        (self.attempt, self.connection) = (None, None);
    }

    fn send_progress(&mut self, now: Now) {
        let Some(attempt) = &mut self.attempt else { return };
        let Some(progress) = attempt.unsent_progress() else { return };
        let is_quiet = self.connection.as_ref().is_some_and(|connection| !connection.wants_to_write());
        if !is_quiet || now.running < self.progress_at + PROGRESS_EVERY {
            return;
        }
        attempt.set_sent_progress(progress);
        self.progress_at = now.running;
        let held = attempt.held_output(now);
        let (log_length, ending) = (progress.log_length, progress.is_ending);
        let attempt = attempt.id();
        self.send(&FromKeeper::Progress { attempt, log_length, ending, held });
    }

    fn send(&mut self, message: &FromKeeper) {
        if self.connection.as_mut().is_some_and(|connection| connection.send(message).is_err()) {
            self.connection = None;
        }
    }
}
