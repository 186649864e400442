//! Limits on connections that are not a link yet: a peer that has shown no token gets few
//! descriptors.
//!
//! A new connection is always admitted. If a limit is reached, it takes the place of the oldest
//! connection of the address with the most places. A client needs its place for the time of a
//! handshake only, so a flood that keeps connections open does not keep clients out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Maximum connections that are not a link, from one address. A proxy on this machine connects from
/// one address for all its clients, so loopback addresses have only the total limit.
const ADDRESS_MAX: usize = 64;
/// Maximum connections that have lost their place and are not closed yet.
const CLOSING_MAX: usize = 64;

/// Counts connections that are not a link yet.
#[derive(Clone, Debug)]
pub(super) struct PendingConnections {
    total_max: usize,
    places: Arc<Mutex<Places>>,
    /// One permit for each connection with a place, and for those that have lost it.
    open: Arc<Semaphore>,
}

#[derive(Default, Debug)]
struct Places {
    next: u64,
    total: usize,
    /// The places of each address, oldest first. A dropped sender ends the connection.
    by_address: HashMap<IpAddr, BTreeMap<u64, oneshot::Sender<()>>>,
}

/// The place of one connection, held until it becomes a link or ends. As a future, it completes
/// when the place passes to another connection.
#[derive(Debug)]
pub(super) struct PendingConnection {
    address: IpAddr,
    number: u64,
    taken: oneshot::Receiver<()>,
    places: Arc<Mutex<Places>>,
    _room: Option<OwnedSemaphorePermit>,
}

impl PendingConnections {
    /// Returns a counter with this limit over all addresses.
    pub(super) fn new(total_max: usize) -> Self {
        let open = Arc::new(Semaphore::new(total_max + CLOSING_MAX));
        Self { total_max, places: Arc::default(), open }
    }

    /// Waits until enough connections without a place are closed. Until then, new connections wait in
    /// the system's queue.
    pub(super) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.open.clone().acquire_owned().await.ok()
    }

    /// Returns a place for a connection. If a limit is reached, the place is taken from another
    /// connection. `room` is that of [`PendingConnections::room`].
    pub(super) fn admit(&self, address: IpAddr, room: Option<OwnedSemaphorePermit>) -> PendingConnection {
        let address = address.to_canonical();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let from_address = places.by_address.get(&address).map_or(0, BTreeMap::len);
        if from_address >= ADDRESS_MAX && !address.is_loopback() {
            places.remove_oldest(address);
        } else if places.total >= self.total_max
            && let Some(largest) = places.largest()
        {
            places.remove_oldest(largest);
        }
        let number = places.next;
        let (sender, taken) = oneshot::channel();
        places.next += 1;
        places.total += 1;
        places.by_address.entry(address).or_default().insert(number, sender);
        drop(places);
        PendingConnection { address, number, taken, places: self.places.clone(), _room: room }
    }
}

impl Places {
    /// Returns the address with the most places. Of several, the one with the oldest place.
    fn largest(&self) -> Option<IpAddr> {
        let rank = |places: &BTreeMap<u64, _>| (places.len(), Reverse(places.keys().next().copied()));
        self.by_address.iter().max_by_key(|(_, places)| rank(places)).map(|(address, _)| *address)
    }

    fn remove_oldest(&mut self, address: IpAddr) {
        let oldest = self.by_address.get(&address).and_then(|places| places.keys().next().copied());
        oldest.into_iter().for_each(|number| self.remove(address, number));
    }

    fn remove(&mut self, address: IpAddr, number: u64) {
        let Some(of_address) = self.by_address.get_mut(&address) else { return };
        self.total -= usize::from(of_address.remove(&number).is_some());
        if of_address.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl Future for PendingConnection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.taken).poll(context).map(|_| ())
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).remove(self.address, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{ADDRESS_MAX, PendingConnection, PendingConnections};
    use std::net::IpAddr;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn is_taken(place: &mut PendingConnection) -> bool {
        use tokio::sync::oneshot::error::TryRecvError;
        place.taken.try_recv() == Err(TryRecvError::Closed)
    }

    #[test]
    fn one_address_replaces_its_own_connections_and_gives_places_back() {
        let pending_connections = PendingConnections::new(1_000);
        let other = pending_connections.admit(address("192.0.2.2"), None);
        let mut places: Vec<_> =
            (0..ADDRESS_MAX).map(|_| pending_connections.admit(address("192.0.2.1"), None)).collect();
        assert!(!places.iter_mut().any(is_taken));
        places.push(pending_connections.admit(address("::ffff:192.0.2.1"), None));
        let taken: Vec<bool> = places.iter_mut().map(is_taken).collect();
        assert_eq!(taken.iter().position(|taken| *taken), Some(0), "the oldest, also for another form");
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
        drop((places, other));
        assert_eq!(pending_connections.places.lock().expect("whole").total, 0);
        assert!(pending_connections.places.lock().expect("whole").by_address.is_empty());
    }

    #[test]
    fn all_addresses_together_have_a_limit_and_the_largest_gives_way() {
        let pending_connections = PendingConnections::new(4);
        let mut client = pending_connections.admit(address("192.0.2.1"), None);
        let mut flood: Vec<_> =
            (0..3).map(|_| pending_connections.admit(address("127.0.0.1"), None)).collect();
        let mut late = pending_connections.admit(address("192.0.2.3"), None);
        assert_eq!(flood.iter_mut().map(is_taken).collect::<Vec<_>>(), [true, false, false]);
        flood.extend((0..9).map(|_| pending_connections.admit(address("127.0.0.1"), None)));
        assert!(!is_taken(&mut client) && !is_taken(&mut late), "they have one place each");
        assert_eq!(pending_connections.places.lock().expect("whole").total, 4);
    }
}
