//! Handles orders from the coordinator.

use super::super::clock::Time;
use super::super::host::Host;
use super::super::network::{ConnectionId, Up};
use super::super::truth::Truth;
use super::{Daemon, EARLY_GRANT_WAIT_MAX, EARLY_GRANTS, Preparing, cut_off_after};
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::limits::REPORT_EVERY;
use buildpool_protocol::outcome::EndReason;
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::{Desired, FromWorker, Grant, ToWorker};
use std::time::Duration;

impl Daemon {
    pub(crate) fn obey(
        &mut self,
        host: &mut Host,
        from: ConnectionId,
        message: ToWorker,
        now: Time,
        truth: &mut Truth,
    ) {
        let local = host.local(now).continuous;
        match &mut self.link {
            Some(link) if link.id == from => link.heard_at = local,
            Some(_) | None => return,
        }
        match message {
            ToWorker::Registered { lost_after, desired, .. } => {
                self.lost_after = Some(lost_after);
                self.backoff_millis = 200;
                let mut was_heard = false;
                if let Some(link) = &mut self.link {
                    link.is_registered = true;
                    link.report_at = local + REPORT_EVERY;
                    was_heard = link.is_heard;
                }
                if !was_heard {
                    self.answered(host, now);
                }
                for desired in desired {
                    if let Desired::Continue { lease, position } = &desired
                        && let Some(link) = &mut self.link
                    {
                        link.sent.insert(lease.attempt, (*position, *position, 0));
                    }
                    self.want(host, desired, now, truth);
                }
                self.changed(local);
            }
            ToWorker::Desired { desired } => {
                if let Some(link) = self.link.as_mut().filter(|link| !link.is_registered && !link.is_heard) {
                    link.is_heard = true;
                    link.report_at = local + REPORT_EVERY;
                }
                self.answered(host, now);
                for desired in desired {
                    self.want(host, desired, now, truth);
                }
            }
            ToWorker::Act(desired) => self.want(host, desired, now, truth),
            ToWorker::Grant(grant) => self.take_grant(host, *grant, now, truth),
            ToWorker::Position { lease, position } => self.position(lease, position, local),
            ToWorker::Drain { draining, deadline } => {
                if self.leave_since.is_some() && !draining {
                    return;
                }
                self.is_draining = draining;
                self.drain_at = deadline.filter(|_| draining).map(|deadline| local.saturating_add(deadline));
                self.changed(local);
            }
            ToWorker::Refused { error } => {
                truth.note(now, || format!("{} is refused: {}", host.name, error.message));
            }
            ToWorker::Redirect { .. }
            | ToWorker::StdinEnd { .. }
            | ToWorker::Upgrade(_)
            | ToWorker::Transfer(_) => {}
        }
    }

    /// Handles an answer. Contact counts from the time when the answered message was sent.
    fn answered(&mut self, host: &mut Host, now: Time) {
        let local = host.local(now);
        let Some(asked_at) = self.link.as_mut().and_then(|link| link.asked_at.pop_front()) else { return };
        self.contact_at = Some(asked_at);
        for (id, keeper) in &mut host.keepers {
            let on_lost = host.spool.get(id).map(|entry| entry.spec.on_lost);
            let cut_off = self.lost_after.zip(on_lost);
            let cut_off = cut_off.and_then(|(lost_after, on_lost)| cut_off_after(lost_after, on_lost));
            keeper.contact(local, local.continuous.saturating_sub(asked_at), cut_off);
        }
        host.collect_ended(local);
    }

    fn position(&mut self, lease: Lease, position: u64, local: Duration) {
        let Some(link) = &mut self.link else { return };
        if let Some((sent, taken, _)) = link.sent.get_mut(&lease.attempt) {
            if position > *taken {
                *taken = position;
            } else {
                *sent = position;
                link.completed.remove(&lease.attempt);
            }
        }
        self.changed(local);
    }

    fn want(&mut self, host: &mut Host, desired: Desired, now: Time, truth: &mut Truth) {
        let lease = desired.lease();
        let id = lease.attempt;
        let early = self.early.len();
        if !matches!(desired, Desired::Continue { .. }) {
            self.early.retain(|(_, grant)| grant.lease != lease);
        }
        if self.early.len() < early {
            return self.decline(lease, "it was ended before it started", now, truth);
        }
        let is_prepared = self.preparing.get(&id).is_some_and(|held| held.lease == lease);
        let is_kept = host.spool.get(&id).is_some_and(|entry| entry.lease == lease);
        if !is_prepared && !is_kept {
            return;
        }
        match desired {
            Desired::Continue { lease, position } => {
                let local = host.local(now).continuous;
                if self.link.as_ref().is_some_and(|link| link.sent.get(&id).is_some_and(|at| position > at.1))
                {
                    self.position(lease, position, local);
                }
            }
            Desired::Cancel { by, reason, .. } => {
                self.act(host, id, EndReason::Cancelled { by, reason }, now)
            }
            Desired::Fenced { .. } => {
                truth.counts.fenced += u64::from(!truth.cancelled.contains(&id.job));
                truth.note(now, || format!("{} received `fenced` for {id}", host.name));
                self.fence(host, id, now);
            }
            Desired::Forget { .. } => {
                if host.keepers.contains_key(&id) {
                    truth.fail(format!(
                        "sealed_before_done: {} received `forget` for {id}, which runs",
                        host.name
                    ));
                }
                self.fence(host, id, now);
            }
        }
    }

