//! Connections with TCP semantics: in order and once, delayed, or lost. Each end detects the death
//! of the other by itself.

use super::clock::{Time, earlier};
use super::dice::Dice;
use buildpool_protocol::ids::Lease;
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::worker_link::{FromWorker, ToWorker};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A message from a worker. An *execution* numbers the runs of processes, which no part of the
/// product can do. With it the simulation checks the origin of the bytes in a log.
#[derive(Clone, Debug)]
pub(crate) enum Up {
    Message(Box<FromWorker>),
    Output { lease: Lease, from: u64, to: u64, execution: u64 },
    Complete { lease: Lease, outcome: Box<Outcome>, execution: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ConnectionId(u64);

/// An event at one end.
#[derive(Clone, Debug)]
pub(crate) enum Arrival {
    Up(Up),
    Down(Box<ToWorker>),
    /// The other end is closed.
    ClosedUp,
    ClosedDown,
}

#[derive(Debug)]
struct Lane<M> {
    queue: VecDeque<(Time, Option<M>)>,
    /// Time before which no message arrives: a half-open connection.
    stalled_until: Time,
    /// True if sent messages are lost.
    is_cut: bool,
}

impl<M> Lane<M> {
    fn new() -> Self {
        Self { queue: VecDeque::new(), stalled_until: Time::ZERO, is_cut: false }
    }

    /// Sends a message. `None` signals to the other end that this one is closed.
    fn send(&mut self, at: Time, message: Option<M>) {
        if !self.is_cut {
            let at = self.queue.back().map_or(at, |(last, _)| at.max(*last));
            self.queue.push_back((at, message));
        }
    }

    fn next(&self) -> Option<Time> {
        self.queue.front().map(|(at, _)| (*at).max(self.stalled_until))
    }
}

#[derive(Debug)]
struct Connection {
    host: usize,
    coordinator: usize,
    worker_open: bool,
    coordinator_open: bool,
    up: Lane<Up>,
    down: Lane<Box<ToWorker>>,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    connections: BTreeMap<ConnectionId, Connection>,
    next: u64,
    /// Per host: time until which each direction is blocked.
    blocked: BTreeMap<usize, (Time, Time)>,
    pub(crate) latency_max: Duration,
}

impl Network {
    pub(crate) fn connect(&mut self, host: usize, coordinator: usize) -> ConnectionId {
        self.next += 1;
        let id = ConnectionId(self.next);
        let (up, down) = self.blocked.get(&host).copied().unwrap_or_default();
        let mut connection = Connection {
            host,
            coordinator,
            worker_open: true,
            coordinator_open: true,
            up: Lane::new(),
            down: Lane::new(),
        };
        connection.up.stalled_until = up;
        connection.down.stalled_until = down;
        self.connections.insert(id, connection);
        id
    }

    pub(crate) fn is_blocked(&self, host: usize, now: Time) -> bool {
        self.blocked.get(&host).is_some_and(|(up, down)| *up > now || *down > now)
    }

    pub(crate) fn send_up(&mut self, now: Time, dice: &mut Dice, id: ConnectionId, message: Up) {
        let at = now + self.latency(dice);
        if let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.worker_open) {
            connection.up.send(at, Some(message));
        }
    }

    pub(crate) fn send_down(&mut self, now: Time, dice: &mut Dice, id: ConnectionId, message: ToWorker) {
        let at = now + self.latency(dice);
        if let Some(connection) =
            self.connections.get_mut(&id).filter(|connection| connection.coordinator_open)
        {
            connection.down.send(at, Some(Box::new(message)));
        }
    }

    fn latency(&self, dice: &mut Dice) -> Duration {
        let most = u64::try_from(self.latency_max.as_micros()).unwrap_or(1).max(1);
        Duration::from_micros(50 + dice.below(most))
    }

    /// Closes the worker's end. If the machine died (`says_so` is false), no signal is sent.
    pub(crate) fn close_worker(&mut self, now: Time, id: ConnectionId, says_so: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.worker_open = false;
            connection.down.queue.clear();
            if says_so {
                connection.up.send(now, None);
            }
        }
        self.forget_closed();
    }

