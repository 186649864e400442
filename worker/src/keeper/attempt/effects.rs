//! Carries out the effects of the supervisor.

use super::super::capture::Capture;
use super::super::spawn::set_nonblocking;
use super::RunningAttempt;
use crate::platform::{Now, cgroup};
use crate::records::Durability;
use crate::supervisor::{Effect, Input};
use buildpool_protocol::outcome::EndReason;
use buildpool_protocol::output::Stream;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io;
use std::mem;
use std::path::Path;
use std::process::{Command, Stdio};

impl RunningAttempt {
    pub(super) fn perform_effects(&mut self, now: Now) {
        while let Some(effect) = self.supervisor.poll_effect() {
            match effect {
                Effect::Record(mut acted) => {
                    if let EndReason::Timeout { after, held } = &mut acted {
                        *held = self.disk_block.during_timeout(now.running, *after);
                    }
                    self.acted = Some(acted);
                    // On a full disk, the keeper still has it in memory and writes it with the
                    // outcome.
                    let _ = self.write_state(Durability::Power);
                    self.state_at = None;
                }
                Effect::NoteLeaked => {
                    self.leaked =
                        self.process.as_mut().map(|process| process.tree.list()).unwrap_or_default();
                }
                Effect::RequestStacks => {
                    let until = self.work_deadline(now);
                    let may_attach_debugger = self.may_attach_debugger;
                    let process = self.process.as_mut();
                    let requested = process
                        .map(|process| process.tree.request_stacks(until, may_attach_debugger))
                        .unwrap_or_default();
                    let started = requested
                        .debuggers
                        .iter()
                        .filter(|(program, arguments)| self.start_debugger(program, arguments));
                    let debuggers = started.count();
                    let processes = requested.signaled + debuggers;
                    let has_debugger = debuggers > 0;
                    self.supervisor.handle(now, Input::StacksRequested { processes, has_debugger });
                }
                Effect::Terminate => {
                    self.end_debuggers();
                    let until = self.work_deadline(now);
                    if let Some(process) = &mut self.process {
                        process.tree.terminate(until);
                    }
                }
                Effect::Kill => self.kill(now),
                Effect::CountTree => self.count_tree(now),
                Effect::ClosePipes => {
                    let elapsed_ms = self.elapsed_ms(now);
                    for capture in &mut self.captures {
                        capture.close(&mut self.spool, elapsed_ms);
                    }
                    self.note_closed(now);
                }
                Effect::Finish { survivors } => {
                    self.has_survivors = survivors;
                    self.finish(now);
                }
            }
        }
    }

    /// Starts a debugger, which prints the stacks of processes. Its output becomes part of stderr. It is
    /// a process of the tree, so it ends with the tree.
    fn start_debugger(&mut self, program: &Path, arguments: &[String]) -> bool {
        if self.captures.is_empty() {
            return false;
        }
        let Ok((output, write)) = io::pipe() else { return false };
        if set_nonblocking(&output).is_err() {
            return false;
        }
        let mut command = Command::new(program);
        command.args(arguments).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(write).stderr(Stdio::null());
        // The tree reaps all children of the keeper.
        let Ok(debugger) = command.spawn() else { return false };
        self.debuggers.extend(i32::try_from(debugger.id()));
        self.captures.push(Capture::new(Stream::Stderr, output, self.masker.clone()));
        true
    }

    /// Kills the debuggers that still print stacks. A debugger stops its process, which could not end
    /// by itself in its grace period.
    fn end_debuggers(&mut self) {
        for pid in mem::take(&mut self.debuggers) {
            // A debugger that has ended is not reaped yet, so the pid is still its own.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    fn kill(&mut self, now: Now) {
        let Some(process) = &mut self.process else { return };
        if let Some(group) = &process.group {
            cgroup::kill(group);
        }
        let mut all = Vec::new();
        process.tree.kill(|one| all.push(one));
        for one in all {
            self.on_reaped(now, one);
        }
    }

    fn count_tree(&mut self, now: Now) {
        let until = self.work_deadline(now);
        let Some(process) = &mut self.process else { return };
        let mut all = Vec::new();
        // An unreadable process table proves nothing: count one process, and the next round checks
        // again.
        let left = process.tree.count(until, |one| all.push(one)).unwrap_or(1);
        for one in all {
            self.on_reaped(now, one);
        }
        self.supervisor.handle(now, Input::TreeCounted { left });
    }
}