    fn fence(&mut self, host: &mut Host, id: AttemptId, now: Time) {
        if let Some(attempt) = self.preparing.get_mut(&id) {
            attempt.is_fenced = true;
        }
        if host.spool.get(&id).is_some_and(|entry| entry.outcome.is_some()) {
            host.spool.remove(&id);
            self.fenced.remove(&id);
        } else if host.spool.contains_key(&id) {
            self.fenced.insert(id);
            self.act(host, id, EndReason::Fenced, now);
        }
    }

    fn act(&mut self, host: &mut Host, id: AttemptId, acted: EndReason, now: Time) {
        let local = host.local(now);
        if let Some(attempt) = self.preparing.get_mut(&id) {
            attempt.act.get_or_insert(acted);
        } else if let Some(keeper) = host.keepers.get_mut(&id) {
            keeper.act(local, acted);
            host.collect_ended(local);
            self.changed(local.continuous);
        }
    }

    pub(super) fn end_all(&mut self, host: &mut Host, now: Time) {
        let local = host.local(now);
        let kept: Vec<_> = host.keepers.keys().chain(self.preparing.keys()).copied().collect();
        for id in kept {
            self.act(host, id, EndReason::Drained, now);
            if let Some(keeper) = host.keepers.get_mut(&id) {
                keeper.skip_grace(local);
            }
        }
    }

    fn take_grant(&mut self, host: &mut Host, grant: Grant, now: Time, truth: &mut Truth) {
        let (lease, local) = (grant.lease, host.local(now).continuous);
        let id = lease.attempt;
        let is_early = self.early.iter().any(|(_, early)| early.lease == lease);
        if self.preparing.contains_key(&id) || host.spool.contains_key(&id) || is_early {
            return;
        }
        if self.is_draining || self.lacks_room || (self.is_moody && truth.dice.percent(30)) {
            return self.decline(lease, "no slot is free", now, truth);
        }
        if !self.early.is_empty() || !self.is_free(host, &grant.spec) {
            if self.early.len() >= EARLY_GRANTS as usize {
                return self.decline(lease, "no slot is free", now, truth);
            }
            truth.note(now, || format!("{} keeps {id} until a slot is free", host.name));
            self.early.push_back((local, grant));
            return;
        }
        self.begin(host, grant, now, truth);
    }

    fn decline(&mut self, lease: Lease, reason: &str, now: Time, truth: &mut Truth) {
        truth.counts.declines += 1;
        truth.note(now, || format!("a worker declines {}: {reason}", lease.attempt));
        let reason = reason.to_owned();
        self.send(now, truth, Up::Message(Box::new(FromWorker::Decline { lease, reason })));
    }

    /// Starts waiting grants while slots are free. Declines overdue ones, and all if the worker drains or its disk is full.
    pub(super) fn start_early(&mut self, host: &mut Host, now: Time, truth: &mut Truth) {
        let local = host.local(now).continuous;
        while let Some((came_at, grant)) = self.early.front() {
            let (is_free, lease) = (self.is_free(host, &grant.spec), grant.lease);
            if self.is_draining || self.lacks_room {
                self.early.pop_front();
                self.decline(lease, "no slot is free", now, truth);
            } else if is_free {
                truth.counts.early_starts += 1;
                if let Some((_, grant)) = self.early.pop_front() {
                    self.begin(host, grant, now, truth);
                }
            } else if *came_at + EARLY_GRANT_WAIT_MAX <= local {
                self.early.pop_front();
                self.decline(lease, "no slot was free in time", now, truth);
                self.changed(local);
            } else {
                break;
            }
        }
    }

    fn is_free(&self, host: &Host, spec: &JobSpec) -> bool {
        let live = self.preparing.len() + host.spool.values().filter(|entry| entry.outcome.is_none()).count();
        live < host.slots as usize && self.has_resources(host, spec)
    }

    fn begin(&mut self, host: &Host, grant: Grant, now: Time, truth: &mut Truth) {
        let (lease, local) = (grant.lease, host.local(now).continuous);
        let id = lease.attempt;
        truth.note(now, || format!("{} takes {id}", host.name));
        let prepares = truth.behaviours.get(&id.job).map_or(Duration::ZERO, |behaviour| behaviour.prepares);
        self.preparing.insert(
            id,
            Preparing {
                lease,
                spec: grant.spec,
                ready_at: local + prepares,
                act: None,
                is_fenced: false,
                _secrets: grant.secrets,
            },
        );
        if let Some(link) = &mut self.link {
            link.sent.insert(id, (0, 0, 0));
        }
        self.changed(local);
    }

    fn has_resources(&self, host: &Host, spec: &JobSpec) -> bool {
        let live = host.spool.values().filter(|entry| entry.outcome.is_none()).map(|entry| &entry.spec);
        let all: Vec<&JobSpec> = live.chain(self.preparing.values().map(|attempt| &attempt.spec)).collect();
        spec.resources.iter().all(|(name, count)| {
            let used: u32 = all.iter().filter_map(|spec| spec.resources.get(name)).sum();
            used + count <= host.resources.get(name).copied().unwrap_or(0)
        })
    }
}
