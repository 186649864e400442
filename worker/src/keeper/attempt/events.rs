//! Reads events of the system: statuses, output, closed pipes and passed time.

use super::super::capture::Capture;
use super::super::reap::{ChildrenLeft, Reaped, add};
use super::RunningAttempt;
use crate::limits::{DISK_FULL_MAX, DISK_FULL_RETRY, OBSERVE_EVERY};
use crate::platform::Now;
use crate::supervisor::Input;
use buildpool_protocol::outcome::EndReason;
use std::time::Duration;

impl RunningAttempt {
    /// Reaps statuses, reads output, and advances the time. Statuses come first, so that an end
    /// that already happened is not attributed to the pool. A due decision waits for one status,
    /// and a due kill for no status. If a tree forks and exits continuously, this process gets
    /// little processor time, and each step before the kill would let the tree continue.
    pub(in crate::keeper) fn process_events(&mut self, now: Now, buffer: &mut Vec<u8>) {
        self.kill_if_due();
        self.reap(now);
        self.kill_if_due();
        let elapsed_ms = self.elapsed_ms(now);
        if let Some(stdin) = &mut self.stdin {
            stdin.write();
        }
        let mut has_read = false;
        for capture in &mut self.captures {
            has_read |= capture.read(&mut self.spool, elapsed_ms, buffer);
        }
        if has_read {
            self.supervisor.handle(now, Input::Output);
        }
        self.note_blocking(now);
        self.note_closed(now);
        // Use a time read before statuses and output, so that later events are handled before the
        // next decision.
        self.handle(now, Input::Tick);
        self.observe(now);
        self.write_due_state(now);
    }

    /// Performs the kill after a grace period without waiting for other work.
    fn kill_if_due(&mut self) {
        let now = Now::read();
        if self.supervisor.is_kill_due(now) {
            self.handle(now, Input::Tick);
        }
    }

    /// Returns the time when long work must stop, by the running clock.
    pub(super) fn work_deadline(&self, now: Now) -> Duration {
        let left = self.supervisor.work_deadline().until(now);
        left.map_or(Duration::MAX, |left| now.running.saturating_add(left))
    }

    fn reap(&mut self, now: Now) {
        self.has_unread_statuses = false;
        let until = self.work_deadline(now);
        let Some(process) = self.process.as_mut().filter(|_| self.outcome.is_none()) else { return };
        let mut all = Vec::new();
        // An error here does not prove that there are no children. The next turn tries again.
        let left = process.tree.reap(until, |one| all.push(one)).unwrap_or(ChildrenLeft::Running);
        self.has_unread_statuses = left == ChildrenLeft::Unchecked;
        let is_childless = left == ChildrenLeft::NoChildren;
        let has_reaped = !all.is_empty();
        for one in all {
            self.on_reaped(now, one);
        }
        if has_reaped && is_childless && self.process.as_ref().is_some_and(|process| process.tree.adopts()) {
            self.handle(now, Input::TreeCounted { left: 0 });
        }
    }

    pub(super) fn on_reaped(&mut self, now: Now, one: Reaped) {
        self.debuggers.remove(&one.pid);
        add(&mut self.usage, &one.usage);
        if self.process.as_ref().is_none_or(|process| process.pid != one.pid) {
            return;
        }
        self.ending = Some(one.ending);
        self.spool.begin_closing();
        self.handle(now, Input::Exited);
    }

    /// Records the processes in the tree. Some may leave the tree unnoticed on systems without
    /// orphan adoption. The ids also match crash files and kernel messages to the job.
    fn observe(&mut self, now: Now) {
        if now.running < self.observe_at {
            return;
        }
        self.observe_at = now.running + OBSERVE_EVERY;
        let until = self.work_deadline(now);
        if let Some(process) = &mut self.process {
            self.has_new_processes |= process.tree.observe(until);
        }
    }

    pub(super) fn note_blocking(&mut self, now: Now) {
        let is_blocked = !self.spool.wants_more();
        if is_blocked != self.is_blocked {
            self.is_blocked = is_blocked;
            self.supervisor.handle(now, if is_blocked { Input::Blocked } else { Input::Unblocked });
        }
        self.disk_block.note(now.running, self.spool.write_error().filter(|_| is_blocked));
        let Some(error) = self.spool.write_error() else {
            self.disk_full_since = None;
            self.retry_at = self.retry_at.filter(|_| self.outcome.is_some());
            return;
        };
        let since = *self.disk_full_since.get_or_insert(now.running);
        if now.running >= since + DISK_FULL_MAX {
            let reason =
                format!("the worker's disk refused output for {} s: {error}", DISK_FULL_MAX.as_secs());
            self.handle(now, Input::End(EndReason::OutputLimit { reason }));
        } else if self.retry_at.is_none_or(|at| now.running >= at) {
            self.retry_at = Some(now.running + DISK_FULL_RETRY);
            self.spool.flush();
        }
    }

    pub(super) fn note_closed(&mut self, now: Now) {
        if !self.captures.is_empty() && self.captures.iter().all(Capture::is_closed) {
            self.captures.clear();
            self.handle(now, Input::PipesClosed);
        }
    }
}
