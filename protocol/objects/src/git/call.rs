//! One run of git: its input, its output and its limits.

use super::{GitError, Stop};
use crate::limits;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Builder of a git command.
#[derive(Debug)]
pub struct Call {
    pub(super) command: Command,
    name: String,
    stdin: Option<Vec<u8>>,
    limit: usize,
    /// Time limit.
    time: Duration,
    /// Set if the command has limits of its own.
    service: Option<Stop>,
}

/// An event of a running command.
enum CallEvent {
    /// Standard output, and true if there was more than the limit.
    Output(io::Result<(Vec<u8>, bool)>),
    /// Standard error.
    Message(Vec<u8>),
    /// The operation was cancelled.
    Stopped,
}

impl Call {
    pub(super) fn new(command: Command, service: Option<Stop>) -> Self {
        let (time, limit) = match &service {
            Some(_) => (limits::SERVICE_RUN, limits::SERVICE_OUTPUT_BYTES_MAX),
            None => (limits::GIT_RUN_MAX, limits::GIT_OUTPUT_BYTES_MAX),
        };
        Self { command, name: String::new(), stdin: None, limit, time, service }
    }

    /// Raises the time limit of a service command for `bytes` bytes of content.
    #[must_use]
    pub fn for_bytes(mut self, bytes: u64) -> Self {
        if self.service.is_some() {
            let more = Duration::from_secs(bytes / limits::SERVICE_BYTES_PER_SECOND);
            self.time = limits::SERVICE_RUN.saturating_add(more).min(limits::GIT_RUN_MAX);
        }
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<std::ffi::OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        for argument in arguments {
            if self.name.len() < 120 {
                if !self.name.is_empty() {
                    self.name.push(' ');
                }
                self.name.push_str(&argument.as_ref().to_string_lossy());
            }
            self.command.arg(argument);
        }
        self
    }

