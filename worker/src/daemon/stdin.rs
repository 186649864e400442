//! Standard input on its way from the coordinator to keepers. The daemon stores nothing: a keeper states how far it is,
//! and lost bytes are requested again from there.

use super::agent::Agent;
use crate::keeper::messages::{StdinWindow, ToKeeper};
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::stdin::{StdinEnd, new_part, split_content};
use buildpool_protocol::worker_link::FromWorker;
use tracing::warn;

impl Agent {
    /// A keeper has room for more.
    pub(super) fn on_stdin_room(&mut self, id: AttemptId, place: StdinWindow) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let from = attempt.stdin.is_none().then_some(place.received);
        let known = attempt.stdin.get_or_insert(place);
        known.until = place.until;
        let lease = attempt.lease;
        self.send(FromWorker::Stdin { lease, from, until: place.until });
    }

    /// Bytes from the coordinator.
    pub(super) fn on_stdin(&mut self, position: u64, content: &[u8]) {
        let (id, bytes) = match split_content(content) {
            Ok(split) => split,
            Err(error) => return warn!("from the coordinator: {error}"),
        };
        let Some(place) = self.attempts.get(&id).and_then(|attempt| attempt.stdin) else { return };
        let Some(new) = new_part(bytes, position, place.received) else { return };
        let message = ToKeeper::Stdin { attempt: id, position: place.received, bytes: new.to_vec() };
        if self.to_keeper_of(id, &message)
            && let Some(place) = self.attempts.get_mut(&id).and_then(|attempt| attempt.stdin.as_mut())
        {
            place.received += new.len() as u64;
        }
    }

    /// The end from the coordinator.
    pub(super) fn on_stdin_end(&mut self, lease: Lease, end: StdinEnd) {
        let id = lease.attempt;
        let is_held = self.attempts.get(&id).is_some_and(|attempt| attempt.lease == lease);
        if is_held {
            // With the next report the end is requested again if it got lost here.
            let _ = self.to_keeper_of(id, &ToKeeper::StdinEnd { attempt: id, end });
        }
    }

    /// Requests input for all attempts that read one. Each report does that, because a message on either side of this
    /// process may get lost. `again` is for a new connection, on which the coordinator knows no position.
    pub(super) fn request_stdin(&mut self, again: bool) {
        for attempt in self.attempts.values() {
            let Some(place) = attempt.stdin.filter(|_| attempt.is_live()) else { continue };
            let is_stuck = place.received < place.until;
            let from = (again || is_stuck).then_some(place.received);
            self.send(FromWorker::Stdin { lease: attempt.lease, from, until: place.until });
        }
    }

    /// Sends a message to the keeper of an attempt. Returns false if the attempt has no keeper now.
    fn to_keeper_of(&self, attempt: AttemptId, message: &ToKeeper) -> bool {
        let Some(keeper) = self.keepers.of_attempt(attempt) else { return false };
        self.keepers.send(keeper, message).is_ok()
    }
}
