//! The processes of an attempt: finds, terminates, stops and kills them until the tree is empty.
//!
//! If the keeper adopts orphans (Linux), the tree contains all its descendants, and is empty when
//! the keeper has no child. Otherwise (macOS) the tree is identified by several marks. These are
//! the session and group of the command, the attempt's ids in a process environment, and all
//! processes found in the tree earlier. Descendants of these processes also belong to it.

use super::reap::{ChildrenLeft, Reaped, reap_all};
use super::stacks::{self, Requested};
use crate::limits::{
    OBSERVE_EVERY, READ_TABLE_FOR, ROUND_PAUSE_MIN, SEEN_MAX, STOP_DESCENDANTS_FOR, STOP_FOR, STOP_PASSES_MAX,
};
use crate::platform::{self, Group, Now, Process, Selection, Table, members};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::limits::LIST_MAX;
use buildpool_protocol::report::Survivor;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getpgrp};
use std::collections::BTreeSet;
use std::io;
use std::thread;
use std::time::Duration;

/// Name of the variable with the job's id.
pub const JOB_VARIABLE: &str = "BUILDPOOL_JOB_ID";
/// Name of the variable with the attempt's number.
pub const ATTEMPT_VARIABLE: &str = "BUILDPOOL_ATTEMPT";

/// Name of this process in the list of survivors.
const KEEPER: &str = "the keeper of the remaining processes, until they are ended";

/// The process tree of one attempt.
#[derive(Debug)]
pub struct Tree {
    attempt: AttemptId,
    selection: Selection,
    /// True if this process adopts orphans.
    adopts: bool,
    leader: i32,
    /// True if the leader is not reaped, so that its group number cannot be reused.
    leader_held: bool,
    /// The leader's group, if the system has a unique handle for it.
    group: Option<Group>,
    /// Processes ever found in the tree. Limited.
    seen: BTreeSet<i32>,
}

impl Tree {
    /// Returns the tree of a keeper with the command as its child.
    pub(super) fn of_child(attempt: AttemptId, leader: i32, adopts: bool) -> Self {
        let own = Pid::this().as_raw();
        let selection = if adopts {
            Selection { below: Some(own), ..Selection::default() }
        } else {
            Selection { session: Some(leader), except: BTreeSet::from([own]), ..Selection::default() }
        };
        let (group, seen) = (Group::led_by(leader), BTreeSet::from([leader]));
        Self { attempt, selection, adopts, leader, leader_held: true, group, seen }
    }

