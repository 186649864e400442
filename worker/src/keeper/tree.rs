//! The processes of an attempt: found, asked to end, stopped and killed until none is left.
//!
//! Where orphans come to the keeper (Linux), the tree is all that descends from it, and it is gone when the keeper has no
//! child. Elsewhere (macOS) it is the session and group of the command, every process whose environment carries the
//! attempt's own ids, all that was seen in the tree earlier, and their descendants.

use super::reap::{Left, Reaped, reap_all};
use crate::limits::{
    CHASE_FOR, LOOK_FOR, OBSERVE_EVERY, ROUND_PAUSE_MIN, SEEN_MAX, STOP_FOR, STOP_PASSES_MAX,
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

/// Name of the variable that carries the job's id.
pub const JOB_VARIABLE: &str = "BUILDPOOL_JOB_ID";
/// Name of the variable that carries the attempt's number.
pub const ATTEMPT_VARIABLE: &str = "BUILDPOOL_ATTEMPT";

/// What this process is called among those that could not be ended.
const KEEPER: &str = "the keeper of what is left, until it is ended";

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
    /// The leader's group, where it has a name beside its number.
    group: Option<Group>,
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
        let (group, seen) = (Group::led_by(leader), BTreeSet::from([leader]));
        Self { attempt, selection, adopts, leader, leader_held: true, group, seen }
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
            group: None,
            seen: BTreeSet::new(),
        }
    }

    /// All that came to this process as orphans of a keeper.
    pub(super) fn of_orphans() -> Self {
        let selection = Selection { below: Some(Pid::this().as_raw()), ..Selection::default() };
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number: 0 };
        let (leader, leader_held, group, seen) = (0, false, None, BTreeSet::new());
        Self { attempt, selection, adopts: true, leader, leader_held, group, seen }
    }

    /// Whether orphans come to this process, so that no child means no tree.
    pub(super) fn adopts(&self) -> bool {
        self.adopts
    }

    /// The living processes of the tree.
    ///
    /// # Errors
    /// When the system does not give its process table, or not in [`LOOK_FOR`].
    pub fn find(&mut self) -> io::Result<Vec<Process>> {
        self.find_until(Duration::MAX)
    }

    fn find_until(&mut self, until: Duration) -> io::Result<Vec<Process>> {
        let found = self.look(until)?;
        if found.is_whole { Ok(found.processes) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Those of them that are found until then, and in [`LOOK_FOR`]. Under a tree that takes the whole machine, a look at the
    /// table has no end.
    fn look(&mut self, until: Duration) -> io::Result<Table> {
        let table = platform::processes_until(until.min(Now::read().running + LOOK_FOR))?;
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
            // Looks that are cut off, one after the other, remember no more than this.
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

    /// Remembers who is in it now, as far as they are found until then; whether anybody is.
    pub(super) fn observe(&mut self, until: Duration) -> bool {
        // A table that can't be read now is read the next time.
        self.look(until).is_ok_and(|found| !found.processes.is_empty())
    }

    /// Every process that was ever found in it.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.seen.iter().copied().collect()
    }

    /// Takes statuses until then, at least one of those that are there, for `reaped`.
    pub(super) fn reap(&mut self, until: Duration, mut reaped: impl FnMut(Reaped)) -> io::Result<Left> {
        reap_all(until, |one| {
            self.leader_held &= one.pid != self.leader;
            reaped(one);
        })
    }

    /// How many are left, as far as they are counted until then; 0 only when that is certain. Children that have ended go to
    /// `reaped`.
    pub(super) fn count(&mut self, until: Duration, reaped: impl FnMut(Reaped)) -> io::Result<usize> {
        let left = self.reap(until, reaped)?;
        if self.adopts {
            return Ok(usize::from(left != Left::Nobody));
        }
        Ok(self.find_until(until)?.len())
    }

    /// Asks every process of the tree to end: whole groups at once, and those in other ones that are found until then.
    pub(super) fn terminate(&mut self, until: Duration) {
        let mut asked = BTreeSet::new();
        asked.extend(self.signal_own_group(Signal::SIGTERM).then_some(self.leader));
        asked.extend(signal_groups(&self.held_groups() - &asked, Signal::SIGTERM));
        let found = self.look(until);
        for process in found.map(|found| found.processes).unwrap_or_default() {
            if !asked.contains(&process.group) {
                // Gone in the meantime, or not ours to signal: the next look tells.
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGTERM);
            }
        }
    }

    /// Kills whole groups before anybody is looked for, then stops the rest until nobody is left to fork, and kills it. Children
    /// that have ended go to `reaped`.
    pub(super) fn kill(&mut self, mut reaped: impl FnMut(Reaped)) {
        // In one call, before what takes longer the more of them there are.
        self.signal_own_group(Signal::SIGSTOP);
        let stopped = signal_groups(self.held_groups(), Signal::SIGSTOP);
        self.signal_own_group(Signal::SIGKILL);
        signal_groups(stopped, Signal::SIGKILL);
        if self.adopts {
            self.chase(&mut reaped);
        }
        self.stop_and_kill();
    }

    /// Kills it again and again, ever more seldom, until it is gone.
    pub(super) fn kill_until_gone(&mut self) {
        let mut pause = ROUND_PAUSE_MIN;
        while !self.count(Duration::MAX, |_| {}).is_ok_and(|left| left == 0) {
            self.kill(|_| {});
            thread::sleep(pause);
            pause = (pause * 2).min(OBSERVE_EVERY);
        }
    }

    /// Stops what descends from this process, orphans that come to it included, as long as there is somebody new. A process may fork
    /// and exit before a look at the whole table comes to it, for ever; its children are found by a look at it alone. What was
    /// stopped here is found again in the table, where it stays.
    fn chase(&mut self, mut reaped: impl FnMut(Reaped)) {
        let until = Now::read().running + CHASE_FOR;
        let mut met = BTreeSet::new();
        loop {
            // Whoever has ended would be met again and again.
            if self.reap(until, &mut reaped).map_or(true, |left| left == Left::Nobody) {
                return;
            }
            // A status that was not taken keeps its pid from being another's, so what is met here is in the tree.
            let Some(mut waiting) = platform::children(Pid::this().as_raw()) else { return };
            let mut is_new = false;
            while let Some(pid) = waiting.pop().filter(|_| Now::read().running < until) {
                is_new |= met.insert(pid) && kill(Pid::from_raw(pid), Signal::SIGSTOP).is_ok();
                waiting.extend(platform::children(pid).unwrap_or_default());
            }
            if !is_new || Now::read().running >= until {
                return;
            }
        }
    }

    /// The same of a tree whose processes are not children of this one; whether there was any.
    pub fn kill_from_outside(&mut self) -> bool {
        self.stop_and_kill()
    }

    fn stop_and_kill(&mut self) -> bool {
        let until = Now::read().running + STOP_FOR;
        let mut stopped: BTreeSet<(i32, u64)> = BTreeSet::new();
        let mut groups = BTreeSet::new();
        for _ in 0..STOP_PASSES_MAX {
            let Ok(found) = self.look(until) else { break };
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
        // Stopped processes keep their ids, and those of their groups; those that could not be stopped are compared again.
        stopped.retain(|(pid, started)| {
            platform::process(*pid).is_some_and(|process| process.started == *started)
        });
        // Whoever was forked meanwhile is in one of them.
        groups.retain(|group| self.is_own_group(*group));
        for group in groups.into_iter().chain(self.leader_held.then_some(self.leader)) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        for (pid, _) in &stopped {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        !stopped.is_empty()
    }

    /// Names those that are left, for a person.
    pub fn list(&mut self) -> Vec<Survivor> {
        let found = self.look(Duration::MAX).map(|found| found.processes);
        let named = found.unwrap_or_default().into_iter().take(LIST_MAX);
        named.map(|process| Survivor { pid: process.pid, command: process.name }).collect()
    }

    /// Names those that could not be ended, and this process, which is there until all are gone: it stands for those for whom
    /// there is no room, or who are gone before they can be named and are followed by others.
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

    /// Signals what is left of the command's group; whether anybody is, as far as the system can say.
    fn signal_own_group(&self, signal: Signal) -> bool {
        self.group.as_ref().is_some_and(|group| group.signal(signal))
    }

    /// The group of the command, and those of orphans that came here, as long as a status that was not taken keeps their numbers
    /// from being another's.
    fn held_groups(&self) -> BTreeSet<i32> {
        let own = Pid::this().as_raw();
        let children = if self.adopts { platform::children(own).unwrap_or_default() } else { Vec::new() };
        let of_children = children.into_iter().filter_map(|pid| getpgid(Some(Pid::from_raw(pid))).ok());
        let mut groups: BTreeSet<i32> = of_children.map(Pid::as_raw).collect();
        groups.retain(|group| self.is_own_group(*group));
        groups.extend(self.leader_held.then_some(self.leader));
        groups
    }

    /// Whether all of a group that a process of the tree is in belongs to the tree. Where orphans come here, nobody else can be in
    /// a session that was made in it.
    fn is_own_group(&self, group: i32) -> bool {
        group > 1 && group != getpgrp().as_raw() && (self.adopts || group == self.leader)
    }
}

/// Signals groups while their numbers are certain to be the tree's; which of them took it. EPERM means that only zombies are left
/// (kill(2) on macOS) or that a process changed its user; both are settled by the look at each process.
fn signal_groups(mut groups: BTreeSet<i32>, signal: Signal) -> BTreeSet<i32> {
    groups.retain(|group| killpg(Pid::from_raw(*group), signal).is_ok());
    groups
}