    pub(crate) fn close_coordinator(&mut self, now: Time, id: ConnectionId, says_so: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.coordinator_open = false;
            connection.up.queue.clear();
            if says_so {
                connection.down.send(now, None);
            }
        }
        self.forget_closed();
    }

    /// Closes the connections to a coordinator that begins to lead. A worker registers after the answer to its HTTP
    /// request, so no registration comes from the time before.
    pub(crate) fn close_earlier(&mut self, now: Time, coordinator: usize) {
        let all = self.connections.iter().filter(|(_, connection)| connection.coordinator == coordinator);
        let earlier: Vec<ConnectionId> = all.map(|(id, _)| *id).collect();
        for id in earlier {
            self.close_coordinator(now, id, true);
        }
    }

    fn forget_closed(&mut self) {
        self.connections.retain(|_, connection| connection.worker_open || connection.coordinator_open);
    }

    /// Resets the connections of a host: some queued messages still arrive, then both ends detect
    /// the reset.
    pub(crate) fn cut(&mut self, now: Time, dice: &mut Dice, host: usize) {
        for connection in self.connections.values_mut().filter(|connection| connection.host == host) {
            let keep = dice.index(connection.up.queue.len() + 1);
            connection.up.queue.truncate(keep);
            connection.up.send(now + dice.millis(0, 200), None);
            connection.up.is_cut = true;
            let keep = dice.index(connection.down.queue.len() + 1);
            connection.down.queue.truncate(keep);
            connection.down.send(now + dice.millis(0, 200), None);
            connection.down.is_cut = true;
        }
    }

    /// Delays messages in both directions. They arrive later if the receiving end still exists.
    pub(crate) fn stall(&mut self, host: usize, up_until: Time, down_until: Time) {
        let blocked = self.blocked.entry(host).or_default();
        *blocked = (blocked.0.max(up_until), blocked.1.max(down_until));
        for connection in self.connections.values_mut().filter(|connection| connection.host == host) {
            connection.up.stalled_until = connection.up.stalled_until.max(up_until);
            connection.down.stalled_until = connection.down.stalled_until.max(down_until);
        }
    }

    pub(crate) fn heal(&mut self, now: Time) {
        self.blocked.clear();
        for connection in self.connections.values_mut() {
            connection.up.stalled_until = connection.up.stalled_until.min(now);
            connection.down.stalled_until = connection.down.stalled_until.min(now);
        }
    }

    /// Returns the time of the next arrival at an end that listens.
    pub(crate) fn next(
        &self,
        listens: impl Fn(usize) -> bool,
        coordinator_listens: impl Fn(usize) -> bool,
    ) -> Option<Time> {
        self.connections
            .values()
            .map(|connection| {
                let up = connection.up.next().filter(|_| coordinator_listens(connection.coordinator));
                earlier(up, connection.down.next().filter(|_| listens(connection.host)))
            })
            .fold(None, earlier)
    }

    /// Returns the next arrival that is due, with its host and its coordinator.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        listens: impl Fn(usize) -> bool,
        coordinator_listens: impl Fn(usize) -> bool,
    ) -> Option<(ConnectionId, (usize, usize), Arrival)> {
        for (id, connection) in &mut self.connections {
            let (host, coordinator) = (connection.host, connection.coordinator);
            if coordinator_listens(coordinator)
                && connection.up.next().is_some_and(|at| at <= now)
                && let Some((_, message)) = connection.up.queue.pop_front()
            {
                return Some((*id, (host, coordinator), message.map_or(Arrival::ClosedUp, Arrival::Up)));
            }
            if listens(host)
                && connection.down.next().is_some_and(|at| at <= now)
                && let Some((_, message)) = connection.down.queue.pop_front()
            {
                return Some((*id, (host, coordinator), message.map_or(Arrival::ClosedDown, Arrival::Down)));
            }
        }
        None
    }
}