    /// Returns the remaining tree of a dead keeper. `leader` is pid and start time, if known.
    pub fn of_dead_keeper(attempt: AttemptId, leader: Option<(i32, u64)>) -> Self {
        // The session's number stays in use while a process is in it, and the ids in the
        // environment are unique to this attempt. The leader's pid counts only with its start time.
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
            group: None,
            seen: BTreeSet::new(),
        }
    }

    /// Returns the tree of all adopted orphans of a keeper.
    pub(super) fn of_orphans() -> Self {
        let selection = Selection { below: Some(Pid::this().as_raw()), ..Selection::default() };
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number: 0 };
        let (leader, leader_held, group, seen) = (0, false, None, BTreeSet::new());
        Self { attempt, selection, adopts: true, leader, leader_held, group, seen }
    }

    /// Returns true if this process adopts orphans, so that no child means an empty tree.
    pub(super) fn adopts(&self) -> bool {
        self.adopts
    }

    /// Returns the living processes of the tree.
    ///
    /// # Errors
    /// Fails if the process table cannot be read, or not within [`READ_TABLE_FOR`].
    pub fn find(&mut self) -> io::Result<Vec<Process>> {
        self.find_until(Duration::MAX)
    }

    fn find_until(&mut self, until: Duration) -> io::Result<Vec<Process>> {
        let found = self.read_table(until)?;
        if found.is_whole { Ok(found.processes) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Returns the processes found until `until`, within [`READ_TABLE_FOR`]. A tree that uses the whole
    /// machine could make reading the table endless.
    fn read_table(&mut self, until: Duration) -> io::Result<Table> {
        let table = platform::processes_until(until.min(Now::read().running + READ_TABLE_FOR))?;
        let (adopts, job, number) =
            (self.adopts, self.attempt.job.to_string(), self.attempt.number.to_string());
        let found = members(&table.processes, &self.selection, |process| {
            !adopts
                && platform::variables(process.pid, &[JOB_VARIABLE, ATTEMPT_VARIABLE]).is_some_and(|found| {
                    found.get(JOB_VARIABLE) == Some(&job) && found.get(ATTEMPT_VARIABLE) == Some(&number)
                })
        });
        let room = SEEN_MAX.saturating_sub(self.seen.len());
        self.seen.extend(found.iter().map(|process| process.pid).take(room));
        if !adopts {
            // Several truncated reads in a row store no more than this.
            let mut room = SEEN_MAX.saturating_sub(self.selection.known.len());
            if table.is_whole {
                self.selection.known.clear();
                room = found.len();
            }
            let known = found.iter().map(|process| (process.pid, process.started));
            self.selection.known.extend(known.take(room));
        }
        Ok(Table { processes: found, is_whole: table.is_whole })
    }

    /// Records the current processes of the tree, as far as they are found until `until`. Returns
    /// true if there are any.
    pub(super) fn observe(&mut self, until: Duration) -> bool {
        // An unreadable table is read again the next time.
        self.read_table(until).is_ok_and(|found| !found.processes.is_empty())
    }

    /// Returns every process ever found in the tree.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.seen.iter().copied().collect()
    }

    /// Reaps statuses until `until`, at least one if available, and passes them to `reaped`.
    pub(super) fn reap(
        &mut self,
        until: Duration,
        mut reaped: impl FnMut(Reaped),
    ) -> io::Result<ChildrenLeft> {
        reap_all(until, |one| {
            self.leader_held &= one.pid != self.leader;
            reaped(one);
        })
    }

    /// Returns the number of remaining processes found until `until`. It is 0 only if that is
    /// certain. Reaped children are passed to `reaped`.
    pub(super) fn count(&mut self, until: Duration, reaped: impl FnMut(Reaped)) -> io::Result<usize> {
        let left = self.reap(until, reaped)?;
        if self.adopts {
            return Ok(usize::from(left != ChildrenLeft::NoChildren));
        }
        Ok(self.find_until(until)?.len())
    }

    /// Requests the stacks of the processes that are found until then.
    pub(super) fn request_stacks(&mut self, until: Duration, may_attach_debugger: bool) -> Requested {
        self.read_table(until).map_or_else(
            |_| Requested::default(),
            |found| stacks::request(&found.processes, may_attach_debugger),
        )
    }

    /// Sends SIGTERM to every process of the tree: whole groups in one call, and processes of other
    /// groups found until `until`.
    pub(super) fn terminate(&mut self, until: Duration) {
        let mut signaled = BTreeSet::new();
        signaled.extend(self.signal_own_group(Signal::SIGTERM).then_some(self.leader));
        signaled.extend(signal_groups(&self.held_groups() - &signaled, Signal::SIGTERM));
        let found = self.read_table(until);
        for process in found.map(|found| found.processes).unwrap_or_default() {
            if !signaled.contains(&process.group) {
                // The process may have ended, or may not be signalled. The next check shows the
                // result.
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGTERM);
            }
        }
    }

    /// Kills whole groups first, then stops the other processes until no process can fork, and
    /// kills them. Reaped children are passed to `reaped`.
    pub(super) fn kill(&mut self, mut reaped: impl FnMut(Reaped)) {
        // In one call, before the steps that take longer for larger trees.
        self.signal_own_group(Signal::SIGSTOP);
        let stopped = signal_groups(self.held_groups(), Signal::SIGSTOP);
        self.signal_own_group(Signal::SIGKILL);
        signal_groups(stopped, Signal::SIGKILL);
        if self.adopts {
            self.stop_descendants(&mut reaped);
        }
        self.stop_and_kill();
    }

    /// Kills the tree repeatedly, with growing pauses, until it is empty.
    pub(super) fn kill_until_gone(&mut self) {
        let mut pause = ROUND_PAUSE_MIN;
        while !self.count(Duration::MAX, |_| {}).is_ok_and(|left| left == 0) {
            self.kill(|_| {});
            thread::sleep(pause);
            pause = (pause * 2).min(OBSERVE_EVERY);
        }
    }

    /// Stops the descendants of this process, adopted orphans included, as long as new ones appear.
    /// A process may fork and exit before the whole table is read, continuously. Reading its
    /// children directly finds the child. Processes stopped here stay in the table and are found
    /// there again.
    fn stop_descendants(&mut self, mut reaped: impl FnMut(Reaped)) {
        let until = Now::read().running + STOP_DESCENDANTS_FOR;
        let mut seen_pids = BTreeSet::new();
        loop {
            // Ended children would be found again and again.
            if self.reap(until, &mut reaped).map_or(true, |left| left == ChildrenLeft::NoChildren) {
                return;
            }
            // An unreaped process keeps its pid, so every process found here belongs to the tree.
            let Some(mut waiting) = platform::children(Pid::this().as_raw()) else { return };
            let mut is_new = false;
            while let Some(pid) = waiting.pop().filter(|_| Now::read().running < until) {
                is_new |= seen_pids.insert(pid) && kill(Pid::from_raw(pid), Signal::SIGSTOP).is_ok();
                waiting.extend(platform::children(pid).unwrap_or_default());
            }
            if !is_new || Now::read().running >= until {
                return;
            }
        }
    }

    /// Kills a tree with processes that are not children of this one. Returns true if there were
    /// any.
    pub fn kill_from_outside(&mut self) -> bool {
        self.stop_and_kill()
    }

    fn stop_and_kill(&mut self) -> bool {
        let until = Now::read().running + STOP_FOR;
        let mut stopped: BTreeSet<(i32, u64)> = BTreeSet::new();
        let mut groups = BTreeSet::new();
        for _ in 0..STOP_PASSES_MAX {
            let Ok(found) = self.read_table(until) else { break };
            let mut is_new = false;
            for process in &found.processes {
                if stopped.insert((process.pid, process.started)) {
                    is_new |= kill(Pid::from_raw(process.pid), Signal::SIGSTOP).is_ok();
                    groups.insert(process.group);
                }
            }
            if !is_new || !found.is_whole {
                break;
            }
        }
        // Stopped processes keep their ids and groups. Processes that could not be stopped are
        // compared again.
        stopped.retain(|(pid, started)| {
            platform::process(*pid).is_some_and(|process| process.started == *started)
        });
        // Processes forked in the meantime are in one of these groups.
        groups.retain(|group| self.is_own_group(*group));
        for group in groups.into_iter().chain(self.leader_held.then_some(self.leader)) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        for (pid, _) in &stopped {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        !stopped.is_empty()
    }

    /// Lists the remaining processes, for users.
    pub fn list(&mut self) -> Vec<Survivor> {
        let found = self.read_table(Duration::MAX).map(|found| found.processes);
        let named = found.unwrap_or_default().into_iter().take(LIST_MAX);
        named.map(|process| Survivor { pid: process.pid, command: process.name }).collect()
    }

    /// Lists the processes that could not be ended, and this process, which exists until all have
    /// ended. It represents the processes beyond the list limit, and processes that end before they
    /// can be listed and are followed by others.
    pub(super) fn survivors(&mut self) -> Vec<Survivor> {
        let mut named = self.list();
        let own = Pid::this().as_raw();
        let mut is_gone = || {
            if self.adopts {
                platform::children(own).is_some_and(|left| left.is_empty())
            } else {
                self.find().is_ok_and(|left| left.is_empty())
            }
        };
        if named.is_empty() && is_gone() {
            return named;
        }
        named.truncate(LIST_MAX - 1);
        named.push(Survivor { pid: own, command: KEEPER.to_owned() });
        named
    }

    /// Signals the remaining processes of the command's group. Returns true if the system reports
    /// that there are any.
    fn signal_own_group(&self, signal: Signal) -> bool {
        self.group.as_ref().is_some_and(|group| group.signal(signal))
    }

    /// Returns the command's group and the groups of adopted orphans, while an unreaped process
    /// keeps their numbers from reuse.
    fn held_groups(&self) -> BTreeSet<i32> {
        let own = Pid::this().as_raw();
        let children = if self.adopts { platform::children(own).unwrap_or_default() } else { Vec::new() };
        let of_children = children.into_iter().filter_map(|pid| getpgid(Some(Pid::from_raw(pid))).ok());
        let mut groups: BTreeSet<i32> = of_children.map(Pid::as_raw).collect();
        groups.retain(|group| self.is_own_group(*group));
        groups.extend(self.leader_held.then_some(self.leader));
        groups
    }

    /// Returns true if the whole group of a process in the tree belongs to the tree. With orphan
    /// adoption, a session created in the tree contains no other processes.
    fn is_own_group(&self, group: i32) -> bool {
        group > 1 && group != getpgrp().as_raw() && (self.adopts || group == self.leader)
    }
}

/// Signals groups while their numbers certainly belong to the tree, and returns the groups that
/// were signalled. EPERM means that only zombies are left (kill(2) on macOS), or that a process
/// changed its user. The check of each process handles both cases.
fn signal_groups(mut groups: BTreeSet<i32>, signal: Signal) -> BTreeSet<i32> {
    groups.retain(|group| killpg(Pid::from_raw(*group), signal).is_ok());
    groups
}