    /// Sets the standard input. Without this call it is empty.
    #[must_use]
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = Some(bytes);
        self
    }

    /// Runs the command and returns its standard output.
    ///
    /// # Errors
    /// Every [`GitError`] except those of finding git.
    pub fn output(self) -> Result<Vec<u8>, GitError> {
        let (status, output, message, name) = self.finish(None)?;
        checked(status, message, name).map(|()| output)
    }

    /// Runs the command. Returns its standard output and its standard error.
    ///
    /// # Errors
    /// As for [`Call::output`].
    pub fn output_and_remarks(self) -> Result<(Vec<u8>, String), GitError> {
        let (status, output, message, name) = self.finish(None)?;
        checked(status, message.clone(), name).map(|()| (output, message))
    }

    /// Runs the command. Returns its standard output, or `None` if it exited with 1: git's code for
    /// "not found".
    ///
    /// # Errors
    /// As for [`Call::output`].
    pub fn output_or_none(self) -> Result<Option<Vec<u8>>, GitError> {
        let (status, output, message, name) = self.finish(None)?;
        if status.code() == Some(1) {
            return Ok(None);
        }
        checked(status, message, name).map(|()| Some(output))
    }

    /// Runs the command and returns its standard output as text without the final line end.
    ///
    /// # Errors
    /// As for [`Call::output`]; [`GitError::Unexpected`] if it is not UTF-8.
    pub fn text(self) -> Result<String, GitError> {
        let name = self.name.clone();
        let mut text = String::from_utf8(self.output()?)
            .map_err(|_| GitError::Unexpected { command: name, problem: "the answer is not UTF-8".into() })?;
        text.truncate(text.trim_end_matches('\n').len());
        Ok(text)
    }

    /// Runs the command and writes its standard output to a file.
    ///
    /// # Errors
    /// As for [`Call::output`].
    pub fn output_into(self, file: File) -> Result<(), GitError> {
        let (status, _, message, name) = self.finish(Some(file))?;
        checked(status, message, name)
    }

    /// Runs the command with a file as its standard input.
    ///
    /// # Errors
    /// As for [`Call::output`].
    pub fn input_from(mut self, file: File) -> Result<Vec<u8>, GitError> {
        self.command.stdin(Stdio::from(file));
        self.stdin = None;
        let (status, output, message, name) = self.start(None)?;
        checked(status, message, name).map(|()| output)
    }

    fn finish(mut self, into: Option<File>) -> Result<Ended, GitError> {
        self.command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        self.start(into)
    }

    /// Starts the command with its limits.
    pub(super) fn spawn(&mut self) -> Result<Child, GitError> {
        if self.service.as_ref().is_some_and(Stop::is_stopped) {
            return Err(GitError::Stopped { command: self.name.clone() });
        }
        if self.service.is_some() {
            self.command
                .env("BUILDPOOL_GIT_KIB", limits::GIT_MEMORY_KIB_MAX.to_string())
                .env("BUILDPOOL_GIT_SECONDS", self.time.as_secs().to_string());
        }
        let program = PathBuf::from(self.command.get_program());
        self.command.spawn().map_err(|source| GitError::Missing { program, source })
    }

    fn start(mut self, into: Option<File>) -> Result<Ended, GitError> {
        self.command.stderr(Stdio::piped());
        let has_output = into.is_none();
        self.command.stdout(into.map_or_else(Stdio::piped, Stdio::from));
        let mut child = self.spawn()?;
        let (sender, events) = mpsc::channel();
        if let (Some(bytes), Some(mut pipe)) = (self.stdin.take(), child.stdin.take()) {
            // If git exits early, it closes the pipe. Its exit status contains the reason.
            std::thread::spawn(move || pipe.write_all(&bytes).ok());
        }
        if let Some(pipe) = child.stderr.take() {
            read_aside(pipe, limits::GIT_MESSAGE_BYTES_MAX, sender.clone(), |read| {
                CallEvent::Message(read.map(|(bytes, _)| bytes).unwrap_or_default())
            });
        }
        if let Some(pipe) = child.stdout.take() {
            read_aside(pipe, self.limit, sender.clone(), CallEvent::Output);
        }
        let stopped = sender.clone();
        let _listening = self.service.as_ref().map(|stop| {
            stop.listen(move || {
                stopped.send(CallEvent::Stopped).ok();
            })
        });
        match self.wait(&events, has_output) {
            Ok((output, message)) => {
                let waiting = format!("waiting for `git {}`", self.name);
                let status = child.wait().map_err(GitError::io(waiting))?;
                let message = String::from_utf8_lossy(&message).into_owned();
                self.check_limits(status, &message)?;
                Ok((status, output, message, self.name))
            }
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// Waits until both outputs have ended.
    fn wait(
        &self,
        events: &mpsc::Receiver<CallEvent>,
        has_output: bool,
    ) -> Result<(Vec<u8>, Vec<u8>), GitError> {
        let deadline = Instant::now() + self.time;
        let mut output = (!has_output).then(Vec::new);
        let mut message = None;
        loop {
            if let (Some(output), Some(message)) = (&mut output, &mut message) {
                return Ok((std::mem::take(output), std::mem::take(message)));
            }
            let command = self.name.clone();
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(CallEvent::Output(Ok((_, true)))) => {
                    return Err(GitError::TooMuchOutput { command, limit: self.limit });
                }
                Ok(CallEvent::Output(Ok((bytes, false)))) => output = Some(bytes),
                Ok(CallEvent::Output(Err(source))) => {
                    return Err(GitError::Io { operation: format!("the output of `git {command}`"), source });
                }
                Ok(CallEvent::Message(bytes)) => message = Some(bytes),
                Ok(CallEvent::Stopped) => return Err(GitError::Stopped { command }),
                Err(_) => return Err(GitError::TimedOut { command, after: self.time }),
            }
        }
    }

    /// Returns an error if the command exceeded its own limit, to separate it from a failure of
    /// git.
    fn check_limits(&self, status: ExitStatus, message: &str) -> Result<(), GitError> {
        let command = self.name.clone();
        let is_short = ["ut of memory", "Cannot allocate memory"].iter().any(|text| message.contains(text));
        if self.service.is_none() {
            return Ok(());
        }
        if status.signal() == Some(nix::libc::SIGXCPU) {
            return Err(GitError::OutOfTime { command, after: self.time });
        }
        if !status.success() && is_short { Err(GitError::OutOfMemory { command }) } else { Ok(()) }
    }

    pub(super) fn into_parts(self) -> (String, Duration, Option<Stop>) {
        (self.name, self.time, self.service)
    }
}

type Ended = (ExitStatus, Vec<u8>, String, String);

fn checked(status: ExitStatus, message: String, command: String) -> Result<(), GitError> {
    if status.success() { Ok(()) } else { Err(GitError::Failed { command, status, message }) }
}

pub(super) fn end(child: &mut Child) {
    child.kill().ok();
    child.wait().ok();
}

/// Reads a pipe to its end in a thread. It keeps at most `limit` bytes and reports if there were
/// more.
fn read_aside(
    mut pipe: impl Read + Send + 'static,
    limit: usize,
    sender: mpsc::Sender<CallEvent>,
    event: impl FnOnce(io::Result<(Vec<u8>, bool)>) -> CallEvent + Send + 'static,
) {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let result = pipe.by_ref().take(limit as u64).read_to_end(&mut kept);
        let more = pipe.read(&mut [0]).is_ok_and(|more| more > 0);
        sender.send(event(result.map(|_| (kept, more)))).ok();
        // Drain the pipe, so that a command that still writes does not block.
        io::copy(&mut pipe, &mut io::sink()).ok();
    });
}
