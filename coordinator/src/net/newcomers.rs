//! Limits on connections that are not a link yet: a peer that has shown no token gets few
//! descriptors.

use nix::sys::resource::{Resource, getrlimit};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum connections that are not a link, over all addresses.
const TOTAL_MAX: usize = 512;
/// Maximum connections that are not a link, from one address. A proxy on this machine connects from
/// one address for all its clients, so loopback addresses have only the total limit.
const ADDRESS_MAX: usize = 64;
/// Divisor: connections without a link may use this fraction of the process's descriptors. Links
/// and the store use the rest.
const DESCRIPTORS_PART: u64 = 4;

/// Counts connections that are not a link yet.
#[derive(Clone, Debug)]
pub(super) struct Newcomers {
    total_max: usize,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// The place of one connection, held until it becomes a link or ends.
#[derive(Debug)]
pub(super) struct Place {
    address: IpAddr,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Newcomers {
    /// Returns a counter with a limit that respects the process's limit on descriptors.
    pub(super) fn new() -> Self {
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        let part = usize::try_from(descriptors / DESCRIPTORS_PART).unwrap_or(usize::MAX);
        Self::with_total(part.clamp(1, TOTAL_MAX))
    }

    fn with_total(total_max: usize) -> Self {
        Self { total_max, by_address: Arc::default() }
    }

    /// Reserves a place for a connection. Returns `None` if a limit is reached.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let mut counts = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let from_address = counts.get(&address).copied().unwrap_or(0);
        let is_full = counts.values().sum::<usize>() >= self.total_max
            || from_address >= ADDRESS_MAX && !address.is_loopback();
        if is_full {
            return None;
        }
        counts.insert(address, from_address + 1);
        drop(counts);
        Some(Place { address, by_address: self.by_address.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ADDRESS_MAX, Newcomers};
    use std::net::IpAddr;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn one_address_takes_only_its_part_and_gives_it_back() {
        let newcomers = Newcomers::with_total(1_000);
        let places: Vec<_> = (0..ADDRESS_MAX).map(|_| newcomers.admit(address("192.0.2.1"))).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(newcomers.admit(address("192.0.2.1")).is_none());
        assert!(newcomers.admit(address("::ffff:192.0.2.1")).is_none(), "the same address in another form");
        assert!(newcomers.admit(address("192.0.2.2")).is_some());
        drop(places);
        assert!(newcomers.admit(address("192.0.2.1")).is_some());
        assert!(newcomers.by_address.lock().expect("whole").is_empty());
    }

    #[test]
    fn all_addresses_together_have_a_limit() {
        let newcomers = Newcomers::with_total(3);
        let places: Vec<_> = (0..3).map(|_| newcomers.admit(address("127.0.0.1"))).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(newcomers.admit(address("192.0.2.1")).is_none());
    }
}
