//! A git command that reads a stream of requests and answers each.

use super::call::end;
use super::{Call, GitError, Stop};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// A running command. Requests are sent in whole lists from a thread, so that neither side blocks
/// the other. The command is killed when this value is dropped, on its stop, or at its time limit.
#[derive(Debug)]
pub struct Dialog {
    name: String,
    time: Duration,
    service: Option<Stop>,
    questions: mpsc::Sender<Vec<u8>>,
    answers: BufReader<ChildStdout>,
    child: Arc<Mutex<Child>>,
    /// Dropping this sender ends the watch thread.
    _watch: mpsc::Sender<()>,
}

impl Call {
    /// Starts the command for a dialog.
    ///
    /// # Errors
    /// Fails if the command cannot be started.
    pub fn dialog(mut self) -> Result<Dialog, GitError> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = self.spawn()?;
        let (name, time, service) = self.into_parts();
        let no_pipe = || GitError::Unexpected { command: name.clone(), problem: "it has no pipe".into() };
        let mut pipe = child.stdin.take().ok_or_else(no_pipe)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(no_pipe)?);
        let (questions, lists) = mpsc::channel::<Vec<u8>>();
        std::thread::spawn(move || lists.into_iter().try_for_each(|list| pipe.write_all(&list)).ok());
        let child = Arc::new(Mutex::new(child));
        let (watch, over) = mpsc::channel();
        watch_over(child.clone(), time, service.clone(), over);
        Ok(Dialog { name, time, service, questions, answers, child, _watch: watch })
    }
}

/// Kills the command at its time limit. The thread ends with the dialog.
fn watch_over(child: Arc<Mutex<Child>>, time: Duration, stop: Option<Stop>, over: mpsc::Receiver<()>) {
    std::thread::spawn(move || {
        let killed = child.clone();
        let _listening = stop.map(|stop| {
            stop.listen(move || {
                killed.lock().unwrap_or_else(PoisonError::into_inner).kill().ok();
            })
        });
        if over.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
            child.lock().unwrap_or_else(PoisonError::into_inner).kill().ok();
        }
    });
}

impl Dialog {
    /// Sends a list of requests. Does not wait for the answers.
    pub fn ask(&self, questions: Vec<u8>) {
        // If the command has ended, the next read returns an error.
        self.questions.send(questions).ok();
    }

    /// Reads one line of the answer, without its end.
    ///
    /// # Errors
    /// Fails if the command has ended.
    pub fn line(&mut self) -> Result<String, GitError> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(length) if length > 0 => Ok(line.trim_end_matches('\n').to_owned()),
            _ => Err(self.ended()),
        }
    }

    /// Reads `length` bytes of the answer.
    ///
    /// # Errors
    /// Fails if the command has ended.
    pub fn bytes(&mut self, length: usize) -> Result<Vec<u8>, GitError> {
        let mut bytes = Vec::new();
        match (&mut self.answers).take(length as u64).read_to_end(&mut bytes) {
            Ok(read) if read == length => Ok(bytes),
            _ => Err(self.ended()),
        }
    }

    /// Returns an error for an unexpected answer.
    pub fn unexpected(&self, problem: impl Into<String>) -> GitError {
        GitError::Unexpected { command: self.name.clone(), problem: problem.into() }
    }

    fn ended(&self) -> GitError {
        let command = self.name.clone();
        if self.service.as_ref().is_some_and(Stop::is_stopped) {
            return GitError::Stopped { command };
        }
        let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
        match status {
            Ok(status) => {
                let message = format!("it ended early (limits: {} seconds)", self.time.as_secs());
                GitError::Failed { command, status, message }
            }
            Err(source) => GitError::Io { operation: format!("waiting for `git {command}`"), source },
        }
    }
}

impl Drop for Dialog {
    fn drop(&mut self) {
        end(&mut self.child.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
