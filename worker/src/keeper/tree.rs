//! The processes of an attempt: found, asked to end, stopped and killed until none is left.
//!
//! Where orphans come to the keeper (Linux), the tree is all that descends from it, and it is gone when the keeper has no
//! child. Elsewhere (macOS) it is the session and group of the command, every process whose environment carries the
//! attempt's own ids, all that was seen in the tree earlier, and their descendants.

use super::reap::{Look, Reaped, reap_one};
use crate::limits::{SEEN_MAX, STOP_PASSES_MAX};
use crate::platform::{self, Process, Selection, members};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::limits::LIST_MAX;
use buildpool_protocol::report::Survivor;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io;

/// Name of the variable that carries the job's id.
pub const JOB_VARIABLE: &str = "BUILDPOOL_JOB_ID";
/// Name of the variable that carries the attempt's number.
pub const ATTEMPT_VARIABLE: &str = "BUILDPOOL_ATTEMPT";

/// The tree of one attempt.
#[derive(Debug)]
pub struct Tree {
    attempt: AttemptId,
    selection: Selection,
    /// Orphans come to this process.
    adopts: bool,
    leader: i32,
    /// The leader's status is not taken, so that its group's number cannot be another's.
    leader_held: bool,
    /// Processes that were ever found; bounded.
    seen: BTreeSet<i32>,
}

impl Tree {
    /// The tree under a keeper whose child is the command.
    pub(super) fn of_child(attempt: AttemptId, leader: i32, adopts: bool) -> Self {
        let own = Pid::this().as_raw();
        let selection = if adopts {
            Selection { below: Some(own), ..Selection::default() }
        } else {
            Selection { session: Some(leader), except: BTreeSet::from([own]), ..Selection::default() }
        };
        Self { attempt, selection, adopts, leader, leader_held: true, seen: BTreeSet::from([leader]) }
    }

    /// What is left of the tree of a keeper that is gone; `leader` as pid and start, where they are known.
    pub fn of_dead_keeper(attempt: AttemptId, leader: Option<(i32, u64)>) -> Self {
        // The session's number stays taken as long as a process is in it, and the ids in the environment are this
        // attempt's alone; the leader's pid itself counts only with its start.
        let is_same = leader.is_some_and(|(pid, started)| {
            platform::process(pid).is_some_and(|found| found.started == started)
        });
        let selection = Selection {
            session: leader.filter(|_| is_same).map(|(pid, _)| pid),
            known: leader.into_iter().collect(),
            except: BTreeSet::from([Pid::this().as_raw()]),
            ..Selection::default()
        };
        Self {
            attempt,
            selection,
            adopts: false,
            leader: leader.map_or(0, |(pid, _)| pid),
            leader_held: false,
            seen: BTreeSet::new(),
        }
    }

    /// All that came to this process as orphans of a keeper.
    pub(super) fn of_orphans() -> Self {
        let selection = Selection { below: Some(Pid::this().as_raw()), ..Selection::default() };
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number: 0 };
        Self { attempt, selection, adopts: true, leader: 0, leader_held: false, seen: BTreeSet::new() }
    }

    /// Whether orphans come to this process, so that no child means no tree.
    pub(super) fn adopts(&self) -> bool {
        self.adopts
    }

    /// The leader's status was taken.
    pub(super) fn leader_reaped(&mut self) {
        self.leader_held = false;
    }

    /// The living processes of the tree.
    ///
    /// # Errors
    /// When the system does not give its process table.
    pub fn find(&mut self) -> io::Result<Vec<Process>> {
        let table = platform::processes()?;
        let (adopts, job, number) =
            (self.adopts, self.attempt.job.to_string(), self.attempt.number.to_string());
        let found = members(&table, &self.selection, |process| {
            !adopts
                && platform::variables(process.pid, &[JOB_VARIABLE, ATTEMPT_VARIABLE]).is_some_and(|found| {
                    found.get(JOB_VARIABLE) == Some(&job) && found.get(ATTEMPT_VARIABLE) == Some(&number)
                })
        });
        let room = SEEN_MAX.saturating_sub(self.seen.len());
        self.seen.extend(found.iter().map(|process| process.pid).take(room));
        if !adopts {
            self.selection.known = found.iter().map(|process| (process.pid, process.started)).collect();
        }
        Ok(found)
    }

    /// Every process that was ever found in it.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.seen.iter().copied().collect()
    }

    /// How many are left; 0 only when that is certain. Children that have ended go to `reaped`.
    pub(super) fn count(&mut self, reaped: impl FnMut(Reaped)) -> io::Result<usize> {
        let is_childless = reap_all(reaped)?;
        if self.adopts {
            return Ok(usize::from(!is_childless));
        }
        Ok(self.find()?.len())
    }

    /// Asks every process of the tree to end.
    pub fn terminate(&mut self) {
        let in_group = self.signal_group(Signal::SIGTERM);
        for process in self.find().unwrap_or_default() {
            if !(in_group && process.group == self.leader) {
                // Gone in the meantime, or not ours to signal: the next look tells.
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGTERM);
            }
        }
    }

    /// Stops the tree until nobody is left to fork, then kills all of it.
    pub fn kill(&mut self) {
        let mut stopped: BTreeSet<(i32, u64)> = BTreeSet::new();
        self.signal_group(Signal::SIGSTOP);
        for _ in 0..STOP_PASSES_MAX {
            let Ok(found) = self.find() else { break };
            let mut is_new = false;
            for process in &found {
                if stopped.insert((process.pid, process.started)) {
                    is_new |= kill(Pid::from_raw(process.pid), Signal::SIGSTOP).is_ok();
                }
            }
            if !is_new {
                break;
            }
        }
        self.signal_group(Signal::SIGKILL);
        for (pid, started) in stopped {
            // Stopped processes keep their ids; those that could not be stopped are compared again.
            if platform::process(pid).is_some_and(|process| process.started == started) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    /// Names those that are left, for a person.
    pub fn list(&mut self) -> Vec<Survivor> {
        self.find()
            .unwrap_or_default()
            .into_iter()
            .take(LIST_MAX)
            .map(|process| Survivor { pid: process.pid, command: process.name })
            .collect()
    }

    /// Signals the command's group while its number is certain to be its own. EPERM means that only zombies are left
    /// (kill(2) on macOS) or that a process changed its user; both are settled by the look at each process.
    fn signal_group(&self, signal: Signal) -> bool {
        if !self.leader_held {
            return false;
        }
        killpg(Pid::from_raw(self.leader), signal).is_ok()
    }
}

/// Takes every status that is there; true when no child is left.
pub(super) fn reap_all(mut reaped: impl FnMut(Reaped)) -> io::Result<bool> {
    loop {
        match reap_one()? {
            Look::Reaped(one) => reaped(one),
            Look::Alive => return Ok(false),
            Look::Childless => return Ok(true),
        }
    }
}
